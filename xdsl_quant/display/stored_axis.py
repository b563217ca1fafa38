"""
The axis of stored values in the figure of [`plot_error`][xdsl_quant.display.plot_error].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.scale import SymmetricalLogTransform

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arithmetic import compute_dtype
from xdsl_quant.numerics.arrays import Floats
from xdsl_quant.numerics.codecs import Codec, codec_of

BINS = 128
"""Bins of a histogram, unless there is one for each stored value."""

_MAX_INTEGERS = 32
"""Most integers that are drawn, as they are evenly spaced."""

_MAX_NUMBERS = 4 * BINS
"""Most other numbers that are drawn."""

_MAX_STEP_RATIO = 100
"""From which ratio of the largest to the smallest step on the axis is logarithmic."""


@dataclass(frozen=True)
class StoredAxis:
    """Which numbers stored values stand for, and how they are drawn."""

    low: float
    """The number below which values saturate."""

    high: float
    """The number above which values saturate."""

    numbers: Floats
    """The numbers that are drawn, in ascending order; none if they are too many."""

    bins: int
    """How many bins of the same width in the figure are between `low` and `high`."""

    linear_range: float | None = None
    """The magnitude up to which a logarithmic axis is linear; `None` for a linear axis."""

    @property
    def scale(self) -> dict[str, Any]:
        """The arguments of matplotlib's `set_xscale`."""
        if self.linear_range is None:
            return {"value": "linear"}
        return {"value": "symlog", "linthresh": self.linear_range}

    @property
    def ticks(self) -> list[float] | None:
        """0 and some powers of ten on a logarithmic axis; `None` for a linear axis."""
        if self.linear_range is None:
            return None
        largest = max(-self.low, self.high)
        first = math.ceil(math.log10(self.linear_range))
        last = math.floor(math.log10(largest))
        powers = range(last, first - 1, -max(1, math.ceil((last - first + 1) / 3)))
        positive = [10.0**power for power in powers]
        ticks = [*(-tick for tick in positive), 0.0, *reversed(positive)]
        return [tick for tick in ticks if self.low <= tick <= self.high]

    def edges(self, positions: Floats) -> Floats:
        """
        Edges of bins, of which one is `low` and one is `high`.

        They go beyond these only where there are positions, and only by half of the
        distance between them.

        Args:
            positions: values in units of stored values.
        """
        ends = np.array([self.low, self.high, positions.min(), positions.max()])
        low, high, first, last = _image(ends, self.linear_range).tolist()
        step = (high - low) / self.bins
        limit = self.bins // 2
        below, above = (
            math.ceil(min(max(0.0, distance / step), limit))
            for distance in (low - first, last - high)
        )
        edges = low + step * np.arange(-below, self.bins + above + 1, dtype=np.float64)
        if self.linear_range is not None:
            transform = SymmetricalLogTransform(10, self.linear_range, 1)
            edges = np.asarray(transform.inverted().transform(edges))
        edges[below], edges[below + self.bins] = self.low, self.high
        return edges

    @classmethod
    def of(cls, parameters: QuantizationParameters) -> StoredAxis:
        """The axis for the storage type and the storage range of parameters."""
        dtype = compute_dtype(parameters, "nearest-even")
        if (codec := codec_of(parameters, dtype)) is not None:
            return cls._of_codec(codec)
        first, last = parameters.storage_min, parameters.storage_max
        levels = last - first + 1
        # Some bins for each stored value, or one, or bins of many stored values.
        bins = levels * max(1, BINS // levels) if levels <= 4 * BINS else BINS
        drawn = range(first, last + 1) if levels <= _MAX_INTEGERS else ()
        return cls(first - 0.5, last + 0.5, np.array(drawn, np.float64), bins)

    @classmethod
    def _of_codec(cls, codec: Codec) -> StoredAxis:
        low, high = codec.limits
        numbers = codec.numbers
        drawn = numbers if numbers.size <= _MAX_NUMBERS else numbers[:0]
        steps = np.diff(numbers)
        linear_range = None
        if steps.size and steps.max() > _MAX_STEP_RATIO * steps.min():
            linear_range = 4 * float(steps.min())
        if low == high:
            # One number has no width that could be drawn.
            low, high = low - 0.5, high + 0.5
        # What is at a limit does not saturate, and a bin does not contain its end.
        high = float(np.nextafter(high, np.inf))
        return cls(low, high, drawn, BINS, linear_range)


def _image(positions: Floats, linear_range: float | None) -> Floats:
    """Where numbers are on an axis, up to a factor."""
    if linear_range is None:
        return positions
    return SymmetricalLogTransform(10, linear_range, 1).transform(positions)
