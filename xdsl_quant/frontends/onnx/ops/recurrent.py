"""
Recurrent layers: one product of the whole sequence with the input weights, and a loop over
its elements.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import onnx
from xdsl.dialects.builtin import DYNAMIC_INDEX, i64
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder, Number
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import ComparisonDirection
from xdsl_quant.runtime.arrays import shape_text
from xdsl_quant.transforms.building.builder import Values, element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .loops import (
    SequencePosition,
    element_at,
    loop_over_sequence,
    position_of,
    stacked,
)

Activation: TypeAlias = Callable[[GraphBuilder, SSAValue], SSAValue]


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """Parameters of one direction of a layer; `B` sequences, `H` hidden values."""

    weights: SSAValue
    """Recurrent weights: a row of `H` numbers for each of `H` values of each gate."""

    candidate_bias: SSAValue | None
    """Bias of `H` numbers that a GRU adds before it multiplies by its reset gate."""

    peepholes: Values
    """Weights of the cell state, `H` numbers for each gate that reads it."""

    activations: Sequence[Activation]

    clip: float | None
    """Largest absolute value of the operands of activations."""

    is_coupled: bool
    """True if an LSTM keeps the part of its state that is not replaced by new values."""

    is_reset_last: bool
    """True if a GRU multiplies by its reset gate after the recurrent product."""

    def activate(self, b: GraphBuilder, index: int, value: SSAValue) -> SSAValue:
        """Clip a value and apply an activation."""
        if self.clip is not None:
            value = b.clamp(value, -self.clip, self.clip)
        return self.activations[index](b, value)


_Cell: TypeAlias = Callable[[GraphBuilder, _Layer, SSAValue, Values], Values]
"""
Function that builds the new states of a cell from the products of an element of the
sequence with the input weights, `B` x gates * `H`, and the states, `B` x `H`.
"""


@dataclass(frozen=True)
class _CellKind:
    """Kind of a layer."""

    build: _Cell
    gate_count: int
    state_count: int
    activations: Sequence[str]
    """Default activations."""


# Cells


def _add(b: GraphBuilder, x: Number, y: Number) -> SSAValue:
    return b.compute(stablehlo.AddOp, x, y)


def _multiply(b: GraphBuilder, x: Number, y: Number) -> SSAValue:
    return b.compute(stablehlo.MultiplyOp, x, y)


def _one_minus(b: GraphBuilder, x: SSAValue) -> SSAValue:
    return b.compute(stablehlo.SubtractOp, 1, x)


def _product(b: GraphBuilder, x: SSAValue, weights: SSAValue) -> SSAValue:
    """Multiply the last dimension of `x` by each row of the weights."""
    numbers = stablehlo.DotDimensionNumbersAttr([], [], [len(shape_of(x)) - 1], [1])
    return b.add(stablehlo.DotGeneralOp(x, weights, dot_dimension_numbers=numbers))


def _columns(b: GraphBuilder, value: SSAValue, start: int, end: int) -> SSAValue:
    return b.slice(value, [0, start], [shape_of(value)[0], end])


def _parts(b: GraphBuilder, value: SSAValue, count: int) -> Values:
    """Split columns into parts of equal size."""
    size = shape_of(value)[1] // count
    return [_columns(b, value, i * size, (i + 1) * size) for i in range(count)]


def _rnn_cell(
    b: GraphBuilder, layer: _Layer, gates: SSAValue, states: Values
) -> Values:
    (hidden,) = states
    total = _add(b, gates, _product(b, hidden, layer.weights))
    return [layer.activate(b, 0, total)]


def _lstm_cell(
    b: GraphBuilder, layer: _Layer, gates: SSAValue, states: Values
) -> Values:
    hidden, cell = states
    gates = _add(b, gates, _product(b, hidden, layer.weights))
    enter, leave, keep, candidate = _parts(b, gates, 4)
    if layer.peepholes:
        enter = _add(b, enter, _multiply(b, layer.peepholes[0], cell))
        keep = _add(b, keep, _multiply(b, layer.peepholes[2], cell))
    enter = layer.activate(b, 0, enter)
    keep = _one_minus(b, enter) if layer.is_coupled else layer.activate(b, 0, keep)
    entering = _multiply(b, enter, layer.activate(b, 1, candidate))
    cell = _add(b, _multiply(b, keep, cell), entering)
    if layer.peepholes:
        leave = _add(b, leave, _multiply(b, layer.peepholes[1], cell))
    leave = layer.activate(b, 0, leave)
    return [_multiply(b, leave, layer.activations[2](b, cell)), cell]


def _gru_cell(
    b: GraphBuilder, layer: _Layer, gates: SSAValue, states: Values
) -> Values:
    (hidden,) = states
    size = shape_of(hidden)[1]
    rows = b.slice(layer.weights, [0, 0], [2 * size, size])
    candidate_rows = b.slice(layer.weights, [2 * size, 0], [3 * size, size])
    both = _add(b, _columns(b, gates, 0, 2 * size), _product(b, hidden, rows))
    update, reset = _parts(b, layer.activate(b, 0, both), 2)
    if layer.is_reset_last:
        recurrent = _product(b, hidden, candidate_rows)
        if layer.candidate_bias is not None:
            recurrent = _add(b, recurrent, layer.candidate_bias)
        recurrent = _multiply(b, reset, recurrent)
    else:
        recurrent = _product(b, _multiply(b, reset, hidden), candidate_rows)
    candidate = _add(b, _columns(b, gates, 2 * size, 3 * size), recurrent)
    candidate = layer.activate(b, 1, candidate)
    kept = _multiply(b, update, hidden)
    return [_add(b, kept, _multiply(b, _one_minus(b, update), candidate))]


# Activations


def _affine(
    b: GraphBuilder, x: SSAValue, alpha: float = 1, beta: float = 0
) -> SSAValue:
    return _add(b, _multiply(b, x, alpha), beta)


def _scaled_tanh(
    b: GraphBuilder, x: SSAValue, alpha: float = 1, beta: float = 1
) -> SSAValue:
    return _multiply(b, b.add(stablehlo.TanhOp(_multiply(b, x, beta))), alpha)


_ATTRIBUTES: Mapping[str, Sequence[str]] = {
    "Affine": ("alpha", "beta"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "ScaledTanh": ("alpha", "beta"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
"""Attributes of the activations; all but two are ops of ONNX."""

_OTHER_ACTIVATIONS = {"Affine": _affine, "ScaledTanh": _scaled_tanh}


def _activations(
    node: Node, defaults: Sequence[str], direction_count: int
) -> Sequence[Sequence[Activation]]:
    """Return the activations of each direction of a node."""
    count = len(defaults)
    names = node.texts("activations") or [*defaults] * direction_count
    if len(names) != count * direction_count:
        raise Unsupported(
            f"has {len(names)} activations; expected {count * direction_count}"
        )
    # Attributes of all activations are listed in order.
    numbers = {
        name: iter(node.numbers(f"activation_{name}")) for name in ("alpha", "beta")
    }
    activations = [_named_activation(node, name, numbers) for name in names]
    return [activations[i : i + count] for i in range(0, len(names), count)]


def _named_activation(
    node: Node, name: str, numbers: Mapping[str, Iterator[float]]
) -> Activation:
    """Return an activation; take the values of its attributes from `numbers`."""
    if name not in _ATTRIBUTES:
        known = ", ".join(_ATTRIBUTES)
        raise Unsupported(
            f"has the unknown activation '{name}'; expected one of {known}"
        )
    values = {
        key: value
        for key in _ATTRIBUTES[name]
        if (value := next(numbers[key], None)) is not None
    }
    if (build := _OTHER_ACTIVATIONS.get(name)) is not None:
        return lambda b, x: build(b, x, **values)
    attributes = [onnx.helper.make_attribute(key, n) for key, n in values.items()]
    proto = onnx.NodeProto(
        op_type=name, input=["x"], output=["y"], attribute=attributes
    )
    return partial(_converted_activation, Node(proto, node.version))


def _converted_activation(node: Node, b: GraphBuilder, x: SSAValue) -> SSAValue:
    result = b.conversions[node.op_type](b, node, x)
    assert isinstance(result, SSAValue)
    return result


# Layers


@dataclass(frozen=True)
class _LayerOperands:
    """Operands of a node; all but the first two have an element for each direction."""

    x: SSAValue
    """Sequences, T x B x values."""

    lengths: SSAValue | None
    """Length of each sequence; `None` if all have T elements."""

    weights: SSAValue
    recurrent_weights: SSAValue

    bias: SSAValue | None
    """Biases of the gates for the values, then for the hidden values."""

    initial: Sequence[SSAValue | None]
    """Initial states, zeros by default."""

    peepholes: SSAValue | None


def _layer_operands(
    kind: _CellKind,
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    weights: SSAValue,
    recurrent_weights: SSAValue,
    bias: SSAValue | None = None,
    lengths: SSAValue | None = None,
    *others: SSAValue | None,
) -> _LayerOperands:
    if (rank := len(shape_of(x))) != 3:
        raise Unsupported(f"has an input of rank {rank}; expected 3")
    x = _swapped(b, x) if node.flag("layout") else x
    if DYNAMIC_INDEX in shape_of(x):
        raise Unsupported(f"has sequences of unknown length or count; {b.sizes_hint}")
    if lengths is not None:
        known = b.known(lengths)
        is_full = known is not None and bool(np.all(known == shape_of(x)[0]))
        lengths = None if is_full else b.convert(lengths, i64)
    padded = [*others, None, None, None]
    initial, peepholes = padded[: kind.state_count], padded[kind.state_count]
    operands = _LayerOperands(
        x, lengths, weights, recurrent_weights, bias, initial, peepholes
    )
    _check_shapes(kind, operands, is_batch_first=node.flag("layout"))
    return operands


def _check_shapes(
    kind: _CellKind, operands: _LayerOperands, *, is_batch_first: bool
) -> None:
    _, batch, inputs = shape_of(operands.x)
    sizes = shape_of(operands.recurrent_weights)
    directions, hidden = (sizes[0], sizes[-1]) if sizes else (1, 1)
    rows = kind.gate_count * hidden
    state = (batch, directions) if is_batch_first else (directions, batch)
    expected: dict[str, tuple[SSAValue | None, tuple[int, ...]]] = {
        "W": (operands.weights, (directions, rows, inputs)),
        "R": (operands.recurrent_weights, (directions, rows, hidden)),
        "B": (operands.bias, (directions, 2 * rows)),
        "sequence_lens": (operands.lengths, (batch,)),
        "P": (operands.peepholes, (directions, 3 * hidden)),
    }
    for name, value in zip(("initial_h", "initial_c"), operands.initial, strict=False):
        expected[name] = value, (*state, hidden)
    for name, (value, shape) in expected.items():
        if value is not None and shape_of(value) != shape:
            raise Unsupported(
                f"operand '{name}' has shape {shape_text(shape_of(value))}; expected "
                f"{shape_text(shape)}"
            )


def _recurrent_layer(
    kind: _CellKind, b: GraphBuilder, node: Node, *values: SSAValue
) -> Sequence[SSAValue | None]:
    """Build the sequence of hidden values, then the last states."""
    operands = _layer_operands(kind, b, node, *values)
    reversals = _reversals(node, shape_of(operands.weights)[0])
    activations = _activations(node, kind.activations, len(reversals))
    last: list[Values] = []
    sequences: list[SSAValue] = []
    for d, is_reversed in enumerate(reversals):
        layer, gates = _directed_layer(b, node, operands, d, activations[d])
        states = _initial_states(b, node, operands, d)
        positions = [SequencePosition(0, is_reversed)] * bool(node.result_names[0])
        step = partial(
            _step, kind.build, layer, gates, operands.lengths, positions, is_reversed
        )
        length = shape_of(gates)[0]
        states, outputs = loop_over_sequence(b, length, states, step, positions)
        last.append(states)
        sequences += outputs
    axis = int(node.flag("layout"))
    sequences = [_swapped(b, y) for y in sequences] if axis else sequences
    states = [stacked(b, parts, axis) for parts in zip(*last, strict=True)]
    return [stacked(b, sequences, axis + 1) if sequences else None, *states]


def _directed_layer(
    b: GraphBuilder,
    node: Node,
    operands: _LayerOperands,
    direction: int,
    activations: Sequence[Activation],
) -> tuple[_Layer, SSAValue]:
    """
    Return the parameters of a direction, and the operands of its gates that do not depend
    on states, T x B x gates * `H`.
    """
    rows = _of_direction(b, operands.recurrent_weights, direction)
    weights = _of_direction(b, operands.weights, direction)
    gates, candidate_bias = _product(b, operands.x, weights), None
    if operands.bias is not None:
        size = shape_of(rows)[1]
        bias, candidate_bias = _gate_bias(b, node, operands.bias, direction, size)
        gates = _add(b, gates, bias)
    layer = _Layer(
        weights=rows,
        candidate_bias=candidate_bias,
        peepholes=()
        if operands.peepholes is None
        else _vectors(b, operands.peepholes, direction, 3),
        activations=activations,
        clip=node.number("clip", 0) if "clip" in node.attributes else None,
        is_coupled=node.flag("input_forget"),
        is_reset_last=node.flag("linear_before_reset"),
    )
    return layer, gates


def _initial_states(
    b: GraphBuilder, node: Node, operands: _LayerOperands, direction: int
) -> Values:
    axis = int(node.flag("layout"))
    shape = shape_of(operands.x)[1], shape_of(operands.recurrent_weights)[2]
    return [
        _zeros(b, operands.x, shape)
        if value is None
        else _of_direction(b, value, direction, axis)
        for value in operands.initial
    ]


def _swapped(b: GraphBuilder, value: SSAValue) -> SSAValue:
    """Swap time and batch."""
    return b.permute(value, [1, 0, 2])


def _reversals(node: Node, count: int) -> Sequence[bool]:
    """Return, for each direction of a node, True if it starts at the end of sequences."""
    known = {
        "forward": [False],
        "reverse": [True],
        "bidirectional": [False, True],
    }
    direction = node.text("direction", "forward")
    if len(reversals := known.get(direction, [])) != count:
        raise Unsupported(
            f"has the direction '{direction}', but weights of {count} directions"
        )
    return reversals


def _of_direction(
    b: GraphBuilder, value: SSAValue, index: int, axis: int = 0
) -> SSAValue:
    """Return an element along an axis, as a constant if the value is one."""
    if (known := b.known(value)) is not None:
        return b.tensor(known.take(index, axis), element_type_of(value))
    return element_at(b, value, b.tensor(np.array(index, np.int64)), axis)


def _zeros(b: GraphBuilder, like: SSAValue, shape: Sequence[int]) -> SSAValue:
    return b.broadcast(b.scalar(0, element_type_of(like)), shape)


def _vectors(b: GraphBuilder, value: SSAValue, direction: int, count: int) -> Values:
    """Return a number of equal parts of the row of a direction."""
    row = _of_direction(b, value, direction)
    size = shape_of(row)[0] // count
    return [b.slice(row, [i * size], [(i + 1) * size]) for i in range(count)]


def _gate_bias(
    b: GraphBuilder, node: Node, bias: SSAValue, direction: int, size: int
) -> tuple[SSAValue, SSAValue | None]:
    """
    Return the bias of the gates, and the bias that a GRU adds before it multiplies by its
    reset gate.
    """
    inputs, recurrent = _vectors(b, bias, direction, 2)
    if not node.flag("linear_before_reset"):
        return _add(b, inputs, recurrent), None
    gates = b.slice(recurrent, [0], [2 * size])
    candidate = b.slice(recurrent, [2 * size], [3 * size])
    recurrent = b.concatenate([gates, _zeros(b, bias, (size,))], 0)
    return _add(b, inputs, recurrent), candidate


def _step(
    cell: _Cell,
    layer: _Layer,
    gates: SSAValue,
    lengths: SSAValue | None,
    positions: Sequence[SequencePosition],
    is_reversed: bool,
    b: GraphBuilder,
    index: SSAValue,
    states: Values,
) -> tuple[Values, Values]:
    """Build an iteration; states after the end of a sequence keep their values."""
    place = position_of(b, index, shape_of(gates)[0], SequencePosition(0, is_reversed))
    results = cell(b, layer, element_at(b, gates, place, 0), states)
    output = results[0]
    if lengths is not None:
        is_inside = b.compare(ComparisonDirection.LT, place, lengths)
        is_inside = b.broadcast(is_inside, shape_of(output), [0])
        results = [
            b.select(is_inside, new, old)
            for new, old in zip(results, states, strict=True)
        ]
        output = b.select(is_inside, output, 0)
    return results, [output] * len(positions)


_GRU = _CellKind(_gru_cell, 3, 1, ("Sigmoid", "Tanh"))
_LSTM = _CellKind(_lstm_cell, 4, 2, ("Sigmoid", "Tanh", "Tanh"))
_RNN = _CellKind(_rnn_cell, 1, 1, ("Tanh",))

RECURRENT: Mapping[str, Conversion] = {
    "GRU": partial(_recurrent_layer, _GRU),
    "LSTM": partial(
        _recurrent_layer, _CellKind(_lstm_cell, 4, 2, ("Sigmoid", "Tanh", "Tanh"))
    ),
    "RNN": partial(_recurrent_layer, _RNN),
}
"""Conversions of recurrent layers, by op."""
