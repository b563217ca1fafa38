"""Reductions along dimensions: sums, products, means, extrema and their indices."""

from abc import ABC

from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from xdsl_quant.dialects.quant import traits as quant

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    SAME_INPUT,
    SAME_SCALE,
    OneInputOp,
    Requires,
    TFLOp,
    data_movement_traits,
    has_rank,
    require_rank,
    result_has_operand_type,
)

__all__ = [
    "ArgMaxOp",
    "ArgMinOp",
    "MeanOp",
    "ReduceMaxOp",
    "ReduceMinOp",
    "ReduceProdOp",
    "SumOp",
    "TopKV2Op",
]


class ReductionOp(TFLOp, ABC):
    """Base class of reductions that compute new values."""

    keep_dims = prop_def(props.BOOL)

    traits = traits_def(Pure(), Requires(SAME_INPUT), quant.QuantizableResult())


class ArgOp(TFLOp, ABC):
    """Base class of ops that return the index of an element along a dimension."""

    input = operand_def(kinds.tensor_of("i1 f32 i32 i8 ui8 QI8 QUI8"))
    dim = operand_def(kinds.INDEX)
    output = result_def(kinds.INDEX)

    traits = traits_def(Pure(), quant.QuantizableResult())


class AxesOp(OneInputOp, ABC):
    """Base class of ops whose second operand lists dimensions."""

    axes = operand_def(kinds.I32)


class ExtremeReductionOp(AxesOp, ABC):
    """Base class of reductions that select an element."""

    keep_dims = prop_def(props.BOOL)

    traits = traits_def(
        Pure(),
        Requires(SAME_INPUT, SAME_SCALE),
        quant.OrdersElements(),
        quant.SameOperandsAndResultsScale(),
    )


_MEAN_ELEMENTS = kinds.tensor_of("f32 f16 i32 i64 QI8 QUI8 ui8 QI16")


@irdl_op_definition
class MeanOp(ReductionOp):
    """
    Mean along dimensions.

    Example:

    ```mlir
    %2 = "tfl.mean"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```
    """

    name = "tfl.mean"

    input = operand_def(_MEAN_ELEMENTS)
    axis = operand_def(kinds.I32)
    output = result_def(_MEAN_ELEMENTS)


@irdl_op_definition
class SumOp(AxesOp, ReductionOp, elements="f32 f16 i32 i64 QI8 QUI8 quint8 QI16"):
    """
    Sum along dimensions.

    Example:

    ```mlir
    %2 = "tfl.sum"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```
    """

    name = "tfl.sum"


@irdl_op_definition
class ReduceProdOp(AxesOp, ReductionOp, elements="f32 i32 i64 QI8 QUI8 quint8 QI16"):
    """
    Product along dimensions.

    Example:

    ```mlir
    %2 = "tfl.reduce_prod"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```
    """

    name = "tfl.reduce_prod"


@irdl_op_definition
class ReduceMaxOp(ExtremeReductionOp, elements="f32 f16 i32 i64 QI8 QUI8 quint8 QI16"):
    """
    Maximum along dimensions.

    Example:

    ```mlir
    %2 = "tfl.reduce_max"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```
    """

    name = "tfl.reduce_max"


@irdl_op_definition
class ReduceMinOp(ExtremeReductionOp, elements="f32 i32 i64 QI8 QUI8 quint8 QI16"):
    """
    Minimum along dimensions.

    Example:

    ```mlir
    %2 = "tfl.reduce_min"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```
    """

    name = "tfl.reduce_min"


@irdl_op_definition
class ArgMaxOp(ArgOp):
    """
    Index of the first maximum along a dimension.

    Example:

    ```mlir
    %2 = "tfl.arg_max"(%0, %1) : (tensor<1x8xf32>, tensor<i32>) -> tensor<1xi32>
    ```
    """

    name = "tfl.arg_max"


@irdl_op_definition
class ArgMinOp(ArgOp):
    """
    Index of the first minimum along a dimension.

    Example:

    ```mlir
    %2 = "tfl.arg_min"(%0, %1) : (tensor<1x8xf32>, tensor<i32>) -> tensor<1xi32>
    ```
    """

    name = "tfl.arg_min"


_TOPK_V2_ELEMENTS = kinds.tensor_of("f32 i8 i16 i32 i64 ui8 QI8 QUI8")
_I16_I32 = kinds.tensor_of("i16 i32")


@irdl_op_definition
class TopKV2Op(TFLOp):
    """
    The `k` largest values along the last dimension, in descending order, and their indices.

    Example:

    ```mlir
    %values, %indices = "tfl.topk_v2"(%0, %1)
        : (tensor<1x8xf32>, tensor<i32>) -> (tensor<1x3xf32>, tensor<1x3xi32>)
    ```
    """

    name = "tfl.topk_v2"

    input = operand_def(_TOPK_V2_ELEMENTS)
    k = operand_def(_I16_I32)
    values = result_def(_TOPK_V2_ELEMENTS)
    indices = result_def(_I16_I32)

    traits = traits_def(
        Requires(
            has_rank(0, 1, None, "operand 0 is at least 1-D"),
            require_rank(1, 0),
            result_has_operand_type(0, "result and input element type match"),
            SAME_SCALE,
        ),
        *data_movement_traits(0),
    )
