"""The marks of a plot, read from its SVG in the units of its axes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from xml.etree import ElementTree

from .html_tree import text_of

_NUMBER = re.compile(r"[-\u2212]?[\d,.]+")


class Mark(NamedTuple):
    """A mark of a plot, as a reader sees it."""

    title: str
    """Text that is shown when the pointer is over it."""

    x: float
    y: float
    color: str


def numbers_at_axis(svg: ElementTree.Element, side: str) -> dict[str, float]:
    """
    The numbers at an axis and their places in the picture.

    Args:
        svg: the picture.
        side: `middle` for the horizontal axis, `end` for the vertical one.
    """
    places: dict[str, float] = {}
    for tick in svg.iter("g"):
        text, line = tick.find("g/text"), tick.find("g/path")
        if text is None or f"text-anchor: {side}" not in text.get("style", ""):
            continue
        if _NUMBER.fullmatch(text_of(text)) is None:
            continue
        if side == "middle":
            places[text_of(text)] = float(text.get("x", ""))
        elif line is not None:
            # Text is below the line that it belongs to.
            places[text_of(text)] = float(line.get("d", "").split()[2])
    return places


def _number(axis: Mapping[str, float], place: float) -> float:
    """Which number is at a place in the picture."""
    numbers = [
        (float(text.replace(",", "").replace("\u2212", "-")), at)
        for text, at in axis.items()
    ]
    (low, start), *_, (high, end) = numbers
    return round(low + (place - start) / (end - start) * (high - low), 3)


def marks_of(svg: ElementTree.Element) -> list[Mark]:
    """The marks in the order in which they are drawn."""
    x_axis, y_axis = (numbers_at_axis(svg, side) for side in ("middle", "end"))
    return [
        Mark(
            mark.findtext("title", ""),
            _number(x_axis, float(mark.get("x", ""))),
            _number(y_axis, float(mark.get("y", ""))),
            mark.get("style", "").removeprefix("fill: ").partition(";")[0],
        )
        for mark in svg.iter("use")
        if mark.find("title") is not None
    ]
