"""
Code generator for products of 8-bit rows and 4-bit weights with a scale for each block of
a column.

A byte holds two weights of a column, four rows apart. Masking multiplies a weight by 16,
which its scale compensates: this is exact for `i32` sums and `f32` scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .vector_code import (
    LANES,
    SIGNS,
    SUMS,
    Axis,
    Code,
    Globals,
    Memref,
    Names,
    accumulate_products,
    bitcast_to_bytes,
    broadcast_i32,
    function_lines,
    high_halves,
)

GROUP_SIZE = 8
"""Number of weights of a column per packed `i32`."""

_FLOATS = f"vector<{LANES}xf32>"

_MAX_STEPS = 4
"""Maximum number of unrolled groups per block."""


@dataclass(frozen=True)
class BlockProduct:
    """Product of rows and weights, whose blocks are scaled and added one by one."""

    rows: Axis
    """Loop over rows, with byte strides in the left factor and the result."""

    block_step: int
    """Byte stride of the left factor between adjacent blocks."""

    weights: NDArray[np.int8]
    """Weights from -8 to 7: `[blocks, size, columns]`, with whole groups per block."""

    scales: NDArray[np.float32]
    """Scales `[blocks, columns]`."""

    @property
    def width(self) -> int:
        return self.weights.shape[2]

    @property
    def steps(self) -> int:
        """Number of groups per block."""
        return self.weights.shape[1] // GROUP_SIZE

    def packed(self, vectors: int) -> NDArray[np.uint8]:
        """
        Return weights and scales in tiles of `vectors` column vectors: for each block the
        bytes of each group and vector, then the scales of each vector.
        """
        blocks, size, width = self.weights.shape
        count = -(-width // LANES)
        padding = [(0, 0), (0, 0), (0, count * LANES - width)]
        halves = np.pad(self.weights.view(np.uint8) & np.uint8(0xF), padding)
        # Block, group, half, row in half, vector, column
        halves = halves.reshape(blocks, size // GROUP_SIZE, 2, 4, count, LANES)
        bytes_ = halves[:, :, 0] | halves[:, :, 1] << np.uint8(4)
        bytes_ = bytes_.transpose(0, 1, 3, 4, 2)
        scales = np.pad(self.scales / np.float32(16), padding[1:])
        scales = scales.view(np.uint8).reshape(blocks, count, 4 * LANES)
        parts: list[NDArray[np.uint8]] = []
        for start in range(0, count, vectors):
            columns = slice(start, start + vectors)
            tile = bytes_[:, :, columns].reshape(blocks, -1)
            part = scales[:, columns].reshape(blocks, -1)
            parts.append(np.concatenate([tile, part], axis=1).ravel())
        return np.concatenate(parts)


def block_product_text(
    name: str, memrefs: Sequence[Memref], product: BlockProduct, bits: int
) -> str:
    """
    Return the MLIR text of a private function for a product, with its constants.

    Args:
        name: function name, and prefix of the names of constants.
        memrefs: the left factor, and the `f32` result, to which products are added.
        product: loops and weights.
        bits: width of the vector registers, 256 or 512.
    """
    function = _BlockFunction(name, product, bits)
    function.add_columns(function.code.arguments(memrefs))
    lines = function_lines(name, memrefs, function.code)
    return "\n".join([*function.globals.lines, *lines])


class _BlockFunction:
    """Builder of the loops over tiles of some rows and column vectors."""

    def __init__(self, name: str, product: BlockProduct, bits: int):
        self.code = Code()
        self.globals = Globals(name)
        self._product = product
        self._bits = bits
        scale = bits // 256
        has_one_row = product.rows.size == 1
        count = -(-product.width // LANES)
        self._vectors = min(count, 2 * scale if has_one_row else scale)
        self._tile_rows = 1 if has_one_row else min(product.rows.size, 2 * scale)

    def _constant(self, kind: str, data: NDArray[np.integer]) -> str:
        self.globals.define(kind, data)
        return self.globals.pointer(self.code, kind, data.nbytes)

    def add_columns(self, pointers: Names) -> None:
        code, product = self.code, self._product
        # Opaque to LLVM, which would flip bits before each broadcast.
        signs = self._constant("signs", np.full(LANES, SIGNS, np.int32))
        self._signs = code.add(
            f"llvm.load volatile {signs} {{alignment = 64 : i64}} : !llvm.ptr -> {SUMS}"
        )
        packed = self._constant("weights", product.packed(self._vectors))
        blocks = len(product.weights)
        size = blocks * self._block_bytes(self._vectors)
        steps = [size, 0, 4 * LANES * self._vectors]
        tiles = code.tiles(
            [packed, *pointers], product.width, LANES * self._vectors, steps
        )
        for cursors, columns in tiles:
            row_steps = [0, *(self._tile_rows * step for step in product.rows.steps)]
            rows = code.tiles(cursors, product.rows.size, self._tile_rows, row_steps)
            for places, count in rows:
                self._add_tile(places, count, columns)

    def _block_bytes(self, vectors: int) -> int:
        return vectors * 64 * (self._product.steps + 1)

    def _add_tile(self, pointers: Names, rows: int, columns: int) -> None:
        code, product = self.code, self._product
        packed, lhs, result = pointers
        starts = range(0, columns, LANES)
        places = [
            (code.at(result, r * product.rows.steps[1] + 4 * start), columns - start)
            for r in range(rows)
            for start in starts
        ]
        loads = [code.load_lanes(place, "i32", min(n, LANES)) for place, n in places]
        sums: Names = [
            code.add(f"llvm.bitcast {bits} : {SUMS} to {_FLOATS}") for bits in loads
        ]
        steps = [self._block_bytes(len(starts)), product.block_step]

        def block(index: str, sums: Names) -> Names:
            cursors = code.advance([packed, lhs], index, steps)
            return self._add_block(sums, cursors, rows, len(starts))

        sums = code.reduction_loop(len(product.weights), sums, _FLOATS, block)
        for value, (place, n) in zip(sums, places, strict=True):
            bits = code.add(f"llvm.bitcast {value} : {_FLOATS} to {SUMS}")
            code.store_lanes(place, bits, "i32", min(n, LANES))

    def _add_block(
        self, sums: Names, pointers: Names, rows: int, vectors: int
    ) -> Names:
        """Return the sums after adding the scaled products of a block."""
        code, steps = self.code, self._product.steps
        unrolled = max(n for n in range(1, _MAX_STEPS + 1) if not steps % n)

        def groups(index: str, totals: Names) -> Names:
            by_group = [64 * vectors * unrolled, GROUP_SIZE * unrolled]
            cursors = code.advance(pointers, index, by_group)
            for i in range(unrolled):
                places = code.advance(cursors, i, [64 * vectors, GROUP_SIZE])
                totals = self._add_group(totals, places, rows, vectors)
            return totals

        zeros = [code.splat(0, SUMS)] * len(sums)
        totals = code.reduction_loop(steps // unrolled, zeros, SUMS, groups)
        packed, _ = pointers
        scales = [
            code.load(code.at(packed, 64 * (vectors * steps + v)), _FLOATS, 64)
            for v in range(vectors)
        ]
        results: list[str] = []
        for i, (so_far, total) in enumerate(zip(sums, totals, strict=True)):
            value = code.add(f"arith.sitofp {total} : {SUMS} to {_FLOATS}")
            operands = f"{value}, {scales[i % vectors]}, {so_far}"
            results.append(code.add(f"math.fma {operands} : {_FLOATS}"))
        return results

    def _add_group(
        self, totals: Names, pointers: Names, rows: int, vectors: int
    ) -> Names:
        code, row_step = self.code, self._product.rows.steps[0]
        packed, lhs = pointers
        halves = [
            high_halves(code, code.load(code.at(packed, 64 * v), SUMS, 64))
            for v in range(vectors)
        ]
        results = [*totals]
        for half in range(2):
            for r in range(rows):
                left = self._broadcast(code.at(lhs, r * row_step + 4 * half))
                for v in range(vectors):
                    i = r * vectors + v
                    results[i] = accumulate_products(
                        code, self._bits, results[i], left, halves[v][half]
                    )
        return results

    def _broadcast(self, place: str) -> str:
        """Return a vector that repeats four loaded bytes, plus 128."""
        code = self.code
        all_ = broadcast_i32(code, code.load_group(place, 4))
        flipped = code.add(f"arith.xori {all_}, {self._signs} : {SUMS}")
        return bitcast_to_bytes(code, flipped)
