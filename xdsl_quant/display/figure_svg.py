"""
Figures of matplotlib as SVG inside of a page: axes and text have the colour of the text
around the picture, and marks have a title that is shown when the pointer is over them.

They are made without pyplot, so that nothing is opened, kept or configured globally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, TypeAlias
from xml.etree import ElementTree

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
