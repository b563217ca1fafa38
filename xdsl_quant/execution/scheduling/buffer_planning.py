"""Memory planning, which places the buffers of a function in one allocation."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import mlir_bindings as mlir
from ..building import VIEWS, index, memref_bytes
from ..mlir_bindings import ir, memref

ALIGNMENT = 64
"""Bytes of a cache line and of the widest vectors."""


@dataclass(frozen=True)
class Lifetime:
    """Size and lifetime of a buffer."""

    size: int
    """Size in bytes."""

    start: int
    """First step that uses the buffer."""

    stop: int
    """Last step that uses the buffer."""


Plan: TypeAlias = tuple[Sequence[int], int]
"""Byte offsets of the buffers, and total size in bytes."""


Order: TypeAlias = Callable[[Lifetime], int]
"""Sort key for the order in which buffers are placed."""


def by_size(value: Lifetime) -> int:
    """
    Return a key that places larger buffers first, as LiteRT does. Source: "Greedy by
    Size for Offset Calculation" in Pisarchyk and Lee, "Efficient Memory Management for
    Deep Neural Net Inference" (arXiv 2001.03288).
    """
    return -value.size


def _by_start(value: Lifetime) -> int:
    return value.start


def _by_duration(value: Lifetime) -> int:
    return value.start - value.stop


def plan_memory(
    lifetimes: Sequence[Lifetime],
    orders: Sequence[Order] = (by_size, _by_start, _by_duration),
) -> Plan:
    """
    Return the smallest of the plans that greedy placement finds for several orders.

    Buffers with overlapping lifetimes get disjoint ranges, aligned to 64 bytes. Each
    buffer is placed in the smallest gap that fits.

    Args:
        lifetimes: buffers of at least one byte each.
        orders: sort keys of the orders in which to place buffers.
    """
    plans: list[Plan] = []
    least = _least_size(lifetimes)
    for order in orders:
        plans.append(_placed_in_order(lifetimes, order))
        if plans[-1][1] == least:
            # Placement takes quadratic time, and no other plan is smaller.
            break
    return min(plans, key=lambda plan: plan[1])


def _least_size(lifetimes: Sequence[Lifetime]) -> int:
    """Return the largest sum of the sizes of buffers that are live at the same time."""
    changes: Counter[int] = Counter()
    for size, start, stop in map(astuple, lifetimes):
        changes[start] += _aligned_size(size)
        changes[stop + 1] -= _aligned_size(size)
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)


def _placed_in_order(lifetimes: Sequence[Lifetime], key: Order) -> Plan:
    offsets = [0] * len(lifetimes)
    # Columns of the placed buffers: start and end in memory, first and last step.
    placed = np.empty((4, len(lifetimes)), np.int64)
    order = sorted(range(len(lifetimes)), key=lambda i: key(lifetimes[i]))
    for count, i in enumerate(order):
        size, (_, start, stop) = _aligned_size(lifetimes[i].size), astuple(lifetimes[i])
        _, _, starts, stops = placed[:, :count]
        (live,) = ((starts <= stop) & (stops >= start)).nonzero()
        ranges = placed[:2, live]
        offsets[i] = begin = _offset(size, *ranges[:, ranges[0].argsort()])
        placed[:, count] = (begin, begin + size, start, stop)
    return offsets, int(placed[1].max(initial=0))


def _aligned_size(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _offset(size: int, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> int:
    """Return the start of the smallest sufficient gap, else the end of all ranges."""
    ends = np.maximum.accumulate(np.append(0, stops))
    gaps = starts - ends[:-1]
    sufficient = np.where(gaps >= size, gaps, _NO_GAP)
    if sufficient.min(initial=_NO_GAP) == _NO_GAP:
        return int(ends[-1])
    return int(ends[sufficient.argmin()])


_NO_GAP = np.iinfo(np.int64).max


# Buffers


_USES = (
    "func.call",
    "memref.copy",
    "memref.load",
    "memref.store",
    "vector.load",
    "vector.store",
)
"""Ops that access a buffer without creating an alias."""


def plan_buffers(module: ir.Module, name: str) -> None:
    """
    Replace buffers of a function by views of one allocation per call. This covers
    buffers of static size whose users are calls, copies, loads and stores in the
    outermost block. Buffers with disjoint lifetimes share memory.
    """
    (function,) = mlir.functions_in(module, [name])
    ops = mlir.operations_of(mlir.body_of(function))
    planned = _lifetimes(ops)
    offsets, size = plan_memory([*planned.values()])
    if not size:
        return
    with function.location:
        with ir.InsertionPoint(ops[0]):
            type_ = ir.MemRefType.get([size], ir.IntegerType.get_signless(8))
            block = memref.alloc(type_, [], [], alignment=ALIGNMENT)
        with ir.InsertionPoint(ops[-1]):
            memref.dealloc(block)
    for buffer, offset in zip(planned, offsets, strict=True):
        op = buffer.owner.operation
        for user in mlir.users_of(buffer):
            if user.name == "memref.dealloc":
                user.erase()
        with ir.InsertionPoint(op), op.location:
            view = memref.view(buffer.type, block, index(offset), [])
        mlir.replace_op(op, view)


def _lifetimes(ops: Sequence[ir.Operation]) -> dict[ir.Value, Lifetime]:
    """Return the lifetimes of the plannable buffers of a block."""
    positions = {mlir.identity_of(op): position for position, op in enumerate(ops)}
    planned: dict[ir.Value, Lifetime] = {}
    for position, op in enumerate(ops):
        if op.name != "memref.alloc" or not (size := memref_bytes(op.result.type)):
            continue
        if (steps := _use_positions(op.result, positions)) is not None:
            planned[op.result] = Lifetime(size, position, max(steps, default=position))
    return planned


def _use_positions(buffer: ir.Value, positions: dict[int, int]) -> Sequence[int] | None:
    """
    Return the positions of the ops that use a buffer or its views. `positions` maps the
    identity of each op in the block to its position. Return `None` if a user is
    unsupported, or if the buffer is not freed in the block.
    """
    steps: list[int] = []
    freed = 0
    todo = [buffer]
    while todo:
        for op in mlir.users_of(todo.pop()):
            if (position := positions.get(mlir.identity_of(op))) is None:
                return None
            if op.name in VIEWS:
                todo += op.results
            elif op.name == "memref.dealloc":
                freed += 1
            elif op.name in _USES and not any(map(_is_memref, op.results)):
                steps.append(position)
            else:
                return None
    return steps if freed == 1 else None


def _is_memref(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType)
