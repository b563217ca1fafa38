"""
Integers that stand for real numbers, with what the compiler knows of them.

An integer `n` stands for `(n - zero_point) * scale`. A scale is an exact fraction, not a
number that is rounded to some format: the scale of a product is the product of scales.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import gcd
from typing import TypeAlias

from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.unsupported import Unsupported

HALF = Fraction(1, 2)

Scales: TypeAlias = tuple[Fraction, ...]
"""One scale, or one for each index of an axis."""

MULTIPLIER_BITS = 31
"""Significant bits of a multiplier."""

SUM_BITS = 42
"""
Bits of terms that are brought to one scale. The more they have, the nearer the multipliers
of terms are to quotients of scales; and the fewer bits are left of 63 for the multiplier of
the sum.
"""

_MIN_SHIFT, _MAX_SHIFT = 2, 62


def nearest(x: Fraction) -> int:
    """The nearest integer; halves are rounded up."""
    return (x + HALF).__floor__()


def _is_near(x: Fraction, y: Fraction) -> bool:
    return abs(x - y) <= x / (1 << MULTIPLIER_BITS)


@dataclass(frozen=True, eq=False)
class Integers:
    """A tensor of integers, or an element of one in a loop."""

    value: SSAValue
    """Signless integers."""

    scales: Scales
    axis: int | None
    """The dimension of the tensor, or the loop, that scales belong to."""

    zero_point: int
    low: int
    """No integer is less."""

    high: int
    """No integer is greater."""

    is_signed: bool = True
    """How narrow integers are extended."""

    array: Array | None = None
    """The integers, if they are constant."""

    error: Fraction = Fraction(0)
    """
    How far a number is at most from the exact result of what was computed since numbers
    were stored at ports.
    """

    difference: Fraction = Fraction(0)
    """
    How far that exact result is at most from the number that is there if all ports are
    rescaled.
    """

    rounding: Fraction = Fraction(0)
    """How far the last rescale took a number from the exact result."""

    port: ScaledQuantizedType | None = None
    """The type of the last port."""

    is_same_at_port: bool = False
    """Whether it becomes what it is if all ports are rescaled, once it has that type."""

    @property
    def scale(self) -> Fraction:
        """The largest scale."""
        return max(self.scales)

    @property
    def largest(self) -> int:
        """No zero-point-corrected integer has a greater absolute value."""
        return max(abs(self.low - self.zero_point), abs(self.high - self.zero_point))

    def computed(self, value: SSAValue, low: int, high: int) -> Integers:
        """The integers that an op computes from these, which no port has yet."""
        return replace(
            self,
            value=value,
            low=low,
            high=high,
            array=None,
            port=None,
            is_same_at_port=False,
        )

    def with_scale_of(self, other: Integers) -> Integers | None:
        """
        The same integers with scales that are equal to these, but for the precision of a
        multiplier; `None` if they are not. The scale of a bias is a product that was
        rounded, for instance.
        """
        if len(self.scales) != len(other.scales):
            return None
        if len(self.scales) > 1 and self.axis != other.axis:
            return None
        lost = Fraction(0)
        for scale, new in zip(self.scales, other.scales, strict=True):
            if not _is_near(scale, new):
                return None
            lost = max(lost, abs(scale - new))
        error = self.error + lost * self.largest
        return replace(self, scales=other.scales, axis=other.axis, error=error)


@dataclass(frozen=True)
class Port:
    """Scale, zero point and range of a type."""

    type: ScaledQuantizedType
    scales: Scales
    axis: int | None
    zero_point: int
    low: int
    high: int

    @classmethod
    def of(cls, type_: ScaledQuantizedType) -> Port:
        """
        The parameters of a type.

        Raises:
            Unsupported: if one scale along one axis does not say them, or stored values
                are no integers that stand for themselves.
        """
        if (reason := type_.unsupported_storage) is not None:
            raise Unsupported(reason)
        if not type_.is_per_tensor and type_.axis is None:
            raise Unsupported(f"type '{type_}' has scales of blocks")
        low, high = type_.zero_point_range
        if low != high:
            raise Unsupported(f"zero points of type '{type_}' differ")
        if type_.storage_type_integral_width > 32:
            raise Unsupported(f"storage of type '{type_}' has more than 32 bits")
        scales = tuple(map(Fraction, type_.scale_array()))
        return cls(type_, scales, type_.axis, low, *type_.storage_range)

    @property
    def extent(self) -> Fraction:
        """How far two numbers of the type are apart at most."""
        return (self.high - self.low) * max(self.scales)

    @property
    def reach(self) -> int:
        """The greatest absolute value of a zero-point-corrected integer."""
        return max(abs(self.low - self.zero_point), abs(self.high - self.zero_point))

    def integers(self, value: SSAValue, array: Array | None = None) -> Integers:
        """What is stored with the type."""
        low, high = self.low, self.high
        if array is not None and array.size:
            low, high = int(array.min()), int(array.max())
        return Integers(
            value,
            self.scales,
            self.axis,
            self.zero_point,
            low,
            high,
            self.type.is_signed,
            array,
            port=self.type,
            is_same_at_port=True,
        )

    def cuts_off(self, integers: Integers) -> bool:
        """Whether all of some integers stand for numbers that exceed the range."""
        low, high = (
            [(end - integers.zero_point) * scale for scale in integers.scales]
            for end in (integers.low, integers.high)
        )
        first, last = (
            [(end - self.zero_point) * scale for scale in self.scales]
            for end in (self.low - HALF, self.high + HALF)
        )
        return min(low) > max(last) or max(high) < min(first)

    def is_of(self, integers: Integers) -> bool:
        """Whether integers are stored with the type."""
        storage = self.type.signless_storage_type
        return (
            scalar_or_element_type(integers.value.type) == storage
            and integers.is_signed == self.type.is_signed
            and (integers.scales, integers.axis) == (self.scales, self.axis)
            and integers.zero_point == self.zero_point
            and self.low <= integers.low
            and integers.high <= self.high
        )


def multiplier_and_shift(ratio: Fraction, bits: int) -> tuple[int, int]:
    """
    The integers for which `multiplier / 2**shift` is nearest to a ratio, for multipliers
    with so many bits. With 31 bits they are those of
    [`rescale_multiplier`][xdsl_quant.numerics.rescale_multiplier].

    Raises:
        Unsupported: if the ratio is out of range.
    """
    numerator, denominator = ratio.numerator, ratio.denominator
    exponent = numerator.bit_length() - denominator.bit_length()
    exponent += ratio >= Fraction(2) ** exponent
    shift = min(bits - exponent, _MAX_SHIFT)
    multiplier = nearest(ratio * Fraction(2) ** shift)
    if multiplier == 1 << bits:
        multiplier, shift = multiplier >> 1, shift - 1
    if shift < _MIN_SHIFT or not multiplier:
        raise Unsupported(f"ratio of scales {float(ratio)} is out of range")
    return multiplier, shift


def _common_divisor(scales: Iterable[Fraction]) -> Fraction:
    """The largest fraction of which all scales are multiples."""

    def both(a: Fraction, b: Fraction) -> Fraction:
        return Fraction(
            gcd(a.numerator * b.denominator, b.numerator * a.denominator),
            a.denominator * b.denominator,
        )

    return reduce(both, scales)


def width_of(*bounds: int) -> IntegerType:
    """The type that holds numbers of such absolute values."""
    if max(bounds) < 1 << 31:
        return i32
    if max(bounds) < 1 << 62:
        return i64
    raise Unsupported("numbers of more than 62 bits")


def fitting_type(low: int, high: int) -> IntegerType:
    """The type of 32 or 64 bits that holds integers of a range."""
    return width_of(abs(low), abs(high))


def aligned_scales(
    values: Sequence[Integers],
) -> tuple[int | None, list[Sequence[Fraction]]]:
    """
    The axis of some integers, and their scales along it.

    Raises:
        Unsupported: if they belong to different dimensions.
    """
    axes = {v.axis for v in values if len(v.scales) > 1}
    if len(axes) > 1:
        raise Unsupported("scales of several dimensions")
    count = max(len(v.scales) for v in values)
    repeated = [v.scales * (count if len(v.scales) == 1 else 1) for v in values]
    return next(iter(axes), None), [*repeated]


def common_scale(values: Sequence[Integers]) -> Fraction:
    """
    The scale of a sum. It is the least scale, or a common divisor of all scales, if all
    scales are multiples of it, but for the precision of a multiplier. Otherwise it is a
    scale of a term, or a fraction of one by a power of two: that with the least error of
    those whose terms have no more than `SUM_BITS`.

    Raises:
        Unsupported: if there is no such scale.
    """
    scales = {scale for x in values for scale in x.scales}
    largest = max(scales)

    def fits(scale: Fraction) -> bool:
        total = sum(x.largest * nearest(x.scale / scale) for x in values)
        return total.bit_length() <= SUM_BITS

    for scale in (min(scales), _common_divisor(scales)):
        if largest / scale < 1 << MULTIPLIER_BITS and fits(scale):
            if all(_is_near(s, nearest(s / scale) * scale) for s in scales):
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
