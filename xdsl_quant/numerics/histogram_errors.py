"""
Quantization errors estimated from histograms.

Zeros are exact. Other values are assumed to be distributed uniformly over their bin, which
is clipped to the smallest and the largest value. Counts of saturated values are exact
except for bins that contain a bound of the representable range.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Floats
from .histogram import BIN_EDGES, BINS, MIDDLE, Histogram

_CHANNELS = 8
"""Number of channels whose bins are processed together, which fits the caches."""


class EstimatedError(NamedTuple):
    """Estimated quantization error of a tensor and of each of its channels."""

    sqnr: float
    """Signal to quantization noise ratio in dB; infinite if all errors are 0."""

    saturated_fraction: float
    """Fraction of values out of range after rounding, from 0 to 1."""

    channel_sqnr: Floats
    """SQNR of each channel, of shape `(channels,)`."""

    channel_saturated_fraction: Floats
    """Saturated fraction of each channel, of shape `(channels,)`."""


def estimate_error(
    histogram: Histogram,
    scales: ArrayLike,
    zero_points: ArrayLike,
    storage_min: int,
    storage_max: int,
) -> EstimatedError:
    """
    Estimate the result of [`measure_error`][xdsl_quant.numerics.measure_error] for the
    values in a histogram. The rounding of ties has no effect on the estimate.

    Args:
        histogram: the values of a tensor, or of each channel.
        scales: one scale, or one per channel.
        zero_points: one zero point, or one per channel.
        storage_min: the smallest stored value.
        storage_max: the largest stored value.
    """
    # All scales much larger than the values give the same result.
    scales = np.minimum(histogram.parts_of(scales), 2.0**100)
    steps, zero_points = (
        np.broadcast_to(np.ravel(numbers), histogram.exponents.size)[:, None]
        for numbers in (scales, np.asarray(zero_points, np.float64))
    )
    bounds = storage_min - zero_points, storage_max - zero_points
    exponents = histogram.exponents.ravel()
    with np.errstate(all="ignore"):
        sums = _sums_by_channel(histogram, Quantizer(steps, *bounds))
        # Channels whose weight underflows are negligible.
        weights = np.square(np.ldexp(1.0, exponents - exponents.max()))
    totals = histogram.counts.reshape(-1, BINS).sum(axis=1)
    # Differences of rounded numbers may be negative.
    signal, noise = sums[0], np.maximum(sums[1], 0)
    saturated = np.clip(sums[2], 0, totals)
    return EstimatedError(
        float(_ratio((signal * weights).sum(), (noise * weights).sum())),
        float(saturated.sum() / totals.sum()),
        _ratio(signal, noise),
        saturated / totals,
    )


def _sums_by_channel(histogram: Histogram, quantizer: Quantizer) -> Floats:
    """Return squares, squared errors and counts of saturated values, summed by channel."""
    sums = np.empty((3, len(quantizer.steps)))
    for rows in channel_pieces(len(quantizer.steps)):
        values = SpreadValues(histogram, rows)
        part = Quantizer(*(numbers[rows] for numbers in quantizer))
        sums[0, rows] = values.squares()
        sums[1, rows] = values.squared_errors(part)[:, 0]
        sums[2, rows] = values.outside(*part.bounds)[:, 0]
    return sums


def clipped_fraction(histogram: Histogram, lows: ArrayLike, highs: ArrayLike) -> float:
    """
    Return the fraction of the nonzero values of a histogram that are out of range.

    Args:
        histogram: the values of a tensor, or of each channel.
        lows: the smallest value in range, or one per channel.
        highs: the largest value in range, or one per channel.
    """
    bounds = np.stack([histogram.parts_of(bound).ravel() for bound in (lows, highs)], 1)
    outside = total = 0.0
    for rows in channel_pieces(len(bounds)):
        values = SpreadValues(histogram, rows)
        outside += float(values.outside(bounds[rows, :1], bounds[rows, 1:]).sum())
        total += float(values.counts.sum())
    return outside / total if total else 0.0


def _ratio(signal: ArrayLike, noise: ArrayLike) -> Floats:
    with np.errstate(all="ignore"):
        ratio = 10 * np.log10(np.divide(signal, noise))
    return np.where(np.equal(noise, 0), np.inf, ratio)


def channel_pieces(count: int) -> Iterator[slice]:
    """Yield slices of channels whose bins are processed together."""
    return (slice(i, i + _CHANNELS) for i in range(0, count, _CHANNELS))


class Quantizer(NamedTuple):
    """Quantizer of values divided by the unit; fields have shape `(channels, 1)`."""

    steps: Floats
    """Scale, divided by the unit of the histogram."""

    first: Floats
    """Smallest stored value, zero-point-corrected."""

    last: Floats
    """Largest stored value, zero-point-corrected."""

    def nearest(self, values: Floats) -> Floats:
        """Divide by the scale, round, and clamp results to the range `first` to `last`."""
        nearest = np.rint(values)
        # Much faster than `clip`.
        np.maximum(nearest, self.first, out=nearest)
        return np.minimum(nearest, self.last, out=nearest)

    def squared_error(self, values: Floats) -> Floats:
        nearest = self.nearest(values / self.steps)
        return np.square(values - nearest * self.steps)

    def error_integrals(self, edges: Floats) -> Floats:
        """
        Return the integral of the squared error from 0 to each edge: `scale**3 / 12` for
        each stored value in between, plus `error**3 / 3` for the error at the edge.
        """
        values = edges / self.steps
        nearest = self.nearest(values)
        values -= nearest
        integrals = values * values
        integrals *= values
        integrals *= 4
        integrals += nearest
        integrals *= self.steps**3 / 12
        return integrals

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest value in range after rounding."""
        return (self.first - 0.5) * self.steps, (self.last + 0.5) * self.steps


