"""
Windows that move over padded tensors, which convolutions and `reduce_window` have, and the
padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    element_type_of,
    shape_of,
    static_sizes,
)

from .lowering import without_linalg


class Padding(NamedTuple):
    """
    How many elements are added to a dimension: before and after the others, and between
    each two of them. A negative number of these removes elements.
    """

    low: int = 0
    high: int = 0
    interior: int = 0


class WindowDimension(NamedTuple):
    """A dimension of a window, and how it moves along one of a tensor."""

    size: int
    stride: int
    """The distance of two positions of the window."""

    dilation: int
    """The distance of two elements of the window."""

    padding: Padding

    def positions(self, builder: LoweringBuilder, size: Size) -> Size:
        """How many positions the window has in a dimension that is padded already."""
        extent = (self.size - 1) * self.dilation + 1 if self.size else 0
        steps = builder.floor_divided(builder.plus(size, -extent), self.stride)
        return builder.at_least_zero(builder.plus(steps, 1))

    def element_index(self, position: AffineExpr, element: AffineExpr) -> AffineExpr:
        """The index of an element of the window in the padded dimension."""
        return position * self.stride + element * self.dilation


def window_of(
    sizes: Sequence[int],
    strides: DenseArrayBase | None,
    padding: DenseIntOrFPElementsAttr | None,
    base_dilations: DenseArrayBase | None,
    window_dilations: DenseArrayBase | None,
) -> list[WindowDimension]:
    """The dimensions of a window of these sizes; what is `None` is 1, or no padding."""

    def values(attribute: DenseArrayBase | None) -> Sequence[int]:
        if attribute is None:
            return [1] * len(sizes)
        return cast(DenseArrayBase[IntegerType], attribute).get_values()

    if DYNAMIC_INDEX in sizes:
        raise without_linalg("has a window of unknown size")
    edges = [0] * (2 * len(sizes))
    if padding is not None:
        edges = cast(Sequence[int], padding.get_values())
    dimensions = zip(
        sizes,
        values(strides),
        values(window_dilations),
        edges[::2],
        edges[1::2],
        values(base_dilations),
        strict=True,
    )
    return [
        WindowDimension(size, stride, dilation, Padding(low, high, base - 1))
        for size, stride, dilation, low, high, base in dimensions
    ]


def padded(
    builder: LoweringBuilder,
    value: SSAValue,
    paddings: Sequence[Padding],
    padding_value: SSAValue | None = None,
) -> SSAValue:
    """
    A tensor with padding.

    Args:
        builder: where the ops are inserted.
        value: the tensor.
        paddings: the padding of each of its dimensions.
        padding_value: the element that is added, a tensor of rank 0; by default zero.
    """
    sizes = builder.sizes(value)
    dilated: list[Size] = []
    for size, (_, _, interior) in zip(sizes, paddings, strict=True):
        # An empty dimension has nothing between elements.
        gaps = builder.at_least_zero(builder.plus(size, -1)) if interior else 0
        dilated.append(builder.plus(size, builder.times(gaps, interior)))
    added = [(max(low, 0), max(high, 0)) for low, high, _ in paddings]
    new_sizes = [*map(builder.plus, dilated, map(sum, added))]
    if new_sizes != sizes:
        type_ = TensorType(element_type_of(value), static_sizes(new_sizes))
        value = builder.inserted(
            value,
            builder.filled(
                type_, new_sizes, padding_value or builder.zero(type_.element_type)
            ),
            # A part without elements may be anywhere, but not out of bounds.
            [
                low if size != 0 else 0
                for size, (low, _) in zip(sizes, added, strict=True)
            ],
            sizes,
            [padding.interior + 1 for padding in paddings],
        )
    kept = [
        builder.at_least_zero(builder.plus(size, low + high))
        if min(low, high) < 0
        else new_size
        for size, new_size, (low, high, _) in zip(
            dilated, new_sizes, paddings, strict=True
        )
    ]
    if kept == new_sizes:
        return value
    starts = [
        max(-low, 0) if size != 0 else 0
        for size, (low, *_) in zip(kept, paddings, strict=True)
    ]
    return builder.part(value, starts, kept, [1] * len(kept))


def padded_for(
    builder: LoweringBuilder,
    value: SSAValue,
    dimensions: Sequence[int],
    window: Sequence[WindowDimension],
    padding_value: SSAValue | None = None,
) -> SSAValue:
    """A tensor with the padding of a window along the dimensions that it moves along."""
    paddings = [Padding()] * len(shape_of(value))
    for dimension, along in zip(dimensions, window, strict=True):
        paddings[dimension] = along.padding
    return padded(builder, value, paddings, padding_value)
