"""Lowering of bit casts, and the formula of `reduce_precision`."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.frontends.stablehlo.dialect import BitcastConvertOp, ReducePrecisionOp
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    dimensions,
    element_type_of,
    shape_of,
)

from .lowering import (
    LinalgLowering,
    Values,
    bit_width,
    is_floating,
    stored_type,
    without_linalg,
)


class LowerBitcastConvert(LinalgLowering[BitcastConvertOp]):
    """
    Lower `stablehlo.bitcast_convert` to a `linalg.generic` on integers. The first of
    several narrow elements has the low bits of the wide element.
    """

    def lower(
        self, builder: LoweringBuilder, op: BitcastConvertOp, args: Values
    ) -> Values:
        (value,) = args
        type_ = stored_type(op.result.type)
        shape, result_shape = shape_of(value), type_.get_shape()
        width, target = bit_width(element_type_of(value)), bit_width(type_.element_type)
        if width != target and DYNAMIC_INDEX in (*shape, *result_shape):
            raise without_linalg("has an operand or a result of unknown size")
        rank, result_rank = len(shape), len(result_shape)
        if rank - result_rank != (target > width) - (target < width):
            raise without_linalg("has a result of another shape")
        indices: list[list[AffineExpr]] = [dimensions(range(min(rank, result_rank)))]
        if target > width:
            indices = [
                [*indices[0], AffineConstantExpr(part)] for part in range(shape[-1])
            ]

        def body(body: LoweringBuilder, args: Values) -> SSAValue:
            parts = [_as_bits(body, part, target) for part in args[:-1]]
            if target >= width:
                bits = _joined(body, parts, width)
            else:
                last = body.add(linalg.ops.IndexOp(result_rank - 1))
                bits = _extracted(body, args[0], last, target)
            return _from_bits(body, bits, type_.element_type)

        inputs = [(value, source) for source in indices]
        sizes = builder.sizes(value) if width == target else result_shape
        return [builder.map(inputs, type_, sizes, body)]


def _as_bits(builder: LoweringBuilder, value: SSAValue, width: int) -> SSAValue:
    """Return the bits of a scalar, zero-extended to an integer of at least `width`."""
    if is_floating(value.type):
        own = IntegerType(bit_width(value.type))
        value = builder.op(arith.BitcastOp, (value,), own)
    if bit_width(value.type) >= width:
        return value
    return builder.op(arith.ExtUIOp, (value,), IntegerType(width))


def _from_bits(builder: LoweringBuilder, bits: SSAValue, type_: Attribute) -> SSAValue:
    return builder.op(arith.BitcastOp, (bits,), type_) if is_floating(type_) else bits


def _joined(
    builder: LoweringBuilder, parts: Sequence[SSAValue], width: int
) -> SSAValue:
    """Return integers of `width` bits, concatenated from the low bits upward."""
    bits, *others = parts
    for index, part in enumerate(others, 1):
        shift = builder.number(index * width, part.type)
        shifted = builder.add(arith.ShLIOp(part, shift))
        bits = builder.add(arith.OrIOp(bits, shifted))
    return bits


def _extracted(
    builder: LoweringBuilder, value: SSAValue, index: SSAValue, width: int
) -> SSAValue:
    """Return the part of `width` bits with a given index."""
    bits = _as_bits(builder, value, 0)
    number = builder.op(arith.IndexCastOp, (index,), bits.type)
    shift = builder.add(arith.MuliOp(number, builder.number(width, bits.type)))
    shifted = builder.add(arith.ShRUIOp(bits, shift))
    return builder.op(arith.TruncIOp, (shifted,), IntegerType(width))


def reduce_precision(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    """
    Round half to even to fewer mantissa bits; overflow becomes an infinity, underflow a
    zero, and NaN remains, or becomes an infinity without mantissa bits.
    """
    (value,) = args
    op = cast(ReducePrecisionOp, op)
    type_ = cast(AnyFloat, value.type)
    mantissa = float_format(type_).precision - 1
    bits = _as_bits(builder, value, 0)
    sign = builder.number(-1 << (type_.bitwidth - 1), bits.type)
    sign = builder.add(arith.AndIOp(bits, sign))
    size = builder.add(arith.XOrIOp(bits, sign))
    is_nan = builder.add(arith.CmpfOp(value, value, "uno"))
    size = _rounded_mantissa(builder, size, mantissa - op.mantissa_bits.value.data)
    infinity = ((1 << (type_.bitwidth - 1 - mantissa)) - 1) << mantissa
    size = _limited_exponent(
        builder, size, mantissa, infinity, op.exponent_bits.value.data
    )
    reduced = _from_bits(builder, builder.add(arith.OrIOp(sign, size)), type_)
    if not op.mantissa_bits.value.data:
        special = builder.add(arith.OrIOp(sign, builder.number(infinity, bits.type)))
        value = _from_bits(builder, special, type_)
    return builder.add(arith.SelectOp(is_nan, value, reduced))


def _rounded_mantissa(builder: LoweringBuilder, size: SSAValue, count: int) -> SSAValue:
    """Round the magnitude's low `count` bits away, half to even."""
    if count <= 0:
        return size
    unit, one = (builder.number(number, size.type) for number in (count, 1))
    odd = builder.add(arith.AndIOp(builder.add(arith.ShRUIOp(size, unit)), one))
    half = builder.number((1 << (count - 1)) - 1, size.type)
    size = builder.add(arith.AddiOp(size, builder.add(arith.AddiOp(half, odd))))
    return builder.add(arith.AndIOp(size, builder.number(-1 << count, size.type)))


def _limited_exponent(
    builder: LoweringBuilder, size: SSAValue, mantissa: int, infinity: int, bits: int
) -> SSAValue:
    """Replace magnitudes outside the range of an exponent of `bits` bits."""
    bias, new_bias = (infinity >> mantissa) >> 1, (1 << (bits - 1)) - 1
    if new_bias >= bias:
        return size
    overflow = builder.number((bias + new_bias + 1) << mantissa, size.type)
    underflow = builder.number((bias - new_bias + 1) << mantissa, size.type)
    is_large = builder.add(arith.CmpiOp(size, overflow, "uge"))
    is_small = builder.add(arith.CmpiOp(size, underflow, "ult"))
    largest = builder.number(infinity, size.type)
    size = builder.add(arith.SelectOp(is_large, largest, size))
    return builder.add(arith.SelectOp(is_small, builder.number(0, size.type), size))
