"""
Primitives as TOSA ops: products with multipliers become `tosa.rescale`, and functions of
stored values become `tosa.table`.
"""

import math
from collections.abc import Callable
from typing import Any, NoReturn, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import FloatAttr, f32, i8, i16, i32
from xdsl.ir import SSAValue

from xdsl_quant.frontends.tflite.formulas import elementwise, fixed_point, tables
from xdsl_quant.frontends.tflite.formulas.fixed_point import Multiplier
from xdsl_quant.frontends.tflite.formulas.quantized import scale_of
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.machines.expression import (
    NO_FORM,
    Expression,
    Number,
    bounds_of,
    combined,
    signed_bounds,
)
from xdsl_quant.numerics import QuantizationParameters, primitives
from xdsl_quant.numerics.primitives import Array
from xdsl_quant.unsupported import Unsupported

from .building import LARGEST_FLOAT, i48
from .expressions import (
    INT32,
    FusibleOps,
    KnownInteger,
    TosaInteger,
    TosaReal,
    TosaRescaling,
    TosaTensor,
    TosaTruth,
    definition,
    fits_i32,
    lift_array,
    operand,
    product,
    tosa_form,
)

# Products with multipliers


@tosa_form("rescaled")
def _rescaled(x: TosaInteger, multiplier: Multiplier) -> TosaInteger:
    exponent = multiplier[1]
    if isinstance(exponent, Expression) or x.parts.shifted is not None:
        return definition(primitives.rescaled)(x, multiplier)
    rescaling = TosaRescaling.by(x, Multiplier(*multiplier))
    if not np.ndim(exponent) and not rescaling.is_valid and exponent < 30:
        return definition(primitives.rescaled)(x, multiplier)
    return rescaling.expression()


@tosa_form("rescale_wide")
def _rescaled_wide(x: TosaInteger, multiplier: Multiplier) -> TosaInteger:
    if x.element_type != i48:
        return definition(fixed_point.rescale_wide)(x, multiplier)
    return TosaRescaling.by(x, multiplier, is_wide=True).expression()


def _tensor_first(lhs: Number, rhs: Number) -> tuple[TosaInteger, Number]:
    """Return the operands of a commutative function, swapped if the first is a constant."""
    if isinstance(lhs, TosaInteger):
        return lhs, rhs
    return cast(TosaInteger, rhs), lhs


@tosa_form("rounded_product")
def _rounded_product(lhs: Number, rhs: Number, exponent: Number) -> TosaInteger:
    x, factor = _tensor_first(lhs, rhs)
    whole = x * factor
    if isinstance(exponent, TosaInteger):
        return (whole + (1 << (exponent - 1))) >> exponent
    bits = int(cast(SupportsIndex, exponent))
    low, high = ((bound + (1 << (bits - 1))) >> bits for bound in whole.bounds)
    # At least one factor is not the smallest integer, so the product does not overflow.
    bounds = max(low, INT32[0]), min(high, INT32[1])

    def build() -> SSAValue:
        value = operand(factor, x, i32, is_checked=False)
        return product(x.builder, x.low, value, bits)

    return TosaInteger(whole.builder, build, whole.shape, i32, bounds)


@tosa_form("doubling_high_product")
def _doubling_high_product(lhs: Number, rhs: Number) -> TosaInteger:
    x, factor = _tensor_first(lhs, rhs)
    result = _rounded_product(x, factor, 31)
    if isinstance(factor, Expression):
        return result
    source, left = x.parts.shifted or (x, 0)
    rescaling = TosaRescaling(source, int(factor), 31 - left)
    return rescaling.expression(result.bounds) if rescaling.is_valid else result


# Shifts


