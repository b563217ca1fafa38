"""How compiled code calls functions of Python: see `xdsl_quant.host_functions`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdsl_quant.host_functions import ExtremesFunction, HostFunctions

from .boundary import Boundary
from .extremes import extremes_along, extremes_of, have_extremes
from .runtime_library import array_at, guarded, number_at


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

    axes: Mapping[str, int | None]
    """
    The functions that are called with the extremes of their argument, and the axis along
    which there are some for each index.
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
        axes: dict[str, int | None] = {}
        for declaration in declarations:
            arguments, function = declaration.arguments, functions[declaration.name]
            symbol = f"_mlir_ciface_{declaration.name}"
            if isinstance(function, ExtremesFunction) and have_extremes(
                arguments, function.axis
            ):
                axes[declaration.name] = function.axis
                callbacks[symbol] = _extremes_callback(arguments[0].dtype, function)
            else:
                kinds = [(len(a.shape), a.dtype) for a in arguments]
                callbacks[symbol] = _callback(kinds, function)
        return HostCalls(callbacks, axes)


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

    pointers = [ctypes.c_void_p] * len(kinds)
    return ctypes.CFUNCTYPE(None, *pointers)(called)


def _extremes_callback(dtype: np.dtype[Any], function: ExtremesFunction) -> object:
    integer = np.dtype(f"i{dtype.itemsize}")
    axis = function.axis
    if axis is not None:
        return _callback(
            [(1, integer)] * 3,
            lambda *bits: function(extremes_along(bits, dtype, axis)),
        )

    def called(*addresses: int) -> None:
        guarded(
            lambda: function(
                extremes_of([number_at(a, integer) for a in addresses], dtype)
            )
        )

    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(called)
