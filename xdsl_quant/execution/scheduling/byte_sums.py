"""
Sums of two rescaled bytes as fixed-point sums of 32 bits.

A quantized addition rounds three products of 64 bits: both operands and their sum are
rescaled. The result for bytes is nearly always `(a * x + b * y + c) >> s` in 32 bits,
clamped to its range. The numbers are found at compile time, and the result is compared
for all 65,536 pairs of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from xdsl_quant.numerics.arrays import Array

from .. import mlir_bindings as mlir
from ..mlir_bindings import Values, arith, ir
from .byte_values import BYTES, values_in

_MIN_OPS = 12
"""Minimum number of ops per element that takes longer than a fixed-point sum."""

_SHIFTS = range(24, 12, -1)
"""Shifts to try. Larger factors round more precisely, but their sums may overflow."""

_STEPS = sorted(product((-1, 0, 1), repeat=2), key=lambda steps: np.abs(steps).sum())
"""Distances from the closest factors to try."""

_UNLIMITED = 1 << 62
"""A number that exceeds all differences between results and sums."""


def narrow_byte_sums(module: ir.Module) -> None:
    """Compute sums of two rescaled bytes in 32 bits, in elementwise ops on tensors."""
    for op in mlir.ops_in(module, "linalg.generic"):
        block = mlir.body_of(op)
        if (extensions := _extensions_in(block)) is None:
            continue
        if (result := _sum_of(block, extensions)) is not None:
            *unused, end = mlir.operations_of(block)
            with ir.InsertionPoint(end), op.location:
                end.operands[0] = result.build(block.arguments)
            for each in reversed(unused):
                each.erase()


class _ByteSum(NamedTuple):
    """Result of a body: `(a * x + b * y + c) >> shift`, clamped."""

    extensions: tuple[str, str]
    """Names of the ops that extend the bytes."""

    factors: tuple[int, int]
    addend: int
    shift: int
    low: int
    high: int

    def build(self, bytes_: Values) -> ir.Value:
        """Build the result for two bytes."""
        i32 = ir.IntegerType.get_signless(32)
        total = arith.constant(i32, self.addend)
        for name, byte, factor in zip(self.extensions, bytes_, self.factors):
            wide = mlir.create_op(name, i32, [byte])
            total = arith.addi(total, arith.muli(wide, arith.constant(i32, factor)))
        shifted = arith.shrsi(total, arith.constant(i32, self.shift))
        raised = arith.maxsi(shifted, arith.constant(i32, self.low))
        clamped = arith.minsi(raised, arith.constant(i32, self.high))
        return arith.trunci(ir.IntegerType.get_signless(8), clamped)


def _extensions_in(block: ir.Block) -> tuple[str, str] | None:
    """
    Return the names of the ops that extend the two bytes that a long body reads; `None`
    for other bodies.
    """
    *inputs, result = block.arguments
    if len(inputs) != 2 or any(result.uses) or len(block.operations) < _MIN_OPS:
        return None
    byte = ir.IntegerType.get_signless(8)
    names = [{user.name for user in mlir.users_of(value)} for value in inputs]
    is_supported = all(
        value.type == byte and found in ({"arith.extsi"}, {"arith.extui"})
        for value, found in zip(inputs, names, strict=True)
    )
    return (names[0].pop(), names[1].pop()) if is_supported else None


def _sum_of(block: ir.Block, extensions: tuple[str, str]) -> _ByteSum | None:
    """Return the result of a body as a sum of its arguments, or `None`."""
    yielded = mlir.yielded_values(block)
    narrowed = mlir.defining_op(yielded[0], "arith.trunci") if yielded else None
    if len(yielded) != 1 or narrowed is None or narrowed.block != block:
        return None
    if [mlir.bits(v.type) for v in (narrowed.operands[0], yielded[0])] != [32, 8]:
        return None
    if (shifted := _shift_before(narrowed.operands[0])) is None:
        return None
    x, y = BYTES[:, np.newaxis], BYTES[np.newaxis]
    arguments: dict[ir.Value, Array] = dict(zip(block.arguments, (x, y), strict=False))
    if (values := values_in(block, arguments)) is None:
        return None
    number, shift = shifted
    results, exact = (
        np.broadcast_to(values[value], (256, 256))
        for value in (narrowed.operands[0], number)
    )
    x, y = (
        bytes_ if name == "arith.extsi" else bytes_ & 0xFF
        for name, bytes_ in zip(extensions, (x, y), strict=True)
    )
    first, *others = (int(exact[i]) for i in ((0, 0), (127, 0), (0, 127)))
    slopes = [(other - first) / 127 / 2**shift for other in others]
    limits = int(results.min()), int(results.max())
    for a, b, s in _factors_near(*slopes):
        # A few pairs of bytes refute most factors.
        if not _addends(a * x[::17] + b * y[:, ::17], results[::17, ::17], s, *limits):
            continue
        sums = a * x + b * y
        addends = _addends(sums, results, s, *limits)
        if addends and abs(sums + addends[0]).max() < 1 << 31:
            return _ByteSum(extensions, (a, b), addends[0], s, *limits)
    return None


def _shift_before(value: ir.Value) -> tuple[ir.Value, int] | None:
    """Return a value and the shift that rounds it, before clamps and additions."""
    while op := mlir.defining_op(value, "arith.maxsi", "arith.minsi", "arith.addi"):
        if mlir.integer_of(op.operands[1]) is None:
            return None
        value = op.operands[0]
    shift = mlir.defining_op(value, "arith.shrsi")
    distance = shift and mlir.integer_of(shift.operands[1])
    return (shift.operands[0], distance) if shift and distance else None


def _factors_near(a: float, b: float) -> Iterator[tuple[int, int, int]]:
    """Yield 32-bit factors and shifts for these slopes, the most precise first."""
    for shift in _SHIFTS:
        left, right = round(a * 2**shift), round(b * 2**shift)
        if max(abs(left), abs(right)) < (1 << 31) - 1:
            yield from ((left + i, right + j, shift) for i, j in _STEPS)


def _addends(sums: Array, results: Array, shift: int, low: int, high: int) -> range:
    """
    Return the numbers that make sums equal to results, after they are added to the sums,
    which are then shifted and clamped from `low` to `high`.
    """
    differences = (results << shift) - sums
    least = differences[results > low].max(initial=-_UNLIMITED)
    most = differences[results < high].min(initial=_UNLIMITED)
    return range(int(least), int(most) + (1 << shift))
