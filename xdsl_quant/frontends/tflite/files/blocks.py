"""Quantization details of blocks: the tables and the block sizes that they describe."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .model import ABSENT, ITEM_BITS, Tensor, TensorBlocks, TFLiteFileError

BLOCKWISE, MULTI_AXIS = "BlockwiseQuantization", "MultiAxisQuantization"

DETAILS_TABLES = (BLOCKWISE, MULTI_AXIS)
"""Names of the tables, whose fields are those of `QuantizationDetails`, in order."""

_SCALE_TYPES = {"FLOAT16": np.float16, "FLOAT32": np.float32, "BFLOAT16": None}
"""Types of scale tensors, and their NumPy dtypes."""


class QuantizationDetails(NamedTuple):
    """Fields of a table of quantization details, in the order of the schema."""

    kind: str
    scales: int
    """Index of the tensor of scales."""

    zero_points: int
    """Index of the tensor of zero points; `ABSENT`, or 0 as the default of the table."""

    block_size: int
    dimensions: Sequence[int]
    """The size of a block along each dimension, or the quantized dimensions."""


def block_quantization(
    details: QuantizationDetails,
    tensor: Tensor,
    tensors: Sequence[Tensor],
    where: str,
) -> TensorBlocks:
    """
    Return the parameters of the blocks of a tensor.

    Args:
        details: the quantization details of the tensor.
        tensor: the tensor.
        tensors: all tensors of the subgraph.
        where: the tensor's name in messages.

    Raises:
        TFLiteFileError: if details, shapes and types do not match.
    """
    scales = _scale_tensor(details, tensors, where)
    find_sizes = _blockwise_sizes if details.kind == BLOCKWISE else _multi_axis_sizes
    sizes = find_sizes(details, tensor.shape, scales.shape, where)
    blocks = TensorBlocks(sizes, scales)
    if math.prod(scales.shape) != math.prod(blocks.counts(tensor.shape)):
        raise TFLiteFileError(
            f"{where} of shape {[*tensor.shape]} has scales of shape {[*scales.shape]}; "
            f"expected a scale for each block of {_size_text(sizes)}"
        )
    blocks.zero_points = _zero_point_tensor(details, scales, tensors, where)
    return blocks


def _scale_tensor(
    details: QuantizationDetails, tensors: Sequence[Tensor], where: str
) -> Tensor:
    if not 0 <= details.scales < len(tensors):
        raise TFLiteFileError(
            f"{where} has its scales in tensor {details.scales}; expected a value in "
            f"[0, {len(tensors)})"
        )
    scales = tensors[details.scales]
    if scales.type not in _SCALE_TYPES or scales.data is None:
        raise TFLiteFileError(
            f"{where} has its scales in tensor '{scales.name}' of type {scales.type}; "
            "expected constant floats"
        )
    dtype = _SCALE_TYPES[scales.type]
    if dtype is not None and not np.isfinite(scales.data.view(dtype)).all():
        raise TFLiteFileError(f"{where} has an invalid scale; expected finite values")
    return scales


def _size_text(sizes: Mapping[int, int]) -> str:
    return ", ".join(f"size {size} along axis {axis}" for axis, size in sizes.items())


def _blockwise_sizes(
    details: QuantizationDetails,
    shape: Sequence[int],
    scales_shape: Sequence[int],
    where: str,
) -> Mapping[int, int]:
    """Return block sizes: those of the table, or blocks along the last dimension."""
    sizes = [*details.dimensions] or [1] * (len(shape) - 1) + [details.block_size]
    if not shape or len(sizes) != len(shape) or min(sizes) < 1:
        raise TFLiteFileError(
            f"{where} of rank {len(shape)} has blocks of shape {sizes}; expected a "
            "positive size for each dimension"
        )
    if any(size % block for size, block in zip(shape, sizes, strict=True)):
        raise TFLiteFileError(
            f"{where} of shape {[*shape]} is not a multiple of its blocks of shape {sizes}"
        )
    return dict(enumerate(sizes))


def _multi_axis_sizes(
    details: QuantizationDetails,
    shape: Sequence[int],
    scales_shape: Sequence[int],
    where: str,
) -> Mapping[int, int]:
    """Return block sizes: those with which the scales cover the tensor."""
    axes, size = details.dimensions, details.block_size
    is_valid = len(axes) == len(scales_shape) and [*axes] == sorted({*axes})
    if is_valid and axes and 0 <= axes[0] and axes[-1] < len(shape):
        counts = dict(zip(axes, scales_shape, strict=True))
        sizes = {axis: shape[axis] // max(count, 1) for axis, count in counts.items()}
        is_whole = all(sizes[axis] * counts[axis] == shape[axis] for axis in axes)
        if is_whole and {*sizes.values()} <= {1, size}:
            return sizes
    raise TFLiteFileError(
        f"{where} of shape {[*shape]} has scales of shape {[*scales_shape]} along axes "
        f"{[*axes]}; expected a scale for each index or for each {size} indices"
    )


def _zero_point_tensor(
    details: QuantizationDetails,
    scales: Tensor,
    tensors: Sequence[Tensor],
    where: str,
) -> Tensor | None:
    index = details.zero_points
    if index == ABSENT:
        return None
    tensor = tensors[index] if 0 <= index < len(tensors) else None
    if tensor is not None and tensor.data is not None:
        has_type = "INT" in tensor.type and ITEM_BITS[tensor.type] <= 32
        if has_type and [*tensor.shape] == [*scales.shape]:
            return tensor
    if not index:
        # 0 is the default of the table, too.
        return None
    raise TFLiteFileError(
        f"{where} has its zero points in tensor {index}; expected constant integers in "
        f"the shape of its scales, {[*scales.shape]}"
    )


def details_of(blocks: TensorBlocks, rank: int) -> tuple[str, int, Sequence[int]]:
    """
    Return the table, the block size and the quantized dimensions (none for
    `BlockwiseQuantization`) that describe blocks.

    Raises:
        TFLiteFileError: if no table does.
    """
    sizes = {*blocks.sizes.values()}
    size = max(sizes, default=0)
    if blocks.sizes and blocks.sizes == {
        **dict.fromkeys(range(rank), 1),
        rank - 1: size,
    }:
        return BLOCKWISE, size, ()
    if blocks.sizes and sizes <= {1, size}:
        return MULTI_AXIS, size, [*blocks.sizes]
    raise TFLiteFileError(f"blocks of {_size_text(blocks.sizes) or 'no size'}")
