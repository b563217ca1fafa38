"""Writers of contractions: `MatMul`, `Gemm`, `Conv` and `ConvTranspose`."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.onnx.graph_writer import (
    BroadcastOp,
    GraphWriter,
    Layout,
    Writer,
    expressed_element_type,
    quantized_type,
    source,
    stored_constant,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.rules import WindowDimension
from xdsl_quant.runtime.arrays import integer_width
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported


def _bias(
    w: GraphWriter, op: stablehlo.ConvolutionOp | stablehlo.DotGeneralOp, features: int
) -> tuple[stablehlo.AddOp, SSAValue] | None:
    """Return the sum of a product and of a bias along a dimension, and the bias."""
    # Sizes are those of the sum, too.
    uses = [
        use
        for use in op.result.uses
        if not isinstance(use.operation, stablehlo.GetDimensionSizeOp)
    ]
    if len(uses) != 1 or not isinstance(add := uses[0].operation, stablehlo.AddOp):
        return None
    if quantized_type(op.result.type) is not None or (
        isinstance(element_type_of(op.result), IntegerType)
    ):
        return None
    other = source(add.operands[1 - uses[0].index]).owner
    if (
        not isinstance(other, BroadcastOp)
        or [*other.broadcast_dimensions.get_values()] != [features]
        or shape_of(other.operand) != (shape_of(op.result)[features],)
        or not w.is_available(other.operand)
    ):
        return None
    return add, other.operand


def _product_node(
    w: GraphWriter,
    op: stablehlo.ConvolutionOp | stablehlo.DotGeneralOp,
    op_type: str,
    values: Sequence[SSAValue],
    inputs: Sequence[str],
    **attributes: object,
) -> str:
    """
    Write `MatMul` or `Conv`; of 8-bit integers, the op that returns i32.

    Args:
        w: the writer.
        op: the op.
        op_type: name of the node for floats.
        values: operands of the node, which may be those of the op before subtraction of
            zero points.
        inputs: tensors of the operands; then bias, or zero points.
        attributes: attributes of the node.
    """
    name = w.value_name(op.result)
    element_type, types = element_type_of(op.result), [*map(element_type_of, values)]
    is_integer = all(isinstance(type_, IntegerType) for type_ in types)
    is_narrow = is_integer and all(integer_width(type_) == 8 for type_ in types)
    if is_narrow and op_type in ("MatMul", "Conv"):
        tensor = w.node(f"{op_type}Integer", inputs, name, **attributes)
        return tensor if element_type == i32 else w.cast(tensor, element_type)
    if is_integer and op_type != "MatMul":
        where = "in a transposed convolution" if is_narrow else "of more than 8 bits"
        raise Unsupported(f"integers {where}")
    products = [
        tensor
        if expressed_element_type(value) == expressed_element_type(op.result)
        else w.cast(tensor, expressed_element_type(op.result))
        for tensor, value in zip(inputs, values, strict=False)
    ]
    inputs = [*products, *inputs[2:]]
    return w.node(op_type, inputs, name, **attributes)


def _byte_operands(
    w: GraphWriter,
    op: stablehlo.ConvolutionOp | stablehlo.DotGeneralOp,
    features: int | None,
) -> tuple[Sequence[SSAValue], Sequence[str]]:
    """
    Return 8-bit operands from which zero points are subtracted, and tensors of the zero
    points; or the operands of the op, and nothing.

    Args:
        w: the writer.
        op: product of integers.
        features: dimension of the second operand along which zero points may differ.
    """
    found = [_byte_operand(op.lhs, None), _byte_operand(op.rhs, features)]
    pairs = [pair for pair in found if pair is not None]
    if len(pairs) < 2:
        return (op.lhs, op.rhs), ()
    values, zero_points = zip(*pairs, strict=True)
    tensors = [
        w.number(0, element_type_of(value)) if point is None else w.operand(point)
        for value, point in pairs
    ]
    return values, tensors if any(zero_points) else ()


def _byte_operand(
    value: SSAValue, features: int | None
) -> tuple[SSAValue, SSAValue | None] | None:
    """Return a converted 8-bit value and its zero point; `None` for other values."""
    op, zero_point = value.owner, None
    if isinstance(op, stablehlo.SubtractOp):
        op, point = op.lhs.owner, op.rhs.owner
        dimensions: Sequence[int] = ()
        if isinstance(point, BroadcastOp):
            dimensions = point.broadcast_dimensions.get_values()
            point = point.operand.owner
        if not isinstance(point, stablehlo.ConvertOp) or [*dimensions] not in (
            [],
            [features],
        ):
            return None
        zero_point = point.operand
    if not isinstance(op, stablehlo.ConvertOp) or integer_width(op.operand.type) != 8:
        return None
    if zero_point is not None and (
        element_type_of(zero_point) != element_type_of(op.operand)
    ):
        return None
    return op.operand, zero_point


def _convolution(w: GraphWriter, op: stablehlo.ConvolutionOp) -> None:
    numbers = op.dimension_numbers
    lhs, rhs, out = ((*dimensions,) for dimensions in numbers.by_tensor().values())
    kernel: Layout = (rhs[1], rhs[0], *rhs[2:])
    if op.batch_group_count.value.data != 1:
        raise Unsupported("groups of the batch")
    # True is -1 in an array of i1.
    flags = op.window_reversal.get_values() if op.window_reversal else ()
    reversals = {*map(bool, flags)}
    if len(reversals) > 1:
        raise Unsupported("kernel that is reversed along some dimensions")
    is_reversed, groups, window = reversals == {True}, op.feature_group_count, op.window
    values, zero_points = _byte_operands(w, op, rhs[1])
    tensor, count = w.operand(values[0], lhs), groups.value.data
    attributes: dict[str, object] = {
        "group": count,
        "dilations": [along.dilation for along in window],
    }
    if any(along.padding.interior for along in window):
        weights = _transposed_kernel(w, values[1], kernel, count, not is_reversed)
        op_type, others = "ConvTranspose", _transposed_window(window)
    else:
        weights = _kernel(w, values[1], kernel, is_reversed)
        tensor, others = cropped(w, tensor, window)
        op_type = "Conv"
    inputs, result = [tensor, weights, *zero_points], op.result
    if (bias := _bias(w, op, out[1])) is not None:
        add, value = bias
        inputs.append(w.operand(value))
        w.written.add(add)
        result = add.result
    tensor = _product_node(w, op, op_type, values, inputs, **attributes, **others)
    w.result(op.result, tensor, out)
    w.result(result, tensor, out)


def cropped(
    w: GraphWriter, tensor: str, window: Sequence[WindowDimension]
) -> tuple[str, Mapping[str, Sequence[int]]]:
    """Return strides and pads, and the tensor without elements of negative padding."""
    pads = [along.padding.low for along in window]
    pads += [along.padding.high for along in window]
    if min(pads, default=0) < 0:
        count = len(window)
        crops = [min(pad, 0) for pad in pads]
        all_crops = w.integers([0, 0, *crops[:count], 0, 0, *crops[count:]], "pads")
        tensor = w.node("Pad", [tensor, all_crops], f"{tensor}_cropped")
    strides = [along.stride for along in window]
    return tensor, {"strides": strides, "pads": [max(pad, 0) for pad in pads]}


def _kernel(w: GraphWriter, value: SSAValue, layout: Layout, is_reversed: bool) -> str:
    """Return a kernel, whose spatial dimensions may be reversed."""
    if not is_reversed:
        return w.operand(value, layout)
    axes = range(2, len(layout))
    if stored_constant(value) is not None:
        return w.weights(value, layout, lambda x: np.flip(x, tuple(axes)))
    return w.reversed(w.operand(value, layout), axes)


def _transposed_kernel(
    w: GraphWriter, value: SSAValue, layout: Layout, groups: int, is_reversed: bool
) -> str:
    """Return the kernel of `ConvTranspose`, whose input features come first."""
    if groups == 1:
        return _kernel(w, value, (layout[1], layout[0], *layout[2:]), is_reversed)
    kernel = _kernel(w, value, layout, is_reversed)
    features, depth, *spatial = (shape_of(value)[dimension] for dimension in layout)
    shapes = (
        [groups, features // groups, depth, *spatial],
        [groups * depth, features // groups, *spatial],
    )
    order = [0, 2, 1, *range(3, len(layout) + 1)]
    name = f"{kernel}_transposed"
    grouped = w.node("Reshape", [kernel, w.integers(shapes[0], "shape")], name)
    swapped = w.node("Transpose", [grouped], name, perm=order)
    return w.node("Reshape", [swapped, w.integers(shapes[1], "shape")], name)


def _transposed_window(
    window: Sequence[WindowDimension],
) -> Mapping[str, Sequence[int]]:
    """Return strides and pads of `ConvTranspose`, which crop the full result."""
    if any(along.stride != 1 for along in window):
        raise Unsupported("strides of a convolution with a dilated operand")
    low = [along.extent - 1 - along.padding.low for along in window]
    high = [along.extent - 1 - along.padding.high for along in window]
    extra = [max(-end, 0) for end in high]
    strides = [along.padding.interior + 1 for along in window]
    if min(low) < 0 or any(e >= s for e, s in zip(extra, strides, strict=True)):
        raise Unsupported("padding beyond the kernel")
    return {
        "strides": strides,
        "pads": [*low, *(max(end, 0) for end in high)],
        "output_padding": extra,
    }


def _dot_general(w: GraphWriter, op: stablehlo.DotGeneralOp) -> None:
    batching, contracting = op.dot_dimension_numbers.pairs()
    result = op.result
    free = [
        [
            d
            for d in range(len(shape_of(value)))
            if d not in (*batching[side], *contracting[side])
        ]
        for side, value in enumerate((op.lhs, op.rhs))
    ]
    columns = free[1][0] if len(free[1]) == 1 else None
    values, zero_points = _byte_operands(w, op, columns)
    layouts: Sequence[Layout] = (
        (*batching[0], *free[0], *contracting[0]),
        (*batching[1], *contracting[1], *free[1]),
    )
    inputs = [w.operand(*pair) for pair in zip(values, layouts, strict=True)]
    counts = len(free[0]), len(contracting[0]), len(free[1])
    if (
        not batching[0]
        and counts == (1, 1, 1)
        and (bias := _bias(w, op, 1)) is not None
    ):
        add, value = bias
        w.written.add(add)
        inputs.append(w.operand(value))
        tensor = w.node("Gemm", inputs, w.value_name(add.result))
        w.result(result, tensor)
        w.result(add.result, tensor)
        return
    is_plain = counts == (1, 1, 1) or (not batching[0] and counts[1:] == (1, 1))
    if not is_plain:
        inputs = _as_matrices(w, op, inputs, batching[0], (free, contracting))
    tensor = _product_node(w, op, "MatMul", values, [*inputs, *zero_points])
    if not is_plain:
        sizes = w.integers(shape_of(result), "shape")
        tensor = w.node("Reshape", [tensor, sizes], w.value_name(result))
    w.result(result, tensor)


def _as_matrices(
    w: GraphWriter,
    op: stablehlo.DotGeneralOp,
    inputs: Sequence[str],
    batching: Sequence[int],
    dimensions: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
) -> list[str]:
    """Merge the free and the contracting dimensions of each operand."""
    free, contracting = dimensions
    left, right = shape_of(op.lhs), shape_of(op.rhs)
    batch = [left[d] for d in batching]
    rows, depth, columns = (
        math.prod(shape[d] for d in merged)
        for shape, merged in (
            (left, free[0]),
            (left, contracting[0]),
            (right, free[1]),
        )
    )
    shapes = [*batch, rows, depth], [*batch, depth, columns]
    return [
        w.node("Reshape", [tensor, w.integers(shape, "shape")], f"{tensor}_matrices")
        for tensor, shape in zip(inputs, shapes, strict=True)
    ]


PRODUCT_WRITERS: Mapping[type[Operation], Writer] = {
    stablehlo.ConvolutionOp: _convolution,
    stablehlo.DotGeneralOp: _dot_general,
}
"""Writers of contractions, by op."""
