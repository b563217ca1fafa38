"""Histograms as small SVG pictures for table cells."""

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
    Draw a histogram without channels as SVG. Bar heights are logarithmic.

    CSS classes are `range` for the storage range, and `in` and `out` for bars inside
    and outside of it.

    Args:
        histogram: the histogram.
        stored: range of values that do not saturate; `None` if channels differ.
        title: title for tooltips and screen readers.
    """
    used = np.flatnonzero(histogram.counts)
    # In the unit of the histogram: differences of distant floats could overflow.
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
    """Return two value counts per bar: of values inside and outside `bounds`."""
    used = np.flatnonzero(histogram.counts)
    starts, stops, counts = BIN_EDGES[used], BIN_EDGES[used + 1], histogram.counts[used]
    bar_count = min(_BARS, int(used[-1] - used[0]) + 1)
    middles = (starts + stops) / 2
    bars = ((middles - low) * (bar_count / (high - low))).astype(np.int64)
    # Test the value nearest to 0: a bin across a bound counts as inside.
    nearest = np.clip(0.0, starts, stops)
    is_in = (bounds[0] <= nearest) & (nearest <= bounds[1])
    return (
        np.bincount(bars, np.where(is_in, counts, 0), bar_count),
        np.bincount(bars, np.where(is_in, 0, counts), bar_count),
    )


def _bars(inside: Array, outside: Array) -> dict[str, str]:
    """Return SVG paths of nonempty bars by class: `in` if most values are inside."""
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
