"""Integer kernels of convolutions and matrix products."""

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
    wrapped,
)

from .fixed_point import Integers, quantized_multiplier, rescale_wide
from .quantized import (
    Quantized,
    apply_integer_activation,
    round_away,
    scale_of,
    scales_of,
    store_corrected,
)


class Window(NamedTuple):
    """Strides, dilations and padding along height and width."""

    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: str = "VALID"

    def result_size(self, size: int, window: int, axis: int) -> int:
        """Return the number of window positions along one dimension."""
        extent = (window - 1) * self.dilations[axis] + 1
        stride = self.strides[axis]
        if self.padding == "SAME":
            return -(-size // stride)
        return max((size - extent) // stride + 1, 0)

    def padding_before(self, size: int, window: int, axis: int) -> tuple[int, int]:
        """Return the padding before and after the elements along one dimension."""
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
    Return the elements at each window position.

    Args:
        values: an array `[batch, height, width, channels]`.
        sizes: height and width of the window.
        window: strides, dilations and padding.
        fill: value of the padding.

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
        window: strides, dilations and padding.

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
    Return the accumulators of [`depthwise_convolution`][..depthwise_convolution].

    Arguments are those of [`convolution_sums`][..convolution_sums], but weights are
    `[1, height, width, outputs]`.
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
    Return the accumulators of [`transposed_convolution`][..transposed_convolution], for
    a result of the given shape.
    """
    outputs, *sizes, _ = weights.shape
    (top, _), (left, _) = (
        window.padding_before(shape[axis + 1], sizes[axis], axis) for axis in range(2)
    )
    sh, sw = window.strides
    # Result pixels with the same remainders modulo the strides form a phase. Each phase
    # is a convolution with every sh-th row and sw-th column of the reversed window.
    height, width = -(-sizes[0] // sh), -(-sizes[1] // sw)
    rows, columns = -(-(top + shape[1]) // sh), -(-(left + shape[2]) // sw)
    image = values[:, :rows, :columns]
    below, right = rows - image.shape[1], columns - image.shape[2]
    image = np.pad(image, [(0, 0), (height - 1, below), (width - 1, right), (0, 0)])
    # The product of an infinity and padding of the window would be NaN.
    has_padding = bool(sizes[0] % sh or sizes[1] % sw)
    compute = _phases if has_padding and values.dtype.kind == "f" else _merged_phases
    phases = compute(image, weights, window.strides)
    whole = phases.transpose(0, 1, 3, 2, 4, 5)
    whole = whole.reshape(-1, rows * sh, columns * sw, outputs)
    return whole[:, top : top + shape[1], left : left + shape[2]]


def _merged_phases(image: Array, weights: Array, strides: tuple[int, int]) -> Array:
    """Return [`_phases`][.._phases] as one convolution, with padded windows."""
    outputs, *sizes, channels = weights.shape
    (sh, sw), (height, width) = strides, (-(-n // s) for n, s in zip(sizes, strides))
    more = (0, height * sh - sizes[0]), (0, width * sw - sizes[1])
    kernels = np.pad(weights, [(0, 0), *more, (0, 0)])
    kernels = kernels.reshape(outputs, height, sh, width, sw, channels)
    kernels = kernels[:, ::-1, :, ::-1].transpose(2, 4, 0, 1, 3, 5)
    sums = convolution_sums(
        image, kernels.reshape(-1, height, width, channels), Window()
    )
    return sums.reshape(*sums.shape[:3], sh, sw, outputs)


def _phases(image: Array, weights: Array, strides: tuple[int, int]) -> Array:
    """
    Return the phases `[batch, rows, columns, sh, sw, outputs]` of a transposed
    convolution, without multiplications by padding of the window.

    Args:
        image: padded above and before by the largest window of a phase, less 1.
        weights: `[outputs, height, width, channels]`.
        strides: vertical and horizontal stride.
    """
    outputs, *sizes, _ = weights.shape
    (sh, sw), (height, width) = strides, (-(-n // s) for n, s in zip(sizes, strides))

    def phase(i: int, j: int) -> Array:
        kernels = weights[:, i::sh, j::sw][:, ::-1, ::-1]
        above, before = height - kernels.shape[1], width - kernels.shape[2]
        return convolution_sums(image[:, above:, before:], kernels, Window())

    # Phases without a tap of the window are 0.
    rows, columns = min(sh, sizes[0]), min(sw, sizes[1])
    phases = [phase(i, j) for i in range(rows) for j in range(columns)]
    sums: Array = np.stack(phases, axis=3)
    sums = sums.reshape(*sums.shape[:3], rows, columns, outputs)
    return np.pad(sums, [(0, 0)] * 3 + [(0, sh - rows), (0, sw - columns), (0, 0)])


# Kernels


def requantization_ratio(
    x: QuantizationParameters,
    weights: QuantizationParameters,
    result: QuantizationParameters,
    has_exact_product: bool,
) -> NDArray[np.float64]:
    """
    Return the scale of the accumulator divided by the scale of the result.

    Args:
        x: parameters of the first factor.
        weights: parameters of the second factor.
        result: parameters of the result.
        has_exact_product: multiply the scales of the factors in `f64`, as
            `PopulateConvolutionQuantizationParams` does for signed storage, instead of
            in `f32`, as `GetQuantizedConvolutionMultipler` does for unsigned storage.
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
    Convolve an image `[batch, height, width, channels]`.

    Args:
        x: image with 8-bit or 16-bit stored values.
        weights: `[outputs, height, width, channels of a group]`, with zero point 0,
            per-tensor or per-axis along the outputs.
        bias: integers in the scale of the accumulator, or `None`.
        result: parameters of the result.
        window: strides, dilations and padding.
        activation: activation that is applied to the result.
        has_wide_accumulator: accumulate in 64 bits, as kernels do for 16-bit values
            without a 32-bit bias.
        sums: function that computes the accumulators.

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
    rescale = rescale_wide if has_wide_accumulator else rescaled
    scaled = rescale(accumulator, quantized_multiplier(ratio))
    return apply_integer_activation(scaled, result, activation)


depthwise_convolution = partial(convolution, sums=depthwise_sums)
"""
Convolve each channel separately. Arguments are those of `convolution`, but weights are
`[1, height, width, outputs]`; output `i` convolves channel `i * channels // outputs`.
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
    Compute a transposed convolution, whose result has the given shape. Other arguments
    are those of [`convolution`][..convolution].
    """

    def sums(values: Array, kernel: Array, window: Window) -> Array:
        return transposed_sums(values, kernel, shape, window)

    return convolution(x, weights, bias, result, *options, sums=sums)


@primitive
def scaled_in_f64(values: Integers, ratio: Any) -> Any:
    """Return `values * ratio` for an `f64` ratio, rounded half away from zero."""
    return round_away(values * ratio)


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
    Multiply rows by weights.

    The accumulator is multiplied by an `f64` scale and rounded half away from zero.
    With 16-bit weights, the accumulator has 64 bits, and the multiplier 16 bits.

    Args:
        x: stored values; their last dimension is `inputs`.
        weights: `[outputs, inputs]`, per-tensor or per-axis along the outputs.
        bias: integers in the scale of the accumulator, or `None`.
        result: parameters of the result.
        activation: activation that is applied to the result.
        keep_num_dims: keep all dimensions but the last, instead of flattening them.
        has_multiplier: rescale by a 31-bit multiplier instead of a float, as TensorFlow
            Lite's optimized kernels do.

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
        scaled = scaled_in_f64(sums, ratio)
    else:
        rescale = rescale_wide if is_wide else rescaled
        scaled = rescale(sums, quantized_multiplier(ratio))
    values = apply_integer_activation(scaled, result, activation).astype(np.int64)
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
    Multiply matrices, broadcasting their batch dimensions.

    Args:
        x: left matrices.
        y: right matrices.
        result: parameters of the result.
        adj_x: transpose the left matrices.
        adj_y: transpose the right matrices.

    Returns:
        Stored values.
    """
    lhs = x.corrected.swapaxes(-1, -2) if adj_x else x.corrected
    rhs = y.corrected.swapaxes(-1, -2) if adj_y else y.corrected
    multiplier = quantized_multiplier(
        float(x.scale * y.scale) / float(scale_of(result))
    )
    rescale = rescale_wide if x.parameters.storage_width == 16 else rescaled
    return store_corrected(rescale(lhs @ rhs, multiplier), result)


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
    Compute one step of a low-rank filter with integers: see `floats.svdf`.

    Args:
        x: `[batch, inputs]`.
        features: `[filters, inputs]`.
        time: 16-bit `[filters, memory]`.
        bias: `[units]`, or `None`.
        state: 16-bit `[batch, filters * memory]`.
        result: parameters of the result.
        rank: number of filters per unit.

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
    # The kernel accumulates in 32 bits.
    sums = wrapped(sums)
    second = quantized_multiplier(state.scale * time.scale / scale_of(result))
    return store_corrected(rescaled(sums, second), result), memory.reshape(
        state.values.shape
    )
