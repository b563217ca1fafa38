"""Runs StableHLO as loop nests, and sums of products of NumPy arrays to compare with."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.ir import Operation

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.runtime.loading import apply_passes, parse_module

Array = NDArray[Any]

FLOAT_MEANING = "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant"


def evaluate(text: str, passes: str, *arguments: Array) -> tuple[Array, ...]:
    """The results of the function `f` of a module after some passes."""
    module = parse_module(text)
    apply_passes(
        module,
        f"{passes},convert-stablehlo-to-linalg"
        if passes
        else "convert-stablehlo-to-linalg",
    )
    return tuple(map(np.asarray, run_function(module, "f", *arguments)))


def _dtype(op: Operation) -> np.dtype[Any]:
    return numpy_dtype(op.results[0].type)


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
