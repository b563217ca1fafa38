"""Code generator for packing, row sums and transposition of matrices of bytes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from .vector_code import (
    BYTES,
    LANES,
    SIGNS,
    SUMS,
    Axis,
    Code,
    Memref,
    Names,
    accumulate_products,
    bitcast_to_bytes,
    bitcast_to_sums,
    function_lines,
    interleave_bytes,
    packed_loops,
    wrap_to_i32,
)


@dataclass(frozen=True)
class Packing:
    """Packing of a matrix into groups of four bytes per column."""

    batches: Sequence[Axis]
    """
    Loops over the matrices of a batch, with their strides in the source, in the packed
    bytes and in the initial values.
    """

    reductions: Sequence[Axis]
    """Reduction loops of the product, with strides in the left factor and the source."""

    width: int

    column_step: int
    """Byte stride between adjacent columns."""

    is_unsigned: bool
    """True for unsigned bytes: packing flips the highest bit, which subtracts 128."""

    offset: int
    """Zero point of the left factor; initial values are `-offset` times column sums."""

    vectors: int
    """Number of column vectors per tile."""


def packing_text(
    packing: Packing, bits: int, name: str, memrefs: Sequence[Memref]
) -> str:
    """
    Return the MLIR text of a private function that packs a matrix.

    Args:
        packing: loops and layout.
        bits: width of the vector registers, 256 or 512.
        name: function name.
        memrefs: bytes, packed bytes, and initial values of each column's sums.
    """
    code = Code()
    with code.nest(packing.batches, code.arguments(memrefs)) as pointers:
        _Packer(code, packing, bits).add_columns(pointers)
    return "\n".join(function_lines(name, memrefs, code))


@dataclass(frozen=True)
class _Packer:
    """Builder of the loops over one matrix."""

    code: Code
    packing: Packing
    bits: int

    @property
    def _run(self) -> Axis:
        return self.packing.reductions[-1]

    def add_columns(self, pointers: Names) -> None:
        code, packing = self.code, self.packing
        rows = math.prod(loop.size for loop in packing.reductions[:-1])
        by_vector = [LANES * packing.column_step, rows * self._run_bytes, 64]
        steps = [packing.vectors * step for step in by_vector]
        size = LANES * packing.vectors
        for cursors, columns in code.tiles(pointers, packing.width, size, steps):
            starts = range(0, columns, LANES)
            self._add_tile(cursors, [min(LANES, columns - start) for start in starts])

    @property
    def _run_bytes(self) -> int:
        """Number of bytes per column vector that the innermost loop packs."""
        return 64 * -(-self._run.size // 4)

    def _add_tile(self, pointers: Names, counts: Sequence[int]) -> None:
        """Pack a tile; `counts` are the numbers of columns in its column vectors."""
        code, packing = self.code, self.packing
        source, packed, starts = pointers
        pack = self._pack_rows if packing.column_step == 1 else self._pack_columns
        loops = [Axis(size, steps[1:]) for size, steps in packing.reductions[:-1]]
        sums = code.reduction_nest(
            packed_loops(loops, len(counts) * self._run_bytes),
            [packed, source],
            [code.splat(0, SUMS)] * len(counts),
            SUMS,
            lambda cursors, sums: pack(sums, cursors[::-1], counts),
        )
        factor = code.splat(wrap_to_i32(-packing.offset), SUMS)
        for v, total in enumerate(sums):
            start = code.add(f"arith.muli {total}, {factor} : {SUMS}")
            code.store_lanes(code.at(starts, 64 * v), start, "i32")

    def _pack_rows(self, sums: Names, pointers: Names, counts: Sequence[int]) -> Names:
        """Pack a matrix whose rows are contiguous."""
        code, step = self.code, self._run.steps[1]
        whole, rest = divmod(self._run.size, 4)

        def packed(pointers: Names, rows: Sequence[int | None]) -> list[str]:
            """Return the interleaved bytes of up to four rows per column vector."""
            bytes_, _ = pointers
            zero = code.splat(0, f"vector<{LANES}xi8>")
            return [
                interleave_bytes(
                    code,
                    [
                        zero
                        if row is None
                        else code.load_lanes(
                            code.at(bytes_, row * step + LANES * v), "i8", count
                        )
                        for row in rows
                    ],
                )
                for v, count in enumerate(counts)
            ]

        def group(index: str, sums: Names) -> Names:
            cursors = code.advance(pointers, index, [4 * step, 64 * len(counts)])
            return self._store(sums, [packed(cursors, range(4))], cursors, 4)

        if whole:
            sums = code.reduction_loop(whole, sums, SUMS, group)
        if rest:
            cursors = code.advance(pointers, whole, [4 * step, 64 * len(counts)])
            rows = range(rest)
            last = [None] * (4 - rest) + [*rows] if whole else [*rows]
            sums = self._store(sums, [packed(cursors, last)], cursors, rest)
        return sums

    def _pack_columns(
        self, sums: Names, pointers: Names, counts: Sequence[int]
    ) -> Names:
        """Pack a matrix whose columns are contiguous, up to 16 groups at once."""
        code = self.code
        whole, rest = divmod(self._run.size, 4)
        steps = [4, 64 * len(counts)]
        packed = partial(self._column_groups, counts)

        def block(index: str, sums: Names) -> Names:
            cursors = code.advance(pointers, index, [LANES * step for step in steps])
            groups = packed(
                cursors, lambda columns: self._transpose_groups(columns, LANES)
            )
            return self._store(sums, groups, cursors, 4)

        blocks, left = divmod(whole, LANES)
        if blocks:
            sums = code.reduction_loop(blocks, sums, SUMS, block)
        if left:
            cursors = code.advance(pointers, LANES * blocks, steps)
            groups = packed(
                cursors, lambda columns: self._transpose_groups(columns, left)
            )
            sums = self._store(sums, groups, cursors, 4)
        if rest:
            cursors = code.advance(pointers, whole, steps)
            groups = packed(cursors, lambda columns: [self._last(columns, whole, rest)])
            sums = self._store(sums, groups, cursors, rest)
        return sums

    def _column_groups(
        self, counts: Sequence[int], pointers: Names, load: Callable[[Names], Names]
    ) -> list[Names]:
        """Load column vectors; return for each group the bytes of each vector."""
        bytes_, _ = pointers
        step = self.packing.column_step
        vectors = [
            load(
                [
                    self.code.at(bytes_, (LANES * v + column) * step)
                    for column in range(count)
                ]
            )
            for v, count in enumerate(counts)
        ]
        return [*zip(*vectors, strict=True)]

    def _transpose_groups(self, pointers: Names, size: int) -> Names:
        """Load `size` groups per column and transpose them to one vector per group."""
        code = self.code
        rows = [code.load_lanes(pointer, "i32", size) for pointer in pointers]
        rows += [code.splat(0, SUMS)] * (LANES - len(rows))
        return [
            bitcast_to_bytes(code, row) for row in _transpose_lanes(code, rows)[:size]
        ]

    def _last(self, pointers: Names, whole: int, rest: int) -> str:
        """Return the `rest` last bytes of each column as a group padded with zeros."""
        code = self.code
        vector = code.splat(0, SUMS)
        back, count = (rest - 4, 4) if whole else (0, rest)
        for i, pointer in enumerate(pointers):
            value = code.load_group(code.at(pointer, back), count)
            lane = code.constant(i, "i32")
            vector = code.add(
                f"llvm.insertelement {value}, {vector}[{lane} : i32] : {SUMS}"
            )
        if whole:
            mask = code.splat(-(1 << 8 * (4 - rest)), SUMS)
            vector = code.add(f"arith.andi {vector}, {mask} : {SUMS}")
        return bitcast_to_bytes(code, vector)

    def _store(
        self, sums: Names, groups: Sequence[Names], pointers: Names, count: int
    ) -> Names:
        """Store groups with `count` used bytes per column; return the updated sums."""
        code, results = self.code, [*sums]
        _, packed = pointers
        ones = code.splat(1, BYTES)
        for g, vectors in enumerate(groups):
            for v, value in enumerate(vectors):
                if self.packing.is_unsigned:
                    value = self._flip_signs(value, count)
                place = code.at(packed, 64 * (g * len(vectors) + v))
                code.store(value, place, BYTES, 64)
                results[v] = accumulate_products(
                    code, self.bits, results[v], ones, value
                )
        return results

    def _flip_signs(self, value: str, count: int) -> str:
        """Subtract 128 from the used bytes; padding stays 0."""
        code = self.code
        signs = SIGNS
        if count < 4:
            used = (1 << 8 * count) - 1
            # Padding precedes the used bytes, unless there is only one group.
            used = used if self._run.size < 4 else used << 8 * (4 - count)
            signs = wrap_to_i32(SIGNS & used)
        flips = code.splat(signs, SUMS)
        flipped = code.add(
            f"arith.xori {bitcast_to_sums(code, value)}, {flips} : {SUMS}"
        )
        return bitcast_to_bytes(code, flipped)


def _transpose_lanes(code: Code, rows: Names) -> Names:
    """Transpose 16 vectors of 16 i32."""
    bit = LANES // 2
    while bit:
        low = [i if not i & bit else LANES + i - bit for i in range(LANES)]
        high = [i + bit if not i & bit else LANES + i for i in range(LANES)]
        exchanged = [*rows]
        for i in range(LANES):
            if not i & bit:
                pair = rows[i], rows[i + bit]
                exchanged[i] = code.shuffle(*pair, SUMS, low)
                exchanged[i + bit] = code.shuffle(*pair, SUMS, high)
        rows, bit = exchanged, bit // 2
    return rows


class Transposition(NamedTuple):
    """Transposition of byte matrices; each loop has a source and a target stride."""

    batches: Sequence[Axis]
    """Loops over matrices."""

    rows: Axis
    """Loop over bytes that are contiguous in the source."""

    columns: Axis
    """Loop over bytes that are contiguous in the target."""

    size: int
    """Number of bytes of a padded target; 0 if its rows are not padded."""


def transposition_text(
    transposition: Transposition, name: str, memrefs: Sequence[Memref]
) -> str:
    """
    Return the MLIR text of a private function that transposes matrices of bytes.

    Args:
        transposition: loops; the padding of target rows to 64 bytes is overwritten.
        name: function name.
        memrefs: source and target.
    """
    code, rows = Code(), transposition.rows
    is_padded = transposition.size > 0
    transposer = _Transposer(code, rows, transposition.columns, is_padded)
    with code.nest(transposition.batches, code.arguments(memrefs)) as pointers:
        steps = [LANES * step for step in rows.steps]
        for cursors, count in code.tiles(pointers, rows.size, LANES, steps):
            transposer.add_columns(cursors, count)
    return "\n".join(function_lines(name, memrefs, code))


@dataclass(frozen=True)
class _Transposer:
    """Builder of the loop over the columns of some rows."""

    code: Code
    rows: Axis
    columns: Axis
    is_padded: bool

    def add_columns(self, pointers: Names, row_count: int) -> None:
        code, size = self.code, 4 * LANES
        steps = [size * step for step in self.columns.steps]
        for cursors, count in code.tiles(pointers, self.columns.size, size, steps):
            self._add_block(cursors, row_count, count)

    def _add_block(self, pointers: Names, row_count: int, count: int) -> None:
        """Transpose `count` columns of `row_count` rows."""
        code, step = self.code, self.columns.steps[0]
        source, target = pointers
        groups: list[str] = []
        for start in range(0, 4 * LANES, 4):
            parts = [
                code.load_lanes(code.at(source, i * step), "i8", row_count)
                for i in range(start, min(start + 4, count))
            ]
            vector = interleave_bytes(code, parts) if parts else code.splat(0, BYTES)
            groups.append(bitcast_to_sums(code, vector))
        for i, row in enumerate(_transpose_lanes(code, groups)[:row_count]):
            place = code.at(target, i * self.rows.steps[1])
            if self.is_padded or count == 4 * LANES:
                code.store_lanes(place, row, "i32")
            else:
                self._store_bytes(place, row, count)

    def _store_bytes(self, place: str, row: str, count: int) -> None:
        """Store the first `count` bytes of a row: whole groups of four, then the rest."""
        code, whole = self.code, count // 4
        code.store_lanes(place, row, "i32", whole)
        bytes_ = bitcast_to_bytes(code, row)
        for i in range(4 * whole, count):
            byte = code.shuffle(bytes_, bytes_, BYTES, [i])
            code.store(byte, code.at(place, i), "vector<1xi8>")


class RowSums(NamedTuple):
    """Sums of the zero-point-corrected bytes of each row."""

    rows: Sequence[Axis]
    """Loops over rows, with a byte stride in the source and one in the sums."""

    reductions: Sequence[Axis]
    """Loops over the bytes of a row, the last one over contiguous bytes."""

    is_signed: bool

    zero_point: int


def row_sums_text(
    sums: RowSums, bits: int, name: str, memrefs: Sequence[Memref]
) -> str:
    """
    Return the MLIR text of a private function that computes row sums.

    Args:
        sums: loops and properties of the bytes.
        bits: width of the vector registers, 256 or 512.
        name: function name.
        memrefs: bytes and sums.
    """
    code = Code()
    depth = math.prod(loop.size for loop in sums.reductions)
    outer = [Axis(size, steps[:1]) for size, steps in sums.reductions[:-1]]
    adder = _RowAdder(code, sums, bits, code.splat(1, BYTES))
    with code.nest(sums.rows, code.arguments(memrefs)) as (bytes_, place):
        (vector,) = code.reduction_nest(
            outer, [bytes_], [code.splat(0, SUMS)], SUMS, adder.with_run
        )
        total = code.add(f'"llvm.intr.vector.reduce.add"({vector}) : ({SUMS}) -> i32')
        correction = code.constant(wrap_to_i32(-depth * sums.zero_point), "i32")
        total = code.add(f"arith.addi {total}, {correction} : i32")
        code.store(total, place, "i32", 4)
    return "\n".join(function_lines(name, memrefs, code))


@dataclass(frozen=True)
class _RowAdder:
    """Builder of code that accumulates contiguous bytes."""

    code: Code
    sums: RowSums
    bits: int
    ones: str

    def with_run(self, pointers: Names, vectors: Names) -> Names:
        """Accumulate one contiguous run; return the vector of sums."""
        code, size = self.code, 4 * LANES
        length, _ = self.sums.reductions[-1]
        blocks, left = divmod(length, size)

        def block(index: str, vectors: Names) -> Names:
            (cursor,) = code.advance(pointers, index, [size])
            return self._accumulate(vectors, code.load(cursor, BYTES))

        if blocks:
            vectors = code.reduction_loop(blocks, vectors, SUMS, block)
        if left:
            (place,) = pointers
            parts = [
                code.load_lanes(code.at(place, start), "i8", min(LANES, length - start))
                for start in range(length - left, length, LANES)
            ]
            vectors = self._accumulate(vectors, interleave_bytes(code, parts))
        return vectors

    def _accumulate(self, vectors: Names, value: str) -> Names:
        (vector,) = vectors
        left, right = (self.ones, value) if self.sums.is_signed else (value, self.ones)
        return [accumulate_products(self.code, self.bits, vector, left, right)]
