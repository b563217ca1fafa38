"""
Code generator for 8-bit integer products with `vpdpbusd`, on vectors of 512 or 2 x 256
bits.

The outer loops run over tiles of the result: some rows by some vectors of 16 columns. The
accumulators of a tile stay in registers during the reduction loops and the epilogue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .epilogues import Epilogue
from .vector_bodies import BodyCode, Interval
from .vector_code import (
    BYTES,
    LANES,
    SIGNS,
    SUMS,
    Axis,
    Code,
    ColumnTable,
    Globals,
    Memref,
    Names,
    accumulate_products,
    bitcast_to_bytes,
    bitcast_to_sums,
    broadcast_i32,
    function_lines,
    high_halves,
    interleave_bytes,
    packed_loops,
    wrap_to_i32,
)

_REGISTERS = {512: 24, 256: 6}
"""
Number of accumulators by register width in bits; the other registers hold factors. An
accumulator takes two of the sixteen 256-bit registers.
"""

_MAX_ROWS = 12

_MAX_NIBBLE_ROWS = 4
"""Maximum number of rows of a product whose packed weights have 4 bits."""

_MAX_UNROLLED = 4
"""Maximum number of unrolled groups of eight weights of 4 bits."""

_MAX_CHANNEL_ROWS = 8
"""Maximum number of rows per tile of a `ChannelProduct`."""

_MAX_PRODUCTS = 128
"""Approximate maximum number of products per tile of a `ChannelProduct`."""


class RuntimeMatrix(NamedTuple):
    """Right factor that is packed at run time."""

    shape: tuple[int, int]

    largest: int
    """Largest absolute value of an element."""

    vectors: int = 0
    """Number of column vectors per packed tile; 0 before packing."""

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True)
class WeightedSum:
    """Sums of bytes in memory, weighted by a matrix."""

    rows: Sequence[Axis]
    """
    Loops over rows of the result, the outermost first. Each has a stride per memref:
    the bytes, the result, other epilogue operands, zero-point-corrected row sums (only
    if the weights have a zero point), packed bytes and initial values (only for a
    `RuntimeMatrix`).
    """

    weights: NDArray[np.int8] | RuntimeMatrix
    """Matrix with one row per reduced byte."""

    is_signed: bool
    """True if the bytes in memory are signed."""

    zero_point: int
    """Zero point of the bytes in memory."""

    weights_zero_point: int = field(default=0, kw_only=True)
    """Zero point of the matrix."""

    batches: Sequence[Axis] = field(default=(), kw_only=True)
    """Outermost loops, over separate matrices."""

    @property
    def lhs_step(self) -> int:
        """Byte stride of the left factor between adjacent column vectors."""
        return 0

    @property
    def offset(self) -> int:
        """Zero point of the bytes as loaded: signed bytes are loaded with 128 added."""
        return self.zero_point + 128 * self.is_signed

    @property
    def correction(self) -> NDArray[np.int64]:
        """Correction of each column's sum for the zero point of the loaded bytes."""
        if isinstance(self.weights, RuntimeMatrix):
            return np.zeros((), np.int64)
        return -self.offset * self.weights.sum(0, dtype=np.int64)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the packed matrix per column vector."""
        raise NotImplementedError

    @property
    def sums(self) -> Interval:
        """Interval of the sums."""
        low = -128 * self.is_signed - self.zero_point
        most = max(abs(low), abs(low + 255))
        if isinstance(self.weights, RuntimeMatrix):
            bound = most * self.weights.shape[0] * self.weights.largest
        else:
            weights = self.weights.astype(np.int64) - self.weights_zero_point
            bound = most * int(np.abs(weights).sum(0).max())
        return Interval(-bound, bound)

    def pack(self, vectors: int) -> NDArray[np.int8]:
        """Return the packed matrix, in tiles of `vectors` column vectors."""
        raise NotImplementedError


@dataclass(frozen=True)
class Product(WeightedSum):
    """Matrix product: all columns share the bytes of a row."""

    reductions: Sequence[Axis]
    """Reduction loops, the last one over contiguous bytes."""

    @property
    def steps(self) -> int:
        """Number of groups of four bytes in the innermost loop."""
        return -(-self.reductions[-1].size // 4)

    @property
    def packed_bytes(self) -> int:
        outer = math.prod(loop.size for loop in self.reductions[:-1])
        return 64 * outer * self.steps // (2 if self.has_nibbles else 1)

    @cached_property
    def has_nibbles(self) -> bool:
        """
        True if packed weights have 4 bits: those of few rows, whose product takes the time
        of reading the weights. 16 times each sum must fit in 32 bits.
        """
        weights = self.weights
        if isinstance(weights, RuntimeMatrix) or self.weights_zero_point:
            return False
        rows = math.prod(loop.size for loop in (*self.batches, *self.rows))
        return (
            rows <= _MAX_NIBBLE_ROWS
            and not self.reductions[-1].size % 8
            and -8 <= weights.min() <= weights.max() <= 7
            and 16 * 8 * 255 * len(weights) < 1 << 31
        )

    def vectors(self, bits: int) -> int:
        """
        Return the number of column vectors per tile, for registers of `bits` bits. A
        packed `RuntimeMatrix` determines the number.
        """
        if isinstance(self.weights, RuntimeMatrix) and self.weights.vectors:
            return self.weights.vectors
        count = -(-self.weights.shape[1] // LANES)
        return min(count, _REGISTERS[bits] // (3 if self.rows[-1].size == 1 else 6))

    def pack(self, vectors: int) -> NDArray[np.int8]:
        assert not isinstance(self.weights, RuntimeMatrix)
        depth, width = self.weights.shape
        run = self.reductions[-1].size
        count = -(-width // LANES)
        padded = np.zeros((depth // run, 4 * self.steps, count * LANES), np.int8)
        # With at least four bytes, the last group is full and overlaps the previous
        # one.
        whole = run // 4 * 4 if run > 4 else run
        numbers = self.weights.reshape(-1, run, width)
        padded[:, :whole, :width] = numbers[:, :whole]
        if whole < run:
            padded[:, whole - run :, :width] = numbers[:, whole:]
        parts = padded.reshape(depth // run, self.steps, 4, count, LANES)
        parts = parts.transpose(0, 1, 3, 4, 2)
        if self.has_nibbles:
            low, high = parts[:, ::2].view(np.uint8), parts[:, 1::2].view(np.uint8)
            parts = (low & np.uint8(0xF) | high << np.uint8(4)).view(np.int8)
        tiles = [
            parts[:, :, start : start + vectors].ravel()
            for start in range(0, count, vectors)
        ]
        return np.concatenate(tiles)


@dataclass(frozen=True)
class ChannelProduct(WeightedSum):
    """Depthwise product: each column sums bytes of its own channel."""

    groups: Sequence[Sequence[int]]
    """Byte offsets of the window elements in matrix order, in groups of up to four."""

    repeats: int = 1
    """Number of adjacent columns that share bytes, a divisor of 16."""

    @property
    def lhs_step(self) -> int:
        return LANES // self.repeats

    @property
    def packed_bytes(self) -> int:
        return 64 * len(self.groups)

    def pack(self, vectors: int) -> NDArray[np.int8]:
        assert not isinstance(self.weights, RuntimeMatrix)
        width = self.weights.shape[1]
        count = -(-width // LANES)
        padded = np.zeros((len(self.groups), 4, count * LANES), np.int8)
        start = 0
        for group, rows in zip(self.groups, padded, strict=True):
            end = start + len(group)
            rows[: len(group), :width] = self.weights[start:end]
            start = end
        parts = padded.reshape(len(self.groups), 4, count, LANES)
        return parts.transpose(2, 0, 3, 1).ravel()


@dataclass(frozen=True)
class _Tile:
    """Register tile of some rows and column vectors."""

    function: _VectorFunction
    rows: int
    vectors: int
    rest: int
    """Number of columns in a partial last vector; 0 if it is full."""

    @property
    def product(self) -> Product:
        """Product that the function computes; must not be a `ChannelProduct`."""
        return cast(Product, self.function.product)

    @property
    def code(self) -> Code:
        return self.function.code

    def compute(self, pointers: Names) -> None:
        """
        Compute the results of a tile.

        Args:
            pointers: start of the tile in the packed matrix, the initial values (of a
                `RuntimeMatrix`), the column constants, the row sums (if weights have a
                zero point), the bytes, the result, and other epilogue operands.
        """
        code, function = self.code, self.function
        weights, starts, columns, row_sums, lhs, *others = pointers
        start = [self._start(starts, columns, v) for v in range(self.vectors)]
        sums: Names = start * self.rows
        if function.product.weights_zero_point:
            sums = self._with_row_sums(sums, row_sums)
        if isinstance(function.product, ChannelProduct):
            sums = self._reduce_windows(function.product, sums, lhs, weights)
        else:
            sums = self._reduce(sums, lhs, weights)
        values = iter(sums)
        steps = function.product.rows[-1].steps[1:]
        for r in range(self.rows):
            row = [
                code.at(pointer, step * r)
                for pointer, step in zip(others, steps, strict=False)
            ]
            for v in range(self.vectors):
                count = self.rest if self.rest and v + 1 == self.vectors else LANES
                function.store(next(values), row, columns, v, count)

    def _start(self, starts: str, columns: str, vector: int) -> str:
        """Return the initial accumulator of a column vector."""
        code = self.code
        start = code.load(code.at(columns, 64 * vector), SUMS, 64)
        if not isinstance(self.function.product.weights, RuntimeMatrix):
            return start
        correction = code.load(code.at(starts, 64 * vector), SUMS, 64)
        return code.add(f"arith.addi {start}, {correction} : {SUMS}")

    def _with_row_sums(self, sums: Names, place: str) -> Names:
        """Subtract the zero point of the weights times the sum of each row's bytes."""
        code, function = self.code, self.function
        step = function.product.rows[-1].steps[function.own]
        factor = code.constant(wrap_to_i32(-function.product.weights_zero_point), "i32")
        terms: list[str] = []
        for r in range(self.rows):
            row_sum = code.load(code.at(place, r * step), "i32", 4)
            term = code.add(f"arith.muli {row_sum}, {factor} : i32")
            terms += [broadcast_i32(code, term)] * self.vectors
        return [
            code.add(f"arith.addi {value}, {term} : {SUMS}")
            for value, term in zip(sums, terms, strict=True)
        ]

    def _reduce(self, sums: Names, lhs: str, weights: str) -> Names:
        """Return the accumulators after the reduction loops."""
        product, code = self.product, self.code
        if product.has_nibbles:
            return self._reduce_nibbles(sums, lhs, weights)
        step, runs = 64 * self.vectors, self._shared_runs
        whole, rest = divmod(product.reductions[-1].size, 4)

        def run(pointers: Names, sums: Names) -> Names:
            def group(index: str, sums: Names) -> Names:
                cursors = code.advance(pointers, index, [step, 4])
                return self._accumulate(sums, cursors, 4, runs)

            if whole:
                sums = code.reduction_loop(whole // runs, sums, SUMS, group)
            if rest:
                # The last four bytes may overlap the previous group.
                start, count = (4 * whole + rest - 4, 4) if whole else (0, rest)
                last = code.advance(pointers, 1, [step * whole, start])
                sums = self._accumulate(sums, last, count)
            return sums

        loops = [Axis(size, steps[:1]) for size, steps in product.reductions[:-1]]
        loops = packed_loops(loops, step * product.steps)
        return code.reduction_nest(loops, [weights, lhs], sums, SUMS, run)

    @property
    def _shared_runs(self) -> int:
        """
        Number of adjacent rows that share each group of four bytes, or 1. A single vector
        of columns has few products per load.
        """
        size, step = self.product.reductions[-1].size, self.product.rows[-1].steps[0]
        if self.vectors > 1 or self.rows == 1 or not step or step % 4 or size % step:
            return 1
        return size // step

    def _reduce_nibbles(self, sums: Names, lhs: str, weights: str) -> Names:
        """
        Return the accumulators after the reduction loops over weights of 4 bits. Masking
        multiplies weights by 16, and a shift divides their sums.
        """
        product, code = self.product, self.code
        steps, step = product.steps // 2, 64 * self.vectors
        unrolled = max(n for n in range(1, _MAX_UNROLLED + 1) if not steps % n)

        def run(pointers: Names, totals: Names) -> Names:
            def groups(index: str, totals: Names) -> Names:
                by_step = [step * unrolled, 8 * unrolled]
                cursors = code.advance(pointers, index, by_step)
                for i in range(unrolled):
                    places = code.advance(cursors, i, [step, 8])
                    totals = self._accumulate_nibbles(totals, places)
                return totals

            return code.reduction_loop(steps // unrolled, totals, SUMS, groups)

        loops = [Axis(size, steps[:1]) for size, steps in product.reductions[:-1]]
        loops = packed_loops(loops, step * steps)
        zeros = [code.splat(0, SUMS)] * len(sums)
        totals = code.reduction_nest(loops, [weights, lhs], zeros, SUMS, run)
        four = code.splat(4, SUMS)
        shifted = [code.add(f"arith.shrsi {x}, {four} : {SUMS}") for x in totals]
        return [
            code.add(f"arith.addi {a}, {b} : {SUMS}")
            for a, b in zip(shifted, sums, strict=True)
        ]

    def _accumulate_nibbles(self, sums: Names, pointers: Names) -> Names:
        """Accumulate the products of eight bytes of each row."""
        code = self.code
        packed, bytes_ = pointers
        halves = [
            high_halves(code, code.load(code.at(packed, 64 * v), SUMS, 64))
            for v in range(self.vectors)
        ]
        for half in range(2):
            right = [pair[half] for pair in halves]
            place = code.at(bytes_, 4 * half)
            sums = self._accumulate_rows(sums, [right], place, 4)
        return sums

    def _accumulate(
        self, sums: Names, pointers: Names, count: int, runs: int = 1
    ) -> Names:
        """Accumulate the products of up to four bytes of each row and shared run."""
        weights, lhs = pointers
        distance = 16 * self.vectors * self.product.rows[-1].steps[0]
        right = [
            [
                self.code.load(self.code.at(weights, distance * i + 64 * v), BYTES, 64)
                for v in range(self.vectors)
            ]
            for i in range(runs)
        ]
        return self._accumulate_rows(sums, right, lhs, count)

    def _accumulate_rows(
        self, sums: Names, right: Sequence[Names], lhs: str, count: int
    ) -> Names:
        """
        Accumulate the products of up to four bytes of each row with vectors; those of the
        next rows with vectors of the next runs.
        """
        code, step = self.code, self.product.rows[-1].steps[0]
        results = [*sums]
        for place in range(self.rows + len(right) - 1):
            left = self._broadcast(code.at(lhs, place * step), count)
            for i, vectors in enumerate(right):
                row = place - i
                if not 0 <= row < self.rows:
                    continue
                for n, vector in enumerate(vectors, row * self.vectors):
                    results[n] = accumulate_products(
                        code, self.function.bits, results[n], left, vector
                    )
        return results

    def _reduce_windows(
        self, product: ChannelProduct, sums: Names, lhs: str, weights: str
    ) -> Names:
        """Return the sums of a `ChannelProduct`; overlapping windows share loads."""
        code, step = self.code, product.rows[-1].steps[0]
        right = [
            code.load(code.at(weights, 64 * g), BYTES, 64)
            for g in range(len(product.groups))
        ]
        gathered: dict[Sequence[int], str] = {}
        results = [*sums]
        for r in range(self.rows):
            for group, factor in zip(product.groups, right, strict=True):
                offsets = tuple(offset + r * step for offset in group)
                if offsets not in gathered:
                    gathered[offsets] = self._gather_taps(lhs, offsets, product.repeats)
                results[r] = accumulate_products(
                    code, self.function.bits, results[r], gathered[offsets], factor
                )
        return results

    def _gather_taps(self, lhs: str, offsets: Sequence[int], repeats: int) -> str:
        """Load the bytes at up to four offsets per column and interleave them."""
        code = self.code
        count = (self.rest or LANES) // repeats
        parts = [
            code.load_lanes(code.at(lhs, offset), "i8", count) for offset in offsets
        ]
        all_ = bitcast_to_sums(code, interleave_bytes(code, parts))
        if repeats > 1:
            lanes = [i // repeats for i in range(LANES)]
            all_ = code.shuffle(all_, all_, SUMS, lanes)
        if self.function.product.is_signed:
            signs = code.splat(SIGNS, SUMS)
            all_ = code.add(f"arith.xori {all_}, {signs} : {SUMS}")
        return bitcast_to_bytes(code, all_)

    def _broadcast(self, place: str, count: int) -> str:
        """Return a vector that repeats a group of up to four loaded bytes."""
        code = self.code
        all_ = broadcast_i32(code, code.load_group(place, count))
        if self.product.is_signed:
            all_ = code.add(f"arith.xori {all_}, {self.function.signs} : {SUMS}")
        return bitcast_to_bytes(code, all_)


class EpilogueFunction:
    """Builder of a vector function that computes an epilogue."""

    def __init__(
        self, name: str, epilogue: Epilogue, sums: Interval, table: ColumnTable
    ):
        """`sums` is the interval of the sums without their initial value."""
        self._name = f"{name}_body"
        self._code = Code()
        body, (first, start) = epilogue.body, epilogue.sums_and_initial_value
        body.set_interval(first, _shifted_interval(sums, start))
        values = [first, *map(body.argument, epilogue.inputs)]
        types = [f"vector<16x{value.type}>" for value in values]
        body_code = BodyCode(body, self._code, table, "%columns")
        for i, value in enumerate(values):
            body_code.set(value, f"%a{i}")
        result_type = f"vector<16x{body.result.type}>"
        result = body_code.vector(body.result)
        parameters = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(types))
        self.lines = [
            f"func.func private @{self._name}(%columns: !llvm.ptr, {parameters}) "
            f'-> {result_type} attributes {{passthrough = ["alwaysinline"]}} {{',
            *self._code.lines,
            f"return {result} : {result_type}",
            "}",
        ]
        self._type = f"(!llvm.ptr, {', '.join(types)}) -> {result_type}"

    def call(self, code: Code, columns: str, vectors: Names) -> str:
        """Call the function on vectors of sums and other operands."""
        arguments = ", ".join([columns, *vectors])
        return code.add(f"func.call @{self._name}({arguments}) : {self._type}")


class ProductFunction:
    """Builder of a function that computes a product and its epilogue."""

    def __init__(
        self,
        name: str,
        memrefs: Sequence[Memref],
        product: WeightedSum,
        epilogue: Epilogue | None,
        correction: NDArray[np.int64],
    ):
        """Take the arguments of `product_text`, and a correction per column sum."""
        own = len(epilogue.memrefs) if epilogue else 1
        self.elements = [memref.element for memref in memrefs[1 : 1 + own]]
        self.sizes = [int(element[1:]) // 8 for element in self.elements]
        self.code = Code()
        self.globals = Globals(name)
        self.table = ColumnTable(product.weights.shape[1])
        self.body: EpilogueFunction | None = None
        self._name = name
        self._memrefs = memrefs
        start = (
            epilogue.sums_and_initial_value[1] if epilogue else np.zeros((), np.int64)
        )
        self.table.add(correction + start)
        if epilogue is not None:
            self.body = EpilogueFunction(name, epilogue, product.sums, self.table)

    def constant(self, kind: str, data: NDArray[np.integer]) -> str:
        """Define a constant and return the pointer to it."""
        self.globals.define(kind, data)
        return self.globals.pointer(self.code, kind, data.size)

    def store(
        self, value: str, row: Names, columns: str, vector: int, count: int
    ) -> None:
        """
        Add sums to the result in memory, or store the results of the epilogue.

        Args:
            value: vector of sums.
            row: pointers to a row of the result and of other epilogue operands.
            columns: pointer to the constants of the first column.
            vector: number of the column vector.
            count: number of columns in the vector.
        """
        code = self.code
        place, *inputs = [
            code.at(pointer, LANES * size * vector)
            for pointer, size in zip(row, self.sizes, strict=True)
        ]
        if self.body is None:
            before = code.load_lanes(place, "i32", count)
            value = code.add(f"arith.addi {before}, {value} : {SUMS}")
        else:
            elements = zip(inputs, self.elements[1:], strict=True)
            vectors = [code.load_lanes(*element, count) for element in elements]
            constants = code.at(columns, 64 * vector)
            value = self.body.call(code, constants, [value, *vectors])
        code.store_lanes(place, value, self.elements[0], count)

    def text(self) -> str:
        """Return the MLIR text of the function, its constants and its epilogue."""
        lines = function_lines(self._name, self._memrefs, self.code)
        body = self.body.lines if self.body else ()
        return "\n".join([*self.globals.lines, *body, *lines])


class _VectorFunction(ProductFunction):
    """Builder of a function that computes a product with vector instructions."""

    def __init__(
        self,
        name: str,
        memrefs: Sequence[Memref],
        product: WeightedSum,
        epilogue: Epilogue | None,
        bits: int,
    ):
        super().__init__(name, memrefs, product, epilogue, product.correction)
        self.product = product
        self.bits = bits
        self.own = 1 + len(self.elements)
        """Number of memrefs for bytes, result and other epilogue operands."""
        self.signs = ""
        """
        Sign bits of all bytes, in a vector that is opaque to LLVM: otherwise LLVM would
        flip bits before each broadcast, which takes one more instruction.
        """
        row = product.rows[-1].size
        if isinstance(product, ChannelProduct):
            self.vectors = 1
            most = max(1, min(_MAX_CHANNEL_ROWS, _MAX_PRODUCTS // len(product.groups)))
        else:
            self.vectors = cast(Product, product).vectors(bits)
            most = min(_REGISTERS[bits] // self.vectors, _MAX_ROWS)
        # Tiles of about the same size.
        self.tile_rows = -(-row // -(-row // most))

    def add_batches(self, memrefs: Names) -> None:
        code, product = self.code, self.product
        signs = self.globals.pointer(code, "signs", 64)
        self.globals.define("signs", np.full(LANES, SIGNS, np.int32))
        self.signs = code.add(
            f"llvm.load volatile {signs} {{alignment = 64 : i64}} : !llvm.ptr -> {SUMS}"
        )
        columns = self.constant("columns", self.table.data)
        with code.nest(product.batches, memrefs) as cursors:
            own, others = cursors[: self.own], [*cursors[self.own :]]
            row_sums = others.pop(0) if product.weights_zero_point else columns
            if isinstance(product.weights, RuntimeMatrix):
                weights, starts = others
            else:
                packed = product.pack(self.vectors)
                weights, starts = self.constant("weights", packed), columns
            self._add_columns([weights, starts, columns, row_sums, *own])

    def _add_columns(self, pointers: Names) -> None:
        code, product = self.code, self.product
        results = [LANES * size for size in self.sizes]
        by_vector = [product.packed_bytes, 64, 64, 0, product.lhs_step, *results]
        steps = [self.vectors * step for step in by_vector]
        width, size = product.weights.shape[1], LANES * self.vectors
        for cursors, columns in code.tiles(pointers, width, size, steps):
            vectors, rest = -(-columns // LANES), columns % LANES
            self._add_rows(cursors, product.rows, vectors, rest)

    def _add_rows(
        self, pointers: Names, loops: Sequence[Axis], vectors: int, rest: int
    ) -> None:
        code = self.code
        loop, *inner = loops
        size = 1 if inner else self.tile_rows
        row_sums = loop.steps[self.own] if self.product.weights_zero_point else 0
        by_row = [0, 0, 0, row_sums, *loop.steps[: self.own]]
        steps = [size * step for step in by_row]
        for cursors, rows in code.tiles(pointers, loop.size, size, steps):
            if inner:
                self._add_rows(cursors, inner, vectors, rest)
            else:
                _Tile(self, rows, vectors, rest).compute(cursors)


def product_text(
    name: str,
    memrefs: Sequence[Memref],
    product: WeightedSum,
    epilogue: Epilogue | None,
    bits: int,
) -> str:
    """
    Return the MLIR text of a private function for a product, with its constants.

    Args:
        name: function name, and prefix of the names of constants.
        memrefs: arguments, in the order of `WeightedSum.rows`. Without an epilogue the
            product is added to the result.
        product: loops and right factor.
        epilogue: elementwise op on the sums, or `None`.
        bits: width of the vector registers, 256 or 512.
    """
    function = _VectorFunction(name, memrefs, product, epilogue, bits)
    function.add_batches(function.code.arguments(memrefs))
    return function.text()


def _shifted_interval(interval: Interval, by: NDArray[np.int64]) -> Interval:
    """Return an interval shifted by constants; all of i32 if it may overflow."""
    total = Interval(interval.low + int(by.min()), interval.high + int(by.max()))
    return total if total.fits(32) else Interval.of_width(32)
