"""Sums, products, minima and maxima along dimensions, and contractions."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import mul
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import DTypeLike
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from xdsl_quant.machines.arith import FloatExpression, IntegerExpression, type_for
from xdsl_quant.machines.arrays import Axis
from xdsl_quant.machines.expression import ANY_INTEGER, Bounds, signed_bounds

from .data_movement import axes_of, expanded, reshaped
from .expressions import (
    FUNCTIONS,
    ZERO,
    ConstantArray,
    InMemoryArray,
    Mapped,
    TensorExpression,
    Transposed,
    Value,
    as_expression,
    as_number,
    as_scalar,
    broadcast,
    builder_of,
    constant,
    implements,
)
from .loops import FLOAT_TYPES, DType, Loops, loops_of

Name: TypeAlias = int | str
"""Name of a dimension."""

_IDENTITY: Mapping[str, Callable[[tuple[float, float]], float]] = {
    "sum": lambda _: 0,
    "prod": lambda _: 1,
    "max": lambda bounds: bounds[0],
    "min": lambda bounds: bounds[1],
}

_DTYPES: Mapping[Attribute, DType] = {t: dtype for dtype, t in FLOAT_TYPES.items()}

_COMBINED: Mapping[str, tuple[type[Operation], type[Operation]]] = {
    "sum": (arith.AddfOp, arith.AddiOp),
    "prod": (arith.MulfOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp),
}


@implements("reduced")
def _reduction(
    kind: str,
    x: TensorExpression,
    axis: Axis,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
) -> TensorExpression:
    axes = axes_of(axis, x.ndim)
    dimensions = [*range(x.ndim)]
    kept_dimensions = [d for d in dimensions if d not in axes]
    if kind in ("max", "min"):
        dtype = x.dtype
    elif dtype is not None:
        x = x.astype(dtype)
    result = _contracted(kind, [(x, dimensions)], kept_dimensions, dtype)
    if keepdims:
        result = expanded(result, axes) if axes else result
    return result


def _contracted(
    kind: str,
    operands: Sequence[tuple[Value, Sequence[Name]]],
    result: Sequence[Name],
    dtype: DTypeLike | None = None,
) -> TensorExpression:
    """
    Multiply arrays with named dimensions, and reduce along the dimensions that the
    result lacks.

    Args:
        kind: the reduction: `sum`, `prod`, `max` or `min`.
        operands: arrays with the names of their dimensions.
        result: the names of the dimensions of the result.
        dtype: the dtype of the result.
    """
    builder = builder_of(*(x for x, _ in operands))
    arrays = [_in_memory_order(as_expression(x, builder), n) for x, n in operands]
    sizes: dict[Name, int] = {}
    for x, names in arrays:
        sizes.update(zip(names, x.shape, strict=True))
    # The innermost loop runs over contiguous elements of the last operand.
    names_in_order = [n for _, names in reversed(arrays) for n in names]
    reduced = [
        name
        for name in dict.fromkeys(names_in_order)
        if name not in result and sizes[name] != 1
    ]
    loop_of = {name: AffineDimExpr(i) for i, name in enumerate((*result, *reduced))}
    loops = Loops(builder)
    factors = [
        x.element(loops, tuple(loop_of.get(name, ZERO) for name in names))
        for x, names in arrays
    ]
    scalar = as_number(loops.builder, reduce(cast(Any, mul), factors))
    shape = tuple(sizes[name] for name in result)
    count = math.prod(sizes[name] for name in reduced)
    type_: IntegerType | AnyFloat
    if isinstance(scalar, FloatExpression):
        type_, bounds, ends = scalar.type, ANY_INTEGER, (-math.inf, math.inf)
    else:
        bounds = ends = _bounds(kind, arrays, result, sizes, count, scalar.bounds)
        type_ = type_for(bounds)
    dtype = np.dtype(dtype or _DTYPES.get(type_, np.int64))
    initial = builder.filled_tensor(
        _IDENTITY[kind](ends), TensorType(type_, shape), shape
    )
    if 0 in (*shape, count):
        return InMemoryArray(builder, initial, dtype, bounds)
    op_type = _COMBINED[kind][isinstance(scalar, IntegerExpression)]

    def body(accumulators: Sequence[SSAValue]) -> Sequence[SSAValue]:
        value = as_scalar(loops.builder, scalar, type_)
        return [loops.builder.op(op_type, (accumulators[0], value), type_)]

    loop_sizes = [sizes[name] for name in (*result, *reduced)]
    (value,) = loops.nest(loop_sizes, [initial], range(len(result)), body)
    return InMemoryArray(builder, value, dtype, bounds)


def _in_memory_order(
    x: TensorExpression, names: Sequence[Name]
) -> tuple[TensorExpression, Sequence[Name]]:
    """Return the array before transpositions, with the names of its dimensions."""
    while isinstance(x, Transposed):
        by_dimension = dict(zip(x.order, names, strict=True))
        x, names = x.base, [by_dimension[d] for d in range(x.ndim)]
    return x, names


def _bounds(
    kind: str,
    arrays: Sequence[tuple[TensorExpression, Sequence[Name]]],
    result: Sequence[Name],
    sizes: Mapping[Name, int],
    count: int,
    bounds: Bounds,
) -> Bounds:
    """
    Return the bounds of the integer accumulators and results of a reduction; constant
    weights tighten those of a sum of products.
    """
    if kind == "prod" or bounds == ANY_INTEGER:
        return ANY_INTEGER
    if kind != "sum":
        return bounds
    low, high = min(bounds[0] * count, 0), max(bounds[1] * count, 0)
    constants = [(x, names) for x, names in arrays if isinstance(x, ConstantArray)]
    if len(arrays) != 2 or len(constants) != 1:
        return low, high
    ((weights, names),) = constants
    # Widen first: the absolute value of -128 is not representable in `i8`.
    sizes_of_weights = np.abs(weights.array.astype(np.int64))
    largest = int(sizes_of_weights.max(initial=1))
    largest_factor = -(-max(abs(bounds[0]), abs(bounds[1])) // largest)
    axes = tuple(i for i, name in enumerate(names) if name not in result)
    sums = sizes_of_weights.sum(axis=axes)
    repeated = math.prod(
        size for name, size in sizes.items() if name not in (*result, *names)
    )
    most = largest_factor * int(sums.max(initial=0)) * repeated
    return max(low, -most), min(high, most)


@implements(np.einsum)
def _einsum(
    subscripts: str, *operands: Value, optimize: object = None
) -> TensorExpression:
    inputs, result = subscripts.split("->")
    pairs = [*zip(operands, inputs.split(","), strict=True)]
    return _contracted("sum", pairs, result)


@implements(np.matmul)
def _matmul(lhs: Value, rhs: Value) -> TensorExpression:
    builder = builder_of(lhs, rhs)
    a, b = as_expression(lhs, builder), as_expression(rhs, builder)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    names = [*range(len(batch))]

    def batched(
        x: TensorExpression, own_names: Sequence[str]
    ) -> tuple[Value, Sequence[Name]]:
        # Broadcast dimensions have no name, hence no loop.
        first = len(batch) - (x.ndim - 2)
        kept_dimensions = [
            d for d in range(x.ndim - 2) if x.shape[d] == batch[first + d]
        ]
        x = reshaped(x, [*(x.shape[d] for d in kept_dimensions), *x.shape[-2:]])
        return x, [*(names[first + d] for d in kept_dimensions), *own_names]

    operands = [batched(a, ("i", "k")), batched(b, ("k", "j"))]
    return _contracted("sum", operands, [*names, "i", "j"])


def _first_index(
    is_better: np.ufunc, x: TensorExpression, axis: int
) -> TensorExpression:
    """Return the index of the first maximum or minimum along a dimension."""
    axis = axis % x.ndim
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    # The reduction loop is the innermost one.
    last = AffineDimExpr(x.ndim - 1)
    element_indices: list[AffineExpr] = [*loops_of(range(x.ndim - 1))]
    element_indices.insert(axis, last)
    loops = Loops(x.builder)
    scalar = as_number(loops.builder, x.element(loops, tuple(element_indices)))
    type_: IntegerType | AnyFloat
    if isinstance(scalar, FloatExpression):
        type_, ends = scalar.type, (-math.inf, math.inf)
    else:
        type_, ends = type_for(scalar.bounds), scalar.bounds
    worst = ends[0] if is_better is np.greater else ends[1]
    initial = [
        x.builder.filled_tensor(worst, TensorType(type_, shape), shape),
        x.builder.zeros(TensorType(i32, shape), shape),
    ]

    def body(accumulators: Sequence[SSAValue]) -> Sequence[SSAValue]:
        inner, (best, index) = loops.builder, accumulators
        better = is_better(scalar, replace(scalar, value=best)).value
        here = inner.op(arith.IndexCastOp, (loops.index(last),), i32)
        value = as_scalar(inner, scalar, type_)
        return [
            inner.add(arith.SelectOp(better, value, best)),
            inner.add(arith.SelectOp(better, here, index)),
        ]

    sizes = (*shape, x.shape[axis])
    _, indices = loops.nest(sizes, initial, range(len(shape)), body)
    return InMemoryArray(x.builder, indices, np.dtype(np.int64), (0, x.shape[axis] - 1))


@implements("folded")
def _folded(x: TensorExpression, step: Callable[..., Any]) -> TensorExpression:
    *shape, size = x.shape
    first, rest = x[..., 0], x[..., 1:]
    if size == 1 or 0 in shape:
        return first
    bounds = signed_bounds(i32.bitwidth)
    loops = Loops(x.builder)
    element = rest.element(loops, loops_of(range(x.ndim)))

    type_ = element.type if isinstance(element, FloatExpression) else i32

    def array_of(scalar: FloatExpression) -> TensorExpression:
        return Mapped(x.builder, (), x.dtype, lambda: scalar, ())

    def body(accumulators: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if not isinstance(element, FloatExpression):
            number = IntegerExpression(loops.builder, accumulators[0], bounds)
            return [as_scalar(loops.builder, step(number, element), type_)]
        # As arrays without dimensions, whose dtype a step may convert.
        total = replace(element, value=accumulators[0])
        result = step(array_of(total), array_of(element)).element(loops, ())
        return [as_scalar(loops.builder, result, type_)]

    outputs = [first.tensor(type_)]
    (value,) = loops.nest((*shape, size - 1), outputs, range(len(shape)), body)
    return InMemoryArray(x.builder, value, x.dtype, bounds)


@implements("scaled_total")
def _scaled_total(values: Value, scales: Value, start: Value) -> TensorExpression:
    builder = builder_of(values, scales, start)
    x = as_expression(values, builder)
    factors = broadcast(as_expression(scales, builder), x.shape)
    initial = broadcast(as_expression(start, builder), x.shape[1:])
    loops = Loops(builder)
    # The reduction loop is the innermost one.
    indices = loops_of([x.ndim - 1, *range(x.ndim - 1)])
    value, factor = (
        as_number(loops.builder, operand.element(loops, indices)).as_float(f32).value
        for operand in (x, factors)
    )

    def body(accumulators: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return [loops.builder.add(math_dialect.FmaOp(value, factor, accumulators[0]))]

    sizes, output = (*x.shape[1:], x.shape[0]), initial.tensor(f32)
    (result,) = loops.nest(sizes, [output], range(x.ndim - 1), body)
    return InMemoryArray(builder, result, np.dtype(np.float32))


@implements("top_k")
def _top_elements(
    x: TensorExpression, count: int
) -> tuple[TensorExpression, TensorExpression]:
    x, size = x.computed, x.shape[-1]
    # As an expression, so that loops compare the pairs: NumPy would build a constant.
    numbers = constant(x.builder, np.arange(size))
    lhs, rhs = x[..., :, None], x[..., None, :]
    is_before = (rhs > lhs) | ((rhs == lhs) & (numbers[None, :] < numbers[:, None]))
    ranks = is_before.sum(axis=-1)
    is_wanted = ranks[..., None, :] == np.arange(count)[:, None]
    where: Any = np.where
    values = where(is_wanted, x[..., None, :], x.dtype.type(0)).sum(axis=-1)
    indices = where(is_wanted, numbers, 0).sum(axis=-1)
    return values, indices


FUNCTIONS[np.argmax] = partial(_first_index, np.greater)
FUNCTIONS[np.argmin] = partial(_first_index, np.less)
