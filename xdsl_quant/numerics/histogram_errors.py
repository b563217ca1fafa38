"""
What quantization costs, as far as a histogram tells.

Zeros are known, and are kept. Other values are taken to be spread evenly over the part of
their bin that is in range of the smallest and the largest value. How many values are
saturated is exact but for the bins in which the ends of the range are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .observations import BINS, MAGNITUDES, Histogram

_CHANNELS = 16
"""Channels whose bins are looked at together, in the caches."""


class EstimatedError(NamedTuple):
    """What quantization costs, of a tensor and of each of its channels."""

    sqnr: float
    """Signal to quantization noise ratio in dB; infinite if there is no error."""

    saturated_fraction: float
    """Part of the values that are out of range once they are rounded, from 0 to 1."""

    channel_sqnr: NDArray[np.float64]
    """That of each channel, of shape `(channels,)`."""

    channel_saturated_fraction: NDArray[np.float64]
    """That of each channel, of shape `(channels,)`."""


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
    counts = histogram.counts.reshape(-1, BINS)
    widths = histogram.widths.reshape(-1, 1)

    def column(numbers: ArrayLike) -> NDArray[np.float64]:
        return np.broadcast_to(np.reshape(numbers, (-1, 1)), widths.shape) * 1.0

    # All is in units of bins, in which squares are rarely out of range.
    zero_points = column(zero_points)
    columns = [
        column(histogram.lows) / widths,
        column(histogram.highs) / widths,
        column(histogram.zeros),
        column(scales) / widths,
        storage_min - zero_points,
        storage_max - zero_points,
    ]
    sums = np.empty((3, len(counts)))
    with np.errstate(all="ignore"):
        for start in range(0, len(counts), _CHANNELS):
            rows = slice(start, start + _CHANNELS)
            lows, highs, zeros, *quantizer = (numbers[rows] for numbers in columns)
            sums[:, rows] = _sums(
                counts[rows], lows, highs, zeros, _Quantizer(*quantizer)
            )
        # What is too small beside the widest bins is nothing.
        units = np.square(widths[:, 0] / widths.max())
    totals = counts.sum(axis=1)
    # Differences of what is rounded may be less than nothing.
    signal, noise = sums[0], np.maximum(sums[1], 0)
    saturated = np.clip(sums[2], 0, totals)
    return EstimatedError(
        float(_ratio((signal * units).sum(), (noise * units).sum())),
        float(saturated.sum() / totals.sum()),
        _ratio(signal, noise),
        saturated / totals,
    )


def _ratio(signal: ArrayLike, noise: ArrayLike) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        ratio = 10 * np.log10(np.divide(signal, noise))
    return np.where(np.equal(noise, 0), np.inf, ratio)


# Bins, in units of their width. They end away from 0, but the one in the middle has two
# ends.
_ENDS = np.delete(np.arange(-MAGNITUDES, MAGNITUDES + 1.0), MAGNITUDES)
_LENGTHS = np.diff(_ENDS)
_MIDDLE = MAGNITUDES - 1


class _Quantizer(NamedTuple):
    """How values in units of bins are quantized; all are of shape `(channels, 1)`."""

    steps: NDArray[np.float64]
    """The scale."""

    first: NDArray[np.float64]
    """The smallest stored value, without the zero point."""

    last: NDArray[np.float64]
    """The largest one."""

    def nearest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """What values are quantized to, all in units of the scale."""
        nearest = np.rint(values)
        # Much faster than `clip`.
        np.maximum(nearest, self.first, out=nearest)
        return np.minimum(nearest, self.last, out=nearest)

    def error_integrals(self, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """
        The integral of the squared error from 0 on. Up to a stored value there is a
        twelfth of a cube for each, and then the third of one.
        """
        values = ends / self.steps
        nearest = self.nearest(values)
        values -= nearest
        integrals = values * values
        integrals *= values
        integrals *= 4
        integrals += nearest
        integrals *= self.steps**3 / 12
        return integrals

    @property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values that are out of range once they are rounded are beyond these."""
        return (self.first - 0.5) * self.steps, (self.last + 0.5) * self.steps


