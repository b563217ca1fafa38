"""Ops that put elements elsewhere and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.dialects import stablehlo
from xdsl_quant.dialects.stablehlo.constant import ElementsAttr
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    shape_of,
)

from .element_types import bit_width, stored_type
from .padding import Padding, padded, why_not_padded


def _like(op: Operation, value: SSAValue) -> TensorType:
    """The type of the result of an op with the element type of a value."""
    shape = shape_of(op.results[0])
    return TensorType(element_type_of(value), shape)


# Constants


def convert_constant(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """A constant of the signless type."""
    assert isinstance(op, stablehlo.ConstantOp)
    type_ = stored_type(op.output.type)
    return [builder.add(arith.ConstantOp(elements_of_type(op.value, type_), type_))]


def elements_of_type(value: ElementsAttr, type_: TensorType) -> ElementsAttr:
    """The same bits as numbers of another type."""
    if value.type == type_:
        return value
    if isinstance(value, DenseResourceAttr):
        return DenseResourceAttr(value.resource_handle, type_)
    integer_type = cast(TensorType[IntegerType], type_)
    width = bit_width(type_.element_type)
    if width in (8, 16, 32, 64):
        return DenseIntOrFPElementsAttr(integer_type, BytesAttr(value.data.data))
    half = 1 << (width - 1)
    integers = cast(Sequence[int], value.get_values())
    return DenseIntOrFPElementsAttr.from_list(
        integer_type, [(integer + half) % (2 * half) - half for integer in integers]
    )


# Shapes


def why_not_reshaped(op: Operation) -> str | None:
    """A size of the result that is not known could be any."""
    if DYNAMIC_INDEX in shape_of(op.results[0]):
        return "has a result of unknown size"
    return None


def convert_reshape(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """A reshape, which moves nothing."""
    type_ = _like(op, operands[0])
    return [builder.reshaped(operands[0], type_, type_.get_shape())]


def convert_transpose(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """A loop nest over the result."""
    assert isinstance(op, stablehlo.TransposeOp)
    result = builder.transposed(operands[0], op.permutation.get_values())
    return [builder.cast(result, _like(op, result))]


def why_not_broadcast(op: Operation) -> str | None:
    """Whether a size is 1, and so repeated, has to be known."""
    if DYNAMIC_INDEX in (*shape_of(op.operands[0]), *shape_of(op.results[0])):
        return "has an operand or a result of unknown size"
    return None


def convert_broadcast_in_dim(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """A loop nest over the result; where the size is 1, one element is repeated."""
    assert isinstance(op, stablehlo.BroadcastInDimOp)
    type_ = _like(op, operands[0])
    sizes = type_.get_shape()
    source: list[AffineExpr] = [
        AffineConstantExpr(0)
        if size == 1 and sizes[dimension] != 1
        else AffineExpr.dimension(dimension)
        for size, dimension in zip(
            shape_of(operands[0]), op.broadcast_dimensions.get_values(), strict=True
        )
    ]
    return [builder.rearranged(operands[0], type_, sizes, source)]


# Parts


def convert_concatenate(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """A concatenation, of the type that follows from those of the operands."""
    assert isinstance(op, stablehlo.ConcatenateOp)
    axis = op.dimension.value.data
    shapes = [shape_of(operand) for operand in operands]
    shape = [
        next((size for size in sizes if size != DYNAMIC_INDEX), DYNAMIC_INDEX)
        for sizes in zip(*shapes, strict=True)
    ]
    along = [sizes[axis] for sizes in shapes]
    shape[axis] = DYNAMIC_INDEX if DYNAMIC_INDEX in along else sum(along)
    type_ = TensorType(element_type_of(operands[0]), shape)
    result = builder.add(tensor.ConcatOp(operands, axis, type_))
    return [builder.cast(result, _like(op, result))]


def convert_slice(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """A slice."""
    assert isinstance(op, stablehlo.SliceOp)
    starts, limits, strides = (
        attribute.get_values()
        for attribute in (op.start_indices, op.limit_indices, op.strides)
    )
    sizes = [
        -((start - limit) // stride)
        for start, limit, stride in zip(starts, limits, strides, strict=True)
    ]
    result = builder.part(operands[0], starts, sizes, strides)
    return [builder.cast(result, _like(op, result))]


def _paddings(op: stablehlo.PadOp) -> Sequence[Padding]:
    amounts = (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
    values = (attribute.get_values() for attribute in amounts)
    return [Padding(*amounts) for amounts in zip(*values, strict=True)]


def why_not_pad(op: Operation) -> str | None:
    """Why there is no way to pad, if there is none."""
    assert isinstance(op, stablehlo.PadOp)
    return why_not_padded(op.operand, _paddings(op))


def convert_pad(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """A tensor of equal elements, and in it those of the operand."""
    assert isinstance(op, stablehlo.PadOp)
    value, padding_value = operands
    result = padded(builder, value, _paddings(op), padding_value)
    return [builder.cast(result, _like(op, result))]
