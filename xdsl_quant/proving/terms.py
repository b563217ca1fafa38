"""
Terms of the theories of bit-vectors and floats, which the SMT solver Bitwuzla decides.

Importing this fails without the extra `prove`.
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

# The part of Bitwuzla that is used here: its bindings have no annotations.


class Term(Protocol):
    """A term of Bitwuzla."""

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
"""More seconds than anything takes."""

RoundingName = Literal["RNE", "RNA", "RTN", "RTP", "RTZ"]
"""To nearest even, nearest away from zero, down, up, and to zero."""

FLOAT_SIZES: Mapping[type[AnyFloat], tuple[int, int]] = {
    Float16Type: (5, 11),
    BFloat16Type: (8, 8),
    Float32Type: (8, 24),
    Float64Type: (11, 53),
}
"""Bits of the exponent and of the significand, the leading one included."""


UNSIGNED = SignednessAttr(Signedness.UNSIGNED)


class UnsupportedError(Exception):
    """What has no term, explained in one sentence."""

    def __init__(self, message: str):
        super().__init__(shortened_message(message))


def int_width(type_: Attribute) -> int:
    """
    Return the bits of an integer type.

    Raises:
        UnsupportedError: if it is none.
    """
    if isinstance(type_, IntegerType):
        return cast(IntegerType, type_).width.data
    if isinstance(type_, IndexType):
        return 64
    raise UnsupportedError(f"'{type_}' is no type of a number that has terms")


def stored_integer(type_: StoredQuantizedType) -> IntegerType:
    """Return the type of stored values, which says if they are unsigned."""
    signedness = Signedness.SIGNLESS if type_.is_signed else Signedness.UNSIGNED
    return IntegerType(type_.storage_type_integral_width, signedness)


def float_sizes(type_: Attribute) -> tuple[int, int] | None:
    """Return the entry of `FLOAT_SIZES` for a type; `None` if it is no float type."""
    for float_type, sizes in FLOAT_SIZES.items():
        if isinstance(type_, float_type):
            return sizes
    return None


def bit_count(type_: Attribute) -> int:
    """Return the bits of a value of an integer or float type."""
    sizes = float_sizes(type_)
    return sum(sizes) if sizes else int_width(type_)


def _term_sizes(type_: Attribute) -> tuple[int, int] | None:
    """Those of the floats that a value of a type is a term of."""
    # The solver knows no bf16, but each is an f32.
    return (8, 24) if isinstance(type_, BFloat16Type) else float_sizes(type_)


@dataclass(eq=False)
class Terms:
    """
    Makes terms, and asks the solver about them.

    A term of type bf16 is an f32 of which the last 16 bits are 0.
    """

    _manager: _TermManager = field(default_factory=bitwuzla.TermManager)

    _assumed: list[Term] = field(default_factory=list[Term])
    """What holds of symbols that stand for the bits of floats."""

    _open: dict[str, Term] = field(default_factory=dict[str, Term])
    """What `open_bit` has made."""

    _not_zero: set[Term] = field(default_factory=set[Term])
    """Constants that are neither 0.0 nor -0.0, nor integers."""

    # Making terms

    def op(self, kind: str, *operands: Term, indices: Sequence[int] = ()) -> Term:
        """Return an operation of SMT-LIB, by Bitwuzla's name for it."""
        return self._manager.mk_term(bitwuzla.Kind[kind], [*operands], [*indices])

    def rounding(self, name: RoundingName) -> Term:
        """Return a rounding mode."""
        return self._manager.mk_rm_value(bitwuzla.RoundingMode[name])

    def symbol(self, type_: Attribute, name: str) -> Term:
        """Return a value of a type that may be any."""
        return self.from_bits(type_, self._bit_symbol(bit_count(type_), name))

    def of_bits(self, type_: Attribute, bits: int) -> Term:
        """Return the value of a type with these bits."""
        width = bit_count(type_)
        term = self.from_bits(type_, self._bits(width, bits))
        if float_sizes(type_) and bits % (1 << width - 1):
            self._not_zero.add(term)
        return term

    def may_be_zero(self, value: Term) -> bool:
        """Return True if a float is not known to be no zero, as most constants are."""
        return value not in self._not_zero

    def open_bit(self, name: str) -> Term:
        """
        Return a condition that may hold or not, and is the same for the same name.
        """
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
        """Return the value of a type whose bits are a term."""
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
        """Return an operation on floats of a type, rounded to a float of this type."""
        if not isinstance(type_, BFloat16Type):
            return self.op(kind, self.rounding(direction), *operands)
        if kind == "FP_FMA":
            return self._to_bf16_once(kind, *operands)
        # An f32 is exact enough for sums, products, quotients and square roots to be
        # rounded again.
        return self._to_bf16(self.op(kind, self.rounding(direction), *operands))

    def converted(self, source: Attribute, target: Attribute, value: Term) -> Term:
        """
        Return a float, or an integer that is signed if its type is not unsigned, as a
        float.

        Raises:
            UnsupportedError: if the target is no float type that has terms.
        """
        if (sizes := _term_sizes(target)) is None:
            raise UnsupportedError(f"'{target}' is no float type that has terms")
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
        """
        Return an operation whose result is an f32, rounded to the nearest bf16 instead.
        """
        # Rounded to an f32 first, it is rounded once if that one is odd where it is not
        # exact.
        down, up, found = (
            self.op(kind, self.rounding(direction), *operands, indices=indices)
            for direction in ("RTN", "RTP", "RTZ")
        )
        one, zero = self._bits(32, 1), self._bits(32, 0)
        is_exact = self.equal(down, up)
        return self._to_bf16(found, self.choice(is_exact, zero, one))

    def _to_bf16(self, value: Term, odd: Term | None = None) -> Term:
        """
        Return an f32 rounded to the nearest bf16, of which the last bit may be set
        first.
        """
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
        """What holds."""
        return self._manager.mk_true()

    def all(self, *conditions: Term) -> Term:
        """Return True if all conditions hold."""
        if len(conditions) < 2:
            return conditions[0] if conditions else self.true()
        return self.op("AND", *conditions)

    def negation(self, condition: Term) -> Term:
        """Return True if a condition does not hold."""
        return self.op("NOT", condition)

    def choice(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """Return one term or another."""
        return self.op("ITE", condition, then, otherwise)

    def equal(self, first: Term, second: Term) -> Term:
        """Return True if two terms are the same value; all NaNs are."""
        return self.op("EQUAL", first, second)

    def evaluated(self, term: Term, values: Mapping[Term, Term]) -> int:
        """Return the bits of a term, given the values of its symbols."""
        changed = self._manager.substitute_term(term, dict(values))
        found = bitwuzla.Bitwuzla(self._manager).simplify_term(changed)
        if found.is_value():
            return bits_of_value(found)
        # It has symbols for the bits of floats.
        known = [self.equal(*pair) for pair in values.items()]
        differs = self.negation(self.all(*known))
        return self.counterexample(differs, [term], _ANY_TIME).values[0]

    # Asking

    def counterexample(
        self, claim: Term, symbols: Sequence[Term], seconds: float
    ) -> Answer:
        """
        Values for which a claim does not hold.

        Args:
            claim: a condition.
            symbols: what it is about.
            seconds: how long to search.
        """
        options = bitwuzla.Options()
        options.set(bitwuzla.Option["PRODUCE_MODELS"], True)
        # No milliseconds are no limit.
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
    """Signed integers with bits enough that no operation on them overflows."""

    terms: Terms

    width: int

    def constant(self, value: int) -> Term:
        """Return an integer that is known."""
        return self.terms.of_bits(IntegerType(self.width), value)

    def extended(self, value: Term, width: int, *, is_unsigned: bool) -> Term:
        """Return an integer of fewer bits."""
        kind = "BV_ZERO_EXTEND" if is_unsigned else "BV_SIGN_EXTEND"
        return self.terms.op(kind, value, indices=[self.width - width])

    def lies_in(self, value: Term, low: int, high: int) -> Term:
        """Return True if an integer is from one number to another."""
        return self.terms.all(
            self.terms.op("BV_SGE", value, self.constant(low)),
            self.terms.op("BV_SLE", value, self.constant(high)),
        )


@contextmanager
def _interruptible(solver: _Solver) -> Generator[None]:
    """Stop the solver at Ctrl-C, of which Python knows while it calls a function."""
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
    """What the solver says of a claim."""

    verdict: Literal["holds", "fails", "unknown"]

    seconds: float
    """How long it took."""

    values: Sequence[int] = ()
    """If it fails, the bits of each symbol."""


def bits_of_value(value: Term) -> int:
    """Return the bits of a value."""
    # That of a float has three parts.
    return int("".join(value.value(2)), 2)
