"""Sub-channel types of moved tensors, compared with NumPy's movement of their scales."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, f32, i8

from xdsl_quant.dialects.quant import UniformQuantizedSubChannelType
from xdsl_quant.dialects.quant.moved_blocks import (
    have_equal_blocks,
    reshaped_blocks,
    sliced_blocks,
    transposed_blocks,
)

Array = NDArray[Any]


def block_type(counts: Sequence[int], blocks: dict[int, int]) -> Any:
    """A type whose scales are 1, 2, ..., with zero points -1, -2, ..."""
    numbers = np.arange(1, np.prod(counts) + 1).reshape(counts)
    return UniformQuantizedSubChannelType(
        i8,
        f32,
        numbers.astype(float),
        -numbers,
        quantized_dimensions=[*blocks],
        block_sizes=[*blocks.values()],
    )


def drawn(random: Random) -> tuple[Any, Sequence[int]]:
    shape = [random.choice([1, 2, 3, 4, 6]) for _ in range(random.randint(1, 4))]
    blocks = {
        axis: random.choice([k for k in range(1, size + 1) if size % k == 0])
        for axis, size in enumerate(shape)
        if random.random() < 0.7
    }
    counts = [size // blocks.get(axis, size) for axis, size in enumerate(shape)]
    return block_type(counts, blocks), shape


def expanded(type_: Any, shape: Sequence[int]) -> Array:
    """The scale of each element."""
    type_.verify_container(TensorType(i8, shape))
    assert (type_.get_scales() == -type_.get_zero_points()).all()
    scales = type_.get_scales()
    for axis, (size, count) in enumerate(zip(shape, scales.shape, strict=True)):
        scales = np.repeat(scales, size // count, axis)
    return scales


def are_blocks(scales: Array) -> bool:
    """Return if the elements with equal scales are the boxes of a grid."""
    places = [np.argwhere(scales == number) for number in np.unique(scales)]
    boxes = {tuple(x.max(0) - x.min(0) + 1) for x in places}
    (box,) = boxes if len(boxes) == 1 else [()]
    return all(
        len(x) == np.prod(box) and not (x.min(0) % np.array(box)).any() for x in places
    )


@pytest.mark.parametrize("kind", ["transpose", "reshape", "slice"])
def test_scales_move_with_elements(kind: str):
    random, moved, refused = Random(kind), 0, 0
    for _ in range(400):
        type_, shape = drawn(random)
        scales = expanded(type_, shape)
        if kind == "transpose":
            permutation = random.sample(range(len(shape)), len(shape))
            found = transposed_blocks(type_, permutation)
            expected = scales.transpose(permutation)
        elif kind == "reshape":
            sizes, count = [1] if random.random() < 0.3 else [], scales.size
            while count > 1:
                divisors = [k for k in range(2, count + 1) if count % k == 0]
                sizes.append(random.choice(divisors))
                count //= sizes[-1]
            found = reshaped_blocks(type_, shape, sizes)
            expected = scales.reshape(sizes)
        else:
            firsts = [random.randrange(size) for size in shape]
            slices = [
                range(first, random.randint(first + 1, size), random.choice([1, 1, 2]))
                for first, size in zip(firsts, shape, strict=True)
            ]
            found = sliced_blocks(type_, shape, slices)
            expected = scales[np.ix_(*slices)]
        if found is None:
            refused += 1
            # A slice may pick elements of blocks that form other blocks.
            assert kind == "slice" or not are_blocks(expected)
        else:
            moved += 1
            assert np.array_equal(expanded(found, expected.shape), expected)
    assert moved > 150
    assert (refused > 20) == (kind != "transpose")


def test_blocks_of_a_transpose():
    type_ = block_type([3, 2], {0: 1, 1: 2})
    assert str(transposed_blocks(type_, [1, 0])) == (
        "!quant.uniform<i8:f32:{0:2, 1:1}, {{1.000000e+00:-1, 3.000000e+00:-3, "
        "5.000000e+00:-5}, {2.000000e+00:-2, 4.000000e+00:-4, 6.000000e+00:-6}}>"
    )


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([3, 2, 2], ([3, 2, 1], {0: 1, 1: 1})),
        ([6, 2], ([6, 1], {0: 1})),
        ([12], ([6], {0: 2})),
        ([3, 1, 4], ([3, 1, 2], {0: 1, 2: 2})),
        ([4, 3], None),
        ([2, 6], ([2, 3], {0: 1, 1: 2})),
        ([3, 5], None),
    ],
)
def test_blocks_of_a_reshape(sizes: list[int], expected: Any):
    type_ = block_type([3, 2], {0: 1, 1: 2})
    found = reshaped_blocks(type_, [3, 4], sizes)
    assert found == (expected and block_type(*expected))


def test_a_block_size_of_a_whole_dimension_may_be_left_out():
    a, b = block_type([3, 1], {0: 1}), block_type([3, 1], {0: 1, 1: 4})
    assert a != b
    assert have_equal_blocks(a, b)
    assert not have_equal_blocks(a, block_type([1, 3], {1: 1}))


def test_scales_without_the_rank_of_a_tensor():
    """Types of unranked tensors may have scales of quantized dimensions only."""
    type_ = block_type([2], {1: 2})
    assert transposed_blocks(type_, [1, 0]) is None
    assert reshaped_blocks(type_, [3, 4], [4, 3]) is None
    assert sliced_blocks(type_, [3, 4], [range(3), range(4)]) is None
