"""How compiled code calls Python functions: see `xdsl_quant.runtime.host_functions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdsl_quant.runtime.host_functions import HostFunctions

from .boundary import Boundary
from .runtime_library import array_at, callback, guarded


@dataclass(frozen=True)
class HostDeclaration:
    """A function without a body."""

    name: str

    arguments: Sequence[Boundary]
    """Tensors that are in memory what they are as arrays."""


@dataclass(frozen=True)
class HostCalls:
    """What compiled code calls."""

    functions: HostFunctions
    """Python functions by their names in the module."""

    callbacks: Mapping[str, object]
    """The functions as ctypes has them, by symbols. They must stay alive."""

    @staticmethod
    def of(
        declarations: Sequence[HostDeclaration], functions: HostFunctions
    ) -> HostCalls:
        """
        Args:
            declarations: the functions as the module declares them.
            functions: the functions.
        """
        callbacks = {
            f"_mlir_ciface_{declaration.name}": _callback(
                [(len(a.shape), a.dtype) for a in declaration.arguments],
                functions[declaration.name],
            )
            for declaration in declarations
        }
        return HostCalls(functions, callbacks)


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
