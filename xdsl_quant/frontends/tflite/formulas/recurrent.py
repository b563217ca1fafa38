"""
Long short-term memory: one step of a sequence, with floats, with stored weights (hybrid),
and with integers.

Formulas are those of LiteRT's `lstm_eval.cc`. Logistic function and `tanh` of floats have
the accuracy of NumPy's functions; integers are bit-identical to the reference kernels.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.numerics.primitives import (
    Array,
    folded,
    lookup,
    rescaled,
    rounding_divide,
    saturated,
    scanned,
    stored_values,
    wrapped,
)
from xdsl_quant.unsupported import Unsupported

from .fixed_point import (
    Integers,
    Multiplier,
    checked_log2,
    inverse_square_root,
    logistic_of_16_bits,
    quantized_multiplier,
    quotient,
    rescale_wide,
    tanh_of_16_bits,
)
from .floats import apply_activation, logistic
from .quantized import Quantized, round_away, scale_of
from .tables import FUNCTIONS


class Gate(NamedTuple):
    """Weights of a gate: floats, or stored values; `None` for absent ones."""

    input: Any
    """`[cells, inputs]`"""

    recurrent: Any
    """`[cells, outputs]`"""

    peephole: Any
    """`[cells]`, multiplied by the cell state."""

    bias: Any
    """`[cells]`"""

    norm: Any
    """`[cells]`, coefficients of layer normalization."""


class LSTMLayer(NamedTuple):
    """Weights and options of an LSTM."""

    input: Gate | None
    """The input gate; `None` if it is 1 minus the forget gate."""

    forget: Gate
    cell: Gate
    output: Gate
    projection: Any
    """`[outputs, cells]`, or `None`."""

    projection_bias: Any
    """`[outputs]`, or `None`."""

    activation: str
    """Activation of the cell gate and the cell state."""

    cell_clip: float
    """Largest absolute value of the cell state; 0 for any."""

    projection_clip: float
    """Largest absolute value of projected outputs; 0 for any."""


Step = Callable[[Array, Array, Array], tuple[Array, Array]]
"""Function of inputs, outputs and cell states that returns the next outputs and states."""


def sequence(
    x: Array, outputs: Array, cells: Array, step: Step, time_major: bool
) -> tuple[Array, Array, Array]:
    """
    Apply the steps of a sequence.

    Args:
        x: `[steps, batch, inputs]`, or `[batch, steps, inputs]` unless `time_major`.
        outputs: outputs of the step before, `[batch, outputs]`.
        cells: cell states, `[batch, cells]`.
        step: formula of a step.
        time_major: order of the dimensions of `x` and of the result.

    Returns:
        The outputs of all steps, and the outputs and cell states of the last one.
    """
    steps = x if time_major else x.swapaxes(0, 1)
    results, outputs, cells = scanned(steps, step, outputs, cells)
    return results if time_major else results.swapaxes(0, 1), outputs, cells


# Floats


class Products(NamedTuple):
    """Products of activations and weights."""

    rows: Callable[[Array], Any]
    """Function that prepares activations, e.g. quantizes them."""

    product: Callable[[Any, Any], Array]
    """Function that multiplies prepared activations by the transposed weights."""


def _float_rows(values: Array) -> Array:
    return values


def _float_product(rows: Array, weights: Array) -> Array:
    return rows @ weights.T


FLOATS = Products(_float_rows, _float_product)
"""Products of floats."""


def float_step(layer: LSTMLayer, products: Products) -> Step:
    """Return the step of a layer with float activations."""

    def step(x: Array, outputs: Array, cells: Array) -> tuple[Array, Array]:
        inputs, recurrent = products.rows(x), products.rows(outputs)

        def sums(gate: Gate, cells: Array) -> Array:
            result = products.product(inputs, gate.input)
            if gate.norm is None:
                result = gate.bias + result
            result = result + products.product(recurrent, gate.recurrent)
            if gate.peephole is not None:
                result = result + gate.peephole * cells
            if gate.norm is not None:
                result = _normalized(result) * gate.norm + gate.bias
            return result

        forget = logistic(sums(layer.forget, cells))
        if layer.input is None:
            kept = np.float32(1) - forget
        else:
            kept = logistic(sums(layer.input, cells))
        new = apply_activation(sums(layer.cell, cells), layer.activation)
        cells = _within(forget * cells + new * kept, layer.cell_clip)
        output = logistic(sums(layer.output, cells))
        result = output * apply_activation(cells, layer.activation)
        if layer.projection is None:
            return result, cells
        result = products.product(products.rows(result), layer.projection)
        if layer.projection_bias is not None:
            result = layer.projection_bias + result
        return _within(result, layer.projection_clip), cells

    return step


def _within(values: Array, most: float) -> Array:
    if most <= 0:
        return values
    return np.clip(values, np.float32(-most), np.float32(most))


def _normalized(values: Array) -> Array:
    """Subtract the mean of each row, and divide by the standard deviation."""
    count = np.float32(1 / values.shape[-1])
    difference = values - values.sum(axis=-1, keepdims=True) * count
    variance = (difference * difference).sum(axis=-1, keepdims=True) * count
    return difference / np.sqrt(variance + np.float32(1e-8))


# Integers

_HALF = 1 << 15
GATE_SCALE = np.float32(2**-12)
"""Scale of gates before their activation, without layer normalization."""


@cache
def _logistic_table() -> Integers:
    return logistic_of_16_bits(np.arange(-_HALF, _HALF))


@cache
def _tanh_table(integer_bits: int) -> Integers:
    return tanh_of_16_bits(np.arange(-_HALF, _HALF), integer_bits)


def _logistic(values: Integers) -> Integers:
    return lookup(_logistic_table(), values + _HALF)


def _tanh(values: Integers, integer_bits: int) -> Integers:
    return lookup(_tanh_table(integer_bits), values + _HALF)


class IntegerParameters(NamedTuple):
    """Quantization parameters of an LSTM on stored values."""

    input: QuantizationParameters
    output: QuantizationParameters
    cell: QuantizationParameters
    """16-bit cell states, whose scale is a power of two."""

    hidden: QuantizationParameters
    """Results of the output gate."""

    gates: Sequence[np.float32]
    """
    Scales of the gates (input, forget, cell, output) before layer normalization, or
    `2**-12`.
    """


GateFunction = Callable[[Integers, Integers, Integers], Integers]
"""Function of zero-point-corrected inputs and outputs, and of cell states."""


def _multiplier(scale: Any) -> Multiplier:
    return quantized_multiplier(float(np.float32(scale)))


def _gate_function(
    gate: Gate, scale: np.float32, parameters: IntegerParameters, cell_exponent: int
) -> GateFunction:
    """Return the function that computes 16-bit gates of scale `2**-12`."""
    of_input = _multiplier(gate.input.scale * scale_of(parameters.input) / scale)
    of_outputs = _multiplier(gate.recurrent.scale * scale_of(parameters.output) / scale)
    peephole: Quantized | None = gate.peephole
    of_cells = Multiplier(0, 0)
    if peephole is not None:
        ratio = 2.0**cell_exponent * float(peephole.scale) / float(scale)
        of_cells = _multiplier(ratio)

    def function(x: Integers, outputs: Integers, cells: Integers) -> Integers:
        sums = x @ gate.input.values.T
        if gate.norm is None:
            sums = sums + gate.bias
        result = saturated(rescaled(wrapped(sums), of_input), 16)
        sums = wrapped(outputs @ gate.recurrent.values.T)
        result = saturated(result + rescaled(sums, of_outputs), 16)
        if peephole is not None:
            products = rescaled(peephole.values * cells, of_cells)
            result = saturated(result + products, 16)
        if gate.norm is not None:
            result = _normalized_integers(result, gate.norm, gate.bias)
        return result

    return function


def _normalized_integers(
    values: Integers, coefficients: Quantized, bias: Integers
) -> Integers:
    """Normalize rows of 16-bit values; results have scale `2**-12` (`ApplyLayerNorm`)."""
    count = values.shape[-1]
    mean = quotient(values.sum(axis=-1, keepdims=True) * 1024, count)
    squares = (values * values).sum(axis=-1, keepdims=True)
    # The factor is exact for powers of two only.
    variance = quotient(squares * ((1 << 20) // count) - mean * mean, 1 << 20)
    least = max(1, int(10000 * coefficients.scale))
    inverse = inverse_square_root(np.where(variance < 1, least, variance), -1)
    normalized = rescaled(1024 * values - mean, inverse)
    sums = wrapped(wrapped(normalized * coefficients.values) + bias)
    rounded = quotient(sums + np.where(sums > 0, 512, -512), 1024)
    value, exponent = quantized_multiplier(float(coefficients.scale))
    return saturated(rescaled(rounded, Multiplier(value, exponent + 12)), 16)


def _quantized_clip(clip: float, scale: np.float32, bits: int) -> int:
    """Return a clip as a stored value, rounded toward zero; 0 for none."""
    most = (1 << (bits - 1)) - 1
    return int(min(np.float32(clip) / scale, np.float32(most))) if clip > 0 else 0


def integer_step(layer: LSTMLayer, parameters: IntegerParameters) -> Step:
    """
    Return the step of a layer on stored values: 8-bit inputs and outputs, 16-bit cell
    states. Inputs and outputs are stored values with zero points.

    Raises:
        Unsupported: if the scale of the cell states is not a power of two from `2**-15` to
            `2**-9`.
    """
    exponent = checked_log2(scale_of(parameters.cell))
    if exponent is None or not -15 <= exponent <= -9:
        raise Unsupported(
            f"has cell states of scale {scale_of(parameters.cell)}; expected a power of "
            "two from 2**-15 to 2**-9"
        )
    forget_gate, cell_gate, output_gate = (
        _gate_function(gate, scale, parameters, exponent)
        for gate, scale in zip(
            (layer.forget, layer.cell, layer.output), parameters.gates[1:], strict=True
        )
    )
    input_gate = layer.input and _gate_function(
        layer.input, parameters.gates[0], parameters, exponent
    )
    most = _quantized_clip(layer.cell_clip, scale_of(parameters.cell), 16)
    result = _output_function(layer, parameters)
    zero_points = int(parameters.input.zero_points), int(parameters.output.zero_points)

    def step(x: Array, outputs: Array, cells: Array) -> tuple[Array, Array]:
        inputs = x.astype(np.int64) - zero_points[0]
        before = outputs.astype(np.int64) - zero_points[1]
        states = cells.astype(np.int64)
        forget = _logistic(forget_gate(inputs, before, states))
        new = _tanh(cell_gate(inputs, before, states), 3)
        if input_gate is None:
            kept = _HALF - 1 - forget
        else:
            kept = _logistic(input_gate(inputs, before, states))
        added = wrapped(rounding_divide(kept * new, 30 + exponent), 16)
        states = saturated(rounding_divide(forget * states, 15) + added, 16)
        if most:
            states = np.clip(states, -most, most)
        output = _logistic(output_gate(inputs, before, states))
        hidden = output * _tanh(states, 15 + exponent)
        return result(hidden).astype(np.int8), states.astype(np.int16)

    return step


def _output_function(
    layer: LSTMLayer, parameters: IntegerParameters
) -> Callable[[Integers], Integers]:
    """Return the function from hidden states of scale `2**-30` to outputs."""
    hidden_scale = float(scale_of(parameters.hidden))
    of_hidden = _multiplier(2.0**-15 / hidden_scale * 2.0**-15)
    weights, zero_point = layer.projection, int(parameters.hidden.zero_points)
    if weights is None:
        return lambda hidden: stored_values(
            rescaled(hidden, of_hidden), zero_point, -128, 127
        )
    output_scale = scale_of(parameters.output)
    most = _quantized_clip(layer.projection_clip, output_scale, 8)
    of_sums = _multiplier(weights.scale * scale_of(parameters.hidden) / output_scale)

    def function(hidden: Integers) -> Integers:
        # The kernel negates the zero point, which only shifts the range.
        stored = stored_values(rescaled(hidden, of_hidden), -zero_point, -128, 127)
        sums = (stored + zero_point) @ weights.values.T
        if layer.projection_bias is not None:
            sums = sums + layer.projection_bias
        values = rescaled(wrapped(sums), of_sums)
        result = stored_values(values, int(parameters.output.zero_points), -128, 127)
        return np.clip(result, -most, most) if most else result

    return function


# Integers whose sums have 8 bits


class GateParameters(NamedTuple):
    """Quantization parameters of a gate whose products have 8 bits."""

    gate: QuantizationParameters
    """Sum of the products, before layer normalization."""

    input: QuantizationParameters
    """Product of weights and inputs."""

    recurrent: QuantizationParameters
    """Product of weights and the outputs of the step before."""


class NarrowParameters(NamedTuple):
    """Quantization parameters of an LSTM whose products have 8 bits."""

    input: QuantizationParameters
    output: QuantizationParameters
    cell: QuantizationParameters
    """16-bit cell states of scale `2**-15`."""

    gates: Sequence[GateParameters]
    """Forget, cell and output gate."""


def _truncated_fraction(values: Any) -> Integers:
    return np.clip((values * np.float32(_HALF)).astype(np.int64), -_HALF, _HALF - 1)


@cache
def _float_logistic_table() -> Integers:
    """Return `1 / (1 + exp(-x))` of all 16-bit values, truncated (`ApplySigmoidFloat`)."""
    x = np.arange(-_HALF, _HALF).astype(np.float32) * GATE_SCALE
    return _truncated_fraction(FUNCTIONS["logistic"](x))


@cache
def _float_tanh_table(exponent: int) -> Integers:
    """Return `tanh(x * 2**exponent)` of 16-bit values, truncated (`ApplyTanhFloat`)."""
    x = np.arange(-_HALF, _HALF).astype(np.float32) * np.float32(2.0**exponent)
    return _truncated_fraction(FUNCTIONS["tanh"](x))


def _narrow_product(
    weights: Quantized, factor: QuantizationParameters, product: QuantizationParameters
) -> Callable[[Integers], Integers]:
    """Return the zero-point-corrected product of such values and weights."""
    ratio = weights.scale * scale_of(factor) / scale_of(product)
    multiplier, zero_point = _multiplier(ratio), int(product.zero_points)

    def function(values: Integers) -> Integers:
        sums = rescaled(wrapped(values @ weights.values.T), multiplier)
        return stored_values(sums, zero_point, -128, 127) - zero_point

    return function


def _narrow_gate(
    gate: Gate, own: GateParameters, parameters: NarrowParameters, is_output: bool
) -> Callable[[Integers, Integers], Integers]:
    """Return the function that computes normalized 16-bit gates of scale `2**-12`."""
    of_input = _narrow_product(gate.input, parameters.input, own.input)
    of_outputs = _narrow_product(gate.recurrent, parameters.output, own.recurrent)
    scale = scale_of(own.gate)
    input_ratio = _multiplier(scale_of(own.input) / scale)
    recurrent_ratio = _multiplier(scale_of(own.recurrent) / scale)
    if is_output and recurrent_ratio.exponent > 16:
        raise Unsupported(
            f"has a type of 'recurrent_to_output_intermediate' whose scale is "
            f"{scale_of(own.recurrent) / scale} times that of the gate; expected less "
            "than 65536"
        )

    def function(x: Integers, outputs: Integers) -> Integers:
        result = rescaled(of_input(x), input_ratio)
        # The kernel takes a shift count for the multiplier of the output gate, which
        # makes each product 0.
        if not is_output:
            result = result + rescaled(of_outputs(outputs), recurrent_ratio)
        return _normalized_in_floats(saturated(result, 16), gate.norm, gate.bias)

    return function


def _add(lhs: Array, rhs: Array) -> Array:
    return lhs + rhs


def _normalized_in_floats(
    values: Integers, coefficients: Quantized, bias: Integers
) -> Integers:
    """Normalize rows of 16-bit values in `f32` (`ApplyLayerNormFloat`)."""
    value, exponent = quantized_multiplier(float(coefficients.scale))
    scale = np.float32(value * 2.0 ** (exponent - 31))
    x, count = values.astype(np.float32), np.float32(values.shape[-1])
    mean = np.expand_dims(folded(x, _add), -1) / count
    variance = np.expand_dims(folded(x * x, _add), -1) / count - mean * mean
    one, least = np.float32(1), np.float32(1e-8)
    # The root of a negative variance is NaN, whose conversion is undefined.
    inverse = one / np.sqrt(np.where(variance <= 0, least, variance))
    normalized = (x - mean) * inverse * coefficients.values.astype(np.float32) * scale
    shift = bias.astype(np.float32) * (np.float32(2**-10) * scale)
    rounded = round_away((normalized + shift) * np.float32(1 / GATE_SCALE))
    return np.clip(rounded, -_HALF, _HALF - 1).astype(np.int64)


def narrow_step(layer: LSTMLayer, parameters: NarrowParameters) -> Step:
    """
    Return the step of a layer whose products have 8 bits: the input gate is 1 minus the
    forget gate, gates are normalized, and outputs are projected with a bias.

    Raises:
        Unsupported: if a ratio of scales is out of the range of the kernel.
    """
    gates = layer.forget, layer.cell, layer.output
    forget_gate, cell_gate, output_gate = (
        _narrow_gate(gate, own, parameters, gate is layer.output)
        for gate, own in zip(gates, parameters.gates, strict=True)
    )
    clip = layer.cell_clip if layer.cell_clip < 1 else 0.0
    most = _quantized_clip(clip, scale_of(parameters.cell), 16)
    output_scale = scale_of(parameters.output)
    most_output = _quantized_clip(layer.projection_clip, output_scale, 8)
    of_sums = _multiplier(layer.projection.scale * np.float32(2**-15) / output_scale)
    zero_points = int(parameters.input.zero_points), int(parameters.output.zero_points)

    def step(x: Array, outputs: Array, cells: Array) -> tuple[Array, Array]:
        inputs = x.astype(np.int64) - zero_points[0]
        before = outputs.astype(np.int64) - zero_points[1]
        forget = lookup(_float_logistic_table(), forget_gate(inputs, before) + _HALF)
        new = lookup(_float_tanh_table(-12), cell_gate(inputs, before) + _HALF)
        added = rounding_divide((_HALF - 1 - forget) * new, 15)
        kept = rounding_divide(forget * cells.astype(np.int64), 15)
        states = saturated(kept + added, 16)
        if most:
            states = np.clip(states, -most, most)
        output = lookup(_float_logistic_table(), output_gate(inputs, before) + _HALF)
        hidden = output * lookup(_float_tanh_table(-15), states + _HALF)
        sums = rounding_divide(hidden, 15) @ layer.projection.values.T
        values = rescale_wide(sums + layer.projection_bias, of_sums)
        result = stored_values(values, zero_points[1], -128, 127)
        if most_output:
            result = np.clip(result, -most_output, most_output)
        return result.astype(np.int8), states.astype(np.int16)

    return step
