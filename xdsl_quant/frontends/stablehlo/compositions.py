"""Ops of kernels that StableHLO builds from several ops."""

from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant import StatisticsOp, StatisticsRefOp
from xdsl_quant.dialects.quant.traits import (
    MultipliesAndAccumulates,
    has_quantization_trait,
)
from xdsl_quant.transforms.building.builder import element_type_of

from . import dialect as stablehlo

_MAX_OPS = 64
"""Limit of the number of ops of a kernel."""


def observed(value: SSAValue) -> SSAValue:
    """Return the operand of ops that record statistics of a value, or the value."""
    while isinstance(op := value.owner, StatisticsOp | StatisticsRefOp):
        value = op.operands[0]
    return value


def ops_between(source: SSAValue, last: Operation) -> Sequence[Operation] | None:
    """
    Return the ops that compute the last op from a value, constants and sizes; `None` if
    they need other floats, or contain a contraction, which is a kernel of its own.
    """
    found, source = [last], observed(source)
    for op in found:
        for operand in op.operands:
            owner = operand.owner
            if (
                observed(operand) is source
                or isinstance(owner, stablehlo.ConstantOp)
                or not isinstance(element_type_of(operand), AnyFloat)
                or owner in found
            ):
                continue
            if (
                not isinstance(owner, Operation)
                or has_quantization_trait(owner, MultipliesAndAccumulates)
                or len(found) > _MAX_OPS
            ):
                return None
            found.append(owner)
    return found[::-1]
