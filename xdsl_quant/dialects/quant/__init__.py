"""
The quant dialect: quantized types, the casts between them and what they stand for, and ops
that say how values are to be quantized.

See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/).
"""

from xdsl.ir import Dialect

from .fixed_point_types import FixedPointQuantizedPerAxisType, FixedPointQuantizedType
from .instrumentation import (
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    CoupledRefOp,
    StatisticsOp,
    StatisticsRefOp,
)
from .ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from .regions import RegionOp, ReturnOp
from .types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    QuantizedType,
    ScaledQuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
    uniform_type,
)

Quant = Dialect(
    "quant",
    [
        QuantizeCastOp,
        DequantizeCastOp,
        StorageCastOp,
        ConstFakeQuantOp,
        ConstFakeQuantPerAxisOp,
        StatisticsOp,
        StatisticsRefOp,
        CoupledRefOp,
        RegionOp,
        ReturnOp,
    ],
    [
        AnyQuantizedType,
        CalibratedQuantizedType,
        FixedPointQuantizedType,
        NoQuantizedType,
        UniformQuantizedType,
    ],
)

__all__ = [
    "AnyQuantizedType",
    "CalibratedQuantizedType",
    "ConstFakeQuantOp",
    "ConstFakeQuantPerAxisOp",
    "CoupledRefOp",
    "DequantizeCastOp",
    "FixedPointQuantizedPerAxisType",
    "FixedPointQuantizedType",
    "NoQuantizedType",
    "Quant",
    "QuantizeCastOp",
    "QuantizedType",
    "RegionOp",
    "ReturnOp",
    "ScaledQuantizedType",
    "StatisticsOp",
    "StatisticsRefOp",
    "StorageCastOp",
    "StoredQuantizedType",
    "UniformQuantizedPerAxisType",
    "UniformQuantizedSubChannelType",
    "UniformQuantizedType",
    "uniform_type",
]
