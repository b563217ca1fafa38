"""
Plots of reports as SVG inside of a page: ratios in dB of many things side by side, and the
trade-off between the size of a model and its signal to noise ratio. Axes and text have the
colour of the text around the plot, and marks have a title that is shown when the pointer is
over them.

They are made without pyplot, so that nothing is opened, kept or configured globally.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, TypeAlias
from xml.etree import ElementTree

from xdsl_quant.quantizer.search_result import BitSearchResult
from xdsl_quant.runtime.extras import check_packages

BLUE, RED, BROWN = "#1f77dc", "#d24a3d", "#b46414"
"""Colours that are seen on white and on black."""

INK = "#010203"
"""The colour of the text around the picture, as matplotlib is told of it."""

_STYLE = {
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "grid.color"), INK),
    **dict.fromkeys(("text.color", "xtick.color", "ytick.color"), INK),
    **{"axes.axisbelow": True, "axes.grid": True, "grid.alpha": 0.15},
    **{"axes.spines.right": False, "axes.spines.top": False},
    **{"font.family": "sans-serif", "font.sans-serif": "DejaVu Sans", "font.size": 8.5},
    # Text is text, and the same figure is the same file.
    **{"svg.fonttype": "none", "svg.hashsalt": "xdsl-quant"},
}

_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))

NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
"""The attribute that an SVG file needs and a page does not."""

Place: TypeAlias = tuple[float, float]
"""A place on the axes."""

_HREF = "{http://www.w3.org/1999/xlink}href"

_MARKS = "marks"
"""Before the numbers of groups of marks."""


class Plot:
    """The content of a picture."""

    def __init__(self, axes: Any):
        # The annotations of matplotlib are incomplete.
        self.axes = axes
        """The axes of matplotlib."""
        self._titles: list[Sequence[str]] = []

    def marks(
        self,
        places: Sequence[Place],
        marker: str,
        color: str | tuple[str, float],
        size: float,
        titles: Sequence[str],
    ) -> None:
        """
        Draw marks over all that was drawn before.

        Args:
            places: where they are, all finite.
            marker: their form, as matplotlib calls it.
            color: that of all of them, or it and an opacity from 0 to 1.
            size: in points.
            titles: what is shown when the pointer is over each of them.
        """
        style = {"markersize": size, "markeredgewidth": 0, "clip_on": False}
        gid = f"{_MARKS}{len(self._titles)}"
        xs, ys = zip(*places, strict=True) if places else ((), ())
        self.axes.plot(xs, ys, marker, color=color, gid=gid, **style)
        self._titles.append(titles)

    def word(self, text: str, place: Place, offset: Place, side: str = "left") -> None:
        """Write a text whose side is at an offset, in points, from a place."""
        style = {"textcoords": "offset points", "ha": side}
        self.axes.annotate(text, place, offset, **style)

    def add_titles(self, svg: ElementTree.Element) -> None:
        """Add the titles of marks to the picture as matplotlib has written it."""
        for index, titles in enumerate(self._titles):
            path = f".//g[@id='{_MARKS}{index}']//use"
            for mark, text in zip(svg.iterfind(path), titles, strict=True):
                ElementTree.SubElement(mark, "title").text = text


def figure_svg(
    draw: Callable[[Plot], None], width: int, height: int, title: str
) -> str:
    """
    Return a picture as an element of HTML.

    Args:
        draw: draws on axes.
        width: in pixels.
        height: in pixels.
        title: what the picture shows, as text.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    check_packages("a plot", "matplotlib")
    # It is optional, and its import takes long.
    import matplotlib
    from matplotlib.figure import Figure

    text = StringIO()
    # The annotations of matplotlib are incomplete.
    configuration: Any = matplotlib
    with configuration.rc_context(_STYLE):
        figure: Any = Figure((width / 96, height / 96), layout="constrained")
        plot = Plot(figure.subplots())
        draw(plot)
        figure.savefig(text, format="svg", transparent=True, metadata=_NO_METADATA)
    svg = ElementTree.fromstring(text.getvalue().replace(NAMESPACE, "", 1))
    plot.add_titles(svg)
    _embed(svg)
    sizes = {"width": str(width), "height": str(height)}
    svg.attrib |= {"class": "plot", "role": "img", "aria-label": title, **sizes}
    heading = ElementTree.Element("title")
    heading.text = title
    svg.insert(0, heading)
    return ElementTree.tostring(svg, "unicode").replace(INK, "currentColor")


def _embed(svg: ElementTree.Element) -> None:
    """Change what would be otherwise in a page than in a file of its own."""
    # HTML does not know the namespace of these links.
    for link in svg.iterfind(f".//*[@{_HREF}]"):
        link.set("href", link.attrib.pop(_HREF))
    # Rules of style and names would be those of the whole page.
    for parent in svg.iterfind(".//style/.."):
        parent.clear()
    for group in svg.iter("g"):
        group.attrib.pop("id", None)


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


def search_svg(search: BitSearchResult) -> str:
    """
    Return the picture of a search for bits.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    budget, limit = search.budget, Limit()
    if budget.unit == "bytes":
        limit = Limit(most_bytes=budget.amount)
    elif budget.unit == "dB":
        limit = Limit(least_sqnr=search.widest.sqnr - budget.amount)
    curve = search.curve
    points = [
        Point(
            each.stored_bytes,
            each.sqnr,
            each.text,
            each in curve,
            each is search.chosen,
        )
        for each in search.measured
    ]
    title = f"Constants and SQNR, chosen: {search.chosen.text}"
    return trade_off_svg(points, limit, title)


def _draw_points(plot: Plot, points: Sequence[Point]) -> None:
    """Marks of points. What is more important is drawn over the others."""
    chosen = [p for p in points if p.is_chosen]
    for marked, color, size in (
        ([p for p in points if not (p.is_chosen or p.is_on_curve)], (INK, 0.35), 4.5),
        ([p for p in points if p.is_on_curve and not p.is_chosen], BLUE, 5.25),
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
