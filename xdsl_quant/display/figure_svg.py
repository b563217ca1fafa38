"""
SVG plots for report pages: the SQNR of each kernel in dB, and the trade-off between model
size and SQNR. Axes take the color of the surrounding text; marks have tooltips.

The plots avoid pyplot, so that no windows are opened and no global state changes.
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
"""Colors that are visible on white and on black."""

INK = "#010203"
"""Placeholder color in matplotlib for the color of the surrounding text."""

_STYLE = {
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "grid.color"), INK),
    **dict.fromkeys(("text.color", "xtick.color", "ytick.color"), INK),
    **{"axes.axisbelow": True, "axes.grid": True, "grid.alpha": 0.15},
    **{"axes.spines.right": False, "axes.spines.top": False},
    **{"font.family": "sans-serif", "font.sans-serif": "DejaVu Sans", "font.size": 8.5},
    # Keep text as text, and make the output reproducible.
    **{"svg.fonttype": "none", "svg.hashsalt": "xdsl-quant"},
}

_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))

NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
"""Attribute that SVG files need and HTML pages do not."""

Place: TypeAlias = tuple[float, float]
"""Coordinates on the axes."""

_HREF = "{http://www.w3.org/1999/xlink}href"

_MARKS = "marks"
"""Prefix of the ids of groups of marks."""


class Plot:
    """Content of a picture."""

    def __init__(self, axes: Any):
        # The annotations of matplotlib are incomplete.
        self.axes = axes
        """Axes of matplotlib."""
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
        Draw marks over the earlier content.

        Args:
            places: finite coordinates of the marks.
            marker: marker in matplotlib's syntax.
            color: color of all marks, or color and opacity from 0 to 1.
            size: size in points.
            titles: tooltip of each mark.
        """
        style = {"markersize": size, "markeredgewidth": 0, "clip_on": False}
        gid = f"{_MARKS}{len(self._titles)}"
        xs, ys = zip(*places, strict=True) if places else ((), ())
        self.axes.plot(xs, ys, marker, color=color, gid=gid, **style)
        self._titles.append(titles)

    def write_text(
        self, text: str, place: Place, offset: Place, side: str = "left"
    ) -> None:
        """Write text with its left or right edge (`side`) `offset` points from `place`."""
        style = {"textcoords": "offset points", "ha": side}
        self.axes.annotate(text, place, offset, **style)

    def add_titles(self, svg: ElementTree.Element) -> None:
        """Add the tooltips of marks to the SVG that matplotlib wrote."""
        for index, titles in enumerate(self._titles):
            path = f".//g[@id='{_MARKS}{index}']//use"
            for mark, text in zip(svg.iterfind(path), titles, strict=True):
                ElementTree.SubElement(mark, "title").text = text


def figure_svg(
    draw: Callable[[Plot], None], width: int, height: int, title: str
) -> str:
    """
    Return a picture as an SVG element for HTML.

    Args:
        draw: function that draws the content.
        width: width in pixels.
        height: height in pixels.
        title: title for tooltips and screen readers.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    check_packages("a plot", "matplotlib")
    # matplotlib is optional and slow to import.
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
    # Narrower than this, its text would be too small to read.
    least = round(_MIN_WIDTH_PART * width)
    sizes["style"] = f"max-width:100%;min-width:{least}px;height:auto"
    svg.attrib |= {"class": "plot", "role": "img", "aria-label": title, **sizes}
    heading = ElementTree.Element("title")
    heading.text = title
    svg.insert(0, heading)
    return ElementTree.tostring(svg, "unicode").replace(INK, "currentColor")


def _embed(svg: ElementTree.Element) -> None:
    """Remove ids, styles and namespaces that would affect the surrounding page."""
    # HTML ignores the namespace of these links.
    for link in svg.iterfind(f".//*[@{_HREF}]"):
        link.set("href", link.attrib.pop(_HREF))
    # Style rules and ids would apply to the whole page.
    for parent in svg.iterfind(".//style/.."):
        parent.clear()
    for group in svg.iter("g"):
        group.attrib.pop("id", None)


_MIN_WIDTH_PART = 0.85
"""Minimum width of a picture on a narrow page, as a fraction of its width."""

_MAX_TICKS = 24

_MARKERS = {"own": ("o", BLUE), "accumulated": ("D", BROWN)}
"""Marker and color by class of a series."""


@dataclass(frozen=True)
class Series:
    """Named sequence with a ratio in dB for each item of a plot."""

    name: str

    class_: str
    """Class of the marks: `own` for dots, `accumulated` for diamonds."""

    values: Sequence[float]
    """Values in dB; infinite ones are drawn at the top or bottom, NaN is skipped."""


@dataclass(frozen=True)
class Scale:
    """Range of a plot's dB axis, from `low` to `high`."""

    low: float
    high: float
    step: float
    """Distance between grid lines in dB."""

    @staticmethod
    def of(series: Sequence[Series]) -> Scale:
        """Return a scale for all finite values, at least 10 dB wide."""
        values = [v for s in series for v in s.values if math.isfinite(v)]
        low, high = min(values, default=0.0), max(values, default=0.0)
        high = max(high, low + 10)
        step = next(s for s in (2, 5, 10, 20, 50, 100, 1000) if (high - low) / s <= 6)
        return Scale(math.floor(low / step) * step, math.ceil(high / step) * step, step)

    def part(self, value: float) -> float:
        """Return the position of a ratio on the scale, from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self) -> Sequence[float]:
        """Return the ratios in dB at which grid lines are drawn."""
        count = round((self.high - self.low) / self.step)
        return [self.low + index * self.step for index in range(count + 1)]


def decibel_plot(names: Sequence[str], series: Sequence[Series], title: str) -> str:
    """
    Plot ratios in dB over items, which are numbered from 1.

    Args:
        names: names of the items.
        series: ratios to plot, one per item in each series.
        title: title for tooltips and screen readers.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    scale = Scale.of(series)
    # Leave margins for infinite ratios above and below the finite ones.
    margin = (scale.high - scale.low) / 14
    ends = scale.low - margin, scale.high + margin
    size = 6.5 if len(names) <= 60 else 4.5 if len(names) <= 140 else 3.5

    def draw(plot: Plot) -> None:
        _draw_axes(plot, max(1, len(names)), scale, ends)
        if any(value == math.inf for s in series for value in s.values):
            plot.axes.set_yticks([ends[1]], ["exact"], minor=True)
        for ratios in series:
            marker, color = _MARKERS[ratios.class_]
            points = [
                (number, value, f"{name}: {ratios.name} {_ratio_text(value)}")
                for number, (name, value) in enumerate(
                    zip(names, ratios.values, strict=True), 1
                )
                if not math.isnan(value)
            ]
            # Own ratios are independent, so no line connects them.
            if ratios.class_ != "own":
                finite = [(x, y) for x, y, _ in points if math.isfinite(y)]
                xs, ys = zip(*finite, strict=True) if finite else ((), ())
                plot.axes.plot(xs, ys, color=color, alpha=0.6, linewidth=0.8)
            places = [(x, min(max(y, ends[0]), ends[1])) for x, y, _ in points]
            plot.marks(places, marker, color, size, [text for *_, text in points])

    return figure_svg(draw, min(920, max(480, 100 + 28 * len(names))), 250, title)


