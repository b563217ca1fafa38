"""
Quantization as specifications define it, with NumPy; nothing here is shared with
`numerics`.

Each operation rounds to the expressed type. What a specification does not say is NaN.
"""

from __future__ import annotations

import numpy as np

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.parameters import storage_range

from .runtimes import Runtime, Unavailable


def _scale_and_zero_point(parameters: QuantizationParameters) -> tuple[Array, Array]:
    """Both as numbers of the expressed type."""
    dtype = parameters.expressed_dtype
    return parameters.scales.astype(dtype), parameters.zero_points.astype(dtype)


class OnnxDefinition(Runtime):
    """
    ONNX's [QuantizeLinear](https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html):
    `saturate(round_half_to_even(x / y_scale) + y_zero_point)`, which saturates to the whole
    storage type and does not say what NaN becomes; and
    [DequantizeLinear](https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html):
    `(x - x_zero_point) * x_scale`.
    """

    name = "onnx-definition"

    def quantize(self, parameters: QuantizationParameters, values: Array) -> Array:
        scale, _ = _scale_and_zero_point(parameters)
        with np.errstate(all="ignore"):
            rounded = np.rint((values / scale).astype(np.float64))
        if parameters.storage_width > 16:
            raise Unavailable(f"no storage type '{parameters.storage}'")
        bounds = storage_range(parameters.storage)
        return np.clip(rounded + parameters.zero_points, *bounds)

    def dequantize(self, parameters: QuantizationParameters, stored: Array) -> Array:
        scale, _ = _scale_and_zero_point(parameters)
        difference = stored.astype(np.int64) - parameters.zero_points
        with np.errstate(all="ignore"):
            return difference.astype(parameters.expressed_dtype) * scale


class StableHLODefinition(Runtime):
    """
    StableHLO's [uniform_quantize](https://openxla.org/stablehlo/spec#uniform_quantize):
    `round_half_to_even(clamp(storage_min, x / scale + zero_point, storage_max))`; and
    [uniform_dequantize](https://openxla.org/stablehlo/spec#uniform_dequantize):
    `(x - zero_point) * scale`. It does not say what NaN becomes, nor what does not fit the
    storage type because a bound of it is no number of the expressed type.
    """

    name = "stablehlo-definition"

    def quantize(self, parameters: QuantizationParameters, values: Array) -> Array:
        scale, zero_point = _scale_and_zero_point(parameters)
        with np.errstate(all="ignore"):
            shifted = (values / scale + zero_point).astype(np.float64)
        # Bounds are floats of the expressed type, too.
        low, high = np.array([parameters.storage_min, parameters.storage_max]).astype(
            parameters.expressed_dtype
        )
        rounded = np.rint(np.clip(shifted, float(low), float(high)))
        first, last = storage_range(parameters.storage)
        return np.where((rounded < first) | (rounded > last), np.nan, rounded)

    def dequantize(self, parameters: QuantizationParameters, stored: Array) -> Array:
        return OnnxDefinition().dequantize(parameters, stored)
