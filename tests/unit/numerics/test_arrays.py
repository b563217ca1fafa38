"""Integers of any width in arrays."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import numbers, sign_extended


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "u4"])
@pytest.mark.parametrize("width", [1, 3, 4, 7, 8])
def test_sign_extended(dtype: str, width: int):
    lowest, count = -(1 << (width - 1)), 1 << width
    expected = np.arange(lowest, lowest + count)
    for above in (0, -1):
        # Bits above the width do not count.
        bits = expected & (count - 1) | (above << width)
        stored: NDArray[Any] = bits.astype(dtype)
        result = sign_extended(stored, width)
        assert result.dtype == np.dtype(f"i{stored.itemsize}")
        assert result.tolist() == expected.tolist()


def test_empty_lists_are_of_integers():
    assert numbers([], "values", "iu").dtype == np.int64
    assert numbers([], "values", "iuf").dtype == np.int64
