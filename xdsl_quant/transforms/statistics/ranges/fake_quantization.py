"""The casts that stand for fake quantization."""

from __future__ import annotations

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, SSAValue

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp


def quantized_and_back(
    value: SSAValue, quantized: Attribute, location: LocationAttr
) -> tuple[QuantizeCastOp, DequantizeCastOp]:
    """The cast to a quantized type, and that back to the type of the value."""
    quantize = QuantizeCastOp.create(
        operands=(value,), result_types=(quantized,), location=location
    )
    dequantize = DequantizeCastOp.create(
        operands=(quantize.result,), result_types=(value.type,), location=location
    )
    return quantize, dequantize
