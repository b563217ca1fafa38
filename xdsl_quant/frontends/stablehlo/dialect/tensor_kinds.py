"""
Constraints of the types of operands and results: shapes, element types, and StableHLO's
rules for quantized tensors; and of properties with dimension numbers.

Rules C7, C8, C12 and C13 of quantized types are checked here, for each operand and result.
The quantized types themselves check the other rules. Types with fixed-point scales are
accepted like types with float scales.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
    TupleType,
    UnrankedTensorType,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import AtLeast, eq

from xdsl_quant.dialects.quant.types import PerAxisType, PerTensorType
from xdsl_quant.dialects.type_kinds import TypeKind
from xdsl_quant.dialects.verification import RankedTensor

from .attributes import TokenType, TypeExtensionsAttr
from .base import real_type


class ElementGroup(Enum):
    """Group of element types; the value is StableHLO's name of the group."""

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


def element_kind(type_: Attribute) -> ElementGroup | None:
    """Return the group of an element type, or `None` if no op accepts it."""
    if isinstance(type_, PerTensorType | PerAxisType):
        is_signless = type_.storage_type == type_.signless_storage_type
        if (
            not type_.has_integer_storage
            or type_.storage_type_integral_width not in _STORAGE_WIDTHS
            or (type_.is_signed and not is_signless)
            or not type_.has_zero_points_in(type_.storage_range)
        ):
            return None
        is_per_axis = isinstance(type_, PerAxisType)
        return ElementGroup.PER_AXIS if is_per_axis else ElementGroup.PER_TENSOR
    if isinstance(type_, AnyFloat):
        return ElementGroup.FLOAT if type_.bitwidth in _FLOAT_WIDTHS else None
    if isinstance(type_, IntegerType):
        return _integer_kind(cast(IntegerType, type_))
    if isinstance(real_type(type_), Float32Type | Float64Type):
        return ElementGroup.COMPLEX
    return None


def _integer_kind(type_: IntegerType) -> ElementGroup | None:
    signedness = type_.signedness.data
    if type_.bitwidth == 1 and signedness is Signedness.SIGNLESS:
        return ElementGroup.PRED
    if type_.bitwidth not in _INTEGER_WIDTHS or signedness is Signedness.SIGNED:
        return None
    is_unsigned = signedness is Signedness.UNSIGNED
    return ElementGroup.UNSIGNED if is_unsigned else ElementGroup.SIGNED


def _has_quantized_axis(element_type: Attribute, shape: Sequence[int]) -> bool:
    """Check C12 and C13: the quantized dimension has one scale per index."""
    return not isinstance(element_type, PerAxisType) or (
        element_type.has_axes_in(shape) and element_type.has_matching_sizes(shape)
    )


def _either(*kinds: TypeKind[Attribute]) -> TypeKind[Attribute]:
    return TypeKind(
        " or ".join(kind.description for kind in kinds),
        lambda type_: any(kind.accepts(type_) for kind in kinds),
    )


def _is_statically_shaped(type_: RankedTensor) -> bool:
    return DYNAMIC_INDEX not in type_.get_shape()


def _is_static_or_bounded(type_: RankedTensor) -> bool:
    """Return True if the shape is static, or its only dynamic dimension has a bound."""
    shape = type_.get_shape()
    if (dynamic := shape.count(DYNAMIC_INDEX)) != 1:
        return not dynamic
    if not isinstance(encoding := type_.encoding, TypeExtensionsAttr):
        return False
    bounds = encoding.bounds.get_values()
    dimension = shape.index(DYNAMIC_INDEX)
    return dimension < len(bounds) and bounds[dimension] != DYNAMIC_INDEX


def _elements_text(groups: Sequence[ElementGroup]) -> str:
    words = " or ".join(group.value for group in groups)
    # Signed and unsigned integers have a common name.
    integers = " or ".join(group.value for group in _INTEGER)
    return f"{words.replace(integers, '2/4/8/16/32/64-bit integer')} values"


def _tensor_of(
    *groups: ElementGroup,
    shape: str = "ranked",
    has_shape: Callable[[RankedTensor], bool] | None = None,
) -> TypeKind[RankedTensor]:
    def accepts(type_: Attribute) -> bool:
        if not isinstance(type_, TensorType):
            return False
        tensor_type = cast(RankedTensor, type_)
        element_type = tensor_type.element_type
        return (
            element_kind(element_type) in groups
            and _has_quantized_axis(element_type, tensor_type.get_shape())
            and (has_shape is None or has_shape(tensor_type))
        )

    return TypeKind(f"{shape} tensor of {_elements_text(groups)}", accepts)


def _scalar_of(*groups: ElementGroup) -> TypeKind[RankedTensor]:
    return _tensor_of(*groups, shape="0D", has_shape=lambda type_: not type_.shape)


