"""The fixed-point arithmetic of the kernels, in exact integers."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.frontends.tflite.formulas.fixed_point import (
    Multiplier,
    exp_of_negative,
    inverse_square_root,
    log_of_at_least_one,
    quantized_multiplier,
    reciprocal_of_one_plus,
    rescale_wide,
    scaled_by_power,
)
from xdsl_quant.numerics.primitives import (
    doubling_high_product,
    half_sum,
    leading_zeros,
    rescaled,
    rounding_divide,
    saturated,
    wrapped,
)
from xdsl_quant.unsupported import Unsupported


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (0.0, (0, 0)),
        (1.0, (1 << 30, 1)),
        (0.75, (3 << 29, 0)),
        (1536.0, (3 << 29, 11)),
        # Half of the last bit is rounded up, less than that down.
        (0.5 + 2.0**-32, ((1 << 30) + 1, 0)),
        (0.5 + 2.0**-33, (1 << 30, 0)),
        # The nearest multiplier has another exponent.
        (1 - 2.0**-33, (1 << 30, 1)),
        (1 - 2.0**-31, ((1 << 31) - 1, 0)),
        (2.0**-32, (1 << 30, -31)),
        (2.0**-32 * (1 - 2.0**-33), (1 << 30, -31)),
        (2.0**-32 * (1 - 2.0**-31), (0, 0)),
        (2.0**-33, (0, 0)),
        (2.0**-40, (0, 0)),
    ],
)
def test_quantized_multiplier(real: float, expected: tuple[int, int]):
    value, exponent = quantized_multiplier(real)
    assert (int(value), int(exponent)) == expected


def test_multipliers_of_an_array():
    value, exponent = quantized_multiplier([1 - 2.0**-33, 2.0**-33, 0.1, 3.0])
    assert value.tolist() == [1 << 30, 0, 1717986918, 3 << 29]
    assert exponent.tolist() == [1, 0, -3, 2]


def test_wrapped():
    values = ints(2**31 - 1, 2**31, 2**32, -(2**31), -(2**31) - 1, 3 * 2**31 + 5)
    assert wrapped(values).tolist() == [
        2**31 - 1,
        -(2**31),
        0,
        -(2**31),
        2**31 - 1,
        -(2**31) + 5,
    ]
    assert wrapped(ints(127, 128, 255, 256, -129), 8).tolist() == [
        127,
        -128,
        -1,
        0,
        127,
    ]


def test_saturated():
    values = ints(2**31 - 1, 2**31, -(2**31), -(2**31) - 1)
    assert saturated(values).tolist() == [2**31 - 1, 2**31 - 1, -(2**31), -(2**31)]
    assert saturated(ints(40000, 32767, -32768, -40000), 16).tolist() == [
        32767,
        32767,
        -32768,
        -32768,
    ]


def test_doubling_high_product():
    most, least = 2**31 - 1, -(2**31)
    assert int(doubling_high_product(ints(least), ints(least))[0]) == most
    assert doubling_high_product(ints(most, 1, 1, -1, -1, -3), 1 << 30).tolist() == [
        1 << 30,
        1,
        1,
        0,
        0,
        -1,
    ]


def _half_away(value: int, bits: int) -> int:
    return int(math.copysign((2 * abs(value) + 2**bits) // 2 ** (bits + 1), value))


def test_rounding_divide():
    values = ints(*range(-40, 41), 2**31 - 1, -(2**31))
    for bits in range(1, 6):
        expected = [_half_away(int(value), bits) for value in values]
        assert rounding_divide(values, bits).tolist() == expected
        assert rounding_divide(values, np.full_like(values, bits)).tolist() == expected
    for none in (0, np.int64(0), np.zeros_like(values)):
        assert rounding_divide(values, none).tolist() == values.tolist()


def test_scaled_by_power():
    values = ints(1 << 30, -(1 << 30), -(1 << 29) - 1, 5, -5)
    assert scaled_by_power(values, 0).tolist() == values.tolist()
    assert scaled_by_power(values, 1).tolist() == [
        2**31 - 1,
        -(2**31),
        -(1 << 30) - 2,
        10,
        -10,
    ]
    assert scaled_by_power(values, -1).tolist() == [
        1 << 29,
        -(1 << 29),
        -(1 << 28) - 1,
        3,
        -3,
    ]


def test_half_sum():
    assert half_sum(ints(1, -1, 3, -4), ints(2, -2, 1, 1)).tolist() == [2, -2, 2, -2]


def test_rescaled_rounds_twice():
    # 3/8 of 5 is 1.875; of 3 halves, half up; and half away from zero at last.
    assert rescaled(ints(5, 3, -3, 4), Multiplier(3 << 29, -1)).tolist() == [
        2,
        1,
        -1,
        2,
    ]
    # The left shift is cut to 32 bits.
    assert rescaled(ints(1 << 30), Multiplier(1 << 30, 2)).tolist() == [0]
    assert rescaled(ints(3), Multiplier(1 << 30, 3)).tolist() == [12]


def test_rescaled_wide_has_a_multiplier_of_16_bits():
    values = ints(1 << 33, 3, -3)
    assert rescale_wide(values, Multiplier(1 << 30, -3)).tolist() == [1 << 29, 0, 0]
    # A multiplier that does not fit is the largest one.
    for value in (0x7FFF0000, 0x7FFF8000, 2**31 - 1):
        multiplier = Multiplier(value, 0)
        assert rescale_wide(ints(1 << 15), multiplier).tolist() == [0x7FFF]
    assert rescale_wide(ints(1 << 15), Multiplier(0x7FFEFFFF, 0)).tolist() == [0x7FFF]
    assert rescale_wide(ints(1 << 15), Multiplier(0x7FFE7FFF, 0)).tolist() == [0x7FFE]
    # Half is rounded up, and the result cut.
    assert rescale_wide(ints(1, -1, 1 << 32), Multiplier(1 << 30, 0)).tolist() == [
        1,
        0,
        -(1 << 31),
    ]


@pytest.mark.parametrize("exponent", [15, np.array([3, 15, -2])])
def test_rescaled_wide_has_a_rounding_shift(exponent: Any):
    assert rescale_wide(ints(3), Multiplier(1 << 30, 14)).tolist() == [3 << 13]
    message = "^has a multiplier of exponent 15, expected less than 15$"
    with pytest.raises(Unsupported, match=message):
        rescale_wide(ints(3), Multiplier(1 << 30, exponent))


@pytest.mark.parametrize("real", [np.inf, np.nan, np.array([1.0, -np.inf])])
def test_multipliers_are_finite(real: Any):
    message = "^has a ratio of scales that is not finite$"
    with pytest.raises(Unsupported, match=message):
        quantized_multiplier(real)


def test_leading_zeros():
    values = ints(0, 1, 2, 3, 4, 2**31 - 1, 2**31, 2**32 - 1)
    assert leading_zeros(values).tolist() == [32, 31, 30, 30, 29, 1, 0, 0]


# Functions: how close they are, and their exact integers

_NEGATIVE = -np.arange(0, 2**31, 104729, dtype=np.int64)
_UNIT = np.arange(0, 2**31, 104729, dtype=np.int64)
_FROM_ONE = np.concatenate(
    [
        np.arange(1 << 19, 1 << 20, 53, dtype=np.int64),
        np.arange(1 << 20, 2**31, 208457, dtype=np.int64),
    ]
)
_POSITIVE = np.concatenate([np.arange(3000), _UNIT[1:], 2**31 - 1 - np.arange(100)])


def checksum(values: Any) -> int:
    return zlib.crc32(np.asarray(values, "<i8").tobytes())


def exponential(x: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.exp(x / 2**26) * 2**31


def reciprocal(x: NDArray[np.int64]) -> NDArray[np.float64]:
    return 2**31 / (1 + x / 2**31)


def logarithm(x: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.log(x / 2**19) * 2**26


@pytest.mark.parametrize(
    ("function", "values", "real", "tolerance", "expected"),
    [
        (exp_of_negative, _NEGATIVE, exponential, 500, 1854130712),
        (reciprocal_of_one_plus, _UNIT, reciprocal, 7, 1379690554),
        (log_of_at_least_one, _FROM_ONE, logarithm, 3, 1666204699),
    ],
)
def test_functions(
    function: Callable[[Any], Any],
    values: NDArray[np.int64],
    real: Callable[[Any], Any],
    tolerance: float,
    expected: int,
):
    """The integers are those with which the kernels had the results of the runtime."""
    results = function(values)
    assert np.abs(results - real(values)).max() < tolerance
    assert checksum(results) == expected


def test_inverse_square_root():
    value, exponent = inverse_square_root(_POSITIVE, -1)
    assert (checksum(value), checksum(exponent)) == (2475290023, 882555129)


def test_inverse_square_root_is_close():
    value, exponent = inverse_square_root(_POSITIVE[2:], -1)
    roots = value.astype(np.float64) * 2.0 ** (exponent.astype(np.float64) - 31)
    np.testing.assert_allclose(roots, 1 / np.sqrt(_POSITIVE[2:]), rtol=2e-6)


def test_inverse_square_root_of_one_and_of_nothing():
    value, exponent = inverse_square_root(ints(0, 1, 2, 4), -1)
    assert value.tolist()[:2] == [2**31 - 1] * 2
    assert exponent.tolist()[:2] == [0, 0]
    assert inverse_square_root(ints(1 << 20), 1)[1].tolist() == [
        -e for e in inverse_square_root(ints(1 << 20), -1)[1].tolist()
    ]


def test_inverse_square_root_of_a_large_number():
    """From 2^29, numbers are divided by 4 before."""
    value, exponent = inverse_square_root(ints((1 << 29) - 1, 1 << 29), -1)
    assert value.tolist() == [189812531, 379624593]
    assert exponent.tolist() == [-11, -12]


def test_inverse_square_root_of_a_sum_that_was_wrapped():
    value, exponent = inverse_square_root(ints(-5, -(2**30)), -1)
    assert value.tolist() == [2**31 - 1] * 2
    assert exponent.tolist() == [0, 0]
