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
    shape = () if axis is None else channels.shape[:1]
    # With 0.0 added there is no -0.0, which would depend on the order.
    lows, highs = (
        np.asarray(extremes.astype(np.float64).reshape(shape) + 0.0)
        for extremes in (channels.min(axis=1), channels.max(axis=1))
    )
    # NaN goes through both.
    if not np.isfinite([lows, highs]).all():
        raise ValueError(f"there are {_not_finite(channels)} values")
    return lows, highs


def _not_finite(channels: NDArray[Any]) -> str:
    return "NaN among the" if np.isnan(channels).any() else "infinite"


@dataclass(frozen=True)
class MinMaxObserver(Observer):
    """From the smallest to the largest value."""

    OBSERVATION: ClassVar[type[Observation]] = Extremes

    def observe(
        self, values: NDArray[Any], axis: int | None = None, batch: int = 0
    ) -> Extremes:
        return Extremes(*_extremes(_channels(values, axis), axis))

    def ranges(self, observation: Observation) -> Ranges:
        return observation.lows, observation.highs


@dataclass(frozen=True)
class MovingAverageObserver(Observer):
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

    def observe(
        self, values: NDArray[Any], axis: int | None = None, batch: int = 0
    ) -> BatchExtremes:
        lows, highs = _extremes(_channels(values, axis), axis)
        return BatchExtremes(lows[None], highs[None], np.array([batch]))

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
    def costs(
        self,
        counts: NDArray[np.float64],
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
        bound: int,
    ) -> NDArray[np.float64]:
        """
        What a bound costs, for each channel.

        Args:
            counts: number of values in each bin, of shape `(channels, bins)`.
            lows: lower ends of the ranges in bins, of shape `(channels, 1)`.
            highs: upper ends of the ranges in bins.
            bound: the bound in bins.
        """

    def ranges(self, observation: Observation) -> Ranges:
        histogram = cast(Histogram, observation)
        widths = histogram.widths.reshape(-1, 1)
        lows = np.minimum(histogram.lows.reshape(-1, 1), 0)
        highs = np.maximum(histogram.highs.reshape(-1, 1), 0)
        counts = histogram.counts.reshape(-1, BINS).astype(np.float64)
        best = np.full((len(counts), 1), float(MAGNITUDES))
        least = np.full((len(counts), 1), np.inf)
        for bound in self.candidates():
            # In bins: bounds of the range are rarely at the end of one.
            low = np.maximum(lows / widths, -bound)
            high = np.minimum(highs / widths, bound)
            cost = self.costs(counts, low, high, bound).reshape(-1, 1)
            best = np.where(cost < least, bound, best)
            least = np.minimum(cost, least)
        shape = histogram.lows.shape
        bounds = _in_units(best.reshape(shape), histogram)
        return (
            np.asarray(np.maximum(lows.reshape(shape), -bounds)),
            np.asarray(np.minimum(highs.reshape(shape), bounds)),
        )


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

    def costs(
        self,
        counts: NDArray[np.float64],
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
        bound: int,
    ) -> NDArray[np.float64]:
        indices = bin_indices()
        channels = len(counts)
        first = np.maximum(np.trunc(lows), 1 - bound).astype(np.int64)
        last = np.minimum(np.trunc(highs), bound - 1).astype(np.int64)
        is_inside = (first <= indices) & (indices <= last)
        inside = np.where(is_inside, counts, 0)
        # What is cut off counts as what is at the end of the range.
        exact = inside.copy()
        rows = np.arange(channels)
        exact[rows, first[:, 0] + MAGNITUDES - 1] += (counts * (indices < first)).sum(1)
        exact[rows, last[:, 0] + MAGNITUDES - 1] += (counts * (indices > last)).sum(1)
        levels = 1 << self.bits
        level = (indices - first) * levels // (last - first + 1)
        level = np.clip(level, 0, levels - 1) + rows[:, None] * levels
        # Of a stored value it is not known from which of its bins it is.
        sums, used = (
            np.bincount(level.ravel(), weights.ravel(), channels * levels)
            for weights in (inside, (inside > 0).astype(np.float64))
        )
        means = np.divide(sums, used, out=np.zeros_like(sums), where=used > 0)
        stored = np.where(inside > 0, means[level], 0)
        return _divergence(exact, stored, is_inside)


def _divergence(
    exact: NDArray[np.float64],
    stored: NDArray[np.float64],
    is_inside: NDArray[np.bool_],
) -> NDArray[np.float64]:
    total = exact.sum(axis=1, keepdims=True)
    kept = stored.sum(axis=1, keepdims=True)
    spread = is_inside / is_inside.sum(axis=1, keepdims=True)
    part = np.divide(stored, kept, out=spread.copy(), where=kept > 0)
    q = (1 - 1e-6) * part + 1e-6 * spread
    p = exact / total
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    return (p * np.log(ratio)).sum(axis=1)


@dataclass(frozen=True)
class MeanSquaredErrorObserver(_ClippingObserver):
    """
    The range with the smallest mean squared error. All values of a bin are taken for the
    one in its middle.
    """

    def candidates(self) -> Iterator[int]:
        return iter(range(MAGNITUDES, 0, -_STEP))

    def costs(
        self,
        counts: NDArray[np.float64],
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
        bound: int,
    ) -> NDArray[np.float64]:
        indices = bin_indices()
        values = indices + 0.5 * np.sign(indices)
        steps = (1 << self.bits) - 1
        scales = (highs - lows) / steps
        scales = np.where(scales > 0, scales, 1.0)
        zero_points = np.rint(-lows / scales)
        stored = np.rint(values / scales)
        stored = np.clip(stored, -zero_points, steps - zero_points)
        return (counts * np.square(stored * scales - values)).sum(axis=1)


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
        ValueError: if there is no such observer, or its number is wrong.
    """
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
