"""
Scales as multipliers and shifts, for sums and products of quantized tensors.

All arrays have a dimension for each dimension of the result, and at least one. Its size is
1, or the number of scales along it.
"""

import math
from collections.abc import Sequence
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
"""A multiplier with so many bits more than the result is off by 1/8 of a unit."""

_LARGEST_ERROR = 0.25
"""How far, in units of the result, multipliers may make a sum be off."""

_FACTOR_BITS = 30
"""Differences of stored values of 32 bits times factors of so many fit 64 bits."""

_EXACT_BITS = 16
"""Wider results have too many bits for such a promise."""


@dataclass(frozen=True)
class ScaledTensor:
    """
    How the elements of an operand or of the result are quantized.

    Raises:
        ValueError: if there is no integer arithmetic on them, with the reason.
    """

    quantized_type: ScaledQuantizedType
    rank: int
    """The rank of the result."""

    axis: int | None = None
    """The dimension of the result that scales change along, if not the type's own."""

    def __post_init__(self) -> None:
        if (reason := unsupported_cast_reason(self.quantized_type)) is not None:
            raise ValueError(reason)
        if self.quantized_type.granularity == "sub-channel":
            raise ValueError(f"type '{self.quantized_type}' has scales of blocks")

    @cached_property
    def scales(self) -> NDArray[np.float64]:
        """The scales."""
        return self._along_axis(self.quantized_type.get_scales())

    @cached_property
    def zero_points(self) -> Integers:
        """The zero points."""
        return self._along_axis(self.quantized_type.get_zero_points())

    def _along_axis(self, numbers: Array) -> Array:
        # NumPy makes numbers of 64 bits of what has no dimension.
        shape = [1] * max(self.rank, 1)
        if (axis := self.quantized_type.axis) is not None:
            shape[axis if self.axis is None else self.axis] = -1
        return numbers.reshape(shape)

    @property
    def largest_stored(self) -> int:
        """The largest absolute value that is stored."""
        return max(map(abs, self.quantized_type.storage_range))

    @property
    def largest(self) -> int:
        """The largest absolute zero-point-corrected value."""
        low, high = self.quantized_type.storage_range
        first, last = self.quantized_type.zero_point_range
        return max(high - first, last - low)

    @property
    def width(self) -> int:
        """The number of bits of a stored value."""
        return self.quantized_type.storage_type_integral_width


class Scaling(NamedTuple):
    """What integers are multiplied by, `multiplier / 2**shift`."""

    multipliers: Sequence[Integers]
    """One array for each integer that goes into the result."""

    shifts: Integers

    bits: int
    """The largest number of bits of a multiplier, or of each of its parts."""

    low_bits: int = 0
    """How many bits of a multiplier are a part of their own, if it has two parts."""

    @property
    def is_one(self) -> bool:
        """True if nothing is to be multiplied."""
        return all(bool((m == 1 << self.shifts).all()) for m in self.multipliers)


def _rounded_shift(array: Array, shift: Array | int) -> Array:
    """Numbers divided by a power of two, and rounded half up."""
    return (array + (1 << shift >> 1)) >> shift


def _reduced_to(
    multipliers: Sequence[Integers], shifts: Integers, bits: int
) -> Scaling:
    """Return a scaling with multipliers of at most so many bits."""
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
    Return the scaling of an integer in units of the product of some scales.

    It is [`rescale_multiplier`][xdsl_quant.numerics.rescale_multiplier], with the lowest
    bits of the multiplier rounded away as far as the product has to fit 64 bits.

    Args:
        factors: how the factors of the integer are quantized.
        target: how the result is.
        largest: the largest absolute value that the integer may have.

    Raises:
        ValueError: if too few bits are left for the multiplier, or if a ratio of scales is
            too large or too small.
    """
    bits = min(MULTIPLIER_BITS, 63 - largest.bit_length())
    needed = min(target.width, _EXACT_BITS) + _SPARE_BITS
    if bits < needed:
        raise ValueError(
            f"integers of up to {largest.bit_length()} bits and a multiplier of "
            f"{needed} bits, which the result needs, do not fit 64 bits"
        )
    multipliers, shifts = rescale_multiplier(
        [factor.scales for factor in factors], target.scales
    )
    scaling = _reduced_to([multipliers.astype(np.int64)], shifts.astype(np.int64), bits)
    ratios = math.prod(_exact(factor.scales) for factor in factors) / _exact(
        target.scales
    )
    if (2 * largest * abs(ratios - 1) < 1).all():
        # The scale of the target was rounded: no integer becomes another one.
        ones = np.left_shift(1, scaling.shifts)
        return scaling._replace(multipliers=[ones])
    return scaling


def sum_scaling(terms: Sequence[ScaledTensor], target: ScaledTensor) -> Scaling:
    """
    Return the scaling of two integers, each in units of its own scale, with one shift
    for both.

    The shift is that of the larger scale; the multiplier of the smaller one is rounded
    to it, half up. The sum of both products fits 64 bits. Where multipliers of 31
    bits would make a sum be off by more than a quarter of a unit, they have two parts.

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
    target_scales = _exact(target.scales)
    ratios = [_exact(term.scales) / target_scales for term in terms]
    if _largest_error(terms, ratios, scaling) <= _LARGEST_ERROR:
        return scaling
    # Both sums of products, and what is carried from one to the other, fit 63 bits.
    bits = min(30, 61 - largest.bit_length())
    shifts = shifts + (2 * bits - MULTIPLIER_BITS)
    powers = _two_to(shifts)
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
                f"would make the sum be off by {error:.2g} units"
                if is_rounded
                else "leaves no bits to be rounded away"
            )
        )
    return scaling


def _exact(scales: NDArray[np.float64]) -> Array:
    """Scales as fractions."""
    return np.array([*map(Fraction, scales.flat)], object).reshape(scales.shape)


def _two_to(exponents: Integers) -> Array:
    """Powers of two as integers of any size."""
    return 1 << exponents.astype(object)


def _largest_error(
    terms: Sequence[ScaledTensor],
    ratios: Sequence[Array],
    scaling: Scaling,
) -> float:
    """How far multipliers make a sum be off at most, in units of the result."""
    powers = _two_to(scaling.shifts)
    errors: Sequence[Array] = [
        abs(multiplier - ratio * powers) * term.largest / powers
        for term, multiplier, ratio in zip(
            terms, scaling.multipliers, ratios, strict=True
        )
    ]
    return float(sum(errors[1:], errors[0]).max())


def comparison_factors(lhs: ScaledTensor, rhs: ScaledTensor) -> tuple[int, int]:
    """
    Return the integers to multiply two integers by, each in units of its own per-tensor
    scale, to compare them. The products fit 64 bits.

    No fraction with so small a denominator lies between the quotient of scales and that of
    these integers. So the order of values of up to 30 bits is exact, and what differs by
    less than 2**-30 of itself may be equal: decimal fractions like 3 * 0.4 and 4 * 0.3 are.

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
