"""
Sums of products: what matrix products and convolutions have in common.

Products are summed up in the type of the result, in f32 for narrower floats, whose sums
are rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, TensorType, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    Size,
    dimensions,
    static_sizes,
)

from .conversions import converted
from .element_types import is_float, signless
from .scalars import product, total


class Factor(NamedTuple):
    """A tensor of which each product has an element."""

    value: SSAValue

    element_type: Attribute
    """The element type, with its sign."""

    indices: Sequence[AffineExpr]
    """The element for each iteration of the loops."""


def sum_of_products(
    builder: LoweringBuilder,
    lhs: Factor,
    rhs: Factor,
    result_sizes: Sequence[Size],
    reduction_count: int,
    element_type: Attribute,
) -> SSAValue:
    """
    Sums of products as one loop nest: first the dimensions of the result in order, and then
    the loops over what is summed up.

    Args:
        builder: where the ops are inserted.
        lhs: the left factor.
        rhs: the right factor.
        result_sizes: the sizes of the result.
        reduction_count: the number of loops over what is summed up.
        element_type: the element type of the result, with its sign.
    """
    sum_type = element_type
    if is_float(element_type) and cast(AnyFloat, element_type).bitwidth < 32:
        sum_type = f32
    shape, rank = static_sizes(result_sizes), len(result_sizes)
    if 0 in shape:
        # Loops that do not run may have indices out of bounds, which MLIR finds wrong.
        return builder.zeros(TensorType(signless(element_type), shape), result_sizes)

    def body(body: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
        factors = (
            converted(body, value, factor.element_type, sum_type)
            for value, factor in zip(args[:2], (lhs, rhs), strict=True)
        )
        return total(body, args[2], product(body, *factors))

    loop_count = rank + reduction_count
    sums = builder.generic(
        [lhs.value, rhs.value],
        [builder.zeros(TensorType(signless(sum_type), shape), result_sizes)],
        [
            AffineMap(loop_count, 0, tuple(indices))
            for indices in (lhs.indices, rhs.indices, dimensions(range(rank)))
        ],
        [PARALLEL] * rank + [REDUCTION] * reduction_count,
        body,
    )
    if sum_type == element_type:
        return sums
    return builder.rearranged(
        sums,
        TensorType(element_type, shape),
        result_sizes,
        dimensions(range(rank)),
        lambda body, args: converted(body, args[0], sum_type, element_type),
    )
