"""
Rounding modes.

| mode | a value between two integers | a value in the middle |
|---|---|---|
| `truncate` | the one nearer to 0 | the one nearer to 0 |
| `nearest-even` | the nearer one | the even one |
| `nearest-away` | the nearer one | the one further from 0 |
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from xdsl_quant.rounding_mode import Rounding, RoundingMode

from .arrays import Array, DType

ROUNDING_MODES: tuple[RoundingMode, ...] = get_args(RoundingMode)


def check_rounding(rounding: Rounding) -> None:
    """Raise a `ValueError` if there is no such rounding."""
    if (mistake := rounding.mistake()) is not None:
        raise ValueError(mistake)


class Rounder:
    """
    Rounds arrays of finite floats in place, in so far that a conversion to integers, which
    truncates, then gives the rounded number.
    """

    def __init__(self, rounding_mode: RoundingMode, dtype: DType, limit: int):
        """
        Args:
            rounding_mode: how to round.
            dtype: `float32` or `float64`.
            limit: how many elements an array has at most.
        """
        self._rounding_mode = rounding_mode
        if rounding_mode != "nearest-away":
            return
        bits = np.dtype(f"int{8 * dtype.itemsize}")
        self._sign = np.array(-0.0, dtype).view(bits)
        # With a half, the number just below a half would become 1. In sums with all
        # other numbers the difference is rounded away.
        self._almost_half = np.nextafter(np.array(0.5, dtype), dtype.type(0)).view(bits)
        self._offset = np.empty(limit, bits)

    def __call__(self, values: Array) -> None:
        """Round one-dimensional `values`."""
        if self._rounding_mode == "nearest-even":
            np.rint(values, out=values)
        elif self._rounding_mode == "nearest-away":
            offset = self._offset[: values.size]
            np.bitwise_and(values.view(offset.dtype), self._sign, out=offset)
            np.bitwise_or(offset, self._almost_half, out=offset)
            np.add(values, offset.view(values.dtype), out=values)
