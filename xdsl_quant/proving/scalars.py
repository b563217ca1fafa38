"""
Scalar ops as terms: results, and the conditions under which they are defined.

A result is *defined* if it is neither poison nor due to undefined behavior, by the
rules of MLIR's `arith` and LLVM. Terms do not distinguish NaNs. `arith` does not
specify the sign of `maxnumf` and `minnumf` of 0.0 and -0.0: terms allow either sign,
but the same sign for all ops of a kind and type.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.arith import CmpfOp, CmpiOp, FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    i1,
)
from xdsl.ir import Attribute, Operation

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant.types import scalar_or_element_type

from .terms import RoundingName, Term, Terms, UnsupportedError, bit_count, float_sizes


@dataclass(frozen=True, eq=False)
class Number:
    """Scalar value of an op, or one element of a tensor value."""

    term: Term

    is_defined: Term
    """Condition that the value is neither poison nor due to undefined behavior."""


_Translated = tuple[Term, Term | None]
"""Result, and the op's own condition for being defined; `None` if always defined."""

_Rule = Callable[[Terms, Operation, Sequence[Term]], _Translated]


def scalar_result(terms: Terms, op: Operation, operands: Sequence[Number]) -> Number:
    """
    Return the result of a scalar op.

    Raises:
        UnsupportedError: if the op is unsupported.
    """
    check_supported(op)
    name = op_name(op)
    if name == "arith.select":
        condition, then, otherwise = operands
        is_true = terms.equal(condition.term, terms.of_bits(i1, 1))
        # The value that is not selected may be poison.
        chosen = terms.choice(is_true, then.is_defined, otherwise.is_defined)
        return Number(
            terms.choice(is_true, then.term, otherwise.term),
            terms.all(condition.is_defined, chosen),
        )
    term, is_defined = _RULES[name](terms, op, [operand.term for operand in operands])
    conditions = [operand.is_defined for operand in operands]
    if is_defined is not None:
        conditions.append(is_defined)
    return Number(term, terms.all(*conditions))


def check_supported(op: Operation) -> None:
    """
    Check that proofs support a scalar op.

    Raises:
        UnsupportedError: if the op is unsupported, whatever its operands.
    """
    name = op_name(op)
    if name not in SCALAR_OPS or len(op.results) != 1:
        raise UnsupportedError(f"'{name}' op is unsupported in proofs")
    check_flags(op, _OVERFLOWS)


_FLAGS = ("fastmath", "overflowFlags", "roundingmode", "exact", "isExact", "nonNeg")
"""Attributes that change the result of an op, or whether it is defined."""


def check_flags(op: Operation, overflows: Collection[str] = ()) -> None:
    """
    Check that an op has no attributes in `_FLAGS`, which proofs ignore.

    Args:
        op: scalar op.
        overflows: names of ops that may have flags of overflows.

    Raises:
        UnsupportedError: if it has.
    """
    given = {**op.attributes, **op.properties}
    for name in _FLAGS:
        flags = given.get(name)
        if flags is None or (op_name(op) in overflows and name == "overflowFlags"):
            continue
        if flags in (FastMathFlagsAttr("none"), IntegerOverflowAttr("none")):
            continue
        raise UnsupportedError(
            f"'{op_name(op)}' op with '{name}' is unsupported in proofs"
        )


def _result_type(op: Operation) -> Attribute:
    return scalar_or_element_type(op.results[0].type)


def _source_type(op: Operation) -> Attribute:
    return scalar_or_element_type(op.operands[0].type)


def bits_of(attribute: object) -> int:
    """
    Return the bits of a constant.

    Raises:
        UnsupportedError: if the constant is not a number.
    """
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    if isinstance(attribute, FloatAttr):
        packed = cast(AnyFloat, attribute.type).pack([attribute.value.data])
        return int.from_bytes(packed, "little")
    raise UnsupportedError(f"constant '{attribute}' is not a number")


def _constant_term(terms: Terms, op: Operation, _: Sequence[Term]) -> _Translated:
    value = op.get_attr_or_prop("value")
    return terms.of_bits(_result_type(op), bits_of(value)), None


def _same_bits(_: Terms, __: Operation, operands: Sequence[Term]) -> _Translated:
    return operands[0], None


