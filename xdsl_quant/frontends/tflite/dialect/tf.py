"""The ops of TensorFlow that state how a model was trained to be quantized."""

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import (
    AnyFloat,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    UnrankedTensorType,
    i64,
)
from xdsl.ir import Dialect
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import ConstantLike, Pure

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.verification import require

__all__ = [
    "TF",
    "FakeQuantWithMinMaxVarsOp",
    "FakeQuantWithMinMaxVarsPerChannelOp",
    "TFConstOp",
    "TFFakeQuantOp",
]

_TENSOR = BaseAttr(TensorType) | BaseAttr(UnrankedTensorType)


@irdl_op_definition
class TFConstOp(IRDLOperation):
    """
    Constant.

    Example:

    ```mlir
    %0 = "tf.Const"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
    ```
    """

    name = "tf.Const"

    value = prop_def(DenseIntOrFPElementsAttr)
    output = result_def(_TENSOR)

    traits = traits_def(ConstantLike(), Pure())


class TFFakeQuantOp(IRDLOperation, ABC):
    """Fake quantization with ranges that are operands."""

    RANGE_RANK: ClassVar[int]
    """Rank of the minimum and of the maximum."""

    inputs = operand_def(_TENSOR)
    min = operand_def(_TENSOR)
    max = operand_def(_TENSOR)
    num_bits = opt_prop_def(IntegerAttr, default_value=IntegerAttr(8, i64))
    narrow_range = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    outputs = result_def(_TENSOR)

    traits = traits_def(Pure())

    def verify_(self) -> None:
        for name in ("min", "max"):
            type_ = getattr(self, name).type
            require(
                isinstance(type_, UnrankedTensorType)
                or (
                    len(type_.get_shape()) == self.RANGE_RANK
                    and isinstance(scalar_or_element_type(type_), AnyFloat)
                ),
                f"requires {name} to be a {self.RANGE_RANK}d float tensor",
            )
        require(
            2 <= self.num_bits.value.data <= 16,
            "requires num_bits to be between 2 and 16, inclusive",
        )


@irdl_op_definition
class FakeQuantWithMinMaxVarsOp(TFFakeQuantOp):
    """
    Fake quantization of a tensor with one range.

    Example:

    ```mlir
    %1 = "tf.FakeQuantWithMinMaxVars"(%0, %min, %max) {narrow_range = false, num_bits = 8}
        : (tensor<2x4xf32>, tensor<f32>, tensor<f32>) -> tensor<2x4xf32>
    ```
    """

    name = "tf.FakeQuantWithMinMaxVars"
    RANGE_RANK: ClassVar[int] = 0


@irdl_op_definition
class FakeQuantWithMinMaxVarsPerChannelOp(TFFakeQuantOp):
    """
    Fake quantization with a range per index of the last dimension.

    Example:

    ```mlir
    %1 = "tf.FakeQuantWithMinMaxVarsPerChannel"(%0, %min, %max) {num_bits = 8}
        : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "tf.FakeQuantWithMinMaxVarsPerChannel"
    RANGE_RANK: ClassVar[int] = 1


TF = Dialect(
    "tf",
    [TFConstOp, FakeQuantWithMinMaxVarsOp, FakeQuantWithMinMaxVarsPerChannelOp],
    [],
)
"""The TensorFlow ops that `tf-to-quant` converts."""
