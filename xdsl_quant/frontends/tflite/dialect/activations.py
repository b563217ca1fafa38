"""Activation functions, elementwise or along the last dimension."""

from abc import ABC

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant import traits as quant

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    BROADCAST,
    SAME_FIRST,
    SAME_INPUT,
    SAME_INPUT_OR_I16,
    SAME_OPERANDS,
    SAME_SHAPE,
    SAME_X_Y,
    FunctionOp,
    OneInputOp,
    Requires,
    TFLOp,
    has_rank,
    result_has_operand_type,
    static_shape_of,
)

__all__ = [
    "EluOp",
    "FakeQuantOp",
    "GeluOp",
    "HardSwishOp",
    "L2NormalizationOp",
    "LeakyReluOp",
    "LogSoftmaxOp",
    "LogisticOp",
    "PReluOp",
    "Relu0To1Op",
    "Relu1Op",
    "Relu6Op",
    "ReluOp",
    "SoftmaxOp",
    "TanhOp",
]

_F32_QUI8_QI8 = kinds.tensor_of("f32 QUI8 QI8")


class RectifierOp(TFLOp, ABC):
    """Base class of ops that clamp values to a range."""

    x = operand_def(_F32_QUI8_QI8)
    y = result_def(_F32_QUI8_QI8)

    traits = traits_def(Pure(), Requires(SAME_X_Y, SAME_SHAPE), quant.Clamps())


class ActivationOp(OneInputOp, ABC):
    """Base class of elementwise activation functions."""

    traits = traits_def(
        Pure(), Requires(SAME_INPUT, SAME_SHAPE), quant.ComputesElementwise()
    )


_F32_QUI8_QI8_QI16 = kinds.tensor_of("f32 QUI8 QI8 QI16")


@irdl_op_definition
class ReluOp(RectifierOp):
    """
    `max(x, 0)`

    Example:

    ```mlir
    %1 = "tfl.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.relu"

    x = operand_def(_F32_QUI8_QI8_QI16)
    y = result_def(_F32_QUI8_QI8_QI16)

    traits = traits_def(quant.ScalesWithOperand())


@irdl_op_definition
class Relu6Op(RectifierOp):
    """
    `min(max(x, 0), 6)`

    Example:

    ```mlir
    %1 = "tfl.relu6"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.relu6"


@irdl_op_definition
class Relu1Op(RectifierOp):
    """
    `min(max(x, -1), 1)`

    Example:

    ```mlir
    %1 = "tfl.relu_n1_to_1"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.relu_n1_to_1"


@irdl_op_definition
class Relu0To1Op(RectifierOp):
    """
    `min(max(x, 0), 1)`

    Example:

    ```mlir
    %1 = "tfl.relu_0_to_1"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.relu_0_to_1"


@irdl_op_definition
class LeakyReluOp(ActivationOp, elements="f32 QUI8 QI8 quint8 QI16"):
    """
    `x` if `x > 0`, else `alpha * x`.

    Example:

    ```mlir
    %1 = "tfl.leaky_relu"(%0) <{alpha = 0.1 : f32}> : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.leaky_relu"

    alpha = prop_def(props.F32)

    traits = traits_def(quant.ScalesWithOperand())


_F32_QI8_QUI8_QUINT8 = kinds.tensor_of("f32 QI8 QUI8 quint8")


@irdl_op_definition
class PReluOp(TFLOp):
    """
    `x` if `x > 0`, else `alpha * x` with a learned tensor `alpha`.

    Example:

    ```mlir
    %2 = "tfl.prelu"(%0, %1)
        : (tensor<1x4x8xf32>, tensor<4x8xf32>) -> tensor<1x4x8xf32>
    ```
    """

    name = "tfl.prelu"

    input = operand_def(_F32_QI8_QUI8_QUINT8)
    alpha = operand_def(_F32_QI8_QUI8_QUINT8)
    output = result_def(_F32_QI8_QUI8_QUINT8)

    traits = traits_def(
        Pure(),
        Requires(
            SAME_OPERANDS,
            result_has_operand_type(
                0, "input and output must have the same element type"
            ),
            BROADCAST,
        ),
        quant.ComputesElementwise(),
        quant.AffineOpCoefficient(),
    )

    def verify_(self) -> None:
        shape, alpha = static_shape_of(self.input), static_shape_of(self.alpha)
        if shape is not None and alpha is not None:
            self.require(
                len(shape) == len(alpha) + 1,
                "'alpha' should have one less rank than 'input'.",
            )
            for i, (size, full_size) in enumerate(zip(alpha, shape[1:], strict=True)):
                self.require(
                    size in (1, full_size),
                    f"'alpha' is not broadcastable at dimension {i}.",
                )
        result = static_shape_of(self.output)
        if shape is not None and result is not None:
            self.require(
                len(shape) == len(result),
                "'input' and 'output' should have the same rank.",
            )
            self.require(
                shape == result, "'input' and 'output' should have the same shape."
            )


@irdl_op_definition
class HardSwishOp(ActivationOp, elements="f32 QUI8 QI8"):
    """
    `x * min(max(x + 3, 0), 6) / 6`

    Example:

    ```mlir
    %1 = "tfl.hard_swish"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.hard_swish"


