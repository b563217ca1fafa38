"""
Observers: how ranges of values are found by looking at batches of them.

| name | range |
|---|---|
| `min-max` | from the smallest to the largest value |
| `moving-average=0.9` | moving averages of the ends of the range of each batch |
| `percentile=99.99` | the middle 99.99 percent of all values |
| `entropy=8` | loses the least information if stored values have 8 bits |
| `mse=8` | has the smallest mean squared error if stored values have 8 bits |

The last three count the values in a histogram whose size does not depend on how many
there are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from .observations import (
    BINS,
    MAGNITUDES,
    BatchExtremes,
    Extremes,
    Histogram,
    Observation,
    bin_indices,
)

Ranges = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Smallest and largest values, each of shape `()`, or `(n,)` for channels."""

MAX_BITS = 8
"""What stored values may have at most where a histogram has to be finer than they are."""


@dataclass(frozen=True)
class Observer(ABC):
    """A way to find ranges."""

    OBSERVATION: ClassVar[type[Observation]]
    """What is remembered of values."""

    @abstractmethod
    def observe(
        self, values: NDArray[Any], axis: int | None = None, batch: int = 0
    ) -> Observation:
        """
        What there is to know of a batch.

        Args:
            values: floats of any dtype and shape.
            axis: the dimension of the channels, for one range each.
            batch: the number of the batch.

        Raises:
            ValueError: if there are no values, or no such dimension, or a value is NaN or
                infinite.
        """

    @abstractmethod
    def ranges(self, observation: Observation) -> Ranges:
        """The range of values, or of each channel, after all batches were observed."""


def _channels(values: NDArray[Any], axis: int | None) -> NDArray[Any]:
    """Values as f32 or f64 of shape `(channels, n)`."""
    if values.dtype.type not in (np.float32, np.float64):
        # All smaller floats, also those of ml_dtypes, are exact in f32.
        values = values.astype(np.float32)
    if axis is None:
        return values.reshape(1, -1)
    if not 0 <= axis < values.ndim:
        raise ValueError(f"there is no dimension {axis} in shape {values.shape}")
    if not values.size:
        return values.reshape(values.shape[axis], 0)
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _extremes(channels: NDArray[Any], axis: int | None) -> Ranges:
    """The smallest and the largest value of each channel."""
    if not channels.size:
        raise ValueError("there are no values")
    whole = axis is None
    extremes = channels.min(None if whole else 1), channels.max(None if whole else 1)
    # With 0.0 added there is no -0.0, which would depend on the order.
    lows, highs = (np.add(ends, 0.0, dtype=np.float64) for ends in extremes)
    # NaN goes through both.
    if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
        raise ValueError(f"there are {_not_finite(channels)} values")
    return np.asarray(lows), np.asarray(highs)


def _not_finite(channels: NDArray[Any]) -> str:
    return "NaN among the" if np.isnan(channels).any() else "infinite"


class EndsObserver(Observer):
    """One that needs no more than the smallest and the largest values of each batch."""

    def observe(
        self, values: NDArray[Any], axis: int | None = None, batch: int = 0
    ) -> Observation:
        lows, highs = _extremes(_channels(values, axis), axis)
        return self.observe_ends(lows[None], highs[None], np.array([batch]))

    @abstractmethod
    def observe_ends(
        self,
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
        batches: NDArray[np.int64],
    ) -> Observation:
        """
        What there is to know of some batches, at least one.

        Args:
            lows: smallest values, all finite, of shape `(batches,)`, or
                `(batches, channels)`.
            highs: largest values.
            batches: the numbers of the batches, in ascending order.
        """


@dataclass(frozen=True)
class MinMaxObserver(EndsObserver):
    """From the smallest to the largest value."""

    OBSERVATION: ClassVar[type[Observation]] = Extremes

    def observe_ends(
        self,
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
        batches: NDArray[np.int64],
    ) -> Extremes:
        return Extremes(np.asarray(lows.min(axis=0)), np.asarray(highs.max(axis=0)))

    def ranges(self, observation: Observation) -> Ranges:
        return observation.lows, observation.highs


