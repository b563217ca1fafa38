"""
Interpreter functions of the `tfl` dialect, with TensorFlow Lite's integer arithmetic.

Each interpreter has its own variables, and runs the function of a `tfl.call_once` once. The
value of a variable handle is a pair of strings, that of an absent operand is `None`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Operation

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.recurrent import RecurrentOp
from xdsl_quant.frontends.tflite.lowering import kernels
from xdsl_quant.frontends.tflite.lowering.kernels import (
    RECURRENT,
    Computation,
    implementations,
)
from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.machines.numpy.implementations import (
    Implementation,
    interpreter_functions,
)
from xdsl_quant.machines.numpy.values import failure
from xdsl_quant.runtime.arrays import allows_shape, numpy_dtype, shape_text, shortened
from xdsl_quant.runtime.kernel_sets import kernel_set
from xdsl_quant.unsupported import Unsupported

from .detection import DETECTION, detections

# Results


def as_result_types(op: Operation, *results: Any) -> tuple[NDArray[Any], ...]:
    """
    Convert results to arrays with the dtypes of the op's result types.

    Raises:
        InterpretationError: if a shape is incompatible with its type.
    """
    arrays: list[NDArray[Any]] = []
    for result, value in zip(results, op.results, strict=True):
        array = np.asarray(result)
        if not allows_shape(value.type, array.shape):
            raise failure(
                op,
                f"has a value of shape '{shape_text(array.shape)}' for the type "
                f"'{shortened(value.type)}'",
            )
        is_converted = not kernels.is_complex(value.type)
        dtype = numpy_dtype(value.type) if is_converted else array.dtype
        arrays.append(array.astype(dtype, copy=False))
    return tuple(arrays)


def _interpreter_function(implementation: kernels.Implementation) -> Implementation:
    def run(op: Operation, *args: Any) -> Any:
        try:
            if isinstance(implementation, Computation):
                results = implementation.results(op, args)
            else:
                results = implementation(op, *args)
        except Unsupported as e:
            raise failure(op, str(e)) from None
        except (ArithmeticError, IndexError, MemoryError) as e:
            raise ValueError(str(e)) from e
        return as_result_types(
            op, *(results if isinstance(results, tuple) else (results,))
        )

    return run


# State


@register_impls
class _State(InterpreterFunctions):
    """Implementation of `tfl.yield`, and key of the state in an interpreter."""

    @impl_terminator(tfl.YieldOp)
    def run_yield(
        self, _interpreter: Interpreter, _op: tfl.YieldOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()


def _interpreter_data(
    interpreter: Interpreter, key: str, factory: Callable[[], Any]
) -> Any:
    return interpreter.get_data(_State, key, factory)


def _var_handle(op: tfl.VarHandleOp) -> Any:
    # The outer tuple holds the results.
    return ((op.container.data, op.shared_name.data),)


def _read_variable(
    interpreter: Interpreter, op: tfl.ReadVariableOp, handle: Any
) -> Any:
    variables = _interpreter_data(interpreter, "variables", dict)
    if handle not in variables:
        raise failure(op, f"reads variable '{handle[1]}' before it is assigned")
    return as_result_types(op, variables[handle])


def _assign_variable(
    interpreter: Interpreter, op: tfl.AssignVariableOp, handle: Any, value: Any
) -> Any:
    # Copied, as the array of the operand may change later.
    array = np.array(value)
    array.setflags(write=False)
    _interpreter_data(interpreter, "variables", dict)[handle] = array
    return ()


def _call_once(interpreter: Interpreter, op: tfl.CallOnceOp) -> Any:
    called: set[str] = _interpreter_data(interpreter, "called", set)
    name = op.session_init_function.data
    if name not in called:
        interpreter.call_op(name)
        called.add(name)
    return ()


def _recurrent(implementation: kernels.Function) -> Implementation:
    def run(interpreter: Interpreter, op: RecurrentOp, *args: Any) -> Any:
        """Run an op; the interpreter stores the next states unless the op returns them."""
        states: dict[Operation, Any] = _interpreter_data(interpreter, "states", dict)
        operands = [*args]
        for index, state in zip(op.STATES, states.get(op, ()), strict=False):
            operands[index] = state
        try:
            values, *next_states = implementation(op, *operands)
        except Unsupported as e:
            raise failure(op, str(e)) from None
        if op.next_states:
            return as_result_types(op, values, *next_states)
        pairs = zip(next_states, op.STATES, strict=True)
        states[op] = [state.astype(operands[index].dtype) for state, index in pairs]
        return as_result_types(op, values)

    return run


# Control flow


def _if(interpreter: Interpreter, op: tfl.IfOp, condition: Any) -> Any:
    region = op.then_region if np.all(condition) else op.else_region
    return interpreter.run_ssacfg_region(region, (), "tfl.if")


def _while(interpreter: Interpreter, op: tfl.WhileOp, *args: Any) -> Any:
    values = args
    while np.all(*interpreter.run_ssacfg_region(op.cond, values, "tfl.while")):
        values = interpreter.run_ssacfg_region(op.body, values, "tfl.while")
    return tuple(values)


# All ops


def _no_value(op: tfl.NoValueOp) -> Any:
    return None


def _custom(op: tfl.CustomOp, *args: Any) -> Any:
    if op.custom_code.data != DETECTION:
        raise failure(
            op,
            f"cannot be run: unsupported custom operator '{op.custom_code.data}'; split "
            "the model before it",
        )
    try:
        return as_result_types(op, *detections(op, *args))
    except Unsupported as e:
        raise failure(op, str(e)) from None


def _unsupported(op_type: type[UnregisteredOp]) -> InterpreterFunctions:
    @register_impls
    class Unsupported(InterpreterFunctions):
        # Registered as a terminator because xDSL treats unregistered ops as terminators.
        @impl_terminator(op_type)
        def run_unsupported(
            self, interpreter: Interpreter, op: UnregisteredOp, args: PythonValues
        ) -> NoReturn:
            raise failure(op, "cannot be run: unsupported operator")

    return Unsupported()


_WITH_INTERPRETER: Mapping[type[Operation], Implementation] = {
    tfl.ReadVariableOp: _read_variable,
    tfl.AssignVariableOp: _assign_variable,
    tfl.CallOnceOp: _call_once,
    **{op_type: _recurrent(function) for op_type, function in RECURRENT.items()},
    tfl.IfOp: _if,
    tfl.WhileOp: _while,
}


@cache
def _functions(kernels: KernelSet) -> InterpreterFunctions:
    plain = {
        tfl.NoValueOp: _no_value,
        tfl.VarHandleOp: _var_handle,
        tfl.CustomOp: _custom,
        **{
            op_type: _interpreter_function(implementation)
            for op_type, implementation in implementations(kernels).items()
        },
    }
    return interpreter_functions(plain, _WITH_INTERPRETER)


def tfl_functions(module: ModuleOp) -> Iterator[InterpreterFunctions]:
    """Yield the functions of `tfl`, and functions that raise for unregistered ops."""
    yield _functions(kernel_set(module))
    yield _State()
    # xDSL creates a class for each op name.
    for op_type in {type(op) for op in module.walk() if isinstance(op, UnregisteredOp)}:
        yield _unsupported(op_type)
