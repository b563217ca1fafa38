"""Implementations of contractions, pooling, resizing and reductions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import is_true
from xdsl_quant.frontends.tflite.dialect.products import (
    has_wide_accumulator_without_bias,
)
from xdsl_quant.frontends.tflite.formulas import (
    blockwise,
    floats,
    hybrid,
    products,
    reduction,
    windows,
)
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.numerics import QuantizationParameters as Parameters
from xdsl_quant.runtime.arrays import shape_of
from xdsl_quant.unsupported import Unsupported

from ..windows import window_of
from .computation import (
    Array,
    Computation,
    Implementation,
    OnStoredValues,
    Operands,
    Requirement,
    activation_of,
    block_type,
    formula_of,
    integers_of,
    is_array,
    kernel_of,
    number,
    on_stored_values,
    parameters_of,
    result_sizes,
    takes_one_scale,
)
from .requirements import takes_product, takes_zero_points

# Products

Sums: TypeAlias = Callable[[Operation, Sequence[Array], Array, Array], Array]

_XNNPACK_BLOCK = 32
"""Divisor of the sizes of blocks that XNNPACK supports."""


def _integers(bias: Array | Quantized | None) -> Array | None:
    return bias.values if isinstance(bias, Quantized) else bias


def _has_wide_accumulator(op: Operation, x: Quantized, bias: Array | None) -> bool:
    """Return True if the kernel for 16-bit values accumulates in 64 bits."""
    if x.parameters.storage_width != 16:
        return False
    if bias is None:
        return has_wide_accumulator_without_bias(op)
    return not isinstance(bias, Quantized) and bias.dtype == np.int64


def _weights_without_zero_points(weights: Quantized) -> Quantized:
    """Return weights with zero points subtracted; kernels expect zero point 0."""
    if weights.parameters.has_zero_points:
        return weights._replace(values=weights.corrected)
    return weights


def _convolution(
    sums: Sums,
    roles: Operands,
    is_depthwise: bool | None = None,
) -> Computation:
    """
    Return the implementation of a convolution.

    Args:
        sums: function that computes the accumulators from the op, its operands, the
            image and the weights.
        roles: indices of input, weights and bias.
        is_depthwise: True if the hybrid kernel convolves each channel separately;
            `None` if there is no hybrid kernel.
    """

    assert roles.weights is not None
    assert roles.bias is not None
    indices = roles.input, roles.weights, roles.bias

    def formula(op: Operation, *operands: Array) -> Array:
        x, weights, bias = (operands[index] for index in indices)
        return _with_bias(op, sums(op, operands, x, weights), bias)

    def kernel(op: Operation, result: Parameters, *operands: Any) -> Array:
        def accumulators(x: Array, weights: Array, window: Window) -> Array:
            return sums(op, operands, x, weights)

        x, weights, bias = (operands[index] for index in indices)
        options = window_of(op), activation_of(op), _has_wide_accumulator(op, x, bias)
        weights, bias = _weights_without_zero_points(weights), _integers(bias)
        return products.convolution(x, weights, bias, result, *options, accumulators)

    hybrid_or_none = (
        None
        if is_depthwise is None
        else partial(_hybrid_convolution, is_depthwise=is_depthwise)
    )
    return Computation(formula, kernel, takes_product(roles), roles, hybrid_or_none)


def _hybrid_convolution(
    op: Operation,
    x: Array,
    weights: Quantized,
    bias: Array | None,
    is_depthwise: bool = False,
) -> Array:
    values = hybrid.convolution(x, weights, bias, window_of(op), is_depthwise)
    return floats.apply_activation(values, activation_of(op))


def _xnnpack_convolution(
    op: Operation, x: Array, weights: Quantized, bias: Array | None
) -> Array:
    """Return the result of XNNPACK; of LiteRT's optimized kernel if XNNPACK has none."""
    if weights.parameters.storage_width < 8 or _is_curved(op):
        values = hybrid.optimized_convolution(x, weights, bias, window_of(op), False)
    else:
        values = hybrid.xnnpack_convolution(x, weights, bias, window_of(op))
    return floats.apply_activation(values, activation_of(op))


