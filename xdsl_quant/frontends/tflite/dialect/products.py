"""Contractions with weights (convolutions, matrix products), and embedding lookup."""

from abc import ABC
from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    TensorType,
    UnrankedTensorType,
    i32,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_result_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant import traits as quant
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.verification import (
    are_compatible_sizes,
    constant_integers,
    require,
)

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    InferredTypesOp,
    Requires,
    TFLOp,
    broadcast_shape,
    has_rank,
    is_true,
    require_rank,
    result_has_operand_type,
    shape_of,
    static_shape_of,
    without_blocks,
)

__all__ = [
    "BatchMatMulOp",
    "Conv2DOp",
    "DepthwiseConv2DOp",
    "EmbeddingLookupOp",
    "FullyConnectedOp",
    "TransposeConvOp",
]

_F32_QI8_QUI8_QI16 = kinds.tensor_of("f32 QI8 QUI8 QI16")
_F32_QI4_QI8_QUI8 = kinds.tensor_of("f32 QI4 QI8 QUI8")


def has_wide_accumulator_without_bias(op: Operation) -> bool:
    """
    Return True if a 16-bit op without bias has 64-bit accumulators.

    The attribute `quantized_bias_type = 2 : i32` (`INT32`) selects 32 bits instead.
    """
    return op.attributes.get("quantized_bias_type") != IntegerAttr(2, i32)


class ConvolutionOp(TFLOp, ABC):
    """Base class of convolutions of images (NHWC)."""

    input = operand_def(_F32_QI8_QUI8_QI16)
    filter = operand_def(_F32_QI4_QI8_QUI8)
    bias = operand_def(kinds.tensor_of_or_none("f32 i32 i64"))
    dilation_h_factor = prop_def(props.I32)
    dilation_w_factor = prop_def(props.I32)
    fused_activation_function = prop_def(props.ACTIVATION)
    padding = prop_def(props.PADDING)
    stride_h = prop_def(props.I32)
    stride_w = prop_def(props.I32)
    output = result_def(_F32_QI8_QUI8_QI16)

    traits = traits_def(
        Pure(),
        Requires(without_blocks),
        quant.MultipliesAndAccumulates(),
        quant.AccumulatorUniformScale(2),
    )


