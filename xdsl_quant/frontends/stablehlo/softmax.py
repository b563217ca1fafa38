"""Recognition of softmax, which StableHLO builds from other ops."""

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant import DequantizeCastOp
from xdsl_quant.transforms.building.builder import shape_of

from . import dialect as stablehlo
from .compositions import observed, ops_between
from .dialect.elementwise import BinaryOp
from .dialect.reduction import region_op

_Broadcast = stablehlo.BroadcastInDimOp | stablehlo.DynamicBroadcastInDimOp


class RowOperand(NamedTuple):
    """The operand of a softmax or reduction, and the dimension of its rows."""

    operand: SSAValue
    axis: int


def match_softmax(divide: stablehlo.DivideOp) -> RowOperand | None:
    """
    Return the softmax that a division computes; `None` for other divisions.

    The powers must be those of differences from the maximum, so that they do not overflow.
    """
    numerator = observed(divide.lhs)
    powers, total = numerator.owner, row_reduction(divide.rhs, stablehlo.AddOp)
    if not isinstance(powers, stablehlo.ExponentialOp) or total is None:
        return None
    difference = observed(powers.operand).owner
    if total.operand is not numerator or not isinstance(
        difference, stablehlo.SubtractOp
    ):
        return None
    largest = row_reduction(difference.rhs, stablehlo.MaximumOp)
    if largest is None or largest.axis != total.axis:
        return None
    minuend = observed(difference.lhs)
    return largest if _have_one_source(largest.operand, minuend) else None


def _have_one_source(x: SSAValue, y: SSAValue) -> bool:
    """Return True for one value, or two dequantizations of one value."""
    sources = [
        value.owner.operands[0]
        if isinstance(value.owner, DequantizeCastOp | stablehlo.UniformDequantizeOp)
        else value
        for value in (x, y)
    ]
    return sources[0] is sources[1] and x.type == y.type


def dynamic_softmax(op: Operation) -> Sequence[Operation] | None:
    """
    Match the pattern `@stablehlo.dynamic-softmax`: all ops of a softmax with dynamic sizes.
    As single kernels, its difference and quotient have no quantized form.
    """
    if not isinstance(op, stablehlo.DivideOp) or (match := match_softmax(op)) is None:
        return None
    ops = ops_between(match.operand, op) or ()
    is_dynamic = any(isinstance(o, stablehlo.DynamicBroadcastInDimOp) for o in ops)
    return ops if is_dynamic else None


def row_reduction(value: SSAValue, op_type: type[BinaryOp]) -> RowOperand | None:
    """
    Return the operand and the dimension of a reduction along one dimension that is
    broadcast to the shape of the operand; `None` for other values.
    """
    dimensions, value = range(rank := len(shape_of(value))), observed(value)
    while isinstance(op := value.owner, _Broadcast):
        dimensions = [dimensions[d] for d in op.broadcast_dimensions.get_values()]
        value = observed(op.operand)
    kept = value
    if isinstance(op, stablehlo.ReshapeOp | stablehlo.DynamicReshapeOp):
        op = observed(op.operand).owner
    if not isinstance(op, stablehlo.ReduceOp) or not isinstance(region_op(op), op_type):
        return None
    if len(op.inputs) != 1 or len(axes := op.dimensions.get_values()) != 1:
        return None
    (axis,), (operand,) = axes, op.inputs
    if kept is not op.results[0]:
        # The reshape must keep the reduced dimension with size 1.
        shape = [*shape_of(operand)]
        shape[axis] = 1
        is_matched = [*shape_of(kept)] == shape and [*dimensions] == [*range(rank)]
    else:
        is_matched = [*dimensions] == [d for d in range(rank) if d != axis]
    return RowOperand(observed(operand), axis) if is_matched else None
