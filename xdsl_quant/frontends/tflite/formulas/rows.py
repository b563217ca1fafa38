"""Integer kernels that normalize along the last dimension."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.numerics.primitives import (
    INT32_MAX,
    below_largest,
    doubling_high_product,
    leading_zeros,
    rescaled,
    rounded_product,
    rounding_divide,
    saturated,
    wrapped,
)

from .fixed_point import (
    Integers,
    Multiplier,
    exp_of_negative,
    inverse_square_root,
    log_of_at_least_one,
    quantized_multiplier,
    reciprocal_of_one_plus,
)
from .quantized import Quantized, store_corrected
from .tables import interpolated_lookup, table_of_16_bits


def softmax(x: Quantized, result: QuantizationParameters, beta: float = 1) -> Integers:
    """
    Return `exp(beta * x)` divided by its sum along the last dimension.

    Args:
        x: 8-bit or 16-bit stored values.
        result: parameters that the op prescribes: scale 1/256 and the smallest stored
            value as zero point, or scale `2**-15` and zero point 0 for 16 bits.
        beta: factor of `x`.

    Returns:
        Stored values.
    """
    if x.parameters.storage_width == 16:
        return _softmax_16(x, beta)
    differences = below_largest(x.values)
    exponentials, is_counted = negative_exponentials(differences, float(x.scale), beta)
    total = rounding_divide(exponentials, 12).sum(axis=-1, keepdims=True)
    # The largest element of a row adds 2**19, so a sum has at most 12 leading zeros.
    zeros = np.minimum(leading_zeros(total), 12)
    reciprocal = reciprocal_of_one_plus(((total << zeros) & 0xFFFFFFFF) - (1 << 31))
    quotient = doubling_high_product(exponentials, reciprocal)
    low, high = result.storage_min, result.storage_max
    values = rounding_divide(quotient, 12 - zeros + 31 - result.storage_width) + low
    return np.where(is_counted, np.clip(values, low, high), low)


def negative_exponentials(
    differences: Integers, scale: float, beta: float
) -> tuple[Integers, NDArray[np.bool_]]:
    """
    Return exponentials of negative differences of stored values, with 31 fractional bits,
    and a mask that is False where they are 0.
    """
    multiplier, least = _input_scaling(scale, beta)
    is_counted = differences >= least
    inside = np.maximum(differences, least)
    scaled = doubling_high_product(
        wrapped(inside << multiplier.exponent), multiplier.value
    )
    return np.where(is_counted, exp_of_negative(scaled), 0), is_counted


def _input_scaling(scale: float, beta: float) -> tuple[Multiplier, int]:
    """
    Return the multiplier that converts differences of stored values to real values with
    26 fractional bits, and the smallest difference that does not overflow
    (`PreprocessSoftmaxScaling`).
    """
    real = min(float(np.float32(beta)) * scale * (1 << 26), INT32_MAX)
    multiplier = quantized_multiplier(real)
    return multiplier, -int(np.floor(31 * (1 << 26) / 2.0**multiplier.exponent))


@cache
def _softmax_tables() -> tuple[Integers, Integers]:
    exponential = table_of_16_bits(
        np.exp, (10 / 65535, 32767), (2 / 65535, 0), np.float64
    )
    reciprocal = table_of_16_bits(
        lambda x: 1 / (1 + x), (1 / 65535, -32768), (2 / 65535, 0), np.float64
    )
    return exponential, reciprocal


def _softmax_16(x: Quantized, beta: float) -> Integers:
    exponential, reciprocal = _softmax_tables()
    differences = below_largest(x.values)
    ratio = float(x.scale * np.float32(beta)) / (10 / 65535)
    scaled = rescaled(differences, quantized_multiplier(ratio))
    exponentials = interpolated_lookup(exponential, saturated(scaled + 32767, 16))
    total = exponentials.sum(axis=-1, keepdims=True)
    # The largest element of a row adds 32767, so a sum has at most 17 leading zeros.
    zeros = np.clip(leading_zeros(total), 1, 17)
    normalized = (((total << (zeros - 1)) + (1 << 13)) >> 14) - (1 << 15) - (1 << 16)
    quotient = interpolated_lookup(reciprocal, saturated(normalized, 16))
    shift = 31 - zeros
    values = rounded_product(exponentials, quotient, shift)
    return np.clip(values, 0, 32767)


def log_softmax(x: Quantized, result: QuantizationParameters) -> Integers:
    """Return the logarithm of [`softmax`][..softmax] as 8-bit values with scale 1/16."""
    multiplier, least = _input_scaling(float(x.scale), 1)
    differences = below_largest(x.values)
    exponentials, _ = negative_exponentials(differences, float(x.scale), 1)
    logarithm = log_of_at_least_one(
        rounding_divide(exponentials, 12).sum(axis=-1, keepdims=True)
    )
    inverse = quantized_multiplier(
        2.0 ** (31 - int(multiplier.exponent)) / int(multiplier.value)
    )
    limit = np.maximum(least - 1, rescaled(logarithm - (1 << 31), inverse))
    scaled = rescaled(np.maximum(differences, least), multiplier)
    values = rounding_divide(scaled - logarithm, 22)
    low, high = result.storage_min, result.storage_max
    return np.where(differences > limit, np.clip(values + high, low, high), low)


def l2_normalization(x: Quantized, result: QuantizationParameters) -> Integers:
    """
    Divide elements by the L2 norm along the last dimension. Results are 8-bit stored
    values with scale 1/128.
    """
    corrected = x.corrected
    squares = wrapped((corrected * corrected).sum(axis=-1, keepdims=True))
    value, exponent = inverse_square_root(squares, -1)
    return store_corrected(rescaled(corrected, Multiplier(value, exponent + 7)), result)
