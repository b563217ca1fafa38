"""Checks and conversions of array arguments."""

from collections.abc import Callable
from io import BytesIO
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
"""Array of any dtype."""

DType = np.dtype[Any]
"""Any dtype."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def check_unmasked(values: object, what: str) -> None:
    """Raise a `TypeError` for masked arrays, or lists of them: masks would be ignored."""
    if _has_mask(values):
        raise TypeError(
            f"unsupported masked array in {what}; use its .filled(value) or .compressed()"
        )


def _has_mask(values: object) -> bool:
    if isinstance(values, np.ndarray):
        # Importing `numpy.ma` takes long, and most arrays are plain.
        array = cast("Array", values)
        return type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray)
    if not isinstance(values, list | tuple):
        return False
    items = cast("list[object] | tuple[object, ...]", values)
    # Lists of numbers have few types, so visit types instead of items.
    types = set(map(type, items))
    is_nested = any(issubclass(kind, list | tuple | np.ndarray) for kind in types)
    return is_nested and any(map(_has_mask, items))


def numbers(values: ArrayLike, what: str, kinds: str) -> Array:
    """
    Return values as an array whose dtype kind is in `kinds`: `iu`, `iuf` or the like.

    Raises:
        TypeError: if the dtype is of another kind, or an array is masked.
        ValueError: if lists are ragged.
    """
    check_unmasked(values, what)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"unsupported ragged lists in {what}") from None
    if not array.size and array.dtype == np.float64:
        # An empty list becomes float64, whatever kind is expected.
        return array.astype(np.int64)
    if array.dtype.kind not in kinds:
        needed = "numbers" if "f" in kinds else "integers"
        raise TypeError(f"expected {needed} as {what}, found dtype {array.dtype}")
    return array


def check_bounds(values: Array, low: int, high: int, message: str) -> None:
    """
    Raise an error if an integer is out of bounds.

    Args:
        values: integers.
        low: the smallest valid integer.
        high: the largest valid integer.
        message: the error message, with `{}` for the first invalid integer and its index.

    Raises:
        ValueError: if an integer is out of bounds.
    """
    if values.size and not low <= int(values.min()) <= int(values.max()) <= high:
        first = element_text(values, (values < low) | (values > high))
        raise ValueError(message.format(first))


def element_text(values: Array, is_wrong: NDArray[np.bool_]) -> str:
    """Return the first wrong element and its index, e.g. `nan at index (0, 3)`."""
    position = np.unravel_index(int(is_wrong.argmax()), values.shape)
    index = position[0] if len(position) == 1 else tuple(map(int, position))
    found = f"{values[position]}"
    return f"{found} at index {index}" if values.size > 1 else found


def sign_extended(integers: Array, width: int) -> Array:
    """Return the lowest `width` bits of integers, sign-extended."""
    unused = 8 * integers.itemsize - width
    signed = integers.view(f"i{integers.itemsize}")
    return signed << unused >> unused if unused else signed


_MANY_LIMITS = 128
"""Number of limits from which a binary search is faster than comparisons."""

_PIECE = 1 << 16
"""Element count per piece, which fits the cache."""


def counts_below(limits: Array, numbers: Array) -> NDArray[np.integer]:
    """
    Count for each number the limits that are less than it.

    Args:
        limits: numbers in ascending order.
        numbers: an array of any shape. The result for NaN is undefined.

    Returns:
        an array in the shape of `numbers`, with dtype `uint8` for fewer than 128 limits.
    """
    if limits.size >= _MANY_LIMITS:
        return np.searchsorted(limits, numbers)
    # Comparisons with 15 limits take an eighth of the time of a binary search.
    flat = numbers.reshape(-1)
    counts = np.zeros(flat.size, np.uint8)
    for start in range(0, flat.size, _PIECE):
        piece = slice(start, start + _PIECE)
        for limit in limits:
            counts[piece] += flat[piece] > limit
    return counts.reshape(numbers.shape)


def array_of_bytes(
    shape: tuple[int, ...], dtype: DType, fill: Callable[[Array], object]
) -> Array:
    """
    Return a read-only array that `bytes_of` converts to `bytes` without a copy.

    Args:
        shape: the shape of the array.
        dtype: the dtype of the array.
        fill: a function that writes all elements of its argument, an array that is valid
            during the call only.
    """
    stream = BytesIO(bytes(prod(shape) * dtype.itemsize))
    with stream.getbuffer() as memory:
        fill(np.frombuffer(memory, dtype).reshape(shape))
    # `getvalue` returns the same object, not a copy.
    return np.frombuffer(stream.getvalue(), dtype).reshape(shape)


def bytes_of(array: Array) -> bytes:
    """Return the elements of an array as bytes, in C order, without a copy if possible."""
    base = cast(object, array)
    while isinstance(base, np.ndarray):
        base = cast(object, base.base)
    is_all = array.flags.c_contiguous and array.nbytes
    if is_all and isinstance(base, bytes) and len(base) == array.nbytes:
        return base
    return array.tobytes()


def check_finite(values: Floats | NDArray[np.float32], what: str) -> None:
    """Raise a `ValueError` if a number is infinite or NaN."""
    if not (is_finite := np.isfinite(values)).all():
        found = element_text(values, ~is_finite)
        raise ValueError(f"expected finite {what}, found {found}")


def check_positive(values: Floats, what: str) -> None:
    """Raise a `ValueError` if a number is negative, zero, infinite or NaN."""
    # A NaN is refused, because comparisons with NaN are false.
    if not (is_right := (values > 0) & (values < np.inf)).all():
        found = element_text(values, ~is_right)
        raise ValueError(f"expected a positive finite {what}, found {found}")


def disjoint_output(
    values: Array, out: Array | None, dtype: DType
) -> tuple[Array, Array]:
    """
    Return the input and the output array: `values`, copied if they overlap `out`; and
    `out`, or a new array if `out` is `None`.

    Raises:
        TypeError: if `out` is masked or not an array of `dtype`.
        ValueError: if `out` has another shape than `values`, is read-only, or has elements
            that overlap.
    """
    if out is None:
        return values, np.empty_like(values, dtype, subok=False)
    if not isinstance(cast(object, out), np.ndarray):
        raise TypeError(f"expected an array as out, found {type(out).__name__}")
    check_unmasked(out, "out")
    if out.dtype != dtype:
        raise TypeError(f"expected out with dtype {dtype}, found {out.dtype}")
    if out.shape != values.shape:
        raise ValueError(f"expected out with shape {values.shape}, found {out.shape}")
    if not out.flags.writeable:
        raise ValueError("expected a writeable array as out, found a read-only one")
    if _overlaps_itself(out):
        raise ValueError("expected out without overlapping elements")
    if np.may_share_memory(values, out):
        values = values.copy()
    return values, out


def _overlaps_itself(array: Array) -> bool:
    """
    Return True if elements of the array may share memory: a stride is less than the extent
    of the dimensions with smaller strides. Slices and transposed views have no such stride.
    """
    if not array.size:
        return False
    extent = array.itemsize
    steps = zip(map(abs, array.strides), array.shape, strict=True)
    for step, count in sorted(pair for pair in steps if pair[1] > 1):
        if step < extent:
            return True
        extent += step * (count - 1)
    return False