def _draw_axes(plot: Plot, count: int, scale: Scale, ends: tuple[float, float]) -> None:
    """Draw grid lines in dB and item numbers from 1."""
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
    """Measurement of a model."""

    size: int
    """Size in bytes."""

    sqnr: float
    """SQNR in dB."""

    text: str

    is_on_curve: bool = False
    is_chosen: bool = False

    @property
    def place(self) -> Place:
        """Coordinates on the axes."""
        return self.size, self.sqnr


@dataclass(frozen=True)
class Limit:
    """Budget of a search, drawn as a line."""

    most_bytes: float | None = None
    least_sqnr: float | None = None


def trade_off_svg(points: Sequence[Point], limit: Limit, title: str) -> str:
    """
    Plot SQNR against size: the points, a line through those on the Pareto curve, and a
    line for the budget. Points with infinite SQNR are skipped. The returned text is
    also a valid SVG file; it is empty if no point is on the curve.

    Args:
        points: measured models.
        limit: budget.
        title: title for tooltips and screen readers.

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
        # Leave room for text on the left of a point.
        axes.margins(x=0.15)
        # A larger budget allows at least the SQNR of the previous point.
        axes.step(*zip(*curve, strict=True), color=BLUE, linewidth=1.1, where="post")
        _draw_points(plot, shown)
        _draw_limit(plot, limit)

    return figure_svg(draw, 520, 300, title).replace("<svg", f"<svg{NAMESPACE}", 1)


def search_svg(search: BitSearchResult) -> str:
    """
    Plot the models of a bit-width search.

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
            model.stored_bytes,
            model.sqnr,
            model.text,
            model in curve,
            model is search.chosen,
        )
        for model in search.measured
    ]
    title = f"Constants and SQNR, chosen: {search.chosen.text}"
    return trade_off_svg(points, limit, title)


def _draw_points(plot: Plot, points: Sequence[Point]) -> None:
    """Draw points, the most important ones on top."""
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
        plot.write_text("chosen", point.place, (-8, -3), "right")


def _draw_limit(plot: Plot, limit: Limit) -> None:
    """Draw a dashed line for the budget if it is inside the picture."""
    most, least = limit.most_bytes, limit.least_sqnr
    (left, right), (bottom, top) = plot.axes.get_xlim(), plot.axes.get_ylim()
    if most is not None and left <= most <= right:
        plot.axes.axvline(most, color=RED, linewidth=0.8, linestyle="--")
        # The label is left of the line and above the curve, if there is room.
        has_room = most - left > 0.15 * (right - left)
        offset, side = ((-4, -8), "right") if has_room else ((4, -8), "left")
        plot.write_text("budget", (most, top), offset, side)
    elif least is not None and bottom <= least <= top:
        plot.axes.axhline(least, color=RED, linewidth=0.8, linestyle="--")
        # The label is at the right end of the line, which is below the curve.
        plot.write_text("budget", (right, least), (-4, 4), "right")
