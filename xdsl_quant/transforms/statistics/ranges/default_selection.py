"""
Which float tensors get statistics if nobody says which.

The result of an op that only moves elements has the range of its operand. A constant of
zeros needs no range, and one that is not finite, like the start of a maximum, has none.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ShapedType
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant.traits import MovesElements, quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type

from .float_constants import float_numbers


def is_selected_by_default(value: SSAValue) -> bool:
    """Whether a float tensor has elements, and a range of its own."""
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
    """Whether an op is not a constant, or a finite one that is not all zeros."""
    if op.operands or op.regions:
        return True
    try:
        numbers = float_numbers(op.properties.get("value", op.attributes.get("value")))
    except (ImportError, ValueError):
        return True
    if numbers is None:
        return True
    # Importing NumPy takes longer than starting `xdsl-opt`.
    import numpy as np

    return bool(np.any(numbers) and np.isfinite(numbers).all())
