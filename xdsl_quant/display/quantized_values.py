"""The data of [`plot_error`][xdsl_quant.display.plot_error]."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.numerics import (
    QuantizationParameters,
    dequantize,
    measure_error,
    quantize,
)
from xdsl_quant.numerics.arguments import expressed_array
from xdsl_quant.numerics.arrays import Array, Floats
from xdsl_quant.numerics.block_scaled import (
    BlockScaledParameters,
    dequantize_blocks,
    quantize_blocks,
    scaled_blocks,
)
from xdsl_quant.numerics.blocks import broadcastable_views, grid_block_shape
from xdsl_quant.rounding_mode import Rounding, RoundingMode


@dataclass(frozen=True)
class PartsOfTensor:
    """Signal-to-noise ratio of each channel or block."""

    noun: Literal["channel", "block"]

    sqnr: Floats
    """Ratios in dB."""

    dimensions: Sequence[int]
    """Tensor dimension for each dimension of `sqnr`."""


@dataclass(frozen=True)
class QuantizedValues:
    """Values and their quantization errors."""

    elements: QuantizationParameters

    expressed: str
    """Name of the expressed type."""

    positions: Floats
    """Finite values in units of stored values."""

    errors: Floats
    """Dequantized values minus values, in f64."""

    sqnr: float
    """SQNR of the finite values, in dB."""

    largest_error: float
    """Largest magnitude of an error of a finite value."""

    saturated: float
    """Saturated fraction of the finite values."""

    non_finite_count: int
    """Number of NaN and infinite values."""

    largest_scale: float
    """Largest magnitude of a scale."""

    one_scale: tuple[float, int] | None
    """Scale and zero point of a per-tensor type; `None` for other types."""

    parts: PartsOfTensor | None

    formula: str = "value / scale + zero point"
    """Axis label for positions."""


def _finite_count(values: Floats) -> int:
    """Return the number of finite values, or raise `ValueError` if there are none."""
    if not (count := int(np.count_nonzero(np.isfinite(values)))):
        raise ValueError("nothing to plot: no value is finite")
    return count


def _errors_of_dequantized(dequantized: Array, exact: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return dequantized.astype(np.float64) - exact


def uniform_values(
    expressed_values: ArrayLike, parameters: QuantizationParameters, rounding: Rounding
) -> QuantizedValues:
    """Quantize values to a uniform type and measure errors, as for `plot_error`."""
    values = expressed_array(expressed_values, parameters)
    exact = values.astype(np.float64)
    non_finite_count = exact.size - _finite_count(exact)
    mode, order, _ = rounding
    stored = quantize(values, parameters, rounding_mode=mode, zero_point_order=order)
    dequantized = dequantize(stored, parameters, rounding_mode=mode)
    measure = partial(measure_error, rounding_mode=mode, zero_point_order=order)
    numbers, scaled = _finite_values(values, parameters)
    error = (
        measure(numbers, scaled) if non_finite_count else measure(values, parameters)
    )
    with np.errstate(over="ignore"):
        positions = numbers.astype(np.float64) / scaled.scales + scaled.zero_points
    parts = one_scale = None
    if not parameters.scales.ndim:
        one_scale = float(parameters.scales), int(parameters.zero_points)
    else:
        parts = _channels_or_blocks(values, parameters, rounding)
    return QuantizedValues(
        parameters,
        parameters.expressed,
        positions,
        _errors_of_dequantized(dequantized, exact),
        float(error.sqnr),
        float(error.max_absolute),
        float(error.saturated_fraction),
        non_finite_count,
        float(parameters.scales.max()),
        one_scale,
        parts,
    )


def _channels_or_blocks(
    values: Array, parameters: QuantizationParameters, rounding: Rounding
) -> PartsOfTensor:
    noun = "block" if parameters.quantized_dimension is None else "channel"
    mode, order, _ = rounding
    error = measure_error(
        values, parameters, per=noun, rounding_mode=mode, zero_point_order=order
    )
    sqnr, sizes = np.asarray(error.sqnr), dict(parameters.block_sizes or ())
    # Scales have all dimensions of the values, or only those with a block size.
    dimensions = sorted(sizes) if len(sizes) == sqnr.ndim else range(sqnr.ndim)
    return PartsOfTensor(noun, sqnr, dimensions)


def _finite_values(
    values: Array, parameters: QuantizationParameters
) -> tuple[Array, QuantizationParameters]:
    """Return the finite values as a flat array, and parameters that broadcast to it."""
    block = grid_block_shape(parameters, values.shape)
    numbers, *of_blocks = broadcastable_views(
        [values], [(block, [parameters.scales, parameters.zero_points])]
    )
    is_finite = np.isfinite(numbers.astype(np.float64))
    if not parameters.scales.ndim:
        return numbers[is_finite], parameters
    scales, zero_points = (
        np.broadcast_to(array, numbers.shape)[is_finite] for array in of_blocks
    )
    return numbers[is_finite], replace(
        parameters,
        scales=scales,
        zero_points=zero_points,
        quantized_dimension=0,
        block_sizes=None,
    )


def block_scaled_values(
    expressed_values: ArrayLike, parameters: BlockScaledParameters, rounding: Rounding
) -> QuantizedValues:
    """Quantize values to a block-scaled type and measure errors, in f64."""
    elements = parameters.elements
    # Python numbers are rounded to the expressed type, as for uniform types.
    rounding_type = QuantizationParameters(1.0, expressed=parameters.expressed)
    values = expressed_array(expressed_values, rounding_type)
    exact = values.astype(np.float64)
    is_finite = np.isfinite(exact)
    non_finite_count = exact.size - _finite_count(exact)
    stored = quantize_blocks(values, parameters, rounding)
    errors = _errors_of_dequantized(dequantize_blocks(stored, parameters), exact)
    signal = np.where(is_finite, exact, 0)
    noise = np.where(is_finite, errors, 0)
    rounded = scaled_blocks(values, parameters, rounding)[is_finite]
    positions = scaled_blocks(values, parameters, Rounding())[is_finite]
    positions = positions.astype(np.float64)
    value = "value" if parameters.offsets is None else "(value - offset)"
    return QuantizedValues(
        elements,
        parameters.expressed,
        positions[~np.isnan(positions)],
        errors,
        _sqnr(signal, noise, {}).item(),
        float(np.abs(noise).max()),
        _saturated_part(rounded, elements, rounding.mode),
        non_finite_count,
        float(np.fmax.reduce(np.abs(parameters.scales), axis=None, initial=0.0)),
        None,
        PartsOfTensor(
            "block",
            _sqnr(exact, errors, dict(parameters.block_sizes)),
            range(exact.ndim),
        ),
        f"{value} / scale + zero point",
    )


def _saturated_part(
    rounded: Array, elements: QuantizationParameters, mode: RoundingMode
) -> float:
    """Return the saturated fraction of scaled values."""
    known = rounded[~np.isnan(rounded)]
    if not known.size:
        raise ValueError("nothing to plot: all block scales are NaN")
    error = measure_error(known, elements, rounding_mode=mode)
    return float(error.saturated_fraction) * known.size / rounded.size


def _sqnr(signal: Floats, noise: Floats, block_sizes: dict[int, int]) -> Floats:
    """Return the SQNR in dB of each block; an axis without block size is one block."""
    with np.errstate(all="ignore"):
        sums = [np.square(signal), np.square(noise)]
        for axis, count in enumerate(signal.shape):
            starts = [*range(0, count, block_sizes.get(axis) or count)]
            sums = [np.add.reduceat(array, starts, axis) for array in sums]
        squares, errors = sums
        ratio = 10 * np.log10(squares / errors)
    return np.where(errors == 0, np.inf, ratio)
