"""
Replace floating-point scales by fixed-point scales: `!quant.uniform` becomes
`!quant.fixed_point`.

[`quantize_multiplier`][xdsl_quant.numerics.quantize_multiplier] rounds a scale to the
nearest `multiplier * 2**-shift` with a multiplier of 31 bits; ties round up. The relative
error is at most `2**-31`. It is 0 for scales with up to 31 significant bits, such as all
`f32` numbers. The double in the type is used directly, not rounded to the expressed
type first.

An error leaves the module unchanged. Types without a scale are not converted.
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
"""Maps types with one scale per block to the name of their kind in messages."""

_SMALLEST, _LARGEST = 2.0**-32, (2.0**31 - 1) / 4
"""Smallest and largest fixed-point scale, with shifts 62 and 2."""


def fixed_point_type(
    quantized_type: UniformQuantizedType | UniformQuantizedPerAxisType,
) -> FixedPointType:
    """
    Return the same type with the nearest fixed-point scales.

    Raises:
        ValueError: if a scale is less than `2**-32`, or rounds to `2**29` or more.
        VerifyException: if a zero point is out of range of the storage type.
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
    # Scales less than half a unit above the largest one are rounded down to it.
    is_out_of_range = (scales < _SMALLEST) | (scales >= _LARGEST + 0.125)
    if is_out_of_range.any():
        index = int(is_out_of_range.argmax())
        where = f" at index {index}" if scales.size > 1 else ""
        raise ValueError(
            f"scale {scales[index]}{where} is out of the range of fixed-point "
            f"scales, 2**-32 to {_LARGEST}"
        )
    multipliers, shifts = quantize_multiplier(scales)
    return array("q", multipliers.tolist()), array("q", shifts.tolist())


class ScalesToFixedPoint(QuantizedTypeConversion):
    """Replace per-tensor and per-axis `!quant.uniform` by `!quant.fixed_point`."""

    def convert(self, quantized_type: QuantizedType) -> QuantizedType:
        if (kind := _BLOCK_TYPES.get(type(quantized_type))) is not None:
            raise ValueError(
                f"fixed-point scales are unsupported in {kind} types; "
                "'normalize-quant-types' converts equivalent types "
                "to per-axis or per-tensor"
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
