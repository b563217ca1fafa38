"""
Ops of TensorFlow Lite on floats in TOSA, and the fallback, which computes an op without an
integer form with floats: it dequantizes the operands, and quantizes the results, rounding
half to even.

TOSA has no division: it is a product with the reciprocal, so results may differ from those
of divisions in their last bit, and quantized ones by one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas import floats
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from ..kernels import IMPLEMENTATIONS, Computation
from .building import Operand, TosaBuilder, lowered_type, parameters_of
from .elementwise import activation_of, dequantized, with_float_activation
from .expressions import TosaReal, lifted_array
from .moving import number, result_shape

FloatLowering: TypeAlias = Callable[..., SSAValue]
"""Builds a float result, given the builder, the op, and the operands of type `f32`."""


# Ops


def _of_expression(function: Callable[..., TosaReal]) -> FloatLowering:
    """An op that a function of expressions computes."""

    def lower(builder: TosaBuilder, op: Operation, *operands: Operand) -> SSAValue:
        values = [TosaReal.of(builder, operand.value) for operand in operands]
        result = function(*values).value
        if "fused_activation_function" in op.properties:
            return with_float_activation(builder, result, activation_of(op))
        return result

    return lower


def by_formula(builder: TosaBuilder, op: Operation, *operands: Operand) -> SSAValue:
    """An op that its formula computes."""
    computation = cast(Computation, IMPLEMENTATIONS[type(op)])
    values = [TosaReal.of(builder, operand.value) for operand in operands]
    return cast(TosaReal, computation.formula(op, *values)).value


def _elu(x: TosaReal) -> TosaReal:
    return (x < 0).chosen(x.unary(tosa_ops.ExpOp) - 1.0, x)


def _floor_div(x: TosaReal, y: TosaReal) -> TosaReal:
    quotient = (x / y).unary(tosa_ops.FloorOp)
    # The product with the reciprocal may be just below or above an integer.
    remainder = (x - quotient * y) * y
    too_large = (remainder < 0).chosen(remainder * 0.0, remainder)
    return quotient + (y * y <= too_large) - (remainder < 0)


def _floor_mod(x: TosaReal, y: TosaReal) -> TosaReal:
    return x - y * _floor_div(x, y)


def _reciprocal_square_root(x: TosaReal) -> TosaReal:
    return x.unary(tosa_ops.RsqrtOp)


def _gelu(builder: TosaBuilder, op: tfl.GeluOp, x: Operand) -> SSAValue:
    values = TosaReal.of(builder, x.value)
    if number(op.approximate):
        inner = (values + values * values * values * 0.044715) * float(
            np.sqrt(2 / np.pi)
        )
        gate = inner.unary(tosa_ops.TanhOp) + 1.0
    else:
        gate = (values * float(np.sqrt(0.5))).unary(tosa_ops.ErfOp) + 1.0
    return (values * gate * 0.5).value


def _l2_normalization(x: TosaReal) -> TosaReal:
    squares = (x * x).sum(axis=-1, keepdims=True)
    norm = squares.clipped(1e-12, float(np.finfo(np.float32).max))
    return x * norm.unary(tosa_ops.RsqrtOp)


def _reduction(op_type: type[Operation], *, is_mean: bool = False) -> FloatLowering:
    def lower(
        builder: TosaBuilder, op: Operation, x: Operand, axes: Operand
    ) -> SSAValue:
        dimensions = sorted({axis % len(x.shape) for axis in axes.numbers})
        values = TosaReal.of(builder, x.value).reduced(op_type, dimensions)
        if is_mean:
            count = int(np.prod([x.shape[axis] for axis in dimensions]))
            values = values * (1 / count)
        return builder.with_shape(values.value, result_shape(op))

    return lower


def _resize_bilinear(
    builder: TosaBuilder, op: tfl.ResizeBilinearOp, x: Operand, size: Operand
) -> SSAValue:
    height, width = size.numbers
    options = bool(number(op.align_corners)), bool(number(op.half_pixel_centers))
    values: Any = TosaReal.of(builder, x.value)
    resized: Any = floats.resize_bilinear(values, (height, width), *options)
    return resized.value


LOWERINGS: Mapping[type[Operation], FloatLowering] = {
    tfl.DivOp: _of_expression(TosaReal.__truediv__),
    tfl.FloorDivOp: _of_expression(_floor_div),
    tfl.FloorModOp: _of_expression(_floor_mod),
    tfl.PowOp: by_formula,
    tfl.NegOp: by_formula,
    tfl.SqrtOp: by_formula,
    tfl.RsqrtOp: _of_expression(_reciprocal_square_root),
    tfl.RoundOp: by_formula,
    tfl.EluOp: _of_expression(_elu),
    tfl.GeluOp: _gelu,
    tfl.HardSwishOp: by_formula,
    tfl.LeakyReluOp: by_formula,
    tfl.PReluOp: by_formula,
    tfl.SoftmaxOp: by_formula,
    tfl.LogSoftmaxOp: by_formula,
    tfl.L2NormalizationOp: _of_expression(_l2_normalization),
    tfl.MeanOp: _reduction(tosa.ReduceSumOp, is_mean=True),
    tfl.SumOp: _reduction(tosa.ReduceSumOp),
    tfl.ReduceProdOp: _reduction(tosa.ReduceProductOp),
    tfl.ResizeBilinearOp: _resize_bilinear,
}
"""The ops on floats that are more than one op of TOSA."""


# The fallback


def fallen_back(
    builder: TosaBuilder, op: Operation, lowering: FloatLowering, *operands: Any
) -> Sequence[SSAValue]:
    """
    The results of an op that is computed with floats.

    Raises:
        Unsupported: if there is no float form for the types.
    """
    expressed = [
        _expressed(builder, operand) if isinstance(operand, Operand) else operand
        for operand in operands
    ]
    results: Any = lowering(builder, op, *expressed)
    values = cast(
        Sequence[SSAValue],
        (results,) if isinstance(results, SSAValue) else results,
    )
    return [
        quantized_to_nearest(builder, value, result.type)
        for value, result in zip(values, op.results, strict=True)
    ]


def _expressed(builder: TosaBuilder, operand: Operand) -> Operand:
    if not operand.is_quantized:
        return operand
    type_ = TensorType(f32, operand.shape)
    return Operand(builder, type_, dequantized(builder, operand), None)


def quantized_to_nearest(
    builder: TosaBuilder, value: SSAValue, type_: Attribute
) -> SSAValue:
    """Floats as stored values of a type, rounded half to even; others as they are."""
    parameters = parameters_of(type_)
    if parameters is None:
        return value
    if element_type_of(value) != f32:
        raise Unsupported("has results that are no floats")
    shape = [1] * len(shape_of(value))
    if (dimension := parameters.quantized_dimension) is not None:
        shape[dimension] = shape_of(value)[dimension]

    def constant(numbers: NDArray[Any]) -> TosaReal:
        array = np.asarray(numbers, np.float32).reshape(shape)
        return lifted_array(builder, array)

    steps = TosaReal.of(builder, value) * constant(1 / parameters.scales)
    moved = steps + constant(parameters.zero_points)
    inside = moved.clipped(parameters.storage_min, parameters.storage_max)
    element_type = lowered_type(type_).element_type
    return builder.tosa(tosa_ops.CastOp, (inside.value,), shape_of(value), element_type)
