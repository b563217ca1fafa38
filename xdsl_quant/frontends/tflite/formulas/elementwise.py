"""Integer kernels of elementwise ops that rescale with fixed-point multipliers."""

from collections.abc import Callable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.numerics.primitives import (
    primitive,
    radicand,
    rescaled,
    rounded_product,
    rounding_divide,
    saturated,
    saturating_shift,
    wrapped,
)

from .fixed_point import (
    Integers,
    Multiplier,
    checked_log2,
    inverse_square_root,
    quantized_multiplier,
)
from .quantized import (
    Quantized,
    activation_bounds,
    apply_integer_activation,
    round_away,
    scale_of,
    scales_of,
    store_corrected,
)

# Sums


def add(
    lhs: Quantized,
    rhs: Quantized,
    result: QuantizationParameters,
    activation: str = "NONE",
    pot_scale_int16: bool = False,
) -> Integers:
    """
    Return the sum of two tensors, broadcast as in NumPy.

    Args:
        result: parameters of the result.
        activation: activation that is applied to the sum.
        pot_scale_int16: shift the operands instead of rescaling them. This requires
            16-bit storage, zero points of 0, and power-of-two scales (base-2 logarithms
            within 1e-3 of integers); no scale may exceed that of the result.

    Returns:
        Stored values.
    """
    return _sum(lhs, rhs, result, activation, pot_scale_int16, 1)


def subtract(
    lhs: Quantized,
    rhs: Quantized,
    result: QuantizationParameters,
    activation: str = "NONE",
    pot_scale_int16: bool = False,
) -> Integers:
    """Return the difference of two tensors. Arguments are those of [`add`][..add]."""
    return _sum(lhs, rhs, result, activation, pot_scale_int16, -1)


def _sum(
    lhs: Quantized,
    rhs: Quantized,
    result: QuantizationParameters,
    activation: str,
    pot_scale_int16: bool,
    sign: int,
) -> Integers:
    is_wide = result.storage_width == 16
    if is_wide and pot_scale_int16:
        result_exponent = checked_log2(scale_of(result))
        shifts = [
            result_exponent - exponent
            for x in (lhs, rhs)
            if result_exponent is not None
            and (exponent := checked_log2(x.scale)) is not None
        ]
        if len(shifts) == 2 and min(shifts) >= 0:
            return _shifted_sum(lhs, rhs, result, activation, shifts, sign)
    left_shift = 15 if is_wide else 20
    twice = _twice_larger_scale(lhs, rhs)
    first, second = (
        rescaled(
            x.corrected << left_shift, quantized_multiplier(float(x.scale) / twice)
        )
        for x in (lhs, rhs)
    )
    unit = float(np.float32(1 << left_shift) * scale_of(result))
    total = rescaled(first + sign * second, quantized_multiplier(twice / unit))
    return apply_integer_activation(total, result, activation)


def _twice_larger_scale(lhs: Quantized, rhs: Quantized) -> float:
    return float(np.float32(2) * max(lhs.scale, rhs.scale))


def _shifted_sum(
    lhs: Quantized,
    rhs: Quantized,
    result: QuantizationParameters,
    activation: str,
    shifts: Sequence[int],
    sign: int,
) -> Integers:
    first, second = (
        rounding_divide(x.values, shift)
        for x, shift in zip((lhs, rhs), shifts, strict=True)
    )
    low, high = activation_bounds(result, activation)
    return np.clip(saturated(first + sign * second, 16), low, high)


# Products


def multiply(
    lhs: Quantized,
    rhs: Quantized,
    result: QuantizationParameters,
    activation: str = "NONE",
) -> Integers:
    """Return the product of two tensors, broadcast as in NumPy, as stored values."""
    ratio = lhs.scale * rhs.scale / scale_of(result)
    product = rescaled(lhs.corrected * rhs.corrected, quantized_multiplier(ratio))
    return apply_integer_activation(product, result, activation)


def squared_difference(
    lhs: Quantized, rhs: Quantized, result: QuantizationParameters
) -> Integers:
    """Return the squared difference of two tensors as stored values."""
    twice = _twice_larger_scale(lhs, rhs)
    first, second = (
        rescaled(x.corrected << 7, quantized_multiplier(float(x.scale) / twice))
        for x in (lhs, rhs)
    )
    difference = first - second
    unit = float(np.float32(1 << 14) * scale_of(result))
    square = wrapped(difference * difference)
    return store_corrected(
        rescaled(square, quantized_multiplier(twice * twice / unit)), result
    )


# Comparison

COMPARISONS: Mapping[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "equal": eq,
    "not_equal": ne,
    "greater": gt,
    "greater_equal": ge,
    "less": lt,
    "less_equal": le,
}
"""Comparison functions by op name."""


def compare(direction: str, lhs: Quantized, rhs: Quantized) -> NDArray[np.bool_]:
    """
    Compare the real values of two quantized tensors.

    Args:
        direction: a key of `COMPARISONS`.
    """
    first, second = (
        rescaled(x.corrected << 8, quantized_multiplier(x.scale)) for x in (lhs, rhs)
    )
    return COMPARISONS[direction](first, second)


# Functions of one tensor


