"""
`apply_scale` for all values and all multipliers, shift by shift, compared with the exact
quotient.

The product `p` of a value `v` of up to 33 bits and a multiplier of up to 31 is a symbol of
its own, of which only range and sign are known: what holds for all of these holds for all
multipliers, and the solver has nothing to multiply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from xdsl_quant.proving import Theorem
from xdsl_quant.proving.scalars import Number
from xdsl_quant.proving.tensors import scalar
from xdsl_quant.proving.terms import Term, Terms
from xdsl_quant.proving.theorems import NamedTerm, decide_claim
from xdsl_quant.proving.translation import translate_function
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.fixed_point_arithmetic import (
    apply_scale,
    i64_constant,
)

SHIFTS = range(2, 63)
SECONDS = 60
"""How long the solver may take for a claim."""

_ROUNDINGS: Sequence[ScaleRounding] = ("single", "double")

_WIDE = IntegerType(130)
"""Has all results of computations on 64-bit integers and shifts."""


def scaling_function(shift: int, rounding: ScaleRounding) -> FuncOp:
    """The ops that multiply a value by a multiplier, and shift and round the product."""
    function = entry_function(
        parse_module("func.func @main(%v: i64, %m: i64) -> i64 { return %v : i64 }")
    )
    last = function.body.block.last_op
    assert last is not None
    builder = LoweringBuilder.before(last)
    amount = i64_constant(builder, shift)
    value, multiplier = function.args
    last.operands[0] = apply_scale(builder, value, multiplier, amount, rounding)
    return function


@dataclass(frozen=True)
class ScaleProver:
    """What holds for a shift."""

    shift: int
    terms: Terms = field(default_factory=Terms, repr=False)

    def theorems(self) -> Iterator[Theorem]:
        """What holds, one claim after the other."""
        for rounding in _ROUNDINGS:
            yield self.is_near(rounding, self.bound(rounding))
        yield self.differ_by_at_most(1)

    def bound(self, rounding: ScaleRounding) -> Fraction:
        """How far a result is at most from the exact quotient."""
        first = Fraction(1 << 30, 1 << self.shift)
        is_twice = rounding == "double" and self.shift > 31
        return Fraction(1, 2) + (first if is_twice else 0)

    def is_near(self, rounding: ScaleRounding, bound: Fraction) -> Theorem:
        """Results of one rounding are near to `p / 2**shift`."""
        terms = self.terms
        result = self._result(rounding)
        shift = self._constant(self.shift)
        scaled = terms.op("BV_SHL", self._wide(result.term), shift)
        error = terms.op("BV_SUB", scaled, self._wide(self._symbols[1]))
        claim = f"{rounding} rounding is within its bound of the exact quotient"
        limit = int(bound * (1 << self.shift))
        near = terms.all(result.is_defined, self._is_within(error, limit))
        return self._decided(claim, near)

    def differ_by_at_most(self, bound: int) -> Theorem:
        """Both roundings give nearly the same."""
        terms = self.terms
        single, double = (
            self._wide(self._result(rounding).term) for rounding in _ROUNDINGS
        )
        difference = terms.op("BV_SUB", single, double)
        claim = f"single and double rounding differ by at most {bound}"
        return self._decided(claim, self._is_within(difference, bound))

    @cached_property
    def _symbols(self) -> tuple[Term, Term]:
        """The value and the product."""
        return self.terms.symbol(i64, "v"), self.terms.symbol(i64, "p")

    def _result(self, rounding: ScaleRounding) -> Number:
        function = scaling_function(self.shift, rounding)
        (multiply,) = (o for o in function.walk() if isinstance(o, arith.MuliOp))
        true = self.terms.true()
        arguments = [Number(self._symbols[0], true)] * 2
        known: dict[SSAValue, Number] = {
            multiply.result: Number(self._symbols[1], true)
        }
        return scalar(*translate_function(self.terms, function, arguments, known))

    def _constant(self, value: int) -> Term:
        return self.terms.of_bits(_WIDE, value)

    def _wide(self, term: Term) -> Term:
        return self.terms.op("BV_SIGN_EXTEND", term, indices=[_WIDE.width.data - 64])

    def _is_within(self, value: Term, limit: int) -> Term:
        """Whether an absolute value is at most a limit."""
        terms = self.terms
        return terms.all(
            terms.op("BV_SGE", value, self._constant(-limit)),
            terms.op("BV_SLE", value, self._constant(limit)),
        )

    def _decided(self, claim: str, condition: Term) -> Theorem:
        terms = self.terms
        value, product = self._symbols
        zero = terms.of_bits(i64, 0)
        # Multipliers are not negative.
        same_sign = terms.choice(
            terms.op("BV_SGE", value, zero),
            terms.op("BV_SGE", product, zero),
            terms.op("BV_SLE", product, zero),
        )
        premise = terms.all(
            self._is_within(self._wide(value), 1 << 32),
            self._is_within(self._wide(product), ((1 << 31) - 1) << 32),
            same_sign,
        )
        condition = terms.op("IMPLIES", premise, condition)
        values = [NamedTerm("v", i64, value), NamedTerm("p", i64, product)]
        return decide_claim(terms, claim, condition, values, SECONDS)
