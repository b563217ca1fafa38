"""
Integer kernels with lookup tables: 256 results for 8 bits, 513 interpolation points for
16 bits, and the 16-bit sigmoid.
"""

import ctypes
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from xdsl_quant.numerics.parameters import QuantizationParameters, storage_range
from xdsl_quant.numerics.primitives import (
    Array,
    lookup,
    primitive,
    rounded_product,
    wrapped,
)
from xdsl_quant.unsupported import Unsupported

from .fixed_point import Integers, checked_log2
from .quantized import Quantized, round_away, scale_of

Function: TypeAlias = Callable[[Array], Array]
"""Real function of an `f32` array."""


def _c_function(name: str, fallback: Function) -> Function:
    """
    Return an `f32` function of the C library, or else `fallback` rounded to `f32`.

    Kernels call the C library, whose functions are not always correctly rounded.
    """
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return lambda x: fallback(x.astype(np.float64)).astype(np.float32)
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    of_array = np.vectorize(function, otypes=[np.float32])
    return lambda x: of_array(x.astype(np.float32))


_erfc = _c_function("erfcf", np.vectorize(math.erfc, otypes=[np.float64]))
_exp = _c_function("expf", np.exp)
_expm1 = _c_function("expm1f", np.expm1)
_log = _c_function("logf", np.log)
_tanh = _c_function("tanhf", np.tanh)


def _gelu(x: Array) -> Array:
    factor, half = map(np.float32, (-math.sqrt(0.5), 0.5))
    return half * x * _erfc(x * factor)


def _approximate_gelu(x: Array) -> Array:
    factor, half, cubic = map(np.float32, (math.sqrt(2 / math.pi), 0.5, 0.044715))
    return half * x * (np.float32(1) + _tanh(factor * (x + cubic * x * x * x)))


def _elu(x: Array) -> Array:
    return np.where(x < 0, _expm1(np.minimum(x, 0)), x)


def _logistic(x: Array) -> Array:
    return np.float32(1) / (np.float32(1) + _exp(-x))


FUNCTIONS: Mapping[str, Function] = {
    "exp": _exp,
    "tanh": _tanh,
    "logistic": _logistic,
    "elu": _elu,
    "gelu": _gelu,
    "approximate_gelu": _approximate_gelu,
}
"""Functions that are defined for all floats, by op name."""


def function(name: str, result: QuantizationParameters) -> Function:
    """
    Return the float function of an op, given its name.

    Outside its domain, `log` returns the smallest value of the result's range, and `rsqrt`
    returns `storage_max * scale`.
    """
    scale, zero_point = scale_of(result), int(result.zero_points)
    if name == "log":
        least = np.float32(result.storage_min - zero_point) * scale
        return lambda x: np.where(x > 0, _log(np.where(x > 0, x, 1)), least)
    if name == "rsqrt":
        most = np.float32(result.storage_max) * scale
        return lambda x: np.where(
            x > 0,
            np.float32(1) / np.sqrt(np.where(x > 0, x, np.float32(1))),
            most,
        )
    return FUNCTIONS[name]


def table_of_8_bits(
    name: str, x: QuantizationParameters, result: QuantizationParameters
) -> Integers:
    """
    Return the result for each value of the storage type, in ascending order, including
    values outside a narrowed storage range (`LUTPopulateInt8`).
    """
    low, high = storage_range(x.storage)
    stored = np.arange(low, high + 1)
    corrected = (stored - int(x.zero_points)).astype(np.float32)
    with np.errstate(over="ignore"):
        values = function(name, result)(scale_of(x) * corrected).astype(np.float32)
        steps = round_away(values * (np.float32(1) / scale_of(result)))
    stored_results = steps + int(result.zero_points)
    return np.clip(stored_results, result.storage_min, result.storage_max).astype(
        np.int64
    )


def table_of_16_bits(
    evaluate: Function,
    x: tuple[float, int],
    result: tuple[float, int],
    dtype: type[np.floating[Any]],
) -> Integers:
    """
    Return 513 interpolation points of a function (`LUTPopulateInt16`).

    Args:
        evaluate: function to tabulate.
        x: scale and zero point of the operand.
        result: scale and zero point of the result.
        dtype: float type of the computation.
    """
    (first, last), (low, high) = (
        (dtype(s) * dtype(-32768 - z), dtype(s) * dtype(32767 - z))
        for s, z in (x, result)
    )
    step = (last - first) / dtype(512)
    inverse = dtype(65536) / (high - low)
    half = step / dtype(2)
    points = first + np.arange(513).astype(dtype) * step

    def scaled(values: Array) -> Array:
        return evaluate(values).astype(dtype) * inverse

    with np.errstate(over="ignore", invalid="ignore"):
        values = round_away(scaled(points[:-1])).astype(dtype)
        middle = round_away(scaled(points[:-1] + half))
        interpolated = round_away((scaled(points[1:]) + values) / dtype(2))
        bias = round_away((interpolated - middle) / 2)
        entries = np.append(values - bias, round_away(scaled(np.array([last]))))
    # `inf - inf` is NaN, which kernels convert to an integer whose low bits are 0.
    finite = np.where(np.isnan(entries), 0, entries)
    return np.clip(finite, -32768, 32767).astype(np.int64)


