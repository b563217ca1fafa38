"""
Ops of TensorFlow Lite that move elements, in TOSA.

What an op does with constant positions is found out by NumPy: the op is computed on the
positions of elements. If these are a box of the operand, it is a slice, otherwise
`tosa.gather` takes the elements by their positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import IntegerAttr, f32, i1, i32, i64
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect import MirrorPad
from xdsl_quant.frontends.tflite.formulas import data_movement, windows
from xdsl_quant.frontends.tflite.formulas.quantized import (
    activation_bounds,
    round_away,
    scale_of,
)
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.primitives import with_part
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from ..kernels.computing import check_moves_stored_values
from ..kernels.moving import check_indices
from .building import Operand, TosaBuilder, is_unsigned, lowered_type, per_tensor
from .elementwise import Lowering, activation_of, looked_up, with_float_activation


def number(attribute: Any, default: int = 0) -> int:
    """The value of an integer or a flag, which may be absent."""
    return default if attribute is None else int(attribute.value.data)


def result_shape(op: Operation, index: int = 0) -> tuple[int, ...]:
    """The shape of a result."""
    return lowered_type(op.results[index].type).get_shape()


def _positions(shape: Sequence[int]) -> NDArray[np.int64]:
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def taken(builder: TosaBuilder, value: SSAValue, positions: NDArray[Any]) -> SSAValue:
    """The elements of a tensor at some positions, in the shape of these."""
    shape = shape_of(value)
    everything = _positions(shape)
    ends = (np.unravel_index(int(f()), shape) for f in (positions.min, positions.max))
    first, last = ([int(i) for i in end] for end in ends)
    if all(a <= b for a, b in zip(first, last, strict=True)):
        box = tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))
        if np.array_equal(everything[box].ravel(), positions.ravel()):
            sizes = [b - a + 1 for a, b in zip(first, last, strict=True)]
            part = builder.sliced(value, first, sizes) if shape else value
            return builder.with_shape(part, positions.shape)
    return builder.gathered(value, positions)


def _moved(kernel: Callable[..., Any], *constants: str) -> Lowering:
    """
    An op whose kernel takes the operand, constants, and attributes.

    Args:
        kernel: computes the result of the op of arrays.
        constants: the attributes that it takes.
    """

    def lower(builder: TosaBuilder, op: Any, x: Operand, *others: Operand) -> SSAValue:
        arrays = [_array(other) for other in others]
        options = [number(getattr(op, name)) for name in constants]
        return taken(builder, x.value, kernel(_positions(x.shape), *arrays, *options))

    return lower


def _array(operand: Operand) -> NDArray[Any]:
    return np.array(operand.numbers, np.int64).reshape(operand.shape)


# Shapes


def _reshape(builder: TosaBuilder, op: Operation, x: Operand, *_: Operand) -> SSAValue:
    return builder.with_shape(x.value, result_shape(op))


def _transpose(
    builder: TosaBuilder, op: Operation, x: Operand, perm: Operand
) -> SSAValue:
    return builder.permuted(x.value, perm.numbers)


def _shape(builder: TosaBuilder, op: Operation, x: Operand) -> SSAValue:
    type_ = lowered_type(op.results[0].type).element_type
    return builder.array(np.array(x.shape, np.int64), type_)


# Parts


def _slice(
    builder: TosaBuilder, op: Operation, x: Operand, begin: Operand, size: Operand
) -> SSAValue:
    return builder.sliced(x.value, begin.numbers, result_shape(op))


def _strided_slice(
    builder: TosaBuilder, op: tfl.StridedSliceOp, x: Operand, *limits: Operand
) -> SSAValue:
    if number(op.offset):
        raise Unsupported("has ends that are offsets")
    masks = data_movement.SliceMasks(
        number(op.begin_mask),
        number(op.end_mask),
        number(op.ellipsis_mask),
        number(op.new_axis_mask),
        number(op.shrink_axis_mask),
    )
    begin, end, strides = (limit.numbers for limit in limits)
    positions = data_movement.strided_slice(
        _positions(x.shape), begin, end, strides, masks
    )
    return taken(builder, x.value, positions)


def _parts(
    builder: TosaBuilder, op: Operation, x: Operand, axis: int
) -> Sequence[SSAValue]:
    """Parts along a dimension, of the sizes that the results have."""
    axis %= len(x.shape)
    values: list[SSAValue] = []
    start = [0] * len(x.shape)
    for index in range(len(op.results)):
        sizes = result_shape(op, index)
        values.append(builder.sliced(x.value, start, sizes))
        start[axis] += sizes[axis]
    return values


def _split(
    builder: TosaBuilder, op: Operation, axis: Operand, x: Operand
) -> Sequence[SSAValue]:
    return _parts(builder, op, x, axis.numbers[0])


def _split_v(
    builder: TosaBuilder, op: Operation, x: Operand, sizes: Operand, axis: Operand
) -> Sequence[SSAValue]:
    return _parts(builder, op, x, axis.numbers[0])


def _unpack(builder: TosaBuilder, op: tfl.UnpackOp, x: Operand) -> Sequence[SSAValue]:
    axis = number(op.axis) % len(x.shape)
    positions = _positions(x.shape)
    return [
        taken(builder, x.value, np.take(positions, index, axis))
        for index in range(len(op.results))
    ]


def _gather(
    builder: TosaBuilder, op: tfl.GatherOp, x: Operand, indices: Operand
) -> SSAValue:
    axis, batch_dims = number(op.axis) % len(x.shape), number(op.batch_dims)
    if indices.array is not None:
        check_indices(indices.array, x.shape[axis])
        positions = data_movement.gather(
            _positions(x.shape), _array(indices), axis, batch_dims
        )
        return taken(builder, x.value, positions)
    if batch_dims:
        raise Unsupported("has batch dimensions and indices that are not constant")
    return _gathered_rows(builder, op, x, indices, axis)


def _gather_nd(
    builder: TosaBuilder, op: tfl.GatherNdOp, x: Operand, indices: Operand
) -> SSAValue:
    array = _array(indices)
    check_indices(array, x.shape[: array.shape[-1]])
    positions = data_movement.gather_nd(_positions(x.shape), array)
    return taken(builder, x.value, positions)


def _gathered_rows(
    builder: TosaBuilder, op: Operation, x: Operand, indices: Operand, axis: int
) -> SSAValue:
    """What indices, which are known at run time, name along a dimension."""
    outer = int(np.prod(x.shape[:axis], dtype=np.int64))
    inner = int(np.prod(x.shape[axis + 1 :], dtype=np.int64))
    count = int(np.prod(indices.shape, dtype=np.int64))
    values = builder.with_shape(x.value, (outer, x.shape[axis], inner))
    positions = indices.value
    if element_type_of(positions) != i64:
        positions = builder.widened(positions)
    positions = builder.with_shape(positions, (1, count))
    if outer > 1:
        operands = positions, builder.shape((outer, 1))
        type_ = element_type_of(positions)
        positions = builder.tosa(tosa_ops.TileOp, operands, (outer, count), type_)
    return builder.with_shape(builder.rows(values, positions), result_shape(op))


def _embedding_lookup(
    builder: TosaBuilder, op: tfl.EmbeddingLookupOp, indices: Operand, x: Operand
) -> SSAValue:
    check_moves_stored_values(x.type, op.output.type)
    if indices.array is not None:
        check_indices(indices.array, x.shape[0])
    return _gathered_rows(builder, op, x, indices, 0)


def _dynamic_update_slice(
    builder: TosaBuilder, op: Operation, x: Operand, update: Operand, start: Operand
) -> SSAValue:
    own, other = _positions(x.shape), _positions(update.shape)
    positions = with_part(own, other + own.size, start.numbers)
    flat = [
        builder.with_shape(value, (positions.size,))
        for value, positions in ((x.value, own), (update.value, other))
    ]
    return builder.gathered(builder.concatenated(flat, 0), positions)


# Wholes


def _concatenation(
    builder: TosaBuilder, op: tfl.ConcatenationOp, *values: Operand
) -> SSAValue:
    axis = number(op.axis) % len(values[0].shape)
    activation = activation_of(op)
    if not any(value.is_quantized for value in values):
        whole = builder.concatenated([value.value for value in values], axis)
        return with_float_activation(builder, whole, activation)
    result = per_tensor(op.output.type)
    parts = [_with_parameters(builder, value, result) for value in values]
    whole = builder.concatenated(parts, axis)
    if activation == "NONE":
        return whole
    return builder.bounded(whole, *activation_bounds(result, activation))


def _with_parameters(
    builder: TosaBuilder, x: Operand, result: QuantizationParameters
) -> SSAValue:
    """
    Stored values with the parameters of a concatenation.

    Raises:
        Unsupported: if these differ, and there is no kernel for the storage.
    """
    own = x.parameters
    if own.scales == result.scales and own.zero_points == result.zero_points:
        return x.value
    if not is_unsigned(x.type):
        raise Unsupported("concatenates values of different scales")
    scale = np.float32(own.scales) * (np.float32(1) / scale_of(result))
    # Of the values as unsigned ones, which the kernel rounds as floats of 32 bits.
    values = np.arange(256).astype(np.float32) * scale
    bias = np.float32(-(int(own.zero_points) + 128)) * scale
    table = round_away(values + bias) + int(result.zero_points)
    table = np.clip(table, -128, 127).astype(np.int64)
    return looked_up(builder, x, table)


def _pack(builder: TosaBuilder, op: tfl.PackOp, *values: Operand) -> SSAValue:
    rank = len(values[0].shape) + 1
    axis = number(op.axis) % rank
    shape = [*values[0].shape]
    shape.insert(axis, 1)
    parts = [builder.with_shape(value.value, shape) for value in values]
    return builder.concatenated(parts, axis)


def _pairs(operand: Operand) -> list[tuple[int, int]]:
    flat = operand.numbers
    return [*zip(flat[::2], flat[1::2], strict=True)]


def _zero(op: Operation, x: Operand) -> int:
    """The stored value of 0, or what is 0 for elements that are not quantized."""
    if x.is_quantized:
        return int(per_tensor(op.results[0].type).zero_points)
    return -128 if is_unsigned(x.type) else 0


def _pad(builder: TosaBuilder, op: Operation, x: Operand, pads: Operand) -> SSAValue:
    return builder.padded(x.value, _pairs(pads), _zero(op, x))


def _pad_v2(
    builder: TosaBuilder, op: Operation, x: Operand, pads: Operand, fill: Operand
) -> SSAValue:
    return builder.padded(x.value, _pairs(pads), known(fill))


def _mirror_pad(
    builder: TosaBuilder, op: tfl.MirrorPadOp, x: Operand, pads: Operand
) -> SSAValue:
    is_reflected = op.mode.data is MirrorPad.REFLECT
    mode = "reflect" if is_reflected else "symmetric"
    positions = np.pad(_positions(x.shape), _pairs(pads), mode=mode)
    return taken(builder, x.value, positions)


def _tile(
    builder: TosaBuilder, op: Operation, x: Operand, multiples: Operand
) -> SSAValue:
    operands = x.value, builder.shape(multiples.numbers)
    return builder.tosa(
        tosa_ops.TileOp, operands, result_shape(op), element_type_of(x.value)
    )


def _broadcast_to(
    builder: TosaBuilder, op: Operation, x: Operand, _: Operand
) -> SSAValue:
    shape = result_shape(op)
    value = builder.with_rank(x.value, len(shape))
    factors = [a // b for a, b in zip(shape, shape_of(value), strict=True)]
    operands = value, builder.shape(factors)
    return builder.tosa(tosa_ops.TileOp, operands, shape, element_type_of(value))


def _fill(builder: TosaBuilder, op: Operation, sizes: Operand, x: Operand) -> SSAValue:
    return _broadcast_to(builder, op, x, sizes)


def _range(
    builder: TosaBuilder, op: Operation, start: Operand, end: Operand, step: Operand
) -> SSAValue:
    first, last, delta = (known(operand) for operand in (start, end, step))
    if not delta:
        raise Unsupported("has delta 0")
    type_ = lowered_type(op.results[0].type).element_type
    return builder.array(np.arange(first, last, delta), type_)


def known(operand: Operand) -> Any:
    """
    The only element of a constant.

    Raises:
        Unsupported: if it is not known.
    """
    if operand.array is None:
        raise Unsupported("has an operand that is expected to be constant")
    return operand.array.item()


def _reverse(
    builder: TosaBuilder, op: Operation, x: Operand, axes: Operand
) -> SSAValue:
    value, type_ = x.value, element_type_of(x.value)
    for axis in axes.numbers:
        attribute = IntegerAttr(axis % len(x.shape), i32)
        value = builder.tosa(
            tosa_ops.ReverseOp, (value,), x.shape, type_, axis=attribute
        )
    return value


def _space_to_batch(
    builder: TosaBuilder, op: Operation, x: Operand, block: Operand, pads: Operand
) -> SSAValue:
    pairs = _pairs(pads)
    rest = [(0, 0)] * (len(x.shape) - len(pairs) - 1)
    padded = builder.padded(x.value, [(0, 0), *pairs, *rest], _zero(op, x))
    nothing = np.zeros((len(pairs), 2), np.int64)
    positions = data_movement.space_to_batch(
        _positions(shape_of(padded)), block.numbers, nothing, 0
    )
    return taken(builder, padded, positions)


def _resize_nearest(
    builder: TosaBuilder, op: tfl.ResizeNearestNeighborOp, x: Operand, size: Operand
) -> SSAValue:
    height, width = size.numbers
    positions = windows.resize_nearest_neighbor(
        _positions(x.shape),
        (height, width),
        bool(number(op.align_corners)),
        bool(number(op.half_pixel_centers)),
    )
    return taken(builder, x.value, positions)


def _top_k(
    builder: TosaBuilder, op: tfl.TopKV2Op, x: Operand, _: Operand
) -> Sequence[SSAValue]:
    check_moves_stored_values(x.type, op.values.type)
    *outer, size = x.shape
    rows = math.prod(outer), size
    count = result_shape(op)[-1]
    indices = largest_indices(builder, builder.with_shape(x.value, rows), count)
    values = builder.rows(builder.with_shape(x.value, (*rows, 1)), indices)
    return [
        builder.with_shape(value, result_shape(op, index))
        for index, value in enumerate((values, indices))
    ]


def largest_indices(builder: TosaBuilder, rows: SSAValue, count: int) -> SSAValue:
    """
    The indices of the largest elements of each row, lower ones first: the rank of an
    element is how many are before it.
    """
    batch, size = shape_of(rows)
    if element_type_of(rows) not in (f32, i64):
        rows = builder.widened(rows)
    pairs = batch, size, size
    own, other = (
        builder.with_shape(rows, shape)
        for shape in ((batch, size, 1), (batch, 1, size))
    )
    numbers = np.arange(size)
    is_earlier = builder.array((numbers < numbers[:, None])[None], i1)
    at_least, greater = (
        builder.tosa(op_type, (other, own), pairs, i1)
        for op_type in (tosa_ops.GreaterEqualOp, tosa_ops.GreaterOp)
    )
    is_before = builder.tosa(
        tosa_ops.SelectOp, (is_earlier, at_least, greater), pairs, i1
    )
    ranks = builder.reduced(tosa.ReduceSumOp, builder.with_elements(is_before, i32), 2)
    places = builder.array(np.arange(count).reshape(1, 1, -1), i32)
    shape = batch, size, count
    is_here = builder.tosa(tosa_ops.EqualOp, (ranks, places), shape, i1)
    found = builder.tosa(
        tosa_ops.SelectOp,
        (
            is_here,
            builder.array(numbers.reshape(1, -1, 1), i32),
            builder.array(np.zeros((1, 1, 1), np.int64), i32),
        ),
        shape,
        i32,
    )
    # Not a sum: the indices of NaN are within the row, too.
    indices = builder.reduced(tosa.ReduceMaxOp, found, 1)
    return builder.with_shape(indices, (batch, count))


LOWERINGS: Mapping[type[Operation], Lowering] = {
    tfl.ReshapeOp: _reshape,
    tfl.SqueezeOp: _reshape,
    tfl.ExpandDimsOp: _reshape,
    tfl.TransposeOp: _transpose,
    tfl.ShapeOp: _shape,
    tfl.SliceOp: _slice,
    tfl.StridedSliceOp: _strided_slice,
    tfl.SplitOp: _split,
    tfl.SplitVOp: _split_v,
    tfl.UnpackOp: _unpack,
    tfl.GatherOp: _gather,
    tfl.GatherNdOp: _gather_nd,
    tfl.EmbeddingLookupOp: _embedding_lookup,
    tfl.DynamicUpdateSliceOp: _dynamic_update_slice,
    tfl.ConcatenationOp: _concatenation,
    tfl.PackOp: _pack,
    tfl.PadOp: _pad,
    tfl.PadV2Op: _pad_v2,
    tfl.MirrorPadOp: _mirror_pad,
    tfl.TileOp: _tile,
    tfl.BroadcastToOp: _broadcast_to,
    tfl.FillOp: _fill,
    tfl.RangeOp: _range,
    tfl.ReverseV2Op: _reverse,
    tfl.SpaceToDepthOp: _moved(data_movement.space_to_depth, "block_size"),
    tfl.DepthToSpaceOp: _moved(data_movement.depth_to_space, "block_size"),
    tfl.SpaceToBatchNdOp: _space_to_batch,
    tfl.BatchToSpaceNdOp: _moved(data_movement.batch_to_space),
    tfl.ResizeNearestNeighborOp: _resize_nearest,
    tfl.TopKV2Op: _top_k,
}
"""The ops that move elements."""
