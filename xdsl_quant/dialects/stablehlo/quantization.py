"""The ops between floating-point and quantized tensors."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.dialects.quant.traits import CastsQuantization

from .base import ELEMENTWISE, InferredTypeOp, StableHLOOp
from .compatibility import RankedTensor
from .tensor_kinds import (
    FLOAT_OR_QUANTIZED_OR_PER_AXIS,
    FLOAT_TENSOR,
    QUANTIZED_OR_PER_AXIS,
)


class _CastOp(StableHLOOp, ABC):
    """An elementwise op that leaves the numbers as they are, but for rounding."""

    operand = operand_def(FLOAT_OR_QUANTIZED_OR_PER_AXIS)
    result = result_def(QUANTIZED_OR_PER_AXIS)

    assembly_format = (
        "$operand attr-dict `:` "
        "custom<SameOperandsAndResultType>(type(operands), type(results))"
    )

    traits = traits_def(Pure(), ELEMENTWISE, CastsQuantization())

    def __init__(self, operand: SSAValue | Operation, result_type: Attribute):
        super().__init__(operands=[operand], result_types=[result_type])


@irdl_op_definition
class UniformQuantizeOp(_CastOp):
    """
    Quantize a tensor, or give another scale and zero point to a quantized one.

    Example:

    ```mlir
    %1 = stablehlo.uniform_quantize %0
        : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#uniform_quantize).
    """

    name = "stablehlo.uniform_quantize"

    def verify_(self) -> None:
        expressed, actual = (
            _expressed_type(type_.element_type) for type_ in self.tensor_types
        )
        if actual != expressed:
            raise VerifyException(
                f"Expressed type of result expected to be '{expressed}', but got "
                f"'{actual}'"
            )


@irdl_op_definition
class UniformDequantizeOp(InferredTypeOp, _CastOp):
    """
    The values that a quantized tensor expresses.

    Example:

    ```mlir
    %1 = stablehlo.uniform_dequantize %0
        : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#uniform_dequantize).
    """

    name = "stablehlo.uniform_dequantize"

    operand = operand_def(QUANTIZED_OR_PER_AXIS)
    result = result_def(FLOAT_TENSOR)

    def inferred_type(self) -> RankedTensor:
        type_, _ = self.tensor_types
        return TensorType(_expressed_type(type_.element_type), type_.shape)


def _expressed_type(element_type: Attribute) -> Attribute:
    """The type of the numbers that are meant."""
    is_quantized = isinstance(element_type, QuantizedType)
    return element_type.expressed_type if is_quantized else element_type
