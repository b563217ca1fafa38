"""
Lowering of elementwise ops by formulas on scalars.

Integers wrap around. Results that StableHLO leaves undefined are defined here: division by
zero returns -1 or, if unsigned, the largest integer; the smallest integer, divided by -1,
returns itself.
"""

from collections.abc import Callable
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.traits import ComputesElementwise, has_quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import CompareOp
from xdsl_quant.transforms.building.builder import LoweringBuilder, dimensions, shape_of
from xdsl_quant.transforms.building.signless_types import signless
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches.arith import RemFOp

from . import special_functions
from .lowering import (
    LinalgLowering,
    Values,
    bit_width,
    is_boolean,
    is_floating,
    is_unsigned_type,
    stored_type,
)
from .representations import reduce_precision
from .special_functions import float_formula

Formula = Callable[[LoweringBuilder, Operation, Values], SSAValue]
"""Function that builds a result element from operand elements, all of signless types."""

_MakeOp = Callable[..., Operation]


def _element_type(value: SSAValue) -> Attribute:
    """Return the element type of a value, with its signedness."""
    return scalar_or_element_type(value.type)


def _by_kind(
    floats: _MakeOp,
    signed: _MakeOp,
    unsigned: _MakeOp | None = None,
    booleans: _MakeOp | None = None,
) -> Callable[[Attribute], _MakeOp]:
    """Return a function that selects an op by element type; `signed` is the default."""

    def op_for(type_: Attribute) -> _MakeOp:
        if is_floating(type_):
            return floats
        kind = booleans if is_boolean(type_) else unsigned
        return kind if kind and is_unsigned_type(type_) else signed

    return op_for


_ADD = _by_kind(arith.AddfOp, arith.AddiOp, booleans=arith.OrIOp)
_SUBTRACT = _by_kind(arith.SubfOp, arith.SubiOp)
_MULTIPLY = _by_kind(arith.MulfOp, arith.MuliOp, booleans=arith.AndIOp)
_MAXIMUM = _by_kind(arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp, arith.OrIOp)
_MINIMUM = _by_kind(arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp, arith.AndIOp)


