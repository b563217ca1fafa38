"""
Fixed-point scales as other tools write them: an integer multiplier and a shift.

| pair of | scale | multiplier | shift |
|---|---|---|---|
| TOSA | `multiplier * 2**-shift` | up to 31 bits | to the right, 2 to 62 |
| TensorFlow Lite | `multiplier * 2**(shift - 31)` | the same | to the left, -31 to 29 |

`!quant.fixed_point` has TOSA's pair with a multiplier of exactly 31 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, Integers, check_bounds, numbers
from .fixed_point import MAX_SHIFT, MIN_SHIFT

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
    The pair of a multiplier of 31 bits and a shift with exactly the same scale
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
    The pair of `!quant.fixed_point` for a pair of TensorFlow Lite's kernels, whose scale is
    `multiplier * 2**(shift - 31)`: exactly the same scale, as by
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
    The pair of TensorFlow Lite's kernels with the scale `multiplier * 2**-shift`: the same
    multiplier, and `31 - shift`, the shift to the left.

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
