"""How compiled code calls functions of Python: see `xdsl_quant.runtime.host_functions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdsl_quant.runtime.host_functions import EndsFunction, HostFunctions

from .boundary import Boundary
from .runtime_library import array_at, callback, guarded
from .scheduling.reduce_min_max import have_ends


@dataclass(frozen=True)
class HostDeclaration:
    """A function without a body."""

    name: str

    arguments: Sequence[Boundary]
    """Tensors that are in memory what they are as arrays."""


@dataclass(frozen=True)
class HostCalls:
    """What compiled code calls."""

    callbacks: Mapping[str, object]
    """Functions as ctypes has them, by symbols. They must stay alive."""

    ends_functions: Mapping[str, EndsFunction]
    """
    Functions that are not called with their argument, as the code finds the ends of its
    range; by their names in the module.
    """

    @staticmethod
    def of(
        declarations: Sequence[HostDeclaration], functions: HostFunctions
    ) -> HostCalls:
        """
        Args:
            declarations: the functions as the module declares them.
            functions: the functions.
        """
        callbacks: dict[str, object] = {}
        ends_functions: dict[str, EndsFunction] = {}
        for declaration in declarations:
            arguments, function = declaration.arguments, functions[declaration.name]
            if isinstance(function, EndsFunction) and have_ends(
                arguments, function.axis
            ):
                ends_functions[declaration.name] = function
            else:
                kinds = [(len(a.shape), a.dtype) for a in arguments]
                symbol = f"_mlir_ciface_{declaration.name}"
                callbacks[symbol] = _callback(kinds, function)
        return HostCalls(callbacks, ends_functions)


def _callback(
    kinds: Sequence[tuple[int, np.dtype[Any]]], function: Callable[..., object]
) -> object:
    """
    What is called with the addresses of the descriptors of memrefs.

    Args:
        kinds: the rank and the dtype of each argument.
        function: takes the arrays.
    """

    def called(*addresses: int) -> None:
        guarded(
            lambda: function(
                *(
                    array_at(address, rank, dtype)
                    for address, (rank, dtype) in zip(addresses, kinds, strict=True)
                )
            )
        )

    return callback(called, len(kinds))
