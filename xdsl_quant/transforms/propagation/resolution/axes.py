"""
Dimensions with ranges or scales of their own: where they stay apart from the others, and
where they do not.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, TensorType
from xdsl.ir import Operation
from xdsl.traits import ConstantLike

from xdsl_quant.dialects.quant.traits import (
    ComputesElementwise,
    MovesElements,
    has_quantization_trait,
)
from xdsl_quant.dialects.quant.types import UniformType

from .kernels import Kernel, Value
from .parameters import with_axis


def coefficient_ranges(value: Value) -> tuple[int, NDArray[Any]] | None:
    """
    The ranges of a dimension, of shape `(n, 2)`, if it is the coefficient axis of all
    kernels that take the value. No kernel may compute it: most ops give results of one
    scale.
    """
    type_ = value.ssa.type
    if value.ranges is None or value.producer is not None:
        return None
    _, axis, pairs = value.ranges
    if axis is None or pairs is None or not isinstance(type_, TensorType):
        return None
    shape = type_.get_shape()
    if shape[axis] != len(pairs):
        # It is dynamic.
        return None
    for user, port in value.users:
        dimension = user.constraints.coefficients.get(port)
        if dimension is None or axis != dimension % len(shape):
            return None
    return axis, pairs


def carried(kernel: Kernel, source: int, port: int) -> UniformType | None:
    """
    The parameters of one port of a kernel of same scale as those of another one; `None` if
    they have several scales, and it is not known which elements these belong to there: the
    ops do not compute elementwise, and are no transpose.
    """
    parameters = kernel.parameters(source)
    assert parameters is not None
    if source == port or parameters.is_per_tensor:
        return parameters
    ops = [
        op
        for op in kernel.op.body.block.ops
        if op is not kernel.op.body.block.last_op and not op.has_trait(ConstantLike)
    ]
    values = [value for value in kernel.values if value is not None]
    if all(value.ssa.type == values[0].ssa.type for value in values) and all(
        has_quantization_trait(op, ComputesElementwise) for op in ops
    ):
        return parameters
    if len(ops) != 1 or (axis := parameters.axis) is None:
        return None
    if not (permutation := _permutation(ops[0])):
        return None
    is_result = port >= kernel.input_count
    return with_axis(
        parameters, permutation.index(axis) if is_result else permutation[axis]
    )


def _permutation(op: Operation) -> list[int]:
    """The dimensions of the operand in the order of the result, if an op says so."""
    numbers = op.properties.get("permutation", op.attributes.get("permutation"))
    if not isinstance(numbers, DenseArrayBase):
        return []
    if not has_quantization_trait(op, MovesElements):
        return []
    return [int(number) for number in numbers.get_values()]
