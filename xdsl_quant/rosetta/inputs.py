"""
Inputs for which runtimes may return different stored values.

Stored values change near multiples of half a scale, for any rounding mode and
zero-point order. All 16-bit floats are inputs. Inputs of wider types are all floats
within 4 ulp of these multiples and of zero; infinities, NaN and the largest finite
floats; 16 random floats per sign and exponent; and 65,536 random floats in range.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array

from .runtimes import Unavailable

_ULPS = 4
"""Number of neighboring floats on each side of a multiple of half a scale."""

_SAMPLES = 1 << 16
"""Number of random floats in range, and of random stored values of wide types."""

_MANTISSAS = 16
"""Number of random floats per exponent and sign."""

_CHUNK = 1 << 20


def parameters_of_type(type_: Attribute) -> QuantizationParameters:
    """Return the parameters of a quantized type or tensor type."""
    element = scalar_or_element_type(type_)
    assert isinstance(element, UniformType)
    return QuantizationParameters.from_integer_type(element)


def expressed_values(parameters: QuantizationParameters) -> Array:
    """
    Return the floats to quantize, without duplicates.

    Raises:
        Unavailable: if the expressed type is not `f16`, `bf16`, `f32` or `f64`.
    """
    dtype = parameters.expressed_dtype
    if parameters.expressed in ("f16", "bf16"):
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    if parameters.expressed not in ("f32", "f64"):
        raise Unavailable(
            f"unsupported expressed type '{parameters.expressed}'; "
            "use f16, bf16, f32 or f64"
        )
    random = np.random.default_rng(0)
    bits_type = np.dtype(f"u{dtype.itemsize}")
    scale = np.float64(parameters.scales.astype(dtype))
    with np.errstate(over="ignore"):
        edges = (_middles(parameters, random) * scale).astype(dtype)
    # Add the neighbors of both zeros.
    edges = np.concatenate([edges, np.array([0.0, -0.0], dtype)]).view(bits_type)
    steps = np.arange(-_ULPS, _ULPS + 1).astype(bits_type)
    neighbours = (edges[:, None] + steps).ravel()
    mantissa_bits = int(np.finfo(dtype).nmant)
    exponents = np.arange(1 << 8 * dtype.itemsize - mantissa_bits, dtype=bits_type)
    mantissas = random.integers(
        0, 1 << mantissa_bits, (exponents.size, _MANTISSAS), bits_type
    )
    all_exponents = (exponents[:, None] << bits_type.type(mantissa_bits)) | mantissas
    low, high = _range_with_margin(parameters)
    inside = random.uniform(low, high, _SAMPLES).astype(dtype).view(bits_type)
    infinities = np.array([np.inf, -np.inf, np.nan, -np.nan], dtype).view(bits_type)
    largest = np.array([np.finfo(dtype).max, np.finfo(dtype).min], dtype).view(
        bits_type
    )
    return np.unique(
        np.concatenate([neighbours, all_exponents.ravel(), inside, infinities, largest])
    ).view(dtype)


def _range_with_margin(parameters: QuantizationParameters) -> tuple[float, float]:
    """Return the range of floats that do not saturate, extended by 10% on each side."""
    low, high = parameters.storage_min, parameters.storage_max
    margin = (high - low) / 10
    ends = np.array([low - margin, high + margin]) - parameters.zero_points
    limit = float(np.finfo(parameters.expressed_dtype).max) / 4
    first, last = np.clip(ends * parameters.scales, -limit, limit)
    return float(first), float(last)


def _middles(
    parameters: QuantizationParameters, random: np.random.Generator
) -> NDArray[np.float64]:
    """
    Return the multiples of 0.5 in the zero-point-corrected storage range, and up to 1
    outside it; a sample if there are more than 2**18.
    """
    first = 2 * (parameters.storage_min - int(parameters.zero_points) - 1)
    last = 2 * (parameters.storage_max - int(parameters.zero_points) + 1)
    if last - first <= 1 << 18:
        return np.arange(first, last + 1) / 2
    ends = np.arange(64)
    inside = random.integers(first, last, _SAMPLES)
    return np.concatenate([first + ends, last - ends, ends - 32, inside]) / 2


def all_expressed_values(
    parameters: QuantizationParameters,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Iterator[Array]:
    """
    Yield all values of the expressed type, in chunks.

    Args:
        parameters: parameters with the expressed type.
        progress: wrapper of an iterable, to show progress over chunks.

    Raises:
        Unavailable: if there are more than 2**32 values.
    """
    dtype = parameters.expressed_dtype
    if dtype.itemsize < 4:
        yield expressed_values(parameters)
        return
    if dtype.itemsize > 4:
        raise Unavailable("all inputs need an expressed type of at most 32 bits")
    for start in progress(range(0, 1 << 32, _CHUNK)):
        yield np.arange(start, start + _CHUNK, dtype=np.uint32).view(dtype)


def stored_inputs(parameters: QuantizationParameters) -> Array:
    """Return all stored values, or a sample if there are more than 2**16."""
    low, high = parameters.storage_min, parameters.storage_max
    dtype = parameters.storage_dtype
    if high - low < 1 << 16:
        return np.arange(low, high + 1).astype(dtype)
    random = np.random.default_rng(0).integers(low, high, _SAMPLES, endpoint=True)
    middle = np.arange(-256, 257) + int(parameters.zero_points)
    ends = np.arange(256)
    values = np.concatenate([random, middle, low + ends, high - ends])
    return np.unique(np.clip(values, low, high)).astype(dtype)
