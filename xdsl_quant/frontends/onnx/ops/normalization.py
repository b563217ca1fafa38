"""Normalization ops."""

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.frontends.stablehlo.dialect.attributes import padding_attr
from xdsl_quant.numerics.float_dtypes import rounded
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

_EPSILON = 1e-5
"""Default of the attribute `epsilon`."""

# Parts


def _checked_channel_count(x: SSAValue) -> int:
    """Return the number of channels, or raise `Unsupported` if there is no dimension 1."""
    if len(shape := shape_of(x)) < 2:
        raise Unsupported(
            f"the operand has rank {len(shape)}; expected 2 or more, with channels in "
            "dimension 1"
        )
    return shape[1]


def _mean(b: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Build the mean along axes, which keep the size 1."""
    total = b.reduce_keeping(stablehlo.AddOp, x, 0, axes)
    count = b.known_count(x, axes)
    return b.compute(stablehlo.DivideOp, total, count)


def _root_mean_square(
    b: GraphBuilder, x: SSAValue, axes: Sequence[int], epsilon: float
) -> SSAValue:
    mean = _mean(b, b.compute(stablehlo.MultiplyOp, x, x), axes)
    return b.add(stablehlo.SqrtOp(b.compute(stablehlo.AddOp, mean, epsilon)))


def _standardized(
    b: GraphBuilder, x: SSAValue, axes: Sequence[int], epsilon: float
) -> SSAValue:
    """Build `(x - mean) / sqrt(variance + epsilon)`."""
    centered = b.compute(stablehlo.SubtractOp, x, _mean(b, x, axes))
    deviation = _root_mean_square(b, centered, axes, epsilon)
    return b.compute(stablehlo.DivideOp, centered, deviation)


def _scaled_and_shifted(
    b: GraphBuilder, x: SSAValue, scale: SSAValue, bias: SSAValue | None = None
) -> SSAValue:
    product = b.compute(stablehlo.MultiplyOp, x, scale)
    return product if bias is None else b.compute(stablehlo.AddOp, product, bias)


def _scaled_channels(
    b: GraphBuilder, x: SSAValue, scale: SSAValue, bias: SSAValue
) -> SSAValue:
    """Multiply by a factor and add an offset, both per channel, i.e. along dimension 1."""
    factors, offsets = (b.broadcast_like(value, x, [1]) for value in (scale, bias))
    return _scaled_and_shifted(b, x, factors, offsets)


# Ops


def _batch_normalization(
    b: GraphBuilder, node: Node, x: SSAValue, *statistics: SSAValue
) -> SSAValue:
    if node.flag("training_mode"):
        raise Unsupported("training mode is unsupported; export for inference")
    if {*map(shape_of, statistics)} != {(_checked_channel_count(x),)}:
        raise Unsupported(
            "scale, bias, mean or variance has not one element per channel"
        )
    wide, epsilon = b.single(x), node.number("epsilon", _EPSILON)
    type_ = element_type_of(wide)
    channels = _known_channels(b, type_, statistics, epsilon)
    if channels is None:
        channels = _computed_channels(b, type_, statistics, epsilon)
    return b.convert(_scaled_channels(b, wide, *channels), element_type_of(x))


def _known_channels(
    b: GraphBuilder, type_: Attribute, statistics: Sequence[SSAValue], epsilon: float
) -> Sequence[SSAValue] | None:
    """
    Return factor and offset of each channel as constants, which can be folded into the
    weights of a layer; return `None` if they are not constant.
    """
    arrays = [b.known(value) for value in statistics]
    known = [array.astype(np.float64) for array in arrays if array is not None]
    if len(known) < len(arrays):
        return None
    scale, bias, mean, variance = known
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
        offset = bias - mean * factor
    dtype = numpy_dtype(type_)
    return [b.tensor(rounded(array, dtype), type_) for array in (factor, offset)]


def _computed_channels(
    b: GraphBuilder, type_: Attribute, statistics: Sequence[SSAValue], epsilon: float
) -> Sequence[SSAValue]:
    scale, bias, mean, variance = (b.convert(value, type_) for value in statistics)
    deviation = b.add(stablehlo.SqrtOp(b.compute(stablehlo.AddOp, variance, epsilon)))
    factor = b.compute(stablehlo.DivideOp, scale, deviation)
    shift = b.compute(stablehlo.MultiplyOp, mean, factor)
    return factor, b.compute(stablehlo.SubtractOp, bias, shift)


def _instance_normalization(
    b: GraphBuilder, node: Node, x: SSAValue, scale: SSAValue, bias: SSAValue
) -> SSAValue:
    _checked_channel_count(x)
    axes, epsilon = range(2, len(shape_of(x))), node.number("epsilon", _EPSILON)
    result = b.convert(_standardized(b, b.single(x), axes, epsilon), element_type_of(x))
    return _scaled_channels(b, result, scale, bias)


def _group_normalization(
    b: GraphBuilder, node: Node, x: SSAValue, scale: SSAValue, bias: SSAValue
) -> SSAValue:
    channels = _checked_channel_count(x)
    # Before opset 21, ONNX's checker refuses this op, whose factors belong to groups.
    groups = node.integer("num_groups", 1)
    if groups < 1 or channels % groups:
        raise Unsupported(
            f"{channels} channels cannot be divided into {groups} groups; expected a "
            "divisor of the number of channels"
        )
    batch, _, *sizes = shape_of(x)
    grouped = b.reshape_to(b.single(x), [batch, groups, channels // groups, *sizes])
    axes = range(2, len(shape_of(grouped)))
    result = _standardized(b, grouped, axes, node.number("epsilon", _EPSILON))
    result = b.convert(result, element_type_of(x))
    result = b.reshape_to(result, shape_of(x))
    return _scaled_channels(b, result, scale, bias)


def _last_axes(b: GraphBuilder, node: Node, x: SSAValue) -> Sequence[int]:
    rank = len(shape_of(x))
    (first,) = b.axes([node.integer("axis", -1)], rank)
    return range(first, rank)


def layer_normalization(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    scale: SSAValue,
    bias: SSAValue | None = None,
    *,
    epsilon: float = _EPSILON,
) -> Sequence[SSAValue]:
    """
    Build `y`, and mean and reciprocal of the standard deviation in f32 or wider; `epsilon`
    is the default of the attribute.
    """
    axes, wide = _last_axes(b, node, x), b.single(x)
    mean = _mean(b, wide, axes)
    centered = b.compute(stablehlo.SubtractOp, wide, mean)
    deviation = _root_mean_square(b, centered, axes, node.number("epsilon", epsilon))
    inverse = b.compute(stablehlo.DivideOp, 1, deviation)
    result = b.compute(stablehlo.MultiplyOp, centered, inverse)
    return (
        _scaled_and_shifted(b, b.convert(result, element_type_of(x)), scale, bias),
        mean,
        inverse,
    )


def rms_normalization(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    scale: SSAValue,
    *,
    epsilon: float = _EPSILON,
) -> SSAValue:
    """Build `x` divided by its root mean square; see `layer_normalization`."""
    axes, wide = _last_axes(b, node, x), b.single(x)
    root = _root_mean_square(b, wide, axes, node.number("epsilon", epsilon))
    result = b.compute(stablehlo.DivideOp, wide, root)
    return _scaled_and_shifted(b, b.convert(result, element_type_of(x)), scale)


def _mean_variance_normalization(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    axes = b.axes(node.integers("axes", (0, 2, 3)), len(shape_of(x)))
    wide = b.single(x)
    centered = b.compute(stablehlo.SubtractOp, wide, _mean(b, wide, axes))
    deviation = _root_mean_square(b, centered, axes, 0)
    deviation = b.compute(stablehlo.AddOp, deviation, 1e-9)
    result = b.compute(stablehlo.DivideOp, centered, deviation)
    return b.convert(result, element_type_of(x))


def _lp_normalization(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    axes, wide = b.axes([node.integer("axis", -1)], len(shape_of(x))), b.single(x)
    if (order := node.integer("p", 2)) == 1:
        norm = b.reduce_keeping(stablehlo.AddOp, b.add(stablehlo.AbsOp(wide)), 0, axes)
    elif order == 2:
        square = b.compute(stablehlo.MultiplyOp, wide, wide)
        norm = b.add(
            stablehlo.SqrtOp(b.reduce_keeping(stablehlo.AddOp, square, 0, axes))
        )
    else:
        raise Unsupported(f"unsupported norm {order}; expected p = 1 or 2")
    # Zeros remain zeros.
    is_zero = b.compare(ComparisonDirection.EQ, norm, 0)
    result = b.compute(stablehlo.DivideOp, wide, b.select(is_zero, 1, norm))
    return b.convert(result, element_type_of(x))


def _local_response_normalization(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    _checked_channel_count(x)
    if (size := node.integer("size", 0)) < 1:
        raise Unsupported(f"window size is {size}; expected a positive size")
    wide = b.single(x)
    window, padding = [1] * len(shape_of(x)), [(0, 0)] * len(shape_of(x))
    window[1], padding[1] = size, ((size - 1) // 2, size // 2)
    total = b.add(
        stablehlo.ReduceWindowOp(
            [b.compute(stablehlo.MultiplyOp, wide, wide)],
            [b.scalar(0, element_type_of(wide))],
            stablehlo.AddOp,
            window_dimensions=window,
            padding=padding_attr(padding),
        )
    )
    scaled = b.compute(stablehlo.MultiplyOp, total, node.number("alpha", 1e-4) / size)
    base = b.compute(stablehlo.AddOp, scaled, node.number("bias", 1))
    divisor = b.compute(stablehlo.PowerOp, base, node.number("beta", 0.75))
    return b.convert(b.compute(stablehlo.DivideOp, wide, divisor), element_type_of(x))


NORMALIZATION: Mapping[str, Conversion] = {
    "BatchNormalization": _batch_normalization,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response_normalization,
    "LayerNormalization": layer_normalization,
    "LpNormalization": _lp_normalization,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "RMSNormalization": rms_normalization,
}
"""Conversions of normalization ops, by op."""
