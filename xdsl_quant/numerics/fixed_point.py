"""Integer-only quantization: fixed-point multipliers, and zero-point-corrected values."""

from collections.abc import Sequence
from typing import get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.rounding_mode import ScaleRounding

from .arguments import check_are_parameters, stored_array
from .arrays import Array, Integers, check_bounds, check_positive, numbers
from .blocks import broadcastable_views, grid_block_shape, merged_views, pieces
from .parameters import QuantizationParameters

MIN_SHIFT, MAX_SHIFT = 2, 62
_INT32 = np.iinfo(np.int32)

PIECE = 1 << 14
"""Number of elements computed at a time, so that several int64 arrays fit the cache."""


# Multipliers


@overload
def quantize_multiplier(real: float) -> tuple[int, int]: ...
@overload
def quantize_multiplier(
    real: Array | Sequence[float],
) -> tuple[NDArray[np.int32], NDArray[np.int8]]: ...
def quantize_multiplier(
    real: float | Array | Sequence[float],
) -> tuple[int, int] | tuple[NDArray[np.int32], NDArray[np.int8]]:
    """
    Return the multiplier and shift for which `multiplier / 2**shift` is nearest to `real`.

    For numbers of at least `2**-32`, the multiplier is at least `2**30`, so the relative
    error is at most `2**-31`. Smaller numbers have shift 62 and a smaller multiplier.

    Args:
        real: a positive number, e.g. `input_scale * weight_scale / output_scale`, or an
            array or list of positive numbers.

    Returns:
        Multiplier and shift for [`apply_scale`][xdsl_quant.numerics.apply_scale]: two
            integers for a number, or an `int32` and an `int8` array.

    Raises:
        TypeError: if `real` is not numeric.
        ValueError: if a number is NaN, not positive, `2**29` or more, or less than
            `2**-63`.
    """
    values = numbers(real, "multipliers", "iuf").astype(np.float64)
    check_positive(values, "multiplier")
    mantissas, exponents = np.frexp(values)
    # Shifts beyond the largest one reduce the precision of the multiplier.
    shifts = np.minimum(31 - exponents, MAX_SHIFT)
    multipliers = np.floor(np.ldexp(mantissas, exponents + shifts) + 0.5)
    # A mantissa just below 1 may round to 1.
    is_carried = multipliers == 2.0**31
    multipliers = np.where(is_carried, 2.0**30, multipliers)
    shifts = shifts - is_carried
    if (wrong := first_unsupported(multipliers, shifts)) is not None:
        index, reason = wrong
        raise ValueError(f"multiplier {values.flat[index]} is {reason}")
    if not (isinstance(real, np.ndarray) or values.ndim):
        return int(multipliers), int(shifts)
    return multipliers.astype(np.int32), shifts.astype(np.int8)


def first_unsupported(multipliers: Array, shifts: Array) -> tuple[int, str] | None:
    """Return the flat index of an unsupported multiplier and the reason, or `None`."""
    for is_wrong, reason in (
        (shifts < MIN_SHIFT, "too large; expected less than 2**29"),
        (multipliers == 0, "too small; expected at least 2**-63"),
    ):
        if is_wrong.any():
            return int(is_wrong.argmax()), reason
    return None


