"""
Python functions that a module calls.

The module declares such a function, `func.func private @see(tensor<?xf32>)`, and whoever
runs the module says what it is. It has no results: it is there to look at values. Its
arrays are read-only and may be the memory of compiled code: what is to be kept must be
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ModuleOp, TensorType

from xdsl_quant.numerics.arrays import Array

from .entry_function import functions_by_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HostFunctions = Mapping[str, Callable[..., object]]
"""The functions by their names in the module. What they return is not looked at."""


@dataclass(frozen=True)
class MinMaxFunction:
    """
    A function of one tensor of floats that needs no more than the min/max of its values.

    Compiled code finds them in the loops that compute the values, which is much faster,
    and calls another function with the min/max of many tensors at once: of all that have
    the same function and are in the same block, when the end of that is reached.

    It calls the function itself without scheduling, or if the tensor has no such dimension,
    or one of size 0 or of dynamic size, or elements other than `f16`, `bf16`, `f32` and
    `f64`. So does an interpreter.
    """

    function: Callable[[Array], object]
    """Is called with all values of the tensor."""

    reduce_min_max: Callable[[NDArray[np.intp], NDArray[np.float64]], object]
    """
    Is called with positions, of shape `(n,)`, and the min/max for each of them, of shape
    `(2, n)`: first the smallest values and then the largest. Without any value they are
    `inf` and `-inf`. A zero has any sign.

    If a value is NaN or infinite, both are NaN. Only where the tensor is a term or a factor
    of another one in the same call they may be anything, as those of that one are NaN.
    """

    position: int = 0
    """The position of the min/max; with an axis, that of index 0 of it."""

    axis: int | None = None
    """A dimension for each index of which there are min/max, at successive positions."""

    def __post_init__(self):
        for name in ("function", "reduce_min_max"):
            if not callable(value := getattr(self, name)):
                raise TypeError(
                    f"{name} must be a function, not {type(value).__name__}"
                )
        for name, types, needed in (
            ("position", int, "an integer"),
            ("axis", int | None, "an integer or None"),
        ):
            if not isinstance(value := getattr(self, name), types):
                raise TypeError(f"{name} must be {needed}, not {type(value).__name__}")

    def __call__(self, values: Array) -> object:
        return self.function(values)


def checked_host_functions(host_functions: HostFunctions | None) -> HostFunctions:
    """
    Functions by name, none for `None`.

    Raises:
        TypeError: if they are something else.
    """
    if host_functions is None:
        return {}
    if not isinstance(cast(object, host_functions), Mapping):
        raise TypeError(
            "host functions are a dict of functions by their names, not "
            f"{type(host_functions).__name__}"
        )
    for name, function in host_functions.items():
        if not callable(cast(object, function)):
            raise TypeError(
                f"host function '{name}' is of type {type(function).__name__}, which "
                "cannot be called"
            )
    return host_functions


def check_host_functions(module: ModuleOp, names: Iterable[str]) -> None:
    """
    Raises:
        ValueError: if a module does not declare one of the functions, or declares it with
            results or with arguments that are no tensors.
    """
    functions = functions_by_name(module)
    for name in names:
        if (function := functions.get(name)) is None:
            raise ValueError(
                f"unknown host function '{name}'; declare it in the module"
            )
        type_, mistake = function.function_type, None
        if not function.is_declaration:
            mistake = "a body, so Python cannot define it"
        elif type_.outputs.data:
            mistake = "results, but one that Python defines has none"
        elif not all(isinstance(t, TensorType) for t in type_.inputs):
            mistake = (
                "arguments other than ranked tensors, but one that Python defines has "
                "only these"
            )
        if mistake is not None:
            raise ValueError(f"function '{name}' has {mistake}")
