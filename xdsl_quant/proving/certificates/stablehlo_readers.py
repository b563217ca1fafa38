"""Transfer functions of StableHLO's ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation

from xdsl_quant.runtime.arrays import shape_of

from .common_readers import (
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
from .networks import Value, scaled_type, shape_of_result
from .readers import Reader, finished, function_value, reads, refuse_op


def _property_numbers(op: Operation, name: str) -> Sequence[int]:
    """Return the integers of an array property."""
    attribute = op.get_attr_or_prop(name)
    return () if attribute is None else [*cast(Any, attribute).get_values()]


def _requantized_product(reader: Reader, op: Operation, total: Value) -> Value:
    """
    Add the result of a product whose exact value is `total`: exact in 32 bits, or
    requantized.
    """
    types = [scaled_type(value.type) for value in (*op.operands, *op.results)]
    if types == [None] * 3:
        return total
    image, weights, result = types
    if image is None or weights is None or result is None:
        refuse_op(op, "float and quantized tensors in one op")
    if not image.is_per_tensor:
        refuse_op(op, "operand 0 with per-axis scales")
    channels = np.atleast_1d(weights.get_scales() * image.get_scales())
    if result.storage_type_integral_width == 32:
        if np.any(np.abs(result.get_scales() / channels - 1) > 2.0**-30):
            refuse_op(op, "result scales other than those of the products")
        return total
    # The output channels are last: see `_check_layout`.
    return finished(reader, op, total, np.resize(channels, total.size))


@reads("stablehlo.dot_general")
def _dot_general(reader: Reader, op: Operation) -> Value:
    batching, (lhs, rhs) = cast(Any, op).dot_dimension_numbers.pairs()
    weights, image = (reader.constant(op.operands[index]) for index in (1, 0))
    if weights is None or image is not None or len(batching[0]):
        return _product_of_variables(reader, op, batching, (lhs, rhs))
    shape = shape_of(op.operands[0].type)
    free = [axis for axis in range(len(shape)) if axis not in lhs]
    columns = [axis for axis in range(weights.ndim) if axis not in rhs]
    depth = math.prod(shape[int(axis)] for axis in lhs)
    matrix = weights.transpose(*rhs, *columns).reshape(depth, -1)
    indices = np.arange(np.prod(shape)).reshape(shape).transpose(*free, *lhs)
    maps: list[LinearMap] = [matrix_product(reader, op, matrix)]
    if not np.array_equal(indices.ravel(), np.arange(indices.size)):
        maps.insert(0, Gathering(indices.ravel(), indices.size))
    return _requantized_product(reader, op, reader.mapped(op, *maps))


def _product_of_variables(
    reader: Reader,
    op: Operation,
    batching: Sequence[Sequence[int]],
    contracting: Sequence[Sequence[int]],
) -> Value:
    """Add a product of two variables, or of batches of matrices."""
    for operand in op.operands:
        type_ = scaled_type(operand.type)
        if type_ is not None and not type_.is_per_tensor:
            refuse_op(op, "a product of variables with per-axis scales")
    indices: list[Indices] = []
    for index in range(2):
        shape = shape_of(op.operands[index].type)
        own = np.arange(math.prod(shape)).reshape(shape)
        fixed = [*batching[index], *contracting[index]]
        free = [axis for axis in range(len(shape)) if axis not in fixed]
        own = own.transpose(*batching[index], *free, *contracting[index])
        batch = math.prod(shape[axis] for axis in batching[index])
        depth = math.prod(shape[axis] for axis in contracting[index])
        own = own.reshape(batch, -1, depth)
        indices.append(np.expand_dims(own, 2 - index))
    total = matrix_products(reader, op, (indices[0], indices[1]))
    return _requantized_product(reader, op, total)


@reads("stablehlo.convolution")
def _convolution(reader: Reader, op: Operation) -> Value:
    convolved = cast(Any, op)
    tensors = convolved.dimension_numbers.by_tensor()
    window = convolved.window
    if len(window) != 2 or convolved.batch_group_count.value.data != 1:
        refuse_op(op, f"{len(window)} spatial dimensions or groups of the batch")
    _check_paddings(op, *window)
    if any(size > 1 for size in _property_numbers(op, "lhs_dilation")):
        refuse_op(op, "dilated operand")
    if any(_property_numbers(op, "window_reversal")):
        refuse_op(op, "reversed window")
    image_order = _channels_last_order(tensors["input"])
    shape = shape_of(op.operands[0].type)
    batch, height, width, channels = (shape[axis] for axis in image_order)
    outer, inner, *spatial = tensors["kernel"]
    weights = reader.needed_constant(op, 1).transpose(*spatial, outer, inner)
    geometry = WindowGeometry(
        (batch, height, width, channels),
        (window[0].stride, window[1].stride),
        (window[0].dilation, window[1].dilation),
        _spatial_paddings(*window),
    )
    groups = convolved.feature_group_count.value.data
    linear = convolution(geometry, weights, groups)
    result_order = [*np.argsort(_channels_last_order(tensors["output"]))]
    maps = [
        *_axis_permutation(shape, image_order),
        linear,
        *_axis_permutation(linear.shape, result_order),
    ]
    if result_order != [0, 1, 2, 3] and scaled_type(op.results[0].type) is not None:
        refuse_op(op, "quantized result whose channels are not last")
    return _requantized_product(reader, op, reader.mapped(op, *maps))


def _spatial_paddings(
    rows: Any, columns: Any
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the padding along height and width."""
    first, second = rows.padding, columns.padding
    return (first.low, first.high), (second.low, second.high)


