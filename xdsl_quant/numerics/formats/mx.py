"""
Microscaling formats of the Open Compute Project
([specification](https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf)),
and NVFP4.

| format | element | block | scale |
|---|---|---|---|
| MXFP8_E4M3 | `f8E4M3FN` | 32 | `f8E8M0FNU` |
| MXFP8_E5M2 | `f8E5M2` | 32 | `f8E8M0FNU` |
| MXFP6_E2M3 | `f6E2M3FN` | 32 | `f8E8M0FNU` |
| MXFP6_E3M2 | `f6E3M2FN` | 32 | `f8E8M0FNU` |
| MXFP4 | `f4E2M1FN` | 32 | `f8E8M0FNU` |
| MXINT8 | `i8`, times 1/64 | 32 | `f8E8M0FNU` |
| NVFP4 | `f4E2M1FN` | 16 | `f8E4M3FN`, times one f32 per tensor |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, check_finite, numbers
from ..small_floats import small_float
from .bits import join_bits, split_bits
from .block_scaled import (
    F32,
    BlockScaled,
    ParameterTypes,
    Shape,
    Stored,
    blocks_of_rows,
    code_width,
    f32_values,
)
from .format import Format

ScaleRule = Literal["floor", "even", "ceil", "rceil"]
"""
Rule by which the block scale, a power of two, is computed from the largest magnitude `a` of
the block. The largest number of the element type is `m * 2**e`, with `m` from 1 to 2.

