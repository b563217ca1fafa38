"""
Interpreter functions of the dialects tensor and shape, for NumPy arrays. A shape is an
array of `index`.

Ops return views where possible, because arrays that are values are never modified; splats
store a single element. Out-of-bounds accesses are errors. `tensor.empty` returns zeros.
"""

import math
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import (
    allows_shape,
    numpy_dtype,
    shape_of,
    shape_text,
    shortened,
)

from .implementations import interpreter_functions, run_block
from .values import as_numbers, failure

# Shapes


def _known_sizes(
    op: Operation, static: Sequence[int], dynamic: Iterable[SupportsIndex]
) -> tuple[int, ...]:
    """Return `static` with each `?` replaced by the next size in `dynamic`."""
    known = iter(dynamic)
    sizes = tuple(
        int(next(known)) if size == DYNAMIC_INDEX else size for size in static
    )
    if any(size < 0 for size in sizes):
        raise failure(op, f"has the negative size {min(sizes)}")
    return sizes


def _check_value_shape(op: Operation, shape: Sequence[int], type_: Attribute) -> None:
    if not allows_shape(type_, shape):
        raise failure(
            op,
            f"has a value of shape '{shape_text(shape)}' for the type "
            f"'{shortened(type_)}'",
        )


def _checked_reshape(op: Operation, values: Array, shape: Sequence[int]) -> Array:
    if math.prod(shape) != np.size(values):
        raise failure(
            op,
            f"reshapes {np.size(values)} elements to the shape '{shape_text(shape)}' of "
            f"{math.prod(shape)}",
        )
    return np.reshape(values, shape)


def _cast_tensor(op: tensor.CastOp, value: Array) -> Array:
    _check_value_shape(op, np.shape(value), op.dest.type)
    return value


def _dimension_size(op: tensor.DimOp, value: Array, index: int) -> np.int64:
    shape = np.shape(value)
    if not 0 <= index < len(shape):
        raise failure(
            op, f"has dimension {index}, out of range for a tensor of rank {len(shape)}"
        )
    return np.int64(shape[index])


def _reshape_tensor(op: tensor.ReshapeOp, value: Array, sizes: Array) -> Array:
    shape = _known_sizes(op, sizes.tolist(), ())
    _check_value_shape(op, shape, op.result.type)
    return _checked_reshape(op, value, shape)


def _collapse_shape(op: tensor.CollapseShapeOp, value: Array) -> Array:
    sizes = np.shape(value)
    shape = [
        math.prod(sizes[dimension.value.data] for dimension in group)
        for group in op.reassociation
    ]
    _check_value_shape(op, shape, op.result.type)
    return np.reshape(value, shape)


def _expand_dimensions(
    op: tensor.ExpandShapeOp, value: Array, *dynamic: SupportsIndex
) -> Array:
    return _checked_reshape(
        op, value, _known_sizes(op, op.static_output_shape.get_values(), dynamic)
    )


# Creation


def _empty_tensor(op: tensor.EmptyOp, *dynamic: SupportsIndex) -> Array:
    type_ = op.tensor.type
    zero = np.zeros((), numpy_dtype(type_))
    return np.broadcast_to(zero, _known_sizes(op, shape_of(type_), dynamic))


def _splat_tensor(op: tensor.SplatOp, value: Array, *dynamic: SupportsIndex) -> Array:
    sizes = _known_sizes(op, shape_of(op.result.type), dynamic)
    return np.broadcast_to(as_numbers(value, op.input.type), sizes)


def _tensor_from_elements(op: tensor.FromElementsOp, *elements: Array) -> Array:
    type_ = op.result.type
    return np.array(elements, numpy_dtype(type_)).reshape(shape_of(type_))


def _concatenate(op: tensor.ConcatOp, *parts: Array) -> Array:
    axis = op.dim.value.data
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in map(np.shape, parts)}
    if len(others) > 1:
        raise failure(
            op, f"has operands with different sizes outside of dimension {axis}"
        )
    result = np.concatenate(parts, axis)
    _check_value_shape(op, result.shape, op.result.type)
    return result


# Elements


def _checked_indices(
    op: Operation, indices: Sequence[Array], shape: Sequence[int]
) -> tuple[Array, ...]:
    # NumPy would count negative indices from the end.
    for dimension, (index, size) in enumerate(zip(indices, shape, strict=True)):
        array = np.asarray(index)
        if np.any((array < 0) | (array >= size)):
            raise failure(
                op,
                f"has an index out of bounds: dimension {dimension} has size {size}, "
                f"and indices are from {array.min()} to {array.max()}",
            )
    return tuple(indices)


def _extract_element(op: tensor.ExtractOp, value: Array, *indices: Array) -> Array:
    values = np.asarray(value)
    return values[_checked_indices(op, indices, values.shape)]


