"""Writers of gathers, scatters, slices at positions of data, and sorting."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.onnx.graph_writer import GraphWriter, Layout, Writer
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import chlo
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.runtime.arrays import constant_elements
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported


def _long(w: GraphWriter, tensor: str, value: SSAValue) -> str:
    """Convert indices to i64."""
    if element_type_of(value) == i64:
        return tensor
    return w.cast(tensor, i64)


def _are_in_range(indices: SSAValue, ends: Sequence[int]) -> bool:
    """Return True for constant indices, in the last dimension, from 0 to `ends`."""
    known = constant_elements(indices)
    return known is not None and bool(((known >= 0) & (known <= [*ends])).all())


def _clamped_indices(
    w: GraphWriter, tensor: str, indices: SSAValue, ends: Sequence[int]
) -> str:
    """Clamp indices as StableHLO does; ONNX refuses indices out of range."""
    if _are_in_range(indices, ends):
        return tensor
    tensor = w.node("Max", [tensor, w.integers([0])], f"{tensor}_clamped_indices")
    return w.node("Min", [tensor, w.integers(ends)], tensor)


def _without(dimensions: Sequence[int], rank: int) -> list[int]:
    """Return the other dimensions."""
    return [dimension for dimension in range(rank) if dimension not in dimensions]


def _index_vectors(
    w: GraphWriter, indices: SSAValue, vector: int, outer: Sequence[int]
) -> str:
    """Return indices as i64, with the other dimensions in an order, and vectors last."""
    rank = len(shape_of(indices))
    if vector < rank:
        return _long(w, w.operand(indices, (*outer, vector)), indices)
    tensor = _long(w, w.operand(indices, (*outer,)), indices)
    return w.node("Unsqueeze", [tensor, w.integers([-1], "axes")], f"{tensor}_vectors")


# Gathers


def _gather(w: GraphWriter, op: stablehlo.GatherOp) -> None:
    numbers = op.dimension_numbers
    offsets, collapsed, batch, index_batch, indexed = numbers.numbers()
    shape, rank = shape_of(op.operand), len(shape_of(op.start_indices))
    sizes = [1 if d in (*collapsed, *batch) else size for d, size in enumerate(shape)]
    if [*op.slice_sizes.get_values()] != sizes or {*indexed} != {*collapsed}:
        raise Unsupported("slices that are parts of a dimension")
    vector = numbers.index_vector_dim.data
    result_batch = _without(offsets, len(shape_of(op.result)))
    index_dimensions = [d for d in range(rank) if d != vector]
    outer = [*index_batch, *(d for d in index_dimensions if d not in index_batch)]
    name = w.value_name(op.result)
    indices = _index_vectors(w, op.start_indices, vector, outer)
    ends = [shape[d] - 1 for d in indexed]
    indices = _clamped_indices(w, indices, op.start_indices, ends)
    # Dimensions of the result along those of the indices.
    batches = [result_batch[index_dimensions.index(d)] for d in outer]
    if len(indexed) == 1 and not batch:
        (axis,) = indexed
        indices = w.node("Squeeze", [indices, w.integers([-1], "axes")], name)
        inputs = [w.operand(op.operand), indices]
        layout = (*offsets[:axis], *batches, *offsets[axis:])
        w.result(op.result, w.node("Gather", inputs, name, axis=axis), layout)
        return
    others = _without((*batch, *indexed), len(shape))
    inputs = [w.operand(op.operand, (*batch, *indexed, *others)), indices]
    tensor = w.node("GatherND", inputs, name, batch_dims=len(batch))
    w.result(op.result, tensor, (*batches, *offsets))


# Scatters

_SCATTER_REDUCTIONS: Mapping[type[Operation], str] = {
    stablehlo.AddOp: "add",
    stablehlo.MaximumOp: "max",
    stablehlo.MinimumOp: "min",
    stablehlo.MultiplyOp: "mul",
}


def _scatter_reduction(op: stablehlo.ScatterOp) -> str:
    """Return how ONNX combines an element with an update."""
    block = op.update_computation.block
    match [*block.ops]:
        case [stablehlo.ReturnOp() as end] if end.operands[0] is block.args[1]:
            return "none"
        case [BinaryOp() as applied, stablehlo.ReturnOp() as end] if (
            {*applied.operands} == {*block.args}
            and end.operands[0] is applied.result
            and type(applied) in _SCATTER_REDUCTIONS
        ):
            return _SCATTER_REDUCTIONS[type(applied)]
        case _:
            raise Unsupported("unsupported function of elements and updates")


def _scatter(w: GraphWriter, op: stablehlo.ScatterOp) -> None:
    if len(op.inputs) != 1:
        raise Unsupported("several inputs")
    numbers = op.scatter_dimension_numbers
    windows, inserted, batch, _, indexed = numbers.numbers()
    (value,), (updates,), (result,) = op.inputs, op.updates, op.results
    shape, rank = shape_of(value), len(shape_of(op.scatter_indices))
    others = _without(inserted, len(shape))
    if (
        batch
        or {*indexed} != {*inserted}
        or [shape_of(updates)[d] for d in windows] != [shape[d] for d in others]
    ):
        raise Unsupported("updates of parts of a dimension, or of batches")
    vector, layout = numbers.index_vector_dim.data, (*indexed, *others)
    outer = [d for d in range(rank) if d != vector]
    indices = _index_vectors(w, op.scatter_indices, vector, outer)
    if not _are_in_range(op.scatter_indices, [shape[d] - 1 for d in indexed]):
        # ONNX counts negative indices from the end; they become an error.
        is_negative = w.node("Less", [indices, w.number(0, i64)], f"{indices}_negative")
        largest = w.number(np.iinfo(np.int64).max, i64)
        indices = w.node("Where", [is_negative, largest, indices], indices)
    update_layout: Layout = (
        *_without(windows, len(shape_of(updates))),
        *windows,
    )
    inputs = [w.operand(value, layout), indices, w.operand(updates, update_layout)]
    reduction = _scatter_reduction(op)
    tensor = w.node("ScatterND", inputs, w.value_name(result), reduction=reduction)
    w.result(result, tensor, layout)


# Slices at positions of data


def _dimension_order(w: GraphWriter, start: SSAValue, end: int) -> str:
    """Return the clamped position of a slice, as a vector of one element."""
    tensor = _long(w, w.operand(start), start)
    tensor = w.node("Unsqueeze", [tensor, w.integers([0], "axes")], f"{tensor}_vector")
    return _clamped_indices(w, tensor, start, [end])


def _dynamic_slice(w: GraphWriter, op: stablehlo.DynamicSliceOp) -> None:
    tensor, name = w.operand(op.operand), w.value_name(op.result)
    sizes = op.slice_sizes.get_values()
    for axis, (start, size) in enumerate(zip(op.start_indices, sizes, strict=True)):
        if size == (extent := shape_of(op.operand)[axis]):
            continue
        position = _dimension_order(w, start, extent - size)
        end = w.node("Add", [position, w.integers([size])], "end")
        inputs = [tensor, position, end, w.integers([axis], "axes")]
        tensor = w.node("Slice", inputs, name)
    w.result(op.result, tensor)


def _dynamic_update_slice(w: GraphWriter, op: stablehlo.DynamicUpdateSliceOp) -> None:
    shape, sizes = shape_of(op.operand), shape_of(op.update)
    positions = [
        (axis, _dimension_order(w, start, shape[axis] - sizes[axis]), sizes[axis])
        for axis, start in enumerate(op.start_indices)
        if sizes[axis] != shape[axis]
    ]
    tensor = _scatter_node(w, w.operand(op.operand), w.operand(op.update), positions)
    w.result(op.result, tensor)


def _scatter_node(
    w: GraphWriter, tensor: str, update: str, positions: Sequence[tuple[int, str, int]]
) -> str:
    """Replace a slice along the first axis by one that is updated along the others."""
    if not positions:
        return update
    (axis, start, size), *others = positions
    axes = w.integers([axis], "axes")
    end = w.node("Add", [start, w.integers([size])], "end")
    bounds = (
        (w.integers([0]), start),
        (start, end),
        (end, w.integers([np.iinfo(np.int64).max])),
    )
    before, middle, after = (
        w.node("Slice", [tensor, *pair, axes], f"{tensor}_part") for pair in bounds
    )
    parts = [before, _scatter_node(w, middle, update, others), after]
    return w.node("Concat", parts, f"{tensor}_scatter_node", axis=axis)


# Sorting


def _top_k(w: GraphWriter, op: chlo.TopKOp) -> None:
    operand, result = op.operand, op.values
    attributes: dict[str, int] = {}
    if (smallest := _smallest(op)) is not None:
        operand, result = smallest
        w.written.add(cast(Operation, result.owner))
        attributes["largest"] = 0
    count = w.integers([op.k.value.data], "k")
    names = [w.value_name(result), w.value_name(op.indices)]
    inputs = [w.operand(operand), count]
    values, positions = w.multi_node("TopK", inputs, names, attributes)
    w.result(result, values)
    match [use.operation for use in op.indices.uses]:
        case [stablehlo.ConvertOp() as wide] if element_type_of(wide.result) == i64:
            w.written.add(wide)
            w.result(wide.result, positions)
        case _:
            w.result(op.indices, w.cast(positions, i32))


def _smallest(op: chlo.TopKOp) -> tuple[SSAValue, SSAValue] | None:
    """
    Return the operand and the result of the smallest elements, as the largest of negated
    ones; `None` for others. NaN, the largest element of ONNX, has no negation.
    """
    reverse, uses = op.operand.owner, [*op.values.uses]
    is_reversed = isinstance(reverse, stablehlo.NegateOp | stablehlo.NotOp)
    if not is_reversed or element_type_of(op.operand) == i1 or len(uses) != 1:
        return None
    back = uses[0].operation
    return (reverse.operand, back.results[0]) if type(back) is type(reverse) else None


def _is_descending(op: stablehlo.SortOp) -> bool:
    """Return True for the comparator `GT` of the first input, and False for `LT`."""
    block = op.comparator.block
    match [*block.ops]:
        case [stablehlo.CompareOp() as compare, stablehlo.ReturnOp()] if [
            *compare.operands
        ] == [*block.args[:2]] and (
            direction := compare.comparison_direction.data.value
        ) in ("LT", "GT"):
            return direction == "GT"
        case _:
            raise Unsupported("comparator other than LT or GT of the first operands")


def _sort(w: GraphWriter, op: stablehlo.SortOp) -> None:
    first, *others = op.inputs
    shape = shape_of(first)
    axis = op.dimension.value.data % len(shape)
    names = [w.value_name(result) for result in op.results]
    values, positions = w.multi_node(
        "TopK",
        [w.operand(first), w.integers([shape[axis]], "k")],
        [names[0], "positions"],
        {"axis": axis, "largest": int(_is_descending(op))},
    )
    w.result(op.results[0], values)
    for value, result, name in zip(others, op.results[1:], names[1:], strict=True):
        inputs = [w.operand(value), positions]
        w.result(result, w.node("GatherElements", inputs, name, axis=axis))


INDEXING_WRITERS: Mapping[type[Operation], Writer] = {
    chlo.TopKOp: _top_k,
    stablehlo.DynamicSliceOp: _dynamic_slice,
    stablehlo.DynamicUpdateSliceOp: _dynamic_update_slice,
    stablehlo.GatherOp: _gather,
    stablehlo.ScatterOp: _scatter,
    stablehlo.SortOp: _sort,
}
"""Writers of indexing and sorting, by op."""
