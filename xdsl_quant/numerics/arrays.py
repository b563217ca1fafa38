"""Arrays that users pass, checked before anything is computed."""

from collections.abc import Callable
from io import BytesIO
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
"""An array of any dtype; the package has this name for it."""

DType = np.dtype[Any]
"""A dtype of any scalar."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def check_unmasked(values: object, what: str) -> None:
    """
    Raises:
        TypeError: if values are a masked array, or lists with one in them: its mask would
            not count.
    """
    if _has_mask(values):
        raise TypeError(
            f"{what} must be without a mask, but there is a masked array; use its "
            ".filled(value), or .compressed() to leave out what is masked"
        )


def _has_mask(values: object) -> bool:
    if isinstance(values, np.ndarray):
        # Importing `numpy.ma` takes long, and most arrays are nothing special.
        array = cast("Array", values)
        return type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray)
    if not isinstance(values, list | tuple):
        return False
    items = cast("list[object] | tuple[object, ...]", values)
    # A list of numbers has few types.
    types = set(map(type, items))
    is_nested = any(issubclass(kind, list | tuple | np.ndarray) for kind in types)
    return is_nested and any(map(_has_mask, items))


def numbers(values: ArrayLike, what: str, kinds: str) -> Array:
    """
    Values as an array whose dtype is of one of the kinds, `i` among them.

    Raises:
        TypeError: if the dtype is of another kind, or an array is masked.
        ValueError: if lists are ragged.
    """
    check_unmasked(values, what)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{what} are lists that differ in length") from None
    if not array.size and array.dtype == np.float64:
        # An empty list has no numbers of the wrong kind.
        return array.astype(np.int64)
    if array.dtype.kind not in kinds:
        needed = "numbers" if "f" in kinds else "integers"
        raise TypeError(f"{what} have dtype {array.dtype}, but must be {needed}")
    return array


def check_bounds(values: Array, low: int, high: int, message: str) -> None:
    """
    Args:
        values: integers.
        low: the smallest integer that they may be.
        high: the largest integer that they may be.
        message: with `{}` in place of the wrong one.

    Raises:
        ValueError: if one of them is out of these bounds.
    """
    for value in (int(values.min()), int(values.max())) if values.size else ():
        if not low <= value <= high:
            raise ValueError(message.format(value))


def sign_extended(integers: Array, width: int) -> Array:
    """Integers as the signed ones with the same lowest bits."""
    unused = 8 * integers.itemsize - width
    signed = integers.view(f"i{integers.itemsize}")
    return signed << unused >> unused if unused else signed


_MANY_LIMITS = 128
"""From so many on, a binary search is faster than comparisons with all of them."""

_PIECE = 1 << 16
"""How many numbers are compared at a time, which fit the cache."""


def counts_below(limits: Array, numbers: Array) -> NDArray[np.integer]:
    """
    For each number, how many limits are less than it.

    Args:
        limits: numbers in ascending order.
        numbers: an array of any shape. The result for NaN is not defined.

    Returns:
        an array in the shape of `numbers`; its dtype is `uint8` if there are few limits.
    """
    if limits.size >= _MANY_LIMITS:
        return np.searchsorted(limits, numbers)
    # To compare with 15 limits takes an eighth of the time of a binary search.
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
    Return a read-only array in the memory of a `bytes` object, which `bytes_of`
    returns.

    Args:
        shape: that of the array.
        dtype: its dtype.
        fill: writes all elements. The array is gone afterwards.
    """
    stream = BytesIO(bytes(prod(shape) * dtype.itemsize))
    with stream.getbuffer() as memory:
        fill(np.frombuffer(memory, dtype).reshape(shape))
    # This is the same object, not a copy.
    return np.frombuffer(stream.getvalue(), dtype).reshape(shape)


def bytes_of(array: Array) -> bytes:
    """Return the elements of an array as bytes, in C order."""
    base = cast(object, array)
    while isinstance(base, np.ndarray):
        base = cast(object, base.base)
    is_all = array.flags.c_contiguous and array.nbytes
    if is_all and isinstance(base, bytes) and len(base) == array.nbytes:
        return base
    return array.tobytes()


def check_positive(values: Floats, what: str) -> None:
    """Raise a `ValueError` if a number is not positive, infinite or NaN."""
    # Comparisons with NaN are false.
    if not (is_right := (values > 0) & (values < np.inf)).all():
        raise ValueError(
            f"{what} {values[~is_right][0]} is not a positive finite number"
        )


def checked_out(values: Array, out: Array | None, dtype: DType) -> tuple[Array, Array]:
    """
    What to read and what to write: they do not overlap.

    Raises:
        TypeError: if `out` is no array of `dtype`, or is masked.
        ValueError: if `out` has another shape, is read-only or overlaps itself.
    """
    if out is None:
        return values, np.empty_like(values, dtype, subok=False)
    if not isinstance(cast(object, out), np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}, but must be an array")
    check_unmasked(out, "out")
    if out.dtype != dtype:
        raise TypeError(f"out has dtype {out.dtype}, but must have {dtype}")
    if out.shape != values.shape:
        raise ValueError(f"out has shape {out.shape}, but must have {values.shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    if _overlaps_itself(out):
        raise ValueError("elements of out overlap in memory")
    if np.may_share_memory(values, out):
        values = values.copy()
    return values, out


def _overlaps_itself(array: Array) -> bool:
    """
    Return True if elements may share memory.

    In all views that are slices of an array, or have its dimensions in another order, a
    step along one dimension leads out of what the dimensions with smaller steps cover.
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
