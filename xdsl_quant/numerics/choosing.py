"""Scales and zero points for a range of values."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, numbers
from .parameters import QuantizationParameters, storage_range

RangeRule = Literal["exact", "mlir"]
"""Which ranges count as empty and get scale 1: those of width 0, or as in MLIR."""

_MLIR_NARROWEST = float(np.finfo(np.float64).eps)


def choose_parameters(
    min: ArrayLike,
    max: ArrayLike,
    *,
    storage: str = "i8",
    symmetric: bool = False,
    narrow_range: bool = False,
    expressed: str = "f32",
    quantized_dimension: int | None = None,
    rule: RangeRule = "exact",
) -> QuantizationParameters:
    """
    Parameters that use the whole storage range for the values from `min` to `max`.

    The scale is `(max - min) / (storage_max - storage_min)`, and the zero point is what
    then expresses 0, rounded and kept in the storage range, exactly as MLIR computes them
    for fake quantization. As 0 always has a stored value, a range without it is moved:
    -3 to -1 becomes -2 to 0. Widen it to include 0 if all of it is needed.

    A range of width 0 is that of zeros: its scale is 1, and its zero point the smallest
    stored value.

    Args:
        min: smallest value, or one for each channel.
        max: largest value, or one for each channel.
        storage: the storage type, e.g. `u8`. Unlike in MLIR, `i4` has 4 bits.
        symmetric: whether the zero point is to be the middle: 0, or e.g. 128 for `u8`. The
            scale is the largest absolute value divided by e.g. 127 then.
        narrow_range: whether not to use the smallest stored value.
        expressed: the expressed type.
        quantized_dimension: the dimension of the channels, for one range each.
        rule: with `mlir` each range of less than `2**-52` is taken for that of zeros, as
            MLIR does for fake quantization.

    Raises:
        TypeError: if `min` and `max` are no numbers.
        ValueError: if a range is NaN, infinite or reversed, its scale does not fit the
            expressed type, the number of ranges does not fit `quantized_dimension`, or
            there is no such rule.
    """
    if rule not in get_args(RangeRule):
        rules = ", ".join(map(repr, get_args(RangeRule)))
        raise ValueError(f"rule is one of {rules}, but {rule!r} was given")
    low, high = storage_range(storage)
    low += narrow_range
    smallest, largest = (
        numbers(values, "ranges", "iuf").astype(np.float64) for values in (min, max)
    )
    _check_ranges(smallest, largest, quantized_dimension)
    if low >= high:
        raise ValueError(f"storage type '{storage}' is too narrow for a narrow range")
    if symmetric and high - low < 2:
        raise ValueError(
            f"storage type '{storage}' has no stored values on both sides of a zero point"
        )
    # A scale may be too small for f64: that is said of the parameters.
    choose = _symmetric if symmetric else _nudged
    with np.errstate(divide="ignore", invalid="ignore"):
        scales, zero_points = choose(smallest, largest, low, high, rule)
    return QuantizationParameters(
        scales,
        zero_points,
        storage=storage,
        storage_min=low,
        storage_max=high,
        expressed=expressed,
        quantized_dimension=quantized_dimension,
    )


def _check_ranges(
    smallest: Array, largest: Array, quantized_dimension: int | None
) -> None:
    if smallest.shape != largest.shape:
        raise ValueError(
            f"min has shape {smallest.shape}, but max has shape {largest.shape}"
        )
    if smallest.ndim != (quantized_dimension is not None):
        raise ValueError(
            f"ranges have shape {smallest.shape}, but one range needs no "
            "quantized_dimension, and one for each channel needs it"
        )
    with np.errstate(all="ignore"):
        # The difference of finite numbers may be infinite.
        is_right = np.isfinite(largest - smallest) & (smallest <= largest)
    if is_right.all():
        return
    index = int(np.argmin(is_right))
    low, high = smallest.flat[index], largest.flat[index]
    where = f" of channel {index}" if smallest.ndim else ""
    is_reversed = np.isfinite([low, high]).all() and low > high
    reason = "reversed" if is_reversed else "not finite"
    raise ValueError(f"range {low} to {high}{where} is {reason}")


def _is_zero(widths: Array, rule: RangeRule) -> NDArray[np.bool_]:
    return widths < _MLIR_NARROWEST if rule == "mlir" else widths == 0


def _nudged(
    smallest: Array, largest: Array, low: int, high: int, rule: RangeRule
) -> tuple[Array, Array]:
    is_zero = _is_zero(largest - smallest, rule)
    scales = np.where(is_zero, 1.0, (largest - smallest) / (high - low))
    # Both ends of the range say what the zero point is: the smaller numbers are more
    # exact.
    from_smallest, from_largest = smallest / scales, largest / scales
    is_smallest_better = abs(low) + abs(from_smallest) < abs(high) + abs(from_largest)
    exact = np.where(is_smallest_better, low - from_smallest, high - from_largest)
    clamped = np.clip(exact, low, high)
    # Round half away from 0: sums of integers of 32 bits and a half are exact.
    nearest = np.trunc(clamped + np.copysign(0.5, clamped))
    return scales, np.where(is_zero, low, nearest).astype(np.int64)


def _symmetric(
    smallest: Array, largest: Array, low: int, high: int, rule: RangeRule
) -> tuple[Array, Array]:
    zero_point = 0 if low < 0 else (high + 1) // 2
    steps = min(zero_point - low, high - zero_point)
    bound = np.maximum(abs(smallest), abs(largest))
    scales = np.where(_is_zero(2 * bound, rule), 1.0, bound / steps)
    return scales, np.full(scales.shape, zero_point)
