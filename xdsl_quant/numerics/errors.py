"""Quantization error: the difference between values and their dequantized stored values."""

from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.rounding_mode import Rounding, RoundingMode, ZeroPointOrder

from .arguments import expressed_array
from .arithmetic import Arithmetic, operand_pieces
from .arrays import Array, Floats
from .blocks import Grid, Shape
from .parameters import QuantizationParameters

ErrorScope = Literal["tensor", "channel", "block"]
"""Scope of an error: the tensor, each channel or each block."""


@dataclass(frozen=True, eq=False)
class QuantizationError:
    """
    Measures of the error `dequantize(quantize(x)) - x`: a number for a tensor, or an array
    with one number per channel or block.

    If a value is NaN, all measures except the saturated fraction are NaN. If a value is
    infinite, the errors are infinite and the SQNR is NaN. The SQNR is also NaN if squares
    overflow f64 (values beyond about `1e154`) or underflow (below about `1e-162`).
    """

    max_absolute: float | NDArray[np.float64]

    mean_absolute: float | NDArray[np.float64]

    mean_squared: float | NDArray[np.float64]

    sqnr: float | NDArray[np.float64]
    """
    Signal to quantization noise ratio in dB, `10 * log10(sum(x**2) / sum(error**2))`;
    infinite if all errors are 0.
    """

    saturated_fraction: float | NDArray[np.float64]
    """
    Fraction of values that are NaN, infinite or out of range after rounding, from 0 to 1.
    """


def measure_error(
    expressed_values: ArrayLike,
    parameters: QuantizationParameters,
    *,
    per: ErrorScope = "tensor",
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
) -> QuantizationError:
    """
    Measure the error of quantizing and dequantizing values, in f64.

    Args:
        expressed_values: an array in a shape that matches the parameters, with dtype
            `parameters.expressed_dtype`; or Python numbers, rounded to this dtype.
        parameters: the parameters.
        per: `tensor` for one number; `channel` for one per index of the quantized
            dimension; `block` for one per block, in the shape of the scales.
        rounding_mode: the rounding mode of quantization.
        zero_point_order: the order in which quantization rounds and adds the zero point.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument has the wrong type.
        ValueError: if values are empty or have the wrong shape, the parameters lack the
            channels or blocks to measure, or the rounding is unsupported.
    """
    values = expressed_array(expressed_values, parameters)
    rounding = Rounding(rounding_mode, zero_point_order)
    arithmetic = Arithmetic(parameters, rounding, values.shape)
    if not values.size:
        raise ValueError("expected at least one value, found an empty array")
    measured = _measured_shape(parameters, per)
    sums = [np.zeros(measured) for _ in range(5)]
    blocks, _ = arithmetic.grid
    scope = values.shape if per == "tensor" else blocks
    _sum_errors(values, arithmetic, (scope, sums))
    return _error(sums, prod(scope))


@np.errstate(all="ignore")
def _sum_errors(values: Array, arithmetic: Arithmetic, grid: Grid) -> None:
    parameters = arithmetic.parameters
    buffers = [
        np.empty(arithmetic.limit, dtype)
        for dtype in (parameters.storage_dtype, parameters.expressed_dtype)
    ]
    for x, *numbers in operand_pieces([values], [arithmetic], grid):
        stored, returned = (buffer[: x.size].reshape(x.shape) for buffer in buffers)
        operands, sums_of_piece = numbers[:-5], numbers[-5:]
        scaled = arithmetic.scaled(x, operands)
        is_saturated = arithmetic.is_out_of_range(scaled).reshape(x.shape)
        arithmetic.store(scaled, stored)
        arithmetic.dequantize(stored, operands, returned)
        _add_errors(sums_of_piece, x, returned, is_saturated)


def _measured_shape(parameters: QuantizationParameters, per: ErrorScope) -> Shape:
    if per not in get_args(ErrorScope):
        raise ValueError(
            f"unknown scope {per!r}, available: 'tensor', 'channel', 'block'"
        )
    if per == "tensor":
        return ()
    if per == "channel" and parameters.quantized_dimension is None:
        raise ValueError("per='channel' requires parameters with a quantized_dimension")
    if per == "block" and parameters.block_sizes is None:
        raise ValueError("per='block' requires parameters with block_sizes")
    return parameters.scales.shape


def _add_errors(
    sums: list[Floats], expressed: Array, returned: Array, is_saturated: Array
) -> None:
    """Update the largest absolute error and the sums with the errors of a piece."""
    exact = expressed.astype(np.float64)
    errors = np.abs(returned.astype(np.float64) - exact)
    largest, absolute, squared, signal, saturated = sums
    axes = tuple(axis for axis, n in enumerate(largest.shape) if n == 1)
    np.maximum(largest, errors.max(axes, keepdims=True), out=largest)
    absolute += errors.sum(axes, keepdims=True)
    squared += np.square(errors, out=errors).sum(axes, keepdims=True)
    signal += np.square(exact, out=exact).sum(axes, keepdims=True)
    saturated += is_saturated.sum(axes, keepdims=True)


def _error(sums: list[Floats], count: int) -> QuantizationError:
    largest, absolute, squared, signal, saturated = sums
    with np.errstate(all="ignore"):
        ratio = 10 * np.log10(signal / squared)
    # Squares may overflow to infinity or underflow to 0; the SQNR is then NaN.
    has_squares = (squared > 0) & (squared < np.inf) & (signal < np.inf)
    ratio = np.where(largest == 0, np.inf, np.where(has_squares, ratio, np.nan))
    measures = [largest, absolute / count, squared / count, ratio, saturated / count]
    if not largest.ndim:
        measures = [float(measure) for measure in measures]
    return QuantizationError(*measures)
