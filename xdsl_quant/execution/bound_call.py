"""Calls of compiled code that are bound to fixed arrays."""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl_quant.numerics.arrays import Array

from . import runtime_library
from .argument_block import ArgumentBlock


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
        self._block = ArgumentBlock([array.shape for array in self._arrays])
        self._block.fill([array.ctypes.data for array in self._arrays])
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
        run_kernel(self._name, self._kernel, self._block.address)
        return self._result


def run_kernel(name: str, kernel: Callable[[int], None], address: int) -> None:
    """
    Run compiled code.

    Args:
        name: function name for error messages.
        kernel: the code; takes the address of its packed arguments.
        address: the address of an `ArgumentBlock`.

    Raises:
        ValueError: if a run-time check fails.
        RecursionError: if compiled calls nest too deeply via Python functions.
        Exception: any exception of a Python function that the code calls.
    """
    runtime_library.begin_call(name)
    try:
        kernel(address)
    finally:
        # End the call after an interruption too, or the next call would fail.
        failure = runtime_library.end_call()
    if failure is None:
        return
    if isinstance(failure, BaseException):
        raise failure
    raise ValueError(f"'{name}': {failure}")
