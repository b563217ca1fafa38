"""
Which float tensors get statistics if nobody says which.

The result of an op that only moves elements has the range of its operand. A constant of
zeros needs no range, and one that is not finite, like the start of a maximum, has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    ShapedType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant.traits import MovesElements, quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.xdsl_patches.resources import resource_data

if TYPE_CHECKING:
    from numpy.typing import NDArray


def is_selected_by_default(value: SSAValue) -> bool:
    """Whether a float tensor has elements, and a range that no other value has."""
    if isinstance(type_ := value.type, ShapedType) and 0 in type_.get_shape():
        return False
    if not isinstance(op := value.owner, Operation):
        return True
    moves = quantization_trait(op, MovesElements)
    moved = () if moves is None else moves.moved(op)
    if len(moved) != 1:
        return _is_useful(op)
    (operand,) = moved
    if not isinstance(operand.type, ShapedType):
        # The elements are all one scalar, which has no statistics of its own.
        return not isinstance(operand.owner, Operation) or _is_useful(operand.owner)
    return scalar_or_element_type(operand.type) != scalar_or_element_type(type_)


def _is_useful(op: Operation) -> bool:
    """Whether an op is no constant, or one of finite numbers that are not all 0."""
    value = op.properties.get("value", op.attributes.get("value"))
    if op.operands or op.regions or (numbers := _numbers(value)) is None:
        return True
    # Importing NumPy takes longer than starting `xdsl-opt`.
    import numpy

    return bool(numpy.any(numbers) and numpy.isfinite(numbers).all())


def _numbers(value: Attribute | None) -> NDArray[Any] | float | None:
    """The numbers of an attribute, if they are floats that NumPy knows."""
    if isinstance(value, FloatAttr):
        return value.value.data
    if not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return None
    element_type = scalar_or_element_type(value.get_type())
    if not isinstance(element_type, AnyFloat):
        return None
    import numpy

    from xdsl_quant.numerics.float_dtypes import float_dtype

    try:
        data = (
            value.data.data
            if isinstance(value, DenseIntOrFPElementsAttr)
            else resource_data(value)
        )
        dtype = float_dtype(element_type.name)
        return None if data is None else numpy.frombuffer(data, dtype)
    except (ImportError, ValueError):
        return None
