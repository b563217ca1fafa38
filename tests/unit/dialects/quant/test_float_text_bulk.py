"""Many numbers at once are treated as they are one by one."""

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import AnyFloat, bf16, f16, f32, f64, f80, i8

from xdsl_quant.dialects.quant import UniformQuantizedPerAxisType
from xdsl_quant.dialects.quant.float_formats import (
    MIN_BULK_COUNT,
    FloatFormat,
    float_format,
)
from xdsl_quant.dialects.quant.float_text import float_text, float_texts
from xdsl_quant.dialects.quant.float_text_bulk import decimal_texts

FORMATS = [float_format(float_type) for float_type in (f16, bf16, f32, f64)]


def _decimal(digits: int, exponent: int) -> float:
    return float(f"{digits}e{exponent}")


_SHORT_DECIMALS = st.builds(_decimal, st.integers(1, 10**7), st.integers(-40, 20))
_NUMBERS = st.one_of(
    st.floats(min_value=1e-320, max_value=1e300, allow_subnormal=True),
    st.floats(min_value=1e-5, max_value=2e5),
    st.integers(1, 10**9).map(float),
    st.integers(-60, 60).map(lambda exponent: math.ldexp(1.0, exponent)),
    st.integers(1, 4096).map(lambda n: n / 1024),
    _SHORT_DECIMALS,
)


@pytest.mark.parametrize("number_format", FORMATS)
@given(numbers=st.lists(_NUMBERS, min_size=1, max_size=200))
def test_texts_are_those_of_single_numbers(
    number_format: FloatFormat, numbers: list[float]
):
    values = number_format.nearest_all(
        array(
            "d",
            [
                min(max(v, number_format.smallest), number_format.largest)
                for v in numbers
            ],
        )
    )
    texts, missing = decimal_texts(values, number_format)
    assert len(texts) == len(values)
    for index, value in enumerate(values):
        if index not in missing:
            assert texts[index] == float_text(value, number_format)


@pytest.mark.parametrize(
    ("float_type", "value", "text"),
    [
        (f64, 0.998, "0.998"),
        (f64, 931.097, "931.09699999999998"),
        (f64, 1 / 3, "0.33333333333333331"),
        (f64, 2.0**-24, "5.9604644775390625E-8"),
        (f64, 8e-14, "8.0E-14"),
        (f32, 0.99871999, "0.99871999"),
        (f80, 0.998, "0.997999999999999998223"),
        (f16, 0.0999755859375, "9.997550e-02"),
    ],
)
def test_texts_of_many_equal_numbers(float_type: AnyFloat, value: float, text: str):
    number_format = float_format(float_type)
    values = number_format.nearest_all(array("d", [value] * MIN_BULK_COUNT))
    assert set(float_texts(values, number_format)) == {text}


def test_many_numbers_without_plain_text():
    values = array("d", [1234567.0, 5e-324, 0.5, 1e300] * (MIN_BULK_COUNT // 4))
    texts = float_texts(values, float_format(f64))
    assert texts[:4] == [
        "0x4132D68700000000",
        "4.940660e-324",
        "5.000000e-01",
        "1.000000e+300",
    ]
    assert texts == texts[:4] * (MIN_BULK_COUNT // 4)


@pytest.mark.parametrize("number_format", FORMATS)
def test_rounding_of_many_numbers(number_format: FloatFormat):
    values = array("d", [0.1, 1 / 3, 2.7, 1000.1, number_format.smallest])
    few = number_format.nearest_all(values)
    assert few.tolist() == [number_format.nearest(value) for value in values]
    many = number_format.nearest_all(values * (MIN_BULK_COUNT // 5))
    assert many == few * (MIN_BULK_COUNT // 5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0, 1e39])
def test_range_of_many_numbers(bad: float):
    good = array("d", [1.0]) * MIN_BULK_COUNT
    assert float_format(f32).out_of_range(good) is None
    good[MIN_BULK_COUNT // 2] = bad
    found = float_format(f32).out_of_range(good)
    assert found is not None
    assert math.isnan(found) if math.isnan(bad) else found == bad


def test_text_of_a_type_with_many_scales():
    scales = [0.998, 0.25] * (MIN_BULK_COUNT // 2)
    quantized_type = UniformQuantizedPerAxisType(i8, f32, scales, quantized_dimension=0)
    elements = ",".join(["0.998", "2.500000e-01"] * (MIN_BULK_COUNT // 2))
    assert str(quantized_type) == f"!quant.uniform<i8:f32:0, {{{elements}}}>"
