"""Elementwise ops: arithmetic, comparison, selection, and quantization casts."""

from abc import ABC

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.dialects.quant import traits as quant
from xdsl_quant.dialects.quant.ops import verify_cast_rounding
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    merged_shape,
    require,
)

from . import tensor_kinds as kinds
from .attributes import ComparisonDirectionAttr, ComparisonTypeAttr, ResultAccuracyAttr
from .base import (
    COMPATIBLE_ELEMENTS,
    COMPATIBLE_TYPES,
    ELEMENTWISE,
    SAME_SHAPE,
    InferredTypeOp,
    StableHLOOp,
    are_compatible_elements,
    real_type,
)
from .rules import has_quantized, verify_quantized_add
from .syntax import FUNCTIONAL_TYPE, SAME_TYPE

__all__ = [
    "AbsOp",
    "AddOp",
    "AndOp",
    "ClampOp",
    "CompareOp",
    "ConvertOp",
    "DivideOp",
    "ExponentialOp",
    "LogisticOp",
    "MaximumOp",
    "MinimumOp",
    "MultiplyOp",
    "NegateOp",
    "NotOp",
    "OrOp",
    "RsqrtOp",
    "SelectOp",
    "SqrtOp",
    "SubtractOp",
    "TanhOp",
    "UniformDequantizeOp",
    "UniformQuantizeOp",
]


class ElementwiseOp(StableHLOOp, ABC):
    """Op whose result elements depend only on operand elements at the same index."""

    result = result_def(kinds.TENSOR)

    traits = traits_def(Pure(), quant.ComputesElementwise())


class UnaryOp(ElementwiseOp, ABC):
    """Elementwise op with one operand."""

    operand = operand_def(kinds.TENSOR)

    assembly_format = f"$operand {SAME_TYPE}"


class BinaryOp(ElementwiseOp, ABC):
    """Elementwise op with two operands."""

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR)

    assembly_format = f"$lhs `,` $rhs {SAME_TYPE}"

    def verify_(self) -> None:
        SAME_SHAPE.verify(self)


class BinaryNumberOp(BinaryOp, ABC, elements=kinds.NUMBER):
    """Binary op on numbers."""

    traits = traits_def(COMPATIBLE_TYPES)


class LogicalOp(BinaryOp, ABC, elements=kinds.PRED_OR_INTEGER):
    """Binary op on booleans or on the bits of integers."""

    traits = traits_def(COMPATIBLE_TYPES, Commutative())


class ResultAccuracyOp(UnaryOp, ABC, elements=kinds.FLOAT_OR_COMPLEX):
    """Transcendental function with an optional accuracy requirement."""

    result_accuracy = opt_prop_def(
        ResultAccuracyAttr, default_value=ResultAccuracyAttr()
    )

    traits = traits_def(COMPATIBLE_TYPES)

    irdl_options = (ParsePropInAttrDict(),)


@irdl_op_definition
class AddOp(InferredTypeOp, BinaryOp, elements=kinds.TENSOR_OR_PER_AXIS):
    """
    Sum. The only arithmetic op that accepts per-axis quantized tensors.

    Example:

    ```mlir
    %2 = stablehlo.add %0, %1 : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#add).
    """

    name = "stablehlo.add"

    traits = traits_def(SAME_SHAPE, Commutative(), quant.Adds())

    def inferred_type(self) -> RankedTensor:
        types = self.tensor_types
        lhs, rhs, result = (type_.element_type for type_ in types)
        if has_quantized(types):
            verify_quantized_add(lhs, rhs, result)
        else:
            require(
                lhs == rhs == result,
                "op requires the same element type for all operands and results",
            )
        return TensorType(lhs, merged_shape(type_.get_shape() for type_ in types[:2]))


@irdl_op_definition
class SubtractOp(BinaryNumberOp):
    """
    Difference.

    Example:

    ```mlir
    %2 = stablehlo.subtract %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#subtract).
    """

    name = "stablehlo.subtract"

    traits = traits_def(quant.Subtracts())


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

    traits = traits_def(COMPATIBLE_TYPES, Commutative(), quant.Multiplies())


@irdl_op_definition
class DivideOp(BinaryNumberOp):
    """
    Quotient; integers are rounded toward zero.

    Example:

    ```mlir
    %2 = stablehlo.divide %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#divide).
    """

    name = "stablehlo.divide"

    traits = traits_def(quant.Divides())


