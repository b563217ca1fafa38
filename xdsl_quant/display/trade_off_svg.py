"""The trade-off between the size of a model and its signal to noise ratio, as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .figure_svg import BLUE, INK, NAMESPACE, RED, Place, Plot, figure_svg


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

    @property
    def place(self) -> Place:
        """Where it is on the axes."""
        return self.size, self.sqnr


@dataclass(frozen=True)
class Limit:
    """What a budget allows: a line of the picture."""

    most_bytes: float | None = None
    least_sqnr: float | None = None


def trade_off_svg(points: Sequence[Point], limit: Limit, title: str) -> str:
    """
    A picture of bytes and dB: a line through the points that no other one beats, which are
    on the curve, and a line for the budget. Text and axes have the colour of the text
    around the picture. Points without noise, whose dB are infinite, are left out. What is
    returned is an SVG file, too.

    Args:
        points: what was measured.
        limit: what the budget allows.
        title: what it shows, as text.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    shown = [point for point in points if math.isfinite(point.sqnr)]
    curve = sorted(point.place for point in shown if point.is_on_curve)
    if not curve:
        return ""

    def draw(plot: Plot) -> None:
        axes = plot.axes
        axes.set(xlabel="constants in bytes", ylabel="SQNR in dB")
        axes.locator_params(nbins=7, steps=[1, 2, 5, 10])
        axes.xaxis.set_major_formatter("{x:,.0f}")
        # There is room for a word on the left of a point.
        axes.margins(x=0.15)
        # With more bytes, the model has at least the dB of the point before.
        axes.step(*zip(*curve, strict=True), color=BLUE, linewidth=1.1, where="post")
        _draw_points(plot, shown)
        _draw_limit(plot, limit)

    return figure_svg(draw, 520, 300, title).replace("<svg", f"<svg{NAMESPACE}", 1)


def _draw_points(plot: Plot, points: Sequence[Point]) -> None:
    """Marks of points. What is more important is drawn over the others."""
    chosen = [point for point in points if point.is_chosen]
    others = [point for point in points if not point.is_chosen]
    for marked, color, size in (
        ([point for point in others if not point.is_on_curve], (INK, 0.35), 4.5),
        ([point for point in others if point.is_on_curve], BLUE, 5.25),
        (chosen, RED, 9),
    ):
        texts = [point.text for point in marked]
        plot.marks([point.place for point in marked], "o", color, size, texts)
    for point in chosen:
        plot.word("chosen", point.place, (-8, -3), "right")


def _draw_limit(plot: Plot, limit: Limit) -> None:
    """A dashed line for the budget, if it is in the picture."""
    most, least = limit.most_bytes, limit.least_sqnr
    (left, right), (bottom, top) = plot.axes.get_xlim(), plot.axes.get_ylim()
    if most is not None and left <= most <= right:
        plot.axes.axvline(most, color=RED, linewidth=0.8, linestyle="--")
        # Above the curve, where nothing else is, unless there is no room.
        has_room = most - left > 0.15 * (right - left)
        offset, side = ((-4, -8), "right") if has_room else ((4, -8), "left")
        plot.word("budget", (most, top), offset, side)
    elif least is not None and bottom <= least <= top:
        plot.axes.axhline(least, color=RED, linewidth=0.8, linestyle="--")
        # Below the curve.
        plot.word("budget", (right, least), (-4, 4), "right")
