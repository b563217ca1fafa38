"""
Python functions that a module calls to observe values.

The module declares the function, e.g. `func.func private @see(tensor<?xf32>)`, and the
caller that runs the module provides the Python code. The function has no results. Its
array arguments are read-only and may be memory of compiled code: copy them to keep them.
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
"""Functions by their name in the module. Their return values are ignored."""


@dataclass(frozen=True)
class MinMaxFunction:
    """
    A function of one float tensor that needs only the min/max of its values.

    Compiled code computes min/max in the loops that compute the values, which is much
    faster than a call per tensor. At the end of a block of ops, it calls each
    `reduce_min_max` once, with all tensors of the block that have this function.

    `function` is called instead by interpreters and by code compiled with `schedule=False`.
    It is also called for tensors without the dimension `axis`, with a size of 0 or a
    dynamic size along `axis`, or with elements other than `f16`, `bf16`, `f32` or `f64`.
    """

    function: Callable[[Array], object]
    """Function that is called with all values of the tensor."""

    reduce_min_max: Callable[[NDArray[np.intp], NDArray[np.float64]], object]
    """
    Function that is called with the positions of tensors, of shape `(n,)`, and their
    min/max, of shape `(2, n)`: minima first, then maxima; `inf` and `-inf` for an empty
    tensor. The sign of a zero is unspecified.

    If a value is NaN or infinite, min and max are NaN. Exception: if the tensor is an
    operand of a sum or product in the same call, its min and max are unspecified; those of
    the result are NaN.
    """

    position: int = 0
    """Position of the tensor, or of index 0 along `axis`, in `reduce_min_max` calls."""

    axis: int | None = None
    """Dimension with one min/max per index; the indices have consecutive positions."""

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


@dataclass(frozen=True)
class SelectiveFunction:
    """A function whose calls are skipped while `is_needed` returns False."""

    function: Callable[..., object]

    is_needed: Callable[[], bool]

    def __call__(self, *values: Array) -> object:
        return self.function(*values) if self.is_needed() else None


def checked_host_functions(host_functions: HostFunctions | None) -> HostFunctions:
    """
    Check host functions and return them; for `None`, return an empty mapping.

    Raises:
        TypeError: if `host_functions` is not a mapping from names to callables.
    """
    if host_functions is None:
        return {}
    if not isinstance(cast(object, host_functions), Mapping):
        raise TypeError(
            "expected a dict of host functions by name, found "
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
    Check that a module declares all host functions.

    Raises:
        ValueError: if a declaration is missing, or has results or arguments other than
            ranked tensors.
    """
    functions = functions_by_name(module)
    for name in names:
        if (function := functions.get(name)) is None:
            raise ValueError(
                f"unknown host function '{name}'; declare it in the module"
            )
        type_, mistake = function.function_type, None
        if not function.is_declaration:
            mistake = "a body; a host function must be a declaration"
        elif type_.outputs.data:
            mistake = "results; a host function has none"
        elif not all(isinstance(t, TensorType) for t in type_.inputs):
            mistake = (
                "arguments other than ranked tensors; a host function takes only these"
            )
        if mistake is not None:
            raise ValueError(f"function '{name}' has {mistake}")
