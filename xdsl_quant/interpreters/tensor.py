"""
The tensor dialect on NumPy arrays.

Arrays are never written to once they are a value: where it can, an op returns a view of
its operand, and a tensor of equal numbers has the memory of one. An access out of bounds
is an error. The elements of `tensor.empty` are zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnrankedTensorType
from xdsl.interpreter import Interpreter, PythonValues
from xdsl.ir import Attribute, Operation

from xdsl_quant.runtime.array_types import numpy_dtype, shape_text, shortened

from .blocks import run_block
from .implementations import interpreter_functions
from .values import failure, is_any, numbers

# Shapes


def _sizes(
    op: Operation, static: Sequence[int], dynamic: Sequence[Any]
) -> tuple[int, ...]:
    """Sizes with those that are only known now in the place of `?`."""
    known = iter(dynamic)
    sizes = tuple(next(known) if size == DYNAMIC_INDEX else size for size in static)
    if any(size < 0 for size in sizes):
        raise failure(op, f"has the negative size {min(sizes)}")
    return tuple(map(int, sizes))


def _static_shape(type_: Attribute) -> tuple[int, ...]:
    return cast(TensorType, type_).get_shape()


def _check_type(op: Operation, shape: Sequence[int], type_: Attribute) -> None:
    """The shape must be one that the type allows."""
    if isinstance(type_, UnrankedTensorType):
        return
    expected = _static_shape(type_)
    if len(expected) != len(shape) or any(
        size not in (DYNAMIC_INDEX, actual)
        for size, actual in zip(expected, shape, strict=True)
    ):
        raise failure(
            op,
            f"has a value of shape '{shape_text(shape)}' for the type "
            f"'{shortened(type_)}'",
        )


def _reshaped(
    op: Operation, values: NDArray[Any], shape: Sequence[int]
) -> PythonValues:
    if math.prod(shape) != values.size:
        raise failure(
            op,
            f"reshapes {values.size} elements to the shape '{shape_text(shape)}' of "
            f"{math.prod(shape)}",
        )
    return (values.reshape(shape),)


def _cast(
    interpreter: Interpreter, op: tensor.CastOp, args: PythonValues
) -> PythonValues:
    _check_type(op, np.shape(args[0]), op.dest.type)
    return (args[0],)


def _dim(
    interpreter: Interpreter, op: tensor.DimOp, args: PythonValues
) -> PythonValues:
    shape, index = np.shape(args[0]), args[1]
    if not 0 <= index < len(shape):
        raise failure(
            op, f"asks for dimension {index} of a tensor of rank {len(shape)}"
        )
    return (np.int64(shape[index]),)


def _reshape(
    interpreter: Interpreter, op: tensor.ReshapeOp, args: PythonValues
) -> PythonValues:
    shape = _sizes(op, args[1].tolist(), ())
    _check_type(op, shape, op.result.type)
    return _reshaped(op, np.asarray(args[0]), shape)


def _collapse_shape(
    interpreter: Interpreter, op: tensor.CollapseShapeOp, args: PythonValues
) -> PythonValues:
    values = np.asarray(args[0])
    shape = [
        math.prod(values.shape[dimension] for dimension in _group(group))
        for group in op.reassociation
    ]
    _check_type(op, shape, op.result.type)
    return (values.reshape(shape),)


def _group(group: Any) -> Sequence[int]:
    return [dimension.value.data for dimension in group]


def _expand_shape(
    interpreter: Interpreter, op: tensor.ExpandShapeOp, args: PythonValues
) -> PythonValues:
    shape = _sizes(op, op.static_output_shape.get_values(), args[1:])
    return _reshaped(op, np.asarray(args[0]), shape)


# Making tensors


def _filled(value: Any, shape: Sequence[int]) -> PythonValues:
    return (np.broadcast_to(value, shape),)


def _empty(
    interpreter: Interpreter, op: tensor.EmptyOp, args: PythonValues
) -> PythonValues:
    type_ = op.tensor.type
    zero = np.zeros((), numpy_dtype(type_))
    return _filled(zero, _sizes(op, _static_shape(type_), args))


def _splat(
    interpreter: Interpreter, op: tensor.SplatOp, args: PythonValues
) -> PythonValues:
    type_ = op.result.type
    value = numbers(args[0], op.input.type)
    return _filled(value, _sizes(op, _static_shape(type_), args[1:]))


def _from_elements(
    interpreter: Interpreter, op: tensor.FromElementsOp, args: PythonValues
) -> PythonValues:
    type_ = op.result.type
    return (np.array(args, numpy_dtype(type_)).reshape(_static_shape(type_)),)


def _concatenate(
    interpreter: Interpreter, op: tensor.ConcatOp, args: PythonValues
) -> PythonValues:
    axis = op.dim.value.data
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in map(np.shape, args)}
    if len(others) > 1:
        raise failure(op, f"has operands that differ in more than dimension {axis}")
    result = np.concatenate(args, axis)
    _check_type(op, result.shape, op.result.type)
    return (result,)


# Elements


def _checked_indices(
    op: Operation, indices: Sequence[Any], shape: Sequence[int]
) -> tuple[Any, ...]:
    # NumPy takes negative indices from the end.
    for dimension, (index, size) in enumerate(zip(indices, shape, strict=True)):
        array = np.asarray(index)
        if is_any((array < 0) | (array >= size)):
            raise failure(
                op,
                f"has an index out of bounds: dimension {dimension} has size {size}, "
                f"and indices are from {array.min()} to {array.max()}",
            )
    return tuple(indices)


def _extract(
    interpreter: Interpreter, op: tensor.ExtractOp, args: PythonValues
) -> PythonValues:
    values = np.asarray(args[0])
    return (values[_checked_indices(op, args[1:], values.shape)],)


def _insert(
    interpreter: Interpreter, op: tensor.InsertOp, args: PythonValues
) -> PythonValues:
    result = np.array(args[1])
    result[_checked_indices(op, args[2:], result.shape)] = args[0]
    return (result,)


# Slices

SliceOp = tensor.ExtractSliceOp | tensor.InsertSliceOp


def _slices(
    op: SliceOp, shape: Sequence[int], dynamic: Sequence[Any]
) -> tuple[slice, ...]:
    """The part of a tensor that a slice op is about."""
    offset_count, size_count = len(op.offsets), len(op.sizes)
    strides_start = offset_count + size_count
    offsets = _sizes(op, op.static_offsets.get_values(), dynamic[:offset_count])
    sizes = _sizes(
        op, op.static_sizes.get_values(), dynamic[offset_count:strides_start]
    )
    strides = _sizes(op, op.static_strides.get_values(), dynamic[strides_start:])
    slices: list[slice] = []
    for dimension, (offset, size, stride) in enumerate(
        zip(offsets, sizes, strides, strict=True)
    ):
        last = offset + (size - 1) * stride
        if size and last >= shape[dimension]:
            raise failure(
                op,
                f"reaches index {last} of dimension {dimension}, whose size is "
                f"{shape[dimension]}",
            )
        # A stride of 0 repeats one element, which a slice of Python cannot.
        if not stride:
            raise failure(op, f"has stride 0 in dimension {dimension}")
        slices.append(slice(offset, offset + size * stride, stride))
    return tuple(slices)


def _without_unit_dimensions(
    shape: Sequence[int], result_shape: Sequence[int]
) -> Sequence[int]:
    """The shape that is left when sizes 1 are dropped to get the rank of a result."""
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
    interpreter: Interpreter, op: tensor.ExtractSliceOp, args: PythonValues
) -> PythonValues:
    source, *dynamic = args
    part = source[_slices(op, source.shape, dynamic)]
    shape = _without_unit_dimensions(part.shape, _static_shape(op.result.type))
    _check_type(op, shape, op.result.type)
    return (part.reshape(shape),)


def _insert_slice(
    interpreter: Interpreter, op: tensor.InsertSliceOp, args: PythonValues
) -> PythonValues:
    source, dest, *dynamic = args
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
    return (result,)


def _pad(
    interpreter: Interpreter, op: tensor.PadOp, args: PythonValues
) -> PythonValues:
    source, *dynamic = args
    low = _sizes(op, op.static_low.get_values(), dynamic[: len(op.low)])
    high = _sizes(op, op.static_high.get_values(), dynamic[len(op.low) :])
    shape = tuple(
        before + size + after
        for before, size, after in zip(low, source.shape, high, strict=True)
    )
    indices = np.indices(shape, np.int64, sparse=True)
    block = op.region.block
    assert block.last_op is not None
    (padding,) = run_block(interpreter, block, indices, block.last_op.operands)
    result = np.array(np.broadcast_to(padding, shape))
    interior = tuple(
        slice(before, before + size)
        for before, size in zip(low, source.shape, strict=True)
    )
    result[interior] = source
    return (result,)


TENSOR = interpreter_functions(
    {
        tensor.CastOp: _cast,
        tensor.CollapseShapeOp: _collapse_shape,
        tensor.ConcatOp: _concatenate,
        tensor.DimOp: _dim,
        tensor.EmptyOp: _empty,
        tensor.ExpandShapeOp: _expand_shape,
        tensor.ExtractOp: _extract,
        tensor.ExtractSliceOp: _extract_slice,
        tensor.FromElementsOp: _from_elements,
        tensor.InsertOp: _insert,
        tensor.InsertSliceOp: _insert_slice,
        tensor.PadOp: _pad,
        tensor.ReshapeOp: _reshape,
        tensor.SplatOp: _splat,
    }
)
"""The ops of the dialect."""
