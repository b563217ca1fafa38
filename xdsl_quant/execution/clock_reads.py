"""Reads of the clock between the steps of compiled code."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .mlir_bindings import arith, func, functions_in, ir, ops_in
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

    def insert(self, module: Any, name: str) -> None:
        """
        Insert the reads into a function of a module, in which there are loops on memrefs.
        """
        (function,) = functions_in(module, [name])
        ops = [op.operation for op in function.regions[0].blocks[0].operations]
        steps = [op for op in ops if op.name.startswith(_STEPS)]
        self.steps = [[*_numbers(module, step)] for step in steps]
        if not steps:
            return
        self._times = np.zeros((len(steps) + 1, 2), np.int64)
        taken = {op.attributes["sym_name"].value for op in module.body.operations}
        symbol = next(s for i in count() if (s := f"{_PREFIX}_{i}") not in taken)
        # int clock_gettime(clockid_t clock, struct timespec *time)
        clock = ctypes.CDLL(None).clock_gettime
        self.callbacks = {symbol: clock}
        with function.location:
            i32, i64 = (ir.IntegerType.get_signless(width) for width in (32, 64))
            with ir.InsertionPoint(function):
                type_ = ir.FunctionType.get([i32, i64], [i32])
                func.FuncOp(symbol, type_, visibility="private")
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


def _numbers(module: Any, step: Any) -> Collection[int]:
    """The numbers of the ops that a step is made of, each once."""
    numbers: dict[int, None] = {}
    for op in [step, *ops_in(step), *_called(module, step)]:
        numbers.update(dict.fromkeys(numbers_in(str(op.location))))
    return numbers


def _called(module: Any, step: Any) -> Sequence[Any]:
    """The ops of the functions that a step calls."""
    names: set[str] = set()
    todo, found = [step], list[Any]()
    while todo:
        calls = ops_in(todo.pop(), "func.call")
        new = {call.attributes["callee"].value for call in calls} - names
        names |= new
        functions = functions_in(module, new)
        todo += functions
        found += [op for function in functions for op in ops_in(function)]
    return found
