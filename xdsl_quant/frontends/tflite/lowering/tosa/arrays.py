"""NumPy functions on tensors as TOSA ops: data movement, reductions, sorting."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from xdsl.dialects import tosa
from xdsl.dialects.builtin import IntegerAttr, IntegerType, f32, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.machines.arrays import Axis
from xdsl_quant.machines.expression import (
    ANY_INTEGER,
    UNBOUNDED,
    Bounds,
    are_within,
    signed_bounds,
    union,
)
from xdsl_quant.numerics import primitives
from xdsl_quant.numerics.primitives import Array
from xdsl_quant.transforms.building.builder import element_type_of
from xdsl_quant.unsupported import Unsupported

from .building import TosaBuilder
from .expressions import (
    FORMS,
    KnownInteger,
    TosaInteger,
    TosaReal,
    TosaTensor,
    TosaTruth,
    add_constant,
    lift_array,
    shape_of_all,
    split_constant,
    tosa_form,
)
from .positions import Positions, positions_of

# One tensor


def _move_by_positions(
    function: Callable[..., Array], x: TosaTensor, *args: object, **options: object
) -> TosaTensor | list[TosaTensor]:
    """Move elements of `x` as `function` moves an array of their flat positions."""
    positions = function(positions_of(x.shape), *args, **options)
    if isinstance(positions, list):
        return [x.take(part) for part in cast("list[Positions]", positions)]
    return x.take(positions)


for _function in (
    *(np.reshape, np.transpose, np.squeeze, np.expand_dims, np.moveaxis),
    *(np.flip, np.tile, np.broadcast_to, np.split),
):
    FORMS[_function] = partial(
        _move_by_positions, cast("Callable[..., Array]", _function)
    )


@tosa_form("part")
def _part(x: TosaTensor, key: tuple[object, ...]) -> TosaTensor:
    if any(isinstance(index, TosaTensor) for index in key):
        raise Unsupported("has sizes, axes or indices that are not constant")
    return x.take(positions_of(x.shape)[cast(Any, key)])


@tosa_form(np.pad)
def _pad(
    x: TosaTensor, widths: ArrayLike, mode: str = "constant", constant_values: float = 0
) -> TosaTensor | list[TosaTensor]:
    if mode != "constant":
        return _move_by_positions(np.pad, x, widths, mode=mode)
    pads = np.broadcast_to(np.asarray(widths), (x.ndim, 2)).tolist()
    if not any(map(any, pads)):
        return x
    base, constant = split_constant(x)
    shape = [size + sum(pad) for size, pad in zip(x.shape, pads, strict=True)]
    fill = constant_values - constant
    result = base.like(lambda: x.builder.pad(base.native, pads, fill), shape)
    result.bounds = union(base.bounds, (fill, fill))
    return add_constant(result, constant)


# Several tensors


def _build_joint(
    parts: Sequence[TosaTensor],
    build: Callable[[Sequence[SSAValue]], SSAValue],
    shape: Sequence[int],
) -> TosaTensor:
    """Build an op on several tensors; cast them only if their types or offsets differ."""
    first = parts[0]
    bounds = union(*(x.bounds for x in parts))
    if all(isinstance(x, TosaTruth) for x in parts):
        return first.like(lambda: build([x.native for x in parts]), shape)
    if (real := next((x for x in parts if isinstance(x, TosaReal)), None)) is not None:
        type_ = real.element_type
        values = [x.as_float(f32) if isinstance(x, TosaInteger) else x for x in parts]
        result = real.like(lambda: build([x.stored_as(type_) for x in values]), shape)
        result.bounds = bounds
        return result
    integers = [x.number if isinstance(x, TosaTruth) else x for x in parts]
    type_, offset = _stored_type_of(integers, bounds)

    def built() -> SSAValue:
        return build([x.stored_as(type_, offset) for x in integers])

    stored = bounds[0] - offset, bounds[1] - offset
    result = TosaInteger(first.builder, built, shape, type_, stored)
    result.dtype = first.dtype
    return result + offset


def _stored_type_of(
    integers: Sequence[TosaTensor], bounds: Bounds
) -> tuple[Attribute, int]:
    """Return a common element type, and the offset to subtract from integers first."""
    stored = [split_constant(x) for x in integers if not isinstance(x, KnownInteger)]
    kinds = {(x.element_type, offset) for x, offset in stored}
    if len(kinds) == 1:
        type_, offset = kinds.pop()
        limits = bounds[0] - offset, bounds[1] - offset
        if type_ in (i8, i16, i64):
            width = cast(IntegerType, type_).bitwidth
            if are_within(limits, signed_bounds(width)):
                return type_, offset
    return (i64 if any(x.element_type == i64 for x in integers) else i32), 0


def lift_number(
    number: TosaTensor | ArrayLike, builder: TosaBuilder, rank: int = 1
) -> TosaTensor:
    """Convert a number or an array to a tensor."""
    if isinstance(number, TosaTensor):
        return number
    array = np.asarray(number)
    return lift_array(builder, array.reshape(array.shape or (1,) * max(rank, 1)))


def tosa_builder_of(*values: object) -> TosaBuilder:
    """Return the builder of the first argument that is a tensor."""
    return next(x.builder for x in values if isinstance(x, TosaTensor))


@tosa_form("chosen")
def _select(
    condition: TosaTruth, a: TosaTensor | float, b: TosaTensor | float
) -> TosaTensor:
    builder = condition.builder
    rank = max(condition.ndim, np.ndim(cast(float, a)), np.ndim(cast(float, b)))
    pair = [lift_number(x, builder, rank) for x in (a, b)]
    shape = shape_of_all(condition, *pair)

    def build(values: Sequence[SSAValue]) -> SSAValue:
        operands = [
            builder.with_rank(v, len(shape)) for v in (condition.value, *values)
        ]
        type_ = element_type_of(values[0])
        return builder.tosa(tosa_ops.SelectOp, operands, shape, type_)

    return _build_joint(pair, build, shape)


@tosa_form(np.concatenate)
def _concatenate(parts: Sequence[TosaTensor | Array], axis: int = 0) -> TosaTensor:
    builder = tosa_builder_of(*parts)
    every = [lift_number(x, builder) for x in parts if x.shape[axis]]
    shape = [*every[0].shape]
    shape[axis] = sum(x.shape[axis] for x in every)
    axis %= len(shape)
    return _build_joint(every, lambda values: builder.concatenate(values, axis), shape)


@tosa_form("as_expression_like")
def _alongside(values: TosaTensor | Array, *others: TosaTensor | Array) -> TosaTensor:
    return lift_number(values, tosa_builder_of(values, *others))


@tosa_form(np.take)
def _take(
    x: TosaTensor, indices: TosaTensor | Array, axis: int = 0
) -> TosaTensor | list[TosaTensor]:
    if not isinstance(indices, TosaTensor):
        return _move_by_positions(np.take, x, indices, axis)
    builder, axis = x.builder, axis % x.ndim
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    shape = *x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]

    def build(values: Sequence[SSAValue]) -> SSAValue:
        rows = builder.with_shape(values[0], (outer, x.shape[axis], inner))
        positions = builder.with_shape(indices.value, (1, math.prod(indices.shape)))
        positions = builder.tile(positions, (outer, 1))
        return builder.with_shape(builder.gather_rows(rows, positions), shape)

    return _build_joint([x], build, shape)


@tosa_form("with_part")
def _with_part(
    x: TosaTensor | Array, update: TosaTensor | Array, start: TosaTensor | Array
) -> TosaTensor:
    if isinstance(start, TosaTensor):
        raise Unsupported("has non-constant sizes, axes or indices")
    own, other = positions_of(x.shape), positions_of(update.shape)
    positions = primitives.with_part(own, other + own.size, start)
    return _concatenate([x.reshape(-1), update.reshape(-1)]).take(positions)


# Along dimensions


_REDUCTIONS: Mapping[str, type[Operation]] = {
    "max": tosa.ReduceMaxOp,
    "min": tosa.ReduceMinOp,
    "prod": tosa.ReduceProductOp,
    "sum": tosa.ReduceSumOp,
}


@tosa_form("reduced")
def _reduce(
    kind: str,
    x: TosaTensor,
    axis: Axis,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
) -> TosaTensor | list[TosaTensor]:
    if kind == "prod" and not isinstance(x, TosaReal):
        raise Unsupported(
            "multiplies integers along dimensions, which TOSA does not support"
        )
    every = range(x.ndim) if axis is None else np.ravel(axis).tolist()
    axes = sorted({d % x.ndim for d in every})
    is_sum = kind == "sum"
    count = math.prod(x.shape[d] for d in axes) if is_sum else 1
    base, constant = split_constant(x)
    shape = [1 if d in axes else size for d, size in enumerate(x.shape)]

    def build() -> SSAValue:
        if is_sum and isinstance(base, TosaInteger):
            # Low bits of sums depend only on low bits of the elements.
            value = base.low
        else:
            value = base.value if is_sum else base.native
        for d in axes:
            value = x.builder.reduce(_REDUCTIONS[kind], value, d)
        return value

    result = base.like(build, shape)
    if is_sum and result.element_type not in (f32, i64):
        result.element_type = i32
    if kind == "prod":
        result.bounds = UNBOUNDED
    elif base.bounds != ANY_INTEGER:
        low, high = base.bounds
        result.bounds = low * count, high * count
    result = add_constant(result, constant * count)
    return result if keepdims else _move_by_positions(np.squeeze, result, tuple(axes))


# Order of elements


@tosa_form(np.argmax)
def _largest_index(x: TosaTensor, axis: int = 0) -> TosaTensor:
    builder, axis = x.builder, axis % x.ndim
    base, _ = split_constant(x)
    shape = [size for d, size in enumerate(x.shape) if d != axis]
    if base.element_type not in (i8, i16, f32):
        # `tosa.argmax` does not support wider integers.
        rows = cast(TosaTensor, _move_by_positions(np.moveaxis, base, axis, -1))
        return _largest_indices(rows.reshape(-1, x.shape[axis]), 1).reshape(*shape)

    def build() -> SSAValue:
        properties = {"axis": IntegerAttr(axis, i32)}
        return builder.tosa(tosa_ops.ArgMaxOp, (base.native,), shape, i32, **properties)

    return TosaInteger(builder, build, shape, i32, (0, x.shape[axis] - 1))


@tosa_form(np.argmin)
def _smallest_index(x: TosaTensor, axis: int = 0) -> TosaTensor:
    if isinstance(x, TosaReal):
        return _largest_index(-x, axis)
    base, _ = split_constant(x.number if isinstance(x, TosaTruth) else x)

    def build() -> SSAValue:
        type_ = base.element_type
        return x.builder.tosa(tosa_ops.BitwiseNotOp, (base.native,), x.shape, type_)

    return _largest_index(base.like(build, x.shape), axis)


def _largest_indices(rows: TosaTensor, count: int) -> TosaTensor:
    """
    Return the indices of the `count` largest elements of each row, in descending order of
    elements; among equal elements, the lower index is first.
    """
    rows = rows.number if isinstance(rows, TosaTruth) else rows
    builder, size = rows.builder, rows.shape[1]
    own, other = (
        cast("TosaInteger", part) for part in (rows[:, :, None], rows[:, None, :])
    )
    numbers = positions_of((size,))
    is_earlier = lift_array(builder, (numbers < numbers[:, None])[None])
    is_before = is_earlier.chosen(other >= own, other > own)
    # The rank of an element is its position in descending order.
    ranks = is_before.number.sum(2, keepdims=True)
    is_here = ranks == KnownInteger(builder, positions_of((1, 1, count)))
    found = is_here.chosen(KnownInteger(builder, numbers.reshape(1, -1, 1)), 0)
    # A maximum is in range even if elements are NaN, unlike a sum.
    return found.max(1)


@tosa_form("top_k")
def _top_k(x: TosaTensor, count: int) -> tuple[TosaTensor, TosaTensor]:
    *outer, size = x.shape
    builder, rows = x.builder, x.reshape(-1, size)
    indices = _largest_indices(rows, count)

    def build(values: Sequence[SSAValue]) -> SSAValue:
        elements = builder.with_shape(values[0], (*rows.shape, 1))
        found = builder.gather_rows(elements, indices.value)
        return builder.with_shape(found, (*outer, count))

    return _build_joint([x], build, (*outer, count)), indices.reshape(*outer, count)
