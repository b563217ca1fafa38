"""All of MLIR's floats that have a dtype round as MLIR's types say."""

import sys
from array import array

import numpy as np
import pytest
from xdsl.dialects.builtin import BFloat16Type

from xdsl_quant.dialects.quant.float_formats import FLOAT_FORMATS
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.float_dtypes import float_dtype, float_info, rounded

FORMATS = {
    type_.name: float_format
    for type_, float_format in FLOAT_FORMATS.items()
    if type_.name not in ("tf32", "f80", "f128")
}


@pytest.mark.parametrize("name", FORMATS)
def test_range_is_that_of_the_format(name: str):
    info = float_info(float_dtype(name))
    assert float(info.max) == FORMATS[name].largest
    assert float(info.smallest_subnormal) == FORMATS[name].smallest
    assert info.nmant + 1 == FORMATS[name].precision


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_are_rounded_once(name: str):
    float_format = FORMATS[name]
    random = np.random.default_rng(0)
    low, high = np.log2([float_format.smallest, float_format.largest])
    doubles = np.exp2(random.uniform(low + 1, high - 0.01, 20_000))
    nearest = np.array(float_format.nearest_all(array("d", doubles)))
    # Numbers at, just below and just above the middle between two of the format.
    up = np.array(float_format.nearest_all(array("d", np.nextafter(nearest, np.inf))))
    ulps = np.ldexp(
        1.0,
        np.maximum(np.frexp(nearest)[1] - 1, float_format.min_exponent)
        - float_format.precision
        + 1,
    )
    middles = up + ulps / 2
    middles = middles[middles <= float_format.largest]
    ties = [middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf)]
    for values in (doubles, *ties):
        expected = np.array(float_format.nearest_all(array("d", values)))
        actual = rounded(values, float_dtype(name)).astype(np.float64)
        fits = expected <= float_format.largest
        assert (actual[fits] == expected[fits]).all()


def test_special_values_are_kept():
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.5, 1e300, -1e-300])
    result = rounded(special, float_dtype("bf16")).astype(np.float64)
    expected = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.5, np.inf, -0.0])
    assert np.array_equal(result, expected, equal_nan=True)
    assert (np.signbit(result[1:]) == np.signbit(expected[1:])).all()


@pytest.mark.parametrize("name", ["f80", "f128", "tf32", "i8"])
def test_floats_without_a_dtype(name: str):
    with pytest.raises(
        ValueError,
        match=f"^NumPy has no dtype for expressed type '{name}'; use one of f16, f32, ",
    ):
        QuantizationParameters(1, expressed=name)


def test_missing_package(monkeypatch: pytest.MonkeyPatch):
    float_dtype.cache_clear()
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError) as raised:
        QuantizationParameters(1, expressed="bf16")
    assert str(raised.value) == (
        "expressed type 'bf16' requires ml_dtypes; use pip install 'ml_dtypes>=0.5'"
    )
    assert QuantizationParameters(1, expressed="f16").expressed_dtype == np.float16


def test_names_are_those_of_the_types():
    assert BFloat16Type().name == "bf16"
