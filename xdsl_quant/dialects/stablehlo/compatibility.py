"""
When types belong together: shapes of which a dimension may be unknown, and element types
that may differ in scale and zero point.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, ComplexType, TensorType
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import (
    FixedPointQuantizedPerAxisType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
)

from .attributes import TypeExtensionsAttr

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


def have_one_shape(types: Sequence[RankedTensor]) -> bool:
    """Whether the shapes of all tensors may be the same at run time."""
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


def merged_shape(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The known sizes of shapes that belong together."""
    return tuple(
        next((size for size in sizes if size != DYNAMIC_INDEX), DYNAMIC_INDEX)
        for sizes in zip(*shapes, strict=True)
    )
