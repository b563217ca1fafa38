"""Lowering of `scatter` to loops over the updates, in which slices are updated in place."""

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import ScatterOp
from xdsl_quant.transforms.building.builder import (
    INDEX,
    LoweringBuilder,
    Size,
    element_type_of,
    shape_of,
)

from .elementwise import convert_scalar
from .lowering import LinalgLowering, Values
from .reduction import inline_block
from .sizes import as_index, assert_size


class LowerScatter(LinalgLowering[ScatterOp]):
    """Lower `stablehlo.scatter`; see the module."""

    def lower(self, builder: LoweringBuilder, op: ScatterOp, args: Values) -> Values:
        count = len(op.inputs)
        inputs, indices, updates = args[:count], args[count], args[count + 1 :]
        bounds, sizes = builder.sizes(inputs[0]), builder.sizes(updates[0])
        _assert_batch_sizes(builder, op, builder.sizes(indices), sizes)

        def update(
            builder: LoweringBuilder, position: Values, results: Values
        ) -> Values:
            place = _place(builder, op, indices, position)
            is_inside = is_in_bounds(builder, place, bounds)
            return _updated(builder, op, is_inside, place, position, results, updates)

        return nested_loops(builder, sizes, inputs, update)


def _assert_batch_sizes(
    builder: LoweringBuilder,
    op: ScatterOp,
    index_sizes: Sequence[Size],
    update_sizes: Sequence[Size],
) -> None:
    """Assert that there is an index vector for each slice of the updates."""
    numbers = op.scatter_dimension_numbers
    windows, vector = numbers.numbers()[0], numbers.index_vector_dim.data
    batches = [size for d, size in enumerate(index_sizes) if d != vector]
    scattered = [size for d, size in enumerate(update_sizes) if d not in windows]
    for size, bound in zip(scattered, batches, strict=True):
        if not (isinstance(size, int) and isinstance(bound, int)):
            problem = "has another number of updates than of indices"
            assert_size(builder, op, "eq", size, bound, problem)


_LoopBody = Callable[[LoweringBuilder, Values, Values], Values]
"""Builder of the next loop-carried values, from loop indices and the current values."""


def nested_loops(
    builder: LoweringBuilder,
    sizes: Sequence[Size],
    carried: Values,
    body: _LoopBody,
    indices: Values = (),
) -> Values:
    """Build `scf.for` loops from 0 to each size, and return the loop-carried values."""
    if not sizes:
        return body(builder, indices, carried)
    block = Block(arg_types=(INDEX, *(value.type for value in carried)))
    inner = LoweringBuilder(InsertPoint.at_end(block), location=builder.location)
    index, *current = block.args
    results = nested_loops(inner, sizes[1:], current, body, (*indices, index))
    inner.insert(scf.YieldOp(*results))
    start, end, step = (builder.size_value(number) for number in (0, sizes[0], 1))
    loop = scf.ForOp(start, end, step, carried, block)
    builder.insert(loop)
    return loop.results


def if_else(
    builder: LoweringBuilder, condition: SSAValue, blocks: tuple[Block, Block]
) -> Values:
    """Build `scf.if` from blocks that end with values of the same types."""
    last_op = blocks[0].last_op
    assert last_op is not None
    types = last_op.operand_types
    conditional = scf.IfOp(condition, types, Region(blocks[0]), Region(blocks[1]))
    builder.insert(conditional)
    return conditional.results


def _place(
    builder: LoweringBuilder, op: ScatterOp, indices: SSAValue, position: Values
) -> Sequence[SSAValue]:
    """Return the index in the inputs that corresponds to a position in the updates."""
    numbers = op.scatter_dimension_numbers
    windows, _, batching, indices_batching, index_map = numbers.numbers()
    vector, rank = numbers.index_vector_dim.data, len(shape_of(indices))
    batch = [value for d, value in enumerate(position) if d not in windows]
    zero = builder.index(0)
    place = [zero] * len(shape_of(op.inputs[0]))
    for own, other in zip(windows, op.window_dimensions, strict=True):
        place[other] = position[own]
    for dimension, own in zip(batching, indices_batching, strict=True):
        place[dimension] = batch[own - (own > vector)]
    type_ = scalar_or_element_type(op.scatter_indices.type)
    for component, dimension in enumerate(index_map):
        at = [*batch[:vector], builder.index(component), *batch[vector:]][:rank]
        start = builder.op(tensor.ExtractOp, (indices, *at), element_type_of(indices))
        start = as_index(builder, start, type_)
        place[dimension] = builder.add(arith.AddiOp(start, place[dimension]))
    return place


def is_in_bounds(
    builder: LoweringBuilder, place: Sequence[SSAValue], sizes: Sequence[Size]
) -> SSAValue:
    """Return whether each index is in bounds; negative ones are large if unsigned."""
    inside = builder.number(1, i1)
    for index, size in zip(place, sizes, strict=True):
        is_less = builder.add(arith.CmpiOp(index, builder.size_value(size), "ult"))
        inside = builder.add(arith.AndIOp(inside, is_less))
    return inside


def _updated(
    builder: LoweringBuilder,
    op: ScatterOp,
    is_inside: SSAValue,
    place: Sequence[SSAValue],
    position: Values,
    results: Values,
    updates: Values,
) -> Values:
    """Build a conditional that combines an element of each result with an update."""
    block = Block()
    inner = LoweringBuilder(InsertPoint.at_end(block), location=builder.location)
    elements = [
        inner.op(tensor.ExtractOp, (value, *at), element_type_of(value))
        for values, at in ((results, place), (updates, position))
        for value in values
    ]
    sources = (*op.inputs, *op.updates)
    arguments = op.update_computation.block.args
    scalars = [
        convert_scalar(inner, element, element_type_of(source), element_type_of(target))
        for element, source, target in zip(elements, sources, arguments, strict=True)
    ]
    combined = inline_block(inner, op.update_computation.block, scalars)
    inserted = [
        inner.add(tensor.InsertOp(element, value, place))
        for element, value in zip(combined, results, strict=True)
    ]
    inner.insert(scf.YieldOp(*inserted))
    return if_else(builder, is_inside, (block, Block([scf.YieldOp(*results)])))