def _channels_last_order(dimensions: Sequence[int]) -> list[int]:
    """Return dimensions in the order batch, rows, columns, features."""
    batch, features, *spatial = dimensions
    return [batch, *spatial, features]


def _axis_permutation(shape: Sequence[int], order: Sequence[int]) -> list[LinearMap]:
    if [*order] == [*range(len(shape))]:
        return []
    count = int(np.prod(shape))
    indices = np.arange(count).reshape(shape).transpose(order)
    return [Gathering(indices.ravel(), count)]


# Elementwise ops


@reads("stablehlo.add", "stablehlo.subtract")
def _sum(reader: Reader, op: Operation) -> Value:
    return sum_of_two(reader, op, 1.0 if op.name == "stablehlo.add" else -1.0)


@reads("stablehlo.multiply", "stablehlo.divide")
def _read_multiply(reader: Reader, op: Operation) -> Value:
    is_product = op.name == "stablehlo.multiply"
    unit = product_unit(op, shape_of_result(op)) if is_product else 0.0
    constant = 0 if is_product and not is_variable(reader, op, 0) else 1
    operand = reader.value(op.operands[1 - constant])
    factors = reader.constant(op.operands[constant])
    if factors is not None:
        factors = factors.ravel() if is_product else 1 / factors.ravel()
        total = reader.sum(op, [(operand, Path([ElementScaling(factors)]))])
    elif is_product:
        total = product_of_two(reader, op, operand, reader.value(op.operands[1]))
    else:
        total = quotient_of_two(reader, op)
    return finished(reader, op, total, unit)


@reads("stablehlo.select")
def _select(reader: Reader, op: Operation) -> Value:
    chosen = reader.needed_constant(op, 0) != 0
    types = {scaled_type(value.type) for value in (*op.operands[1:], *op.results)}
    if len(types) > 1:
        refuse_op(op, "operands and result with different scales")
    shape = shape_of_result(op)
    masks = (np.broadcast_to(each, shape).ravel() for each in (chosen, ~chosen))
    terms: list[tuple[Value, Path]] = []
    for operand, mask in zip(op.operands[1:], masks, strict=True):
        value = reader.value(operand)
        indices = np.where(mask, np.arange(value.size), -1)
        terms.append((value, Path([Gathering(indices, value.size)])))
    return reader.sum(op, terms)


