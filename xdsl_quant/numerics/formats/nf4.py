"""
NF4 of bitsandbytes, whose elements are indices into a table of 16 quantiles of a normal
distribution ([Dettmers et al. 2023](https://arxiv.org/abs/2305.14314), appendix E).

A block consists of 64 consecutive elements of the flattened array; with double
quantization, a block of scales consists of 256 consecutive scales.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, check_finite, counts_below
from .bits import Bytes, join_bits, split_bits
from .block_scaled import F32, BlockScaled, ParameterTypes, Shape, Stored, f32_values
from .format import Format

NF4_TABLE = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""Numbers represented by the elements; each is representable in f32."""

_ZERO = NF4_TABLE.index(0)

_OF_SCALES = 256
"""Number of scales that share an f32 scale."""

_SMALLEST = np.float32(1e-38)
"""Smallest divisor, which replaces smaller scales."""


@cache
def dynamic_table() -> tuple[float, ...]:
    """
    Return the 256 numbers represented by quantized scales: 0, 1, and 127 numbers with both
    signs. For each `i` from 0 to 6, these are the midpoints of `2**i` equal parts of the
    range from `10**(i - 7)` to `10**(i - 6)` ([Dettmers
    2016](https://arxiv.org/abs/1511.04561)).

    Each number is rounded to f32 once. bitsandbytes computes in f32, in an order of
    operations that depends on the CPU, so some of its numbers differ by 1 ulp.
    """
    positive = [
        10.0 ** (i - 6) * (0.1 + 0.9 * (part + 0.5) / 2**i)
        for i in range(7)
        for part in range(2**i)
    ]
    rounded: list[float] = np.array(positive, np.float32).tolist()
    return tuple(sorted([*rounded, *(-number for number in rounded), 0.0, 1.0]))


