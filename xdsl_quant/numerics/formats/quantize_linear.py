"""
Blocked quantization of ONNX: `QuantizeLinear` and `DequantizeLinear` with a `block_size`
([operators](https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html)).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, check_finite, element_text, numbers
from ..parameters import check_storable, storage_range
from ..small_floats import SMALL_FLOATS
from .bits import join_bits, split_bits
from .block_scaled import (
    F32,
    BlockScaled,
    ParameterTypes,
    Shape,
    Stored,
    block_counts,
    code_width,
    f32_values,
    repeat_along_blocks,
)
from .format import Format

_ELEMENT_TYPES = (
    *("i4", "u4", "i8", "u8", "i16", "u16"),
    *("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f4E2M1FN"),
)
"""Integer types of ONNX up to 16 bits, and its signed small floats."""


@dataclass(frozen=True)
class QuantizeLinear(Format):
    """
    ONNX's blocked format: blocks along one dimension, f32 scales, and zero points of the
    element type. The last block may be shorter.

    The packed arrays are `y`; `y_scale`; `y_zero_point`; and `shape`, the shape of the
    values. For 4-bit types, the flattened `y` has two elements per byte, the first in the
    lower half.
    """

    axis: int = -1
    """Dimension that is divided into blocks."""

    def __post_init__(self):
        super().__post_init__()
        if self.type not in _ELEMENT_TYPES:
            raise ValueError(
                f"unknown element type '{self.type}', available: "
                f"{', '.join(_ELEMENT_TYPES)}"
            )

    @property
    def parameter_types(self) -> Sequence[ParameterTypes]:
        types = {"scales": ("f32",)}
        if self.type in SMALL_FLOATS:
            return [types]
        return [types | {"zero points": (self.type,)}, types]

    def block_shape(self, rank: int) -> Shape:
        """Return the shape of a block in an array of the given rank."""
        if not -rank <= self.axis < rank:
            raise ValueError(
                f"expected values with axis {self.axis} for {self.name}, found rank {rank}"
            )
        return tuple(self.block if i == self.axis % rank else 1 for i in range(rank))

    def quantize(
        self,
        values: ArrayLike,
        scales: ArrayLike | None = None,
        zero_points: ArrayLike | None = None,
    ) -> BlockScaled:
        """
        Quantize values to this format: `round(value / scale) + zero_point`, rounded half to
        even and saturated.

        Args:
            values: finite numbers in at least one dimension, which are rounded to f32.
            scales: positive numbers, one per block. By default, the scale maps the largest
                magnitude of a block to the largest element or, for unsigned types, the
                range of the block, extended to 0, to the range of the type; a block of
                zeros has scale 1.
            zero_points: integers of the type, one per block. The default is 0 or, for
                unsigned types without the argument `scales`, the zero point of the range.

        Warns:
            RuntimeWarning: if nonzero values of a block all become 0.

        Raises:
            TypeError: if values or scales are not numeric, or zero points are not integers.
            ValueError: if a value is infinite or NaN, a scale is not positive and finite, a
                zero point is out of range of the type, or a shape does not match.
        """
        array = f32_values(values)
        check_finite(array, f"values for {self.name}")
        block_shape = self.block_shape(array.ndim)
        of_blocks, chosen = self._scales(array, scales)
        points = self._points(
            of_blocks.shape, chosen if zero_points is None else zero_points
        )
        with np.errstate(over="ignore"):
            quotients = array / repeat_along_blocks(of_blocks, array.shape, block_shape)
        stored_points = None
        if (small := SMALL_FLOATS.get(self.type)) is not None:
            codes = small.encode(quotients, saturate=True)
        else:
            # All sums are exact in f64.
            rounded = np.rint(quotients).astype(np.float64)
            sums = rounded + repeat_along_blocks(points, array.shape, block_shape)
            codes = sums.clip(*storage_range(self.type)).astype(self._dtype)
            stored_points = Stored(points.astype(self._dtype), self.type)
        stored = self.stored(
            codes, scales=Stored(of_blocks, "f32"), zero_points=stored_points
        )
        return self.warn_of_zeros(values, stored)

    def _scales(
        self, array: F32, scales: ArrayLike | None
    ) -> tuple[Array, Array | None]:
        """Return the checked `scales` and `None`, or chosen scales and zero points."""
        if scales is None:
            return self._chosen(array)
        with np.errstate(over="ignore"):
            of_blocks = numbers(scales, "scales", "iuf").astype(np.float32)
        block_shape = self.block_shape(array.ndim)
        counts = block_counts(array.shape, block_shape)
        if of_blocks.shape != counts:
            raise ValueError(
                f"expected scales of shape {counts} for values of shape {array.shape} in "
                f"blocks of shape {block_shape}, found shape {of_blocks.shape}"
            )
        if (is_wrong := ~((of_blocks > 0) & (of_blocks < np.inf))).any():
            found = element_text(of_blocks, is_wrong)
            raise ValueError(f"expected positive finite scales, found {found}")
        return of_blocks, None

    def _points(self, counts: Shape, zero_points: ArrayLike | None) -> Array:
        """Return the zero points of blocks, 0 by default."""
        if zero_points is None:
            zero_points = np.zeros(counts, np.int64)
        points = numbers(zero_points, "zero points", "iu")
        if self.type in SMALL_FLOATS:
            if points.any():
                raise ValueError(
                    f"unsupported zero points for {self.name} with elements of type "
                    f"{self.type}"
                )
            return points
        if points.shape != counts:
            raise ValueError(
                f"expected zero points of shape {counts}, found shape {points.shape}"
            )
        check_storable(points, self.type, "zero point")
        return points

    @property
    def _dtype(self) -> np.dtype[np.integer]:
        if self.type in SMALL_FLOATS:
            return np.dtype(np.uint8)
        low, _ = storage_range(self.type)
        width = 8 if code_width(self.type) <= 8 else 16
        return np.dtype(f"int{width}" if low < 0 else f"uint{width}")

    def _chosen(self, array: F32) -> tuple[Array, Array | None]:
        """Return scales chosen for the values, and zero points (signed types: `None`)."""
        axis = self.axis % array.ndim
        starts = list(range(0, array.shape[axis], self.block))
        zero = np.float32(0)
        largest = np.maximum(np.maximum.reduceat(array, starts, axis), zero)
        lowest = np.minimum(np.minimum.reduceat(array, starts, axis), zero)
        low, high = storage_range(self.type)
        steps = np.float32(high)
        if low < 0:
            scales = np.maximum(largest, -lowest) / steps
        else:
            # The range may overflow f32, but not a 15th of it.
            scales = largest / steps - lowest / steps
        scales[scales == 0] = 1
        if low < 0:
            return scales, None
        points = np.minimum(np.rint(-lowest / scales), steps)
        return scales, points.astype(np.int64)

    def pack(self, stored: BlockScaled) -> dict[str, Array]:
        self.check(stored)
        codes = stored.codes
        if code_width(self.type) == 4:
            codes = join_bits(np.pad(codes.reshape(-1), (0, codes.size % 2)), 4)
        packed = {
            "y": codes,
            "y_scale": stored.scales.codes,
            "shape": np.array(stored.shape),
        }
        if stored.zero_points is not None:
            packed["y_zero_point"] = stored.zero_points.codes
        return packed

    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        codes, scales, sizes = self.arrays(packed, "y", "y_scale", "shape")
        shape: Shape = tuple(sizes.tolist())
        if code_width(self.type) == 4:
            codes = split_bits(codes.view(np.uint8), 4)[: int(sizes.prod())]
            if self._dtype.kind == "i":
                codes = (codes.view(np.int8) << 4) >> 4
        zero_points = packed.get("y_zero_point")
        return self.stored(
            codes.reshape(shape),
            scales=Stored(scales, "f32"),
            zero_points=None if zero_points is None else Stored(zero_points, self.type),
        )
