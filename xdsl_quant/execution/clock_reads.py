"""Clock reads in compiled code that measure each step: a loop nest, copy or call."""

import ctypes
import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from . import mlir_bindings as mlir
from .mlir_bindings import arith, func, ir
from .source_ops import numbers_in

_STEPS = ("func.call", "linalg.", "memref.copy", "memref.store", "scf.")
"""Name prefixes of ops that end a step; the next step starts after them."""

_PREFIX = "xdsl_quant_clock"


class ClockReads:
    """Clock reads between the steps of a function, and their times in the last call."""

    steps: Sequence[Sequence[int]]
    """Source op numbers of each step; the step is named after the first of these ops."""

    callbacks: Mapping[str, object]
    """Ctypes function pointers that the code calls, by symbol."""

    def __init__(self):
        self.steps = ()
        self.callbacks = {}
        self._times = np.zeros((0, 2), np.int64)

    def insert(self, module: ir.Module, name: str) -> None:
        """Insert clock reads into a function that has been lowered to loops."""
        (function,) = mlir.functions_in(module, [name])
        ops = mlir.operations_of(mlir.body_of(function))
        steps = [op for op in ops if op.name.startswith(_STEPS)]
        self.steps = [[*_op_numbers(module, step)] for step in steps]
        if not steps:
            return
        self._times = np.zeros((len(steps) + 1, 2), np.int64)
        symbol = next(mlir.unused_names(module, _PREFIX))
        # int clock_gettime(clockid_t clock, struct timespec *time)
        clock = ctypes.CDLL(None).clock_gettime
        self.callbacks = {symbol: clock}
        with function.location:
            i32, i64 = (ir.IntegerType.get_signless(width) for width in (32, 64))
            with ir.InsertionPoint(function):
                mlir.declare(symbol, [i32, i64], i32)
            next_ops = [ops[ops.index(step) + 1] for step in steps]
            # The last step includes the deallocations at the end.
            for row, op in zip(self._times, [ops[0], *next_ops[:-1], ops[-1]]):
                with ir.InsertionPoint(op):
                    clock_id = arith.constant(i32, time.CLOCK_MONOTONIC)
                    address = arith.constant(i64, row.ctypes.data)
                    func.call([i32], symbol, [clock_id, address])

    def seconds(self) -> NDArray[np.float64]:
        """Return the duration of each step in the last call, in seconds."""
        seconds, nanoseconds = np.diff(self._times, axis=0).T
        return seconds + nanoseconds * 1e-9


def _op_numbers(module: ir.Module, step: ir.Operation) -> Collection[int]:
    """Return the distinct op numbers of a step, with those of called functions."""
    numbers: dict[int, None] = {}
    for op in [step, *mlir.ops_in(step), *_called_ops(module, step)]:
        numbers.update(dict.fromkeys(numbers_in(str(op.location))))
    return numbers


def _called_ops(module: ir.Module, step: ir.Operation) -> Sequence[ir.Operation]:
    """Return the ops of all functions that a step calls, directly or indirectly."""
    names: set[str] = set()
    todo, ops = [step], list[ir.Operation]()
    while todo:
        calls = mlir.ops_in(todo.pop(), "func.call")
        new = {mlir.symbol_of(call, "callee") for call in calls} - names
        names |= new
        functions = mlir.functions_in(module, new)
        todo += functions
        ops += [op for function in functions for op in mlir.ops_in(function)]
    return ops
