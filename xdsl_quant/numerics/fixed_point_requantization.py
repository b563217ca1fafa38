"""Integer-only requantization by multiplier and shift."""

from collections.abc import Sequence
from functools import reduce
from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.rounding_mode import ScaleRounding

from .arguments import check_requantization, stored_array
from .arrays import Array, Floats, Integers, check_positive, disjoint_output, numbers
from .blocks import broadcastable_views, grid_block_shape, pieces
from .fixed_point import (
    MAX_SHIFT,
    PIECE,
    apply_scale_unchecked,
    check_scale_rounding,
    first_unsupported,
)
from .parameters import QuantizationParameters

_SIGNIFICAND_BITS = 53


def rescale_multiplier(
    source_scales: Sequence[ArrayLike], target_scale: ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """
    Return the multiplier and shift for which `multiplier / 2**shift` is nearest to the
    product of source scales divided by a target scale.

    Product and quotient are exact. The result is rounded once, with the relative error of
    [`quantize_multiplier`][xdsl_quant.numerics.quantize_multiplier].

    Args:
        source_scales: the factors: numbers, or arrays with one scale per channel, e.g.
            `[input_scale, weight_scales]`.
        target_scale: the divisor: a number or an array. All shapes must broadcast.

    Returns:
        Multipliers and shifts for [`apply_scale`][xdsl_quant.numerics.apply_scale], in the
            broadcast shape.

    Raises:
        TypeError: if a scale is not numeric.
        ValueError: if a scale is not positive and finite, the shapes do not broadcast, or a
            quotient is `2**29` or more, or less than `2**-63`.
    """
    arrays = _broadcast_scales([*map(_positive, (*source_scales, target_scale))])
    shape = arrays[0].shape
    *sources, (divisors, divisor_exponents) = map(_integers_of, arrays)
    dividends = reduce(mul, [significands for significands, _ in sources])
    exponents = sum(exponents for _, exponents in sources) - divisor_exponents
    multipliers, shifts = _nearest_multipliers(dividends, divisors, exponents)
    if (wrong := first_unsupported(multipliers, shifts)) is not None:
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
    """Return flat arrays of the scales' significands (Python integers) and exponents."""
    fractions, exponents = np.frexp(scales.ravel())
    significands = np.ldexp(fractions, _SIGNIFICAND_BITS).astype(np.int64)
    return significands.astype(object), exponents.astype(np.int64) - _SIGNIFICAND_BITS


def _nearest_multipliers(
    dividends: Array, divisors: Array, exponents: Integers
) -> tuple[Integers, Integers]:
    """Return multipliers and shifts for `dividends / divisors * 2**exponents`."""
    # Number of integer bits of the quotient, or one less.
    bits = _bit_lengths(dividends) - _bit_lengths(divisors)
    bits += dividends * _powers_of_two(-bits) >= divisors * _powers_of_two(bits)
    shifts = np.minimum(31 - bits - exponents, MAX_SHIFT)
    powers = shifts + exponents
    dividends = dividends * _powers_of_two(powers)
    divisors = divisors * _powers_of_two(-powers)
    multipliers = ((2 * dividends + divisors) // (2 * divisors)).astype(np.int64)
    # Quotients just below 2**31 may round to it.
    is_carried = multipliers == 1 << 31
    multipliers[is_carried] >>= 1
    return multipliers, shifts - is_carried


def _bit_lengths(integers: Array) -> Integers:
    return np.fromiter(map(int.bit_length, integers), np.int64, len(integers))


def _powers_of_two(exponents: Integers) -> Array:
    """Return powers of two as Python integers, 1 for negative exponents."""
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
    Requantize stored values with integers only:

        clamp(apply_scale(stored - source.zero_point) + target.zero_point, min, max)

    Multiplier and shift are those of
    [`rescale_multiplier`][xdsl_quant.numerics.rescale_multiplier] for the ratio of the
    scales, which are not rounded to the expressed type. Unlike
    [`apply_scale`][xdsl_quant.numerics.apply_scale], all stored values are supported
    without overflow.

    Let `x = (stored - source.zero_point) * source.scale / target.scale`, without rounding.
    For ratios of at least `2**-32`, the result before clamping differs from
    `x + target.zero_point` by at most `1/2 + abs(x) * 2**-31`. With `double`, this bound is
    `1/4` higher.

    Args:
        stored_values: an array in a shape that matches all parameters, with dtype
            `source.storage_dtype`; or Python integers.
        source: the parameters of `stored_values`.
        target: the parameters of the result, with the expressed type of `source`.
        rounding: the rounding of [`apply_scale`][xdsl_quant.numerics.apply_scale].
        out: the output array. It may overlap `stored_values`.

    Returns:
        `out`, or a new array, with dtype `target.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument has the wrong type.
        ValueError: if the expressed types differ, a ratio of scales is `2**29` or more, or
            less than `2**-63`, an array has the wrong shape, or a stored value is out of
            range of the storage type of `source`.
    """
    check_scale_rounding(rounding)
    check_requantization(source, target)
    values = stored_array(stored_values, source)
    values, out = disjoint_output(values, out, target.storage_dtype)
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
        broadcastable_views([values, out], grids)
    )
    multipliers, shifts = rescale_multiplier([source_scales], target_scales)
    operands = [
        array.astype(np.int64)
        for array in (multipliers, shifts, source_zero_points, zero_points)
    ]
    low, high = types[1].storage_min, types[1].storage_max
    for x, y, m, s, source_zero, target_zero in pieces(
        [stored, result, *operands], PIECE
    ):
        rescaled = apply_scale_unchecked(
            x.astype(np.int64) - source_zero, m, s, rounding
        )
        rescaled += target_zero
        np.clip(rescaled, low, high, out=rescaled)
        np.copyto(y, rescaled, casting="unsafe")
