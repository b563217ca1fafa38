"""
Quantization with integers alone: fixed-point multipliers, and affine values without their
zero point.
"""

from collections.abc import Sequence
from typing import get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.rounding_mode import ScaleRounding

from .arguments import check_are_parameters, stored_array
from .arrays import Array, Integers, check_bounds, check_positive, numbers
from .blocks import aligned, grid_block_shape, merged_views, pieces
from .parameters import QuantizationParameters

MIN_SHIFT, MAX_SHIFT = 2, 62
_INT32 = np.iinfo(np.int32)

PIECE = 1 << 14
"""Elements that are computed at once: some arrays of int64 fit the cache."""


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
    Return the integers for which `multiplier / 2**shift` is nearest to a positive real
    number.

    The multiplier is at least `2**30`, so the relative error is at most `2**-31`, unless
    the number is less than `2**-32`: the shift is 62 then and the multiplier smaller.

    Args:
        real: a number, e.g. `input_scale * weight_scale / output_scale`, or an array
            or list of them.

    Returns:
        Multiplier and shift for [`apply_scale`][xdsl_quant.numerics.apply_scale]: two
        integers for a number, an `int32` and an `int8` array for an array or
        a list.

    Raises:
        TypeError: if `real` is no number.
        ValueError: if it is not positive, NaN, `2**29` or more, or less than `2**-63`.
    """
    values = numbers(real, "multipliers", "iuf").astype(np.float64)
    check_positive(values, "multiplier")
    mantissas, exponents = np.frexp(values)
    # More than the largest shift takes bits from the multiplier.
    shifts = np.minimum(31 - exponents, MAX_SHIFT)
    multipliers = np.floor(np.ldexp(mantissas, exponents + shifts) + 0.5)
    # A mantissa just below 1 is rounded to 1.
    is_carried = multipliers == 2.0**31
    multipliers = np.where(is_carried, 2.0**30, multipliers)
    shifts = shifts - is_carried
    if (wrong := first_wrong(multipliers, shifts)) is not None:
        index, reason = wrong
        raise ValueError(f"multiplier {values.flat[index]} is {reason}")
    if not (isinstance(real, np.ndarray) or values.ndim):
        return int(multipliers), int(shifts)
    return multipliers.astype(np.int32), shifts.astype(np.int8)


def first_wrong(multipliers: Array, shifts: Array) -> tuple[int, str] | None:
    """Return the flat index of a multiplier that is out of bounds, and the reason."""
    for is_wrong, reason in (
        (shifts < MIN_SHIFT, "too large, it must be less than 2**29"),
        (multipliers == 0, "too small, it must be at least 2**-63"),
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
    Values times `multiplier / 2**shift` in integers, exactly as `apply_scale_32` of the
    [TOSA specification](https://www.mlplatform.org/tosa/tosa_spec.html):
    `(value * multiplier + (1 << (shift - 1))) >> shift` with 64 bits.

    Args:
        values: integers of 32 bits: an array of any shape, or Python integers.
        multiplier: integers from 0 to `2**31 - 1`, in a shape that broadcasts with
            `values`, e.g. one for each channel.
        shift: integers from 2 to 62, in a shape that broadcasts with `values`.
        rounding: `single` rounds half up. With `double` what is added before a shift of
            more than 31 is `2**30` larger for values from 0 and smaller for negative ones.

    Returns:
        The products, in the shape that the arguments broadcast to.

    Raises:
        TypeError: if an argument has no integers.
        ValueError: if the specification does not allow an argument, which includes values
            outside of `-(1 << (shift - 1))` to `(1 << (shift - 1)) - 1`. All products
            of others fit 32 bits.
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
        # With values of such a size no result is more than 2**30.
        np.copyto(out, scaled(wide, m, s, rounding), casting="unsafe")
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
    """Raise a `ValueError` if the specification does not allow a value with its shift."""
    bounds = np.int64(1) << (shifts - 1)
    if (does_fit := (values >= -bounds) & (values < bounds)).all():
        return
    bound = int(np.broadcast_to(bounds, values.shape)[~does_fit][0])
    raise ValueError(
        f"value {values[~does_fit][0]} is not in the range {-bound} to {bound - 1} "
        f"that a shift of {bound.bit_length()} takes"
    )


def check_scale_rounding(rounding: ScaleRounding) -> None:
    """Raise a `ValueError` if there is no such rounding."""
    if rounding not in get_args(ScaleRounding):
        raise ValueError(
            f"rounding is 'single' or 'double', but {rounding!r} was given"
        )


def _bounded_integers(values: ArrayLike, what: str, low: int, high: int) -> Array:
    array = numbers(values, f"{what}s", "iu")
    message = f"{what} {{}} is not in the range {low} to {high}"
    check_bounds(array, low, high, message)
    return array


def scaled(
    values: Integers, multipliers: Integers, shifts: Integers, rounding: ScaleRounding
) -> Integers:
    """
    What `apply_scale` computes, for values of up to 33 bits with their sign: differences
    of two integers of 32 bits. They may be large for the shift.
    """
    products = values * multipliers
    if rounding == "double":
        more = np.where(shifts > 31, np.int64(1) << 30, 0)
        products += np.where(values >= 0, more, -more)
    # The same as `products + (1 << (shifts - 1)) >> shifts`, but that sum may overflow.
    products >>= shifts - 1
    products += 1
    products >>= 1
    return products


# Zero points


def affine_to_fixed_point(
    stored_values: ArrayLike, parameters: QuantizationParameters
) -> Array:
    """
    Affine values, which are stored values, as fixed-point values of the same scale:
    `stored - zero_point`. Unlike affine values these can be added and multiplied.

    See external [documentation](https://mlir.llvm.org/docs/Quantization/#affine-to-fixed-point).

    Args:
        stored_values: an array of any shape that the parameters fit, with dtype
            `parameters.storage_dtype`; or Python integers.
        parameters: the parameters.

    Returns:
        An array of `int32`, or of `int64` for 32 bits of storage.

    Raises:
        TypeError: if an array has the wrong dtype.
        ValueError: if an array has the wrong shape, or a stored value is outside of the
            storage type.
    """
    values = stored_array(stored_values, parameters)
    grid = (grid_block_shape(parameters, values.shape), [parameters.zero_points])
    dtype = np.dtype(np.int32 if parameters.storage_width < 32 else np.int64)
    result = np.empty_like(values, dtype, subok=False)
    if values.size:
        stored, out, zero_points = aligned([values, result], [grid])
        np.subtract(stored, zero_points.astype(dtype), out=out, dtype=dtype)
    return result


def fixed_point_to_affine(
    fixed_point_values: ArrayLike, parameters: QuantizationParameters
) -> Array:
    """
    Fixed-point values as affine values, which are stored values, of the same scale:
    `fixed_point + zero_point`. What is out of the storage range becomes its nearer end.

    See external [documentation](https://mlir.llvm.org/docs/Quantization/#fixed-point-to-affine).

    Args:
        fixed_point_values: signed integers of any shape that the parameters fit.
        parameters: the parameters.

    Returns:
        An array with dtype `parameters.storage_dtype`.

    Raises:
        TypeError: if the values are no signed integers.
        ValueError: if they have the wrong shape.
    """
    check_are_parameters(parameters)
    values = numbers(fixed_point_values, "fixed-point values", "i")
    grid = (grid_block_shape(parameters, values.shape), [parameters.zero_points])
    result = np.empty_like(values, parameters.storage_dtype, subok=False)
    if not values.size:
        return result
    low, high = parameters.storage_min, parameters.storage_max
    views = aligned([values, result], [grid])
    for fixed_point, out, zero_points in pieces(views, PIECE):
        # Clamped first, no sum overflows.
        wide = fixed_point.astype(np.int64)
        clamped = np.clip(wide, low - zero_points, high - zero_points)
        np.copyto(out, clamped + zero_points, casting="unsafe")
    return result


# Multipliers and shifts as other tools write them


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
    Return the pair of a multiplier of 31 bits and a shift with exactly the same scale
    `multiplier * 2**-shift`: the one that `!quant.fixed_point` has.

    For example, multiplier 16384 and shift 15, which are those of a `tosa.rescale` with
    `scale32 = false`, become 1073741824 and 31.

    Args:
        multiplier: a positive integer of 64 bits, or an array or list of them.
        shift: the shift to the right: an integer, or one for each multiplier.

    Returns:
        Two integers for integers, an `int32` and an `int8` array for arrays or lists.

    Raises:
        TypeError: if an argument has no integers.
        ValueError: if a multiplier is not positive or has more than 31 significant bits,
            the shift would not be 2 to 62, or the shapes do not broadcast.
    """
    return _pair(*_normalized(*_broadcast_pair(multiplier, shift)))


def _broadcast_pair(
    multiplier: ArrayLike, shift: ArrayLike
) -> tuple[Integers, Integers]:
    """Arrays of one shape."""
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


def _normalized(multipliers: Integers, shifts: Integers) -> tuple[Integers, Integers]:
    if (wrong := multipliers[multipliers < 1]).size:
        raise ValueError(
            f"multiplier {wrong[0]} has no fixed-point scale, expected a positive one"
        )
    # Rounding adds a bit to some of more than 53 bits, which are too long in any case.
    zeros = _BITS - np.frexp(multipliers.astype(np.float64))[1].astype(np.int64)
    left, right = np.maximum(zeros, 0), np.maximum(-zeros, 0)
    same = multipliers << left >> right
    if (is_long := same << right != multipliers << left).any():
        raise ValueError(
            f"multiplier {multipliers[is_long][0]} has more than {_BITS} significant bits"
        )
    new = shifts + zeros
    if (is_wrong := (new < MIN_SHIFT) | (new > MAX_SHIFT)).any():
        raise ValueError(
            f"multiplier {multipliers[is_wrong][0]} with a right shift of "
            f"{shifts[is_wrong][0]} is '{same[is_wrong][0]}p{-new[is_wrong][0]}', whose "
            f"shift is not in the range {MIN_SHIFT} to {MAX_SHIFT}"
        )
    return same, new


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
    Return the pair of `!quant.fixed_point` for a pair of TensorFlow Lite's kernels,
    whose scale is `multiplier * 2**(shift - 31)`: exactly the same scale, as by
    [`normalize_multiplier`][xdsl_quant.numerics.normalize_multiplier].

    Args:
        multiplier: a positive integer, or an array or list of them.
        shift: the shift to the left: an integer, or one for each multiplier.

    Returns:
        Multiplier and shift to the right: two integers for integers, an `int32` and an
        `int8` array for arrays or lists.

    Raises:
        TypeError: if an argument has no integers.
        ValueError: as by `normalize_multiplier`. TensorFlow Lite's multiplier 0, which
            stands for less than `2**-32`, and shifts of more than 29 are among them.
    """
    multipliers, shifts = _broadcast_pair(multiplier, shift)
    return _pair(*_normalized(multipliers, _BITS - shifts))


@overload
def multiplier_to_tflite(multiplier: int, shift: int) -> tuple[int, int]: ...
@overload
def multiplier_to_tflite(multiplier: _Arrays, shift: _Arrays | int) -> _ArrayPair: ...
def multiplier_to_tflite(
    multiplier: ArrayLike, shift: ArrayLike
) -> tuple[int, int] | _ArrayPair:
    """
    Return the pair of TensorFlow Lite's kernels with the scale `multiplier *
    2**-shift`: the same multiplier, and `31 - shift`, the shift to the left.

    Args:
        multiplier: an integer from 0 to `2**31 - 1`, or an array or list of them.
        shift: the shift to the right, from 2 to 62: an integer, or one for each multiplier.

    Returns:
        Multiplier and shift to the left: two integers for integers, an `int32` and an
        `int8` array for arrays or lists.

    Raises:
        TypeError: if an argument has no integers.
        ValueError: if one is out of these bounds, or the shapes do not broadcast.
    """
    multipliers, shifts = _broadcast_pair(multiplier, shift)
    for array, what, low, high in (
        (multipliers, "multiplier", 0, _MAX_MULTIPLIER),
        (shifts, "shift", MIN_SHIFT, MAX_SHIFT),
    ):
        check_bounds(
            array, low, high, f"{what} {{}} is not in the range {low} to {high}"
        )
    return _pair(multipliers, _BITS - shifts)
