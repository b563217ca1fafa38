"""Claims about all inputs, and their verdicts."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from xdsl.dialects.builtin import AnyFloat, BFloat16Type, f32, i1
from xdsl.ir import Attribute

from .scalars import Number
from .terms import UNSIGNED, Answer, Term, Terms, bit_count

Verdict = Literal["proved", "refuted", "unknown"]


@dataclass(frozen=True)
class Theorem:
    """Claim about all inputs, and its verdict."""

    claim: str
    verdict: Verdict

    method: str
    """Method of the proof: `solver`, `exact bounds`, or the number of inputs tried."""

    seconds: float

    details: str = ""
    """Counterexample, reason for an unknown verdict, or bounds of an accumulator."""

    command: str = ""
    """Shell command that runs the counterexample; empty if there is none."""

    inputs: Sequence[str] | None = None
    """Options of `xdsl-quant run` that pass the counterexample, or `None`."""

    def __str__(self) -> str:
        """Return e.g. `proved: qcast(x) is defined for all x (solver, 0.1 s)`."""
        details = f": {self.details}" if self.details else ""
        lines = [
            f"{self.verdict}: {self.claim} ({self.method}, {self.seconds:.1f} s){details}"
        ]
        return "\n".join([*lines, *([self.command] if self.command else [])])


class NamedTerm(NamedTuple):
    """Named value to print for a counterexample."""

    name: str
    type: Attribute
    term: Term


class Demonstration(NamedTuple):
    """Module that demonstrates a counterexample."""

    text: str
    """Text of a module whose function takes one argument."""

    options: str
    """Further options of `xdsl-quant run`, e.g. `-p` and a pipeline."""

    def command(self, argument: object) -> str:
        return (
            f"echo {shlex.quote(self.text)} | xdsl-quant run - --input={argument} "
            f"{self.options}"
        )


class CompiledDemonstration(NamedTuple):
    """Module that demonstrates a counterexample in compiled code."""

    text: str
    """Text of a module whose function takes one scalar."""

    options: Mapping[str, object]
    """Further arguments of [`compile`][xdsl_quant.execution.compile]."""

    def command(self, argument: object) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        number = argument if isinstance(argument, int) else f"float({str(argument)!r})"
        code = (
            "from xdsl_quant.execution import compile; "
            f"print(compile({self.text!r}{options})({number}))"
        )
        return f"python -c {shlex.quote(code)}"


def printed_terms(
    terms: Terms, type_: Attribute, found: Number, expected: Term | None = None
) -> Sequence[NamedTerm]:
    """Return the terms to print: result, whether it is defined, expected result."""
    one, zero = (terms.of_bits(i1, bit) for bit in (1, 0))
    values = [
        NamedTerm("found", type_, found.term),
        NamedTerm("is defined", i1, terms.choice(found.is_defined, one, zero)),
    ]
    return (
        values
        if expected is None
        else [*values, NamedTerm("expected", type_, expected)]
    )


def proved_or_unknown(claim: str, answer: Answer, seconds: float) -> Theorem | None:
    """Return the theorem for an answer; `None` if the answer is a counterexample."""
    if answer.verdict == "holds":
        return Theorem(claim, "proved", "solver", answer.seconds)
    if answer.verdict == "unknown":
        details = f"the solver found no answer in {seconds:g} s"
        return Theorem(claim, "unknown", "solver", answer.seconds, details)
    return None


def decide_claim(
    terms: Terms,
    claim: str,
    condition: Term,
    values: Sequence[NamedTerm],
    seconds: float,
    show: Callable[[Mapping[str, float | str]], str] | None = None,
) -> Theorem:
    """
    Decide a claim with the solver.

    Args:
        terms: factory that built the condition.
        claim: text of the claim.
        condition: claim as a term.
        values: values to print for a counterexample, the input first.
        seconds: time limit.
        show: returns the command for a counterexample, given values by name.
    """
    answer = terms.counterexample(condition, [v.term for v in values], seconds)
    if (theorem := proved_or_unknown(claim, answer, seconds)) is not None:
        return theorem
    found = {
        value.name: decode_bits(value.type, bits)
        for value, bits in zip(values, answer.values, strict=True)
    }
    if not found.pop("is defined", 1):
        found["found"] = "undefined"
    return Theorem(
        claim,
        "refuted",
        "solver",
        answer.seconds,
        ", ".join(f"{name} = {value}" for name, value in found.items()),
        "" if show is None else show(found),
    )


def decode_bits(type_: Attribute, bits: int) -> float | str:
    """Return the number with the given bits: a float for float types, else an `int`."""
    if isinstance(type_, BFloat16Type):
        # Terms of bf16 are f32.
        type_ = f32
    if isinstance(type_, AnyFloat):
        data = bits.to_bytes(bit_count(type_) // 8, "little")
        (value,) = type_.unpack(data, 1)
        return value
    width = bit_count(type_)
    is_signed = type_ != i1 and getattr(type_, "signedness", None) != UNSIGNED
    return bits - (1 << width) if is_signed and bits >> width - 1 else bits
