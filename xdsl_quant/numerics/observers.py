"""
Observers, which determine min/max ranges from batches of values.

| name | range |
|---|---|
| `min-max` | from the smallest to the largest value |
| `moving-average=0.9` | moving averages of the min and max of batches |
| `percentile=99.99` | the middle 99.99 percent of all values |
| `entropy=8` | minimizes the loss of information for stored values of 8 bits |
| `mse=8` | minimizes the mean squared error for stored values of 8 bits |

The last three use a histogram, whose size does not depend on the number of values.
`entropy=8,symmetric` and `mse=8,symmetric` determine ranges for types with the zero point
in the middle of the storage range.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, Floats, Integers, check_unmasked
from .choosing import choose_parameters
from .histogram import BIN_EDGES, Histogram
from .histogram_errors import Quantizer, SpreadValues, channel_pieces
from .observations import BatchMinMax, MinMax, Observation

Ranges = tuple[Floats, Floats]
"""Smallest and largest values, each of shape `()`, or `(n,)` for channels."""

MAX_BITS = 16
"""Maximum number of bits of a stored value, limited by the resolution of histograms."""


@dataclass(frozen=True)
class Observer(ABC):
    """Method to determine min/max ranges."""

    OBSERVATION: ClassVar[type[Observation]]

    @abstractmethod
    def observe(
        self, values: Array, axis: int | None = None, batch: int = 0
    ) -> Observation:
        """
        Return the observation of a batch.

        Args:
            values: floats of any dtype and shape.
            axis: the channel dimension, for one range per channel.
            batch: the batch number.

        Raises:
            TypeError: if the array is masked.
            ValueError: if there are no values, the dimension is out of range, or a value is
                NaN or infinite.
        """

    @abstractmethod
    def ranges(self, observation: Observation) -> Ranges:
        """Return the range of a tensor, or of each channel, for all observed batches."""


def _channels(values: Array, axis: int | None) -> Array:
    """
    Return values as f32 or f64 of shape `(channels, n)`, or raise an error: see `observe`.
    """
    check_unmasked(values, "values")
    if values.dtype.type not in (np.float32, np.float64):
        # All smaller floats, including those of `ml_dtypes`, are exact in f32.
        values = values.astype(np.float32)
    if axis is not None and not 0 <= axis < values.ndim:
        raise ValueError(f"dimension {axis} is out of range for shape {values.shape}")
    if not values.size:
        raise ValueError(f"expected at least one value, found shape {values.shape}")
    if axis is None:
        return values.reshape(1, -1)
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _min_max(channels: Array, axis: int | None) -> Ranges:
    whole = axis is None
    min_max = channels.min(None if whole else 1), channels.max(None if whole else 1)
    # Adding 0.0 replaces -0.0, which would make the result depend on the order.
    lows, highs = (np.add(values, 0.0, dtype=np.float64) for values in min_max)
    # It suffices to check min and max, because both propagate NaN.
    if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
        what = "NaN" if np.isnan(channels).any() else "infinity"
        raise ValueError(f"expected finite values, found {what}")
    return np.asarray(lows), np.asarray(highs)


class BatchMinMaxObserver(Observer):
    """Observer that requires only the smallest and the largest value of each batch."""

    def observe(
        self, values: Array, axis: int | None = None, batch: int = 0
    ) -> Observation:
        lows, highs = _min_max(_channels(values, axis), axis)
        return self.observe_min_max(lows[None], highs[None], np.array([batch]))

    def observe_min_max(
        self, lows: Floats, highs: Floats, batches: Integers
    ) -> Observation:
        """
        Return the observation of one or more batches.

        Args:
            lows: smallest values, all finite, of shape `(batches,)`, or
                `(batches, channels)`.
            highs: largest values.
            batches: the batch numbers, in ascending order.
        """
        return BatchMinMax(lows, highs, batches)


@dataclass(frozen=True)
class MinMaxObserver(BatchMinMaxObserver):
    """Observer of the range from the smallest to the largest value."""

    OBSERVATION: ClassVar[type[Observation]] = MinMax

    def observe_min_max(self, lows: Floats, highs: Floats, batches: Integers) -> MinMax:
        return MinMax(np.asarray(lows.min(axis=0)), np.asarray(highs.max(axis=0)))

    def ranges(self, observation: Observation) -> Ranges:
        return observation.lows, observation.highs


@dataclass(frozen=True)
class MovingAverageObserver(BatchMinMaxObserver):
    """
    Observer of the moving averages of smallest and largest values, in the order of batches.
    """

    OBSERVATION: ClassVar[type[Observation]] = BatchMinMax

    weight: float = 0.9
    """Weight of the previous average; the next batch has the remaining weight."""

    def __post_init__(self):
        if not 0 <= self.weight < 1:
            raise ValueError(
                f"expected a moving average weight in [0, 1), found {self.weight}"
            )

    def ranges(self, observation: Observation) -> Ranges:
        count = len(observation.lows)
        weights = (1 - self.weight) * self.weight ** np.arange(count - 1, -1, -1.0)
        weights[0] = self.weight ** (count - 1.0)

        def average(values: Floats) -> Floats:
            return np.asarray((weights * values.T).sum(axis=-1))

        return average(observation.lows), average(observation.highs)


# Observers with a histogram


@dataclass(frozen=True)
class _HistogramObserver(Observer):
    OBSERVATION: ClassVar[type[Observation]] = Histogram

    def observe(
        self, values: Array, axis: int | None = None, batch: int = 0
    ) -> Histogram:
        return observe_histogram(values, axis)


def observe_histogram(values: Array, axis: int | None = None) -> Histogram:
    """
    Return the histogram of a batch.

    Args:
        values: floats of any dtype and shape.
        axis: the channel dimension, for one histogram per channel.

    Raises:
        ValueError: as in [`observe`][xdsl_quant.numerics.observers.Observer.observe].
    """
    channels = _channels(values, axis)
    return Histogram.of(channels, *_min_max(channels, axis))


@dataclass(frozen=True)
class PercentileObserver(_HistogramObserver):
    """
    Observer of the range of the middle values. On each side, it excludes whole bins, which
    together contain at most `(100 - percentile) / 2` percent of all values.
    """

    percentile: float = 99.99
    """Percentage of values in the middle."""

    def __post_init__(self):
        if not 0 < self.percentile <= 100:
            raise ValueError(
                f"expected a percentile in (0, 100], found {self.percentile}"
            )

    def ranges(self, observation: Observation) -> Ranges:
        histogram = cast(Histogram, observation)
        up_to = np.cumsum(histogram.counts, axis=-1)
        total = up_to[..., -1:]
        outside = np.floor(total * ((100 - self.percentile) / 200))
        # The first bin at which the cumulative count exceeds `outside`, from either
        # side.
        first = (up_to > outside).argmax(axis=-1)
        last = (up_to >= total - outside).argmax(axis=-1)
        low_edges = histogram.values_of(BIN_EDGES[first])
        high_edges = histogram.values_of(BIN_EDGES[last + 1])
        return (
            np.asarray(np.maximum(histogram.lows, low_edges)),
            np.asarray(np.minimum(histogram.highs, high_edges)),
        )


def _clipped(values: Histogram | SpreadValues, bounds: Floats) -> Ranges:
    """Extend ranges to contain 0, then clip their bounds to magnitudes up to `bounds`."""
    return (
        np.asarray(np.maximum(np.minimum(values.lows, 0), -bounds)),
        np.asarray(np.minimum(np.maximum(values.highs, 0), bounds)),
    )


_BOUNDS_PER_OCTAVE = 32
"""Number of candidates for a bound per octave: they are 2.2 % apart."""

_TOLERANCE = 1e-9
"""
Tolerance for rounding errors of costs: relative for squared errors, absolute in nats for
divergences. Rounding errors depend on the number of channels that are summed together.
"""

_MIN_BOUND = 2.0**-32
"""Smallest candidate for a bound, relative to the largest magnitude."""


@dataclass(frozen=True)
class ClippingObserver(_HistogramObserver):
    """
    Observer of the min/max range, extended to 0 and clipped to magnitudes up to a bound.
    Subclasses choose the bound.
    """

    bits: int = 8
    """Number of bits of a stored value."""

    symmetric: bool = False
    """True if the zero point is in the middle of the storage range."""

    def __post_init__(self):
        if not 2 <= self.bits <= MAX_BITS:
            raise ValueError(
                f"expected stored values of 2 to {MAX_BITS} bits, found {self.bits}"
            )

    @abstractmethod
    def best_bounds(self, values: SpreadValues) -> Floats:
        """
        Return the best bound of each channel, the largest one if several are equally good.
        Bounds are fractions of the histogram's unit, of shape `(channels, 1)`.
        """

    def ranges(self, observation: Observation) -> Ranges:
        histogram = cast(Histogram, observation)
        bounds = np.empty(histogram.lows.shape)
        with np.errstate(all="ignore"):
            for rows in channel_pieces(bounds.size):
                best = self.best_bounds(SpreadValues(histogram, rows))
                bounds.reshape(-1)[rows] = best[:, 0]
        return _clipped(histogram, histogram.values_of(bounds))

    def candidate_bounds(self, values: SpreadValues) -> Iterator[tuple[Floats, Floats]]:
        """
        Yield candidate bounds, one per channel, and their `clipping_errors`. Bounds descend
        from the largest magnitude, so errors increase.
        """
        # The zero point is rounded, so the representable range may extend one stored
        # value further.
        reach = 1 + 1 / ((1 << (self.bits - 1)) - 1)
        bounds = np.maximum(np.abs(values.lows), np.abs(values.highs))
        while bounds.max() > _MIN_BOUND:
            yield bounds, values.clipping_errors(bounds * reach)
            bounds = bounds * 2 ** (-1 / _BOUNDS_PER_OCTAVE)

    def quantizer(self, values: SpreadValues, bounds: Floats) -> Quantizer:
        """Return the quantizer for the range that is clipped to `bounds`."""
        lows, highs = _clipped(values, bounds)
        parameters = choose_parameters(
            lows[:, 0],
            highs[:, 0],
            storage=f"i{self.bits}",
            symmetric=self.symmetric,
            expressed="f64",
            quantized_dimension=0,
        )
        zero_points = parameters.zero_points[:, None].astype(np.float64)
        return Quantizer(
            parameters.scales[:, None],
            parameters.storage_min - zero_points,
            parameters.storage_max - zero_points,
        )


@dataclass(frozen=True)
class MeanSquaredErrorObserver(ClippingObserver):
    """Observer of the range with the smallest mean squared error."""

    def best_bounds(self, values: SpreadValues) -> Floats:
        best, least = np.ones(values.lows.shape), np.full(values.lows.shape, np.inf)
        for bounds, clipping_errors in self.candidate_bounds(values):
            if (clipping_errors >= least).all():
                break
            errors = values.squared_errors(self.quantizer(values, bounds))
            is_better = errors < least * (1 - _TOLERANCE)
            best = np.where(is_better, bounds, best)
            least = np.where(is_better, errors, least)
        return best


@dataclass(frozen=True)
class EntropyObserver(ClippingObserver):
    """
    Observer of the range that loses the least information, among the ranges whose mean
    squared error does not exceed that of the full range.
    """

    def best_bounds(self, values: SpreadValues) -> Floats:
        candidates: list[tuple[Floats, Quantizer, NDArray[np.bool_]]] = []
        largest = np.full(values.lows.shape, np.inf)
        for bounds, clipping_errors in self.candidate_bounds(values):
            if (clipping_errors >= largest).all():
                break
            quantizer = self.quantizer(values, bounds)
            errors = values.squared_errors(quantizer)
            if not candidates:
                largest = errors * (1 + _TOLERANCE)
            if (is_small := errors <= largest).any():
                candidates.append((bounds, quantizer, is_small))
        best, least = np.ones(values.lows.shape), np.full(values.lows.shape, np.inf)
        if len(candidates) == 1:
            return best
        divergence = Divergence(values)
        for bounds, quantizer, is_small in candidates:
            cost = np.where(is_small, divergence.of(quantizer), np.inf)
            is_better = cost < least - _TOLERANCE
            best = np.where(is_better, bounds, best)
            least = np.where(is_better, cost, least)
        return best


class Divergence:
    """
    Loss of information by quantization, the sum of two Kullback-Leibler divergences: of the
    values in range from all values, and of the stored values from the values in range. A
    stored value is spread uniformly over the interval of values that it represents.

    Zeros are excluded, because every range stores them exactly. Compare S. Migacz, 8-bit
    inference with TensorRT, GTC 2017, which excludes the first bin. If several bins belong
    to a stored value, each bin after the first biases the divergence upward, by half of the
    share of one value: G. A. Miller, Note on the bias of information estimates, 1955. This
    bias is subtracted.
    """

    def __init__(self, values: SpreadValues):
        counts = values.counts
        densities = np.where(counts > 0, counts / values.widths, 1.0)
        self._values = values
        self._counts = values.sums_before(counts)
        self._used_bins = values.sums_before((counts > 0).astype(np.float64))
        self._logarithms = values.sums_before(
            (counts * np.log(densities)).astype(np.float64)
        )

    def of(self, quantizer: Quantizer) -> Floats:
        """Return the divergence of each channel, in nats, of shape `(channels, 1)`."""
        values = self._values
        steps, first, last = quantizer
        levels = np.arange(int((last - first).max()) + 2)
        # The interval of a stored value contains the values nearest to it.
        edges = np.clip((first + levels - 0.5) * steps, values.lows, values.highs)
        counts, used_bins, logarithms = (
            values.sums_below(sums, edges)
            for sums in (self._counts, self._used_bins, self._logarithms)
        )
        stored = np.diff(counts)
        densities = np.where(stored > 0, stored / np.diff(edges), 1.0)
        known = (stored * np.log(densities)).sum(axis=1, keepdims=True)
        bias = np.maximum(np.diff(used_bins) - 1, 0).sum(axis=1, keepdims=True) / 2
        count = counts[:, -1:] - counts[:, :1]
        unknown = logarithms[:, -1:] - logarithms[:, :1] - known - bias
        return unknown / count - np.log(count / self._counts[:, -1:])


_OBSERVERS: dict[str, type[Observer]] = {
    "min-max": MinMaxObserver,
    "moving-average": MovingAverageObserver,
    "percentile": PercentileObserver,
    "entropy": EntropyObserver,
    "mse": MeanSquaredErrorObserver,
}


def parse_observer(text: str) -> Observer:
    """
    Parse an observer, e.g. `min-max`, `percentile=99.9`, `entropy` or `mse=4,symmetric`.

    Raises:
        TypeError: if `text` is not a string.
        ValueError: if the observer is unknown, or its options are invalid.
    """
    if not isinstance(cast(object, text), str):
        raise TypeError(
            f"expected the name of an observer, e.g. 'min-max', found {type(text).__name__}"
        )
    observer, comma, flag = text.partition(",")
    name, equals, number = observer.partition("=")
    if (class_ := _OBSERVERS.get(name)) is None:
        raise ValueError(
            f"unknown observer '{name}', available: {', '.join(_OBSERVERS)}"
        )
    known = {field.name: type(cast(float, field.default)) for field in fields(class_)}
    arguments: dict[str, float] = {}
    if equals:
        option = next(iter(known), "")
        arguments[option] = _option_number(name, number, known.get(option, bool))
    if comma:
        expected = "only 'symmetric'" if "symmetric" in known else "nothing"
        if (flag := flag.strip()) != "symmetric" or "symmetric" not in known:
            raise ValueError(
                f"observer '{name}' takes {expected} after a comma, found '{flag}'"
            )
        arguments[flag] = True
    return class_(**arguments)


def _option_number(name: str, text: str, number_type: type[float]) -> float:
    """Parse the number of an observer; type `bool` means that it takes no number."""
    if number_type is bool:
        raise ValueError(f"observer '{name}' takes no number, found '{text}'")
    with suppress(ValueError):
        if not math.isnan(value := number_type(text)):
            return value
    kind = "an integer" if number_type is int else "a number"
    raise ValueError(f"observer '{name}' takes {kind}, found '{text}'")
