"""
Kernels of dynamic range quantization: float activations are quantized to 8 bits at run
time and multiplied by stored weights.

Activations have one scale per matrix row, or per image of a convolution. Arguments and
results are `f32`, and each operation is rounded to `f32` unless the docstring says
otherwise. Results are bit-identical to those of LiteRT's reference kernels on x86-64, or
of XNNPACK's kernels, which LiteRT uses by default.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.primitives import Array, multiply_add

from .fixed_point import Integers
from .products import Window, convolution_sums, depthwise_sums
from .quantized import Quantized, round_away

Floats = NDArray[np.float32]

_LOW, _HIGH = -128, 127


_TOO_SMALL = np.float32(2**-128)
"""Largest scale whose reciprocal overflows `f32`. The kernels' results are undefined."""


class Rows(NamedTuple):
    """Rows of activations as 8-bit integers."""

    steps: Integers
    """Values divided by the scales and rounded; those out of range may saturate."""

    scales: Array
    """Scales `[rows, 1]` in `f32`."""

    zero_points: Integers
    """Zero points `[rows, 1]`."""

    @property
    def stored(self) -> Integers:
        """Stored values."""
        return np.clip(self.steps + self.zero_points, _LOW, _HIGH)


class SymmetricRows(NamedTuple):
    """Rows of activations as 8-bit integers with zero point 0."""

    stored: Integers
    scales: Array
    zero_points: None = None


def _symmetric(rows: Floats) -> SymmetricRows:
    """
    Quantize rows with zero point 0: the scale is `max(abs(x)) / 127`, and stored values
    are `round(x * (127 / max(abs(x))))`, half away from zero.
    """
    largest = np.maximum(
        np.abs(rows.min(axis=1, keepdims=True)), np.abs(rows.max(axis=1, keepdims=True))
    )
    # Rows of zeros are stored as 0 with any scale, and so are rows of tiny numbers.
    largest = np.where(largest <= _HIGH * _TOO_SMALL, np.float32(1), largest)
    values = round_away(rows * (np.float32(_HIGH) / largest))
    stored = np.clip(values, -_HIGH, _HIGH).astype(np.int64)
    return SymmetricRows(stored, largest / np.float32(_HIGH))


def _asymmetric(rows: Floats) -> Rows:
    """
    Quantize rows: map their range, extended to include 0, to the range -128 to 127. The
    zero point is computed in `f64`, from the minimum or the maximum of the range,
    whichever has the smaller rounding error.
    """
    zero = np.float32(0)
    low = np.minimum(rows.min(axis=1, keepdims=True), zero)
    high = np.maximum(rows.max(axis=1, keepdims=True), zero)
    spread = (high - low).astype(np.float64) / (_HIGH - _LOW)
    # Rows of zeros, and of tiny numbers, are stored as zero points with any scale.
    wide = np.where(spread.astype(np.float32) <= _TOO_SMALL, 1 / (_HIGH - _LOW), spread)
    below, above = low.astype(np.float64) / wide, high.astype(np.float64) / wide
    is_low_better = np.abs(below) - _LOW < np.abs(above) + _HIGH
    where: Any = np.where
    zero_points = where(is_low_better, _LOW - below, _HIGH - above)
    zero_points = np.clip(round_away(zero_points), _LOW, _HIGH)
    scales = wide.astype(np.float32)
    return _with_steps(round_away(rows * (np.float32(1) / scales)), scales, zero_points)


def _with_steps(values: Floats, scales: Array, zero_points: Floats) -> Rows:
    steps = np.clip(values, _LOW - _HIGH, _HIGH - _LOW).astype(np.int64)
    return Rows(steps, scales, zero_points.astype(np.int64))