@dataclass(frozen=True)
class MovingAverageObserver(EndsObserver):
    """
    Exponential moving averages of the smallest and the largest value of each batch, in the
    order of their numbers. The first batch is the average to begin with.
    """

    OBSERVATION: ClassVar[type[Observation]] = BatchExtremes

    weight: float = 0.9
    """Weight of the average so far; the rest is that of the next batch."""

    def __post_init__(self):
        if not 0 <= self.weight < 1:
            raise ValueError(
                f"weight {self.weight} of a moving average is not at least 0 and less "
                "than 1"
            )

    def observe_ends(
        self,
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
        batches: NDArray[np.int64],
    ) -> BatchExtremes:
        return BatchExtremes(lows, highs, batches)

    def ranges(self, observation: Observation) -> Ranges:
        count = len(observation.lows)
        weights = (1 - self.weight) * self.weight ** np.arange(count - 1, -1, -1.0)
        weights[0] = self.weight ** (count - 1.0)

        def average(extremes: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray((weights * extremes.T).sum(axis=-1))

        return average(observation.lows), average(observation.highs)


# Observers with a histogram


@dataclass(frozen=True)
class _HistogramObserver(Observer):
    OBSERVATION: ClassVar[type[Observation]] = Histogram

    def observe(
        self, values: NDArray[Any], axis: int | None = None, batch: int = 0
    ) -> Histogram:
        return observe_histogram(values, axis)


def observe_histogram(values: NDArray[Any], axis: int | None = None) -> Histogram:
    """
    The histogram of a batch, for what else there is to know than the range.

    Args:
        values: floats of any dtype and shape.
        axis: the dimension of the channels, for one histogram each.

    Raises:
        ValueError: as [`observe`][xdsl_quant.numerics.observers.Observer.observe] does.
    """
    channels = _channels(values, axis)
    return Histogram.of(channels, *_extremes(channels, axis))


@dataclass(frozen=True)
class PercentileObserver(_HistogramObserver):
    """
    The values in the middle: on each side at most half of the others are left out, as many
    as whole bins have.
    """

    percentile: float = 99.99
    """Part of the values that are in the middle, in percent."""

    def __post_init__(self):
        if not 0 < self.percentile <= 100:
            raise ValueError(
                f"percentile {self.percentile} is not more than 0 and at most 100"
            )

    def ranges(self, observation: Observation) -> Ranges:
        histogram = cast(Histogram, observation)
        up_to = np.cumsum(histogram.counts, axis=-1)
        total = up_to[..., -1:]
        outside = np.floor(total * ((100 - self.percentile) / 200))
        # The first bin up to which there are more, and the last one from which on.
        first = (up_to > outside).argmax(axis=-1) - (MAGNITUDES - 1)
        last = (up_to >= total - outside).argmax(axis=-1) - (MAGNITUDES - 1)
        # Bins end away from 0, but the one in the middle has two ends.
        low_ends = _in_units(first - (first <= 0), histogram)
        high_ends = _in_units(last + (last >= 0), histogram)
        return (
            np.asarray(np.maximum(histogram.lows, low_ends)),
            np.asarray(np.minimum(histogram.highs, high_ends)),
        )


def _in_units(bins: NDArray[Any], histogram: Histogram) -> NDArray[np.float64]:
    """The numbers at which so many bins end, for each channel."""
    # The last bin of the largest floats has no end.
    with np.errstate(over="ignore"):
        return bins * histogram.widths


_Costs = Callable[[NDArray[np.float64], NDArray[np.float64], int], NDArray[np.float64]]
"""
What a bound costs, for each channel. Arguments are the lower and the upper ends of the
ranges in bins, each of shape `(channels, 1)`, and the bound in bins.
"""


@dataclass(frozen=True)
class _ClippingObserver(_HistogramObserver):
    """
    The best of the ranges that contain 0, and in which values of more than a bound are cut
    off on both sides.
    """

    bits: int = 8
    """Number of bits of a stored value."""

    def __post_init__(self):
        if not 2 <= self.bits <= MAX_BITS:
            raise ValueError(
                f"an observer of stored values with {self.bits} bits is not known, use 2 "
                f"to {MAX_BITS}"
            )

    @abstractmethod
    def candidates(self) -> Iterator[int]:
        """Bounds in bins, the largest one first."""

    @abstractmethod
    def costs(self, counts: NDArray[np.float64]) -> _Costs:
        """
        What bounds cost.

        Args:
            counts: number of values in each bin, of shape `(channels, bins)`.
        """

    def ranges(self, observation: Observation) -> Ranges:
        histogram = cast(Histogram, observation)
        shape = histogram.lows.shape
        widths = histogram.widths.ravel()
        lows = np.minimum(histogram.lows.ravel(), 0)
        highs = np.maximum(histogram.highs.ravel(), 0)
        counts = histogram.counts.reshape(-1, BINS)
        # In bins: bounds of the range are rarely at the end of one.
        low_bins, high_bins = (
            ends[:, None] / widths[:, None] for ends in (lows, highs)
        )
        best = np.empty(len(counts))
        for start in range(0, len(counts), _CHANNELS):
            rows = slice(start, start + _CHANNELS)
            best[rows] = self._best(
                counts[rows].astype(np.float64), low_bins[rows], high_bins[rows]
            )
        bounds = _in_units(best.reshape(shape), histogram)
        return (
            np.asarray(np.maximum(lows.reshape(shape), -bounds)),
            np.asarray(np.minimum(highs.reshape(shape), bounds)),
        )

    def _best(
        self,
        counts: NDArray[np.float64],
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """The bound that costs the least, for each channel; the largest of several."""
        costs = self.costs(counts)
        best = np.full(len(counts), float(MAGNITUDES))
        least = np.full(len(counts), np.inf)
        for bound in self.candidates():
            cost = costs(np.maximum(lows, -bound), np.minimum(highs, bound), bound)
            best = np.where(cost < least, bound, best)
            least = np.minimum(cost, least)
        return best


_CHANNELS = 32
"""Channels whose bins are looked at together, in the caches."""

_STEP = 16
"""From one bound to the next, in bins."""


@dataclass(frozen=True)
class EntropyObserver(_ClippingObserver):
    """
    The range in which stored values tell the most of the values: of the histogram and that
    of the stored values, the Kullback-Leibler divergence is the smallest.

    See S. Migacz, 8-bit inference with TensorRT, GTC 2017. A millionth of all values is
    spread over the range, as else nothing could be cut off where no values are.
    """

    def candidates(self) -> Iterator[int]:
        # A range with fewer bins than there are stored values loses nothing.
        return iter(range(MAGNITUDES, (1 << self.bits) - 1, -_STEP))

    def costs(self, counts: NDArray[np.float64]) -> _Costs:
        return _Divergences(counts, 1 << self.bits)


class _Divergences:
    """
    The divergence for any bound. All that is the same for all bounds is computed once.

    Stored values are looked up by their first bins in sums over all bins before: that is
    exact, because counts are integers.
    """

    def __init__(self, counts: NDArray[np.float64], levels: int):
        self._counts = counts
        self._up_to = _sums_before(counts)
        self._is_used = counts > 0
        self._used_up_to = _sums_before(self._is_used)
        self._totals = self._up_to[:, -1:]
        self._parts = counts / self._totals
        # The logarithm of a bin without values is not wanted, but must be there.
        self._divisible = np.where(self._is_used, self._parts, 1.0)
        self._levels = np.arange(levels + 1)

    def __call__(
        self, lows: NDArray[np.float64], highs: NDArray[np.float64], bound: int
    ) -> NDArray[np.float64]:
        first = np.maximum(np.trunc(lows), 1 - bound).astype(np.int64) + MAGNITUDES - 1
        last = np.minimum(np.trunc(highs), bound - 1).astype(np.int64) + MAGNITUDES - 1
        sizes = last - first + 1
        # The first bin of each stored value, and the one behind all of them.
        starts = first - (-self._levels * sizes) // self._levels[-1]
        sums, used = (
            np.diff(np.take_along_axis(before, starts, axis=1)).astype(np.float64)
            for before in (self._up_to, self._used_up_to)
        )
        # Of a stored value it is not known from which of its bins it is.
        means = np.divide(sums, used, out=np.zeros_like(sums), where=used > 0)
        window = slice(int(first.min()), int(last.max()) + 1)
        stored = np.zeros_like(self._counts)
        stored[:, window] = _spread(means, starts, window) * self._is_used[:, window]
        kept = stored.sum(axis=1, keepdims=True)
        evenly = 1 / sizes
        nothing = np.where(kept > 0, 0, evenly)
        parts = np.divide(means, kept, out=evenly + 0 * means, where=kept > 0)
        q = _spread(_with_even_part(parts, evenly), starts, window, outside=1.0)

        bins = np.arange(window.start, window.stop)
        is_inside = (first <= bins) & (bins <= last)
        logarithms = np.log(self._divisible[:, window] / q)
        divergence = np.zeros_like(self._counts)
        divergence[:, window] = self._parts[:, window] * logarithms * is_inside
        # What is cut off counts as what is at the end of the range.
        below = np.take_along_axis(self._up_to, first, axis=1)
        above = self._totals - np.take_along_axis(self._up_to, last + 1, axis=1)
        for end, more, others in ((first, below, above), (last, above, below)):
            count = np.take_along_axis(self._counts, end, axis=1)
            exact = count + more + np.where(first == last, others, 0)
            q_end = np.where(
                count > 0,
                np.take_along_axis(q, end - window.start, axis=1),
                _with_even_part(nothing, evenly),
            )
            p_end = exact / self._totals
            ratio = np.divide(p_end, q_end, out=np.ones_like(p_end), where=p_end > 0)
            np.put_along_axis(divergence, end, p_end * np.log(ratio), axis=1)
        return divergence.sum(axis=1)


def _sums_before(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Sums of all bins before each, and of all of them at the end."""
    sums = np.zeros((len(counts), BINS + 1), np.int64)
    np.cumsum(counts, axis=1, out=sums[:, 1:])
    return sums


def _spread(
    values: NDArray[np.float64],
    starts: NDArray[np.int64],
    window: slice,
    outside: float = 0.0,
) -> NDArray[np.float64]:
    """The number of its stored value for each bin of a window, if it has one."""
    padded = np.pad(values, ((0, 0), (1, 1)), constant_values=outside)
    ends = np.pad(
        starts, ((0, 0), (1, 1)), constant_values=((0, 0), (window.start, window.stop))
    )
    repeats = np.diff(ends)
    return np.repeat(padded.ravel(), repeats.ravel()).reshape(len(values), -1)


def _with_even_part(
    parts: NDArray[np.float64], evenly: NDArray[np.float64]
) -> NDArray[np.float64]:
    return (1 - 1e-6) * parts + 1e-6 * evenly


@dataclass(frozen=True)
class MeanSquaredErrorObserver(_ClippingObserver):
    """
    The range with the smallest mean squared error. All values of a bin are taken for the
    one in its middle.
    """

    def candidates(self) -> Iterator[int]:
        return iter(range(MAGNITUDES, 0, -_STEP))

    def costs(self, counts: NDArray[np.float64]) -> _Costs:
        indices = bin_indices()
        values = indices + 0.5 * np.sign(indices)
        steps = (1 << self.bits) - 1

        def errors(
            lows: NDArray[np.float64], highs: NDArray[np.float64], bound: int
        ) -> NDArray[np.float64]:
            scales = (highs - lows) / steps
            scales = np.where(scales > 0, scales, 1.0)
            zero_points = np.rint(-lows / scales)
            stored = np.rint(values / scales)
            stored = np.clip(stored, -zero_points, steps - zero_points)
            return (counts * np.square(stored * scales - values)).sum(axis=1)

        return errors


_OBSERVERS: dict[str, tuple[Callable[..., Observer], type[int | float] | None]] = {
    "min-max": (MinMaxObserver, None),
    "moving-average": (MovingAverageObserver, float),
    "percentile": (PercentileObserver, float),
    "entropy": (EntropyObserver, int),
    "mse": (MeanSquaredErrorObserver, int),
}


def parse_observer(text: str) -> Observer:
    """
    The observer that a text stands for, e.g. `min-max`, `entropy` or `percentile=99.9`.

    Raises:
        TypeError: if it is no text.
        ValueError: if there is no such observer, or its number is wrong.
    """
    if not isinstance(cast(object, text), str):
        raise TypeError(
            f"observer must be a text such as 'min-max', not {type(text).__name__}"
        )
    name, equals, number = text.partition("=")
    if (known := _OBSERVERS.get(name)) is None:
        raise ValueError(
            f"there is no observer '{name}', use one of {', '.join(_OBSERVERS)}"
        )
    class_, number_type = known
    if not equals:
        return class_()
    if number_type is None:
        raise ValueError(f"observer '{name}' takes no number, but got '{number}'")
    try:
        value = number_type(number)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        kind = "an integer" if number_type is int else "a number"
        raise ValueError(f"observer '{name}' takes {kind}, but got '{number}'")
    return class_(value)
