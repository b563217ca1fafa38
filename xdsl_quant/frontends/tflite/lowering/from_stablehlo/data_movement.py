"""Conversions of data movement ops."""

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i32
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.chlo import TopKOp
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .building import Conversion, TFLBuilder, filling_number


def _reshape(b: TFLBuilder, op: stablehlo.ReshapeOp) -> SSAValue:
    return b.reshape_to(op.operands[0], shape_of(op.results[0]))


def _transpose(b: TFLBuilder, op: stablehlo.TransposeOp) -> SSAValue:
    return b.transpose(op.operands[0], op.permutation.get_values())


def _broadcast_in_dim(b: TFLBuilder, op: stablehlo.BroadcastInDimOp) -> SSAValue:
    x, shape = op.operands[0], shape_of(op.results[0])
    dimensions = op.broadcast_dimensions.get_values()
    order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
    sizes = [1] * len(shape)
    for dimension, size in zip(dimensions, shape_of(x), strict=True):
        sizes[dimension] = size
    value = b.reshape_to(b.transpose(x, order), sizes)
    if sizes == [*shape]:
        return value
    target = b.integers(shape)
    return b.op(tfl.BroadcastToOp, (value, target), b.like(value, shape))


def _concatenate(b: TFLBuilder, op: stablehlo.ConcatenateOp) -> SSAValue:
    return b.add(
        tfl.ConcatenationOp(
            op.inputs,
            axis=op.dimension.value.data,
            fused_activation_function="NONE",
            result_types=[op.result.type],
        )
    )


def _slice(b: TFLBuilder, op: stablehlo.SliceOp) -> SSAValue:
    numbers = (op.start_indices, op.limit_indices, op.strides)
    return b.slice(op.operand, *(each.get_values() for each in numbers))


def _pad(b: TFLBuilder, op: stablehlo.PadOp) -> SSAValue:
    low, high, interior = (
        each.get_values()
        for each in (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
    )
    if any(interior):
        raise Unsupported("has interior padding")
    fill = None if filling_number(op.padding_value) == 0 else op.padding_value
    return b.pad(op.operand, low, high, fill)


def reverse(b: TFLBuilder, value: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Reverse dimensions one after the other: LiteRT requires contiguous ones."""
    for axis in axes:
        value = b.op(tfl.ReverseV2Op, (value, b.integers([axis])), value.type)
    return value


def _reverse_dimensions(b: TFLBuilder, op: stablehlo.ReverseOp) -> SSAValue:
    return reverse(b, op.operand, op.dimensions.get_values())


def _gather(b: TFLBuilder, op: stablehlo.GatherOp) -> SSAValue:
    """Convert a gather of whole slices along one dimension."""
    sizes, shape = op.slice_sizes.get_values(), shape_of(op.operand)
    offsets, collapsed, *batching, mapped = op.dimension_numbers.numbers()
    vector = op.dimension_numbers.index_vector_dim.data
    indices = op.start_indices
    rank, index_shape = len(shape_of(op.result)), shape_of(indices)
    if any(batching) or len(mapped) != 1 or [*collapsed] != [*mapped]:
        raise Unsupported("gathers other elements than slices along one dimension")
    (axis,) = mapped
    count = len(index_shape) - (vector < len(index_shape))
    expected = [*range(axis), *range(axis + count, rank)]
    whole = [1 if d == axis else n for d, n in enumerate(shape)]
    if [*sizes] != whole or [*offsets] != expected or DYNAMIC_INDEX in index_shape:
        raise Unsupported("gathers other elements than slices along one dimension")
    if vector < len(index_shape):
        index_shape = (*index_shape[:vector], *index_shape[vector + 1 :])
        indices = b.reshape_to(indices, index_shape)
    type_ = TensorType(op.result.type.element_type, shape_of(op.result))
    return b.add(
        tfl.GatherOp(op.operand, indices, axis=axis, batch_dims=0, result_types=[type_])
    )


def _index_vector(
    b: TFLBuilder, indices: Sequence[SSAValue], limits: Sequence[int] | None = None
) -> SSAValue:
    """Build the vector of scalar indices, clamped to `0` to `limits` if those are given."""
    element_type = element_type_of(indices[0])
    if limits is not None:
        clamped: list[SSAValue] = []
        for index, limit in zip(indices, limits, strict=True):
            low, high = (b.scalar(number, element_type) for number in (0, limit))
            index = b.op(tfl.MaximumOp, (index, low), low.type)
            clamped.append(b.op(tfl.MinimumOp, (index, high), low.type))
        indices = clamped
    type_ = TensorType(element_type, [len(indices)])
    return b.build(tfl.PackOp, indices, type_, axis=0, values_count=len(indices))


def _dynamic_slice(b: TFLBuilder, op: stablehlo.DynamicSliceOp) -> SSAValue:
    sizes, shape = op.slice_sizes.get_values(), shape_of(op.operand)
    if DYNAMIC_INDEX in shape:
        raise Unsupported("slices a tensor of dynamic size")
    if not sizes:
        return op.operand
    limits = [size - count for size, count in zip(shape, sizes, strict=True)]
    begin = _index_vector(b, op.start_indices, limits)
    size = b.array(np.array(sizes), element_type_of(begin))
    return b.op(tfl.SliceOp, (op.operand, begin, size), b.like(op.operand, sizes))


def _dynamic_update_slice(
    b: TFLBuilder, op: stablehlo.DynamicUpdateSliceOp
) -> SSAValue:
    """Convert an update; LiteRT clamps the indices, too."""
    if not op.start_indices:
        return op.update
    operands = op.operand, op.update, _index_vector(b, op.start_indices)
    return b.op(tfl.DynamicUpdateSliceOp, operands, op.operand.type)


def _top_k(b: TFLBuilder, op: TopKOp) -> Sequence[SSAValue]:
    count = b.scalar(op.k.value.data, i32)
    top = tfl.TopKV2Op(op.operand, count, result_types=op.result_types)
    b.add(top)
    return top.results


CONVERSIONS: Mapping[type[Operation], Conversion] = {
    stablehlo.ReshapeOp: _reshape,
    stablehlo.TransposeOp: _transpose,
    stablehlo.BroadcastInDimOp: _broadcast_in_dim,
    stablehlo.ConcatenateOp: _concatenate,
    stablehlo.SliceOp: _slice,
    stablehlo.PadOp: _pad,
    stablehlo.ReverseOp: _reverse_dimensions,
    stablehlo.GatherOp: _gather,
    stablehlo.DynamicSliceOp: _dynamic_slice,
    stablehlo.DynamicUpdateSliceOp: _dynamic_update_slice,
    TopKOp: _top_k,
}
"""Conversions of data movement ops, by op class."""
