"""
Quantization errors estimated from histograms.

Zeros are known, and are kept. Other values are taken to be spread evenly over the part of
their bin that is between the smallest and the largest value. How many values are saturated
is exact but for the bins in which the bounds of what can be stored are.
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
"""Channels whose bins are processed together, in the caches."""


class EstimatedError(NamedTuple):
    """Estimated quantization error of a tensor and of each of its channels."""

    sqnr: float
    """Signal to quantization noise ratio in dB; infinite if there is no error."""

    saturated_fraction: float
    """Part of the values that are out of range once they are rounded, from 0 to 1."""

    channel_sqnr: Floats
    """The same of each channel, of shape `(channels,)`."""

    channel_saturated_fraction: Floats
    """The same of each channel, of shape `(channels,)`."""


def estimate_error(
    histogram: Histogram,
    scales: ArrayLike,
    zero_points: ArrayLike,
    storage_min: int,
    storage_max: int,
) -> EstimatedError:
    """
    What [`measure_error`][xdsl_quant.numerics.measure_error] would say of the values in a
    histogram, with ties rounded either way.

    Args:
        histogram: the values of a tensor, or of each channel.
        scales: one scale, or one for each channel.
        zero_points: one zero point, or one for each channel.
        storage_min: the smallest stored value.
        storage_max: the largest stored value.
    """
    # Whether a scale is larger or much larger than all values makes no difference.
    scales = np.minimum(histogram.parts_of(scales), 2.0**100)
    steps, zero_points = (
        np.broadcast_to(np.ravel(numbers), histogram.exponents.size)[:, None]
        for numbers in (scales, np.asarray(zero_points, np.float64))
    )
    bounds = storage_min - zero_points, storage_max - zero_points
    exponents = histogram.exponents.ravel()
    with np.errstate(all="ignore"):
        sums = _sums_by_channel(histogram, Quantizer(steps, *bounds))
        # What is too small beside the largest unit is nothing.
        weights = np.square(np.ldexp(1.0, exponents - exponents.max()))
    totals = histogram.counts.reshape(-1, BINS).sum(axis=1)
    # Differences of what is rounded may be less than nothing.
    signal, noise = sums[0], np.maximum(sums[1], 0)
    saturated = np.clip(sums[2], 0, totals)
    return EstimatedError(
        float(_ratio((signal * weights).sum(), (noise * weights).sum())),
        float(saturated.sum() / totals.sum()),
        _ratio(signal, noise),
        saturated / totals,
    )


def _sums_by_channel(histogram: Histogram, quantizer: Quantizer) -> Floats:
    """Sums of squares and squared errors, and counts of saturated values, by channel."""
    sums = np.empty((3, len(quantizer.steps)))
    for rows in channel_pieces(len(quantizer.steps)):
        values = SpreadValues(histogram, rows)
        part = Quantizer(*(numbers[rows] for numbers in quantizer))
        sums[0, rows] = values.squares()
        sums[1, rows] = values.squared_errors(part)[:, 0]
        sums[2, rows] = values.outside(*part.bounds)[:, 0]
    return sums


def cut_off_fraction(histogram: Histogram, lows: ArrayLike, highs: ArrayLike) -> float:
    """
    Return the part of the values of a histogram that are out of ranges, of those that
    are not 0.

    Args:
        histogram: the values of a tensor, or of each channel.
        lows: the smallest value in range, or one for each channel.
        highs: the largest value in range, or one for each channel.
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
    """Slices of channels whose bins are processed together."""
    return (slice(i, i + _CHANNELS) for i in range(0, count, _CHANNELS))


