"""
Conversions between floats and the codes of small floats, as ops on integers.

No op has a small float as its type: neither MLIR nor LLVM converts all of them.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, f64
from xdsl.ir import SSAValue

from xdsl_quant.numerics.small_floats import SmallFloat

from .bounded_integers import signed_bounds
from .builder import LoweringBuilder
from .number_expressions import FloatExpression, IntegerExpression

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
    """
    signed = IntegerExpression(builder, code, signed_bounds(format.bits))
    if not format.is_signed:
        return _power_of_two(signed)
    magnitude = signed & (format.sign_bit - 1)
    shift = 23 - format.mantissa_bits
    bits = (magnitude << shift) + ((127 - format.bias) << 23)
    number = bits.bits_as_float(f32)
    # A subnormal number has no implicit bit. What is right for those is the smaller one for
    # those only.
    subnormal = number + number - format.smallest_normal
    value = _where(subnormal < number, subnormal, number)
    if format.largest_code + 1 < format.sign_bit:
        value = _where(magnitude > format.largest_code, math.nan, value)
    if format.infinity is not None:
        value = _where(magnitude == format.infinity, math.inf, value)
    if format.nan == format.sign_bit:
        value = _where(signed == -format.sign_bit, math.nan, value)
    return (value.bits() + (signed & (-1 << 31))).bits_as_float(f32)


def _power_of_two(code: IntegerExpression) -> FloatExpression:
    unsigned = code & 255
    power = (unsigned << 23).bits_as_float(f32)
    power = _where(unsigned == 0, math.ldexp(1.0, -127), power)
    return _where(unsigned == 255, math.nan, power)
