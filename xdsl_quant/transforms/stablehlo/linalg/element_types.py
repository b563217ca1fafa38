"""
The element types of StableHLO, whose integers have a signedness where those of linalg have
none.
"""

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
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant.types import (
    StoredQuantizedType,
    scalar_or_element_type,
    with_element_type,
)


def is_float(type_: Attribute) -> bool:
    """Whether an element type is a float."""
    return isinstance(type_, AnyFloat)


def bit_width(type_: Attribute) -> int:
    """The width of an integer or float type."""
    return cast("IntegerType | AnyFloat", type_).bitwidth


def is_boolean(type_: Attribute) -> bool:
    """Whether an element type is `i1`."""
    return isa(type_, IntegerType) and type_.bitwidth == 1


def is_unsigned(type_: Attribute) -> bool:
    """Whether an element type is one of unsigned integers, which `i1` counts as."""
    return isa(type_, IntegerType) and (
        type_.bitwidth == 1 or type_.signedness.data is Signedness.UNSIGNED
    )


def has_signedness(type_: Attribute) -> bool:
    """Whether a type, or that of its elements, is one that arithmetic ops do not take."""
    element_type = scalar_or_element_type(type_)
    return (
        isa(element_type, IntegerType)
        and element_type.signedness.data is not Signedness.SIGNLESS
    )


def signless(type_: Attribute) -> Attribute:
    """The type with the same bits that arithmetic ops take."""
    if not has_signedness(type_):
        return type_
    width = bit_width(scalar_or_element_type(type_))
    return with_element_type(type_, IntegerType(width))


def is_arithmetic(type_: Attribute) -> bool:
    """Whether the arith dialect computes with an element type, and both evaluators do."""
    if isa(type_, IntegerType):
        return type_.bitwidth <= 64
    return isinstance(type_, BFloat16Type | Float16Type | Float32Type | Float64Type)


def stored_type(type_: Attribute) -> TensorType:
    """The signless type of what is in memory for a tensor type, quantized or not."""
    storage = StoredQuantizedType.cast_to_signless_storage_type(type_)
    return cast(TensorType, storage or signless(type_))
