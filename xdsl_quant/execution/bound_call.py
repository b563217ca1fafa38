"""Calls of compiled code that are bound to fixed arrays."""

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from xdsl_quant.numerics.arrays import Array

from . import runtime_library

_WORD = 8
"""Bytes of a pointer, a size or a stride."""


class BoundCall:
    """
    Call of a compiled function that is bound to validated arrays.

    Created by [`CompiledFunction.bind`][xdsl_quant.execution.CompiledFunction.bind].
    Each call reads the current contents of the arguments, overwrites the same result
    arrays and returns them. Not thread-safe: do not call one object from several
    threads at the same time.
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
            name: function name for error messages.
            kernel: compiled code; takes the address of its packed arguments.
            owner: object that owns the memory of the code.
            inputs: contiguous and aligned arrays that match the arguments.
            outputs: contiguous and aligned arrays for the results, without overlaps.
        """
        self._name = name
        self._kernel = kernel
        # Keep the code and the arrays alive for the lifetime of the call.
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
        Call the function and return an array, a tuple of arrays or `None`.

        Raises:
            ValueError: if a run-time check fails, e.g. of sizes or of a divisor.
            RecursionError: if compiled calls nest too deeply via Python functions.
            Exception: any exception of a Python function that the code calls.
        """
        runtime_library.begin_call(self._name)
        try:
            self._kernel(self._address)
        finally:
            # End the call after an interruption too, or the next call would fail.
            failure = runtime_library.end_call()
        if failure is None:
            return self._result
        if isinstance(failure, BaseException):
            raise failure
        raise ValueError(f"'{self._name}': {failure}")


def _descriptor(array: Array) -> Sequence[int]:
    """Return the memref descriptor of a contiguous array, as 64-bit words."""
    address = array.ctypes.data
    # Allocated pointer, aligned pointer, offset.
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
    Return a memory block with the packed arguments of compiled code: the address of
    each pointer, then the pointer to each memref descriptor, then the descriptors.
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
