"""Scales and zero points from min/max ranges, calibrated or computed at run time."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, DType, check_unmasked, numbers
from .codecs import number_range
from .float_dtypes import float_name, rounded
from .parameters import (
    DynamicParameters,
    QuantizationParameters,
    StorageArguments,
    block_size_pairs,
    storage_bounds,
    storage_range,
)

RangeRule = Literal["exact", "mlir", "onnx", "tflite"]
"""
Treatment of min/max ranges that are empty (min equals max) or do not contain 0:

* `exact`: an empty range has scale 1, and the smallest stored value as zero point. A range
  without 0 is shifted: -3 to -1 becomes -2 to 0.
* `mlir`: as `exact`, but a range narrower than `2**-52` counts as empty, as in MLIR's fake
  quantization.
* `tflite`: as TensorFlow Lite's converter for statistics and weights: a range is extended
  to 0, and then by `1e-6` on either side if it is narrower than `1e-6`. No range is empty
  then.
* `onnx`: as ONNX's `DynamicQuantizeLinear`, see
  [`choose_dynamic_parameters`][xdsl_quant.numerics.choose_dynamic_parameters]: a range is
  extended to 0, and an empty one has scale 1.
"""

_MLIR_NARROWEST = float(np.finfo(np.float64).eps)

_TFLITE_NARROWEST = 1e-6
"""Width below which ranges are widened, and the margin added on either side."""


def choose_parameters(
    min: ArrayLike,
    max: ArrayLike,
    *,
    storage: str = "i8",
    storage_min: int | None = None,
    storage_max: int | None = None,
    symmetric: bool = False,
    narrow_range: bool = False,
    power_of_two: bool = False,
    expressed: str = "f32",
    quantized_dimension: int | None = None,
    rule: RangeRule = "exact",
) -> QuantizationParameters:
    """
    Return parameters that map the range from `min` to `max` to the storage range.

    The scale is `(max - min) / (storage_max - storage_min)`. The zero point is the stored
    value of 0, rounded and clamped to the storage range. Both are computed exactly as in
    MLIR's fake quantization.

    Args:
        min: smallest value, or one for each channel.
        max: largest value, or one for each channel.
        storage: the storage type, e.g. `u8`. Unlike in MLIR, `i4` has 4 bits.
        storage_min: the smallest stored value, by default that of `storage`.
        storage_max: the largest stored value, by default that of `storage`.
        symmetric: True for a zero point in the middle of the storage range: 0, or e.g. 128
            for `u8`. The scale is then the largest absolute value divided by e.g. 127.
        narrow_range: True to exclude the smallest stored value.
        power_of_two: True to round scales up to powers of two.
        expressed: the expressed type.
        quantized_dimension: the channel dimension, for one range per channel.
        rule: the treatment of ranges that are empty or do not contain 0.

    Raises:
        TypeError: if `min` or `max` is not numeric.
        ValueError: if a range is NaN, infinite or reversed, its scale is not representable
            in the expressed type, the number of ranges does not match
            `quantized_dimension`, the storage range is empty or exceeds `storage`, or the
            rule is unknown.
    """
    bounds = _used_bounds(storage, storage_min, storage_max, narrow_range, symmetric)
    dtype = _range_dtype(expressed, bounds)
    ranges = _checked_ranges(min, max, quantized_dimension)
    ranges = _adapt(ranges, rule, symmetric, dtype)
    choose = _symmetric_choice if symmetric else _affine_choice
    # `QuantizationParameters` reports scales that underflow f64.
    with np.errstate(divide="ignore", invalid="ignore"):
        scales, zero_points = choose(ranges, bounds, rule, power_of_two)
    return QuantizationParameters(
        scales,
        zero_points,
        storage=storage,
        storage_min=bounds[0],
        storage_max=bounds[1],
        expressed=expressed,
        quantized_dimension=quantized_dimension,
    )


Ranges = tuple[Array, Array]
"""Smallest and largest values of the ranges."""


def _used_bounds(
    storage: str,
    storage_min: int | None,
    storage_max: int | None,
    narrow_range: bool,
    symmetric: bool,
) -> tuple[int, int]:
    full_range = storage_range(storage)
    low, high = storage_bounds(storage, full_range, storage_min, storage_max)
    low += narrow_range
    if low >= high:
        raise ValueError(
            f"narrow_range leaves a single stored value of '{storage}', {high}; use a "
            "wider storage range"
        )
    if symmetric and high - low < 2:
        raise ValueError(
            "symmetric quantization requires stored values below and above the zero point, "
            f"found {low} to {high} of '{storage}'"
        )
    return low, high


def _adjust(scales: Array, power_of_two: bool) -> Array:
    """Return scales, rounded up to powers of two if requested."""
    if not power_of_two:
        return scales
    mantissas, exponents = np.frexp(scales)
    return np.ldexp(1.0, exponents - (mantissas == 0.5))


def _checked_ranges(
    min: ArrayLike, max: ArrayLike, quantized_dimension: int | None
) -> Ranges:
    smallest, largest = (
        numbers(values, "ranges", "iuf").astype(np.float64) for values in (min, max)
    )
    if smallest.shape != largest.shape:
        raise ValueError(
            "expected the same shape for min and max, found "
            f"{smallest.shape} and {largest.shape}"
        )
    if smallest.ndim != (quantized_dimension is not None):
        raise ValueError(
            "expected one range, or with quantized_dimension one range per channel, "
            f"found shape {smallest.shape}"
        )
    with np.errstate(all="ignore"):
        # Refuse infinite differences, which finite numbers may have, too.
        is_right = np.isfinite(largest - smallest) & (smallest <= largest)
    if is_right.all():
        return smallest, largest
    index = int(np.argmin(is_right))
    low, high = smallest.flat[index], largest.flat[index]
    where = f" of channel {index}" if smallest.ndim else ""
    is_reversed = np.isfinite([low, high]).all() and low > high
    reason = "reversed" if is_reversed else "not finite"
    raise ValueError(f"range {low} to {high}{where} is {reason}")


def _adapt(ranges: Ranges, rule: RangeRule, symmetric: bool, dtype: DType) -> Ranges:
    if rule not in get_args(RangeRule):
        rules = ", ".join(map(repr, get_args(RangeRule)))
        raise ValueError(f"unknown rule {rule!r}, available: {rules}")
    if rule not in ("onnx", "tflite"):
        return ranges
    smallest, largest = np.minimum(ranges[0], 0.0), np.maximum(ranges[1], 0.0)
    if rule == "onnx":
        return smallest.astype(dtype), largest.astype(dtype)
    if symmetric:
        largest = np.maximum(-smallest, largest)
        smallest = -largest
    margin = np.where(largest - smallest < _TFLITE_NARROWEST, _TFLITE_NARROWEST, 0.0)
    return smallest - margin, largest + margin


def _is_zero_range(widths: Array, rule: RangeRule) -> NDArray[np.bool_]:
    return widths < _MLIR_NARROWEST if rule == "mlir" else widths == 0


def _affine_choice(
    ranges: Ranges, bounds: tuple[int, int], rule: RangeRule, power_of_two: bool
) -> tuple[Array, Array]:
    (smallest, largest), (low, high) = ranges, bounds
    if rule == "onnx":
        scales = _adjust(range_scale(smallest, largest, high - low), power_of_two)
        zero_points = range_zero_point(smallest, scales, low, high)
        return scales, zero_points.astype(np.int64)
    is_zero = _is_zero_range(largest - smallest, rule)
    scales = np.where(is_zero, 1.0, (largest - smallest) / (high - low))
    scales = _adjust(scales, power_of_two)
    # The zero point follows from either end of the range. The end with the smaller
    # numbers gives the more exact result.
    from_smallest, from_largest = smallest / scales, largest / scales
    is_smallest_better = abs(low) + abs(from_smallest) < abs(high) + abs(from_largest)
    exact = np.where(is_smallest_better, low - from_smallest, high - from_largest)
    clamped = np.clip(exact, low, high)
    # Round half away from zero: sums of 32-bit integers and a half are exact.
    nearest = np.trunc(clamped + np.copysign(0.5, clamped))
    return scales, np.where(is_zero, low, nearest).astype(np.int64)


def _symmetric_choice(
    ranges: Ranges, bounds: tuple[int, int], rule: RangeRule, power_of_two: bool
) -> tuple[Array, Array]:
    (smallest, largest), (low, high) = ranges, bounds
    zero_point = 0 if low < 0 else (high + 1) // 2
    steps = min(zero_point - low, high - zero_point)
    bound = np.maximum(abs(smallest), abs(largest))
    scales = np.where(_is_zero_range(2 * bound, rule), 1.0, bound / steps)
    return _adjust(scales, power_of_two), np.full(scales.shape, zero_point)


# Parameters at run time


def choose_dynamic_parameters(
    values: Array,
    block_sizes: Mapping[int, int] = {},
    *,
    storage: str = "u8",
    storage_min: int | None = None,
    storage_max: int | None = None,
    table: ArrayLike | None = None,
    table_min: int | None = None,
    symmetric: bool = False,
) -> DynamicParameters:
    """
    Return parameters that map the range of values, extended to 0, to the storage range.

    The formulas are those of
    [`quant.choose_parameters`][xdsl_quant.dialects.quant.ChooseParametersOp]. NaN is
    ignored. ONNX's reference evaluator differs: if all values are 0, its scale is 1/255,
    and NaN makes all its parameters NaN.

    Args:
        values: an array of floats.
        block_sizes: the block size by dimension; the last block may be shorter.
        storage: the storage type.
        storage_min: the smallest stored value, by default that of `storage`.
        storage_max: the largest stored value, by default that of `storage`.
        table: the table, if stored values are table indices.
        table_min: the stored value of the first table entry; defaults to the smallest one.
        symmetric: True for zero points of 0, which float and table storage requires.

    Returns:
        parameters whose scales have one dimension for each of `block_sizes`.

    Raises:
        TypeError: if values are masked or not floats.
        ValueError: if the storage range exceeds `storage` or does not support the value of
            `symmetric`, or if the block sizes do not match the values.
    """
    check_unmasked(values, "values")
    expressed = float_name(values.dtype)
    sizes = _checked_sizes(block_sizes, values.shape)
    options = StorageArguments(
        storage=storage,
        storage_min=storage_min,
        storage_max=storage_max,
        table=table,
        table_min=table_min,
    )
    bounds = _number_bounds(options, symmetric)
    wide_values = rounded(values, _range_dtype(expressed, bounds))
    ranges = _block_ranges(wide_values, sizes)
    choose = _dynamic_symmetric if symmetric else _dynamic_affine
    with np.errstate(all="ignore"):
        scales, zero_points = choose(ranges, bounds, values.dtype)
    return DynamicParameters(
        scales.astype(np.float64),
        zero_points,
        **options,
        expressed=expressed,
        block_sizes=sizes or None,
    )


def _number_bounds(options: StorageArguments, symmetric: bool) -> tuple[float, float]:
    """Return the smallest and the largest number that stored values represent."""
    stored = QuantizationParameters(1.0, **options)
    low, high = number_range(stored)
    if symmetric and not low < 0 < high:
        raise ValueError(
            "symmetric quantization requires negative and positive stored values, "
            f"found {low:g} to {high:g} of '{stored.storage}'"
        )
    if stored.has_codes and not symmetric:
        raise ValueError(
            "unsupported zero points for float and table storage; use symmetric=True"
        )
    return low, high


def _dynamic_symmetric(
    ranges: Ranges, bounds: tuple[float, float], dtype: DType
) -> tuple[Array, None]:
    smallest, largest = ranges
    scales = symmetric_scale(smallest, largest, min(-bounds[0], bounds[1]))
    return rounded(np.asarray(scales), dtype), None


def _dynamic_affine(
    ranges: Ranges, bounds: tuple[float, float], dtype: DType
) -> tuple[Array, Array]:
    (smallest, largest), (low, high) = ranges, bounds
    scales = range_scale(smallest, largest, high - low)
    scales = rounded(np.asarray(scales), dtype)
    compute_scales = scales.astype(smallest.dtype)
    zero_points = range_zero_point(smallest, compute_scales, low, high)
    return scales, zero_points.astype(np.int64)


def _checked_sizes(
    block_sizes: Mapping[int, int], shape: tuple[int, ...]
) -> Mapping[int, int]:
    block_sizes = dict(sorted(block_size_pairs(block_sizes)))
    if not {*block_sizes} <= {*range(len(shape))}:
        raise ValueError(
            f"expected block sizes for dimensions of shape {shape}, found dimensions "
            f"{[*block_sizes]}"
        )
    if any(size <= 0 for size in block_sizes.values()):
        raise ValueError(f"expected positive block sizes, found {block_sizes}")
    return block_sizes


def _block_ranges(values: Array, block_sizes: Mapping[int, int]) -> Ranges:
    """Return the range of each block, extended to 0. NaN is ignored."""
    reduced_axes = tuple(d for d in range(values.ndim) if d not in block_sizes)
    ranges: list[Array] = []
    for extreme in (np.fmin, np.fmax):
        reduced = np.asarray(extreme.reduce(values, axis=reduced_axes, initial=0.0))
        for position, (axis, size) in enumerate(block_sizes.items()):
            if size != 1:
                starts = range(0, values.shape[axis], size)
                reduced = extreme.reduceat(reduced, starts, position)
        ranges.append(reduced)
    smallest, largest = ranges
    return smallest, largest


def _range_dtype(expressed: str, bounds: tuple[float, float]) -> DType:
    """Return the dtype in which parameters are computed: f32 if exact enough, else f64."""
    is_wide = expressed == "f64" or max(map(abs, bounds)) > 1 << 24
    return np.dtype(np.float64 if is_wide else np.float32)


# Formulas, for arrays or symbolic expressions


def range_scale(smallest: Any, largest: Any, steps: float) -> Any:
    """Return the scale that divides the range into `steps` steps."""
    return np.where(smallest == largest, 1.0, (largest - smallest) / steps)


def symmetric_scale(smallest: Any, largest: Any, end: float) -> Any:
    """
    Return the scale of symmetric ranges, which maps the largest absolute value to `end`.
    """
    bound = np.fmax(-smallest, largest)
    return np.where(bound == 0, 1.0, bound / end)


def range_zero_point(smallest: Any, scale: Any, low: float, high: float) -> Any:
    """Return the zero point of asymmetric ranges as a float."""
    return np.rint(np.fmax(np.fmin(low - smallest / scale, high), low))