def xnnpack_rows(rows: Floats) -> Rows:
    """
    Quantize rows as XNNPACK does: map their range, extended to include 0, to the range
    -128 to 127. The zero point is computed in `f32`, and rounded half to even.
    """
    zero, lowest, highest = (np.float32(number) for number in (0, _LOW, _HIGH))
    low = np.minimum(rows.min(axis=1, keepdims=True), zero)
    high = np.maximum(rows.max(axis=1, keepdims=True), zero)
    steps = np.float32(_HIGH - _LOW)
    # Rows of zeros have scale 1.
    inverse = steps / np.where(low == high, steps, high - low)
    below, above = low * inverse, high * inverse
    where: Any = np.where
    is_low_worse = (lowest + below) + (highest + above) > zero
    zero_points = where(is_low_worse, lowest - below, highest - above)
    zero_points = np.rint(np.clip(zero_points, lowest, highest))
    return _with_steps(np.rint(rows * inverse), np.float32(1) / inverse, zero_points)


def _scales(weights: Quantized) -> Any:
    return weights.parameters.scales.astype(np.float32)


def _plus_bias(sums: Floats, bias: Floats | None) -> Floats:
    # Adding 0 turns -0 into 0.
    return sums + (np.float32(0) if bias is None else bias)


def quantized_rows(values: Floats, asymmetric: bool) -> Rows | SymmetricRows:
    """Quantize rows to 8 bits, with a zero point for each row if `asymmetric`."""
    return _asymmetric(values) if asymmetric else _symmetric(values)


def rows_by_weights(rows: Rows | SymmetricRows, weights: Quantized) -> Floats:
    """
    Multiply rows by weights `[outputs, inputs]`, which are per-tensor or per-axis along the
    outputs.
    """
    sums = rows.stored @ weights.values.T
    if rows.zero_points is not None:
        sums = sums - rows.zero_points * weights.values.sum(axis=1)
    return sums.astype(np.float32) * (_scales(weights) * rows.scales)


def fully_connected(
    values: Floats,
    weights: Quantized,
    bias: Floats | None,
    keep_num_dims: bool,
    asymmetric: bool,
) -> Floats:
    """
    Multiply rows by weights.

    Args:
        values: floats whose last dimension is `inputs`, or that can be reshaped to
            `[-1, inputs]`.
        weights: `[outputs, inputs]`, per-tensor or per-axis along the outputs.
        bias: `[outputs]`, or `None`.
        keep_num_dims: keep all dimensions but the last, instead of flattening them to
            one dimension.
        asymmetric: quantize rows asymmetrically, with a zero point for each row.
    """
    outputs, inputs = weights.values.shape
    rows = quantized_rows(values.reshape(-1, inputs), asymmetric)
    result = _plus_bias(rows_by_weights(rows, weights), bias)
    shape = values.shape[:-1] if keep_num_dims else (-1,)
    return result.reshape(*shape, outputs)


def xnnpack_fully_connected(
    values: Floats, weights: Quantized, bias: Floats | None, keep_num_dims: bool
) -> Floats:
    """
    Multiply rows by weights as XNNPACK does: see `fully_connected`. Results are
    bit-identical on x86-64 with AVX-512 VNNI.
    """
    matrix = weights.values
    rows = xnnpack_rows(values.reshape(-1, matrix.shape[1]))
    sums = rows.stored @ matrix.T - rows.zero_points * matrix.sum(axis=1)
    result = _scaled_plus_bias(sums, rows.scales, weights, bias)
    shape = values.shape[:-1] if keep_num_dims else (-1,)
    return result.reshape(*shape, matrix.shape[0])


def xnnpack_convolution(
    values: Floats, weights: Quantized, bias: Floats | None, window: Window
) -> Floats:
    """
    Convolve images as XNNPACK does: see `convolution`. Each image has a scale and a zero
    point. For windows of one pixel without strides and groups each pixel has, unless there
    is one weight.
    """
    matrix = weights.values
    is_whole = values.shape[-1] == matrix.shape[-1]
    is_product = is_whole and matrix.shape[1:3] == (1, 1) and matrix.size > 1
    if is_product and window.strides == (1, 1):
        pixels = weights._replace(values=matrix.reshape(len(matrix), -1))
        return xnnpack_fully_connected(values, pixels, bias, keep_num_dims=True)
    rows = xnnpack_rows(values.reshape(len(values), -1))
    sums = _corrected_sums(rows, values.shape, weights, window, is_depthwise=False)
    return _scaled_plus_bias(sums, rows.scales.reshape(-1, 1, 1, 1), weights, bias)


