"""
Recording of the ops that an interpreter runs, and of the steps of their integer kernels:
accumulators, multipliers, shifts, clamps and tables, which are operands of primitives.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter, PythonValues
from xdsl.ir import Operation

from xdsl_quant.machines.numpy import StatefulModel
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.primitives import OBSERVERS

_MAX_TABLE = 1 << 16
"""Maximum number of entries of a table that is recorded."""


@dataclass(frozen=True)
class Step:
    """A primitive that a kernel evaluates."""

    primitive: str
    """`rescaled`, `rescale_wide`, `scaled_in_f64`, `stored_values` or `table`."""

    arrays: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Arrays by name: `accumulator`, `multiplier`, `shift`, `ratio`, `table`."""

    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    """Zero point, lower bound and upper bound of a clamp."""


@dataclass
class Execution:
    """An op with the values of one execution."""

    op: Operation
    operands: PythonValues
    results: PythonValues = ()
    steps: list[Step] = field(default_factory=list[Step])
    """Steps in the order of their evaluation."""


class Recorder(Interpreter.Listener):
    """Listener of an interpreter that collects the executions of ops."""

    def __init__(self):
        self.executions: list[Execution] = []
        """Finished executions of the last `with` statement, in order."""
        self._open: list[Execution] = []
        self._is_paused = False

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record the ops that are interpreted in a `with` statement."""
        self.executions.clear()
        self._open.clear()
        token = OBSERVERS.set((*OBSERVERS.get(), self._observe))
        try:
            yield
        finally:
            OBSERVERS.reset(token)

    def will_interpret_op(self, op: Operation, args: PythonValues) -> None:
        """Begin an execution."""
        self._open.append(Execution(op, args))

    def did_interpret_op(self, op: Operation, results: PythonValues) -> None:
        """Finish an execution."""
        execution = self._open.pop()
        execution.results = results
        self.executions.append(execution)

    def _observe(self, name: str, args: Sequence[Any]) -> None:
        if self._is_paused or not self._open:
            return
        # The function of a table evaluates primitives, too.
        self._is_paused = True
        try:
            step = _observed_step(name, args, self._open[-1].operands)
        finally:
            self._is_paused = False
        steps = self._open[-1].steps
        if step is not None and not _has_table_of(steps, step):
            steps.append(step)


class RecordedFunction(StatefulModel):
    """Stateful model that records the executions of ops in its last call."""

    def __init__(self, module: ModuleOp, name: str | None = None, **rounding: Any):
        """
        Prepare a function, and attach a recorder to its interpreter.

        Args:
            module: see `StatefulModel`.
            name: see `StatefulModel`.
            rounding: keyword arguments of `StatefulModel`.
        """
        super().__init__(module, name, **rounding)
        self._recorder = Recorder()
        self._interpreter.listeners = (self._recorder,)

    @property
    def executions(self) -> Sequence[Execution]:
        """Executions of the last call, in the order in which they finished."""
        return self._recorder.executions

    def step(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """Run the function, and record its ops; see `StatefulModel.step`."""
        with self._recorder.recording():
            return super().step(*arguments)


def _has_table_of(steps: Sequence[Step], step: Step) -> bool:
    """Return True if a table is recorded already: kernels look up neighbors, too."""
    table = step.arrays.get("table")
    known = (other.arrays.get("table") for other in steps)
    return table is not None and any(
        other is not None and np.array_equal(table, other) for other in known
    )


def _observed_step(name: str, args: Sequence[Any], inputs: PythonValues) -> Step | None:
    """Return the step for the operands of a primitive, or `None` for other primitives."""
    match name:
        case "rescaled" | "rescale_wide":
            values, (multiplier, exponent) = args
            return Step(
                name,
                {
                    "accumulator": _accumulator(values, is_wide=name == "rescale_wide"),
                    "multiplier": np.asarray(multiplier).astype(np.int32),
                    "shift": np.asarray(exponent).astype(np.int8),
                },
            )
        case "scaled_in_f64":
            values, ratio = args
            is_wide = any(getattr(x, "dtype", None) == np.int16 for x in inputs)
            accumulator = _accumulator(values, is_wide=is_wide)
            ratio = np.float64(1) * ratio
            return Step(name, {"accumulator": accumulator, "ratio": ratio})
        case "stored_values":
            _, zero_point, low, high = args
            numbers = {"zero_point": int(zero_point), "low": int(low)}
            return Step(name, numbers={**numbers, "high": int(high)})
        case "lookup":
            return _table(args[0])
        case "tabulate":
            _, low, high, function = args
            if high - low < _MAX_TABLE:
                return _table(function(np.arange(low, high + 1)))
            return None
        case _:
            return None


def _accumulator(values: Any, *, is_wide: bool) -> Array:
    """Return 32-bit integers; 64-bit ones for wide kernels, and for sums that overflow."""
    values = np.asarray(values).astype(np.int64)
    narrow = values.astype(np.int32)
    return values if is_wide or np.any(values != narrow) else narrow


def _table(entries: Any) -> Step | None:
    entries = np.asarray(entries)
    if entries.ndim != 1 or entries.dtype.kind != "i":
        return None
    for dtype in (np.int8, np.int16, np.int32):
        if np.array_equal(narrow := entries.astype(dtype), entries):
            return Step("table", {"table": narrow})
    return None
