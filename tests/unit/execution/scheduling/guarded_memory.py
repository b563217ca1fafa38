"""Memory that may not be read or written beyond an array."""

import ctypes
import mmap
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray


@contextmanager
def before_no_page(array: NDArray[np.int8]) -> Generator[NDArray[np.int8]]:
    """
    A copy of an array whose last byte is the last one of a page, behind which nothing may
    be read.
    """
    size, count = mmap.PAGESIZE, array.size
    assert count <= size
    pages = mmap.mmap(-1, 2 * size)
    behind = ctypes.addressof(ctypes.c_char.from_buffer(pages, size))
    protect = ctypes.CDLL(None).mprotect
    assert protect(ctypes.c_void_p(behind), size, 0) == 0
    copy = np.frombuffer(pages, np.int8, count, size - count).reshape(array.shape)
    ctypes.memmove(behind - count, array.tobytes(), count)
    try:
        yield copy
    finally:
        assert protect(ctypes.c_void_p(behind), size, 3) == 0
