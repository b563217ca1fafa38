"""Dimensions and places of elements: reshaping, slices, padding, concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.machines.arith import IntegerExpression
from xdsl_quant.machines.arrays import Axis
from xdsl_quant.machines.expression import Bounds, union

from .expressions import (
    ZERO,
    Array,
    Loaded,
    Mapped,
    Picked,
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
    """
    Return one axis or several, which may count from the end, in order; `None` for all.
    """
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
    result = x.builder.reshaped(value, type_, shape)
    return Loaded(x.builder, result, x.dtype, x.computed.bounds)


def _split_dimensions(old: Shape, new: Shape) -> list[list[int]] | None:
    """
    Return the new dimensions that each old one is split into; `None` if old ones are
    merged.
    """
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
    """
    Return the index of each dimension from those of the ones that it is split into.
    """

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
    moved = [d for d in order if x.shape[d] != 1]
    if moved == sorted(moved):
        return reshaped(x, [x.shape[d] for d in order])
    return Transposed(x, tuple(order))


@implements("part")
def _part(x: TensorExpression, key: Sequence[Any]) -> TensorExpression:
    """What NumPy's indexing gives, with slices and numbers or with arrays of indices."""
    named = sum(item is not None and item is not ... for item in key)
    rest = [slice(None)] * (x.ndim - named)
    items = [*key]
    if any(item is ... for item in items):
        place = next(i for i, item in enumerate(items) if item is ...)
        items[place : place + 1] = rest
    else:
        items += rest
    axes = [
        axis
        for axis, item in enumerate(items)
        if isinstance(item, np.ndarray | TensorExpression | list)
    ]
    if not axes:
        return _basic_slice(x, items)
    first, end = axes[0], axes[-1] + 1
    others = items[:first] + items[end:]
    if len(axes) < end - first or any(item != slice(None) for item in others):
        raise IndexError(
            "unsupported index: arrays must be next to each other, and all other "
            "dimensions whole"
        )
    return _elements_at(x, items[first:end], first)


def _basic_slice(x: TensorExpression, items: Sequence[Any]) -> TensorExpression:
    """What NumPy's indexing with slices and numbers gives."""
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
            places = range(*item.indices(size))
            shape.append(len(places))
        else:
            index = int(item)
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of bounds for a size of {size}")
            places = range(index % size, index % size + 1)
        sources.append(places)
    places = [place for place in sources if place is not None]
    kept = [place for place, item in zip(sources, items, strict=True) if _is_kept(item)]
    if all(
        len(place) == size for place, size in zip(places, x.shape, strict=True)
    ) and (all(place.step == 1 or len(place) == 1 for place in places)):
        return reshaped(x, shape)
    if not isinstance(x, View) and all(place.step > 0 for place in places):
        base = x.computed
        part = x.builder.part(
            base.value,
            [place.start for place in places],
            [len(place) for place in places],
            [place.step for place in places],
        )
        return reshaped(Loaded(x.builder, part, x.dtype, base.bounds), shape)

    def source(indices: Indices) -> Indices:
        rest = iter(
            index
            for index, place in zip(indices, kept, strict=True)
            if place is not None
        )
        return tuple(
            _linear(next(rest), place)
            if _is_kept(item)
            else AffineConstantExpr(place.start)
            for place, item in zip(sources, items, strict=True)
            if place is not None
        )

    return View(x, tuple(shape), source)


def _is_kept(item: object) -> bool:
    """Return True if an index leaves a dimension."""
    return item is None or isinstance(item, slice)


def _linear(index: AffineExpr, places: range) -> AffineExpr:
    return index * places.step + places.start


@implements(np.take)
def _taken(x: TensorExpression, indices: Value, axis: int = 0) -> TensorExpression:
    """Slices along a dimension at indices, which may be known."""
    return _elements_at(x, [indices], axis % x.ndim)


