"""
Mergeable histograms of values, with bins that are narrower the closer they are to 0.

Bin edges are fixed fractions of the unit, a power of two greater than all magnitudes. Each
octave below the unit is divided into bins of equal width: the highest octave into 1024, the
next one into 512, and so on, down to 64 bins per octave. Magnitudes more than 32 octaves
below the unit share one bin around 0.

If the unit doubles, each octave becomes the next lower one, which has the same number of
bins or half as many. A bin therefore lies within exactly one bin of any larger unit, and
the counts of merged histograms do not depend on the order of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, Floats, Integers
from .observations import (
    Json,
    Observation,
    check_channels,
    integers_from_json,
    range_union,
    ranges_from_json,
)

_OCTAVES = 32
"""Number of octaves below the unit."""

_FINEST_BITS = 10
"""Base-2 logarithm of the number of bins of the highest octave."""

_COARSEST_BITS = 6
"""Base-2 logarithm of the minimum number of bins per octave."""


def _magnitudes() -> Floats:
    """Return the lower edges of all bins of positive values, as fractions of the unit."""
    octaves: list[Floats] = []
    for octave in reversed(range(_OCTAVES)):
        count = 1 << max(_FINEST_BITS - octave, _COARSEST_BITS)
        octaves.append(np.ldexp(1 + np.arange(count) / count, -1 - octave))
    return np.concatenate(octaves)


_LOWER_EDGES = _magnitudes()

SMALLEST_MAGNITUDE = _LOWER_EDGES[0]
"""Upper edge of the bin around 0, as a fraction of the unit."""

MIDDLE = len(_LOWER_EDGES)
"""Index of the bin around 0, and number of bins on either side of it."""

BINS = 2 * MIDDLE + 1
"""Number of bins of a histogram."""

BIN_EDGES = np.concatenate((-1.0, -_LOWER_EDGES[::-1], _LOWER_EDGES, 1.0), axis=None)
"""Edges of the bins in ascending order, divided by the unit (a power of two)."""

_MIN_EXPONENT = -1000
"""Smallest exponent of the unit of a histogram; f64 represents `2**-exponent`."""

_MIN_F32_EXPONENT = -94
"""Smallest exponent of the unit for which the middle bin has all subnormal f32 values."""

_PIECE = 1 << 16
"""Number of values counted at a time, which fits the caches."""

_PIECE_CHANNELS = 8
"""Number of channels counted at a time; together they have about `_PIECE` bins."""


def bins_of(values: ArrayLike) -> Integers:
    """
    Return the bin indices of values, which are fractions of the histogram's unit.

    Bins exclude the edge farther from 0, so the bins of a value and of its negative are
    symmetric.
    """
    magnitudes = np.abs(values)
    above = np.minimum(np.searchsorted(_LOWER_EDGES, magnitudes, "right"), MIDDLE)
    return MIDDLE + np.where(np.less(values, 0), -above, above)


@dataclass(frozen=True, eq=False)
class Histogram(Observation):
    """Number of values per bin, for a tensor or for each channel."""

    KIND: ClassVar[str] = "histogram"

    exponents: Integers
    """Exponent of the unit. The unit is the smallest power of two above all magnitudes."""

    counts: Integers
    """Number of values per bin, with bins along the last dimension."""

    zeros: Integers
    """Number of zeros, which quantization preserves. The middle bin counts zeros, too."""

    def values_of(self, parts: ArrayLike) -> Floats:
        """Convert fractions of the channels' units to values."""
        # The unit of the largest floats is infinite.
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(parts, self.exponents))

    def parts_of(self, values: ArrayLike) -> Floats:
        """Convert values to fractions of the channels' units."""
        wide = np.asarray(values, np.float64)
        return np.asarray(np.ldexp(wide, -self.exponents))

    @property
    def of_tensor(self) -> Histogram:
        """Histogram of the values of all channels."""
        largest = self.exponents.max()
        counts = _coarser(self.counts, largest - self.exponents)
        numbers = (self.lows.min(), self.highs.max(), largest, self.zeros.sum())
        lows, highs, exponents, zeros = map(np.asarray, numbers)
        counts = counts.reshape(-1, BINS).sum(axis=0)
        return Histogram(lows, highs, exponents, counts, zeros)

    def of_channel(self, channel: int) -> Histogram:
        return Histogram(*(np.asarray(array[channel]) for array in self._arrays()))

    @classmethod
    def of(cls, values: Array, lows: Array, highs: Array) -> Histogram:
        """
        Return the histogram of finite values.

        Args:
            values: an array of shape `(channels, n)`, f32 or f64.
            lows: the smallest values, of shape `(channels,)`, or `()` for a tensor without
                channels, whose values have shape `(1, n)`.
            highs: the largest values.
        """
        exponents = _exponents(lows, highs)
        counts = _bin_counts(values, exponents.reshape(-1, 1))
        # Count without an axis if possible: with an axis, counting takes four times as
        # long.
        axis = None if len(values) == 1 else 1
        zeros = np.count_nonzero(values == 0, axis)
        return cls(
            lows,
            highs,
            exponents,
            counts.reshape(*lows.shape, BINS),
            np.reshape(zeros, lows.shape),
        )

    def _merge(self, other: Self) -> Self:
        check_channels(self.lows, other.lows)
        exponents = np.maximum(self.exponents, other.exponents)
        counts = _coarser(self.counts, exponents - self.exponents)
        counts += _coarser(other.counts, exponents - other.exponents)
        zeros = np.asarray(self.zeros + other.zeros)
        return type(self)(
            *range_union(self, other), np.asarray(exponents), counts, zeros
        )

    def to_json(self) -> Json:
        # Most bins of most channels are empty: write the other bins only.
        flat = self.counts.ravel()
        used = np.flatnonzero(flat)
        return {
            "lows": self.lows.tolist(),
            "highs": self.highs.tolist(),
            "exponents": self.exponents.tolist(),
            "used_bins": used.tolist(),
            "counts": flat[used].tolist(),
            "zeros": self.zeros.tolist(),
        }

    @classmethod
    def from_json(cls, state: Mapping[str, ArrayLike]) -> Self:
        lows, highs = ranges_from_json(state)
        used = integers_from_json(state["used_bins"], (np.size(state["used_bins"]),))
        counts = np.zeros((*lows.shape, BINS), np.int64)
        if used.size and not 0 <= used.min() <= used.max() < counts.size:
            raise ValueError("bin out of range")
        counts.ravel()[used] = integers_from_json(state["counts"], used.shape)
        exponents, zeros = (
            integers_from_json(state[name], lows.shape)
            for name in ("exponents", "zeros")
        )
        is_possible = (
            (exponents == _exponents(lows, highs))
            & (counts.min(axis=-1) >= 0)
            & (counts.max(axis=-1) > 0)
            & (zeros >= 0)
            & (zeros <= counts[..., MIDDLE])
        )
        if not is_possible.all():
            raise ValueError("inconsistent histogram")
        return cls(lows, highs, exponents, counts, zeros)


