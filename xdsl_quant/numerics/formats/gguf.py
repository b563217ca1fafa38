"""
Quantized formats of GGUF files
([`ggml-quants.c`](https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-quants.c)).

| format | element | block | scale | offset | per super-block of 256 |
|---|---|---|---|---|---|
| Q4_0, Q5_0 | 4, 5 bits, signed | 32 | f16 | | |
| Q8_0 | 8 bits, signed | 32 | f16 | | |
| Q4_1, Q5_1 | 4, 5 bits, unsigned | 32 | f16 | f16 | |
| Q2_K | 2 bits, unsigned | 16 | 4 bits | 4 bits | 2 x f16 |
| Q3_K | 3 bits, signed | 16 | 6 bits, signed | | f16 |
| Q4_K, Q5_K | 4, 5 bits, unsigned | 32 | 6 bits | 6 bits | 2 x f16 |
| Q6_K | 6 bits, signed | 16 | 8 bits, signed | | f16 |
| MXFP4 | `f4E2M1FN` | 32 | `f8E8M0FNU` | | |

Scales may be negative. Files store signed elements and scales of less than 8 bits as
unsigned integers: half of their range is added. K-quants in files have minima, which are
subtracted; the offsets here are added, so their f16 scale is the negative of the one in the
file.

Quantization to Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and MXFP4 is bit-identical to the package
`gguf` wherever the result of `gguf` is defined. That result is undefined for very small
scales. Here, elements are 0 if the reciprocal of their scale overflows f32, and a scale
that is too small for a code becomes the smallest scale. Tools quantize to K-quants in
different ways; here the scales and offsets are the candidates with the least squared error.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, Floats, check_finite, counts_below
from ..small_floats import small_float
from .bits import Bytes, join_bits, split_bits
from .block_scaled import (
    F32,
    BlockScaled,
    ParameterTypes,
    Shape,
    Stored,
    blocks_of_rows,
    code_width,
    f32_values,
    to_f16,
)
from .format import Format

SUPER_BLOCK = 256
"""Number of elements in a super-block of a K-quant."""

_PIECE = 1 << 12
"""Number of super-blocks quantized at a time, which bounds memory."""

Planes = Sequence[tuple[int, int]]
"""Bit planes of codes, lowest bits first: `width` and `run` of `join_bits` for each."""

Rounds = Literal["half-up", "half-away"]


@dataclass(frozen=True, kw_only=True)
class GGUFFormat(Format):
    """GGUF format, packed into the array `data`: a row of bytes per row of values."""

    layout: np.dtype[np.void]
    """Fields of a block, or of a super-block."""

    planes: tuple[tuple[str, int, int], ...]
    """Bit planes of elements, each as field name, `width` and `run` of `join_bits`."""

    @property
    def is_signed(self) -> bool:
        """True if elements may be negative."""
        return self.type.startswith("i")

    @property
    def bits(self) -> int:
        """Width of an element."""
        return code_width(self.type)

    def read_fields(self, packed: Mapping[str, Array]) -> NDArray[np.void]:
        (data,) = self.arrays(packed, "data")
        size = self.layout.itemsize
        if data.dtype != np.uint8 or not data.ndim or data.shape[-1] % size:
            raise ValueError(
                f"expected rows of uint8 in blocks of {size} for {self.name}, found "
                f"{data.dtype} of shape {data.shape}"
            )
        return np.ascontiguousarray(data).view(self.layout)

    def pack(self, stored: BlockScaled) -> dict[str, Array]:
        self.check(stored)
        shape = stored.shape
        block_size = self.independent_block_shape(stored)[-1]
        fields = np.zeros((*shape[:-1], shape[-1] // block_size), self.layout)
        self.write_parameters(fields, stored)
        names, planes = self._planes_by_field
        rows = stored.codes.reshape(*fields.shape, -1)
        for name, part in zip(names, _packed_planes(rows, self.type, planes)):
            fields[name] = part
        return {"data": fields.view(np.uint8)}

    @abstractmethod
    def write_parameters(self, fields: NDArray[np.void], stored: BlockScaled) -> None:
        """Write scales and offsets to the fields of all blocks."""

    def read_elements(self, fields: NDArray[np.void]) -> Array:
        """Read elements from their fields, with the blocks of a row concatenated."""
        names, planes = self._planes_by_field
        codes = _unpacked_planes([fields[name] for name in names], self.type, planes)
        return codes.reshape(*fields.shape[:-1], -1)

    @property
    def _planes_by_field(self) -> tuple[Sequence[str], Planes]:
        return [name for name, *_ in self.planes], [
            (width, run) for _, width, run in self.planes
        ]


def _excess(type_name: str) -> np.uint8:
    """Return the number added to codes in files: nonzero for signed codes below 8 bits."""
    is_shifted = type_name.startswith("i") and type_name != "i8"
    return np.uint8(1 << (code_width(type_name) - 1) if is_shifted else 0)


def _packed_planes(codes: Array, type_name: str, planes: Planes) -> Iterator[Bytes]:
    rest = codes.astype(np.uint8) + _excess(type_name)
    for width, run in planes:
        yield join_bits(rest, width, run)
        rest = rest >> np.uint8(width)


def _unpacked_planes(parts: Sequence[Bytes], type_name: str, planes: Planes) -> Array:
    """Unpack codes from the packed bytes of each bit plane."""
    codes, above = np.uint8(0), 0
    for part, (width, run) in zip(parts, planes, strict=True):
        codes = codes | (split_bits(part, width, run) << np.uint8(above))
        above += width
    unsigned = np.asarray(codes - _excess(type_name))
    return unsigned.view(np.int8) if type_name.startswith("i") else unsigned


# Blocks with one scale


@dataclass(frozen=True, kw_only=True)
class GGUFBlocks(GGUFFormat):
    """Format whose blocks have an f16 scale and, for unsigned elements, an f16 offset."""

    rounds: Rounds = "half-up"
    """Rounding of ties: up, or away from zero."""

    @property
    def parameter_types(self) -> Sequence[ParameterTypes]:
        types = {"scales": ("f16",)}
        return [types if self.is_signed else types | {"offsets": ("f16",)}]

    def quantize(self, values: ArrayLike) -> BlockScaled:
        array = f32_values(values)
        blocks = blocks_of_rows(array, self.block, self.name)
        check_finite(array, f"values for {self.name}")
        offsets = None
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scales, lowest = self._scales(blocks)
            inverse = 1 / scales
            inverse[np.isinf(inverse)] = 0
            codes = self._elements(blocks, lowest, inverse)
        if not self.is_signed:
            offsets = Stored(to_f16(lowest[..., 0], f"an offset of {self.name}"), "f16")
        of_blocks = Stored(to_f16(scales[..., 0], f"a scale of {self.name}"), "f16")
        stored = self.stored(
            codes.reshape(array.shape), scales=of_blocks, offsets=offsets
        )
        return self.warn_of_zeros(values, stored)

    def _scales(self, blocks: F32) -> tuple[Array, Array]:
        """Return the scale and the smallest value of each block."""
        lowest = blocks.min(-1, keepdims=True)
        if not self.is_signed:
            steps = (1 << self.bits) - 1
            return (blocks.max(-1, keepdims=True) - lowest) / steps, lowest
        if self.rounds == "half-away":
            return np.abs(blocks).max(-1, keepdims=True) / 127, lowest
        # The value of largest magnitude becomes the smallest element.
        return _of_largest_magnitude(blocks) / -(1 << (self.bits - 1)), lowest

    def _elements(self, blocks: F32, lowest: Array, inverse: Array) -> Array:
        if self.rounds == "half-away":
            quotients = blocks * inverse
            magnitude = np.abs(quotients)
            floor = np.floor(magnitude)
            rounded = floor + (magnitude - floor >= 0.5)
            return np.copysign(rounded, quotients).astype(np.int8)
        last = (1 << self.bits) - 1
        if not self.is_signed:
            sums = (blocks - lowest) * inverse + np.float32(0.5)
            return np.minimum(sums, last).astype(np.uint8)
        half = 1 << (self.bits - 1)
        sums = blocks * inverse + np.float32(half + 0.5)
        return np.minimum(sums, last).astype(np.int8) - np.int8(half)

    def write_parameters(self, fields: NDArray[np.void], stored: BlockScaled) -> None:
        fields["d"] = stored.scales.codes
        if stored.offsets is not None:
            fields["m"] = stored.offsets.codes

    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        fields = self.read_fields(packed)
        return self.stored(
            self.read_elements(fields),
            scales=Stored(fields["d"].copy(), "f16"),
            offsets=None if self.is_signed else Stored(fields["m"].copy(), "f16"),
        )


def _of_largest_magnitude(blocks: Array) -> Array:
    """Return the first number of largest magnitude in each block, with its sign."""
    where = np.abs(blocks).argmax(-1, keepdims=True)
    return np.take_along_axis(blocks, where, -1)


@dataclass(frozen=True, kw_only=True)
class GGUFMXFP4(GGUFFormat):
    """MXFP4 of GGUF. Unlike `MXFormat`, it rounds ties toward zero, and has no -0."""

    @property
    def parameter_types(self) -> Sequence[ParameterTypes]:
        return [{"scales": ("f8E8M0FNU",)}]

    def quantize(self, values: ArrayLike) -> BlockScaled:
        array = f32_values(values)
        blocks = blocks_of_rows(array, self.block, self.name)
        check_finite(array, f"values for {self.name}")
        scale, element = small_float("f8E8M0FNU"), small_float(self.type)
        largest = np.abs(blocks).max(-1).astype(np.float64)
        # Just below a power of two, rounding to f32 makes the logarithm an integer.
        with np.errstate(divide="ignore"):
            logarithms = np.log2(largest).astype(np.float32)
        exponents = np.floor(logarithms) - 2
        scales = np.maximum(exponents + scale.bias, 0).astype(np.uint8)
        magnitudes = element.values[: element.sign_bit].astype(np.float64)
        ties = (magnitudes[1:] + magnitudes[:-1]) / 2
        quotients = blocks / scale.decode(scales)[..., np.newaxis]
        codes = counts_below(ties, np.abs(quotients)).astype(np.uint8, copy=False)
        codes[np.signbit(quotients) & (codes > 0)] |= element.sign_bit
        stored = self.stored(
            codes.reshape(array.shape), scales=Stored(scales, "f8E8M0FNU")
        )
        return self.warn_of_zeros(values, stored)

    def write_parameters(self, fields: NDArray[np.void], stored: BlockScaled) -> None:
        fields["e"] = stored.scales.codes[..., np.newaxis]

    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        fields = self.read_fields(packed)
        scales = Stored(fields["e"][..., 0].copy(), "f8E8M0FNU")
        return self.stored(self.read_elements(fields), scales=scales)


# Block scales that are quantized


@dataclass(frozen=True, kw_only=True)
class GGUFSuperBlocks(GGUFFormat):
    """
    K-quant, whose super-blocks of 256 elements have quantized block scales and offsets.

    Elements and scales are signed, or both are unsigned and blocks have offsets.
    """

    scale_type: str
    """Type of quantized block scales, e.g. `u6`."""

    @property
    def blocks(self) -> int:
        """Number of blocks in a super-block."""
        return SUPER_BLOCK // self.block

    def independent_block_shape(self, stored: BlockScaled) -> Shape:
        return *(1,) * (len(stored.shape) - 1), SUPER_BLOCK

    @property
    def scale_bits(self) -> int:
        """Width of a quantized block scale."""
        return int(self.scale_type[1:])

    @property
    def parameter_types(self) -> Sequence[ParameterTypes]:
        types = self.scale_type, "f16"
        return [{"scales": types} | ({} if self.is_signed else {"offsets": types})]

    def quantize(self, values: ArrayLike) -> BlockScaled:
        array = f32_values(values)
        supers = blocks_of_rows(array, SUPER_BLOCK, self.name)
        check_finite(array, f"values for {self.name}")
        rows = supers.reshape(-1, self.blocks, self.block)
        codes = np.empty(rows.shape, np.int8 if self.is_signed else np.uint8)
        of_blocks = np.zeros((2, *rows.shape[:2]), codes.dtype)
        of_supers = np.zeros((2, rows.shape[0]), np.float16)
        for start in range(0, len(rows), _PIECE):
            piece = slice(start, start + _PIECE)
            codes[piece], of_blocks[:, piece], of_supers[:, piece] = self._quantized(
                rows[piece].astype(np.float64), start
            )
        count = 1 if self.is_signed else 2
        stored = self._with_scales(
            codes.reshape(array.shape),
            [*of_blocks[:count]],
            [*of_supers[:count].reshape(count, *supers.shape[:-1])],
        )
        return self.warn_of_zeros(values, stored)

    def _quantized(
        self, rows: Floats, first: int
    ) -> tuple[Array, list[Array], list[Array]]:
        """Return the codes; the scales and offsets of blocks; and those of super-blocks."""
        if self.is_signed:
            scales = _symmetric_scales(rows, self.bits)
            offsets = np.zeros_like(scales)
        else:
            scales, offsets = _scales_and_offsets(rows, self.bits)
        parts = [self._of_super_blocks(numbers, first) for numbers in (scales, offsets)]
        (scale_codes, scale_of), (offset_codes, offset_of) = parts
        # Dequantized scales and offsets, which are exact.
        scales, offsets = (
            (codes * scale[:, np.newaxis])[..., np.newaxis] for codes, scale in parts
        )
        quotients = (rows - offsets) / np.where(scales == 0, np.inf, scales)
        low = -(1 << (self.bits - 1)) if self.is_signed else 0
        codes = np.rint(quotients).clip(low, low + (1 << self.bits) - 1)
        return codes, [scale_codes, offset_codes], [scale_of, offset_of]

    def _of_super_blocks(self, numbers: Floats, first: int) -> tuple[Array, Array]:
        """
        Quantize block scales or offsets. Return codes, and an f16 scale per super-block.
        """
        largest = _of_largest_magnitude(numbers)
        low = -(1 << (self.scale_bits - 1)) if self.is_signed else 0
        high = low + (1 << self.scale_bits) - 1
        of_supers = to_f16(
            largest[:, 0] / (low or high),
            f"a scale of the super-blocks of {self.name}",
            first,
        )
        divisors = of_supers[:, np.newaxis].astype(np.float64)
        quotients = numbers / np.where(divisors == 0, np.inf, divisors)
        return np.rint(quotients).clip(low, high), of_supers

    def _with_scales(
        self, codes: Array, of_blocks: Sequence[Array], of_supers: Sequence[Array]
    ) -> BlockScaled:
        rows = (*codes.shape[:-1], codes.shape[-1] // self.block)
        shape = (*(1,) * (codes.ndim - 1), self.blocks)
        scales, *offsets = (
            BlockScaled(
                numbers.reshape(rows),
                self.scale_type,
                block_shape=shape,
                scales=Stored(of_super, "f16"),
            )
            for numbers, of_super in zip(of_blocks, of_supers, strict=True)
        )
        return self.stored(
            codes, scales=scales, offsets=offsets[0] if offsets else None
        )

    def write_parameters(self, fields: NDArray[np.void], stored: BlockScaled) -> None:
        scales, offsets = stored.scales, stored.offsets
        assert isinstance(scales, BlockScaled)
        fields["d"] = scales.scales.codes
        of_blocks = [scales.codes.reshape(*fields.shape, self.blocks)]
        if isinstance(offsets, BlockScaled):
            fields["dmin"] = -offsets.scales.codes
            of_blocks.append(offsets.codes.reshape(of_blocks[0].shape))
        fields["scales"] = _packed_scales(
            np.concatenate(of_blocks, -1), self.scale_type
        )

    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        fields = self.read_fields(packed)
        codes = _unpacked_scales(fields["scales"], self.scale_type)
        of_supers = [fields["d"].copy()]
        if not self.is_signed:
            of_supers.append(-fields["dmin"])
        of_blocks = np.split(codes, len(of_supers), -1)
        return self._with_scales(self.read_elements(fields), of_blocks, of_supers)


# Packing of the scales and minima of a super-block


_SCALE_PLANES: Mapping[str, Planes] = {
    "u4": [(4, 16)],
    "i6": [(4, 8), (2, 4)],
    "i8": [(8, 1)],
}
"""Planes of quantized block scales, except `u6`."""


def _packed_scales(codes: Array, type_name: str) -> Bytes:
    if planes := _SCALE_PLANES.get(type_name):
        return np.concatenate([*_packed_planes(codes, type_name, planes)], -1)
    # The lower 6 bits of the first 8 bytes hold the first four scales and minima. Of the
    # last four, these bytes hold the upper 2 bits, the remaining bytes the lower 4 bits.
    first, last = _fours_of_eights(codes)
    high = last >> np.uint8(4) << np.uint8(6)
    return np.concatenate([first | high, join_bits(last, 4, 4)], -1)


def _unpacked_scales(packed: Bytes, type_name: str) -> Array:
    if planes := _SCALE_PLANES.get(type_name):
        ends = np.cumsum([width for width, _ in planes])
        parts = np.split(packed, ends[:-1] * packed.shape[-1] // ends[-1], -1)
        return _unpacked_planes(parts, type_name, planes)
    first, low = packed[..., :8], split_bits(packed[..., 8:], 4, 4)
    last = low | first >> np.uint8(6) << np.uint8(4)
    codes = np.concatenate([first & np.uint8(63), last], -1)
    return np.concatenate(_fours_of_eights(codes), -1)


def _fours_of_eights(codes: Array) -> Sequence[Array]:
    """Return the first four and the last four of every eight codes."""
    fours = codes.reshape(*codes.shape[:-1], 2, 2, 4)
    return [fours[..., i, :].reshape(*codes.shape[:-1], 8) for i in range(2)]


# Scales with the least squared error


_TRIED = np.linspace(0.6, 1.2, 25)
"""Candidates for scales, relative to the scale for the full range of a block."""


def _symmetric_scales(rows: Floats, bits: int) -> Floats:
    """Return a scale, positive or negative, for each block."""
    half = 1 << (bits - 1)
    full = _of_largest_magnitude(rows) / -half
    full[full == 0] = 1
    best = np.zeros(rows.shape[:-1])
    least = np.square(rows).sum(-1)
    for factor in _TRIED:
        codes = np.rint(rows / (factor * full)).clip(-half, half - 1)
        # Optimal scale for these codes.
        products, squares = (rows * codes).sum(-1), np.square(codes).sum(-1)
        scales = products / np.maximum(squares, 1)
        errors = np.square(rows - codes * scales[..., np.newaxis]).sum(-1)
        is_better = errors < least
        best[is_better], least[is_better] = scales[is_better], errors[is_better]
    return best


def _scales_and_offsets(rows: Floats, bits: int) -> tuple[Floats, Floats]:
    """Return a non-negative scale and a non-positive offset for each block."""
    last = (1 << bits) - 1
    lowest = np.minimum(rows.min(-1, keepdims=True), 0)
    full = (np.maximum(rows.max(-1, keepdims=True), 0) - lowest) / last
    full[full == 0] = 1
    count = rows.shape[-1]
    best: Floats = np.zeros((2, *rows.shape[:-1]))
    least = np.full(rows.shape[:-1], np.inf)
    sums = rows.sum(-1)
    for factor in _TRIED:
        codes = np.minimum(np.rint((rows - lowest) / (factor * full)), last)
        products, squares = (rows * codes).sum(-1), np.square(codes).sum(-1)
        total: Floats = codes.sum(-1)
        # Least-squares line through codes and values.
        spread: Floats = count * squares - total * total
        spread[spread == 0] = np.inf
        slope: Floats = (count * products - total * sums) / spread
        offsets = (sums - slope * total) / count
        # Line through 0 if the offset is positive.
        np.divide(products, squares, out=slope, where=offsets > 0)
        offsets = np.minimum(offsets, 0)
        fitted = codes * slope[..., np.newaxis] + offsets[..., np.newaxis]
        errors = np.square(rows - fitted).sum(-1)
        is_better = errors < least
        best[:, is_better] = slope[is_better], offsets[is_better]
        least[is_better] = errors[is_better]
    return best[0], best[1]


# Declarations


def _layout(*fields: tuple[str, int]) -> np.dtype[np.void]:
    """Return the dtype of a record of byte fields; `d`, `dmin` and `m` are f16."""
    return np.dtype(
        [
            (name, "<f2") if name in ("d", "dmin", "m") else (name, "u1", (size,))
            for name, size in fields
        ]
    )


_D, _M, _DMIN = ("d", 2), ("m", 2), ("dmin", 2)
_QH, _QS = ("qh", 4), ("qs", 16)
_LOW_4, _FIFTH = ("qs", 4, 16), ("qh", 1, 1)

GGUF_FORMATS: tuple[GGUFFormat, ...] = (
    GGUFBlocks("Q4_0", "i4", 32, layout=_layout(_D, _QS), planes=(_LOW_4,)),
    GGUFBlocks("Q4_1", "u4", 32, layout=_layout(_D, _M, _QS), planes=(_LOW_4,)),
    GGUFBlocks("Q5_0", "i5", 32, layout=_layout(_D, _QH, _QS), planes=(_LOW_4, _FIFTH)),
    GGUFBlocks(
        "Q5_1", "u5", 32, layout=_layout(_D, _M, _QH, _QS), planes=(_LOW_4, _FIFTH)
    ),
    GGUFBlocks(
        "Q8_0",
        "i8",
        32,
        layout=_layout(_D, ("qs", 32)),
        planes=(("qs", 8, 1),),
        rounds="half-away",
    ),
    GGUFSuperBlocks(
        "Q2_K",
        "u2",
        16,
        layout=_layout(("scales", 16), ("qs", 64), _D, _DMIN),
        planes=(("qs", 2, 32),),
        scale_type="u4",
    ),
    GGUFSuperBlocks(
        "Q3_K",
        "i3",
        16,
        layout=_layout(("hmask", 32), ("qs", 64), ("scales", 12), _D),
        planes=(("qs", 2, 32), ("hmask", 1, 32)),
        scale_type="i6",
    ),
    GGUFSuperBlocks(
        "Q4_K",
        "u4",
        32,
        layout=_layout(_D, _DMIN, ("scales", 12), ("qs", 128)),
        planes=(("qs", 4, 32),),
        scale_type="u6",
    ),
    GGUFSuperBlocks(
        "Q5_K",
        "u5",
        32,
        layout=_layout(_D, _DMIN, ("scales", 12), ("qh", 32), ("qs", 128)),
        planes=(("qs", 4, 32), ("qh", 1, 32)),
        scale_type="u6",
    ),
    GGUFSuperBlocks(
        "Q6_K",
        "i6",
        16,
        layout=_layout(("ql", 128), ("qh", 64), ("scales", 16), _D),
        planes=(("ql", 4, 64), ("qh", 2, 32)),
        scale_type="i8",
    ),
    GGUFMXFP4(
        "GGUF_MXFP4", "f4E2M1FN", 32, layout=_layout(("e", 1), _QS), planes=(_LOW_4,)
    ),
)
