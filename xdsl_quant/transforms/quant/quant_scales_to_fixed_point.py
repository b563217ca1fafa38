"""
Replace floating-point scales by integer ones: `!quant.uniform` becomes
`!quant.fixed_point`.

A scale becomes the nearest `multiplier * 2**-shift` with a multiplier of 31 bits, and the
larger one if two are equally near: what
[`quantize_multiplier`][xdsl_quant.numerics.quantize_multiplier] gives. So the scale changes
by at most `2**-31` of itself, and not at all if it has 31 significant bits or fewer, as
every `f32` number has. The number is the double that the type says: it is not rounded to
the expressed type first.

All types of a module are converted, or none: no floating-point scale is left. Types without
a scale stay as they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntAttr

from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    QuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.fixed_point_types import (
    FixedPointType,
    multipliers_attr,
    shifts_attr,
)
from xdsl_quant.numerics import quantize_multiplier
from xdsl_quant.transforms.building.quantized_type_conversion import (
    QuantizedTypeConversion,
    QuantizedTypePass,
)

_BLOCK_TYPES: Mapping[type[QuantizedType], str] = {
    UniformQuantizedSubChannelType: "sub-channel",
    BlockScaledQuantizedType: "block-scaled",
}
"""Types with scales of blocks, by the name of their kind."""

_SMALLEST, _LARGEST = 2.0**-32, (2.0**31 - 1) / 4
"""The scales of the smallest multiplier and shift 62, and of the largest and shift 2."""


def fixed_point_type(
    quantized_type: UniformQuantizedType | UniformQuantizedPerAxisType,
) -> FixedPointType:
    """
    Return the type with the nearest fixed-point scales, and all else equal.

    Raises:
        ValueError: if a scale is less than `2**-32`, or `2**29` once it is rounded.
        VerifyException: if a zero point does not fit the storage type.
    """
    common = quantized_type.common_parameters
    multipliers, shifts = _fixed_point_scales(quantized_type.get_scales().ravel())
    if isinstance(quantized_type, UniformQuantizedType):
        (multiplier,), (shift,) = multipliers, shifts
        zero_point = quantized_type.zero_point
        return FixedPointQuantizedType.new(
            (*common, zero_point, IntAttr(multiplier), IntAttr(shift))
        )
    return FixedPointQuantizedPerAxisType.new(
        (
            *common,
            quantized_type.zero_points,
            quantized_type.quantized_dimension,
            multipliers_attr(multipliers),
            shifts_attr(shifts),
        )
    )


def _fixed_point_scales(
    scales: NDArray[np.float64],
) -> tuple[array[int], array[int]]:
    # What is less than half a unit above the largest scale is rounded to it.
    is_wrong = (scales < _SMALLEST) | (scales >= _LARGEST + 0.125)
    if is_wrong.any():
        index = int(is_wrong.argmax())
        where = f" at index {index}" if scales.size > 1 else ""
        raise ValueError(
            f"scale {scales[index]}{where} is not in the range {_SMALLEST} to {_LARGEST} "
            "of fixed-point scales, 2**-32 to 2**29"
        )
    multipliers, shifts = quantize_multiplier(scales)
    return array("q", multipliers.tolist()), array("q", shifts.tolist())


class ScalesToFixedPoint(QuantizedTypeConversion):
    """
    Replace per-tensor and per-axis `!quant.uniform` types by `!quant.fixed_point`, with the
    nearest fixed-point scales. It fails for sub-channel and block-scaled types.
    """

    def convert(self, quantized_type: QuantizedType) -> QuantizedType:
        if (kind := _BLOCK_TYPES.get(type(quantized_type))) is not None:
            raise ValueError(
                f"there are no fixed-point scales for the blocks of a {kind} type; "
                "'normalize-quant-types' makes it per-axis or per-tensor if it is "
                "equivalent"
            )
        if isinstance(
            quantized_type, UniformQuantizedType | UniformQuantizedPerAxisType
        ):
            return fixed_point_type(quantized_type)
        return quantized_type


@dataclass(frozen=True)
class QuantScalesToFixedPointPass(QuantizedTypePass):
    """
    Replace per-tensor and per-axis `!quant.uniform` by `!quant.fixed_point`, with the
    nearest fixed-point scales.
    """

    name = "quant-scales-to-fixed-point"
    pattern_type = ScalesToFixedPoint
    expected = "values of '!quant.uniform'"
