"""
When types belong together: shapes of which a dimension may be unknown, and element types
that may differ in scale and zero point.

Messages are those of StableHLO, where some name the op and some do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, ComplexType, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import (
    FixedPointQuantizedPerAxisType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
)

from .attributes import TypeExtensionsAttr
from .syntax import dimension_size_text

RankedTensor = TensorType[Attribute]

_PerAxisType = UniformQuantizedPerAxisType | FixedPointQuantizedPerAxisType


def tensor_types(types: Iterable[Attribute]) -> tuple[RankedTensor, ...]:
    """Types that are known to be tensors."""
    return cast(tuple[RankedTensor, ...], tuple(types))


def real_type(element_type: Attribute) -> Attribute:
    """The type of the parts of complex numbers, and any other type itself."""
    if isinstance(element_type, ComplexType):
        return cast(ComplexType[AnyFloat], element_type).element_type
    return element_type


def are_compatible_sizes(a: int, b: int) -> bool:
    """Whether two sizes may be the same at run time."""
    return a == b or a == DYNAMIC_INDEX or b == DYNAMIC_INDEX


def are_compatible_shapes(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes may be the same at run time."""
    if a == b:
        return True
    return len(a) == len(b) and all(map(are_compatible_sizes, a, b))


def _is_within_bounds(shape: Sequence[int], encoding: Attribute) -> bool:
    if not isinstance(encoding, TypeExtensionsAttr):
        return True
    return all(
        bound == DYNAMIC_INDEX or size <= bound
        for size, bound in zip(shape, encoding.bounds.get_values(), strict=False)
    )


def are_compatible_elements(a: Attribute, b: Attribute) -> bool:
    """
    Whether two element types are the same, but for scales, zero points and the quantized
    dimension.
    """
    if a == b:
        return True
    if not isinstance(a, StoredQuantizedType) or not isinstance(b, StoredQuantizedType):
        return False
    if isinstance(a, _PerAxisType) != isinstance(b, _PerAxisType):
        return False
    return (
        a.storage_type == b.storage_type
        and a.storage_type_min == b.storage_type_min
        and a.storage_type_max == b.storage_type_max
        and a.expressed_type == b.expressed_type
    )


def are_compatible_types(a: RankedTensor, b: RankedTensor) -> bool:
    """Whether both the shapes and the element types belong together."""
    if a == b:
        return True
    a_shape, b_shape = a.get_shape(), b.get_shape()
    return (
        are_compatible_shapes(a_shape, b_shape)
        and _is_within_bounds(a_shape, b.encoding)
        and _is_within_bounds(b_shape, a.encoding)
        and are_compatible_elements(a.element_type, b.element_type)
    )


def _all_types(op: Operation) -> tuple[RankedTensor, ...]:
    return tensor_types((*op.operand_types, *op.result_types))


def _have_one_shape(types: Sequence[RankedTensor]) -> bool:
    first = types[0].get_shape()
    shapes = {shape for type_ in types if (shape := type_.get_shape()) != first}
    if not shapes:
        return True
    shapes.add(first)
    if any(len(shape) != len(first) for shape in shapes):
        return False
    return all(
        len({size for size in sizes if size != DYNAMIC_INDEX}) <= 1
        for sizes in zip(*shapes, strict=True)
    )


def verify_same_shape(op: Operation) -> None:
    """Operands and results have one shape."""
    if not _have_one_shape(_all_types(op)):
        raise VerifyException(
            f"'{op.name}' op requires the same shape for all operands and results"
        )


def verify_elementwise(op: Operation) -> None:
    """Operands and results have one shape, in the words of an elementwise op."""
    if not _have_one_shape(_all_types(op)):
        raise VerifyException(
            f"'{op.name}' op all non-scalar operands/results must have the same shape "
            "and base type"
        )


def verify_compatible_types(op: Operation) -> None:
    """All types belong together with that of the first operand."""
    first, *others = _all_types(op)
    if not all(are_compatible_types(type_, first) for type_ in others):
        raise VerifyException(
            f"'{op.name}' op requires compatible types for all operands and results"
        )


def verify_compatible_elements(op: Operation) -> None:
    """All element types belong together with that of the first operand."""
    first, *others = (type_.element_type for type_ in _all_types(op))
    if not all(are_compatible_elements(type_, first) for type_ in others):
        raise VerifyException(
            f"'{op.name}' op requires compatible element types for all operands and "
            "results"
        )


def verify_compatible_operand_elements(op: Operation) -> None:
    """The element types of operands belong together."""
    first, *others = (type_.element_type for type_ in tensor_types(op.operand_types))
    if not all(are_compatible_elements(type_, first) for type_ in others):
        raise VerifyException(
            f"'{op.name}' op requires compatible element types for all operands"
        )


def verify_same_element_type(op: Operation) -> None:
    """There is one element type."""
    first, *others = (type_.element_type for type_ in _all_types(op))
    if any(type_ != first for type_ in others):
        raise VerifyException(
            f"'{op.name}' op requires the same element type for all operands and "
            "results"
        )


def merged_shape(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The known sizes of shapes that belong together."""
    return tuple(
        next((size for size in sizes if size != DYNAMIC_INDEX), DYNAMIC_INDEX)
        for sizes in zip(*shapes, strict=True)
    )


def verify_inferred(
    op: Operation, shape: Sequence[int], element_type: Attribute
) -> None:
    """The one result belongs together with the type that follows from the operands."""
    (result_type,) = tensor_types(op.result_types)
    if (
        are_compatible_shapes(shape, result_type.get_shape())
        and _is_within_bounds(shape, result_type.encoding)
        and are_compatible_elements(element_type, result_type.element_type)
    ):
        return
    raise VerifyException(
        f"'{op.name}' op inferred type(s) '{TensorType(element_type, shape)}' are "
        f"incompatible with return type(s) of operation '{result_type}'"
    )


def verify_inferred_shape(op: Operation, shape: Sequence[int]) -> None:
    """The shape of the one result belongs together with what the operands say."""
    (result_type,) = tensor_types(op.result_types)
    if not are_compatible_shapes(shape, result_type.get_shape()):
        sizes = ", ".join(map(dimension_size_text, shape))
        raise VerifyException(
            f"inferred shape '[{sizes}]' is incompatible with return type of operation "
            f"'{result_type}'"
        )
