"""
The figure of [`plot_error`][xdsl_quant.display.plot_error].

It avoids pyplot, so that no windows are opened and no global state changes. The
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
"""Number of histogram bins, unless bins are aligned with stored integers."""

_MAX_INTEGERS = 32
"""Maximum number of stored integers drawn as lines (evenly spaced)."""

_MAX_NUMBERS = 4 * BINS
"""Maximum number of stored floats or table entries drawn as lines."""

_MAX_STEP_RATIO = 100
"""Largest ratio of two steps between stored values for which the axis is linear."""


@dataclass(frozen=True)
class StoredAxis:
    """Axis of a plot in units of stored values."""

    low: float
    """Lower bound of values that do not saturate."""

    high: float
    """Upper bound of values that do not saturate."""

    numbers: Floats
    """Stored values drawn as lines, in ascending order; empty if too many."""

    bins: int
    """Number of equally wide bins between `low` and `high`."""

    linear_range: float | None = None
    """Magnitude up to which a logarithmic axis is linear; `None` for a linear axis."""

    @property
    def scale(self) -> dict[str, Any]:
        """Arguments of matplotlib's `set_xscale`."""
        if self.linear_range is None:
            return {"value": "linear"}
        return {"value": "symlog", "linthresh": self.linear_range}

    @property
    def ticks(self) -> list[float] | None:
        """0 and some powers of ten on a logarithmic axis; otherwise `None`."""
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
        Return the edges of bins, among them `low` and `high`.

        Bins below `low` and above `high` extend as far as `positions`, but not by more
        than half of `high - low` on each side.

        Args:
            positions: values in units of stored values.
        """
        ends = np.array([self.low, self.high, positions.min(), positions.max()])
        low, high, first, last = _axis_positions(ends, self.linear_range).tolist()
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
        """Return the axis for the storage type and range of parameters."""
        dtype = compute_dtype(parameters, "nearest-even")
        if (codec := codec_of(parameters, dtype)) is not None:
            return cls._of_codec(codec)
        first, last = parameters.storage_min, parameters.storage_max
        levels = last - first + 1
        # One or more bins per stored value, or many stored values per bin.
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
            # The range of a single number would have no width.
            low, high = low - 0.5, high + 0.5
        # The upper limit itself does not saturate, but a bin excludes its upper edge.
        high = float(np.nextafter(high, np.inf))
        return cls(low, high, drawn, BINS, linear_range)


def _axis_positions(positions: Floats, linear_range: float | None) -> Floats:
    """Return the positions of numbers along an axis, in an arbitrary unit."""
    if linear_range is None:
        return positions
    return SymmetricalLogTransform(10, linear_range, 1).transform(positions)


# Colors that are distinct for color-blind readers.
_BLUE, _ORANGE, _GREEN = "#0072b2", "#d55e00", "#009e73"

# The lower limit makes a count of 1 visible.
_COUNT_AXIS = {
    "ylabel": "number of values",
    "yscale": "log",
    "ylim": (0.7, None),
}
"""Settings of a logarithmic axis of counts."""

_MAX_GRID_LINES = 32
"""Maximum number of stored values drawn as lines instead of ticks."""

_TICK_HEIGHT = 0.05
"""Height of a tick, as a fraction of the plot height."""

_MAX_BARS = 256
"""Maximum number of channels drawn as bars instead of points."""


class ErrorFigure(Figure):
    """Figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        figure: Any = self
        png = BytesIO()
        figure.savefig(png, format="png")
        return png.getvalue()


def _plot_values(axes: Any, values: QuantizedValues) -> None:
    axis, positions = StoredAxis.of(values.elements), values.positions
    edges = axis.edges(positions)
    # Outliers are counted in the first and last bin.
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
        **_COUNT_AXIS,
    )
    if (ticks := axis.ticks) is not None:
        # matplotlib has no secondary axis for symmetric logarithmic ones.
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
        **_COUNT_AXIS,
    )
    # Small numbers have long labels: more than five of them would overlap.
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _plot_sqnr(figure: Any, axes: Any, parts: PartsOfTensor) -> None:
    """
    Plot the SQNR of each channel or block: as an image if two dimensions are divided
    into blocks, otherwise as bars.
    """
    noun, sqnr = parts.noun, parts.sqnr
    axes.set(title=f"signal-to-noise ratio of each {noun}")
    if np.isposinf(sqnr).all():
        axes.set(xticks=[], yticks=[])
        text, place = f"no error in any {noun}", axes.transAxes
        axes.text(0.5, 0.5, text, transform=place, ha="center", va="center")
        return
    pairs = zip(parts.dimensions, sqnr.shape, strict=True)
    dimensions = [dimension for dimension, count in pairs if count > 1]
    if len(dimensions) != 2:
        _plot_sqnr_bars(axes, sqnr.ravel(), noun)
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
    """Plot a bar or point per channel, and marks for infinite and NaN ratios."""
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
    for mask, height, marker, color, label in marks:
        if (channels := np.flatnonzero(mask)).size:
            heights = np.full(channels.size, height)
            axes.plot(channels, heights, marker, color=color, label=label)
            axes.legend(loc="lower right")
    axes.set(xlabel=name, ylabel="dB", xlim=(edges[0], edges[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def error_figure(values: QuantizedValues) -> ErrorFigure:
    """Draw the figure of [`plot_error`][xdsl_quant.display.plot_error]."""
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
    count = values.non_finite_count
    note = f"; {count} values left out: NaN or infinite" if count else ""
    figure.suptitle(
        f"{storage} for {values.expressed}: SQNR {values.sqnr:.1f} dB, "
        f"largest error {values.largest_error:.3g}, "
        f"saturated {values.saturated:.2%}{note}",
        fontsize="medium",
    )
    return figure
