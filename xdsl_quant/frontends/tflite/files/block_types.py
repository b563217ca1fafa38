"""Conversion between quantization details of files and `!quant.block_scaled` types."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from xdsl.dialects.builtin import Float16Type, IntegerType, NoneAttr, TensorType, f32

from xdsl_quant.dialects.quant import BlockScaledQuantizedType, StoredNumbersAttr
from xdsl_quant.dialects.quant.types import StorageOptions

from .blocks import details_of
from .constants import ELEMENT_TYPES, constant_value, file_bytes
from .model import ITEM_BITS, Tensor, TensorBlocks, TFLiteFileError


def type_of_blocks(
    tensor: Tensor, blocks: TensorBlocks, options: StorageOptions
) -> BlockScaledQuantizedType:
    """Return the element type of a tensor of blocks."""
    counts = blocks.counts(tensor.shape)
    tensors = {"scales": blocks.scales, "zero_points": blocks.zero_points}
    parameters = {
        name: _stored_parameters(parameter, counts)
        for name, parameter in tensors.items()
        if parameter is not None
    }
    storage = IntegerType(ITEM_BITS[tensor.type])
    return BlockScaledQuantizedType(
        storage, f32, block_sizes=blocks.sizes, **parameters, **options
    )


def _stored_parameters(tensor: Tensor, counts: Sequence[int]) -> StoredNumbersAttr:
    element = cast(IntegerType, ELEMENT_TYPES[tensor.type])
    tensor = replace(tensor, shape=counts)
    return StoredNumbersAttr(constant_value(tensor, TensorType(element, counts)))


def blocks_of_type(
    type_: BlockScaledQuantizedType, name: str, rank: int
) -> TensorBlocks:
    """
    Return the blocks of a type, with new tensors for scales and zero points.

    Args:
        type_: the type.
        name: the name of the quantized tensor.
        rank: the rank of the quantized tensor.

    Raises:
        ValueError: if files do not support the type; the message continues `has type`.
    """
    scales, zero_points = type_.scales, type_.zero_points
    if not isinstance(scales.element_type, Float16Type) or not isinstance(
        scales.quantized_type, NoneAttr
    ):
        raise TFLiteFileError(
            "scales other than 'f16'; the runtime reads them as 'f16'"
        )
    if not isinstance(type_.offsets, NoneAttr) or type_.expressed_type != f32:
        raise TFLiteFileError("offsets, or an expressed type other than 'f32'")
    tensor = _parameter_tensor(scales, "FLOAT16", f"{name}_scales")
    blocks = TensorBlocks(dict(type_.block_size_info), tensor)
    if isinstance(zero_points, StoredNumbersAttr):
        type_name = f"INT{zero_points.element_type.bitwidth}"
        is_plain = isinstance(zero_points.quantized_type, NoneAttr)
        if not is_plain or zero_points.element_type != ELEMENT_TYPES.get(type_name):
            raise TFLiteFileError(f"zero points of '{zero_points.type}'")
        blocks.zero_points = _parameter_tensor(
            zero_points, type_name, f"{name}_zero_points"
        )
    details_of(blocks, rank)
    return blocks


def _parameter_tensor(numbers: StoredNumbersAttr, type_name: str, name: str) -> Tensor:
    count = int(np.prod(numbers.shape))
    data = file_bytes(numbers.data(), type_name, count)
    return Tensor(name, type_name, numbers.shape, data=data)
