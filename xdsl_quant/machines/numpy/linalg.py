"""
Interpreter functions of the dialect linalg, for NumPy arrays.

The iteration space is split into blocks that fit in a cache; the body runs once for all
elements of a block. Operands are views, broadcast to the block; their elements are
copied only if an index is not a single loop dimension, e.g. `d0 floordiv 32`.

Reductions are bit-identical to loops in dimension order:

* Integer reductions, maxima and minima do not depend on the order.
* Float sums and products are accumulated sequentially.
* For other bodies, Python loops run over the reduced dimensions; each iteration computes a
  whole block of the parallel dimensions.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects import arith, linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.interpreter import Interpreter, PythonValues
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_quant.diagnostics import quoted
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import shape_text
from xdsl_quant.xdsl_patches import explanation

from .arith import maximum
from .implementations import interpreter_functions, run_block
from .values import Load, as_numbers, failure, signed, unsigned, wrapped_to

BLOCK_SIZE = 1 << 18
"""Largest number of elements that are computed at once."""

Ranges = Sequence[range]
"""Block of an iteration space: the index range of each loop."""


# Operands


def _operand_part(
    op: Operation, values: Array, map_: AffineMap, ranges: Ranges
) -> Array:
    """
    Return the elements of an operand for a block of the iteration space, with size 1
    for loops that the operand does not depend on.
    """
    used = [expr.used_dims() for expr in map_.results]
    dimensions = [dimension for expr_dims in used for dimension in expr_dims]
    grid: Any = np.ix_(*ranges)
    if len({*dimensions}) < len(dimensions) or any(len(dims) > 1 for dims in used):
        indices = [np.asarray(expr.eval(grid, ())) for expr in map_.results]
        for index, size in zip(indices, values.shape, strict=True):
            _check_bounds(op, index, size)
        return values[tuple(indices)]
    # Each index depends on at most one loop, and no two on the same.
    part = values
    for axis, expr in reversed([*enumerate(map_.results)]):
        before = (slice(None),) * axis
        if isinstance(expr, AffineDimExpr):
            indices = ranges[expr.position]
            part = part[(*before, slice(indices.start, indices.stop))]
            continue
        index = np.asarray(expr.eval(grid, ())).ravel()
        _check_bounds(op, index, values.shape[axis])
        # With the ellipsis, results of rank 0 are arrays, not scalars.
        part = part.take(index, axis) if used[axis] else part[(*before, index[0], ...)]
    part = part.transpose(np.argsort(dimensions))
    absent = tuple(d for d in range(len(ranges)) if d not in dimensions)
    return np.expand_dims(part, absent)


def _is_view(map_: AffineMap) -> bool:
    """Return True if `_operand_part` returns a view for this indexing map."""
    dimensions = [expr for expr in map_.results if isinstance(expr, AffineDimExpr)]
    others = [expr for expr in map_.results if not isinstance(expr, AffineDimExpr)]
    is_constant = all(not expr.used_dims() for expr in others)
    return is_constant and len({*dimensions}) == len(dimensions)


def _check_bounds(op: Operation, index: Array, size: int) -> None:
    if np.any((index < 0) | (index >= size)):
        raise failure(
            op,
            f"accesses indices {index.min()} to {index.max()} of a dimension of size "
            f"{size}",
        )


def _space_parts(sizes: Sequence[int], one_by_one: Sequence[int]) -> Iterator[Ranges]:
    """
    Split the iteration space into blocks, in loop order.

    Inner loops are kept whole while a block has at most `BLOCK_SIZE` elements; loops in
    `one_by_one` advance index by index.
    """
    steps: list[int] = []
    room = BLOCK_SIZE
    for dimension, size in reversed([*enumerate(sizes)]):
        step = 1 if dimension in one_by_one else max(1, min(size, room))
        # Loops around a split loop advance by one index: the block is full.
        room = room // step if step == size or dimension in one_by_one else 0
        steps.append(step)
    return product(
        *(
            [range(start, min(start + step, size)) for start in range(0, size, step)]
            for size, step in zip(sizes, reversed(steps), strict=True)
        )
    )


# Reductions

_Axes = tuple[int, ...]

Combine = Callable[[Array, Array, _Axes, Attribute], Array]
"""
Function that returns the updated accumulator of a reduction, given the accumulator, new
values, the reduced axes (which have size 1 in the accumulator), and the element type.
"""


def _reduce_integers(function: np.ufunc, load: Load = signed) -> Combine:
    def combine(result: Array, values: Array, axes: _Axes, type_: Attribute) -> Array:
        loaded = load(values, type_)
        reduced = function.reduce(loaded, axes, dtype=loaded.dtype, keepdims=True)
        return wrapped_to(function(load(result, type_), reduced), type_)

    return combine


def _reduce_in_order(
    function: np.ufunc, result: Array, values: Array, axes: _Axes, type_: Attribute
) -> Array:
    front = range(len(axes))
    values = np.moveaxis(values, axes, front)
    values = values.reshape(-1, *values.shape[len(axes) :])
    first = np.moveaxis(result, axes, front).reshape(1, *values.shape[1:])
    totals = function.accumulate(np.concatenate((first, values)), axis=0)
    return totals[-1].reshape(result.shape)


def _ignoring_nan(
    function: np.ufunc, result: Array, values: Array, axes: _Axes, type_: Attribute
) -> Array:
    return function(result, function.reduce(values, axes, keepdims=True))


def _maximum(result: Array, values: Array, axes: _Axes, type_: Attribute) -> Array:
    largest = np.maximum.reduce(values, axes, keepdims=True)
    # NumPy treats zeros of both signs as equal; prefer 0.0.
    has_positive_zero = np.any((values == 0) & ~np.signbit(values), axes, keepdims=True)
    zero = np.zeros((), largest.dtype)
    zeros = np.where(has_positive_zero, zero, -zero)
    return maximum(result, np.where(largest == 0, zeros, largest))


def _minimum(result: Array, values: Array, axes: _Axes, type_: Attribute) -> Array:
    return -_maximum(-result, -values, axes, type_)


_COMBINES: dict[type[Operation], Combine] = {
    arith.AddiOp: _reduce_integers(np.add),
    arith.MuliOp: _reduce_integers(np.multiply),
    arith.AndIOp: _reduce_integers(np.bitwise_and),
    arith.OrIOp: _reduce_integers(np.bitwise_or),
    arith.XOrIOp: _reduce_integers(np.bitwise_xor),
    arith.MaxSIOp: _reduce_integers(np.maximum),
    arith.MinSIOp: _reduce_integers(np.minimum),
    arith.MaxUIOp: _reduce_integers(np.maximum, unsigned),
    arith.MinUIOp: _reduce_integers(np.minimum, unsigned),
    arith.AddfOp: partial(_reduce_in_order, np.add),
    arith.MulfOp: partial(_reduce_in_order, np.multiply),
    arith.MaximumfOp: _maximum,
    arith.MinimumfOp: _minimum,
    arith.MaxnumfOp: partial(_ignoring_nan, np.fmax),
    arith.MinnumfOp: partial(_ignoring_nan, np.fmin),
}


class _Combiner(NamedTuple):
    """Last op of a body (`op`), which combines the accumulator with `value`."""

    op: Operation
    value: SSAValue
    combine: Combine


def _find_combiner(result: BlockArgument, yielded: SSAValue) -> _Combiner | None:
    op = yielded.owner
    if not isinstance(op, Operation) or op.parent is not result.block:
        return None
    if (combine := _COMBINES.get(type(op))) is None or len([*yielded.uses]) != 1:
        return None
    if [use.operation for use in result.uses] != [op]:
        return None
    lhs, rhs = op.operands
    return _Combiner(op, rhs if lhs is result else lhs, combine)


# Evaluation


@dataclass(frozen=True)
class _Structure:
    """Structured op: body, indexing maps, and number of inputs."""

    interpreter: Interpreter
    op: Operation
    block: Block
    maps: Sequence[AffineMap]
    input_count: int

    def __post_init__(self) -> None:
        if not self.op.results:
            raise failure(self.op, "has memref operands, expected tensors")
        for map_ in self.output_maps:
            if not _is_view(map_):
                raise failure(
                    self.op,
                    f"has an output with unsupported map {map_}",
                )
        for op in self.block.walk():
            if op.regions:
                raise failure(
                    self.op,
                    f"has a body with unsupported op '{op.name}'",
                )

    @property
    def output_maps(self) -> Sequence[AffineMap]:
        return self.maps[self.input_count :]

    def is_used(self, index: int) -> bool:
        return self.block.args[index].first_use is not None

    def reduced_loops(self) -> tuple[int, ...]:
        """Return the loops, parallel ones too, whose index some output does not use."""
        used = [map_.used_dims() for map_ in self.output_maps]
        return tuple(
            dimension
            for dimension in range(self.maps[0].num_dims)
            if not all(dimension in dims for dims in used)
        )

    def combiners(self) -> list[_Combiner] | None:
        """Return the combiners of all results; `None` if a result has no combiner."""
        outputs = self.block.args[self.input_count :]
        candidates = [
            _find_combiner(output, yielded)
            for output, yielded in zip(outputs, self.yielded, strict=True)
        ]
        combiners = [combiner for combiner in candidates if combiner is not None]
        return combiners if len(combiners) == len(candidates) else None

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """Operands of the terminator."""
        assert self.block.last_op is not None
        return self.block.last_op.operands

    def values(
        self,
        operands: Sequence[Array],
        ranges: Ranges,
        wanted: Sequence[SSAValue],
        skipped: Sequence[Operation] = (),
    ) -> Sequence[Array]:
        """Evaluate `wanted` values of the body for a block of the iteration space."""
        args = [
            _operand_part(self.op, operand, map_, ranges)
            if self.is_used(index)
            else None
            for index, (operand, map_) in enumerate(
                zip(operands, self.maps, strict=True)
            )
        ]
        # Copy outputs, which are about to be overwritten.
        args[self.input_count :] = map(copy, args[self.input_count :])
        known: dict[Operation, Array | None] = dict.fromkeys(skipped)
        for op in self.block.ops:
            if isinstance(op, linalg.ops.IndexOp):
                known[op] = np.ix_(*ranges)[op.dim.value.data]
        return run_block(self.interpreter, self.block, args, wanted, known)

    def loop_sizes(self, operands: Sequence[Array]) -> list[int]:
        """Return the number of iterations of each loop."""
        sizes: dict[int, int] = {}
        for map_, operand in zip(self.maps, operands, strict=True):
            for expr, size in zip(map_.results, operand.shape, strict=True):
                if not isinstance(expr, AffineDimExpr):
                    continue
                if sizes.setdefault(expr.position, size) != size:
                    shapes = quoted(shape_text(o.shape) for o in operands)
                    raise failure(
                        self.op, f"has operands of shapes that do not match: {shapes}"
                    )
        return [sizes[dimension] for dimension in range(self.maps[0].num_dims)]

    def evaluate(self, args: PythonValues) -> PythonValues:
        """Return the results of the op for its operand values."""
        operands = [
            as_numbers(arg, value.type)
            for arg, value in zip(args, self.op.operands, strict=True)
        ]
        sizes = self.loop_sizes(operands)
        reduced = self.reduced_loops()
        results = [
            np.array(output)
            if reduced or self.is_used(self.input_count + index)
            else np.empty(output.shape, output.dtype)
            for index, output in enumerate(operands[self.input_count :])
        ]
        # The body reads initial values from the arrays of the results.
        operands[self.input_count :] = results
        if reduced and (combiners := self.combiners()) is not None:
            for ranges in _space_parts(sizes, ()):
                self.reduce_part(operands, combiners, reduced, ranges)
            return tuple(results)
        for ranges in _space_parts(sizes, reduced):
            values = self.values(operands, ranges, self.yielded)
            for result, map_, value in zip(
                results, self.output_maps, values, strict=True
            ):
                part = _operand_part(self.op, result, map_, ranges)
                np.copyto(part, value, casting="equiv")
        return tuple(results)

    def reduce_part(
        self,
        operands: Sequence[Array],
        combiners: Sequence[_Combiner],
        reduced: _Axes,
        ranges: Ranges,
    ) -> None:
        """Combine the results with the values of a block of the iteration space."""
        wanted = [combiner.value for combiner in combiners]
        skipped = [combiner.op for combiner in combiners]
        values = self.values(operands, ranges, wanted, skipped)
        shape = [len(indices) for indices in ranges]
        results = operands[self.input_count :]
        for combiner, result, map_, value in zip(
            combiners, results, self.output_maps, values, strict=True
        ):
            part = _operand_part(self.op, result, map_, ranges)
            value = np.broadcast_to(as_numbers(value, combiner.value.type), shape)
            total = combiner.combine(part, value, reduced, combiner.value.type)
            np.copyto(part, total, casting="equiv")


def run_structured(
    interpreter: Interpreter, op: LinalgStructuredOperation, *args: Array
) -> PythonValues:
    """Interpret an op that combines elements by its body, such as `linalg.generic`."""
    maps = [map_.data for map_ in op.get_indexing_maps()]
    block, input_count = op.body.block, len(op.inputs)
    if isinstance(op, linalg.ops.PoolingNchwMaxOp) and block.args[1].first_use:
        # The elements of the window operand are undefined.
        raise failure(op, f"has a body that reads the window{explanation()}")
    return _Structure(interpreter, op, block, maps, input_count).evaluate(args)


def _map_without(rank: int, dimensions: Sequence[int]) -> AffineMap:
    kept = [dimension for dimension in range(rank) if dimension not in dimensions]
    return AffineMap(rank, 0, tuple(map(AffineDimExpr, kept)))


def _run_broadcast(
    interpreter: Interpreter, op: linalg.ops.BroadcastOp, *args: Array
) -> PythonValues:
    rank = np.ndim(args[1])
    maps = [_map_without(rank, op.dimensions.get_values()), AffineMap.identity(rank)]
    block = op.hidden_region.block
    return _Structure(interpreter, op, block, maps, 1).evaluate(args)


def _reduce(
    interpreter: Interpreter, op: linalg.ops.ReduceOp, *args: Array
) -> PythonValues:
    rank, dimensions = np.ndim(args[0]), op.dimensions.get_values()
    maps = [AffineMap.identity(rank), _map_without(rank, dimensions)]
    return _Structure(interpreter, op, op.region.block, maps, 1).evaluate(args)


LINALG = interpreter_functions(
    {},
    {
        linalg.ops.BroadcastOp: _run_broadcast,
        linalg.ops.ReduceOp: _reduce,
        **{
            op: run_structured
            for op in linalg.Linalg.operations
            if issubclass(op, LinalgStructuredOperation)
        },
    },
)
"""Interpreter functions of the dialect's ops on tensors."""
