"""Indices of `tfl.strided_slice`, for the dialect and for formulas."""

from collections.abc import Sequence
from types import EllipsisType
from typing import NamedTuple


class SliceMasks(NamedTuple):
    """Bit masks of `tfl.strided_slice`; bit `i` refers to entry `i` of `begin`."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0


def strided_index(
    begin: Sequence[int], end: Sequence[int], strides: Sequence[int], masks: SliceMasks
) -> tuple[slice | int | EllipsisType | None, ...]:
    """Return the entries of NumPy's square brackets: see `strided_slice`."""

    def index(position: int) -> slice | int | EllipsisType | None:
        def is_in(mask: int) -> int:
            return mask >> position & 1

        if is_in(masks.ellipsis_mask):
            return ...
        if is_in(masks.new_axis_mask):
            return None
        first = int(begin[position])
        if is_in(masks.shrink_axis_mask):
            return 0 if is_in(masks.begin_mask) else first
        return slice(
            None if is_in(masks.begin_mask) else first,
            None if is_in(masks.end_mask) else int(end[position]),
            int(strides[position]),
        )

    return tuple(map(index, range(len(begin))))
