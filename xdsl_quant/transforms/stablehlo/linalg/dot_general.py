"""Matrix products over any dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects import stablehlo
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    dimensions,
    element_type_of,
    shape_of,
)

from .contraction import Factor, sum_of_products
from .element_types import stored_type

Labels = Sequence[tuple[str, int]]
"""
For each dimension of an operand which loop it is: `b` for a batching dimension, `k` for a
contracting one, `m` and `n` for those that the left and the right operand have alone.
"""


def _labels(
    value: SSAValue, batching: DenseArrayBase, contracting: DenseArrayBase, own: str
) -> Labels:
    shared = {
        dimension: (kind, index)
        for kind, attribute in (("b", batching), ("k", contracting))
        for index, dimension in enumerate(_values(attribute))
    }
    return [shared.get(d, (own, d)) for d in range(len(shape_of(value)))]


def _values(attribute: DenseArrayBase) -> Sequence[int]:
    return cast(DenseArrayBase[IntegerType], attribute).get_values()


def convert_dot_general(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """One loop nest."""
    assert isinstance(op, stablehlo.DotGeneralOp)
    lhs, rhs = operands
    numbers = op.dot_dimension_numbers
    lhs_labels = _labels(
        lhs, numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions, "m"
    )
    rhs_labels = _labels(
        rhs, numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions, "n"
    )
    result_labels = [
        *sorted(label for label in lhs_labels if label[0] == "b"),
        *(label for label in lhs_labels if label[0] == "m"),
        *(label for label in rhs_labels if label[0] == "n"),
    ]
    sizes = dict(zip(rhs_labels, builder.sizes(rhs), strict=True))
    sizes |= dict(zip(lhs_labels, builder.sizes(lhs), strict=True))
    summed = [label for label in lhs_labels if label[0] == "k"]
    loops = [*result_labels, *summed]
    lhs_factor, rhs_factor = (
        Factor(value, element_type_of(typed), dimensions(map(loops.index, labels)))
        for value, typed, labels in (
            (lhs, op.lhs, lhs_labels),
            (rhs, op.rhs, rhs_labels),
        )
    )
    result = sum_of_products(
        builder,
        lhs_factor,
        rhs_factor,
        [sizes[label] for label in result_labels],
        len(summed),
        element_type_of(op.result),
    )
    return [builder.cast(result, stored_type(op.result.type))]
