"""
The text of functions that compute products of bytes with `vpdpbusd`.

A function has loops over rows of the result, around tiles of some rows times some vectors
of 16 columns. The sums of a tile are in registers while loops go over what is summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_LANES = 16
"""The number of sums in a vector."""

_REGISTERS = 24
"""How many vectors of sums there may be; other registers are for the factors."""

_MOST_ROWS = 12


class Loop(NamedTuple):
    """A loop of a product."""

    size: int

    lhs: int
    """The distance in memory of what two iterations need of the left factor."""

    result: int
    """That of the sums."""


def merged(loops: Sequence[Loop]) -> list[Loop]:
    """Nested loops, the outermost first, with those as one that can be one."""
    found: list[Loop] = []
    for loop in loops:
        if loop.size == 1:
            continue
        size, lhs, result = loop
        if found and found[-1][1:] == (lhs * size, result * size):
            found[-1] = Loop(found[-1].size * size, lhs, result)
        else:
            found.append(loop)
    return found or [Loop(1, 1, 1)]


@dataclass(frozen=True)
class Product:
    """A product of bytes in memory with a constant matrix of bytes."""

    rows: Sequence[Loop]
    """The loops over rows of the result, the outermost first."""

    reductions: Sequence[Loop]
    """The loops that sum up, the last one over bytes beside each other."""

    weights: NDArray[np.int8]
    """The matrix: a row for each iteration of the loops that sum up."""

    is_signed: bool
    """Whether bytes in memory are signed."""

    zero_point: int
    """What is subtracted from these bytes."""

    @property
    def steps(self) -> int:
        """The number of groups of four bytes in the innermost loop."""
        return -(-self.reductions[-1].size // 4)

    @property
    def excess(self) -> NDArray[np.int32]:
        """What is added to the sums of a column for 128 and the zero point."""
        offset = self.zero_point + 128 * self.is_signed
        sums = self.weights.sum(0, dtype=np.int64)
        return (-offset * sums).astype(np.int32)

    def packed(self, vectors: int) -> NDArray[np.int8]:
        """The bytes of the matrix in the order in which they are needed."""
        depth, width = self.weights.shape
        run = self.reductions[-1].size
        count = -(-width // _LANES)
        padded = np.zeros((depth // run, 4 * self.steps, count * _LANES), np.int8)
        padded[:, :run, :width] = self.weights.reshape(-1, run, width)
        parts = padded.reshape(depth // run, self.steps, 4, count, _LANES)
        parts = parts.transpose(0, 1, 3, 4, 2)
        tiles = [
            parts[:, :, start : start + vectors].ravel()
            for start in range(0, count, vectors)
        ]
        return np.concatenate(tiles)


class _Code:
    """Lines of a function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def add(self, text: str) -> str:
        """Add an op with a result, whose name is returned."""
        self._count += 1
        self.lines.append(f"%{self._count} = {text}")
        return f"%{self._count}"

    def constant(self, value: int, type_: str = "i64") -> str:
        return self.add(f"arith.constant {value} : {type_}")

    def sum(self, value: str, index: str, step: int) -> str:
        """A value plus a number of steps."""
        if not step:
            return value
        product = self.add(f"arith.muli {index}, {self.constant(step)} : i64")
        return self.add(f"arith.addi {value}, {product} : i64")

    def at(self, pointer: str, offset: str | int) -> str:
        """The pointer to what is so many bytes behind another one."""
        if isinstance(offset, int):
            type_ = "(!llvm.ptr) -> !llvm.ptr"
        else:
            type_ = "(!llvm.ptr, i64) -> !llvm.ptr"
        return self.add(f"llvm.getelementptr {pointer}[{offset}] : {type_}, i8")

    def pointer(self, memref: str, type_: str, offset: int) -> str:
        """The pointer to the first element of a memref."""
        index = self.add(
            f"memref.extract_aligned_pointer_as_index {memref} : {type_} -> index"
        )
        address = self.add(f"arith.index_cast {index} : index to i64")
        pointer = self.add(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
        return self.at(pointer, offset)

    @contextmanager
    def loop(self, size: int, step: int = 1) -> Generator[str]:
        """A loop from 0 on; its body is what is added inside."""
        bounds = [self.constant(n) for n in (0, size, step)]
        self._count += 1
        index = f"%{self._count}"
        self.lines.append(
            f"scf.for {index} = {bounds[0]} to {bounds[1]} step {bounds[2]} : i64 {{"
        )
        yield index
        self.lines.append("}")

    def summed(
        self,
        size: int,
        sums: Sequence[str],
        body: Callable[[str, Sequence[str]], Sequence[str]],
    ) -> Sequence[str]:
        """A loop that carries vectors of sums."""
        if size == 1:
            return body(self.constant(0), sums)
        bounds = [self.constant(n) for n in (0, size, 1)]
        self._count += 1
        index, name = f"%{self._count}", f"%s{self._count}"
        carried = [f"{name}_{i}" for i in range(len(sums))]
        starts = ", ".join(f"{c} = {s}" for c, s in zip(carried, sums, strict=True))
        types = ", ".join([_SUMS] * len(sums))
        self.lines.append(
            f"{name}:{len(sums)} = scf.for {index} = {bounds[0]} to {bounds[1]} step "
            f"{bounds[2]} iter_args({starts}) -> ({types}) : i64 {{"
        )
        results = body(index, carried)
        self.lines += [f"scf.yield {', '.join(results)} : {types}", "}"]
        return [f"{name}#{i}" for i in range(len(sums))]


_SUMS = "vector<16xi32>"
_BYTES = "vector<64xi8>"


@dataclass(frozen=True)
class _Tile:
    """Some rows and vectors of columns."""

    product: Product
    code: _Code
    rows: int
    vectors: int
    rest: int
    """How many columns the last vector has, if they are less than 16; otherwise 0."""

    def compute(self, lhs: str, weights: str, excess: str, result: str) -> None:
        """Add what there is at these pointers to the sums at the last one."""
        code, row = self.code, self.product.rows[-1]
        start = [
            code.add(
                f"llvm.load {code.at(excess, 64 * v)} {{alignment = 4 : i64}} : "
                f"!llvm.ptr -> {_SUMS}"
            )
            for v in range(self.vectors)
        ]
        places = [
            (code.at(result, 4 * row.result * r + 64 * v), v)
            for r in range(self.rows)
            for v in range(self.vectors)
        ]
        sums = [
            code.add(f"arith.addi {self._load(place, v)}, {start[v]} : {_SUMS}")
            for place, v in places
        ]
        zero = code.constant(0)
        sums = self._reduced(0, sums, lhs, zero, weights, zero)
        for (place, v), value in zip(places, sums, strict=True):
            self._store(place, v, value)

    def _mask(self, vector: int) -> str | None:
        if not self.rest or vector + 1 < self.vectors:
            return None
        bits = ", ".join(str(i < self.rest).lower() for i in range(_LANES))
        return self.code.add(f"arith.constant dense<[{bits}]> : vector<16xi1>")

    def _load(self, place: str, vector: int) -> str:
        code = self.code
        if (mask := self._mask(vector)) is None:
            return code.add(
                f"llvm.load {place} {{alignment = 4 : i64}} : !llvm.ptr -> {_SUMS}"
            )
        zeros = code.add(f"arith.constant dense<0> : {_SUMS}")
        return code.add(
            f"llvm.intr.masked.load {place}, {mask}, {zeros} {{alignment = 4 : i32}} : "
            f"(!llvm.ptr, vector<16xi1>, {_SUMS}) -> {_SUMS}"
        )

    def _store(self, place: str, vector: int, value: str) -> None:
        if (mask := self._mask(vector)) is None:
            line = (
                f"llvm.store {value}, {place} {{alignment = 4 : i64}} : {_SUMS}, "
                "!llvm.ptr"
            )
        else:
            line = (
                f"llvm.intr.masked.store {value}, {place}, {mask} {{alignment = 4 : i32}} "
                f": {_SUMS}, vector<16xi1> into !llvm.ptr"
            )
        self.code.lines.append(line)

    def _reduced(
        self,
        depth: int,
        sums: Sequence[str],
        lhs: str,
        lhs_offset: str,
        weights: str,
        weights_offset: str,
    ) -> Sequence[str]:
        """The sums after the loops from a depth on."""
        product, code = self.product, self.code
        *outer, run = product.reductions
        step = 64 * self.vectors

        if depth < len(outer):
            inside = step * product.steps
            for loop in outer[depth + 1 :]:
                inside *= loop.size

            def iteration(index: str, sums: Sequence[str]) -> Sequence[str]:
                return self._reduced(
                    depth + 1,
                    sums,
                    lhs,
                    code.sum(lhs_offset, index, outer[depth].lhs),
                    weights,
                    code.sum(weights_offset, index, inside),
                )

            return code.summed(outer[depth].size, sums, iteration)

        def group(index: str, sums: Sequence[str]) -> Sequence[str]:
            at_lhs = code.at(lhs, code.sum(lhs_offset, index, 4))
            at_weights = code.at(weights, code.sum(weights_offset, index, step))
            return self._added(sums, at_lhs, at_weights, 4)

        whole, rest = divmod(run.size, 4)
        if whole:
            sums = code.summed(whole, sums, group)
        if rest:
            at_lhs = code.at(code.at(lhs, lhs_offset), 4 * whole)
            at_weights = code.at(code.at(weights, weights_offset), step * whole)
            sums = self._added(sums, at_lhs, at_weights, rest)
        return sums

    def _added(
        self, sums: Sequence[str], lhs: str, weights: str, count: int
    ) -> Sequence[str]:
        """The sums with the products of up to four bytes of each row added."""
        code, row = self.code, self.product.rows[-1]
        right = [
            code.add(
                f"llvm.load {code.at(weights, 64 * v)} {{alignment = 64 : i64}} : "
                f"!llvm.ptr -> {_BYTES}"
            )
            for v in range(self.vectors)
        ]
        results: list[str] = []
        for r in range(self.rows):
            left = self._broadcast(code.at(lhs, r * row.lhs), count)
            for v in range(self.vectors):
                results.append(
                    code.add(
                        f'llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"('
                        f"{sums[r * self.vectors + v]}, {left}, {right[v]}) : "
                        f"({_SUMS}, {_BYTES}, {_BYTES}) -> {_SUMS}"
                    )
                )
        return results

    def _broadcast(self, place: str, count: int) -> str:
        """A vector of equal groups of four bytes, of which only some are read."""
        code = self.code
        value = self._group(place, count)
        if self.product.is_signed:
            value = code.add(
                f"arith.xori {value}, {code.constant(-0x7F7F7F80, 'i32')} : i32"
            )
        poison = code.add(f"llvm.mlir.poison : {_SUMS}")
        zero = code.constant(0, "i32")
        first = code.add(
            f"llvm.insertelement {value}, {poison}[{zero} : i32] : {_SUMS}"
        )
        zeros = ", ".join(["0"] * _LANES)
        all_ = code.add(f"llvm.shufflevector {first}, {poison} [{zeros}] : {_SUMS}")
        return code.add(f"llvm.bitcast {all_} : {_SUMS} to {_BYTES}")

    def _group(self, place: str, count: int) -> str:
        code = self.code

        def loaded(place: str, bits: int) -> str:
            value = code.add(
                f"llvm.load {place} {{alignment = 1 : i64}} : !llvm.ptr -> i{bits}"
            )
            return (
                value
                if bits == 32
                else code.add(f"arith.extui {value} : i{bits} to i32")
            )

        if count != 3:
            return loaded(place, 8 * count)
        low, high = loaded(place, 16), loaded(code.at(place, 2), 8)
        shifted = code.add(f"arith.shli {high}, {code.constant(16, 'i32')} : i32")
        return code.add(f"arith.ori {low}, {shifted} : i32")


class _Function:
    """The function that computes a product."""

    def __init__(self, name: str, product: Product):
        self.name = name
        self.product = product
        self.code = _Code()
        self.constants: list[str] = []
        width = product.weights.shape[1]
        self.whole, self.rest = divmod(width, _LANES)
        count, row = self.whole + bool(self.rest), product.rows[-1].size
        self.vectors = min(count, 8 if row == 1 else 4)
        # Tiles of about the same size.
        most = min(_REGISTERS // self.vectors, _MOST_ROWS)
        self.tile_rows = -(-row // -(-row // most))

    def constant(self, kind: str, array: NDArray[np.integer], element: str) -> str:
        """The pointer to a new constant."""
        type_ = f"memref<{array.size}x{element}>"
        dense = f'"0x{array.tobytes().hex()}"' if array.any() else "0"
        symbol = f"@{self.name}_{kind}"
        self.constants.append(
            f'memref.global "private" constant {symbol} : {type_} = dense<{dense}> '
            "{alignment = 64 : i64}"
        )
        value = self.code.add(f"memref.get_global {symbol} : {type_}")
        return self.code.pointer(value, type_, 0)

    def add_columns(self, lhs: str, result: str) -> None:
        """Add the loops over all columns."""
        code, product = self.code, self.product
        packed = product.packed(self.vectors)
        excess = np.zeros((self.whole + 1) * _LANES, np.int32)
        excess[: product.excess.size] = product.excess
        weights = self.constant("weights", packed, "i8")
        sums = self.constant("excess", excess, "i32")
        zero = code.constant(0)
        tiles, more = divmod(self.whole, self.vectors)
        tile_bytes = len(product.weights) // product.reductions[-1].size
        tile_bytes *= 64 * product.steps * self.vectors
        if tiles:
            with code.loop(tiles) as index:
                offset = code.sum(zero, index, 64 * self.vectors)
                at_weights = code.at(weights, code.sum(zero, index, tile_bytes))
                tile = at_weights, code.at(sums, offset), self.vectors, 0
                self.add_rows(lhs, code.at(result, offset), product.rows, tile)
        if more or self.rest:
            offset = 64 * self.vectors * tiles
            at_weights = code.at(weights, tile_bytes * tiles)
            count = more + bool(self.rest)
            tile = at_weights, code.at(sums, offset), count, self.rest
            self.add_rows(lhs, code.at(result, offset), product.rows, tile)

    def add_rows(
        self,
        lhs: str,
        result: str,
        loops: Sequence[Loop],
        tile: tuple[str, str, int, int],
    ) -> None:
        """Add the loops over rows, for some columns."""
        code = self.code
        loop, *inner = loops
        step = 1 if inner else self.tile_rows
        count, left = divmod(loop.size, step)
        with code.loop(count) as index:
            zero = code.constant(0)
            at_lhs = code.at(lhs, code.sum(zero, index, step * loop.lhs))
            at_result = code.at(result, code.sum(zero, index, 4 * step * loop.result))
            if inner:
                self.add_rows(at_lhs, at_result, inner, tile)
            else:
                self.add_tile(at_lhs, at_result, step, tile)
        if left:
            at_lhs = code.at(lhs, count * step * loop.lhs)
            at_result = code.at(result, 4 * count * step * loop.result)
            self.add_tile(at_lhs, at_result, left, tile)

    def add_tile(
        self, lhs: str, result: str, rows: int, tile: tuple[str, str, int, int]
    ) -> None:
        """Add what computes a tile."""
        weights, sums, vectors, rest = tile
        computed = _Tile(self.product, self.code, rows, vectors, rest)
        computed.compute(lhs, weights, sums, result)


def product_text(
    name: str, lhs: tuple[str, int], result: tuple[str, int], product: Product
) -> str:
    """
    The text of a private function that adds a product to the sums in a memref, and of its
    constants.

    Args:
        name: that of the function; those of constants begin with it.
        lhs: the memref type of its first argument, the bytes in memory, and its offset in
            elements.
        result: those of its second argument, the sums.
        product: the loops, and the right factor.
    """
    function = _Function(name, product)
    code = function.code
    function.add_columns(
        code.pointer("%lhs", *lhs), code.pointer("%result", result[0], 4 * result[1])
    )
    return "\n".join(
        [
            *function.constants,
            f"func.func private @{name}(%lhs: {lhs[0]}, %result: {result[0]})",
            'attributes {passthrough = ["noinline"]} {',
            *code.lines,
            "return",
            "}",
        ]
    )
