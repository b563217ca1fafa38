"""The report of a calibration: its table, its pictures and its page."""

import math
import re
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.display.html_tree import parse_html, text_of
from xdsl_quant.calibration import Statistics
from xdsl_quant.calibration.statistics import KeyObservation
from xdsl_quant.display import calibration_report
from xdsl_quant.display.histogram_svg import histogram_svg
from xdsl_quant.numerics.observers import observe_histogram, parse_observer

pytestmark = pytest.mark.filterwarnings("ignore:.* may be much too wide")

EVIL = """<script>alert("x")</script> & 'y'"""
NORMAL = np.random.default_rng(0).standard_normal(4000).astype(np.float32)
VALUES = {
    "normal": NORMAL,
    "outlier": np.append(NORMAL, np.float32(300)),
    EVIL: np.abs(NORMAL),
}


def statistics(
    values: dict[str, NDArray[Any]] = VALUES,
    observer: str = "percentile=99",
    axis: int | None = None,
    with_histogram: bool = False,
) -> Statistics:
    kind = parse_observer(observer)
    seen = {
        key: KeyObservation.of(array, axis, kind, 0, with_histogram)
        for key, array in values.items()
    }
    return Statistics(observer, seen, 1)


def tree(report: object) -> ElementTree.Element:
    return parse_html(getattr(report, "_repr_html_")())


def rows(element: ElementTree.Element) -> list[list[str]]:
    """The texts of the cells of the keys, without titles of pictures."""
    table = next(t for t in element.iter("table") if t.get("class") == "keys")
    body = table.find("tbody")
    assert body is not None
    for svg in body.iter("svg"):
        svg.clear()
    return [[text_of(cell) for cell in row] for row in body]


def page_tree(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


# The table


def test_rows():
    cells = rows(tree(calibration_report(statistics())))
    assert [row[0] for row in cells] == ["outlier", "normal", EVIL]
    _, sqnr, saturated, range_, histogram, type_ = cells[0]
    assert re.fullmatch(r"\d\.\d dB", sqnr)
    assert re.fullmatch(r"[\d.]+%", saturated)
    assert re.fullmatch(r"-2\.\d+ to 2\.\d+values -\d\.\d+ to 300", range_)
    assert histogram == ""
    assert re.match(r"i8:f32 scale 0\.0\d+, zero point -?\d+!quant\.uniform<i8:", type_)


def test_summary():
    report = calibration_report(statistics(), bits=4, symmetric=True)
    text = text_of(tree(report))
    assert (
        "3 keys, 1 batch, observer percentile=99, types of "
        "quant-calibrated-to-uniform{bits=4 symmetric=true}." in text
    )
    assert "!quant.uniform<i4:f32, " in text


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"bits": 4}, "!quant.uniform<i4:f32, "),
        ({"signed": False}, "!quant.uniform<u8:f32, "),
        ({"narrow_range": True}, "!quant.uniform<i8<-127:127>:f32, "),
    ],
)
def test_options(options: dict[str, Any], start: str):
    (evaluation,) = calibration_report(
        statistics({"normal": NORMAL}), **options
    ).evaluations
    assert str(evaluation.quantized_type).startswith(start)


def test_expressed_types_are_those_of_the_module():
    text = """func.func @f(%x: tensor<4xf16>) {
  %y = quant.stats_ref %x "x" : tensor<4xf16>
  return
}"""
    report = calibration_report(statistics({"x": NORMAL}), text)
    assert str(report.evaluations[0].quantized_type).startswith("!quant.uniform<i8:f16")


def test_it_is_a_table_for_those_who_do_not_see_it():
    element = tree(calibration_report(statistics()))
    assert element.find(".//caption") is not None
    assert len(element.findall(".//thead//th[@scope='col']")) == 6
    assert len(element.findall(".//tbody//th[@scope='row']")) >= 3
    for svg in element.iter("svg"):
        assert svg.get("role") == "img"
        assert svg.get("aria-label")


