"""Memory blocks with the packed arguments of compiled code."""

import ctypes
from collections.abc import Callable, Sequence
from typing import cast

from xdsl_quant.numerics.arrays import Array

_WORD = 8
"""Bytes of a pointer, a size or a stride."""


_address = ctypes.addressof
# NumPy declares no buffers before Python 3.12.
_buffer = cast(Callable[[Array], ctypes.c_char], ctypes.c_char.from_buffer)


class ArgumentBlock:
    """
    Packed arguments: the address of each pointer, then the pointer to each memref
    descriptor, then the descriptors (allocated pointer, aligned pointer, offset, sizes and
    strides). Only the pointers to the elements change when other arrays are passed.
    """

    address: int

    def __init__(self, shapes: Sequence[Sequence[int]]):
        """Lay out descriptors of arrays with these static shapes."""
        count = len(shapes)
        size = 2 * count + sum(3 + 2 * len(shape) for shape in shapes)
        block = (ctypes.c_int64 * size)()
        self.address = ctypes.addressof(block)
        # Stores to a view are faster than stores to a ctypes array.
        self._words = memoryview(block).cast("B").cast("q")
        self._positions: list[int] = []
        position = 2 * count
        for index, shape in enumerate(shapes):
            descriptor = (0, 0, 0, *shape, *_strides(shape))
            self._words[index] = self.address + _WORD * (count + index)
            self._words[count + index] = self.address + _WORD * position
            for word in descriptor:
                self._words[position] = word
                position += 1
            self._positions.append(position - len(descriptor))

    def fill(self, addresses: Sequence[int]) -> None:
        """Store the addresses of the elements of contiguous arrays."""
        words = self._words
        for position, address in zip(self._positions, addresses, strict=True):
            words[position] = words[position + 1] = address


def address_of(array: Array) -> int | None:
    """
    Return the address of the elements of a contiguous and aligned array; `None` for other
    arrays.
    """
    flags = array.flags
    if not flags.aligned:
        return None
    # A third of the time of `array.ctypes.data`, which also works for arrays that are
    # read-only or empty, and for dtypes that buffers do not support.
    try:
        return _address(_buffer(array))
    except (TypeError, ValueError):
        return array.ctypes.data if flags.c_contiguous else None


def _strides(shape: Sequence[int]) -> Sequence[int]:
    strides: list[int] = []
    stride = 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return strides[::-1]
