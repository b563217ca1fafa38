"""
The `quant` dialect: quantized types, casts between expressed, quantized and stored values,
and ops that constrain or record the quantization of values.

See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/).
"""

from xdsl.ir import Dialect

from .block_scaled_type import BlockScaledQuantizedType, StoredNumbersAttr
from .dynamic_ops import (
    ChooseParametersOp,
    DynamicCastOp,
    DynamicDequantizeCastOp,
    DynamicQuantizeCastOp,
)
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
from .storage_types import QuantileType
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
        DynamicQuantizeCastOp,
        DynamicDequantizeCastOp,
        ChooseParametersOp,
    ],
    [
        AnyQuantizedType,
        BlockScaledQuantizedType,
        CalibratedQuantizedType,
        FixedPointQuantizedType,
        NoQuantizedType,
        QuantileType,
        UniformQuantizedType,
    ],
)

__all__ = [
    "AnyQuantizedType",
    "BlockScaledQuantizedType",
    "CalibratedQuantizedType",
    "ChooseParametersOp",
    "ConstFakeQuantOp",
    "ConstFakeQuantPerAxisOp",
    "CoupledRefOp",
    "DequantizeCastOp",
    "DynamicCastOp",
    "DynamicDequantizeCastOp",
    "DynamicQuantizeCastOp",
    "FixedPointQuantizedPerAxisType",
    "FixedPointQuantizedType",
    "NoQuantizedType",
    "Quant",
    "QuantileType",
    "QuantizeCastOp",
    "QuantizedType",
    "RegionOp",
    "ReturnOp",
    "ScaledQuantizedType",
    "StatisticsOp",
    "StatisticsRefOp",
    "StorageCastOp",
    "StoredNumbersAttr",
    "StoredQuantizedType",
    "UniformQuantizedPerAxisType",
    "UniformQuantizedSubChannelType",
    "UniformQuantizedType",
    "uniform_type",
]
