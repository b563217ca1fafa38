"""
The part of StableHLO that has quantized tensors: its ops, with their rules for these.

See external [documentation](https://openxla.org/stablehlo/spec).
"""

from xdsl.ir import Attribute, Dialect, Operation

from .attributes import (
    ComparisonDirection,
    ComparisonDirectionAttr,
    ComparisonType,
    ComparisonTypeAttr,
    ConvDimensionNumbersAttr,
    DotAlgorithmAttr,
    DotDimensionNumbersAttr,
    GatherDimensionNumbersAttr,
    OutputOperandAliasAttr,
    Precision,
    PrecisionAttr,
    ResultAccuracyAttr,
    ResultAccuracyMode,
    ResultAccuracyModeAttr,
    TokenType,
    TypeExtensionsAttr,
)
from .constant import ConstantOp, GetDimensionSizeOp, IotaOp
from .custom_call import CustomCallOp
from .data_movement import (
    BroadcastInDimOp,
    ConcatenateOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from .elementwise import (
    AbsOp,
    AddOp,
    AndOp,
    ClampOp,
    CompareOp,
    ConvertOp,
    DivideOp,
    ExponentialOp,
    LogisticOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegateOp,
    NotOp,
    OrOp,
    RoundNearestEvenOp,
    RsqrtOp,
    SelectOp,
    SqrtOp,
    SubtractOp,
    TanhOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from .products import ConvolutionOp, DotGeneralOp
from .reduction import ReduceOp, ReduceWindowOp, ReturnOp

__all__ = [
    "AbsOp",
    "AddOp",
    "AndOp",
    "BroadcastInDimOp",
    "ClampOp",
    "CompareOp",
    "ComparisonDirection",
    "ComparisonDirectionAttr",
    "ComparisonType",
    "ComparisonTypeAttr",
    "ConcatenateOp",
    "ConstantOp",
    "ConvDimensionNumbersAttr",
    "ConvertOp",
    "ConvolutionOp",
    "CustomCallOp",
    "DivideOp",
    "DotAlgorithmAttr",
    "DotDimensionNumbersAttr",
    "DotGeneralOp",
    "ExponentialOp",
    "GatherDimensionNumbersAttr",
    "GatherOp",
    "GetDimensionSizeOp",
    "IotaOp",
    "LogisticOp",
    "MaximumOp",
    "MinimumOp",
    "MultiplyOp",
    "NegateOp",
    "NotOp",
    "OrOp",
    "OutputOperandAliasAttr",
    "PadOp",
    "Precision",
    "PrecisionAttr",
    "ReduceOp",
    "ReduceWindowOp",
    "ReshapeOp",
    "ResultAccuracyAttr",
    "ResultAccuracyMode",
    "ResultAccuracyModeAttr",
    "ReturnOp",
    "RoundNearestEvenOp",
    "RsqrtOp",
    "SelectOp",
    "SliceOp",
    "SqrtOp",
    "StableHLO",
    "SubtractOp",
    "TanhOp",
    "TokenType",
    "TransposeOp",
    "TypeExtensionsAttr",
    "UniformDequantizeOp",
    "UniformQuantizeOp",
]

_EXPORTED = [
    value for name in __all__ if isinstance(value := globals().get(name), type)
]

StableHLO = Dialect(
    "stablehlo",
    [value for value in _EXPORTED if issubclass(value, Operation)],
    [value for value in _EXPORTED if issubclass(value, Attribute)],
)
"""All ops, attributes and types that this module exports."""