| rule | block scale | used by |
|---|---|---|
| `floor` | `2**(floor(log2(a)) - e)`; elements may saturate | OCP |
| `even` | as `floor`, but doubled if `a` would saturate after rounding | TOSA |
| `ceil` | `2**(ceil(log2(a)) - e)` | torchao |
| `rceil` | `2**ceil(log2(a / (m * 2**e)))`, the smallest without saturation | NVIDIA |
"""

_E8M0 = small_float("f8E8M0FNU")

_NAN_SCALE = 255
"""Code of a NaN scale."""


@dataclass(frozen=True)
class _Elements:
    """Properties of an element type for the arithmetic of block scales."""

    exponent: int
    """Exponent of the largest number of the type."""

    largest: float

    carry: int
    """
    Integer to add to the bits of an f32 number. It increments the exponent if the mantissa,
    rounded to the precision of the type, exceeds the mantissa of `largest`.
    """


def _elements_of(largest: float, mantissa_bits: int) -> _Elements:
    exponent = int(np.frexp(largest)[1]) - 1
    # Mantissa of the largest element, scaled to an integer.
    mantissa = int(np.ldexp(largest, mantissa_bits - exponent))
    to_next_power = (2 << mantissa_bits) - mantissa
    carry = (2 * to_next_power - 1) << (22 - mantissa_bits)
    # Ties go to the even neighbor, which may be the largest element.
    return _Elements(exponent, largest, carry - (mantissa % 2 == 0))


@dataclass(frozen=True)
class PackedElements(Format):
    """
    Format packed as in torchao: `qdata` has one element per byte, or two 4-bit elements,
    the first in the lower half; `scale` has the codes of the scales.
    """

    def pack_elements(self, stored: BlockScaled) -> dict[str, Array]:
        self.check(stored)
        codes, scales = stored.codes.view(np.uint8), stored.scales.codes
        if code_width(self.type) == 4:
            codes = join_bits(codes, 4)
        return {"qdata": codes, "scale": scales.view(np.uint8)}

    def unpack_elements(self, packed: Mapping[str, Array]) -> tuple[Array, Array]:
        codes, scales = self.arrays(packed, "qdata", "scale")
        if codes.dtype.itemsize != 1 or scales.dtype.itemsize != 1:
            raise ValueError(
                f"expected bytes for {self.name}, found {codes.dtype} and {scales.dtype}"
            )
        codes, scales = codes.view(np.uint8), scales.view(np.uint8)
        return split_bits(codes, 4) if code_width(self.type) == 4 else codes, scales


@dataclass(frozen=True)
class MXFormat(PackedElements):
    """
    Microscaling format. A block that contains NaN becomes NaN. Infinities saturate; with
    the rule `even`, their block becomes NaN.
    """

    @property
    def parameter_types(self) -> Sequence[ParameterTypes]:
        types = ("f8E8M0FNU", "f32") if self.type == "i8" else ("f8E8M0FNU",)
        return [{"scales": types}]

    def quantize(self, values: ArrayLike, rule: ScaleRule = "floor") -> BlockScaled:
        """
        Quantize values to this format; elements are rounded half to even and saturate.

        Args:
            values: an array of at least one dimension, which is rounded to f32.
            rule: the rule for block scales.

        Warns:
            RuntimeWarning: if nonzero values of a block all become 0.

        Raises:
            TypeError: if values are not numeric.
            ValueError: if the last dimension is not a multiple of 32, or the rule is
                unknown.
        """
        if rule not in get_args(ScaleRule):
            raise ValueError(
                f"unknown scale rule {rule!r}, available: "
                f"{', '.join(map(repr, get_args(ScaleRule)))}"
            )
        array = f32_values(values)
        blocks = blocks_of_rows(array, self.block, self.name)
        scales = self._scale_codes(np.abs(blocks).max(-1), rule)
        divisors = _E8M0.decode(scales)[..., np.newaxis]
        with np.errstate(all="ignore"):
            quotients = (blocks / divisors).reshape(array.shape)
            if self.type == "i8":
                units = np.rint(quotients * 64).clip(-127, 127)
                codes = np.nan_to_num(units).astype(np.int8)
            else:
                codes = small_float(self.type).encode(quotients, saturate=True)
        return self.warn_of_zeros(values, self._stored(codes, scales))

    def _scale_codes(self, largest: F32, rule: ScaleRule) -> Array:
        """Return the codes of block scales for the largest magnitudes of blocks."""
        elements = self._elements
        is_nan = np.isnan(largest)
        exponent = elements.exponent
        if rule == "rceil":
            largest = largest / np.float32(elements.largest)
            exponent = 0
        bits = largest.view(np.int32)
        if rule == "even":
            bits = bits + elements.carry
            is_nan |= np.isinf(largest)
        elif rule != "floor":
            # Up to 2^-127, whose f32 bits are 1 << 22, the exponent stays 0.
            bits = np.where(bits <= 1 << 22, bits, bits + ((1 << 23) - 1))
        codes = ((bits >> 23) - exponent).clip(0, _NAN_SCALE - 1)
        return np.where(is_nan, _NAN_SCALE, codes).astype(np.uint8)

    @property
    def _elements(self) -> _Elements:
        if self.type == "i8":
            return _elements_of(127 / 64, 6)
        small = small_float(self.type)
        return _elements_of(small.largest, small.mantissa_bits)

    def _stored(self, codes: Array, scales: Array) -> BlockScaled:
        stored = Stored(scales, "f8E8M0FNU")
        if self.type == "i8":
            # The unit 1/64 of elements becomes a scale of the block scales.
            stored = BlockScaled(
                scales,
                "f8E8M0FNU",
                block_shape=scales.shape,
                scales=Stored(np.full((1,) * scales.ndim, 2**-6, np.float32), "f32"),
            )
        return self.stored(codes, scales=stored)

    def pack(self, stored: BlockScaled) -> dict[str, Array]:
        return self.pack_elements(stored)

    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        codes, scales = self.unpack_elements(packed)
        return self._stored(codes.view(np.int8) if self.type == "i8" else codes, scales)


@dataclass(frozen=True)
class NVFP4(PackedElements):
    """
    NVIDIA's format with blocks of 16, block scales in `f8E4M3FN`, and a per-tensor f32
    scale, packed as `per_tensor_scale`.
    """

    @property
    def parameter_types(self) -> Sequence[ParameterTypes]:
        return [{"scales": ("f8E4M3FN", "f32")}]

    def independent_block_shape(self, stored: BlockScaled) -> Shape:
        return stored.shape

    def quantize(
        self, values: ArrayLike, tensor_scale: float | None = None
    ) -> BlockScaled:
        """
        Quantize values to this format, with torchao's arithmetic.

        Args:
            values: finite numbers in at least one dimension, which are rounded to f32.
            tensor_scale: the f32 factor of all block scales. By default, it is the
                largest magnitude divided by 448 * 6, or 1 if that has no finite reciprocal.

        Warns:
            RuntimeWarning: if a block of nonzero values becomes 0: scales are >= 2**-6.

        Raises:
            TypeError: if values or the scale are not numeric.
            ValueError: if a value is infinite or NaN, the last dimension is not a multiple
                of 16, or the scale is not positive and finite.
        """
        array = f32_values(values)
        blocks = blocks_of_rows(array, self.block, self.name)
        check_finite(array, f"values for {self.name}")
        largest = np.abs(blocks).max(-1)
        scale, element = small_float("f8E4M3FN"), small_float(self.type)
        with np.errstate(all="ignore"):
            if tensor_scale is None:
                product = np.float32(scale.largest * element.largest)
                of_tensor = largest.max() / product
                if np.isinf(1 / of_tensor):
                    of_tensor = np.float32(1)
            else:
                of_tensor = _positive_f32(tensor_scale)
            of_blocks = largest / np.float32(element.largest) / of_tensor
            scales = scale.encode(
                np.maximum(of_blocks, scale.smallest_normal), saturate=True
            )
            inverse = (1 / of_tensor) / scale.decode(scales)
            quotients = blocks * inverse[..., np.newaxis]
        codes = element.encode(quotients.reshape(array.shape))
        return self.warn_of_zeros(values, self._stored(codes, scales, of_tensor))

    def _stored(self, codes: Array, scales: Array, of_tensor: ArrayLike) -> BlockScaled:
        per_tensor = np.asarray(of_tensor, np.float32).reshape((1,) * scales.ndim)
        of_blocks = BlockScaled(
            scales,
            "f8E4M3FN",
            block_shape=scales.shape,
            scales=Stored(per_tensor, "f32"),
        )
        return self.stored(codes, scales=of_blocks)

    def pack(self, stored: BlockScaled) -> dict[str, Array]:
        packed = self.pack_elements(stored)
        assert isinstance(stored.scales, BlockScaled)
        of_tensor = stored.scales.scales.codes.reshape(())
        return {**packed, "per_tensor_scale": of_tensor}

    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        (of_tensor,) = self.arrays(packed, "per_tensor_scale")
        return self._stored(*self.unpack_elements(packed), of_tensor)


def _positive_f32(tensor_scale: float) -> np.float32:
    scale = numbers(tensor_scale, "tensor_scale", "iuf")
    if scale.size != 1:
        raise ValueError(
            f"expected one number as tensor_scale, found shape {scale.shape}"
        )
    of_tensor = np.float32(scale.reshape(()))
    if not 0 < of_tensor < np.inf:
        raise ValueError(
            f"expected a positive finite tensor_scale, found {tensor_scale}"
        )
    return of_tensor


MX_FORMATS: tuple[MXFormat, ...] = (
    MXFormat("MXFP8_E4M3", "f8E4M3FN", 32),
    MXFormat("MXFP8_E5M2", "f8E5M2", 32),
    MXFormat("MXFP6_E2M3", "f6E2M3FN", 32),
    MXFormat("MXFP6_E3M2", "f6E3M2FN", 32),
    MXFormat("MXFP4", "f4E2M1FN", 32),
    MXFormat("MXINT8", "i8", 32),
)
NVFP4_FORMAT = NVFP4("NVFP4", "f4E2M1FN", 16)