# Floats


def _check_float(type_: Attribute) -> tuple[int, int]:
    if (sizes := float_sizes(type_)) is None:
        raise UnsupportedError(
            f"'{type_}' is unsupported in proofs, expected a float type"
        )
    return sizes


def _rounding_rule(kind: str, direction: RoundingName = "RNE") -> _Rule:
    def rule(terms: Terms, op: Operation, operands: Sequence[Term]) -> _Translated:
        _check_float(_result_type(op))
        return terms.rounded(
            kind, _result_type(op), *operands, direction=direction
        ), None

    return rule


def _exact_rule(kind: str) -> _Rule:
    """Return the translation rule of an op that does not round."""

    def rule(terms: Terms, op: Operation, operands: Sequence[Term]) -> _Translated:
        return terms.op(kind, *operands), None

    return rule


def _extreme_float(kind: str, *, keeps_nan: bool) -> _Rule:
    """Return the rule of a maximum or minimum; with `keeps_nan`, any NaN gives NaN."""

    def first_zero(terms: Terms, op: Operation, operands: Sequence[Term]) -> Term:
        """Return the condition that operands are equal and the first is the result."""
        signs = [terms.op("FP_IS_NEG", each) for each in operands]
        is_right = signs[kind == "FP_GT"]
        if not keeps_nan:
            is_open = terms.open_bit(f"sign of '{op_name(op)}' of '{_result_type(op)}'")
            is_right = terms.choice(is_open, *signs)
        return terms.all(terms.op("FP_EQUAL", *operands), is_right)

    def rule(terms: Terms, op: Operation, operands: Sequence[Term]) -> _Translated:
        _check_float(_result_type(op))
        first, second = operands
        is_first = terms.op(kind, first, second)
        if all(map(terms.may_be_zero, operands)):
            is_first = terms.op("OR", is_first, first_zero(terms, op, operands))
        found = terms.choice(is_first, first, second)
        for this, other in ((second, first), (first, second)):
            is_nan = terms.op("FP_IS_NAN", this)
            found = terms.choice(is_nan, this if keeps_nan else other, found)
        return found, None

    return rule


def _to_float(terms: Terms, op: Operation, operands: Sequence[Term]) -> _Translated:
    source = _source_type(op)
    if op_name(op) == "arith.uitofp":
        source = IntegerType(bit_count(source), Signedness.UNSIGNED)
    return terms.convert(source, _result_type(op), *operands), None


def power_of_two_bits(value: int, sizes: tuple[int, int]) -> int | None:
    """Return the float bits of plus or minus a power of two; `None` if out of range."""
    exponent_bits, precision = sizes
    bias = (1 << exponent_bits - 1) - 1
    exponent = abs(value).bit_length() - 1
    if exponent > bias:
        return None
    magnitude = exponent + bias << precision - 1
    return magnitude | (value < 0) << exponent_bits + precision - 1


float_bits = power_of_two_bits
"""Former name of `power_of_two_bits`, kept for compatibility."""


def _float_to_integer(
    terms: Terms, op: Operation, operands: Sequence[Term]
) -> _Translated:
    """Round toward zero; the result is defined if the integer type represents it."""
    (value,) = operands
    is_signed = op_name(op) == "arith.fptosi"
    source, width = _source_type(op), bit_count(_result_type(op))
    sizes = _check_float(source)
    truncated = terms.op("FP_RTI", terms.rounding("RTZ"), value)
    limits = [(1 << width - is_signed, "FP_LT")]
    limits += [(-1 << width - 1, "FP_GEQ")] if is_signed else []
    conditions = [
        terms.negation(terms.op(f"FP_IS_{kind}", value)) for kind in ("NAN", "INF")
    ]
    for limit, compare in limits:
        if (bits := power_of_two_bits(limit, sizes)) is not None:
            bound = terms.of_bits(source, bits)
            conditions.append(terms.op(compare, truncated, bound))
    if not is_signed:
        zero = terms.of_bits(source, 0)
        conditions.append(terms.op("FP_GEQ", truncated, zero))
    kind = "FP_TO_SBV" if is_signed else "FP_TO_UBV"
    term = terms.op(kind, terms.rounding("RTZ"), value, indices=[width])
    return term, terms.all(*conditions)


