"""
Which tensors an op takes: shapes, element types, and the rules that StableHLO has for a
quantized element type and for the tensor that has it.

The rules C7, C8, C12 and C13 of quantized types are checked here, for each operand and
result of each op. The other rules hold for any quantized type that exists, be it used by
StableHLO or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import (
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.types import int_array

from .attributes import TypeExtensionsAttr
from .compatibility import real_type

PerTensorType = UniformQuantizedType | FixedPointQuantizedType
PerAxisType = UniformQuantizedPerAxisType | FixedPointQuantizedPerAxisType
QuantizedElementType = PerTensorType | PerAxisType
"""
StableHLO's quantized types, and those of this package whose scales are integers: ops take
them alike.
"""


class ElementKind(Enum):
    """A group of element types, by the words that StableHLO has for it."""

    PRED = "bool"
    SIGNED = "2/4/8/16/32/64-bit signless integer"
    UNSIGNED = "2/4/8/16/32/64-bit unsigned integer"
    FLOAT = "4/6/8/16/32/64-bit float"
    COMPLEX = "complex type with 32/64-bit float elements"
    PER_TENSOR = "per-tensor integer quantized"
    PER_AXIS = "per-axis integer quantized"


_FLOAT_WIDTHS = (4, 6, 8, 16, 32, 64)
_INTEGER_WIDTHS = (2, 4, 8, 16, 32, 64)
_STORAGE_WIDTHS = (2, 4, 8, 16, 32)


def element_kind(type_: Attribute) -> ElementKind | None:
    """The group that an element type belongs to; `None` if no op takes it."""
    if isinstance(type_, PerTensorType):
        zero_points = (type_.zero_point.data,)
        is_valid = _is_valid_storage(type_) and _are_stored(type_, zero_points)
        return ElementKind.PER_TENSOR if is_valid else None
    if isinstance(type_, PerAxisType):
        is_valid = _is_valid_storage(type_) and _all_are_stored(type_)
        return ElementKind.PER_AXIS if is_valid else None
    if isinstance(type_, AnyFloat):
        return ElementKind.FLOAT if type_.bitwidth in _FLOAT_WIDTHS else None
    if isinstance(type_, IntegerType):
        return _integer_kind(cast(IntegerType, type_))
    if isinstance(real_type(type_), Float32Type | Float64Type):
        return ElementKind.COMPLEX
    return None


def _integer_kind(type_: IntegerType) -> ElementKind | None:
    signedness = type_.signedness.data
    if type_.bitwidth == 1 and signedness is Signedness.SIGNLESS:
        return ElementKind.PRED
    if type_.bitwidth not in _INTEGER_WIDTHS or signedness is Signedness.SIGNED:
        return None
    is_unsigned = signedness is Signedness.UNSIGNED
    return ElementKind.UNSIGNED if is_unsigned else ElementKind.SIGNED


def _is_valid_storage(type_: QuantizedElementType) -> bool:
    if type_.storage_type_integral_width not in _STORAGE_WIDTHS:
        return False
    is_signless = type_.storage_type.signedness.data is Signedness.SIGNLESS
    return is_signless or not type_.is_signed


def _are_stored(type_: QuantizedElementType, zero_points: Sequence[int]) -> bool:
    """C7 and C8: zero points are values that can be stored."""
    low, high = type_.storage_type_min.data, type_.storage_type_max.data
    return low <= min(zero_points) and max(zero_points) <= high


_ALL_ARE_STORED: WeakKeyDictionary[PerAxisType, bool] = WeakKeyDictionary()


def _all_are_stored(type_: PerAxisType) -> bool:
    # A type may have a million zero points, and many values may have the type.
    if (known := _ALL_ARE_STORED.get(type_)) is None:
        known = _are_stored(type_, int_array(type_.zero_points))
        _ALL_ARE_STORED[type_] = known
    return known


def _is_valid_dimension(element_type: Attribute, shape: Sequence[int]) -> bool:
    """C12 and C13: the quantized dimension exists, and has a scale for each index."""
    if not isinstance(element_type, PerAxisType):
        return True
    dimension = element_type.quantized_dimension.data
    if dimension >= len(shape):
        return False
    return shape[dimension] in (DYNAMIC_INDEX, len(element_type.zero_points))


def _is_any_shape(type_: TensorType[Attribute]) -> bool:
    return True


def _is_scalar(type_: TensorType[Attribute]) -> bool:
    return not type_.get_shape()


def _is_static(type_: TensorType[Attribute]) -> bool:
    return DYNAMIC_INDEX not in type_.get_shape()


def _is_static_or_bounded(type_: TensorType[Attribute]) -> bool:
    """Static, but for one dimension that has an upper bound."""
    shape = type_.get_shape()
    if (dynamic := shape.count(DYNAMIC_INDEX)) != 1:
        return not dynamic
    if not isinstance(encoding := type_.encoding, TypeExtensionsAttr):
        return False
    bounds = encoding.bounds.get_values()
    dimension = shape.index(DYNAMIC_INDEX)
    return dimension < len(bounds) and bounds[dimension] != DYNAMIC_INDEX


@dataclass(frozen=True)
class TensorKind:
    """What the type of an operand or a result must be."""

    element_kinds: frozenset[ElementKind]
    description: str
    """The words that StableHLO has for it."""

    has_shape: Callable[[TensorType[Attribute]], bool] = _is_any_shape

    def has(self, type_: Attribute) -> bool:
        """Whether the type is of this kind."""
        if not isinstance(type_, TensorType):
            return False
        tensor_type = cast(TensorType[Attribute], type_)
        element_type = tensor_type.element_type
        return (
            element_kind(element_type) in self.element_kinds
            and _is_valid_dimension(element_type, tensor_type.get_shape())
            and self.has_shape(tensor_type)
        )


_INTEGER = (ElementKind.SIGNED, ElementKind.UNSIGNED)


def _tensor_of(
    *element_kinds: ElementKind | tuple[ElementKind, ...],
    shape: str = "ranked",
    has_shape: Callable[[TensorType[Attribute]], bool] = _is_any_shape,
) -> TensorKind:
    kinds: set[ElementKind] = set()
    words: list[str] = []
    for element_kind in element_kinds:
        if isinstance(element_kind, tuple):
            kinds.update(element_kind)
            words.append("2/4/8/16/32/64-bit integer")
        else:
            kinds.add(element_kind)
            words.append(element_kind.value)
    return TensorKind(
        frozenset(kinds), f"{shape} tensor of {' or '.join(words)} values", has_shape
    )


_NOT_QUANTIZED = (ElementKind.FLOAT, ElementKind.PRED, _INTEGER, ElementKind.COMPLEX)
_PER_TENSOR = (*_NOT_QUANTIZED, ElementKind.PER_TENSOR)
_PER_AXIS = (*_PER_TENSOR, ElementKind.PER_AXIS)

TENSOR_NOT_QUANTIZED = _tensor_of(*_NOT_QUANTIZED)
TENSOR = _tensor_of(*_PER_TENSOR)
TENSOR_OR_PER_AXIS = _tensor_of(*_PER_AXIS)
SCALAR = _tensor_of(*_PER_TENSOR, shape="0D", has_shape=_is_scalar)
STATIC_OR_PER_AXIS = _tensor_of(
    *_PER_AXIS, shape="statically shaped", has_shape=_is_static
)
STATIC_OR_BOUNDED_OR_PER_AXIS = _tensor_of(
    *_PER_AXIS,
    shape="statically shaped or single bounded dimension",
    has_shape=_is_static_or_bounded,
)
PRED_TENSOR = _tensor_of(ElementKind.PRED)
FLOAT_TENSOR = _tensor_of(ElementKind.FLOAT)
QUANTIZED_OR_PER_AXIS = _tensor_of(ElementKind.PER_TENSOR, ElementKind.PER_AXIS)
FLOAT_OR_QUANTIZED_OR_PER_AXIS = _tensor_of(
    ElementKind.FLOAT, ElementKind.PER_TENSOR, ElementKind.PER_AXIS
)
FLOAT_OR_COMPLEX = _tensor_of(
    ElementKind.FLOAT, ElementKind.COMPLEX, ElementKind.PER_TENSOR
)
NUMBER = _tensor_of(
    _INTEGER, ElementKind.FLOAT, ElementKind.COMPLEX, ElementKind.PER_TENSOR
)
SIGNED_NUMBER = _tensor_of(
    ElementKind.SIGNED, ElementKind.FLOAT, ElementKind.COMPLEX, ElementKind.PER_TENSOR
)
SIGNED_REAL_NUMBER = _tensor_of(
    ElementKind.SIGNED, ElementKind.FLOAT, ElementKind.PER_TENSOR
)


def _verify_kind(
    op: Operation, value: str, type_: Attribute, kind: TensorKind, variadic: str = ""
) -> None:
    if not kind.has(type_):
        raise VerifyException(
            f"'{op.name}' op {value} must be {variadic}{kind.description}, but got "
            f"'{type_}'"
        )


def verify_kinds(
    op: Operation,
    operand_kinds: Sequence[TensorKind],
    result_kinds: Sequence[TensorKind],
) -> None:
    """Verify that each operand and each result is of the kind that is given for it."""
    for index, kind in enumerate(operand_kinds):
        _verify_kind(op, f"operand #{index}", op.operands[index].type, kind)
    for index, kind in enumerate(result_kinds):
        _verify_kind(op, f"result #{index}", op.results[index].type, kind)


_VARIADIC = "variadic of "


def verify_variadic_operand_kinds(op: Operation, kind: TensorKind) -> None:
    """Verify the operands of an op that has any number of them."""
    for index, type_ in enumerate(op.operand_types):
        _verify_kind(op, f"operand #{index}", type_, kind, _VARIADIC)


def verify_variadic_result_kinds(op: Operation, kind: TensorKind) -> None:
    """Verify the results of an op that has any number of them."""
    for index, type_ in enumerate(op.result_types):
        _verify_kind(op, f"result #{index}", type_, kind, _VARIADIC)