@tosa_form("rounding_divide")
def _rounding_divide(values: Number, exponent: Number) -> Number:
    if bounds_of(exponent) == (0, 0):
        return values
    x = _lift(values, exponent)
    is_away = x.bounds[0] < 0
    low, high = (
        combined(lambda end, bits: (end + (1 << bits >> 1)) >> bits, bound, exponent)
        for bound in (x.bounds[0], x.bounds[1])
    )
    bounds = low[0], high[1]
    if isinstance(exponent, TosaInteger):
        divided = _divided_by_power if is_away else _rounded_up
        return divided(x, exponent).with_bounds(bounds)
    bits = int(cast(SupportsIndex, exponent))
    if (rescaling := x.parts.rescale) is not None and rescaling.shift == 31:
        return rescaling._replace(shift=31 + bits).expression(bounds)
    half = 1 << (bits - 1)
    if not fits_i32((x.bounds[0] + half - is_away, x.bounds[1] + half)):
        return _divided(x, bits, is_away).with_bounds(bounds)
    moved = x + half
    if is_away:
        moved = moved - (x < 0)
    return (moved >> bits).with_bounds(bounds)


@tosa_form("half_sum")
def _half_sum(lhs: Number, rhs: Number) -> TosaInteger:
    x, other = _tensor_first(lhs, rhs)
    total = x + other
    if fits_i32((total.bounds[0], total.bounds[1] + 1)):
        return cast(TosaInteger, _rounding_divide(total, 1))
    mean = _mean(x, other, total.bounds[0] < 0)
    low, high = ((bound + 1) >> 1 for bound in total.bounds)
    return mean.with_bounds((low, high))


@tosa_form("saturating_shift")
def _saturating_shift(values: Number, left: Number, bits: int = 32) -> TosaInteger:
    x = _lift(values, left)
    shifted = x << left
    low, high = signed_bounds(bits)
    if bits < 32 or fits_i32(shifted.bounds):
        return shifted.clipped(low, high)

    def limit(bound: int) -> Number:
        if not isinstance(left, TosaInteger):
            return bound >> int(cast(SupportsIndex, left))
        return _lift(bound, left) >> left

    builder, shape = shifted.builder, shifted.shape
    result = TosaInteger(builder, lambda: shifted.low, shape, i32, INT32)
    if shifted.bounds[1] > high:
        result = (x > limit(high)).chosen(high, result)
    if shifted.bounds[0] < low:
        result = (x >= limit(low)).chosen(result, low)
    bounds = max(shifted.bounds[0], low), min(shifted.bounds[1], high)
    return TosaInteger(builder, lambda: result.low, shape, i32, bounds)


def _lift(number: Number, like: Number) -> TosaInteger:
    """Return a number as an expression of the rank of `like`."""
    if isinstance(number, TosaTruth):
        return number.number
    if isinstance(number, TosaInteger):
        return number
    tensor = cast(TosaInteger, like)
    array = np.full((1,) * tensor.ndim, bounds_of(number)[0])
    return lift_array(tensor.builder, array)


def _mean(a: TosaInteger, b: Number, is_away: bool) -> TosaInteger:
    """Return `(a + b) / 2` without overflow, rounding half up or away from zero."""
    parity = b & 1 if isinstance(b, TosaInteger) else int(cast(SupportsIndex, b)) & 1
    half = b >> 1 if isinstance(b, TosaInteger) else int(cast(SupportsIndex, b)) >> 1
    parities = (a & 1) + parity
    mean = (a >> 1) + half + ((parities + 1) >> 1)
    if not is_away:
        return mean
    # Round odd sums down if negative: half away from zero.
    is_less = (mean <= 0) & (parities == 1)
    return mean - cast(TosaTruth, is_less)


def _divided(x: TosaInteger, bits: int, is_away: bool) -> TosaInteger:
    """
    Return `x / 2**bits` without overflow, rounded half up or away from zero: the
    quotient rounded down, plus 1 if the remainder is at least half.
    """
    mask = (1 << bits) - 1
    threshold: Number = mask >> 1
    if is_away:
        threshold = (x < 0).number + threshold
    return (x >> bits) + ((x & mask) > threshold).number


def _divided_by_power(x: TosaInteger, bits: TosaInteger) -> TosaInteger:
    """
    Return `x / 2**bits` rounded half away from zero: the quotient rounded down, plus 1
    if the remainder is at least half; 0 for more than 31 bits.
    """
    inside = bits.minimum(31)
    ones = (1 << inside) - 1
    mask = TosaInteger(x.builder, lambda: ones.low, bits.shape, i32, (0, INT32[1]))
    threshold = (mask >> 1) + (x < 0).number
    remainder = x.combined("and", mask, mask.bounds)
    quotient = (x >> inside) + (remainder > threshold).number
    return quotient if bits.bounds[1] <= 31 else (bits > 31).chosen(0, quotient)


