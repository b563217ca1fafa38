"""
Ops of TensorFlow Lite on floats in TOSA, and the fallback, which computes an op without an
integer form with floats: it dequantizes the operands, and quantizes the results, rounding
half to even.

TOSA has no division: it is a product with the reciprocal, so results may differ from those
of divisions in their last bit, and quantized ones by one unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import TensorType, f32, i1, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas import floats
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches import tosa_ops

from .building import Operand, TosaBuilder, lowered_type, parameters_of
from .elementwise import activation_of, dequantized, with_float_activation
from .moving import number, result_shape, taken

FloatLowering: TypeAlias = Callable[..., SSAValue]
"""Builds a float result, given the builder, the op, and the operands of type `f32`."""


Real: TypeAlias = "Floats | float | NDArray[np.float32]"


class Floats:
    """A tensor of floats, with operators that build ops."""

    def __init__(self, builder: TosaBuilder, value: SSAValue):
        self.builder = builder
        self.value = value

    @property
    def shape(self) -> Sequence[int]:
        return shape_of(self.value)

    def __getitem__(self, index: Any) -> Floats:
        """Some of the elements, as NumPy takes them."""
        positions = np.arange(math.prod(self.shape)).reshape(self.shape)[index]
        return Floats(self.builder, taken(self.builder, self.value, positions))

    def _operand(self, other: Real) -> SSAValue:
        if isinstance(other, Floats):
            return other.value
        array = np.asarray(other, np.float32)
        rank = len(shape_of(self.value))
        return self.builder.array(
            array if array.ndim else np.full((1,) * rank, array), f32
        )

    # NumPy leaves the operators to this class.
    __array_ufunc__ = None

    def _binary(self, op_type: type[Operation], other: Real) -> Floats:
        value = self.builder.binary(op_type, self.value, self._operand(other))
        return Floats(self.builder, value)

    def __add__(self, other: Real) -> Floats:
        return self._binary(tosa.AddOp, other)

    def __sub__(self, other: Real) -> Floats:
        return self._binary(tosa.SubOp, other)

    def __mul__(self, other: Real) -> Floats:
        operands = self.value, self._operand(other)
        shape = np.broadcast_shapes(*map(shape_of, operands))
        operands = [self.builder.with_rank(value, len(shape)) for value in operands]
        shift = self.builder.one(0, i8)
        value = self.builder.tosa(tosa.MulOp, (*operands, shift), shape, f32)
        return Floats(self.builder, value)

    def __truediv__(self, other: Floats) -> Floats:
        return self * other.unary(tosa.ReciprocalOp)

    def power(self, other: Real) -> Floats:
        """This to the power of another number."""
        return self._binary(tosa_ops.PowOp, other)

    def unary(self, op_type: type[Operation]) -> Floats:
        """A function of each element."""
        shape = shape_of(self.value)
        value = self.builder.tosa(op_type, (self.value,), shape, f32)
        return Floats(self.builder, value)

    def clamped(self, low: float, high: float) -> Floats:
        """Each element limited to a range."""
        return Floats(self.builder, self.builder.clamped(self.value, low, high))

    def reduced(self, op_type: type[Operation], axes: Sequence[int]) -> Floats:
        """A reduction along dimensions, which get size 1."""
        value = self.value
        for axis in axes:
            value = self.builder.reduced(op_type, value, axis % len(shape_of(value)))
        return Floats(self.builder, value)

    def _compared(
        self, op_type: type[Operation], lhs: SSAValue, rhs: SSAValue
    ) -> SSAValue:
        shape = np.broadcast_shapes(shape_of(lhs), shape_of(rhs))
        operands = [self.builder.with_rank(value, len(shape)) for value in (lhs, rhs)]
        return self.builder.tosa(op_type, operands, shape, i1)

    def _count(self, condition: SSAValue) -> Floats:
        shape = shape_of(condition)
        value = self.builder.tosa(tosa_ops.CastOp, (condition,), shape, i8)
        value = self.builder.tosa(tosa_ops.CastOp, (value,), shape, f32)
        return Floats(self.builder, value)

    def is_negative(self) -> Floats:
        """1 where this is negative, 0 elsewhere."""
        zero = self._operand(0.0)
        return self._count(self._compared(tosa_ops.GreaterOp, zero, self.value))

    def is_at_most(self, other: Floats) -> Floats:
        """1 where this is at most another number, 0 elsewhere."""
        operands = other.value, self.value
        return self._count(self._compared(tosa_ops.GreaterEqualOp, *operands))

    def where_negative(self, other: Floats) -> Floats:
        """Another number where this is negative."""
        builder = self.builder
        shape = np.broadcast_shapes(shape_of(self.value), shape_of(other.value))
        zero = self._operand(0.0)
        condition = self._compared(tosa_ops.GreaterOp, zero, self.value)
        values = condition, other.value, self.value
        return Floats(builder, builder.tosa(tosa_ops.SelectOp, values, shape, f32))


# Ops


def _of_expression(function: Callable[..., Floats]) -> FloatLowering:
    """An op that a formula computes."""

    def lower(builder: TosaBuilder, op: Operation, *operands: Operand) -> SSAValue:
        values = [Floats(builder, operand.value) for operand in operands]
        result = function(*values).value
        if "fused_activation_function" in op.properties:
            return with_float_activation(builder, result, activation_of(op))
        return result

    return lower


def _elu(x: Floats) -> Floats:
    return x.where_negative(x.unary(tosa_ops.ExpOp) - 1.0)


def _hard_swish(x: Floats) -> Floats:
    return x * (x + 3.0).clamped(0, 6) * (1 / 6)


def _floor_div(x: Floats, y: Floats) -> Floats:
    quotient = (x / y).unary(tosa_ops.FloorOp)
    # The product with the reciprocal may be just below or above an integer.
    remainder = (x - quotient * y) * y
    too_large = remainder.where_negative(remainder * 0.0)
    return quotient + (y * y).is_at_most(too_large) - remainder.is_negative()


def _floor_mod(x: Floats, y: Floats) -> Floats:
    return x - y * _floor_div(x, y)


def _negative(x: Floats) -> Floats:
    return x * -1.0


def _square_root(x: Floats) -> Floats:
    return x.power(0.5)


def _reciprocal_square_root(x: Floats) -> Floats:
    return x.unary(tosa_ops.RsqrtOp)


def _round(x: Floats) -> Floats:
    rounded = x.builder.tosa(tosa_ops.CastOp, (x.value,), shape_of(x.value), i32)
    value = x.builder.tosa(tosa_ops.CastOp, (rounded,), shape_of(x.value), f32)
    return Floats(x.builder, value)


def _gelu(builder: TosaBuilder, op: Any, x: Operand) -> SSAValue:
    values = Floats(builder, x.value)
    if number(op.approximate):
        inner = (values + values * values * values * 0.044715) * float(
            np.sqrt(2 / np.pi)
        )
        gate = inner.unary(tosa_ops.TanhOp) + 1.0
    else:
        gate = (values * float(np.sqrt(0.5))).unary(tosa_ops.ErfOp) + 1.0
    return (values * gate * 0.5).value


def _leaky_relu(builder: TosaBuilder, op: Any, x: Operand) -> SSAValue:
    values = Floats(builder, x.value)
    return values.where_negative(values * float(op.alpha.value.data)).value


def _prelu(builder: TosaBuilder, op: Any, x: Operand, alpha: Operand) -> SSAValue:
    values, slopes = Floats(builder, x.value), alpha.value
    slopes = builder.with_rank(slopes, len(x.shape))
    return values.where_negative(values * Floats(builder, slopes)).value


def _exponentials(builder: TosaBuilder, x: Operand, beta: float) -> Floats:
    values = Floats(builder, x.value)
    return (values - values.reduced(tosa.ReduceMaxOp, (-1,))) * beta


def _softmax(builder: TosaBuilder, op: Any, x: Operand) -> SSAValue:
    beta = cast(float, op.beta.value.data)
    values = _exponentials(builder, x, beta).unary(tosa_ops.ExpOp)
    return (values / values.reduced(tosa.ReduceSumOp, (-1,))).value


def _log_softmax(builder: TosaBuilder, op: Any, x: Operand) -> SSAValue:
    values = _exponentials(builder, x, 1.0)
    total = values.unary(tosa_ops.ExpOp).reduced(tosa.ReduceSumOp, (-1,))
    return (values - total.unary(tosa_ops.LogOp)).value


def _l2_normalization(builder: TosaBuilder, op: Any, x: Operand) -> SSAValue:
    values = Floats(builder, x.value)
    squares = (values * values).reduced(tosa.ReduceSumOp, (-1,))
    smallest = Floats(
        builder, builder.clamped(squares.value, 1e-12, float(np.finfo(np.float32).max))
    )
    return (values * smallest.unary(tosa_ops.RsqrtOp)).value


def _reduction(op_type: type[Operation], *, is_mean: bool = False) -> FloatLowering:
    def lower(builder: TosaBuilder, op: Any, x: Operand, axes: Operand) -> SSAValue:
        dimensions = sorted({axis % len(x.shape) for axis in axes.numbers})
        values = Floats(builder, x.value).reduced(op_type, dimensions)
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
    values: Any = Floats(builder, x.value)
    resized: Any = floats.resize_bilinear(values, (height, width), *options)
    return resized.value


LOWERINGS: Mapping[type[Operation], FloatLowering] = {
    tfl.DivOp: _of_expression(Floats.__truediv__),
    tfl.FloorDivOp: _of_expression(_floor_div),
    tfl.FloorModOp: _of_expression(_floor_mod),
    tfl.PowOp: _of_expression(Floats.power),
    tfl.NegOp: _of_expression(_negative),
    tfl.SqrtOp: _of_expression(_square_root),
    tfl.RsqrtOp: _of_expression(_reciprocal_square_root),
    tfl.RoundOp: _of_expression(_round),
    tfl.EluOp: _of_expression(_elu),
    tfl.GeluOp: _gelu,
    tfl.HardSwishOp: _of_expression(_hard_swish),
    tfl.LeakyReluOp: _leaky_relu,
    tfl.PReluOp: _prelu,
    tfl.SoftmaxOp: _softmax,
    tfl.LogSoftmaxOp: _log_softmax,
    tfl.L2NormalizationOp: _l2_normalization,
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

    def constant(numbers: Any) -> Floats:
        array = np.asarray(numbers, np.float32).reshape(shape)
        return Floats(builder, builder.array(array, f32))

    steps = Floats(builder, value) * constant(1 / parameters.scales)
    moved = steps + constant(parameters.zero_points)
    inside = moved.clamped(parameters.storage_min, parameters.storage_max)
    element_type = lowered_type(type_).element_type
    return builder.tosa(tosa_ops.CastOp, (inside.value,), shape_of(value), element_type)