_Sums = NDArray[np.float64]
"""
Sums of squared values and squared errors, and the number of saturated values, along the
first dimension; one of each for each channel.
"""


def _sums(
    counts: NDArray[np.int64],
    lows: NDArray[np.float64],
    highs: NDArray[np.float64],
    zeros: NDArray[np.float64],
    quantizer: _Quantizer,
) -> _Sums:
    """The sums for a histogram in which the smallest and the largest value are known."""
    whole = counts.astype(np.float64)
    whole[:, _MIDDLE] -= zeros[:, 0]
    # The outermost bins have values in a part of them only.
    bins = np.trunc(np.concatenate((lows, highs), axis=1)).astype(np.int64) + _MIDDLE
    ends = np.clip(_ENDS[bins], lows, highs), np.clip(_ENDS[bins + 1], lows, highs)
    cut = np.take_along_axis(whole, bins, axis=1)
    cut[:, 1:] *= bins[:, :1] != bins[:, 1:]
    np.put_along_axis(whole, bins, 0, axis=1)
    return _sums_of_bins(whole, quantizer) + _sums_of_parts(*ends, cut, quantizer)


_SQUARES = (_ENDS[:-1] ** 2 + _ENDS[:-1] * _ENDS[1:] + _ENDS[1:] ** 2) / 3


def _sums_of_bins(counts: NDArray[np.float64], quantizer: _Quantizer) -> _Sums:
    """The sums for values spread over whole bins."""
    errors = np.diff(quantizer.error_integrals(_ENDS), axis=1)
    errors /= _LENGTHS
    lowest, highest = quantizer.bounds
    up_to = np.cumsum(counts, axis=1)
    below = _number_below(lowest, counts, up_to)
    above = up_to[:, -1:] - _number_below(highest, counts, up_to)
    noise = np.einsum("ij,ij->i", counts, errors)
    return np.stack((counts @ _SQUARES, noise, (below + above)[:, 0]))


def _number_below(
    values: NDArray[np.float64],
    counts: NDArray[np.float64],
    up_to: NDArray[np.float64],
) -> NDArray[np.float64]:
    bins = np.clip(np.trunc(values), -_MIDDLE, _MIDDLE).astype(np.int64) + _MIDDLE
    count = np.take_along_axis(counts, bins, axis=1)
    part = np.clip((values - _ENDS[bins]) / _LENGTHS[bins], 0, 1)
    return np.take_along_axis(up_to, bins, axis=1) + (part - 1) * count


def _sums_of_parts(
    starts: NDArray[np.float64],
    stops: NDArray[np.float64],
    counts: NDArray[np.float64],
    quantizer: _Quantizer,
) -> _Sums:
    """The sums for values spread over parts of bins, or all the same."""
    lengths = stops - starts
    is_point = lengths < 1e-6
    lengths = np.where(is_point, 1.0, lengths)
    squares = (starts * starts + starts * stops + stops * stops) / 3

    integrals = (quantizer.error_integrals(ends) for ends in (starts, stops))
    start_integrals, stop_integrals = integrals
    nearest = quantizer.nearest(starts / quantizer.steps) * quantizer.steps
    errors = (stop_integrals - start_integrals) / lengths
    errors = np.where(is_point, np.square(starts - nearest), errors)

    lowest, highest = quantizer.bounds
    below = np.clip((lowest - starts) / lengths, 0, 1)
    above = np.clip((stops - highest) / lengths, 0, 1)
    is_outside = (starts < lowest) | (starts > highest)
    saturated = np.where(is_point, is_outside, below + above)
    return np.stack(
        [(counts * each).sum(axis=1) for each in (squares, errors, saturated)]
    )