def apply_scale(
    values: ArrayLike,
    multiplier: ArrayLike,
    shift: ArrayLike,
    rounding: ScaleRounding = "single",
) -> NDArray[np.int32]:
    """
    Multiply integers by `multiplier / 2**shift`, exactly as `apply_scale_32` of the [TOSA
    specification](https://www.mlplatform.org/tosa/tosa_spec.html):
    `(value * multiplier + (1 << (shift - 1))) >> shift` in 64 bits.

    Args:
        values: 32-bit integers: an array of any shape, or Python integers.
        multiplier: integers from 0 to `2**31 - 1`, in a shape that broadcasts with
            `values`, e.g. one per channel.
        shift: integers from 2 to 62, in a shape that broadcasts with `values`.
        rounding: `single` rounds half up. For shifts greater than 31, `double` adds another
            `2**30` to products of non-negative values, and subtracts it from products of
            negative values.

    Returns:
        The products, in the broadcast shape.

    Raises:
        TypeError: if an argument is not integer.
        ValueError: if the specification excludes an argument, e.g. values outside of
            `-(1 << (shift - 1))` to `(1 << (shift - 1)) - 1`, whose products may exceed 32
            bits.
    """
    check_scale_rounding(rounding)
    factors = _bounded_integers(multiplier, "multiplier", 0, _INT32.max)
    shifts = _bounded_integers(shift, "shift", MIN_SHIFT, MAX_SHIFT)
    integers = _bounded_integers(values, "value", _INT32.min, _INT32.max)
    shape = _broadcast_shape(integers, factors, shifts)
    result = np.empty(shape, np.int32)
    if not result.size:
        return result
    operands = [array.astype(np.int64) for array in (factors, shifts)]
    views = [np.broadcast_to(integers, shape), result]
    for x, out, m, s in pieces(merged_views(views, operands), PIECE):
        wide = x.astype(np.int64)
        _check_shiftable(wide, s)
        # For values in this range, the magnitude of results is at most 2**30.
        np.copyto(out, apply_scale_unchecked(wide, m, s, rounding), casting="unsafe")
    return result


def _broadcast_shape(integers: Array, factors: Array, shifts: Array) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(integers.shape, factors.shape, shifts.shape)
    except ValueError:
        raise ValueError(
            f"values of shape {integers.shape}, multipliers of shape {factors.shape} and "
            f"shifts of shape {shifts.shape} do not broadcast"
        ) from None


def _check_shiftable(values: Integers, shifts: Integers) -> None:
    """Raise a `ValueError` if a value is outside of TOSA's range for its shift."""
    bounds = np.int64(1) << (shifts - 1)
    if (does_fit := (values >= -bounds) & (values < bounds)).all():
        return
    bound = int(np.broadcast_to(bounds, values.shape)[~does_fit][0])
    raise ValueError(
        f"value {values[~does_fit][0]} is out of range for a shift of "
        f"{bound.bit_length()}; expected {-bound} to {bound - 1}"
    )


def check_scale_rounding(rounding: ScaleRounding) -> None:
    """Raise a `ValueError` if the rounding is unknown."""
    if rounding not in get_args(ScaleRounding):
        raise ValueError(
            f"unknown rounding {rounding!r}, available: 'single', 'double'"
        )


def _bounded_integers(values: ArrayLike, what: str, low: int, high: int) -> Array:
    array = numbers(values, f"{what}s", "iu")
    check_bounds(array, low, high, f"{what} {{}} is out of the range {low} to {high}")
    return array


def apply_scale_unchecked(
    values: Integers, multipliers: Integers, shifts: Integers, rounding: ScaleRounding
) -> Integers:
    """Compute `apply_scale` for values of up to 33 bits, without checks."""
    products = values * multipliers
    if rounding == "double":
        increments = np.where(shifts > 31, np.int64(1) << 30, 0)
        products += np.where(values >= 0, increments, -increments)
    # Equal to `products + (1 << (shifts - 1)) >> shifts`, whose sum may overflow.
    products >>= shifts - 1
    products += 1
    products >>= 1
    return products


# Zero points


def affine_to_fixed_point(
    stored_values: ArrayLike, parameters: QuantizationParameters
) -> Array:
    """
    Convert stored values to zero-point-corrected values, `stored - zero_point`, which can
    be added and multiplied.

    See external
    [documentation](https://mlir.llvm.org/docs/Quantization/#affine-to-fixed-point).

    Args:
        stored_values: an array in a shape that matches the parameters, with dtype
            `parameters.storage_dtype`; or Python integers.
        parameters: the parameters.

    Returns:
        An array with dtype `int32`, or `int64` for 32-bit storage types.

    Raises:
        TypeError: if an array has the wrong dtype.
        ValueError: if an array has the wrong shape, or a stored value is out of range of
            the storage type.
    """
    values = stored_array(stored_values, parameters)
    grid = (grid_block_shape(parameters, values.shape), [parameters.zero_points])
    dtype = np.dtype(np.int32 if parameters.storage_width < 32 else np.int64)
    result = np.empty_like(values, dtype, subok=False)
    if values.size:
        stored, out, zero_points = broadcastable_views([values, result], [grid])
        np.subtract(stored, zero_points.astype(dtype), out=out, dtype=dtype)
    return result


