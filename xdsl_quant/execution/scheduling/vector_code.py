"""Builder of vector functions as MLIR text."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..entry_point import OpLines

LANES = 16
"""Number of elements per vector."""

INTEGER_OPS = {
    *("arith.addi", "arith.andi", "arith.extsi", "arith.extui", "arith.muli"),
    *("arith.ori", "arith.select", "arith.shli", "arith.shrsi", "arith.subi"),
    *("arith.trunci", "arith.xori"),
}
"""Integer ops that support vectors."""


Names: TypeAlias = Sequence[str]
"""Names of SSA values in the text of a function."""


class Axis(NamedTuple):
    """Loop along an axis of memrefs."""

    size: int

    steps: Sequence[int]
    """Byte stride of each memref."""


def coalesce_loops(loops: Sequence[Axis], memrefs: int) -> list[Axis]:
    """Return a loop nest over memrefs with contiguous loops coalesced."""
    result: list[Axis] = []
    for loop in loops:
        if loop.size == 1:
            continue
        if result and [*result[-1].steps] == [loop.size * step for step in loop.steps]:
            result[-1] = Axis(result[-1].size * loop.size, loop.steps)
        else:
            result.append(loop)
    return result or [Axis(1, [1] * memrefs)]


def packed_loops(loops: Sequence[Axis], size: int) -> list[Axis]:
    """
    Prepend the stride in a packed memref to the strides of each loop. This memref has
    `size` contiguous bytes per innermost iteration.
    """
    result: list[Axis] = []
    for loop in reversed(loops):
        result.insert(0, Axis(loop.size, [size, *loop.steps]))
        size *= loop.size
    return result


class Memref(NamedTuple):
    """Memref argument of a function."""

    type: str

    element: str

    offset: int
    """Offset of the first element in bytes."""


class Code(OpLines):
    """Function body under construction."""

    def constant(self, value: int, type_: str = "i64") -> str:
        return self.add(f"arith.constant {value} : {type_}")

    def splat(self, value: object, type_: str) -> str:
        return self.add(f"arith.constant dense<{value}> : {type_}")

    def sum(self, value: str, index: str, step: int) -> str:
        """Return `value + index * step`."""
        if not step:
            return value
        product = self.add(f"arith.muli {index}, {self.constant(step)} : i64")
        return self.add(f"arith.addi {value}, {product} : i64")

    def at(self, pointer: str, offset: str | int) -> str:
        """Return a pointer advanced by a byte offset."""
        if isinstance(offset, int):
            type_ = "(!llvm.ptr) -> !llvm.ptr"
        else:
            type_ = "(!llvm.ptr, i64) -> !llvm.ptr"
        return self.add(f"llvm.getelementptr {pointer}[{offset}] : {type_}, i8")

    def advance(
        self, pointers: Names, index: str | int, steps: Sequence[int]
    ) -> list[str]:
        """Return the pointers, each advanced by `index` times its byte stride."""
        if isinstance(index, int):
            return [self.at(p, index * s) for p, s in zip(pointers, steps, strict=True)]
        zero = self.constant(0)
        return [
            self.at(pointer, self.sum(zero, index, step)) if step else pointer
            for pointer, step in zip(pointers, steps, strict=True)
        ]

    def pointer(self, memref: str, type_: str, offset: int) -> str:
        """Return the pointer to a byte of a memref."""
        index = self.add(
            f"memref.extract_aligned_pointer_as_index {memref} : {type_} -> index"
        )
        address = self.add(f"arith.index_cast {index} : index to i64")
        pointer = self.add(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
        return self.at(pointer, offset)

    def arguments(self, memrefs: Sequence[Memref]) -> list[str]:
        """Return the pointers to the first elements of a function's memrefs."""
        return [
            self.pointer(f"%m{i}", memref.type, memref.offset)
            for i, memref in enumerate(memrefs)
        ]

    def load(self, pointer: str, type_: str, alignment: int = 1) -> str:
        return self.add(
            f"llvm.load {pointer} {{alignment = {alignment} : i64}} : !llvm.ptr -> {type_}"
        )

    def store(self, value: str, pointer: str, type_: str, alignment: int = 1) -> None:
        self.lines.append(
            f"llvm.store {value}, {pointer} {{alignment = {alignment} : i64}} : "
            f"{type_}, !llvm.ptr"
        )

    def load_lanes(self, pointer: str, element: str, count: int = LANES) -> str:
        """Load `count` elements into a vector whose other lanes are 0."""
        vector = f"vector<{LANES}x{element}>"
        if count == LANES:
            return self.load(pointer, vector)
        bits = ", ".join(str(i < count).lower() for i in range(LANES))
        mask = self.splat(f"[{bits}]", f"vector<{LANES}xi1>")
        zeros = self.splat(0, vector)
        return self.add(
            f"llvm.intr.masked.load {pointer}, {mask}, {zeros} {{alignment = 1 : i32}} : "
            f"(!llvm.ptr, vector<{LANES}xi1>, {vector}) -> {vector}"
        )

    def store_lanes(
        self, pointer: str, value: str, element: str, count: int = LANES
    ) -> None:
        """
        Store the first `count` elements of a vector. Partial vectors are stored in
        parts: LLVM 22 writes too many bytes when it masks a store of one narrowed
        element.
        """
        vector = f"vector<{LANES}x{element}>"
        size, start, part = LANES, 0, value
        while start < count:
            while size > count - start:
                size //= 2
            if size < LANES:
                part = self.shuffle(value, value, vector, range(start, start + size))
            place = self.at(pointer, start * int(element[1:]) // 8)
            self.store(part, place, f"vector<{size}x{element}>")
            start += size

    def load_group(self, pointer: str, count: int) -> str:
        """Load up to four bytes as an i32."""

        def loaded(place: str, bits: int) -> str:
            value = self.load(place, f"i{bits}")
            return (
                value
                if bits == 32
                else self.add(f"arith.extui {value} : i{bits} to i32")
            )

        if count != 3:
            return loaded(pointer, 8 * count)
        low, high = loaded(pointer, 16), loaded(self.at(pointer, 2), 8)
        shifted = self.add(f"arith.shli {high}, {self.constant(16, 'i32')} : i32")
        return self.add(f"arith.ori {low}, {shifted} : i32")

    def shuffle(self, a: str, b: str, type_: str, lanes: Iterable[int]) -> str:
        """Shuffle the elements of two vectors of one type."""
        indices = ", ".join(map(str, lanes))
        return self.add(f"llvm.shufflevector {a}, {b} [{indices}] : {type_}")

    @contextmanager
    def loop(self, size: int) -> Generator[str]:
        """Add a loop from 0 to `size`; code added inside the context is its body."""
        bounds = [self.constant(n) for n in (0, size, 1)]
        self._count += 1
        index = f"%{self._count}"
        self.lines.append(
            f"scf.for {index} = {bounds[0]} to {bounds[1]} step {bounds[2]} : i64 {{"
        )
        yield index
        self.lines.append("}")

    def tiles(
        self, pointers: Names, count: int, size: int, steps: Sequence[int]
    ) -> Iterator[tuple[list[str], int]]:
        """
        Add a loop over tiles, and a smaller tile for the remainder. Code that is added
        while a tile is current becomes part of its body.

        Args:
            pointers: pointers of the first tile.
            count: total number of iterations.
            size: number of iterations per tile.
            steps: byte strides between tiles.

        Yields:
            the pointers of a tile and its number of iterations.
        """
        whole, rest = divmod(count, size)
        if whole:
            with self.loop(whole) as index:
                yield self.advance(pointers, index, steps), size
        if rest:
            yield self.advance(pointers, whole, steps), rest

    @contextmanager
    def nest(self, loops: Sequence[Axis], pointers: Names) -> Generator[Names]:
        """Add nested loops; the context value is the list of pointers in their body."""
        if not loops:
            yield pointers
            return
        loop, *inner = loops
        with self.loop(loop.size) as index:
            cursors = self.advance(pointers, index, loop.steps)
            with self.nest(inner, cursors) as innermost:
                yield innermost

    def reduction_loop(
        self, size: int, values: Names, type_: str, body: Callable[[str, Names], Names]
    ) -> Names:
        """Add a loop that carries values of one type, and return its results."""
        if size == 1:
            return body(self.constant(0), values)
        bounds = [self.constant(n) for n in (0, size, 1)]
        self._count += 1
        index, name = f"%{self._count}", f"%s{self._count}"
        carried = [f"{name}_{i}" for i in range(len(values))]
        starts = ", ".join(f"{c} = {s}" for c, s in zip(carried, values, strict=True))
        types = ", ".join([type_] * len(values))
        self.lines.append(
            f"{name}:{len(values)} = scf.for {index} = {bounds[0]} to {bounds[1]} step "
            f"{bounds[2]} iter_args({starts}) -> ({types}) : i64 {{"
        )
        results = body(index, carried)
        self.lines += [f"scf.yield {', '.join(results)} : {types}", "}"]
        return [f"{name}#{i}" for i in range(len(values))]

    def reduction_nest(
        self,
        loops: Sequence[Axis],
        pointers: Names,
        values: Names,
        type_: str,
        body: Callable[[Names, Names], Names],
    ) -> Names:
        """Add nested loops that carry values of one type, and return their results."""
        if not loops:
            return body(pointers, values)
        loop, *inner = loops

        def iteration(index: str, values: Names) -> Names:
            cursors = self.advance(pointers, index, loop.steps)
            return self.reduction_nest(inner, cursors, values, type_, body)

        return self.reduction_loop(loop.size, values, type_, iteration)


def function_lines(name: str, memrefs: Sequence[Memref], code: Code) -> Names:
    """Return the lines of a private function on the memrefs of `Code.arguments`."""
    arguments = [f"%m{i}: {memref.type}" for i, memref in enumerate(memrefs)]
    return [
        f"func.func private @{name}({', '.join(arguments)})",
        'attributes {passthrough = ["noinline"]} {',
        *code.lines,
        "return",
        "}",
    ]


class ColumnTable:
    """Per-column constants in memory: 64 bytes per constant and column vector."""

    def __init__(self, width: int):
        self.vectors = -(-width // LANES)
        self._width = width
        self._rows: list[bytes] = []

    def add(self, numbers: NDArray[np.int64], dtype: str = "<i4") -> int:
        """Add a constant (one number, or one per column); return its byte offset."""
        columns = np.zeros(self.vectors * LANES, np.int64)
        columns[: self._width] = numbers
        return self._add(columns.reshape(self.vectors, LANES).astype(dtype))

    def add_halves(self, numbers: NDArray[np.int64]) -> tuple[int, int]:
        """Add a 64-bit constant; return the offsets of its even and odd columns."""
        columns = np.zeros(self.vectors * LANES, np.int64)
        columns[: self._width] = numbers
        even, odd = columns.reshape(self.vectors, -1, 2).transpose(2, 0, 1)
        return self._add(even), self._add(odd)

    def _add(self, rows: NDArray[np.integer]) -> int:
        data = np.ascontiguousarray(rows).tobytes()
        if data not in self._rows:
            self._rows.append(data)
        return self._rows.index(data) * 4 * LANES * self.vectors

    @property
    def data(self) -> NDArray[np.uint8]:
        return np.frombuffer(b"".join(self._rows), np.uint8)


class Globals:
    """Constants of a function, as memref globals."""

    def __init__(self, name: str):
        """`name` is the prefix of the constants' names."""
        self.lines: list[str] = []
        self._name = name

    def pointer(self, code: Code, kind: str, size: int) -> str:
        """Return the pointer to a constant of `size` bytes; data is defined later."""
        type_ = f"memref<{size}xi8>"
        value = code.add(f"memref.get_global @{self._name}_{kind} : {type_}")
        return code.pointer(value, type_, 0)

    def define(self, kind: str, data: NDArray[np.integer]) -> None:
        dense = f'"0x{data.tobytes().hex()}"' if data.any() else "0"
        self.lines.append(
            f'memref.global "private" constant @{self._name}_{kind} : '
            f"memref<{data.nbytes}xi8> = dense<{dense}> {{alignment = 64 : i64}}"
        )


# Vectors of 64 bytes, as 16 groups of four


SUMS = "vector<16xi32>"
BYTES = "vector<64xi8>"

SIGNS = -0x7F7F7F80
"""Sign bits of four bytes."""


def accumulate_products(code: Code, bits: int, sums: str, lhs: str, rhs: str) -> str:
    """Accumulate groups of four products with `vpdpbusd` on 512 or 2 x 256 bits."""
    if bits == 512:
        return _vpdpbusd(code, bits, sums, lhs, rhs)
    low, high = (
        _vpdpbusd(
            code,
            bits,
            code.shuffle(sums, sums, SUMS, range(start, start + 8)),
            code.shuffle(lhs, lhs, BYTES, range(4 * start, 4 * start + 32)),
            code.shuffle(rhs, rhs, BYTES, range(4 * start, 4 * start + 32)),
        )
        for start in (0, 8)
    )
    return code.shuffle(low, high, "vector<8xi32>", range(LANES))


def _vpdpbusd(code: Code, bits: int, total: str, left: str, right: str) -> str:
    sums, bytes_ = f"vector<{bits // 32}xi32>", f"vector<{bits // 8}xi8>"
    return code.add(
        f'llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.{bits}"({total}, {left}, {right}) '
        f": ({sums}, {bytes_}, {bytes_}) -> {sums}"
    )


def high_halves(code: Code, packed: str) -> Names:
    """Return 16 times the 4-bit numbers in the lower, and in the upper, halves of bytes."""
    four, mask = code.splat(4, SUMS), code.splat(wrap_to_i32(0xF0F0F0F0), SUMS)
    shifted = code.add(f"arith.shli {packed}, {four} : {SUMS}")
    masked = (
        code.add(f"arith.andi {value}, {mask} : {SUMS}") for value in (shifted, packed)
    )
    return [bitcast_to_bytes(code, value) for value in masked]


def broadcast_i32(code: Code, value: str) -> str:
    poison = code.add(f"llvm.mlir.poison : {SUMS}")
    zero = code.constant(0, "i32")
    first = code.add(f"llvm.insertelement {value}, {poison}[{zero} : i32] : {SUMS}")
    return code.shuffle(first, poison, SUMS, [0] * LANES)


def interleave_bytes(code: Code, parts: Names) -> str:
    """Interleave the bytes of up to four vectors by lane; missing vectors are 0."""
    part, half = f"vector<{LANES}xi8>", f"vector<{2 * LANES}xi8>"
    if len(parts) < 4:
        parts = [*parts, *[code.splat(0, part)] * (4 - len(parts))]
    first, second, third, last = parts
    low = code.shuffle(first, second, part, range(2 * LANES))
    high = code.shuffle(third, last, part, range(2 * LANES))
    all_ = code.shuffle(low, high, half, range(4 * LANES))
    # Groups of four lanes, then the bytes of each lane in a group
    all_ = bitcast_to_sums(code, all_)
    all_ = code.shuffle(
        all_, all_, SUMS, [4 * row + i for i in range(4) for row in range(4)]
    )
    all_ = bitcast_to_bytes(code, all_)
    lanes = [
        16 * i + 4 * row + column
        for i in range(4)
        for column in range(4)
        for row in range(4)
    ]
    return code.shuffle(all_, all_, BYTES, lanes)


def bitcast_to_bytes(code: Code, value: str) -> str:
    return code.add(f"llvm.bitcast {value} : {SUMS} to {BYTES}")


def bitcast_to_sums(code: Code, value: str) -> str:
    return code.add(f"llvm.bitcast {value} : {BYTES} to {SUMS}")


def wrap_to_i32(number: int) -> int:
    """Return the lower 32 bits of a number as a signed integer."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)