def _exponents(lows: Array, highs: Array) -> Integers:
    """Return for each range the smallest exponent with `2**exponent > abs(x)`."""
    magnitudes = np.maximum(np.abs(lows), np.abs(highs))
    _, exponents = np.frexp(magnitudes)
    exponents = np.maximum(exponents.astype(np.int64), _MIN_EXPONENT)
    return np.where(magnitudes == 0, _MIN_EXPONENT, exponents)


# Bin counts: the leading bits of a float, which are its sign, its exponent and the
# first 10 bits of its significand, determine its bin.

_LEADING_BITS = 9 + _FINEST_BITS

_DROPPED_F32_BITS = 32 - _LEADING_BITS

_DROPPED_F64_BITS = 52 - _FINEST_BITS

_SCALED_EXPONENT = 2
"""Exponent of the unit of scaled values, for which all factors are normal f32."""


@cache
def _bins_by_leading_bits() -> Integers:
    """Return the bin for each combination of leading bits of a scaled f32."""
    leading = np.arange(1 << _LEADING_BITS, dtype=np.uint32) << _DROPPED_F32_BITS
    values = np.nan_to_num(leading.view(np.float32)).astype(np.float64)
    return bins_of(np.ldexp(values, -_SCALED_EXPONENT))


def _bin_counts(values: Array, exponents: Integers) -> Integers:
    if values.dtype == np.float32:
        is_small = exponents < _MIN_F32_EXPONENT
        if (values[is_small[:, 0]] != 0).any():
            values = values.astype(np.float64)
        # The remaining values of these channels are 0, so any factor is correct.
        else:
            exponents = np.where(is_small, 0, exponents)
    factors = np.ldexp(1.0, _SCALED_EXPONENT - exponents).astype(values.dtype)
    counts = np.empty((len(values), BINS), np.int64)
    # Each value needs eight bytes for its bin: these and the counts fit the caches.
    for first in range(0, len(values), _PIECE_CHANNELS):
        rows = slice(first, first + _PIECE_CHANNELS)
        counts[rows] = _counted_in_cache(values[rows], factors[rows])
    return counts


def _counted_in_cache(values: Array, factors: Array) -> Integers:
    channels, count = values.shape
    bins_by_leading_bits = _bins_by_leading_bits()
    firsts = np.arange(channels, dtype=np.int64)[:, None] * BINS
    counts = np.zeros(channels * BINS, np.int64)
    step = _PIECE // channels
    for start in range(0, count, step):
        # Factors are powers of two, hence exact. Values that underflow are in the
        # middle bin anyway.
        scaled = values[:, start : start + step] * factors
        bins = bins_by_leading_bits.take(_leading_bits(scaled))
        if channels > 1:
            bins += firsts
        counts += np.bincount(bins.ravel(), minlength=counts.size)
    return counts.reshape(channels, BINS)


def _leading_bits(scaled: Array) -> NDArray[np.uint32]:
    """Round to f32 toward zero, and return the leading bits. Overwrite the argument."""
    if scaled.dtype == np.float64:
        # Rounding toward zero keeps values in their bins.
        bits = scaled.view(np.uint64)
        bits >>= _DROPPED_F64_BITS
        bits <<= _DROPPED_F64_BITS
        scaled = scaled.astype(np.float32)
    leading = scaled.view(np.uint32)
    leading >>= _DROPPED_F32_BITS
    return leading


# Merging


@cache
def _bins_of_larger_unit(shift: int) -> Integers:
    """Return for each bin the bin that contains it if bins are `2**shift` times as wide."""
    above = bins_of(np.ldexp(_LOWER_EDGES, -shift))
    return np.concatenate((2 * MIDDLE - above[::-1], MIDDLE, above), axis=None)


def _coarser(counts: Integers, shifts: Integers) -> Integers:
    """Return a copy of counts, merged into bins that are `2**shift` times as wide."""
    result = counts.reshape(-1, BINS).copy()
    shifts = shifts.ravel()
    for shift in np.unique(shifts[shifts > 0]).tolist():
        is_shifted = shifts == shift
        targets = _bins_of_larger_unit(min(shift, _OCTAVES))
        bins, firsts = np.unique(targets, return_index=True)
        sums = np.add.reduceat(result[is_shifted], firsts, axis=1)
        result[is_shifted] = 0
        result[np.ix_(is_shifted, bins)] = sums
    return result.reshape(counts.shape)
