"""Ops along dimensions: sums, extreme values and their indices."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from xdsl_quant.dialects.quant import traits as quant

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    SAME_INPUT,
    SAME_SCALE,
    Requires,
    TFLOp,
    has_rank,
    rank_is,
    result_like,
)

_MEAN_ELEMENTS = kinds.tensor_of("f32 f16 i32 i64 QI8 QUI8 ui8 QI16")


@irdl_op_definition
class MeanOp(TFLOp):
    """
    Mean along dimensions.

    Example:

    ```mlir
    %2 = "tfl.mean"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```

    See external [documentation](https://www.tensorflow.org/mlir/tfl_ops#tflmean_tflmeanop).
    """

    name = "tfl.mean"

    input = operand_def(_MEAN_ELEMENTS)
    axis = operand_def(kinds.I32)
    keep_dims = prop_def(props.BOOL)
    output = result_def(_MEAN_ELEMENTS)

    traits = traits_def(Pure(), Requires(SAME_INPUT), quant.QuantizableResult())


_SUM_ELEMENTS = kinds.tensor_of("f32 f16 i32 i64 QI8 QUI8 quint8 QI16")


@irdl_op_definition
class SumOp(TFLOp):
    """
    Sum along dimensions.

    Example:

    ```mlir
    %2 = "tfl.sum"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```

    See external [documentation](https://www.tensorflow.org/mlir/tfl_ops#tflsum_tflsumop).
    """

    name = "tfl.sum"

    input = operand_def(_SUM_ELEMENTS)
    axes = operand_def(kinds.I32)
    keep_dims = prop_def(props.BOOL)
    output = result_def(_SUM_ELEMENTS)

    traits = traits_def(Pure(), Requires(SAME_INPUT), quant.QuantizableResult())


_REDUCE_PROD_ELEMENTS = kinds.tensor_of("f32 i32 i64 QI8 QUI8 quint8 QI16")


@irdl_op_definition
class ReduceProdOp(TFLOp):
    """
    Product along dimensions.

    Example:

    ```mlir
    %2 = "tfl.reduce_prod"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```

    See external [documentation](https://www.tensorflow.org/mlir/tfl_ops#tflreduce_prod_tflreduceprodop).
    """

    name = "tfl.reduce_prod"

    input = operand_def(_REDUCE_PROD_ELEMENTS)
    axes = operand_def(kinds.I32)
    keep_dims = prop_def(props.BOOL)
    output = result_def(_REDUCE_PROD_ELEMENTS)

    traits = traits_def(Pure(), Requires(SAME_INPUT), quant.QuantizableResult())


@irdl_op_definition
class ReduceMaxOp(TFLOp):
    """
    Maximum along dimensions.

    Example:

    ```mlir
    %2 = "tfl.reduce_max"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```

    See external [documentation](https://www.tensorflow.org/mlir/tfl_ops#tflreduce_max_tflreducemaxop).
    """

    name = "tfl.reduce_max"

    input = operand_def(_SUM_ELEMENTS)
    axes = operand_def(kinds.I32)
    keep_dims = prop_def(props.BOOL)
    output = result_def(_SUM_ELEMENTS)

    traits = traits_def(
        Pure(),
        Requires(SAME_INPUT, SAME_SCALE),
        quant.OrdersElements(),
        quant.SameOperandsAndResultsScale(),
    )


@irdl_op_definition
class ReduceMinOp(TFLOp):
    """
    Minimum along dimensions.

    Example:

    ```mlir
    %2 = "tfl.reduce_min"(%0, %1) <{keep_dims = false}>
        : (tensor<1x8x8x3xf32>, tensor<2xi32>) -> tensor<1x3xf32>
    ```

    See external [documentation](https://www.tensorflow.org/mlir/tfl_ops#tflreduce_min_tflreduceminop).
    """

    name = "tfl.reduce_min"

    input = operand_def(_REDUCE_PROD_ELEMENTS)
    axes = operand_def(kinds.I32)
    keep_dims = prop_def(props.BOOL)
    output = result_def(_REDUCE_PROD_ELEMENTS)

    traits = traits_def(
        Pure(),
        Requires(SAME_INPUT, SAME_SCALE),
        quant.OrdersElements(),
        quant.SameOperandsAndResultsScale(),
    )


_ARG_MAX_ELEMENTS = kinds.tensor_of("i1 f32 i32 i8 ui8 QI8 QUI8")


@irdl_op_definition
class ArgMaxOp(TFLOp):
    """
    The first index of the maximum along a dimension.

    Example:

    ```mlir
    %2 = "tfl.arg_max"(%0, %1) : (tensor<1x8xf32>, tensor<i32>) -> tensor<1xi32>
    ```

    See external [documentation](https://www.tensorflow.org/mlir/tfl_ops#tflarg_max_tflargmaxop).
    """

    name = "tfl.arg_max"

    input = operand_def(_ARG_MAX_ELEMENTS)
    dim = operand_def(kinds.INDEX)
    output = result_def(kinds.INDEX)

    traits = traits_def(Pure(), quant.QuantizableResult())


@irdl_op_definition
class ArgMinOp(TFLOp):
    """
    The first index of the minimum along a dimension.

    Example:

    ```mlir
    %2 = "tfl.arg_min"(%0, %1) : (tensor<1x8xf32>, tensor<i32>) -> tensor<1xi32>
    ```

    See external [documentation](https://www.tensorflow.org/mlir/tfl_ops#tflarg_min_tflargminop).
    """

    name = "tfl.arg_min"

    input = operand_def(_ARG_MAX_ELEMENTS)
    dim = operand_def(kinds.INDEX)
    output = result_def(kinds.INDEX)

    traits = traits_def(Pure(), quant.QuantizableResult())


_TOPK_V2_ELEMENTS = kinds.tensor_of("f32 i8 i16 i32 i64 ui8 QI8 QUI8")
_I16_I32 = kinds.tensor_of("i16 i32")


@irdl_op_definition
class TopKV2Op(TFLOp):
    """
    The largest values along the last dimension, in descending order, and their indices.

    Example:

    ```mlir
    %values, %indices = "tfl.topk_v2"(%0, %1)
        : (tensor<1x8xf32>, tensor<i32>) -> (tensor<1x3xf32>, tensor<1x3xi32>)
    ```

    See external [documentation](https://www.tensorflow.org/mlir/tfl_ops#tfltopk_v2_tfltopkv2op).
    """

    name = "tfl.topk_v2"

    input = operand_def(_TOPK_V2_ELEMENTS)
    k = operand_def(_I16_I32)
    values = result_def(_TOPK_V2_ELEMENTS)
    indices = result_def(_I16_I32)

    traits = traits_def(
        Pure(),
        Requires(
            has_rank(0, 1, None, "operand 0 is at least 1-D"),
            rank_is(1, 0),
            result_like(0, "result and input element type match"),
            SAME_SCALE,
        ),
        quant.MovesElements((0,)),
        quant.SameOperandsAndResultsScale(),
    )
