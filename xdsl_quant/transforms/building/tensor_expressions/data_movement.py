"""Data movement functions: reshaping, slicing, padding, concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.machines.arith import IntegerExpression
from xdsl_quant.machines.arrays import Axis
from xdsl_quant.machines.expression import Bounds, union

from .expressions import (
    ZERO,
    Array,
    GatheredArray,
    InMemoryArray,
    Mapped,
    Shape,
    TensorExpression,
    Transposed,
    Value,
    View,
    as_expression,
    broadcast,
    builder_of,
    common_shape,
    implements,
    storage_type,
)
from .loops import Indices

# Dimensions


def axes_of(axis: Axis, rank: int) -> list[int]:
    """Return a NumPy `axis` argument as sorted nonnegative axes; `None` means all."""
    if axis is None:
        return [*range(rank)]
    return sorted({int(a) % rank for a in np.ravel(axis)})


@implements(np.reshape)
def reshaped(x: TensorExpression, shape: Sequence[int]) -> TensorExpression:
    if -1 in shape:
        rest = math.prod(size for size in shape if size != -1)
        shape = [x.size // rest if size == -1 else size for size in shape]
    shape = tuple(shape)
    if math.prod(shape) != x.size:
        raise ValueError(f"cannot reshape array of size {x.size} into shape {shape}")
    if shape == x.shape:
        return x
    if (parts := _split_dimensions(x.shape, shape)) is not None:
        return View(x, shape, lambda indices: _joined_indices(parts, shape, indices))
    value = x.computed.value
    type_ = TensorType(cast(TensorType, value.type).element_type, shape)
    result = x.builder.reshape(value, type_, shape)
    return InMemoryArray(x.builder, result, x.dtype, x.computed.bounds)


def _split_dimensions(old: Shape, new: Shape) -> list[list[int]] | None:
    """Return the new dimensions of each old dimension, or `None` if any are merged."""
    parts: list[list[int]] = []
    position = 0
    for size in old:
        group: list[int] = []
        product = 1
        while product < size and position < len(new):
            product *= new[position]
            group.append(position)
            position += 1
        if product != size:
            return None
        parts.append(group)
    return parts


def _joined_indices(
    parts: Sequence[Sequence[int]], shape: Shape, indices: Indices
) -> Indices:
    """Convert indices of the new dimensions to indices of the old dimensions."""

    def index(group: Sequence[int]) -> AffineExpr:
        formula: AffineExpr | None = None
        for d in group:
            if shape[d] == 1:
                continue
            formula = indices[d] if formula is None else formula * shape[d] + indices[d]
        return formula or ZERO

    return tuple(map(index, parts))


@implements(np.transpose)
def _transposition(
    x: TensorExpression, order: Sequence[int] | None = None
) -> TensorExpression:
    order = order or [*range(x.ndim)][::-1]
    order = [d % x.ndim for d in order]
    moved_dimensions = [d for d in order if x.shape[d] != 1]
    if moved_dimensions == sorted(moved_dimensions):
        return reshaped(x, [x.shape[d] for d in order])
    return Transposed(x, tuple(order))


@implements("part")
def _part(x: TensorExpression, key: Sequence[Any]) -> TensorExpression:
    """Index an array as NumPy does, with slices and numbers, or with index arrays."""
    indexed_count = sum(item is not None and item is not ... for item in key)
    free_dimensions = [slice(None)] * (x.ndim - indexed_count)
    items = [*key]
    if any(item is ... for item in items):
        ellipsis_index = next(i for i, item in enumerate(items) if item is ...)
        items[ellipsis_index : ellipsis_index + 1] = free_dimensions
    else:
        items += free_dimensions
    axes = [
        axis
        for axis, item in enumerate(items)
        if isinstance(item, np.ndarray | TensorExpression | list)
    ]
    if not axes:
        return _basic_slice(x, items)
    first, end = axes[0], axes[-1] + 1
    other_items = items[:first] + items[end:]
    if len(axes) < end - first or any(item != slice(None) for item in other_items):
        raise IndexError(
            "unsupported index: expected adjacent index arrays, and full slices "
            "in all other dimensions"
        )
    return _elements_at(x, items[first:end], first)


def _basic_slice(x: TensorExpression, items: Sequence[Any]) -> TensorExpression:
    """Index an array as NumPy does, with slices and numbers."""
    shape: list[int] = []
    sources: list[range | None] = []
    sizes = iter(x.shape)
    for item in items:
        if item is None:
            shape.append(1)
            sources.append(None)
            continue
        size = next(sizes)
        if isinstance(item, slice):
            ranges = range(*item.indices(size))
            shape.append(len(ranges))
        else:
            index = int(item)
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of bounds for a size of {size}")
            ranges = range(index % size, index % size + 1)
        sources.append(ranges)
    ranges = [range_ for range_ in sources if range_ is not None]
    result_ranges = [
        range_ for range_, item in zip(sources, items, strict=True) if _is_kept(item)
    ]
    if all(
        len(range_) == size for range_, size in zip(ranges, x.shape, strict=True)
    ) and (all(range_.step == 1 or len(range_) == 1 for range_ in ranges)):
        return reshaped(x, shape)
    if not isinstance(x, View) and all(range_.step > 0 for range_ in ranges):
        base = x.computed
        part = x.builder.extract_slice(
            base.value,
            [range_.start for range_ in ranges],
            [len(range_) for range_ in ranges],
            [range_.step for range_ in ranges],
        )
        return reshaped(InMemoryArray(x.builder, part, x.dtype, base.bounds), shape)

    def source(indices: Indices) -> Indices:
        rest = iter(
            index
            for index, range_ in zip(indices, result_ranges, strict=True)
            if range_ is not None
        )
        return tuple(
            _linear(next(rest), range_)
            if _is_kept(item)
            else AffineConstantExpr(range_.start)
            for range_, item in zip(sources, items, strict=True)
            if range_ is not None
        )

    return View(x, tuple(shape), source)


def _is_kept(item: object) -> bool:
    """Return True if an item of a NumPy index keeps its dimension (is not an integer)."""
    return item is None or isinstance(item, slice)


def _linear(index: AffineExpr, range_: range) -> AffineExpr:
    return index * range_.step + range_.start


@implements(np.take)
def _taken(x: TensorExpression, indices: Value, axis: int = 0) -> TensorExpression:
    """Return slices along a dimension at constant or run-time indices."""
    return _elements_at(x, [indices], axis % x.ndim)


def _elements_at(
    x: TensorExpression, arrays: Sequence[Value], axis: int
) -> TensorExpression:
    """Return slices at index arrays for the dimensions from `axis` on."""
    shape = common_shape(*arrays)
    expressions = [
        broadcast(as_expression(array, x.builder), shape) for array in arrays
    ]
    end = axis + len(shape)

    def source(
        element_indices: Indices,
    ) -> Sequence[AffineExpr | tuple[TensorExpression, Indices]]:
        indices = element_indices[axis:end]
        return (
            *element_indices[:axis],
            *((array, indices) for array in expressions),
            *element_indices[end:],
        )

    shape = (*x.shape[:axis], *shape, *x.shape[axis + len(expressions) :])
    return GatheredArray(x.computed, shape, source)


@implements("lookup")
def _looked_up_elements(table: Array, indices: TensorExpression) -> TensorExpression:
    return _taken(as_expression(table, indices.builder), indices)


@implements(np.pad)
def _padded_elements(
    x: TensorExpression,
    widths: ArrayLike,
    mode: str = "constant",
    constant_values: float = 0,
) -> TensorExpression:
    pairs = np.broadcast_to(np.asarray(widths), (x.ndim, 2)).tolist()
    if mode != "constant":
        for axis, (size, pair) in enumerate(zip(x.shape, pairs, strict=True)):
            if any(pair):
                indices = np.pad(np.arange(size), [pair], mode=cast(Any, mode))
                x = _taken(x, indices, axis)
        return x
    if not any(map(any, pairs)):
        return x
    value = np.asarray(constant_values)[()]
    if isinstance(x, Mapped) and (preimage := _preimage(x, value)) is not None:
        inner, number = preimage
        padded = _padded_elements(inner, pairs, constant_values=number)
        operands = [padded if o is inner else o for o in x.operands]
        return Mapped(x.builder, padded.shape, x.dtype, x.function, operands)
    base = x.computed
    shape = tuple(
        size + low + high for size, (low, high) in zip(x.shape, pairs, strict=True)
    )
    type_ = TensorType(cast(TensorType, base.value.type).element_type, shape)
    filled = x.builder.filled_tensor(value.item(), type_, shape)
    if 0 in x.shape:
        return InMemoryArray(x.builder, filled, x.dtype, base.bounds)
    result = x.builder.insert_slice(
        base.value, filled, [low for low, _ in pairs], x.shape, [1] * x.ndim
    )
    bounds = base.bounds
    if x.dtype.kind == "i":
        bounds = union(bounds, (int(value), int(value)))
    return InMemoryArray(x.builder, result, x.dtype, bounds)


def _preimage(x: Mapped, value: object) -> tuple[TensorExpression, int] | None:
    """
    Return the operand array of an elementwise function, and a number that the function
    maps to `value`; `None` without such a number. Padding the array with the number
    then replaces padding the result with `value`.
    """
    tensors = [o for o in x.operands if isinstance(o, TensorExpression)]
    if len(tensors) != 1 or len(x.operands) > 2 or x.dtype.kind != "i":
        return None
    (inner,) = tensors
    if (
        not isinstance(inner, InMemoryArray)
        or inner.bounds[1] - inner.bounds[0] > 1 << 16
    ):
        return None
    low, high = inner.bounds
    numbers = np.arange(low, high + 1)
    operands = [numbers if o is inner else o for o in x.operands]
    (positions,) = np.nonzero(np.asarray(x.function(*operands) == value))
    return (inner, low + int(positions[0])) if positions.size else None


@implements("with_part")
def _with_part(
    x: TensorExpression, update: Value, start: Value | Sequence[int]
) -> TensorExpression:
    builder, base = x.builder, x.computed
    update = as_expression(update, builder).computed
    bounds, element_type = _common((base, update))
    room = [size - part for size, part in zip(x.shape, update.shape, strict=True)]
    if isinstance(start, TensorExpression):
        starts = start.computed
        offsets: list[SSAValue | int] = []
        for position, most in enumerate(room):
            number = builder.op(
                tensor.ExtractOp,
                (starts.value, builder.index(position)),
                cast(TensorType, starts.value.type).element_type,
            )
            first = IntegerExpression(builder, number, starts.bounds)
            offsets.append(first.maximum(0).minimum(most).as_index())
    else:
        offsets = [
            min(max(int(first), 0), most)
            for first, most in zip(cast("Sequence[int]", start), room, strict=True)
        ]
    part, whole = update.tensor(element_type), base.tensor(element_type)
    value = builder.insert_slice(part, whole, offsets, update.shape, [1] * x.ndim)
    return InMemoryArray(builder, value, x.dtype, bounds)


def _common(parts: Sequence[InMemoryArray]) -> tuple[Bounds, Attribute]:
    """Return the bounds of the elements of all parts, and an element type for them."""
    bounds = union(*(part.bounds for part in parts))
    types = {cast(TensorType, part.value.type).element_type for part in parts}
    return bounds, types.pop() if len(types) == 1 else storage_type(bounds)


@implements(np.concatenate)
def _concatenation(parts: Sequence[Value], axis: int = 0) -> TensorExpression:
    builder = builder_of(*parts)
    expressions = [as_expression(part, builder) for part in parts]
    expressions = [part for part in expressions if part.shape[axis]] or expressions[:1]
    if len(expressions) == 1:
        return expressions[0]
    loaded = [part.computed for part in expressions]
    bounds, type_ = _common(loaded)
    shape = [*expressions[0].shape]
    shape[axis] = sum(part.shape[axis] for part in expressions)
    if 0 in shape:
        # Slices that MLIR derives from a `tensor.concat` without elements do not
        # verify.
        empty = builder.empty(TensorType(type_, shape), shape)
        return InMemoryArray(builder, empty, expressions[0].dtype, bounds)
    values = [part.tensor(type_) for part in loaded]
    axis = axis % expressions[0].ndim
    result = builder.add(tensor.ConcatOp(values, axis, TensorType(type_, shape)))
    return InMemoryArray(builder, result, expressions[0].dtype, bounds)


@implements(np.expand_dims)
def expanded(x: TensorExpression, axis: int | Sequence[int]) -> TensorExpression:
    return reshaped(x, np.expand_dims(np.broadcast_to(0, x.shape), axis).shape)


@implements(np.squeeze)
def _squeezed(x: TensorExpression, axis: Axis = None) -> TensorExpression:
    if axis is None:
        axis = [d for d, size in enumerate(x.shape) if size == 1]
    squeezed_axes = axes_of(axis, x.ndim)
    if any(x.shape[d] != 1 for d in squeezed_axes):
        raise ValueError("cannot squeeze a dimension whose size is not 1")
    return reshaped(x, [s for d, s in enumerate(x.shape) if d not in squeezed_axes])


@implements(np.split)
def _split_parts(
    x: TensorExpression, parts: int | Sequence[int], axis: int = 0
) -> list[TensorExpression]:
    axis = axis % x.ndim
    size = x.shape[axis]
    if isinstance(parts, int):
        if size % parts:
            raise ValueError(
                f"a size of {size} cannot be split into {parts} equal parts"
            )
        ends = [size // parts * i for i in range(parts + 1)]
    else:
        ends = [0, *map(int, parts), size]
    before = (slice(None),) * axis
    return [x[(*before, slice(low, high))] for low, high in pairwise(ends)]


@implements(np.moveaxis)
def _moved_axis(x: TensorExpression, source: int, target: int) -> TensorExpression:
    order = [*range(x.ndim)]
    axis = order.pop(source)
    order.insert(target % x.ndim, axis)
    return _transposition(x, order)


@implements(np.flip)
def _flipped(x: TensorExpression, axis: int | tuple[int, ...]) -> TensorExpression:
    axes: tuple[int, ...] = (axis,) if isinstance(axis, int) else axis
    flipped_axes = {int(a) % x.ndim for a in axes}
    step = [slice(None, None, -1 if d in flipped_axes else None) for d in range(x.ndim)]
    return x[tuple(step)]


@implements(np.tile)
def _tiled(x: TensorExpression, counts: Sequence[int]) -> TensorExpression:
    counts = tuple(counts)
    x = reshaped(x, (1,) * (len(counts) - x.ndim) + x.shape)
    counts = (1,) * (x.ndim - len(counts)) + counts
    for axis, (size, count) in enumerate(zip(x.shape, counts, strict=True)):
        if count == 1:
            continue
        if size == 1:
            shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
            x = broadcast(x, shape)
        else:
            x = _taken(x, np.tile(np.arange(size), count), axis)
    return x


@implements(np.lib.stride_tricks.sliding_window_view)
def _sliding_windows(
    x: TensorExpression, window_shape: Sequence[int], axis: Sequence[int], **_: object
) -> TensorExpression:
    sizes, axes = tuple(window_shape), tuple(axis)
    shape = [*x.shape]
    for size, d in zip(sizes, axes, strict=True):
        shape[d] -= size - 1

    def source(indices: Indices) -> Indices:
        window_indices = [*indices[: x.ndim]]
        for d, inner in zip(axes, indices[x.ndim :], strict=True):
            window_indices[d] = window_indices[d] + inner
        return tuple(window_indices)

    return View(x, (*shape, *sizes), source)
