"""
The quant dialect: quantized types and the casts between them and what they stand for.

See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/).
"""

from xdsl.ir import Dialect

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
