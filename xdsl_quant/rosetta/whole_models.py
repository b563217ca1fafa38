"""
Comparison of two executions of a quantized model on samples, step by step.

Each step is computed with the operands of the reference, so that its own differences are
counted, and with the operands that the runtime has computed itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from xdsl_quant.diagnostics import counted, shortened_text, table
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import shape_of
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.plugins import dialects_in

from .casts import runtime_names
from .executions import COMPILED, ONNX, Execution, Runs, executions, missing_library
from .explanations import Explanation
from .runtimes import Unavailable
from .steps import ModelStep, model_steps
from .worker import Worker


@dataclass(frozen=True)
class StepDifference:
    """Differences between two executions of a step."""

    op: str
    """Name of the op that computes."""

    name: str
    """Name of the quantized value."""

    values: int
    """Number of elements in all runs."""

    differences: int
    """Number of elements that differ if the operands are those of the reference."""

    largest: int
    """Largest absolute difference of these elements, in units of the stored value."""

    whole_differences: int
    """Number of elements that differ if each runtime has computed its operands."""

    reason: str
    """Arithmetic that explains the differences; empty without differences."""


@dataclass(frozen=True)
class ModelComparison:
    """Differences between a runtime and the reference, by step."""

    runtime: str

    against: str

    runs: int

    steps: Sequence[StepDifference]

    left_out: Mapping[str, Sequence[str]]
    """Names of values that the runtime cannot compute, by reason."""

    def __str__(self) -> str:
        header = ("op", "location", "values", "differ", "largest", "whole", "reason")
        shown = [
            (
                step.op,
                shortened_text(step.name) or "-",
                f"{step.values:,}",
                f"{step.differences:,}",
                f"{step.largest:,}" if step.differences else "-",
                f"{step.whole_differences:,}",
                step.reason or "-",
            )
            for step in self.steps
        ]
        runs = counted(self.runs, "run")
        lines = [f"{self.runtime}, compared with {self.against}: {runs}"]
        lines += [f"  {line}" for line in table([header, *shown])] if shown else []
        for reason, names in self.left_out.items():
            listed = ", ".join(map(shortened_text, names))
            lines.append(f"  left out: {listed}: {reason}")
        return "\n".join(lines)


def compare_model(
    module: ModuleOp,
    runs: Iterable[Sequence[Array]],
    *,
    entry: str | None = None,
    against: str | None = None,
    runtimes: Sequence[str] | None = None,
) -> Iterator[ModelComparison]:
    """
    Yield a comparison of each runtime with the reference.

    Args:
        module: quantized module of StableHLO or `tfl` ops.
        runs: arguments of each run: floats, or stored values of quantized arguments.
        entry: name of the function; by default the only public one, or `main`.
        against: name of the reference; by default `onnx-definition` for StableHLO,
            `compiled` for `tfl`.
        runtimes: names of the other runtimes; by default all.

    Raises:
        ValueError: if a runtime is unknown, or the function has calls or only floats.
        Unavailable: if the reference cannot compute a step.
    """
    function = entry_function(module, entry)
    steps = _steps_of(function)
    is_tfl = "tfl" in dialects_in(module)
    with Worker() as worker:
        known = executions(is_tfl, worker)
        reference = against or (COMPILED if is_tfl else ONNX)
        names = runtime_names(reference, runtimes, [*known])
        arguments = [[*run] for run in runs]
        values: dict[SSAValue, Sequence[Array]] = {
            argument: [run[i] for run in arguments]
            for i, argument in enumerate(function.args)
        }
        expected = _reference_values(steps, known[reference], reference, values)
        for name in names:
            if name != reference:
                tally = _ModelTally(name, reference, known, expected, {**values})
                yield _tallied_steps(tally, steps, len(arguments))


def _steps_of(function: FuncOp) -> Sequence[ModelStep]:
    if not (steps := [*model_steps(function)]):
        raise ValueError(
            "the model has no quantized values; expected a quantized model"
        )
    return steps


def _tallied_steps(
    tally: _ModelTally, steps: Sequence[ModelStep], runs: int
) -> ModelComparison:
    names, left_out = (tally.name, tally.against), tally.left_out
    if missing := missing_library(tally.name):
        return ModelComparison(*names, runs, (), {missing: ["all values"]})
    for step in steps:
        tally.add(step)
    return ModelComparison(*names, runs, tally.rows, left_out)


_Values = Mapping[SSAValue, Sequence[Array]]
"""Elements of values in each run."""


def _reference_values(
    steps: Sequence[ModelStep],
    execution: Execution,
    name: str,
    arguments: Mapping[SSAValue, Sequence[Array]],
) -> dict[SSAValue, Sequence[Array]]:
    values = {**arguments}
    for step in steps:
        try:
            values[step.value] = _computed(step, execution, values)
        except Unavailable as error:
            raise Unavailable(
                f"'{name}' cannot compute '{step.name}': {error}"
            ) from None
    return values


def _operand_runs(step: ModelStep, values: _Values) -> Runs:
    return [*zip(*(values[operand] for operand in step.operands), strict=True)]


def _computed(
    step: ModelStep, execution: Execution, values: _Values
) -> Sequence[Array]:
    shape = shape_of(step.value.type)
    results = execution(step)(_operand_runs(step, values))
    if shape.count(DYNAMIC_INDEX) > 1:
        return results
    # `reshape` infers one unknown size, too.
    return [result.reshape(shape) for result in results]


@dataclass
class _ModelTally:
    """Steps of a runtime, compared with those of the reference."""

    name: str
    against: str
    executions: Mapping[str, Execution]
    expected: _Values

    values: dict[SSAValue, Sequence[Array]] = field(
        default_factory=dict[SSAValue, Sequence[Array]]
    )
    """Values that the runtime has computed."""

    rows: list[StepDifference] = field(default_factory=list[StepDifference])

    left_out: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, step: ModelStep) -> None:
        """Compute a step with both kinds of operands, and count differences."""
        execution, expected = self.executions[self.name], self.expected[step.value]
        try:
            own = _computed(step, execution, self.expected)
            is_same = all(self._is_expected(operand) for operand in step.operands)
            whole = own if is_same else _computed(step, execution, self.values)
        except Unavailable as error:
            self.left_out.setdefault(str(error), []).append(step.name or step.op_name)
            self.values[step.value] = expected
            return
        self.values[step.value] = whole
        pair = _flat(own), _flat(expected)
        different = np.flatnonzero(pair[0] != pair[1])
        count = int((_flat(whole) != pair[1]).sum())
        if not (step.computes or different.size or count):
            return
        sizes = np.abs(pair[0] - pair[1])
        runs = _operand_runs(step, self.expected)
        explanation = Explanation(step, runs, self.executions, self.name, self.against)
        self.rows.append(
            StepDifference(
                step.op_name,
                step.name,
                pair[0].size,
                different.size,
                int(sizes.max(initial=0)),
                count,
                explanation.reason(*pair, different) if different.size else "",
            )
        )

    def _is_expected(self, operand: SSAValue) -> bool:
        pairs = zip(self.values[operand], self.expected[operand], strict=True)
        return all(itertools.starmap(np.array_equal, pairs))


def _flat(arrays: Sequence[Array]) -> NDArray[np.int64]:
    """Return the stored values of all runs."""
    return np.concatenate([array.ravel().astype(np.int64) for array in arrays])
