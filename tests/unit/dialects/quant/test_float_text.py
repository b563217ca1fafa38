"""The text of floats is MLIR's, byte for byte."""

import math
import struct
from array import array
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E3M4Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    FloatTF32Type,
    f16,
    f32,
    f64,
    f80,
    f128,
)

from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.float_text import float_text, float_texts, hex_text

F64 = float_format(f64)


def _golden_texts() -> list[tuple[float, str]]:
    lines = Path(__file__).with_name("float_text.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(float.fromhex(number), text) for number, text in rows]


def test_doubles_have_the_text_of_mlir():
    golden = _golden_texts()
    assert len(golden) == 1420
    wrong = [
        (number.hex(), text, float_text(number, F64))
        for number, text in golden
        if float_text(number, F64) != text
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("float_type", "number", "text"),
    [
        (f80, 0.5, "5.000000e-01"),
        (f80, 296.774, "296.774000000000000909"),
        (f80, 1 / 3, "0.33333333333333331483"),
        (f80, 1e-7, "9.99999999999999954748E-8"),
        (f80, 5e-324, "4.94065645841246544177E-324"),
        (f80, 123456789.0, "0x419D6F3454000000"),
        (f128, 0.5, "5.000000e-01"),
        (f128, 296.774, "296.774000000000000909494701772928238"),
        (f128, 0.1, "0.100000000000000005551115123125782702"),
        (f16, 0.0999755859375, "9.997550e-02"),
        (f16, 0.333251953125, "3.332520e-01"),
        (f16, 65504.0, "6.550400e+04"),
        (f16, 2.0**-24, "5.960460e-08"),
        (f16, 3.140625, "3.140630e+00"),
        (f16, 2048.0, "2.048000e+03"),
        (BFloat16Type(), 0.10009765625, "1.000980e-01"),
        (BFloat16Type(), float.fromhex("0x1.94p+99"), "1.000260e+30"),
        (BFloat16Type(), 2.0**-133, "9.183550e-41"),
        (BFloat16Type(), 1232.0, "1.232000e+03"),
        (FloatTF32Type(), 0.333251953125, "3.332520e-01"),
        (f32, float.fromhex("0x1.555556p-2"), "0.333333343"),
        (f32, float.fromhex("0x1.921fb4p+1"), "3.1415925"),
        (f32, float.fromhex("0x1.fef9dcp-1"), "9.980000e-01"),
        (f32, float.fromhex("0x1.d18c6ap+9"), "931.096984"),
        (f32, 2.0**-149, "1.401300e-45"),
        (f32, 2.0**24, "0x4170000000000000"),
        (Float8E4M3FNType(), 0.1015625, "1.015630e-01"),
        (Float8E4M3FNType(), 2.0**-9 * 5, "9.765620e-03"),
        (Float8E5M2Type(), 2.0**-10, "9.765620e-04"),
        (Float8E3M4Type(), 0.328125, "3.281250e-01"),
        (Float8E8M0FNUType(), 2.0**-100, "7.888600e-31"),
        (Float6E3M2FNType(), 28.0, "2.800000e+01"),
        (Float6E2M3FNType(), 0.375, "3.750000e-01"),
        (Float4E2M1FNType(), 6.0, "6.000000e+00"),
    ],
)
def test_numbers_of_narrow_formats(float_type: AnyFloat, number: float, text: str):
    """What MLIR 22 prints for scales of sub-channel types."""
    assert float_text(number, float_format(float_type)) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (math.inf, "0x7FF0000000000000"),
        (-math.inf, "0xFFF0000000000000"),
        (math.nan, "0x7FF8000000000000"),
        (0.0, "0.000000e+00"),
        (-0.0, "-0.000000e+00"),
        (-0.1, "-1.000000e-01"),
        (-0.998, "-0.998"),
        (-1234567.0, "0xC132D68700000000"),
        (-(2.0**-24), "-5.9604644775390625E-8"),
        (1.7976931348623157e308, "1.7976931348623157E+308"),
        (5e-324, "4.940660e-324"),
        (1e22, "1.000000e+22"),
        (1234567000.0, "0x41D2657FD6000000"),
        (12345670000.0, "1.234567E+10"),
        (123456789012345678.0, "1.2345678901234568E+17"),
    ],
)
def test_unusual_doubles(number: float, text: str):
    assert float_text(number, F64) == text


def _read(text: str) -> float:
    if text.startswith("0x"):
        return struct.unpack(">d", int(text, 16).to_bytes(8))[0]
    return float(text)


@given(st.floats(allow_nan=False))
def test_text_reads_back_as_the_number(number: float):
    read = _read(float_text(number, F64))
    assert read.hex() == number.hex()


@given(st.floats(width=32, min_value=2.0**-149, allow_infinity=False))
def test_text_of_a_single_reads_back_as_the_number(number: float):
    read = _read(float_text(number, float_format(f32)))
    assert float_format(f32).nearest(read) == number


def test_hex_text():
    assert hex_text(1.0) == "0x3FF0000000000000"
    assert hex_text(5e-324) == "0x1"


def test_texts_of_many():
    assert float_texts(array("d", [0.1, 0.998, 0.1, 1234567.0]), F64) == [
        "1.000000e-01",
        "0.998",
        "1.000000e-01",
        "0x4132D68700000000",
    ]
    assert float_texts(array("d"), F64) == []


def test_texts_are_in_the_range_of_a_parser_that_reads_doubles():
    """
    The short text of the smallest f16 is below it. That of the smallest f32 is above.
    """
    assert float_texts(array("d", [2.0**-24, 65504.0]), float_format(f16)) == [
        "0x3E70000000000000",
        "6.550400e+04",
    ]
    assert float_texts(array("d", [2.0**-149]), float_format(f32)) == ["1.401300e-45"]


def test_texts_of_very_many():
    """They are formatted all at once, and are those of each one alone."""
    golden = [(number, text) for number, text in _golden_texts() if number > 0]
    numbers = array("d", [number for number, _ in golden] * 5)
    assert float_texts(numbers, F64) == [text for _, text in golden] * 5


@pytest.mark.parametrize("float_type", [f16, f32, BFloat16Type(), Float8E4M3FNType()])
def test_texts_of_very_many_narrow_numbers(float_type: AnyFloat):
    format_ = float_format(float_type)
    random = Random(0)
    exponents = math.log2(format_.smallest), math.log2(format_.largest)
    numbers = format_.nearest_all(
        array("d", [2.0 ** random.uniform(*exponents) for _ in range(6000)])
    )
    numbers.extend([format_.smallest, format_.largest, 1.0, 0.5])
    expected = [
        text
        for number in numbers
        for text in float_texts(array("d", [number]), format_)
    ]
    assert float_texts(numbers, format_) == expected
