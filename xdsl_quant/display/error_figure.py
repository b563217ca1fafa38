"""
The figure of [`plot_error`][xdsl_quant.display.plot_error].

It is made without pyplot, so that nothing is opened, kept or configured globally. The
annotations of matplotlib are incomplete: axes and figures are `Any` here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.scale import SymmetricalLogTransform
from matplotlib.ticker import MaxNLocator
from numpy.polynomial import Polynomial

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arithmetic import compute_dtype
from xdsl_quant.numerics.arrays import Floats
from xdsl_quant.numerics.codecs import Codec, codec_of

from .quantized_values import PartsOfTensor, QuantizedValues

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


# Colours that remain different to the colour-blind.
_BLUE, _ORANGE, _GREEN = "#0072b2", "#d55e00", "#009e73"

# A single value is a small bar.
_NUMBERS_OF_VALUES = {
    "ylabel": "number of values",
    "yscale": "log",
    "ylim": (0.7, None),
}
"""The axis of logarithmic bars."""

_MAX_GRID_LINES = 32
"""Most stored values that are drawn as lines, and not as ticks."""

_TICK_HEIGHT = 0.05
"""Height of a tick, as a part of the height of a plot."""

_MAX_BARS = 256
"""Most channels that are drawn as bars, and not as points."""


class ErrorFigure(Figure):
    """A figure that a notebook displays without pyplot."""

    def _repr_png_(self) -> bytes:
        figure: Any = self
        png = BytesIO()
        figure.savefig(png, format="png")
        return png.getvalue()


def _plot_values(axes: Any, values: QuantizedValues) -> None:
    axis, positions = StoredAxis.of(values.elements), values.positions
    edges = axis.edges(positions)
    # Values further away are counted in the first and last bin.
    counts, _ = np.histogram(np.clip(positions, edges[0], edges[-1]), edges)
    axes.stairs(counts, edges, fill=True, color=_BLUE)
    saturated = [
        axes.axvspan(*span, color=_ORANGE, alpha=0.25, zorder=0)
        for span in ((edges[0], axis.low), (axis.high, edges[-1]))
        if span[0] < span[1]
    ]
    if saturated:
        axes.legend(saturated[:1], ["saturated"], loc="upper right")
    height = 1 if axis.numbers.size <= _MAX_GRID_LINES else _TICK_HEIGHT
    for number in axis.numbers.tolist():
        axes.axvline(number, ymax=height, color="black", alpha=0.3, linewidth=0.6)
    axes.set_xscale(**axis.scale)
    axes.set(
        title="values on the grid of stored values",
        xlabel=values.formula,
        xlim=(edges[0], edges[-1]),
        **_NUMBERS_OF_VALUES,
    )
    if (ticks := axis.ticks) is not None:
        # matplotlib has no second axis of values for one that is logarithmic like this.
        axes.set_xticks(ticks)
    elif values.one_scale is not None:
        scale, zero_point = values.one_scale
        to_value = Polynomial((-zero_point * scale, scale))
        functions = (to_value, Polynomial((zero_point, 1 / scale)))
        axes.secondary_xaxis("top", functions=functions).set_xlabel("value")


def _plot_errors(axes: Any, errors: Floats, largest_scale: float) -> None:
    errors = errors[np.isfinite(errors)]
    extent = float(np.abs(errors).max(initial=0.0)) or largest_scale / 2
    counts, edges = np.histogram(errors, bins=BINS, range=(-extent, extent))
    axes.stairs(counts, edges, fill=True, color=_GREEN)
    axes.set(
        title="error",
        xlabel="dequantized value - value",
        **_NUMBERS_OF_VALUES,
    )
    # Small numbers are long, and more of them would run into each other.
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _plot_sqnr(figure: Any, axes: Any, parts: PartsOfTensor) -> None:
    """An image of blocks along two dimensions, or bars."""
    per, sqnr = parts.noun, parts.sqnr
    axes.set(title=f"signal-to-noise ratio of each {per}")
    if np.isposinf(sqnr).all():
        axes.set(xticks=[], yticks=[])
        text, place = f"no error in any {per}", axes.transAxes
        axes.text(0.5, 0.5, text, transform=place, ha="center", va="center")
        return
    pairs = zip(parts.dimensions, sqnr.shape, strict=True)
    dimensions = [dimension for dimension, count in pairs if count > 1]
    if len(dimensions) != 2:
        _plot_sqnr_bars(axes, sqnr.ravel(), per)
        return
    image = axes.imshow(
        sqnr.squeeze(), aspect="auto", interpolation="nearest", cmap="cividis"
    )
    figure.colorbar(image, ax=axes, label="dB")
    ylabel, xlabel = (f"block along dimension {i}" for i in dimensions)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def _plot_sqnr_bars(axes: Any, sqnr: Floats, name: str) -> None:
    """A bar or a point of decibels for each channel; marks for what has no number."""
    is_finite = np.isfinite(sqnr)
    edges = np.arange(sqnr.size + 1) - 0.5
    if sqnr.size > _MAX_BARS:
        axes.plot(sqnr, ".", color=_BLUE, markersize=3)
    else:
        axes.stairs(np.where(is_finite, sqnr, 0.0), edges, fill=True, color=_BLUE)
    top = sqnr[is_finite].max(initial=0.0)
    marks = (
        (np.isposinf(sqnr), top, "^", _GREEN, "no error"),
        (np.isnan(sqnr), 0.0, "x", _ORANGE, "not a number"),
    )
    for which, height, marker, color, label in marks:
        if (channels := np.flatnonzero(which)).size:
            heights = np.full(channels.size, height)
            axes.plot(channels, heights, marker, color=color, label=label)
            axes.legend(loc="lower right")
    axes.set(xlabel=name, ylabel="dB", xlim=(edges[0], edges[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def error_figure(values: QuantizedValues) -> ErrorFigure:
    """See [`plot_error`][xdsl_quant.display.plot_error]."""
    parts, elements = values.parts, values.elements
    figure: Any = ErrorFigure(
        figsize=(9, 3.6 if parts is None else 6.2), dpi=100, layout="constrained"
    )
    rows = figure.add_gridspec(1 if parts is None else 2, 2)
    _plot_values(figure.add_subplot(rows[0, 0]), values)
    _plot_errors(figure.add_subplot(rows[0, 1]), values.errors, values.largest_scale)
    if parts is not None:
        _plot_sqnr(figure, figure.add_subplot(rows[1, :]), parts)
    storage = elements.storage
    if elements.table is not None:
        storage += f" index of {elements.table.size} numbers"
    count = values.left_out
    note = f"; {count} values left out: NaN or infinite" if count else ""
    figure.suptitle(
        f"{storage} for {values.expressed}: SQNR {values.sqnr:.1f} dB, "
        f"largest error {values.largest_error:.3g}, "
        f"saturated {values.saturated:.2%}{note}",
        fontsize="medium",
    )
    return figure
