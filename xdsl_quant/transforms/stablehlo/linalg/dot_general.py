"""
Matrix products over any dimensions.

What the machine can do at once are the iterations of the innermost loop, so that one is
over elements that lie side by side: those of the result and the right operand, which is
transposed first if it has to be; or, for sums of integers, those that are summed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects import stablehlo
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    dimensions,
    element_type_of,
    shape_of,
)

from .contraction import sum_of_products
from .element_types import is_float, stored_type
from .loops import Contraction, Loop, Operand

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
    if _is_transposed_first(lhs_labels, rhs_labels, is_float(element_type_of(lhs))):
        wanted = sorted(rhs_labels)
        rhs = builder.transposed(rhs, [*map(rhs_labels.index, wanted)])
        rhs_labels = wanted
    sizes = dict(zip(rhs_labels, builder.sizes(rhs), strict=True))
    sizes |= dict(zip(lhs_labels, builder.sizes(lhs), strict=True))
    loops = _order(lhs_labels, rhs_labels, result_labels)
    lhs_operand, rhs_operand = (
        Operand(value, element_type_of(typed), dimensions(map(loops.index, labels)))
        for value, typed, labels in (
            (lhs, op.lhs, lhs_labels),
            (rhs, op.rhs, rhs_labels),
        )
    )
    contraction = Contraction(
        lhs_operand,
        rhs_operand,
        [
            Loop(sizes[label], REDUCTION if label[0] == "k" else PARALLEL)
            for label in loops
        ],
        [*map(loops.index, result_labels)],
    )
    result = sum_of_products(builder, contraction, element_type_of(op.result))
    return [builder.cast(result, stored_type(op.result.type))]


def _order(lhs: Labels, rhs: Labels, result: Labels) -> Labels:
    """The loops, the innermost one over what lies side by side in an operand."""
    summed = [label for label in lhs if label[0] == "k"]
    last = [*lhs, *rhs][-1:]
    if last and [*result[-1:]] == last:
        return [*result[:-1], *summed, *last]
    return [*result, *summed]


def _is_transposed_first(lhs: Labels, rhs: Labels, is_float: bool) -> bool:
    """Whether the elements of the right operand for the innermost loop lie apart."""
    if not any(kind == "n" for kind, _ in rhs) or rhs[-1][0] == "n":
        return False
    if not any(kind == "m" for kind, _ in lhs):
        # Each element is used once: transposing would take as long as the product.
        return False
    return is_float or lhs[-1] != rhs[-1]
