"""
Requantization between fixed-point scales, compared with exact rational numbers.

A stored value `q` is requantized to `r`, by integers alone. Exactly it would be `x + z2`,
where `x = (q - z1) * s1 / s2` is a rational number for the scales
`s = multiplier * 2**-shift`. The ratio of two multipliers is rounded to 31 bits, which
makes `x` wrong by at most `|x| * 2**-31`, and its product is rounded to an integer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import cast

from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.dialects.func import FuncOp

from xdsl_quant.dialects.quant import FixedPointQuantizedType
from xdsl_quant.rounding_mode import Rounding, ScaleRounding
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

from .pipelines import lower_quant_ops
from .terms import Term, Terms, UnsupportedError
from .theorems import Show, Theorem, Value, decided, results
from .translation import Number, translated

_ERROR_BITS = 31
"""The ratio of scales is wrong by one part in 2 to this power."""


@dataclass(frozen=True)
class RequantizationProver:
    """
    Proves what holds of a `quant.dcast` that is followed by a `quant.qcast`.

    Raises:
        UnsupportedError: if a type is not per-tensor `!quant.fixed_point`.
    """

    source: FixedPointQuantizedType
    target: FixedPointQuantizedType
    scale_rounding: ScaleRounding = "single"
    """The option of `lower-quant-ops`."""

    seconds: float = 60.0
    """How long the solver may take for a claim."""

    _terms: Terms = field(default_factory=Terms, repr=False)

    def __post_init__(self) -> None:
        for type_ in (self.source, self.target):
            if not isinstance(cast(object, type_), FixedPointQuantizedType):
                raise UnsupportedError(
                    f"'{type_}' is no '!quant.fixed_point' type with one scale"
                )

    @cached_property
    def passes(self) -> str:
        """The pipeline that lowers the casts."""
        lower = lower_quant_ops(Rounding(), scale_rounding=self.scale_rounding)
        return f"{lower},strip-func-quant-types,canonicalize"

    @property
    def text(self) -> str:
        """A module with a function of both casts."""
        source, target, expressed = self.source, self.target, self.source.expressed_type
        return (
            f"func.func @main(%0: {source}) -> {target} {{ "
            f"%1 = quant.dcast %0 : {source} to {expressed} "
            f"%2 = quant.qcast %1 : {expressed} to {target} "
            f"return %2 : {target} }}"
        )

    @cached_property
    def _function(self) -> FuncOp:
        module = parse_module(self.text)
        apply_passes(module, self.passes)
        return entry_function(module)

    @property
    def bound(self) -> Fraction:
        """
        By how much the rounding to an integer, or with `double` the two roundings, may be
        wrong, in units of the result.
        """
        return Fraction(1, 2) if self.scale_rounding == "single" else Fraction(1)

    def theorems(self) -> Iterator[Theorem]:
        """What holds, one claim after the other."""
        yield self.is_near()

    def is_near(self) -> Theorem:
        """
        Results are within `bound + |x| * 2**-31` of what is exact, or at that end of the
        storage range which is nearest to it.
        """
        terms = self._terms
        q = Value("q", _storage(self.source), terms.symbol(_storage(self.source), "q"))
        (r,) = translated(terms, self._function, [Number(q.term, terms.true())])
        condition = terms.all(r.is_defined, self._is_near(q.term, r.term))
        claim = (
            f"requantized q is within {self.bound} + |x| / 2**31 of x + z2 for all q"
        )
        values = [q, *results(terms, _storage(self.target), r)]
        show = Show(self.text, self.passes)
        return decided(terms, claim, condition, values, self.seconds, show)

    def _is_near(self, q: Term, r: Term) -> Term:
        """
        Both sides are multiplied by the denominators, so that there are integers only, with
        as many bits as these need.
        """
        terms = self._terms
        shifts = self.source.shift.data, self.target.shift.data
        # x = (q - z1) * numerator / unit
        numerator = self.source.multiplier.data << shifts[1] - min(shifts)
        unit = self.target.multiplier.data << shifts[0] - min(shifts)
        width = 34 + max(numerator, unit).bit_length() + _ERROR_BITS + 2

        def constant(value: int) -> Term:
            return terms.of_bits(IntegerType(width), value)

        def offset(value: Term, type_: FixedPointQuantizedType) -> Term:
            kind = "BV_SIGN_EXTEND" if type_.is_signed else "BV_ZERO_EXTEND"
            more = width - _storage(type_).width.data
            wide = terms.op(kind, value, indices=[more])
            return terms.op("BV_SUB", wide, constant(type_.zero_point.data))

        exact = terms.op("BV_MUL", offset(q, self.source), constant(numerator))
        found = terms.op("BV_MUL", offset(r, self.target), constant(unit))
        error = terms.op("BV_SUB", found, exact)
        error = terms.op("BV_SHL", error, constant(_ERROR_BITS))
        is_negative = terms.op("BV_SLT", exact, constant(0))
        size = terms.choice(is_negative, terms.op("BV_NEG", exact), exact)
        most = int(self.bound * (unit << _ERROR_BITS))
        limit = terms.op("BV_ADD", size, constant(most))
        low, high = (
            terms.equal(r, terms.of_bits(_storage(self.target), bound))
            for bound in self.target.storage_range
        )
        return terms.all(
            terms.op("OR", high, terms.op("BV_SGE", error, terms.op("BV_NEG", limit))),
            terms.op("OR", low, terms.op("BV_SLE", error, limit)),
        )


def _storage(type_: FixedPointQuantizedType) -> IntegerType:
    """The type of stored values, which says if they are unsigned."""
    signedness = Signedness.SIGNLESS if type_.is_signed else Signedness.UNSIGNED
    return IntegerType(type_.storage_type_integral_width, signedness)
