"""
Compare models of one op in TOSA with the reference kernels: `make oracles`.

    python -m tests.oracles.tosa --ops ADD,CONV_2D

Each recorded case, and some of ops without a kernel, is converted, validated by MLIR,
lowered and executed. In the environment that `make tosa-tools` makes, it is run by TOSA's
reference model, too, and so is what the public converter makes of the same file. Its table
is the one in docs/measured/tosa.md, which `--write` writes.

The exit code is 1 if a value differs, or if the table is not the one in the docs.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.exceptions import PassFailedException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.files.models import inputs_of, model_of
from tests.unit.frontends.tflite.formulas.cases import Case, Tensor, cases
from tests.unit.frontends.tflite.lowering.tosa_execution import (
    FALLBACKS,
    arguments_of,
    as_signless,
    converted,
    expected_of,
    fallback_of,
    group_of,
    run,
    validated,
)
from xdsl_quant.execution import CompilationError
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.formulas.elementwise import quantize
from xdsl_quant.rosetta.tosa import TosaTools

Array = NDArray[Any]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "measured" / "tosa.md"
TOOLS = ROOT / ".venv-tosa" / "bin" / "python"
"""The Python of the environment of `tosa-tools`, which needs an old NumPy."""

BEGIN, END = "<!-- by `make oracles` -->\n", "<!-- end -->\n"

EQUAL = "equal"
WITHIN_ONE = "within one unit"


# Cases without a recorded kernel


def _stored(name: str, values: Any, scale: float, zero_point: int) -> Tensor:
    array = np.asarray(values, np.int64)
    return Tensor(
        name, array, [float(np.float32(scale))], [zero_point], None, False, False
    )


def other_cases() -> Sequence[Case]:
    """Quantization of floats, and ops of which the kernels compute something else."""
    random = np.random.default_rng(3)
    found: list[Case] = []
    for type_, scale, zero_point, steps in (
        ("INT8", 0.1, 3, 100),
        ("UINT8", 0.33, 100, 100),
        ("INT16", 3.1e-4, 0, 30_000),
    ):
        # A part is out of range.
        floats = random.normal(0, steps * scale, 500).astype(np.float32)
        x = Tensor("FLOAT32", floats, [], [], None, False, False)
        result = _stored(type_, 0, scale, zero_point)
        array = quantize(floats, result.parameters)
        results = [result._replace(array=array)]
        found.append(Case(f"QUANTIZE/FLOAT32 to {type_}", "QUANTIZE", {}, [x], results))
    for op in ("DIV", "POW"):
        for number in range(4):
            operands: list[Tensor | None] = [
                _stored("INT8", random.integers(0, 100, 200), 0.02, -10),
                _stored("INT8", random.integers(20, 100, 200), 0.015, 0),
            ]
            results = [_stored("INT8", np.zeros(200), 0.05, -20)]
            options = {"fused_activation_function": 0} if op == "DIV" else {}
            found.append(Case(f"{op} #{number}", op, options, operands, results))
    return found


# Evaluators


class Expected(NamedTuple):
    """What the results of a case are compared with."""

    arrays: Sequence[Array]
    tolerance: int
    is_defined: Any


def _expected(case: Case, *, is_meant: bool) -> Expected:
    """
    The integers of the kernels or, for an op that is computed with floats, those of real
    numbers.
    """
    if is_meant:
        array, is_defined = fallback_of(case)
        return Expected([as_signless(array.astype("i8"))], 1, is_defined)
    return Expected(expected_of(case), 0, True)


def _verdict(results: Sequence[Any], expected: Expected) -> str:
    # There may be a state, too.
    farthest = 0
    for computed, array in zip(results, expected.arrays, strict=False):
        computed = np.asarray(computed)
        if computed.shape != array.shape:
            return "another shape"
        if expected.tolerance and computed.dtype != array.dtype:
            computed = computed.astype("i8")
        distances = np.abs(as_signless(computed).astype("i8") - array.astype("i8"))
        farthest = max(farthest, int(np.where(expected.is_defined, distances, 0).max()))
    if farthest <= expected.tolerance:
        return WITHIN_ONE if expected.tolerance else EQUAL
    return f"{farthest} off"


class Outcome(NamedTuple):
    """What became of a case, in a few words each."""

    name: str
    lowered: str
    modelled: str
    public: str


_CAST_TO_ITSELF = re.compile(r"tosa\.cast .*\(tensor<(.*)>\) -> tensor<\1>")
_WRAPPING_CAST = re.compile(r"tosa\.cast .*\(tensor<.*xi32>\) -> tensor<.*xi(8|16)>")


def _public(tools: TosaTools, case: Case, file: bytes, expected: Expected) -> str:
    status, text = tools.call("convert", file)
    if status != "ok":
        return "error"
    if re.search(r"\btfl\.\w+\"?\(", text):
        return "left as `tfl`"
    values = [*map(as_signless, inputs_of(case))]
    status, results = tools.call("run", text, values)
    if status != "runs":
        is_cast = _CAST_TO_ITSELF.search(text)
        return "illegal cast" if is_cast else "not run by the reference model"
    verdict = _verdict(results, expected)
    is_wrapped = verdict.endswith("off") and _WRAPPING_CAST.search(text)
    return "wraps" if is_wrapped else verdict


def outcome_of(mlir: Mlir, tools: TosaTools, case: Case) -> Outcome:
    """Convert and evaluate a case."""
    file = write_model(model_of(case))
    is_meant = group_of(case) in FALLBACKS
    expected = _expected(case, is_meant=is_meant)
    public = modelled = "skipped"
    if tools.are_installed:
        public = _public(tools, case, file, expected)
    try:
        module = converted(case, "on")
    except PassFailedException as error:
        return Outcome(case.name, str(error), "refused", public)
    if tools.are_installed:
        arguments = arguments_of(module, inputs_of(case))
        status, results = tools.call("run", str(module), arguments)
        modelled = _verdict(results, expected) if status == "runs" else str(results)
    answer = validated(mlir, module)
    if not isinstance(answer, Accepted):
        return Outcome(case.name, str(answer), modelled, public)
    try:
        lowered = _verdict(run(module, inputs_of(case)), expected)
    except CompilationError:
        lowered = "not lowered by MLIR"
    return Outcome(case.name, lowered, modelled, public)


def _outcomes(numbers: Sequence[int]) -> Sequence[Outcome]:
    everything = [*cases(), *other_cases()]
    with Mlir() as mlir, TosaTools(TOOLS) as tools:
        return [outcome_of(mlir, tools, everything[number]) for number in numbers]


# The table


def _counted(verdicts: Iterable[str]) -> str:
    """How many cases have each verdict, and how far values are off at most."""
    counts: Counter[str] = Counter()
    units: list[int] = []
    for verdict in verdicts:
        if match := re.fullmatch(r"(\d+) off", verdict):
            units.append(int(match[1]))
        else:
            counts[verdict] += 1
    parts = [f"{count} {verdict}" for verdict, count in sorted(counts.items())]
    if units:
        largest = max(units)
        parts.append(f"{len(units)} off by {'up to ' if largest > 1 else ''}{largest}")
    return ", ".join(parts)


_KINDS = {
    "16": "16 bits",
    "4": "weights of 4 bits",
    "pot": "16 bits with scales that are powers of two",
    "FLOAT32": "`f32`",
}


def table_of(outcomes: Sequence[Outcome]) -> str:
    """The ops of which the public converter does not compute all as expected."""
    groups: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[re.split(r"[ :]", outcome.name)[0]].append(outcome)
    rows: list[str] = []
    equal: list[str] = []
    for group, own in sorted(groups.items()):
        op, _, kind = group.partition("/")
        name = f"`{op.lower()}`" + (f" of {_KINDS.get(kind, kind)}" if kind else "")
        if all(outcome.public in (EQUAL, WITHIN_ONE) for outcome in own):
            equal.append(name)
            continue
        cells = (_counted(o.public for o in own), _counted(o.modelled for o in own))
        rows.append(f"| {name} | {cells[0]} | {cells[1]} |")
    head = "| op | public converter | here |\n|---|---|---|\n"
    others = f"\nBoth compute all models of {', '.join(equal)}.\n"
    return head + "\n".join(rows) + "\n" + others


def table_in_docs() -> str:
    """The table as the docs have it."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def _write(table: str) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table + END + rest.partition(END)[2])


