"""
Fixed-point arithmetic of the integer kernels of TensorFlow Lite.

Values are `int64` arrays of any shape, or expressions that build IR. Docstrings give the
names of the corresponding functions in gemmlowp and TensorFlow Lite.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.numerics.primitives import (
    INT32_MAX,
    Integers,
    Operand,
    doubling_high_product,
    half_sum,
    leading_zeros,
    primitive,
    rounded_product,
    rounding_divide,
    saturated,
    saturating_shift,
    wrapped,
)
from xdsl_quant.unsupported import Unsupported


class Multiplier(NamedTuple):
    """Non-negative factors `value * 2**(exponent - 31)`: scalars or arrays."""

    value: Any
    """Integer from `2**30` to `2**31 - 1`, or 0."""

    exponent: Any


def quantized_multiplier(real: ArrayLike) -> Multiplier:
    """
    Return the nearest 31-bit multiplier of an `f64` factor; 0 below `2**-32`
    (`QuantizeMultiplier`).

    Raises:
        Unsupported: if a factor is infinite or NaN.
    """
    if not np.isfinite(real).all():
        raise Unsupported("has a ratio of scales that is not finite")
    mantissas, exponents = np.frexp(np.asarray(real, np.float64))
    values = np.floor(np.ldexp(mantissas, 31) + 0.5).astype(np.int64)
    is_carried = values == 1 << 31
    values = np.where(is_carried, 1 << 30, values)
    exponents = exponents.astype(np.int64) + is_carried
    is_tiny = exponents < -31
    return Multiplier(
        np.where(is_tiny, 0, values)[()], np.where(is_tiny, 0, exponents)[()]
    )


_LOG2_TOLERANCE = np.float32(1e-3)


def checked_log2(scale: float | np.floating[Any]) -> int | None:
    """
    Return the binary logarithm of an `f32` scale as an integer, or `None` if it
    deviates from an integer by 1e-3 or more (`CheckedLog2`).
    """
    value = float(np.float32(scale))
    if not 0 < value < math.inf:
        return None
    # As in the kernel: the quotient of two natural logarithms, in f32.
    logarithm = np.float32(math.log(value)) * (np.float32(1) / np.float32(math.log(2)))
    nearest = np.rint(logarithm)
    return int(nearest) if np.abs(logarithm - nearest) < _LOG2_TOLERANCE else None


@primitive
def quotient(values: Any, divisors: Any) -> Any:
    """Divide integers, rounding toward zero as C does."""
    return (values - np.fmod(values, divisors)) // divisors


def scaled_by_power(values: Any, exponent: int) -> Integers:
    """Return saturated `values * 2**exponent` (`SaturatingRoundingMultiplyByPOT`)."""
    if exponent <= 0:
        return rounding_divide(values, -exponent)
    return saturating_shift(values, exponent)


@primitive
def rescale_wide(values: Any, multiplier: Multiplier) -> Integers:
    """
    Multiply 64-bit values by the upper 16 bits of a multiplier, round half up once, and
    wrap to 32 bits (`MultiplyByQuantizedMultiplier`).

    Raises:
        Unsupported: if the multiplier is `2**14` or more, because the kernel needs a
            shift of at least 1 bit to round.
    """
    value, exponent = multiplier
    reduced = np.where(value < 0x7FFF0000, (value + (1 << 15)) >> 16, 0x7FFF)
    shift = 15 - exponent
    if np.any(shift < 1):
        raise Unsupported(
            f"has a multiplier of exponent {np.max(exponent)}, expected less than 15"
        )
    return wrapped(rounded_product(values, reduced, shift))


# Functions of fixed-point numbers


_EXP_FACTORS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""Pairs of an exponent `k`, and `exp(-2**k)` with 31 fractional bits."""


def _high_product(lhs: Integers, rhs: Operand, bits: int) -> Integers:
    """Return `lhs * rhs / 2**(bits - 1)`, rounded half up and saturated."""
    if bits == 32:
        return doubling_high_product(lhs, rhs)
    return saturated(rounded_product(lhs, rhs, bits - 1), bits)


def _constant(value: int, bits: int) -> int:
    """Return the upper `bits` bits of a 32-bit constant, rounded half away from zero."""
    return int(rounding_divide(np.array(value), 32 - bits))


def exp_of_negative(
    values: Integers, integer_bits: int = 5, bits: int = 32
) -> Integers:
    """
    Return `exp(x)` with no integer bits for `x <= 0` (`exp_on_negative_values`).

    Args:
        values: fixed-point numbers.
        integer_bits: number of integer bits of `values`; all other bits but the sign are
            fractional.
        bits: width of the numbers, 32 or 16.
    """
    fraction_bits = bits - 1 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    remainder = (values & (quarter - 1)) - quarter
    # Fourth-degree Taylor series around -1/8, for values from -1/4 to 0.
    # These sums never overflow; `wrapped` tells the interval analysis.
    x = wrapped(scaled_by_power(remainder, integer_bits) + (1 << (bits - 4)), bits)
    x2 = _high_product(x, x, bits)
    x3 = _high_product(x2, x, bits)
    x4 = _high_product(x2, x2, bits)
    fourth = wrapped(rounding_divide(x4, 2) + x3, bits)
    third = _high_product(fourth, _constant(715827883, bits), bits)
    series = wrapped(x + half_sum(third, x2), bits)
    center = _constant(1895147668, bits)
    result = center + _high_product(series, center, bits)
    if bits == 16:
        result = saturated(result, bits)
    rest = remainder - values
    for exponent, factor in _EXP_FACTORS:
        if exponent >= integer_bits:
            break
        has_part = (rest >> (fraction_bits + exponent)) & 1 == 1
        product = _high_product(result, _constant(factor, bits), bits)
        result = np.where(has_part, product, result)
    if integer_bits > 5:
        result = np.where(values < -(32 << fraction_bits), 0, result)
    return np.where(values == 0, (1 << (bits - 1)) - 1, result)


