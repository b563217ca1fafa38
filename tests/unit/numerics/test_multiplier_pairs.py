"""Fixed-point scales of TOSA and TensorFlow Lite are the same numbers, exactly."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdsl_quant.frontends.tflite.formulas.fixed_point import quantized_multiplier
from xdsl_quant.numerics import (
    multiplier_from_tflite,
    multiplier_to_tflite,
    normalize_multiplier,
    quantize_multiplier,
)

MULTIPLIERS = st.integers(1 << 30, (1 << 31) - 1)
SHIFTS = st.integers(2, 62)


@given(MULTIPLIERS, SHIFTS)
def test_pairs_of_31_bits_go_there_and_back(multiplier: int, shift: int):
    assert normalize_multiplier(multiplier, shift) == (multiplier, shift)
    tflite = multiplier_to_tflite(multiplier, shift)
    # The scale is `multiplier * 2**(shift - 31)`.
    assert tflite == (multiplier, 31 - shift)
    assert multiplier_from_tflite(*tflite) == (multiplier, shift)


@given(st.integers(1, (1 << 63) - 1), st.integers(-70, 130))
def test_the_scale_is_the_same_or_an_error(multiplier: int, shift: int):
    exact = Fraction(multiplier) / Fraction(2) ** shift
    try:
        pair = normalize_multiplier(multiplier, shift)
    except ValueError:
        zeros = 31 - multiplier.bit_length()
        is_long = zeros < 0 and multiplier % (1 << -zeros) != 0
        assert is_long or not 2 <= shift + zeros <= 62
        return
    assert 1 << 30 <= pair[0] < 1 << 31
    assert 2 <= pair[1] <= 62
    assert Fraction(pair[0], 1 << pair[1]) == exact
    assert multiplier_from_tflite(multiplier, 31 - shift) == pair


@given(st.floats(2.0**-32, 2.0**29 - 1))
def test_quantized_multipliers_are_those_of_tflite(real: float):
    # `QuantizeMultiplier`, which the kernels call, has the same pairs.
    value, exponent = quantized_multiplier(real)
    pair = quantize_multiplier(real)
    assert multiplier_to_tflite(*pair) == (int(value), int(exponent))
    assert multiplier_from_tflite(int(value), int(exponent)) == pair


def test_multipliers_of_16_bits():
    assert normalize_multiplier(16384, 15) == (1 << 30, 31)
    assert normalize_multiplier(32767, 16) == (32767 << 16, 32)


def test_arrays():
    multipliers, shifts = normalize_multiplier(
        [16384, 3, 1 << 40], np.array([15, 4, 50])
    )
    assert multipliers.tolist() == [1 << 30, 3 << 29, 1 << 30]
    assert shifts.tolist() == [31, 33, 40]
    assert (multipliers.dtype, shifts.dtype) == (np.int32, np.int8)
    tflite_multipliers, left = multiplier_to_tflite(multipliers, shifts)
    assert left.tolist() == [0, -2, -9]
    back = multiplier_from_tflite(tflite_multipliers, left)
    assert [array.tolist() for array in back] == [multipliers.tolist(), [31, 33, 40]]
    same, one = normalize_multiplier([1 << 30, 1 << 29], 40)
    assert (same.tolist(), one.tolist()) == ([1 << 30] * 2, [40, 41])
    empty = normalize_multiplier([], [])
    assert [array.shape for array in empty] == [(0,), (0,)]


def test_a_multiplier_of_0_is_tflites():
    assert multiplier_to_tflite(0, 31) == (0, 0)


@pytest.mark.parametrize(
    ("convert", "multiplier", "shift", "message"),
    [
        (
            normalize_multiplier,
            0,
            31,
            "expected a positive multiplier, found 0",
        ),
        (
            multiplier_from_tflite,
            [1 << 30, -5],
            [0, 0],
            "expected a positive multiplier, found -5",
        ),
        (
            normalize_multiplier,
            (1 << 31) + 1,
            31,
            "multiplier 2147483649 has more than 31 significant bits",
        ),
        (
            normalize_multiplier,
            3,
            62,
            "multiplier 3 with a right shift of 62 normalizes to '1610612736p-91': "
            "shift 91 is out of the range 2 to 62",
        ),
        (
            multiplier_from_tflite,
            1 << 30,
            30,
            "multiplier 1073741824 with a right shift of 1 normalizes to '1073741824p-1': "
            "shift 1 is out of the range 2 to 62",
        ),
        (
            multiplier_from_tflite,
            1 << 30,
            70,
            "multiplier 1073741824 with a right shift of -39 normalizes to "
            "'1073741824p39': shift -39 is out of the range 2 to 62",
        ),
        (
            normalize_multiplier,
            1 << 63,
            0,
            "multiplier 9223372036854775808 is not representable in i64",
        ),
        (
            normalize_multiplier,
            1,
            1 << 31,
            "shift 2147483648 is not representable in i32",
        ),
        (
            normalize_multiplier,
            1,
            -(1 << 31) - 1,
            "shift -2147483649 is not representable in i32",
        ),
        (
            normalize_multiplier,
            1,
            (1 << 31) - 1,
            "multiplier 1 with a right shift of 2147483647 normalizes to "
            "'1073741824p-2147483677': shift 2147483677 is out of the range 2 to 62",
        ),
        (
            multiplier_to_tflite,
            1 << 31,
            5,
            "multiplier 2147483648 is out of the range 0 ",
        ),
        (multiplier_to_tflite, 5, 1, "shift 1 is out of the range 2 to 62"),
        (
            normalize_multiplier,
            [1, 2, 3],
            [1, 2],
            "multipliers of shape (3,) and shifts of shape (2,) do not broadcast",
        ),
    ],
)
def test_values_that_are_wrong(convert: Any, multiplier: Any, shift: Any, message: str):
    with pytest.raises(ValueError, match=r"multiplier|shift") as failure:
        convert(multiplier, shift)
    assert str(failure.value).startswith(message)


def test_arguments_that_are_no_integers():
    wrong: Any = 0.5
    with pytest.raises(
        TypeError, match="expected integers as multipliers, found dtype float64"
    ):
        normalize_multiplier(wrong, 3)
    with pytest.raises(
        TypeError, match="expected integers as shifts, found dtype float64"
    ):
        multiplier_from_tflite(3, wrong)
