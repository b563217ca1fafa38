"""Interpreter functions of named ops, for NumPy arrays."""

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import InterpreterFunctions

from xdsl_quant.machines.numpy.implementations import interpreter_functions
from xdsl_quant.machines.numpy.linalg import run_structured

from .ops import NAMED_OPS


def named_op_functions(_: ModuleOp) -> Iterable[InterpreterFunctions]:
    yield interpreter_functions({}, dict.fromkeys(NAMED_OPS, run_structured))
