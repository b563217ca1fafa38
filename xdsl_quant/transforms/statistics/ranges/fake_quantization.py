"""Build the casts that represent fake quantization."""

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS, DialectOps


def cast_pair(
    value: SSAValue,
    quantized: Attribute,
    location: LocationAttr,
    ops: DialectOps = QUANT_OPS,
) -> tuple[Operation, Operation]:
    """Return casts of a value to a quantized type and back."""
    quantize = ops.quantize(value, quantized)
    dequantize = ops.dequantize(quantize.results[0])
    quantize.location = dequantize.location = location
    return quantize, dequantize
