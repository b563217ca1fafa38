"""
Terms of the theories of bit-vectors and floats, for the SMT solver Bitwuzla.

Importing this module fails without the extra `prove`.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from threading import current_thread, main_thread
from typing import Literal, Protocol, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
    SignednessAttr,
    f32,
)
from xdsl.ir import Attribute

from xdsl_quant.diagnostics import shortened_message
from xdsl_quant.dialects.quant.types import StoredQuantizedType
from xdsl_quant.runtime.extras import missing_package

# Types of the part of Bitwuzla used here: its bindings have no annotations.


class Term(Protocol):
    """Term of Bitwuzla."""

    def is_value(self) -> bool: ...

    def value(self, base: int) -> Sequence[str]: ...


class _TermManager(Protocol):
    def mk_term(
        self, kind: object, terms: Sequence[Term], indices: Sequence[int]
    ) -> Term: ...
    def mk_rm_value(self, mode: object) -> Term: ...
    def mk_true(self) -> Term: ...
    def mk_bv_sort(self, width: int) -> object: ...
    def mk_const(self, sort: object, name: str) -> Term: ...
    def mk_bv_value(self, sort: object, value: int) -> Term: ...
    def substitute_term(self, term: Term, values: dict[Term, Term]) -> Term: ...


class _Options(Protocol):
    def set(self, option: object, value: int) -> None: ...


class _Solver(Protocol):
    def simplify_term(self, term: Term) -> Term: ...
    def assert_formula(self, condition: Term) -> None: ...
    def check_sat(self) -> object: ...
    def get_value(self, term: Term) -> Term: ...
    def configure_terminator(self, is_over: Callable[[], bool]) -> None: ...


class _Bitwuzla(Protocol):
    Kind: Mapping[str, object]
    Option: Mapping[str, object]
    Result: Mapping[str, object]
    RoundingMode: Mapping[str, object]

    def TermManager(self) -> _TermManager: ...
    def Options(self) -> _Options: ...
    def Bitwuzla(
        self, manager: _TermManager, options: _Options | None = None
    ) -> _Solver: ...


try:
    bitwuzla = cast(_Bitwuzla, import_module("bitwuzla"))
except ImportError:
    raise missing_package("proving", "Bitwuzla", "prove") from None

_ANY_TIME = 1e6
"""Time limit in seconds, large enough never to be reached."""

RoundingName = Literal["RNE", "RNA", "RTN", "RTP", "RTZ"]
"""Rounding to nearest even, to nearest away from zero, down, up, and toward zero."""

FLOAT_SIZES: Mapping[type[AnyFloat], tuple[int, int]] = {
    Float16Type: (5, 11),
    BFloat16Type: (8, 8),
    Float32Type: (8, 24),
    Float64Type: (11, 53),
}
"""Bit counts of the exponent and of the significand (with its leading bit)."""


UNSIGNED = SignednessAttr(Signedness.UNSIGNED)


class UnsupportedError(Exception):
    """Raised when a proof does not support an op or a type; the message says why."""

    def __init__(self, message: str):
        super().__init__(shortened_message(message))


def int_width(type_: Attribute) -> int:
    """
    Return the width of an integer type.

    Raises:
        UnsupportedError: if the type is not an integer or `index`.
    """
    if isinstance(type_, IntegerType):
        return cast(IntegerType, type_).width.data
    if isinstance(type_, IndexType):
        return 64
    raise UnsupportedError(
        f"'{type_}' is unsupported in proofs, expected an integer, f16, bf16, f32 or f64"
    )


def stored_integer(type_: StoredQuantizedType) -> IntegerType:
    """Return the storage type, with signedness."""
    signedness = Signedness.SIGNLESS if type_.is_signed else Signedness.UNSIGNED
    return IntegerType(type_.storage_type_integral_width, signedness)


def float_sizes(type_: Attribute) -> tuple[int, int] | None:
    """Return the entry of `FLOAT_SIZES` for a type; `None` if it is not a float."""
    for float_type, sizes in FLOAT_SIZES.items():
        if isinstance(type_, float_type):
            return sizes
    return None


def bit_count(type_: Attribute) -> int:
    """Return the width of an integer or float type in bits."""
    sizes = float_sizes(type_)
    return sum(sizes) if sizes else int_width(type_)


def _term_sizes(type_: Attribute) -> tuple[int, int] | None:
    """Return the `float_sizes` of the term for a type: those of f32 for bf16."""
    # The solver does not support bf16, a subset of f32.
    return (8, 24) if isinstance(type_, BFloat16Type) else float_sizes(type_)


@dataclass(eq=False)
class Terms:
    """
    Factory of terms, and interface to the solver.

    A term of type bf16 is an f32 whose last 16 bits are 0.
    """

    _manager: _TermManager = field(default_factory=bitwuzla.TermManager)

    _assumed: list[Term] = field(default_factory=list[Term])
    """Assumptions about symbols that stand for the bits of floats."""

    _open: dict[str, Term] = field(default_factory=dict[str, Term])
    """Conditions that `open_bit` returned, by name."""

    _not_zero: set[Term] = field(default_factory=set[Term])
    """Float constants other than 0.0 and -0.0."""

    # Building terms

    def op(self, kind: str, *operands: Term, indices: Sequence[int] = ()) -> Term:
        """Build an SMT-LIB operation; `kind` is its name in Bitwuzla."""
        return self._manager.mk_term(bitwuzla.Kind[kind], [*operands], [*indices])

    def rounding(self, name: RoundingName) -> Term:
        return self._manager.mk_rm_value(bitwuzla.RoundingMode[name])

    def symbol(self, type_: Attribute, name: str) -> Term:
        """Build a symbol: an arbitrary value of a type."""
        return self.from_bits(type_, self._bit_symbol(bit_count(type_), name))

    def of_bits(self, type_: Attribute, bits: int) -> Term:
        """Return a constant with the given bits."""
        width = bit_count(type_)
        term = self.from_bits(type_, self._bits(width, bits))
        if float_sizes(type_) and bits % (1 << width - 1):
            self._not_zero.add(term)
        return term

    def may_be_zero(self, value: Term) -> bool:
        """Return False if a float is a nonzero constant."""
        return value not in self._not_zero

    def open_bit(self, name: str) -> Term:
        """Return a condition whose truth the solver chooses; one for each name."""
        if (known := self._open.get(name)) is None:
            bit = self._bit_symbol(1, name)
            known = self._open[name] = self.equal(bit, self._bits(1, 1))
        return known

    def _bit_symbol(self, width: int, name: str) -> Term:
        return self._manager.mk_const(self._manager.mk_bv_sort(width), name)

    def _bits(self, width: int, bits: int) -> Term:
        sort = self._manager.mk_bv_sort(width)
        return self._manager.mk_bv_value(sort, bits % (1 << width))

    def from_bits(self, type_: Attribute, bits: Term) -> Term:
        """Return the value of a type with the given bits."""
        if isinstance(type_, BFloat16Type):
            bits = self.op("BV_CONCAT", bits, self._bits(16, 0))
        if sizes := _term_sizes(type_):
            return self.op("FP_TO_FP_FROM_BV", bits, indices=sizes)
        return bits

    def rounded(
        self,
        kind: str,
        type_: Attribute,
        *operands: Term,
        direction: RoundingName = "RNE",
    ) -> Term:
        """Build a float operation with rounding to a type."""
        if not isinstance(type_, BFloat16Type):
            return self.op(kind, self.rounding(direction), *operands)
        if kind == "FP_FMA":
            return self._to_bf16_once(kind, *operands)
        # Sums, products, quotients and square roots do not change if they are rounded
        # to f32 first.
        return self._to_bf16(self.op(kind, self.rounding(direction), *operands))

    def convert(self, source: Attribute, target: Attribute, value: Term) -> Term:
        """
        Convert a float or an integer (signed unless its type is unsigned) to a float.

        Raises:
            UnsupportedError: if the target is not a float type that proofs support.
        """
        if (sizes := _term_sizes(target)) is None:
            raise UnsupportedError(
                f"'{target}' is unsupported in proofs, expected a float type"
            )
        kind = "FP_TO_FP_FROM_FP"
        if float_sizes(source) is None:
            is_unsigned = getattr(source, "signedness", None) == UNSIGNED
            kind = "FP_TO_FP_FROM_UBV" if is_unsigned else "FP_TO_FP_FROM_SBV"
        if not isinstance(target, BFloat16Type) or isinstance(source, BFloat16Type):
            return self.op(kind, self.rounding("RNE"), value, indices=sizes)
        return self._to_bf16_once(kind, value, indices=sizes)

    def _to_bf16_once(
        self, kind: str, *operands: Term, indices: Sequence[int] = ()
    ) -> Term:
        """Build an operation rounded once, to the nearest bf16."""
        # Rounding to odd in f32 avoids double rounding.
        down, up, found = (
            self.op(kind, self.rounding(direction), *operands, indices=indices)
            for direction in ("RTN", "RTP", "RTZ")
        )
        one, zero = self._bits(32, 1), self._bits(32, 0)
        is_exact = self.equal(down, up)
        return self._to_bf16(found, self.choice(is_exact, zero, one))

    def _to_bf16(self, value: Term, odd: Term | None = None) -> Term:
        """Set the last bit of an f32 if `odd` is 1, then round to the nearest bf16."""
        bits = self._bit_symbol(32, f"bits{len(self._assumed)}")
        self._assumed.append(self.equal(self.from_bits(f32, bits), value))
        if odd is not None:
            bits = self.op("BV_OR", bits, odd)
        shifted = self.op("BV_SHR", bits, self._bits(32, 16))
        last = self.op("BV_AND", shifted, self._bits(32, 1))
        half = self.op("BV_ADD", self._bits(32, 0x7FFF), last)
        high = self.op("BV_ADD", bits, half)
        found = self.op("BV_AND", high, self._bits(32, 0xFFFF0000))
        return self.choice(
            self.op("FP_IS_NAN", value), value, self.from_bits(f32, found)
        )

    def true(self) -> Term:
        return self._manager.mk_true()

    def all(self, *conditions: Term) -> Term:
        """Return the conjunction of conditions."""
        if len(conditions) < 2:
            return conditions[0] if conditions else self.true()
        return self.op("AND", *conditions)

    def negation(self, condition: Term) -> Term:
        return self.op("NOT", condition)

    def choice(self, condition: Term, then: Term, otherwise: Term) -> Term:
        return self.op("ITE", condition, then, otherwise)

    def equal(self, first: Term, second: Term) -> Term:
        """Return the condition that two terms are equal; any two NaNs are equal."""
        return self.op("EQUAL", first, second)

    def evaluate(self, term: Term, values: Mapping[Term, Term]) -> int:
        """Return the bits of a term, given the values of its symbols."""
        changed = self._manager.substitute_term(term, dict(values))
        found = bitwuzla.Bitwuzla(self._manager).simplify_term(changed)
        if found.is_value():
            return bits_of_value(found)
        # The term still has symbols that stand for the bits of floats.
        known = [self.equal(*pair) for pair in values.items()]
        differs = self.negation(self.all(*known))
        return self.counterexample(differs, [term], _ANY_TIME).values[0]

    # Solving

    def counterexample(
        self, claim: Term, symbols: Sequence[Term], seconds: float
    ) -> Answer:
        """
        Search for values that make a claim false.

        Args:
            claim: condition.
            symbols: terms whose values are returned.
            seconds: time limit.
        """
        options = bitwuzla.Options()
        options.set(bitwuzla.Option["PRODUCE_MODELS"], True)
        # A limit of 0 means no limit.
        limit = max(1, round(1000 * seconds))
        options.set(bitwuzla.Option["TIME_LIMIT_PER"], limit)
        solver = bitwuzla.Bitwuzla(self._manager, options)
        for condition in (*self._assumed, self.negation(claim)):
            solver.assert_formula(condition)
        start = time.perf_counter()
        with _interruptible(solver):
            found = solver.check_sat()
        taken = time.perf_counter() - start
        if found == bitwuzla.Result["UNSAT"]:
            return Answer("holds", taken)
        if found != bitwuzla.Result["SAT"]:
            return Answer("unknown", taken)
        values = [bits_of_value(solver.get_value(symbol)) for symbol in symbols]
        return Answer("fails", taken, values)


@dataclass(frozen=True)
class WideIntegers:
    """Builder of terms for signed integers, wide enough never to overflow."""

    terms: Terms

    width: int

    def constant(self, value: int) -> Term:
        return self.terms.of_bits(IntegerType(self.width), value)

    def extend(self, value: Term, width: int, *, is_unsigned: bool) -> Term:
        """Extend an integer of `width` bits to the width of this class."""
        kind = "BV_ZERO_EXTEND" if is_unsigned else "BV_SIGN_EXTEND"
        return self.terms.op(kind, value, indices=[self.width - width])

    def lies_in(self, value: Term, low: int, high: int) -> Term:
        """Return the condition `low <= value <= high`."""
        return self.terms.all(
            self.terms.op("BV_SGE", value, self.constant(low)),
            self.terms.op("BV_SLE", value, self.constant(high)),
        )


@contextmanager
def _interruptible(solver: _Solver) -> Generator[None]:
    """Stop the solver at Ctrl-C, which Python notices when the solver calls back."""
    if current_thread() is not main_thread():
        yield
        return
    is_interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True

    solver.configure_terminator(lambda: is_interrupted)
    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if is_interrupted:
        signal.raise_signal(signal.SIGINT)


@dataclass(frozen=True)
class Answer:
    """Answer of the solver to a claim."""

    verdict: Literal["holds", "fails", "unknown"]

    seconds: float

    values: Sequence[int] = ()
    """Bits of each symbol in a counterexample."""


def bits_of_value(value: Term) -> int:
    # The text of a float has three parts: sign, exponent and significand.
    return int("".join(value.value(2)), 2)
