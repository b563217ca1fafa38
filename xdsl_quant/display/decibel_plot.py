"""A plot of ratios in dB of many things side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .figure_svg import BLUE, BROWN, Plot, figure_svg

_MAX_TICKS = 24

_MARKERS = {"own": ("o", BLUE), "accumulated": ("D", BROWN)}
"""The form and the colour of marks by the class of a series."""


@dataclass(frozen=True)
class Series:
    """Ratios of one kind."""

    name: str
    """What they are."""

    class_: str
    """The class of their marks: `own` for dots, `accumulated` for diamonds."""

    values: Sequence[float]
    """In dB; infinite ones are drawn at the top or the bottom, NaN is left out."""


@dataclass(frozen=True)
class Scale:
    """From which to which ratio a plot reaches."""

    low: float
    high: float
    step: float
    """The distance of grid lines."""

    @staticmethod
    def of(series: Sequence[Series]) -> Scale:
        """A scale for all finite values, of at least 10 dB."""
        values = [v for each in series for v in each.values if math.isfinite(v)]
        low, high = min(values, default=0.0), max(values, default=0.0)
        high = max(high, low + 10)
        step = next(s for s in (2, 5, 10, 20, 50, 100, 1000) if (high - low) / s <= 6)
        return Scale(math.floor(low / step) * step, math.ceil(high / step) * step, step)

    def part(self, value: float) -> float:
        """Where a ratio is, from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self) -> Sequence[float]:
        """The ratios of the grid lines."""
        count = round((self.high - self.low) / self.step)
        return [self.low + index * self.step for index in range(count + 1)]


def decibel_plot(names: Sequence[str], series: Sequence[Series], title: str) -> str:
    """
    A plot of things in their order, which are numbered from 1.

    Args:
        names: what they are called.
        series: their ratios.
        title: what it shows, as text.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    scale = Scale.of(series)
    # Infinite ratios are beyond all that has a number.
    margin = (scale.high - scale.low) / 14
    ends = scale.low - margin, scale.high + margin
    size = 6.5 if len(names) <= 60 else 4.5 if len(names) <= 140 else 3.5

    def draw(plot: Plot) -> None:
        _draw_axes(plot, max(1, len(names)), scale, ends)
        if any(value == math.inf for each in series for value in each.values):
            plot.axes.set_yticks([ends[1]], ["exact"], minor=True)
        for each in series:
            marker, color = _MARKERS[each.class_]
            known = [
                (number, value, f"{name}: {each.name} {_ratio_text(value)}")
                for number, (name, value) in enumerate(
                    zip(names, each.values, strict=True), 1
                )
                if not math.isnan(value)
            ]
            # Own ratios do not depend on each other.
            if each.class_ != "own":
                finite = [(x, y) for x, y, _ in known if math.isfinite(y)]
                xs, ys = zip(*finite, strict=True) if finite else ((), ())
                plot.axes.plot(xs, ys, color=color, alpha=0.6, linewidth=0.8)
            places = [(x, min(max(y, ends[0]), ends[1])) for x, y, _ in known]
            plot.marks(places, marker, color, size, [text for *_, text in known])

    return figure_svg(draw, 920, 250, title)


def _draw_axes(plot: Plot, count: int, scale: Scale, ends: tuple[float, float]) -> None:
    """Draw horizontal lines at ratios in dB, and numbers from 1."""
    steps = (1, 2, 5, 10, 20, 50, 100, 10**9)
    step = next(step for step in steps if count / step <= _MAX_TICKS)
    numbers = {1, *range(step, count + 1, step)}
    axes = plot.axes
    axes.set(xlim=(0.5, count + 0.5), ylim=ends, ylabel="dB", xticks=sorted(numbers))
    axes.set_yticks(scale.ticks())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(axis="x", visible=False)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def _ratio_text(value: float) -> str:
    return "exact" if value == math.inf else f"{value:.1f} dB"
