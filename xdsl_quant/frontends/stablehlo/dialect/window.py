"""Padding, and windows that move over padded tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
)

from xdsl_quant.dialects.verification import require

from .attributes import dimensions_text
from .base import verify_count

Numbers = DenseArrayBase[IntegerType]


class Padding(NamedTuple):
    """Elements added to a dimension; negative numbers remove some at its ends."""

    low: int = 0
    high: int = 0

    interior: int = 0
    """Elements between each two others."""

    def padded(self, size: int) -> int:
        """The size of a dimension with padding."""
        return size + self.low + self.high + max(size - 1, 0) * self.interior


class WindowDimension(NamedTuple):
    """A dimension of a window, and how it moves along one of a tensor."""

    size: int
    stride: int
    """The distance of two positions of the window."""

    dilation: int
    """The distance of two elements of the window."""

    padding: Padding

    @property
    def extent(self) -> int:
        """Distance from the first to behind the last element of the window."""
        return (self.size - 1) * self.dilation + 1 if self.size else 0

    def positions(self, size: int) -> int:
        """The number of positions of the window in a dimension before padding."""
        if DYNAMIC_INDEX in (size, self.size):
            return DYNAMIC_INDEX
        room = self.padding.padded(size) - self.extent
        return room // self.stride + 1 if room >= 0 else 0


def _edges(attribute: DenseIntOrFPElementsAttr | None) -> Sequence[tuple[int, int]]:
    if attribute is None:
        return ()
    shape = attribute.get_shape()
    require(
        len(shape) == 2 and shape[1] == 2,
        f"expects the shape of padding to be [N, 2], got {dimensions_text(shape)}",
    )
    sizes = cast(Sequence[int], attribute.get_values())
    return list(zip(sizes[::2], sizes[1::2], strict=True))


def window_of(
    sizes: Sequence[int],
    strides: Numbers | None,
    padding: DenseIntOrFPElementsAttr | None,
    base_dilations: Numbers | None,
    window_dilations: Numbers | None,
    reversal: Numbers | None = None,
) -> list[WindowDimension]:
    """
    The dimensions of a window of these sizes. Numbers that are left out are 1, and padding
    is 0.

    Raises:
        VerifyException: in the words of StableHLO if this is no window.
    """
    given = {
        "window strides": strides,
        "base dilations": base_dilations,
        "window dilations": window_dilations,
        "window reversals": reversal,
    }
    numbers = {k: v.get_values() if v is not None else () for k, v in given.items()}
    edges, rank = _edges(padding), len(sizes)
    for words, values in {**numbers, "padding pairs": edges}.items():
        if values:
            verify_count(words, values, rank)
    *filled, _ = (values or (1,) * rank for values in numbers.values())
    require(
        all(number > 0 for values in filled for number in values)
        and all(size > 0 or size == DYNAMIC_INDEX for size in sizes),
        "expects window to have positive sizes, strides and dilations",
    )
    rows = zip(sizes, *filled, edges or [(0, 0)] * rank, strict=True)
    return [
        WindowDimension(size, stride, dilation, Padding(low, high, base - 1))
        for size, stride, base, dilation, (low, high) in rows
    ]