def _scaled_plus_bias(
    sums: Integers, scales: Floats, weights: Quantized, bias: Floats | None
) -> Floats:
    """Scale sums and add the bias, with one rounding of the product and the sum."""
    addend: Any = np.float32(0) if bias is None else bias
    return multiply_add(sums.astype(np.float32) * scales, _scales(weights), addend)


def convolution(
    values: Floats,
    weights: Quantized,
    bias: Floats | None,
    window: Window,
    is_depthwise: bool,
) -> Floats:
    """
    Convolve images. They are quantized with zero point 0 if weights are per-tensor and
    the convolution is not depthwise, otherwise with a zero point for each image.

    Args:
        values: `[batch, height, width, channels]`.
        weights: `[outputs, height, width, channels of a group]`; `[1, height, width,
            outputs]` for a depthwise convolution.
        bias: `[outputs]`, or `None`.
        window: strides, dilations and padding.
        is_depthwise: convolve each channel separately.

    Returns:
        `[batch, rows, columns, outputs]`.
    """
    sums, scales, has_one_scale = _quantized_image_sums(
        values, weights, window, is_depthwise
    )
    products = sums.astype(np.float32)
    if is_depthwise or has_one_scale:
        return _plus_bias(products * (_scales(weights) * scales), bias)
    return _plus_bias(products * _scales(weights) * scales, bias)


def optimized_convolution(
    values: Floats,
    weights: Quantized,
    bias: Floats | None,
    window: Window,
    is_depthwise: bool,
) -> Floats:
    """
    Convolve images as LiteRT's optimized kernels for x86-64 do, which compute convolutions
    that XNNPACK lacks: see `convolution`. Depthwise kernels multiply the sums of the last
    channels, beyond a multiple of four, by the scales in another order.
    """
    sums, scales, has_one_scale = _quantized_image_sums(
        values, weights, window, is_depthwise
    )
    products, factors = sums.astype(np.float32), _scales(weights)
    if not is_depthwise:
        has_groups = values.shape[-1] != weights.values.shape[-1]
        if has_groups and not has_one_scale:
            return _plus_bias(products * factors * scales, bias)
        return _plus_bias(products * (factors * scales), bias)
    channels: int = sums.shape[-1]
    in_vector = np.arange(channels) < channels // 4 * 4
    where: Any = np.where
    first, second = where(in_vector, factors, scales), where(in_vector, scales, factors)
    return _plus_bias(products * first * second, bias)


def _quantized_image_sums(
    values: Floats, weights: Quantized, window: Window, is_depthwise: bool
) -> tuple[Integers, Floats, bool]:
    """
    Return the sums of images as `convolution` quantizes them, the scales of the images,
    and whether weights have one scale.
    """
    # Files do not tell a per-axis type of one scale from a per-tensor type.
    has_one_scale = not is_depthwise and weights.parameters.scales.size == 1
    images = values.reshape(len(values), -1)
    if has_one_scale:
        stored, scales, _ = _symmetric(images)
        sums = convolution_sums(stored.reshape(values.shape), weights.values, window)
    else:
        rows = _asymmetric(images)
        sums = _corrected_sums(rows, values.shape, weights, window, is_depthwise)
        scales = rows.scales
    return sums, scales.reshape(-1, 1, 1, 1), has_one_scale


def _corrected_sums(
    rows: Rows,
    shape: Sequence[int],
    weights: Quantized,
    window: Window,
    is_depthwise: bool,
) -> Integers:
    """Return the zero-point-corrected sums of images, whose shape is `shape`."""
    function = depthwise_sums if is_depthwise else convolution_sums
    # Pixels outside the image are 0.
    pads = [
        window.padding_before(shape[i], weights.values.shape[i], i - 1) for i in (1, 2)
    ]
    padded = rows._replace(
        steps=np.pad(rows.steps.reshape(shape), [(0, 0), *pads, (0, 0)]),
        zero_points=rows.zero_points.reshape(-1, 1, 1, 1),
    )
    axes = (0, 1, 2) if is_depthwise else (1, 2, 3)
    sums = function(padded.stored, weights.values, window._replace(padding="VALID"))
    return sums - padded.zero_points * weights.values.sum(axis=axes)
