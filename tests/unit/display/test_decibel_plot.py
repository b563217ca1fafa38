"""Plots of ratios in dB, and small pictures of ratios and bars."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from tests.unit.display.html_tree import parse_html, text_of
from tests.unit.display.plot_marks import marks_of
from xdsl_quant.display.figure_svg import Scale, Series, decibel_plot
from xdsl_quant.display.pages import percent, templates

EVIL = """<script>alert("x")</script> & 'y'"""


def series(own: list[float], accumulated: list[float] | None = None) -> list[Series]:
    return [
        Series(
            "accumulated", "accumulated", own if accumulated is None else accumulated
        ),
        Series("own", "own", own),
    ]


def svg_of(text: str) -> ElementTree.Element:
    svg = parse_html(text).find("svg")
    assert svg is not None
    return svg


def small_picture(name: str, *arguments: object) -> ElementTree.Element:
    """One of the pictures in cells of tables."""
    source = f'{{% from "pictures.html" import {name} %}}{{{{ {name}(*arguments) }}}}'
    template = templates().from_string(source)
    return svg_of(template.render(arguments=arguments))


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([], Scale(0, 10, 2)),
        ([math.inf, math.nan], Scale(0, 10, 2)),
        ([31.0, 33.0], Scale(30, 42, 2)),
        ([-16.0, 47.0], Scale(-20, 60, 20)),
        ([-900.0, 100.0], Scale(-1000, 1000, 1000)),
    ],
)
def test_scales(values: list[float], scale: Scale):
    assert Scale.of(series(values)) == scale
    ticks = scale.ticks()
    assert (ticks[0], ticks[-1]) == (scale.low, scale.high)
    assert scale.part(scale.low - 1) == 0
    assert scale.part(scale.high) == 1


def test_a_mark_for_each_ratio_that_is_known():
    values = [40.0, math.nan, math.inf, -math.inf, 30.0]
    names = ["a", "b", EVIL, "d", "e"]
    svg = svg_of(decibel_plot(names, series(values, [35.0] * 5), "all of them"))
    assert (svg.get("role"), svg.get("aria-label")) == ("img", "all of them")
    assert svg.findtext("title") == "all of them"
    marks = marks_of(svg)
    assert [mark.title for mark in marks] == [
        *(f"{name}: accumulated 35.0 dB" for name in names),
        "a: own 40.0 dB",
        f"{EVIL}: own exact",
        "d: own -inf dB",
        "e: own 30.0 dB",
    ]
    assert {mark.color for mark in marks[:5]} == {"#b46414"}
    assert {mark.color for mark in marks[5:]} == {"#1f77dc"}
    # What is exact is above all that has a number.
    assert [round(mark.x, 2) for mark in marks] == [1, 2, 3, 4, 5, 1, 3, 4, 5]
    heights = [round(mark.y, 2) for mark in marks]
    assert heights[:6] == [35.0] * 5 + [40.0]
    assert heights[6] > 40
    assert heights[7] < 30
    assert heights[8] == 30
    texts = [text_of(text) for text in svg.iter("text")]
    assert texts == [*"12345", "30", "32", "34", "36", "38", "40", "exact", "dB"]


def test_a_line_through_what_has_accumulated():
    values = [35.0, 34.0, math.inf, math.nan, 30.0]
    svg = svg_of(decibel_plot(["k"] * 5, series([40.0] * 5, values), "t"))
    lines = [
        path.get("d", "")
        for path in svg.iter("path")
        if "fill: none; stroke: #b46414" in path.get("style", "")
    ]
    assert [line.count("L") for line in lines] == [2]
    own = [path for path in svg.iter("path") if "stroke: #1f77dc" in str(path.attrib)]
    assert own == []


def test_a_plot_of_nothing():
    assert marks_of(svg_of(decibel_plot([], series([]), "none"))) == []


@pytest.mark.parametrize(("count", "last"), [(24, "24"), (25, "24"), (200, "200")])
def test_numbers_do_not_overlap(count: int, last: str):
    names = [str(number) for number in range(count)]
    svg = svg_of(decibel_plot(names, series([30.0] * count), "many"))
    numbers = [
        t for t in svg.iter("text") if "text-anchor: middle" in t.get("style", "")
    ]
    assert text_of(numbers[0]) == "1"
    *numbers, label = numbers
    assert text_of(label) == "dB"
    assert text_of(numbers[-1]) == last
    places = [float(number.get("x", "")) for number in numbers]
    # In points.
    assert min(b - a for a, b in pairwise(places[1:])) > 15


def test_the_same_plot_is_the_same_text():
    plots = {decibel_plot(["a"], series([30.0]), "t") for _ in range(2)}
    assert len(plots) == 1
    assert "http" not in plots.pop()


def test_a_cell():
    svg = small_picture("ratios", Scale(0, 10, 2), 2.0, 5.0, EVIL)
    assert svg.get("aria-label") == svg.findtext("title") == EVIL
    own, accumulated, span = (
        svg.find(f"*[@class='{name}']") for name in ("own", "accumulated", "span")
    )
    assert own is not None
    assert accumulated is not None
    assert span is not None
    assert (own.get("cx"), own.get("cy")) == ("65.0", "8")
    assert accumulated.get("d", "").startswith("M29.6 2.8l")
    assert span.get("d") == "M29.6 8H65.0"
    svg = small_picture("ratios", Scale(0, 10, 2), 2.0, math.nan, "one")
    assert [each.get("class") for each in svg][1:] == ["grid", "accumulated"]
    svg = small_picture("ratios", Scale(0, 10, 2), math.nan, 2.0, "one")
    assert [each.get("class") for each in svg][1:] == ["grid", "own"]
    svg = small_picture("ratios", Scale(0, 10, 2), math.nan, math.nan, "none")
    assert [each.get("class") for each in svg][1:] == ["grid"]


def test_bars():
    bars = [(10, "float"), (0, "in"), (1e-9, "out")]
    svg = small_picture("bars", bars, 20, EVIL, 100)
    assert (svg.get("width"), svg.get("height")) == ("100", "24")
    assert svg.get("aria-label") == svg.findtext("title") == EVIL
    assert [(r.get("class"), r.get("width"), r.get("y")) for r in svg.iter("rect")] == [
        ("float", "50.0", "0"),
        ("out", "1.5", "18"),
    ]


@pytest.mark.parametrize(
    ("part", "text"), [(0, "0%"), (1, "100%"), (1e-7, "< 0.001%"), (0.1234, "12%")]
)
def test_percentages(part: float, text: str):
    assert percent(part) == text


@pytest.mark.parametrize(("count", "width"), [(1, 480), (20, 660), (500, 920)])
def test_text_is_legible_on_narrow_pages(count: int, width: int):
    """Few items need less width; the page scrolls instead of shrinking the rest."""
    svg = svg_of(decibel_plot(["k"] * count, series([30.0] * count), "t"))
    assert (svg.get("width"), svg.get("height")) == (str(width), "250")
    assert svg.get("style") == (
        f"max-width:100%;min-width:{round(0.85 * width)}px;height:auto"
    )
