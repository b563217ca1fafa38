"""Claims about all inputs, and what became of them."""

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
    """A claim about all inputs, and whether it holds."""

    claim: str
    verdict: Verdict

    method: str
    """How it was decided: by the solver, or by trying so many inputs."""

    seconds: float

    details: str = ""
    """The inputs for which it does not hold; or what was too hard."""

    command: str = ""
    """A shell command that shows what they give."""

    inputs: Sequence[str] | None = None
    """
    The options of `xdsl-quant-run` for them, if a claim is about a function with these
    arguments and it does not hold.
    """

    def __str__(self) -> str:
        """E.g. `proved: qcast(x) is defined for all x (solver, 0.1 s)`."""
        details = f": {self.details}" if self.details else ""
        lines = [
            f"{self.verdict}: {self.claim} ({self.method}, {self.seconds:.1f} s){details}"
        ]
        return "\n".join([*lines, *([self.command] if self.command else [])])


class Witness(NamedTuple):
    """What a claim is about, and a counterexample tells."""

    name: str
    type: Attribute
    term: Term


class Show(NamedTuple):
    """What shows a counterexample."""

    text: str
    """A module with a function of one input."""

    options: str
    """What `xdsl-quant-run` is given beside the input, e.g. `-p` and a pipeline."""

    def command(self, argument: object) -> str:
        """Return the shell command for an input."""
        return (
            f"echo {shlex.quote(self.text)} | xdsl-quant-run - --input={argument} "
            f"{self.options}"
        )


class ShowCompiled(NamedTuple):
    """What shows a counterexample in compiled code."""

    text: str
    """A module with a function of one scalar."""

    options: Mapping[str, object]
    """What [`compile`][xdsl_quant.execution.compile] is given beside the text."""

    def command(self, argument: object) -> str:
        """Return the shell command for an input."""
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        number = argument if isinstance(argument, int) else f"float({str(argument)!r})"
        code = (
            "from xdsl_quant.execution import compile; "
            f"print(compile({self.text!r}{options})({number}))"
        )
        return f"python -c {shlex.quote(code)}"


def results(
    terms: Terms, type_: Attribute, found: Number, expected: Term | None = None
) -> Sequence[Witness]:
    """What there is, whether it is defined, and what there should be."""
    one, zero = (terms.of_bits(i1, bit) for bit in (1, 0))
    values = [
        Witness("found", type_, found.term),
        Witness("is defined", i1, terms.choice(found.is_defined, one, zero)),
    ]
    return (
        values if expected is None else [*values, Witness("expected", type_, expected)]
    )


def proved_or_unknown(claim: str, answer: Answer, seconds: float) -> Theorem | None:
    """
    Return the theorem for an answer of the solver; `None` if it is a counterexample.
    """
    if answer.verdict == "holds":
        return Theorem(claim, "proved", "solver", answer.seconds)
    if answer.verdict == "unknown":
        details = f"the solver has found nothing in {seconds:g} s"
        return Theorem(claim, "unknown", "solver", answer.seconds, details)
    return None


def decided(
    terms: Terms,
    claim: str,
    condition: Term,
    values: Sequence[Witness],
    seconds: float,
    show: Callable[[Mapping[str, float | str]], str] | None = None,
) -> Theorem:
    """
    Ask the solver.

    Args:
        terms: has made the condition.
        claim: what is claimed, for a person.
        condition: the same as a term.
        values: what a counterexample tells, the input first.
        seconds: how long it may take.
        show: gives the command that shows a counterexample, which maps names to values.
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
    """
    Return the number of a type with these bits: an `int` unless the type is a float
    one.
    """
    if isinstance(type_, BFloat16Type):
        # Its terms are those of f32.
        type_ = f32
    if isinstance(type_, AnyFloat):
        data = bits.to_bytes(bit_count(type_) // 8, "little")
        (value,) = type_.unpack(data, 1)
        return value
    width = bit_count(type_)
    is_signed = type_ != i1 and getattr(type_, "signedness", None) != UNSIGNED
    return bits - (1 << width) if is_signed and bits >> width - 1 else bits
