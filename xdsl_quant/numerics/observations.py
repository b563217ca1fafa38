"""
What is remembered of the values that a tensor had.

Observations of different batches are merged, in any order: each state is a function of
the set of all values, or of the set of all batches, and nothing is rounded. So it does
not matter either how batches are spread over workers.

There is one of everything for a tensor (arrays of shape `()`), or one for each channel
(shape `(n,)`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

VERSION = 1
"""The version of all states, in a pickle as in JSON."""


@dataclass(frozen=True, eq=False)
class Observation(ABC):
    """
    A state. It can be pickled.

    States are equal if they are of one class and all their arrays are.
    """

    KIND: ClassVar[str]
    """What it is called in JSON."""

    lows: NDArray[Any]
    """Smallest values."""

    highs: NDArray[Any]
    """Largest values."""

    def merge(self, other: Observation) -> Self:
        """
        What is known of the values of both. This is associative and commutative.

        Raises:
            ValueError: if they are of different classes, do not have as many channels, or
                are of the same batch where that matters.
        """
        if type(other) is not type(self):
            raise ValueError(
                f"observations '{self.KIND}' and '{other.KIND}' do not merge"
            )
        return self._merge(cast(Self, other))

    def extend(self, other: Observation) -> Self:
        """
        What is known of the values of both, which are of the same batch.

        Raises:
            ValueError: if they are of different classes, or do not have as many channels.
        """
        return self.merge(other)

    @abstractmethod
    def _merge(self, other: Any) -> Self:
        """What is known of the values of both, which are of one class."""

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self._arrays(), cast(Self, other)._arrays(), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    __hash__ = None  # pyright: ignore[reportAssignmentType] arrays have no hash either

    def __getstate__(self) -> dict[str, Any]:
        return {"version": VERSION, "arrays": self._arrays()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        check_version(state["version"], "observation")
        for field, array in zip(fields(self), state["arrays"], strict=True):
            object.__setattr__(self, field.name, array)

    def to_json(self) -> dict[str, Any]:
        """The state as what JSON consists of. All numbers are exact."""
        return {
            field.name: getattr(self, field.name).tolist() for field in fields(self)
        }

    @classmethod
    @abstractmethod
    def from_json(cls, state: Mapping[str, Any]) -> Self:
        """
        The state of which [`to_json`][xdsl_quant.numerics.observations.Observation.to_json]
        made this.

        Raises:
            KeyError: if something is missing.
            TypeError: if something is of another type.
            ValueError: if arrays are ragged or do not fit each other.
        """


def check_version(version: object, what: str) -> None:
    """Raise a `ValueError` if a state is not of the version that is known."""
    if version != VERSION:
        raise ValueError(
            f"{what} has version {version!r}, but only version {VERSION} is known"
        )


def _check_channels(mine: NDArray[Any], theirs: NDArray[Any]) -> None:
    if mine.shape != theirs.shape:
        counts = [
            f"{array.size} channels" if array.ndim else "no channels"
            for array in (mine, theirs)
        ]
        raise ValueError(f"observations with {' and with '.join(counts)} do not merge")


def _floats(values: Any) -> NDArray[np.float64]:
    array = np.array(values, np.float64)
    if not np.isfinite(array).all():
        raise ValueError("not finite")
    return array


def _ranges(
    state: Mapping[str, Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    lows, highs = _floats(state["lows"]), _floats(state["highs"])
    if lows.shape != highs.shape or not lows.size or (lows > highs).any():
        raise ValueError("no ranges")
    return lows, highs


def _integers(values: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    array = np.array(values, np.int64)
    if array.shape != shape:
        raise ValueError("of another shape")
    return array


def _union(
    one: Observation, other: Observation
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return (
        np.asarray(np.minimum(one.lows, other.lows)),
        np.asarray(np.maximum(one.highs, other.highs)),
    )


# The smallest and the largest value


@dataclass(frozen=True, eq=False)
class Extremes(Observation):
    """The smallest and the largest value."""

    KIND: ClassVar[str] = "extremes"

    def _merge(self, other: Self) -> Self:
        _check_channels(self.lows, other.lows)
        return type(self)(*_union(self, other))

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Self:
        return cls(*_ranges(state))


@dataclass(frozen=True, eq=False)
class BatchExtremes(Observation):
    """
    The smallest and the largest value of each batch, with the batches along the first
    dimension. It grows by two numbers for each channel and batch.
    """

    KIND: ClassVar[str] = "batch-extremes"

    batches: NDArray[np.int64]
    """The numbers of the batches, in ascending order."""

    def _merge(self, other: Self) -> Self:
        _check_channels(self.lows[0], other.lows[0])
        batches = np.concatenate((self.batches, other.batches))
        order = np.argsort(batches)
        batches = batches[order]
        if (is_twice := batches[1:] == batches[:-1]).any():
            batch = batches[1:][is_twice][0]
            raise ValueError(f"batch {batch} is in both observations")
        lows, highs = (
            np.concatenate(pair)[order]
            for pair in ((self.lows, other.lows), (self.highs, other.highs))
        )
        return type(self)(lows, highs, batches)

    def extend(self, other: Observation) -> Self:
        _check_channels(self.lows[0], other.lows[0])
        return type(self)(*_union(self, other), self.batches)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Self:
        lows, highs = _ranges(state)
        batches = _integers(state["batches"], lows.shape[:1])
        if (np.diff(batches) <= 0).any():
            raise ValueError("not in ascending order")
        return cls(lows, highs, batches)


# Histograms

MAGNITUDE_BITS = 11
"""Bins on each side of 0, as a power of two."""

MAGNITUDES = 1 << MAGNITUDE_BITS

BINS = 2 * MAGNITUDES - 1
"""Bins of a histogram. The one in the middle is that of 0."""

_MIN_EXPONENT = -126
"""Of the smallest width of a bin. Its reciprocal is an f32."""

_PIECE = 1 << 16
"""Values that are counted at once, in the caches."""

_PIECE_CHANNELS = 16
"""Channels that are counted at once: they have about as many bins as a piece has values."""


def bin_indices() -> NDArray[np.int64]:
    """The index of each bin, 0 for the one in the middle."""
    return np.arange(1 - MAGNITUDES, MAGNITUDES)


@dataclass(frozen=True, eq=False)
class Histogram(Observation):
    """
    How many values there are in each of 4095 bins.

    Bin `i` has the values `x` for which `trunc(x / 2**exponent)` is `i`: the one in the
    middle has those around 0 and is twice as wide as the others. The exponent is the
    smallest one with which all values are in a bin. Two bins side by side, those of a
    larger exponent, have exactly the values of both, so that histograms of a larger range
    do not depend on the values that came first.
    """

    KIND: ClassVar[str] = "histogram"

    exponents: NDArray[np.int64]
    """The width of a bin, as an exponent of two."""

    counts: NDArray[np.int64]
    """Number of values in each bin, with the bins along the last dimension."""

    zeros: NDArray[np.int64]
    """Number of those in the middle that are 0, which quantization keeps."""

    @property
    def widths(self) -> NDArray[np.float64]:
        """The widths of bins."""
        return np.ldexp(1.0, self.exponents)

    @property
    def of_tensor(self) -> Histogram:
        """The histogram of the values of all channels."""
        rows, exponents = self.counts.reshape(-1, BINS), self.exponents.ravel()
        largest = exponents.max()
        counts = np.zeros(BINS, np.int64)
        for exponent in np.unique(exponents):
            sums = rows[exponents == exponent].sum(axis=0)
            counts += _coarser(sums, largest - exponent)
        return Histogram(
            np.asarray(self.lows.min()),
            np.asarray(self.highs.max()),
            np.asarray(largest),
            counts,
            np.asarray(self.zeros.sum()),
        )

    def of_channel(self, channel: int) -> Histogram:
        """The histogram of the values of one channel."""
        return Histogram(*(np.asarray(array[channel]) for array in self._arrays()))

    @classmethod
    def of(
        cls, values: NDArray[Any], lows: NDArray[Any], highs: NDArray[Any]
    ) -> Histogram:
        """
        The histogram of values, all finite.

        Args:
            values: an array of shape `(channels, n)`, f32 or f64.
            lows: smallest values, of shape `()` if there is one channel that is none, or
                `(channels,)`.
            highs: largest values.
        """
        exponents = _exponents(lows, highs)
        counts = _counted(values, np.ldexp(1.0, -exponents.reshape(-1, 1)))
        # With an axis it takes four times as long.
        axis = None if len(values) == 1 else 1
        zeros = np.count_nonzero(values == 0, axis)
        return cls(
            lows,
            highs,
            exponents,
            counts.reshape(*lows.shape, BINS),
            np.array(zeros, np.int64).reshape(lows.shape),
        )

    def _merge(self, other: Self) -> Self:
        _check_channels(self.lows, other.lows)
        exponents = np.maximum(self.exponents, other.exponents)
        counts = _coarser(self.counts, exponents - self.exponents)
        counts += _coarser(other.counts, exponents - other.exponents)
        zeros = np.asarray(self.zeros + other.zeros)
        return type(self)(*_union(self, other), np.asarray(exponents), counts, zeros)

    def to_json(self) -> dict[str, Any]:
        # Most bins of most channels are empty.
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
    def from_json(cls, state: Mapping[str, Any]) -> Self:
        lows, highs = _ranges(state)
        used = _integers(state["used_bins"], (len(state["used_bins"]),))
        counts = np.zeros((*lows.shape, BINS), np.int64)
        if used.size and not 0 <= used.min() <= used.max() < counts.size:
            raise ValueError("there is no such bin")
        counts.ravel()[used] = _integers(state["counts"], used.shape)
        exponents, zeros = (
            _integers(state[name], lows.shape) for name in ("exponents", "zeros")
        )
        is_possible = (
            (exponents == _exponents(lows, highs))
            & (counts.min(axis=-1) >= 0)
            & (counts.max(axis=-1) > 0)
            & (zeros >= 0)
            & (zeros <= counts[..., MAGNITUDES - 1])
        )
        if not is_possible.all():
            raise ValueError("no histogram")
        return cls(lows, highs, exponents, counts, zeros)


def _exponents(lows: NDArray[Any], highs: NDArray[Any]) -> NDArray[np.int64]:
    """The smallest exponents with which all values from lows to highs are in a bin."""
    magnitudes = np.maximum(np.abs(lows), np.abs(highs))
    _, exponents = np.frexp(magnitudes)
    exponents = np.maximum(exponents.astype(np.int64) - MAGNITUDE_BITS, _MIN_EXPONENT)
    return np.where(magnitudes == 0, _MIN_EXPONENT, exponents)


def _counted(values: NDArray[Any], factors: NDArray[np.float64]) -> NDArray[np.int64]:
    channels = len(values)
    factors = factors.astype(values.dtype)
    counts = np.empty((channels, BINS), np.int64)
    # A bin for each value is eight bytes: they and the counts stay in the caches.
    for first in range(0, channels, _PIECE_CHANNELS):
        rows = slice(first, first + _PIECE_CHANNELS)
        counts[rows] = _counted_in_cache(values[rows], factors[rows])
    return counts


def _counted_in_cache(values: NDArray[Any], factors: NDArray[Any]) -> NDArray[np.int64]:
    channels, count = values.shape
    middles = np.arange(channels, dtype=np.int64)[:, None] * BINS + (MAGNITUDES - 1)
    counts = np.zeros(channels * BINS, np.int64)
    step = _PIECE // channels
    for start in range(0, count, step):
        # Powers of two are exact factors. What becomes too small is in the middle anyway.
        scaled = values[:, start : start + step] * factors
        bins: NDArray[np.int64] = scaled.astype(np.int64)
        bins += middles
        counts += np.bincount(bins.ravel(), minlength=counts.size)
    return counts.reshape(channels, BINS)


def _coarser(counts: NDArray[np.int64], shifts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts, a copy, with `2**shift` bins in one."""
    result = counts.reshape(-1, BINS).copy()
    shifts = shifts.ravel()
    indices = bin_indices()
    for shift in np.unique(shifts[shifts > 0]).tolist():
        is_shifted = shifts == shift
        targets = np.sign(indices) * (np.abs(indices) >> min(shift, MAGNITUDE_BITS))
        firsts = np.flatnonzero(np.diff(targets, prepend=targets[0] - 1))
        sums = np.add.reduceat(result[is_shifted], firsts, axis=1)
        coarse = np.zeros((len(sums), BINS), np.int64)
        coarse[:, targets[firsts] + (MAGNITUDES - 1)] = sums
        result[is_shifted] = coarse
    return result.reshape(counts.shape)
