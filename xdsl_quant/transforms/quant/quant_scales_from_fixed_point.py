"""
Replace fixed-point scales by floating-point scales: `!quant.fixed_point` becomes
`!quant.uniform`.

A scale becomes the double `multiplier * 2**-shift`, which is exact:
`quant-scales-to-fixed-point` restores the type.
"""

from dataclasses import dataclass

from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.transforms.building.quantized_type_conversion import (
    QuantizedTypeConversion,
    QuantizedTypePass,
)


class ScalesFromFixedPoint(QuantizedTypeConversion):
    """Replace `!quant.fixed_point` types by `!quant.uniform` with the same scales."""

    def convert(self, quantized_type: QuantizedType) -> QuantizedType:
        if isinstance(quantized_type, FixedPointType):
            return quantized_type.to_uniform()
        return quantized_type


@dataclass(frozen=True)
class QuantScalesFromFixedPointPass(QuantizedTypePass):
    """Replace `!quant.fixed_point` by `!quant.uniform` with the same scales."""

    name = "quant-scales-from-fixed-point"
    pattern_type = ScalesFromFixedPoint
    expected = "values of '!quant.fixed_point'"
