"""`stablehlo.convert` of a scalar."""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.transforms.building.builder import LoweringBuilder

from .element_types import is_boolean, is_float, is_unsigned, signless


def converted(
    builder: LoweringBuilder, value: SSAValue, source: Attribute, target: Attribute
) -> SSAValue:
    """
    A number as one of another type.

    Integers lose the bits that there is no room for. A float becomes the nearest integer
    of the type once its fraction is cut off, and NaN becomes zero. What is not zero
    becomes `true`.

    Args:
        builder: where the ops are inserted.
        value: a scalar of the signless type of `source`.
        source: the element type, with its sign.
        target: the one to convert to, with its sign.
    """
    if source == target:
        return value
    if is_boolean(target):
        return _as_boolean(builder, value, source)
    if is_float(target):
        return _as_float(builder, value, source, cast(AnyFloat, target))
    if is_float(source):
        return _float_as_integer(builder, value, target)
    return _resized(builder, value, source, target)


def _as_boolean(
    builder: LoweringBuilder, value: SSAValue, source: Attribute
) -> SSAValue:
    zero = builder.number(0, value.type)
    if is_float(source):
        return builder.add(arith.CmpfOp(value, zero, "une"))
    return builder.add(arith.CmpiOp(value, zero, "ne"))


def _as_float(
    builder: LoweringBuilder, value: SSAValue, source: Attribute, target: AnyFloat
) -> SSAValue:
    if not is_float(source):
        op_type = arith.UIToFPOp if is_unsigned(source) else arith.SIToFPOp
        return builder.add(op_type(value, target))
    width = cast(AnyFloat, source).bitwidth
    if width == target.bitwidth:
        # f16 and bf16: neither has all numbers of the other.
        value, width = builder.add(arith.ExtFOp(value, f32)), 32
    op_type = arith.ExtFOp if width < target.bitwidth else arith.TruncFOp
    return builder.add(op_type(value, target))


def _resized(
    builder: LoweringBuilder, value: SSAValue, source: Attribute, target: Attribute
) -> SSAValue:
    width, new_width = (cast(IntegerType, type_).bitwidth for type_ in (source, target))
    if width == new_width:
        return value
    if width > new_width:
        return builder.add(arith.TruncIOp(value, cast(IntegerType, signless(target))))
    op_type = arith.ExtUIOp if is_unsigned(source) else arith.ExtSIOp
    return builder.add(op_type(value, cast(IntegerType, signless(target))))


def _float_as_integer(
    builder: LoweringBuilder, value: SSAValue, target: Attribute
) -> SSAValue:
    if cast(AnyFloat, value.type).bitwidth < 32:
        # The smaller types do not have the bounds of all integers.
        value = builder.add(arith.ExtFOp(value, f32))
    float_type = cast(AnyFloat, value.type)
    width = cast(IntegerType, target).bitwidth
    is_signed = not is_unsigned(target)
    end = math.ldexp(1.0, width - is_signed)
    low, high = -end if is_signed else 0.0, end - 1
    if (precision := float_format(float_type).precision) < width - is_signed:
        # The largest float that is an integer of the type.
        high = end - math.ldexp(1.0, width - is_signed - precision)
    # The maximum of NaN and a number is the number.
    bounded = builder.add(arith.MaxnumfOp(value, builder.number(low, float_type)))
    bounded = builder.add(arith.MinnumfOp(bounded, builder.number(high, float_type)))
    result = _bounded_as_integer(builder, bounded, width, is_signed)
    if high != end - 1:
        is_large = builder.add(
            arith.CmpfOp(value, builder.number(end, float_type), "oge")
        )
        largest = builder.number((1 << (width - is_signed)) - 1, result.type)
        result = builder.add(arith.SelectOp(is_large, largest, result))
    is_nan = builder.add(arith.CmpfOp(value, value, "uno"))
    return builder.add(arith.SelectOp(is_nan, builder.number(0, result.type), result))


def _bounded_as_integer(
    builder: LoweringBuilder, value: SSAValue, width: int, is_signed: bool
) -> SSAValue:
    if width <= 16:
        # Unlike a conversion to fewer bits this becomes vector instructions.
        wide = builder.add(arith.FPToSIOp(value, i32))
        return builder.add(arith.TruncIOp(wide, IntegerType(width)))
    op_type = arith.FPToSIOp if is_signed else arith.FPToUIOp
    return builder.add(op_type(value, IntegerType(width)))
