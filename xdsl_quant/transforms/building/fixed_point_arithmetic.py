"""
Ops for integer arithmetic with multipliers and shifts, bit-identical to
[`apply_scale`][xdsl_quant.numerics.apply_scale].

All operands are `i64` scalars, or `i64` tensors of one shape.
"""

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i64
from xdsl.ir import Operation, SSAValue

from xdsl_quant.rounding_mode import ScaleRounding

from .builder import LoweringBuilder, integer_attr


def i64_constant(builder: LoweringBuilder, value: int) -> SSAValue:
    """Build an `i64` constant as an operand of elementwise ops."""
    return builder.lift(builder.constant(integer_attr(value, 64), i64))


def extend(builder: LoweringBuilder, stored: SSAValue, is_signed: bool) -> SSAValue:
    """Extend stored values of up to 32 bits to `i64`."""
    return _op(builder, arith.ExtSIOp if is_signed else arith.ExtUIOp, stored)


def _op(
    builder: LoweringBuilder, op_type: type[Operation], *operands: SSAValue
) -> SSAValue:
    return builder.elementwise(op_type, operands, i64)


def add(builder: LoweringBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return _op(builder, arith.AddiOp, lhs, rhs)


def subtract(builder: LoweringBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return _op(builder, arith.SubiOp, lhs, rhs)


def multiply(builder: LoweringBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return _op(builder, arith.MuliOp, lhs, rhs)


def apply_scale(
    builder: LoweringBuilder,
    value: SSAValue,
    multiplier: SSAValue,
    shift: SSAValue,
    rounding: ScaleRounding,
) -> SSAValue:
    """
    Multiply by `multiplier / 2**shift` and round as TOSA's `apply_scale_32` does:
    `(value * multiplier + (1 << (shift - 1))) >> shift`.

    Values from `-2**32` to `2**32 - 1`, such as zero-point-corrected values, do not
    overflow.

    Args:
        builder: inserts the ops.
        value: integers of at most 33 bits, including the sign.
        multiplier: from 0 to `2**31 - 1`.
        shift: from 2 to 62.
        rounding: the rounding mode, as in
            [`apply_scale`][xdsl_quant.numerics.apply_scale].
    """
    product = multiply(builder, value, multiplier)
    if rounding == "double":
        product = _rounded_first(builder, product, value, shift)
    return rounded_shift(builder, product, shift)


def rounded_shift(
    builder: LoweringBuilder, value: SSAValue, shift: SSAValue
) -> SSAValue:
    """
    Divide by `2**shift` and round half up, for shifts of at least 1.

    Never overflows: the half is added after a shift by `shift - 1`.
    """
    one = i64_constant(builder, 1)
    if (known_shift := _known_integer(shift)) is None:
        shift_less_one = subtract(builder, shift, one)
    else:
        shift_less_one = i64_constant(builder, known_shift - 1)
    halves = _op(builder, arith.ShRSIOp, value, shift_less_one)
    return _op(builder, arith.ShRSIOp, add(builder, halves, one), one)


def _known_integer(number: SSAValue) -> int | None:
    """Return the value of an integer constant, or `None` for other values."""
    if isinstance(op := number.owner, arith.ConstantOp):
        attr = op.value
        return attr.value.data if isinstance(attr, IntegerAttr) else None
    return None


def _rounded_first(
    builder: LoweringBuilder, product: SSAValue, value: SSAValue, shift: SSAValue
) -> SSAValue:
    """Add the second rounding term of `double`, `±2**30`, if the shift exceeds 31."""
    known_shift = _known_integer(shift)
    if known_shift is not None and known_shift <= 31:
        return product
    # xDSL has no comparison of tensors: the shift yields a mask of all ones or zeros.
    is_negative = _op(builder, arith.ShRSIOp, value, i64_constant(builder, 63))
    sign = _op(builder, arith.OrIOp, is_negative, i64_constant(builder, 1))
    half = _op(builder, arith.ShLIOp, sign, i64_constant(builder, 30))
    if known_shift is None:
        less = subtract(builder, i64_constant(builder, 31), shift)
        is_long = _op(builder, arith.ShRSIOp, less, i64_constant(builder, 63))
        half = _op(builder, arith.AndIOp, half, is_long)
    return add(builder, product, half)


def clamp_and_truncate(
    builder: LoweringBuilder,
    value: SSAValue,
    low: int,
    high: int,
    storage_type: IntegerType,
) -> SSAValue:
    """Clamp integers to a range, and truncate them to the storage type."""
    value = _op(builder, arith.MaxSIOp, value, i64_constant(builder, low))
    value = _op(builder, arith.MinSIOp, value, i64_constant(builder, high))
    return builder.elementwise(arith.TruncIOp, (value,), storage_type)
