"""The text of ops on vectors of 64 bytes, in groups of four for each of 16 sums."""

from __future__ import annotations

from collections.abc import Sequence

from .vector_code import LANES, Code

SUMS = "vector<16xi32>"
BYTES = "vector<64xi8>"

SIGNS = -0x7F7F7F80
"""The highest bits of four bytes."""


def with_products(code: Code, bits: int, sums: str, lhs: str, rhs: str) -> str:
    """
    Sums with groups of four products added, by `vpdpbusd` on one vector of 512 bits or on
    two of 256.
    """
    if bits == 512:
        return _vpdpbusd(code, bits, sums, lhs, rhs)
    low, high = (
        _vpdpbusd(
            code,
            bits,
            code.shuffled(sums, sums, SUMS, range(start, start + 8)),
            code.shuffled(lhs, lhs, BYTES, range(4 * start, 4 * start + 32)),
            code.shuffled(rhs, rhs, BYTES, range(4 * start, 4 * start + 32)),
        )
        for start in (0, 8)
    )
    return code.shuffled(low, high, "vector<8xi32>", range(LANES))


def _vpdpbusd(code: Code, bits: int, total: str, left: str, right: str) -> str:
    sums, bytes_ = f"vector<{bits // 32}xi32>", f"vector<{bits // 8}xi8>"
    return code.add(
        f'llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.{bits}"({total}, {left}, {right}) '
        f": ({sums}, {bytes_}, {bytes_}) -> {sums}"
    )


def repeated(code: Code, value: str) -> str:
    """A vector of equal numbers."""
    poison = code.add(f"llvm.mlir.poison : {SUMS}")
    zero = code.constant(0, "i32")
    first = code.add(f"llvm.insertelement {value}, {poison}[{zero} : i32] : {SUMS}")
    return code.shuffled(first, poison, SUMS, [0] * LANES)


def interleaved(code: Code, parts: Sequence[str]) -> str:
    """The bytes of each lane of up to four vectors as a group; others are 0."""
    part, half = f"vector<{LANES}xi8>", f"vector<{2 * LANES}xi8>"
    if len(parts) < 4:
        parts = [*parts, *[code.splat(0, part)] * (4 - len(parts))]
    first, second, third, last = parts
    low = code.shuffled(first, second, part, range(2 * LANES))
    high = code.shuffled(third, last, part, range(2 * LANES))
    all_ = code.shuffled(low, high, half, range(4 * LANES))
    # Groups of four lanes, and then the bytes of each lane in them
    all_ = as_sums(code, all_)
    all_ = code.shuffled(
        all_, all_, SUMS, [4 * row + i for i in range(4) for row in range(4)]
    )
    all_ = as_bytes(code, all_)
    lanes = [
        16 * i + 4 * row + column
        for i in range(4)
        for column in range(4)
        for row in range(4)
    ]
    return code.shuffled(all_, all_, BYTES, lanes)


def as_bytes(code: Code, value: str) -> str:
    """The bytes of 16 numbers."""
    return code.add(f"llvm.bitcast {value} : {SUMS} to {BYTES}")


def as_sums(code: Code, value: str) -> str:
    """Bytes as 16 numbers."""
    return code.add(f"llvm.bitcast {value} : {BYTES} to {SUMS}")


def wrapped_i32(number: int) -> int:
    """The lower 32 bits of a number, with their sign."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)
