"""
Sub-channel types of transposed, reshaped and sliced tensors.

Tensors are ranked and static. A function returns `None` if a block of the result would have
elements of several blocks, so that no sub-channel type describes the result.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute

from .types import UniformQuantizedSubChannelType

if TYPE_CHECKING:
    from numpy.typing import NDArray

Shape = Sequence[int]


def have_equal_blocks(
    a: UniformQuantizedSubChannelType, b: UniformQuantizedSubChannelType
) -> bool:
    """
    Return True if two types quantize tensors of the same shape equally. Types may differ
    in dimensions with a single block, which may have a block size or not.
    """
    return a == b or (
        a.get_scales_shape() == b.get_scales_shape()
        and a.scales == b.scales
        and a.zero_points == b.zero_points
        and _common_parameters(a) == _common_parameters(b)
    )


def transposed_blocks(
    type_: UniformQuantizedSubChannelType, permutation: Sequence[int]
) -> UniformQuantizedSubChannelType | None:
    """
    Return the type of a transposed tensor.

    Args:
        type_: the type of the operand.
        permutation: the operand's dimension of each dimension of the result.
    """
    if len(type_.get_scales_shape()) != len(permutation):
        return None
    sizes = dict(type_.block_size_info)
    blocks = {to: sizes[i] for to, i in enumerate(permutation) if i in sizes}
    return _moved(type_, blocks, lambda numbers: numbers.transpose(permutation))


def reshaped_blocks(
    type_: UniformQuantizedSubChannelType, shape: Shape, result_shape: Shape
) -> UniformQuantizedSubChannelType | None:
    """Return the type of a tensor of shape `shape` after a reshape to `result_shape`."""
    counts = type_.get_scales_shape()
    if len(counts) != len(shape) or prod(shape) != prod(result_shape):
        return None
    block = [size // count for size, count in zip(shape, counts, strict=True)]
    result_block: list[int] = []
    for before, after in _equal_products(shape, result_shape):
        size = _run_length([shape[i] for i in before], [block[i] for i in before])
        box = (
            None
            if size is None
            else _box_of_run([result_shape[i] for i in after], size)
        )
        if box is None:
            return None
        result_block += box
    pairs = [*zip(result_shape, result_block, strict=True)]
    blocks = {i: size for i, (total, size) in enumerate(pairs) if size < total}
    result_counts = [total // size for total, size in pairs]
    return _moved(type_, blocks, lambda numbers: numbers.reshape(result_counts))


def sliced_blocks(
    type_: UniformQuantizedSubChannelType, shape: Shape, slices: Sequence[range]
) -> UniformQuantizedSubChannelType | None:
    """
    Return the type of a slice of a tensor.

    Args:
        type_: the type of the operand.
        shape: the shape of the operand.
        slices: the indices of the operand in the result, by dimension.
    """
    counts = type_.get_scales_shape()
    if len(counts) != len(shape):
        return None
    blocks, chosen = dict(type_.block_size_info), list[slice]()
    for axis, (size, count, indices) in enumerate(
        zip(shape, counts, slices, strict=True)
    ):
        block = size // count
        if not indices:
            return None
        first, last = indices[0] // block, indices[-1] // block
        if first == last:
            blocks |= {axis: len(indices)} if axis in blocks else {}
            chosen.append(slice(first, first + 1))
        elif block == 1 and indices.step > 0:
            chosen.append(slice(first, last + 1, indices.step))
        elif indices.step == 1 and not indices[0] % block and not len(indices) % block:
            chosen.append(slice(first, last + 1))
        else:
            return None
    return _moved(type_, blocks, lambda numbers: numbers[tuple(chosen)])


def _common_parameters(type_: UniformQuantizedSubChannelType) -> Sequence[Attribute]:
    """Return the parameters that all uniform types have."""
    return type_.parameters[:-5]


def _moved(
    type_: UniformQuantizedSubChannelType,
    blocks: dict[int, int],
    move: Callable[[NDArray[Any]], NDArray[Any]],
) -> UniformQuantizedSubChannelType:
    scales, zero_points = move(type_.get_scales()), move(type_.get_zero_points())
    return UniformQuantizedSubChannelType.new(
        type_.canonical_parameters(
            _common_parameters(type_),
            array("d", scales.tobytes()),
            array("q", zero_points.tobytes()),
            scales.shape,
            [*blocks],
            [*blocks.values()],
        )
    )


def _equal_products(a: Shape, b: Shape) -> Iterator[tuple[range, range]]:
    """Yield the shortest ranges of dimensions with equal element counts."""
    i = j = 0
    while i < len(a) or j < len(b):
        ends = [min(i + 1, len(a)), min(j + 1, len(b))]
        while (x := prod(a[i : ends[0]])) != (y := prod(b[j : ends[1]])):
            ends[x > y] += 1
        yield range(i, ends[0]), range(j, ends[1])
        i, j = ends


def _run_length(shape: Shape, block: Shape) -> int | None:
    """Return the element count of a block if its elements are consecutive, or `None`."""
    divided = [i for i, size in enumerate(block) if size > 1]
    if divided and any(block[i] < shape[i] for i in range(divided[0] + 1, len(shape))):
        return None
    return prod(block)


def _box_of_run(shape: Shape, size: int) -> Sequence[int] | None:
    """Return the shape of aligned runs of `size` elements if they are boxes, or `None`."""
    box: list[int] = []
    for total in reversed(shape):
        part = min(size, total)
        if total % part or size % part:
            return None
        box.append(part)
        size //= part
    return box[::-1]
