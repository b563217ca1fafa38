"""Interpreting a function of a module."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arithmetic import check_rounding
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.arrays import check_argument
from xdsl_quant.runtime.entry_function import (
    check_argument_count,
    entry_function,
    functions_run,
)
from xdsl_quant.runtime.host_functions import (
    HostFunctions,
    check_host_functions,
    checked_host_functions,
)
from xdsl_quant.runtime.loading import as_module
from xdsl_quant.runtime.missing_lowering import missing_lowering

from .host import HostFailure
from .registration import register_implementations


def run_function(
    module: ModuleOp | str | Path,
    name: str | None,
    *arguments: ArrayLike,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    host_functions: HostFunctions | None = None,
) -> tuple[Array, ...]:
    """
    Interpret a function.

    Args:
        module: the module of the function, or its text, lowered or not, or the path of a
            `.tflite` file.
        name: the function; `None` for the only public one, or else `main`.
        arguments: arrays, or numbers and lists of them, as
            [`check_argument`][xdsl_quant.runtime.arrays.check_argument] takes them.
            They are not written to.
        rounding_mode: how casts that are not lowered round.
        zero_point_order: when casts that are not lowered add the zero point.
        nan: what they make of NaN, where they have no attribute `quant.nan`.
        host_functions: the Python functions that the module declares and calls, by
            name: see [`host_functions`][xdsl_quant.runtime.host_functions].

    Returns:
        An array for each result, a NumPy scalar for a scalar. They do not share memory
        with the arguments.

    Raises:
        ValueError: if there is no such function or rounding, Python cannot define
            one of `host_functions`, or an argument has the wrong shape; an
            [`IRError`][xdsl_quant.runtime.loading.IRError] if a text is no module, or a
            file cannot be read.
        TypeError: if the number of arguments or the type of one is wrong.
        InterpretationError: if an op cannot be computed, or has no interpretation, or
            calls are nested too deeply.
        ImportError: if a file needs a package that is not installed.
        Exception: whatever a Python function raises that the module calls.
    """
    model = StatefulModel(
        module,
        name,
        rounding_mode=rounding_mode,
        zero_point_order=zero_point_order,
        nan=nan,
        host_functions=host_functions,
    )
    return model.step(*arguments)


class StatefulModel:
    """
    A function of a module that is called again and again, and keeps state from one call to
    the next: variables of the dialect tfl, and what its `svdf` remembers.

    ```python
    model = StatefulModel("streaming.tflite")
    for frame in frames:
        (probability,) = model.step(frame)
    ```
    """

    def __init__(
        self,
        module: ModuleOp | str | Path,
        name: str | None = None,
        *,
        rounding_mode: RoundingMode = "nearest-even",
        zero_point_order: ZeroPointOrder = "before-rounding",
        nan: NanResult = "storage-min",
        host_functions: HostFunctions | None = None,
    ):
        """
        All variables are without a value at first.

        Args:
            module: the module of the function, or its text, lowered or not, or the path
                of a `.tflite` file.
            name: the function; `None` for the only public one, or else `main`.
            rounding_mode: as for
                [`run_function`][xdsl_quant.machines.numpy.functions.run_function], like all
                that follow.
            zero_point_order: when casts that are not lowered add the zero point.
            nan: what they make of NaN.
            host_functions: the Python functions that the module declares and calls.

        Raises:
            ValueError: if there is no such function or rounding, Python cannot define
                one of `host_functions`, a text is no module, or a file cannot be read.
            InterpretationError: if the module needs a lowering first.
            ImportError: if a file needs a package that is not installed.
        """
        check_rounding(Rounding(rounding_mode, zero_point_order, nan))
        host_functions = checked_host_functions(host_functions)
        module = as_module(module)
        function = entry_function(module, name)
        check_host_functions(module, host_functions)
        if (message := missing_lowering(functions_run(module, function))) is not None:
            raise InterpretationError(message)
        self._function = function
        self._interpreter = Interpreter(module)
        register_implementations(
            self._interpreter,
            rounding_mode=rounding_mode,
            zero_point_order=zero_point_order,
            nan=nan,
            host_functions=host_functions,
        )

    def step(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """
        Interpret the function once, with the state that the calls before have left.

        Args:
            arguments: as for
                [`run_function`][xdsl_quant.machines.numpy.functions.run_function].

        Returns:
            An array for each result, a NumPy scalar for a scalar. They share memory neither
            with the arguments nor with the state.

        Raises:
            ValueError: if an argument has the wrong shape.
            TypeError: if the number of arguments or the type of one is wrong.
            InterpretationError: if an op cannot be computed, or has no interpretation, or
                calls are nested too deeply. Variables keep what was assigned before that.
            Exception: whatever a Python function raises that the module calls.
        """
        function = self._function
        values = _check_arguments(function, arguments)
        try:
            results = self._interpreter.call_op(function, values)
        except InterpretationError as error:
            # xDSL's has the whole module as a note, for each region that the op is in.
            raise InterpretationError(str(error)) from error.__cause__
        except HostFailure as failure:
            raise failure.cause from None
        except RecursionError:
            raise InterpretationError(
                f"function '{function.sym_name.data}' is nested too deeply, maybe a "
                "function calls itself without an end"
            ) from None
        finally:
            _leave_scopes(self._interpreter)
        types = function.function_type.outputs
        return tuple(
            _result(result, type_, values)
            for result, type_ in zip(results, types, strict=True)
        )


def _leave_scopes(interpreter: Interpreter) -> None:
    """Forget the values of regions in which an op failed."""
    with suppress(InterpretationError):
        while True:
            interpreter.pop_scope()


def _check_arguments(
    function: FuncOp, arguments: Sequence[ArrayLike]
) -> tuple[Array, ...]:
    check_argument_count(function.sym_name.data, len(function.args), len(arguments))
    values: list[Array] = []
    for index, (argument, parameter) in enumerate(
        zip(arguments, function.args, strict=True)
    ):
        hint = f" (%{parameter.name_hint})" if parameter.name_hint else ""
        array = check_argument(argument, parameter.type, f"argument {index}{hint}")
        values.append(array[()] if _is_scalar_type(parameter.type) else array)
    return tuple(values)


def _is_scalar_type(type_: Attribute) -> bool:
    return scalar_or_element_type(type_) is type_


def _result(value: ArrayLike, type_: Attribute, arguments: Sequence[Array]) -> Array:
    array = np.asarray(value)
    if _is_scalar_type(type_):
        return array[()]
    # A tensor of equal numbers, an argument or a constant is no array of its own.
    is_own = array.flags.owndata and array.flags.writeable
    if is_own and not any(np.may_share_memory(array, other) for other in arguments):
        return array
    return np.array(array)
