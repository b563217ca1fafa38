"""How a table of functions, one for each op, becomes what an interpreter registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Operation

from .values import failure

Implementation = Callable[[Interpreter, Any, PythonValues], PythonValues]
"""The results of an op for its operands. The op is one of the class it is the table for."""

Implementations = Mapping[type[Operation], Implementation]


def interpreter_functions(implementations: Implementations) -> InterpreterFunctions:
    """What to pass to `Interpreter.register_implementations`."""
    methods = {
        op_type.__name__: _method(op_type, implementation)
        for op_type, implementation in implementations.items()
    }
    class_ = type("NumPyFunctions", (InterpreterFunctions,), methods)
    return register_impls(class_)()


def _method(op_type: type[Operation], implementation: Implementation) -> object:
    def run(
        functions: InterpreterFunctions,
        interpreter: Interpreter,
        op: Operation,
        args: PythonValues,
    ) -> PythonValues:
        # Overflow, NaN and infinity are results like all others.
        try:
            with np.errstate(all="ignore"):
                return implementation(interpreter, op, args)
        except (TypeError, ValueError, ImportError) as error:
            raise failure(op, f"cannot be computed: {error}") from error

    return impl(op_type)(run)