_FLOAT_PREDICATES = {
    "oeq": ("FP_EQUAL", False),
    "ogt": ("FP_GT", False),
    "oge": ("FP_GEQ", False),
    "olt": ("FP_LT", False),
    "ole": ("FP_LEQ", False),
    "ueq": ("FP_EQUAL", True),
    "ugt": ("FP_GT", True),
    "uge": ("FP_GEQ", True),
    "ult": ("FP_LT", True),
    "ule": ("FP_LEQ", True),
}
"""Solver operations of `arith.cmpf` predicates, and the predicates' results for NaN."""

_FLOAT_ORDER = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
"""All predicates of `arith.cmpf`, in the order of MLIR's enumeration."""


def _float_comparison(
    terms: Terms, op: Operation, operands: Sequence[Term]
) -> _Translated:
    predicate = _FLOAT_ORDER[cast(CmpfOp, op).predicate.value.data]
    is_nan = terms.op("OR", *(terms.op("FP_IS_NAN", operand) for operand in operands))
    if predicate in ("false", "true"):
        return terms.of_bits(_result_type(op), predicate == "true"), None
    if predicate in ("ord", "uno"):
        holds = is_nan if predicate == "uno" else terms.negation(is_nan)
    elif predicate in ("one", "une"):
        holds = terms.negation(terms.op("FP_EQUAL", *operands))
        if predicate == "one":
            holds = terms.all(holds, terms.negation(is_nan))
    else:
        kind, is_unordered = _FLOAT_PREDICATES[predicate]
        holds = terms.op(kind, *operands)
        if is_unordered:
            holds = terms.op("OR", holds, is_nan)
    return _bit(terms, op, holds), None


# Integers


def _bit(terms: Terms, op: Operation, condition: Term) -> Term:
    one, zero = (terms.of_bits(_result_type(op), bit) for bit in (1, 0))
    return terms.choice(condition, one, zero)


_OVERFLOWS = {
    "arith.addi": ("BV_ADD", "ADD"),
    "arith.subi": ("BV_SUB", "SUB"),
    "arith.muli": ("BV_MUL", "MUL"),
}


def _arithmetic_rule(
    terms: Terms, op: Operation, operands: Sequence[Term]
) -> _Translated:
    kind, name = _OVERFLOWS[op_name(op)]
    attribute = op.get_attr_or_prop("overflowFlags")
    is_set = isinstance(attribute, IntegerOverflowAttr)
    flags = [flag.value for flag in attribute.data] if is_set else []
    conditions = [
        terms.negation(
            terms.op(f"BV_{'S' if flag == 'nsw' else 'U'}{name}_OVERFLOW", *operands)
        )
        for flag in flags
        if flag != "none"
    ]
    return terms.op(kind, *operands), terms.all(*conditions) if conditions else None


def _division_rule(kind: str) -> _Rule:
    """Return the rule of a division; undefined for divisor 0 and for overflow."""

    def rule(terms: Terms, op: Operation, operands: Sequence[Term]) -> _Translated:
        type_, width = _result_type(op), bit_count(_result_type(op))
        zero, least, minus_one = (
            terms.of_bits(type_, bits) for bits in (0, 1 << width - 1, -1)
        )
        by_zero = terms.equal(operands[1], zero)
        is_defined = terms.negation(by_zero)
        if kind == "BV_SDIV":
            overflows = terms.all(
                terms.equal(operands[0], least), terms.equal(operands[1], minus_one)
            )
            is_defined = terms.all(is_defined, terms.negation(overflows))
        return terms.op(kind, *operands), is_defined

    return rule


def _shift(kind: str) -> _Rule:
    """Return the rule of a shift; undefined if it shifts by the bit width or more."""

    def rule(terms: Terms, op: Operation, operands: Sequence[Term]) -> _Translated:
        width = terms.of_bits(_result_type(op), bit_count(_result_type(op)))
        return terms.op(kind, *operands), terms.op("BV_ULT", operands[1], width)

    return rule


