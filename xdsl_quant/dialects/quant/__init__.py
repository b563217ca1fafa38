"""
The quant dialect: quantized types and the casts between them and what they stand for.

See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/).
"""

from xdsl.ir import Dialect

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
    [],
    [AnyQuantizedType, CalibratedQuantizedType, UniformQuantizedType],
)