@irdl_op_definition
class EluOp(FunctionOp, elements="f32 i8"):
    """
    `x` if `x > 0`, else `exp(x) - 1`.

    Example:

    ```mlir
    %1 = "tfl.elu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.elu"

    traits = traits_def(Requires(SAME_FIRST, SAME_SHAPE))


@irdl_op_definition
class FakeQuantOp(OneInputOp, elements="any"):
    """
    Fake quantization: rounding to `2**num_bits` values between `min` and `max`, one less
    with `narrow_range`. `tf-to-quant` converts it to casts.

    Example:

    ```mlir
    %1 = "tfl.fake_quant"(%0) <{
        min = -1.0 : f32, max = 2.0 : f32, num_bits = 8 : i32, narrow_range = false
    }> : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.fake_quant"

    min = prop_def(props.F32)
    max = prop_def(props.F32)
    num_bits = prop_def(props.FAKE_QUANT_BITS)
    narrow_range = prop_def(props.BOOL)

    traits = traits_def(Pure())


@irdl_op_definition
class GeluOp(ActivationOp, elements="f32 f16 QI8 QUI8"):
    """
    `x * Phi(x)` with the standard normal distribution function `Phi`.

    Example:

    ```mlir
    %1 = "tfl.gelu"(%0) <{approximate = false}> : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.gelu"

    approximate = opt_prop_def(props.BOOL)


@irdl_op_definition
class LogisticOp(FunctionOp, elements="f32 QI8 QUI8 QI16 quint8"):
    """
    `1 / (1 + exp(-x))`

    Example:

    ```mlir
    %1 = "tfl.logistic"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.logistic"

    traits = traits_def(
        Requires(SAME_X_Y, SAME_SHAPE),
        quant.FixedResultUniformScale(0, 1, symmetric_widths=(16,)),
    )


@irdl_op_definition
class TanhOp(ActivationOp, elements="f32 f16 QI8 QUI8 QI16 quint8"):
    """
    Hyperbolic tangent.

    Example:

    ```mlir
    %1 = "tfl.tanh"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.tanh"

    traits = traits_def(quant.FixedResultUniformScale(-1, 1))


@irdl_op_definition
class SoftmaxOp(OneInputOp, elements="f32 f16 QI8 QUI8 quint8 QI16"):
    """
    `exp(beta * x)` divided by its sum along the last dimension.

    Example:

    ```mlir
    %1 = "tfl.softmax"(%0) <{beta = 1.0 : f32}> : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.softmax"

    beta = prop_def(props.F32)

    traits = traits_def(
        Pure(),
        Requires(
            SAME_INPUT_OR_I16,
            has_rank(0, 1, None, "operand 0 is at least 1-D"),
            SAME_SHAPE,
        ),
        quant.FixedResultUniformScale(0, 1, symmetric_widths=(16,)),
    )


@irdl_op_definition
class LogSoftmaxOp(OneInputOp, elements="f32 QUI8 QI8 quint8"):
    """
    Logarithm of softmax.

    Example:

    ```mlir
    %1 = "tfl.log_softmax"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.log_softmax"

    traits = traits_def(
        Pure(),
        Requires(SAME_X_Y, SAME_SHAPE),
        quant.FixedResultUniformScale(-15.9375, 0.0625),
    )


@irdl_op_definition
class L2NormalizationOp(OneInputOp, elements="f32 QUI8 QI8 QUI16 QI16 i8"):
    """
    `x` divided by its Euclidean norm along the last dimension.

    Example:

    ```mlir
    %1 = "tfl.l2_normalization"(%0) <{fused_activation_function = "NONE"}>
        : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.l2_normalization"

    fused_activation_function = prop_def(props.ACTIVATION)

    traits = traits_def(Pure(), quant.FixedResultUniformScale(-1, 1))