@irdl_op_definition
class MaximumOp(BinaryOp):
    """
    Maximum of two values.

    Example:

    ```mlir
    %2 = stablehlo.maximum %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#maximum).
    """

    name = "stablehlo.maximum"

    traits = traits_def(COMPATIBLE_TYPES, Commutative(), quant.OrdersElements())


@irdl_op_definition
class MinimumOp(BinaryOp):
    """
    Minimum of two values.

    Example:

    ```mlir
    %2 = stablehlo.minimum %0, %1 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#minimum).
    """

    name = "stablehlo.minimum"

    traits = traits_def(COMPATIBLE_TYPES, Commutative(), quant.OrdersElements())


@irdl_op_definition
class AndOp(LogicalOp):
    """
    Logical AND of booleans, bitwise AND of integers.

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
    Logical OR of booleans, bitwise OR of integers.

    Example:

    ```mlir
    %2 = stablehlo.or %0, %1 : tensor<4xi1>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#or).
    """

    name = "stablehlo.or"


@irdl_op_definition
class NotOp(UnaryOp, elements=kinds.PRED_OR_INTEGER):
    """
    Logical NOT of booleans, bitwise NOT of integers.

    Example:

    ```mlir
    %1 = stablehlo.not %0 : tensor<4xi1>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#not).
    """

    name = "stablehlo.not"

    traits = traits_def(COMPATIBLE_TYPES)


@irdl_op_definition
class NegateOp(UnaryOp, elements=kinds.NUMBER):
    """
    Negation.

    Example:

    ```mlir
    %1 = stablehlo.negate %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#negate).
    """

    name = "stablehlo.negate"

    traits = traits_def(COMPATIBLE_TYPES)


class RealResultOp(InferredTypeOp, UnaryOp, ABC):
    """Function whose result has floats if the operand has complex numbers."""

    traits = traits_def(ELEMENTWISE)

    def inferred_type(self) -> RankedTensor:
        type_, _ = self.tensor_types
        return TensorType(real_type(type_.element_type), type_.shape)


@irdl_op_definition
class AbsOp(RealResultOp):
    """
    Absolute value, or magnitude of a complex number.

    Example:

    ```mlir
    %1 = stablehlo.abs %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#abs).
    """

    name = "stablehlo.abs"

    operand = operand_def(kinds.SIGNED_NUMBER)
    result = result_def(kinds.SIGNED_REAL_NUMBER)


@irdl_op_definition
class ExponentialOp(ResultAccuracyOp):
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
class LogisticOp(ResultAccuracyOp):
    """
    Logistic function, `1 / (1 + exp(-x))`.

    Example:

    ```mlir
    %1 = stablehlo.logistic %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#logistic).
    """

    name = "stablehlo.logistic"

    traits = traits_def(quant.FixedResultUniformScale(0, 1))


@irdl_op_definition
class TanhOp(ResultAccuracyOp):
    """
    Hyperbolic tangent.

    Example:

    ```mlir
    %1 = stablehlo.tanh %0 : tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#tanh).
    """

    name = "stablehlo.tanh"

    traits = traits_def(quant.FixedResultUniformScale(-1, 1))


@irdl_op_definition
class SqrtOp(ResultAccuracyOp):
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
class RsqrtOp(ResultAccuracyOp):
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
class ConvertOp(UnaryOp, elements=kinds.TENSOR_NOT_QUANTIZED):
    """
    Conversion to another element type. Quantized tensors are unsupported: use
    [`UniformQuantizeOp`][xdsl_quant.frontends.stablehlo.dialect.UniformQuantizeOp].

    Example:

    ```mlir
    %1 = stablehlo.convert %0 : (tensor<4xi32>) -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#convert).
    """

    name = "stablehlo.convert"

    traits = traits_def(SAME_SHAPE)


@irdl_op_definition
class CompareOp(InferredTypeOp, ElementwiseOp):
    """
    Elementwise comparison.

    Example:

    ```mlir
    %2 = stablehlo.compare LT, %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#compare).
    """

    name = "stablehlo.compare"

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR)
    comparison_direction = prop_def(ComparisonDirectionAttr)
    compare_type = opt_prop_def(ComparisonTypeAttr)
    result = result_def(kinds.PRED_TENSOR)

    assembly_format = (
        "$comparison_direction `,` $lhs `,` $rhs (`,` $compare_type^)? "
        f"{FUNCTIONAL_TYPE}"
    )

    def inferred_type(self) -> RankedTensor:
        lhs, rhs, _ = self.tensor_types
        require(
            are_compatible_elements(lhs.element_type, rhs.element_type),
            f"'{self.name}' op requires compatible element types for all operands",
        )
        ELEMENTWISE.verify(self)
        return TensorType(i1, lhs.shape)


