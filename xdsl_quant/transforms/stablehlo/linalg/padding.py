"""
Padding around and between elements, of which `stablehlo.pad` and convolutions have some.

A negative amount removes elements, those between others included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import SSAValue

from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    element_type_of,
    shape_of,
    static_sizes,
)


class Padding(NamedTuple):
    """What one dimension is padded with."""

    low: int = 0
    high: int = 0
    interior: int = 0

    def why_not(self, size: int) -> str | None:
        """Why a dimension of this size cannot be padded so, if it cannot."""
        if size == DYNAMIC_INDEX and self.interior and min(self.low, self.high) < 0:
            return (
                "has interior padding and a negative edge in a dimension whose size is "
                "not known"
            )
        return None


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
    count = builder.plus(size, min(low, 0) + min(high, 0))
    return _Placement(result_size, max(-low, 0), count, max(low, 0), stride)


def padded(
    builder: LoweringBuilder,
    value: SSAValue,
    paddings: Sequence[Padding],
    padding_value: SSAValue | None = None,
) -> SSAValue:
    """A tensor with padding: a tensor of rank 0, by default a zero."""
    if not any(any(padding) for padding in paddings):
        return value
    sizes = builder.sizes(value)
    placements = [
        _placement(builder, size, padding)
        for size, padding in zip(sizes, paddings, strict=True)
    ]
    ones = [1] * len(placements)
    counts = [placement.kept for placement in placements]
    if counts != sizes:
        value = builder.part(value, [p.first for p in placements], counts, ones)
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


def why_not_padded(value: SSAValue, paddings: Sequence[Padding]) -> str | None:
    """Why a tensor cannot be padded so, if it cannot."""
    for size, padding in zip(shape_of(value), paddings, strict=True):
        if (problem := padding.why_not(size)) is not None:
            return problem
    return None
