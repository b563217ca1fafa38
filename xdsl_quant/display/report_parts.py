"""
What pages of reports share: the style, the page around a report, and small pictures in the
cells of tables.

Colours are those of the page, or as far from white as from black, so that they are legible
on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .package_files import style, template

STYLE = style("report.css")
"""The style of all reports, in which elements have the class `xdsl-quant-report`."""

_PAGE = template("report_page.html")

_WIDTH, _BAR, _GAP = 72, 6, 3


def page(title: str, body: str) -> str:
    """The text of an HTML page that needs nothing else."""
    return _PAGE.substitute(title=escape(title), body=body)


def percent(part: float) -> str:
    """A percentage that is 0% or 100% only if it is exactly that."""
    if part in (0, 1):
        return f"{part:.0%}"
    return "< 0.001%" if part < 1e-5 else f"{part * 100:.2g}%"


def picture(width: int, height: int, title: str, content: str) -> str:
    """
    A picture with a title for who cannot see it.

    Args:
        width: in pixels.
        height: in pixels.
        title: what it shows, as text.
        content: elements of SVG.
    """
    title = escape(title)
    return (
        f'<svg role="img" aria-label="{title}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{title}</title>{content}</svg>'
    )


def bars_svg(
    bars: Sequence[tuple[float, str]], largest: float, title: str, width: int = _WIDTH
) -> str:
    """
    Horizontal bars, one below the other.

    Args:
        bars: the length and the class of each; one that is not positive is not drawn.
        largest: the length that takes the whole width.
        title: what they show, as text.
        width: the width of the picture in pixels.
    """
    step = _BAR + _GAP
    content = "".join(
        # What is there must be visible.
        f'<rect class="{class_}" y="{index * step}" height="{_BAR}" rx="1" '
        f'width="{max(1.5, width * length / largest):.1f}"/>'
        for index, (length, class_) in enumerate(bars)
        if length > 0
    )
    return picture(width, len(bars) * step - _GAP, title, content)
