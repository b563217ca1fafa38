"""What a notebook shows for a quantized type."""

import subprocess
import sys
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from xdsl.dialects.builtin import (
    Float6E2M3FNType,
    Float8E4M3FNType,
    Float8E8M0FNUType,
    IntegerType,
    Signedness,
    bf16,
    f32,
    i8,
)

from tests.unit.display.html_tree import parse_html, text_of
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    BlockScaledQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    QuantizedType,
    StoredNumbersAttr,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.constructor_arguments import short_text
from xdsl_quant.dialects.quant.type_html import type_html

UI8 = IntegerType(8, Signedness.UNSIGNED)


def _tree(quantized_type: QuantizedType) -> ElementTree.Element:
    return parse_html(type_html(quantized_type))


def _rows(quantized_type: QuantizedType) -> dict[str, str]:
    rows = _tree(quantized_type).iter("tr")
    return {
        text_of(name): value.text or "" for name, value in (tuple(row) for row in rows)
    }


def _points(quantized_type: QuantizedType) -> list[tuple[float, float]]:
    (polygon,) = _tree(quantized_type).iter("polygon")
    numbers = [point.split(",") for point in polygon.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in numbers]


def _per_axis(scales: object, zero_points: object = None):
    return UniformQuantizedPerAxisType(
        i8,
        f32,
        np.asarray(scales, np.float64),
        None if zero_points is None else np.asarray(zero_points),
        quantized_dimension=1,
    )


def _powers(codes: object) -> StoredNumbersAttr:
    """Powers of two, and NaN for 255."""
    array = np.array(codes, np.uint8)
    return StoredNumbersAttr.from_array(array, Float8E8M0FNUType())


@pytest.mark.parametrize(
    ("quantized_type", "rows"),
    [
        (
            UniformQuantizedType(UI8, f32, 1 / 3, 7, storage_type_max=250),
            {
                "kind": "uniform, per-tensor",
                "storage": "ui8, 0 to 250",
                "expressed": "f32",
                "scale": "0.333333",
                "zero point": "7",
            },
        ),
        (
            _per_axis([0.5, 2.0], [3, -4]),
            {
                "kind": "uniform, per-axis",
                "storage": "i8, -128 to 127",
                "expressed": "f32",
                "quantized dimension": "1",
                "scales": "0.5, 2",
                "zero points": "3, -4",
            },
        ),
        (
            _per_axis([0.25, 1.0, 4.0] * 3, [5] * 9),
            {
                "kind": "uniform, per-axis",
                "storage": "i8, -128 to 127",
                "expressed": "f32",
                "quantized dimension": "1",
                "scales": "9: min 0.25, median 1, max 4",
                "zero points": "all 5",
            },
        ),
        (
            UniformQuantizedSubChannelType(
                IntegerType(4),
                bf16,
                np.arange(1, 13).reshape(4, 3) / 4,
                np.arange(-6, 6).reshape(4, 3),
                quantized_dimensions=[1, 0],
                block_sizes=[32, 2],
            ),
            {
                "kind": "uniform, sub-channel",
                "storage": "i4, -8 to 7",
                "expressed": "bf16",
                "blocks": (
                    "4 x 3, size 32 along dimension 1, size 2 along dimension 0"
                ),
                "scales": "12: min 0.25, median 1.625, max 3",
                "zero points": "-6 to 5",
            },
        ),
        (
            UniformQuantizedType(Float8E4M3FNType(), f32, 0.5, storage_type_min=-2),
            {
                "kind": "uniform, per-tensor",
                "storage": "f8E4M3FN, -2 to 448",
                "expressed": "f32",
                "scale": "0.5",
                "zero point": "0",
            },
        ),
        (
            BlockScaledQuantizedType(
                Float6E2M3FNType(),
                f32,
                _powers([[127, 255]]),
                block_sizes={1: 32, 0: 1},
            ),
            {
                "kind": "block-scaled",
                "storage": "f6E2M3FN, -7.5 to 7.5",
                "expressed": "f32",
                "blocks": "1 x 2, size 1 along dimension 0, size 32 along dimension 1",
                "type of scales": "f8E8M0FNU",
                "scales": "1, nan",
            },
        ),
        (
            AnyQuantizedType(IntegerType(32), f32),
            {
                "kind": "any",
                "storage": "i32, -2147483648 to 2147483647",
                "expressed": "f32",
            },
        ),
        (
            AnyQuantizedType(i8, is_signed=False),
            {"kind": "any", "storage": "u8, 0 to 255"},
        ),
        (
            CalibratedQuantizedType(f32, -1.5, 2.25),
            {"kind": "calibrated", "expressed": "f32", "range": "-1.5 to 2.25"},
        ),
        (NoQuantizedType(f32), {"kind": "none", "expressed": "f32"}),
    ],
)
def test_rows(quantized_type: QuantizedType, rows: dict[str, str]):
    assert _rows(quantized_type) == rows
    assert getattr(quantized_type, "_repr_html_")() == type_html(quantized_type)