_MAGNITUDES = BIN_EDGES[MIDDLE + 1 : -1]
"""Inner edges of the bins of positive values, as fractions of the unit."""


class SpreadValues:
    """Nonzero values, uniform within each bin, as fractions of the histogram's unit."""

    def __init__(self, histogram: Histogram, rows: slice):
        """
        Args:
            histogram: the values.
            rows: the slice of channels; a tensor counts as one channel.
        """
        self.lows, self.highs = (
            histogram.parts_of(bound).reshape(-1, 1)[rows]
            for bound in (histogram.lows, histogram.highs)
        )
        """Smallest and largest value of each channel, of shape `(channels, 1)`."""
        self.counts = histogram.counts.reshape(-1, BINS)[rows].astype(np.float64)
        """Number of nonzero values in each bin, of shape `(channels, BINS)`."""
        self.counts[:, MIDDLE] -= histogram.zeros.ravel()[rows]
        # The outermost bins are occupied only in part.
        self.edges = np.clip(BIN_EDGES, self.lows, self.highs)
        """Edges of the bins, of shape `(channels, BINS + 1)`."""
        widths = np.diff(self.edges)
        # All values of a bin may be equal or nearly equal.
        are_points = (widths < 1e-6 * np.diff(BIN_EDGES)) & (self.counts > 0)
        self._points = np.nonzero(are_points)
        self.widths = np.where(widths > 0, widths, 1.0)
        """Widths of the bins, with widths of 0 replaced by 1."""

    def squares(self) -> Floats:
        """Return the sum of squares of each channel, of shape `(channels,)`."""
        starts, stops = self.edges[:, :-1], self.edges[:, 1:]
        squares = (starts * starts + starts * stops + stops * stops) / 3
        return (self.counts * squares).sum(axis=1)

    def squared_errors(self, quantizer: Quantizer) -> Floats:
        """Return the sum of squared errors of each channel, of shape `(channels, 1)`."""
        errors = np.diff(quantizer.error_integrals(self.edges))
        errors /= self.widths
        if self._points[0].size:
            at_starts = quantizer.squared_error(self.edges[:, :-1])
            errors[self._points] = at_starts[self._points]
        return np.einsum("ij,ij->i", self.counts, errors)[:, None]

    def clipping_errors(self, bounds: Floats) -> Floats:
        """
        Return a lower bound on the sum of squared errors of clipped values. Each value is
        assumed to be at the edge of its bin that is closer to 0.

        Args:
            bounds: the clipping bound of each channel, of shape `(channels, 1)`.
        """
        first = np.searchsorted(_MAGNITUDES, bounds)
        is_any = first < len(_MAGNITUDES)
        squares, sums, counts = (
            np.take_along_axis(moments, np.where(is_any, first, 0), axis=1)
            for moments in self._moments
        )
        errors = squares - 2 * bounds * sums + bounds * bounds * counts
        return np.where(is_any, errors, 0.0)

    @cached_property
    def _moments(self) -> list[Floats]:
        """
        Sums of squares, magnitudes and counts. The sums at a magnitude cover all bins with
        at least this magnitude, positive and negative.
        """
        folded = self.counts[:, MIDDLE + 1 :] + self.counts[:, MIDDLE - 1 :: -1]
        return [
            np.cumsum((folded * _MAGNITUDES**power)[:, ::-1], axis=1)[:, ::-1]
            for power in (2, 1, 0)
        ]

    def outside(self, lows: Floats, highs: Floats) -> Floats:
        """
        Return for each channel the number of values out of range, of shape `(channels, 1)`.

        Args:
            lows: the smallest value in range of each channel, of shape `(channels, 1)`.
            highs: the largest value in range of each channel.
        """
        points = np.zeros_like(self.counts)
        points[self._points] = self.counts[self._points]
        up_to = self.sums_before(self.counts - points)
        below_lows, below_highs = (
            self.sums_below(up_to, bounds) for bounds in (lows, highs)
        )
        outside = up_to[:, -1:] - below_highs + below_lows
        if not self._points[0].size:
            return outside
        # Bounds are rounded: values at a bound are in range.
        values = self.edges[:, :-1]
        is_below = values < lows - 1e-12 * np.abs(lows)
        is_above = values > highs + 1e-12 * np.abs(highs)
        return outside + (points * (is_below | is_above)).sum(axis=1, keepdims=True)

    @staticmethod
    def sums_before(weights: Floats) -> Floats:
        """Return for each bin edge the sum of the `weights` of all bins below this edge."""
        sums = np.zeros((len(weights), BINS + 1))
        np.cumsum(weights, axis=1, out=sums[:, 1:])
        return sums

    def sums_below(self, sums: Floats, values: Floats) -> Floats:
        """
        Interpolate sums linearly between bin edges.

        Args:
            sums: the sum up to each bin edge, from `sums_before`.
            values: the positions to interpolate at, of shape `(channels, n)`.
        """
        bins = np.clip(np.searchsorted(BIN_EDGES, values) - 1, 0, BINS - 1)
        starts, widths, before, after = (
            np.take_along_axis(array, positions, axis=1)
            for array, positions in (
                (self.edges, bins),
                (self.widths, bins),
                (sums, bins),
                (sums, bins + 1),
            )
        )
        parts = np.clip((values - starts) / widths, 0, 1)
        return before + parts * (after - before)
