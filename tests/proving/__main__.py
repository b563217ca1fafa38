"""
Prove what holds of casts of many types and options, and of passes, and print tables: how
many claims are proved, and how long that took.

Of casts, each pair of two values of `OPTIONS` occurs. What is not proved must have a
reason: anything else is a mistake, and the exit code is 1. Arguments are the tables that
are printed, by default all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from itertools import product
from typing import Any, NamedTuple, cast, get_args

from tests.proving.floats import CONVERSIONS, differences
from tests.proving.kernel_mutants import LINALG, STABLEHLO, TOSA, module
from tests.proving.kernels import KERNELS, all_distances
from tests.proving.pairs import Choice, all_pairs
from tests.proving.passes import INSTANCES, Instance
from tests.proving.pushed import SEEDS, theorem
from tests.proving.scales import SHIFTS, ScaleProver
from xdsl_quant.diagnostics import table
from xdsl_quant.proving import CastProver, RequantizationProver, Theorem, provers
from xdsl_quant.proving.kernels import cut_kernels, prove_kernel
from xdsl_quant.proving.terms import float_sizes
from xdsl_quant.rounding_mode import Rounding, ScaleRounding
from xdsl_quant.runtime.loading import parse_type

OPTIONS: Mapping[str, Sequence[Any]] = {
    "mode": ("truncate", "nearest-even", "nearest-away"),
    "order": ("before-rounding", "after-rounding"),
    "nan": ("storage-min", "stored-zero"),
    "fuse": (False, True),
    "storage": ("i2", "i4", "i8", "i8<-127:127>", "u8", "i16", "i32"),
    "expressed": ("f16", "bf16", "f32"),
    "zero_point": ("0", "1", "least", "most"),
    "scale": (0.25, 0.3, 1.7, 1e-4),
}

SECONDS = 60
"""How long the solver may take for a claim."""


def is_valid(choice: Choice) -> bool:
    """Whether there is such a rounding."""
    return choice["mode"] != "truncate" or choice["order"] == "before-rounding"


def prover_of(choice: Choice) -> CastProver:
    """What proves the claims for a choice."""
    storage, expressed = choice["storage"], choice["expressed"]
    (plain,) = provers(f"!quant.uniform<{storage}:{expressed}, 1.0>")
    low, high = plain.cast.bounds
    zero_point = {"least": low, "most": high}.get(choice["zero_point"])
    if zero_point is None:
        zero_point = int(choice["zero_point"])
    text = f"!quant.uniform<{storage}:{expressed}, {choice['scale']}:{zero_point}>"
    rounding = Rounding(choice["mode"], choice["order"], choice["nan"])
    (prover,) = provers(text, rounding, fuse=choice["fuse"], seconds=SECONDS)
    return prover


def reason(prover: CastProver, theorem: Theorem) -> str:
    """Why a claim is not proved; empty if there is no reason."""
    cast, claim = prover.cast, theorem.claim
    if theorem.verdict == "unknown":
        return "the solver exceeds a minute"
    if cast.rounding.mode == "truncate" and claim.startswith("qcast(x) is defined"):
        return "truncate: values out of range are undefined, as in MLIR"
    if claim.startswith("qcast(dcast(q))"):
        if cast.rounding.mode == "truncate":
            return (
                "truncate: a quotient just below an integer becomes the next lower one"
            )
        sizes = float_sizes(cast.expressed)
        assert sizes is not None
        if (
            max(abs(bound - cast.zero_point) for bound in cast.bounds)
            > 2 ** sizes[1] // 4
        ):
            return "stored values have more digits than the expressed type"
    return ""


class Result(NamedTuple):
    """A claim in a table."""

    row: str
    theorem: Theorem
    name: str
    """What it is about."""

    reason: str
    """Why it is not proved."""


def about_casts(choice: Choice) -> Sequence[Result]:
    """All claims for a choice."""
    prover = prover_of(choice)
    found = [*prover.theorems()]
    is_small = choice["expressed"] != "f32"
    if choice["mode"] != "truncate" and (is_small or choice["storage"] == "i8"):
        found += prover.all_inputs()
    name = f"{prover.cast.type}, {prover.passes.partition(',')[0]}"
    return [
        Result(t.claim, t, name, "" if t.verdict == "proved" else reason(prover, t))
        for t in found
    ]


def about_passes(instance: Instance) -> Sequence[Result]:
    """The claim for a module."""
    theorem = instance.theorem()
    why = instance.reason
    if theorem.verdict == "unknown":
        why = "the solver exceeds a minute"
    return [
        Result(instance.family, theorem, f"{instance.text}\n{instance.passes}", why)
    ]


def about_scales(shift: int) -> Sequence[Result]:
    """The claims for a shift."""
    found = ScaleProver(shift).theorems()
    return [Result(t.claim, t, f"shift {shift}", "") for t in found]


def about_pushed_rescales(seed: int) -> Sequence[Result]:
    """The claim for a random program."""
    found = theorem(seed)
    is_open = found.verdict == "unknown"
    why = "the program multiplies a value that may differ" if is_open else ""
    return [Result(found.claim, found, f"seed {seed}", why)]


REQUANTIZATIONS = [
    (f"{source}:f32, 1518500250p-{shift}:101", f"{target}:f32, 1173741824p-44:13", mode)
    for source, target in product(
        ("i8", "u8", "i16", "u16<100:60000>", "i32"), repeat=2
    )
    for shift in (33, 40, 47, 54)
    for mode in get_args(ScaleRounding)
]
"""Types between which values are requantized, and how they are rounded."""


def about_requantization(subject: tuple[str, str, ScaleRounding]) -> Sequence[Result]:
    """The claim for two types."""
    *texts, mode = subject
    source, target = (
        cast(Any, parse_type)(f"!quant.fixed_point<{text}>") for text in texts
    )
    prover = RequantizationProver(source, target, mode, SECONDS)
    return [Result(t.claim, t, f"{source} to {target}", "") for t in prover.theorems()]


PIPELINES = {"linalg": LINALG, "TOSA": TOSA, "StableHLO": STABLEHLO}
"""Pipelines of a model with a kernel of each form, by the dialect of their code."""


def about_pipelines(subject: tuple[str, int]) -> Sequence[Result]:
    """The claim for a pipeline and a kernel."""
    dialect, index = subject
    kernel = [*cut_kernels(module())][index]
    theorem = prove_kernel(kernel, PIPELINES[dialect])
    why = ""
    if theorem.verdict == "refuted" and theorem.details.startswith("at most 1 unit"):
        why = "the code rounds in another way"
    return [Result(f"{kernel.op.name} in {dialect}", theorem, kernel.name, why)]


TABLES: Mapping[str, tuple[Callable[[Any], Sequence[Result]], Sequence[Any]]] = {
    "casts": (about_casts, all_pairs(OPTIONS, is_valid)),
    "passes": (about_passes, INSTANCES),
    "shifts": (about_scales, SHIFTS),
    "requantization": (about_requantization, REQUANTIZATIONS),
    "pushed": (about_pushed_rescales, SEEDS),
    "pipelines": (about_pipelines, [*product(PIPELINES, range(9))]),
}
"""What makes the rows of each table, and of what."""


def summary(results: Sequence[Result]) -> bool:
    """Print a table; whether all that is not proved has a reason."""
    rows: list[tuple[str, ...]] = [
        ("claim", "proved", "refuted", "unknown", "seconds", "longest")
    ]
    for row in dict.fromkeys(result.row for result in results):
        some = [result.theorem for result in results if result.row == row]
        verdicts = [theorem.verdict for theorem in some]
        seconds = [theorem.seconds for theorem in some]
        rows.append(
            (
                row,
                *(str(verdicts.count(v)) for v in ("proved", "refuted", "unknown")),
                f"{sum(seconds):.1f}",
                f"{max(seconds):.1f}",
            )
        )
    print("\n".join(table(rows)))
    is_open = [result for result in results if result.theorem.verdict != "proved"]
    if is_open:
        print("\nnot proved:")
    for why in sorted({result.reason for result in is_open} - {""}):
        some = [result for result in is_open if result.reason == why]
        example = filter(None, (some[0].row, some[0].theorem.details))
        print(f"  {len(some)}: {why}; {', '.join(example)}")
    unexplained = [result for result in is_open if not result.reason]
    if unexplained:
        print(f"  {len(unexplained)}: without a reason")
    for result in unexplained:
        print(f"{result.name}\n  {result.theorem}")
    return not unexplained


def about_kernels(index: int) -> tuple[Sequence[str], bool]:
    """A row of the table of kernels, and whether its bound holds."""
    dialect, kernel = KERNELS[index]
    found, draw = all_distances(dialect, kernel)
    is_near = found.largest <= kernel.bound
    row = [
        f"{dialect}.{kernel.title}",
        f"{found.inputs:,}",
        f"{float(found.largest):.6f}",
        f"{found.misrounded:,}",
        f"{float(kernel.bound):.6f}",
        "" if is_near else f"{draw.operands} {draw.result} {found.worst}",
    ]
    return row, is_near


def kernels(executor: Executor) -> bool:
    """Print how far integer kernels are from what is exact."""
    found = [*executor.map(about_kernels, range(len(KERNELS)))]
    print(f"kernels: {len(found)}\n")
    titles = ["op", "inputs", "largest distance", "misrounded", "bound", ""]
    print("\n".join(table([titles, *(row for row, _ in found)])))
    return all(is_near for _, is_near in found)


def about_floats(index: int) -> tuple[Sequence[str], bool]:
    """A row of the table of conversions to small floats, and whether none differs."""
    format, saturate = CONVERSIONS[index]
    found = differences(format, saturate, 1 << 32)
    name = f"{format.name}{', saturating' if saturate else ''}"
    row = [name, f"{found.inputs:,}", f"{found.different:,}", found.first]
    return row, not found.different


def floats(executor: Executor) -> bool:
    """Print how many inputs become other small floats than with `ml_dtypes`."""
    found = [*executor.map(about_floats, range(len(CONVERSIONS)))]
    print(f"floats: {len(found)} conversions of all f32 inputs\n")
    titles = ["format", "inputs", "different", ""]
    print("\n".join(table([titles, *(row for row, _ in found)])))
    return all(is_same for _, is_same in found)


EXHAUSTIVE = {"kernels": kernels, "floats": floats}
"""What prints the tables in which nothing is proved, but all inputs are tried."""


def main() -> int:
    """The exit code: 1 if a claim is not proved without a reason."""
    names = sys.argv[1:] or [*TABLES, *EXHAUSTIVE]
    are_explained: list[bool] = []
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        for name in names:
            if (tried := EXHAUSTIVE.get(name)) is not None:
                are_explained.append(tried(executor))
                continue
            function, subjects = TABLES[name]
            found = executor.map(function, subjects)
            results = [result for some in found for result in some]
            print(f"{name}: {len(results)} claims, {len(subjects)} cases\n")
            are_explained.append(summary(results))
            print(flush=True)
    return not all(are_explained)


if __name__ == "__main__":
    sys.exit(main())
