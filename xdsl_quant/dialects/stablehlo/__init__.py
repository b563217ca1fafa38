"""
The part of StableHLO that has quantized tensors: its ops, with their rules for these.

See external [documentation](https://openxla.org/stablehlo/spec).
"""

from xdsl.ir import Dialect

from .attributes import (
    ComparisonDirection,
    ComparisonDirectionAttr,
    ComparisonType,
    ComparisonTypeAttr,
    ConvDimensionNumbersAttr,
    DotDimensionNumbersAttr,
    Precision,
    PrecisionAttr,
    ResultAccuracyAttr,
    ResultAccuracyMode,
    ResultAccuracyModeAttr,
    TypeExtensionsAttr,
)
from .constant import ConstantOp
from .convolution import ConvolutionOp
from .dot_general import DotGeneralOp
from .elementwise import (
    AbsOp,
    AddOp,
    ConvertOp,
    DivideOp,
    ExponentialOp,
    LogisticOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegateOp,
    SubtractOp,
    TanhOp,
)
from .quantization import UniformDequantizeOp, UniformQuantizeOp
from .reduction import ReduceOp, ReturnOp
from .reshaping import BroadcastInDimOp, ReshapeOp, TransposeOp
from .selection import ClampOp, CompareOp, SelectOp
from .slicing import ConcatenateOp, PadOp, SliceOp

StableHLO = Dialect(
    "stablehlo",
    [
        AbsOp,
        AddOp,
        BroadcastInDimOp,
        ClampOp,
        CompareOp,
        ConcatenateOp,
        ConstantOp,
        ConvertOp,
        ConvolutionOp,
        DivideOp,
        DotGeneralOp,
        ExponentialOp,
        LogisticOp,
        MaximumOp,
        MinimumOp,
        MultiplyOp,
        NegateOp,
        PadOp,
        ReduceOp,
        ReshapeOp,
        ReturnOp,
        SelectOp,
        SliceOp,
        SubtractOp,
        TanhOp,
        TransposeOp,
        UniformDequantizeOp,
        UniformQuantizeOp,
    ],
    [
        ComparisonDirectionAttr,
        ComparisonTypeAttr,
        ConvDimensionNumbersAttr,
        DotDimensionNumbersAttr,
        PrecisionAttr,
        ResultAccuracyAttr,
        ResultAccuracyModeAttr,
        TypeExtensionsAttr,
    ],
)

__all__ = [
    "AbsOp",
    "AddOp",
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
    "DivideOp",
    "DotDimensionNumbersAttr",
    "DotGeneralOp",
    "ExponentialOp",
    "LogisticOp",
    "MaximumOp",
    "MinimumOp",
    "MultiplyOp",
    "NegateOp",
    "PadOp",
    "Precision",
    "PrecisionAttr",
    "ReduceOp",
    "ReshapeOp",
    "ResultAccuracyAttr",
    "ResultAccuracyMode",
    "ResultAccuracyModeAttr",
    "ReturnOp",
    "SelectOp",
    "SliceOp",
    "StableHLO",
    "SubtractOp",
    "TanhOp",
    "TransposeOp",
    "TypeExtensionsAttr",
    "UniformDequantizeOp",
    "UniformQuantizeOp",
]
