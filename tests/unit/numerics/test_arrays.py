"""Integers of any width in arrays."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import (
    array_of_bytes,
    bytes_of,
    counts_below,
    numbers,
    sign_extended,
)


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


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_arrays_of_bytes(shape: tuple[int, ...]):
    values = np.full(shape, 0x0102, "<i2")
    array = array_of_bytes(
        shape, np.dtype("<i2"), lambda memory: np.copyto(memory, values)
    )
    assert array.dtype == np.int16
    assert array.shape == shape
    assert array.tolist() == values.tolist()
    assert not array.flags.writeable
    data = bytes_of(array)
    assert data == values.tobytes()
    # What has the same bytes is not copied.
    assert bytes_of(array.reshape(-1).view(np.uint8)) is data or not data


def test_bytes_of_other_arrays():
    array = np.frombuffer(bytes(range(6)), np.uint8)
    for other in (array[::-1], array[1:], array.reshape(2, 3).T, array.copy()):
        assert bytes_of(other) == other.tobytes()


@pytest.mark.parametrize("count", [0, 1, 15, 127, 128, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counts_below(count: int, dtype: type[np.floating[Any]]):
    """In more than one piece, with numbers that equal a limit and their neighbours."""
    random = np.random.default_rng(0)
    limits = np.sort(random.normal(size=count)).astype(dtype)
    infinity = dtype(np.inf)
    numbers = np.concatenate(
        [
            random.normal(size=100_000).astype(dtype),
            limits,
            np.nextafter(limits, infinity),
            np.nextafter(limits, -infinity),
            np.array([infinity, -infinity, 0.0, -0.0], dtype),
        ]
    )
    found = counts_below(limits, numbers)
    assert (found.dtype == np.uint8) == (count < 128)
    np.testing.assert_array_equal(found, np.searchsorted(limits, numbers))
    np.testing.assert_array_equal(
        counts_below(limits, numbers[:6].reshape(2, 3)), found[:6].reshape(2, 3)
    )
