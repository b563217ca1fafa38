"""Stored values with their quantization parameters, and ranges of fused activations."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.numerics.primitives import Array, primitive, stored_values
from xdsl_quant.unsupported import Unsupported

from .fixed_point import Integers

Activation: TypeAlias = Literal["NONE", "RELU", "RELU_N1_TO_1", "RELU6"]
"""Name of a fused activation in `.tflite` files."""

_BOUNDS: dict[str, tuple[float, float]] = {
    "NONE": (-np.inf, np.inf),
    "RELU": (0, np.inf),
    "RELU_N1_TO_1": (-1, 1),
    "RELU6": (0, 6),
    "RELU_0_TO_1": (0, 1),
}


class Quantized(NamedTuple):
    """Stored values and their quantization parameters."""

    values: Integers
    parameters: QuantizationParameters

    @property
    def scale(self) -> np.float32:
        """Scale, rounded to `f32` as in `.tflite` files."""
        return np.float32(self.parameters.scales)

    @property
    def zero_point(self) -> int:
        return int(self.parameters.zero_points)

    @property
    def corrected(self) -> Integers:
        return self.values - self.zero_point


def scale_of(parameters: QuantizationParameters) -> np.float32:
    """Return a per-tensor scale, rounded to `f32` as in `.tflite` files."""
    return np.float32(parameters.scales)


def scales_of(parameters: QuantizationParameters) -> NDArray[np.float64]:
    """Return the scales, rounded to `f32` as in `.tflite` files, as `f64`."""
    return parameters.scales.astype(np.float32).astype(np.float64)


@primitive
def round_away(values: np.ndarray | np.floating[Any]) -> np.ndarray:
    """Round `f32` values half away from zero, as C's `round` does."""
    wide = values.astype(np.float64)
    return np.copysign(np.floor(np.abs(wide) + 0.5), wide)


@primitive
def tabulate(
    values: Integers, low: int, high: int, function: Callable[[Integers], Integers]
) -> Integers:
    """Return `function(values)`; lowerings may use a table for `low` to `high`."""
    return function(values)


def nearest_stored(values: Array, parameters: QuantizationParameters) -> Integers:
    """Quantize floats, rounding half to even, in `f32` arithmetic."""
    shape = [1] * values.ndim
    if (dimension := parameters.quantized_dimension) is not None:
        shape[dimension] = -1
    inverse = (1 / parameters.scales).astype(np.float32).reshape(shape)
    zero_points = parameters.zero_points.astype(np.float32).reshape(shape)
    low, high = parameters.storage_min, parameters.storage_max
    steps = np.clip(values * inverse + zero_points, low, high)
    return np.rint(steps).astype(np.int64)


def store_corrected(values: Integers, parameters: QuantizationParameters) -> Integers:
    """Add the zero point to `values`, and clamp to the storage range."""
    zero_point = int(parameters.zero_points)
    low, high = parameters.storage_min, parameters.storage_max
    return stored_values(values, zero_point, low, high)


def activation_bounds(
    parameters: QuantizationParameters, activation: str
) -> tuple[int, int]:
    """
    Return the smallest and largest stored value that an activation can give
    (`CalculateActivationRangeQuantized`).

    Raises:
        Unsupported: if the activation has no integer form.
    """
    if activation not in _BOUNDS:
        raise Unsupported(
            f"has the activation '{activation}', which has no integer form"
        )
    low, high = parameters.storage_min, parameters.storage_max
    smallest, largest = (
        np.clip(
            int(parameters.zero_points)
            + round_away(np.float32(bound) / scale_of(parameters)),
            low,
            high,
        )
        for bound in _BOUNDS[activation]
    )
    return int(smallest), int(largest)


def apply_integer_activation(
    values: Integers, parameters: QuantizationParameters, activation: str
) -> Integers:
    """Add the zero point to `values`, and clamp to the range of an activation."""
    low, high = activation_bounds(parameters, activation)
    return stored_values(values, int(parameters.zero_points), low, high)