def _rounded_up(x: TosaInteger, bits: TosaInteger) -> TosaInteger:
    """
    Return `x / 2**bits` rounded half up for non-negative `x`: shift right by `bits - 1`,
    then round; 0 for more than 31 bits.
    """
    twice = x >> (bits - 1).minimum(31)
    return (twice + 1) >> 1


# Stored values


@tosa_form("stored_values")
def _stored_values(x: TosaInteger, zero_point: int, low: int, high: int) -> TosaInteger:
    moved = x + zero_point
    clipped = moved.clipped(low, high)
    if x.parts.rescale is None:
        return clipped
    result = clipped.with_bounds(clipped.bounds)
    result.parts = FusibleOps(saturated=(x.parts.rescale, zero_point, low, high))
    return result


@tosa_form("below_largest")
def _below_largest(values: TosaInteger) -> TosaInteger:
    result = values - values.max(axis=-1, keepdims=True)
    result.bounds = result.bounds[0], 0
    return result


@tosa_form("lookup")
def _lookup(table: Array, indices: TosaInteger) -> TosaInteger:
    builder, shape = indices.builder, indices.shape
    bounds = int(table.min()), int(table.max())
    x, factor, least = indices.linear or (indices, 1, 0)
    if x.element_type == i8 and factor == 1 and bounds[1] - bounds[0] < 256:
        unused = 128 - least
        whole = np.pad(table, (unused, 256 - len(table) - unused), "edge")
        offset = 128 if bounds[1] > 127 else 0

        def build_table() -> SSAValue:
            operands = x.native, builder.array(whole - offset, i8)
            return builder.tosa(tosa_ops.TableOp, operands, shape, i8)

        stored = bounds[0] - offset, bounds[1] - offset
        return TosaInteger(builder, build_table, shape, i8, stored) + offset

    def build() -> SSAValue:
        entries = builder.array(table.reshape(1, -1, 1), i32)
        rows = builder.with_shape(indices.value, (1, math.prod(shape)))
        return builder.with_shape(builder.gather_rows(entries, rows), shape)

    return TosaInteger(builder, build, shape, i32, bounds)


@tosa_form("interpolated_lookup")
def _interpolated_lookup(table: Array, x: TosaInteger) -> TosaInteger:
    if x.element_type != i16:
        return definition(tables.interpolated_lookup)(table, x)
    slopes = np.diff(table)
    if slopes.min() < -32768 or slopes.max() > 32767:
        raise Unsupported(
            "has a table with steps of more than 16 bits, which TOSA does not support"
        )
    builder = x.builder

    def build() -> SSAValue:
        operands = x.native, builder.array(table, i16)
        fine = builder.tosa(tosa_ops.TableOp, operands, x.shape, i32)
        # `DOUBLE_ROUND` rounds once for shifts up to 31.
        return builder.rescale(fine, Multiplier(1 << 24, 0), i16)

    return TosaInteger(builder, build, x.shape, i16, signed_bounds(16))


class _StoredRange(np.ndarray[Any, Any]):
    """Array of all 8-bit stored values, in which `radicand` replaces negative ones by 0."""

    def primitive(self, name: str) -> Callable[..., Array] | None:
        return self.without_negative if name == "radicand" else None

    @staticmethod
    def without_negative(values: Array) -> Array:
        return np.maximum(values, 0)


@tosa_form("tabulate")
def _tabulate(
    values: TosaInteger,
    low: int,
    high: int,
    function: Callable[[TosaInteger | Array], TosaInteger],
) -> TosaInteger:
    base = values.linear[0] if values.linear else values
    if base.element_type != i8 or high - low > 255:
        return function(values)
    entries = function(np.arange(low, high + 1).view(_StoredRange))
    return _lookup(np.asarray(entries), values - low)


