"""How compiled code calls Python functions: see `xdsl_quant.runtime.host_functions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl_quant.runtime.host_functions import HostFunctions

from .boundary import Boundary
from .runtime_library import array_at, callback, guarded


def host_callbacks(
    declarations: Mapping[str, Sequence[Boundary]], functions: HostFunctions
) -> dict[str, object]:
    """
    Python functions as compiled code calls them: ctypes callbacks, by symbols, which must
    stay alive.

    Args:
        declarations: the arguments of each function, by its name in the module.
        functions: the functions.
    """
    return {
        f"_mlir_ciface_{name}": _callback(arguments, functions[name])
        for name, arguments in declarations.items()
    }


def _callback(arguments: Sequence[Boundary], function: Callable[..., object]) -> object:
    """
    What is called with the addresses of the descriptors of memrefs.

    Args:
        arguments: tensors that are in memory what they are as arrays.
        function: takes the arrays.
    """

    def called(*addresses: int) -> None:
        guarded(
            lambda: function(
                *(
                    array_at(address, len(argument.shape), argument.dtype)
                    for address, argument in zip(addresses, arguments, strict=True)
                )
            )
        )

    return callback(called, len(arguments))
