"""The integers of storage types, by the name of the type."""

from __future__ import annotations

import re
from typing import Any, cast

from numpy.typing import NDArray

from .arrays import check_bounds

MAX_STORAGE_BITS = 32
"""Widest storage type."""

_STORAGE = re.compile(r"(?P<signedness>i|si|u|ui)(?P<width>[1-9][0-9]?)")


def storage_range(storage: str) -> tuple[int, int]:
    """
    The smallest and the largest integer of a storage type, e.g. -8 and 7 for `i4`.

    Raises:
        ValueError: if `storage` is not spelled like `i8` or `u8`, or is too wide.
        TypeError: if it is no text.
    """
    if not isinstance(cast(object, storage), str):
        raise TypeError(f"storage type is {storage!r}, but must be a text, e.g. 'i8'")
    match = _STORAGE.fullmatch(storage)
    if match is None or int(match["width"]) > MAX_STORAGE_BITS:
        raise ValueError(
            f"'{storage}' is no storage type, use 'i1' to 'i{MAX_STORAGE_BITS}' or "
            f"'u1' to 'u{MAX_STORAGE_BITS}'"
        )
    width = int(match["width"])
    if match["signedness"] in ("u", "ui"):
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def check_storable(values: NDArray[Any], storage: str, what: str) -> None:
    """Raise a `ValueError` if an integer does not fit a storage type."""
    low, high = storage_range(storage)
    check_bounds(
        values,
        low,
        high,
        f"{what} {{}} does not fit storage type '{storage}', whose values are {low} to "
        f"{high}",
    )
