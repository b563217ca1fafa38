"""Interpreter functions from op tables, and vectorized evaluation of blocks."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Block, Operation, SSAValue

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import UnsupportedTypeError

from .values import failure

Implementation = Callable[..., object]
"""
Function that computes an op: it gets the op and its operand values, and returns the
result or a tuple of results.
"""

Implementations = Mapping[type[Operation], Implementation]


def interpreter_functions(
    implementations: Implementations, nested: Implementations | None = None
) -> InterpreterFunctions:
    """
    Return functions in the form that xDSL's interpreter registers.

    Args:
        implementations: functions by op class.
        nested: functions that take the interpreter as first argument, for ops with
            regions.
    """
    methods = {
        op_type.__name__: _method(op_type, implementation, is_nested)
        for is_nested, table in ((False, implementations), (True, nested or {}))
        for op_type, implementation in table.items()
    }
    class_ = type("NumPyFunctions", (InterpreterFunctions,), methods)
    return register_impls(class_)()


def _method(
    op_type: type[Operation], implementation: Implementation, is_nested: bool
) -> object:
    def run(
        functions: InterpreterFunctions,
        interpreter: Interpreter,
        op: Operation,
        args: PythonValues,
    ) -> PythonValues:
        first = (interpreter, op) if is_nested else (op,)
        # Do not warn: overflow, NaN and infinity are valid results.
        try:
            with np.errstate(all="ignore"):
                results = implementation(*first, *args)
        except (UnsupportedTypeError, ValueError, ImportError) as error:
            raise failure(op, f"cannot be computed: {error}") from error
        return cast(PythonValues, results if isinstance(results, tuple) else (results,))

    return impl(op_type)(run)


def run_block(
    interpreter: Interpreter,
    block: Block,
    args: Sequence[Array | None],
    wanted: Sequence[SSAValue],
    known: Mapping[Operation, Array | None] | None = None,
) -> Sequence[Array]:
    """
    Run a block, and return the values of `wanted`.

    Args:
        interpreter: interpreter of the ops, except the terminator.
        block: block of elementwise ops.
        args: values of the block arguments: numbers, or arrays that broadcast to each
            other.
        wanted: values to return.
        known: maps ops that are skipped to the values of their single results.
    """
    known = known or {}
    interpreter.push_scope("block")
    try:
        interpreter.set_values(zip(block.args, args, strict=True))
        for op in block.ops:
            if op is block.last_op:
                break
            if op in known:
                interpreter.set_values(((op.results[0], known[op]),))
                continue
            inputs = interpreter.get_values(op.operands)
            interpreter.set_values(
                zip(op.results, interpreter.run_op(op, inputs), strict=True)
            )
        return interpreter.get_values(wanted)
    finally:
        interpreter.pop_scope()