def fixed_point_to_affine(
    fixed_point_values: ArrayLike, parameters: QuantizationParameters
) -> Array:
    """
    Convert zero-point-corrected values to stored values, `fixed_point + zero_point`, which
    saturate.

    See external
    [documentation](https://mlir.llvm.org/docs/Quantization/#fixed-point-to-affine).

    Args:
        fixed_point_values: signed integers in a shape that matches the parameters.
        parameters: the parameters.

    Returns:
        An array with dtype `parameters.storage_dtype`.

    Raises:
        TypeError: if values are not signed integers.
        ValueError: if values have the wrong shape.
    """
    check_are_parameters(parameters)
    values = numbers(fixed_point_values, "fixed-point values", "i")
    grid = (grid_block_shape(parameters, values.shape), [parameters.zero_points])
    result = np.empty_like(values, parameters.storage_dtype, subok=False)
    if not values.size:
        return result
    low, high = parameters.storage_min, parameters.storage_max
    views = broadcastable_views([values, result], [grid])
    for fixed_point, out, zero_points in pieces(views, PIECE):
        # Clamped values do not overflow in the sum.
        wide = fixed_point.astype(np.int64)
        clamped = np.clip(wide, low - zero_points, high - zero_points)
        np.copyto(out, clamped + zero_points, casting="unsafe")
    return result


# Multipliers and shifts in the conventions of other tools


_BITS = 31
_MAX_MULTIPLIER = (1 << _BITS) - 1

_Arrays = Array | Sequence[int]
_ArrayPair = tuple[NDArray[np.int32], NDArray[np.int8]]


@overload
def normalize_multiplier(multiplier: int, shift: int) -> tuple[int, int]: ...
@overload
def normalize_multiplier(multiplier: _Arrays, shift: _Arrays | int) -> _ArrayPair: ...
def normalize_multiplier(
    multiplier: _Arrays | int, shift: _Arrays | int
) -> tuple[int, int] | _ArrayPair:
    """
    Return the multiplier with 31 significant bits and the shift that represent the same
    scale, `multiplier * 2**-shift`, as in `!quant.fixed_point`.

    For example, multiplier 16384 and shift 15 of a `tosa.rescale` with `scale32 = false`
    become 1073741824 and 31.

    Args:
        multiplier: a positive 64-bit integer, or an array or list of such integers.
        shift: the right shift: an integer, or one per multiplier.

    Returns:
        Two integers for integers, an `int32` and an `int8` array for arrays or lists.

    Raises:
        TypeError: if an argument is not integer.
        ValueError: if a multiplier is not positive or has more than 31 significant bits,
            the resulting shift is not from 2 to 62, or the shapes do not broadcast.
    """
    return _pair(*_normalize(*_broadcast_pair(multiplier, shift)))


def _broadcast_pair(
    multiplier: ArrayLike, shift: ArrayLike
) -> tuple[Integers, Integers]:
    arrays = [numbers(multiplier, "multipliers", "iu"), numbers(shift, "shifts", "iu")]
    try:
        multipliers, shifts = np.broadcast_arrays(*arrays)
    except ValueError:
        raise ValueError(
            f"multipliers of shape {arrays[0].shape} and shifts of shape "
            f"{arrays[1].shape} do not broadcast"
        ) from None
    for array, what, dtype in (
        (multipliers, "multiplier", np.int64),
        (shifts, "shift", np.int32),
    ):
        ends = np.iinfo(dtype)
        message = f"{what} {{}} is not representable in i{ends.bits}"
        check_bounds(array, int(ends.min), int(ends.max), message)
    return multipliers.astype(np.int64), shifts.astype(np.int64)


