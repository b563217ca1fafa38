"""Writers of reductions over dimensions and over windows."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    Signedness,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant import QuantizedType, ScaledQuantizedType
from xdsl_quant.frontends.onnx.graph_writer import (
    GraphWriter,
    Layout,
    Writer,
    is_accumulator,
    known_number,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.reduction import ReductionOp, region_op
from xdsl_quant.frontends.stablehlo.dialect.rules import Padding, WindowDimension
from xdsl_quant.runtime.arrays import constant_elements, numpy_dtype
from xdsl_quant.transforms.building.builder import element_type_of
from xdsl_quant.unsupported import Unsupported

from .products import cropped

_UI8, _UI16, _UI32, _UI64 = (
    IntegerType(width, Signedness.UNSIGNED) for width in (8, 16, 32, 64)
)

_WIDER_TYPES: Mapping[Attribute, Attribute] = {
    i1: _UI8,
    i16: i32,
    _UI16: i32,
    _UI32: i64,
}
"""Types that reductions of onnxruntime lack, and types that have their values."""

_SUM_TYPES: Mapping[Attribute, Attribute] = {
    **_WIDER_TYPES,
    i8: i32,
    _UI8: i32,
    _UI64: i64,
}
"""The same for sums and products, which wrap."""

_REDUCTIONS: Mapping[type[Operation], str] = {
    stablehlo.AddOp: "ReduceSum",
    stablehlo.MaximumOp: "ReduceMax",
    stablehlo.MinimumOp: "ReduceMin",
    stablehlo.MultiplyOp: "ReduceProd",
}

_BOOLEAN_REDUCTIONS: Mapping[type[Operation], str] = {
    stablehlo.AddOp: "ReduceMax",
    stablehlo.AndOp: "ReduceMin",
    stablehlo.MaximumOp: "ReduceMax",
    stablehlo.MinimumOp: "ReduceMin",
    stablehlo.MultiplyOp: "ReduceMin",
    stablehlo.OrOp: "ReduceMax",
}

_ORDERED = stablehlo.MaximumOp, stablehlo.MinimumOp
"""Ops on quantized values that never round."""


_COMBINATIONS: Mapping[str, str] = {
    "ReduceSum": "Add",
    "ReduceMax": "Max",
    "ReduceMin": "Min",
    "ReduceProd": "Mul",
}
"""Ops that combine a reduction with its initial value."""

_BOOLEAN_COMBINATIONS: Mapping[str, str] = {"ReduceMax": "Or", "ReduceMin": "And"}


def _reduction_node(op: ReductionOp) -> str:
    """Return the name of a reduction by one op."""
    applied = region_op(op)
    if applied is None or len(op.inputs) != 1:
        raise Unsupported("reduction by more than one op")
    element_type = element_type_of(op.inputs[0])
    known = _BOOLEAN_REDUCTIONS if element_type == i1 else _REDUCTIONS
    is_quantized = QuantizedType.get_quantized_element_type(
        element_type
    ) is not None and not is_accumulator(element_type)
    if type(applied) not in (_ORDERED if is_quantized else known):
        of = " of quantized values" if is_quantized else ""
        raise Unsupported(f"reduction{of} by '{applied.name}'")
    return known[type(applied)]


def _is_neutral(op_type: str, value: SSAValue) -> bool:
    """Return True for an initial value that does not change the result."""
    element_type = element_type_of(value)
    if isinstance(element_type, ScaledQuantizedType):
        if op_type == "ReduceSum":
            return known_number(value) == 0
        low, high = element_type.storage_range
        elements = constant_elements(value)
        neutral = low if op_type == "ReduceMax" else high
        return elements is not None and bool((elements == neutral).all())
    dtype = numpy_dtype(element_type)
    lowest, highest = -np.inf, np.inf
    if dtype.kind == "b":
        lowest, highest = 0, 1
    elif dtype.kind in "iu":
        lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
    neutral = {
        "ReduceSum": 0,
        "ReduceProd": 1,
        "ReduceMax": lowest,
        "ReduceMin": highest,
    }
    return known_number(value) == neutral[op_type]


def _with_initial(
    w: GraphWriter, op_type: str, op: ReductionOp, tensor: str, name: str
) -> str:
    """Combine a reduction with its initial value, unless that is neutral."""
    (value,) = op.init_values
    if _is_neutral(op_type, value):
        return tensor
    is_boolean = element_type_of(value) == i1
    combinations = _BOOLEAN_COMBINATIONS if is_boolean else _COMBINATIONS
    return w.node(combinations[op_type], [tensor, w.operand(value)], name)


def is_sum(op: ReductionOp) -> bool:
    """Return True for the sum of one tensor of floats."""
    applied = region_op(op)
    return (
        len(op.inputs) == 1
        and isinstance(applied, stablehlo.AddOp)
        and isinstance(element_type_of(op.inputs[0]), AnyFloat)
        and _is_neutral("ReduceSum", op.init_values[0])
    )


def write_reduction(w: GraphWriter, op: stablehlo.ReduceOp) -> None:
    """Write a reduction by one op."""
    op_type, name = _reduction_node(op), w.value_name(op.results[0])
    element_type = element_type_of(op.inputs[0])
    is_sum_or_product = op_type in ("ReduceSum", "ReduceProd")
    types = _SUM_TYPES if is_sum_or_product else _WIDER_TYPES
    computed_type = types.get(element_type)
    tensor, layout = reduced(w, op, op_type, name, computed_type)
    if computed_type is not None:
        tensor = w.cast(tensor, element_type)
    w.result(op.results[0], _with_initial(w, op_type, op, tensor, name), layout)


def reduced(
    w: GraphWriter,
    op: stablehlo.ReduceOp,
    op_type: str,
    name: str,
    computed_type: Attribute | None = None,
) -> tuple[str, Layout]:
    """
    Write a reduction without its initial value.

    Args:
        w: the writer.
        op: the reduction.
        op_type: name of the node.
        name: name of its result.
        computed_type: element type of the node, by default that of the operand.

    Returns:
        The tensor and its layout.
    """
    (value,) = op.inputs
    layout, dimensions = w.layout(value), op.dimensions.get_values()
    axes = sorted(layout.index(dimension) for dimension in dimensions)
    tensor = w.operand(value, layout)
    if computed_type is not None:
        tensor = w.cast(tensor, computed_type)
    remaining = [d for d in layout if d not in dimensions]
    # Without axes, all of them would be reduced.
    attributes = {"keepdims": 0} | ({} if axes else {"noop_with_empty_axes": 1})
    tensor = w.node(op_type, [tensor, w.integers(axes, "axes")], name, **attributes)
    return tensor, tuple(sorted(remaining).index(d) for d in remaining)


def _reduce_window(w: GraphWriter, op: stablehlo.ReduceWindowOp) -> None:
    op_type, (result,) = _reduction_node(op), op.results
    if op_type not in _POOLS:
        raise Unsupported("minimum or product of windows")
    name = w.value_name(result)
    tensor, layout = pooled(w, op, _POOLS[op_type], name)
    if op_type == "ReduceSum":
        count = w.number(window_element_count(op), element_type_of(result))
        tensor = w.node("Mul", [tensor, count], name)
    w.result(result, _with_initial(w, op_type, op, tensor, name), layout)


_POOLS: Mapping[str, str] = {"ReduceMax": "MaxPool", "ReduceSum": "AveragePool"}


def window_element_count(op: stablehlo.ReduceWindowOp) -> int:
    """Return the number of elements of a window."""
    return math.prod(along.size for along in op.window)


def pooled(
    w: GraphWriter, op: stablehlo.ReduceWindowOp, op_type: str, name: str
) -> tuple[str, Layout]:
    """Write `MaxPool` or `AveragePool`; return the tensor and its layout."""
    (value,) = op.inputs
    layout = _pool_layout(w, op)
    along = [op.window[d] for d in layout[2:]]
    if any(each.padding.interior for each in along):
        raise Unsupported("windows of a dilated operand")
    tensor, along = _with_padding(w, op, op_type, w.operand(value, layout), along)
    tensor, attributes = cropped(w, tensor, along)
    attributes = {**attributes, "kernel_shape": [each.size for each in along]}
    # The default of `dilations` is 1; `AveragePool` has it since opset 19.
    if any(each.dilation != 1 for each in along):
        attributes["dilations"] = [each.dilation for each in along]
    others = {"count_include_pad": 1} if op_type == "AveragePool" else {}
    return w.node(op_type, [tensor], name, **attributes, **others), layout


def _with_padding(
    w: GraphWriter,
    op: stablehlo.ReduceWindowOp,
    op_type: str,
    tensor: str,
    along: Sequence[WindowDimension],
) -> tuple[str, Sequence[WindowDimension]]:
    """
    Write padding that pools lack: as large as the window, or with elements that change the
    result. Return the padded tensor, and the windows without padding.
    """
    (value,), pads = op.init_values, [each.padding[:2] for each in along]
    is_large = any(max(each.padding[:2]) >= each.size for each in along)
    reduction = "ReduceMax" if op_type == "MaxPool" else "ReduceSum"
    if not is_large and (_is_neutral(reduction, value) or not any(map(any, pads))):
        return tensor, along
    sides = [[0, 0, *side] for side in zip(*pads, strict=True)]
    inputs = [tensor, w.integers([*sides[0], *sides[1]], "pads"), w.operand(value)]
    padded = w.node("Pad", inputs, f"{tensor}_padded")
    return padded, [each._replace(padding=Padding()) for each in along]


def _pool_layout(w: GraphWriter, op: stablehlo.ReduceWindowOp) -> Layout:
    """Return the order of dimensions of a pool: two without windows come first."""
    window = op.window
    spatial = [
        d
        for d, along in enumerate(window)
        if (along.size, along.stride, *along.padding) != (1, 1, 0, 0, 0)
    ]
    others = [d for d in range(len(window)) if d not in spatial]
    while len(others) > 2:
        spatial.append(others.pop())
    if len(others) < 2 or not spatial:
        raise Unsupported("windows along all dimensions")
    if w.layout(op.inputs[0])[:2] == (others[1], others[0]):
        others.reverse()
    return (*others, *sorted(spatial))


REDUCTION_WRITERS: Mapping[type[Operation], Writer] = {
    stablehlo.ReduceWindowOp: _reduce_window,
}
"""Writers of reductions, by op."""
