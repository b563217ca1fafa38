"""
Prove what holds of casts of many types and options, and print a table: how many claims are
proved, and how long that took.

Each pair of two values of `OPTIONS` occurs. What is not proved must have a reason in
`reason`: anything else is a mistake, and the exit code is 1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tests.proving.pairs import Choice, all_pairs
from xdsl_quant.diagnostics import table
from xdsl_quant.proving import CastProver, Theorem, provers
from xdsl_quant.proving.terms import float_sizes
from xdsl_quant.rounding_mode import Rounding

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
        return "too hard for the solver in a minute"
    if cast.rounding.mode == "truncate" and claim.startswith("qcast(x) is defined"):
        return "truncation is undefined for what does not fit, as in MLIR"
    if claim.startswith("qcast(dcast(q))"):
        if cast.rounding.mode == "truncate":
            return "a quotient less than an integer is truncated to the one below"
        sizes = float_sizes(cast.expressed)
        assert sizes is not None
        if (
            max(abs(bound - cast.zero_point) for bound in cast.bounds)
            > 2 ** sizes[1] // 4
        ):
            return "stored values have more digits than expressed ones"
    return ""


def theorems_of(choice: Choice) -> Sequence[tuple[Theorem, str, str]]:
    """All claims for a choice, whose they are, and why they are not proved."""
    prover = prover_of(choice)
    found = [*prover.theorems()]
    is_small = choice["expressed"] != "f32"
    if choice["mode"] != "truncate" and (is_small or choice["storage"] == "i8"):
        found += prover.all_inputs()
    name = f"{prover.cast.type}, {prover.passes.partition(',')[0]}"
    return [
        (t, name, "" if t.verdict == "proved" else reason(prover, t)) for t in found
    ]


def main() -> int:
    """The exit code: 1 if a claim is not proved without a reason."""
    choices = all_pairs(OPTIONS, is_valid)
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        results = [r for some in executor.map(theorems_of, choices) for r in some]
    print(f"{len(choices)} types with options, {len(results)} claims\n")
    rows: list[tuple[str, ...]] = [
        ("claim", "proved", "refuted", "unknown", "seconds", "longest")
    ]
    claims = {theorem.claim: theorem for theorem, _, _ in results}
    for claim in claims:
        some = [theorem for theorem, _, _ in results if theorem.claim == claim]
        verdicts = [theorem.verdict for theorem in some]
        seconds = [theorem.seconds for theorem in some]
        rows.append(
            (
                claim,
                *(str(verdicts.count(v)) for v in ("proved", "refuted", "unknown")),
                f"{sum(seconds):.1f}",
                f"{max(seconds):.1f}",
            )
        )
    print("\n".join(table(rows)))
    reasons = [why for theorem, _, why in results if theorem.verdict != "proved"]
    print("\nnot proved:")
    for why in sorted({*reasons} - {""}):
        print(f"  {reasons.count(why)}: {why}")
    unexplained = [
        f"{name}\n  {theorem}"
        for theorem, name, why in results
        if theorem.verdict != "proved" and not why
    ]
    print(f"  {len(unexplained)}: without a reason")
    print("\n".join(unexplained))
    return bool(unexplained)


if __name__ == "__main__":
    sys.exit(main())