@primitive
def interpolated_lookup(table: Integers, values: Integers) -> Integers:
    """Interpolate a 513-point table at 16-bit stored values (`LUTLookup`)."""
    index = 256 + (values >> 7)
    first, second = lookup(table, index), lookup(table, index + 1)
    slope = wrapped(second - first, 16)
    return wrapped(first + rounded_product(slope, values & 127, 7), 16)


def compute_with_table(
    name: str, x: Quantized, result: QuantizationParameters
) -> Integers:
    """
    Compute an op with a lookup table.

    Args:
        name: `log`, `rsqrt` or a key of `FUNCTIONS`.
        x: 8-bit or 16-bit stored values.
        result: parameters of the result, with the same storage type.

    Returns:
        Stored values.

    Raises:
        Unsupported: if 16-bit values have zero points, or if the result of `logistic`
            or `tanh` has a scale other than `2**-15`.
    """
    if x.parameters.storage_width != 16:
        table = table_of_8_bits(name, x.parameters, result)
        return lookup(table, x.values - storage_range(x.parameters.storage)[0])
    if x.zero_point or int(result.zero_points):
        raise Unsupported("has a zero point, which 16-bit tables ignore")
    if name in ("logistic", "tanh"):
        return _sigmoid_16(name, x, result)
    table = table_of_16_bits(
        function(name, result),
        (float(x.scale), x.zero_point),
        (float(scale_of(result)), int(result.zero_points)),
        np.float32,
    )
    return interpolated_lookup(table, x.values)


# 16-bit sigmoid

_ROUNDED_UP = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37),
    *(
        39,
        40,
        41,
        43,
        44,
        45,
        46,
        49,
        50,
        54,
        62,
        63,
        64,
        66,
        82,
        86,
        93,
        100,
        103,
        112,
    ),
    *(116, 135, 255),
)
"""Indices at which the kernel's table exceeds the rounded sigmoid by 1."""


def sigmoid_table() -> Integers:
    """Return `sigmoid(i / 24)` with 16 fractional bits (`sigmoid_table_uint16`)."""
    exact = 65536 / (1 + np.exp(-np.arange(256) / 24))
    table = np.minimum(65535, np.floor(exact + 0.5)).astype(np.int64)
    table[[*_ROUNDED_UP]] += 1
    return np.minimum(table, 65535)


def _sigmoid_operand(x: Quantized, largest_exponent: int) -> Integers:
    """
    Convert stored values (zero point 0) to integers with scale `1 / (3 * 2**12)`.

    A scale counts as a power of two if its binary logarithm is within 1e-3 of an
    integer from -12 to `largest_exponent`; the conversion is then exact.
    """
    exponent = checked_log2(x.scale)
    if exponent is not None and -12 <= exponent <= largest_exponent:
        return x.values * (3 << (12 + exponent))
    factor, shift = float(x.scale) * 4096 * 3, 0
    while factor <= 32767 / 2 and shift <= 30:
        factor, shift = 2 * factor, shift + 1
    if not shift:
        return x.values * int(factor)
    return rounded_product(x.values, int(factor), shift)


def _interpolated_sigmoid(magnitudes: Integers, bits: int, last: int) -> Integers:
    table = sigmoid_table()
    index, rest = magnitudes >> bits, magnitudes & ((1 << bits) - 1)
    inside = np.minimum(index, 254)
    first, second = lookup(table, inside), lookup(table, inside + 1)
    return np.where(index >= 255, last, (first << bits) + rest * (second - first))


def _sigmoid_16(name: str, x: Quantized, result: QuantizationParameters) -> Integers:
    scale = scale_of(result)
    is_fixed = scale == 2**-15 if name == "logistic" else checked_log2(scale) == -15
    if not is_fixed:
        raise Unsupported("has a result whose scale is not 2**-15")
    return _logistic_16(x) if name == "logistic" else _tanh_16(x)


def _logistic_16(x: Quantized) -> Integers:
    values = _sigmoid_operand(x, -12)
    result = _interpolated_sigmoid(np.abs(values), 9, 0x7FFF << 10)
    negative = (1 << 25) - result + (1 << 9) - 1
    return np.where(values >= 0, result + (1 << 9), negative) >> 10


def _tanh_16(x: Quantized) -> Integers:
    values = _sigmoid_operand(x, -11)
    result = _interpolated_sigmoid(np.abs(values), 8, 0xFFFF << 8) - (1 << 23)
    return np.where(values >= 0, result + (1 << 7), -result + (1 << 7) - 1) >> 8
