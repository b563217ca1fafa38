"""
Ops whose positions are data: gathers, scatters and sorting.

Negative indices count from the end. Constant indices out of range are refused; others are
errors in ONNX, which StableHLO clamps to the range (gathers) or skips (scatters).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, TensorType, i64
from xdsl.ir import Block, Region, SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.frontends.stablehlo.dialect.attributes import (
    GatherDimensionNumbersAttr,
    ScatterDimensionNumbersAttr,
)
from xdsl_quant.frontends.stablehlo.dialect.chlo import TopKOp
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported


def wrapped_indices(
    b: GraphBuilder, indices: SSAValue, sizes: Sequence[int], *, is_checked: bool = True
) -> SSAValue:
    """
    Count negative indices from the end of dimensions.

    Args:
        b: the builder.
        indices: integers.
        sizes: size of the dimension, or one for each component along the last dimension.
        is_checked: refuse constant indices that are out of range.
    """
    bounds = np.array(sizes if len(sizes) > 1 else sizes[0])
    if (known := b.known(indices)) is not None:
        if is_checked and ((known < -bounds) | (known >= bounds)).any():
            raise Unsupported(f"an index is out of range for sizes {[*sizes]}")
        array = np.where(known < 0, known + bounds, known).astype(known.dtype)
        return b.tensor(array, element_type_of(indices))
    element_type = element_type_of(indices)
    limits = b.convert(b.tensor(bounds.astype(np.int64)), element_type)
    from_end = b.compute(stablehlo.AddOp, indices, limits)
    is_negative = b.compare(ComparisonDirection.LT, indices, 0)
    return b.select(is_negative, from_end, indices)


# Gathers


def take(b: GraphBuilder, x: SSAValue, indices: SSAValue, axis: int) -> SSAValue:
    """Gather slices along an axis, as `numpy.take` does, for non-negative indices."""
    shape, count = b.static_shape(x), len(shape_of(indices))
    rank = len(shape) - 1 + count
    numbers = GatherDimensionNumbersAttr(
        [d for d in range(rank) if not axis <= d < axis + count],
        [axis],
        [],
        [],
        [axis],
        count,
    )
    sizes = [1 if d == axis else size for d, size in enumerate(shape)]
    return gather_slices(b, x, indices, numbers, sizes)


def gather_slices(
    b: GraphBuilder,
    x: SSAValue,
    indices: SSAValue,
    numbers: GatherDimensionNumbersAttr,
    sizes: Sequence[int],
) -> SSAValue:
    """Gather slices with these sizes at index vectors."""
    return b.add(
        stablehlo.GatherOp(x, indices, dimension_numbers=numbers, slice_sizes=sizes)
    )


def crop(b: GraphBuilder, x: SSAValue, axis: int, positions: range) -> SSAValue:
    """
    Slice one dimension of a value with unknown sizes by negative padding: the bounds of
    `stablehlo.slice` are known. The first column of a matrix has every `n`-th element.
    """
    sizes, count = [*b.sizes_of(x)], len(positions)
    step = positions.step if count > 1 else 1
    start = positions.start if positions else 0
    end = start + count * step
    value = _pad_axis(b, x, axis, -start, end - shape_of(x)[axis])
    if step > 1:
        matrices = [*sizes[:axis], count, step, *sizes[axis + 1 :]]
        value = b.reshape_to_sizes(value, matrices)
        value = _pad_axis(b, value, axis + 1, 0, 1 - step)
        sizes[axis] = count
        return b.reshape_to_sizes(value, sizes)
    sizes[axis] = count
    b.with_sizes(value, sizes)
    return value


def _pad_axis(b: GraphBuilder, x: SSAValue, axis: int, low: int, high: int) -> SSAValue:
    if low == high == 0:
        return x
    rank, fill = len(shape_of(x)), b.scalar(0, element_type_of(x))
    amounts = ([n if d == axis else 0 for d in range(rank)] for n in (low, high))
    return b.pad(x, fill, *amounts)


def _gather(b: GraphBuilder, node: Node, x: SSAValue, indices: SSAValue) -> SSAValue:
    shape = shape_of(x)
    (axis,) = b.axes([node.integer("axis", 0)], len(shape))
    known, size = b.known(indices), shape[axis]
    if DYNAMIC_INDEX in shape and size != DYNAMIC_INDEX and known is not None:
        if known.size == 1 and -size <= (index := int(known.item())) < size:
            part = crop(b, x, axis, range(index % size, index % size + 1))
            sizes = b.sizes_of(part)
            ones = [1] * known.ndim
            return b.reshape_to_sizes(part, [*sizes[:axis], *ones, *sizes[axis + 1 :]])
    b.static_shape(x)
    return take(b, x, wrapped_indices(b, indices, [shape[axis]]), axis)


def _compress(
    b: GraphBuilder, node: Node, x: SSAValue, condition: SSAValue
) -> SSAValue:
    (positions,) = b.array(condition, "positions").reshape(-1).nonzero()
    if "axis" not in node.attributes:
        x, axis = b.reshape_to(x, (math.prod(b.static_shape(x)),)), 0
    else:
        (axis,) = b.axes([node.integer("axis", 0)], len(shape_of(x)))
    indices = wrapped_indices(b, b.tensor(positions), [b.static_shape(x)[axis]])
    return take(b, x, indices, axis)


def _gather_elements(
    b: GraphBuilder, node: Node, x: SSAValue, indices: SSAValue
) -> SSAValue:
    (axis,) = b.axes([node.integer("axis", 0)], len(shape_of(x)))
    return _take_along(b, x, indices, axis)


def _take_along(b: GraphBuilder, x: SSAValue, indices: SSAValue, axis: int) -> SSAValue:
    """Gather elements along an axis, as `numpy.take_along_axis` does."""
    shape, counts = b.static_shape(x), b.static_shape(indices)
    rank = len(shape)
    if rank != len(counts):
        raise Unsupported(f"indices have rank {len(counts)}; expected {rank}")
    indices = wrapped_indices(b, indices, [shape[axis]])
    # The indices may cover a part of the other dimensions.
    used = [size if d == axis else counts[d] for d, size in enumerate(shape)]
    if used != [*shape]:
        x = b.slice(x, [0] * rank, used)
    others = [d for d in range(rank) if d != axis]
    numbers = GatherDimensionNumbersAttr([], [axis], others, others, [axis], rank)
    return gather_slices(b, x, indices, numbers, [1] * rank)


def _vectors_shape(b: GraphBuilder, indices: SSAValue) -> Sequence[int]:
    """Return the shape of index vectors, which the last dimension has."""
    if not (shape := b.static_shape(indices)):
        raise Unsupported("indices have rank 0; expected vectors")
    return shape


def _gather_nd(b: GraphBuilder, node: Node, x: SSAValue, indices: SSAValue) -> SSAValue:
    shape, (*outer, depth) = b.static_shape(x), _vectors_shape(b, indices)
    batch_rank = node.integer("batch_dims", 0)
    if not 0 <= batch_rank <= len(outer) or not 1 <= depth <= len(shape) - batch_rank:
        raise Unsupported(
            f"cannot index rank {len(shape)} by {depth} components after {batch_rank} "
            "batch dimensions"
        )
    batch = [*range(batch_rank)]
    indexed = [*range(batch_rank, batch_rank + depth)]
    indices = wrapped_indices(b, indices, [shape[d] for d in indexed])
    rank = len(shape) - batch_rank - depth
    numbers = GatherDimensionNumbersAttr(
        [*range(len(outer), len(outer) + rank)],
        indexed,
        batch,
        batch,
        indexed,
        len(outer),
    )
    sizes = [1] * (batch_rank + depth) + [*shape[batch_rank + depth :]]
    return gather_slices(b, x, indices, numbers, sizes)


def _reverse_sequence(
    b: GraphBuilder, node: Node, x: SSAValue, lengths: SSAValue
) -> SSAValue:
    shape = b.static_shape(x)
    axes = [node.integer("time_axis", 0), node.integer("batch_axis", 1)]
    time, batch = b.axes(axes, len(shape))
    steps = b.iota(shape, time, i64)
    ends = b.broadcast(b.convert(lengths, i64), shape, [batch])
    is_reversed = b.compare(ComparisonDirection.LT, steps, ends)
    last = b.compute(stablehlo.SubtractOp, ends, 1)
    backwards = b.compute(stablehlo.SubtractOp, last, steps)
    return _take_along(b, x, b.select(is_reversed, backwards, steps), time)


# Scatters

_REDUCTIONS: Mapping[str, type[BinaryOp] | None] = {
    "none": None,
    "add": stablehlo.AddOp,
    "mul": stablehlo.MultiplyOp,
    "max": stablehlo.MaximumOp,
    "min": stablehlo.MinimumOp,
}
"""Op that combines an element with an update, by reduction; `None` replaces it."""


def _scattered(
    b: GraphBuilder,
    x: SSAValue,
    indices: SSAValue,
    updates: SSAValue,
    numbers: ScatterDimensionNumbersAttr,
    reduction: str,
) -> SSAValue:
    if reduction not in _REDUCTIONS:
        names = ", ".join(_REDUCTIONS)
        raise Unsupported(f"unknown reduction '{reduction}'; expected one of {names}")
    scalar = TensorType(element_type_of(x), ())
    block = Block(arg_types=[scalar, scalar])
    old, result = block.args
    if (op_type := _REDUCTIONS[reduction]) is not None:
        combined = op_type(old, result)
        block.add_op(combined)
        result = combined.result
    block.add_op(stablehlo.ReturnOp(result))
    return b.add(
        stablehlo.ScatterOp(
            [x],
            indices,
            [updates],
            result_types=[[x.type]],
            regions=[Region(block)],
            scatter_dimension_numbers=numbers,
        )
    )


def _scatter_elements(
    b: GraphBuilder, node: Node, x: SSAValue, indices: SSAValue, updates: SSAValue
) -> SSAValue:
    (axis,) = b.axes([node.integer("axis", 0)], len(shape_of(x)))
    return _put_along(b, x, indices, updates, axis, node.text("reduction", "none"))


def _put_along(
    b: GraphBuilder,
    x: SSAValue,
    indices: SSAValue,
    updates: SSAValue,
    axis: int,
    reduction: str = "none",
) -> SSAValue:
    """Scatter elements along an axis, as `numpy.put_along_axis` does."""
    shape, counts = b.static_shape(x), b.static_shape(indices)
    rank = len(shape)
    if rank != len(counts):
        raise Unsupported(f"indices have rank {len(counts)}; expected {rank}")
    indices = wrapped_indices(b, indices, [shape[axis]])
    components = [
        b.reshape_to(
            indices if d == axis else b.iota(counts, d, element_type_of(indices)),
            (*counts, 1),
        )
        for d in range(rank)
    ]
    numbers = ScatterDimensionNumbersAttr(
        [], [*range(rank)], [], [], [*range(rank)], rank
    )
    vectors = b.concatenate(components, rank)
    return _scattered(b, x, vectors, updates, numbers, reduction)


def _scatter_nd(
    b: GraphBuilder, node: Node, x: SSAValue, indices: SSAValue, updates: SSAValue
) -> SSAValue:
    shape, (*outer, depth) = b.static_shape(x), _vectors_shape(b, indices)
    if not 1 <= depth <= len(shape):
        raise Unsupported(f"cannot index rank {len(shape)} by {depth} components")
    indices = wrapped_indices(b, indices, shape[:depth])
    windows = range(len(outer), len(outer) + len(shape) - depth)
    indexed = [*range(depth)]
    numbers = ScatterDimensionNumbersAttr(
        [*windows], indexed, [], [], indexed, len(outer)
    )
    reduction = node.text("reduction", "none")
    return _scattered(b, x, indices, updates, numbers, reduction)


def _tensor_scatter(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    updates: SSAValue,
    starts: SSAValue | None = None,
) -> SSAValue:
    counts = b.static_shape(updates)
    (axis,) = b.axes([node.integer("axis", -2)], len(counts))
    positions = b.iota(counts, axis, i64)
    if starts is not None:
        starts = b.broadcast(b.convert(starts, i64), counts, [0])
        positions = b.compute(stablehlo.AddOp, positions, starts)
    match node.text("mode", "linear"):
        case "linear":
            pass
        case "circular":
            size = b.static_shape(x)[axis]
            positions = b.compute(stablehlo.RemainderOp, positions, size)
        case mode:
            raise Unsupported(f"unknown mode '{mode}'; expected linear or circular")
    return _put_along(b, x, positions, updates, axis)


# Sorting


def _top_k(b: GraphBuilder, node: Node, x: SSAValue, k: SSAValue) -> Sequence[SSAValue]:
    count = int(b.single_number(k, "values of k"))
    rank = len(b.static_shape(x))
    (axis,) = b.axes([node.integer("axis", -1)], rank)
    # The permutation that exchanges two axes is its own inverse.
    order = [*range(rank)]
    order[axis], order[-1] = order[-1], order[axis]
    is_largest = node.flag("largest", default=True)
    is_float = isinstance(element_type_of(x), AnyFloat)
    # The complement of an integer reverses the order without overflow.
    reverse = stablehlo.NegateOp if is_float else stablehlo.NotOp
    x = b.permute(x, order)
    x = x if is_largest else b.add(reverse(x))
    top = TopKOp(x, k=count, result_types=[x.type, x.type])
    top.infer_result_types()
    b.add(top)
    values = top.values if is_largest else b.add(reverse(top.values))
    return b.permute(values, order), b.permute(b.convert(top.indices, i64), order)


INDEXING: Mapping[str, Conversion] = {
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top_k,
}
"""Conversions of ops with indices, by op."""
