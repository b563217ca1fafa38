"""Ops that compute each element of the result from those at the same place."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
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

from .attributes import ResultAccuracyAttr
from .base import (
    COMPATIBLE_TYPES,
    ELEMENTWISE,
    SAME_SHAPE,
    InferredTypeOp,
    StableHLOOp,
)
from .compatibility import RankedTensor, merged_shape, real_type
from .quantized_constraints import has_quantized, verify_quantized_add
from .tensor_kinds import (
    FLOAT_OR_COMPLEX,
    FLOAT_OR_QUANTIZED,
    NUMBER,
    PRED_OR_INTEGER,
    SIGNED_NUMBER,
    SIGNED_REAL_NUMBER,
    TENSOR,
    TENSOR_NOT_QUANTIZED,
    TENSOR_OR_PER_AXIS,
)


class UnaryOp(StableHLOOp, ABC):
    """An elementwise op with one operand."""

    operand = operand_def(TENSOR)
    result = result_def(TENSOR)

    traits = traits_def(Pure(), ComputesElementwise())

    assembly_format = (
        "$operand attr-dict `:` "
        "custom<SameOperandsAndResultType>(type(operands), type(results))"
    )

    def __init__(
        self, operand: SSAValue | Operation, result_type: Attribute | None = None
    ):
        """The type of the result defaults to that of the operand."""
        operand = SSAValue.get(operand)
        super().__init__(operands=[operand], result_types=[result_type or operand.type])


class BinaryOp(StableHLOOp, ABC):
    """An elementwise op with two operands."""

    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    result = result_def(TENSOR)

    traits = traits_def(Pure(), ComputesElementwise())

    assembly_format = (
        "$lhs `,` $rhs attr-dict `:` "
        "custom<SameOperandsAndResultType>(type(operands), type(results))"
    )

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
        SAME_SHAPE.verify(self)


class NumberOp(BinaryOp, ABC):
    """A binary op on numbers."""

    lhs = operand_def(NUMBER)
    rhs = operand_def(NUMBER)
    result = result_def(NUMBER)

    traits = traits_def(COMPATIBLE_TYPES)


class LogicalOp(BinaryOp, ABC):
    """A binary op on the bits of integers, or on truth values."""

    lhs = operand_def(PRED_OR_INTEGER)
    rhs = operand_def(PRED_OR_INTEGER)
    result = result_def(PRED_OR_INTEGER)

    traits = traits_def(COMPATIBLE_TYPES, Commutative())


class AccuracyOp(UnaryOp, ABC):
    """A function of which one can say how exact it has to be."""

    operand = operand_def(FLOAT_OR_COMPLEX)
    result = result_def(FLOAT_OR_COMPLEX)
    result_accuracy = opt_prop_def(
        ResultAccuracyAttr, default_value=ResultAccuracyAttr()
    )

    traits = traits_def(COMPATIBLE_TYPES)

    irdl_options = (ParsePropInAttrDict(),)


@irdl_op_definition
class AddOp(InferredTypeOp, BinaryOp):
    """
    Sum. It is the one elementwise op that takes per-axis quantized tensors.

    Example:

    ```mlir
    %2 = stablehlo.add %0, %1 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#add).
    """

    name = "stablehlo.add"

    lhs = operand_def(TENSOR_OR_PER_AXIS)
    rhs = operand_def(TENSOR_OR_PER_AXIS)
    result = result_def(TENSOR_OR_PER_AXIS)

    traits = traits_def(SAME_SHAPE, Commutative(), Adds())

    def inferred_type(self) -> RankedTensor:
        types = self.tensor_types
        lhs, rhs, result = (type_.element_type for type_ in types)
        if has_quantized(types):
            verify_quantized_add(lhs, rhs, result)
        elif not lhs == rhs == result:
            raise VerifyException(
                "op requires the same element type for all operands and results"
            )
        return TensorType(lhs, merged_shape(type_.get_shape() for type_ in types[:2]))


@irdl_op_definition
class SubtractOp(NumberOp):
    """
    Difference.

    Example:

    ```mlir
    %2 = stablehlo.subtract %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#subtract).
    """

    name = "stablehlo.subtract"


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

    traits = traits_def(COMPATIBLE_TYPES, Commutative())


@irdl_op_definition
class DivideOp(NumberOp):
    """
    Quotient, of integers towards zero.

    Example:

    ```mlir
    %2 = stablehlo.divide %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#divide).
    """

    name = "stablehlo.divide"


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

    traits = traits_def(COMPATIBLE_TYPES, Commutative(), OrdersElements())


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

    traits = traits_def(COMPATIBLE_TYPES, Commutative(), OrdersElements())


@irdl_op_definition
class AndOp(LogicalOp):
    """
    Conjunction, of integers bit by bit.

    Example:

    ```mlir
    %2 = stablehlo.and %0, %1 : tensor<4xi1>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#and).
    """

    name = "stablehlo.and"


@irdl_op_definition
class OrOp(LogicalOp):
    """
    Disjunction, of integers bit by bit.

    Example:

    ```mlir
    %2 = stablehlo.or %0, %1 : tensor<4xi1>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#or).
    """

    name = "stablehlo.or"


@irdl_op_definition
class NotOp(UnaryOp):
    """
    Negation of a truth value, or of each bit of an integer.

    Example:

    ```mlir
    %1 = stablehlo.not %0 : tensor<4xi1>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#not).
    """

    name = "stablehlo.not"

    operand = operand_def(PRED_OR_INTEGER)
    result = result_def(PRED_OR_INTEGER)

    traits = traits_def(COMPATIBLE_TYPES)


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

    operand = operand_def(NUMBER)
    result = result_def(NUMBER)

    traits = traits_def(COMPATIBLE_TYPES)


@irdl_op_definition
class AbsOp(InferredTypeOp, UnaryOp):
    """
    Absolute value, a real number also of complex ones.

    Example:

    ```mlir
    %1 = stablehlo.abs %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#abs).
    """

    name = "stablehlo.abs"

    operand = operand_def(SIGNED_NUMBER)
    result = result_def(SIGNED_REAL_NUMBER)

    traits = traits_def(ELEMENTWISE)

    def inferred_type(self) -> RankedTensor:
        type_, _ = self.tensor_types
        return TensorType(real_type(type_.element_type), type_.shape)


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

    traits = traits_def(FixedResultUniformScale(0, 1))


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

    traits = traits_def(FixedResultUniformScale(-1, 1))


@irdl_op_definition
class SqrtOp(AccuracyOp):
    """
    Square root.

    Example:

    ```mlir
    %1 = stablehlo.sqrt %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#sqrt).
    """

    name = "stablehlo.sqrt"


@irdl_op_definition
class RsqrtOp(AccuracyOp):
    """
    Reciprocal of the square root.

    Example:

    ```mlir
    %1 = stablehlo.rsqrt %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#rsqrt).
    """

    name = "stablehlo.rsqrt"


@irdl_op_definition
class RoundNearestEvenOp(UnaryOp):
    """
    Round to an integer, half to even.

    Example:

    ```mlir
    %1 = stablehlo.round_nearest_even %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#round_nearest_even).
    """

    name = "stablehlo.round_nearest_even"

    operand = operand_def(FLOAT_OR_QUANTIZED)
    result = result_def(FLOAT_OR_QUANTIZED)

    traits = traits_def(COMPATIBLE_TYPES)


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

    operand = operand_def(TENSOR_NOT_QUANTIZED)
    result = result_def(TENSOR_NOT_QUANTIZED)

    traits = traits_def(SAME_SHAPE)
