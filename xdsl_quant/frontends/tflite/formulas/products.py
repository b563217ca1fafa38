"""The integer kernels that multiply and accumulate."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.numerics.primitives import (
    Array,
    exact_factors,
    primitive,
    rescaled,
    saturated,
)

from .fixed_point import Integers, quantized_multiplier, rescaled_wide
from .quantized import (
    Quantized,
    activated_integers,
    clamped,
    round_away,
    scale_of,
    scales_of,
)


class Window(NamedTuple):
    """How a window moves along height and width."""

    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: str = "VALID"

    def result_size(self, size: int, window: int, axis: int) -> int:
        """Return the number of places along one dimension."""
        extent = (window - 1) * self.dilations[axis] + 1
        stride = self.strides[axis]
        if self.padding == "SAME":
            return -(-size // stride)
        return max((size - extent) // stride + 1, 0)

    def padding_before(self, size: int, window: int, axis: int) -> tuple[int, int]:
        """What is added before and behind a dimension."""
        if self.padding != "SAME":
            return 0, 0
        extent = (window - 1) * self.dilations[axis] + 1
        count = self.result_size(size, window, axis)
        total = max((count - 1) * self.strides[axis] + extent - size, 0)
        return total // 2, total - total // 2


@primitive
def windows(
    values: Array, sizes: tuple[int, int], window: Window, fill: float = 0
) -> Array:
    """
    Return the elements below each place of a window.

    Args:
        values: an array `[batch, height, width, channels]`.
        sizes: height and width of the window.
        window: how it moves.
        fill: what is outside of the image.

    Returns:
        A view `[batch, rows, columns, channels, window height, window width]`.
    """
    pads = [
        window.padding_before(values.shape[axis + 1], sizes[axis], axis)
        for axis in range(2)
    ]
    padded = np.pad(values, [(0, 0), *pads, (0, 0)], constant_values=fill)
    extents = [(sizes[a] - 1) * window.dilations[a] + 1 for a in range(2)]
    view = sliding_window_view(padded, extents, axis=(1, 2))
    (sh, sw), (dh, dw) = window.strides, window.dilations
    rows, columns = (
        window.result_size(values.shape[axis + 1], sizes[axis], axis)
        for axis in range(2)
    )
    return view[:, ::sh, ::sw, :, ::dh, ::dw][:, :rows, :columns]


# Sums of products, of integers or floats


@primitive
def convolution_sums(values: Array, weights: Array, window: Window) -> Array:
    """
    Return the accumulators of [`convolution`][..convolution].

    Args:
        values: `[batch, height, width, channels]`.
        weights: `[outputs, height, width, channels of a group]`, of the same dtype.
        window: how the window moves.

    Returns:
        `[batch, rows, columns, outputs]`.
    """
    outputs, height, width, depth = weights.shape
    groups = values.shape[-1] // depth
    factors, weights = exact_factors(values, weights, height * width * depth)
    view = windows(factors, (height, width), window)
    if groups == 1:
        sums = np.einsum("byxcij,oijc->byxo", view, weights, optimize=True)
        return sums.astype(values.dtype)
    view = view.reshape(*view.shape[:3], groups, depth, height, width)
    kernels = weights.reshape(groups, outputs // groups, height, width, depth)
    sums = np.einsum("byxgcij,goijc->byxgo", view, kernels, optimize=True)
    return sums.astype(values.dtype).reshape(*view.shape[:3], outputs)


@primitive
def depthwise_sums(values: Array, weights: Array, window: Window) -> Array:
    """
    Return the accumulators of [`depthwise_convolution`][..depthwise_convolution]: as
    [`convolution_sums`][..convolution_sums], for weights `[1, height, width, outputs]`.
    """
    _, height, width, outputs = weights.shape
    channels = values.shape[-1]
    view = windows(values, (height, width), window)
    kernels = weights[0].reshape(height, width, channels, outputs // channels)
    sums = np.einsum("byxcij,ijck->byxck", view, kernels)
    return sums.reshape(*view.shape[:3], outputs)


@primitive
def transposed_sums(
    values: Array,
    weights: Array,
    shape: tuple[int, int, int, int],
    window: Window,
) -> Array:
    """
    Return the accumulators of [`transposed_convolution`][..transposed_convolution]: as
    [`convolution_sums`][..convolution_sums], for a result of the given shape.
    """
    _, height, width, _ = weights.shape
    batch, rows, columns, channels = values.shape
    (top, _), (left, _) = (
        window.padding_before(shape[axis + 1], (height, width)[axis], axis)
        for axis in range(2)
    )
    sh, sw = window.strides
    # Zeros between elements and round them, over which the reversed window moves.
    apart = np.pad(
        values.reshape(batch, rows, 1, columns, 1, channels),
        [(0, 0), (0, 0), (0, sh - 1), (0, 0), (0, sw - 1), (0, 0)],
    ).reshape(batch, rows * sh, columns * sw, channels)
    below = max(top + shape[1] - rows * sh, 0)
    right = max(left + shape[2] - columns * sw, 0)
    padded = np.pad(apart, [(0, 0), (height - 1, below), (width - 1, right), (0, 0)])
    sums = convolution_sums(padded, weights[:, ::-1, ::-1], Window())
    return sums[:, top : top + shape[1], left : left + shape[2]]


# Kernels


def requantization_ratio(
    x: QuantizationParameters,
    weights: QuantizationParameters,
    result: QuantizationParameters,
    has_exact_product: bool,
) -> NDArray[np.float64]:
    """
    Return the scale of sums of products divided by the scale of the result.

    Args:
        x: the parameters of one factor.
        weights: those of the other one.
        result: those of the result.
        has_exact_product: multiply the scales of the factors in 64 bits, as
            `PopulateConvolutionQuantizationParams` does for signed values, or in 32 bits,
            as `GetQuantizedConvolutionMultipler` does for unsigned ones.
    """
    dtype = np.float64 if has_exact_product else np.float32
    products = scales_of(x).astype(dtype) * scales_of(weights).astype(dtype)
    return products.astype(np.float64) / float(scale_of(result))


def convolution(
    x: Quantized,
    weights: Quantized,
    bias: Integers | None,
    result: QuantizationParameters,
    window: Window,
    activation: str = "NONE",
    has_wide_accumulator: bool = False,
    sums: Callable[[Array, Array, Window], Array] = convolution_sums,
) -> Integers:
    """
    Return a convolution of an image `[batch, height, width, channels]`.

    Args:
        x: the image, with stored values of 8 or 16 bits.
        weights: `[outputs, height, width, channels of a group]`, with zero point 0, and one
            scale or one for each output.
        bias: what is added to the accumulator, in its scale.
        result: the parameters of the result.
        window: how the window moves.
        activation: what is computed of the sums.
        has_wide_accumulator: whether the accumulator has 64 bits, as it has for values of
            16 bits without a bias of 32 bits.
        sums: computes the accumulators.

    Returns:
        Stored values `[batch, rows, columns, outputs]`.
    """
    accumulator = sums(x.corrected, weights.values, window)
    if bias is not None:
        accumulator = accumulator + bias
    has_exact_product = x.parameters.is_signed
    ratio = requantization_ratio(
        x.parameters, weights.parameters, result, has_exact_product
    )
    rescale = rescaled_wide if has_wide_accumulator else rescaled
    scaled = rescale(accumulator, quantized_multiplier(ratio))
    return activated_integers(scaled, result, activation)


depthwise_convolution = partial(convolution, sums=depthwise_sums)
"""
A convolution of each channel, with the arguments of `convolution` but for weights
`[1, height, width, outputs]`: output `c * multiplier + k` has channel `c`.
"""


def transposed_convolution(
    x: Quantized,
    weights: Quantized,
    bias: Integers | None,
    result: QuantizationParameters,
    shape: tuple[int, int, int, int],
    *options: Any,
) -> Integers:
    """
    Return the gradient of a convolution whose image has the given shape, with the
    arguments of [`convolution`][..convolution]: each element of `x` adds the window
    times itself.
    """

    def sums(values: Array, kernel: Array, window: Window) -> Array:
        return transposed_sums(values, kernel, shape, window)

    return convolution(x, weights, bias, result, *options, sums=sums)


def fully_connected(
    x: Quantized,
    weights: Quantized,
    bias: Integers | None,
    result: QuantizationParameters,
    activation: str = "NONE",
    keep_num_dims: bool = False,
    has_multiplier: bool = False,
) -> Integers:
    """
    Return the product of rows with weights. The accumulator is multiplied with a float
    of 64 bits and rounded half away from zero; with weights of 16 bits, it has 64 bits
    and is multiplied with a multiplier of 16 bits.

    Args:
        x: stored values, whose last dimension is that of the weights.
        weights: `[outputs, inputs]`, with one scale, or one for each output.
        bias: what is added to the accumulator, in its scale.
        result: the parameters of the result.
        activation: what is computed of the sums.
        keep_num_dims: keep all but the last dimension instead of one for all of them.
        has_multiplier: multiply the accumulator with a multiplier of 31 bits instead of a
            float, as other kernels than the reference do.

    Returns:
        Stored values.
    """
    parameters = weights.parameters
    matrix = weights.values
    if parameters.quantized_dimension is None:
        matrix = weights.corrected
    rows = x.corrected.reshape(-1, matrix.shape[1])
    sums = rows @ matrix.T
    if bias is not None:
        sums = sums + bias
    is_wide = parameters.storage_width == 16
    is_scaled_as_float = not is_wide and not has_multiplier
    ratio = requantization_ratio(x.parameters, parameters, result, is_scaled_as_float)
    if is_scaled_as_float:
        scaled = round_away(sums * ratio)
    else:
        rescale = rescaled_wide if is_wide else rescaled
        scaled = rescale(sums, quantized_multiplier(ratio))
    values = activated_integers(scaled, result, activation).astype(np.int64)
    shape = x.values.shape[:-1] if keep_num_dims else (-1,)
    return values.reshape(*shape, matrix.shape[0])


def batch_matmul(
    x: Quantized,
    y: Quantized,
    result: QuantizationParameters,
    adj_x: bool = False,
    adj_y: bool = False,
) -> Integers:
    """
    Products of matrices, whose other dimensions are broadcast.

    Args:
        x: the left ones.
        y: the right ones.
        result: the parameters of the result.
        adj_x: transpose the left ones.
        adj_y: transpose the right ones.

    Returns:
        Stored values.
    """
    lhs = x.corrected.swapaxes(-1, -2) if adj_x else x.corrected
    rhs = y.corrected.swapaxes(-1, -2) if adj_y else y.corrected
    multiplier = quantized_multiplier(
        float(x.scale * y.scale) / float(scale_of(result))
    )
    rescale = rescaled_wide if x.parameters.storage_width == 16 else rescaled
    return clamped(rescale(lhs @ rhs, multiplier), result)


def svdf(
    x: Quantized,
    features: Quantized,
    time: Quantized,
    bias: Integers | None,
    state: Quantized,
    result: QuantizationParameters,
    rank: int,
) -> tuple[Integers, Integers]:
    """
    Return one step of a filter that is a sum of products of two vectors: of features
    and of time.

    Args:
        x: `[batch, inputs]`.
        features: `[filters, inputs]`.
        time: `[filters, memory]` with 16 bits.
        bias: `[units]`, or none.
        state: `[batch, filters * memory]` with 16 bits.
        result: the parameters of the result.
        rank: how many filters one unit has.

    Returns:
        Stored values `[batch, units]`, and the next state.
    """
    batch, filters = x.values.shape[0], features.values.shape[0]
    first = quantized_multiplier(x.scale * features.scale / state.scale)
    column = saturated(rescaled(x.corrected @ features.values.T, first), 16)
    memory = state.values.reshape(batch, filters, -1)
    memory = np.concatenate([memory[..., 1:], column[..., None]], axis=-1)
    sums = (memory * time.values).sum(axis=-1).reshape(batch, -1, rank).sum(axis=-1)
    if bias is not None:
        sums = sums + bias
    second = quantized_multiplier(state.scale * time.scale / scale_of(result))
    return clamped(rescaled(sums, second), result), memory.reshape(state.values.shape)
