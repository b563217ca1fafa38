"""What compiled code calls back: functions that MLIR has in a library of its own."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WORD = 8
"""Bytes of a pointer, a size and a stride."""


class _MemRef:
    """An array in memory, as NumPy wants it described."""

    def __init__(self, item_size: int, unranked_memref: int):
        # { rank, pointer to { allocated, aligned, offset, sizes, strides } }
        rank, descriptor = _words(unranked_memref, 2)
        _, aligned, offset = _words(descriptor, 3)
        sizes = _words(descriptor + 3 * _WORD, rank)
        strides = _words(descriptor + (3 + rank) * _WORD, rank)
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{item_size}",
            "data": (aligned + offset * item_size, False),
            "shape": sizes,
            "strides": tuple(stride * item_size for stride in strides),
        }

    def array(self) -> NDArray[Any]:
        return np.asarray(self)


def _words(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address))


_VERIFICATION = "ERROR: Runtime op verification failed"

_failure = threading.local()


def _memref_copy(item_size: int, source: int, target: int) -> None:
    # Python would print what is raised here, and go on.
    try:
        _MemRef(item_size, target).array()[...] = _MemRef(item_size, source).array()
    except Exception as e:
        _failure.message = f"sizes or indices do not fit each other: {e}"


def _fail(message: bytes) -> None:
    text = message.decode()
    if text.startswith(_VERIFICATION):
        # Of what MLIR says, the second line is the reason.
        reason = text.splitlines()[1].removeprefix("^ ")
        text = f"sizes or indices do not fit each other: {reason}"
    _failure.message = text


def failure() -> str | None:
    """Why the last call of compiled code in this thread was given up; asked only once."""
    message = getattr(_failure, "message", None)
    _failure.message = None
    return message


FAIL = "xdsl_quant_fail"
"""The function that takes the message of an assertion that does not hold."""

_CALLBACKS = {
    "memrefCopy": ctypes.CFUNCTYPE(
        None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    )(_memref_copy),
    FAIL: ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_fail),
}


def register(engine: Any) -> None:
    """Let the code of an `ExecutionEngine` call the functions by their names."""
    for name, callback in _CALLBACKS.items():
        pointer = ctypes.cast(callback, ctypes.c_void_p)
        engine.raw_register_runtime(name, pointer)
