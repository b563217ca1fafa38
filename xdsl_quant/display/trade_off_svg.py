"""The trade-off between the size of a model and its signal to noise ratio, as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 520, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 14, 46

_CURVE, _CHOSEN = "#1f77dc", "#d24a3d"
"""Colours that are seen on white and on black."""


@dataclass(frozen=True)
class Point:
    """What was measured of a model."""

    size: int
    """In bytes."""

    sqnr: float
    """In dB."""

    text: str
    """What is shown where a pointer is on it."""

    is_on_curve: bool = False
    is_chosen: bool = False


@dataclass(frozen=True)
class Limit:
    """What a budget allows: a line of the picture."""

    most_bytes: float | None = None
    least_sqnr: float | None = None


@dataclass(frozen=True)
class _Axis:
    """From numbers to pixels."""

    low: float
    high: float
    start: float
    stop: float

    @staticmethod
    def of(
        values: Sequence[float], start: float, stop: float, room_before: float = 0.05
    ) -> _Axis:
        """An axis for all values, with some room around them, in parts of their range."""
        low, high = min(values), max(values)
        width = high - low or max(abs(high), 1.0)
        return _Axis(low - room_before * width, high + 0.05 * width, start, stop)

    def __call__(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.stop - self.start)

    def ticks(self, count: int) -> Iterator[float]:
        """About so many round numbers."""
        exact = (self.high - self.low) / count
        power = 10.0 ** math.floor(math.log10(exact))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= exact)
        for number in range(
            math.ceil(self.low / step), math.floor(self.high / step) + 1
        ):
            yield number * step


def trade_off_svg(points: Sequence[Point], limit: Limit | None, title: str) -> str:
    """
    A picture of bytes and dB: a line through the points that no other one beats, which are
    on the curve, and a line for the budget. Text and axes have the colour of the text
    around the picture. Points without noise, whose dB are infinite, are left out.

    Args:
        points: what was measured.
        limit: what the budget allows.
        title: what it shows, as text.
    """
    shown = [point for point in points if math.isfinite(point.sqnr)]
    curve = sorted((p for p in shown if p.is_on_curve), key=lambda p: p.size)
    if not curve:
        return ""
    # There is room for a word on the left of a point.
    x = _Axis.of([point.size for point in shown], _LEFT, _WIDTH - _RIGHT, 0.15)
    y = _Axis.of([point.sqnr for point in shown], _HEIGHT - _BOTTOM, _TOP)
    title = escape(title)
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" '
            f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            f'font-family="sans-serif" font-size="12" fill="currentColor">'
            f"<title>{title}</title>",
            *_axes(x, y),
            *_limit(limit, x, y),
            _line(curve, x, y),
            *(_dot(point, x, y) for point in sorted(shown, key=_order)),
            "</svg>",
        ]
    )


def _order(point: Point) -> tuple[bool, bool]:
    """What is more important is drawn over the others."""
    return point.is_chosen, point.is_on_curve


def _axes(x: _Axis, y: _Axis) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    grid: list[str] = []
    for value in x.ticks(6):
        grid.append(f"M{x(value):.1f} {_TOP}V{bottom}")
        yield (
            f'<text x="{x(value):.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{value:,.0f}</text>"
        )
    for value in y.ticks(5):
        grid.append(f"M{_LEFT} {y(value):.1f}H{right}")
        yield (
            f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">'
            f"{value:g}</text>"
        )
    yield (
        f'<path d="{"".join(grid)}" stroke="currentColor" stroke-opacity="0.15"/>'
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.6"/>'
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "constants in bytes</text>"
        f'<text transform="translate(14 {(_TOP + bottom) / 2}) rotate(-90)" '
        'text-anchor="middle">SQNR in dB</text>'
    )


def _limit(limit: Limit | None, x: _Axis, y: _Axis) -> Iterator[str]:
    """A dashed line for the budget, if it is in the picture."""
    if limit is None:
        return
    path = text = ""
    most, least = limit.most_bytes, limit.least_sqnr
    if most is not None and x.low <= most <= x.high:
        path = f"M{x(most):.1f} {_TOP}V{_HEIGHT - _BOTTOM}"
        # Above the curve, where nothing else is, unless there is no room.
        side, anchor = (-5, "end") if x(most) > _LEFT + 60 else (5, "start")
        text = (
            f'<text x="{x(most) + side:.1f}" y="{_TOP + 10}" '
            f'text-anchor="{anchor}">budget</text>'
        )
    elif least is not None and y.low <= least <= y.high:
        path = f"M{_LEFT} {y(least):.1f}H{_WIDTH - _RIGHT}"
        text = f'<text x="{_LEFT + 6}" y="{y(least) - 5:.1f}">budget</text>'
    if path:
        yield (
            f'<path d="{path}" stroke="{_CHOSEN}" stroke-dasharray="5 4" fill="none"/>'
            f"{text}"
        )


def _line(curve: Sequence[Point], x: _Axis, y: _Axis) -> str:
    """Steps: with so many bytes, the model has at least the dB of the point before."""
    first, *others = curve
    path = f"M{x(first.size):.1f} {y(first.sqnr):.1f}" + "".join(
        f"H{x(point.size):.1f}V{y(point.sqnr):.1f}" for point in others
    )
    return f'<path d="{path}" fill="none" stroke="{_CURVE}" stroke-width="1.5"/>'


def _dot(point: Point, x: _Axis, y: _Axis) -> str:
    radius, colour = (6, _CHOSEN) if point.is_chosen else (3.5, _CURVE)
    if not point.is_chosen and not point.is_on_curve:
        radius, colour = 3, "currentColor"
    label = ""
    if point.is_chosen:
        left, above = x(point.size) - 11, y(point.sqnr) + 4
        label = f'<text x="{left:.1f}" y="{above:.1f}" text-anchor="end">chosen</text>'
    opacity = "" if point.is_chosen or point.is_on_curve else ' fill-opacity="0.35"'
    return (
        f'<circle cx="{x(point.size):.1f}" cy="{y(point.sqnr):.1f}" r="{radius}" '
        f'fill="{colour}"{opacity}><title>{escape(point.text)}</title></circle>'
        f"{label}"
    )
