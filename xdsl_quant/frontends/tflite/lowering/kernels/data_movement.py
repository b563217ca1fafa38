"""Implementations of data movement ops, constants and ranges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant.ops import has_floats
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect import MirrorPad
from xdsl_quant.frontends.tflite.dialect.base import has_several_scales, is_true
from xdsl_quant.frontends.tflite.formulas import data_movement, floats, windows
from xdsl_quant.frontends.tflite.formulas.quantized import (
    Quantized,
    activation_bounds,
    round_away,
    scale_of,
    tabulate,
)
from xdsl_quant.frontends.tflite.slicing import SliceMasks
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.parameters import storage_range
from xdsl_quant.numerics.primitives import top_k, with_part
from xdsl_quant.runtime.arrays import dense_elements, numpy_dtype, stored_elements
from xdsl_quant.unsupported import Unsupported

from .computation import (
    Array,
    Computation,
    FallbackMode,
    Function,
    Implementation,
    activation_of,
    check_moves_stored_values,
    dequantize_array,
    have_one_scale,
    integers_of,
    is_array,
    number,
    on_stored_values,
    parameters_of,
    result_sizes,
)


def _zero(type_: Attribute) -> int:
    """
    Return the stored value that expresses 0.

    Raises:
        ValueError: if zero points differ.
    """
    if (parameters := parameters_of(type_)) is None:
        return 0
    zero_points: set[int] = {*parameters.zero_points.ravel().tolist()}
    if len(zero_points) > 1:
        raise ValueError("padding has more than one zero point")
    return zero_points.pop()


def _by_sizes(function: Callable[..., Array]) -> Function:
    """Implement an op by `function(tensor, sizes of the result)`."""

    def run(op: Operation, value: Array, sizes: Array) -> Array:
        return function(value, tuple(result_sizes(op, sizes)))

    return run


def _by_numbers(function: Callable[..., Array]) -> Function:
    """Implement an op by `function(tensor, integers)`; the second operand is constant."""

    def run(op: Operation, value: Array, numbers: Array) -> Array:
        return function(value, tuple(integers_of(numbers)))

    return run


# Shapes


def _shape(op: tfl.ShapeOp, value: Array) -> Array:
    return np.array(np.shape(value))


def _rank(op: tfl.RankOp, value: Array) -> Array:
    return np.array(np.ndim(value))


def _broadcast_args(op: tfl.BroadcastArgsOp, a: Array, b: Array) -> Array:
    return np.array(np.broadcast_shapes(tuple(integers_of(a)), tuple(integers_of(b))))


def _squeeze(op: tfl.SqueezeOp, value: Array) -> Array:
    dims = [d.value.data for d in op.squeeze_dims or ()]
    return np.squeeze(value, tuple(dims) if dims else None)


# Slices and gathers


def _slice(op: tfl.SliceOp, value: Array, begin: Array, size: Array) -> Array:
    parts: list[slice] = []
    for first, count, whole in zip(
        integers_of(begin), integers_of(size), np.shape(value), strict=True
    ):
        stop = whole if count == -1 else first + count
        if not 0 <= first <= stop <= whole:
            raise Unsupported(
                f"has a slice from {first} to {stop} of a dimension of size {whole}"
            )
        parts.append(slice(first, stop))
    return value[tuple(parts)]


def _strided_slice(
    op: tfl.StridedSliceOp, value: Array, begin: Array, end: Array, strides: Array
) -> Array:
    masks = SliceMasks(*(number(getattr(op, name)) for name in SliceMasks._fields))
    if op.offset.value.data:
        end = begin + end
    return data_movement.strided_slice(
        value, integers_of(begin), integers_of(end), integers_of(strides), masks
    )


def _unpack(op: tfl.UnpackOp, value: Array) -> tuple[Array, ...]:
    return tuple(np.moveaxis(value, op.axis.value.data, 0))


def _split(op: tfl.SplitOp, dim: Array, value: Array) -> tuple[Array, ...]:
    return tuple(np.split(value, op.num_splits.value.data, integers_of(dim)[0]))


def _split_v(
    op: tfl.SplitVOp, value: Array, sizes: Array, dim: Array
) -> tuple[Array, ...]:
    (axis,) = integers_of(dim)
    counts = integers_of(sizes)
    if -1 in counts:
        counts[counts.index(-1)] = np.shape(value)[axis] - sum(counts) - 1
    return tuple(np.split(value, np.cumsum(counts)[:-1].tolist(), axis))


def check_known_indices(indices: NDArray[Any], sizes: int | Sequence[int]) -> None:
    """
    Check that constant indices are in range.

    Args:
        indices: constant indices.
        sizes: size of the indexed dimension, or one size for each index in the last
            dimension of `indices`.

    Raises:
        Unsupported: if an index is negative or too large.
    """
    limits = np.broadcast_to(sizes, indices.shape)
    # NumPy counts negative indices from the end, and lowered code clamps indices.
    is_wrong = (indices < 0) | (indices >= limits)
    if is_wrong.any():
        index, limit = indices[is_wrong][0], limits[is_wrong][0]
        raise Unsupported(f"has index {index}, expected 0 to {limit - 1}")


def _with_indices(
    values: Array, indices: Array, sizes: int | Sequence[int]
) -> tuple[Array, Array]:
    """
    Check the indices; convert `values` to an expression for indices of run time.

    Raises:
        Unsupported: if the indices are not integers, or constants out of range.
    """
    if indices.dtype.kind not in "iu":
        raise Unsupported(f"has {indices.dtype} indices, expected integers")
    if is_array(indices):
        check_known_indices(indices, sizes)
    return data_movement.as_expression_like(values, indices), indices


def _gather(op: tfl.GatherOp, values: Array, indices: Array) -> Array:
    batch_dims = 0 if op.batch_dims is None else op.batch_dims.value.data
    axis = op.axis.value.data
    values, indices = _with_indices(values, indices, np.shape(values)[axis])
    return data_movement.gather(values, indices, axis, batch_dims)


def _gather_nd(op: tfl.GatherNdOp, values: Array, indices: Array) -> Array:
    sizes = np.shape(values)[: np.shape(indices)[-1]]
    return data_movement.gather_nd(*_with_indices(values, indices, sizes))


def _embedding_lookup(op: tfl.EmbeddingLookupOp, indices: Array, table: Array) -> Array:
    if has_floats(op.output.type):
        table = dequantize_array(table, op.value.type)
    else:
        check_moves_stored_values(op.value.type, op.output.type)
    return np.take(*_with_indices(table, indices, np.shape(table)[0]), axis=0)


def _reverse(op: Operation, value: Array, axes: Array) -> Array:
    return np.flip(value, tuple(integers_of(axes)))


def _top_k(op: tfl.TopKV2Op, values: Array, count: Array) -> tuple[Array, Array]:
    check_moves_stored_values(op.input.type, op.values.type)
    (k,) = integers_of(count)
    return top_k(values, k)


# Concatenation and padding


@dataclass(frozen=True)
class _Concatenation(Computation):
    """Concatenation; it copies stored values if all quantization parameters are equal."""

    def results(
        self,
        op: Operation,
        values: Sequence[Array | None],
        fall_back: Callable[[Operation, str], None] = lambda op, reason: None,
        mode: FallbackMode = "on",
    ) -> Array:
        types = {scalar_or_element_type(v.type) for v in (*op.operands, *op.results)}
        # The verifier of the op compares the scales of blocks.
        are_blocks = any(map(has_several_scales, types))
        if (len(types) == 1 or are_blocks) and activation_of(op) == "NONE":
            parts = cast("Sequence[Array]", values)
            return np.concatenate(parts, number(cast(tfl.ConcatenationOp, op).axis))
        return super().results(op, values, fall_back, mode)


def _concatenate_floats(op: tfl.ConcatenationOp, *parts: Array) -> Array:
    return floats.apply_activation(
        np.concatenate(parts, number(op.axis)), activation_of(op)
    )


def _concatenate(
    op: tfl.ConcatenationOp, result: QuantizationParameters, *parts: Quantized
) -> Array:
    whole = np.concatenate(
        [_requantize_in_f32(x, result) for x in parts], number(op.axis)
    )
    if (activation := activation_of(op)) == "NONE":
        return whole
    return np.clip(whole, *activation_bounds(result, activation))


def _requantize_in_f32(x: Quantized, result: QuantizationParameters) -> Array:
    """Requantize stored values to the parameters of the result, in `f32` arithmetic."""
    if have_one_scale(result, x.parameters):
        return x.values
    ratio = scale_of(x.parameters) * (np.float32(1) / scale_of(result))
    offset = np.float32(-int(x.parameters.zero_points)) * ratio
    low, high = result.storage_min, result.storage_max

    def rescaled(values: Array) -> Array:
        steps = round_away(values.astype(np.float32) * ratio + offset)
        stored = np.clip(steps + int(result.zero_points), low, high)
        return stored.astype(np.int64)

    return tabulate(x.values, *storage_range(x.parameters.storage), rescaled)


def _pack(op: tfl.PackOp, *parts: Array) -> Array:
    return np.stack(parts, op.axis.value.data)


def _pairs(numbers: Array) -> Array:
    """Return a constant operand, such as paddings, with shape `[dimensions, 2]`."""
    return np.reshape(integers_of(numbers), (-1, 2))


def _pad_with(value: Array, widths: Array, fill: float) -> Array:
    return np.pad(value, _pairs(widths), constant_values=fill)


def _pad(op: tfl.PadOp, value: Array, widths: Array) -> Array:
    return _pad_with(value, widths, _zero(op.output.type))


def _pad_v2(op: tfl.PadV2Op, value: Array, widths: Array, fill: Array) -> Array:
    if not is_array(fill):
        raise Unsupported("has a non-constant padding value")
    return _pad_with(value, widths, np.asarray(fill).item())


def _mirror_pad(op: tfl.MirrorPadOp, value: Array, widths: Array) -> Array:
    mode = "reflect" if op.mode.data is MirrorPad.REFLECT else "symmetric"
    return np.pad(value, _pairs(widths), mode=mode)


def _dynamic_update_slice(
    op: tfl.DynamicUpdateSliceOp, value: Array, update: Array, start: Array
) -> Array:
    indices = integers_of(start) if is_array(start) else start
    return with_part(
        data_movement.as_expression_like(value, start, update), update, indices
    )


# Blocks and images


def _by_blocks(function: Callable[..., Array]) -> Function:
    def run(op: tfl.SpaceToDepthOp | tfl.DepthToSpaceOp, value: Array) -> Array:
        return function(value, op.block_size.value.data)

    return run


def _space_to_batch(
    op: tfl.SpaceToBatchNdOp, value: Array, block: Array, paddings: Array
) -> Array:
    fill = _zero(op.output.type)
    sizes, pairs = integers_of(block), _pairs(paddings)
    return data_movement.space_to_batch(value, sizes, pairs, fill)


def _batch_to_space(
    op: tfl.BatchToSpaceNdOp, value: Array, block: Array, crops: Array
) -> Array:
    return data_movement.batch_to_space(value, integers_of(block), _pairs(crops))


def _resize_nearest_neighbor(
    op: tfl.ResizeNearestNeighborOp, value: Array, size: Array
) -> Array:
    options = is_true(op.align_corners), is_true(op.half_pixel_centers)
    rows, columns = integers_of(size)
    return windows.resize_nearest_neighbor(value, (rows, columns), *options)


# Constants, shapes and ranges


def _constant(op: tfl.ConstOp | tfl.QConstOp) -> Array:
    elements = dense_elements(op.value)
    element_type = scalar_or_element_type(op.output.type)
    if elements.dtype == numpy_dtype(element_type):
        return elements
    # Stored values are signless in the attribute.
    return stored_elements(elements, cast(StoredQuantizedType, element_type))


def _fill(op: tfl.FillOp, dims: Array, value: Array) -> Array:
    return np.broadcast_to(value, tuple(result_sizes(op, dims)))


def _range(op: tfl.RangeOp, start: Array, limit: Array, delta: Array) -> Array:
    numbers = [integers_of(operand) for operand in (start, limit, delta)]
    first, end, step = (number for (number,) in numbers)
    if not step:
        raise Unsupported("has delta 0")
    return cast("Any", np.arange(first, end, step))


DATA_MOVEMENT: Mapping[type[Operation], Implementation] = {
    tfl.ReshapeOp: _by_sizes(np.reshape),
    tfl.SqueezeOp: _squeeze,
    tfl.ExpandDimsOp: _by_numbers(np.expand_dims),
    tfl.TransposeOp: _by_numbers(np.transpose),
    tfl.SliceOp: _slice,
    tfl.StridedSliceOp: _strided_slice,
    tfl.DynamicUpdateSliceOp: _dynamic_update_slice,
    tfl.ConcatenationOp: _Concatenation(
        _concatenate_floats, _concatenate, accepts_booleans=True
    ),
    tfl.PackOp: _pack,
    tfl.UnpackOp: _unpack,
    tfl.SplitOp: _split,
    tfl.SplitVOp: _split_v,
    tfl.PadOp: _pad,
    tfl.PadV2Op: _pad_v2,
    tfl.MirrorPadOp: _mirror_pad,
    tfl.GatherOp: _gather,
    tfl.GatherNdOp: _gather_nd,
    tfl.EmbeddingLookupOp: _embedding_lookup,
    tfl.TopKV2Op: _top_k,
    tfl.TileOp: _by_numbers(np.tile),
    tfl.BroadcastToOp: _by_sizes(np.broadcast_to),
    tfl.ReverseV2Op: on_stored_values(_reverse, 1),
    tfl.SpaceToDepthOp: _by_blocks(data_movement.space_to_depth),
    tfl.DepthToSpaceOp: _by_blocks(data_movement.depth_to_space),
    tfl.SpaceToBatchNdOp: _space_to_batch,
    tfl.BatchToSpaceNdOp: _batch_to_space,
    tfl.ResizeNearestNeighborOp: _resize_nearest_neighbor,
    tfl.ConstOp: _constant,
    tfl.QConstOp: _constant,
    tfl.ShapeOp: _shape,
    tfl.RankOp: _rank,
    tfl.BroadcastArgsOp: _broadcast_args,
    tfl.FillOp: _fill,
    tfl.RangeOp: _range,
}
"""Implementations of data movement ops, constants and ranges."""
