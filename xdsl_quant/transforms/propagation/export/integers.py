"""
Scaled integers: tensors of integers with scale, zero point, bounds and error bounds.

An integer `n` represents `(n - zero_point) * scale`. Scales are exact fractions rather
than rounded floats, so the scale of a product is the exact product of scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import gcd
from typing import TypeAlias

from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.expression import Bounds, are_within
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.fixed_point import MAX_SHIFT, MIN_SHIFT
from xdsl_quant.unsupported import Unsupported

HALF = Fraction(1, 2)

Scales: TypeAlias = tuple[Fraction, ...]
"""A single scale, or one scale for each index of an axis."""

MULTIPLIER_BITS = 31
"""Number of significant bits of a multiplier."""

SUM_BITS = 42
"""
Maximum width of a sum in bits after alignment of the terms to one scale. More bits make
terms more exact, but leave fewer of 63 bits for the multiplier that rescales the sum.
"""


def round_half_up(x: Fraction) -> int:
    """Round to the nearest integer, half up."""
    return (x + HALF).__floor__()


def _is_near(x: Fraction, y: Fraction) -> bool:
    return abs(x - y) <= x / (1 << MULTIPLIER_BITS)


@dataclass(frozen=True, eq=False)
class ScaledRange:
    """Scale, zero point and bounds of integers."""

    scales: Scales
    axis: int | None
    """Tensor dimension, or loop, with one scale per index; `None` for a single scale."""

    zero_point: int
    bounds: Bounds

    @property
    def scale(self) -> Fraction:
        """Largest scale."""
        return max(self.scales)

    @property
    def largest(self) -> int:
        """Largest absolute zero-point-corrected value."""
        return max(abs(bound - self.zero_point) for bound in self.bounds)


@dataclass(frozen=True, eq=False)
class Integers(ScaledRange):
    """A tensor of scaled integers, or an element of one in a loop."""

    value: SSAValue
    """Signless integers, treated as unsigned if the bounds require it."""

    array: Array | None = None
    """Elements if they are constant, else `None`."""

    error: Fraction = Fraction(0)
    """Upper bound on the deviation from exact computation with the values at ports."""

    difference: Fraction = Fraction(0)
    """
    Upper bound on the deviation of the exact result from the result obtained when every
    port is rescaled.
    """

    rounding: Fraction = Fraction(0)
    """Upper bound on the deviation that the last rescale introduced."""

    port: ScaledQuantizedType | None = None
    """Type of the last port through which the value passed."""

    is_same_at_port: bool = False
    """True if rescaling only at the last port equals rescaling at every port."""

    def with_result(self, value: SSAValue, bounds: Bounds) -> Integers:
        """Return the result of an op, with the scales and errors of these integers."""
        return replace(
            self,
            value=value,
            bounds=bounds,
            array=None,
            port=None,
            is_same_at_port=False,
        )

    def with_scale_of(self, reference: Integers) -> Integers | None:
        """
        Return these integers with the scales of `reference`, or `None` if the scales
        differ by more than the precision of a multiplier. Smaller differences come from
        rounding, e.g. of the scale of a bias, which is a product.
        """
        if len(self.scales) != len(reference.scales):
            return None
        if len(self.scales) > 1 and self.axis != reference.axis:
            return None
        pairs = [*zip(self.scales, reference.scales, strict=True)]
        if not all(_is_near(scale, new) for scale, new in pairs):
            return None
        lost = max(abs(scale - new) for scale, new in pairs)
        error = self.error + lost * self.largest
        scales, axis = reference.scales, reference.axis
        return replace(self, scales=scales, axis=axis, error=error)


@dataclass(frozen=True, eq=False)
class StoredRange(ScaledRange):
    """Scale, zero point and storage range of a quantized type."""

    type: ScaledQuantizedType

    @classmethod
    def of(cls, type_: ScaledQuantizedType) -> StoredRange:
        """
        Return the parameters of a type.

        Raises:
            Unsupported: if the type is sub-channel quantized, has several zero points,
                has storage wider than 32 bits, or does not store plain integers.
        """
        if (reason := type_.unsupported_storage) is not None:
            raise Unsupported(reason)
        if not type_.is_per_tensor and type_.axis is None:
            raise Unsupported(f"type '{type_}' has sub-channel scales")
        low, high = type_.zero_point_range
        if low != high:
            raise Unsupported(f"zero points of type '{type_}' differ")
        if type_.storage_type_integral_width > 32:
            raise Unsupported(f"storage of type '{type_}' has more than 32 bits")
        scales = tuple(map(Fraction, type_.scale_array()))
        return cls(scales, type_.axis, low, type_.storage_range, type_)

    @property
    def extent(self) -> Fraction:
        """Width of the represented range."""
        low, high = self.bounds
        return (high - low) * self.scale

    def integers(self, value: SSAValue, array: Array | None = None) -> Integers:
        """Return integer values with the parameters and bounds of the type."""
        bounds = self.bounds
        if array is not None and array.size:
            bounds = int(array.min()), int(array.max())
        return Integers(
            self.scales,
            self.axis,
            self.zero_point,
            bounds,
            value,
            array,
            port=self.type,
            is_same_at_port=True,
        )

    def clamps(self, integers: Integers) -> bool:
        """Return True if this type would clamp all values in the bounds of integers."""
        low, high = (
            [(end - integers.zero_point) * scale for scale in integers.scales]
            for end in integers.bounds
        )
        first, last = (
            [(end + half - self.zero_point) * scale for scale in self.scales]
            for end, half in zip(self.bounds, (-HALF, HALF), strict=True)
        )
        return min(low) > max(last) or max(high) < min(first)

    def has_type_of(self, integers: Integers) -> bool:
        """Return True if integers have the storage type and parameters of this type."""
        return (
            scalar_or_element_type(integers.value.type)
            == self.type.signless_storage_type
            and (integers.scales, integers.axis) == (self.scales, self.axis)
            and integers.zero_point == self.zero_point
            and are_within(integers.bounds, self.bounds)
        )


def multiplier_and_shift(ratio: Fraction, bits: int) -> tuple[int, int]:
    """
    Return the multiplier of `bits` bits and the shift with `multiplier / 2**shift`
    nearest to a ratio. For 31 bits, the result is that of
    [`rescale_multiplier`][xdsl_quant.numerics.rescale_multiplier].

    Raises:
        Unsupported: if the ratio is out of range.
    """
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    exponent += ratio >= Fraction(2) ** exponent
    shift = min(bits - exponent, MAX_SHIFT)
    multiplier = round_half_up(ratio * Fraction(2) ** shift)
    if multiplier == 1 << bits:
        multiplier, shift = multiplier >> 1, shift - 1
    if shift < MIN_SHIFT or not multiplier:
        raise Unsupported(f"ratio of scales {float(ratio)} is out of range")
    return multiplier, shift


def _common_divisor(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest fraction of which both scales are integer multiples."""
    return Fraction(
        gcd(a.numerator * b.denominator, b.numerator * a.denominator),
        a.denominator * b.denominator,
    )


