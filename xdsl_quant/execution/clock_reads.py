"""Reads of the clock between the steps of compiled code."""

import ctypes
import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from . import mlir_bindings as mlir
from .mlir_bindings import arith, func, ir
from .source_ops import numbers_in

_STEPS = ("func.call", "linalg.", "memref.copy", "memref.store", "scf.")
"""How names of ops begin that take time. What is between them belongs to the next one."""

_PREFIX = "xdsl_quant_clock"


class ClockReads:
    """Stores the time between the steps of a function, at each call."""

    steps: Sequence[Sequence[int]]
    """For each step the numbers of the ops that it is made of, those of its own first."""

    callbacks: Mapping[str, object]
    """What the code calls: pointers of ctypes, by symbols."""

    def __init__(self):
        self.steps = ()
        self.callbacks = {}
        self._times = np.zeros((0, 2), np.int64)

    def insert(self, module: ir.Module, name: str) -> None:
        """
        Insert the reads into a function of a module, in which there are loops on memrefs.
        """
        (function,) = mlir.functions_in(module, [name])
        ops = mlir.operations_of(mlir.body_of(function))
        steps = [op for op in ops if op.name.startswith(_STEPS)]
        self.steps = [[*_op_numbers(module, step)] for step in steps]
        if not steps:
            return
        self._times = np.zeros((len(steps) + 1, 2), np.int64)
        symbol = next(mlir.free_names(module, _PREFIX))
        # int clock_gettime(clockid_t clock, struct timespec *time)
        clock = ctypes.CDLL(None).clock_gettime
        self.callbacks = {symbol: clock}
        with function.location:
            i32, i64 = (ir.IntegerType.get_signless(width) for width in (32, 64))
            with ir.InsertionPoint(function):
                mlir.declare(symbol, [i32, i64], i32)
            places = [ops[ops.index(step) + 1] for step in steps]
            # The last step has all that is freed at the end, too.
            for row, op in zip(self._times, [ops[0], *places[:-1], ops[-1]]):
                with ir.InsertionPoint(op):
                    clock_id = arith.constant(i32, time.CLOCK_MONOTONIC)
                    address = arith.constant(i64, row.ctypes.data)
                    func.call([i32], symbol, [clock_id, address])

    def seconds(self) -> NDArray[np.float64]:
        """How long each step of the last call took."""
        seconds, nanoseconds = np.diff(self._times, axis=0).T
        return seconds + nanoseconds * 1e-9


def _op_numbers(module: ir.Module, step: ir.Operation) -> Collection[int]:
    """Return the numbers of the ops that a step is made of, each once."""
    numbers: dict[int, None] = {}
    for op in [step, *mlir.ops_in(step), *_called(module, step)]:
        numbers.update(dict.fromkeys(numbers_in(str(op.location))))
    return numbers


def _called(module: ir.Module, step: ir.Operation) -> Sequence[ir.Operation]:
    """Return the ops of the functions that a step calls."""
    names: set[str] = set()
    todo, found = [step], list[ir.Operation]()
    while todo:
        calls = mlir.ops_in(todo.pop(), "func.call")
        new = {mlir.symbol_of(call, "callee") for call in calls} - names
        names |= new
        functions = mlir.functions_in(module, new)
        todo += functions
        found += [op for function in functions for op in mlir.ops_in(function)]
    return found
