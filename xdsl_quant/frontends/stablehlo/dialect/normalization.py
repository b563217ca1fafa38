"""Batch normalization: inference, training and gradient."""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, TensorType, f32
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from xdsl_quant.diagnostics import quoted
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_sizes,
    have_one_shape,
    require,
)

from . import tensor_kinds as kinds
from .base import COMPATIBLE_ELEMENTS, StableHLOOp

__all__ = ["BatchNormGradOp", "BatchNormInferenceOp", "BatchNormTrainingOp"]


class BatchNormOp(StableHLOOp, ABC):
    """Op that normalizes each feature of a tensor."""

    GRADIENTS: ClassVar[int] = 0
    """Number of operands at the end that have the shape of the first one."""

    epsilon = prop_def(FloatAttr.constr(f32))
    feature_index = prop_def(kinds.DIMENSION)

    traits = traits_def(Pure(), COMPATIBLE_ELEMENTS)

    def verify_features(self) -> Sequence[int]:
        """
        Verify the number of features of each operand with one dimension.

        Returns:
            Shape of the operand.

        Raises:
            VerifyException: if `feature_index` or a size is inconsistent.
        """
        types = self.tensor_types[: len(self.operands)]
        shape, index = types[0].get_shape(), self.feature_index.value.data
        require(
            index < len(shape),
            f"expects feature_index in [0, {len(shape)}), got {index}",
        )
        whole = types[:1] + types[len(types) - self.GRADIENTS :]
        features = types[1 : len(types) - self.GRADIENTS]
        require(
            have_one_shape(features)
            and are_compatible_sizes(features[0].get_shape()[0], shape[index])
            and have_one_shape(whole),
            f"expects operands for {shape[index]} features, got {quoted(types[1:])}",
        )
        return shape

    def inferred_types(self) -> Sequence[RankedTensor]:
        type_, shape = self.tensor_types[0], self.verify_features()
        element, size = type_.element_type, shape[self.feature_index.value.data]
        features = [TensorType(element, (size,)) for _ in self.results[1:]]
        return [type_, *features]

    def verify_(self) -> None:
        self.verify_inferred(self.inferred_types())


@irdl_op_definition
class BatchNormInferenceOp(BatchNormOp):
    """
    Normalization of each feature by a known mean and variance:
    `(operand - mean) / sqrt(variance + epsilon) * scale + offset`.

    Example:

    ```mlir
    %5 = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) <{
        epsilon = 1.000000e-03 : f32, feature_index = 1 : i64
    }> : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
        -> tensor<8x4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#batch_norm_inference).
    """

    name = "stablehlo.batch_norm_inference"

    operand = operand_def(kinds.FLOAT_OR_QUANTIZED)
    scale = operand_def(kinds.FEATURES)
    offset = operand_def(kinds.FEATURES)
    mean = operand_def(kinds.FEATURES)
    variance = operand_def(kinds.FEATURES)
    result = result_def(kinds.FLOAT_OR_QUANTIZED)


@irdl_op_definition
class BatchNormTrainingOp(BatchNormOp):
    """Normalization of each feature by its mean and variance, which are also results."""

    name = "stablehlo.batch_norm_training"

    operand = operand_def(kinds.FLOAT_OR_QUANTIZED)
    scale = operand_def(kinds.FEATURES)
    offset = operand_def(kinds.FEATURES)
    output = result_def(kinds.FLOAT_OR_QUANTIZED)
    batch_mean = result_def(kinds.FEATURES)
    batch_var = result_def(kinds.FEATURES)


@irdl_op_definition
class BatchNormGradOp(BatchNormOp):
    """Gradients of `batch_norm_training` for its operands."""

    name = "stablehlo.batch_norm_grad"

    GRADIENTS: ClassVar[int] = 1

    operand = operand_def(kinds.FLOAT_OR_QUANTIZED)
    scale = operand_def(kinds.FEATURES)
    mean = operand_def(kinds.FEATURES)
    variance = operand_def(kinds.FEATURES)
    grad_output = operand_def(kinds.FLOAT_OR_QUANTIZED)
    grad_operand = result_def(kinds.FLOAT_OR_QUANTIZED)
    grad_scale = result_def(kinds.FEATURES)
    grad_offset = result_def(kinds.FEATURES)