def _optimized_depthwise_convolution(
    op: Operation, x: Array, weights: Quantized, bias: Array | None
) -> Array:
    """Return the result of LiteRT's optimized kernel, as XNNPACK has none."""
    values = hybrid.optimized_convolution(x, weights, bias, window_of(op), True)
    return floats.apply_activation(values, activation_of(op))


def _is_curved(op: Operation) -> bool:
    """Return True for activations without a kernel in XNNPACK."""
    return activation_of(op) not in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def _image_sums(function: Callable[..., Array]) -> Sums:
    def sums(
        op: Operation, operands: Sequence[Array], x: Array, weights: Array
    ) -> Array:
        return function(x, weights, window_of(op))

    return sums


def _transposed_sums(
    op: Operation, operands: Sequence[Array], x: Array, weights: Array
) -> Array:
    batch, rows, columns, channels = result_sizes(op, operands[0])
    shape = batch, rows, columns, channels
    return products.transposed_sums(x, weights, shape, window_of(op))


def _with_bias(op: Operation, sums: Array, bias: Array | None) -> Array:
    return floats.apply_activation(
        sums if bias is None else sums + bias, activation_of(op)
    )


def _size(sizes: Array) -> tuple[int, int]:
    rows, columns = integers_of(sizes)
    return rows, columns


def _fully_connected_formula(
    op: tfl.FullyConnectedOp, x: Array, weights: Array, bias: Array | None
) -> Array:
    keep_num_dims = is_true(op.keep_num_dims)
    return _with_bias(op, floats.fully_connected(x, weights, keep_num_dims), bias)


def _blockwise_scales(op: tfl.FullyConnectedOp) -> Array:
    """
    Return the scales of weights as the kernel rounds them: to `bf16`, half to even, if
    the size of blocks is a multiple of 32. Others are left to LiteRT's optimized kernel.
    LiteRT has these kernels for 4 bits alone; other widths have the same formula.

    Raises:
        Unsupported: if the kernel does not support the weights.
    """
    type_, shape = block_type(op.filter.type), shape_of(op.filter.type)
    assert type_ is not None
    # The last block of a row must not be shorter than the others.
    sizes = {axis: count * size for axis, (count, size) in type_.get_blocks().items()}
    if (
        not isinstance(storage := type_.storage_type, IntegerType)
        or storage.bitwidth > 8
        or not type_.is_signed
        or [*type_.block_parameter_attrs] != ["scales"]
        or sizes != dict(enumerate(shape))
        or type_.block_sizes.get_values()[0] != 1
    ):
        raise Unsupported(
            "has weights other than signed integers of up to 8 bits with a scale for each "
            "block of a row, which the kernel requires"
        )
    scales = type_.get_numbers()["scales"].astype(np.float32)
    if not (scales > 0).all():
        raise Unsupported("has a scale that is not positive, which the kernel refuses")
    if type_.block_sizes.get_values()[1] % _XNNPACK_BLOCK:
        return scales
    bits = scales.view(np.uint32)
    half = np.uint32(0x7FFF) + (bits >> 16 & 1)
    return (bits + half & np.uint32(0xFFFF0000)).view(np.float32)


def _blockwise_product(
    op: tfl.FullyConnectedOp, x: Array, weights: Array, bias: Array | None
) -> Array:
    if not is_array(weights):
        raise Unsupported("has blocks of weights that are not constant")
    stored, scales = weights.astype(np.int64), _blockwise_scales(op)
    keep_num_dims = is_true(op.keep_num_dims)
    result = blockwise.fully_connected(x, stored, scales, bias, keep_num_dims)
    return floats.apply_activation(result, activation_of(op))


def _hybrid_fully_connected(
    op: tfl.FullyConnectedOp, x: Array, weights: Quantized, bias: Array | None
) -> Array:
    options = is_true(op.keep_num_dims), is_true(op.asymmetric_quantize_inputs)
    result = hybrid.fully_connected(x, weights, bias, *options)
    return floats.apply_activation(result, activation_of(op))


def _xnnpack_fully_connected(
    op: tfl.FullyConnectedOp, x: Array, weights: Quantized, bias: Array | None
) -> Array:
    """Return the result of XNNPACK; of the reference kernel if XNNPACK has no kernel."""
    row_bits = weights.values.shape[1] * weights.parameters.storage_width
    if row_bits % 8 or _is_curved(op):
        return _hybrid_fully_connected(op, x, weights, bias)
    keep_num_dims = is_true(op.keep_num_dims)
    result = hybrid.xnnpack_fully_connected(x, weights, bias, keep_num_dims)
    return floats.apply_activation(result, activation_of(op))


