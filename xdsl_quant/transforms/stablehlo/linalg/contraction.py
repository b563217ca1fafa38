"""
Sums of products: matrix products over any dimensions, and what they share with
convolutions.

Products are summed up in the type of the result, in f32 for narrower floats, whose sums
are rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from xdsl_quant.dialects.stablehlo import DotGeneralOp
from xdsl_quant.dialects.stablehlo.attributes import Dimensions
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)

from .conversions import converted
from .element_types import bit_width, is_float, signless
from .lowering import LinalgLowering, Values
from .scalars import product, total


class Factor(NamedTuple):
    """A tensor of which each product has an element."""

    value: SSAValue

    element_type: Attribute
    """The element type, with its signedness."""

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
        element_type: the element type of the result, with its signedness.
    """
    sum_type = element_type
    if is_float(element_type) and bit_width(element_type) < 32:
        sum_type = f32
    shape, rank = static_sizes(result_sizes), len(result_sizes)
    if 0 in shape:
        # Loops that do not run may have indices out of bounds, which MLIR finds wrong.
        return builder.zeros(TensorType(signless(element_type), shape), result_sizes)

    def body(body: LoweringBuilder, args: Values) -> SSAValue:
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


_Loop: TypeAlias = tuple[str, int]
"""
`("b", i)` for the i-th batching dimension, `("k", i)` for the i-th contracting one, and
`("m", d)` and `("n", d)` for dimension `d` of the left and the right operand.
"""


def _loops(
    value: SSAValue, batching: Dimensions, contracting: Dimensions, own: str
) -> Sequence[_Loop]:
    """The loop over each dimension of an operand."""
    shared: Mapping[int, _Loop] = {
        dimension: (kind, index)
        for kind, attribute in (("b", batching), ("k", contracting))
        for index, dimension in enumerate(attribute.get_values())
    }
    return [shared.get(d, (own, d)) for d in range(len(shape_of(value)))]


class LowerDotGeneral(LinalgLowering[DotGeneralOp]):
    """Lowers `stablehlo.dot_general` to one `linalg.generic`."""

    op_type = DotGeneralOp

    def lower(
        self, builder: LoweringBuilder, op: DotGeneralOp, operands: Values
    ) -> Values:
        lhs, rhs = operands
        numbers = op.dot_dimension_numbers
        lhs_loops = _loops(
            lhs,
            numbers.lhs_batching_dimensions,
            numbers.lhs_contracting_dimensions,
            "m",
        )
        rhs_loops = _loops(
            rhs,
            numbers.rhs_batching_dimensions,
            numbers.rhs_contracting_dimensions,
            "n",
        )
        sizes = dict(zip(rhs_loops, builder.sizes(rhs), strict=True))
        sizes |= dict(zip(lhs_loops, builder.sizes(lhs), strict=True))
        result_loops = [
            *sorted(loop for loop in lhs_loops if loop[0] == "b"),
            *(loop for loop in lhs_loops if loop[0] == "m"),
            *(loop for loop in rhs_loops if loop[0] == "n"),
        ]
        summed = [loop for loop in lhs_loops if loop[0] == "k"]
        loops = [*result_loops, *summed]
        lhs_factor, rhs_factor = (
            Factor(value, element_type_of(typed), dimensions(map(loops.index, labels)))
            for value, typed, labels in (
                (lhs, op.lhs, lhs_loops),
                (rhs, op.rhs, rhs_loops),
            )
        )
        result_sizes = [sizes[loop] for loop in result_loops]
        element_type = element_type_of(op.result)
        return [
            sum_of_products(
                builder, lhs_factor, rhs_factor, result_sizes, len(summed), element_type
            )
        ]