def _resize(terms: Terms, op: Operation, operands: Sequence[Term]) -> _Translated:
    before, after = bit_count(_source_type(op)), bit_count(_result_type(op))
    if after < before:
        return terms.op("BV_EXTRACT", *operands, indices=[after - 1, 0]), None
    is_signed = op_name(op) in ("arith.extsi", "arith.index_cast")
    kind = "BV_SIGN_EXTEND" if is_signed else "BV_ZERO_EXTEND"
    return terms.op(kind, *operands, indices=[after - before]), None


_INTEGER_PREDICATES = (
    *("EQUAL", "DISTINCT", "BV_SLT", "BV_SLE", "BV_SGT", "BV_SGE"),
    *("BV_ULT", "BV_ULE", "BV_UGT", "BV_UGE"),
)
"""Solver operations of `arith.cmpi` predicates, in the order of MLIR's enumeration."""


def _integer_comparison(
    terms: Terms, op: Operation, operands: Sequence[Term]
) -> _Translated:
    kind = _INTEGER_PREDICATES[cast(CmpiOp, op).predicate.value.data]
    return _bit(terms, op, terms.op(kind, *operands)), None


def _extreme_integer(kind: str) -> _Rule:
    def rule(terms: Terms, op: Operation, operands: Sequence[Term]) -> _Translated:
        return terms.choice(terms.op(kind, *operands), *operands), None

    return rule


_RULES: Mapping[str, _Rule] = {
    "arith.constant": _constant_term,
    "quant.scast": _same_bits,
    "arith.addf": _rounding_rule("FP_ADD"),
    "arith.subf": _rounding_rule("FP_SUB"),
    "arith.mulf": _rounding_rule("FP_MUL"),
    "arith.divf": _rounding_rule("FP_DIV"),
    "arith.negf": _exact_rule("FP_NEG"),
    "arith.maxnumf": _extreme_float("FP_GT", keeps_nan=False),
    "arith.minnumf": _extreme_float("FP_LT", keeps_nan=False),
    "arith.maximumf": _extreme_float("FP_GT", keeps_nan=True),
    "arith.minimumf": _extreme_float("FP_LT", keeps_nan=True),
    "arith.cmpf": _float_comparison,
    "arith.extf": _to_float,
    "arith.truncf": _to_float,
    "arith.sitofp": _to_float,
    "arith.uitofp": _to_float,
    "arith.fptosi": _float_to_integer,
    "arith.fptoui": _float_to_integer,
    "math.absf": _exact_rule("FP_ABS"),
    "math.fma": _rounding_rule("FP_FMA"),
    "math.sqrt": _rounding_rule("FP_SQRT"),
    "math.roundeven": _rounding_rule("FP_RTI"),
    "math.round": _rounding_rule("FP_RTI", "RNA"),
    "math.floor": _rounding_rule("FP_RTI", "RTN"),
    "math.ceil": _rounding_rule("FP_RTI", "RTP"),
    "math.trunc": _rounding_rule("FP_RTI", "RTZ"),
    "arith.addi": _arithmetic_rule,
    "arith.subi": _arithmetic_rule,
    "arith.muli": _arithmetic_rule,
    "arith.divsi": _division_rule("BV_SDIV"),
    "arith.divui": _division_rule("BV_UDIV"),
    "arith.remui": _division_rule("BV_UREM"),
    "arith.andi": _exact_rule("BV_AND"),
    "arith.ori": _exact_rule("BV_OR"),
    "arith.xori": _exact_rule("BV_XOR"),
    "arith.shli": _shift("BV_SHL"),
    "arith.shrsi": _shift("BV_ASHR"),
    "arith.shrui": _shift("BV_SHR"),
    "arith.extsi": _resize,
    "arith.extui": _resize,
    "arith.trunci": _resize,
    "arith.index_cast": _resize,
    "arith.cmpi": _integer_comparison,
    "arith.maxsi": _extreme_integer("BV_SGT"),
    "arith.minsi": _extreme_integer("BV_SLT"),
    "arith.maxui": _extreme_integer("BV_UGT"),
    "arith.minui": _extreme_integer("BV_ULT"),
}

SCALAR_OPS = frozenset({*_RULES, "arith.select"})
"""Names of the elementwise ops that proofs support."""


# Former names, kept for compatibility.
check, result = check_supported, scalar_result
