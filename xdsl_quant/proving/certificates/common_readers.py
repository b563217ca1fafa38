"""Transfer functions that the dialects share: casts, sums, products, convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Operation

from xdsl_quant.dialects.quant.types import ScaledQuantizedType
from xdsl_quant.runtime.arrays import constant_elements, stored_elements

from .linear_maps import (
    Convolution,
    ElementScaling,
    Floats,
    Gathering,
    Indices,
    Matrix,
    Path,
    WindowGeometry,
)
from .networks import (
    Clamp,
    ElementProduct,
    Function,
    Largest,
    StoredRounding,
    Value,
    element_scales,
    real_bounds,
    real_numbers,
    scaled_type,
    shape_of_result,
)
from .readers import (
    Reader,
    converted_constant,
    finished,
    operand_unit,
    reads,
    refuse_op,
)

_FLOAT_ERROR = 2.0**-22
"""Bound of the relative error of a dequantization: the scale and the product in `f32`."""


@reads("tfl.quantize", "stablehlo.uniform_quantize", "quant.qcast")
def quantized(reader: Reader, op: Operation) -> Value:
    """Round floats to stored values, or requantize."""
    operand = reader.value(op.operands[0])
    source, target = (
        scaled_type(each.type) for each in (op.operands[0], op.results[0])
    )
    if target is None:
        refuse_op(op, "result without scale")
    if (
        source is not None
        and target.storage_type_integral_width > 16
        and np.array_equal(source.get_scales(), target.get_scales())
    ):
        return operand
    if (constant := reader.constant(op.operands[0])) is not None:
        return reader.sum(op, (), converted_constant(op, constant))
    unit = operand_unit(op, 0, operand.shape)
    return finished(reader, op, operand, np.ravel(unit))


@reads("tfl.dequantize", "stablehlo.uniform_dequantize", "quant.dcast")
def dequantized(reader: Reader, op: Operation) -> Value:
    """Convert stored values to floats, which are rounded to `f32`."""
    type_ = scaled_type(op.operands[0].type)
    operand = reader.value(op.operands[0])
    if type_ is None:
        return operand
    if (constant := reader.constant(op.operands[0])) is not None:
        return reader.sum(op, (), converted_constant(op, constant))
    low, high = real_bounds(type_, operand.shape)
    error = _FLOAT_ERROR * np.maximum(np.abs(low), np.abs(high))
    infinity = np.array(np.inf)
    return reader.add(
        StoredRounding(op, operand.shape, operand, error, -infinity, infinity)
    )


@reads("quant.scast")
def reinterpreted(reader: Reader, op: Operation) -> Value:
    """Give a type to the stored values of a constant."""
    type_ = scaled_type(op.results[0].type)
    elements = constant_elements(op.operands[0])
    if type_ is None or elements is None:
        refuse_op(op, "a storage cast of a value that is not constant")
    return reader.sum(op, (), real_numbers(stored_elements(elements, type_), type_))


def matrix_product(reader: Reader, op: Operation, weights: Floats) -> Matrix:
    """Return the product of the rows of the first operand with `[depth, columns]`."""
    depth = weights.shape[0]
    return Matrix(reader.value(op.operands[0]).size // max(depth, 1), weights)


def convolution(window: WindowGeometry, weights: Floats, groups: int) -> Convolution:
    """Return a convolution with weights `[height, width, depth, outputs]`."""
    height, width, depth, outputs = weights.shape
    grouped = weights.reshape(height, width, depth, groups, outputs // groups)
    return Convolution(window, np.ascontiguousarray(grouped.transpose(0, 1, 3, 2, 4)))


def window_sums(window: WindowGeometry, sizes: tuple[int, int]) -> Convolution:
    """Return the sums of the elements of windows, channel by channel."""
    channels = window.image[3]
    return Convolution(window, np.ones((*sizes, channels, 1, 1)))


def window_groups(window: WindowGeometry, sizes: tuple[int, int]) -> Indices:
    """
    Return the indices of the elements of each window `[results, elements]`. Padding is
    replaced by an element of the same window.
    """
    image = np.arange(np.prod(window.image)).reshape(window.image)
    pads = (0, 0), *window.padding, (0, 0)
    image = np.pad(image, pads, constant_values=-1)
    parts = [
        image[:, rows, columns].ravel() for _, _, rows, columns in window.taps(sizes)
    ]
    groups = np.stack(parts, axis=1)
    return np.where(groups < 0, groups.max(axis=1, keepdims=True), groups)


def largest(reader: Reader, op: Operation, groups: Indices) -> Value:
    """Add the largest elements of groups of elements of the first operand."""
    operand = reader.value(op.operands[0])
    return reader.add(Largest(op, shape_of_result(op), operand, groups))


def clamped(
    reader: Reader, op: Operation, index: int, low: Floats, high: Floats
) -> Value:
    """Add an operand that is clamped to constant bounds, which have its shape or one."""
    operand = reader.value(op.operands[index])
    low, high = low.ravel(), high.ravel()
    if np.all(low == -np.inf) and np.all(high == np.inf):
        return operand
    if not isinstance(operand, StoredRounding):
        return reader.add(Clamp(op, operand.shape, operand, low, high))
    # The storage range and the clamp are one clamp.
    ends = (np.clip(end, low, high) for end in (operand.low, operand.high))
    return reader.add(replace(operand, op=op, low=next(ends), high=next(ends)))


def broadcast(value: Value, shape: Sequence[int]) -> Path:
    """Return the path that broadcasts a value, as NumPy does."""
    if value.shape == tuple(shape):
        return Path()
    indices = np.arange(value.size).reshape(value.shape)
    return Path([Gathering(np.broadcast_to(indices, shape).ravel(), value.size)])


def spread(reader: Reader, op: Operation, value: Value, shape: Sequence[int]) -> Value:
    """Add a value broadcast to a shape, as NumPy does."""
    if value.shape == tuple(shape):
        return value
    return reader.sum(op, [(value, broadcast(value, shape))], shape=tuple(shape))


def product_of_two(reader: Reader, op: Operation, lhs: Value, rhs: Value) -> Value:
    """Add the exact products of elements of two variables, broadcast to the result."""
    shape = shape_of_result(op)
    if lhs is rhs and lhs.shape == shape:
        return reader.add(Function(op, shape, lhs, "square"))
    factors = (spread(reader, op, value, shape) for value in (lhs, rhs))
    return reader.add(ElementProduct(op, shape, *factors))


def quotient_of_two(reader: Reader, op: Operation) -> Value:
    """Add the exact quotient of two variables: a product with the reciprocal."""
    lhs, rhs = (reader.value(operand) for operand in op.operands)
    # Before it is broadcast: fewer elements.
    inverse = reader.add(Function(op, rhs.shape, rhs, "reciprocal"))
    return product_of_two(reader, op, lhs, inverse)


def product_unit(op: Operation, shape: Sequence[int]) -> Floats | float:
    """Return the scales of the products of two operands; 0 for floats."""
    types = [scaled_type(each.type) for each in op.operands[:2]]
    if types[0] is None or types[1] is None:
        return 0.0
    if types[0].is_per_tensor and types[1].is_per_tensor:
        scale = float(types[0].get_scales() * types[1].get_scales())
        return np.full(int(np.prod(shape)), scale)
    return np.ravel(element_scales(types[0], shape) * element_scales(types[1], shape))


def matrix_products(
    reader: Reader, op: Operation, indices: tuple[Indices, Indices]
) -> Value:
    """
    Add the exact products of matrices.

    Args:
        indices: elements of the operands, `[*batch, rows, 1, depth]` and
            `[*batch, 1, columns, depth]`.
    """
    shape = np.broadcast_shapes(*(each.shape for each in indices))
    maps = [
        Gathering(np.broadcast_to(each, shape).ravel(), reader.value(operand).size)
        for each, operand in zip(indices, op.operands, strict=False)
    ]
    sums = Matrix(math.prod(shape[:-1]), np.ones((shape[-1], 1)))
    for index in range(2):
        constant = reader.constant(op.operands[index])
        if constant is not None:
            scaling = ElementScaling(maps[index].apply(constant.ravel()))
            other = reader.value(op.operands[1 - index])
            path = Path([maps[1 - index], scaling, sums])
            return reader.sum(op, [(other, path)])
    factors = [
        reader.sum(op, [(reader.value(operand), Path([each]))], shape=(each.outputs,))
        for each, operand in zip(maps, op.operands, strict=False)
    ]
    terms = reader.add(ElementProduct(op, (maps[0].outputs,), *factors))
    return reader.sum(op, [(terms, Path([sums]))])


def is_variable(reader: Reader, op: Operation, index: int) -> bool:
    """Return True if an operand is not constant."""
    return reader.constant(op.operands[index]) is None


def sum_of_two(
    reader: Reader,
    op: Operation,
    sign: float,
    *,
    activation: str = "NONE",
    stored: tuple[int, int] | None = None,
) -> Value:
    """
    Add the sum or the difference of two operands. Integer kernels rescale each operand
    before they add: the errors of both count.
    """
    shape = shape_of_result(op)
    values = [reader.value(operand) for operand in op.operands]
    paths = [broadcast(value, shape) for value in values]
    paths[1] = paths[1].then(Path([ElementScaling(np.full(int(np.prod(shape)), sign))]))
    if sign == 1:
        paths[1] = broadcast(values[1], shape)
    total = reader.sum(op, [*zip(values, paths, strict=True)])
    result = scaled_type(op.results[0].type)
    types = [scaled_type(operand.type) for operand in op.operands]
    if result is not None and result.storage_type_integral_width > 16:
        check_equal_scales(op, [each for each in (*types, result) if each is not None])
        return total
    if result is None:
        return finished(reader, op, total, activation=activation)
    unit = _sum_unit(op, types, result)
    more = _operand_errors(op, types, result, shape, unit)
    return finished(reader, op, total, unit, stored=stored, more_error=more)


def check_equal_scales(op: Operation, types: Sequence[ScaledQuantizedType]) -> None:
    """Refuse an op on accumulators with different scales."""
    first = types[0].get_scales()
    for type_ in types[1:]:
        scales = type_.get_scales()
        if np.any(np.abs(scales / first - 1) > 2.0**-30):
            refuse_op(op, "accumulators with different scales")


def _sum_unit(
    op: Operation,
    types: Sequence[ScaledQuantizedType | None],
    result: ScaledQuantizedType,
) -> float:
    """
    Return the unit in which kernels add: twice the larger scale, shifted, in those of
    TensorFlow Lite; 0 for the unit of the result.
    """
    if not op.name.startswith("tfl."):
        return 0.0
    scales = [float(each.get_scales().max()) for each in types if each is not None]
    shift = 15 if result.storage_type_integral_width > 8 else 20
    return 2 * max(scales, default=0.0) / 2.0**shift


def _operand_errors(
    op: Operation,
    types: Sequence[ScaledQuantizedType | None],
    result: ScaledQuantizedType,
    shape: Sequence[int],
    unit: float,
) -> Floats:
    """Return the errors of operands rescaled to `unit`, in units of the result."""
    scale = element_scales(result, shape).ravel()
    error = np.zeros_like(scale)
    for operand, type_ in zip(op.operands, types, strict=True):
        if type_ is None:
            refuse_op(op, f"operand of type {operand.type}")
        low, high = type_.storage_range
        span = (high - low + 1) * float(type_.get_scales().max())
        own = 2.0**-22 * span / scale
        # StableHLO's kernels requantize operands of another scale to the result's.
        rescaled = 0.75 * unit / scale if unit else 0.75
        error += own + rescaled
    return error


def concatenated(reader: Reader, op: Operation, axis: int) -> Value:
    """Add the concatenation of all operands, which have the scale of the result."""
    shape, start = shape_of_result(op), 0
    terms: list[tuple[Value, Path]] = []
    types = {scaled_type(each.type) for each in (*op.operands, *op.results)}
    if len(types) > 1:
        refuse_op(op, "operands with other scales than the result")
    for operand in op.operands:
        value = reader.value(operand)
        size = value.shape[axis]
        indices = np.full(shape, -1)
        parts: list[slice] = [slice(None)] * len(shape)
        parts[axis] = slice(start, start + size)
        indices[tuple(parts)] = np.arange(value.size).reshape(value.shape)
        terms.append((value, Path([Gathering(indices.ravel(), value.size)])))
        start += size
    return reader.sum(op, terms)
