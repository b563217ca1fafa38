"""A call of compiled code on arrays that are known."""

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from xdsl_quant.numerics.arrays import Array

from . import runtime_library

_WORD = 8
"""Bytes of a pointer, a size and a stride."""


class BoundCall:
    """
    A call of a compiled function on certain arrays, which are checked already.

    [`CompiledFunction.bind`][xdsl_quant.execution.CompiledFunction.bind] makes it. Each
    call reads what is in the arguments by then, fills the same results again, and returns
    them. Threads must not call one at the same time.
    """

    def __init__(
        self,
        name: str,
        kernel: Callable[[int], None],
        owner: object,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
    ):
        """
        Args:
            name: what to call the function in an error message.
            kernel: compiled code, which takes the address of its arguments.
            owner: what has the memory that the code is in.
            inputs: contiguous and aligned arrays that fit the arguments.
            outputs: such arrays for the results, with memory of their own.
        """
        self._name = name
        self._kernel = kernel
        # As long as the call can be made, all this memory must be there.
        self._owner = owner
        self._arrays = (*inputs, *outputs)
        self._words = _packed_words([_descriptor(array) for array in self._arrays])
        self._address = ctypes.addressof(self._words)
        self._result = (
            tuple(outputs) if len(outputs) > 1 else outputs[0] if outputs else None
        )

    def __repr__(self) -> str:
        return f"<BoundCall {self._name}>"

    def __call__(self) -> Any:
        """
        Call the function; it returns an array, a tuple of arrays or `None`.

        Raises:
            ValueError: if sizes or values do not fit each other.
            RecursionError: if Python functions call compiled ones too deeply.
            Exception: whatever a Python function raises that the code calls.
        """
        runtime_library.begin(self._name)
        try:
            self._kernel(self._address)
        finally:
            # Also after an interruption, or the next call would fail.
            failure = runtime_library.end()
        if failure is None:
            return self._result
        if isinstance(failure, BaseException):
            raise failure
        raise ValueError(f"'{self._name}': {failure}")


def _descriptor(array: Array) -> Sequence[int]:
    """Return an array as compiled code knows it; it must be contiguous."""
    address = array.ctypes.data
    # What was allocated, where the aligned part of it starts, and an offset to that.
    return (address, address, 0, *_sizes_and_strides(array.shape))


@lru_cache(maxsize=1024)
def _sizes_and_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    stride = 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return (*shape, *reversed(strides))


def _packed_words(descriptors: Sequence[Sequence[int]]) -> ctypes.Array[ctypes.c_int64]:
    """
    What compiled code is called with, as one block of memory: the addresses of pointers,
    the pointers, and the descriptors that these point to.
    """
    count = len(descriptors)
    size = 2 * count + sum(map(len, descriptors))
    words = (ctypes.c_int64 * size)()
    address = ctypes.addressof(words)
    pointers = range(address + _WORD * count, address + _WORD * 2 * count, _WORD)
    contents = [*pointers]
    position = address + _WORD * 2 * count
    for descriptor in descriptors:
        contents.append(position)
        position += _WORD * len(descriptor)
    for descriptor in descriptors:
        contents += descriptor
    words[:] = contents
    return words
