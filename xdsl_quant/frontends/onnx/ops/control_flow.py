"""Control flow: conditionals and loops with graphs as attributes."""

from collections.abc import Mapping, Sequence
from math import prod

import onnx
from xdsl.dialects.builtin import DYNAMIC_INDEX, i1
from xdsl.ir import Attribute, Block, Region, SSAValue

from xdsl_quant.frontends.onnx.files.model_files import ONNXFileError
from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.runtime.arrays import shape_text
from xdsl_quant.transforms.building.builder import Values, element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .loops import (
    SequencePosition,
    element_at,
    loop_over_sequence,
    position_of,
    while_loop,
)

# Conditionals


def _checked_condition(b: GraphBuilder, value: SSAValue) -> SSAValue:
    """Return a condition as a tensor of rank 0."""
    shape, type_ = shape_of(value), element_type_of(value)
    if type_ != i1 or prod(shape) != 1:
        raise Unsupported(
            f"has a condition of shape {shape_text(shape) or '()'} and type '{type_}'; "
            "expected one boolean"
        )
    return b.reshape_to(value, ())


def _if(b: GraphBuilder, node: Node, condition: SSAValue) -> Sequence[SSAValue]:
    branches = node.graph("then_branch"), node.graph("else_branch")
    scalar = _checked_condition(b, condition)
    if (known := b.known(condition)) is not None:
        branch = branches[0] if known.all() else branches[1]
        return b.graph(branch, b.insertion_point.block)
    regions: list[Region] = []
    types: list[Sequence[Attribute]] = []
    for branch in branches:
        block = Block()
        results = _data_branch(b, branch, block)
        block.add_op(stablehlo.ReturnOp(*results))
        regions.append(Region(block))
        types.append([result.type for result in results])
    if types[0] != types[1]:
        texts = (", ".join(map(str, each)) for each in types)
        raise Unsupported(
            "has branches that return ({}) and ({}); expected equal types".format(
                *texts
            )
        )
    op = stablehlo.IfOp(scalar, result_types=[types[0]], regions=regions)
    b.add(op)
    return op.results


_BRANCH_NOTE = "in a branch whose condition depends on data"


def _data_branch(b: GraphBuilder, graph: onnx.GraphProto, block: Block) -> Values:
    """Convert a branch; say in messages that it may be another one that is taken."""
    try:
        return b.graph(graph, block)
    except ONNXFileError as e:
        if _BRANCH_NOTE in str(e):
            raise
        raise ONNXFileError(f"{e} ({_BRANCH_NOTE})") from None


# Loops


def _limited_loop(
    b: GraphBuilder,
    node: Node,
    limit: SSAValue | None = None,
    condition: SSAValue | None = None,
    *states: SSAValue,
) -> Sequence[SSAValue]:
    graph = node.graph("body")
    limit = None if limit is None else b.reshape_to(limit, ())
    first = b.scalar(1, i1) if condition is None else _checked_condition(b, condition)

    def step(
        inner: GraphBuilder, index: SSAValue, states: Values
    ) -> tuple[Values, Values]:
        condition, *others = states
        results = _loop_body(inner, graph, [index, condition, *others])
        count = len(states)
        is_continued = _checked_condition(inner, results[0])
        return [is_continued, *results[1:count]], results[count:]

    output_count = _check_body(graph, len(states) + 2, len(states) + 1)
    positions = [SequencePosition()] * output_count
    initial = [first, *states]
    (_, *last), outputs = while_loop(
        b, limit, initial, step, positions, is_conditional=True
    )
    return [*last, *outputs]


def _check_body(graph: onnx.GraphProto, input_count: int, state_count: int) -> int:
    """
    Check the numbers of inputs and results of a body, and return the number of results
    after the first `state_count`.
    """
    if len(graph.input) != input_count:
        raise Unsupported(
            f"has a body with {len(graph.input)} inputs; expected {input_count}"
        )
    if len(graph.output) < state_count:
        raise Unsupported(
            f"has a body with {len(graph.output)} results; expected at least {state_count}"
        )
    return len(graph.output) - state_count


def _loop_body(b: GraphBuilder, graph: onnx.GraphProto, arguments: Values) -> Values:
    """Convert the graph of a loop at the insertion point."""
    return b.graph(graph, b.insertion_point.block, arguments)


def _scan(b: GraphBuilder, node: Node, *operands: SSAValue) -> Sequence[SSAValue]:
    graph = node.graph("body")
    input_count = node.integer("num_scan_inputs", 0)
    state_count = len(operands) - input_count
    states, sequences = operands[:state_count], operands[state_count:]
    if not 0 < input_count <= len(operands):
        raise Unsupported(
            f"attribute 'num_scan_inputs' is {input_count}; expected 1 to {len(operands)}"
        )
    output_count = _check_body(graph, len(operands), state_count)
    inputs = _sequence_positions(node, "scan_input", input_count)
    outputs = _sequence_positions(node, "scan_output", output_count)
    pairs = [
        (sequence, position._replace(axis=axis))
        for sequence, position in zip(sequences, inputs, strict=True)
        for axis in b.axes([position.axis], len(shape_of(sequence)))
    ]
    lengths = {shape_of(sequence)[position.axis] for sequence, position in pairs}
    if len(lengths) != 1 or DYNAMIC_INDEX in lengths:
        raise Unsupported(
            f"has sequences of lengths {', '.join(map(str, sorted(lengths)))}; expected "
            "one known length"
        )
    (count,) = lengths

    def step(
        inner: GraphBuilder, index: SSAValue, states: Values
    ) -> tuple[Values, Values]:
        elements = [
            element_at(
                inner,
                sequence,
                position_of(inner, index, count, position),
                position.axis,
            )
            for sequence, position in pairs
        ]
        results = _loop_body(inner, graph, [*states, *elements])
        return results[:state_count], results[state_count:]

    last, stacked = loop_over_sequence(b, count, states, step, outputs)
    return [*last, *stacked]


def _sequence_positions(
    node: Node, name: str, count: int
) -> Sequence[SequencePosition]:
    """Return the positions of inputs or outputs from the attributes of a `Scan`."""
    axes = node.integers(f"{name}_axes") or [0] * count
    directions = node.integers(f"{name}_directions") or [0] * count
    if len(axes) != count or len(directions) != count:
        raise Unsupported(f"attributes of '{name}' must have {count} values")
    return [
        SequencePosition(axis, bool(direction))
        for axis, direction in zip(axes, directions, strict=True)
    ]


CONTROL_FLOW: Mapping[str, Conversion] = {
    "If": _if,
    "Loop": _limited_loop,
    "Scan": _scan,
}
"""Conversions of control flow, by op."""
