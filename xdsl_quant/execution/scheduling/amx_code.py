"""
Code generator for 8-bit integer products on AMX tile registers.

A tile register has up to 16 rows of 64 bytes. One instruction multiplies a tile of 16 x
64 bytes by a packed matrix of 64 x 16 bytes (four consecutive bytes of each column are
adjacent) and accumulates into a tile of 16 x 16 sums.

The loop nest is blocked: rows for the L2 cache, then columns, then the reduction, so
that a panel of columns fits the L1 cache. The inner loops run over groups of tiles
whose accumulators stay in registers. Tile registers support only multiplication, so the
sums are spilled to memory before the epilogue.

All tiles of a function have the same shape, so the registers are configured once. A partial
tile at the end is shifted back to overlap the previous one: overlapping rows are not stored
again, and overlapping bytes are multiplied by 0. No byte outside the operands is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .epilogues import Epilogue
from .vector_code import LANES, SUMS, Axis, Memref, Names, packed_loops
from .vnni_code import Product, ProductFunction, RuntimeMatrix, WeightedSum

_MAX_ROWS = 16
"""Maximum number of rows per tile."""

_MAX_ROW_BYTES = 64
"""Maximum number of bytes per tile row."""

_REGISTERS = 8

_MIN_PRODUCTS = 1 << 18
"""Minimum number of multiply-accumulates that pays for the tile configuration."""

_MIN_TILE_PRODUCTS = 1 << 13
"""Minimum number of useful products among the 16,384 of an instruction."""

_PANEL_BYTES = 24 << 10
"""Bytes of packed columns that stay in the L1 cache while rows are read."""

_BLOCK_BYTES = 512 << 10
"""Bytes of rows that stay in the L2 cache while columns are read."""

_MAX_SUMS_BYTES = 128 << 10
"""Maximum number of bytes of spilled sums."""


class _Run(NamedTuple):
    """Innermost reduction loop, over contiguous bytes."""

    size: int

    depth: int
    """Number of bytes per tile row."""

    steps: int
    """Number of tiles; the last ones may overlap."""

    blocks: int
    """Number of blocks into which the tiles are divided evenly."""

    @staticmethod
    def of(size: int, most: int) -> _Run:
        """Divide a run of `size >= 4` bytes into blocks of at most `most` tiles."""
        steps = -(-size // _MAX_ROW_BYTES)
        depth = min(-(-size // (4 * steps)) * 4, size // 4 * 4)
        steps = -(-size // depth)
        blocks = -(-steps // most)
        return _Run(size, depth, blocks * -(-steps // blocks), blocks)

    def start(self, step: int) -> int:
        """Return the offset of the first byte of a tile."""
        return min(step * self.depth, self.size - self.depth)


@dataclass(frozen=True)
class _Tiles:
    """Tiling of a product."""

    product: Product

    outer: Sequence[Axis]
    """Loops over rows outside the loop over row tiles."""

    tiles: Axis

    row: Axis

    overlap: int
    """Number of rows that the last tile shares with the previous one."""

    group: tuple[int, int]
    """Number of row tiles and of column tiles per group of accumulators."""

    outer_reductions: Sequence[Axis]
    """Reduction loops outside the loops over rows."""

    inner_reductions: Sequence[Axis]
    """Other reduction loops, outside `run`."""

    run: _Run

    @staticmethod
    def of(product: Product, weights: NDArray[np.int8]) -> _Tiles:
        """Return the tiling of a product with at least four contiguous bytes per row."""
        *outer, (size, steps) = product.rows
        if size <= _MAX_ROWS and outer:
            *outer, tiles = outer
            row, overlap = product.rows[-1], 0
        else:
            count = -(-size // _MAX_ROWS)
            row = Axis(-(-size // count), steps)
            tiles = Axis(count, [row.size * step for step in steps])
            overlap = count * row.size - size
        vectors = -(-weights.shape[1] // LANES)
        # Four accumulators, balanced between row tiles and column tiles.
        high = min(4 if vectors == 1 else 2, tiles.size)
        group = high, min(4 // high, vectors)
        *reductions, (length, _) = product.reductions
        is_one_group = not outer and tiles.size == high
        most = (
            length
            if is_one_group
            else _PANEL_BYTES // (_MAX_ROWS * _MAX_ROW_BYTES * group[1])
        )
        run = _Run.of(length, most)
        inner: list[Axis] = []
        total = run.steps
        while reductions and run.blocks == 1 and total * reductions[-1].size <= most:
            inner.insert(0, reductions.pop())
            total *= inner[0].size
        result = _Tiles(
            product, outer, tiles, row, overlap, group, reductions, inner, run
        )
        if not result.has_blocks or result.block:
            return result
        # Do not divide the reduction: the sums of an image row need too much memory.
        run, inner = _Run.of(length, length), [*product.reductions[:-1]]
        return replace(result, outer_reductions=(), inner_reductions=inner, run=run)

    @property
    def loops(self) -> Sequence[Axis]:
        """Loops over rows, down to the loop over row tiles."""
        return [*self.outer, self.tiles]

    @property
    def has_blocks(self) -> bool:
        """True if sums are spilled between blocks of the reduction."""
        return bool(self.outer_reductions) or self.run.blocks > 1

    @property
    def sums_bytes(self) -> int:
        """Bytes of a spilled accumulator tile."""
        return 4 * LANES * self.row.size

    @property
    def columns_bytes(self) -> int:
        """Bytes of a packed column tile."""
        return LANES * self.run.depth

    @property
    def block(self) -> int:
        """Iterations of the outermost row loop per block; 0 if their sums are too large."""
        first, *inner = self.loops
        most = _BLOCK_BYTES // max(abs(first.steps[0]), 1)
        unit = 1 if inner else self.group[0]
        if self.has_blocks:
            tiles = math.prod(loop.size for loop in inner) * self.group[1]
            limit = _MAX_SUMS_BYTES // (tiles * self.sums_bytes)
            if limit < unit:
                return 0
            most = min(most, limit)
        return min(max(most // unit, 1) * unit, first.size)

    @property
    def is_profitable(self) -> bool:
        """True if tiles are faster than vectors."""
        weights, loops = self.product.weights, self.product.reductions
        needed = math.prod(loop.size for loop in self.product.rows) * weights.size
        products = math.prod(loop.size for loop in (*self.loops, *loops[:-1]))
        products *= -(-weights.shape[1] // LANES) * self.run.steps
        return needed >= max(_MIN_PRODUCTS, products * _MIN_TILE_PRODUCTS)

    def pack(self, weights: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the right factor, packed in the order of access."""
        run, width = self.run, weights.shape[1]
        count = -(-width // LANES)
        numbers = weights.reshape(-1, run.size, width)
        padded = np.zeros((len(numbers), run.steps, run.depth, count * LANES), np.int8)
        for step in range(run.steps):
            start, new = run.start(step), min(step * run.depth, run.size)
            end = start + run.depth
            padded[:, step, new - start :, :width] = numbers[:, new:end]
        parts = padded.reshape(len(numbers), run.steps, -1, 4, count, LANES)
        parts = parts.transpose(0, 1, 4, 2, 5, 3)
        wide = self.group[1]
        starts = range(0, count, wide)
        return np.concatenate([parts[:, :, i : i + wide].ravel() for i in starts])

    @property
    def configuration(self) -> NDArray[np.uint8]:
        """Operand of `ldtilecfg`: shapes of accumulators, row and column tiles."""
        high, wide = self.group
        rows, depth = self.row.size, self.run.depth
        sums = [(rows, 4 * LANES)] * (high * wide)
        row_tiles, column_tiles = [(rows, depth)], [(depth // 4, 4 * LANES)]
        held = row_tiles if high <= wide else column_tiles
        turning = column_tiles if high <= wide else row_tiles
        shapes = sums + held * min(high, wide)
        shapes += turning * (_REGISTERS - len(shapes))
        words = np.zeros(_REGISTERS, "<u2")
        lines = np.zeros(_REGISTERS, np.uint8)
        for i, (count, width) in enumerate(shapes):
            lines[i], words[i] = count, width
        data = np.zeros(64, np.uint8)
        data[0] = 1
        data[16:32] = words.view(np.uint8)
        data[48:56] = lines
        return data


class _Panel(NamedTuple):
    """Columns that a group of tiles covers."""

    vectors: int

    rest: int
    """Number of columns in a partial last vector; 0 if it is full."""


class _TileGroup(NamedTuple):
    """Group of tiles whose accumulators are in registers."""

    pointers: Names
    """
    Pointers to packed columns, column constants, sums, rows of the left factor, the
    result, and other epilogue operands.
    """

    high: int
    """Number of row tiles."""

    overlap: int
    """Number of rows that the last row tile shares with the previous one."""

    panel: _Panel


class _TileFunction(ProductFunction):
    """Builder of a function that computes a product with AMX tiles."""

    def __init__(
        self,
        name: str,
        memrefs: Sequence[Memref],
        tiles: _Tiles,
        weights: NDArray[np.int8],
        epilogue: Epilogue | None,
    ):
        correction = -tiles.product.zero_point * weights.sum(0, dtype=np.int64)
        super().__init__(name, memrefs, tiles.product, epilogue, correction)
        self._tiles = tiles
        self._weights = weights
        self._multiply = "tdpbssd" if tiles.product.is_signed else "tdpbusd"

    def add(self, memrefs: Names) -> None:
        code, tiles = self.code, self._tiles
        first, *inner = tiles.loops
        block = tiles.block
        count = math.prod(loop.size for loop in inner) * block
        count = count if tiles.has_blocks else tiles.group[0]
        size = count * tiles.group[1] * tiles.sums_bytes
        sums = code.add(
            f"llvm.alloca {code.constant(size)} x i8 {{alignment = 64 : i64}} : "
            "(i64) -> !llvm.ptr"
        )
        configuration = self.constant("tiles", tiles.configuration)
        weights = self.constant("weights", tiles.pack(self._weights))
        columns = self.constant("columns", self.table.data)
        self._instruction("ldtilecfg", (configuration, "!llvm.ptr"))
        pointers = [weights, columns, sums, *memrefs]
        steps = [0, 0, 0, *(block * step for step in first.steps)]
        # The last tile has its own code if it overlaps the previous one.
        is_last = not inner and tiles.overlap > 0
        whole = (first.size - is_last) // block
        with code.loop(whole) as index:
            cursors = code.advance(pointers, index, steps)
            self._add_columns(cursors, [Axis(block, first.steps), *inner], bool(inner))
        if left := first.size - whole * block:
            cursors = code.advance(pointers, whole, steps)
            self._add_columns(cursors, [Axis(left, first.steps), *inner], True)
        self._instruction("tilerelease")

    def _instruction(self, name: str, *operands: tuple[str | int, str]) -> None:
        """Add an intrinsic; tile numbers are given as integers."""
        values = [
            self.code.constant(value, type_) if isinstance(value, int) else value
            for value, type_ in operands
        ]
        types = ", ".join(type_ for _, type_ in operands)
        self.code.lines.append(
            f'llvm.call_intrinsic "llvm.x86.{name}"({", ".join(values)}) : ({types}) -> ()'
        )

    def _move_tile(self, name: str, number: int, place: str, stride: int) -> None:
        self._instruction(name, (number, "i8"), (place, "!llvm.ptr"), (stride, "i64"))

    def _add_columns(
        self, pointers: Names, loops: Sequence[Axis], is_end: bool
    ) -> None:
        """Add the loop over column panels for a block of rows."""
        code, tiles = self.code, self._tiles
        vectors = tiles.group[1]
        width = self._weights.shape[1]
        depth = len(self._weights) // tiles.run.size * tiles.run.steps
        by_vector = [depth * tiles.columns_bytes, 4 * LANES, 0, 0]
        by_vector += [LANES * size for size in self.sizes]
        steps = [vectors * step for step in by_vector]
        for cursors, columns in code.tiles(pointers, width, vectors * LANES, steps):
            panel = _Panel(-(-columns // LANES), columns % LANES)
            self._add_panel(cursors, loops, is_end, panel)

    def _add_panel(
        self, pointers: Names, loops: Sequence[Axis], is_end: bool, panel: _Panel
    ) -> None:
        """Add the loops over rows for a panel of columns."""
        code, tiles, run = self.code, self._tiles, self._tiles.run
        zero = code.constant(0)
        if not tiles.has_blocks:
            for group in self._groups(pointers, loops, is_end, panel):
                self._add_sums(group, zero)
                self._add_results(group)
            return
        weights, columns, sums, lhs, *others = pointers
        count = math.prod(loop.size for loop in loops) * panel.vectors
        zeros = code.splat(0, SUMS)
        with code.loop(count * tiles.row.size) as index:
            place = code.at(sums, code.sum(zero, index, 4 * LANES))
            code.store(zeros, place, SUMS, 64)
        steps = run.steps // run.blocks
        outer_reductions = self._packed_reductions(
            tiles.outer_reductions, tiles.inner_reductions, panel
        )
        with (
            code.nest(outer_reductions, [weights, lhs]) as cursors,
            code.loop(run.blocks) as index,
        ):
            step = steps * tiles.columns_bytes * panel.vectors
            weights = code.at(cursors[0], code.sum(zero, index, step))
            first = code.sum(zero, index, steps * run.depth)
            inner = [weights, columns, sums, cursors[1], *others]
            for group in self._groups(inner, loops, is_end, panel):
                self._add_sums(group, first)
        for group in self._groups(pointers, loops, is_end, panel):
            self._add_results(group)

    def _packed_reductions(
        self, loops: Sequence[Axis], inner: Sequence[Axis], panel: _Panel
    ) -> Sequence[Axis]:
        """Prepend the stride in the packed columns to the strides of each loop."""
        tiles = self._tiles
        size = tiles.run.steps * math.prod(loop.size for loop in inner)
        return packed_loops(loops, size * tiles.columns_bytes * panel.vectors)

    def _groups(
        self, pointers: Names, loops: Sequence[Axis], is_end: bool, panel: _Panel
    ) -> Iterator[_TileGroup]:
        """
        Yield groups of tiles inside new loops over the rows of a block. Code that is
        added while a group is current becomes part of the loop body.
        """
        code, tiles = self.code, self._tiles
        size = panel.vectors * tiles.sums_bytes if tiles.has_blocks else 0
        *outer, (count, steps) = [
            Axis(loop.size, [0, 0, *loop.steps]) for loop in packed_loops(loops, size)
        ]
        high = tiles.group[0]
        overlap = tiles.overlap if is_end else 0
        whole = (count - bool(overlap)) // high
        with code.nest(outer, pointers) as cursors:
            if whole:
                with code.loop(whole) as index:
                    place = code.advance(
                        cursors, index, [high * step for step in steps]
                    )
                    yield _TileGroup(place, high, 0, panel)
            if left := count - whole * high:
                place = code.advance(cursors, whole * high, steps)
                yield _TileGroup(place, left, overlap, panel)

    def _add_sums(self, group: _TileGroup, first: str) -> None:
        """Accumulate products from byte `first` of the run, and spill the sums."""
        code, tiles, run = self.code, self._tiles, self._tiles.run
        weights, _, sums, lhs, *_ = group.pointers
        vectors = group.panel.vectors
        places = [
            (number, code.at(sums, (i * vectors + v) * tiles.sums_bytes))
            for i in range(group.high)
            for v in range(vectors)
            for number in (i * tiles.group[1] + v,)
        ]
        for number, place in places:
            if tiles.has_blocks:
                self._move_tile("tileloadd64", number, place, 4 * LANES)
            else:
                self._instruction("tilezero", (number, "i8"))
        lines = [i * tiles.tiles.steps[0] for i in range(group.high)]
        lines[-1] -= group.overlap * tiles.row.steps[0]
        inner = self._packed_reductions(tiles.inner_reductions, (), group.panel)
        steps, offset = run.steps // run.blocks, tiles.columns_bytes
        with (
            code.nest(inner, [weights, lhs]) as cursors,
            code.loop(steps) as index,
        ):
            right = code.at(
                cursors[0], code.sum(code.constant(0), index, vectors * offset)
            )
            start = code.sum(first, index, run.depth)
            if run.steps * run.depth > run.size:
                last = code.constant(run.size - run.depth)
                start = code.add(f"arith.minsi {start}, {last} : i64")
            left = code.at(cursors[1], start)
            self._add_products(
                [code.at(left, line) for line in lines],
                [code.at(right, v * offset) for v in range(vectors)],
            )
        for number, place in places:
            self._move_tile("tilestored64", number, place, 4 * LANES)

    def _add_products(self, rows: Names, columns: Names) -> None:
        tiles = self._tiles
        high, wide = tiles.group
        factors = [(rows, tiles.row.steps[0]), (columns, 4 * LANES)]
        holds_rows = high <= wide
        held, turning = factors if holds_rows else factors[::-1]
        first = high * wide
        after = first + min(high, wide)
        for i, place in enumerate(held[0]):
            self._move_tile("tileloadd64", first + i, place, held[1])
        for i, place in enumerate(turning[0]):
            number = after + i % (_REGISTERS - after)
            self._move_tile("tileloadd64", number, place, turning[1])
            for j in range(len(held[0])):
                row, column = (j, i) if holds_rows else (i, j)
                factor_numbers = (first + j, number)
                left, right = factor_numbers if holds_rows else factor_numbers[::-1]
                self._instruction(
                    self._multiply,
                    (row * wide + column, "i8"),
                    (left, "i8"),
                    (right, "i8"),
                )

    def _add_results(self, group: _TileGroup) -> None:
        """Add the epilogue for rows that do not overlap the previous tile."""
        code, tiles = self.code, self._tiles
        _, columns, sums, _, *others = group.pointers
        size = 4 * LANES
        for i in range(group.high):
            skipped = group.overlap if i + 1 == group.high else 0
            sums_offset = i * group.panel.vectors * tiles.sums_bytes + skipped * size
            pointers = [code.at(sums, sums_offset)]
            for other, step in zip(others, tiles.tiles.steps[1:], strict=True):
                pointers.append(code.at(other, i * step))
            with code.loop(tiles.row.size - skipped) as index:
                steps = [size, *tiles.row.steps[1:]]
                cursors = code.advance(pointers, index, steps)
                for v in range(group.panel.vectors):
                    self._add_vector(cursors, columns, group.panel, v)

    def _add_vector(self, pointers: Names, columns: str, panel: _Panel, v: int) -> None:
        """Add the epilogue for one vector of columns of a row."""
        code, (sums, *row) = self.code, pointers
        count = panel.rest if panel.rest and v + 1 == panel.vectors else LANES
        sums = code.at(sums, v * self._tiles.sums_bytes)
        start = code.load(code.at(columns, 4 * LANES * v), SUMS, 64)
        value = code.add(f"arith.addi {code.load(sums, SUMS, 64)}, {start} : {SUMS}")
        self.store(value, row, columns, v, count)


def tile_product_text(
    name: str,
    memrefs: Sequence[Memref],
    product: WeightedSum,
    epilogue: Epilogue | None,
) -> str | None:
    """
    Return the MLIR text of a private function for a product, with its constants; `None`
    if tiles are unsupported or slower. See `product_text` for the arguments.
    """
    weights = product.weights
    if (
        not isinstance(product, Product)
        or isinstance(weights, RuntimeMatrix)
        or product.batches
        or product.weights_zero_point
        or product.reductions[-1].size < 4
    ):
        return None
    tiles = _Tiles.of(product, weights)
    if not tiles.is_profitable:
        return None
    function = _TileFunction(name, memrefs, tiles, weights, epilogue)
    function.add(function.code.arguments(memrefs))
    return function.text()