@reads("stablehlo.maximum", "stablehlo.minimum")
def _limit(reader: Reader, op: Operation) -> Value:
    constant = 1 if is_variable(reader, op, 0) else 0
    if is_variable(reader, op, constant):
        refuse_op(op, "operands that are both variable")
    _check_same_types(op)
    bound, infinity = reader.needed_constant(op, constant), np.array(np.inf)
    if op.name == "stablehlo.maximum":
        return clamped(reader, op, 1 - constant, bound, infinity)
    return clamped(reader, op, 1 - constant, -infinity, bound)


@reads("stablehlo.clamp")
def _clamp(reader: Reader, op: Operation) -> Value:
    _check_same_types(op)
    low, high = (reader.needed_constant(op, index) for index in (0, 2))
    return clamped(reader, op, 1, low, high)


def _check_same_types(op: Operation) -> None:
    """Refuse an op on stored values of different scales."""
    types = {scaled_type(value.type) for value in (*op.operands, *op.results)}
    if len(types) > 1:
        refuse_op(op, "operands and result with different scales")


_FUNCTIONS = {"exponential": "exp"}

for _mnemonic in ("tanh", "logistic", "exponential", "rsqrt", "sqrt"):
    _name = _FUNCTIONS.get(_mnemonic, _mnemonic)
    reads(f"stablehlo.{_mnemonic}")(partial(function_value, name=_name))


@reads("stablehlo.negate")
def _negate(reader: Reader, op: Operation) -> Value:
    if scaled_type(op.operands[0].type) is not None:
        refuse_op(op, "quantized operand")
    return reader.mapped(
        op, ElementScaling(np.full(reader.value(op.operands[0]).size, -1.0))
    )


_MOST_EXACT = 2.0**53
"""Smaller integers are exact in `f64`."""


@reads("stablehlo.convert")
def _convert(reader: Reader, op: Operation) -> Value:
    constant = reader.constant(op.operands[0])
    if constant is not None and np.all(np.abs(constant) < _MOST_EXACT):
        return reader.sum(op, (), constant.astype(np.float32).astype(np.float64))
    if op.operands[0].type != op.results[0].type:
        refuse_op(op, f"conversion to {op.results[0].type}")
    return reader.value(op.operands[0])


# Data movement


@reads("stablehlo.reshape")
def _reshape(reader: Reader, op: Operation) -> Value:
    return reader.mapped(op)


@reads("stablehlo.broadcast_in_dim")
def _broadcast(reader: Reader, op: Operation) -> Value:
    dimensions, shape = (
        _property_numbers(op, "broadcast_dimensions"),
        shape_of_result(op),
    )

    def move(indices: Any) -> Any:
        sizes = [1] * len(shape)
        for axis, dimension in enumerate(dimensions):
            sizes[dimension] = indices.shape[axis]
        # Operand dimensions may be permuted.
        order = np.argsort(dimensions) if len(dimensions) else ()
        return np.broadcast_to(indices.transpose(*order).reshape(sizes), shape)

    return reader.gathered(op, move)


@reads("stablehlo.transpose")
def _transpose(reader: Reader, op: Operation) -> Value:
    order = _property_numbers(op, "permutation")
    return reader.gathered(op, lambda indices: indices.transpose(order))


@reads("stablehlo.slice")
def _slice(reader: Reader, op: Operation) -> Value:
    names = "start_indices", "limit_indices", "strides"
    parts = tuple(
        slice(*each)
        for each in zip(*(_property_numbers(op, name) for name in names), strict=True)
    )
    return reader.gathered(op, lambda indices: indices[parts])


@reads("stablehlo.pad")
def _pad(reader: Reader, op: Operation) -> Value:
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    low, high, interior = (_property_numbers(op, name) for name in names)
    if any(interior) or min(*low, *high, 0) < 0:
        refuse_op(op, "interior or negative padding")
    fill = reader.needed_constant(op, 1)
    if fill.any():
        refuse_op(op, f"padding value {fill.ravel()[0]:g}")
    pads = [*zip(low, high, strict=True)]
    return reader.gathered(op, lambda i: np.pad(i, pads, constant_values=-1))