def _insert_element(
    op: tensor.InsertOp, element: Array, dest: Array, *indices: Array
) -> Array:
    result = np.array(dest)
    result[_checked_indices(op, indices, result.shape)] = element
    return result


# Slices

SliceOp = tensor.ExtractSliceOp | tensor.InsertSliceOp


def _slices(
    op: SliceOp, shape: Sequence[int], dynamic: Sequence[SupportsIndex]
) -> tuple[slice, ...]:
    """Return the Python slices that a slice op addresses."""
    rest = iter(dynamic)
    offsets, sizes, strides = (
        _known_sizes(op, static.get_values(), rest)
        for static in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    slices: list[slice] = []
    for dimension, (offset, size, stride) in enumerate(
        zip(offsets, sizes, strides, strict=True)
    ):
        last = offset + (size - 1) * stride
        if size and last >= shape[dimension]:
            raise failure(
                op,
                f"accesses index {last} of dimension {dimension} of size "
                f"{shape[dimension]}",
            )
        # Python slices do not support stride 0, which repeats one element.
        if not stride:
            raise failure(op, f"has stride 0 in dimension {dimension}")
        slices.append(slice(offset, offset + size * stride, stride))
    return tuple(slices)


def _without_unit_dimensions(
    shape: Sequence[int], result_shape: Sequence[int]
) -> Sequence[int]:
    """Drop sizes of 1 from `shape` until its rank is that of `result_shape`."""
    excess = len(shape) - len(result_shape)
    kept: list[int] = []
    for size in shape:
        expected = result_shape[len(kept)] if len(kept) < len(result_shape) else None
        if excess and size == 1 and expected != 1:
            excess -= 1
        else:
            kept.append(size)
    return kept


def _extract_slice(
    op: tensor.ExtractSliceOp, source: Array, *dynamic: SupportsIndex
) -> Array:
    part = source[_slices(op, source.shape, dynamic)]
    shape = _without_unit_dimensions(part.shape, shape_of(op.result.type))
    _check_value_shape(op, shape, op.result.type)
    return part.reshape(shape)


def _insert_part(
    op: tensor.InsertSliceOp, source: Array, dest: Array, *dynamic: SupportsIndex
) -> Array:
    result = np.array(dest)
    slices = _slices(op, result.shape, dynamic)
    part = result[slices]
    shape = _without_unit_dimensions(part.shape, source.shape)
    if tuple(shape) != source.shape:
        raise failure(
            op,
            f"inserts a tensor of shape '{shape_text(source.shape)}' as a slice of shape "
            f"'{shape_text(part.shape)}'",
        )
    result[slices] = source.reshape(part.shape)
    return result


def _pad_tensor(
    interpreter: Interpreter, op: tensor.PadOp, source: Array, *dynamic: SupportsIndex
) -> Array:
    rest = iter(dynamic)
    low = _known_sizes(op, op.static_low.get_values(), rest)
    high = _known_sizes(op, op.static_high.get_values(), rest)
    interior = tuple(
        slice(before, before + size)
        for before, size in zip(low, source.shape, strict=True)
    )
    shape = [part.stop + after for part, after in zip(interior, high, strict=True)]
    indices = np.indices(shape, np.int64, sparse=True)
    block = op.region.block
    assert block.last_op is not None
    (padding,) = run_block(interpreter, block, indices, block.last_op.operands)
    result = np.array(np.broadcast_to(padding, shape))
    result[interior] = source
    return result


# Shape dialect


def _shape_of(op: ShapeOfOp, value: Array) -> Array:
    return np.array(np.shape(value), np.int64)


def _shape_size(op: NumElementsOp, shape: Array) -> np.int64:
    return np.int64(math.prod(shape.tolist()))


def _split_at(op: SplitAtOp, shape: Array, index: int) -> tuple[Array, Array]:
    rank = len(shape)
    if not -rank <= index <= rank:
        raise failure(op, f"splits a shape of rank {rank} at {index}")
    position = index + rank if index < 0 else index
    return shape[:position], shape[position:]


TENSOR = interpreter_functions(
    {
        NumElementsOp: _shape_size,
        ShapeOfOp: _shape_of,
        SplitAtOp: _split_at,
        tensor.CastOp: _cast_tensor,
        tensor.CollapseShapeOp: _collapse_shape,
        tensor.ConcatOp: _concatenate,
        tensor.DimOp: _dimension_size,
        tensor.EmptyOp: _empty_tensor,
        tensor.ExpandShapeOp: _expand_dimensions,
        tensor.ExtractOp: _extract_element,
        tensor.ExtractSliceOp: _extract_slice,
        tensor.FromElementsOp: _tensor_from_elements,
        tensor.InsertOp: _insert_element,
        tensor.InsertSliceOp: _insert_part,
        tensor.ReshapeOp: _reshape_tensor,
        tensor.SplatOp: _splat_tensor,
    },
    {tensor.PadOp: _pad_tensor},
)
"""Interpreter functions of the dialects tensor and shape."""
