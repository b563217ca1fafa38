"""
Channels-first and channels-last layouts of the same values (NCHW and NHWC).

The first dimension is the batch. Sizes of 1 do not matter: a mean over an image of shape
`(N, C, 1, 1)` has the elements of one of shape `(N, C)`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.numerics.arrays import Array

_Shape: TypeAlias = Sequence[int]


def layout_key(shape: _Shape) -> Hashable:
    """Return a key that is equal for shapes of the same values in any layout."""
    return (*shape[:1],), (*sorted(_inner_sizes(shape)),)


def are_in_other_layouts(shape: _Shape, other: _Shape) -> bool:
    """Return True if channels are the first dimension of one shape, the last of another."""
    moved = moved_channels(shape, other)
    is_same_rank = len(shape) == len(other)
    return bool(moved) or (
        moved == 0 and is_same_rank and not may_be_equal(shape, other)
    )


def have_ambiguous_layout(shape: _Shape, other: _Shape) -> bool:
    """Return True if two shapes are those of the same elements in several layouts."""
    sizes = shape[1:] if len(shape) == len(other) else _inner_sizes(shape)
    return len(sizes) > 1 and len({*sizes}) == 1 and sizes[0] != 1


def moved_channels(shape: _Shape, expected: _Shape) -> int | None:
    """
    Return how the channels of a shape move in another shape of the same elements.

    Args:
        shape: the sizes; negative if unknown.
        expected: the sizes in the other layout.

    Returns:
        0 if they stay, 1 from last to first, -1 from first to last, or `None` if the
        shapes do not match.
    """
    if not shape or not expected:
        return 0 if (*shape,) == (*expected,) else None
    if not may_be_equal(shape[:1], expected[:1]):
        return None
    sizes, others = _inner_sizes(shape), _inner_sizes(expected)
    if may_be_equal(sizes, others):
        return 0
    if may_be_equal([*sizes[-1:], *sizes[:-1]], others):
        return 1
    if may_be_equal([*sizes[1:], *sizes[:1]], others):
        return -1
    return None


def in_layout(values: ArrayLike, expected: _Shape) -> Array | None:
    """
    Return values in the layout of another shape, or `None` if the shapes do not match.

    Args:
        values: an array of shape `(N, ...)`.
        expected: the shape of the result; sizes are negative if unknown.
    """
    array = np.asarray(values)
    moved = moved_channels(array.shape, expected)
    if moved is None:
        return None
    if may_be_equal(array.shape, expected):
        return array
    inner = array.reshape([*array.shape[:1], *_inner_sizes(array.shape)])
    if moved:
        inner = np.moveaxis(inner, *((-1, 1) if moved > 0 else (1, -1)))
    # Several sizes may be unknown.
    sizes = iter(inner.shape[1:])
    inner_sizes = (1 if size == 1 else next(sizes) for size in expected[1:])
    return inner.reshape([*array.shape[:1], *inner_sizes])


def _inner_sizes(shape: _Shape) -> _Shape:
    return [size for size in shape[1:] if size != 1]


def may_be_equal(shape: _Shape, other: _Shape) -> bool:
    """Return True if two shapes are equal, apart from dynamic sizes."""
    return len(shape) == len(other) and all(
        a == b or min(a, b) < 0 for a, b in zip(shape, other, strict=True)
    )
