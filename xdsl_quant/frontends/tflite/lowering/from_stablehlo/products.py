"""Conversions of convolutions and matrix products."""

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant import DequantizeCastOp
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.rules import WindowDimension
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import PlainValue
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.runtime.arrays import constant_attr
from xdsl_quant.transforms.building.builder import shape_of
from xdsl_quant.unsupported import Unsupported

from .building import Conversion, TFLBuilder, inverse, is_float
from .data_movement import reverse
from .windows import POINT, pad_images


def _check_floats(op: Operation) -> None:
    if not all(map(is_float, op.operands)):
        raise Unsupported("multiplies integers; expected floats or quantized values")


# Convolutions


def _convolution(b: TFLBuilder, op: stablehlo.ConvolutionOp) -> SSAValue:
    """Convert to a convolution of NHWC images between transposes."""
    _check_floats(op)
    tensors = op.dimension_numbers.by_tensor()
    rank = len(shape_of(op.lhs))
    if not 3 <= rank <= 4:
        raise Unsupported(f"has images of {rank - 2} dimensions; expected 1 or 2")
    if op.batch_group_count.value.data != 1:
        raise Unsupported("has groups of batches")
    batch, feature, *spatial = tensors["input"]
    images = _with_height(b, b.transpose(op.lhs, [batch, *spatial, feature]))
    window = [POINT] * (4 - rank) + op.window
    groups = op.feature_group_count.value.data
    if any(along.padding.interior for along in window):
        value = _transposed_convolution(b, op, images, window)
    else:
        value = _direct_convolution(b, op, images, window, groups)
    shape = shape_of(value)
    if rank == 3:
        value = b.reshape_to(value, [shape[0], *shape[2:]])
    batch, feature, *spatial = tensors["output"]
    return b.transpose(value, inverse([batch, *spatial, feature]))


def _with_height(b: TFLBuilder, value: SSAValue) -> SSAValue:
    """Insert the dimension of height into a tensor without it."""
    first, *sizes = shape_of(value)
    return b.reshape_to(value, [first, *[1] * (3 - len(sizes)), *sizes])


def _is_reversed(op: stablehlo.ConvolutionOp) -> bool:
    """Return True if the windows are flipped along all dimensions, False for none."""
    flags = () if op.window_reversal is None else op.window_reversal.get_values()
    if any(flags) != all(flags) and flags:
        raise Unsupported("flips its windows along some of their dimensions")
    return any(flags)


def _filters(
    b: TFLBuilder, op: stablehlo.ConvolutionOp, *, flips: bool, is_depthwise: bool
) -> SSAValue:
    """Build the weights: OHWI, or 1HWO of a depthwise convolution."""
    weights = op.rhs
    inputs, outputs, *spatial = op.dimension_numbers.by_tensor()["kernel"]
    if flips:
        weights = reverse(b, weights, spatial)
    ends = (inputs, outputs) if is_depthwise else (outputs, inputs)
    return _with_height(b, b.transpose(weights, [ends[0], *spatial, ends[1]]))


def _direct_convolution(
    b: TFLBuilder,
    op: stablehlo.ConvolutionOp,
    images: SSAValue,
    window: Sequence[WindowDimension],
    groups: int,
) -> SSAValue:
    channels = shape_of(images)[3]
    if channels == DYNAMIC_INDEX:
        raise Unsupported("has a dynamic number of channels")
    is_depthwise = groups == channels > 1
    filters = _filters(b, op, flips=_is_reversed(op), is_depthwise=is_depthwise)
    images, padding = pad_images(b, images, window)
    (rows, columns), (height, width) = (
        [getattr(along, name) for along in window] for name in ("stride", "dilation")
    )
    geometry = Window((rows, columns), (height, width), padding)
    outputs = shape_of(filters)[3 if is_depthwise else 0]
    shape = [*shape_of(images)[:3], outputs]
    for axis, along in enumerate(window):
        if (size := shape[axis + 1]) != DYNAMIC_INDEX:
            shape[axis + 1] = geometry.result_size(size, along.size, axis)
    properties: dict[str, PlainValue] = {
        "dilation_h_factor": height,
        "dilation_w_factor": width,
        "fused_activation_function": "NONE",
        "padding": padding,
        "stride_h": rows,
        "stride_w": columns,
    }
    op_type = tfl.Conv2DOp
    if is_depthwise:
        op_type = tfl.DepthwiseConv2DOp
        properties["depth_multiplier"] = outputs // channels
    operands = images, filters, b.absent()
    return b.build(op_type, operands, b.like(images, shape), **properties)


