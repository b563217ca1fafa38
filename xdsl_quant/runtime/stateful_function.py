"""State that is carried from one call of a function to the next, whatever runs it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import dense_elements, numpy_dtype

from .arrays import check_argument
from .entry_function import check_argument_count, entry_function
from .loading import (
    apply_passes,
    as_module,
    is_model_file,
    multiverse,
    parse_passes,
    read_model_file,
)
from .state_arguments import StateArgument, state_arguments

_VARIABLES_TO_ARGUMENTS = "tfl-variables-to-arguments"

Runner = Callable[[ModuleOp, str], Callable[..., Any]]
"""
Returns a function of a module, given its name, as something that is called with arrays and
returns an array, or a tuple of them: `xdsl_quant.execution.compile`, for example.
"""


class StatefulFunction:
    """
    A function of a module that is called again and again, and whose state is arguments and
    results: `tfl-variables-to-arguments` makes them of variables. Any runner can run it.

    ```python
    from xdsl_quant.execution import compile

    model = StatefulFunction("streaming.tflite", compile)
    for frame in frames:
        (probability,) = model.step(frame)
    ```
    """

    module: ModuleOp
    """A copy of the module, in which state is arguments and results."""

    function: FuncOp
    """The function in this module."""

    def __init__(
        self, module: ModuleOp | str | Path, runner: Runner, name: str | None = None
    ):
        """
        Args:
            module: the module of the function, which is not changed, or its text, or the
                path of a `.tflite` file, of which the sizes are taken, too.
            runner: what runs the function, such as `xdsl_quant.execution.compile`.
            name: the function; `None` for the only public one, or else `main`.

        Raises:
            ValueError: if there is no such function, or the attributes that say which
                arguments are state are wrong; an
                [`IRError`][xdsl_quant.runtime.loading.IRError] if a text is no module, a
                file cannot be read, or variables cannot be arguments.
            ImportError: if a file needs a package that is not installed.
            Exception: whatever the runner raises.
        """
        if is_model_file(module):
            # Not every runner runs functions with sizes that are not known.
            module = read_model_file(module, static=True)
        self.module = as_module(module).clone()
        if _VARIABLES_TO_ARGUMENTS in multiverse().all_passes:
            passes = parse_passes(_VARIABLES_TO_ARGUMENTS)
            apply_passes(self.module, passes, is_routine=True)
        self.function = entry_function(self.module, name)
        self._states: Sequence[StateArgument] = [*state_arguments(self.function)]
        self._initial = [self._initial_value(state) for state in self._states]
        self._call = runner(self.module, self.function.sym_name.data)
        self.state: Sequence[Array] = self._initial
        """The state before the next call, which may be replaced."""

    def _initial_value(self, state: StateArgument) -> Array:
        type_ = self.function.args[state.argument].type
        elements, dtype = dense_elements(state.initial_value), numpy_dtype(type_)
        if elements.dtype.itemsize == dtype.itemsize:
            # Stored values are signless in the attribute.
            elements = elements.view(dtype)
        return check_argument(
            elements, type_, f"the initial value of argument {state.argument}"
        )

    def reset(self) -> None:
        """Let the state be what it is at first."""
        self.state = self._initial

    def step(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """
        Call the function once, with the state that the calls before have left.

        Args:
            arguments: what the runner takes for the arguments that are not state.

        Returns:
            The results that are not state. They do not share memory with the state.

        Raises:
            TypeError: if the number of arguments is wrong.
            ValueError: if that of the arrays of the state is wrong.
            Exception: whatever the function raises. The state is what it was before.
        """
        if len(self.state) != len(self._states):
            raise ValueError(
                f"function '{self.function.sym_name.data}' has {len(self._states)} "
                f"arguments that are state, but the state has {len(self.state)} arrays"
            )
        states = dict(zip((s.argument for s in self._states), self.state, strict=True))
        count = len(self.function.args)
        check_argument_count(
            self.function.sym_name.data, count - len(states), len(arguments)
        )
        others = iter(arguments)
        values = [states[i] if i in states else next(others) for i in range(count)]
        results = _as_tuple(self._call(*values))
        kept = {state.result for state in self._states}
        visible = tuple(result for i, result in enumerate(results) if i not in kept)
        self.state = [
            _own_array(results[state.result], (*visible, *arguments))
            for state in self._states
        ]
        return visible


def _as_tuple(results: Any) -> tuple[Array, ...]:
    """What compiled functions return, which is an array, several or `None`."""
    if results is None:
        return ()
    return cast(
        "tuple[Array, ...]",
        results if isinstance(results, tuple) else (results,),
    )


def _own_array(array: Array, others: Sequence[ArrayLike]) -> Array:
    """Return an array that shares no memory with others."""
    arrays = (np.asarray(other) for other in others)
    is_shared = any(np.may_share_memory(array, other) for other in arrays)
    return np.array(array) if is_shared else array
