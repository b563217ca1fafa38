"""
Lowerings of data movement ops, selections and maxima.

If operands and results have the same quantization parameters, the lowerings move stored
values without casts.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .building import Lowering, TFLToStableHLOBuilder, integers, number, result_shape
from .windows import over_windows


def _reshape(
    b: TFLToStableHLOBuilder, op: Operation, x: SSAValue, *_: SSAValue
) -> SSAValue:
    return b.reshape_to(x, result_shape(op))


def _transpose(
    b: TFLToStableHLOBuilder, op: tfl.TransposeOp, x: SSAValue, perm: SSAValue
) -> SSAValue:
    permutation = [axis % len(shape_of(x)) for axis in integers(perm)]
    return b.add(stablehlo.TransposeOp(x, permutation=permutation))


# Slices


def _slice(
    b: TFLToStableHLOBuilder,
    op: tfl.SliceOp,
    x: SSAValue,
    begin: SSAValue,
    size: SSAValue,
) -> SSAValue:
    starts = integers(begin)
    limits = [
        whole if count == -1 else start + count
        for start, count, whole in zip(starts, integers(size), shape_of(x), strict=True)
    ]
    return b.slice(x, starts, limits)


def _strided_slice(
    b: TFLToStableHLOBuilder, op: tfl.StridedSliceOp, x: SSAValue, *bounds: SSAValue
) -> SSAValue:
    if any(number(flag) for flag in (op.ellipsis_mask, op.new_axis_mask, op.offset)):
        raise Unsupported("has an ellipsis, a new axis, or the attribute 'offset'")
    masks = [number(m) for m in (op.begin_mask, op.end_mask, op.shrink_axis_mask)]
    ranges: list[tuple[int, int, int]] = []
    shape = shape_of(x)
    for axis, values in enumerate(zip(*map(integers, bounds), strict=True)):
        has_no_begin, has_no_end, is_dropped = (mask >> axis & 1 for mask in masks)
        begin, end, stride = values
        if is_dropped:
            begin = 0 if has_no_begin else begin % shape[axis]
            ranges.append((begin, begin + 1, 1))
            continue
        first, last = None if has_no_begin else begin, None if has_no_end else end
        ranges.append(slice(first, last, stride).indices(shape[axis]))
    ranges += [(0, size, 1) for size in shape[len(ranges) :]]
    starts, limits, strides = zip(*ranges, strict=True)
    if min(strides, default=1) < 0:
        raise Unsupported("has a negative stride")
    limits = [max(pair) for pair in zip(starts, limits, strict=True)]
    return b.reshape_to(b.slice(x, starts, limits, strides), result_shape(op))


def _split_parts(
    b: TFLToStableHLOBuilder, x: SSAValue, axis: int, sizes: Sequence[int]
) -> Sequence[SSAValue]:
    shape = shape_of(x)
    axis %= len(shape)
    ends = pairwise(accumulate(sizes, initial=0))
    return [
        b.slice(
            x,
            [start if i == axis else 0 for i in range(len(shape))],
            [end if i == axis else size for i, size in enumerate(shape)],
        )
        for start, end in ends
    ]


def _split(
    b: TFLToStableHLOBuilder, op: tfl.SplitOp | tfl.SplitVOp, *operands: SSAValue
) -> Sequence[SSAValue]:
    (axis,) = integers(op.split_dim)
    x = operands[[*op.operands].index(op.value)]
    sizes = [shape_of(result)[axis] for result in op.results]
    return _split_parts(b, x, axis, sizes)


def _unpack(
    b: TFLToStableHLOBuilder, op: tfl.UnpackOp, x: SSAValue
) -> Sequence[SSAValue]:
    parts = _split_parts(b, x, number(op.axis), [1] * len(op.results))
    return [b.reshape_to(part, result_shape(op)) for part in parts]


# Concatenation and padding


def _concatenate(
    b: TFLToStableHLOBuilder, op: tfl.ConcatenationOp, *parts: SSAValue
) -> SSAValue:
    axis = number(op.axis) % len(shape_of(parts[0]))
    return b.apply_activation(op, b.concatenate(parts, axis))


def _pack(b: TFLToStableHLOBuilder, op: tfl.PackOp, *parts: SSAValue) -> SSAValue:
    shape = [*result_shape(op)]
    axis = number(op.axis) % len(shape)
    shape[axis] = 1
    return b.concatenate([b.reshape_to(part, shape) for part in parts], axis)


def _pad(
    b: TFLToStableHLOBuilder,
    op: tfl.PadOp | tfl.PadV2Op,
    x: SSAValue,
    widths: SSAValue,
    fill: SSAValue | None = None,
) -> SSAValue:
    if fill is None:
        fill = b.scalar(0, element_type_of(x))
    low, high = np.reshape(integers(widths), (-1, 2)).T.tolist()
    return b.pad(x, fill, low, high)


def _broadcast(
    b: TFLToStableHLOBuilder, op: tfl.BroadcastToOp, x: SSAValue, _: SSAValue
) -> SSAValue:
    return b.broadcast(x, result_shape(op))


def _select(
    b: TFLToStableHLOBuilder, op: Operation, condition: SSAValue, *values: SSAValue
) -> SSAValue:
    shape = result_shape(op)
    # A condition of rank 1 selects rows.
    is_rows = isinstance(op, tfl.SelectOp) and len(shape_of(condition)) == 1
    condition = b.broadcast(condition, shape, [0] if is_rows else None)
    x, y = (b.broadcast(value, shape) for value in values)
    return b.add(stablehlo.SelectOp(condition, x, y))


# Maxima and minima


def _reduction(op_type: type[BinaryOp], worst: float) -> Lowering:
    def lower(
        b: TFLToStableHLOBuilder, op: Operation, x: SSAValue, axes: SSAValue
    ) -> SSAValue:
        value = b.reduce(op_type, x, worst, integers(axes))
        return b.reshape_to(value, result_shape(op))

    return lower


def _max_pool(b: TFLToStableHLOBuilder, op: tfl.MaxPool2DOp, x: SSAValue) -> SSAValue:
    value = over_windows(b, op, stablehlo.MaximumOp, x, -np.inf)
    return b.apply_activation(op, value)


LOWERINGS: Mapping[type[Operation], Any] = {
    tfl.ReshapeOp: _reshape,
    tfl.SqueezeOp: _reshape,
    tfl.ExpandDimsOp: _reshape,
    tfl.TransposeOp: _transpose,
    tfl.SliceOp: _slice,
    tfl.StridedSliceOp: _strided_slice,
    tfl.SplitOp: _split,
    tfl.SplitVOp: _split,
    tfl.UnpackOp: _unpack,
    tfl.ConcatenationOp: _concatenate,
    tfl.PackOp: _pack,
    tfl.PadOp: _pad,
    tfl.PadV2Op: _pad,
    tfl.BroadcastToOp: _broadcast,
    tfl.SelectOp: _select,
    tfl.SelectV2Op: _select,
    tfl.ReduceMaxOp: _reduction(stablehlo.MaximumOp, -np.inf),
    tfl.ReduceMinOp: _reduction(stablehlo.MinimumOp, np.inf),
    tfl.MaxPool2DOp: _max_pool,
}
"""Lowerings that accept stored values, by op class."""
