"""
4-bit weights in groups with a scale and a zero point, in the layouts of GPTQ and AWQ.

| format | elements in an i32 | zero points in an i32 |
|---|---|---|
| GPTQ | 8 consecutive inputs, the first in the lowest bits | 8 outputs, each minus 1 |
| GPTQ_V2 | as GPTQ | 8 outputs |
| AWQ | 8 consecutive outputs in the order 0, 2, 4, 6, 1, 3, 5, 7 | as elements |

Values are the weights of a linear layer, outputs by inputs, with groups along the inputs.
Packed arrays are transposed: inputs by outputs. Groups have 128 inputs by default;
`dataclasses.replace(format, block=64)` changes this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, check_finite
from .bits import join_bits, split_bits
from .block_scaled import (
    BlockScaled,
    ParameterTypes,
    Stored,
    blocks_of_rows,
    f32_values,
    to_f16,
)
from .format import Format

_AWQ_ORDER = np.array([0, 2, 4, 6, 1, 3, 5, 7])
"""Order of 8 outputs in an i32, from the lowest bits."""


@dataclass(frozen=True, kw_only=True)
class GroupFormat(Format):
    """
    Format with f16 scales and u4 zero points, packed into `qweight`, `qzeros`, `scales`
    and, for GPTQ, `g_idx`, the group of each input.
    """

    zero_point_decrement: int = 0
    """Number subtracted from zero points, modulo 16, when they are packed."""

    is_awq: bool = False
    """True if an i32 packs elements of 8 outputs, False if it packs 8 inputs."""

    @property
    def parameter_types(self) -> Sequence[ParameterTypes]:
        return [{"scales": ("f16",), "zero points": ("u4",)}]

    def quantize(self, values: ArrayLike) -> BlockScaled:
        """
        Quantize weights to this format. The scale of a group is 1/15 of the range of its
        weights, extended to 0, and rounded to f16. A scale of 0 is replaced by 1. Zero
        points and elements are rounded half to even.

        GPTQ and AWQ choose elements and scales from calibration data. To pack their
        results, build a `BlockScaled` with scales and zero points as `Stored`.

        Args:
            values: finite weights, outputs by inputs, which are rounded to f32.

        Warns:
            RuntimeWarning: if nonzero values of a block all become 0.

        Raises:
            TypeError: if values are not numeric.
            ValueError: if the rank is not 2, the number of inputs is not a multiple of the
                group size, a value is infinite or NaN, or a scale overflows f16.
        """
        array = f32_values(values)
        if array.ndim != 2:
            raise ValueError(
                f"expected weights of rank 2 (outputs, inputs) for {self.name}, found "
                f"shape {array.shape}"
            )
        groups = blocks_of_rows(array, self.block, self.name)
        check_finite(array, f"values for {self.name}")
        lowest = np.minimum(groups.min(-1), 0)
        with np.errstate(over="ignore"):
            of_groups = (np.maximum(groups.max(-1), 0) - lowest) / 15
        scales = to_f16(of_groups, f"a scale of {self.name}")
        scales[scales == 0] = 1
        zero_points = np.minimum(np.rint(-lowest / scales), 15).astype(np.uint8)
        rounded = np.rint(groups / scales[..., np.newaxis])
        codes = (rounded + zero_points[..., np.newaxis]).clip(0, 15).astype(np.uint8)
        stored = self._stored(codes.reshape(array.shape), scales, zero_points)
        return self.warn_of_zeros(values, stored)

    def _stored(self, codes: Array, scales: Array, zero_points: Array) -> BlockScaled:
        return self.stored(
            codes,
            scales=Stored(scales, "f16"),
            zero_points=Stored(zero_points, "u4"),
        )

    def pack(self, stored: BlockScaled) -> dict[str, Array]:
        self.check(stored)
        outputs, inputs = stored.shape
        if outputs % 8 or inputs % 8:
            raise ValueError(
                f"expected multiples of 8 outputs and inputs for {self.name}, found shape "
                f"{stored.shape}"
            )
        assert stored.zero_points is not None
        zero_points = stored.zero_points.codes.T - np.uint8(self.zero_point_decrement)
        packed = {
            "qweight": self._words(stored.codes.T)
            if self.is_awq
            else self._words(stored.codes).T,
            "qzeros": self._words(zero_points),
            "scales": stored.scales.codes.T,
        }
        if not self.is_awq:
            packed["g_idx"] = self._groups(inputs)
        return {name: np.ascontiguousarray(array) for name, array in packed.items()}

    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        names = "qweight", "qzeros", "scales"
        weights, zero_points, scales = self.arrays(packed, *names)
        if any(
            array.dtype != np.int32 or array.ndim != 2
            for array in (weights, zero_points)
        ):
            raise ValueError(
                f"expected matrices of int32 for {self.name}, found {weights.dtype} and "
                f"{zero_points.dtype}"
            )
        codes = self._codes(weights).T if self.is_awq else self._codes(weights.T)
        groups = packed.get("g_idx", self._groups(codes.shape[1]))
        if (groups != self._groups(codes.shape[1])).any():
            raise ValueError(
                f"expected groups of {self.block} consecutive inputs for {self.name}, "
                "found another order in g_idx"
            )
        zero_points = self._codes(zero_points).T + np.uint8(self.zero_point_decrement)
        return self._stored(codes, scales.T, zero_points & np.uint8(15))

    def _groups(self, inputs: int) -> Array:
        return np.arange(inputs, dtype=np.int32) // np.int32(self.block)

    def _words(self, codes: Array) -> Array:
        """Pack every 8 codes of a row into an i32."""
        if self.is_awq:
            codes = codes.reshape(-1, 8)[:, _AWQ_ORDER].reshape(codes.shape)
        return np.ascontiguousarray(join_bits(codes, 4)).view("<i4")

    def _codes(self, words: Array) -> Array:
        codes = split_bits(np.ascontiguousarray(words).view(np.uint8), 4)
        if not self.is_awq:
            return codes
        of_words = codes.reshape(-1, 8)
        return of_words[:, np.argsort(_AWQ_ORDER)].reshape(codes.shape)


GROUP_FORMATS: tuple[GroupFormat, ...] = (
    GroupFormat("GPTQ", "u4", 128, zero_point_decrement=1),
    GroupFormat("GPTQ_V2", "u4", 128),
    GroupFormat("AWQ", "u4", 128, is_awq=True),
)
