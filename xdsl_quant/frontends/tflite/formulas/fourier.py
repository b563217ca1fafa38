"""Fourier transforms of real numbers, as products with matrices of sines and cosines."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.primitives import Array


class ComplexParts(NamedTuple):
    """Real and imaginary parts of complex numbers."""

    real: Array
    imag: Array


def _waves(rows: int, columns: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cosines and sines `[rows, columns]` of `2 * pi * row * column / rows`."""
    # Products of indices are reduced to one period: angles are exact up to rounding.
    products = np.arange(rows)[:, None] * np.arange(columns) % rows
    angles = products * (2 * math.pi / rows)
    return np.cos(angles), np.sin(angles)


def rfft2d(values: Array, sizes: tuple[int, int]) -> ComplexParts:
    """
    Transform real numbers along the last two dimensions.

    Args:
        values: `[..., rows, columns]`, cropped or padded with zeros to `sizes`.
        sizes: number of rows and columns that are transformed.

    Returns:
        Parts `[..., rows, columns / 2 + 1]` in `f32`, computed in `f64`.
    """
    rows, columns = sizes
    values = values[..., :rows, :columns]
    missing = rows - values.shape[-2], columns - values.shape[-1]
    outer = [(0, 0)] * (values.ndim - 2)
    wide = np.pad(values, [*outer, *((0, count) for count in missing)])
    wide = wide.astype(np.float64)
    cosines, sines = _waves(columns, columns // 2 + 1)
    real, imag = wide @ cosines, -(wide @ sines)
    if rows > 1:
        cosines, sines = _waves(rows, rows)
        real, imag = (
            cosines @ real + sines @ imag,
            cosines @ imag - sines @ real,
        )
    return ComplexParts(real.astype(np.float32), imag.astype(np.float32))


def magnitude(parts: ComplexParts) -> Array:
    """Return the absolute values of complex numbers of `f32`, computed in `f64`."""
    real, imag = (part.astype(np.float64) for part in parts)
    return np.sqrt(real * real + imag * imag).astype(np.float32)
