"""How often a window fits into a tensor, after a check that it is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
)

from xdsl_quant.dialects.verification import require

from .attributes import dimensions_text
from .base import verify_count


def _padding(attribute: DenseIntOrFPElementsAttr | None) -> Sequence[tuple[int, int]]:
    if attribute is None:
        return ()
    shape = attribute.get_shape()
    require(
        len(shape) == 2 and shape[1] == 2,
        f"expects the shape of padding to be [N, 2], got {dimensions_text(shape)}",
    )
    sizes = cast(Sequence[int], attribute.get_values())
    return list(zip(sizes[::2], sizes[1::2], strict=True))


Numbers = DenseArrayBase[IntegerType]


def window_positions(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Numbers | None,
    padding: DenseIntOrFPElementsAttr | None,
    base_dilations: Numbers | None,
    window_dilations: Numbers | None,
    reversal: Numbers | None = None,
) -> list[int]:
    """
    How many positions a window has in each dimension.

    Args:
        sizes: those of the dimensions that the window moves along.
        window: how many elements the window has along each of them.
        strides: how far it moves at once.
        padding: how many elements are added before and after.
        base_dilations: the distance of elements of the tensor.
        window_dilations: the distance of elements of the window.
        reversal: whether the window is reversed.

    Raises:
        VerifyException: in the words of StableHLO if this is no window.
    """
    rank = len(window)
    pairs = _padding(padding)
    given = [
        () if attribute is None else attribute.get_values()
        for attribute in (strides, base_dilations, window_dilations, reversal)
    ]
    for words, values in (
        ("window strides", given[0]),
        ("base dilations", given[1]),
        ("window dilations", given[2]),
        ("window reversals", given[3]),
        ("padding pairs", pairs),
    ):
        if values:
            verify_count(words, values, rank)
    filled = [values or (1,) * rank for values in given[:3]]
    require(
        all(number > 0 for values in filled for number in values)
        and all(size > 0 or size == DYNAMIC_INDEX for size in window),
        "expects window to have positive sizes, strides and dilations",
    )
    pairs = pairs or ((0, 0),) * rank
    return list(map(_positions, sizes, window, *filled, map(sum, pairs)))


def _dilated(size: int, dilation: int) -> int:
    """The size of a dimension with `dilation - 1` holes between its elements."""
    return (size - 1) * dilation + 1 if size else 0


def _positions(
    size: int, window: int, stride: int, base: int, dilation: int, padding: int
) -> int:
    if DYNAMIC_INDEX in (size, window):
        return DYNAMIC_INDEX
    padded, extent = _dilated(size, base) + padding, _dilated(window, dilation)
    if not padded or extent > padded:
        return 0
    return (padded - extent) // stride + 1
