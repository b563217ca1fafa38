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


def exp_of_negative(values: Integers) -> Integers:
    """
    Return `exp(x)` with 31 fractional bits for `x <= 0` with 26 fractional bits
    (`exp_on_negative_values`).
    """
    quarter = 1 << 24
    remainder = (values & (quarter - 1)) - quarter
    # Fourth-degree Taylor series around -1/8, for values from -1/4 to 0.
    # These sums never overflow 32 bits; `wrapped` tells the interval analysis.
    x = wrapped(scaled_by_power(remainder, 5) + (1 << 28))
    x2 = doubling_high_product(x, x)
    x3 = doubling_high_product(x2, x)
    x4 = doubling_high_product(x2, x2)
    third = doubling_high_product(wrapped(rounding_divide(x4, 2) + x3), 715827883)
    series = wrapped(x + half_sum(third, x2))
    result = 1895147668 + doubling_high_product(series, 1895147668)
    rest = remainder - values
    for exponent, factor in _EXP_FACTORS:
        has_part = (rest >> (26 + exponent)) & 1 == 1
        result = np.where(has_part, doubling_high_product(result, factor), result)
    return np.where(values == 0, INT32_MAX, result)


def reciprocal_of_one_plus(values: Integers) -> Integers:
    """
    Return `1 / (1 + x)` for values from 0 to 1, both with 31 fractional bits
    (`one_over_one_plus_x_for_x_in_0_1`).
    """
    half = half_sum(values, INT32_MAX)
    y = wrapped(1515870810 + doubling_high_product(half, -1010580540))
    for _ in range(3):
        error = wrapped((1 << 29) - doubling_high_product(half, y))
        y = wrapped(y + scaled_by_power(doubling_high_product(y, error), 2))
    return scaled_by_power(y, 1)


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
