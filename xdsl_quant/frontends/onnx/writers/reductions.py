"""Writers of reductions over dimensions and over windows."""

import math
from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, i1
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant import QuantizedType, ScaledQuantizedType
from xdsl_quant.frontends.onnx.graph_writer import (
    GraphWriter,
    Layout,
    Writer,
    known_number,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.reduction import ReductionOp, region_op
from xdsl_quant.runtime.arrays import constant_elements, numpy_dtype
from xdsl_quant.transforms.building.builder import element_type_of
from xdsl_quant.unsupported import Unsupported

from .products import cropped

_BYTE = IntegerType(8, Signedness.UNSIGNED)
"""Type of booleans in reductions, which onnxruntime lacks for `i1`."""

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


def _reduction_node(op: ReductionOp) -> str:
    """Return the name of a reduction by one op."""
    applied = region_op(op)
    if applied is None or len(op.inputs) != 1:
        raise Unsupported("reduction by more than one op")
    element_type = element_type_of(op.inputs[0])
    known = _BOOLEAN_REDUCTIONS if element_type == i1 else _REDUCTIONS
    is_quantized = QuantizedType.get_quantized_element_type(element_type) is not None
    if type(applied) not in (_ORDERED if is_quantized else known):
        of = " of quantized values" if is_quantized else ""
        raise Unsupported(f"reduction{of} by '{applied.name}'")
    return known[type(applied)]


def _is_neutral(op_type: str, value: SSAValue) -> bool:
    """Return True for an initial value that does not change the result."""
    element_type = element_type_of(value)
    if isinstance(element_type, ScaledQuantizedType):
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
    return w.node(_COMBINATIONS[op_type], [tensor, w.operand(value)], name)


def is_sum(op: ReductionOp) -> bool:
    """Return True for the sum of one tensor of floats."""
    applied = region_op(op)
    return (
        len(op.inputs) == 1
        and isinstance(applied, stablehlo.AddOp)
        and isinstance(element_type_of(op.inputs[0]), AnyFloat)
        and _is_neutral("ReduceSum", op.init_values[0])
    )


def _reduce(w: GraphWriter, op: stablehlo.ReduceOp) -> None:
    op_type, name = _reduction_node(op), w.value_name(op.results[0])
    if element_type_of(op.inputs[0]) == i1:
        tensor, layout = reduced(w, op, op_type, name, is_boolean=True)
        w.result(op.results[0], w.cast(tensor, i1), layout)
        return
    tensor, layout = reduced(w, op, op_type, name)
    w.result(op.results[0], _with_initial(w, op_type, op, tensor, name), layout)


def reduced(
    w: GraphWriter,
    op: stablehlo.ReduceOp,
    op_type: str,
    name: str,
    *,
    is_boolean: bool = False,
) -> tuple[str, Layout]:
    """Write a reduction without its initial value; return the tensor and its layout."""
    (value,) = op.inputs
    layout, dimensions = w.layout(value), op.dimensions.get_values()
    axes = sorted(layout.index(dimension) for dimension in dimensions)
    tensor = w.operand(value, layout)
    if is_boolean:
        tensor = w.cast(tensor, _BYTE)
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
    if any(max(each.padding.low, each.padding.high) >= each.size for each in along):
        raise Unsupported("padding as large as the window")
    tensor, attributes = cropped(w, w.operand(value, layout), along)
    attributes = {**attributes, "kernel_shape": [each.size for each in along]}
    # The default of `dilations` is 1; `AveragePool` has it since opset 19.
    if any(each.dilation != 1 for each in along):
        attributes["dilations"] = [each.dilation for each in along]
    others = {"count_include_pad": 1} if op_type == "AveragePool" else {}
    return w.node(op_type, [tensor], name, **attributes, **others), layout


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
    stablehlo.ReduceOp: _reduce,
    stablehlo.ReduceWindowOp: _reduce_window,
}
"""Writers of reductions, by op."""
