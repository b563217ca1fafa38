"""
The quant dialect: quantized types and the casts between them and what they stand for.

See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/).
"""

from xdsl.ir import Dialect

from xdsl_quant import compat

from .ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from .types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    QuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)

# Lowered modules are read by xDSL's own dialects, whichever way these are loaded.
compat.apply_on_load()

Quant = Dialect(
    "quant",
    [QuantizeCastOp, DequantizeCastOp, StorageCastOp],
    [AnyQuantizedType, CalibratedQuantizedType, UniformQuantizedType],
)

__all__ = [
    "AnyQuantizedType",
    "CalibratedQuantizedType",
    "DequantizeCastOp",
    "Quant",
    "QuantizeCastOp",
    "QuantizedType",
    "StorageCastOp",
    "StoredQuantizedType",
    "UniformQuantizedPerAxisType",
    "UniformQuantizedSubChannelType",
    "UniformQuantizedType",
]