def requantize_integers(x: Quantized, result: QuantizationParameters) -> Integers:
    """Requantize stored values to the parameters of the result."""
    ratio = float(x.scale) / float(scale_of(result))
    return store_corrected(rescaled(x.corrected, quantized_multiplier(ratio)), result)


@primitive
def quantize(values: NDArray[np.float32], result: QuantizationParameters) -> Integers:
    """Quantize `f32` values, rounding half away from zero; NaN gives `storage_min`."""
    steps = round_away(values.astype(np.float32) / scale_of(result))
    low, high = result.storage_min, result.storage_max
    stored = np.fmax(steps + int(result.zero_points), low)
    return np.fmin(stored, high).astype(np.int64)


def dequantize(x: Quantized) -> NDArray[np.float32]:
    """Dequantize stored values, per-tensor or per-axis."""
    parameters = x.parameters
    # The products are exact in f64, so they are rounded only once.
    scales, zero_points = scales_of(parameters), parameters.zero_points
    if (dimension := parameters.quantized_dimension) is not None:
        shape = [1] * x.values.ndim
        shape[dimension] = -1
        scales, zero_points = scales.reshape(shape), zero_points.reshape(shape)
    return (scales * (x.values - zero_points)).astype(np.float32)


def relu(
    x: Quantized, result: QuantizationParameters, activation: str = "RELU"
) -> Integers:
    """Requantize, and clamp to the range of `activation`, e.g. `RELU6`."""
    ratio = x.scale / scale_of(result)
    values = rescaled(x.corrected, quantized_multiplier(ratio))
    return apply_integer_activation(values, result, activation)


def leaky_relu(x: Quantized, result: QuantizationParameters, alpha: float) -> Integers:
    """Return `x`, or `alpha * x` where `x` is negative, as stored values."""
    corrected, scale = x.corrected, scale_of(result)
    slope = x.scale * np.float32(alpha) / scale
    negative = rescaled(corrected, quantized_multiplier(abs(slope)))
    return store_corrected(
        np.where(
            corrected >= 0,
            rescaled(corrected, quantized_multiplier(x.scale / scale)),
            -negative if slope < 0 else negative,
        ),
        result,
    )


def prelu(x: Quantized, alpha: Quantized, result: QuantizationParameters) -> Integers:
    """Return `x`, or `alpha * x` where `x` is negative, as stored values."""
    corrected, scale = x.corrected, scale_of(result)
    slope = quantized_multiplier(x.scale * alpha.scale / scale)
    return store_corrected(
        np.where(
            corrected >= 0,
            rescaled(corrected, quantized_multiplier(x.scale / scale)),
            rescaled(corrected * alpha.corrected, slope),
        ),
        result,
    )


def absolute(x: Quantized, result: QuantizationParameters) -> Integers:
    """Return absolute values as stored values."""
    values, ratio = np.abs(x.corrected), x.scale / scale_of(result)
    if ratio != 1:
        values = rescaled(values, quantized_multiplier(ratio))
    return store_corrected(values, result)


def square_root(x: Quantized, result: QuantizationParameters) -> Integers:
    """
    Return square roots as stored values, rounded toward zero.

    Raises:
        ValueError: if a zero-point-corrected value is negative.
    """
    roots = np.sqrt(x.scale * radicand(x.corrected).astype(np.float32))
    return store_corrected(np.trunc(roots / scale_of(result)), result).astype(np.int64)


def reciprocal_square_root(x: Quantized, result: QuantizationParameters) -> Integers:
    """
    Return `1 / sqrt(x)` as 8-bit stored values; 0 gives the storage maximum.

    Raises:
        ValueError: if a zero-point-corrected value is negative.
    """
    corrected = x.corrected
    extra = 20
    root, exponent = inverse_square_root(radicand(corrected), -1)
    data = rescaled(np.ones_like(corrected), Multiplier(root, exponent + extra))
    value, shift = quantized_multiplier(1 / float(np.sqrt(x.scale) * scale_of(result)))
    values = store_corrected(rescaled(data, Multiplier(value, shift - extra)), result)
    return np.where(corrected == 0, result.storage_max, values)


def hard_swish(x: Quantized, result: QuantizationParameters) -> Integers:
    """Return `x * min(max(x + 3, 0), 6) / 6` as stored values, computed in 16 bits."""
    fine = np.float32(1 / 128) * x.scale
    outer, outer_exponent = quantized_multiplier(fine / scale_of(result))
    inner, inner_exponent = quantized_multiplier(fine / np.float32(3 / 32768))
    values = wrapped(x.corrected << 7, 16)
    product = rounded_product(values, _upper_half(outer), 15)
    gate = values
    if inner_exponent > 0:
        gate = saturating_shift(gate, inner_exponent - 1, 16)
    gate = rounded_product(gate, _upper_half(inner), 15)
    if inner_exponent > 0:
        gate = saturating_shift(gate, 1, 16)
    gate = rounding_divide(gate, max(-inner_exponent, 0))
    gate = (gate + (1 << 15)) >> 1
    gated = gate * product
    # Round toward zero, as C does.
    gated = (gated + np.where(gated < 0, (1 << 15) - 1, 0)) >> 15
    return store_corrected(rounding_divide(gated, -outer_exponent), result)


def _upper_half(multiplier: Any) -> Any:
    """Return the upper 16 bits, rounded half up."""
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1)
