"""
Selection of tensor elements at constant positions, for all data movement ops: slices,
tiles, reversals and transpositions, or `tosa.gather`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue

from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.transforms.building.builder import element_type_of, shape_of

from .building import TosaBuilder

Positions = NDArray[np.int64]


def positions_of(shape: Sequence[int]) -> Positions:
    """Return the flat index of each element of a tensor of the given shape."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def take_positions(
    builder: TosaBuilder, value: SSAValue, positions: Positions
) -> SSAValue:
    """Take elements at flat positions, in the shape of `positions`."""
    periods = [_period(positions, axis) for axis in range(positions.ndim)]
    if (*periods,) != positions.shape:
        once = positions[tuple(map(slice, periods))]
        counts = [n // m for n, m in zip(positions.shape, periods, strict=True)]
        return builder.tile(take_positions(builder, value, once), counts)
    if (part := _box(builder, value, positions)) is not None:
        return part
    steps = _steps(positions)
    if steps is not None:
        backward = [axis for axis, step in enumerate(steps) if step < 0]
        order = sorted(range(len(steps)), key=lambda axis: -abs(steps[axis]))
        in_order = np.flip(positions, tuple(backward)).transpose(order)
        if (part := _box(builder, value, in_order)) is not None:
            part = builder.permute(part, np.argsort(order).tolist())
            for axis in backward:
                part = builder.tosa(
                    tosa_ops.ReverseOp,
                    (part,),
                    positions.shape,
                    element_type_of(part),
                    axis=IntegerAttr(axis, i32),
                )
            return part
    return builder.gather(value, positions)


def _period(positions: Positions, axis: int) -> int:
    """Return the period of positions along `axis`, or the size if they are not periodic."""
    size = positions.shape[axis]
    rows = np.moveaxis(positions, axis, 0).reshape(size, -1)
    (again,) = np.nonzero(rows[1:, 0] == rows[0, 0])
    period = int(again[0]) + 1 if again.size else size
    if (
        size % period
        or (rows.reshape(-1, period, rows.shape[1]) != rows[:period]).any()
    ):
        return size
    return period


def _box(
    builder: TosaBuilder, value: SSAValue, positions: Positions
) -> SSAValue | None:
    """Return a slice of `value`, reshaped; `None` if the positions do not form a slice."""
    shape = shape_of(value)
    ends = (np.unravel_index(int(f()), shape) for f in (positions.min, positions.max))
    first, last = ([int(i) for i in end] for end in ends)
    sizes = [b - a + 1 for a, b in zip(first, last, strict=True)]
    if min(sizes, default=1) < 1 or np.prod(sizes, dtype=np.int64) != positions.size:
        return None
    box = tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))
    if not np.array_equal(positions_of(shape)[box].ravel(), positions.ravel()):
        return None
    part = builder.slice(value, first, sizes) if shape else value
    return builder.with_shape(part, positions.shape)


def _steps(positions: Positions) -> list[int] | None:
    """Return the stride of positions along each dimension; `None` if not constant."""
    origin = positions.flat[0]
    rebuilt: Positions = np.full((1,) * positions.ndim, origin)
    steps: list[int] = []
    for axis, size in enumerate(positions.shape):
        line = np.moveaxis(positions, axis, 0).reshape(size, -1)[:, 0]
        step = int(line[1] - origin) if size > 1 else 0
        shape = [size if d == axis else 1 for d in range(positions.ndim)]
        rebuilt = rebuilt + step * positions_of((size,)).reshape(shape)
        steps.append(step)
    return steps if np.array_equal(rebuilt, positions) else None
