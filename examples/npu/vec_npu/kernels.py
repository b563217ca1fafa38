"""What the file of the target cannot say: a constraint and two patterns in Python."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.dialects.stablehlo import DotGeneralOp, LogisticOp, MultiplyOp
from xdsl_quant.transforms.propagation.target_spec import Specs


def gated_result(inputs: Specs, outputs: Specs) -> tuple[Sequence[int], Sequence[int]]:
    """
    The constraint `@vec.gated-result`: a gate makes no value larger, so the result is
    stored like the values, which are the second operand of the kernel.
    """
    _, values = inputs
    (result,) = outputs
    if not isinstance(values, UniformQuantizedType) or result == values:
        return (), ()
    outputs[0] = values
    return (), (0,)


def dot(op: Operation) -> Sequence[Operation] | None:
    """The pattern `@vec.dot`: a product of matrices, the only one that `vec.dot` is."""
    if not isinstance(op, DotGeneralOp) or len(op.result.type.get_shape()) != 2:
        return None
    batching, contracting = op.dot_dimension_numbers.pairs()
    return [op] if (batching, contracting) == (((), ()), ((1,), (0,))) else None


def gated(op: Operation) -> Sequence[Operation] | None:
    """
    The pattern `@vec.gated`: the sigmoid of gates by values. A chain in the file would find
    a product with the sigmoid on the left, too, whose ports have another order.
    """
    if not isinstance(op, MultiplyOp) or not isinstance(op.rhs.owner, LogisticOp):
        return None
    sigmoid = op.rhs.owner
    if any(use.operation is not op for use in sigmoid.result.uses):
        return None
    return (sigmoid, op) if op.lhs is not op.rhs else None