@dataclass(frozen=True)
class NF4(Format):
    """
    NF4, packed as the tensors of a checkpoint: `weight`, with two elements per byte, the
    first in the upper half; `absmax`, the scales; `quant_map`, the table; and, with double
    quantization, `nested_absmax` and `nested_quant_map`. `shape` and `nested_offset` are
    arrays here, but part of a JSON object in a checkpoint.
    """

    @property
    def parameter_types(self) -> Sequence[ParameterTypes]:
        return [{"scales": ("f32",)}, {"scales": ("u8", "f32")}]

    def quantize(
        self,
        values: ArrayLike,
        *,
        quantizes_scales: bool = False,
        offset: float | None = None,
        table: Sequence[float] | None = None,
    ) -> BlockScaled:
        """
        Quantize values to this format. A scale is the largest magnitude of its block.

        Args:
            values: finite numbers in at least one dimension, which are rounded to f32.
            quantizes_scales: True for double quantization: scales are stored in 8 bits,
                with one f32 scale per 256 scales.
            offset: the number subtracted from scales before they are quantized; by default
                their mean, rounded to f32. The mean that PyTorch computes for bitsandbytes
                may differ by 1 ulp.
            table: the 256 numbers represented by quantized scales; by default
                [`dynamic_table`][xdsl_quant.numerics.formats.nf4.dynamic_table].

        Warns:
            RuntimeWarning: if nonzero values of a block all become 0.

        Raises:
            TypeError: if values are not numeric.
            ValueError: if a value is infinite or NaN, or the blocks of consecutive elements
                differ in shape.
        """
        array = f32_values(values)
        check_finite(array, f"values for {self.name}")
        block_shape = flat_block_shape(array.shape, self.block)
        largest, codes = _scaled_codes(array.reshape(-1), self.block)
        counts = [-(-n // b) for n, b in zip(array.shape, block_shape, strict=True)]
        scales = Stored(largest.reshape(counts), "f32")
        if quantizes_scales:
            scales = _quantized_scales(scales.codes, offset, table)
        stored = BlockScaled(
            codes.reshape(array.shape),
            self.type,
            NF4_TABLE,
            block_shape=block_shape,
            scales=scales,
        )
        return self.warn_of_zeros(values, stored)

    def check_elements(self, stored: BlockScaled):
        expected = flat_block_shape(stored.shape, self.block)
        if (stored.table, stored.block_shape) != (NF4_TABLE, expected):
            table = "NF4_TABLE" if stored.table == NF4_TABLE else "another table"
            raise ValueError(
                f"expected elements of type {self.type} with NF4_TABLE in blocks of shape "
                f"{expected} for {self.name}, found {stored.type} with {table} in blocks "
                f"of shape {stored.block_shape}"
            )

    def pack(self, stored: BlockScaled) -> dict[str, Array]:
        self.check(stored)
        codes = stored.codes
        if codes.size % 2:
            codes = np.append(codes, np.uint8(_ZERO))
        pairs = codes.reshape(-1, 2)[:, ::-1]
        scales = stored.scales
        packed = {
            "weight": join_bits(pairs, 4),
            "absmax": scales.codes.reshape(-1),
            "quant_map": np.array(NF4_TABLE, np.float32),
            "shape": np.array(stored.shape),
        }
        if isinstance(scales, BlockScaled) and scales.offsets is not None:
            packed["nested_absmax"] = scales.scales.codes.reshape(-1)
            packed["nested_quant_map"] = np.array(scales.table, np.float32)
            packed["nested_offset"] = scales.offsets.codes.reshape(-1)[0]
        return packed

    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        weight, absmax, numbers = self.arrays(packed, "weight", "absmax", "shape")
        shape: Shape = tuple(numbers.tolist())
        size = int(numbers.prod())
        if weight.dtype != np.uint8 or weight.size != -(-size // 2):
            raise ValueError(
                f"expected {-(-size // 2)} bytes for {self.name} of shape {shape}, found "
                f"{weight.dtype} of shape {weight.shape}"
            )
        codes = split_bits(weight.reshape(-1, 1), 4)[:, ::-1].reshape(-1)[:size]
        block_shape = flat_block_shape(shape, self.block)
        counts = [-(-n // b) for n, b in zip(shape, block_shape, strict=True)]
        absmax = absmax.reshape(counts)
        if "nested_absmax" in packed:
            names = "nested_absmax", "nested_quant_map", "nested_offset"
            of_scales, table, offset = self.arrays(packed, *names)
            scales = _stored_scales(absmax, of_scales, table.tolist(), float(offset))
        else:
            scales = Stored(absmax, "f32")
        return BlockScaled(
            codes.reshape(shape),
            self.type,
            NF4_TABLE,
            block_shape=block_shape,
            scales=scales,
        )


def flat_block_shape(shape: Shape, size: int) -> Shape:
    """
    Return the shape of a block of consecutive elements of the flattened array.

    Raises:
        ValueError: if the blocks do not have a common shape.
    """
    block_shape: list[int] = []
    rest = size
    for axis in reversed(range(len(shape))):
        length = shape[axis]
        block = min(length, rest)
        # Only the last block of the array may be shorter.
        is_cut = length % rest and rest % length and prod(shape[: axis + 1]) > rest
        if is_cut and prod(shape[:axis]) > 1:
            raise ValueError(
                f"expected a shape that blocks of {size} consecutive elements divide "
                f"evenly, found {shape}; use values.reshape(-1)"
            )
        block_shape.insert(0, block)
        rest = max(rest // length, 1)
    return tuple(block_shape)


def _padded_blocks(flat: F32, size: int) -> tuple[F32, bool]:
    """Return the blocks of a flat array, and True if the last one is padded with 0."""
    padding = -flat.size % size
    return np.pad(flat, (0, padding)).reshape(-1, size), padding > 0


def _nearest_codes(ties: Array, quotients: Array) -> Bytes:
    """Return a flat array of nearest table indices. Ties go to the smaller index."""
    return counts_below(ties, quotients.reshape(-1)).astype(np.uint8, copy=False)


def _scaled_codes(flat: F32, size: int) -> tuple[F32, Bytes]:
    """Return the largest magnitude of each block, and the codes of its elements."""
    blocks, is_shorter = _padded_blocks(flat, size)
    largest = np.abs(blocks).max(1)
    if is_shorter:
        largest[-1] = max(largest[-1], _SMALLEST)
    divisors = np.maximum(largest, _SMALLEST)[:, np.newaxis]
    quotients = blocks * (1 / divisors)
    if is_shorter:
        quotients[-1] = blocks[-1] / divisors[-1]
    elements = np.array(NF4_TABLE, np.float32)
    ties = (elements[:-1] + elements[1:]) / 2
    return largest, _nearest_codes(ties, quotients)[: flat.size]


def _quantized_scales(
    scales: F32, offset: float | None, table: Sequence[float] | None
) -> BlockScaled:
    if offset is None:
        offset = float(scales.mean(dtype=np.float64))
    numbers = np.array(dynamic_table() if table is None else table, np.float32)
    blocks, _ = _padded_blocks(scales.reshape(-1) - np.float32(offset), _OF_SCALES)
    of_blocks = np.abs(blocks).max(1)
    inverse = 1 / np.maximum(of_blocks, _SMALLEST)
    # As in bitsandbytes, which looks up the nearest number of 65536 quotients from -1 to 1,
    # round to these quotients first.
    quotients = blocks * inverse[:, np.newaxis]
    steps = np.floor(
        (quotients + np.float32(1)) * np.float32(32767.5) + np.float32(0.5)
    )
    ties = (numbers[:-1].astype(np.float64) + numbers[1:]) / 2
    codes = _nearest_codes(ties, steps.astype(np.float64) / 32767.5 - 1)[: scales.size]
    codes = codes.reshape(scales.shape)
    return _stored_scales(codes, of_blocks, numbers.tolist(), offset)


def _stored_scales(
    codes: Array, of_blocks: Array, table: Sequence[float], offset: float
) -> BlockScaled:
    block_shape = flat_block_shape(codes.shape, _OF_SCALES)
    counts = [-(-n // b) for n, b in zip(codes.shape, block_shape, strict=True)]
    return BlockScaled(
        codes,
        "u8",
        tuple(table),
        block_shape=block_shape,
        scales=Stored(of_blocks.reshape(counts), "f32"),
        offsets=Stored(np.full(counts, offset, np.float32), "f32"),
    )


NF4_FORMAT = NF4("NF4", "u4", 64)