def _fully_connected(has_multiplier: bool) -> Computation:
    def kernel(
        op: Any,
        result: Parameters,
        x: Quantized,
        weights: Quantized,
        bias: Array | None,
    ) -> Array:
        return products.fully_connected(
            x,
            weights,
            _integers(bias),
            result,
            activation_of(op),
            is_true(op.keep_num_dims),
            has_multiplier,
        )

    roles = Operands(plain=(2,), weights=1, bias=2)
    return Computation(
        _fully_connected_formula,
        kernel,
        takes_product(roles, 16),
        roles,
        _hybrid_fully_connected,
        _blockwise_product,
    )


def _adj_x(op: tfl.BatchMatMulOp) -> bool:
    return is_true(op.adj_x)


def _adj_y(op: tfl.BatchMatMulOp) -> bool:
    return is_true(op.adj_y)


# Images


def _sizes(op: Any) -> tuple[int, int]:
    return number(op.filter_height), number(op.filter_width)


def _pooling(
    on_floats: Callable[..., Array], function: Callable[..., Array]
) -> Implementation:
    def formula(op: Operation, x: Array) -> Array:
        return floats.apply_activation(
            on_floats(x, _sizes(op), window_of(op)), activation_of(op)
        )

    def kernel(op: Operation, result: Parameters, x: Quantized) -> Array:
        return function(x.values, result, _sizes(op), window_of(op), activation_of(op))

    return Computation(formula, kernel, takes_one_scale)


def _centers(op: Any) -> tuple[bool, bool]:
    return is_true(op.align_corners), is_true(op.half_pixel_centers)


def _resize_bilinear_of_floats(op: Operation, x: Array, size: Array) -> Array:
    return floats.resize_bilinear(x, _size(size), *_centers(op))


def _resize_bilinear(
    op: Operation, result: Parameters, x: Quantized, size: Array
) -> Array:
    if not result.is_signed:
        # The kernel for unsigned storage computes with floats.
        values = x.values.astype(np.float32)
        means = floats.resize_bilinear(values, _size(size), *_centers(op))
        return np.floor(means + np.float32(0.5)).astype(np.int64)
    return windows.resize_bilinear(x.values, _size(size), *_centers(op))


# Along dimensions


def _without_reduced(op: Any, values: Array, axes: Array) -> Array:
    """Remove the reduced dimensions, which have size 1, unless the op keeps them."""
    if is_true(op.keep_dims):
        return values
    return np.squeeze(values, tuple({a % values.ndim for a in integers_of(axes)}))


def _reduction(
    on_numbers: Callable[..., Array],
    function: Callable[..., Array] | None = None,
    requirement: Requirement | None = None,
) -> Implementation:
    """
    Return the implementation of a reduction.

    Args:
        on_numbers: formula of an array and axes; reduced dimensions keep size 1.
        function: integer kernel of the operand, axes and result parameters; `None` to
            apply the formula to stored values.
        requirement: quantization parameters that the kernel supports.
    """

    def formula(op: Operation, x: Array, axes: Array) -> Array:
        return _without_reduced(op, on_numbers(x, integers_of(axes)), axes)

    def kernel(op: Operation, result: Parameters, x: Quantized, axes: Array) -> Array:
        assert function is not None
        return _without_reduced(op, function(x, integers_of(axes), result), axes)

    return Computation(
        formula,
        kernel if function else OnStoredValues(formula),
        requirement,
        Operands((1,)),
    )


def _keeping_dims(function: Any) -> Callable[..., Array]:
    def reduce(x: Array, axes: Sequence[int]) -> Array:
        return function(x, axis=tuple({a % x.ndim for a in axes}), keepdims=True)

    return reduce


