"""Repeated calls of a function that keeps its state between calls."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import dense_elements, numpy_dtype

from .arrays import check_argument
from .entry_function import check_argument_count, entry_function
from .loading import Model, apply_passes, as_module, multiverse, parse_passes
from .state_arguments import StateArgument, state_arguments

_VARIABLES_TO_ARGUMENTS = "tfl-variables-to-arguments"

Runner = Callable[[ModuleOp, str], Callable[..., Any]]
"""Function that compiles or interprets the function of a module with a given name."""


class StatefulFunction:
    """
    A function, compiled or interpreted, that is called repeatedly and keeps its state
    between calls. `tfl-variables-to-arguments` converts the variables of a model to
    arguments and results.

    ```python
    from xdsl_quant.execution import compile

    model = StatefulFunction("streaming.tflite", compile)
    for frame in frames:
        (probability,) = model.step(frame)
    ```
    """

    module: ModuleOp
    """Copy of the module, with state as arguments and results."""

    function: FuncOp

    def __init__(self, module: Model, runner: Runner, name: str | None = None):
        """
        Args:
            module: module (not changed), its text or bytes, or the path of a file. Sizes
                stored in a `.tflite` file replace dynamic ones.
            runner: runner of the function, e.g. `xdsl_quant.execution.compile`.
            name: name of the function; `None` for the only public function, or `main`.

        Raises:
            ValueError: if the function is missing or its state attributes are invalid;
                an [`IRError`][xdsl_quant.runtime.loading.IRError] if the text or file
                is invalid, or variables cannot be converted to arguments.
            ImportError: if the package that reads the file is not installed.
            Exception: any error of the runner.
        """
        # Not every runner supports dynamic sizes.
        self.module = as_module(module, static=True).clone()
        if _VARIABLES_TO_ARGUMENTS in multiverse().all_passes:
            passes = parse_passes(_VARIABLES_TO_ARGUMENTS)
            apply_passes(self.module, passes, is_routine=True)
        self.function = entry_function(self.module, name)
        self._states: Sequence[StateArgument] = [*state_arguments(self.function)]
        self._initial = [self._initial_value(state) for state in self._states]
        self._call = runner(self.module, self.function.sym_name.data)
        self.state: Sequence[Array] = self._initial
        """State before the next call. May be assigned."""

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
        """Reset the state to its initial values."""
        self.state = self._initial

    def step(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """
        Call the function once with the current state, and update the state.

        Args:
            arguments: arguments that are not state, in a form that the runner accepts.

        Returns:
            Results that are not state. They share no memory with the state.

        Raises:
            TypeError: if the number of arguments is wrong.
            ValueError: if the number of state arrays is wrong.
            Exception: any error of the function; the state is unchanged.
        """
        if len(self.state) != len(self._states):
            raise ValueError(
                f"function '{self.function.sym_name.data}' has {len(self._states)} "
                f"state arguments, but the state has {len(self.state)} arrays"
            )
        states = dict(zip((s.argument for s in self._states), self.state, strict=True))
        count = len(self.function.args)
        check_argument_count(
            self.function.sym_name.data, count - len(states), len(arguments)
        )
        remaining = iter(arguments)
        values = [states[i] if i in states else next(remaining) for i in range(count)]
        results = result_tuple(self._call(*values))
        state_results = {state.result for state in self._states}
        visible = tuple(r for i, r in enumerate(results) if i not in state_results)
        self.state = [
            _unshared_array(results[state.result], (*visible, *arguments))
            for state in self._states
        ]
        return visible


def result_tuple(results: Any) -> tuple[Array, ...]:
    if results is None:
        return ()
    return cast(
        "tuple[Array, ...]",
        results if isinstance(results, tuple) else (results,),
    )


def _unshared_array(array: Array, others: Sequence[ArrayLike]) -> Array:
    """Return `array`, or a copy if it shares memory with `others`."""
    arrays = (np.asarray(other) for other in others)
    is_shared = any(np.may_share_memory(array, other) for other in arrays)
    return np.array(array) if is_shared else array
