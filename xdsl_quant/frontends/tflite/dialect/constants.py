"""Constants, tensors generated from a few values, and custom operators."""

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import ConstantLike, Pure

from xdsl_quant.dialects.quant import traits as quant

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    ALL_ALIKE,
    SAME_SCALE,
    Requires,
    TFLOp,
    data_movement_traits,
    require_operand_types,
    require_rank,
    result_has_operand_type,
)

__all__ = [
    "BroadcastArgsOp",
    "ConstOp",
    "CustomOp",
    "FillOp",
    "NoValueOp",
    "QConstOp",
    "RangeOp",
    "RankOp",
    "ShapeOp",
]


class _HasValue(ConstantLike):
    """Trait of ops whose result is the constant `value`."""


@irdl_op_definition
class ConstOp(TFLOp):
    """
    Constant.

    Example:

    ```mlir
    %0 = "tfl.pseudo_const"() <{value = dense<1> : tensor<4xi32>}> : () -> tensor<4xi32>
    ```
    """

    name = "tfl.pseudo_const"

    value = prop_def(props.ELEMENTS)
    output = result_def(kinds.ANY)

    traits = traits_def(Pure(), _HasValue(), quant.AcceptsStoredValues())


@irdl_op_definition
class QConstOp(TFLOp):
    """
    Quantized constant, with `value` as its stored values.

    Example:

    ```mlir
    %0 = "tfl.pseudo_qconst"() <{
        qtype = tensor<4x!quant.uniform<i8:f32, 0.5>>, value = dense<1> : tensor<4xi8>
    }> : () -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    ```
    """

    name = "tfl.pseudo_qconst"

    qtype = prop_def(props.TENSOR_TYPE)
    value = prop_def(props.ELEMENTS)
    output = result_def(kinds.tensor_of("QUI8 QI8 QUI4 QI4 QI16 QUI16 quint8"))

    traits = traits_def(Pure(), quant.AcceptsStoredValues())


@irdl_op_definition
class NoValueOp(TFLOp):
    """
    Placeholder for an absent operand.

    Example:

    ```mlir
    %0 = "tfl.no_value"() <{value}> : () -> none
    ```
    """

    name = "tfl.no_value"

    value = opt_prop_def(props.UNIT)
    none_val = result_def(kinds.NONE)

    traits = traits_def(Pure())


@irdl_op_definition
class ShapeOp(TFLOp):
    """
    Shape of a tensor.

    Example:

    ```mlir
    %1 = "tfl.shape"(%0) : (tensor<2x3xf32>) -> tensor<2xi32>
    ```
    """

    name = "tfl.shape"

    input = operand_def(kinds.ANY)
    output = result_def(kinds.tensor_of("i32 i64"))

    traits = traits_def(Pure(), quant.AcceptsStoredValues())


@irdl_op_definition
class RankOp(TFLOp):
    """
    Number of dimensions of a tensor.

    Example:

    ```mlir
    %1 = "tfl.rank"(%0) : (tensor<2x3xf32>) -> tensor<i32>
    ```
    """

    name = "tfl.rank"

    input = operand_def(kinds.ANY)
    output = result_def(kinds.tensor_of("i32"))

    traits = traits_def(Pure(), quant.AcceptsStoredValues())


@irdl_op_definition
class BroadcastArgsOp(TFLOp):
    """
    Shape to which tensors of two shapes broadcast.

    Example:

    ```mlir
    %2 = "tfl.broadcast_args"(%0, %1)
        : (tensor<2xi32>, tensor<3xi32>) -> tensor<3xi32>
    ```
    """

    name = "tfl.broadcast_args"

    s0 = operand_def(kinds.tensor_of("i32|i64"))
    s1 = operand_def(kinds.tensor_of("i32|i64"))
    r0 = result_def(kinds.tensor_of("i32|i64"))

    traits = traits_def(
        Requires(
            require_operand_types(
                0, 1, "BroadcastArgs op operands have same element type"
            ),
            require_rank(0, 1),
            require_rank(1, 1),
        ),
        Pure(),
    )


_FILL_ELEMENTS = kinds.tensor_of("f32 f16 f8E4M3FN f8E5M2 i32 i64 i1 QI8 QI16 string")


@irdl_op_definition
class FillOp(TFLOp):
    """
    Tensor of the given shape, filled with one value.

    Example:

    ```mlir
    %2 = "tfl.fill"(%0, %1) : (tensor<2xi32>, tensor<f32>) -> tensor<2x3xf32>
    ```
    """

    name = "tfl.fill"

    dims = operand_def(kinds.INDEX)
    input = operand_def(_FILL_ELEMENTS)
    result = result_def(_FILL_ELEMENTS)

    traits = traits_def(
        Requires(
            result_has_operand_type(1, "input and result must have same element type"),
            SAME_SCALE,
        ),
        *data_movement_traits(1),
    )


_I32_F32_I64 = kinds.tensor_of("i32 f32 i64")


@irdl_op_definition
class RangeOp(TFLOp):
    """
    Values from `start` up to, but excluding, `limit` in steps of `delta`.

    Example:

    ```mlir
    %3 = "tfl.range"(%0, %1, %2)
        : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<?xi32>
    ```
    """

    name = "tfl.range"

    start = operand_def(_I32_F32_I64)
    limit = operand_def(_I32_F32_I64)
    delta = operand_def(_I32_F32_I64)
    result = result_def(_I32_F32_I64)

    traits = traits_def(
        Pure(),
        Requires(require_rank(0, 0), require_rank(1, 0), require_rank(2, 0), ALL_ALIKE),
    )


@irdl_op_definition
class CustomOp(TFLOp):
    """
    Operator that an application registers with the runtime.

    Example:

    ```mlir
    %1 = "tfl.custom"(%0) <{
        custom_code = "MyOp", custom_option = #tfl<const_bytes : "0x616263">
    }> : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.custom"

    input = var_operand_def(kinds.CUSTOM_INPUTS)
    custom_code = prop_def(props.STRING)
    custom_option = prop_def(props.BYTES)
    output = var_result_def(kinds.variadic_of("any"))
