"""Elementwise functions: values and bounds of their derivatives on intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import erf, sqrt
from typing import Final

import numpy as np

from .linear_maps import Floats

_FUNCTION_ERROR: Final = 2.0**-20
"""
Bound of the error of an elementwise function in `f32`, relative to the larger of 1 and the
absolute value of the argument: 16 units in the last place of 1.
"""


@dataclass(frozen=True)
class Elementwise:
    """A function of one real number, differentiable twice."""

    compute: Callable[[Floats], Floats]
    derivative: Callable[[Floats], Floats]

    turning: tuple[float, ...]
    """Arguments where the second derivative changes its sign, ascending."""

    limits: tuple[float, float]
    """Bounds of the derivative."""

    def slopes(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """
        Return the smallest and the largest derivative on intervals: it is monotone
        between the turning points.
        """
        ends = [self.derivative(low), self.derivative(high)]
        smallest, largest = np.minimum(*ends), np.maximum(*ends)
        for point in self.turning:
            at_point = float(self.derivative(np.array(point)))
            # The points are rounded: their neighborhood counts, too.
            is_inside = (low <= point + 1e-9) & (point - 1e-9 <= high)
            smallest = np.where(is_inside, np.minimum(smallest, at_point), smallest)
            largest = np.where(is_inside, np.maximum(largest, at_point), largest)
        margin = 1e-9
        first = np.maximum(smallest - margin, self.limits[0] - margin)
        return first, np.minimum(largest + margin, self.limits[1] + margin)

    def error(self, magnitude: Floats) -> Floats:
        """Return a bound of the error of the function in `f32`."""
        return _FUNCTION_ERROR * np.maximum(magnitude, 1.0)


def _logistic(x: Floats) -> Floats:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def _logistic_slope(x: Floats) -> Floats:
    return 0.25 * _tanh_slope(0.5 * x)


def _tanh_slope(x: Floats) -> Floats:
    return 1 - np.tanh(x) ** 2


_erf = np.vectorize(erf, otypes=[np.float64])


def _gelu(x: Floats) -> Floats:
    return 0.5 * x * (1 + _erf(x / sqrt(2)))


def _gelu_slope(x: Floats) -> Floats:
    density = np.exp(-0.5 * x * x) / sqrt(2 * np.pi)
    return 0.5 * (1 + _erf(x / sqrt(2))) + x * density


FUNCTIONS: Mapping[str, Elementwise] = {
    "tanh": Elementwise(np.tanh, _tanh_slope, (0.0,), (0.0, 1.0)),
    "logistic": Elementwise(_logistic, _logistic_slope, (0.0,), (0.0, 0.25)),
    # The second derivative of GELU is (2 - x * x) times the normal density.
    "gelu": Elementwise(_gelu, _gelu_slope, (-sqrt(2), sqrt(2)), (-0.12904, 1.12904)),
}
"""Functions by name. Functions of quantized models without an entry are refused."""