def _normalize(multipliers: Integers, shifts: Integers) -> tuple[Integers, Integers]:
    if (wrong := multipliers[multipliers < 1]).size:
        raise ValueError(f"expected a positive multiplier, found {wrong[0]}")
    # Integers of more than 53 bits may be rounded to one bit more, but are too long
    # anyway.
    zeros = _BITS - np.frexp(multipliers.astype(np.float64))[1].astype(np.int64)
    left, right = np.maximum(zeros, 0), np.maximum(-zeros, 0)
    significands = multipliers << left >> right
    if (is_long := significands << right != multipliers << left).any():
        raise ValueError(
            f"multiplier {multipliers[is_long][0]} has more than {_BITS} significant bits"
        )
    right_shifts = shifts + zeros
    if (is_wrong := (right_shifts < MIN_SHIFT) | (right_shifts > MAX_SHIFT)).any():
        raise ValueError(
            f"multiplier {multipliers[is_wrong][0]} with a right shift of "
            f"{shifts[is_wrong][0]} normalizes to '{significands[is_wrong][0]}p"
            f"{-right_shifts[is_wrong][0]}': shift {right_shifts[is_wrong][0]} is out of "
            f"the range {MIN_SHIFT} to {MAX_SHIFT}"
        )
    return significands, right_shifts


def _pair(multipliers: Integers, shifts: Integers) -> tuple[int, int] | _ArrayPair:
    if not multipliers.ndim:
        return int(multipliers), int(shifts)
    return multipliers.astype(np.int32), shifts.astype(np.int8)


@overload
def multiplier_from_tflite(multiplier: int, shift: int) -> tuple[int, int]: ...
@overload
def multiplier_from_tflite(multiplier: _Arrays, shift: _Arrays | int) -> _ArrayPair: ...
def multiplier_from_tflite(
    multiplier: _Arrays | int, shift: _Arrays | int
) -> tuple[int, int] | _ArrayPair:
    """
    Convert a multiplier and shift of TensorFlow Lite's kernels, with the scale
    `multiplier * 2**(shift - 31)`, to those of `!quant.fixed_point` for the same scale:
    see [`normalize_multiplier`][xdsl_quant.numerics.normalize_multiplier].

    Args:
        multiplier: a positive integer, or an array or list of positive integers.
        shift: the left shift: an integer, or one per multiplier.

    Returns:
        Multiplier and right shift: two integers for integers, an `int32` and an
        `int8` array for arrays or lists.

    Raises:
        TypeError: if an argument is not integer.
        ValueError: as in `normalize_multiplier`, e.g. for TensorFlow Lite's multiplier 0,
            which replaces scales less than `2**-32`, and for shifts greater than 29.
    """
    multipliers, shifts = _broadcast_pair(multiplier, shift)
    return _pair(*_normalize(multipliers, _BITS - shifts))


@overload
def multiplier_to_tflite(multiplier: int, shift: int) -> tuple[int, int]: ...
@overload
def multiplier_to_tflite(multiplier: _Arrays, shift: _Arrays | int) -> _ArrayPair: ...
def multiplier_to_tflite(
    multiplier: ArrayLike, shift: ArrayLike
) -> tuple[int, int] | _ArrayPair:
    """
    Return the multiplier and shift of TensorFlow Lite's kernels for the scale
    `multiplier * 2**-shift`: the same multiplier, and the left shift `31 - shift`.

    Args:
        multiplier: an integer from 0 to `2**31 - 1`, or an array or list of integers.
        shift: the right shift, from 2 to 62: an integer, or one per multiplier.

    Returns:
        Multiplier and left shift: two integers for integers, an `int32` and an
        `int8` array for arrays or lists.

    Raises:
        TypeError: if an argument is not integer.
        ValueError: if an argument is out of range, or the shapes do not broadcast.
    """
    multipliers, shifts = _broadcast_pair(multiplier, shift)
    for array, what, low, high in (
        (multipliers, "multiplier", 0, _MAX_MULTIPLIER),
        (shifts, "shift", MIN_SHIFT, MAX_SHIFT),
    ):
        check_bounds(
            array, low, high, f"{what} {{}} is out of the range {low} to {high}"
        )
    return _pair(multipliers, _BITS - shifts)
