"""
Constraints for tensor operands and results, with the dialect's messages.

Verification accepts tensors of any element type, ranked or not, like the dialect in MLIR.
Messages list the element types that the runtime supports.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from xdsl.dialects.builtin import NoneType, TensorType, UnrankedTensorType, i32
from xdsl.ir import Attribute

from xdsl_quant.dialects.type_kinds import TypeKind, VariadicOf


class ElementKind(Enum):
    """Group of element types; the enum value is TensorFlow Lite's name of the group."""

    any = "any non-token type"
    f8E4M3FN = "f8E4M3FN type"
    f8E5M2 = "f8E5M2 type"
    f16 = "16-bit float"
    bf16 = "bfloat16 type"
    f32 = "32-bit float"
    f64 = "64-bit float"
    c64 = "complex type with 32-bit float elements"
    c128 = "complex type with 64-bit float elements"
    i1 = "1-bit signless integer"
    i2 = "2-bit signless integer"
    i4 = "4-bit signless integer"
    i8 = "8-bit signless integer"
    i16 = "16-bit signless integer"
    i32 = "32-bit signless integer"
    i64 = "64-bit signless integer"
    ui4 = "4-bit unsigned integer"
    ui8 = "8-bit unsigned integer"
    ui16 = "16-bit unsigned integer"
    ui32 = "32-bit unsigned integer"
    QI2 = "QI2 type"
    QI4 = "QI4 type"
    QUI4 = "QUI4 type"
    QI8 = "QI8 type"
    QUI8 = "QUI8 type"
    QI16 = "QI16 type"
    QUI16 = "QUI16 type"
    QI32 = "QI32 type"
    QUI32 = "QUI32 type"
    quint8 = "TFLite quint8 type"
    string = "TFLite string type"
    resource = "resource"


def is_tensor(type_: Attribute) -> bool:
    """Return True if a type is a tensor type, ranked or not."""
    return isinstance(type_, TensorType | UnrankedTensorType)


@dataclass(frozen=True)
class TFLTensorKind(TypeKind[Attribute]):
    """Constraint for the type of an operand or result."""

    elements: Sequence[ElementKind]
    """The element types that the runtime supports."""


def _words(elements: str) -> str:
    words = (
        "32/64-bit signless integer" if name == "i32|i64" else ElementKind[name].value
        for name in elements.split()
    )
    return f"tensor of {' or '.join(words)} values"


def _element_kinds(names: str) -> Sequence[ElementKind]:
    return tuple(ElementKind[name] for name in names.replace("|", " ").split())


def tensor_of(elements: str) -> TFLTensorKind:
    """
    Return the constraint for a tensor with one of several element types.

    Args:
        elements: names of `ElementKind`, separated by spaces; `i32|i64` is one name.
    """
    return TFLTensorKind(_words(elements), is_tensor, _element_kinds(elements))


def tensor_of_or_none(elements: str) -> TFLTensorKind:
    """Return the constraint for a tensor or an absent operand."""
    return TFLTensorKind(
        f"{_words('any')} or none type",
        lambda type_: is_tensor(type_) or isinstance(type_, NoneType),
        _element_kinds(elements),
    )


def variadic_of(elements: str) -> VariadicOf[Attribute]:
    """Return the constraint for a variadic operand or result."""
    return VariadicOf(TFLTensorKind(_words("any"), is_tensor, _element_kinds(elements)))


def _i32_of_rank(rank: int) -> TFLTensorKind:
    def accepts(type_: Attribute) -> bool:
        if not isinstance(type_, TensorType):
            return False
        tensor_type = cast(TensorType[Attribute], type_)
        return tensor_type.element_type == i32 and tensor_type.get_num_dims() == rank

    return TFLTensorKind(f"{rank}D {_words('i32')}", accepts, _element_kinds("i32"))


ANY = tensor_of("any")
FLOAT = tensor_of("f32")
BOOL = tensor_of("i1")
I32 = tensor_of("i32")
I32_SCALAR = _i32_of_rank(0)
I32_VECTOR = _i32_of_rank(1)
INDEX = tensor_of("i32|i64")
RESOURCE = tensor_of("resource")
STATE = TFLTensorKind("stateful tensor", is_tensor, _element_kinds("any"))
NONE = TypeKind[NoneType]("none type", lambda type_: isinstance(type_, NoneType))
CUSTOM_INPUTS = VariadicOf[Attribute](tensor_of_or_none("any"))
