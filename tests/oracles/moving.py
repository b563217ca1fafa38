"""Ops that move elements."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.unit.frontends.tflite.formulas.cases import Case

from .drawing import Declarations, Draw

oracle = Declarations()

_ALL = "i8, u8, i16"


@oracle("RESHAPE", _ALL)
def reshape(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    sizes = list(draw.random.permutation(x.array.shape))
    if draw.chance(0.5):
        sizes = [sizes[0], prod(sizes[1:])]
    if draw.chance(0.4):
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    return draw.case([x, draw.integers(sizes)], draw.result_like(x))


@oracle("SQUEEZE", _ALL)
def squeeze(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    axis = draw.integer(0, len(shape))
    x = draw.quantized((*shape[:axis], 1, *shape[axis:]))
    dims = draw.choice(([], [axis], [axis - len(shape) - 1]))
    return draw.case([x], draw.result_like(x), squeeze_dims=dims)


@oracle("EXPAND_DIMS", _ALL)
def expand_dims(draw: Draw) -> Case:
    x = draw.quantized(draw.shape(1, 3))
    axis = draw.integer(-x.array.ndim - 1, x.array.ndim)
    return draw.case([x, draw.integers(axis)], draw.result_like(x))


@oracle("TRANSPOSE", _ALL)
def transpose(draw: Draw) -> Case:
    x = draw.quantized(draw.shape(2))
    order = draw.random.permutation(x.array.ndim)
    return draw.case([x, draw.integers(order)], draw.result_like(x))


@oracle("SLICE", _ALL)
def slices(draw: Draw) -> Case:
    x = draw.quantized(tuple(size + 2 for size in draw.shape()))
    begins: list[int] = []
    sizes: list[int] = []
    for size in x.array.shape:
        begins.append(draw.integer(0, 2))
        rest = size - begins[-1]
        sizes.append(draw.choice((-1, rest, draw.integer(1, rest))))
    operands = [x, draw.integers(begins), draw.integers(sizes)]
    return draw.case(operands, draw.result_like(x))


@oracle("STRIDED_SLICE", _ALL)
def strided_slices(draw: Draw) -> Case:
    x = draw.quantized(tuple(size + 1 for size in draw.shape(1, 4)))
    shape = x.array.shape
    count = draw.integer(1, len(shape))
    begins: list[int] = []
    ends: list[int] = []
    strides: list[int] = []
    shrinks = 0
    for index, size in enumerate(shape[:count]):
        stride = draw.choice((1, 1, 2, 3, -1, -2))
        low, high = sorted(draw.random.permutation(size + 1)[:2])
        first, last = (low, high) if stride > 0 else (high - 1, low - 1)
        if last == -1:
            # A negative number counts from the end.
            last = -size - 1
        if draw.chance(0.15) and count > 1:
            shrinks |= 1 << index
            first, last, stride = int(low), int(low) + 1, 1
        begins.append(first - size if draw.chance(0.2) and first >= 0 else first)
        ends.append(last - size if draw.chance(0.2) and 0 < last < size else last)
        strides.append(stride)
    everything = (1 << count) - 1
    return draw.case(
        [x, *(draw.integers(numbers) for numbers in (begins, ends, strides))],
        draw.result_like(x),
        begin_mask=draw.integer(0, everything) if draw.chance(0.5) else 0,
        end_mask=draw.integer(0, everything) if draw.chance(0.5) else 0,
        shrink_axis_mask=shrinks,
    )


@oracle("GATHER", _ALL)
def gather(draw: Draw) -> Case:
    x = draw.quantized(draw.shape(1, 3))
    axis = draw.integer(0, x.array.ndim - 1)
    batches = draw.integer(0, axis) if draw.chance(0.3) else 0
    shape = *x.array.shape[:batches], *draw.shape(1, 1)[:1]
    indices = draw.random.integers(0, x.array.shape[axis], shape)
    operands = [x, draw.maybe_constant(draw.integers(indices))]
    return draw.case(
        operands,
        draw.result_like(x),
        axis=axis - x.array.ndim * (draw.chance(0.3) and not batches),
        batch_dims=batches,
    )


@oracle("GATHER_ND", _ALL)
def gather_nd(draw: Draw) -> Case:
    x = draw.quantized(draw.shape(1, 3))
    depth = draw.integer(1, x.array.ndim)
    rows = draw.shape(1, 2)
    columns = [draw.random.integers(0, size, rows) for size in x.array.shape[:depth]]
    indices = draw.integers(np.stack(columns, -1))
    return draw.case([x, draw.maybe_constant(indices)], draw.result_like(x))


@oracle("TILE", _ALL)
def tile(draw: Draw) -> Case:
    x = draw.quantized(draw.shape(1, 3))
    counts = [draw.integer(1, 3) for _ in x.array.shape]
    return draw.case([x, draw.integers(counts)], draw.result_like(x))


@oracle("REVERSE_V2", _ALL)
def reverse(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    axes = draw.integers(draw.axes(x.array.ndim, 1))
    return draw.case([x, axes], draw.result_like(x))


@oracle("BROADCAST_TO", _ALL)
def broadcast(draw: Draw) -> Case:
    shape = draw.shape()
    x = draw.quantized(draw.part_of(shape))
    return draw.case([x, draw.integers(shape)], draw.result_like(x))


@oracle("PACK", _ALL)
def pack(draw: Draw) -> Case:
    x = draw.quantized(draw.shape(1, 3))
    count = draw.integer(1, 4)
    parts = [x, *(draw.like(x, x.array.shape) for _ in range(count - 1))]
    axis = draw.integer(-x.array.ndim - 1, x.array.ndim)
    return draw.case(parts, draw.result_like(x), values_count=count, axis=axis)


@oracle("UNPACK", _ALL)
def unpack(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    axis, count = draw.integer(0, len(shape)), draw.integer(1, 4)
    x = draw.quantized((*shape[:axis], count, *shape[axis:]))
    axis -= x.array.ndim * draw.chance(0.3)
    return draw.case([x], [draw.result_like(x)] * count, num=count, axis=axis)


@oracle("CONCATENATION", _ALL)
def concatenation(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.integer(0, len(shape) - 1)
    x = draw.quantized(shape)
    parts = [x]
    for _ in range(draw.integer(0, 3)):
        sizes = *shape[:axis], draw.integer(1, 5), *shape[axis + 1 :]
        parts.append(draw.maybe_constant(draw.like(x, sizes)))
    return draw.case(
        parts,
        draw.result_like(x),
        axis=axis - len(shape) * draw.chance(0.3),
        fused_activation_function=0,
    )


@oracle("SPLIT", _ALL)
def split(draw: Draw) -> Case:
    shape = list(draw.shape())
    axis, count = draw.integer(0, len(shape) - 1), draw.integer(1, 3)
    shape[axis] *= count
    x = draw.quantized(shape)
    dim = draw.integers(axis - len(shape) * draw.chance(0.3))
    return draw.case([dim, x], [draw.result_like(x)] * count, num_splits=count)


@oracle("SPLIT_V", _ALL)
def split_v(draw: Draw) -> Case:
    shape = list(draw.shape())
    axis = draw.integer(0, len(shape) - 1)
    sizes = [draw.integer(1, 4) for _ in range(draw.integer(1, 3))]
    shape[axis] = sum(sizes)
    if draw.chance(0.3):
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    x = draw.quantized(shape)
    dim = draw.integers(axis - len(shape) * draw.chance(0.3))
    results = [draw.result_like(x)] * len(sizes)
    return draw.case([x, draw.integers(sizes), dim], results, num_splits=len(sizes))


@oracle("PAD PADV2 MIRROR_PAD", _ALL)
def pad(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    pairs = [[draw.choice((0, 0, 1, 2)) for _ in "ab"] for _ in x.array.shape]
    options = {}
    if draw.op == "MIRROR_PAD":
        options["mode"] = draw.integer(0, 1)
        # As many as there are, without the edge for REFLECT.
        pairs = [
            [min(width, size - 1 + options["mode"]) for width in pair]
            for pair, size in zip(pairs, x.array.shape, strict=True)
        ]
    operands = [x, draw.integers(pairs)]
    if draw.op == "PADV2":
        operands.append(draw.like(x, ())._replace(is_constant=True))
    return draw.case(operands, draw.result_like(x), **options)


@oracle("SPACE_TO_DEPTH DEPTH_TO_SPACE", "i8, u8")
def blocks(draw: Draw) -> Case:
    size = draw.integer(1, 3)
    batch, rows, columns, channels = (draw.integer(1, 4) for _ in range(4))
    shape = batch, rows * size, columns * size, channels
    if draw.op == "DEPTH_TO_SPACE":
        shape = batch, rows, columns, channels * size * size
    x = draw.quantized(shape)
    return draw.case([x], draw.result_like(x), block_size=size)


@oracle("SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND", _ALL)
def batches(draw: Draw) -> Case:
    sizes = draw.integer(1, 3), draw.integer(1, 3)
    spread = draw.integer(1, 2), draw.integer(2, 4), draw.integer(2, 4)
    channels = draw.integer(1, 5)
    # Of what is padded or cropped, whose sizes are multiples of those of a block.
    wholes = [size * count for size, count in zip(sizes, spread[1:], strict=True)]
    pairs = [[draw.integer(0, (whole - 1) // 2) for _ in "ab"] for whole in wholes]
    if draw.op == "SPACE_TO_BATCH_ND":
        parts = [whole - sum(pair) for whole, pair in zip(wholes, pairs, strict=True)]
        shape = spread[0], *parts, channels
    else:
        shape = spread[0] * sizes[0] * sizes[1], *spread[1:], channels
    x = draw.quantized(shape)
    operands = [x, draw.integers(sizes), draw.integers(pairs)]
    return draw.case(operands, draw.result_like(x))


@oracle("DYNAMIC_UPDATE_SLICE", _ALL)
def update(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    sizes = [draw.integer(1, size) for size in x.array.shape]
    # Positions outside are moved inside.
    starts = [draw.integer(-2, size + 1) for size in x.array.shape]
    begin = draw.maybe_constant(draw.integers(starts))
    return draw.case([x, draw.like(x, sizes), begin], draw.result_like(x))


@oracle("SHAPE", "i8")
def shapes(draw: Draw) -> Case:
    to, number = draw.choice((("i32", 2), ("i64", 4)))
    return draw.case([draw.quantized(draw.shape())], draw.result(to), out_type=number)