@tosa_form("radicand")
def _radicand(values: TosaTensor) -> NoReturn:
    raise Unsupported(
        "has 16-bit values, expected 8-bit values for a square root table"
    )


@tosa_form("round_away")
def _round_away(values: TosaTensor) -> NoReturn:
    raise Unsupported("has floats of 64 bits, expected at most 32 bits")


# Divisors


@tosa_form("quotient")
def _quotient(x: TosaInteger, divisors: TosaTensor | Array) -> TosaInteger:
    if isinstance(divisors, TosaTensor):
        raise Unsupported("divides by non-constant integers")
    ones = [1] * (x.ndim - np.ndim(divisors))
    divisor = KnownInteger(
        x.builder, np.reshape(divisors, (*ones, *np.shape(divisors)))
    )
    return x.combined("divide", divisor, x.bounds)


# Floats


@tosa_form("floor_divide")
def _floor_divide(x: TosaReal, y: TosaReal) -> TosaReal:
    operands: tuple[TosaTensor, TosaTensor] = x, y
    if any(isinstance(number, TosaInteger) for number in operands):
        raise Unsupported(NO_FORM)
    quotient = (x / y).rounded("floor")
    # The product with the reciprocal may be just below or above the exact quotient.
    remainder = (x - quotient * y) * y
    is_less = remainder < 0
    too_large = is_less.chosen(remainder * 0.0, remainder)
    return quotient + (y * y <= too_large) - is_less


@tosa_form("floor_modulo")
def _floor_modulo(x: TosaReal, y: TosaReal) -> TosaReal:
    return x - y * _floor_divide(x, y)


@tosa_form("erfc")
def _erfc(values: TosaReal) -> TosaReal:
    return values.erfc()


@tosa_form("quantize")
def _quantize_exactly(x: TosaReal, result: QuantizationParameters) -> TosaInteger:
    """
    Quantize floats as if they were divided by the scale exactly.

    Multiplying by the reciprocal of the scale gives a guess that is off by at most one;
    comparisons with the smallest floats that quantize to it and its successor correct it.
    """
    builder, shape = x.builder, x.shape
    # Make infinities finite, and NaN the smallest float.
    clamped = builder.tosa(
        tosa.ClampOp,
        (x.value,),
        shape,
        f32,
        max_val=FloatAttr(LARGEST_FLOAT, f32),
        min_val=FloatAttr(-LARGEST_FLOAT, f32),
        nan_mode=tosa.NanModeAttr(tosa.NanMode.IGNORE),
    )
    numbers = TosaReal.of(builder, clamped)
    low, high = result.storage_min, result.storage_max
    least = _least_floats(result)
    reciprocal = float(np.float32(1) / scale_of(result))
    moved = numbers * reciprocal + int(result.zero_points)
    guess = moved.clipped(low, high).nearest_integer()
    index = builder.with_shape((guess - low).value, (1, math.prod(shape)))

    def limit(entries: NDArray[np.float32]) -> TosaReal:
        found = builder.gather_rows(
            builder.array(entries.reshape(1, -1, 1), f32), index
        )
        return TosaReal.of(builder, builder.with_shape(found, shape))

    is_below, is_above = limit(least[:-1]) > numbers, numbers >= limit(least[1:])
    return guess - is_below.number + is_above.number


def _least_floats(result: QuantizationParameters) -> Array:
    """
    Return, for each stored value, the smallest float that is quantized to it or higher:
    -inf for the storage minimum. The entry after the last stored value is inf.
    """
    low, high = result.storage_min, result.storage_max
    stored_values = np.arange(low + 1, high + 1)
    steps = stored_values - int(result.zero_points) - 0.5
    limits = (steps * float(scale_of(result))).astype(np.float32)
    # The exact limit is one of the neighboring floats.
    for _ in range(4):
        limits = np.nextafter(limits, np.float32(-np.inf))
    for _ in range(8):
        is_less = elementwise.quantize(limits, result) < stored_values
        limits = np.where(is_less, np.nextafter(limits, np.float32(np.inf)), limits)
    return np.concatenate([[-np.inf], limits, [np.inf]]).astype(np.float32)
