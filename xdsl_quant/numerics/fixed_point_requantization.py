"""Requantization with integers alone, through a multiplier and a shift."""

from collections.abc import Sequence
from functools import reduce
from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.rounding_mode import ScaleRounding

from .arguments import check_requantization, stored_array
from .arrays import Array, Floats, Integers, check_positive, checked_out, numbers
from .blocks import aligned, grid_block_shape, pieces
from .fixed_point import MAX_SHIFT, PIECE, check_scale_rounding, first_wrong, scaled
from .parameters import QuantizationParameters

_SIGNIFICAND_BITS = 53


def rescale_multiplier(
    source_scales: Sequence[ArrayLike], target_scale: ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """
    Return the integers for which `multiplier / 2**shift` is nearest to the product of
    some scales divided by another one.

    Product and quotient are exact: there is one rounding, that of
    [`quantize_multiplier`][xdsl_quant.numerics.quantize_multiplier], with the same bounds.

    Args:
        source_scales: the factors: numbers, or arrays with one for each channel, e.g.
            `[input_scale, weight_scales]`.
        target_scale: the divisor: a number or an array. All shapes must broadcast.

    Returns:
        Multipliers and shifts for [`apply_scale`][xdsl_quant.numerics.apply_scale], in the
        shape that the scales broadcast to.

    Raises:
        TypeError: if a scale is no number.
        ValueError: if one is not positive and finite, the shapes do not broadcast, or a
            quotient is `2**29` or more, or less than `2**-63`.
    """
    arrays = _broadcast_scales([*map(_positive, (*source_scales, target_scale))])
    shape = arrays[0].shape
    *sources, (divisors, divisor_exponents) = map(_integers_of, arrays)
    dividends = reduce(mul, [significands for significands, _ in sources])
    exponents = sum(exponents for _, exponents in sources) - divisor_exponents
    multipliers, shifts = _nearest_multipliers(dividends, divisors, exponents)
    if (wrong := first_wrong(multipliers, shifts)) is not None:
        index, reason = wrong
        *scales, divisor = (float(array.flat[index]) for array in arrays)
        ratio = f"{' * '.join(map(str, scales))} / {divisor}"
        raise ValueError(f"ratio of scales {ratio} is {reason}")
    return (
        multipliers.astype(np.int32).reshape(shape),
        shifts.astype(np.int8).reshape(shape),
    )


def _positive(scale: ArrayLike) -> Floats:
    array = numbers(scale, "scales", "iuf").astype(np.float64)
    check_positive(array, "scale")
    return array


def _broadcast_scales(arrays: Sequence[Floats]) -> Sequence[Floats]:
    try:
        return np.broadcast_arrays(*arrays)
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"scales of shapes {shapes} do not broadcast") from None


def _integers_of(scales: Floats) -> tuple[Array, Integers]:
    """
    Return one-dimensional integers of any size, and powers of two to multiply them by.
    """
    fractions, exponents = np.frexp(scales.ravel())
    significands = np.ldexp(fractions, _SIGNIFICAND_BITS).astype(np.int64)
    return significands.astype(object), exponents.astype(np.int64) - _SIGNIFICAND_BITS


def _nearest_multipliers(
    dividends: Array, divisors: Array, exponents: Integers
) -> tuple[Integers, Integers]:
    """Multipliers and shifts for `dividends / divisors * 2**exponents`."""
    # The quotient has so many bits before its point, or one more.
    bits = _bit_lengths(dividends) - _bit_lengths(divisors)
    bits += dividends * _powers_of_two(-bits) >= divisors * _powers_of_two(bits)
    shifts = np.minimum(31 - bits - exponents, MAX_SHIFT)
    powers = shifts + exponents
    dividends, divisors = (
        dividends * _powers_of_two(powers),
        divisors * _powers_of_two(-powers),
    )
    multipliers = ((2 * dividends + divisors) // (2 * divisors)).astype(np.int64)
    # Just below 2**31 is rounded to it.
    is_carried = multipliers == 1 << 31
    multipliers[is_carried] >>= 1
    return multipliers, shifts - is_carried


def _bit_lengths(integers: Array) -> Integers:
    return np.fromiter(map(int.bit_length, integers), np.int64, len(integers))


def _powers_of_two(exponents: Integers) -> Array:
    """Powers of two as integers of any size, and 1 for those less than 1."""
    return np.left_shift(1, np.maximum(exponents, 0).astype(object))


def requantize_fixed_point(
    stored_values: ArrayLike,
    source: QuantizationParameters,
    target: QuantizationParameters,
    *,
    rounding: ScaleRounding = "single",
    out: Array | None = None,
) -> Array:
    """
    Stored values of one quantization as those of another, with integers alone:

        clamp(apply_scale(stored - source.zero_point) + target.zero_point, min, max)

    Multiplier and shift are those of
    [`rescale_multiplier`][xdsl_quant.numerics.rescale_multiplier] for the ratio of the
    scales, which are taken as they are and not rounded to the expressed type.
    [`apply_scale`][xdsl_quant.numerics.apply_scale] is extended to all values: nothing
    overflows, whatever the stored values are.

    Before the clamp the result differs from the real number
    `x = (stored - source.zero_point) * source.scale / target.scale` and the zero point by
    at most `1 / 2 + abs(x) * 2**-31` (ratios from `2**-32`; with `double` up to `1 / 4`
    more).

    Args:
        stored_values: an array of any shape that all parameters fit, with dtype
            `source.storage_dtype`; or Python integers.
        source: the parameters of `stored_values`.
        target: the parameters of the result, with the expressed type of `source`.
        rounding: that of [`apply_scale`][xdsl_quant.numerics.apply_scale].
        out: where to put the stored values. It may overlap `stored_values`.

    Returns:
        `out`, or a new array, with dtype `target.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument is of the wrong type.
        ValueError: if the expressed types differ, a ratio of scales is `2**29` or more, or
            less than `2**-63`, an array has the wrong shape, or a stored value is outside
            of the storage type of `source`.
    """
    check_scale_rounding(rounding)
    check_requantization(source, target)
    values = stored_array(stored_values, source)
    values, out = checked_out(values, out, target.storage_dtype)
    if values.size:
        _requantize(values, out, (source, target), rounding)
    return out


def _requantize(
    values: Array,
    out: Array,
    types: tuple[QuantizationParameters, QuantizationParameters],
    rounding: ScaleRounding,
) -> None:
    grids = [
        (grid_block_shape(type_, values.shape), [type_.scales, type_.zero_points])
        for type_ in types
    ]
    stored, result, source_scales, source_zero_points, target_scales, zero_points = (
        aligned([values, out], grids)
    )
    multipliers, shifts = rescale_multiplier([source_scales], target_scales)
    operands = [
        array.astype(np.int64)
        for array in (multipliers, shifts, source_zero_points, zero_points)
    ]
    low, high = types[1].storage_min, types[1].storage_max
    for x, y, m, s, before, after in pieces([stored, result, *operands], PIECE):
        rescaled = scaled(x.astype(np.int64) - before, m, s, rounding)
        rescaled += after
        np.clip(rescaled, low, high, out=rescaled)
        np.copyto(y, rescaled, casting="unsafe")
