"""Plots of ratios in dB, and bars."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from tests.unit.display.html_tree import parse_html, text_of
from xdsl_quant.display.decibel_plot import Scale, Series, decibel_cell, decibel_plot
from xdsl_quant.display.report_parts import bars_svg, percent

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


def elements(
    svg: ElementTree.Element, tag: str, class_: str
) -> list[ElementTree.Element]:
    return [each for each in svg.iter(tag) if each.get("class") == class_]


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
    assert [text_of(mark) for mark in elements(svg, "path", "own")] == [
        "a: own 40.0 dB",
        f"{EVIL}: own exact",
        "d: own -inf dB",
        "e: own 30.0 dB",
    ]
    assert len(elements(svg, "path", "accumulated")) == 5
    (line,) = elements(svg, "path", "line")
    assert line.get("d", "").count("L") == 4
    texts = [text_of(text) for text in svg.iter("text")]
    assert texts == ["30", "32", "34", "36", "38", "40", "dB", "exact", *"12345"]


def test_a_plot_of_nothing():
    svg = svg_of(decibel_plot([], series([]), "none"))
    assert not elements(svg, "path", "own")


@pytest.mark.parametrize(("count", "last"), [(24, "24"), (25, "24"), (200, "200")])
def test_numbers_do_not_overlap(count: int, last: str):
    names = [str(number) for number in range(count)]
    svg = svg_of(decibel_plot(names, series([30.0] * count), "many"))
    numbers = [t for t in svg.iter("text") if t.get("text-anchor") == "middle"]
    assert text_of(numbers[0]) == "1"
    assert text_of(numbers[-1]) == last
    places = [float(number.get("x", "")) for number in numbers]
    assert min(b - a for a, b in pairwise(places[1:])) > 20


def test_a_cell():
    svg = svg_of(decibel_cell(Scale(0, 10, 2), series([5.0], [2.0]), EVIL))
    assert svg.get("aria-label") == EVIL
    assert [elements(svg, "path", name) != [] for name in ("own", "span")] == [True] * 2
    svg = svg_of(decibel_cell(Scale(0, 10, 2), series([math.nan]), "none"))
    assert [each.get("class") for each in svg.iter("path")] == ["grid"]


def test_bars():
    svg = svg_of(bars_svg([(10, "float"), (0, "in"), (1e-9, "out")], 20, EVIL, 100))
    assert svg.get("aria-label") == EVIL
    assert [(r.get("class"), r.get("width")) for r in svg.iter("rect")] == [
        ("float", "50.0"),
        ("out", "1.5"),
    ]


@pytest.mark.parametrize(
    ("part", "text"), [(0, "0%"), (1, "100%"), (1e-7, "< 0.001%"), (0.1234, "12%")]
)
def test_percentages(part: float, text: str):
    assert percent(part) == text
