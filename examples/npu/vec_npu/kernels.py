"""A constraint and two patterns in Python, which a target file cannot express."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.dialects.stablehlo import DotGeneralOp, LogisticOp, MultiplyOp
from xdsl_quant.transforms.propagation.target_spec import Specs


def gated_result(inputs: Specs, outputs: Specs) -> tuple[Sequence[int], Sequence[int]]:
    """
    Apply the constraint `@vec.gated-result`: a gate never increases a value, so the result
    has the type of the values, the second operand of the kernel.
    """
    _, values = inputs
    (result,) = outputs
    if not isinstance(values, UniformQuantizedType) or result == values:
        return (), ()
    outputs[0] = values
    return (), (0,)


def dot(op: Operation) -> Sequence[Operation] | None:
    """Match the pattern `@vec.dot`: a matrix product without batch or transposition."""
    if not isinstance(op, DotGeneralOp) or len(op.result.type.get_shape()) != 2:
        return None
    batching, contracting = op.dot_dimension_numbers.pairs()
    return [op] if (batching, contracting) == (((), ()), ((1,), (0,))) else None


def gated(op: Operation) -> Sequence[Operation] | None:
    """
    Match the pattern `@vec.gated`: values times the sigmoid of gates. A chain in the target
    file would also match a sigmoid on the left, with a different order of the ports.
    """
    if not isinstance(op, MultiplyOp) or not isinstance(op.rhs.owner, LogisticOp):
        return None
    sigmoid = op.rhs.owner
    if any(use.operation is not op for use in sigmoid.result.uses):
        return None
    return (sigmoid, op) if op.lhs is not op.rhs else None
