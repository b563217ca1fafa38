"""
Which casts are a requantization with integers alone: a `quant.qcast` of a `quant.dcast`
where both types have fixed-point scales. The expressed value in between is never computed.
"""

from xdsl.ir import Operation, SSAValue

from .fixed_point_types import FixedPointType
from .ops import DequantizeCastOp, QuantizeCastOp
from .types import scalar_or_element_type


def fixed_point_type_of(value: SSAValue) -> FixedPointType | None:
    """The type with fixed-point scales that a value or its elements have, if they do."""
    quantized_type = scalar_or_element_type(value.type)
    return quantized_type if isinstance(quantized_type, FixedPointType) else None


def requantized_dcast(
    op: Operation, expressed: SSAValue | None = None
) -> DequantizeCastOp | None:
    """
    The `quant.dcast` that makes an op a requantization with integers alone, or `None`.

    Args:
        op: any op.
        expressed: what to take for its operand, if not the one that it has.
    """
    if not isinstance(op, QuantizeCastOp) or fixed_point_type_of(op.result) is None:
        return None
    dcast = (op.input if expressed is None else expressed).owner
    if (
        not isinstance(dcast, DequantizeCastOp)
        or fixed_point_type_of(dcast.input) is None
    ):
        return None
    return dcast


def requantizing_qcasts(dcast: DequantizeCastOp) -> list[QuantizeCastOp]:
    """The users of a `quant.dcast` that are requantizations with integers alone."""
    users = {use.operation: None for use in dcast.result.uses}
    return [
        user
        for user in users
        if isinstance(user, QuantizeCastOp) and requantized_dcast(user) is dcast
    ]
