"""MX and its definition in exact fractions."""

from bisect import bisect_left
from fractions import Fraction
from math import isnan, ldexp
from typing import get_args

import numpy as np
import pytest

from xdsl_quant.numerics.formats import BlockScaled
from xdsl_quant.numerics.formats.mx import MX_FORMATS, NVFP4_FORMAT, MXFormat, ScaleRule
from xdsl_quant.numerics.small_floats import small_float

from .answers import drawn_values

ALL = pytest.mark.parametrize("format", MX_FORMATS, ids=lambda format: format.name)


def _elements(format: MXFormat) -> list[Fraction]:
    """All elements that are not negative, by their codes."""
    if format.type == "i8":
        return [Fraction(code, 64) for code in range(128)]
    small = small_float(format.type)
    return [*map(Fraction, small.values[: small.largest_code + 1].tolist())]


def _rounded(number: Fraction, elements: list[Fraction]) -> Fraction:
    """The nearest element, that with the even code of two."""
    above = bisect_left(elements, number)
    if above == len(elements):
        return elements[-1]
    below = max(above - 1, 0)
    middle = (elements[below] + elements[above]) / 2
    is_above = number > middle or (number == middle and above % 2 == 0)
    return elements[above if is_above else below]


def _log2(number: Fraction, *, up: bool = False) -> int:
    """The logarithm, rounded to an integer."""
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > number
    return exponent + (up and Fraction(2) ** exponent < number)


def _scale_exponent(
    largest: Fraction, elements: list[Fraction], rule: ScaleRule
) -> int:
    emax = _log2(elements[-1])
    if not largest:
        return -127
    if rule == "rceil":
        exponent = _log2(largest / elements[-1], up=True)
    elif rule == "ceil":
        exponent = _log2(largest, up=True) - emax
    else:
        exponent = _log2(largest) - emax
        # The next element, if exponents were unbounded.
        last = elements[-1] - elements[-2]
        code = len(elements) - 1
        longer = [*elements, elements[-1] + last, elements[-1] + 2 * last]
        scaled = largest / Fraction(2) ** exponent
        is_saturated = _rounded(scaled, longer) > elements[code]
        exponent += rule == "even" and is_saturated
    return max(exponent, -127)


@ALL
@pytest.mark.parametrize("rule", get_args(ScaleRule))
def test_definition(format: MXFormat, rule: ScaleRule):
    values = drawn_values(np.random.default_rng(0), 72)
    values = values[np.isfinite(values).all(1)][::5, :32]
    stored = format.quantize(values, rule)
    elements = _elements(format)
    numbers = stored.dequantize()
    for row, codes, found in zip(values, stored.scales.codes, numbers, strict=True):
        exact = [*map(Fraction, row.tolist())]
        exponent = _scale_exponent(max(map(abs, exact)), elements, rule)
        assert int(codes[0]) - 127 == exponent
        scale = Fraction(2) ** exponent
        for value, number in zip(exact, found, strict=True):
            product = _rounded(abs(value) / scale, elements) * scale
            # A product is rounded once more if it is subnormal or too large for f32.
            with np.errstate(over="ignore"):
                expected = np.float32(float(product if value >= 0 else -product))
            assert number == expected


@ALL
def test_scale_is_nan(format: MXFormat):
    packed = format.pack(format.quantize(np.ones(32)))
    packed["scale"][:] = 255
    assert np.isnan(format.unpack(packed).dequantize()).all()


@ALL
def test_infinity(format: MXFormat):
    values = np.array([1, -np.inf] * 16)
    for rule in get_args(ScaleRule):
        numbers = format.quantize(values, rule).dequantize()
        if rule == "even":
            assert np.isnan(numbers).all()
        elif format.type == "i8":
            assert (numbers[1::2] == -127 / 64 * 2.0**127).all()
        else:
            assert np.isneginf(numbers[1::2]).all()


@ALL
def test_nan(format: MXFormat):
    """Also one that signals, as division tells."""
    values = np.full(32, 0x7F800001, np.uint32).view(np.float32)
    stored = format.quantize(values)
    assert np.isnan(stored.dequantize()).all()
    if format.type == "i8":
        assert not stored.codes.any()


