"""Quantization of NumPy arrays, without IR and without xDSL."""

from xdsl_quant.rounding_mode import ScaleRounding

from .choosing import RangeRule, choose_dynamic_parameters, choose_parameters
from .errors import ErrorScope, QuantizationError, measure_error
from .fixed_point import (
    affine_to_fixed_point,
    apply_scale,
    fixed_point_to_affine,
    multiplier_from_tflite,
    multiplier_to_tflite,
    normalize_multiplier,
    quantize_multiplier,
)
from .fixed_point_requantization import requantize_fixed_point, rescale_multiplier
from .parameters import DynamicParameters, QuantizationParameters
from .quantization import dequantize, quantize, requantize

__all__ = [
    "DynamicParameters",
    "ErrorScope",
    "QuantizationError",
    "QuantizationParameters",
    "RangeRule",
    "ScaleRounding",
    "affine_to_fixed_point",
    "apply_scale",
    "choose_dynamic_parameters",
    "choose_parameters",
    "dequantize",
    "fixed_point_to_affine",
    "measure_error",
    "multiplier_from_tflite",
    "multiplier_to_tflite",
    "normalize_multiplier",
    "quantize",
    "quantize_multiplier",
    "requantize",
    "requantize_fixed_point",
    "rescale_multiplier",
]
