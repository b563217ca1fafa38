"""
Windows that move over padded tensors, which convolutions and `reduce_window` have, and the
padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from xdsl_quant.frontends.stablehlo.dialect.window import Padding, WindowDimension
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    element_type_of,
    shape_of,
    static_sizes,
)


def window_count(builder: LoweringBuilder, along: WindowDimension, size: Size) -> Size:
    """The number of positions of a window in a dimension with its padding."""
    steps = builder.floor_divided(builder.plus(size, -along.extent), along.stride)
    return builder.at_least_zero(builder.plus(steps, 1))


def element_index(
    along: WindowDimension, position: AffineExpr, element: AffineExpr
) -> AffineExpr:
    """The index of an element of a window in the padded dimension."""
    return position * along.stride + element * along.dilation


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