def test_values_around_zero_are_marked_as_rough():
    values = {"far": np.append(NORMAL, np.float32(1e12)), "normal": NORMAL}
    report = calibration_report(statistics(values, "min-max", with_histogram=True))
    assert [line.split()[1] == "≈" for line in str(report).split("\n")[1:]] == [
        False,
        True,
    ]
    cells = rows(tree(report))
    assert [(row[0], row[1].startswith("≈ ")) for row in cells] == [
        ("normal", False),
        ("far", True),
    ]


def test_zeros_have_no_error():
    ((_, sqnr, saturated, *_),) = rows(
        tree(calibration_report(statistics({"zeros": np.zeros(5)})))
    )
    assert (sqnr, saturated) == ("no error", "0%")


def test_without_histograms():
    report = calibration_report(statistics(observer="min-max"))
    element = tree(report)
    assert not list(element.iter("svg"))
    assert [row[:3] for row in rows(element)] == [
        [key, "-", "-"] for key in sorted(VALUES)
    ]
    assert "calibrate with histograms=True" in text_of(element)
    assert str(report).split("\n")[-1] == (
        "Histograms and errors are missing: calibrate with histograms=True."
    )
    assert "histograms=True" not in str(calibration_report(statistics()))
    assert math.isnan(report.evaluations[0].sqnr)


def test_without_a_type():
    values = {"tiny": np.full(3, 1e-41), "huge": np.full(3, 1e300), "normal": NORMAL}
    cells = rows(tree(calibration_report(statistics(values))))
    assert cells[0][0] == "huge"
    assert cells[0][5] == "none: a bound exceeds f32"
    assert cells[0][1:3] == ["-", "-"]


# Channels

CHANNELS = {"channels": np.stack([NORMAL * scale for scale in (1, 3, 0.1, 2, 5, 1, 9)])}


@pytest.mark.parametrize("per_axis", ["auto", "never"])
def test_worst_channels(per_axis: Any):
    report = calibration_report(statistics(CHANNELS, axis=0), per_axis=per_axis)
    element = tree(report)
    row = element.find(".//tr[@class='channels']")
    assert row is not None
    summary = row.find(".//summary")
    assert summary is not None
    assert text_of(summary).startswith("Worst 5 of 7 channels along dimension 0, from ")
    names = [text_of(cell) for cell in row.findall(".//tbody/tr/th")]
    error = report.evaluations[0].error
    assert error is not None
    expected = np.argsort(error.channel_sqnr, kind="stable")[:5].tolist()
    assert names == [str(channel) for channel in expected]
    assert per_axis == "auto" or names[0] == "2"
    # Channels with a scale each have no range in common.
    layer = element.find(".//table[@class='keys']/tbody/tr/td/svg")
    assert layer is not None
    assert (layer.find("rect") is None) == (per_axis == "auto")


def test_scales_are_left_out():
    report = calibration_report(statistics(CHANNELS, axis=0))
    assert "!quant.uniform<i8:f32:0, {...}>" in str(report)
    assert "i8:f32:0 7 scales" in rows(tree(report))[0][5]


# Text, notebooks and pages


def test_text():
    report = calibration_report(statistics())
    assert repr(report) == str(report)
    lines = str(report).split("\n")
    assert lines[0].split() == ["key", "SQNR", "in", "dB", "saturated", "range", "type"]
    assert lines[1].startswith("outlier ")
    assert len({line.index("!quant.uniform") for line in lines[1:]}) == 1


def test_a_notebook_shows_some_keys_and_the_page_all(tmp_path: Path):
    values = {f"key{i:03}": NORMAL[: i + 10] for i in range(60)}
    report = calibration_report(statistics(values))
    element = tree(report)
    assert len(rows(element)) == 50
    assert "… and 10 more keys" in text_of(element)
    file = tmp_path / "report.html"
    report.save(file, "A & B")
    page = page_tree(file.read_text(encoding="utf-8"))
    assert len(rows(page)) == 60
    assert "more keys" not in text_of(page)
    assert next(title.text for title in page.iter("title")) == "A & B"
    assert text_of(next(page.iter("h1"))) == "A & B"


def test_a_page_needs_nothing_else():
    page = calibration_report(statistics()).page()
    element = page_tree(page)
    assert not list(element.iter("script"))
    assert not re.findall(r"\b(?:src|href|url|@import)\b", page)
    assert "color-scheme" in page


