"""StableHLO's ops on NumPy arrays, so that modules with them can be run as they are."""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.machines.numpy import register_implementations
from xdsl_quant.machines.numpy.implementations import (
    Implementation,
    interpreter_functions,
)
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.runtime.loading import apply_passes, parse_module

Array = NDArray[Any]

FLOAT_MEANING = "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant"


def _dtype(op: Operation) -> np.dtype[Any]:
    return numpy_dtype(op.results[0].type)


def _shape(op: Operation) -> tuple[int, ...]:
    return cast(TensorType, op.results[0].type).get_shape()


def _elementwise(function: Callable[..., Any]) -> Implementation:
    def implementation(op: Any, *args: Any):
        return (function(*args).astype(_dtype(op)),)

    return implementation


def _constant(op: stablehlo.ConstantOp, *args: Any):
    assert isinstance(op.value, DenseIntOrFPElementsAttr)
    values = np.array(op.value.get_values(), _dtype(op))
    shape = _shape(op)
    is_splat = values.size != math.prod(shape)
    return (np.broadcast_to(values if is_splat else values.reshape(shape), shape),)


def dot_general(op: stablehlo.DotGeneralOp, lhs: Array, rhs: Array) -> Array:
    numbers = op.dot_dimension_numbers
    pairs = [
        (left.get_values(), right.get_values())
        for left, right in (
            (numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions),
            (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
        )
    ]
    left = [*range(lhs.ndim)]
    right = [*range(lhs.ndim, lhs.ndim + rhs.ndim)]
    for of_left, of_right in pairs:
        for i, j in zip(of_left, of_right, strict=True):
            right[j] = left[i]
    (batch, _), (contracting, _) = pairs
    free = [i for i in left if i not in batch and i not in contracting]
    own = [i for i in right if i >= lhs.ndim]
    dtype = _dtype(op)
    return np.einsum(
        lhs.astype(dtype), left, rhs.astype(dtype), right, [*batch, *free, *own]
    )


def _with_gaps(array: Array, steps: list[int], value: Any) -> Array:
    shape = [
        (n - 1) * s + 1 if n else 0 for n, s in zip(array.shape, steps, strict=True)
    ]
    result = np.full(shape, value, array.dtype)
    result[tuple(slice(None, None, step) for step in steps)] = array
    return result


def pad(array: Array, value: Any, low: Any, high: Any, interior: Any) -> Array:
    array = _with_gaps(array, [i + 1 for i in interior], value)
    widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    array = np.pad(array, widths, constant_values=value)
    return array[
        tuple(
            slice(max(-a, 0), n - max(-b, 0))
            for a, b, n in zip(low, high, array.shape, strict=True)
        )
    ]


def convolution(op: stablehlo.ConvolutionOp, lhs: Array, rhs: Array) -> Array:
    numbers, dtype = op.dimension_numbers, _dtype(op)
    spatial = numbers.input_spatial_dimensions.get_values()
    rank = len(spatial)

    def values(attribute: Any, default: int) -> list[int]:
        return [*attribute.get_values()] if attribute is not None else [default] * rank

    lhs = lhs.astype(dtype).transpose(
        numbers.input_batch_dimension.data,
        numbers.input_feature_dimension.data,
        *spatial,
    )
    rhs = rhs.astype(dtype).transpose(
        numbers.kernel_output_feature_dimension.data,
        numbers.kernel_input_feature_dimension.data,
        *numbers.kernel_spatial_dimensions.get_values(),
    )
    padding = [*op.padding.get_values()] if op.padding is not None else [0] * 2 * rank
    interior = [d - 1 for d in values(op.lhs_dilation, 1)]
    zeros = [0, 0]
    lhs = pad(lhs, 0, zeros + padding[::2], zeros + padding[1::2], zeros + interior)
    rhs = _with_gaps(rhs, [1, 1, *values(op.rhs_dilation, 1)], 0)
    reversal = values(op.window_reversal, 0)
    rhs = np.flip(rhs, tuple(axis + 2 for axis in range(rank) if reversal[axis]))

    axes = tuple(range(2, 2 + rank))
    windows = sliding_window_view(lhs, rhs.shape[2:], axes)
    strides = values(op.window_strides, 1)
    windows = windows[(slice(None),) * 2 + tuple(slice(None, None, s) for s in strides)]
    groups, batches = op.feature_group_count.value.data, op.batch_group_count.value.data
    parts = zip(
        np.split(windows, groups, 1) if groups > 1 else np.split(windows, batches, 0),
        np.split(rhs, max(groups, batches), 0),
        strict=True,
    )
    summed = ([1, *range(2 + rank, 2 + 2 * rank)], [1, *axes])
    result = np.concatenate([np.tensordot(w, k, summed) for w, k in parts], -1)
    order = [0] * (rank + 2)
    order[numbers.output_batch_dimension.data] = 0
    order[numbers.output_feature_dimension.data] = rank + 1
    for i, dimension in enumerate(numbers.output_spatial_dimensions.get_values()):
        order[dimension] = i + 1
    return result.astype(dtype).transpose(order)


def _broadcast(op: stablehlo.BroadcastInDimOp, *args: Any):
    shape = [1] * len(_shape(op))
    for size, dimension in zip(
        args[0].shape, op.broadcast_dimensions.get_values(), strict=True
    ):
        shape[dimension] = size
    return (np.broadcast_to(args[0].reshape(shape), _shape(op)),)


def _slice(op: stablehlo.SliceOp, *args: Any):
    bounds = (op.start_indices, op.limit_indices, op.strides)
    ranges = zip(*(bound.get_values() for bound in bounds), strict=True)
    return (args[0][tuple(slice(*range_) for range_ in ranges)],)


def _compare(op: stablehlo.CompareOp, *args: Any):
    function = {
        "EQ": np.equal,
        "NE": np.not_equal,
        "GE": np.greater_equal,
        "GT": np.greater,
        "LE": np.less_equal,
        "LT": np.less,
    }[op.comparison_direction.data]
    return (function(*args),)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _clamp(low: Array, x: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _reshape(op: stablehlo.ReshapeOp, *args: Any):
    return (args[0].reshape(_shape(op)),)


def _transpose(op: stablehlo.TransposeOp, *args: Any):
    return (args[0].transpose(op.permutation.get_values()),)


def _concatenate(op: stablehlo.ConcatenateOp, *args: Any):
    return (np.concatenate(args, op.dimension.value.data),)


def _pad(op: stablehlo.PadOp, *args: Any):
    amounts = (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
    low, high, interior = (amount.get_values() for amount in amounts)
    return (pad(args[0], args[1], low, high, interior),)


def _dot_general(op: stablehlo.DotGeneralOp, *args: Any):
    return (dot_general(op, *args),)


def _convolution(op: stablehlo.ConvolutionOp, *args: Any):
    return (convolution(op, *args),)


def _reduce(op: stablehlo.ReduceOp, values: Array, initial: Array):
    # Only sums are needed here.
    assert isinstance(op.body.block.first_op, stablehlo.AddOp)
    dimensions = tuple(op.dimensions.get_values())
    return (np.sum(values, dimensions, dtype=_dtype(op)) + initial,)


STABLEHLO = interpreter_functions(
    {
        stablehlo.ConstantOp: _constant,
        stablehlo.AddOp: _elementwise(np.add),
        stablehlo.SubtractOp: _elementwise(np.subtract),
        stablehlo.MultiplyOp: _elementwise(np.multiply),
        stablehlo.DivideOp: _elementwise(np.divide),
        stablehlo.MaximumOp: _elementwise(np.maximum),
        stablehlo.MinimumOp: _elementwise(np.minimum),
        stablehlo.NegateOp: _elementwise(np.negative),
        stablehlo.AbsOp: _elementwise(np.abs),
        stablehlo.ExponentialOp: _elementwise(np.exp),
        stablehlo.LogisticOp: _elementwise(_logistic),
        stablehlo.TanhOp: _elementwise(np.tanh),
        stablehlo.ClampOp: _elementwise(_clamp),
        stablehlo.SelectOp: _elementwise(np.where),
        stablehlo.CompareOp: _compare,
        stablehlo.ReshapeOp: _reshape,
        stablehlo.TransposeOp: _transpose,
        stablehlo.BroadcastInDimOp: _broadcast,
        stablehlo.ConcatenateOp: _concatenate,
        stablehlo.SliceOp: _slice,
        stablehlo.PadOp: _pad,
        stablehlo.ReduceOp: _reduce,
        stablehlo.DotGeneralOp: _dot_general,
        stablehlo.ConvolutionOp: _convolution,
    }
)


def evaluate(text: str, passes: str, *arguments: Array) -> tuple[Array, ...]:
    """The results of the function `f` of a module after some passes."""
    module = parse_module(text)
    apply_passes(module, passes)
    interpreter = Interpreter(module)
    register_implementations(interpreter)
    interpreter.register_implementations(STABLEHLO)
    return tuple(map(np.asarray, interpreter.call_op("f", arguments)))
