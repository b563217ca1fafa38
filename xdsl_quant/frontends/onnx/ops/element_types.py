"""Ops that change the element type."""

from collections.abc import Mapping

from xdsl.dialects.builtin import (
    AnyFloat,
    Float8E8M0FNUType,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.frontends.onnx.files.tensors import element_type_of_data
from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

_INCREMENTS = {"up": (1 << 52) - 1, "down": 0, "nearest": 1 << 51}
"""Number to add to the bits of an f64, by rounding of its exponent."""

_UI32, _UI64 = (IntegerType(width, Signedness.UNSIGNED) for width in (32, 64))


def convert_elements(
    b: GraphBuilder,
    x: SSAValue,
    type_: Attribute,
    *,
    saturate: bool = True,
    round_mode: str = "up",
) -> SSAValue:
    """
    Convert elements with the results of onnxruntime on x86 also for floats out of range:
    see `_floats_as_integers`.

    Args:
        b: insertion point.
        x: tensor to convert.
        type_: new element type.
        saturate: whether 8-bit floats saturate; otherwise they become infinite or NaN.
        round_mode: rounding to `f8E8M0FNU`: `up`, `down` or `nearest`.
    """
    source = element_type_of(x)
    if source == type_:
        return x
    if isinstance(type_, Float8E8M0FNUType):
        return _as_power_of_two(b, b.convert(x, f64), saturate, round_mode)
    if isinstance(type_, AnyFloat) and type_.bitwidth <= 8:
        return _as_small_float(b, x, type_, saturate)
    if isinstance(source, AnyFloat) and isa(type_, IntegerType) and type_ != i1:
        return _floats_as_integers(b, x, type_)
    return b.convert(x, type_)


def _as_small_float(
    b: GraphBuilder, x: SSAValue, type_: AnyFloat, saturate: bool
) -> SSAValue:
    source = element_type_of(x)
    if not isinstance(source, AnyFloat) or source.bitwidth <= 8:
        x = b.convert(x, f32)
    # Types of 4 bits have no infinity and no NaN.
    if saturate or type_.bitwidth < 8:
        largest = float_format(type_).largest
        x = b.clamp(x, -largest, largest)
    return b.convert(x, type_)


def _as_power_of_two(
    b: GraphBuilder, x: SSAValue, saturate: bool, round_mode: str
) -> SSAValue:
    """Convert f64 to `f8E8M0FNU`, by rounding the bits of the exponent."""
    if (increment := _INCREMENTS.get(round_mode)) is None:
        raise Unsupported(
            f"unknown round_mode '{round_mode}'; expected one of {', '.join(_INCREMENTS)}"
        )
    bounded = b.clamp(x, 2.0**-127, 2.0**127)
    bits = b.op(stablehlo.BitcastConvertOp, (bounded,), TensorType(i64, shape_of(x)))
    bits = b.compute(stablehlo.AddOp, bits, increment)
    exponent = b.compute(stablehlo.ShiftRightArithmeticOp, bits, 52)
    code = b.compute(stablehlo.SubtractOp, exponent, 1023 - 127)
    is_nan = b.compare(ComparisonDirection.NE, x, x if saturate else bounded)
    code = b.convert(b.select(is_nan, 255, code), i8)
    type_ = TensorType(Float8E8M0FNUType(), shape_of(x))
    return b.op(stablehlo.BitcastConvertOp, (code,), type_)


def _floats_as_integers(b: GraphBuilder, x: SSAValue, type_: IntegerType) -> SSAValue:
    """
    Convert floats, which are rounded toward zero, or half away from zero to types of less
    than 8 bits. x86 converts to signed integers of 32 or 64 bits, where floats out of range
    and NaN become the smallest integer. Narrower types keep the low bits; the upper half of
    wide unsigned types is converted with an offset.
    """
    if element_type_of(x) not in (f32, f64):
        x = b.convert(x, f32)
    if type_.bitwidth < 8:
        x = b.add(stablehlo.RoundNearestAfzOp(x))
    if type_ not in (_UI32, _UI64):
        wide = type_ if type_ == i64 else i32
        return b.convert(_truncated(b, x, wide), type_)
    wide, middle = IntegerType(type_.bitwidth), 2.0 ** (type_.bitwidth - 1)
    is_above = b.compare(ComparisonDirection.GE, x, middle)
    above = _truncated(b, b.compute(stablehlo.SubtractOp, x, middle), wide)
    above = b.compute(stablehlo.AddOp, b.convert(above, type_), middle)
    return b.select(is_above, above, b.convert(_truncated(b, x, wide), type_))


def _truncated(b: GraphBuilder, x: SSAValue, type_: IntegerType) -> SSAValue:
    end = 2.0 ** (type_.bitwidth - 1)
    is_inside = b.compare(ComparisonDirection.LT, x, end)
    return b.select(is_inside, b.convert(x, type_), -end)


def _cast(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    type_ = element_type_of_data(node.integer("to", 0))
    return _cast_to(b, node, x, type_)


def _cast_like(b: GraphBuilder, node: Node, x: SSAValue, like: SSAValue) -> SSAValue:
    return _cast_to(b, node, x, element_type_of(like))


def _cast_to(b: GraphBuilder, node: Node, x: SSAValue, type_: Attribute) -> SSAValue:
    return convert_elements(
        b,
        x,
        type_,
        saturate=node.flag("saturate", default=True),
        round_mode=node.text("round_mode", "up"),
    )


def _bit_cast_elements(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    type_ = element_type_of_data(node.integer("to", 0))
    if i1 in (element_type_of(x), type_):
        # ONNX stores a boolean as a byte, 0 or 1.
        return b.convert(x, type_)
    return b.op(stablehlo.BitcastConvertOp, (x,), TensorType(type_, shape_of(x)))


ELEMENT_TYPES: Mapping[str, Conversion] = {
    "BitCast": _bit_cast_elements,
    "Cast": _cast,
    "CastLike": _cast_like,
}
"""Conversions of ops that change the element type, by op."""
