"""The picture of the trade-off between bytes and dB."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from xdsl_quant.display.trade_off_svg import Limit, Point, trade_off_svg

POINTS = [
    Point(400, 40.0, "widest", is_on_curve=True),
    Point(100, 10.0, "<narrow>", is_on_curve=True),
    Point(300, 20.0, "beaten"),
    Point(200, 30.0, "taken", is_on_curve=True, is_chosen=True),
]


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str, tag: str = "text") -> list[str]:
    return [each.text or "" for each in parsed(svg).iter() if each.tag.endswith(tag)]


def circles(svg: str) -> dict[str, tuple[float, float, str]]:
    """The places and the colours of points by their text."""
    return {
        each[0].text or "": (
            float(each.attrib["cx"]),
            float(each.attrib["cy"]),
            each.attrib["fill"],
        )
        for each in parsed(svg).iter()
        if each.tag.endswith("circle")
    }


def test_points_are_where_axes_say():
    found = circles(trade_off_svg(POINTS, None, "a & b"))
    assert [*found] == ["beaten", "widest", "<narrow>", "taken"]
    assert {name: colour for name, (_, _, colour) in found.items()} == {
        "beaten": "currentColor",
        "widest": "#1f77dc",
        "<narrow>": "#1f77dc",
        "taken": "#d24a3d",
    }
    # 15 % of the range is left of the points, and 5 % are on the other sides.
    assert found["<narrow>"][:2] == (round(52 + 452 * 0.15 / 1.2, 1), 243.1)
    assert found["widest"][:2] == (round(520 - 16 - 452 * 0.05 / 1.2, 1), 24.9)
    assert found["taken"][0] == round(52 + 452 * (0.15 + 1 / 3) / 1.2, 1)


def test_the_curve_goes_in_steps():
    svg = trade_off_svg(POINTS, None, "t")
    (path,) = re.findall(r'd="(M[^"]*)" fill="none" stroke="#1f77dc"', svg)
    found = circles(svg)
    (a, b, _), (c, d, _), (e, f, _) = (
        found[name] for name in ("<narrow>", "taken", "widest")
    )
    assert path == f"M{a:.1f} {b:.1f}H{c:.1f}V{d:.1f}H{e:.1f}V{f:.1f}"


def test_axes_have_round_numbers():
    svg = trade_off_svg(POINTS, None, "a & b")
    assert parsed(svg).attrib["aria-label"] == "a & b"
    assert texts(svg, "title")[0] == "a & b"
    assert texts(svg) == [
        *("100", "200", "300", "400"),
        *("10", "20", "30", "40"),
        "constants in bytes",
        "SQNR in dB",
        "chosen",
    ]


def test_the_budget_is_a_line():
    for limit, place in (
        (Limit(most_bytes=250), '<path d="M296.8 14V254"'),
        (Limit(least_sqnr=25), '<path d="M52 134.0H504"'),
    ):
        svg = trade_off_svg(POINTS, limit, "t")
        assert place in svg
        assert "budget" in texts(svg)
    for limit in (Limit(most_bytes=1000), Limit(least_sqnr=0.0)):
        assert "budget" not in texts(trade_off_svg(POINTS, limit, "t"))


def test_points_without_noise_are_left_out():
    exact = Point(500, math.inf, "exact", is_on_curve=True)
    assert "exact" not in circles(trade_off_svg([*POINTS, exact], None, "t"))
    assert trade_off_svg([exact], None, "t") == ""
    assert trade_off_svg([exact, Point(600, 3.0, "beaten")], None, "t") == ""


def test_one_point_is_in_the_middle():
    (place,) = circles(trade_off_svg(POINTS[:1], None, "t")).values()
    assert place == (391.0, 134.0, "#1f77dc")
