"""Quantized types for arrays in named formats, e.g. formats of GGUF."""

from typing import cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, f32

from xdsl_quant.dialects.quant.block_scaled_type import (
    BlockScaledQuantizedType,
    StoredNumbersAttr,
)
from xdsl_quant.dialects.quant.constructor_arguments import checked_expressed_type
from xdsl_quant.dialects.quant.float_formats import FLOAT_FORMATS
from xdsl_quant.dialects.quant.storage_types import QuantileType, StorageType

from .block_scaled import BlockScaled, Stored

_FLOAT_TYPES = {type_.name: type_ for type_ in FLOAT_FORMATS}


def block_scaled_type(
    stored: BlockScaled, expressed_type: AnyFloat = f32
) -> BlockScaledQuantizedType:
    """
    Return the quantized type of an array in a named format; its stored values are
    `stored.codes`.

    If the expressed type is f32, the result of `quant.dcast` is bit-identical to
    `stored.dequantize()`.

    Args:
        stored: the result of `quantize` or `unpack` of a
            [`Format`][xdsl_quant.numerics.formats.Format].
        expressed_type: the type of dequantized values.

    Raises:
        TypeError: if `expressed_type` is not a float type, or `stored` not a
            `BlockScaled`.
        VerifyException: if a scale or an offset is infinite.
    """
    if not isinstance(cast(object, stored), BlockScaled):
        raise TypeError(
            f"expected a BlockScaled, found {type(stored).__name__}; use the result of "
            "'quantize' or 'unpack' of a format"
        )
    # A single block needs no block sizes.
    is_whole = stored.scales.codes.size == 1
    scales, zero_points, offsets = (
        None if part is None else _numbers_attr(part, is_whole)
        for part in (stored.scales, stored.zero_points, stored.offsets)
    )
    return BlockScaledQuantizedType(
        _format_storage_type(stored),
        checked_expressed_type(expressed_type),
        cast(StoredNumbersAttr, scales),
        block_sizes={} if is_whole else dict(enumerate(stored.block_shape)),
        zero_points=zero_points,
        offsets=offsets,
        is_signed=None if stored.table is None and stored.type[0] != "u" else False,
    )


def _numbers_attr(stored: Stored, is_whole: bool) -> StoredNumbersAttr:
    is_scaled = isinstance(stored, BlockScaled)
    quantized_type = block_scaled_type(stored) if is_scaled else None
    codes = stored.codes.reshape(()) if is_whole else stored.codes
    element_type = _code_type(stored.type)
    return StoredNumbersAttr.from_array(codes, element_type, quantized_type)


def _code_type(name: str) -> AnyFloat | IntegerType:
    if (float_type := _FLOAT_TYPES.get(name)) is not None:
        return float_type()
    return IntegerType(int(name.lstrip("siu")))


def _format_storage_type(stored: Stored) -> StorageType:
    storage_type = _code_type(stored.type)
    if stored.table is None:
        return cast(StorageType, storage_type)
    return QuantileType(storage_type, f32, stored.table)
