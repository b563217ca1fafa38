"""Ops that compute each element of the result from those at the same place."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import (
    Adds,
    ComputesElementwise,
    FixedResultUniformScale,
    OrdersElements,
)

from .attributes import (
    ResultAccuracyAttr,
)
from .compatibility import (
    merged_shape,
    real_type,
    tensor_types,
    verify_compatible_types,
    verify_elementwise,
    verify_inferred,
    verify_same_shape,
)
from .quantized_constraints import has_quantized, verify_quantized_add
from .syntax import SameBinaryType, SameUnaryType
from .tensor_kinds import (
    FLOAT_OR_COMPLEX,
    NUMBER,
    SIGNED_NUMBER,
    SIGNED_REAL_NUMBER,
    TENSOR,
    TENSOR_NOT_QUANTIZED,
    TENSOR_OR_PER_AXIS,
    TensorKind,
    verify_kinds,
)


class UnaryOp(IRDLOperation, ABC):
    """An elementwise op with one operand."""

    operand = operand_def()
    result = result_def()

    assembly_format = (
        "$operand attr-dict `:` custom<SameUnaryType>(type($operand), type($result))"
    )
    custom_directives = (SameUnaryType,)

    KIND: ClassVar[TensorKind]
    """What the operand must be and, unless the op says more, the result."""

    def __init__(
        self, operand: SSAValue | Operation, result_type: Attribute | None = None
    ):
        """The type of the result defaults to that of the operand."""
        operand = SSAValue.get(operand)
        super().__init__(operands=[operand], result_types=[result_type or operand.type])

    def verify_(self) -> None:
        verify_kinds(self, (self.KIND,), (self.KIND,))
        verify_compatible_types(self)


class BinaryOp(IRDLOperation, ABC):
    """An elementwise op with two operands."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    assembly_format = (
        "$lhs `,` $rhs attr-dict `:` "
        "custom<SameBinaryType>(type($lhs), type($rhs), type($result))"
    )
    custom_directives = (SameBinaryType,)

    KIND: ClassVar[TensorKind]
    """What the operands and the result must be."""

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        result_type: Attribute | None = None,
    ):
        """The type of the result defaults to that of `lhs`."""
        lhs = SSAValue.get(lhs)
        super().__init__(operands=[lhs, rhs], result_types=[result_type or lhs.type])

    def verify_(self) -> None:
        verify_kinds(self, (self.KIND,) * 2, (self.KIND,))
        verify_compatible_types(self)
        verify_same_shape(self)


class AccuracyOp(UnaryOp, ABC):
    """A transcendental function, of which one can say how exact it has to be."""

    result_accuracy = opt_prop_def(
        ResultAccuracyAttr, default_value=ResultAccuracyAttr()
    )

    irdl_options = (ParsePropInAttrDict(),)

    KIND: ClassVar[TensorKind] = FLOAT_OR_COMPLEX


@irdl_op_definition
class AddOp(BinaryOp):
    """
    Sum. It is the one elementwise op that takes per-axis quantized tensors.

    Example:

    ```mlir
    %2 = stablehlo.add %0, %1 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#add).
    """

    name = "stablehlo.add"

    traits = traits_def(Pure(), Commutative(), Adds())

    KIND: ClassVar[TensorKind] = TENSOR_OR_PER_AXIS

    def verify_(self) -> None:
        verify_kinds(self, (self.KIND,) * 2, (self.KIND,))
        verify_same_shape(self)
        lhs, rhs, result = types = tensor_types(
            (self.lhs.type, self.rhs.type, self.result.type)
        )
        if has_quantized(types):
            verify_quantized_add(
                lhs.element_type, rhs.element_type, result.element_type
            )
        elif not lhs.element_type == rhs.element_type == result.element_type:
            raise VerifyException(
                "op requires the same element type for all operands and results"
            )
        verify_inferred(
            self, merged_shape((lhs.get_shape(), rhs.get_shape())), lhs.element_type
        )


@irdl_op_definition
class SubtractOp(BinaryOp):
    """
    Difference.

    Example:

    ```mlir
    %2 = stablehlo.subtract %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#subtract).
    """

    name = "stablehlo.subtract"

    traits = traits_def(Pure(), ComputesElementwise())

    KIND: ClassVar[TensorKind] = NUMBER