def test_colours_are_those_of_the_page():
    tree = _tree(_per_axis(np.arange(1, 10)))
    (table,) = tree.iter("table")
    (polygon,) = tree.iter("polygon")
    assert "color:inherit" in table.attrib["style"]
    assert polygon.attrib["stroke"] == polygon.attrib["fill"] == "currentColor"


def test_eight_scales_are_listed_and_nine_are_drawn():
    assert list(_tree(_per_axis(np.arange(1, 9))).iter("svg")) == []
    assert len(list(_tree(_per_axis(np.arange(1, 10))).iter("svg"))) == 1


def test_curve_of_few_scales_has_a_point_for_each_twice():
    points = _points(_per_axis([1.0, 2.0, 3.0, 2.0, 1.0] * 2))
    assert points == [*points[:10], *reversed(points[:10])]
    assert [y for _, y in points[:5]] == [38.0, 20.0, 2.0, 20.0, 38.0]
    assert points[0][0] == 2.0
    assert points[9][0] == 238.0


def test_equal_scales_are_a_line_at_half_height():
    assert {y for _, y in _points(_per_axis([0.25] * 20))} == {20.0}


def test_scales_of_different_magnitude_are_drawn_logarithmically():
    quantized_type = _per_axis([0.01, 0.1, 1.0] * 3)
    assert [y for _, y in _points(quantized_type)[:3]] == [38.0, 20.0, 2.0]
    (svg,) = _tree(quantized_type).iter("svg")
    label = "9 scales from 0.01 to 1, logarithmic"
    assert svg.attrib["role"] == "img"
    assert svg.attrib["aria-label"] == label
    assert svg.findtext("title") == label


def test_curve_of_many_scales_is_a_band_that_has_every_outlier():
    scales = np.ones(1_000_000)
    scales[123_456], scales[999_999] = 3.0, 5.0
    html = type_html(_per_axis(scales))
    assert len(html) < 10_000
    points = _points(_per_axis(scales))
    assert len(points) == 400
    upper, lower = points[:200], points[:199:-1]
    assert all(x < next_x for (x, _), (next_x, _) in pairwise(upper))
    assert {y for _, y in lower} == {38.0}
    assert {i: y for i, (_, y) in enumerate(upper) if y != 38.0} == {24: 20.0, 199: 2.0}


@pytest.mark.parametrize(
    ("codes", "text", "label"),
    [
        (
            [127, 128, 255] * 3,
            "9: min 1, median 1.5, max 2, 3 NaN",
            "6 scales from 1 to 2",
        ),
        ([255] * 9, "9: all NaN", None),
    ],
)
def test_scales_that_are_nan(codes: list[int], text: str, label: str | None):
    quantized_type = BlockScaledQuantizedType(
        i8, f32, _powers(codes), block_sizes={0: 32}
    )
    assert _rows(quantized_type)["scales"] == text
    labels = [svg.attrib["aria-label"] for svg in _tree(quantized_type).iter("svg")]
    assert labels == ([] if label is None else [label])
    assert "nan" not in type_html(quantized_type)


def test_label_of_offsets():
    quantized_type = BlockScaledQuantizedType(
        i8, f32, _powers([127] * 9), block_sizes={0: 32}, offsets=_powers([128] * 9)
    )
    labels = [svg.attrib["aria-label"] for svg in _tree(quantized_type).iter("svg")]
    assert labels == ["9 scales from 1 to 1", "9 offsets from 2 to 2"]


def test_text_of_a_long_type_is_short():
    short, long = _per_axis([0.5, 2.0]), _per_axis(np.arange(1, 1001))
    assert short_text(short) == str(short)
    text = short_text(long)
    assert len(text) < 250
    begin, end = text.split(" ... ")
    assert str(long).startswith(begin)
    assert str(long).endswith(end)
    formatter: Any = DisplayFormatter()
    data, _ = formatter.format(long)
    assert data == {"text/plain": text, "text/html": type_html(long)}


_WITHOUT_NUMPY = """
import sys
from xdsl.dialects.builtin import f32, i8
from xdsl_quant.dialects.quant import UniformQuantizedPerAxisType
type_ = UniformQuantizedPerAxisType(i8, f32, [1.0] * 8, quantized_dimension=0)
print(len(type_._repr_html_()) > 100, "numpy" in sys.modules)
"""


def test_few_scales_need_no_numpy():
    command = [sys.executable, "-c", _WITHOUT_NUMPY]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "True False\n"
