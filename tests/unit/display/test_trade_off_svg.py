"""The picture of the trade-off between bytes and dB."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from tests.unit.display.html_tree import text_of
from tests.unit.display.plot_marks import Mark, marks_of, numbers_at_axis
from xdsl_quant.display.figure_svg import Limit, Point, trade_off_svg

POINTS = [
    Point(400, 40.0, "widest", is_on_curve=True),
    Point(100, 10.0, "<narrow>", is_on_curve=True),
    Point(300, 20.0, "beaten"),
    Point(200, 30.0, "taken", is_on_curve=True, is_chosen=True),
]
NO_LIMIT = Limit()
BLUE, RED = "#1f77dc", "#d24a3d"
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'


def parsed(svg: str) -> ElementTree.Element:
    assert svg.startswith(f"<svg{NAMESPACE} ")
    return ElementTree.fromstring(svg.replace(NAMESPACE, ""))


def texts(svg: ElementTree.Element) -> list[str]:
    return [text_of(each) for each in svg.iter("text")]


def lines(svg: ElementTree.Element, color: str) -> list[list[tuple[float, float]]]:
    """The points of lines of a colour."""
    found = [p for p in svg.iter("path") if f"stroke: {color}" in p.get("style", "")]
    numbers = [
        [float(word) for word in path.get("d", "").split() if word not in "MLz"]
        for path in found
    ]
    return [[*zip(each[::2], each[1::2], strict=True)] for each in numbers]


def test_points_are_where_axes_say():
    assert marks_of(parsed(trade_off_svg(POINTS, NO_LIMIT, "a & b"))) == [
        Mark("beaten", 300, 20, "currentColor"),
        Mark("widest", 400, 40, BLUE),
        Mark("<narrow>", 100, 10, BLUE),
        Mark("taken", 200, 30, RED),
    ]


def test_the_curve_goes_in_steps():
    svg = parsed(trade_off_svg(POINTS, NO_LIMIT, "t"))
    (line,) = lines(svg, BLUE)
    x, y = (numbers_at_axis(svg, side) for side in ("middle", "end"))
    steps = [(100, 10), (200, 10), (200, 30), (400, 30), (400, 40)]
    for place, (size, sqnr) in zip(line, steps, strict=True):
        assert place == pytest.approx((x[str(size)], y[str(sqnr)]), abs=0.001)


def test_axes_have_round_numbers():
    svg = parsed(trade_off_svg(POINTS, NO_LIMIT, "a & b"))
    assert svg.attrib["aria-label"] == svg.findtext("title") == "a & b"
    assert (svg.attrib["role"], svg.attrib["width"]) == ("img", "520")
    assert texts(svg) == [
        *("100", "200", "300", "400", "constants in bytes"),
        *("10", "15", "20", "25", "30", "35", "40", "SQNR in dB"),
        "chosen",
    ]
    large = [Point(1_000_000 * size, size, "", is_on_curve=True) for size in (1, 2)]
    assert "2,000,000" in texts(parsed(trade_off_svg(large, NO_LIMIT, "t")))


def test_axes_and_text_have_the_colour_of_the_page():
    svg = trade_off_svg(POINTS, NO_LIMIT, "t")
    assert "#010203" not in svg
    assert all(
        "fill: currentColor" in t.attrib["style"] for t in parsed(svg).iter("text")
    )
    # Rules would hold for the whole page, and so would names of groups.
    assert not [*parsed(svg).iter("style")]
    assert not [group for group in parsed(svg).iter("g") if "id" in group.attrib]


def test_marks_are_those_that_links_name():
    svg = parsed(trade_off_svg(POINTS, NO_LIMIT, "t"))
    names = {f"#{each.get('id')}" for each in svg.iter("path") if each.get("id")}
    assert {use.get("href") for use in svg.iter("use")} == names


@pytest.mark.parametrize(
    ("limit", "axis", "coordinate", "number"),
    [
        (Limit(most_bytes=300), "middle", 0, "300"),
        (Limit(least_sqnr=20), "end", 1, "20"),
    ],
)
def test_the_budget_is_a_line(limit: Limit, axis: str, coordinate: int, number: str):
    svg = parsed(trade_off_svg(POINTS, limit, "t"))
    (line,) = lines(svg, RED)
    place = numbers_at_axis(svg, axis)[number]
    assert [point[coordinate] for point in line] == pytest.approx(
        [place] * 2, abs=0.001
    )
    # From side to side.
    start, end = (point[1 - coordinate] for point in line)
    assert abs(end - start) > 150
    assert texts(svg)[-1] == "budget"


@pytest.mark.parametrize(
    ("most_bytes", "anchor"), [(250, "text-anchor: end"), (90, "text-anchor: start")]
)
def test_the_budget_has_a_word_where_there_is_room(most_bytes: float, anchor: str):
    svg = parsed(trade_off_svg(POINTS, Limit(most_bytes=most_bytes), "t"))
    *_, word = svg.iter("text")
    style = word.attrib["style"]
    # Text starts at its place if nothing is said.
    assert anchor in style or (anchor.endswith("start") and "text-anchor" not in style)


def test_a_budget_beyond_all_points_is_left_out():
    for limit in (Limit(most_bytes=1000), Limit(least_sqnr=0.0)):
        svg = parsed(trade_off_svg(POINTS, limit, "t"))
        assert "budget" not in texts(svg)
        assert lines(svg, RED) == []


def test_points_without_noise_are_left_out():
    exact = Point(500, math.inf, "exact", is_on_curve=True)
    titles = [
        mark.title
        for mark in marks_of(parsed(trade_off_svg([*POINTS, exact], NO_LIMIT, "t")))
    ]
    assert sorted(titles) == ["<narrow>", "beaten", "taken", "widest"]
    assert trade_off_svg([exact], NO_LIMIT, "t") == ""
    assert trade_off_svg([exact, Point(600, 3.0, "beaten")], NO_LIMIT, "t") == ""


def test_one_point():
    (mark,) = marks_of(parsed(trade_off_svg(POINTS[:1], NO_LIMIT, "t")))
    assert mark == Mark("widest", 400, 40, BLUE)