def test_file_that_cannot_be_written(tmp_path: Path):
    with pytest.raises(OSError, match="directory"):
        calibration_report(statistics()).save(tmp_path)


# Arguments


@pytest.mark.parametrize(
    ("value", "shown"),
    [("stats.json", "str"), (PurePosixPath("stats.json"), "PurePosixPath")],
)
def test_statistics_of_the_wrong_type(value: Any, shown: str):
    with pytest.raises(TypeError) as e:
        calibration_report(value)
    assert str(e.value) == (
        f"statistics must be Statistics, not {shown}; to use a file, call Statistics.load"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("8", "'8'"),
        (8.0, "8.0"),
        (None, "None"),
        (True, "True"),
        # Its `repr` depends on the version of NumPy.
        (np.float32(8), "8.0"),
    ],
)
def test_bits_are_an_integer(value: Any, shown: str):
    with pytest.raises(TypeError) as e:
        calibration_report(statistics(), bits=value)
    assert str(e.value) == f"bits must be an integer, not {shown}"


@pytest.mark.parametrize("name", ["signed", "symmetric", "narrow_range"])
@pytest.mark.parametrize("value", ["no", None, 2])
def test_flags_are_bools(name: str, value: Any):
    with pytest.raises(TypeError) as e:
        calibration_report(statistics(), **{name: value})
    assert str(e.value) == f"{name} must be True or False, not {value!r}"


def test_per_axis_is_one_of_two_texts():
    with pytest.raises(ValueError, match="per_axis") as e:
        calibration_report(statistics(), per_axis="always")  # pyright: ignore[reportArgumentType] a mistake
    assert str(e.value) == "per_axis must be 'auto' or 'never', not 'always'"


def test_module_of_the_wrong_type():
    with pytest.raises(TypeError) as e:
        calibration_report(statistics(), 3)  # pyright: ignore[reportArgumentType] a mistake
    assert str(e.value) == (
        "model must be a module, MLIR text, bytes or the path of a file, not int"
    )


def test_arguments_of_numpy():
    report = calibration_report(statistics(), bits=np.int64(4), signed=np.False_)  # pyright: ignore[reportArgumentType] NumPy's numbers
    expected = calibration_report(statistics(), bits=4, signed=False)
    assert str(report) == str(expected)
    assert "quant-calibrated-to-uniform{bits=4 signed=false}" in text_of(tree(report))


# Pictures


def picture(values: Any, stored: tuple[float, float] | None) -> ElementTree.Element:
    return parse_html(histogram_svg(observe_histogram(np.array(values)), stored, "<t>"))


def bars(element: ElementTree.Element, class_: str) -> int:
    path = element.find(f".//path[@class='{class_}']")
    return 0 if path is None else (path.get("d") or "").count("M")


@pytest.mark.parametrize(
    ("stored", "inside", "outside"),
    [
        (None, 3, 0),
        ((-8.0, 8.0), 3, 0),
        ((-4.0, 8.0), 2, 1),
        ((-0.5, 0.5), 1, 2),
    ],
)
def test_bars(stored: Any, inside: int, outside: int):
    element = picture([-7.0, 0.25, 0.25, 7.0], stored)
    assert (bars(element, "in"), bars(element, "out")) == (inside, outside)
    assert len(list(element.iter("rect"))) == (stored is not None)


def test_most_values_of_a_bar_say_what_it_is():
    element = picture([*[0.1] * 10, 7.0, 1000.0], (0.0, 5.0))
    assert (bars(element, "in"), bars(element, "out")) == (1, 1)


@pytest.mark.parametrize("value", [0.0, 1e-300, 3.0, -1e300, 1e308])
def test_one_value(value: float):
    for stored in (None, (min(value, 0.0), max(value, 0.0))):
        element = picture([value], stored)
        assert (bars(element, "in"), bars(element, "out")) == (1, 0)
        assert "nan" not in ElementTree.tostring(element, "unicode")


def test_title_is_escaped():
    (svg,) = picture([1.0], None).iter("svg")
    assert svg.get("aria-label") == text_of(next(svg.iter("title"))) == "<t>"