def _elements_at(
    x: TensorExpression, arrays: Sequence[Value], axis: int
) -> TensorExpression:
    """Slices at indices from arrays, one for each dimension from `axis` on."""
    shape = common_shape(*arrays)
    every = [broadcast(as_expression(array, x.builder), shape) for array in arrays]
    end = axis + len(shape)

    def source(
        place: Indices,
    ) -> Sequence[AffineExpr | tuple[TensorExpression, Indices]]:
        indices = place[axis:end]
        return *place[:axis], *((array, indices) for array in every), *place[end:]

    shape = (*x.shape[:axis], *shape, *x.shape[axis + len(every) :])
    return Picked(x.computed, shape, source)


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
    if isinstance(x, Mapped) and (found := _preimage(x, value)) is not None:
        inner, number = found
        padded = _padded_elements(inner, pairs, constant_values=number)
        operands = [padded if o is inner else o for o in x.operands]
        return Mapped(x.builder, padded.shape, x.dtype, x.function, operands)
    base = x.computed
    shape = tuple(
        size + low + high for size, (low, high) in zip(x.shape, pairs, strict=True)
    )
    type_ = TensorType(cast(TensorType, base.value.type).element_type, shape)
    filled = x.builder.repeated(value.item(), type_, shape)
    if 0 in x.shape:
        return Loaded(x.builder, filled, x.dtype, base.bounds)
    result = x.builder.inserted(
        base.value, filled, [low for low, _ in pairs], x.shape, [1] * x.ndim
    )
    bounds = base.bounds
    if x.dtype.kind == "i":
        bounds = union(bounds, (int(value), int(value)))
    return Loaded(x.builder, result, x.dtype, bounds)


def _preimage(x: Mapped, value: object) -> tuple[TensorExpression, int] | None:
    """
    Return the array that a function is applied to, and a number of which this gives a
    value: what is padded is then what is in memory. `None` if there is none.
    """
    tensors = [o for o in x.operands if isinstance(o, TensorExpression)]
    if len(tensors) != 1 or len(x.operands) > 2 or x.dtype.kind != "i":
        return None
    (inner,) = tensors
    if not isinstance(inner, Loaded) or inner.bounds[1] - inner.bounds[0] > 1 << 16:
        return None
    low, high = inner.bounds
    numbers = np.arange(low, high + 1)
    operands = [numbers if o is inner else o for o in x.operands]
    (places,) = np.nonzero(np.asarray(x.function(*operands) == value))
    return (inner, low + int(places[0])) if places.size else None


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
    op = tensor.InsertSliceOp.get(
        update.tensor(element_type),
        base.tensor(element_type),
        update.shape,
        [o if isinstance(o, int) else DYNAMIC_INDEX for o in offsets],
        [1] * x.ndim,
        offsets=[o for o in offsets if isinstance(o, SSAValue)],
    )
    return Loaded(builder, builder.add(op), x.dtype, bounds)


def _common(parts: Sequence[Loaded]) -> tuple[Bounds, Attribute]:
    """Return the bounds of all elements, and a type that holds them."""
    bounds = union(*(part.bounds for part in parts))
    types = {cast(TensorType, part.value.type).element_type for part in parts}
    return bounds, types.pop() if len(types) == 1 else storage_type(bounds)


@implements(np.concatenate)
def _concatenation(parts: Sequence[Value], axis: int = 0) -> TensorExpression:
    builder = builder_of(*parts)
    every = [as_expression(part, builder) for part in parts]
    every = [part for part in every if part.shape[axis]] or every[:1]
    if len(every) == 1:
        return every[0]
    loaded = [part.computed for part in every]
    bounds, type_ = _common(loaded)
    shape = [*every[0].shape]
    shape[axis] = sum(part.shape[axis] for part in every)
    if 0 in shape:
        # MLIR rejects the slices that it makes of `tensor.concat`.
        empty = builder.empty(TensorType(type_, shape), shape)
        return Loaded(builder, empty, every[0].dtype, bounds)
    values = [part.tensor(type_) for part in loaded]
    axis = axis % every[0].ndim
    result = builder.add(tensor.ConcatOp(values, axis, TensorType(type_, shape)))
    return Loaded(builder, result, every[0].dtype, bounds)


@implements(np.expand_dims)
def expanded(x: TensorExpression, axis: int | Sequence[int]) -> TensorExpression:
    return reshaped(x, np.expand_dims(np.broadcast_to(0, x.shape), axis).shape)


@implements(np.squeeze)
def _squeezed(x: TensorExpression, axis: Axis = None) -> TensorExpression:
    if axis is None:
        axis = [d for d, size in enumerate(x.shape) if size == 1]
    dropped = axes_of(axis, x.ndim)
    if any(x.shape[d] != 1 for d in dropped):
        raise ValueError("cannot squeeze a dimension whose size is not 1")
    return reshaped(x, [s for d, s in enumerate(x.shape) if d not in dropped])


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
    dropped = {int(a) % x.ndim for a in axes}
    step = [slice(None, None, -1 if d in dropped else None) for d in range(x.ndim)]
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
        places = [*indices[: x.ndim]]
        for d, inner in zip(axes, indices[x.ndim :], strict=True):
            places[d] = places[d] + inner
        return tuple(places)

    return View(x, (*shape, *sizes), source)