def _transposed_convolution(
    b: TFLBuilder,
    op: stablehlo.ConvolutionOp,
    images: SSAValue,
    window: Sequence[WindowDimension],
) -> SSAValue:
    """Build all sums of a transposed convolution, and crop or pad them."""
    if op.feature_group_count.value.data != 1:
        raise Unsupported("is a transposed convolution with groups")
    if any(along.stride != 1 or along.dilation != 1 for along in window):
        raise Unsupported("has a stride or dilated windows, and dilated images")
    if DYNAMIC_INDEX in shape_of(images):
        raise Unsupported("is a transposed convolution of dynamic size")
    filters = _filters(b, op, flips=not _is_reversed(op), is_depthwise=False)
    strides = [along.padding.interior + 1 for along in window]
    shape = [*shape_of(images)[:3], shape_of(filters)[0]]
    for axis, along in enumerate(window):
        shape[axis + 1] = (shape[axis + 1] - 1) * strides[axis] + along.size
    value = b.add(
        tfl.TransposeConvOp(
            b.integers(shape),
            filters,
            images,
            b.absent(),
            fused_activation_function="NONE",
            padding="VALID",
            stride_h=strides[0],
            stride_w=strides[1],
            result_types=[b.like(images, shape)],
        )
    )
    low, high = (
        [0, *(along.padding[end] - along.size + 1 for along in window), 0]
        for end in range(2)
    )
    return b.pad(value, low, high)


# Matrix products


def _is_constant(value: SSAValue) -> bool:
    op = value.owner
    while isinstance(
        op,
        DequantizeCastOp
        | stablehlo.UniformDequantizeOp
        | stablehlo.TransposeOp
        | stablehlo.ReshapeOp
        | stablehlo.BroadcastInDimOp
        | stablehlo.ConvertOp,
    ):
        value = op.operands[0]
        op = value.owner
    return constant_attr(value) is not None


def _matrices(
    b: TFLBuilder,
    value: SSAValue,
    batching: Sequence[int],
    rows: Sequence[int],
    columns: Sequence[int],
) -> SSAValue:
    """Arrange dimensions as batch dimensions, a dimension of rows and one of columns."""
    value = b.transpose(value, [*batching, *rows, *columns])
    shape = shape_of(value)
    if len(rows) == len(columns) == 1:
        return value
    first, end = len(batching), len(batching) + len(rows)
    sizes = [_total_size(shape[first:end]), _total_size(shape[end:])]
    return b.reshape_to(value, [*shape[:first], *sizes])


def _total_size(sizes: Sequence[int]) -> int:
    return DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else prod(sizes)


def _dot_general(b: TFLBuilder, op: stablehlo.DotGeneralOp) -> SSAValue:
    _check_floats(op)
    batching, contracting = op.dot_dimension_numbers.pairs()
    free = [
        [d for d in range(len(shape_of(x))) if d not in (*batching[i], *contracting[i])]
        for i, x in enumerate((op.lhs, op.rhs))
    ]
    result = shape_of(op.result)
    if not batching[0] and _is_constant(op.rhs):
        return b.reshape_to(_fully_connected(b, op, contracting, free), result)
    x = _matrices(b, op.lhs, batching[0], free[0], contracting[0])
    # The weights stay as they are if their rows are the results.
    adj_y = [*batching[1], *free[1], *contracting[1]] == [*range(len(shape_of(op.rhs)))]
    ends = (free[1], contracting[1]) if adj_y else (contracting[1], free[1])
    y = _matrices(b, op.rhs, batching[1], *ends)
    columns = shape_of(y)[-2 if adj_y else -1]
    built = tfl.BatchMatMulOp(
        x,
        y,
        adj_x=False,
        adj_y=adj_y,
        result_types=[b.like(x, [*shape_of(x)[:-1], columns])],
    )
    return b.reshape_to(b.add(built), result)


def _fully_connected(
    b: TFLBuilder,
    op: stablehlo.DotGeneralOp,
    contracting: Sequence[Sequence[int]],
    free: Sequence[Sequence[int]],
) -> SSAValue:
    """Build a product with constant weights, which have a row for each result."""
    weights = _matrices(b, op.rhs, (), free[1], contracting[1])
    x = b.transpose(op.lhs, [*free[0], *contracting[0]])
    if len(contracting[0]) != 1 or not free[0]:
        x = _matrices(b, op.lhs, (), free[0], contracting[0])
    outputs = shape_of(weights)[0]
    rows = shape_of(x)[:-1]
    return b.add(
        tfl.FullyConnectedOp(
            x,
            weights,
            b.absent(),
            asymmetric_quantize_inputs=False,
            fused_activation_function="NONE",
            keep_num_dims=len(rows) != 1,
            weights_format="DEFAULT",
            result_types=[[b.like(x, [*rows, outputs])]],
        )
    )


CONVERSIONS: Mapping[type[Operation], Conversion] = {
    stablehlo.ConvolutionOp: _convolution,
    stablehlo.DotGeneralOp: _dot_general,
}
"""Conversions of contractions, by op class."""
