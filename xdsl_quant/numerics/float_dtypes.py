"""NumPy dtypes of MLIR's float types, and rounding to them."""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from .arrays import Array, DType, Floats
from .small_floats import SMALL_FLOATS

_ML_DTYPES = {
    "bf16": "bfloat16",
    "f8E5M2": "float8_e5m2",
    "f8E4M3": "float8_e4m3",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E3M4": "float8_e3m4",
    "f8E8M0FNU": "float8_e8m0fnu",
    "f6E2M3FN": "float6_e2m3fn",
    "f6E3M2FN": "float6_e3m2fn",
    "f4E2M1FN": "float4_e2m1fn",
}
"""Dtypes of `ml_dtypes` for the float types that NumPy lacks, by MLIR name."""

_NUMPY_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


@cache
def float_dtype(name: str) -> DType:
    """
    Return the dtype of an MLIR float type, e.g. `f32` or `f8E4M3FN`.

    Raises:
        ValueError: if neither NumPy nor `ml_dtypes` has such a dtype.
        ImportError: if the dtype requires `ml_dtypes`, which is not installed.
    """
    if (numpy_float := _NUMPY_FLOATS.get(name)) is not None:
        return np.dtype(numpy_float)
    if (ml_name := _ML_DTYPES.get(name)) is None:
        raise ValueError(
            f"NumPy has no dtype for expressed type '{name}'; use one of "
            f"{', '.join((*_NUMPY_FLOATS, *_ML_DTYPES))}"
        )
    try:
        return np.dtype(getattr(import_module("ml_dtypes"), ml_name))
    except ImportError:
        raise ImportError(
            f"expressed type '{name}' requires ml_dtypes; use pip install 'ml_dtypes>=0.5'"
        ) from None


def float_name(dtype: DType) -> str:
    """Return the MLIR name of a float dtype, or raise a `TypeError` for other dtypes."""
    for name, numpy_float in _NUMPY_FLOATS.items():
        if dtype == numpy_float:
            return name
    for name, ml_name in _ML_DTYPES.items():
        if dtype.name == ml_name:
            return name
    raise TypeError(f"expected floats, found dtype {dtype}")


@cache
def code_dtype(name: str) -> DType:
    """
    Return the dtype of stored small floats: that of `ml_dtypes` or, without it, `uint8`.
    """
    try:
        return float_dtype(name)
    except ImportError:
        return np.dtype(np.uint8)


@cache
def float_info(dtype: DType) -> Any:
    """Return `finfo` of a NumPy or `ml_dtypes` dtype."""
    if dtype.type.__module__ == "numpy":
        return np.finfo(dtype)
    return import_module("ml_dtypes").finfo(dtype)


def rounded(values: Array, dtype: DType) -> Array:
    """
    Round floats once to a dtype, half to even. The dtype determines the result of overflow.
    """
    with np.errstate(all="ignore"):
        # `ml_dtypes` before 0.7 would round twice: to f32, and then to its type.
        if values.dtype == np.float64 and dtype.type.__module__ != "numpy":
            values = _f64_to_odd_f32(values)
        return values.astype(dtype, copy=False)


def fused_multiply_add(lhs: Array, rhs: Array, addend: Array) -> Array:
    """Return `lhs * rhs + addend` for floats of up to 32 bits, rounded once."""
    dtype = lhs.dtype
    factor, other, last = (x.astype(np.float64) for x in (lhs, rhs, addend))
    product = factor * other  # exact: at most 48 significant bits
    return rounded(_sum_to_odd(product, last), dtype)


def _sum_to_odd(lhs: Array, rhs: Array) -> Array:
    """
    Add f64 values, rounding inexact sums to odd.

    Rounding the sum again, to at least two bits fewer, gives the correctly rounded sum.
    """
    total = lhs + rhs
    rest = total - lhs
    error = (lhs - (total - rest)) + (rhs - rest)
    is_even = total.view(np.int64) & np.int64(1) == 0
    towards = np.copysign(np.inf, error)
    is_inexact = is_even & (error != 0) & np.isfinite(total)
    return np.where(is_inexact, np.nextafter(total, towards), total)[()]


def nearest_floats(values: Floats, name: str) -> Floats:
    """Round numbers to the float type `name`; return them unchanged if NumPy lacks it."""
    if (format := SMALL_FLOATS.get(name)) is not None:
        return format.decode(format.encode(values)).astype(np.float64)
    try:
        dtype = float_dtype(name)
    except ValueError:
        return values
    return rounded(values, dtype).astype(np.float64)


def _f64_to_odd_f32(values: Array) -> Array:
    """
    Round f64 values to f32 with round-to-odd: the last bit of inexact results is set.

    Rounding the result to a significand at least two bits shorter is as exact as rounding
    the f64 value directly.
    """
    nearest = np.asarray(values.astype(np.float32))
    back = np.abs(nearest.astype(np.float64))
    is_too_far = back > np.abs(values)
    bits = nearest.view(np.int32) - is_too_far
    return (bits | (is_too_far | (back < np.abs(values)))).view(np.float32)