def _static_of(*groups: ElementGroup) -> TypeKind[RankedTensor]:
    return _tensor_of(
        *groups, shape="statically shaped", has_shape=_is_statically_shaped
    )


def _elements_kind(
    description: str, accepts: Callable[[Attribute], bool]
) -> TypeKind[RankedTensor]:
    """Return the kind of ranked tensors whose elements are accepted."""
    return TypeKind(
        f"ranked tensor of {description} values",
        lambda type_: (
            isinstance(type_, TensorType)
            and accepts(cast(RankedTensor, type_).element_type)
        ),
    )


_INTEGER = (ElementGroup.SIGNED, ElementGroup.UNSIGNED)
_FLOAT = (ElementGroup.FLOAT, ElementGroup.COMPLEX, ElementGroup.PER_TENSOR)
_NUMBER = (*_INTEGER, *_FLOAT)
_BITS = (ElementGroup.PRED, *_INTEGER)
_NOT_QUANTIZED = (ElementGroup.FLOAT, *_BITS, ElementGroup.COMPLEX)
_PER_TENSOR = (*_NOT_QUANTIZED, ElementGroup.PER_TENSOR)
_PER_AXIS = (*_PER_TENSOR, ElementGroup.PER_AXIS)

TENSOR_NOT_QUANTIZED = _tensor_of(*_NOT_QUANTIZED)
TENSOR = _tensor_of(*_PER_TENSOR)
TENSOR_OR_PER_AXIS = _tensor_of(*_PER_AXIS)
SCALAR = _scalar_of(*_PER_TENSOR)
SCALAR_INTEGER = _scalar_of(*_INTEGER)
STATIC_NUMBER = _static_of(*_NUMBER)
STATIC_OR_PER_AXIS = _static_of(*_PER_AXIS)
STATIC_OR_BOUNDED_OR_PER_AXIS = _tensor_of(
    *_PER_AXIS,
    shape="statically shaped or single bounded dimension",
    has_shape=_is_static_or_bounded,
)
PRED_TENSOR = _tensor_of(ElementGroup.PRED)
PRED_OR_INTEGER = _tensor_of(*_BITS)
INTEGER_TENSOR = _tensor_of(*_INTEGER)
INDICES = _elements_kind(
    "integer or index", lambda type_: isinstance(type_, IntegerType | IndexType)
)


def _numbers_of(
    description: str, rank: int, *, has_index: bool
) -> TypeKind[RankedTensor]:
    """Return the kind of tensors with a rank that contain integers, or also indices."""
    elements = "index or " if has_index else ""

    def accepts(type_: Attribute) -> bool:
        if not isinstance(type_, TensorType):
            return False
        tensor_type = cast(RankedTensor, type_)
        is_index = has_index and isinstance(tensor_type.element_type, IndexType)
        is_static = _is_statically_shaped(tensor_type) or "static" not in description
        is_shaped = len(tensor_type.shape) == rank and is_static
        return is_shaped and (is_index or INTEGER_TENSOR.accepts(tensor_type))

    return TypeKind(f"{description} of {elements}{_elements_text(_INTEGER)}", accepts)


SHAPE = _numbers_of("statically shaped 1-dimensional tensor", 1, has_index=True)
INDEX_VECTOR = _numbers_of("1D tensor", 1, has_index=True)
SLICE_SIZES = _numbers_of(
    "statically shaped 1-dimensional integer tensor", 1, has_index=False
)
PADDING_PAIRS = _numbers_of(
    "statically shaped 2-dimensional integer tensor", 2, has_index=False
)
FLOAT_TENSOR = _tensor_of(ElementGroup.FLOAT)
FLOAT_OR_QUANTIZED = _tensor_of(ElementGroup.FLOAT, ElementGroup.PER_TENSOR)
FEATURES = _tensor_of(
    ElementGroup.FLOAT,
    ElementGroup.PER_TENSOR,
    shape="1D",
    has_shape=lambda type_: len(type_.get_shape()) == 1,
)
_INTEGER_OR_FLOAT = (*_INTEGER, ElementGroup.FLOAT)
INTEGER_OR_FLOAT = _tensor_of(*_INTEGER_OR_FLOAT)
STATIC_INTEGER_OR_FLOAT = _static_of(*_INTEGER_OR_FLOAT)
RANDOM = _tensor_of(*_BITS, ElementGroup.FLOAT)
RANDOM_SCALAR = _scalar_of(*_BITS, ElementGroup.FLOAT)
QUANTIZED_OR_PER_AXIS = _tensor_of(ElementGroup.PER_TENSOR, ElementGroup.PER_AXIS)
FLOAT_OR_QUANTIZED_OR_PER_AXIS = _tensor_of(
    ElementGroup.FLOAT, ElementGroup.PER_TENSOR, ElementGroup.PER_AXIS
)
FLOAT_OR_COMPLEX = _tensor_of(*_FLOAT)
FLOAT_OR_COMPLEX_NOT_QUANTIZED = _tensor_of(ElementGroup.FLOAT, ElementGroup.COMPLEX)
COMPLEX_TENSOR = _tensor_of(ElementGroup.COMPLEX)
COMPONENT = _elements_kind(
    "32/64-bit float", lambda type_: isinstance(type_, Float32Type | Float64Type)
)
NUMBER = _tensor_of(*_NUMBER)
SIGNED_NUMBER = _tensor_of(ElementGroup.SIGNED, *_FLOAT)
SIGNED_REAL_NUMBER = _tensor_of(
    ElementGroup.SIGNED, ElementGroup.FLOAT, ElementGroup.PER_TENSOR
)


