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

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.xdsl_patches.resources import resource_data

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOVING = frozenset(
    (
        "linalg.broadcast",
        "linalg.copy",
        "linalg.transpose",
        "stablehlo.broadcast",
        "stablehlo.broadcast_in_dim",
        "stablehlo.dynamic_broadcast_in_dim",
        "stablehlo.dynamic_reshape",
        "stablehlo.dynamic_slice",
        "stablehlo.gather",
        "stablehlo.real_dynamic_slice",
        "stablehlo.reshape",
        "stablehlo.reverse",
        "stablehlo.slice",
        "stablehlo.transpose",
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.expand_shape",
        "tensor.extract_slice",
        "tensor.reshape",
    )
)
"""Ops whose result consists of elements of the first operand."""

_FILLING = ("linalg.fill", "tensor.splat")
"""Ops with a result whose elements are all the first operand."""


def is_selected_by_default(value: SSAValue) -> bool:
    """Whether a float tensor has elements, and a range that no other value has."""
    if isinstance(type_ := value.type, ShapedType) and 0 in type_.get_shape():
        return False
    if not isinstance(op := value.owner, Operation):
        return True
    if not op.operands:
        return _is_useful(op)
    operand = op.operands[0]
    if op_name(op) in _FILLING and isinstance(operand.owner, Operation):
        return _is_useful(operand.owner)
    is_moved = scalar_or_element_type(operand.type) == scalar_or_element_type(type_)
    return not (op_name(op) in _MOVING and is_moved)


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