# The command


NOT_LOWERED = "not lowered by MLIR"
RIGHT: Mapping[str, Sequence[str]] = {
    "lowered": (EQUAL, WITHIN_ONE, NOT_LOWERED),
    "modelled": (EQUAL, WITHIN_ONE, "skipped"),
}


def main(args: Sequence[str] | None = None) -> int:
    """The exit code for the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.tosa")
    parser.add_argument("--ops", help="separated by ','")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--write", action="store_true", help="write the table")
    options = parser.parse_args(args)
    if not TOOLS.exists():
        print("skipped: TOSA's reference model and the public converter, which")
        print("         'make tosa-tools' installs")
    ops = options.ops.split(",") if options.ops else None
    numbers = [
        number
        for number, case in enumerate([*cases(), *other_cases()])
        if ops is None or case.op in ops
    ]
    jobs = min(options.jobs, len(numbers))
    # Compilers have threads, which a fork would not copy.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        parts = pool.map(_outcomes, [numbers[job::jobs] for job in range(jobs)])
        outcomes = [outcome for part in parts for outcome in part]
    failures = 0
    for way, right in RIGHT.items():
        verdict_of = partial(_attribute, way)
        print(f"{way}: {_counted(map(verdict_of, outcomes))}")
        for outcome in outcomes:
            if verdict_of(outcome) not in right:
                print(f"    {outcome.name}: {verdict_of(outcome)}")
                failures += 1
    print(f"public converter: {_counted(o.public for o in outcomes)}")
    if ops is None and TOOLS.exists():
        table = table_of(outcomes)
        if options.write:
            _write(table)
        elif table != table_in_docs():
            print("the table of docs/measured/tosa.md is another one: run with --write")
            failures += 1
    return 1 if failures else 0


def _attribute(name: str, outcome: Outcome) -> str:
    return getattr(outcome, name)


if __name__ == "__main__":
    sys.exit(main())