def test_smallest_scales():
    """2^-127, which is subnormal in f32, and its neighbours."""
    values = np.zeros((5, 32))
    values[1:, 0] = (
        np.array([1 << 22, (1 << 22) + 1, 1 << 23, (1 << 23) + 1]) * 2.0**-149
    )
    stored = MX_FORMATS[-1].quantize(values, "ceil")
    assert stored.scales.codes.tolist() == [[0], [0], [1], [1], [2]]


def test_negative_zero():
    for format in MX_FORMATS[:-1]:
        assert np.signbit(format.quantize(np.full(32, -0.0)).dequantize()).all()


def test_rule():
    with pytest.raises(
        ValueError, match="unknown scale rule 'up', available: 'floor',"
    ):
        MX_FORMATS[0].quantize(np.zeros(32), "up")  # pyright: ignore[reportArgumentType] the mistake that is tested


@pytest.mark.parametrize("scale", [0, -1, np.inf, np.nan, 1e-60])
def test_scale_of_tensor(scale: float):
    with pytest.raises(ValueError, match="expected a positive finite"):
        NVFP4_FORMAT.quantize(np.zeros(16), tensor_scale=scale)


def test_tensor_too_small_for_its_scale():
    with pytest.warns(RuntimeWarning, match="stores values as zeros"):
        stored = NVFP4_FORMAT.quantize(np.full(16, ldexp(1, -140)))
    assert not stored.dequantize().any()
    assert not isnan(stored.dequantize()[0])
    assert NVFP4_FORMAT.pack(stored)["per_tensor_scale"] == 1


def test_smallest_scale_of_a_tensor():
    """Its reciprocal is a number of f32, and twice of that is none."""
    values = np.full(16, ldexp(6 * 448, -127))
    stored = NVFP4_FORMAT.quantize(values)
    assert NVFP4_FORMAT.pack(stored)["per_tensor_scale"] == ldexp(1, -127)
    np.testing.assert_array_equal(stored.dequantize(), values)


def test_tensor_scale_that_is_too_small():
    stored = NVFP4_FORMAT.quantize(np.full(16, 6000.0), tensor_scale=1)
    assert stored.dequantize().tolist() == [6 * 448] * 16


def test_tensor_scale_of_another_dtype():
    packed = NVFP4_FORMAT.pack(NVFP4_FORMAT.quantize(np.full(16, 6.0), tensor_scale=1))
    packed["per_tensor_scale"] = np.array(0.5, np.float64)
    assert NVFP4_FORMAT.unpack(packed).dequantize().tolist() == [3] * 16


@pytest.mark.parametrize("name", ["qdata", "scale"])
def test_packed_into_words(name: str):
    packed = NVFP4_FORMAT.pack(NVFP4_FORMAT.quantize(np.zeros(16)))
    packed[name] = packed[name].astype(np.int16)
    with pytest.raises(ValueError, match=r"^expected bytes for NVFP4, found"):
        NVFP4_FORMAT.unpack(packed)


def test_nibbles():
    values = np.arange(32) % 8
    packed = MX_FORMATS[4].pack(MX_FORMATS[4].quantize(values, "rceil"))
    assert packed["scale"].tolist() == [128]
    assert packed["qdata"][:4].tolist() == [0x10, 0x32, 0x44, 0x65]


def test_tensor_scale_is_one_number():
    values = np.full(16, 6.0)
    found = NVFP4_FORMAT.quantize(values, np.ones((1, 1)))  # pyright: ignore[reportArgumentType] of one element
    np.testing.assert_array_equal(found.dequantize(), values)
    with pytest.raises(
        ValueError, match=r"^expected one number as tensor_scale, found shape \(3,\)$"
    ):
        NVFP4_FORMAT.quantize(values, np.ones(3))  # pyright: ignore[reportArgumentType] the mistake that is tested
    with pytest.raises(
        TypeError, match="expected numbers as tensor_scale, found dtype"
    ):
        NVFP4_FORMAT.quantize(values, "1")  # pyright: ignore[reportArgumentType] the mistake that is tested


def test_smallest_block_scale_of_nvfp4():
    """A block far below the largest one of the tensor has the scale 2**-6."""
    values = np.concatenate([np.full(16, 2688.0), np.full(16, 2**-7)])
    stored = NVFP4_FORMAT.quantize(values)
    scales = stored.scales
    assert isinstance(scales, BlockScaled)
    decoded = small_float("f8E4M3FN").decode(scales.codes)
    assert decoded.tolist() == [448, 2**-6]
    assert stored.dequantize().tolist() == [2688.0] * 16 + [2**-7] * 16
