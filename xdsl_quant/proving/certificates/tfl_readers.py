"""Transfer functions of TensorFlow Lite's ops."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import NoneType
from xdsl.ir import Operation, SSAValue

from xdsl_quant.diagnostics import refusing
from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.tflite.formulas.quantized import activation_bounds
from xdsl_quant.frontends.tflite.formulas.rows import negative_exponentials
from xdsl_quant.frontends.tflite.lowering.windows import window_of
from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.runtime.arrays import constant_elements, shape_of

from .common_readers import (
    broadcast,
    clamped,
    concatenated,
    convolution,
    is_variable,
    largest,
    matrix_product,
    matrix_products,
    product_of_two,
    product_unit,
    quotient_of_two,
    sum_of_two,
    window_groups,
    window_sums,
)
from .linear_maps import (
    ElementScaling,
    Floats,
    Gathering,
    Indices,
    LinearMap,
    Path,
    WindowGeometry,
)
from .networks import (
    Function,
    Softmax,
    StoredRounding,
    Value,
    element_scales,
    real_bounds,
    scaled_type,
    shape_of_result,
)
from .readers import (
    NARROW_ERROR,
    Reader,
    finished,
    function_value,
    reads,
    refuse_op,
)


def _fused_activation(op: Operation) -> str:
    attribute = op.get_attr_or_prop("fused_activation_function")
    # A property of all ops that may have an activation.
    return "NONE" if attribute is None else cast(Any, attribute).data


def _activation_range(op: Operation, activation: str) -> tuple[int, int] | None:
    """Return the stored values that an activation can give; `None` for all."""
    type_ = scalar_or_element_type(op.results[0].type)
    if activation == "NONE" or not isinstance(type_, UniformQuantizedType):
        return None
    with refusing(op, "cannot be bounded"):
        parameters = QuantizationParameters.from_integer_type(type_)
        return activation_bounds(parameters, activation)


def _finished(
    reader: Reader, op: Operation, total: Value, unit: Floats | float = 0.0
) -> Value:
    """Add the result of an op with a fused activation."""
    activation = _fused_activation(op)
    stored = _activation_range(op, activation)
    return finished(reader, op, total, unit, activation=activation, stored=stored)


def _weighted_tfl_sum(reader: Reader, op: Operation, linear: LinearMap) -> Value:
    """Add a product with constant weights and its bias, in the scale of the sums."""
    image, weights = (scaled_type(op.operands[i].type) for i in range(2))
    if (image is None) != (weights is None):
        refuse_op(op, "float activations and quantized weights")
    bias = _bias_numbers(reader, op, linear.outputs)
    unit: Floats | float = 0.0
    if image is not None and weights is not None:
        if not image.is_per_tensor:
            refuse_op(op, "operand 0 with per-axis scales")
        channels = np.atleast_1d(weights.get_scales()) * image.get_scales()
        count = bias.size if channels.size == 1 else channels.size
        unit = np.resize(np.resize(channels, count), linear.outputs)
        stored = _stored_bias(op)
        bias = np.zeros(linear.outputs)
        if stored is not None:
            bias = np.resize(stored, linear.outputs) * unit
    total = reader.mapped(op, linear, constant=bias)
    return _finished(reader, op, total, unit)


def _has_bias(op: Operation) -> bool:
    return len(op.operands) > 2 and not isinstance(op.operands[2].type, NoneType)


def _bias_numbers(reader: Reader, op: Operation, count: int) -> Floats:
    if not _has_bias(op):
        return np.zeros(count)
    return np.resize(reader.needed_constant(op, 2), count)


def _stored_bias(op: Operation) -> Floats | None:
    """Return the integers of a bias: kernels ignore the scales of its type."""
    if not _has_bias(op):
        return None
    value: SSAValue = op.operands[2]
    if isinstance(value.owner, Operation) and value.owner.name == "quant.scast":
        value = value.owner.operands[0]
    elements = constant_elements(value)
    if elements is None:
        refuse_op(op, "operand 2 is not constant")
    return elements.astype(np.float64)


@reads("tfl.fully_connected")
def _fully_connected(reader: Reader, op: Operation) -> Value:
    weights = reader.needed_constant(op, 1)
    return _weighted_tfl_sum(reader, op, matrix_product(reader, op, weights.T))


def _geometry(op: Operation, sizes: tuple[int, int]) -> WindowGeometry:
    with refusing(op, "cannot be bounded"):
        found = window_of(op)
    image = shape_of(op.operands[0].type)
    padding = [
        found.padding_before(image[axis + 1], sizes[axis], axis) for axis in range(2)
    ]
    batch, height, width, channels = image
    return WindowGeometry(
        (batch, height, width, channels),
        found.strides,
        found.dilations,
        (padding[0], padding[1]),
    )


@reads("tfl.conv_2d")
def _convolution(reader: Reader, op: Operation) -> Value:
    weights = reader.needed_constant(op, 1).transpose(1, 2, 3, 0)
    window = _geometry(op, (weights.shape[0], weights.shape[1]))
    groups = window.image[3] // weights.shape[2]
    return _weighted_tfl_sum(reader, op, convolution(window, weights, groups))


@reads("tfl.depthwise_conv_2d")
def _depthwise_convolution(reader: Reader, op: Operation) -> Value:
    weights = reader.needed_constant(op, 1)[0][:, :, np.newaxis]
    window = _geometry(op, (weights.shape[0], weights.shape[1]))
    return _weighted_tfl_sum(reader, op, convolution(window, weights, window.image[3]))


def _pool_window(op: Operation) -> tuple[WindowGeometry, tuple[int, int]]:
    # Properties of both pooling ops.
    properties = cast(Any, op)
    sizes = properties.filter_height.value.data, properties.filter_width.value.data
    return _geometry(op, sizes), sizes


@reads("tfl.average_pool_2d")
def _read_average_pool(reader: Reader, op: Operation) -> Value:
    window, sizes = _pool_window(op)
    sums = window_sums(window, sizes)
    counts = sums.apply(np.ones(sums.inputs))
    total = reader.mapped(op, sums, ElementScaling(1 / counts))
    return _finished(reader, op, total)


@reads("tfl.max_pool_2d")
def _read_max_pool(reader: Reader, op: Operation) -> Value:
    window, sizes = _pool_window(op)
    value = largest(reader, op, window_groups(window, sizes))
    return _clamped_by_activation(reader, op, value)


def _clamped_by_activation(reader: Reader, op: Operation, value: Value) -> Value:
    """Clamp exact stored values to the range of a fused activation."""
    if _fused_activation(op) == "NONE":
        return value
    return _finished(reader, op, value)


@reads("tfl.mean")
def _mean(reader: Reader, op: Operation) -> Value:
    shape = shape_of(op.operands[0].type)
    axes = [int(axis) % len(shape) for axis in reader.needed_constant(op, 1).ravel()]
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    count = int(np.prod([shape[axis] for axis in axes]))
    indices = np.arange(np.prod(shape)).reshape(shape).transpose(*kept, *axes)
    gathering = Gathering(indices.ravel(), indices.size)
    operand = reader.value(op.operands[0])
    mean = matrix_product(reader, op, np.full((count, 1), 1 / count))
    total = reader.sum(op, [(operand, Path([gathering, mean]))])
    source, target = (
        scaled_type(each.type) for each in (op.operands[0], op.results[0])
    )
    if source is None or target is None:
        return finished(reader, op, total)
    ratio = float(source.get_scales() / target.get_scales())
    # The kernel rounds the quotient by the count after the product with the multiplier.
    return finished(reader, op, total, more_error=1.0 + ratio)


# Elementwise ops


@reads("tfl.add", "tfl.sub")
def _sum(reader: Reader, op: Operation) -> Value:
    sign = 1.0 if op.name == "tfl.add" else -1.0
    activation = _fused_activation(op)
    stored = _activation_range(op, activation)
    return sum_of_two(reader, op, sign, activation=activation, stored=stored)


@reads("tfl.mul")
def _read_mul(reader: Reader, op: Operation) -> Value:
    constant = 1 if is_variable(reader, op, 0) else 0
    shape = shape_of_result(op)
    operand = reader.value(op.operands[1 - constant])
    if is_variable(reader, op, constant):
        total = product_of_two(reader, op, operand, reader.value(op.operands[1]))
    else:
        factors = np.broadcast_to(reader.needed_constant(op, constant), shape).ravel()
        path = broadcast(operand, shape).then(Path([ElementScaling(factors)]))
        total = reader.sum(op, [(operand, path)])
    return _finished(reader, op, total, product_unit(op, shape))


@reads("tfl.square")
def _square(reader: Reader, op: Operation) -> Value:
    if scaled_type(op.operands[0].type) is not None:
        refuse_op(op, "quantized operand")
    return function_value(reader, op, "square")


@reads("tfl.squared_difference")
def _squared_difference(reader: Reader, op: Operation) -> Value:
    shape = shape_of_result(op)
    values = [reader.value(operand) for operand in op.operands]
    paths = [broadcast(value, shape) for value in values]
    paths[1] = paths[1].then(Path([ElementScaling(np.full(math.prod(shape), -1.0))]))
    change: Value = reader.sum(op, [*zip(values, paths, strict=True)])
    types = [scaled_type(operand.type) for operand in op.operands]
    if types[0] is None or types[1] is None:
        return reader.add(Function(op, shape, change, "square"))
    # The kernel rescales both operands to 1/128 of twice the larger scale.
    unit = 2 * max(float(each.get_scales()) for each in types if each) / 128
    ends = np.max(np.abs([real_bounds(each, ()) for each in types if each]))
    infinity = np.array(np.inf)
    error = np.full(change.size, 1.5 * unit + 4 * NARROW_ERROR * ends)
    limit = np.full(change.size, 2.0**15.5 * unit)
    rounded = StoredRounding(op, shape, change, error, -infinity, infinity, limit)
    square = reader.add(Function(op, shape, reader.add(rounded), "square"))
    return finished(reader, op, square, unit * unit)


@reads("tfl.div")
def _divide(reader: Reader, op: Operation) -> Value:
    if any(scaled_type(each.type) is not None for each in op.operands):
        refuse_op(op, "quantized operands")
    shape, divisor = shape_of_result(op), reader.constant(op.operands[1])
    operand = reader.value(op.operands[0])
    if divisor is None:
        return _finished(reader, op, quotient_of_two(reader, op))
    factors = np.broadcast_to(1 / divisor, shape).ravel()
    path = broadcast(operand, shape).then(Path([ElementScaling(factors)]))
    return _finished(reader, op, reader.sum(op, [(operand, path)]))


@reads("tfl.batch_matmul")
def _batch_matmul(reader: Reader, op: Operation) -> Value:
    indices: list[Indices] = []
    for index, name in enumerate(("adj_x", "adj_y")):
        shape = shape_of(op.operands[index].type)
        own = np.arange(math.prod(shape)).reshape(shape)
        attribute = op.get_attr_or_prop(name)
        is_transposed = attribute is not None and bool(cast(Any, attribute).value.data)
        # Rows of the left matrices, columns of the right ones.
        if is_transposed == (index == 0):
            own = own.swapaxes(-1, -2)
        indices.append(np.expand_dims(own, -2 - index))
    total = matrix_products(reader, op, (indices[0], indices[1]))
    return finished(reader, op, total, product_unit(op, total.shape))


@reads("tfl.softmax")
def _softmax(reader: Reader, op: Operation) -> Value:
    beta = float(cast(Any, op.get_attr_or_prop("beta")).value.data)
    shape, operand = shape_of_result(op), reader.value(op.operands[0])
    if beta != 1:
        scaling = ElementScaling(np.full(operand.size, beta))
        operand = reader.sum(op, [(operand, Path([scaling]))])
    result = reader.add(Softmax(op, shape, operand, shape[-1]))
    source, target = (
        scaled_type(each.type) for each in (op.operands[0], op.results[0])
    )
    if source is None or target is None:
        return finished(reader, op, result)
    if max(each.storage_type_integral_width for each in (source, target)) > 8:
        refuse_op(op, "stored values of more than 8 bits")
    error = softmax_error(float(source.get_scales()), beta, shape[-1])
    error = error / float(target.get_scales())
    return finished(reader, op, result, more_error=error)


def softmax_error(scale: float, beta: float, length: int) -> float:
    """
    Return a bound of the error of the integer kernel before it rounds to stored values.

    Each exponential is rounded to 19 fractional bits for the sum, which is at least 1. The
    reciprocal has an error of at most `2**-26`, far less than one exponential: three Newton
    steps from 1/17, in 32 bits.
    """
    differences = np.arange(-255, 1)
    exponentials, _ = negative_exponentials(differences, scale, beta)
    exact = np.exp(float(np.float32(beta)) * scale * differences)
    error = float(np.abs(exponentials / 2.0**31 - exact).max())
    return error + (length + 1) * (error + 2.0**-20)


_CLAMPS = {
    "tfl.relu": "RELU",
    "tfl.relu6": "RELU6",
    "tfl.relu_n1_to_1": "RELU_N1_TO_1",
    "tfl.relu_0_to_1": "RELU_0_TO_1",
}


@reads(*_CLAMPS)
def _rectifier(reader: Reader, op: Operation) -> Value:
    operand = reader.value(op.operands[0])
    source, target = (
        scaled_type(each.type) for each in (op.operands[0], op.results[0])
    )
    activation = _CLAMPS[op.name]
    if source is None or target is None:
        return finished(reader, op, operand, activation=activation)
    stored = _activation_range(op, activation)
    if source == target:
        low, high = real_bounds(target, operand.shape, stored)
        return clamped(reader, op, 0, low, high)
    unit = element_scales(source, operand.shape).ravel()
    return finished(reader, op, operand, unit, stored=stored)


_FUNCTIONS = {
    "tfl.logistic": "logistic",
    "tfl.tanh": "tanh",
    "tfl.hard_swish": "hard_swish",
    "tfl.exp": "exp",
    "tfl.rsqrt": "rsqrt",
    "tfl.sqrt": "sqrt",
}

for _op, _mnemonic in _FUNCTIONS.items():
    reads(_op)(partial(function_value, name=_mnemonic))


@reads("tfl.gelu")
def _gelu(reader: Reader, op: Operation) -> Value:
    attribute = op.get_attr_or_prop("approximate")
    is_approximate = attribute is not None and bool(cast(Any, attribute).value.data)
    name = "gelu_tanh" if is_approximate else "gelu"
    return function_value(reader, op, name)


# Data movement


@reads("tfl.reshape", "tfl.squeeze", "tfl.expand_dims")
def _reshape(reader: Reader, op: Operation) -> Value:
    return reader.mapped(op)


@reads("tfl.transpose")
def _transpose(reader: Reader, op: Operation) -> Value:
    order = [int(axis) for axis in reader.needed_constant(op, 1)]
    return reader.gathered(op, lambda indices: indices.transpose(order))


@reads("tfl.pad")
def _pad(reader: Reader, op: Operation) -> Value:
    pads = [(int(a), int(b)) for a, b in reader.needed_constant(op, 1)]
    # Index -1 is the number 0, which the zero point represents.
    return reader.gathered(op, lambda i: np.pad(i, pads, constant_values=-1))


@reads("tfl.slice")
def _slice(reader: Reader, op: Operation) -> Value:
    begin = [int(start) for start in reader.needed_constant(op, 1)]
    sizes = shape_of_result(op)
    parts = tuple(slice(b, b + s) for b, s in zip(begin, sizes, strict=True))
    return reader.gathered(op, lambda indices: indices[parts])


@reads("tfl.concatenation")
def _concatenation(reader: Reader, op: Operation) -> Value:
    axis = int(cast(Any, op.get_attr_or_prop("axis")).value.data)
    return _clamped_by_activation(reader, op, concatenated(reader, op, axis))
