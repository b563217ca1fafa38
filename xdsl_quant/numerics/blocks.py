"""
Views of arrays and their block parameters, and iteration over pieces of both.

Parameters are not expanded to the shape of the array, but broadcast to pieces of it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from math import gcd, prod

from .arrays import Array
from .parameters import QuantizationParameters

Shape = tuple[int, ...]

Grid = tuple[Shape, Sequence[Array]]
"""Block shape, and arrays with one number per block."""


def grid_block_shape(parameters: QuantizationParameters, shape: Shape) -> Shape:
    """
    Return the shape of the blocks that share a scale in an array of the given shape.

    Raises:
        ValueError: if the parameters do not match the shape.
    """
    scales_shape = parameters.scales.shape
    if parameters.quantized_dimension is not None:
        return _channel_shape(parameters.quantized_dimension, scales_shape[0], shape)
    if parameters.block_sizes is None:
        return shape
    sizes = dict(parameters.block_sizes)
    dimensions = range(len(scales_shape))
    if len(scales_shape) != len(shape):
        # Scales may omit the dimensions that have no block size.
        dimensions = sorted(sizes)
        if len(scales_shape) != len(sizes) or dimensions[-1:] >= [len(shape)]:
            raise ValueError(
                f"expected values of rank {len(scales_shape)} for scales of shape "
                f"{scales_shape}, found shape {shape}"
            )
    counts = dict(zip(dimensions, scales_shape, strict=True))
    for dimension, size in sizes.items():
        if shape[dimension] != size * counts[dimension]:
            raise ValueError(
                f"expected values of size {size * counts[dimension]} along dimension "
                f"{dimension}, found {shape[dimension]}"
            )
    return tuple(sizes.get(dimension, size) for dimension, size in enumerate(shape))


def _channel_shape(dimension: int, count: int, shape: Shape) -> Shape:
    if dimension >= len(shape):
        raise ValueError(
            f"expected values with the quantized dimension {dimension}, found shape {shape}"
        )
    if shape[dimension] != count:
        raise ValueError(
            f"expected values of size {count} along dimension {dimension}, one per scale, "
            f"found {shape[dimension]}"
        )
    return (*shape[:dimension], 1, *shape[dimension + 1 :])


def broadcastable_views(arrays: Sequence[Array], grids: Sequence[Grid]) -> list[Array]:
    """
    Return views of `arrays`, followed by the block parameters in `grids`, reshaped to
    broadcast to these views. All results have as few dimensions as possible, in the memory
    order of the first array.

    Args:
        arrays: arrays of the same shape, not empty.
        grids: the block shapes and parameters.
    """
    shape = arrays[0].shape
    factors = [
        _factors(size, [block[axis] for block, _ in grids])
        for axis, size in enumerate(shape)
    ]
    split = [factor for axis in factors for factor in axis]
    views = [array.reshape(split) for array in arrays]
    numbers = [
        _on_blocks(array, block, shape, factors)
        for block, group in grids
        for array in group
    ]
    return merged_views(views, numbers)


def _factors(size: int, block_sizes: Sequence[int]) -> list[int]:
    """
    Split a dimension's size into factors, outermost first. Block sizes are products of
    trailing factors: size 24 with block sizes 8 and 4 has the factors 3, 2 and 4.
    """
    sizes = sorted({size, *block_sizes}, reverse=True)
    if any(outer % inner for outer, inner in pairwise(sizes)):
        sizes = [size, gcd(*block_sizes)]
    return [outer // inner for outer, inner in pairwise([*sizes, 1])]


def _on_blocks(
    array: Array, block: Shape, shape: Shape, factors: list[list[int]]
) -> Array:
    """Reshape block parameters: a dimension per factor, of size 1 for factors of blocks."""
    array = array.reshape([n // b for n, b in zip(shape, block, strict=True)])
    split: list[int] = []
    for axis, (size, axis_factors) in enumerate(zip(block, factors, strict=True)):
        # Product of the later factors: a block consists of trailing factors.
        rests = [prod(axis_factors[i + 1 :]) for i in range(len(axis_factors))]
        if size not in (shape[axis], *rests):
            # These blocks do not nest with those of another grid: repeat the parameters.
            array = array.repeat(size // rests[0], axis)
            size = rests[0]
        split += [
            factor if rest >= size else 1
            for factor, rest in zip(axis_factors, rests, strict=True)
        ]
    return array.reshape(split)


def merged_views(views: Sequence[Array], numbers: Sequence[Array]) -> list[Array]:
    """
    Return views of all arrays with as few dimensions as possible, in the memory order of
    the first view.

    Args:
        views: arrays of the same shape, not empty.
        numbers: arrays that broadcast to the views.
    """
    rank = max(views[0].ndim, 1)
    views = [view.reshape(view.shape or 1) for view in views]
    numbers = [
        array.reshape((1,) * (rank - array.ndim) + array.shape) for array in numbers
    ]
    shape = views[0].shape
    strides = [
        tuple(
            step if size > 1 else 0
            for size, step in zip(a.shape, a.strides, strict=True)
        )
        for a in (*views, *numbers)
    ]
    order = sorted(range(rank), key=lambda axis: -abs(strides[0][axis]))
    sizes, steps = _merged_dimensions(shape, strides, order)
    # Merged dimensions are contiguous, so `reshape` does not copy.
    result = [view.transpose(order).reshape(sizes) for view in views]
    for i, array in enumerate(numbers, len(views)):
        counts = [
            size if step[i] else 1 for size, step in zip(sizes, steps, strict=True)
        ]
        result.append(array.transpose(order).reshape(counts))
    return result


def _merged_dimensions(
    shape: Shape, strides: Sequence[Shape], order: Sequence[int]
) -> tuple[list[int], list[list[int]]]:
    """
    Merge dimensions that are contiguous in all arrays. Return the size of each resulting
    dimension, and the strides of all arrays along it.
    """
    sizes: list[int] = []
    steps: list[list[int]] = []
    for axis in [axis for axis in order if shape[axis] > 1] or [0]:
        axis_steps = [array_strides[axis] for array_strides in strides]
        if steps and steps[-1] == [step * shape[axis] for step in axis_steps]:
            sizes[-1] *= shape[axis]
            steps[-1] = axis_steps
        else:
            sizes.append(shape[axis])
            steps.append(axis_steps)
    return sizes, steps


def pieces(arrays: Sequence[Array], limit: int) -> Iterator[list[Array]]:
    """
    Split all arrays in the same way. Yield lists of corresponding pieces, each of at most
    `limit` elements.

    The first array has the full shape; the other arrays broadcast to it. If consecutive
    pieces use the same part of an array, it is the same Python object.
    """
    shape = arrays[0].shape
    axis = len(shape) - 1
    size = shape[axis]
    while axis and size <= limit:
        axis -= 1
        size *= shape[axis]
    step = max(1, limit * shape[axis] // size)
    for outer in product(*map(range, shape[:axis])):
        rows = [(row, len(row) > 1) for row in (_row_at(a, outer) for a in arrays)]
        for start in range(0, shape[axis], step):
            part = slice(start, start + step)
            yield [row[part] if is_cut else row for row, is_cut in rows]


def _row_at(array: Array, index: Shape) -> Array:
    if not index:
        return array
    return array[
        tuple(i if size > 1 else 0 for i, size in zip(index, array.shape, strict=False))
    ]
