"""Ops that compare values, and that choose between them."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
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
from .compatibility import (
    are_compatible_shapes,
    merged_shape,
    tensor_types,
    verify_compatible_elements,
    verify_compatible_operand_elements,
    verify_elementwise,
    verify_inferred,
)
from .syntax import SameTernaryType, SelectType
from .tensor_kinds import (
    PRED_TENSOR,
    TENSOR,
    verify_kinds,
)


@irdl_op_definition
class CompareOp(IRDLOperation):
    """
    Whether a relation holds between two values.

    Example:

    ```mlir
    %2 = stablehlo.compare LT, %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#compare).
    """

    name = "stablehlo.compare"

    lhs = operand_def()
    rhs = operand_def()
    comparison_direction = prop_def(ComparisonDirectionAttr)
    compare_type = opt_prop_def(ComparisonTypeAttr)
    result = result_def()

    assembly_format = (
        "$comparison_direction `,` $lhs `,` $rhs (`,` $compare_type^)? attr-dict `:` "
        "functional-type(operands, results)"
    )

    traits = traits_def(Pure(), ComputesElementwise())

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

    def verify_(self) -> None:
        verify_kinds(self, (TENSOR, TENSOR), (PRED_TENSOR,))
        verify_compatible_operand_elements(self)
        verify_elementwise(self)
        (lhs_type, _) = tensor_types(self.operand_types)
        (result_type,) = tensor_types(self.result_types)
        verify_inferred(self, lhs_type.get_shape(), result_type.element_type)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """
    One of two values: the first where the predicate holds, else the second.

    Example:

    ```mlir
    %3 = stablehlo.select %0, %1, %2 : tensor<4xi1>, tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#select).
    """

    name = "stablehlo.select"

    pred = operand_def()
    on_true = operand_def()
    on_false = operand_def()
    result = result_def()

    assembly_format = (
        "$pred `,` $on_true `,` $on_false attr-dict `:` custom<SelectType>"
        "(type($pred), type($on_true), type($on_false), type($result))"
    )
    custom_directives = (SelectType,)

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

    def verify_(self) -> None:
        verify_kinds(self, (PRED_TENSOR, TENSOR, TENSOR), (TENSOR,))
        pred, on_true, on_false = tensor_types(self.operand_types)
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
        verify_inferred(self, merged_shape(shapes), on_true.element_type)


@irdl_op_definition
class ClampOp(IRDLOperation):
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

    min = operand_def()
    operand = operand_def()
    max = operand_def()
    result = result_def()

    assembly_format = (
        "$min `,` $operand `,` $max attr-dict `:` custom<SameTernaryType>"
        "(type($min), type($operand), type($max), type($result))"
    )
    custom_directives = (SameTernaryType,)

    traits = traits_def(Pure(), OrdersElements(), ComputesElementwise())

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

    def verify_(self) -> None:
        verify_kinds(self, (TENSOR, TENSOR, TENSOR), (TENSOR,))
        verify_compatible_elements(self)
        min_type, operand_type, max_type = tensor_types(self.operand_types)
        shape = operand_type.get_shape()
        for name, type_ in (("min", min_type), ("max", max_type)):
            bound_shape = type_.get_shape()
            if bound_shape and not are_compatible_shapes(bound_shape, shape):
                raise VerifyException(
                    f"{name} shape {list(bound_shape)} is not scalar and is not "
                    f"compatible to operand shape {list(shape)}"
                )
        verify_inferred(self, shape, operand_type.element_type)
