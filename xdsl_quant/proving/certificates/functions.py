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
Bound of the error of an elementwise function in `f32`, relative to the largest of 1 and the
absolute values of result and argument: 16 units in the last place of 1.
"""

_NEIGHBORHOOD: Final = 1e-9
"""Distance within which a rounded argument of `turning` or `extremes` counts."""


@dataclass(frozen=True)
class Elementwise:
    """A function of one real number, with a piecewise continuous derivative."""

    compute: Callable[[Floats], Floats]
    derivative: Callable[[Floats], Floats]

    turning: tuple[float, ...] = ()
    """Arguments where the derivative jumps, or stops growing or falling, ascending."""

    extremes: tuple[float, ...] = ()
    """Arguments where the function stops growing or falling."""

    domain: float = -np.inf
    """The function is defined above this number."""

    has_argument_error: bool = True
    """True if the error in `f32` may grow with the argument, not only with the result."""

    def slopes(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """
        Return the smallest and the largest derivative on intervals: it is monotone
        between the turning points.
        """
        ends = [self.derivative(low), self.derivative(high)]
        smallest, largest = np.minimum(*ends), np.maximum(*ends)
        for point in self.turning:
            # A derivative that jumps has a value on each side.
            sides = self.derivative(np.nextafter(point, [-np.inf, np.inf]))
            is_inside = _has_inside(low, high, point)
            smallest = np.where(is_inside, np.minimum(smallest, sides.min()), smallest)
            largest = np.where(is_inside, np.maximum(largest, sides.max()), largest)
        margin = 1e-9 * (1 + np.maximum(np.abs(smallest), np.abs(largest)))
        return smallest - margin, largest + margin

    def range(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the smallest and the largest result on intervals, without rounding."""
        ends = [self.compute(low), self.compute(high)]
        smallest, largest = np.minimum(*ends), np.maximum(*ends)
        for point in self.extremes:
            value = self.compute(np.array([point]))
            is_inside = _has_inside(low, high, point)
            smallest = np.where(is_inside, np.minimum(smallest, value), smallest)
            largest = np.where(is_inside, np.maximum(largest, value), largest)
        return smallest, largest

    def error(self, low: Floats, high: Floats) -> Floats:
        """Return a bound of the error of the function in `f32` on intervals."""
        sizes = np.abs([*self.range(low, high)])
        if self.has_argument_error:
            sizes = np.abs([low, high, *sizes])
        return _FUNCTION_ERROR * np.maximum(np.max(sizes, axis=0), 1.0)


def _has_inside(
    low: Floats, high: Floats, point: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return (low <= point + _NEIGHBORHOOD) & (point - _NEIGHBORHOOD <= high)


def _above_zero(
    compute: Callable[[Floats], Floats], derivative: Callable[[Floats], Floats]
) -> Elementwise:
    """Return a function of positive numbers."""
    return Elementwise(compute, derivative, domain=0.0, has_argument_error=False)


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


_GELU_FACTORS: Final = sqrt(2 / np.pi), 0.044715


def _gelu_tanh(x: Floats) -> Floats:
    outer, cubic = _GELU_FACTORS
    return 0.5 * x * (1 + np.tanh(outer * (x + cubic * x**3)))


def _gelu_tanh_slope(x: Floats) -> Floats:
    outer, cubic = _GELU_FACTORS
    tanh = np.tanh(outer * (x + cubic * x**3))
    inner = outer * (1 + 3 * cubic * x**2)
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * inner


def _hard_swish(x: Floats) -> Floats:
    return x * np.clip(x + 3, 0, 6) / 6


def _hard_swish_slope(x: Floats) -> Floats:
    return np.where(x < -3, 0.0, np.where(x > 3, 1.0, (2 * x + 3) / 6))


def _inverse(x: Floats) -> Floats:
    return 1 / x


def _inverse_slope(x: Floats) -> Floats:
    return -1 / x**2


def _rsqrt(x: Floats) -> Floats:
    return 1 / np.sqrt(x)


def _rsqrt_slope(x: Floats) -> Floats:
    return -0.5 * x**-1.5


def _sqrt_slope(x: Floats) -> Floats:
    return 0.5 / np.sqrt(x)


def _twice(x: Floats) -> Floats:
    return 2 * x


FUNCTIONS: Mapping[str, Elementwise] = {
    "tanh": Elementwise(np.tanh, _tanh_slope, (0.0,)),
    "logistic": Elementwise(_logistic, _logistic_slope, (0.0,)),
    # The second derivative of GELU is (2 - x * x) times the normal density.
    "gelu": Elementwise(
        _gelu,
        _gelu_slope,
        (-sqrt(2), sqrt(2)),
        (-0.7517915246935645,),
    ),
    # Zeros of the second and of the first derivative, by bisection.
    "gelu_tanh": Elementwise(
        _gelu_tanh,
        _gelu_tanh_slope,
        (-1.418504008790828, 1.418504008790828),
        (-0.7524614220710163,),
    ),
    "hard_swish": Elementwise(_hard_swish, _hard_swish_slope, (-3.0, 3.0), (-1.5,)),
    "exp": Elementwise(np.exp, np.exp, has_argument_error=False),
    "square": Elementwise(np.square, _twice, extremes=(0.0,), has_argument_error=False),
    "reciprocal": _above_zero(_inverse, _inverse_slope),
    "sqrt": _above_zero(np.sqrt, _sqrt_slope),
    "rsqrt": _above_zero(_rsqrt, _rsqrt_slope),
}
"""Functions by name. Functions of quantized models without an entry are refused."""
