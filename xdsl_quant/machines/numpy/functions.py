"""Interpretation of functions in a module."""

from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.numerics.arithmetic import check_rounding
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.arrays import check_argument, numpy_dtype
from xdsl_quant.runtime.buffers import memref_error_message, signature_error_message
from xdsl_quant.runtime.entry_function import (
    check_argument_count,
    entry_function,
    reachable_functions,
    reachable_symbols,
)
from xdsl_quant.runtime.host_functions import (
    HostFunctions,
    check_host_functions,
    checked_host_functions,
)
from xdsl_quant.runtime.kernel_sets import select_kernels
from xdsl_quant.runtime.loading import IRError, Model, as_module
from xdsl_quant.runtime.missing_lowering import (
    compiler_advice,
    has_stablehlo_ops,
    lower_stablehlo_ops,
    missing_lowering,
)

from .host import HostFailure
from .registration import register_implementations


def run_function(
    module: Model,
    name: str | None,
    *arguments: ArrayLike,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    kernels: KernelSet | None = None,
    host_functions: HostFunctions | None = None,
) -> tuple[Array, ...]:
    """
    Interpret a function.

    Args:
        module: module (lowered or not), its text or bytes, or the path of a file.
        name: name of the function; `None` for the only public function, or for `main`.
        arguments: arrays, numbers or lists, as for
            [`check_argument`][xdsl_quant.runtime.arrays.check_argument]. Arguments are not
            modified.
        rounding_mode: rounding of casts that are not lowered.
        zero_point_order: order in which these casts add the zero point and round.
        nan: stored value of NaN for casts without an attribute `quant.nan`.
        kernels: kernels whose results ops have: `reference`, `multiplier` or `xnnpack`
            for `tfl`, `onnxruntime` for StableHLO; default: the module attribute
            `quant.kernels`, or `reference`.
        host_functions: Python functions that the module declares and calls, by name:
            see [`host_functions`][xdsl_quant.runtime.host_functions].

    Returns:
        An array for each tensor result, and a NumPy scalar for each scalar. Results do not
        share memory with the arguments.

    Raises:
        ValueError: if the function or rounding is unknown, the module does not declare one
            of `host_functions`, or an argument has the wrong shape; an
            [`IRError`][xdsl_quant.runtime.loading.IRError] if a text is not a module, or a
            file cannot be read.
        TypeError: if the number or a type of the arguments is wrong.
        InterpretationError: if an op cannot be computed or is unsupported, or calls are
            nested too deeply.
        ImportError: if a file needs a package that is not installed.
        Exception: any exception of a Python function that the module calls.
    """
    model = StatefulModel(
        module,
        name,
        rounding_mode=rounding_mode,
        zero_point_order=zero_point_order,
        nan=nan,
        kernels=kernels,
        host_functions=host_functions,
    )
    return model.step(*arguments)


