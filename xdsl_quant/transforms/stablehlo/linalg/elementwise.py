"""Ops that compute each element of the result from those at the same place."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    LoweringBuilder,
    Size,
    shape_of,
)

from .element_types import stored_type
from .scalars import SCALARS


def convert_elementwise(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """One loop nest. An operand of rank 0 is the same for all elements."""
    result_type = stored_type(op.results[0].type)
    rank = len(result_type.get_shape())
    identity = AffineMap.identity(rank)
    maps = [
        identity if len(shape_of(operand)) == rank else AffineMap(rank, 0, ())
        for operand in operands
    ]
    scalar = SCALARS[type(op)]
    result = builder.generic(
        operands,
        [builder.empty(result_type, _sizes(builder, result_type, operands))],
        [*maps, identity],
        [PARALLEL] * rank,
        lambda body, args: scalar(body, op, args[:-1]),
    )
    return [result]


def _sizes(
    builder: LoweringBuilder, type_: TensorType, operands: Sequence[SSAValue]
) -> Sequence[Size]:
    shape = type_.get_shape()
    like = next(operand for operand in operands if len(shape_of(operand)) == len(shape))
    return [
        builder.size(like, dimension) if size == DYNAMIC_INDEX else size
        for dimension, size in enumerate(shape)
    ]
