"""
Ops of TensorFlow Lite that multiply and accumulate, pools, and reductions, in TOSA.

Sums are rescaled by the multipliers of the reference kernels. `fully_connected` has one,
too, as in the kernels of hardware; the reference multiplies with a float of 64 bits, which
is seldom one unit off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.products import has_wide_sums_without_bias
from xdsl_quant.frontends.tflite.formulas.fixed_point import (
    Multiplier,
    quantized_multiplier,
)
from xdsl_quant.frontends.tflite.formulas.products import Window, requantization_ratio
from xdsl_quant.frontends.tflite.formulas.products import windows as places
from xdsl_quant.frontends.tflite.formulas.quantized import activation_bounds, scale_of
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from ..windows import window_of
from .building import (
    Operand,
    TosaBuilder,
    i48,
    is_unsigned,
    lowered_type,
    parameters_of,
    per_tensor,
)
from .elementwise import Lowering, activation_of, with_float_activation
from .expressions import TosaReal, product
from .moving import largest_indices, number, result_shape

# Accumulators


def _requantized(
    builder: TosaBuilder,
    op: Any,
    sums: SSAValue,
    ratio: Any,
    activation: str = "NONE",
) -> SSAValue:
    """Accumulators as stored values of the result."""
    result = per_tensor(op.results[0].type)
    element_type = lowered_type(op.results[0].type).element_type
    low, high = activation_bounds(result, activation)
    zero_point = int(result.zero_points)
    if element_type != i8 and zero_point:
        raise Unsupported(f"has a zero point for '{element_type}', which TOSA has not")
    multiplier = quantized_multiplier(ratio)
    value = builder.rescaled(sums, multiplier, element_type, 0, zero_point)
    return builder.bounded(value, low, high)


def _narrowed(builder: TosaBuilder, sums: SSAValue) -> SSAValue:
    """Sums of 48 bits as `i32`, which they fit."""
    if element_type_of(sums) != i48:
        return sums
    # A multiplier of 16 bits, as one of 31 bits whose lower half is 0.
    return builder.rescaled(sums, Multiplier(1 << 30, 31 - 30), i32)


def _zero_point(operand: Operand) -> int:
    """
    The zero point of weights or images.

    Raises:
        Unsupported: if there are several.
    """
    if not operand.is_quantized:
        return 0
    parameters = parameters_of(operand.type)
    assert parameters is not None
    zero_points = {int(z) for z in np.ravel(parameters.zero_points)}
    if len(zero_points) > 1:
        raise Unsupported("has weights of several zero points")
    return zero_points.pop()


def _accumulator(x: Operand, weights: Operand) -> Attribute:
    types = element_type_of(x.value), element_type_of(weights.value)
    accumulators: Mapping[tuple[Attribute, Attribute], Attribute] = {
        (i8, i8): i32,
        (i16, i8): i48,
        (f32, f32): f32,
    }
    if (type_ := accumulators.get(types)) is None:
        raise Unsupported(f"multiplies '{x.type}' and '{weights.type}'")
    return type_


def _bias(
    builder: TosaBuilder, bias: Operand | None, type_: Attribute, channels: int
) -> SSAValue:
    if bias is None:
        return builder.array(np.zeros(channels, np.int64), type_)
    if bias.array is None:
        if element_type_of(bias.value) == type_:
            return bias.value
        raise Unsupported("has a bias of 64 bits that is expected to be constant")
    return builder.array(bias.array.reshape(-1), type_)


def _integers(name: str, values: Sequence[int]) -> dict[str, Attribute]:
    return {name: DenseArrayBase.from_list(i64, [int(v) for v in values])}


class _Steps(NamedTuple):
    """How TOSA moves a window over an image: what is left of it, and padding."""

    sizes: tuple[int, int]
    pads: tuple[int, int, int, int]


def _steps(
    image: Sequence[int], kernel: Sequence[int], window: Window, result: Sequence[int]
) -> _Steps:
    """What the window does not reach is cut off, as TOSA wants it to end at the border."""
    sizes: list[int] = []
    pads: list[int] = []
    for axis in range(2):
        extent = (kernel[axis] - 1) * window.dilations[axis] + 1
        before, _ = window.padding_before(image[axis], kernel[axis], axis)
        reached = (result[axis] - 1) * window.strides[axis] + extent - before
        sizes.append(min(image[axis], reached))
        pads += [before, reached - sizes[axis]]
    return _Steps((sizes[0], sizes[1]), (pads[0], pads[1], pads[2], pads[3]))


def _cut(builder: TosaBuilder, value: SSAValue, steps: _Steps) -> SSAValue:
    batch, _, _, channels = shape_of(value)
    return builder.sliced(value, [0] * 4, (batch, *steps.sizes, channels))


# Convolutions


def _convolved(
    builder: TosaBuilder,
    op_type: type[Operation],
    x: Operand,
    weights: Operand,
    kernel: SSAValue,
    bias: SSAValue,
    shape: Sequence[int],
    properties: Mapping[str, Attribute],
    value: SSAValue | None = None,
) -> SSAValue:
    """The accumulators of a convolution."""
    accumulator = _accumulator(x, weights)
    operands = (
        x.value if value is None else value,
        kernel,
        bias,
        builder.one(_zero_point(x), element_type_of(x.value)),
        builder.one(_zero_point(weights), element_type_of(kernel)),
    )
    assert isinstance(accumulator, TypeAttribute)
    return builder.tosa(
        op_type, operands, shape, accumulator, acc_type=accumulator, **properties
    )


def _finished(
    builder: TosaBuilder,
    op: Any,
    sums: SSAValue,
    x: Operand,
    weights: Operand,
    *,
    is_wide: bool,
    is_fully_connected: bool = False,
) -> SSAValue:
    """
    The result of a convolution.

    Args:
        builder: builds the ops.
        op: the op.
        sums: the accumulators.
        x: what is convolved.
        weights: what it is multiplied with.
        is_wide: whether sums have 64 bits, and a multiplier of 16 bits.
        is_fully_connected: round the product of the scales to 32 bits for signed values,
            too.
    """
    activation = activation_of(op)
    if not x.is_quantized:
        return with_float_activation(builder, sums, activation)
    parameters = parameters_of(weights.type)
    if parameters is None or not x.parameters:
        raise Unsupported("multiplies floats with quantized values")
    if not is_wide:
        sums = _narrowed(builder, sums)
    result = per_tensor(op.results[0].type)
    has_exact_product = not is_fully_connected and not is_unsigned(x.type)
    ratio = requantization_ratio(x.parameters, parameters, result, has_exact_product)
    return _requantized(builder, op, sums, ratio, activation)


def _has_wide_sums(op: Operation, bias: Operand | None) -> bool:
    """Whether sums for values of 16 bits have 64 bits: not if the bias has 32."""
    if bias is None:
        return has_wide_sums_without_bias(op)
    element_type = cast(TensorType, bias.type).element_type
    return element_type == i64


def _conv_2d(
    builder: TosaBuilder,
    op: tfl.Conv2DOp,
    x: Operand,
    weights: Operand,
    bias: Operand | None,
) -> SSAValue:
    outputs, height, width, depth = weights.shape
    shape = result_shape(op)
    window = window_of(op)
    steps = _steps(x.shape[1:3], (height, width), window, shape[1:3])
    image = _cut(builder, x.value, steps)
    accumulator = _accumulator(x, weights)
    biases = _bias(builder, bias, accumulator, outputs)
    properties = {
        **_integers("stride", window.strides),
        **_integers("dilation", window.dilations),
        **_integers("pad", steps.pads),
    }
    groups = x.shape[3] // depth
    count = outputs // groups
    sums = [
        _convolved(
            builder,
            tosa_ops.Conv2DOp,
            x,
            weights,
            builder.sliced(
                weights.value, (group * count, 0, 0, 0), (count, *weights.shape[1:])
            ),
            builder.sliced(biases, (group * count,), (count,)),
            (*shape[:3], count),
            properties,
            builder.sliced(
                image, (0, 0, 0, group * depth), (*shape_of(image)[:3], depth)
            ),
        )
        for group in range(groups)
    ]
    whole = builder.concatenated(sums, 3)
    return _finished(builder, op, whole, x, weights, is_wide=_has_wide_sums(op, bias))


def _depthwise_sums(
    builder: TosaBuilder,
    x: Operand,
    weights: Operand,
    kernel: SSAValue,
    bias: SSAValue,
    window: Window,
    shape: Sequence[int],
) -> SSAValue:
    steps = _steps(x.shape[1:3], shape_of(kernel)[:2], window, shape[1:3])
    properties = {
        **_integers("stride", window.strides),
        **_integers("dilation", window.dilations),
        **_integers("pad", steps.pads),
    }
    image = _cut(builder, x.value, steps)
    return _convolved(
        builder,
        tosa_ops.DepthwiseConv2DOp,
        x,
        weights,
        kernel,
        bias,
        shape,
        properties,
        image,
    )


def _depthwise_conv_2d(
    builder: TosaBuilder,
    op: tfl.DepthwiseConv2DOp,
    x: Operand,
    weights: Operand,
    bias: Operand | None,
) -> SSAValue:
    _, height, width, outputs = weights.shape
    channels = x.shape[3]
    kernel = builder.with_shape(
        weights.value, (height, width, channels, outputs // channels)
    )
    biases = _bias(builder, bias, _accumulator(x, weights), outputs)
    sums = _depthwise_sums(
        builder, x, weights, kernel, biases, window_of(op), result_shape(op)
    )
    return _finished(builder, op, sums, x, weights, is_wide=_has_wide_sums(op, bias))


def _transpose_conv(
    builder: TosaBuilder,
    op: tfl.TransposeConvOp,
    _: Operand,
    weights: Operand,
    x: Operand,
    bias: Operand | None,
) -> SSAValue:
    outputs, *kernel, _depth = weights.shape
    shape = result_shape(op)
    window = window_of(op)
    pads: list[int] = []
    for axis in range(2):
        before, _after = window.padding_before(shape[axis + 1], kernel[axis], axis)
        size = (x.shape[axis + 1] - 1) * window.strides[axis] + kernel[axis]
        pads += [-before, shape[axis + 1] - size + before]
    sums = _convolved(
        builder,
        tosa_ops.TransposeConv2DOp,
        x,
        weights,
        weights.value,
        _bias(builder, bias, _accumulator(x, weights), outputs),
        shape,
        {**_integers("stride", window.strides), **_integers("out_pad", pads)},
    )
    return _finished(builder, op, sums, x, weights, is_wide=_has_wide_sums(op, bias))


def _fully_connected(
    builder: TosaBuilder,
    op: tfl.FullyConnectedOp,
    x: Operand,
    weights: Operand,
    bias: Operand | None,
) -> SSAValue:
    if op.weights_format.data != "DEFAULT":
        raise Unsupported(f"has weights of the format '{op.weights_format.data}'")
    outputs, inputs = weights.shape
    rows = int(np.prod(x.shape, dtype=np.int64)) // inputs
    sums = _convolved(
        builder,
        tosa_ops.Conv2DOp,
        x,
        weights,
        builder.with_shape(weights.value, (outputs, 1, 1, inputs)),
        _bias(builder, bias, _accumulator(x, weights), outputs),
        (rows, 1, 1, outputs),
        {
            **_integers("stride", (1, 1)),
            **_integers("dilation", (1, 1)),
            **_integers("pad", (0, 0, 0, 0)),
        },
        builder.with_shape(x.value, (rows, 1, 1, inputs)),
    )
    value = _finished(
        builder, op, sums, x, weights, is_wide=False, is_fully_connected=True
    )
    return builder.with_shape(value, result_shape(op))


def _batch_matmul(
    builder: TosaBuilder, op: tfl.BatchMatMulOp, x: Operand, y: Operand
) -> SSAValue:
    shape = result_shape(op)
    batches = shape[:-2]
    count = int(np.prod(batches, dtype=np.int64))
    matrices: list[SSAValue] = []
    for operand, is_adjoint in ((x, op.adj_x), (y, op.adj_y)):
        value = builder.with_rank(operand.value, len(shape))
        if number(is_adjoint):
            order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            value = builder.permuted(value, order)
        own = shape_of(value)
        factors = [a // b for a, b in zip(batches, own[:-2], strict=True)]
        if {*factors} - {1}:
            operands = value, builder.shape((*factors, 1, 1))
            value = builder.tosa(
                tosa_ops.TileOp,
                operands,
                (*batches, *own[-2:]),
                element_type_of(value),
            )
        matrices.append(builder.with_shape(value, (count, *own[-2:])))
    types = element_type_of(x.value), element_type_of(y.value)
    accumulators: Mapping[tuple[Attribute, Attribute], Attribute] = {
        (i8, i8): i32,
        (i16, i16): i48,
        (f32, f32): f32,
    }
    if (accumulator := accumulators.get(types)) is None:
        raise Unsupported(f"multiplies '{x.type}' and '{y.type}'")
    zero_points = [_zero_point(operand) for operand in (x, y)]
    sums = _matrix_product(builder, matrices, zero_points, accumulator)
    if x.is_quantized:
        result = per_tensor(op.output.type)
        scale = np.float32(x.parameters.scales) * np.float32(y.parameters.scales)
        ratio = float(scale) / float(scale_of(result))
        sums = _requantized(builder, op, sums, ratio)
    return builder.with_shape(sums, shape)


# State


def _svdf(
    builder: TosaBuilder,
    op: tfl.SVDFOp,
    x: Operand,
    features: Operand,
    time: Operand,
    bias: Operand | None,
    state: Operand,
) -> Sequence[SSAValue]:
    if op.next_state is None:
        raise Unsupported("has state: run 'tfl-variables-to-arguments' first")
    if any(operand.is_quantized for operand in (features, time, state)) and not (
        x.is_quantized
    ):
        raise Unsupported("has quantized weights, but an input that is not quantized")
    type_ = i32 if x.is_quantized else f32
    batch, inputs = x.shape
    filters, memory = time.shape
    # The kernel corrects the input alone, and stored values of `u8` are 128 less.
    zero_points = _zero_point(x), -128 if is_unsigned(features.type) else 0
    matrices = (
        builder.with_shape(x.value, (1, batch, inputs)),
        builder.permuted(
            builder.with_shape(features.value, (1, filters, inputs)), (0, 2, 1)
        ),
    )
    column = _matrix_product(builder, matrices, zero_points, type_)
    if x.is_quantized:
        ratio = _scale(x) * _scale(features) / _scale(state)
        column = builder.rescaled(column, quantized_multiplier(ratio), i16)
    columns = [builder.with_shape(column, (batch, filters, 1))]
    if memory > 1:
        past = builder.with_shape(state.value, (batch, filters, memory))
        sizes = batch, filters, memory - 1
        columns.insert(0, builder.sliced(past, (0, 0, 1), sizes))
    remembered = builder.concatenated(columns, 2)
    next_state = builder.with_shape(remembered, state.shape)
    weights = builder.with_shape(time.value, (1, filters, memory))
    if x.is_quantized:
        remembered, weights = builder.widened(remembered), builder.widened(weights)
    sums = product(builder, remembered, weights)
    rank = number(op.rank)
    for shape in (batch, filters, memory), (batch, filters // rank, rank):
        sums = builder.reduced(tosa.ReduceSumOp, builder.with_shape(sums, shape), 2)
    sums = builder.with_shape(sums, (batch, filters // rank))
    if bias is not None:
        sums = builder.binary(tosa.AddOp, sums, bias.value)
    if not x.is_quantized:
        return with_float_activation(builder, sums, activation_of(op)), next_state
    # The kernel has no activation.
    ratio = _scale(state) * _scale(time) / scale_of(per_tensor(op.output.type))
    return _requantized(builder, op, sums, ratio), next_state


def _scale(operand: Operand) -> np.float32:
    return scale_of(operand.parameters)


def _matrix_product(
    builder: TosaBuilder,
    matrices: Sequence[SSAValue],
    zero_points: Sequence[int],
    element_type: Attribute,
) -> SSAValue:
    """Sums of 32 or 48 bits, or floats."""
    zeros = [
        builder.one(zero_point, element_type_of(matrix))
        for zero_point, matrix in zip(zero_points, matrices, strict=True)
    ]
    (count, rows, _), (_, _, columns) = map(shape_of, matrices)
    shape = count, rows, columns
    return builder.tosa(tosa.MatMulOp, (*matrices, *zeros), shape, element_type)


# Pools


def _average_pool(
    builder: TosaBuilder, op: tfl.AveragePool2DOp, x: Operand
) -> SSAValue:
    sizes = number(op.filter_height), number(op.filter_width)
    window, shape = window_of(op), result_shape(op)
    if not x.is_quantized:
        return _average_pool_of_floats(builder, op, x, sizes)
    channels = x.shape[3]
    # Sums are exact: those of products with 1. There are no zero points.
    zero = builder.one(0, element_type_of(x.value))
    accumulator = i32 if element_type_of(x.value) == i8 else i48
    steps = _steps(x.shape[1:3], sizes, window, shape[1:3])
    operands = (
        _cut(builder, x.value, steps),
        builder.array(np.ones((*sizes, channels, 1), np.int64), i8),
        builder.array(np.zeros(channels, np.int64), accumulator),
        zero,
        builder.one(0, i8),
    )
    sums = builder.tosa(
        tosa_ops.DepthwiseConv2DOp,
        operands,
        shape,
        accumulator,
        acc_type=accumulator,
        **_integers("stride", window.strides),
        **_integers("dilation", window.dilations),
        **_integers("pad", steps.pads),
    )
    sums = _narrowed(builder, sums)
    ones = np.ones((1, *x.shape[1:3], 1), np.int64)
    counts: NDArray[Any] = places(ones, sizes, window).sum(axis=(-2, -1))
    offset = 128 if is_unsigned(x.type) else 0
    return _means(builder, op, sums, counts, offset)


def _average_pool_of_floats(
    builder: TosaBuilder, op: tfl.AveragePool2DOp, x: Operand, sizes: tuple[int, int]
) -> SSAValue:
    window, shape = window_of(op), result_shape(op)
    steps = _steps(x.shape[1:3], sizes, window, shape[1:3])
    zero = builder.one(0, f32)
    means = builder.tosa(
        tosa.AvgPool2DOp,
        (_cut(builder, x.value, steps), zero, zero),
        shape,
        f32,
        acc_type=f32,
        **_integers("kernel", sizes),
        **_integers("stride", window.strides),
        **_integers("pad", steps.pads),
    )
    return with_float_activation(builder, means, activation_of(op))


def _means(
    builder: TosaBuilder, op: Any, sums: SSAValue, counts: NDArray[Any], offset: int
) -> SSAValue:
    """Quotients rounded half away from zero; stored values of `u8` are 128 more."""
    shape = shape_of(sums)
    divisors = builder.array(counts, i32)
    if offset:
        sums = builder.binary(tosa.AddOp, sums, builder.array(offset * counts, i32))
    half = builder.array(counts // 2, i32)
    zero = builder.array(np.zeros((1, 1, 1, 1), np.int64), i32)
    is_positive = builder.tosa(tosa_ops.GreaterOp, (sums, zero), shape, i1)
    more, less = (builder.binary(o, sums, half) for o in (tosa.AddOp, tosa.SubOp))
    nudged = builder.tosa(tosa_ops.SelectOp, (is_positive, more, less), shape, i32)
    means = builder.binary(tosa_ops.IntDivOp, nudged, divisors)
    if offset:
        shift = builder.array(np.full((1, 1, 1, 1), offset), i32)
        means = builder.binary(tosa.SubOp, means, shift)
    result = per_tensor(op.results[0].type)
    low, high = activation_bounds(result, activation_of(op))
    element_type = lowered_type(op.results[0].type).element_type
    # A mean of stored values is one.
    value = builder.tosa(tosa_ops.CastOp, (means,), shape, element_type)
    return builder.bounded(value, low, high)


def _max_pool(builder: TosaBuilder, op: tfl.MaxPool2DOp, x: Operand) -> SSAValue:
    sizes = number(op.filter_height), number(op.filter_width)
    window, shape = window_of(op), result_shape(op)
    steps = _steps(x.shape[1:3], sizes, window, shape[1:3])
    value = builder.tosa(
        tosa.MaxPool2DOp,
        (_cut(builder, x.value, steps),),
        shape,
        element_type_of(x.value),
        **_integers("kernel", sizes),
        **_integers("stride", window.strides),
        **_integers("pad", steps.pads),
    )
    activation = activation_of(op)
    if not x.is_quantized:
        return with_float_activation(builder, value, activation)
    result = per_tensor(op.output.type)
    return builder.bounded(value, *activation_bounds(result, activation))


# Reductions


def _axes(x: Operand, axes: Operand) -> list[int]:
    return sorted({axis % len(x.shape) for axis in axes.numbers})


def _sums(builder: TosaBuilder, x: Operand, axes: Sequence[int]) -> SSAValue:
    """Sums of corrected values."""
    parameters = x.parameters
    value = builder.widened(x.value)
    for axis in axes:
        value = builder.reduced(tosa.ReduceSumOp, value, axis)
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    if zero_point := int(parameters.zero_points):
        total = np.full((1,) * len(x.shape), zero_point * count)
        value = builder.binary(tosa.SubOp, value, builder.array(total, i32))
    return value


def _plain_sums(builder: TosaBuilder, x: Operand, axes: Sequence[int]) -> SSAValue:
    """Sums of elements that are not quantized."""
    value = x.value
    if element_type_of(value) not in (i32, i64):
        raise Unsupported(f"on '{x.type}' has no form in TOSA")
    for axis in axes:
        value = builder.reduced(tosa.ReduceSumOp, value, axis)
    return value


def _sum(builder: TosaBuilder, op: tfl.SumOp, x: Operand, axes: Operand) -> SSAValue:
    if not x.is_quantized:
        sums = _plain_sums(builder, x, _axes(x, axes))
        return builder.with_shape(sums, result_shape(op))
    sums = _sums(builder, x, _axes(x, axes))
    result = per_tensor(op.output.type)
    ratio = float(np.float32(x.parameters.scales)) / float(scale_of(result))
    value = _requantized(builder, op, sums, ratio)
    return builder.with_shape(value, result_shape(op))


def _mean(builder: TosaBuilder, op: tfl.MeanOp, x: Operand, axes: Operand) -> SSAValue:
    dimensions = _axes(x, axes)
    count = int(np.prod([x.shape[axis] for axis in dimensions], dtype=np.int64))
    if not x.is_quantized:
        sums = _plain_sums(builder, x, dimensions)
        counts = np.full((1,) * len(x.shape), count)
        divisor = builder.array(counts, element_type_of(sums))
        mean = builder.binary(tosa_ops.IntDivOp, sums, divisor)
        return builder.with_shape(mean, result_shape(op))
    result = per_tensor(op.output.type)
    element_type = lowered_type(op.output.type).element_type
    zero_point = int(result.zero_points)
    if element_type != i8 and zero_point:
        raise Unsupported(f"has a zero point for '{element_type}', which TOSA has not")
    ratio = float(np.float32(x.parameters.scales)) / float(scale_of(result))
    value, exponent = quantized_multiplier(ratio)
    bits = min(count.bit_length() - 1, 32, 31 + int(exponent))
    divided = Multiplier((int(value) << bits) // count, int(exponent) - bits)
    sums = _sums(builder, x, dimensions)
    mean = builder.rescaled(sums, divided, element_type, 0, zero_point)
    mean = builder.bounded(mean, result.storage_min, result.storage_max)
    return builder.with_shape(mean, result_shape(op))


def _extreme(op_type: type[Operation]) -> Lowering:
    def lower(
        builder: TosaBuilder, op: Operation, x: Operand, axes: Operand
    ) -> SSAValue:
        value = x.value
        for axis in _axes(x, axes):
            value = builder.reduced(op_type, value, axis)
        return builder.with_shape(value, result_shape(op))

    return lower


def _arg(is_smallest: bool) -> Lowering:
    def lower(
        builder: TosaBuilder, op: Operation, x: Operand, dim: Operand
    ) -> SSAValue:
        value, type_ = x.value, element_type_of(x.value)
        axis = dim.numbers[0] % len(x.shape)
        if is_smallest and type_ == f32:
            value = (-TosaReal.of(builder, value)).value
        elif is_smallest:
            value = builder.tosa(tosa_ops.BitwiseNotOp, (value,), x.shape, type_)
        shape = result_shape(op)
        result_type = lowered_type(op.results[0].type).element_type
        if type_ in (i32, i64):
            # TOSA has `argmax` for fewer bits.
            order = [i for i in range(len(x.shape)) if i != axis]
            rows = builder.with_shape(
                builder.permuted(value, [*order, axis]),
                (math.prod(shape), x.shape[axis]),
            )
            indices = builder.with_shape(largest_indices(builder, rows, 1), shape)
            return builder.with_elements(indices, result_type)
        axis_attr = IntegerAttr(axis, i32)
        if type_ != f32:
            return builder.tosa(
                tosa_ops.ArgMaxOp, (value,), shape, result_type, axis=axis_attr
            )
        # The kernel begins with the first element; no comparison with NaN is true.
        is_number = builder.tosa(tosa_ops.EqualOp, (value, value), x.shape, i1)
        worst = builder.array(np.full((1,) * len(x.shape), -np.inf), f32)
        operands = is_number, value, worst
        numbers = builder.tosa(tosa_ops.SelectOp, operands, x.shape, f32)
        index = builder.tosa(
            tosa_ops.ArgMaxOp, (numbers,), shape, result_type, axis=axis_attr
        )
        sizes = [1 if i == axis else size for i, size in enumerate(x.shape)]
        first = builder.sliced(is_number, [0] * len(x.shape), sizes)
        first = builder.with_shape(first, shape)
        zero = builder.array(np.zeros((1,) * len(shape), np.int64), result_type)
        operands = first, index, zero
        return builder.tosa(tosa_ops.SelectOp, operands, shape, result_type)

    return lower


LOWERINGS: Mapping[type[Operation], Lowering] = {
    tfl.Conv2DOp: _conv_2d,
    tfl.DepthwiseConv2DOp: _depthwise_conv_2d,
    tfl.TransposeConvOp: _transpose_conv,
    tfl.FullyConnectedOp: _fully_connected,
    tfl.BatchMatMulOp: _batch_matmul,
    tfl.SVDFOp: _svdf,
    tfl.AveragePool2DOp: _average_pool,
    tfl.MaxPool2DOp: _max_pool,
    tfl.SumOp: _sum,
    tfl.MeanOp: _mean,
    tfl.ReduceMaxOp: _extreme(tosa.ReduceMaxOp),
    tfl.ReduceMinOp: _extreme(tosa.ReduceMinOp),
    tfl.ArgMaxOp: _arg(False),
    tfl.ArgMinOp: _arg(True),
}
"""The ops of sums, pools and reductions."""
