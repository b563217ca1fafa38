"""What the file of the target cannot say: a constraint and a pattern in Python."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.transforms.propagation.target_spec import Specs

from .dialect import GateOp, SigmoidOp


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


def gated(op: Operation) -> Sequence[Operation] | None:
    """
    The pattern `@vec.gated`: a gate that is a sigmoid. A chain in the file would match
    values that are one, too.
    """
    if not isinstance(op, GateOp) or not isinstance(op.gates.owner, SigmoidOp):
        return None
    sigmoid = op.gates.owner
    if any(use.operation is not op for use in sigmoid.result.uses):
        return None
    return (sigmoid, op) if op.values is not op.gates else None
