"""
Hold generated inputs against real MLIR for as long as one likes.

    python -m tests.conformance.fuzz --seconds 600 --seed 1
    python -m tests.conformance.fuzz --release 24

The inputs and checks are those of the tests. The exit code is 1 if there was a difference
that is not in the table of deliberate ones; each is printed with a small reproduction.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeAlias

from .checks import Conformance, Mismatch
from .differences import PassName, Subject
from .function_texts import function_text, main_function_text
from .minimize import minimized
from .op_texts import main_op_text, op_text
from .real_mlir import PYTHON_24, Mlir, Release, mlir_24
from .type_texts import main_type_text, type_text

_Round: TypeAlias = Sequence[tuple[int, tuple[Subject, ...], Callable[[Random], str]]]
"""How many texts of each kind there are in a round, and what is done with each."""

_ROUND: _Round = (
    (60, ("type",), type_text),
    (10, ("op",), op_text),
    (
        2,
        ("lower-quant-ops", "strip-func-quant-types", "normalize-quant-types"),
        function_text,
    ),
)

PASSES_OF_MAIN: tuple[PassName, ...] = (
    "strip-func-quant-types",
    "normalize-quant-types",
)
"""The passes of MLIR that work with its new storage types; it lowers none of them."""

_ROUND_OF_MAIN: _Round = (
    *_ROUND,
    (30, ("type",), main_type_text),
    (5, ("op",), main_op_text),
    (1, PASSES_OF_MAIN, main_function_text),
)


def _inputs(rng: Random, release: Release) -> Iterator[tuple[Subject, str]]:
    while True:
        for count, subjects, generate in _ROUND if release == 22 else _ROUND_OF_MAIN:
            for _ in range(count):
                text = generate(rng)
                for subject in subjects:
                    yield subject, text


def _kinds(found: Mismatch) -> tuple[type, type]:
    return type(found.comparison.mlir), type(found.comparison.ours)


def _reproduction(conformance: Conformance, subject: Subject, found: Mismatch) -> str:
    """The smallest text at hand that is wrong in the same way."""
    kinds = _kinds(found)

    def is_wrong(text: str) -> bool:
        mismatch = conformance.check(subject, text)
        return mismatch is not None and _kinds(mismatch) == kinds

    return minimized(found.comparison.text, is_wrong)


def _report(conformance: Conformance, seconds: float) -> None:
    total = sum(conformance.inputs.values())
    print(f"\n{total} inputs in {seconds:.0f} s")
    for subject, count in conformance.inputs.items():
        print(f"  {count:9} {subject}")
    print("\nOutcomes")
    for outcome, count in sorted(conformance.outcomes.items()):
        print(f"  {count:9} {outcome}")


def fuzz(seconds: float, seed: int, release: Release) -> int:
    """Run checks for some seconds; the number of unexplained differences."""
    reproductions: set[str] = set()
    start = time.perf_counter()
    with Mlir() if release == 22 else mlir_24() as mlir:
        conformance, shrinking = Conformance(mlir), Conformance(mlir)
        for subject, text in _inputs(Random(seed), release):
            if time.perf_counter() - start > seconds:
                break
            if (mismatch := conformance.check(subject, text)) is None:
                continue
            small = _reproduction(shrinking, subject, mismatch)
            if small not in reproductions:
                reproductions.add(small)
                print(shrinking.check(subject, small) or mismatch, flush=True)
    _report(conformance, time.perf_counter() - start)
    print(
        f"\n{len(reproductions)} unexplained differences from MLIR {release}, seed {seed}"
    )
    return len(reproductions)


def main(args: Sequence[str] | None = None) -> int:
    """The exit code for the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.fuzz")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--release", type=int, choices=(22, 24), default=22)
    options = parser.parse_args(args)
    if options.release == 24 and not PYTHON_24.exists():
        parser.error("missing MLIR 24; run `make mlir24`")
    return 1 if fuzz(options.seconds, options.seed, options.release) else 0


if __name__ == "__main__":
    sys.exit(main())
