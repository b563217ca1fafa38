"""Rounding is exact at the numbers next to the middle of two integers."""

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdsl_quant.numerics.arithmetic import ROUNDING_MODES, Rounder
from xdsl_quant.rounding_mode import RoundingMode

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]


def _rounded(value: float, mode: RoundingMode) -> int:
    """Rounded with exact numbers."""
    exact = Fraction(value)
    magnitude = floor(abs(exact))
    rest = abs(exact) - magnitude
    if mode == "nearest-away" and rest >= Fraction(1, 2):
        magnitude += 1
    if mode == "nearest-even" and (
        rest > Fraction(1, 2) or (rest == Fraction(1, 2) and magnitude % 2)
    ):
        magnitude += 1
    return magnitude if exact >= 0 else -magnitude


def _check(values: np.ndarray[Any, Any], mode: RoundingMode) -> None:
    expected = [_rounded(value, mode) for value in values.tolist()]
    rounder = Rounder(mode, values.dtype, values.size)
    rounder(values)
    assert values.astype(np.int64).tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_numbers_next_to_a_middle(mode: RoundingMode, dtype: np.dtype[Any]):
    precision = np.finfo(dtype).nmant + 1
    exponents = range(precision + 2)
    integers = [0, *(2**e + i for e in exponents for i in (-1, 0, 1))]
    middles = np.array([i + j / 2 for i in integers for j in (0, 1)], dtype)
    below, above = (np.nextafter(middles, dtype.type(end)) for end in (0, np.inf))
    positive = np.concatenate([below, middles, above])
    _check(np.concatenate([positive, -positive]), mode)


@given(
    st.lists(st.floats(-(2.0**40), 2.0**40), min_size=1),
    st.sampled_from(ROUNDING_MODES),
    st.sampled_from(DTYPES),
)
def test_all_numbers(values: list[float], mode: RoundingMode, dtype: np.dtype[Any]):
    _check(np.array(values, dtype), mode)
