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
    static_sizes,
)

from .lowering import UnsupportedError


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
        raise UnsupportedError.missing("has a window of unknown size")
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


class _Placement(NamedTuple):
    """Where elements of one dimension go, from the first that stays."""

    result_size: Size
    first: int
    kept: Size
    offset: int
    stride: int


def _placement(builder: LoweringBuilder, size: Size, padding: Padding) -> _Placement:
    low, high, interior = padding
    stride = interior + 1
    # An empty dimension has no places between elements.
    between = builder.times(builder.at_least_zero(builder.plus(size, -1)), interior)
    inner_size = builder.plus(size, between) if interior else size
    result_size = builder.plus(inner_size, low + high)
    if low + high < 0:
        result_size = builder.at_least_zero(result_size)
    if isinstance(size, int) and isinstance(result_size, int):
        first = -(min(low, 0) // stride)
        last = min(size - 1, (result_size - 1 - low) // stride)
        count = max(last - first + 1, 0)
        # Nothing may be left: then it does not matter where.
        first = first if count else 0
        offset = low + first * stride if count else 0
        return _Placement(result_size, first, count, offset, stride)
    if interior and min(low, high) < 0:
        raise UnsupportedError.missing(
            "has interior padding and a negative edge in a dimension whose size is not "
            "known"
        )
    count = builder.plus(size, min(low, 0) + min(high, 0))
    return _Placement(result_size, max(-low, 0), count, max(low, 0), stride)


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
    if not any(any(padding) for padding in paddings):
        return value
    sizes = builder.sizes(value)
    placements = [
        _placement(builder, size, padding)
        for size, padding in zip(sizes, paddings, strict=True)
    ]
    counts = [placement.kept for placement in placements]
    if counts != sizes:
        firsts = [placement.first for placement in placements]
        value = builder.part(value, firsts, counts, [1] * len(counts))
    result_sizes = [placement.result_size for placement in placements]
    if counts == result_sizes:
        return value
    type_ = TensorType(element_type_of(value), static_sizes(result_sizes))
    padding_value = padding_value or builder.zero(type_.element_type)
    return builder.inserted(
        value,
        builder.filled(type_, result_sizes, padding_value),
        [placement.offset for placement in placements],
        counts,
        [placement.stride for placement in placements],
    )
