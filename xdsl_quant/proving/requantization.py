"""
Requantization between fixed-point scales, compared with exact rational numbers.

A stored value `q` is requantized to `r` with integer arithmetic. The exact result is `x
+ z2`, where `x = (q - z1) * s1 / s2` is rational for scales `s = multiplier *
2**-shift`. Rounding the ratio of the multipliers to 31 bits adds an error of at most
`|x| * 2**-31`, and the product is rounded to an integer.

Multiplication is slow in the solver, so the proof has three steps. First, the solver
proves that the code multiplies `q - z1`. Second, it replaces the product by any number
of the same sign and range, and proves the division by a power of two and the rounding.
Third, rational arithmetic proves that the multiplier approximates the ratio of scales.
If a step fails, the solver gets the whole claim.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import cast

from xdsl.dialects.arith import ConstantOp, MuliOp
from xdsl.dialects.builtin import i64
from xdsl.dialects.func import FuncOp

from xdsl_quant.dialects.quant import FixedPointQuantizedType
from xdsl_quant.rounding_mode import Rounding, ScaleRounding

from .pipelines import lowered_function, scalar_lowering
from .scalars import Number, bits_of
from .tensors import Values, scalar
from .terms import Term, Terms, UnsupportedError, WideIntegers, stored_integer
from .theorems import Demonstration, NamedTerm, Theorem, decide_claim, printed_terms
from .translation import translate_block, translate_function

_ERROR_BITS = 31
"""Exponent `n` of the largest relative error, `2**-n`, of the ratio of scales."""

_WIDTH = 130
"""Bit width in which computations on 64-bit integers, shifts too, never overflow."""


@dataclass(frozen=True)
class RequantizationProver:
    """
    Prover for a `quant.dcast` that is followed by a `quant.qcast`.

    Raises:
        UnsupportedError: if a type is not per-tensor `!quant.fixed_point`.
    """

    source: FixedPointQuantizedType
    target: FixedPointQuantizedType
    scale_rounding: ScaleRounding = "single"
    """Option `scale-rounding` of `lower-quant-ops`."""

    seconds: float = 60.0
    """Time limit of the solver for each claim."""

    _terms: Terms = field(default_factory=Terms, repr=False)

    def __post_init__(self) -> None:
        for type_ in (self.source, self.target):
            if not isinstance(cast(object, type_), FixedPointQuantizedType):
                raise UnsupportedError(
                    f"unsupported type '{type_}'; expected per-tensor '!quant.fixed_point'"
                )

    @cached_property
    def passes(self) -> str:
        """Pipeline that lowers the casts."""
        return scalar_lowering(Rounding(), scale_rounding=self.scale_rounding)

    @property
    def text(self) -> str:
        """Text of a module whose function dequantizes and quantizes a scalar."""
        source, target, expressed = self.source, self.target, self.source.expressed_type
        return (
            f"func.func @main(%0: {source}) -> {target} {{ "
            f"%1 = quant.dcast %0 : {source} to {expressed} "
            f"%2 = quant.qcast %1 : {expressed} to {target} "
            f"return %2 : {target} }}"
        )

    @cached_property
    def _function(self) -> FuncOp:
        return lowered_function(self.text, self.passes)

    @property
    def bound(self) -> Fraction:
        """Largest rounding error in stored units: 1/2, or 1 for `double` rounding."""
        return Fraction(1, 2) if self.scale_rounding == "single" else Fraction(1)

    def theorems(self) -> Iterator[Theorem]:
        """Prove and yield the theorems, one at a time."""
        yield self.is_near()

    def is_near(self) -> Theorem:
        """
        Decide whether each result differs from the exact one by at most `bound + |x| *
        2**-31`, or saturates to the nearest end of the storage range.
        """
        claim = (
            f"requantized q is within {self.bound} + |x| / 2**31 of x + z2 for all q"
        )
        if (theorem := self._in_steps(claim)) is not None:
            return theorem
        terms, q = self._terms, self._q
        arguments = [Number(q.term, terms.true())]
        r = scalar(*translate_function(terms, self._function, arguments))
        condition = terms.all(r.is_defined, self._is_near(q.term, r.term))
        values = [q, *printed_terms(terms, stored_integer(self.target), r)]
        show = Demonstration(self.text, f"-p {shlex.quote(self.passes)}")
        return decide_claim(
            terms,
            claim,
            condition,
            values,
            self.seconds,
            lambda found: show.command(found["q"]),
        )

    @cached_property
    def _q(self) -> NamedTerm:
        type_ = stored_integer(self.source)
        return NamedTerm("q", type_, self._terms.symbol(type_, "q"))

    def _in_steps(self, claim: str) -> Theorem | None:
        """Return the theorem if all steps are proved; otherwise `None`."""
        terms, block = self._terms, self._function.body.block
        multiplies = [op for op in block.ops if isinstance(op, MuliOp)]
        if len(multiplies) != 1:
            return None
        (multiply,) = multiplies
        if not isinstance(constant := multiply.rhs.owner, ConstantOp):
            return None
        multiplier = bits_of(constant.value)
        ratio = _exact_scale(self.source) / _exact_scale(self.target)
        shift = _nearest_shift(multiplier, ratio)
        if abs(Fraction(multiplier, 1 << shift) - ratio) > ratio / (1 << _ERROR_BITS):
            return None
        product = terms.symbol(i64, "p")
        numbers: Values = {multiply.result: Number(product, terms.true())}
        q = Number(self._q.term, terms.true())
        r = scalar(*translate_block(terms, block, [q], numbers))
        value = scalar(numbers[multiply.lhs])
        wide = WideIntegers(terms, _WIDTH)
        corrected = _zero_point_corrected(wide, q.term, self.source)
        is_corrected = terms.equal(
            wide.extend(value.term, 64, is_unsigned=False), corrected
        )
        exact = wide.extend(product, 64, is_unsigned=False)
        premise = self._is_product(wide, exact, corrected, multiplier)
        if premise is None:
            return None
        near = self._is_rounded(wide, exact, r, shift)
        steps = [
            decide_claim(terms, claim, condition, [self._q], self.seconds)
            for condition in (
                terms.all(value.is_defined, is_corrected),
                terms.op("IMPLIES", premise, near),
            )
        ]
        if any(step.verdict != "proved" for step in steps):
            return None
        return replace(steps[0], seconds=sum(step.seconds for step in steps))

    def _is_product(
        self, wide: WideIntegers, product: Term, corrected: Term, multiplier: int
    ) -> Term | None:
        """
        Return the condition that `product` has the sign of `corrected` and is in range;
        `None` if products may exceed 64 bits.
        """
        # Cover all values of the storage type, beyond the storage range.
        width = stored_integer(self.source).width.data
        zero_point = self.source.zero_point.data
        low = -(1 << width - 1) if self.source.is_signed else 0
        ends = [(low + n - zero_point) * multiplier for n in (0, (1 << width) - 1)]
        if max(map(abs, ends)) >= 1 << 63:
            return None
        terms, zero = self._terms, wide.constant(0)
        same_sign = terms.choice(
            terms.op("BV_SGE", corrected, zero),
            terms.op("BV_SGE", product, zero),
            terms.op("BV_SLE", product, zero),
        )
        return terms.all(wide.lies_in(product, *ends), same_sign)

    def _is_rounded(
        self, wide: WideIntegers, product: Term, r: Number, shift: int
    ) -> Term:
        terms = self._terms
        offset = _zero_point_corrected(wide, r.term, self.target)
        scaled = terms.op("BV_SHL", offset, wide.constant(shift))
        error = terms.op("BV_SUB", scaled, product)
        limit = wide.constant(int(self.bound * (1 << shift)))
        return terms.all(r.is_defined, self._is_small(error, limit, r.term))

    def _is_near(self, q: Term, r: Term) -> Term:
        """
        Return the condition that `r` is near the exact result for `q`.

        Both numbers are multiplied by a common denominator, to compare integers.
        """
        terms = self._terms
        shifts = self.source.shift.data, self.target.shift.data
        # The exact result is x = (q - z1) * numerator / unit.
        numerator = self.source.multiplier.data << shifts[1] - min(shifts)
        unit = self.target.multiplier.data << shifts[0] - min(shifts)
        width = 34 + max(numerator, unit).bit_length() + _ERROR_BITS + 2
        wide = WideIntegers(terms, width)
        exact, found = (
            terms.op(
                "BV_MUL", _zero_point_corrected(wide, *pair), wide.constant(factor)
            )
            for pair, factor in (
                ((q, self.source), numerator),
                ((r, self.target), unit),
            )
        )
        error = terms.op("BV_SUB", found, exact)
        error = terms.op("BV_SHL", error, wide.constant(_ERROR_BITS))
        is_negative = terms.op("BV_SLT", exact, wide.constant(0))
        size = terms.choice(is_negative, terms.op("BV_NEG", exact), exact)
        most = int(self.bound * (unit << _ERROR_BITS))
        limit = terms.op("BV_ADD", size, wide.constant(most))
        return self._is_small(error, limit, r)

    def _is_small(self, error: Term, limit: Term, r: Term) -> Term:
        """Return the condition that `|error| <= limit`, or that `r` is saturated."""
        terms = self._terms
        low, high = (
            terms.equal(r, terms.of_bits(stored_integer(self.target), bound))
            for bound in self.target.storage_range
        )
        return terms.all(
            terms.op("OR", high, terms.op("BV_SGE", error, terms.op("BV_NEG", limit))),
            terms.op("OR", low, terms.op("BV_SLE", error, limit)),
        )


def _zero_point_corrected(
    wide: WideIntegers, value: Term, type_: FixedPointQuantizedType
) -> Term:
    width = type_.storage_type_integral_width
    extended = wide.extend(value, width, is_unsigned=not type_.is_signed)
    return wide.terms.op("BV_SUB", extended, wide.constant(type_.zero_point.data))


def _exact_scale(type_: FixedPointQuantizedType) -> Fraction:
    return Fraction(type_.multiplier.data, 1) / Fraction(2) ** type_.shift.data


def _nearest_shift(multiplier: int, ratio: Fraction) -> int:
    """Return the shift >= 0 for which `multiplier / 2**shift` is nearest to a ratio."""
    shift, nearest = 0, multiplier / ratio
    while 3 * (1 << shift) < 2 * nearest:
        shift += 1
    return shift
