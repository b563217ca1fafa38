"""Densification of sparse tensors, whose files store only some blocks of elements."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .model import TFLiteFileError

_Integers = NDArray[np.int64]

_MAX_BYTES = 1 << 31
"""Size of the largest tensor; a damaged file may state any shape."""


@dataclass(frozen=True)
class SparseDimension:
    """Dimension of a sparse tensor in the order in which its values are stored."""

    size: int
    """Size of a dense dimension."""

    segments: _Integers | None = None
    """
    For a compressed dimension: bounds of the part of `indices` that belongs to each
    position of the dimensions before it.
    """

    indices: _Integers | None = None
    """Stored indices of a compressed dimension."""


@dataclass(frozen=True)
class Sparsity:
    """Order and compression of the dimensions of a sparse tensor."""

    traversal_order: Sequence[int]
    """Dimensions in storage order; those from the rank on are dimensions of blocks."""

    block_map: Sequence[int]
    """Dimension of the tensor that each dimension of blocks divides."""

    dimensions: Sequence[SparseDimension]
    """Dimensions in storage order."""


def densified(
    data: NDArray[np.uint8], item_size: int, shape: Sequence[int], sparsity: Sparsity
) -> NDArray[np.uint8]:
    """
    Return the bytes of all elements of a tensor; elements that are not stored are 0.

    Args:
        data: bytes of the stored elements.
        item_size: bytes of an element.
        shape: shape of the tensor.
        sparsity: order and compression of its dimensions.

    Raises:
        TFLiteFileError: if the dimensions contradict each other, the shape or the number of
            stored elements. The message continues that of a tensor.
    """
    blocks = _sizes_of_blocks(shape, sparsity)
    if math.prod(shape) * item_size > _MAX_BYTES:
        raise TFLiteFileError(f"has shape {[*shape]}; expected at most 2 GB")
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    positions = np.zeros(1, np.int64)
    for axis, dimension in zip(
        sparsity.traversal_order, sparsity.dimensions, strict=True
    ):
        if axis < len(shape):
            block = blocks.get(axis, 1)
            size, stride = shape[axis] // block, strides[axis] * block
        else:
            axis = sparsity.block_map[axis - len(shape)]
            size, stride = blocks[axis], strides[axis]
        positions = _visited(positions, dimension, size, stride, data.size)
    if data.size != positions.size * item_size:
        raise TFLiteFileError(
            f"has {data.size} bytes; expected {positions.size * item_size} for the "
            "stored elements of its sparse dimensions"
        )
    dense = np.zeros((math.prod(shape), item_size), np.uint8)
    dense[positions] = data.reshape(-1, item_size)
    return dense.ravel()


def _sizes_of_blocks(shape: Sequence[int], sparsity: Sparsity) -> dict[int, int]:
    """Return the block size of each dimension that has blocks, after checking the order."""
    order, block_map = [*sparsity.traversal_order], sparsity.block_map
    rank = len(shape)
    if (
        sorted(order) != [*range(rank + len(block_map))]
        or len(sparsity.dimensions) != len(order)
        or len({*block_map}) != len(block_map)
        or not all(0 <= axis < rank for axis in block_map)
    ):
        raise TFLiteFileError(
            f"has {len(sparsity.dimensions)} sparse dimensions in the order {order} with "
            f"blocks along {[*block_map]}; expected each of {rank} dimensions once"
        )
    blocks: dict[int, int] = {}
    for number, axis in enumerate(block_map):
        size = sparsity.dimensions[order.index(rank + number)].size
        if size < 1 or shape[axis] % size:
            raise TFLiteFileError(
                f"has blocks of size {size} along a dimension of size {shape[axis]}; "
                "expected a divisor"
            )
        blocks[axis] = size
    return blocks


def _visited(
    positions: _Integers, dimension: SparseDimension, size: int, stride: int, most: int
) -> _Integers:
    """
    Return the positions of stored elements after one more dimension.

    Args:
        positions: positions for the dimensions before it, in storage order.
        dimension: the dimension.
        size: its size in the shape.
        stride: distance of its indices in the dense tensor.
        most: limit of the element count, which protects from damaged files.
    """
    segments, indices = dimension.segments, dimension.indices
    if segments is None or indices is None:
        if dimension.size != size:
            raise TFLiteFileError(
                f"has a dense dimension of size {dimension.size}; expected {size}"
            )
        if positions.size * size > max(most, 1):
            raise TFLiteFileError("has more sparse dimensions than stored elements")
        return (positions[:, None] + np.arange(size) * stride).ravel()
    counts = np.diff(segments)
    if (
        segments.size != positions.size + 1
        or segments[0] != 0
        or segments[-1] != indices.size
        or (counts < 0).any()
        or ((indices < 0) | (indices >= size)).any()
    ):
        raise TFLiteFileError(
            f"has a compressed dimension of {segments.size} segment bounds and "
            f"{indices.size} indices; expected {positions.size + 1} ascending bounds, and "
            f"indices in [0, {size})"
        )
    return np.repeat(positions, counts) + indices * stride
