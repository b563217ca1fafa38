"""Calls of compiled code with arrays of static shapes, without conversions."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.numerics.arrays import Array

from .argument_block import ArgumentBlock, address_of
from .bound_call import run_kernel
from .entry_point import Boundary


class StaticCalls:
    """
    Calls of a function whose arguments and results have static shapes. Thread-safe: each
    call takes a block of its own, and leaves it for later calls.
    """

    def __init__(
        self,
        name: str,
        kernel: Callable[[int], None],
        arguments: Sequence[Boundary],
        results: Sequence[Boundary],
    ):
        """
        Prepare calls of compiled code; see `run_kernel` for `name` and `kernel`. The
        shapes must be static, and all values of the dtypes of arguments valid.
        """
        self._name = name
        self._kernel = kernel
        self._arguments = [(b.dtype, b.shape) for b in arguments]
        self._results = [(b.shape, b.dtype) for b in results]
        self._shapes = [boundary.shape for boundary in (*arguments, *results)]
        self._blocks: list[ArgumentBlock] = []

    def __call__(self, arguments: Sequence[ArrayLike]) -> Sequence[Array] | None:
        """
        Call the function and return new arrays. Return `None` without a call if an
        argument is not an array, or needs a conversion or a copy.

        Raises:
            ValueError: if a run-time check fails.
            Exception: any exception of a Python function that the code calls.
        """
        if len(arguments) != len(self._arguments):
            return None
        addresses: list[int] = []
        for value, (dtype, shape) in zip(arguments, self._arguments, strict=False):
            if (
                type(value) is not np.ndarray
                or (value.dtype is not dtype and value.dtype != dtype)
                or value.shape != shape
                or (address := address_of(value)) is None
            ):
                return None
            addresses.append(address)
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        addresses += [cast(int, address_of(array)) for array in results]
        # Other threads may take the last block.
        try:
            block = self._blocks.pop()
        except IndexError:
            block = ArgumentBlock(self._shapes)
        block.fill(addresses)
        try:
            run_kernel(self._name, self._kernel, block.address)
        finally:
            self._blocks.append(block)
        return results
