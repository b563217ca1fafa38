"""The quantized types of arrays in a named format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, f32

from .block_scaled_type import BlockScaledQuantizedType, StoredNumbersAttr
from .constructor_arguments import checked_expressed_type
from .float_formats import FLOAT_FORMATS
from .quantile_type import QuantileType
from .storage_types import StorageType

if TYPE_CHECKING:
    from xdsl_quant.numerics.formats import BlockScaled, Stored

_FLOAT_TYPES = {type_.name: type_ for type_ in FLOAT_FORMATS}


def block_scaled_type(
    stored: BlockScaled, expressed_type: AnyFloat = f32
) -> BlockScaledQuantizedType:
    """
    The type of an array in a named format. Values of this type have the array
    `stored.codes`.

    If the expressed type is f32, the result of `quant.dcast` equals `stored.dequantize()`
    bit for bit.

    Args:
        stored: the result of `quantize` or `unpack` of a
            [`Format`][xdsl_quant.numerics.formats.Format].
        expressed_type: the type of dequantized values.

    Raises:
        TypeError: if the expressed type is no float type, or `stored` no `BlockScaled`.
        VerifyException: if a scale or an offset is infinite.
    """
    from xdsl_quant.numerics.formats.block_scaled import check_block_scaled

    check_block_scaled(stored)
    expressed_type = checked_expressed_type(expressed_type)
    # A single block needs no block sizes.
    is_whole = all(count == 1 for count in stored.scales.shape)

    def numbers(part: Stored | None) -> StoredNumbersAttr | None:
        if part is None:
            return None
        return _numbers_attr(_reshaped(part, ()) if is_whole else part)

    scales = numbers(stored.scales)
    assert scales is not None
    return BlockScaledQuantizedType(
        _storage_type(stored),
        expressed_type,
        scales,
        block_sizes={} if is_whole else dict(enumerate(stored.block_shape)),
        zero_points=numbers(stored.zero_points),
        offsets=numbers(stored.offsets),
        is_signed=None if stored.table is None and stored.type[0] != "u" else False,
    )


def _reshaped(stored: Stored, shape: tuple[int, ...]) -> Stored:
    from xdsl_quant.numerics.formats import BlockScaled

    codes = stored.codes.reshape(shape)
    if not isinstance(stored, BlockScaled):
        return replace(stored, codes=codes)
    parts = {
        name: _reshaped(part, shape)
        for name in ("scales", "zero_points", "offsets")
        if (part := cast("Stored | None", getattr(stored, name))) is not None
    }
    return replace(stored, codes=codes, block_shape=shape, **parts)


def _numbers_attr(stored: Stored) -> StoredNumbersAttr:
    from xdsl_quant.numerics.formats import BlockScaled

    quantized_type = None
    if isinstance(stored, BlockScaled):
        quantized_type = block_scaled_type(stored)
    element_type = _element_type(stored.type)
    return StoredNumbersAttr.from_array(stored.codes, element_type, quantized_type)


def _element_type(name: str) -> AnyFloat | IntegerType:
    """The type of stored numbers, signless for integers."""
    if (float_type := _FLOAT_TYPES.get(name)) is not None:
        return float_type()
    return IntegerType(int(name.lstrip("siu")))


def _storage_type(stored: Stored) -> StorageType:
    storage_type = _element_type(stored.type)
    if stored.table is None:
        return cast(StorageType, storage_type)
    return QuantileType(storage_type, f32, stored.table)
