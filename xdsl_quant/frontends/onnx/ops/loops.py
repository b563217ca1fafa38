"""Loops over the elements of sequences, and loops with conditions: `stablehlo.while`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_quant.frontends.onnx.graph_builder import GraphBuilder
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import ComparisonDirection
from xdsl_quant.transforms.building.builder import Values, element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported


class SequencePosition(NamedTuple):
    """Position in a sequence of the element of each iteration."""

    axis: int = 0
    is_reversed: bool = False


Step = Callable[[GraphBuilder, SSAValue, Values], tuple[Values, Values]]
"""
Function that builds an iteration from a builder, the index of the iteration, an `i64`
scalar, and the states. It returns new states, and an element of each output.
"""


# Elements of sequences


def element_at(
    b: GraphBuilder, sequence: SSAValue, index: SSAValue, axis: int
) -> SSAValue:
    """Build the element of a sequence along an axis, which is dropped."""
    shape = [*shape_of(sequence)]
    if (known := b.known(index)) is not None:
        starts, limits = [0] * len(shape), [*shape]
        starts[axis], limits[axis] = int(known), int(known) + 1
        element = b.slice(sequence, starts, limits)
    else:
        sizes = [*shape]
        sizes[axis] = 1
        indices = _indices(b, index, axis, len(shape))
        element = b.add(stablehlo.DynamicSliceOp(sequence, indices, slice_sizes=sizes))
    del shape[axis]
    return b.reshape_to(element, shape)


def _indices(
    b: GraphBuilder, index: SSAValue, axis: int, rank: int
) -> Sequence[SSAValue]:
    zero = b.scalar(0, element_type_of(index))
    return [index if d == axis else zero for d in range(rank)]


def _with_sequence_element(
    b: GraphBuilder, sequence: SSAValue, index: SSAValue, axis: int, element: SSAValue
) -> SSAValue:
    """Build a sequence in which an element along an axis is replaced."""
    shape = [*shape_of(element)]
    shape.insert(axis, 1)
    update = b.reshape_to(element, shape)
    indices = _indices(b, index, axis, len(shape))
    return b.add(stablehlo.DynamicUpdateSliceOp(sequence, update, indices))


def position_of(
    b: GraphBuilder, index: SSAValue, count: int, position: SequencePosition
) -> SSAValue:
    """Build the index of the element of an iteration in a sequence of `count` elements."""
    if not position.is_reversed:
        return index
    last = count - 1
    if (known := b.known(index)) is not None:
        return b.tensor(np.array(last - int(known), np.int64))
    return b.add(stablehlo.SubtractOp(b.tensor(np.array(last, np.int64)), index))


def stacked(b: GraphBuilder, elements: Values, axis: int) -> SSAValue:
    """Build the sequence of elements of one type along a new axis."""
    shape, axis = [*shape_of(elements[0])], _sequence_axis(elements[0], axis)
    shape.insert(axis, 1)
    parts = [b.reshape_to(element, shape) for element in elements]
    return parts[0] if len(parts) == 1 else b.concatenate(parts, axis)


def _sequence_axis(element: SSAValue, axis: int) -> int:
    """Return an axis of a sequence of elements, counted from the first dimension."""
    return axis % (len(shape_of(element)) + 1)


# Loops


def loop_over_sequence(
    b: GraphBuilder,
    count: int,
    states: Values,
    step: Step,
    positions: Sequence[SequencePosition],
) -> tuple[Values, Values]:
    """
    Build a loop of `count` iterations.

    Args:
        b: insertion point.
        count: number of iterations.
        states: initial values of the states.
        step: builder of an iteration.
        positions: positions of the elements of each output.

    Returns:
        The last states, and the outputs: sequences of the elements of all iterations.
    """
    if count != 1:
        # Unrolled iterations are not faster, and each costs half a second of compile time.
        limit = b.tensor(np.array(count, np.int64))
        return while_loop(b, limit, states, step, positions)
    states, outputs = step(b, b.tensor(np.array(0, np.int64)), states)
    pairs = zip(outputs, positions, strict=True)
    return states, [stacked(b, [output], position.axis) for output, position in pairs]


def while_loop(
    b: GraphBuilder,
    limit: SSAValue | None,
    states: Values,
    step: Step,
    positions: Sequence[SequencePosition] = (),
    *,
    is_conditional: bool = False,
) -> tuple[Values, Values]:
    """
    Build a `stablehlo.while`.

    Args:
        b: insertion point.
        limit: number of iterations; `None` if it is not limited.
        states: initial values of the states.
        step: builder of an iteration.
        positions: positions of the elements of each output.
        is_conditional: iterate only as long as the first state, a scalar, is true.

    Returns:
        The last states, and the outputs.
    """
    index = b.tensor(np.array(0, np.int64))
    block = Block(arg_types=[index.type, *(state.type for state in states)])
    body = b.nested(InsertPoint.at_end(block))
    i, *arguments = block.args
    results, outputs = step(body, i, arguments)
    _check_state_types(states, results)
    if is_conditional and b.known(states[0]) is not None and b.known(states[0]):
        # The condition may be carried, but never change.
        is_conditional = results[0] is not arguments[0] and not b.known(results[0])
    known = None if limit is None or is_conditional else b.known(limit)
    count = 0 if known is None else int(known)
    if positions and count <= 0:
        raise Unsupported(f"has outputs of unknown or zero length; {b.sizes_hint}")
    initial: list[SSAValue] = [index, *states]
    following: list[SSAValue] = [_plus_one(body, i), *results]
    for output, position in zip(outputs, positions, strict=True):
        axis = _sequence_axis(output, position.axis)
        sequence = _empty_sequence(b, count, output, axis)
        argument = block.insert_arg(sequence.type, len(block.args))
        place = position_of(body, i, count, position)
        initial.append(sequence)
        following.append(_with_sequence_element(body, argument, place, axis, output))
    block.add_op(stablehlo.ReturnOp(*following))
    types = [value.type for value in initial]
    condition = _condition_block(b, types, limit, is_conditional=is_conditional)
    loop = stablehlo.WhileOp(
        initial, result_types=[types], regions=[Region(condition), Region(block)]
    )
    b.add(loop)
    end = len(states) + 1
    return loop.results[1:end], loop.results[end:]


def _plus_one(b: GraphBuilder, index: SSAValue) -> SSAValue:
    return b.add(stablehlo.AddOp(index, b.tensor(np.array(1, np.int64))))


def _empty_sequence(
    b: GraphBuilder, count: int, element: SSAValue, axis: int
) -> SSAValue:
    shape = [*shape_of(element)]
    shape.insert(axis, count)
    return b.broadcast(b.scalar(0, element_type_of(element)), shape)


def _check_state_types(states: Values, results: Values) -> None:
    for state, result in zip(states, results, strict=True):
        if state.type != result.type:
            raise Unsupported(
                f"carries a value whose type changes from '{state.type}' to "
                f"'{result.type}'"
            )


def _condition_block(
    b: GraphBuilder,
    types: Sequence[Attribute],
    limit: SSAValue | None,
    *,
    is_conditional: bool,
) -> Block:
    block = Block(arg_types=types)
    inner = b.nested(InsertPoint.at_end(block))
    conditions: list[SSAValue] = [*block.args[1 : 1 + is_conditional]]
    if limit is not None:
        has_next = inner.compare(ComparisonDirection.LT, block.args[0], limit)
        conditions.append(has_next)
    result = inner.tensor(np.array(True)) if not conditions else conditions[0]
    for other in conditions[1:]:
        result = inner.add(stablehlo.AndOp(result, other))
    block.add_op(stablehlo.ReturnOp(result))
    return block