def _chlo_kind(kind: TypeKind[RankedTensor]) -> TypeKind[RankedTensor]:
    """Return a kind with CHLO's description. CHLO also accepts unranked tensors."""
    return TypeKind(kind.description.removeprefix("ranked "), kind.accepts)


CHLO_FLOAT = _chlo_kind(FLOAT_TENSOR)
CHLO_FLOAT_OR_COMPLEX = _chlo_kind(FLOAT_OR_COMPLEX_NOT_QUANTIZED)
CHLO_PRED = _chlo_kind(PRED_TENSOR)
CHLO_TENSOR = _chlo_kind(TENSOR_OR_PER_AXIS)
CHLO_COMPLEX = _chlo_kind(COMPLEX_TENSOR)
CHLO_PRED_OR_INTEGER = _chlo_kind(PRED_OR_INTEGER)
I32_TENSOR = _elements_kind("32-bit signless integer", lambda type_: type_ == i32)
UI32 = IntegerType(32, Signedness.UNSIGNED)
UI32_TENSOR = _elements_kind("32-bit unsigned integer", lambda type_: type_ == UI32)


def _is_buffer(type_: Attribute) -> bool:
    return isinstance(type_, MemRefType) and (
        element_kind(cast(Attribute, type_.element_type))
        not in (None, ElementGroup.PER_AXIS)
    )


TOKEN = TypeKind("token", lambda type_: isinstance(type_, TokenType))
TENSOR_OR_TOKEN = _either(TENSOR, TOKEN)
SELECTED = _either(TENSOR, _tensor_of(ElementGroup.PER_AXIS), TOKEN)
"""Constraint for the results of conditionals."""

BUFFER = TypeKind(f"memref of {_elements_text(_PER_TENSOR)}", _is_buffer)
RETURNED = _either(SELECTED, BUFFER)
"""Constraint for values that the region of an op returns, and that a loop carries."""

STATIC_OR_TOKEN = _either(_static_of(*_PER_TENSOR), STATIC_OR_PER_AXIS, TOKEN)

_TUPLE_LEAF = _either(TENSOR, BUFFER, _tensor_of(ElementGroup.PER_AXIS), TOKEN)


def _nested_tuple_of(leaf: TypeKind[Attribute]) -> TypeKind[Attribute]:
    """Return the kind of tuples that contain values of a kind, or such tuples."""

    def accepts(type_: Attribute) -> bool:
        return isinstance(type_, TupleType) and all(
            accepts(element) or leaf.accepts(element) for element in type_.types
        )

    words = f"nested tuple with any combination of {leaf.description} values"
    return TypeKind(words, accepts)


TUPLE = _nested_tuple_of(_TUPLE_LEAF)
TUPLE_ELEMENT = _either(SELECTED, TUPLE, BUFFER)


def _is_any_tensor(type_: Attribute) -> bool:
    """Return True if a tensor, ranked or not, has elements that an op accepts."""
    if isinstance(type_, UnrankedTensorType):
        return element_kind(cast(Attribute, type_.element_type)) is not None
    return TENSOR_OR_PER_AXIS.accepts(type_)


_ANY_TENSOR = TypeKind(f"tensor of {_elements_text(_PER_AXIS)}", _is_any_tensor)
_CALL_LEAF = _either(_ANY_TENSOR, BUFFER, TOKEN)
DIMENSION = IntegerAttr.constr(eq(i64), value=AtLeast(0))
NUMBERS = DenseArrayBase.constr(i64)

CALL_VALUE = _either(
    _CALL_LEAF,
    _nested_tuple_of(_CALL_LEAF),
    TypeKind("future", lambda type_: type_.name == "stablehlo.future"),
)
"""Constraint for operands and results of custom calls."""
