"""Checks of shapes and constants shared by the verifiers of several dialects."""

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

RankedTensor = TensorType[Attribute]


def are_compatible_sizes(a: int, b: int) -> bool:
    """Return True if two sizes, static or dynamic, may be equal at run time."""
    return a == b or a == DYNAMIC_INDEX or b == DYNAMIC_INDEX


def are_compatible_shapes(a: Sequence[int], b: Sequence[int]) -> bool:
    """Return True if two shapes may be equal at run time."""
    return a == b or (len(a) == len(b) and all(map(are_compatible_sizes, a, b)))


def have_one_shape(types: Sequence[RankedTensor]) -> bool:
    """Return True if the shapes of all tensors may be equal at run time."""
    shapes = {type_.get_shape() for type_ in types}
    return len({len(shape) for shape in shapes}) < 2 and all(
        len({*sizes} - {DYNAMIC_INDEX}) < 2 for sizes in zip(*shapes, strict=True)
    )


def merged_shape(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return each dimension's first static size, or a dynamic size if there is none."""
    return tuple(
        next((size for size in sizes if size != DYNAMIC_INDEX), DYNAMIC_INDEX)
        for sizes in zip(*shapes, strict=True)
    )


def require(holds: bool, message: str) -> None:
    """Raise a `VerifyException` with the message unless the condition holds."""
    if not holds:
        raise VerifyException(message)


def constant_integers(value: SSAValue) -> Sequence[int] | None:
    """Return the elements of an integer constant; `None` for any other value."""
    op = value.owner
    if not isinstance(op, Operation) or not op.has_trait(ConstantLike):
        return None
    attribute = op.get_attr_or_prop("value")
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        return None
    if not isinstance(attribute.get_element_type(), IntegerType | IndexType):
        return None
    return cast(Sequence[int], attribute.get_values())
