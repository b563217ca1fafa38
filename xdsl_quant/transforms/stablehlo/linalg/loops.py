"""The loops of a sum of products, before they become an op."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    element_type_of,
    static_sizes,
)


class Loop(NamedTuple):
    """A loop."""

    size: Size
    kind: IteratorTypeAttr


class Operand(NamedTuple):
    """A factor."""

    value: SSAValue
    element_type: Attribute
    """With its sign."""

    indices: Sequence[AffineExpr]
    """The element for each iteration of the loops."""


def computed_once(builder: LoweringBuilder, operand: Operand) -> Operand:
    """
    An operand that is in memory before the loops start.

    It gets a dimension of size 1 in front: a compiler that fuses loops does not see
    through a reshape, and else it would compute an element for each of its uses.
    """
    sizes: list[Size] = [1, *builder.sizes(operand.value)]
    type_ = TensorType(element_type_of(operand.value), static_sizes(sizes))
    return operand._replace(
        value=builder.reshaped(operand.value, type_, sizes),
        indices=[AffineConstantExpr(0), *operand.indices],
    )


def used_loops(indices: Iterable[AffineExpr]) -> set[int]:
    """The loops that elements depend on."""
    return {loop for index in indices for loop in index.used_dims()}


class Contraction(NamedTuple):
    """Products, summed up."""

    lhs: Operand
    rhs: Operand
    loops: Sequence[Loop]
    """From the outermost on."""

    result: Sequence[int]
    """For each dimension of the result which loop it is."""

    product_type: Attribute | None = None
    """The type to multiply in, with its sign, if it is not that of the sums."""

    lhs_range: Attribute | None = None
    """A type that has all values of the left operand, if its own has more."""

    initial: SSAValue | None = None
    """What the products are added to, if it is not zeros."""

    @property
    def result_sizes(self) -> list[Size]:
        """The sizes of the result."""
        return [self.loops[loop].size for loop in self.result]