class StatefulModel:
    """
    Module function that keeps state between calls: variables of the dialect tfl, and
    the state of `tfl.svdf`.

    ```python
    model = StatefulModel("streaming.tflite")
    for frame in frames:
        (probability,) = model.step(frame)
    ```
    """

    def __init__(
        self,
        module: Model,
        name: str | None = None,
        *,
        rounding_mode: RoundingMode = "nearest-even",
        zero_point_order: ZeroPointOrder = "before-rounding",
        nan: NanResult = "storage-min",
        kernels: KernelSet | None = None,
        host_functions: HostFunctions | None = None,
    ):
        """
        Prepare a function. Variables have no values yet.

        Args:
            module: module (lowered or not), its text or bytes, or the path of a file.
            name: name of the function; `None` for the only public function, or for `main`.
            rounding_mode: see
                [`run_function`][xdsl_quant.machines.numpy.functions.run_function].
            zero_point_order: order in which casts add the zero point and round.
            nan: stored value of NaN.
            kernels: kernels whose results ops have.
            host_functions: Python functions that the module declares and calls.

        Raises:
            ValueError: if the function or rounding is unknown, the module does not declare
                one of `host_functions`, a text is not a module, or a file cannot be read.
            InterpretationError: if the module needs a lowering first, or has memrefs.
            ImportError: if a file needs a package that is not installed.
        """
        rounding = Rounding(rounding_mode, zero_point_order, nan)
        check_rounding(rounding)
        host_functions = checked_host_functions(host_functions)
        module = as_module(module)
        if kernels is not None:
            module = module.clone()
            select_kernels(module, kernels)
        function = entry_function(module, name)
        check_host_functions(module, host_functions)
        self._result_types = function.function_type.outputs
        module, function = _without_stablehlo(module, function, rounding)
        functions = reachable_functions(module, function)
        if message := (
            missing_lowering(functions)
            or compiler_advice(functions)
            or signature_error_message(function)
            or memref_error_message(functions)
        ):
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
        Interpret the function once, with the state of previous calls.

        Args:
            arguments: see
                [`run_function`][xdsl_quant.machines.numpy.functions.run_function].

        Returns:
            An array for each tensor result, and a NumPy scalar for each scalar. Results
            share memory neither with the arguments nor with the state.

        Raises:
            ValueError: if an argument has the wrong shape.
            TypeError: if the number or a type of the arguments is wrong.
            InterpretationError: if an op cannot be computed or is unsupported, or calls
                are nested too deeply. Variables keep values assigned before the error.
            Exception: any exception of a Python function that the module calls.
        """
        function = self._function
        values = _check_arguments(function, arguments)
        try:
            results = self._interpreter.call_op(function, values)
        except InterpretationError as error:
            # Drop xDSL's notes, which print the module once for each enclosing region.
            raise InterpretationError(str(error)) from error.__cause__
        except HostFailure as failure:
            raise failure.cause from None
        except RecursionError:
            raise InterpretationError(
                f"calls in function '{function.sym_name.data}' are nested too deeply; "
                "check for infinite recursion"
            ) from None
        finally:
            _leave_scopes(self._interpreter)
        return tuple(
            _result(result, type_, values)
            for result, type_ in zip(results, self._result_types, strict=True)
        )


def _without_stablehlo(
    module: ModuleOp, function: FuncOp, rounding: Rounding
) -> tuple[ModuleOp, FuncOp]:
    """Return a function and its module, without StableHLO ops if these can be lowered."""
    reached = reachable_symbols(module, function)
    if not has_stablehlo_ops(reached.values()):
        return module, function
    module = ModuleOp([op.clone() for op in reached.values()], {**module.attributes})
    try:
        lower_stablehlo_ops(module, rounding)
    except IRError as e:
        raise InterpretationError(str(e)) from None
    return module, entry_function(module, function.sym_name.data)


def _leave_scopes(interpreter: Interpreter) -> None:
    """Discard the scopes of regions in which an op failed."""
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


def _width_if_unsigned(type_: Attribute) -> int | None:
    """Return the width of an unsigned integer type; `None` for other types."""
    if not isinstance(type_, IntegerType):
        return None
    integer = cast("IntegerType", type_)
    is_unsigned = integer.signedness.data is Signedness.UNSIGNED
    return integer.bitwidth if is_unsigned else None


def _result(value: ArrayLike, type_: Attribute, arguments: Sequence[Array]) -> Array:
    array = np.asarray(value)
    element_type = scalar_or_element_type(type_)
    if (width := _width_if_unsigned(element_type)) is not None:
        # Lowered code has signless integers.
        dtype = numpy_dtype(element_type)
        array = array.view(dtype) & dtype.type((1 << width) - 1)
    if _is_scalar_type(type_):
        return array[()]
    # Results may be views of splats, arguments or constants: copy them.
    is_owner = array.flags.owndata and array.flags.writeable
    if is_owner and not any(np.may_share_memory(array, other) for other in arguments):
        return array
    return np.array(array)
