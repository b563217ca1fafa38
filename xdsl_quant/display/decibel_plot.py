"""Plots of ratios in dB: of many things side by side, and of one thing in a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .report_parts import picture

_WIDTH, _HEIGHT = 920, 250
_LEFT, _RIGHT, _TOP, _FOOT = 40, 12, 26, 34
"""The margins around the plot, in pixels."""

_CELL_WIDTH, _CELL_HEIGHT, _CELL_MARGIN = 130, 16, 6

_MAX_TICKS = 24


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
    """
    scale = Scale.of(series)
    width = (_WIDTH - _LEFT - _RIGHT) / max(1, len(names))
    height = _HEIGHT - _TOP - _FOOT

    def x(index: int) -> float:
        return _LEFT + (index + 0.5) * width

    def y(value: float) -> float:
        if math.isinf(value):
            # Beyond all that has a number.
            return _TOP - 12 if value > 0 else _HEIGHT - _FOOT + 4
        return _TOP + (1 - scale.part(value)) * height

    content = "".join(
        f'<path class="grid" d="M{_LEFT} {y(tick):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in scale.ticks()
    )
    content += f'<text x="{_LEFT - 6}" y="12" text-anchor="end">dB</text>'
    if any(value == math.inf for each in series for value in each.values):
        content += f'<text x="{_LEFT + 2}" y="{y(math.inf) + 4}">exact</text>'
    step = next(
        step
        for step in (1, 2, 5, 10, 20, 50, 100, 10**9)
        if len(names) / step <= _MAX_TICKS
    )
    numbers = sorted({1, *range(step, len(names) + 1, step)}) if names else []
    content += "".join(
        f'<text x="{x(number - 1):.1f}" y="{_HEIGHT - _FOOT + 18}" '
        f'text-anchor="middle">{number}</text>'
        for number in numbers
    )
    size = 4.5 if width >= 14 else 3.2 if width >= 6 else 2.4
    for each in series:
        points = [(x(index), y(value)) for index, value in enumerate(each.values)]
        if each.class_ != "own":
            # Own ratios do not depend on each other.
            content += _line(
                [
                    point
                    for point, value in zip(points, each.values, strict=True)
                    if math.isfinite(value)
                ]
            )
        for (left, top), value, name in zip(points, each.values, names, strict=True):
            if not math.isnan(value):
                text = escape(f"{name}: {each.name} {_text(value)}")
                content += (
                    f'<path class="{each.class_}" d="{mark(each.class_, left, top, size)}">'
                    f"<title>{text}</title></path>"
                )
    svg = picture(_WIDTH, _HEIGHT, title, content)
    return svg.replace("<svg ", '<svg class="plot" ', 1)


def decibel_cell(scale: Scale, series: Sequence[Series], title: str) -> str:
    """
    A picture of the ratios of one thing, the first ones of series, for a cell of a table.
    """
    middle = _CELL_HEIGHT / 2

    def x(value: float) -> float:
        return _CELL_MARGIN + scale.part(value) * (_CELL_WIDTH - 2 * _CELL_MARGIN)

    content = f'<path class="grid" d="M{x(scale.low)} {middle}H{x(scale.high)}"/>'
    known = [each for each in series if not math.isnan(each.values[0])]
    if len(known) > 1:
        places = [x(each.values[0]) for each in known]
        content += (
            f'<path class="span" d="M{min(places):.1f} {middle}H{max(places):.1f}"/>'
        )
    content += "".join(
        f'<path class="{each.class_}" '
        f'd="{mark(each.class_, x(each.values[0]), middle, 4.5)}"/>'
        for each in known
    )
    return picture(_CELL_WIDTH, _CELL_HEIGHT, title, content)


def mark(class_: str, x: float, y: float, size: float) -> str:
    """The path of a mark: a dot for `own`, else a diamond."""
    if class_ == "own":
        radius = size * 0.9
        return (
            f"M{x - radius:.1f} {y:.1f}a{radius:.1f} {radius:.1f} 0 1 0 "
            f"{2 * radius:.1f} 0a{radius:.1f} {radius:.1f} 0 1 0 {-2 * radius:.1f} 0z"
        )
    half = size * 1.15
    return (
        f"M{x:.1f} {y - half:.1f}l{half:.1f} {half:.1f} {-half:.1f} {half:.1f} "
        f"{-half:.1f} {-half:.1f}z"
    )


def _text(value: float) -> str:
    return "exact" if value == math.inf else f"{value:.1f} dB"


def _line(points: Sequence[tuple[float, float]]) -> str:
    """A line through points."""
    steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="line" d="M{steps}"/>' if points else ""
