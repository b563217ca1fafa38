"""
Multipliers and shifts for the scales of sums and products of quantized tensors.

Arrays broadcast to the result: each dimension has size 1 or one element per scale. For a
result of rank 0, arrays have one dimension.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.numerics import rescale_multiplier
from xdsl_quant.numerics.primitives import Array, Integers
from xdsl_quant.transforms.building.quantization_arithmetic import (
    unsupported_cast_reason,
)

MULTIPLIER_BITS = 31

_SPARE_BITS = 3
"""Bits of a multiplier beyond the width of the result: they limit the error to 1/8 unit."""

_LARGEST_ERROR = 0.25
"""Largest error of a sum that rounded multipliers may cause, in units of the result."""

_FACTOR_BITS = 30
"""Bits of the factors of comparisons; their products with 33-bit values fit 64 bits."""

_EXACT_BITS = 16
"""Result width in bits beyond which multipliers need no more bits."""


@dataclass(frozen=True)
class ScaledTensor:
    """
    Quantized type of an operand or result, with parameters broadcastable to the result.

    Raises:
        ValueError: if the type does not support integer arithmetic; the message says why.
    """

    quantized_type: ScaledQuantizedType
    rank: int
    """Rank of the result."""

    axis: int | None = None
    """Result dimension along which scales vary; by default the quantized dimension."""

    def __post_init__(self) -> None:
        if (reason := unsupported_cast_reason(self.quantized_type)) is not None:
            raise ValueError(reason)
        if self.quantized_type.granularity == "sub-channel":
            raise ValueError(
                f"unsupported sub-channel type '{self.quantized_type}', expected "
                "per-tensor or per-axis scales"
            )

    @cached_property
    def scales(self) -> NDArray[np.float64]:
        """Scales, broadcastable to the result."""
        return self._along_axis(self.quantized_type.get_scales())

    @cached_property
    def zero_points(self) -> Integers:
        """Zero points, broadcastable to the result."""
        return self._along_axis(self.quantized_type.get_zero_points())

    def _along_axis(self, numbers: Array) -> Array:
        # NumPy would convert arrays of rank 0 to 64-bit scalars.
        shape = [1] * max(self.rank, 1)
        if (axis := self.quantized_type.axis) is not None:
            shape[axis if self.axis is None else self.axis] = -1
        return numbers.reshape(shape)

    @property
    def largest_stored(self) -> int:
        """Largest absolute stored value."""
        return max(map(abs, self.quantized_type.storage_range))

    @property
    def largest(self) -> int:
        """Largest absolute zero-point-corrected value."""
        low, high = self.quantized_type.storage_range
        first, last = self.quantized_type.zero_point_range
        return max(high - first, last - low)

    @property
    def width(self) -> int:
        """Number of bits of a stored value."""
        return self.quantized_type.storage_type_integral_width


class Formula(NamedTuple):
    """Elementwise function of zero-point-corrected integers."""

    combine: Callable[..., Integers]
    """NumPy function of the operands."""

    is_sum: bool = False
    """True for sums: one multiplier per operand. False: one multiplier for the result."""


class Scaling(NamedTuple):
    """Fixed-point factors of integers, `multiplier / 2**shift`."""

    multipliers: Sequence[Integers]
    """One array per term of a sum, otherwise a single array."""

    shifts: Integers

    bits: int
    """Largest number of bits of a multiplier, or of each part of a split multiplier."""

    low_bits: int = 0
    """Bits of the low part of split multipliers; 0 if multipliers are not split."""

    @property
    def is_one(self) -> bool:
        """True if all factors are 1."""
        return all(bool((m == 1 << self.shifts).all()) for m in self.multipliers)


def _rounded_shift(array: Array, shift: Array | int) -> Array:
    """Divide by a power of two, and round half up."""
    return (array + (1 << shift >> 1)) >> shift


def _reduced_to(
    multipliers: Sequence[Integers], shifts: Integers, bits: int
) -> Scaling:
    """Round multipliers to at most `bits` bits, and return the scaling."""
    surplus = MULTIPLIER_BITS - bits
    if (shifts <= surplus).any():
        raise ValueError(
            f"a ratio of scales is too large for a multiplier of {bits} bits"
        )
    multipliers = [_rounded_shift(array, surplus) for array in multipliers]
    return Scaling(multipliers, shifts - surplus, bits)


def product_scaling(
    factors: Sequence[ScaledTensor], target: ScaledTensor, largest: int
) -> Scaling:
    """
    Return the scaling from a product of quantized values to the result.

    The scaling is that of [`rescale_multiplier`][xdsl_quant.numerics.rescale_multiplier],
    with the multiplier rounded to fewer bits if products would exceed 64 bits.

    Args:
        factors: quantization of the factors of the product.
        target: quantization of the result.
        largest: largest absolute value of the product.

    Raises:
        ValueError: if the multiplier has too few bits, or a ratio of scales is out of
            range.
    """
    bits = min(MULTIPLIER_BITS, 63 - largest.bit_length())
    needed = min(target.width, _EXACT_BITS) + _SPARE_BITS
    if bits < needed:
        raise ValueError(
            f"products of integers of up to {largest.bit_length()} bits and the required "
            f"multiplier of {needed} bits exceed 64 bits"
        )
    multipliers, shifts = rescale_multiplier(
        [factor.scales for factor in factors], target.scales
    )
    scaling = _reduced_to([multipliers.astype(np.int64)], shifts.astype(np.int64), bits)
    ratios = math.prod(
        _as_fractions(factor.scales) for factor in factors
    ) / _as_fractions(target.scales)
    if (2 * largest * abs(ratios - 1) < 1).all():
        # Scaling by this ratio, which is close to 1, changes no integer.
        ones = np.left_shift(1, scaling.shifts)
        return scaling._replace(multipliers=[ones])
    return scaling


def sum_scaling(terms: Sequence[ScaledTensor], target: ScaledTensor) -> Scaling:
    """
    Return the scaling of the two terms of a sum, with a common shift.

    The common shift is that of the term with the larger scale; the multiplier of the other
    term is rounded half up to this shift. The sum of both products fits 64 bits. If
    multipliers of 31 bits cause an error of more than a quarter of a unit of the result,
    they are split into a high and a low part.

    Raises:
        ValueError: if a ratio of scales is too large or too small.
    """
    pairs = [rescale_multiplier([term.scales], target.scales) for term in terms]
    all_shifts = [shifts.astype(np.int64) for _, shifts in pairs]
    shifts = np.minimum(*all_shifts)
    multipliers = [
        _rounded_shift(multiplier.astype(np.int64), shift - shifts)
        for (multiplier, _), shift in zip(pairs, all_shifts, strict=True)
    ]
    largest = max(term.largest for term in terms)
    bits = min(MULTIPLIER_BITS, 62 - largest.bit_length())
    scaling = _reduced_to(multipliers, shifts, bits)
    target_scales = _as_fractions(target.scales)
    ratios = [_as_fractions(term.scales) / target_scales for term in terms]
    if _largest_error(terms, ratios, scaling) <= _LARGEST_ERROR:
        return scaling
    # High and low sums fit 63 bits, also after the carry is added.
    bits = min(30, 61 - largest.bit_length())
    shifts = shifts + (2 * bits - MULTIPLIER_BITS)
    powers = _integer_powers(shifts)
    multipliers = [((2 * r * powers + 1) // 2).astype(np.int64) for r in ratios]
    scaling = Scaling(multipliers, shifts, bits, low_bits=bits)
    error = _largest_error(terms, ratios, scaling)
    is_rounded = bool((shifts > bits).all())
    if not is_rounded or error > _LARGEST_ERROR:
        ratio = max(float((term.scales / target.scales).max()) for term in terms)
        raise ValueError(
            f"a scale {ratio:.6g} times that of the result is too large: its multiplier "
            f"of {2 * bits} bits "
            + (
                f"causes an error of {error:.2g} units"
                if is_rounded
                else "has no fractional bits"
            )
        )
    return scaling


def _as_fractions(scales: NDArray[np.float64]) -> Array:
    return np.array([*map(Fraction, scales.flat)], object).reshape(scales.shape)


def _integer_powers(exponents: Integers) -> Array:
    return 1 << exponents.astype(object)


def _largest_error(
    terms: Sequence[ScaledTensor],
    ratios: Sequence[Array],
    scaling: Scaling,
) -> float:
    """Return the largest error of a sum due to its multipliers, in units of the result."""
    powers = _integer_powers(scaling.shifts)
    errors: Sequence[Array] = [
        abs(multiplier - ratio * powers) * term.largest / powers
        for term, multiplier, ratio in zip(
            terms, scaling.multipliers, ratios, strict=True
        )
    ]
    return float(sum(errors[1:], errors[0]).max())


def comparison_factors(lhs: ScaledTensor, rhs: ScaledTensor) -> tuple[int, int]:
    """
    Return two integer factors. Zero-point-corrected values, multiplied by these factors,
    have the order of the real values. Scales are per-tensor; the products fit 64 bits.

    The quotient of the factors is the best approximation of the quotient of the scales with
    integers of up to 2**30. The order of values of up to 30 bits is therefore exact. Values
    with a relative difference below 2**-30 may compare equal, e.g. 3 * 0.4 and 4 * 0.3.

    Raises:
        ValueError: if a ratio of scales is too large.
    """
    ratio = Fraction(float(lhs.scales.flat[0])) / Fraction(float(rhs.scales.flat[0]))
    is_less = ratio < 1
    nearest = (ratio if is_less else 1 / ratio).limit_denominator(1 << _FACTOR_BITS)
    if not nearest:
        raise ValueError(
            f"a ratio of scales of {float(max(ratio, 1 / ratio)):.6g} is too large to "
            "compare values"
        )
    first, second = nearest.as_integer_ratio()
    return (first, second) if is_less else (second, first)
