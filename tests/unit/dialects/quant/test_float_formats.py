"""What fits the float types, against `ml_dtypes` and exact arithmetic."""

import math
from array import array
from bisect import bisect_left
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
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
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E4M3Type,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    Float80Type,
    Float128Type,
    FloatTF32Type,
    f32,
    f64,
)
from xdsl.dialects.builtin import Float8E8M0FNUType as F8E8M0

from xdsl_quant.dialects.quant.float_formats import FLOAT_FORMATS, float_format

_DTYPES: dict[type[AnyFloat], Any] = {
    Float4E2M1FNType: ml_dtypes.float4_e2m1fn,
    Float6E2M3FNType: ml_dtypes.float6_e2m3fn,
    Float6E3M2FNType: ml_dtypes.float6_e3m2fn,
    Float8E3M4Type: ml_dtypes.float8_e3m4,
    Float8E4M3Type: ml_dtypes.float8_e4m3,
    Float8E4M3B11FNUZType: ml_dtypes.float8_e4m3b11fnuz,
    Float8E4M3FNType: ml_dtypes.float8_e4m3fn,
    Float8E4M3FNUZType: ml_dtypes.float8_e4m3fnuz,
    Float8E5M2Type: ml_dtypes.float8_e5m2,
    Float8E5M2FNUZType: ml_dtypes.float8_e5m2fnuz,
    F8E8M0: ml_dtypes.float8_e8m0fnu,
    Float16Type: np.float16,
    BFloat16Type: ml_dtypes.bfloat16,
}


@cache
def _positive_numbers(float_type: type[AnyFloat]) -> list[float]:
    """All positive finite numbers of a float type, in order."""
    dtype = np.dtype(_DTYPES[float_type])
    codes = np.arange(1 << float_type().bitwidth)
    bits = codes.astype(np.uint8 if dtype.itemsize == 1 else np.uint16)
    with np.errstate(invalid="ignore"):
        numbers = bits.view(dtype).astype(np.float64)
    return sorted({float(x) for x in numbers if math.isfinite(x) and x > 0})


def test_every_float_type_has_a_format():
    assert len(FLOAT_FORMATS) == 18
    assert {t.name for t in FLOAT_FORMATS} == {
        *("f16", "bf16", "tf32", "f32", "f64", "f80", "f128"),
        *("f8E5M2", "f8E4M3", "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ", "f8E4M3B11FNUZ"),
        *("f8E3M4", "f8E8M0FNU", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN"),
    }


@pytest.mark.parametrize("float_type", _DTYPES)
def test_range_of_narrow_types(float_type: type[AnyFloat]):
    numbers = _positive_numbers(float_type)
    float_format_ = float_format(float_type())
    assert float_format_.smallest == numbers[0]
    assert float_format_.largest == numbers[-1]
    assert not float_format_.holds_doubles


@pytest.mark.parametrize(
    ("float_type", "smallest", "largest", "holds_doubles"),
    [
        (Float32Type(), 2.0**-149, 3.4028234663852886e38, False),
        (FloatTF32Type(), 2.0**-136, 3.4011621342146535e38, False),
        (Float64Type(), 5e-324, 1.7976931348623157e308, True),
        (Float80Type(), 5e-324, 1.7976931348623157e308, True),
        (Float128Type(), 5e-324, 1.7976931348623157e308, True),
    ],
)
def test_range_of_wide_types(
    float_type: AnyFloat, smallest: float, largest: float, holds_doubles: bool
):
    float_format_ = float_format(float_type)
    assert float_format_.smallest == smallest
    assert float_format_.largest == largest
    assert float_format_.holds_doubles is holds_doubles


@pytest.mark.parametrize("float_type", _DTYPES)
@given(st.data())
def test_nearest(float_type: type[AnyFloat], data: st.DataObject):
    """No number of the type is nearer, and of two that are as near it is the even one."""
    numbers = _positive_numbers(float_type)
    near_a_tie = st.integers(0, len(numbers) - 2).flatmap(
        lambda i: st.sampled_from(
            [
                (tie := (numbers[i] + numbers[i + 1]) / 2),
                math.nextafter(tie, 0.0),
                math.nextafter(tie, math.inf),
            ]
        )
    )
    value = data.draw(near_a_tie | st.floats(numbers[0], numbers[-1]))
    index = bisect_left(numbers, value)
    candidates = range(max(index - 1, 0), min(index + 1, len(numbers)))
    # The code of the number at an index is one more than the index, but for E8M0, in which
    # a significand is always 1: MLIR rounds its ties up.
    expected = min(
        candidates,
        key=lambda i: (
            abs(Fraction(numbers[i]) - Fraction(value)),
            -i if float_type is F8E8M0 else (i + 1) % 2,
        ),
    )
    float_format_ = float_format(float_type())
    assert float_format_.nearest(value) == numbers[expected]
    assert float_format_.nearest_all(array("d", [value])).tolist() == [
        numbers[expected]
    ]


@given(st.floats(2.0**-149, 3.4028234663852886e38))
def test_nearest_single(value: float):
    expected = float(np.float32(value))
    assert float_format(f32).nearest(value) == expected
    assert float_format(f32).nearest_all(array("d", [value])).tolist() == [expected]


def test_nearest_double_is_the_double():
    values = array("d", [0.1, 5e-324, 1.7976931348623157e308])
    assert float_format(f64).nearest(0.1) == 0.1
    assert float_format(f64).nearest_all(values) == values


def test_nearest_of_many_narrow_numbers():
    values = array("d", [0.1, 1.5, 448.0])
    nearest = float_format(Float8E4M3FNType()).nearest_all(values)
    assert nearest == array("d", [0.1015625, 1.5, 448.0])