@reads("stablehlo.concatenate")
def _concatenate(reader: Reader, op: Operation) -> Value:
    dimension = cast(Any, op.get_attr_or_prop("dimension")).value.data
    return concatenated(reader, op, int(dimension))


# Reductions


def _reducing_op(op: Operation) -> str:
    """Return the name of the only op of the region, or refuse the reduction."""
    names = [each.name for each in op.regions[0].block.ops]
    if len(names) != 2 or len(op.operands) != 2:
        refuse_op(op, "a reduction other than a sum or a maximum")
    return names[0]


@reads("stablehlo.reduce_window")
def _reduce_window(reader: Reader, op: Operation) -> Value:
    along = cast(Any, op).window
    if len(along) != 4 or not all(_is_trivial(each) for each in (along[0], along[3])):
        refuse_op(op, "a window along other dimensions than height and width")
    height, width = along[1:3]
    _check_paddings(op, height, width)
    image = shape_of(op.operands[0].type)
    window = WindowGeometry(
        (image[0], image[1], image[2], image[3]),
        (height.stride, width.stride),
        (height.dilation, width.dilation),
        _spatial_paddings(height, width),
    )
    sizes = height.size, width.size
    _check_same_types(op)
    name, first = _reducing_op(op), reader.needed_constant(op, 1)
    if name == "stablehlo.maximum" and _is_lowest(op, first):
        groups = window_groups(window, sizes)
        if groups.min(initial=0) < 0:
            refuse_op(op, "a window of padding alone")
        return largest(reader, op, groups)
    if name != "stablehlo.add" or first.any():
        refuse_op(op, f"'{name}' from {first.ravel()[0]:g}")
    return _accumulated(reader, op, window_sums(window, sizes))


def _is_trivial(along: Any) -> bool:
    """Return True if a window has one element of each place along a dimension."""
    padding = along.padding
    padded = padding.low, padding.high, padding.interior
    return (along.size, along.stride) == (1, 1) and not any(padded)


def _check_paddings(op: Operation, *window: Any) -> None:
    """Refuse a window whose operand is dilated, or has elements cut off."""
    for along in window:
        if along.padding.interior or min(along.padding.low, along.padding.high) < 0:
            refuse_op(op, "a dilated operand or negative padding")


def _is_lowest(op: Operation, first: Floats) -> bool:
    """Return True if the initial value of a maximum has no effect."""
    type_ = scaled_type(op.operands[0].type)
    if type_ is None:
        return bool(first.ravel()[0] == -np.inf)
    lowest = type_.storage_range[0] - type_.zero_point_range[0]
    return bool(first.ravel()[0] <= lowest * type_.get_scales())


def _accumulated(reader: Reader, op: Operation, *maps: LinearMap) -> Value:
    type_ = scaled_type(op.results[0].type)
    if type_ is not None and type_.storage_type_integral_width < 32:
        refuse_op(op, "sums of less than 32 bits")
    return reader.mapped(op, *maps)


@reads("stablehlo.reduce")
def _reduce(reader: Reader, op: Operation) -> Value:
    shape = shape_of(op.operands[0].type)
    axes = _property_numbers(op, "dimensions")
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    indices = np.arange(np.prod(shape)).reshape(shape).transpose(*kept, *axes)
    count = math.prod(shape[axis] for axis in axes)
    _check_same_types(op)
    name, first = _reducing_op(op), reader.needed_constant(op, 1)
    if name == "stablehlo.maximum" and _is_lowest(op, first):
        return largest(reader, op, indices.reshape(-1, count))
    if name != "stablehlo.add" or first.any():
        refuse_op(op, f"'{name}' from {first.ravel()[0]:g}")
    gathering = Gathering(indices.ravel(), indices.size)
    sums = matrix_product(reader, op, np.ones((count, 1)))
    return _accumulated(reader, op, gathering, sums)