@irdl_op_definition
class Conv2DOp(ConvolutionOp, InferredTypesOp):
    """
    Convolution of images (NHWC) with filters (OHWI), which may be grouped.

    Example:

    ```mlir
    %3 = "tfl.conv_2d"(%0, %1, %2) <{
        dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
        fused_activation_function = "NONE", padding = "SAME",
        stride_h = 1 : i32, stride_w = 1 : i32
    }> : (tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x8x8x4xf32>
    ```
    """

    name = "tfl.conv_2d"

    traits = traits_def(quant.ChannelCoefficient(1, 0, -1, (3, 3)))

    def inferred_types(self) -> Sequence[Attribute]:
        shape, filters = shape_of(self.input), shape_of(self.filter)
        ranks = [len(known) for known in (shape, filters) if known is not None]
        require(ranks.count(4) == len(ranks), "Invalid ranks")
        if shape is None or filters is None:
            return (UnrankedTensorType(scalar_or_element_type(self.input.type)),)
        height, width = (
            self._inferred_size(
                shape[i], filters[i], stride.value.data, dilation.value.data
            )
            for i, stride, dilation in (
                (1, self.stride_h, self.dilation_h_factor),
                (2, self.stride_w, self.dilation_w_factor),
            )
        )
        element_type = scalar_or_element_type(self.input.type)
        return (TensorType(element_type, (shape[0], height, width, filters[0])),)

    def _inferred_size(self, size: int, window: int, stride: int, dilation: int) -> int:
        if DYNAMIC_INDEX in (size, window):
            return DYNAMIC_INDEX
        if self.padding.data == "VALID":
            size -= (window - 1) * dilation
        inferred_size = -(-size // stride) if stride > 0 else -1
        self.require(
            inferred_size >= 0 and dilation > 0, "failed to infer returned types"
        )
        return inferred_size


@irdl_op_definition
class DepthwiseConv2DOp(ConvolutionOp):
    """
    Depthwise convolution of images (NHWC) with filters (1HWO).

    Example:

    ```mlir
    %3 = "tfl.depthwise_conv_2d"(%0, %1, %2) <{
        depth_multiplier = 1 : i32,
        dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
        fused_activation_function = "NONE", padding = "SAME",
        stride_h = 1 : i32, stride_w = 1 : i32
    }> : (tensor<1x8x8x3xf32>, tensor<1x3x3x3xf32>, tensor<3xf32>) -> tensor<1x8x8x3xf32>
    ```
    """

    name = "tfl.depthwise_conv_2d"

    depth_multiplier = prop_def(props.I32)

    traits = traits_def(quant.ChannelCoefficient(1, 3, -1, (3, 3)))


@irdl_op_definition
class TransposeConvOp(TFLOp):
    """
    Transposed convolution: accumulates the filters (OHWI), scaled by each input element.

    Example:

    ```mlir
    %4 = "tfl.transpose_conv"(%0, %1, %2, %3) <{
        fused_activation_function = "NONE", padding = "SAME",
        stride_h = 2 : i32, stride_w = 2 : i32
    }> : (tensor<4xi32>, tensor<3x2x2x4xf32>, tensor<1x4x4x4xf32>, none)
        -> tensor<1x8x8x3xf32>
    ```
    """

    name = "tfl.transpose_conv"

    output_shape = operand_def(kinds.I32)
    weights = operand_def(_F32_QI8_QUI8_QI16)
    input = operand_def(_F32_QI8_QUI8_QI16)
    bias = operand_def(kinds.tensor_of_or_none("f32 QI32 i64"))
    fused_activation_function = prop_def(props.ACTIVATION)
    padding = prop_def(props.PADDING)
    stride_h = prop_def(props.POSITIVE_I32)
    stride_w = prop_def(props.POSITIVE_I32)
    output = result_def(_F32_QI8_QUI8_QI16)

    traits = traits_def(
        Pure(),
        Requires(
            require_rank(0, 1),
            require_rank(1, 4),
            require_rank(2, 4),
            result_has_operand_type(2, "input and output must have same element type"),
            without_blocks,
        ),
        quant.MultipliesAndAccumulates(2, 1),
        quant.ChannelCoefficient(1, 0, -1, (3, 3)),
        quant.AccumulatorUniformScale(3, (1, 2)),
    )

    def verify_(self) -> None:
        shape, sizes = shape_of(self.output), static_shape_of(self.output_shape)
        self.require(
            shape is None or sizes is None or len(shape) == sizes[0],
            f"expect output type has rank = {sizes and sizes[0]}, got output type "
            f"{self.output.type}",
        )
        if (inferred_shape := constant_integers(self.output_shape)) is not None:
            self.verify_type_of(self.output, inferred_shape)


@irdl_op_definition
class FullyConnectedOp(TFLOp):
    """
    Product with a weight matrix that has one row per output. With shuffled weights, a
    second result is the workspace of the kernel.

    Example:

    ```mlir
    %3 = "tfl.fully_connected"(%0, %1, %2) <{
        fused_activation_function = "NONE", keep_num_dims = false,
        weights_format = "DEFAULT"
    }> : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<1x4xf32>
    ```
    """

    name = "tfl.fully_connected"

    input = operand_def(kinds.tensor_of("f32 f16 QI8 QUI8 QI16 QUI16"))
    filter = operand_def(kinds.tensor_of("f32 f16 QI2 QI4 QI8 QUI8 QI16"))
    bias = operand_def(kinds.tensor_of_or_none("f32 QI32 QUI32"))
    asymmetric_quantize_inputs = opt_prop_def(props.BOOL)
    fused_activation_function = prop_def(props.ACTIVATION)
    keep_num_dims = prop_def(props.BOOL)
    weights_format = prop_def(props.WEIGHTS_FORMAT)
    output = var_result_def(kinds.variadic_of("f32 QI8 QUI8 QI16 QUI16"))

    traits = traits_def(
        Pure(),
        quant.MultipliesAndAccumulates(),
        quant.ChannelCoefficient(1, 0, -1, (-1, 1)),
        quant.AccumulatorUniformScale(2),
    )

    def verify_(self) -> None:
        weights = shape_of(self.filter)
        self.require(
            weights is None or len(weights) == 2,
            f"expect 2d filter, got '{self.filter.type}'",
        )
        shape, weights = static_shape_of(self.input), static_shape_of(self.filter)
        if shape is None or weights is None:
            return
        outputs, inputs = weights
        count = prod(shape)
        self.require(
            not inputs or count % inputs == 0,
            f"expect 'input' num_elements % {inputs} == 0, got input type "
            f"'{self.input.type}'",
        )
        if self.weights_format.data != "DEFAULT" or not self.output:
            return
        if (result_shape := static_shape_of(self.output[0])) is None:
            return
        result_count = prod(result_shape)
        self.require(
            outputs > 0 and result_count % outputs == 0,
            f"expect 'output' num_elements % {outputs} == 0, got '{self.output[0].type}'",
        )
        self.require(
            not inputs or count // inputs == result_count // outputs,
            "num_input_elements / z_in != num_output_elements / z_out",
        )


_BATCH_MATMUL_ELEMENTS = kinds.tensor_of("f32 f16 QI8 QI16 i8")


@irdl_op_definition
class BatchMatMulOp(TFLOp):
    """
    Batch matrix product with broadcast batch dimensions and optional transposes.

    Example:

    ```mlir
    %2 = "tfl.batch_matmul"(%0, %1) <{adj_x = false, adj_y = false}>
        : (tensor<2x4x8xf32>, tensor<8x3xf32>) -> tensor<2x4x3xf32>
    ```
    """

    name = "tfl.batch_matmul"

    x = operand_def(_BATCH_MATMUL_ELEMENTS)
    y = operand_def(_BATCH_MATMUL_ELEMENTS)
    adj_x = opt_prop_def(props.BOOL)
    adj_y = opt_prop_def(props.BOOL)
    asymmetric_quantize_inputs = opt_prop_def(props.BOOL)
    output = result_def(kinds.tensor_of("f32 f16 QI8 QI16 i32"))

    traits = traits_def(
        Pure(),
        Requires(
            has_rank(0, 2, None, "operand 0 is 2-D"),
            has_rank(1, 2, None, "operand 1 is 2-D"),
            without_blocks,
        ),
        quant.MultipliesAndAccumulates(),
    )

    def verify_(self) -> None:
        x, y, result = map(shape_of, (self.x, self.y, self.output))
        if x is None or y is None:
            return
        if (batch := broadcast_shape(x[:-2], y[:-2])) is None:
            return self.require(
                False,
                "found incompatible broadcast batch dimensions for lhs shape "
                f"'{self.x.type}' and rhs shape '{self.y.type}'",
            )
        if result is None:
            return
        rank = max(len(x), len(y))
        self.require(
            len(result) == rank,
            f"found invalid output rank, expected {rank} but got {len(result)}",
        )
        for size, actual in zip(batch, result, strict=False):
            self.require(
                are_compatible_sizes(size, actual),
                f"has mismatching input batch dimension {size} and output batch dimension "
                f"{actual}",
            )
        row = x[-1 if is_true(self.adj_x) else -2]
        column = y[-2 if is_true(self.adj_y) else -1]
        for name, size, actual in (
            ("row", row, result[-2]),
            ("col", column, result[-1]),
        ):
            self.require(
                are_compatible_sizes(size, actual),
                f"found invalid output dimension on {name}, expected {size} but got "
                f"{actual}",
            )


@irdl_op_definition
class EmbeddingLookupOp(TFLOp):
    """
    Rows of a table by index; the result has the scale of the table.

    Example:

    ```mlir
    %2 = "tfl.embedding_lookup"(%0, %1)
        : (tensor<3xi32>, tensor<10x8xf32>) -> tensor<3x8xf32>
    ```
    """

    name = "tfl.embedding_lookup"

    lookup = operand_def(kinds.I32)
    value = operand_def(kinds.tensor_of("f32 i8 ui8 QI8 QUI8 QI4 QI2"))
    output = result_def(kinds.tensor_of("f32 i8 ui8"))

    traits = traits_def(
        Pure(),
        Requires(require_rank(0, 1), has_rank(1, 2, None, "operand 1 is at least 2-D")),
        quant.MovesElements((1,)),
        quant.AffineOpCoefficient(1, 0),
    )
