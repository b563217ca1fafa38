"""A histogram as a small picture for a cell of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.histogram import BIN_EDGES, Histogram

from .pages import render

_WIDTH, _HEIGHT, _FOOT = 240, 44, 4

_BARS = 80


def histogram_svg(
    histogram: Histogram, stored: tuple[float, float] | None, title: str
) -> str:
    """
    A picture of a histogram without channels. Heights are logarithms of numbers of values.

    Its classes are `range` for what can be stored, `in` for bars in this range, and `out`
    for others.

    Args:
        histogram: the histogram.
        stored: from where to where values are not saturated; `None` if that is not the
            same for all of them.
        title: what it shows, as text.
    """
    used = np.flatnonzero(histogram.counts)
    starts, stops = BIN_EDGES[used], BIN_EDGES[used + 1]
    # All is in parts of the unit: floats that are far apart have no difference.
    low, high = first, last = float(starts[0]), float(stops[-1])
    if stored is not None:
        first, last = histogram.parts_of(stored).tolist()
        low, high = min(low, first), max(high, last)
    unit = _WIDTH / (high - low)
    bar_count = min(_BARS, int(used[-1] - used[0]) + 1)
    middles, counts = (starts + stops) / 2, histogram.counts[used]
    bars = ((middles - low) * (bar_count / (high - low))).astype(np.int64)
    # A bin at the end of the range has values that are in it.
    nearest = np.clip(0.0, starts, stops)
    is_in = (first <= nearest) & (nearest <= last)
    inside, outside = (
        np.bincount(bars, np.where(is_shown, counts, 0), bar_count)
        for is_shown in (is_in, ~is_in)
    )
    # A bar has the colour of most of its values.
    heights = inside + outside
    is_inside = inside >= outside
    zero, largest = -low * unit, heights.max()
    return render(
        "histogram.html",
        width=_WIDTH,
        height=_HEIGHT,
        foot=_FOOT,
        title=title,
        range=None if stored is None else ((first - low) * unit, (last - first) * unit),
        bars={
            "in": _bars(np.where(is_inside, heights, 0), largest),
            "out": _bars(np.where(is_inside, 0, heights), largest),
        },
        zero=zero if 0 <= zero <= _WIDTH else None,
    )


def _bars(counts: NDArray[np.float64], largest: float) -> str:
    """The path of bars of all counts that are not 0, at least as high as a line."""
    bars = np.flatnonzero(counts)
    heights = np.log1p(counts[bars]) / np.log1p(largest) * (_HEIGHT - 2)
    width = _WIDTH / counts.size
    return "".join(
        f"M{x:.1f} {_HEIGHT}v-{height:.1f}h{width:.1f}V{_HEIGHT}z"
        for x, height in zip(
            (bars * width).tolist(), np.maximum(heights, 1.5).tolist(), strict=True
        )
    )