def product(builder: LoweringBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """Return the product of scalars of one type, or the logical AND of booleans."""
    return builder.add(_MULTIPLY(lhs.type)(lhs, rhs))


def total(builder: LoweringBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """Return the sum of scalars of one type, or the logical OR of booleans."""
    return builder.add(_ADD(lhs.type)(lhs, rhs))


def _typed_formula(op_for: Callable[[Attribute], _MakeOp]) -> Formula:
    return lambda b, op, args: b.add(op_for(_element_type(op.operands[0]))(*args))


def _uniform_formula(op_type: _MakeOp) -> Formula:
    return lambda b, op, args: b.add(op_type(*args))


def _divide(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    lhs, rhs = args
    type_ = _element_type(op.operands[0])
    if is_floating(type_):
        return builder.add(arith.DivfOp(lhs, rhs))
    zero, one, minus_one = (builder.number(value, rhs.type) for value in (0, 1, -1))
    is_zero = builder.add(arith.CmpiOp(rhs, zero, "eq"))
    if is_unsigned_type(type_):
        divisor = arith.SelectOp(is_zero, one, rhs)
        quotient = builder.add(arith.DivUIOp(lhs, builder.add(divisor)))
        return builder.add(arith.SelectOp(is_zero, minus_one, quotient))
    # Division by -1 is a negation, which wraps around where the division overflows.
    is_minus_one = builder.add(arith.CmpiOp(rhs, minus_one, "eq"))
    is_special = builder.add(arith.OrIOp(is_zero, is_minus_one))
    divisor = builder.add(arith.SelectOp(is_special, one, rhs))
    quotient = builder.add(arith.DivSIOp(lhs, divisor))
    opposite = builder.add(arith.SubiOp(zero, lhs))
    quotient = builder.add(arith.SelectOp(is_minus_one, opposite, quotient))
    return builder.add(arith.SelectOp(is_zero, minus_one, quotient))


def _remainder(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    lhs, rhs = args
    type_ = _element_type(op.operands[0])
    if is_floating(type_):
        return builder.add(RemFOp(lhs, rhs))
    # Both are remainders of zero and minus one, where `arith` has undefined behavior.
    zero, one = (builder.number(value, rhs.type) for value in (0, 1))
    is_zero = builder.add(arith.CmpiOp(rhs, zero, "eq"))
    is_special, op_type = is_zero, arith.RemUIOp
    if not is_unsigned_type(type_):
        minus_one = builder.number(-1, rhs.type)
        is_minus_one = builder.add(arith.CmpiOp(rhs, minus_one, "eq"))
        is_special = builder.add(arith.OrIOp(is_zero, is_minus_one))
        op_type = arith.RemSIOp
    divisor = builder.add(arith.SelectOp(is_special, one, rhs))
    rest = builder.add(op_type(lhs, divisor))
    return builder.add(arith.SelectOp(is_zero, lhs, rest))


def _power(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    """Return a power; powers of integers are computed by squaring, without a loop."""
    base, exponent = args
    type_ = _element_type(op.operands[0])
    if is_floating(type_):
        return builder.add(math.PowFOp(base, exponent))
    zero, one = (builder.number(value, base.type) for value in (0, 1))
    result, square = one, base
    for bit in range(bit_width(type_)):
        mask = builder.number(1 << bit, base.type)
        masked = builder.add(arith.AndIOp(exponent, mask))
        is_set = builder.add(arith.CmpiOp(masked, zero, "ne"))
        factor = builder.add(arith.SelectOp(is_set, square, one))
        result = builder.add(arith.MuliOp(result, factor))
        square = builder.add(arith.MuliOp(square, square))
    if is_unsigned_type(type_):
        return result
    # 1 and -1 are their own reciprocals; those of other integers round to 0.
    magnitude = builder.add(math.AbsIOp(base))
    is_unit = builder.add(arith.CmpiOp(magnitude, one, "eq"))
    inverse = builder.add(arith.SelectOp(is_unit, result, zero))
    is_negative = builder.add(arith.CmpiOp(exponent, zero, "slt"))
    return builder.add(arith.SelectOp(is_negative, inverse, result))


def _sign(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    (value,) = args
    zero, one = (builder.number(constant, value.type) for constant in (0, 1))
    if is_floating(value.type):
        sign = builder.add(math.CopySignOp(one, value))
        is_nonzero = builder.add(arith.CmpfOp(value, zero, "one"))
        return builder.add(arith.SelectOp(is_nonzero, sign, value))
    minus_one = builder.number(-1, value.type)
    bounded = builder.add(arith.MaxSIOp(value, minus_one))
    return builder.add(arith.MinSIOp(bounded, one))


def _is_finite(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    (value,) = args
    infinity = builder.number(float("inf"), value.type)
    return builder.add(arith.CmpfOp(builder.add(math.AbsFOp(value)), infinity, "olt"))


def _complement_of_erf(
    builder: LoweringBuilder, op: Operation, args: Values
) -> SSAValue:
    one = builder.number(1, args[0].type)
    return builder.add(arith.SubfOp(one, builder.add(math.ErfOp(args[0]))))


_INFINITE = {
    "chlo.is_inf": float("inf"),
    "chlo.is_neg_inf": float("-inf"),
    "chlo.is_pos_inf": float("inf"),
}


def _is_infinite(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    (value,), name = args, op_name(op)
    if name == "chlo.is_inf":
        value = builder.add(math.AbsFOp(value))
    infinity = builder.number(_INFINITE[name], value.type)
    return builder.add(arith.CmpfOp(value, infinity, "oeq"))


def _bounded_shift(op_type: _MakeOp) -> Formula:
    """Return a formula that shifts out all bits for shifts by the bit width or more."""

    def formula(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
        value, count = args
        last = builder.number(bit_width(value.type) - 1, value.type)
        bounded = builder.add(arith.MinUIOp(count, last))
        shifted = builder.add(op_type(value, bounded))
        if op_type is arith.ShRSIOp:
            return shifted
        is_outside = builder.add(arith.CmpiOp(count, last, "ugt"))
        zero = builder.number(0, value.type)
        return builder.add(arith.SelectOp(is_outside, zero, shifted))

    return formula


def _negate(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    (value,) = args
    if is_floating(value.type):
        return builder.add(arith.NegfOp(value))
    return builder.add(arith.SubiOp(builder.number(0, value.type), value))


def _not(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    (value,) = args
    return builder.add(arith.XOrIOp(value, builder.number(-1, value.type)))


def _sigmoid(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    """Return `1 / (1 + exp(-x))` without overflow, and with full precision near zero."""
    (value,) = args
    type_ = value.type
    if bit_width(type_) < 32:
        value = convert_scalar(builder, value, type_, f32)
    zero, one = (builder.number(constant, value.type) for constant in (0, 1))
    size = builder.add(math.AbsFOp(value))
    power = builder.add(math.ExpOp(builder.add(arith.NegfOp(size))))
    is_negative = builder.add(arith.CmpfOp(value, zero, "olt"))
    above = builder.add(arith.SelectOp(is_negative, power, one))
    result = builder.add(arith.DivfOp(above, builder.add(arith.AddfOp(one, power))))
    return convert_scalar(builder, result, result.type, type_)


def _convert(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    types = map(_element_type, (op.operands[0], op.results[0]))
    return convert_scalar(builder, args[0], *types)


def _compare(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    op = cast(CompareOp, op)
    direction, kind = op.comparison_direction.data.value, op.compare_type
    lhs, rhs = args
    type_ = _element_type(op.operands[0])
    if is_floating(type_):
        if kind is None or kind.data.value != "TOTALORDER":
            ordering = "u" if direction == "NE" else "o"
            return builder.add(arith.CmpfOp(lhs, rhs, ordering + direction.lower()))
        lhs, rhs = (in_total_order(builder, value) for value in args)
    prefix = (
        "" if direction in ("EQ", "NE") else "u" if is_unsigned_type(type_) else "s"
    )
    return builder.add(arith.CmpiOp(lhs, rhs, prefix + direction.lower()))


def in_total_order(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    """Return a signed integer that is ordered like a float in IEEE 754's total order."""
    type_ = IntegerType(bit_width(value.type))
    bits = builder.add(arith.BitcastOp(value, type_))
    last = builder.number(type_.bitwidth - 1, type_)
    # Negative floats: flip all bits except the sign.
    signs = builder.add(arith.ShRSIOp(bits, last))
    mask = builder.add(arith.ShRUIOp(signs, builder.number(1, type_)))
    return builder.add(arith.XOrIOp(bits, mask))


def _clamp(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    low, value, high = args
    type_ = _element_type(op.operands[0])
    return builder.add(_MINIMUM(type_)(builder.add(_MAXIMUM(type_)(value, low)), high))


FORMULAS: dict[str, Formula] = {
    "chlo.acos": _uniform_formula(math.AcosOp),
    "chlo.acosh": _uniform_formula(math.AcoshOp),
    "chlo.asin": _uniform_formula(math.AsinOp),
    "chlo.asinh": _uniform_formula(math.AsinhOp),
    "chlo.atan": _uniform_formula(math.AtanOp),
    "chlo.atanh": _uniform_formula(math.AtanhOp),
    "chlo.bessel_i1e": float_formula(special_functions.bessel_i1e),
    "chlo.conj": lambda b, _, args: args[0],
    "chlo.cosh": _uniform_formula(math.CoshOp),
    "chlo.digamma": float_formula(special_functions.digamma),
    "chlo.erf": _uniform_formula(math.ErfOp),
    "chlo.erf_inv": float_formula(
        special_functions.inverse_error_function, has_f64=False
    ),
    "chlo.erfc": _complement_of_erf,
    "chlo.is_inf": _is_infinite,
    "chlo.is_neg_inf": _is_infinite,
    "chlo.is_pos_inf": _is_infinite,
    "chlo.lgamma": float_formula(special_functions.log_gamma),
    "chlo.mulhi": special_functions.high_product,
    "chlo.next_after": special_functions.next_after,
    "chlo.polygamma": float_formula(special_functions.polygamma),
    "chlo.sinh": _uniform_formula(math.SinhOp),
    "chlo.square": lambda b, _, args: b.add(arith.MulfOp(args[0], args[0])),
    "chlo.tan": _uniform_formula(math.TanOp),
    "chlo.zeta": float_formula(special_functions.zeta),
    "stablehlo.abs": _typed_formula(_by_kind(math.AbsFOp, math.AbsIOp)),
    "stablehlo.add": _typed_formula(_ADD),
    "stablehlo.and": _uniform_formula(arith.AndIOp),
    "stablehlo.atan2": _uniform_formula(math.Atan2Op),
    "stablehlo.cbrt": _uniform_formula(math.CbrtOp),
    "stablehlo.ceil": _uniform_formula(math.CeilOp),
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.cosine": _uniform_formula(math.CosOp),
    "stablehlo.count_leading_zeros": _uniform_formula(math.CountLeadingZerosOp),
    "stablehlo.divide": _divide,
    "stablehlo.exponential": _uniform_formula(math.ExpOp),
    "stablehlo.exponential_minus_one": _uniform_formula(math.ExpM1Op),
    "stablehlo.floor": _uniform_formula(math.FloorOp),
    "stablehlo.is_finite": _is_finite,
    "stablehlo.log": _uniform_formula(math.LogOp),
    "stablehlo.log_plus_one": _uniform_formula(math.Log1pOp),
    "stablehlo.logistic": _sigmoid,
    "stablehlo.maximum": _typed_formula(_MAXIMUM),
    "stablehlo.minimum": _typed_formula(_MINIMUM),
    "stablehlo.multiply": _typed_formula(_MULTIPLY),
    "stablehlo.negate": _negate,
    "stablehlo.not": _not,
    "stablehlo.or": _uniform_formula(arith.OrIOp),
    "stablehlo.popcnt": _uniform_formula(math.CtPopOp),
    "stablehlo.power": _power,
    "stablehlo.reduce_precision": reduce_precision,
    "stablehlo.remainder": _remainder,
    "stablehlo.round_nearest_afz": _uniform_formula(math.RoundOp),
    "stablehlo.round_nearest_even": _uniform_formula(math.RoundEvenOp),
    "stablehlo.rsqrt": _uniform_formula(math.RsqrtOp),
    "stablehlo.select": _uniform_formula(arith.SelectOp),
    "stablehlo.shift_left": _bounded_shift(arith.ShLIOp),
    "stablehlo.shift_right_arithmetic": _bounded_shift(arith.ShRSIOp),
    "stablehlo.shift_right_logical": _bounded_shift(arith.ShRUIOp),
    "stablehlo.sign": _sign,
    "stablehlo.sine": _uniform_formula(math.SinOp),
    "stablehlo.sqrt": _uniform_formula(math.SqrtOp),
    "stablehlo.subtract": _typed_formula(_SUBTRACT),
    "stablehlo.tan": _uniform_formula(math.TanOp),
    "stablehlo.tanh": _uniform_formula(math.TanhOp),
    "stablehlo.xor": _uniform_formula(arith.XOrIOp),
}
"""
Formulas of ops with the trait `ComputesElementwise`, by op name. Packages that add such an
op to a dialect add its formula here.
"""


class LowerElementwise(LinalgLowering):
    """
    Lower an op with the trait `ComputesElementwise` to one `linalg.generic`, whose body is
    the op's formula in
    [`FORMULAS`][xdsl_quant.frontends.stablehlo.lowering.linalg.elementwise.FORMULAS].
    Operands of rank 0 are broadcast.
    """

    def handles(self, op: Operation) -> bool:
        return has_quantization_trait(op, ComputesElementwise)

    def lower(self, builder: LoweringBuilder, op: Operation, args: Values) -> Values:
        return [apply_formula(builder, op, op_name(op), args)]


def apply_formula(
    builder: LoweringBuilder, op: Operation, name: str, args: Values
) -> SSAValue:
    """
    Apply the formula of the op `name` to the elements of tensors.

    Args:
        builder: insertion point.
        op: op with the properties of the formula.
        name: name of the formula.
        args: operands; those of rank 0 are broadcast.

    Raises:
        Unsupported: if the op has no formula.
    """
    if (formula := FORMULAS.get(name)) is None:
        raise Unsupported("is elementwise, but has no formula on scalars")
    type_ = stored_type(op.results[0].type)
    ranks = [len(shape_of(operand)) for operand in args]
    return builder.map(
        [(o, dimensions(range(rank))) for o, rank in zip(args, ranks, strict=True)],
        type_,
        builder.sizes(args[ranks.index(len(type_.get_shape()))]),
        lambda body, args: formula(body, op, args[:-1]),
    )


# Conversions


def convert_scalar(
    builder: LoweringBuilder, value: SSAValue, source: Attribute, target: Attribute
) -> SSAValue:
    """
    Convert a scalar to another element type.

    Integers keep their low bits if the target is narrower. Floats become integers by
    rounding toward zero and saturating; NaN becomes 0. For `i1`, nonzero values are true.
    Floats of up to 8 bits only have conversions.

    Args:
        builder: insertion point.
        value: scalar of type `source` without signedness.
        source: element type, with its signedness.
        target: new element type, with its signedness.
    """
    if source == target:
        return value
    if is_boolean(target):
        zero = builder.number(0, value.type)
        if is_floating(source):
            return builder.add(arith.CmpfOp(value, zero, "une"))
        return builder.add(arith.CmpiOp(value, zero, "ne"))
    if is_floating(target):
        return _as_float(builder, value, source, cast(AnyFloat, target))
    if is_floating(source):
        return _float_as_integer(builder, value, target)
    width, new_width = bit_width(source), bit_width(target)
    if width == new_width:
        return value
    wider = arith.ExtUIOp if is_unsigned_type(source) else arith.ExtSIOp
    op_type = arith.TruncIOp if width > new_width else wider
    return builder.op(op_type, (value,), signless(target))


def _as_float(
    builder: LoweringBuilder, value: SSAValue, source: Attribute, target: AnyFloat
) -> SSAValue:
    if not is_floating(source):
        op_type = arith.UIToFPOp if is_unsigned_type(source) else arith.SIToFPOp
        if target.bitwidth > 8:
            return builder.op(op_type, (value,), target)
        # Integers that are inexact in f32 exceed all smaller floats.
        value, source = builder.op(op_type, (value,), f32), f32
    width = bit_width(source)
    if width == target.bitwidth:
        # f16 and bf16: neither can represent all values of the other.
        value, width = builder.op(arith.ExtFOp, (value,), f32), 32
    op_type = arith.ExtFOp if width < target.bitwidth else arith.TruncFOp
    return builder.op(op_type, (value,), target)


def _float_as_integer(
    builder: LoweringBuilder, value: SSAValue, target: Attribute
) -> SSAValue:
    if bit_width(value.type) < 32:
        # Integer bounds may be infinite in narrower floats.
        value = builder.op(arith.ExtFOp, (value,), f32)
    float_type = cast(AnyFloat, value.type)
    is_signed = not is_unsigned_type(target)
    bits = bit_width(target) - is_signed
    end = 2.0**bits
    # Largest float that the integer type represents.
    digits = min(float_format(float_type).precision, bits)
    high = end - 2.0 ** (bits - digits)
    # `maxnumf` of NaN and a number is the number.
    low = builder.number(-end if is_signed else 0.0, float_type)
    bounded = builder.add(arith.MaxnumfOp(value, low))
    bounded = builder.add(arith.MinnumfOp(bounded, builder.number(high, float_type)))
    if bit_width(target) <= 16:
        # Conversions to i32 are vectorized, those to narrower integers are not.
        wide = builder.op(arith.FPToSIOp, (bounded,), i32)
        result = builder.op(arith.TruncIOp, (wide,), signless(target))
    else:
        op_type = arith.FPToSIOp if is_signed else arith.FPToUIOp
        result = builder.op(op_type, (bounded,), signless(target))
    if digits < bits:
        is_large = arith.CmpfOp(value, builder.number(end, float_type), "oge")
        largest = builder.number((1 << bits) - 1, result.type)
        result = builder.add(arith.SelectOp(builder.add(is_large), largest, result))
    is_nan = builder.add(arith.CmpfOp(value, value, "uno"))
    return builder.add(arith.SelectOp(is_nan, builder.number(0, result.type), result))
