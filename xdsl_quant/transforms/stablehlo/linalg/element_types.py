"""What the element types of StableHLO mean, which have a sign where linalg's have none."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant.types import (
    StoredQuantizedType,
    scalar_or_element_type,
    with_element_type,
)

_FLOATS = (BFloat16Type, Float16Type, Float32Type, Float64Type)


def is_float(type_: Attribute) -> bool:
    """Whether an element type is a float."""
    return isinstance(type_, AnyFloat)


def _is_integer(type_: Attribute) -> bool:
    return isinstance(type_, IntegerType)


def bit_width(type_: Attribute) -> int:
    """The width of an integer or float type."""
    return cast("IntegerType | AnyFloat", type_).bitwidth


def is_boolean(type_: Attribute) -> bool:
    """Whether an element type is that of truth values."""
    return _is_integer(type_) and bit_width(type_) == 1


def _signedness(type_: Attribute) -> Signedness:
    if not isinstance(type_, IntegerType):
        return Signedness.SIGNLESS
    return cast(IntegerType, type_).signedness.data


def is_unsigned(type_: Attribute) -> bool:
    """Whether an element type is one of integers without a sign, or of truth values."""
    return is_boolean(type_) or _signedness(type_) is Signedness.UNSIGNED


def has_sign(type_: Attribute) -> bool:
    """Whether a type, or that of its elements, is one that arithmetic ops do not take."""
    return _signedness(scalar_or_element_type(type_)) is not Signedness.SIGNLESS


def signless(type_: Attribute) -> Attribute:
    """The type that arithmetic ops take in the place of a type."""
    if not has_sign(type_):
        return type_
    width = bit_width(scalar_or_element_type(type_))
    return with_element_type(type_, IntegerType(width))


def is_arithmetic(type_: Attribute) -> bool:
    """Whether there is arithmetic for an element type."""
    if _is_integer(type_):
        return bit_width(type_) <= 64
    return isinstance(type_, _FLOATS)


def stored_type(type_: Attribute) -> TensorType:
    """The signless type of what is in memory for a tensor type, quantized or not."""
    storage = StoredQuantizedType.cast_to_signless_storage_type(type_)
    return cast(TensorType, storage or signless(type_))