class Quantizer(NamedTuple):
    """How parts of the unit are quantized; all fields are of shape `(channels, 1)`."""

    steps: Floats
    """The scale, as a part of the unit."""

    first: Floats
    """The smallest stored value, zero-point-corrected."""

    last: Floats
    """The largest stored value, zero-point-corrected."""

    def nearest(self, values: Floats) -> Floats:
        """Return the zero-point-corrected stored values of multiples of the scale."""
        nearest = np.rint(values)
        # Much faster than `clip`.
        np.maximum(nearest, self.first, out=nearest)
        return np.minimum(nearest, self.last, out=nearest)

    def squared_error(self, values: Floats) -> Floats:
        """Return the squared errors of values."""
        nearest = self.nearest(values / self.steps)
        return np.square(values - nearest * self.steps)

    def error_integrals(self, edges: Floats) -> Floats:
        """
        Return the integral of the squared error from 0 on. Up to a stored value there
        is a twelfth of a cube for each, and then the third of one.
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
        """The smallest and the largest value that are in range once they are rounded."""
        return (self.first - 0.5) * self.steps, (self.last + 0.5) * self.steps


_MAGNITUDES = BIN_EDGES[MIDDLE + 1 : -1]
"""The edges closer to 0 of the bins on one side, as parts of the unit."""


class SpreadValues:
    """
    The values of some channels of a histogram without zeros, those of each bin spread
    evenly. All are parts of the unit, in which squares are rarely out of range.
    """

    def __init__(self, histogram: Histogram, rows: slice):
        """
        Args:
            histogram: the values.
            rows: the channels; a tensor is one.
        """
        self.lows, self.highs = (
            histogram.parts_of(bound).reshape(-1, 1)[rows]
            for bound in (histogram.lows, histogram.highs)
        )
        """The smallest and the largest value of each channel, of shape `(channels, 1)`."""
        self.counts = histogram.counts.reshape(-1, BINS)[rows].astype(np.float64)
        """Number of values in each bin, of shape `(channels, BINS)`."""
        self.counts[:, MIDDLE] -= histogram.zeros.ravel()[rows]
        # The outermost bins have values in a part of them only.
        self.edges = np.clip(BIN_EDGES, self.lows, self.highs)
        """The edges of the bins, of shape `(channels, BINS + 1)`."""
        widths = np.diff(self.edges)
        # Values of a bin may all be the same, or as good as the same.
        are_points = (widths < 1e-6 * np.diff(BIN_EDGES)) & (self.counts > 0)
        self._points = np.nonzero(are_points)
        self.widths = np.where(widths > 0, widths, 1.0)
        """The widths of bins, and 1 for those without width."""

    def squares(self) -> Floats:
        """Return the sum of the squares of each channel, of shape `(channels,)`."""
        starts, stops = self.edges[:, :-1], self.edges[:, 1:]
        squares = (starts * starts + starts * stops + stops * stops) / 3
        return (self.counts * squares).sum(axis=1)

    def squared_errors(self, quantizer: Quantizer) -> Floats:
        """
        Return the sum of the squared errors of each channel, of shape `(channels, 1)`.
        """
        errors = np.diff(quantizer.error_integrals(self.edges))
        errors /= self.widths
        if self._points[0].size:
            at_starts = quantizer.squared_error(self.edges[:, :-1])
            errors[self._points] = at_starts[self._points]
        return np.einsum("ij,ij->i", self.counts, errors)[:, None]

    def clipping_errors(self, bounds: Floats) -> Floats:
        """
        What the squared errors of the values beyond bounds sum up to at least: as if each
        value were at the end of its bin that is closer to 0.

        Args:
            bounds: a bound for the magnitudes of each channel, of shape `(channels, 1)`.
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
        For each bin of one side the sums of the squares, of the magnitudes, and the number
        of the values in it and in all bins on both sides that are further from 0.
        """
        folded = self.counts[:, MIDDLE + 1 :] + self.counts[:, MIDDLE - 1 :: -1]
        return [
            np.cumsum((folded * _MAGNITUDES**power)[:, ::-1], axis=1)[:, ::-1]
            for power in (2, 1, 0)
        ]

    def outside(self, lows: Floats, highs: Floats) -> Floats:
        """
        How many values of each channel are out of a range, of shape `(channels, 1)`.

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
        # Bounds are rounded: what is at one of them is in range.
        values = self.edges[:, :-1]
        is_below = values < lows - 1e-12 * np.abs(lows)
        is_above = values > highs + 1e-12 * np.abs(highs)
        return outside + (points * (is_below | is_above)).sum(axis=1, keepdims=True)

    @staticmethod
    def sums_before(weights: Floats) -> Floats:
        """For each edge of a bin the sum of the weights of all bins below it."""
        sums = np.zeros((len(weights), BINS + 1))
        np.cumsum(weights, axis=1, out=sums[:, 1:])
        return sums

    def sums_below(self, sums: Floats, values: Floats) -> Floats:
        """
        Return the sums of what is below values.

        Args:
            sums: sums before each bin, as from `sums_before`.
            values: some values for each channel, of shape `(channels, n)`.
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