def _finite_ends(op: Any, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the smallest and the largest finite value of the operand's elements."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    if (parameters := parameters_of(op.input.type)) is not None:
        return parameters.storage_min, parameters.storage_max
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _reduction_to_extreme(function: Callable[..., Array], end: int) -> Implementation:
    """
    Return the implementation of `reduce_max` or `reduce_min`. Without elements, the result
    is the end (0 or 1) of the range of the type.
    """

    def formula(op: Operation, x: Array, axes: Array) -> Array:
        dimensions = [axis % x.ndim for axis in integers_of(axes)]
        if empty := [d for d in dimensions if not x.shape[d]]:
            more = [(0, int(d in empty)) for d in range(x.ndim)]
            x = np.pad(x, more, constant_values=_finite_ends(op, x.dtype)[end])
        return _without_reduced(op, _keeping_dims(function)(x, dimensions), axes)

    return on_stored_values(formula, 1)


def _arg_extreme(function: Callable[..., Array], worst: float) -> Implementation:
    """Return the implementation of `arg_max` or `arg_min`. NaN wins only at index 0."""

    def index(op: Operation, x: Array, dim: Array) -> Array:
        axis = integers_of(dim)[0] % x.ndim
        if x.dtype.kind != "f":
            return function(x, axis=axis)
        # The kernel starts with the first element; comparisons with NaN are false.
        where: Any = np.where
        first = x[(slice(None),) * axis + (0,)]
        numbers = where(x != x, x.dtype.type(worst), x)
        return where(first != first, 0, function(numbers, axis=axis))

    return on_stored_values(index, 1)


_FULLY_CONNECTED = _fully_connected(has_multiplier=False)

_CONV_2D = _convolution(
    _image_sums(products.convolution_sums),
    Operands(plain=(2,), weights=1, channels=0, bias=2),
    is_depthwise=False,
)

_DEPTHWISE_CONV_2D = _convolution(
    _image_sums(products.depthwise_sums),
    Operands(plain=(2,), weights=1, channels=3, bias=2),
    is_depthwise=True,
)

PRODUCTS: Mapping[type[Operation], Implementation] = {
    tfl.Conv2DOp: _CONV_2D,
    tfl.DepthwiseConv2DOp: _DEPTHWISE_CONV_2D,
    tfl.TransposeConvOp: _convolution(
        _transposed_sums, Operands(plain=(0, 3), input=2, weights=1, bias=3)
    ),
    tfl.FullyConnectedOp: _FULLY_CONNECTED,
    tfl.BatchMatMulOp: Computation(
        formula_of(floats.batch_matmul, _adj_x, _adj_y),
        kernel_of(products.batch_matmul, _adj_x, _adj_y),
        takes_product(Operands(weights=1), 16),
    ),
    tfl.AveragePool2DOp: _pooling(floats.average_pool_2d, windows.average_pool_2d),
    tfl.MaxPool2DOp: _pooling(floats.max_pool_2d, windows.max_pool_2d),
    tfl.ResizeBilinearOp: Computation(
        _resize_bilinear_of_floats,
        _resize_bilinear,
        takes_one_scale,
        Operands((1,)),
    ),
    tfl.MeanOp: _reduction(floats.mean, reduction.mean),
    tfl.SumOp: _reduction(_keeping_dims(np.sum), reduction.sum_of),
    tfl.ReduceProdOp: _reduction(
        _keeping_dims(np.prod), reduction.reduce_prod, takes_zero_points
    ),
    tfl.ReduceMaxOp: _reduction_to_extreme(np.max, 0),
    tfl.ReduceMinOp: _reduction_to_extreme(np.min, 1),
    tfl.ArgMaxOp: _arg_extreme(np.argmax, -np.inf),
    tfl.ArgMinOp: _arg_extreme(np.argmin, np.inf),
}
"""Implementations of contractions, pooling, resizing and reductions."""

MULTIPLIER_KERNELS: Mapping[type[Operation], Implementation] = {
    tfl.FullyConnectedOp: _fully_connected(has_multiplier=True),
}
"""Kernels that rescale by integer multipliers instead of the reference kernels' floats."""

XNNPACK_KERNELS: Mapping[type[Operation], Implementation] = {
    tfl.FullyConnectedOp: replace(_FULLY_CONNECTED, hybrid=_xnnpack_fully_connected),
    tfl.Conv2DOp: replace(_CONV_2D, hybrid=_xnnpack_convolution),
    tfl.DepthwiseConv2DOp: replace(
        _DEPTHWISE_CONV_2D, hybrid=_optimized_depthwise_convolution
    ),
}
"""Kernels of dynamic range quantization that differ from the reference kernels."""
