"""Data movement ops on arrays, for floats and stored values alike."""

import math
from collections.abc import Sequence

import numpy as np

from xdsl_quant.numerics.primitives import Array, primitive

from ..slicing import SliceMasks, strided_index


def strided_slice(
    values: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    masks: SliceMasks,
) -> Array:
    """
    Return a slice, with the semantics of NumPy. `begin`, `end` and `strides` have one
    entry for each index in NumPy's square brackets.

    Args:
        values: the tensor.
        begin: first indices; negative ones count from the end.
        end: exclusive ends; negative ones count from the end.
        strides: nonzero steps.
        masks: entries without lower or upper bound, ellipsis entries, entries that
            insert a dimension of size 1, and entries that are a single index and drop
            their dimension. A single index without lower bound is 0.
    """

    return values[strided_index(begin, end, strides, masks)]


@primitive
def as_expression_like(values: Array, *others: Array) -> Array:
    """Convert `values` to an expression if one of `others` is an expression."""
    return values


def gather(values: Array, indices: Array, axis: int = 0, batch_dims: int = 0) -> Array:
    """Gather the slices at `indices` along `axis`, separately for each batch."""
    if not batch_dims:
        return np.take(values, indices, axis)
    axis = axis % values.ndim
    pairs = zip(values, indices, strict=True)
    return np.stack([gather(v, i, axis - 1, batch_dims - 1) for v, i in pairs])


def gather_nd(values: Array, indices: Array) -> Array:
    """Return slices addressed by the index tuples in the last dimension of `indices`."""
    return values[tuple(np.moveaxis(indices, -1, 0))]


def space_to_batch(
    values: Array, block: Sequence[int], paddings: Array, fill: int
) -> Array:
    """Move blocks of the padded spatial dimensions into the batch dimension."""
    count = len(block)
    rest = [(0, 0)] * (values.ndim - count - 1)
    padded = np.pad(
        values, [(0, 0), *map(tuple, paddings.tolist()), *rest], constant_values=fill
    )
    sizes = [size // b for size, b in zip(padded.shape[1:], block, strict=False)]
    pairs = [size for pair in zip(sizes, block, strict=True) for size in pair]
    depth = padded.shape[count + 1 :]
    split = padded.reshape(padded.shape[0], *pairs, *depth)
    blocks, block_indices = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    order = [*blocks, 0, *block_indices, *range(2 * count + 1, split.ndim)]
    return split.transpose(order).reshape(-1, *sizes, *depth)


def batch_to_space(values: Array, block: Sequence[int], crops: Array) -> Array:
    """Invert `space_to_batch`, and crop the result."""
    count = len(block)
    sizes, depth = values.shape[1 : count + 1], values.shape[count + 1 :]
    batch = values.shape[0] // math.prod(block)
    split = values.reshape(*block, batch, *sizes, *depth)
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    order = [count, *pairs, *range(2 * count + 1, split.ndim)]
    whole = split.transpose(order).reshape(
        batch, *(size * b for size, b in zip(sizes, block, strict=True)), *depth
    )
    parts = [
        slice(int(low), size - int(high))
        for (low, high), size in zip(crops, whole.shape[1:], strict=False)
    ]
    return whole[(slice(None), *parts)]


def space_to_depth(values: Array, block: int) -> Array:
    """Move blocks of an image `[batch, height, width, channels]` into its channels."""
    batch, height, width, depth = values.shape
    rows, columns = height // block, width // block
    split = values.reshape(batch, rows, block, columns, block, depth)
    order = 0, 1, 3, 2, 4, 5
    return split.transpose(order).reshape(batch, rows, columns, block * block * depth)


def depth_to_space(values: Array, block: int) -> Array:
    """Invert `space_to_depth`."""
    batch, rows, columns, depth = values.shape
    split = values.reshape(batch, rows, columns, block, block, depth // block**2)
    order = 0, 1, 3, 2, 4, 5
    return split.transpose(order).reshape(batch, rows * block, columns * block, -1)
