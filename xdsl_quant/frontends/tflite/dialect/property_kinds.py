"""Constraints for the properties of TensorFlow Lite's ops, with the dialect's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from typing_extensions import TypeVar
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    UnrankedTensorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import IRDLOperation, VerificationContext
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.type_kinds import TypeKind

from .attributes import ConstBytesAttr, LSTMKernelAttr, MirrorPadAttr

PropertyT = TypeVar("PropertyT", bound=Attribute, covariant=True)


class PropertyError(VerifyException):
    """Raised if an attribute violates the constraint of a property."""

    def __init__(self, kind: PropertyKind[Attribute], attribute: Attribute):
        super().__init__(f"failed to satisfy constraint: {kind.description}")
        self.kind = kind
        self.attribute = attribute

    def message(self, op: IRDLOperation) -> str:
        """Return the error message for an op with this property."""
        kinds = op.get_irdl_definition().properties
        name = next(
            name
            for name, attribute in op.properties.items()
            if attribute is self.attribute and kinds[name].constr == self.kind
        )
        if (self.kind.is_stored or self.kind.accepts)(self.attribute):
            return f"'{op.name}' op attribute '{name}' {self}"
        properties = ", ".join(
            key if isinstance(value, UnitAttr) else f"{key} = {value}"
            for key, value in op.properties.items()
        )
        return (
            f"invalid properties {{{properties}}} for op {op.name}: Invalid attribute "
            f"`{name}` in property conversion: {self.attribute}"
        )


@dataclass(frozen=True)
class PropertyKind(TypeKind[PropertyT]):
    """Constraint for a property."""

    is_stored: Callable[[Attribute], bool] | None = None
    """Predicate for attributes that MLIR can store in the property; default: `accepts`."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not self.accepts(attr):
            raise PropertyError(self, attr)


@dataclass(frozen=True)
class Enumeration(PropertyKind[StringAttr]):
    """Constraint for a string property with a fixed set of values."""

    values: Sequence[str] = ()
    """Strings in the order of the corresponding enum values in `.tflite` files."""


def _is(*classes: type[Attribute]) -> Callable[[Attribute], bool]:
    return lambda attr: isinstance(attr, classes)


def _one_of(*values: str) -> Enumeration:
    return Enumeration(
        f"string attribute whose value is {', or '.join(values)}",
        lambda attr: isinstance(attr, StringAttr) and attr.data in values,
        _is(StringAttr),
        values,
    )


def _is_integer(
    attr: Attribute,
    type_: IntegerType,
    minimum: int | None = None,
    maximum: int | None = None,
) -> bool:
    return (
        isinstance(attr, IntegerAttr)
        and cast(Integer, attr).type == type_
        and (minimum is None or attr.value.data >= minimum)
        and (maximum is None or attr.value.data <= maximum)
    )


def _i32(
    condition: str = "", minimum: int | None = None, maximum: int | None = None
) -> PropertyKind[Integer]:
    return PropertyKind(
        f"32-bit signless integer attribute{condition}",
        lambda attr: _is_integer(attr, i32, minimum, maximum),
        _is(IntegerAttr),
    )


Integer = IntegerAttr[IntegerType]

ACTIVATION = _one_of("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
PADDING = _one_of("SAME", "VALID")
WEIGHTS_FORMAT = _one_of("DEFAULT", "SHUFFLED4x16INT8")
I32 = _i32()
POSITIVE_I32 = _i32(" whose value is positive", 1)
NON_NEGATIVE_I32 = _i32(" whose value is non-negative", 0)
FAKE_QUANT_BITS = _i32(" whose minimum value is 2 whose maximum value is 16", 2, 16)
F32: PropertyKind[FloatAttr] = PropertyKind(
    "32-bit float attribute",
    lambda attr: (
        isinstance(attr, FloatAttr) and cast(FloatAttr[AnyFloat], attr).type == f32
    ),
    _is(FloatAttr),
)
NON_NEGATIVE_F32: PropertyKind[FloatAttr] = PropertyKind(
    "32-bit float attribute whose value is non-negative",
    lambda attr: F32.accepts(attr) and cast(FloatAttr[AnyFloat], attr).value.data >= 0,
    _is(FloatAttr),
)
BOOL: PropertyKind[BoolAttr] = PropertyKind(
    "bool attribute", lambda attr: _is_integer(attr, i1)
)
STRING: PropertyKind[StringAttr] = PropertyKind("string attribute", _is(StringAttr))
UNIT: PropertyKind[UnitAttr] = PropertyKind("unit attribute", _is(UnitAttr))
BYTES: PropertyKind[ConstBytesAttr] = PropertyKind(
    "A string attribute representation of compiled bytes",
    _is(ConstBytesAttr),
)
MIRROR_PAD: PropertyKind[MirrorPadAttr] = PropertyKind(
    "TFL_MirrorPaddingAttr", _is(MirrorPadAttr)
)
LSTM_KERNEL: PropertyKind[LSTMKernelAttr] = PropertyKind(
    "lstm kernel type", _is(LSTMKernelAttr)
)
TYPE: PropertyKind[TypeAttribute] = PropertyKind(
    "any type attribute", _is(TypeAttribute)
)
TENSOR_TYPE: PropertyKind[TypeAttribute] = PropertyKind(
    "Tensor type attribute",
    _is(TensorType, UnrankedTensorType),
    _is(TypeAttribute),
)
ELEMENTS: PropertyKind[DenseIntOrFPElementsAttr | DenseResourceAttr] = PropertyKind(
    "constant vector/tensor attribute",
    _is(DenseIntOrFPElementsAttr, DenseResourceAttr),
)
DIMENSIONS: PropertyKind[ArrayAttr[Integer]] = PropertyKind(
    "64-bit integer array attribute whose size is at most 8",
    lambda attr: (
        isinstance(attr, ArrayAttr)
        and len(numbers := cast(ArrayAttr[Attribute], attr)) <= 8
        and all(_is_integer(number, i64) for number in numbers)
    ),
    _is(ArrayAttr),
)