@irdl_op_definition
class MultiplyOp(BinaryOp):
    """
    Product.

    Example:

    ```mlir
    %2 = stablehlo.multiply %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#multiply).
    """

    name = "stablehlo.multiply"

    traits = traits_def(Pure(), Commutative(), ComputesElementwise())

    KIND: ClassVar[TensorKind] = TENSOR


@irdl_op_definition
class DivideOp(BinaryOp):
    """
    Quotient, of integers towards zero.

    Example:

    ```mlir
    %2 = stablehlo.divide %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#divide).
    """

    name = "stablehlo.divide"

    traits = traits_def(Pure(), ComputesElementwise())

    KIND: ClassVar[TensorKind] = NUMBER


@irdl_op_definition
class MaximumOp(BinaryOp):
    """
    The greater of two values.

    Example:

    ```mlir
    %2 = stablehlo.maximum %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#maximum).
    """

    name = "stablehlo.maximum"

    traits = traits_def(Pure(), Commutative(), OrdersElements(), ComputesElementwise())

    KIND: ClassVar[TensorKind] = TENSOR


@irdl_op_definition
class MinimumOp(BinaryOp):
    """
    The lesser of two values.

    Example:

    ```mlir
    %2 = stablehlo.minimum %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#minimum).
    """

    name = "stablehlo.minimum"

    traits = traits_def(Pure(), Commutative(), OrdersElements(), ComputesElementwise())

    KIND: ClassVar[TensorKind] = TENSOR


@irdl_op_definition
class NegateOp(UnaryOp):
    """
    Negation.

    Example:

    ```mlir
    %1 = stablehlo.negate %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#negate).
    """

    name = "stablehlo.negate"

    traits = traits_def(Pure(), ComputesElementwise())

    KIND: ClassVar[TensorKind] = NUMBER


@irdl_op_definition
class AbsOp(UnaryOp):
    """
    Absolute value, a real number also of complex ones.

    Example:

    ```mlir
    %1 = stablehlo.abs %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#abs).
    """

    name = "stablehlo.abs"

    traits = traits_def(Pure(), ComputesElementwise())

    KIND: ClassVar[TensorKind] = SIGNED_NUMBER

    def verify_(self) -> None:
        verify_kinds(self, (self.KIND,), (SIGNED_REAL_NUMBER,))
        verify_elementwise(self)
        (operand_type,) = tensor_types(self.operand_types)
        verify_inferred(
            self, operand_type.get_shape(), real_type(operand_type.element_type)
        )


@irdl_op_definition
class ExponentialOp(AccuracyOp):
    """
    Exponential function.

    Example:

    ```mlir
    %1 = stablehlo.exponential %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#exponential).
    """

    name = "stablehlo.exponential"

    traits = traits_def(Pure(), ComputesElementwise())


@irdl_op_definition
class LogisticOp(AccuracyOp):
    """
    Logistic function, `1 / (1 + exp(-x))`.

    Example:

    ```mlir
    %1 = stablehlo.logistic %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#logistic).
    """

    name = "stablehlo.logistic"

    traits = traits_def(Pure(), ComputesElementwise(), FixedResultUniformScale(0, 1))


@irdl_op_definition
class TanhOp(AccuracyOp):
    """
    Hyperbolic tangent.

    Example:

    ```mlir
    %1 = stablehlo.tanh %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#tanh).
    """

    name = "stablehlo.tanh"

    traits = traits_def(Pure(), ComputesElementwise(), FixedResultUniformScale(-1, 1))


@irdl_op_definition
class ConvertOp(UnaryOp):
    """
    The same numbers in another element type. It takes no quantized tensors: that is what
    [`UniformQuantizeOp`][xdsl_quant.dialects.stablehlo.UniformQuantizeOp] is for.

    Example:

    ```mlir
    %1 = stablehlo.convert %0 : (tensor<4xi32>) -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#convert).
    """

    name = "stablehlo.convert"

    traits = traits_def(Pure(), ComputesElementwise())

    KIND: ClassVar[TensorKind] = TENSOR_NOT_QUANTIZED

    def verify_(self) -> None:
        verify_kinds(self, (self.KIND,), (self.KIND,))
        verify_same_shape(self)
