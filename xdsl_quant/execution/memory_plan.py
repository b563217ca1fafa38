"""Places for values in one block of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

ALIGNMENT = 64
"""Bytes, of a cache line and of the widest vectors."""


@dataclass(frozen=True)
class Lifetime:
    """How large a value is, and when it is needed."""

    size: int
    """Bytes."""

    start: int
    """The first step that needs the value."""

    stop: int
    """The last step that needs it, too."""


Plan: TypeAlias = tuple[Sequence[int], int]
"""Where values are in a block of memory, and the size of the block in bytes."""


def plan_memory(lifetimes: Sequence[Lifetime]) -> Plan:
    """
    The smallest of some plans for a block of memory. Values that are needed in the same
    step are apart, and all are aligned to 64 bytes.

    Args:
        lifetimes: the values, of at least one byte each.
    """
    orders: Sequence[Callable[[Lifetime], int]] = (
        _by_size,
        lambda value: value.start,
        lambda value: value.start - value.stop,
    )
    neighbors = _neighbors(lifetimes)
    plans = [_placed_in_order(lifetimes, neighbors, order) for order in orders]
    return min(plans, key=lambda plan: plan[1])


def place_by_size(lifetimes: Sequence[Lifetime]) -> Plan:
    """
    A plan for which larger values are placed first, each in the smallest gap that is large
    enough: "Greedy by Size for Offset Calculation" in Pisarchyk and Lee, "Efficient Memory
    Management for Deep Neural Net Inference" (arXiv 2001.03288). So does LiteRT.

    Args:
        lifetimes: the values, of at least one byte each.
    """
    return _placed_in_order(lifetimes, _neighbors(lifetimes), _by_size)


def _by_size(value: Lifetime) -> int:
    return -value.size


def _neighbors(lifetimes: Sequence[Lifetime]) -> Sequence[Sequence[int]]:
    """For each value those that are needed in one of its steps."""
    neighbors: list[list[int]] = [[] for _ in lifetimes]
    needed: list[int] = []
    for i in sorted(range(len(lifetimes)), key=lambda i: lifetimes[i].start):
        needed = [j for j in needed if lifetimes[i].start <= lifetimes[j].stop]
        for j in needed:
            neighbors[j].append(i)
        neighbors[i] += needed
        needed.append(i)
    return neighbors


def _placed_in_order(
    lifetimes: Sequence[Lifetime],
    neighbors: Sequence[Sequence[int]],
    key: Callable[[Lifetime], int],
) -> Plan:
    """A plan for which values are placed in the order of a key."""
    sizes = [_aligned_size(value.size) for value in lifetimes]
    offsets: dict[int, int] = {}
    for i in sorted(range(len(lifetimes)), key=lambda i: key(lifetimes[i])):
        taken = [
            (offsets[j], offsets[j] + sizes[j]) for j in neighbors[i] if j in offsets
        ]
        offsets[i] = _offset(sizes[i], sorted(taken))
    ends = [offset + sizes[i] for i, offset in offsets.items()]
    return [offsets[i] for i in range(len(lifetimes))], max(ends, default=0)


def _aligned_size(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _offset(size: int, taken: Sequence[tuple[int, int]]) -> int:
    """The start of the smallest gap between ranges that has room, or the end of all."""
    gaps: list[tuple[int, int]] = []
    end = 0
    for start, stop in taken:
        if start - end >= size:
            gaps.append((start - end, end))
        end = max(end, stop)
    return min(gaps)[1] if gaps else end
