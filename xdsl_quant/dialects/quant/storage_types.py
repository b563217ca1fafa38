"""The storage types of quantized types: integers, small floats, and tables of values."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IntegerType,
    Signedness,
)

from .float_formats import float_format
from .quantile_type import QuantileType

MLIRStorageType: TypeAlias = (
    IntegerType | Float8E5M2Type | Float8E4M3FNType | Float4E2M1FNType | QuantileType
)
"""The storage types of MLIR."""

FloatStorageType: TypeAlias = (
    Float8E5M2Type
    | Float8E4M3FNType
    | Float8E8M0FNUType
    | Float6E2M3FNType
    | Float6E3M2FNType
    | Float4E2M1FNType
)
"""
The float storage types. Those of 6 bits and the unsigned one are for block-scaled types
only.
"""

StorageType: TypeAlias = IntegerType | FloatStorageType | QuantileType
"""All storage types."""

MAX_STORAGE_BITS = 32
"""Widest storage type."""

SIGNED_FLAG = 1
"""The bit of `flags` that is set if stored values are signed."""


def default_storage_min(width: int, is_signed: bool) -> int:
    """Smallest integer of `width` bits."""
    return -(1 << (width - 1)) if is_signed else 0


def default_storage_max(width: int, is_signed: bool) -> int:
    """Largest integer of `width` bits."""
    return (1 << (width - is_signed)) - 1


def is_signed_by_default(storage_type: StorageType) -> bool:
    """Whether stored values are signed if a storage type is written without a prefix."""
    if isinstance(storage_type, IntegerType):
        return storage_type.signedness.data is not Signedness.UNSIGNED
    if isinstance(storage_type, QuantileType):
        return storage_type.is_signed
    return not isinstance(storage_type, Float8E8M0FNUType)


def default_storage_range(
    storage_type: StorageType, is_signed: bool
) -> tuple[int, int]:
    """
    Smallest and largest stored value of a storage type. For a float type, the largest one
    is the integer part of the largest finite value, and the smallest one its negative, or 0
    for the unsigned type.
    """
    if isinstance(storage_type, QuantileType):
        return storage_type.storage_range
    if isinstance(storage_type, FloatStorageType):
        largest = int(float_format(storage_type).largest)
        return -largest if is_signed else 0, largest
    width = storage_type.bitwidth
    return default_storage_min(width, is_signed), default_storage_max(width, is_signed)