@irdl_op_definition
class SelectOp(InferredTypeOp, ElementwiseOp):
    """
    Elementwise selection: `on_true` where the predicate is true, else `on_false`.

    Example:

    ```mlir
    %3 = stablehlo.select %0, %1, %2 : tensor<4xi1>, tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#select).
    """

    name = "stablehlo.select"

    pred = operand_def(kinds.PRED_TENSOR)
    on_true = operand_def(kinds.TENSOR)
    on_false = operand_def(kinds.TENSOR)

    assembly_format = (
        "$pred `,` $on_true `,` $on_false attr-dict `:` "
        "custom<SelectType>(type(operands), type(results))"
    )

    traits = traits_def(quant.MovesElements((1, 2)))

    def inferred_type(self) -> RankedTensor:
        pred, on_true, on_false, _ = self.tensor_types
        shapes = on_true.get_shape(), on_false.get_shape()
        require(
            are_compatible_shapes(*shapes)
            and on_true.element_type == on_false.element_type,
            "requires compatible types for non-predicate operands",
        )
        require(
            are_compatible_shapes(pred.get_shape() or shapes[0], shapes[0]),
            "requires the same shape for all operands",
        )
        return TensorType(on_true.element_type, merged_shape(shapes))


@irdl_op_definition
class ClampOp(InferredTypeOp, ElementwiseOp):
    """
    Clamp to a minimum and a maximum, each a scalar or a tensor of the operand's shape.

    Example:

    ```mlir
    %3 = stablehlo.clamp %0, %1, %2 : (tensor<f32>, tensor<4xf32>, tensor<f32>)
        -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#clamp).
    """

    name = "stablehlo.clamp"

    min = operand_def(kinds.TENSOR)
    operand = operand_def(kinds.TENSOR)
    max = operand_def(kinds.TENSOR)

    assembly_format = f"$min `,` $operand `,` $max {SAME_TYPE}"

    traits = traits_def(quant.OrdersElements(), COMPATIBLE_ELEMENTS)

    def inferred_type(self) -> RankedTensor:
        low, type_, high, _ = self.tensor_types
        shape = type_.get_shape()
        for name, bound in (("min", low), ("max", high)):
            bound_shape = bound.get_shape()
            require(
                are_compatible_shapes(bound_shape or shape, shape),
                f"{name} shape {list(bound_shape)} is not scalar and is not compatible "
                f"to operand shape {list(shape)}",
            )
        return TensorType(type_.element_type, shape)


class CastOp(StableHLOOp, ABC):
    """Elementwise cast that preserves values up to rounding and saturation."""

    operand = operand_def(kinds.FLOAT_OR_QUANTIZED_OR_PER_AXIS)
    result = result_def(kinds.QUANTIZED_OR_PER_AXIS)

    assembly_format = f"$operand {SAME_TYPE}"

    traits = traits_def(Pure(), ELEMENTWISE, quant.CastsQuantization())


@irdl_op_definition
class UniformQuantizeOp(CastOp):
    """
    Quantize a float tensor, or requantize a quantized one.

    The attributes `quant.rounding_mode`, `quant.zero_point_order` and `quant.nan` set a
    rounding other than that of the specification: see
    [`cast_rounding`][xdsl_quant.dialects.quant.ops.cast_rounding].

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
        verify_cast_rounding(self)


@irdl_op_definition
class UniformDequantizeOp(InferredTypeOp, CastOp):
    """
    Dequantize a tensor to its expressed type.

    Example:

    ```mlir
    %1 = stablehlo.uniform_dequantize %0
        : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#uniform_dequantize).
    """

    name = "stablehlo.uniform_dequantize"

    operand = operand_def(kinds.QUANTIZED_OR_PER_AXIS)
    result = result_def(kinds.FLOAT_TENSOR)

    def inferred_type(self) -> RankedTensor:
        type_, _ = self.tensor_types
        return TensorType(_expressed_type(type_.element_type), type_.shape)


def _expressed_type(element_type: Attribute) -> Attribute:
    is_quantized = isinstance(element_type, QuantizedType)
    return element_type.expressed_type if is_quantized else element_type
