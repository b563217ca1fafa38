"""Implementations of recurrent ops, which return their result and their next states."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute, Operation

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.attributes import LSTMKernel, LSTMKernelAttr
from xdsl_quant.frontends.tflite.dialect.base import is_true
from xdsl_quant.frontends.tflite.dialect.recurrent import LSTMCellOp
from xdsl_quant.frontends.tflite.formulas import floats, hybrid, products, recurrent
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized, scale_of
from xdsl_quant.frontends.tflite.formulas.recurrent import (
    Gate,
    GateParameters,
    IntegerParameters,
    LSTMLayer,
    NarrowParameters,
    Products,
    Step,
)
from xdsl_quant.numerics import QuantizationParameters as Parameters
from xdsl_quant.unsupported import Unsupported

from .computation import (
    Array,
    Function,
    activation_of,
    has_one_scale,
    have_one_scale,
    parameters_of,
)


def _per_tensor(type_: Attribute) -> Parameters:
    """
    Return the quantization parameters of a type.

    Raises:
        Unsupported: unless the type is quantized per tensor.
    """
    parameters = parameters_of(type_)
    if parameters is None or not has_one_scale(parameters):
        raise Unsupported(f"has type '{type_}', which is not quantized per tensor")
    return parameters


def _quantized(value: Array, type_: Attribute) -> Quantized:
    return Quantized(value.astype(np.int64), _per_tensor(type_))


def _dequantized(value: Array | None, type_: Attribute) -> Array | None:
    """Return weights as floats: products of stored values and a scale, in `f32`."""
    if value is None or parameters_of(type_) is None:
        return value
    weights = _quantized(value, type_)
    return weights.corrected.astype(np.float32) * weights.scale


def _check_hybrid(*weights: Quantized) -> None:
    """
    Check weights of a product with float activations.

    Raises:
        Unsupported: unless they are `i8` without zero points.
    """
    for parameters in (each.parameters for each in weights):
        if parameters.storage != "i8" or parameters.has_zero_points:
            raise Unsupported(
                f"has weights of storage '{parameters.storage}' and zero point "
                f"{parameters.zero_points} with float activations; expected 'i8' and 0"
            )


# Low-rank filters


def svdf(
    op: tfl.SVDFOp,
    x: Array,
    features: Array,
    time: Array,
    bias: Array | None,
    state: Array,
) -> tuple[Array, Array]:
    """
    Return the result of `tfl.svdf`, and its next state.

    Raises:
        Unsupported: if no kernel supports the types of the op.
    """
    rank = op.rank.value.data
    if parameters_of(op.input.type) is not None:
        result = _per_tensor(op.output.type)
        operands = zip((x, features, time, state), _filter_types(op), strict=True)
        signal, by_feature, by_time, memory = (_quantized(*pair) for pair in operands)
        return products.svdf(signal, by_feature, by_time, bias, memory, result, rank)
    if parameters_of(op.activation_state.type) is not None:
        raise Unsupported("has a quantized state, but an input that is not quantized")
    if parameters_of(op.feature_weights.type) is None:
        column = x @ features.T
    else:
        weights = _quantized(features, op.feature_weights.type)
        _check_hybrid(weights)
        rows = hybrid.quantized_rows(x, is_true(op.asymmetric_quantize_inputs))
        column = hybrid.rows_by_weights(rows, weights)
    by_time = _dequantized(time, op.time_weights.type)
    sums, next_state = floats.filtered(column, cast(Array, by_time), state, rank)
    sums = sums if bias is None else sums + bias
    return floats.apply_activation(sums, activation_of(op)), next_state


def _filter_types(op: tfl.SVDFOp) -> Sequence[Attribute]:
    values = op.input, op.feature_weights, op.time_weights, op.activation_state
    return [value.type for value in values]


# LSTM

_FULL = LSTMKernelAttr(LSTMKernel.FULL)


def lstm(op: LSTMCellOp, *operands: Array | None) -> tuple[Array, Array, Array]:
    """
    Return the outputs of all steps of a sequence, and the output and cell state of the last
    one. `tfl.lstm` has a single step, whose inputs are `[batch, inputs]`.

    Raises:
        Unsupported: if no kernel supports the types of the op.
    """
    x, weights = operands[0], cast("Sequence[Any]", operands)
    outputs, cells = weights[18], weights[19]
    assert x is not None
    if any(weights[i] is not None and weights[i].ndim == 1 for i in range(5, 9)):
        raise Unsupported("has diagonal recurrent weights")
    if isinstance(op, tfl.LSTMOp) and op.kernel_type not in (None, _FULL):
        raise Unsupported("has kernel type BASIC; expected FULL")
    if parameters_of(op.input.type) is None:
        step = _float_step(op, weights)
    else:
        step = _integer_step(op, weights)
    is_sequence = isinstance(op, tfl.UnidirectionalSequenceLSTMOp)
    is_time_major = is_sequence and is_true(op.time_major)
    batch = x.shape[1 if is_time_major else 0]
    states = outputs.reshape(batch, -1), cells.reshape(batch, -1)
    if is_sequence:
        values, *states = recurrent.sequence(x, *states, step, is_time_major)
        first, second = states
    else:
        if x.ndim != 2:
            raise Unsupported(f"has inputs of rank {x.ndim}; expected 2")
        first, second = step(x, *states)
        values = first
    return values, first.reshape(outputs.shape), second.reshape(cells.shape)


_GATES = (
    (1, 5, 9, 12, 20),
    (2, 6, 10, 13, 21),
    (3, 7, None, 14, 22),
    (4, 8, 11, 15, 23),
)
"""Operand indices of the weights of each gate, in the order of `Gate`."""


def _layer(op: LSTMCellOp, weights: Sequence[Any]) -> LSTMLayer:
    gates = [
        Gate(*(None if i is None else weights[i] for i in indices))
        for indices in _GATES
    ]
    clips = [0.0 if c is None else c.value.data for c in (op.cell_clip, op.proj_clip)]
    return LSTMLayer(
        None if gates[0].input is None else gates[0],
        gates[1],
        gates[2],
        gates[3],
        weights[16],
        weights[17],
        activation_of(op),
        *clips,
    )


def _float_step(op: LSTMCellOp, weights: Sequence[Any]) -> Step:
    types = op.operand_types
    if any(parameters_of(types[index]) is not None for index in op.STATES):
        raise Unsupported("has quantized states, but an input that is not quantized")
    if parameters_of(op.input_to_output_weights.type) is None:
        return recurrent.float_step(_layer(op, weights), recurrent.FLOATS)
    values = [*weights]
    matrices = [i for i in (*range(1, 9), 16) if values[i] is not None]
    for index in matrices:
        values[index] = _quantized(values[index], types[index])
    _check_hybrid(*(values[index] for index in matrices))
    for index in range(9, 12):
        values[index] = _dequantized(values[index], types[index])
    rows = partial(
        hybrid.quantized_rows, asymmetric=is_true(op.asymmetric_quantize_inputs)
    )
    return recurrent.float_step(
        _layer(op, values), Products(rows, hybrid.rows_by_weights)
    )


_INTEGERS = {
    **dict.fromkeys((0, *range(1, 9), 16, 18), "i8"),
    **dict.fromkeys((*range(9, 12), 19, *range(20, 24)), "i16"),
}
"""Storage type of each operand of the integer kernel, but for biases."""


def _are_alike(parameters: Parameters, other: Parameters) -> bool:
    """Return True if scales differ by at most 1 %, and zero points by at most 1."""
    scale, other_scale = float(parameters.scales), float(other.scales)
    distance = int(parameters.zero_points) - int(other.zero_points)
    return abs(scale - other_scale) <= 0.01 * other_scale and abs(distance) <= 1


def _integer_step(op: LSTMCellOp, weights: Sequence[Any]) -> Step:
    types = op.operand_types
    values = [*weights]
    for index, storage in _INTEGERS.items():
        if values[index] is None:
            continue
        values[index] = _quantized(values[index], types[index])
        parameters = values[index].parameters
        if parameters.storage != storage or (
            index not in (0, 18) and parameters.has_zero_points
        ):
            raise Unsupported(
                f"has an operand #{index} of type '{types[index]}'; expected storage "
                f"'{storage}'" + ("" if index in (0, 18) else " and zero point 0")
            )
    output = _per_tensor(op.output.type)
    if not have_one_scale(values[18].parameters, output):
        raise Unsupported(
            "has outputs whose scale or zero point is not that of the output state"
        )
    if isinstance(op, tfl.LSTMOp) and "input_gate_intermediate" in op.properties:
        return _narrow_step(op, _layer(op, values), output, values[19].parameters)
    has_norm = values[21] is not None
    all_names = op.INTERMEDIATES[0]
    names = all_names if has_norm else all_names[4:]
    if any(name not in op.properties for name in names):
        raise Unsupported(
            "has no intermediate types, which the integer kernel requires"
        )
    hidden = _per_tensor(op.properties[all_names[4]])
    scales = [recurrent.GATE_SCALE] * 4
    if has_norm:
        scales = [scale_of(_per_tensor(op.properties[n])) for n in all_names[:4]]
    if values[16] is None and not _are_alike(hidden, output):
        # Hidden states are the outputs. The kernel ignores the parameters of the outputs.
        hidden = output
    parameters = IntegerParameters(
        values[0].parameters, output, values[19].parameters, hidden, scales
    )
    return recurrent.integer_step(_layer(op, values), parameters)


def _narrow_step(
    op: tfl.LSTMOp, layer: LSTMLayer, output: Parameters, cell: Parameters
) -> Step:
    names = op.PRODUCT_INTERMEDIATES
    if any(name not in op.properties for name in names):
        raise Unsupported(
            f"has types of some intermediate tensors; expected all of {len(names)}"
        )
    unsupported = {
        "an input gate of its own": layer.input is not None,
        "peephole weights": layer.output.peephole is not None,
        "no layer normalization": layer.forget.norm is None,
        "no projection": layer.projection is None,
        "no projection bias": layer.projection_bias is None,
    }
    if found := [what for what, is_found in unsupported.items() if is_found]:
        raise Unsupported(
            f"has {found[0]}, which the kernel for 12 intermediate tensors does not support"
        )
    if scale_of(cell) != np.float32(2**-15):
        raise Unsupported(f"has cell states of scale {scale_of(cell)}; expected 2**-15")
    types = [_per_tensor(op.properties[name]) for name in names[3:]]
    gates = [GateParameters(*types[i : i + 3]) for i in range(0, len(types), 3)]
    x = _per_tensor(op.input.type)
    return recurrent.narrow_step(layer, NarrowParameters(x, output, cell, gates))


RECURRENT: Mapping[type[Operation], Function] = {
    tfl.SVDFOp: svdf,
    tfl.LSTMOp: lstm,
    tfl.UnidirectionalSequenceLSTMOp: lstm,
}
"""Implementations of ops with states; they return the next states as further results."""
