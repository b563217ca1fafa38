"""Small floats and their codes, against `ml_dtypes` and exact thresholds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.proving.floats import expected_codes
from xdsl_quant.numerics.float_dtypes import float_dtype, float_info
from xdsl_quant.numerics.small_floats import SMALL_FLOATS, SmallFloat, small_float

FORMATS = [*SMALL_FLOATS.values()]
formats = pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def all_codes(format: SmallFloat) -> NDArray[np.uint8]:
    return np.arange(1 << format.bits).astype(np.uint8)


def thresholds(format: SmallFloat) -> NDArray[np.float64]:
    """The positive numbers in the middle of two neighbours, exactly."""
    numbers = [*map(float, format.values[: format.largest_code + 1])]
    # As if there were one more, from which on it is too large.
    numbers.append(2 * numbers[-1] - numbers[-2] if format.is_signed else 2.0**128)
    return np.array([(low + high) / 2 for low, high in pairwise(numbers)])


def test_all_formats_of_the_package_are_there():
    names = {float_dtype(format.name).name for format in FORMATS}
    available = {name for name in vars(ml_dtypes) if name.startswith("float")}
    # MLIR has no such type.
    assert names == available - {"float8_e5m3fnu"}


@formats
def test_all_codes(format: SmallFloat):
    codes = all_codes(format)
    # The copy has no numbers of codes yet.
    format = replace(format)
    decoded = format.decode(codes)
    assert decoded.dtype == np.float32
    expected = codes.view(float_dtype(format.name)).astype(np.float32)
    np.testing.assert_array_equal(decoded, expected)
    np.testing.assert_array_equal(np.signbit(decoded), np.signbit(expected))
    assert format.largest == float(float_info(float_dtype(format.name)).max)


@formats
@pytest.mark.parametrize("dtype", FLOATS[:2])
def test_all_inputs_of_16_bits(format: SmallFloat, dtype: Any):
    values = np.arange(1 << 16).astype(np.uint16).view(dtype)
    codes = format.encode(values)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, expected_codes(values, format))


@formats
def test_thresholds_of_f32(format: SmallFloat):
    middles = thresholds(format).astype(np.float32)
    special = np.array([0, np.inf, np.nan, 1e-45, 3e38, format.largest], np.float32)
    values = np.concatenate([middles, special])
    values = np.concatenate(
        [values, np.nextafter(values, 0), np.nextafter(values, np.inf)]
    )
    for signed in (values, -values):
        codes = format.encode(signed)
        np.testing.assert_array_equal(codes, expected_codes(signed, format))


@formats
@pytest.mark.parametrize("dtype", FLOATS[2:])
def test_thresholds(format: SmallFloat, dtype: Any):
    middles = thresholds(format).astype(dtype)
    codes = np.arange(len(middles))
    following = np.append(codes[1:], format.overflow)
    at_ties = np.where(codes % 2 == 0, codes, following)
    if not format.is_signed:
        at_ties = following
    below, above = (np.nextafter(middles, dtype(end)) for end in (0, np.inf))
    for values, expected in ((below, codes), (middles, at_ties), (above, following)):
        assert format.encode(values).tolist() == expected.tolist()
        if format.is_signed:
            magnitude = expected % format.sign_bit
            is_unsigned = (magnitude == 0) & (not format.has_negative_zero)
            negative = np.where(is_unsigned, expected, magnitude + format.sign_bit)
            assert format.encode(-values).tolist() == negative.tolist()


def test_f64_is_rounded_once():
    format = small_float("f8E4M3FN")
    value = 1 + 2.0**-4 + 2.0**-40
    assert format.encode(np.float64(value)) == 0x39
    assert format.encode(np.float32(value)) == 0x38


@formats
@pytest.mark.parametrize("dtype", FLOATS)
def test_saturating(format: SmallFloat, dtype: Any):
    numbers = [0, -0.0, 1e-30, 5e4, 1e30, np.inf, -1e30, -np.inf, -1, np.nan, -np.nan]
    with np.errstate(over="ignore"):
        values = np.array(numbers).astype(dtype)
    low = -format.largest if format.is_signed else 2.0**-127
    limited = np.clip(values.astype(np.float64), low, format.largest)
    np.testing.assert_array_equal(
        format.encode(values, saturate=True), format.encode(limited)
    )
    assert np.array_equal(
        np.isnan(format.decode(format.encode(values, saturate=True))),
        np.isnan(values) & (format.nan is not None),
    )


def test_special_values():
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, -0.0], np.float32)
    found = {format.name: format.encode(special).tolist() for format in FORMATS}
    assert found == {
        "f8E5M2": [0x7C, 0xFC, 0x7E, 0xFE, 0x80],
        "f8E4M3": [0x78, 0xF8, 0x7C, 0xFC, 0x80],
        "f8E3M4": [0x70, 0xF0, 0x78, 0xF8, 0x80],
        "f8E4M3FN": [0x7F, 0xFF, 0x7F, 0xFF, 0x80],
        "f8E5M2FNUZ": [0x80, 0x80, 0x80, 0x80, 0],
        "f8E4M3FNUZ": [0x80, 0x80, 0x80, 0x80, 0],
        "f8E4M3B11FNUZ": [0x80, 0x80, 0x80, 0x80, 0],
        "f8E8M0FNU": [0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        "f6E2M3FN": [0x1F, 0x3F, 0x20, 0, 0x20],
        "f6E3M2FN": [0x1F, 0x3F, 0x20, 0, 0x20],
        "f4E2M1FN": [7, 15, 8, 0, 8],
    }


def test_shapes():
    format = small_float("f4E2M1FN")
    values = np.arange(200_000, dtype=np.float32).reshape(2, 4, -1)[:, ::2]
    codes = format.encode(values % 7)
    assert codes.shape == values.shape
    np.testing.assert_array_equal(codes, expected_codes(values % 7, format))
    assert format.encode([]).shape == (0,)
    assert format.encode(1).shape == ()
    assert format.encode([[1, -0.5]]).tolist() == [[2, 9]]
    assert format.encode(values.astype(">f4") % 7).tolist() == codes.tolist()
    assert format.decode([[1, 9]]).tolist() == [[0.5, -0.5]]
    assert format.decode(3) == 1.5


def test_mistakes():
    format = small_float("f6E2M3FN")
    with pytest.raises(
        ValueError, match=r"^unknown small float 'f8', available: f8E5M2, "
    ):
        small_float("f8")
    dtypes = "float16, bfloat16, float32, float64"
    with pytest.raises(
        TypeError, match=rf"^expected values with dtype {dtypes}, found int8$"
    ):
        format.encode(np.array([1], np.int8))
    with pytest.raises(
        TypeError, match=r"^expected values with .* found (longdouble|float128)$"
    ):
        format.encode(np.array([1], np.longdouble))
    with pytest.raises(TypeError, match=r"^unsupported masked array in values"):
        format.encode(np.ma.masked_array([1.0], [True]))
    with pytest.raises(
        ValueError,
        match=r"^expected codes of f6E2M3FN from 0 to 63, found 64 at index 1$",
    ):
        format.decode([0, 64])
    with pytest.raises(ValueError, match=r"^expected codes of f6E2M3FN from 0 to 63"):
        format.decode(np.array([64], np.uint8))
    with pytest.raises(ValueError, match=r"^expected codes of f8E5M2 from 0 to 255"):
        small_float("f8E5M2").decode([256])
    with pytest.raises(
        TypeError, match=r"^expected integers as codes, found dtype float64"
    ):
        format.decode([0.5])