def aligned_scales(
    *values: ScaledRange,
) -> tuple[int | None, Sequence[Sequence[Fraction]]]:
    """
    Return the common axis of integers, and the scales of each along this axis.

    Raises:
        Unsupported: if their axes differ.
    """
    axes = {v.axis for v in values if len(v.scales) > 1}
    if len(axes) > 1:
        raise Unsupported("scales have different axes")
    count = max(len(v.scales) for v in values)
    repeated = [v.scales * (count if len(v.scales) == 1 else 1) for v in values]
    return next(iter(axes), None), repeated


def common_scale(values: Sequence[Integers]) -> Fraction:
    """
    Return the scale to which all terms of a sum are converted. This is the smallest
    scale, or a common divisor of all scales, if all scales are multiples of it up to
    rounding. Otherwise it is the scale of a term divided by a power of two; the choice
    minimizes the error among sums of at most `SUM_BITS` bits.

    Raises:
        Unsupported: if the sum has more bits for all of these scales.
    """
    scales = {scale for x in values for scale in x.scales}
    largest = max(scales)

    def fits(scale: Fraction) -> bool:
        total = sum(x.largest * round_half_up(x.scale / scale) for x in values)
        return total.bit_length() <= SUM_BITS

    for scale in (min(scales), reduce(_common_divisor, scales)):
        if largest / scale < 1 << MULTIPLIER_BITS and fits(scale):
            if all(_is_near(s, round_half_up(s / scale) * scale) for s in scales):
                return scale
    candidates: list[tuple[Fraction, Fraction]] = []
    for base in {x.scale for x in values}:
        finer = (base / (1 << power) for power in reversed(range(MULTIPLIER_BITS)))
        if (scale := next(filter(fits, finer), None)) is not None:
            inexact = sum(x.largest for x in values if x.scales != (base,))
            candidates.append((inexact * scale / 2, scale))
    if not candidates:
        raise Unsupported(f"terms of a sum need more than {SUM_BITS} bits")
    return min(candidates)[1]
