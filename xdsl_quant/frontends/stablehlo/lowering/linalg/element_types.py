"""
Numbers in loop bodies: the element types of StableHLO, whose integers have a signedness
where those of linalg have none, and conversions from one to another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.types import (
    StoredQuantizedType,
)
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.signless_types import signless

Values: TypeAlias = Sequence[SSAValue]

# Element types


def is_float(type_: Attribute) -> bool:
    """Whether an element type is a float."""
    return isinstance(type_, AnyFloat)


def bit_width(type_: Attribute) -> int:
    """The width of an integer or float type."""
    return cast("IntegerType | AnyFloat", type_).bitwidth


def is_boolean(type_: Attribute) -> bool:
    """Whether an element type is `i1`."""
    return isa(type_, IntegerType) and type_.bitwidth == 1


def is_unsigned(type_: Attribute) -> bool:
    """Whether an element type is one of unsigned integers, which `i1` counts as."""
    return isa(type_, IntegerType) and (
        type_.bitwidth == 1 or type_.signedness.data is Signedness.UNSIGNED
    )


def is_arithmetic(type_: Attribute) -> bool:
    """Whether the arith dialect computes with an element type, and both evaluators do."""
    if isa(type_, IntegerType):
        return type_.bitwidth <= 64
    return isinstance(type_, BFloat16Type | Float16Type | Float32Type | Float64Type)


def stored_type(type_: Attribute) -> TensorType:
    """The signless type of what is in memory for a tensor type, quantized or not."""
    storage = StoredQuantizedType.cast_to_signless_storage_type(type_)
    return cast(TensorType, storage or signless(type_))


# Conversions


def converted(
    builder: LoweringBuilder, value: SSAValue, source: Attribute, target: Attribute
) -> SSAValue:
    """
    A number as one of another type.

    A narrower integer keeps the low bits. A float is rounded towards zero and saturates,
    and NaN becomes zero. What is not zero becomes `true`.

    Args:
        builder: where the ops are inserted.
        value: a scalar of the signless type of `source`.
        source: the element type, with its signedness.
        target: the element type to convert to, with its signedness.
    """
    if source == target:
        return value
    if is_boolean(target):
        zero = builder.number(0, value.type)
        if is_float(source):
            return builder.add(arith.CmpfOp(value, zero, "une"))
        return builder.add(arith.CmpiOp(value, zero, "ne"))
    if is_float(target):
        return _as_float(builder, value, source, cast(AnyFloat, target))
    if is_float(source):
        return _float_as_integer(builder, value, target)
    width, new_width = bit_width(source), bit_width(target)
    if width == new_width:
        return value
    wider = arith.ExtUIOp if is_unsigned(source) else arith.ExtSIOp
    op_type = arith.TruncIOp if width > new_width else wider
    return builder.op(op_type, (value,), signless(target))


def _as_float(
    builder: LoweringBuilder, value: SSAValue, source: Attribute, target: AnyFloat
) -> SSAValue:
    if not is_float(source):
        op_type = arith.UIToFPOp if is_unsigned(source) else arith.SIToFPOp
        return builder.op(op_type, (value,), target)
    width = bit_width(source)
    if width == target.bitwidth:
        # f16 and bf16: neither has all numbers of the other.
        value, width = builder.op(arith.ExtFOp, (value,), f32), 32
    op_type = arith.ExtFOp if width < target.bitwidth else arith.TruncFOp
    return builder.op(op_type, (value,), target)


def _float_as_integer(
    builder: LoweringBuilder, value: SSAValue, target: Attribute
) -> SSAValue:
    if bit_width(value.type) < 32:
        # The bounds of integers may be infinite in the smaller types.
        value = builder.op(arith.ExtFOp, (value,), f32)
    float_type = cast(AnyFloat, value.type)
    is_signed = not is_unsigned(target)
    bits = bit_width(target) - is_signed
    end = math.ldexp(1.0, bits)
    # The largest float that is an integer of the type, if floats have all of its digits.
    digits = min(float_format(float_type).precision, bits)
    high = end - math.ldexp(1.0, bits - digits)
    # The maximum of NaN and a number is the number.
    low = builder.number(-end if is_signed else 0.0, float_type)
    bounded = builder.add(arith.MaxnumfOp(value, low))
    bounded = builder.add(arith.MinnumfOp(bounded, builder.number(high, float_type)))
    if bit_width(target) <= 16:
        # Unlike a conversion to fewer bits this becomes vector instructions.
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
