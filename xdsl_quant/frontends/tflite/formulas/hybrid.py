"""
The kernels of dynamic range quantization: floats, which are quantized to 8 bits when the
kernel runs, times stored weights.

Floats have a scale for each row of a product of matrices, and for each image of a
convolution. Arguments and results are `f32`, and every operation is rounded to it unless
the text says otherwise. All formulas are those that LiteRT's reference kernels were
observed to compute on x86-64, bit for bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.primitives import Array

from .fixed_point import Integers
from .products import Window, convolution_sums, depthwise_sums
from .quantized import Quantized, round_away

Floats = NDArray[np.float32]

_LOW, _HIGH = -128, 127


class _Rows(NamedTuple):
    """Rows that are quantized."""

    corrected: Integers
    """The stored values less the zero point of the row."""

    scales: Array
    """`[rows, 1]`, of `f32`"""


def _symmetric(rows: Floats) -> _Rows:
    """
    Rows with zero point 0: the scale is `max(abs(x)) / 127`, a stored value
    `round(x * (127 / max(abs(x))))`, half away from zero.
    """
    largest = np.maximum(
        np.abs(rows.min(axis=1, keepdims=True)), np.abs(rows.max(axis=1, keepdims=True))
    )
    # Zeros are 0 with any scale.
    largest = np.where(largest == 0, np.float32(1), largest)
    values = round_away(rows * (np.float32(_HIGH) / largest))
    stored = np.clip(values, -_HIGH, _HIGH).astype(np.int64)
    return _Rows(stored, largest / np.float32(_HIGH))


def _asymmetric(rows: Floats) -> _Rows:
    """
    Rows whose range, with 0 in it, becomes -128 to 127. The zero point is that of the end
    of the range with less rounding error, computed in `f64`.
    """
    zero = np.float32(0)
    low = np.minimum(rows.min(axis=1, keepdims=True), zero)
    high = np.maximum(rows.max(axis=1, keepdims=True), zero)
    # Zeros are 0 with any scale and zero point.
    spread = np.where(low == high, np.float32(1), high - low)
    wide = spread.astype(np.float64) / (_HIGH - _LOW)
    below, above = low.astype(np.float64) / wide, high.astype(np.float64) / wide
    is_low_better = np.abs(below) - _LOW < np.abs(above) + _HIGH
    where: Any = np.where
    zero_points = where(is_low_better, _LOW - below, _HIGH - above)
    zero_points = np.clip(round_away(zero_points), _LOW, _HIGH)
    scales = wide.astype(np.float32)
    values = round_away(rows * (np.float32(1) / scales)) + zero_points
    corrected = np.clip(values, _LOW, _HIGH) - zero_points
    return _Rows(corrected.astype(np.int64), scales)


def _scales(weights: Quantized) -> Any:
    """
    Return the scale of each output channel, or the one of all, as files have them.
    """
    return weights.parameters.scales.astype(np.float32)


def _plus_bias(sums: Floats, bias: Floats | None) -> Floats:
    # A sum with 0 is never -0.
    return sums + (np.float32(0) if bias is None else bias)


def fully_connected(
    values: Floats,
    weights: Quantized,
    bias: Floats | None,
    keep_num_dims: bool,
    asymmetric: bool,
) -> Floats:
    """
    Return the product of rows with weights.

    Args:
        values: floats, whose last dimension is that of the weights, or any that can be
            reshaped to it.
        weights: `[outputs, inputs]`, with one scale, or one for each output.
        bias: `[outputs]`, or none.
        keep_num_dims: keep all but the last dimension instead of one for all of them.
        asymmetric: whether rows have zero points.
    """
    matrix = weights.values
    floats = values.reshape(-1, matrix.shape[1])
    rows = _asymmetric(floats) if asymmetric else _symmetric(floats)
    sums = (rows.corrected @ matrix.T).astype(np.float32)
    result = _plus_bias(sums * (_scales(weights) * rows.scales), bias)
    shape = values.shape[:-1] if keep_num_dims else (-1,)
    return result.reshape(*shape, matrix.shape[0])


def convolution(
    values: Floats,
    weights: Quantized,
    bias: Floats | None,
    window: Window,
    is_depthwise: bool,
) -> Floats:
    """
    Return a convolution of images.

    Args:
        values: `[batch, height, width, channels]`.
        weights: `[outputs, height, width, channels of a group]`, or, of a depthwise
            convolution, `[1, height, width, outputs]`. Unless they have a scale for each
            output, or the convolution is depthwise, images have no zero points.
        bias: `[outputs]`, or none.
        window: how the window moves.
        is_depthwise: whether each channel is on its own.

    Returns:
        `[batch, rows, columns, outputs]`.
    """
    has_one_scale = not is_depthwise and not weights.parameters.scales.ndim
    images = values.reshape(len(values), -1)
    rows = _symmetric(images) if has_one_scale else _asymmetric(images)
    function = depthwise_sums if is_depthwise else convolution_sums
    sums = function(rows.corrected.reshape(values.shape), weights.values, window)
    products, scales = sums.astype(np.float32), rows.scales.reshape(-1, 1, 1, 1)
    if is_depthwise or has_one_scale:
        return _plus_bias(products * (_scales(weights) * scales), bias)
    return _plus_bias(products * _scales(weights) * scales, bias)
