"""A histogram as a small picture for a cell of a table."""

import numpy as np

from xdsl_quant.numerics.arrays import Array
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
    # All is in parts of the unit: floats that are far apart have no difference.
    low, high = bounds = float(BIN_EDGES[used[0]]), float(BIN_EDGES[used[-1] + 1])
    if stored is not None:
        bounds = first, last = histogram.parts_of(stored).tolist()
        low, high = min(low, first), max(high, last)
    unit = _WIDTH / (high - low)
    start, stop = ((bound - low) * unit for bound in bounds)
    zero = -low * unit
    return render(
        "histogram.html",
        width=_WIDTH,
        height=_HEIGHT,
        foot=_FOOT,
        title=title,
        range=None if stored is None else (start, stop - start),
        bars=_bars(*_values_in_bars(histogram, bounds, low, high)),
        zero=zero if 0 <= zero <= _WIDTH else None,
    )


def _values_in_bars(
    histogram: Histogram, bounds: tuple[float, float], low: float, high: float
) -> tuple[Array, Array]:
    """The numbers of values inside and outside of bounds, of bars from low to high."""
    used = np.flatnonzero(histogram.counts)
    starts, stops, counts = BIN_EDGES[used], BIN_EDGES[used + 1], histogram.counts[used]
    bar_count = min(_BARS, int(used[-1] - used[0]) + 1)
    middles = (starts + stops) / 2
    bars = ((middles - low) * (bar_count / (high - low))).astype(np.int64)
    # A bin at the end of the range has values that are in it.
    nearest = np.clip(0.0, starts, stops)
    is_in = (bounds[0] <= nearest) & (nearest <= bounds[1])
    return (
        np.bincount(bars, np.where(is_in, counts, 0), bar_count),
        np.bincount(bars, np.where(is_in, 0, counts), bar_count),
    )


def _bars(inside: Array, outside: Array) -> dict[str, str]:
    """
    Return the paths of bars that are not empty, at least as high as a line, by class. A bar
    has the class of most of its values.
    """
    counts = inside + outside
    width = _WIDTH / counts.size
    heights = np.log1p(counts) / np.log1p(counts.max()) * (_HEIGHT - 2)
    classes = np.where(inside >= outside, "in", "out")
    paths = {"in": "", "out": ""}
    for bar in np.flatnonzero(counts).tolist():
        height = max(1.5, float(heights[bar]))
        path = f"M{bar * width:.1f} {_HEIGHT}v-{height:.1f}h{width:.1f}V{_HEIGHT}z"
        paths[str(classes[bar])] += path
    return paths
