"""
Conversions between floats and the codes of small floats, as ops on integers.

No op has a small float as its type: neither MLIR nor LLVM converts all of them.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f16, f32, f64, i16
from xdsl.ir import SSAValue

from xdsl_quant.machines.arith import FloatExpression, IntegerExpression
from xdsl_quant.machines.expression import signed_bounds
from xdsl_quant.numerics.small_floats import SmallFloat

from .builder import LoweringBuilder

_where = cast(Any, np).where


def encoded(
    number: FloatExpression, format: SmallFloat, *, saturate: bool = False
) -> SSAValue:
    """
    The code of a number: what
    [`SmallFloat.encode`][xdsl_quant.numerics.small_floats.SmallFloat.encode] gives.

    Args:
        number: of type f16, bf16, f32 or f64. There is no code for NaN in the ops if it
            is known not to be NaN.
        format: the format of the code.
        saturate: limit numbers and infinities to the range of the format before.

    Returns:
        an integer with as many bits as the format.
    """
    is_double = number.type == f64
    floats = number if is_double else number.as_float(f32)
    code = cast(
        IntegerExpression,
        format.codes_of(floats, is_double=is_double, saturate=saturate),
    )
    return code.as_type(IntegerType(format.bits))


def decoded(
    builder: LoweringBuilder, code: SSAValue, format: SmallFloat
) -> FloatExpression:
    """
    The number of a code: what
    [`SmallFloat.decode`][xdsl_quant.numerics.small_floats.SmallFloat.decode] gives.

    Args:
        builder: where the ops are inserted.
        code: an integer with as many bits as the format.
        format: the format of the code.

    Returns:
        a number of type f32.

    Raises:
        ValueError: for `f8E5M2FNUZ`, which has numbers where f16 has infinities.
    """
    signed = IntegerExpression(builder, code, signed_bounds(format.bits))
    if not format.is_signed:
        return _power_of_two(signed)
    if not format.is_part_of_f16:
        raise ValueError(f"codes of {format.name} are no parts of an f16")
    is_part = format.exponent_bits == 5
    number = _as_f16(builder, code, format).as_float(f32)
    value = number * math.ldexp(1.0, 15 - format.bias)
    if is_part or format.nan is None:
        return value
    magnitude = signed & (format.sign_bit - 1)
    is_nan = (
        signed == -format.sign_bit
        if format.nan == format.sign_bit
        else magnitude > format.largest_code
    )
    nan = FloatExpression(builder, builder.number(math.nan, f32))
    value = _where(is_nan, nan.copysign(value), value)
    if format.infinity is not None:
        value = _where(magnitude == format.infinity, number * math.inf, value)
    return value


def _as_f16(
    builder: LoweringBuilder, code: SSAValue, format: SmallFloat
) -> FloatExpression:
    """
    A code with zeros after it as an f16, whose exponent has another bias. CPUs convert it
    to f32 in one instruction.
    """
    # The sign goes where that of f16 is, and the bits between are dropped.
    zeros = 10 - format.mantissa_bits
    kept = builder.number((format.sign_bit - 1 << zeros) - (1 << 15), i16)
    bits = builder.op(arith.ExtSIOp, (code,), i16)
    bits = builder.op(arith.ShLIOp, (bits, builder.number(zeros, i16)), i16)
    bits = builder.op(arith.AndIOp, (bits, kept), i16)
    return FloatExpression(builder, builder.op(arith.BitcastOp, (bits,), f16))


def _power_of_two(code: IntegerExpression) -> FloatExpression:
    unsigned = code & 255
    power = (unsigned << 23).bits_as_float(f32)
    power = _where(unsigned == 0, math.ldexp(1.0, -127), power)
    return _where(unsigned == 255, math.nan, power)
