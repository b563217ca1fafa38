"""
The elementwise ops of StableHLO on scalars.

Integers wrap around. What StableHLO leaves undefined is defined: a division by zero is -1,
all bits of an unsigned integer; the smallest integer divided by -1 is itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects import stablehlo
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.transforms.building.builder import LoweringBuilder

from .conversions import converted
from .element_types import is_boolean, is_float, is_unsigned

Scalar = Callable[[LoweringBuilder, Operation, Sequence[SSAValue]], SSAValue]
"""
Makes the scalar for an element of the result of an op from those of its operands, whose
types are signless.
"""


def _operand_type(op: Operation, index: int = 0) -> Attribute:
    """The element type of an operand, with its sign."""
    return scalar_or_element_type(op.operands[index].type)


# Binary ops


class _ByKind(NamedTuple):
    """The op for floats, signed and unsigned integers and truth values."""

    floats: type[Operation]
    signed: type[Operation]
    unsigned: type[Operation]
    booleans: type[Operation]

    def __call__(
        self, builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
    ) -> SSAValue:
        return builder.add(self.op_for(_operand_type(op))(*args))

    def op_for(self, type_: Attribute) -> Callable[..., Operation]:
        """The op for an element type."""
        if is_float(type_):
            return self.floats
        if is_boolean(type_):
            return self.booleans
        return self.unsigned if is_unsigned(type_) else self.signed


_ADD = _ByKind(arith.AddfOp, arith.AddiOp, arith.AddiOp, arith.OrIOp)
_SUBTRACT = _ByKind(arith.SubfOp, arith.SubiOp, arith.SubiOp, arith.SubiOp)
_MULTIPLY = _ByKind(arith.MulfOp, arith.MuliOp, arith.MuliOp, arith.AndIOp)
_MAXIMUM = _ByKind(arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp, arith.OrIOp)
_MINIMUM = _ByKind(arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp, arith.AndIOp)


def product(builder: LoweringBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """The product of scalars of one type; that of truth values is whether both hold."""
    return builder.add(_MULTIPLY.op_for(lhs.type)(lhs, rhs))


def total(builder: LoweringBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """The sum of scalars of one type; that of truth values is whether one holds."""
    return builder.add(_ADD.op_for(lhs.type)(lhs, rhs))


def _divide(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    lhs, rhs = args
    type_ = rhs.type
    if is_float(type_):
        return builder.add(arith.DivfOp(lhs, rhs))
    zero, one, minus_one = (builder.number(value, type_) for value in (0, 1, -1))
    is_zero = builder.add(arith.CmpiOp(rhs, zero, "eq"))
    if is_unsigned(_operand_type(op)):
        divisor = builder.add(arith.SelectOp(is_zero, one, rhs))
        quotient = builder.add(arith.DivUIOp(lhs, divisor))
        return builder.add(arith.SelectOp(is_zero, minus_one, quotient))
    # The opposite is what a division by -1 is, without the one that overflows.
    is_minus_one = builder.add(arith.CmpiOp(rhs, minus_one, "eq"))
    is_special = builder.add(arith.OrIOp(is_zero, is_minus_one))
    divisor = builder.add(arith.SelectOp(is_special, one, rhs))
    quotient = builder.add(arith.DivSIOp(lhs, divisor))
    opposite = builder.add(arith.SubiOp(zero, lhs))
    quotient = builder.add(arith.SelectOp(is_minus_one, opposite, quotient))
    return builder.add(arith.SelectOp(is_zero, minus_one, quotient))


# Unary ops


def _negate(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    (value,) = args
    if is_float(value.type):
        return builder.add(arith.NegfOp(value))
    return builder.add(arith.SubiOp(builder.number(0, value.type), value))


def _abs(builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    (value,) = args
    op_type = math.AbsFOp if is_float(value.type) else math.AbsIOp
    return builder.add(op_type(value))


def _exponential(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    return builder.add(math.ExpOp(args[0]))


def _tanh(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    return builder.add(math.TanhOp(args[0]))


def _logistic(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    """
    `1 / (1 + exp(-x))`, and `exp(x) / (1 + exp(x))` for a negative `x`: nothing overflows,
    and results near zero keep their digits.
    """
    (value,) = args
    type_ = cast(AnyFloat, value.type)
    if type_.bitwidth < 32:
        value = builder.add(arith.ExtFOp(value, f32))
    zero, one = (builder.number(constant, value.type) for constant in (0, 1))
    size = builder.add(math.AbsFOp(value))
    power = builder.add(math.ExpOp(builder.add(arith.NegfOp(size))))
    is_negative = builder.add(arith.CmpfOp(value, zero, "olt"))
    above = builder.add(arith.SelectOp(is_negative, power, one))
    result = builder.add(arith.DivfOp(above, builder.add(arith.AddfOp(one, power))))
    return (
        result if result.type == type_ else builder.add(arith.TruncFOp(result, type_))
    )


def _convert(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    result_type = scalar_or_element_type(op.results[0].type)
    return converted(builder, args[0], _operand_type(op), result_type)


# Comparison and choice

_FLOAT_PREDICATES: Mapping[str, str] = {
    "EQ": "oeq",
    "NE": "une",
    "GE": "oge",
    "GT": "ogt",
    "LE": "ole",
    "LT": "olt",
}


def _compare(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    assert isinstance(op, stablehlo.CompareOp)
    direction = op.comparison_direction.data.value
    lhs, rhs = args
    type_ = _operand_type(op)
    kind = op.compare_type
    if is_float(type_):
        if kind is None or kind.data is not stablehlo.ComparisonType.TOTALORDER:
            return builder.add(arith.CmpfOp(lhs, rhs, _FLOAT_PREDICATES[direction]))
        lhs, rhs = (_in_total_order(builder, value) for value in args)
    prefix = "" if direction in ("EQ", "NE") else "u" if is_unsigned(type_) else "s"
    return builder.add(arith.CmpiOp(lhs, rhs, prefix + direction.lower()))


def _in_total_order(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    """The integer that is at the place of a float among those with a sign."""
    type_ = IntegerType(cast(AnyFloat, value.type).bitwidth)
    bits = builder.add(arith.BitcastOp(value, type_))
    last = builder.number(type_.bitwidth - 1, type_)
    # All bits but the sign turn round if that is set.
    signs = builder.add(arith.ShRSIOp(bits, last))
    mask = builder.add(arith.ShRUIOp(signs, builder.number(1, type_)))
    return builder.add(arith.XOrIOp(bits, mask))


def _select(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    return builder.add(arith.SelectOp(*args))


def _clamp(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    low, value, high = args
    type_ = _operand_type(op)
    value = builder.add(_MAXIMUM.op_for(type_)(value, low))
    return builder.add(_MINIMUM.op_for(type_)(value, high))


SCALARS: Mapping[type[Operation], Scalar] = {
    stablehlo.AbsOp: _abs,
    stablehlo.AddOp: _ADD,
    stablehlo.ClampOp: _clamp,
    stablehlo.CompareOp: _compare,
    stablehlo.ConvertOp: _convert,
    stablehlo.DivideOp: _divide,
    stablehlo.ExponentialOp: _exponential,
    stablehlo.LogisticOp: _logistic,
    stablehlo.MaximumOp: _MAXIMUM,
    stablehlo.MinimumOp: _MINIMUM,
    stablehlo.MultiplyOp: _MULTIPLY,
    stablehlo.NegateOp: _negate,
    stablehlo.SelectOp: _select,
    stablehlo.SubtractOp: _SUBTRACT,
    stablehlo.TanhOp: _tanh,
}
"""The elementwise ops."""
