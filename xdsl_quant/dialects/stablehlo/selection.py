"""Ops that compare values, and that choose between them."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import (
    ComputesElementwise,
    MovesElements,
    OrdersElements,
)

from .attributes import (
    ComparisonDirection,
    ComparisonDirectionAttr,
    ComparisonType,
    ComparisonTypeAttr,
)
from .base import (
    COMPATIBLE_ELEMENTS,
    COMPATIBLE_OPERAND_ELEMENTS,
    ELEMENTWISE,
    InferredTypeOp,
)
from .compatibility import RankedTensor, are_compatible_shapes, merged_shape
from .tensor_kinds import PRED_TENSOR, TENSOR


@irdl_op_definition
class CompareOp(InferredTypeOp):
    """
    Whether a relation holds between two values.

    Example:

    ```mlir
    %2 = stablehlo.compare LT, %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#compare).
    """

    name = "stablehlo.compare"

    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    comparison_direction = prop_def(ComparisonDirectionAttr)
    compare_type = opt_prop_def(ComparisonTypeAttr)
    result = result_def(PRED_TENSOR)

    assembly_format = (
        "$comparison_direction `,` $lhs `,` $rhs (`,` $compare_type^)? attr-dict `:` "
        "functional-type(operands, results) custom<VerifyTypesLater>()"
    )

    traits = traits_def(Pure(), ComputesElementwise(), COMPATIBLE_OPERAND_ELEMENTS)

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        comparison_direction: ComparisonDirection,
        result_type: Attribute,
        compare_type: ComparisonType | None = None,
    ):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={
                "comparison_direction": ComparisonDirectionAttr(comparison_direction),
                "compare_type": None
                if compare_type is None
                else ComparisonTypeAttr(compare_type),
            },
        )

    def inferred_type(self) -> RankedTensor:
        ELEMENTWISE.verify(self)
        lhs, _, result = self.tensor_types
        return TensorType(result.element_type, lhs.shape)


@irdl_op_definition
class SelectOp(InferredTypeOp):
    """
    One of two values: the first where the predicate holds, else the second.

    Example:

    ```mlir
    %3 = stablehlo.select %0, %1, %2 : tensor<4xi1>, tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#select).
    """

    name = "stablehlo.select"

    pred = operand_def(PRED_TENSOR)
    on_true = operand_def(TENSOR)
    on_false = operand_def(TENSOR)
    result = result_def(TENSOR)

    assembly_format = (
        "$pred `,` $on_true `,` $on_false attr-dict `:` "
        "custom<SelectType>(type(operands), type(results))"
    )

    traits = traits_def(Pure(), MovesElements((1, 2)), ComputesElementwise())

    def __init__(
        self,
        pred: SSAValue | Operation,
        on_true: SSAValue | Operation,
        on_false: SSAValue | Operation,
        result_type: Attribute | None = None,
    ):
        """The type of the result defaults to that of `on_true`."""
        on_true = SSAValue.get(on_true)
        super().__init__(
            operands=[pred, on_true, on_false],
            result_types=[result_type or on_true.type],
        )

    def inferred_type(self) -> RankedTensor:
        pred, on_true, on_false, _ = self.tensor_types
        shapes = on_true.get_shape(), on_false.get_shape()
        if (
            not are_compatible_shapes(*shapes)
            or on_true.element_type != on_false.element_type
        ):
            raise VerifyException(
                "requires compatible types for non-predicate operands"
            )
        pred_shape = pred.get_shape()
        if pred_shape and not are_compatible_shapes(pred_shape, shapes[0]):
            raise VerifyException("requires the same shape for all operands")
        return TensorType(on_true.element_type, merged_shape(shapes))


@irdl_op_definition
class ClampOp(InferredTypeOp):
    """
    A value, or the bound that it is beyond. A bound is a scalar, or a value for each
    element.

    Example:

    ```mlir
    %3 = stablehlo.clamp %0, %1, %2 : (tensor<f32>, tensor<4xf32>, tensor<f32>)
        -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#clamp).
    """

    name = "stablehlo.clamp"

    min = operand_def(TENSOR)
    operand = operand_def(TENSOR)
    max = operand_def(TENSOR)
    result = result_def(TENSOR)

    assembly_format = (
        "$min `,` $operand `,` $max attr-dict `:` "
        "custom<SameOperandsAndResultType>(type(operands), type(results))"
    )

    traits = traits_def(
        Pure(), OrdersElements(), ComputesElementwise(), COMPATIBLE_ELEMENTS
    )

    def __init__(
        self,
        min: SSAValue | Operation,
        operand: SSAValue | Operation,
        max: SSAValue | Operation,
        result_type: Attribute | None = None,
    ):
        """The type of the result defaults to that of `operand`."""
        operand = SSAValue.get(operand)
        super().__init__(
            operands=[min, operand, max],
            result_types=[result_type or operand.type],
        )

    def inferred_type(self) -> RankedTensor:
        low, type_, high, _ = self.tensor_types
        shape = type_.get_shape()
        for name, bound in (("min", low), ("max", high)):
            bound_shape = bound.get_shape()
            if bound_shape and not are_compatible_shapes(bound_shape, shape):
                raise VerifyException(
                    f"{name} shape {list(bound_shape)} is not scalar and is not "
                    f"compatible to operand shape {list(shape)}"
                )
        return TensorType(type_.element_type, shape)