def _quotient_by_one_plus(values: Integers, bits: int) -> Integers:
    """
    Return `2 / (1 + x)` with 2 integer bits for values from 0 to 1 without integer bits, by
    Newton's method.
    """
    half = half_sum(values, (1 << (bits - 1)) - 1)
    slope = _high_product(half, _constant(-1010580540, bits), bits)
    y = wrapped(_constant(1515870810, bits) + slope, bits)
    for _ in range(3):
        error = wrapped((1 << (bits - 3)) - _high_product(half, y, bits), bits)
        step = saturating_shift(_high_product(y, error, bits), 2, bits)
        y = wrapped(y + step, bits)
    return y


def reciprocal_of_one_plus(values: Integers, bits: int = 32) -> Integers:
    """
    Return `1 / (1 + x)` for values from 0 to 1, both without integer bits
    (`one_over_one_plus_x_for_x_in_0_1`).
    """
    return saturating_shift(_quotient_by_one_plus(values, bits), 1, bits)


def logistic_of_16_bits(values: Integers) -> Integers:
    """
    Return `1 / (1 + exp(-x))` without integer bits for 16-bit values with 3 integer bits
    (`gemmlowp::logistic`).
    """
    # The smallest value has no absolute value in 16 bits.
    exponential = exp_of_negative(np.maximum(-np.abs(values), -(1 << 15)), 3, 16)
    positive = reciprocal_of_one_plus(exponential, 16)
    one = (1 << 15) - 1
    result = np.where(values > 0, positive, one - positive)
    return np.where(values == 0, 1 << 14, result)


def tanh_of_16_bits(values: Integers, integer_bits: int) -> Integers:
    """
    Return `tanh(x)` without integer bits for 16-bit values (`gemmlowp::tanh`).

    Args:
        values: fixed-point numbers.
        integer_bits: number of integer bits of `values`, from 0 to 6.
    """
    negative = np.maximum(-np.abs(values), -(1 << 15))
    exponential = exp_of_negative(negative, integer_bits + 1, 16)
    quotient = _quotient_by_one_plus(exponential, 16) - (1 << 13)
    size = saturating_shift(quotient, 2, 16)
    return np.where(values < 0, -size, np.where(values == 0, 0, size))


def inverse_square_root(values: Integers, direction: int) -> Multiplier:
    """
    Return `1 / sqrt(values)` for 32-bit values, or 1 for values up to 1
    (`GetInvSqrtQuantizedMultiplierExp`). The exponent is the right shift of the kernel,
    multiplied by `direction` (-1 for the exponent of a `Multiplier`).
    """
    # For 32-bit values, the loop of the kernel shifts by 2 at most once.
    is_large = values >= 1 << 29
    v = np.where(is_large, values >> 2, values)
    pairs = np.clip(((leading_zeros(v) - 1) >> 1) - 1, 0, 14)
    exponent = 11 + is_large - pairs
    half = rounding_divide(wrapped(v << (2 * pairs)) >> 1, 1)
    y: Any = 1 << 28
    for _ in range(5):
        cube = doubling_high_product(doubling_high_product(y, y), y)
        correction = doubling_high_product(half, scaled_by_power(cube, 6))
        y = scaled_by_power(
            doubling_high_product(y, (1 << 28) + (1 << 27)) - correction, 3
        )
    result = wrapped(doubling_high_product(y, 1518500250) << np.maximum(-exponent, 0))
    exponent = np.maximum(exponent, 0) * direction
    return Multiplier(
        np.where(values <= 1, INT32_MAX, result), np.where(values <= 1, 0, exponent)
    )


def log_of_at_least_one(values: Integers) -> Integers:
    """
    Return the natural logarithm, with 26 fractional bits, of `x >= 1` with 19
    fractional bits (`log_x_for_x_greater_than_or_equal_to_1`).
    """
    # 1/4 in the format of the powers of two, which have 25 fractional bits.
    quarter = 1 << 23
    zeros = leading_zeros(values)
    root_half = 1518500250
    normalized = saturating_shift(values, np.maximum(zeros - 1, 0))
    first = scaled_by_power(doubling_high_product(normalized, root_half), 1)
    first_power = saturated(((12 - zeros) << 25) + quarter)
    product = doubling_high_product(values, root_half)
    room = np.maximum(leading_zeros(product) - 1, 0)
    second = saturating_shift(values, room)
    second_power = saturated(((12 - room) << 25) - quarter)
    r, power = np.minimum(first, second), np.maximum(first_power, second_power)
    center = 1805811301
    mean = half_sum(r, center)
    d = wrapped(2 * (r - center))
    d2 = doubling_high_product(d, d)
    d3 = doubling_high_product(d, d2)
    numerator = doubling_high_product(d, r) + doubling_high_product(d3, 117049297)
    inner = wrapped(1057819769 + d + doubling_high_product(d2, 127690142))
    denominator = wrapped(
        doubling_high_product(mean, inner) + doubling_high_product(d, 638450708)
    )
    quotient = doubling_high_product(
        rounding_divide(numerator, 6), reciprocal_of_one_plus(denominator)
    )
    return scaled_by_power(doubling_high_product(power, 1488522236) + quotient, 1)
