"""
Definition of casts as terms, independent of the lowering and of `numerics`.

A stored value is `clamp(round(x / scale + zero_point), min, max)`, or, if the zero
point is added after rounding, `clamp(round(x / scale) + zero_point, min, max)`. An
expressed value is `(q - zero_point) * scale`.

Each operation rounds to nearest in the compute type. This is the first of the expressed
type, f32 and f64 that represents the integers in the formula exactly, with two more
bits for fractions if the zero point is not 0. With `truncate`, the compute type is the
expressed type, and results outside the storage type are undefined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64

from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.rounding_mode import Rounding, RoundingMode

from .scalars import Number
from .terms import (
    RoundingName,
    Term,
    Terms,
    UnsupportedError,
    float_sizes,
    stored_integer,
)

_DIRECTIONS: Mapping[RoundingMode, RoundingName] = {
    "nearest-even": "RNE",
    "nearest-away": "RNA",
    "truncate": "RTZ",
}


@dataclass(frozen=True)
class Cast:
    """Per-tensor quantized type and rounding of its casts."""

    type: UniformQuantizedType
    rounding: Rounding

    @property
    def bounds(self) -> tuple[int, int]:
        """Storage range, both ends inclusive."""
        return self.type.storage_type_min.data, self.type.storage_type_max.data

    @property
    def width(self) -> int:
        return self.type.storage_type_integral_width

    @property
    def storage(self) -> IntegerType:
        """Type of stored values, with signedness."""
        return stored_integer(self.type)

    @property
    def zero_point(self) -> int:
        return self.type.zero_point.data

    @property
    def expressed(self) -> AnyFloat:
        return self.type.expressed_type

    @cached_property
    def compute(self) -> AnyFloat:
        """
        Float type of the computation.

        Raises:
            UnsupportedError: if proofs do not support the expressed type.
        """
        if (sizes := float_sizes(self.expressed)) is None:
            raise UnsupportedError(f"type '{self.expressed}' is unsupported in proofs")
        if self.rounding.mode == "truncate":
            return self.expressed
        numbers = [*self.bounds, self.zero_point]
        numbers += [bound - self.zero_point for bound in self.bounds]
        largest = max(map(abs, numbers))
        halves = 2 if self.zero_point else 0
        known: Sequence[tuple[AnyFloat, int]] = ((self.expressed, sizes[1]), (f32, 24))
        for type_, precision in known:
            if largest <= 2 ** (precision - halves):
                return type_
        return f64


@dataclass(frozen=True)
class CastFormula:
    """Formulas of quantization and dequantization, as terms."""

    terms: Terms
    cast: Cast
    scale: Term
    """Scale in the expressed type."""

    # Conversion to floats

    def _number(self, value: int) -> Term:
        return self._float(value, self.cast.compute)

    def _float(self, value: int, type_: AnyFloat) -> Term:
        source = IntegerType(max(value.bit_length() + 1, 8))
        return self.terms.convert(source, type_, self.terms.of_bits(source, value))

    def _computed(self, kind: str, *operands: Term) -> Term:
        return self.terms.rounded(kind, self.cast.compute, *operands)

    def in_compute_type(self, value: Term) -> Term:
        """Convert an expressed value to the compute type."""
        return self.terms.convert(self.cast.expressed, self.cast.compute, value)

    # Quantization

    def rounded(self, x: Term) -> Term:
        """Return the rounded float before clamping; NaN stays NaN if `nan=storage-min`."""
        terms, (mode, order, nan) = self.terms, self.cast.rounding
        value = self._computed("FP_DIV", *map(self.in_compute_type, (x, self.scale)))
        direction = terms.rounding(_DIRECTIONS[mode])
        if order == "after-rounding":
            value = terms.op("FP_RTI", direction, value)
        if self.cast.zero_point:
            value = self._computed("FP_ADD", value, self._number(self.cast.zero_point))
        if order == "before-rounding":
            value = terms.op("FP_RTI", direction, value)
        if nan == "storage-min":
            return value
        return terms.choice(terms.op("FP_IS_NAN", value), self._number(0), value)

    def clamped(self, x: Term) -> Term:
        """Return the stored value as a float, for modes other than `truncate`."""
        terms, value = self.terms, self.rounded(x)
        low, high = map(self._number, self.cast.bounds)
        # Comparisons with NaN are false: NaN becomes the storage minimum.
        value = terms.choice(terms.op("FP_GEQ", value, low), value, low)
        return terms.choice(terms.op("FP_LEQ", value, high), value, high)

    def stored(self, x: Term) -> Number:
        """Return the stored value of an expressed value."""
        terms, cast = self.terms, self.cast
        width = cast.width
        if cast.rounding.mode != "truncate":
            return Number(self._integer(self.clamped(x), width), terms.true())
        value = self.rounded(x)
        # Two more bits hold the sign and values just outside the range.
        low, high = -1 << width - 1, 1 << width - cast.type.is_signed
        if not cast.type.is_signed:
            low = 0
        in_range = self._lies_in(value, low, high)
        integer = self._integer(value, width + 2)
        for bound, kind in zip(cast.bounds, ("BV_SLT", "BV_SGT"), strict=True):
            limit = terms.of_bits(IntegerType(width + 2), bound)
            is_beyond = terms.op(kind, integer, limit)
            integer = terms.choice(is_beyond, limit, integer)
        return Number(terms.op("BV_EXTRACT", integer, indices=[width - 1, 0]), in_range)

    def _lies_in(self, value: Term, low: int, high: int) -> Term:
        """Return the condition `low <= value < high`."""
        terms = self.terms
        wide = terms.convert(self.cast.compute, f64, value)
        first, last = (self._float(bound, f64) for bound in (low, high))
        return terms.all(terms.op("FP_GEQ", wide, first), terms.op("FP_LT", wide, last))

    def _integer(self, value: Term, width: int) -> Term:
        """Convert a float without fraction to an integer of the given width."""
        # Unsigned values need one more bit as signed integers.
        wide = self.terms.op(
            "FP_TO_SBV", self.terms.rounding("RTZ"), value, indices=[width + 1]
        )
        return self.terms.op("BV_EXTRACT", wide, indices=[width - 1, 0])

    # Dequantization

    def expressed(self, q: Term) -> Term:
        """Return the expressed value of a stored value."""
        terms, cast = self.terms, self.cast
        value = terms.convert(cast.storage, cast.compute, q)
        if cast.zero_point:
            value = self._computed("FP_SUB", value, self._number(cast.zero_point))
        value = self._computed("FP_MUL", value, self.in_compute_type(self.scale))
        return terms.convert(cast.compute, cast.expressed, value)


Formula = CastFormula
"""Former name of `CastFormula`, kept for compatibility."""
