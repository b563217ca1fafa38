"""
Lowerings of ops with weights, sums and means, which compute with floats.

Weights keep TensorFlow Lite's layout; StableHLO's dimension numbers describe it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    TensorType,
    f32,
)
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import padding_attr
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import is_true
from xdsl_quant.frontends.tflite.formulas.products import windows
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from ..windows import window_of
from .building import Lowering, TFLToStableHLOBuilder, integers, number, result_shape
from .windows import over_windows, padding

_IMAGE = 0, 3, [1, 2]
"""Batch, feature and spatial dimensions of an NHWC image."""


def _with_bias_and_activation(
    b: TFLToStableHLOBuilder, op: Operation, value: SSAValue, bias: SSAValue | None
) -> SSAValue:
    if bias is not None:
        wide = b.dequantize(b.broadcast(bias, shape_of(value)))
        if wide.type != value.type:
            raise Unsupported(
                f"has a bias of type '{bias.type}', expected a quantized or float type"
            )
        value = b.op(stablehlo.AddOp, (value, wide), value.type)
    return b.apply_activation(op, value)


def _convolution(
    kernel: tuple[int, int, Sequence[int]], count: Callable[[int, int], int]
) -> Lowering:
    """
    Return the lowering of a convolution.

    Args:
        kernel: input feature, output feature and spatial dimensions of the weights.
        count: function that returns the number of feature groups, given the number of
            input features of the image and of the weights.
    """

    def lower(
        b: TFLToStableHLOBuilder,
        op: tfl.Conv2DOp | tfl.DepthwiseConv2DOp,
        x: SSAValue,
        weights: SSAValue,
        bias: SSAValue | None,
    ) -> SSAValue:
        lhs, rhs = b.dequantize(x), b.dequantize(weights)
        window, shape = window_of(op), shape_of(weights)
        channels = shape_of(x)[3], shape[kernel[0]]
        if DYNAMIC_INDEX in channels:
            raise Unsupported("has a dynamic number of channels")
        product = stablehlo.ConvolutionOp(
            lhs,
            rhs,
            result_types=[TensorType(element_type_of(lhs), result_shape(op))],
            dimension_numbers=stablehlo.ConvDimensionNumbersAttr(
                *_IMAGE, *kernel, *_IMAGE
            ),
            window_strides=window.strides,
            padding=padding_attr(
                padding(window, x, [shape[axis] for axis in kernel[2]])
            ),
            rhs_dilation=window.dilations,
            batch_group_count=1,
            feature_group_count=count(*channels),
        )
        return _with_bias_and_activation(b, op, b.add(product), bias)

    return lower


def _dot(
    b: TFLToStableHLOBuilder,
    lhs: SSAValue,
    rhs: SSAValue,
    contracting: tuple[int, int],
    batch: int = 0,
) -> SSAValue:
    """Multiply matrices; the first `batch` dimensions are batch dimensions."""
    numbers = stablehlo.DotDimensionNumbersAttr(
        [*range(batch)], [*range(batch)], *([axis] for axis in contracting)
    )
    lhs, rhs = b.dequantize(lhs), b.dequantize(rhs)
    return b.add(stablehlo.DotGeneralOp(lhs, rhs, dot_dimension_numbers=numbers))


def _fully_connected(
    b: TFLToStableHLOBuilder,
    op: tfl.FullyConnectedOp,
    x: SSAValue,
    weights: SSAValue,
    bias: SSAValue | None,
) -> SSAValue:
    if op.weights_format.data != "DEFAULT":
        raise Unsupported("has shuffled weights")
    shape, (_, inputs) = shape_of(x), shape_of(weights)
    result = result_shape(op)
    if shape[-1] != inputs or len(shape) != len(result):
        is_dynamic = DYNAMIC_INDEX in shape
        rows = DYNAMIC_INDEX if is_dynamic else prod(shape) // max(inputs, 1)
        x = b.reshape_to(x, (rows, inputs))
    value = _dot(b, x, weights, (len(shape_of(x)) - 1, 1))
    value = _with_bias_and_activation(b, op, value, bias)
    return b.reshape_to(b.as_type(value, op.results[0].type), result)


def _batch_matmul(
    b: TFLToStableHLOBuilder, op: tfl.BatchMatMulOp, x: SSAValue, y: SSAValue
) -> SSAValue:
    batch = result_shape(op)[:-2]
    lhs, rhs = (b.broadcast(v, (*batch, *shape_of(v)[-2:])) for v in (x, y))
    last = len(batch) + 1
    contracting = last - is_true(op.adj_x), last - 1 + is_true(op.adj_y)
    return _dot(b, lhs, rhs, contracting, len(batch))


# Sums


def _sum_or_mean(*, is_mean: bool) -> Lowering:
    def lower(
        b: TFLToStableHLOBuilder, op: Operation, x: SSAValue, axes: SSAValue
    ) -> SSAValue:
        x = b.dequantize(x)
        value = b.reduce(stablehlo.AddOp, x, 0, integers(axes))
        if is_mean:
            shape = shape_of(x)
            dimensions = {axis % len(shape) for axis in integers(axes)}
            count = prod(shape[axis] for axis in dimensions)
            divisor = b.splat(count, cast(TensorType, value.type))
            value = b.op(stablehlo.DivideOp, (value, divisor), value.type)
        return b.reshape_to(value, result_shape(op))

    return lower


def _average_pool(
    b: TFLToStableHLOBuilder, op: tfl.AveragePool2DOp, x: SSAValue
) -> SSAValue:
    """Divide the sum of each window by the number of its elements inside the image."""
    if DYNAMIC_INDEX in shape_of(x)[1:3]:
        raise Unsupported("has an image of dynamic size")
    x = b.dequantize(x)
    value = over_windows(b, op, stablehlo.AddOp, x, 0)
    sizes = number(op.filter_height), number(op.filter_width)
    inside = windows(np.ones((1, *shape_of(x)[1:3], 1)), sizes, window_of(op))
    counts = inside.sum((0, 3, 4, 5))
    type_ = TensorType(f32, counts.shape)
    attribute = DenseIntOrFPElementsAttr.from_list(type_, counts.ravel().tolist())
    divisor = b.op(stablehlo.ConstantOp, (), type_, {"value": attribute})
    divisor = b.broadcast(divisor, shape_of(value), (1, 2))
    value = b.op(stablehlo.DivideOp, (value, divisor), value.type)
    return b.apply_activation(op, b.as_type(value, op.output.type))


LOWERINGS: Mapping[type[Operation], Any] = {
    tfl.Conv2DOp: _convolution((3, 0, [1, 2]), lambda x, weights: x // weights),
    tfl.DepthwiseConv2DOp: _convolution((0, 3, [1, 2]), lambda x, weights: x),
    tfl.FullyConnectedOp: _fully_connected,
    tfl.BatchMatMulOp: _batch_matmul,
    tfl.SumOp: _sum_or_mean(is_mean=False),
    tfl.MeanOp: _sum_or_mean(is_mean=True),
    tfl.AveragePool2DOp: _average_pool,
}
"""Lowerings of contractions, sums, means and pooling, by op class."""
