"""Elementwise ops: arithmetic, comparison, selection, casts and quantization."""

from abc import ABC
from typing import Self

from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Commutative, NoMemoryEffect, Pure

from xdsl_quant.dialects.quant import traits as quant

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    BROADCAST,
    COMPARABLE,
    COMPATIBLE_ELEMENTS,
    SAME_FIRST,
    SAME_OPERANDS,
    SAME_SCALE,
    SAME_SHAPE,
    SAME_TYPE,
    FunctionOp,
    Requires,
    TFLOp,
    data_movement_traits,
    declare_elements,
    require_operand_types,
    result_has_operand_type,
)

__all__ = [
    "AbsOp",
    "AddOp",
    "CastOp",
    "CeilOp",
    "CosOp",
    "DequantizeOp",
    "DivOp",
    "EqualOp",
    "ExpOp",
    "FloorDivOp",
    "FloorModOp",
    "FloorOp",
    "GreaterEqualOp",
    "GreaterOp",
    "LessEqualOp",
    "LessOp",
    "LogOp",
    "LogicalAndOp",
    "LogicalNotOp",
    "LogicalOrOp",
    "MaximumOp",
    "MinimumOp",
    "MulOp",
    "NegOp",
    "NotEqualOp",
    "PowOp",
    "QuantizeOp",
    "RoundOp",
    "RsqrtOp",
    "SelectOp",
    "SelectV2Op",
    "SignOp",
    "SinOp",
    "SqrtOp",
    "SquareOp",
    "SquaredDifferenceOp",
    "SubOp",
]


class PairOp(TFLOp, ABC):
    """Base class of ops with two operands; subclasses pass their types as `elements`."""

    lhs = operand_def(kinds.BOOL)
    rhs = operand_def(kinds.BOOL)
    output = result_def(kinds.BOOL)

    def __init_subclass__(cls, elements: str = "") -> None:
        super().__init_subclass__()
        declare_elements(cls, elements, ("lhs", "rhs"), ("output",))


class ShortFormOp(PairOp, ABC):
    """
    Base class of ops with a short form: `tfl.add %0, %1 {...} : tensor<4xf32>`. If operands
    and result differ in type, the generic form is used.
    """

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the short or the generic form, after the op's name."""
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        if operands is None:
            op = parser._parse_generic_operation(cls)  # pyright: ignore[reportPrivateUsage] no public way
            assert isinstance(op, cls)
            return op
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        # A set would order the names differently in each process.
        properties = cls.get_irdl_definition().properties
        names = [name for name in attributes if name in properties]
        return cls.create(
            operands=[parser.resolve_operand(operand, type_) for operand in operands],
            result_types=[type_],
            properties={name: attributes.pop(name) for name in names},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        """Print the op without its name."""
        if {*self.operand_types} != {*self.result_types}:
            return printer.print_op_with_default_format(self)
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        attributes = self.attributes | self.properties
        printer.print_op_attributes(dict(sorted(attributes.items())))
        printer.print_string(" : ")
        printer.print_attribute(self.result_types[0])


class ArithmeticOp(ShortFormOp, ABC):
    """Base class of binary arithmetic with a fused activation function."""

    fused_activation_function = prop_def(props.ACTIVATION)

    traits = traits_def(
        Pure(), Requires(SAME_OPERANDS, BROADCAST), quant.ComputesElementwise()
    )


class ComparisonOp(ShortFormOp, ABC):
    """Base class of comparisons."""

    def __init_subclass__(cls, elements: str = "") -> None:
        super().__init_subclass__()
        declare_elements(cls, elements, ("lhs", "rhs"))

    traits = traits_def(
        Pure(), Requires(COMPARABLE, BROADCAST), quant.ComputesElementwise()
    )


class LogicalOp(ShortFormOp, ABC):
    """Base class of binary logical ops."""

    traits = traits_def(Pure(), Requires(BROADCAST), quant.ComputesElementwise())


class MinMaxOp(TFLOp, ABC):
    """Base class of the elementwise minimum and maximum."""

    traits = traits_def(
        Pure(),
        Requires(BROADCAST, SAME_SCALE),
        Commutative(),
        quant.OrdersElements(),
        quant.ComputesElementwise(),
        quant.SameOperandsAndResultsScale(),
    )


class SameElementsOp(FunctionOp, ABC, elements="f32"):
    """Base class of unary functions with the same element type in operand and result."""

    traits = traits_def(Requires(SAME_SHAPE, COMPATIBLE_ELEMENTS))


class RootOp(FunctionOp, ABC, elements="f32 QI8 QI16"):
    """Base class of the square root and its reciprocal."""

    traits = traits_def(Requires(SAME_FIRST, SAME_SHAPE))


@irdl_op_definition
class AddOp(ShortFormOp, elements="f32 f16 i16 i32 i64 QI8 QUI8 QI16"):
    """
    Sum.

    Example:

    ```mlir
    %2 = tfl.add %0, %1 {fused_activation_function = "NONE"} : tensor<4xf32>
    ```
    """

    name = "tfl.add"

    fused_activation_function = prop_def(props.ACTIVATION)

    traits = traits_def(Pure(), Requires(BROADCAST), Commutative(), quant.Adds())


@irdl_op_definition
class SubOp(ArithmeticOp, elements="f32 f16 i32 i64 QI8 QUI8 QI16"):
    """
    Difference.

    Example:

    ```mlir
    %2 = tfl.sub %0, %1 {fused_activation_function = "NONE"} : tensor<4xf32>
    ```
    """

    name = "tfl.sub"

    traits = traits_def(quant.Subtracts())


@irdl_op_definition
class MulOp(ArithmeticOp, elements="f32 f16 i32 ui32 i64 QI8 QUI8 QI16 i16 c64"):
    """
    Product.

    Example:

    ```mlir
    %2 = tfl.mul %0, %1 {fused_activation_function = "NONE"} : tensor<4xf32>
    ```
    """

    name = "tfl.mul"

    traits = traits_def(Commutative(), quant.Multiplies())


@irdl_op_definition
class DivOp(ArithmeticOp, elements="f32 f16 i32 QUI8 QI8 QI16"):
    """
    Quotient; integers round toward zero.

    Example:

    ```mlir
    %2 = tfl.div %0, %1 {fused_activation_function = "NONE"} : tensor<4xf32>
    ```
    """

    name = "tfl.div"

    traits = traits_def(quant.Divides())


_SAME_ELEMENTS = Requires(
    SAME_OPERANDS,
    result_has_operand_type(0, "lhs and output must have same element type"),
    BROADCAST,
)


@irdl_op_definition
class FloorDivOp(ShortFormOp, elements="f32 i8 i16 i32"):
    """
    Quotient, rounded down.

    Example:

    ```mlir
    %2 = tfl.floor_div %0, %1 : tensor<4xf32>
    ```
    """

    name = "tfl.floor_div"

    traits = traits_def(Pure(), _SAME_ELEMENTS, quant.ComputesElementwise())


@irdl_op_definition
class FloorModOp(PairOp, elements="i8 i16 i32 i64 f32"):
    """
    Remainder with the sign of the divisor.

    Example:

    ```mlir
    %2 = "tfl.floor_mod"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.floor_mod"

    traits = traits_def(Pure(), _SAME_ELEMENTS, quant.ComputesElementwise())


@irdl_op_definition
class PowOp(ShortFormOp, elements="f32 i32"):
    """
    Power.

    Example:

    ```mlir
    %2 = tfl.pow %0, %1 : tensor<4xf32>
    ```
    """

    name = "tfl.pow"

    traits = traits_def(Pure(), Requires(BROADCAST), quant.ComputesElementwise())


@irdl_op_definition
class SquaredDifferenceOp(ShortFormOp, elements="f32 i32 QI8"):
    """
    Square of the difference.

    Example:

    ```mlir
    %2 = tfl.squared_difference %0, %1 : tensor<4xf32>
    ```
    """

    name = "tfl.squared_difference"

    traits = traits_def(
        Pure(),
        Requires(SAME_OPERANDS, SAME_FIRST, BROADCAST),
        quant.ComputesElementwise(),
    )


_MAXIMUM_ELEMENTS = kinds.tensor_of("f32 f16 i32|i64 QI8 QUI8 QI16")


@irdl_op_definition
class MaximumOp(MinMaxOp):
    """
    Maximum of two values.

    Example:

    ```mlir
    %2 = "tfl.maximum"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.maximum"

    lhs = operand_def(_MAXIMUM_ELEMENTS)
    rhs = operand_def(_MAXIMUM_ELEMENTS)
    max = result_def(_MAXIMUM_ELEMENTS)


_MINIMUM_ELEMENTS = kinds.tensor_of("f32 i32|i64 QI8 QUI8 QI16")


@irdl_op_definition
class MinimumOp(MinMaxOp):
    """
    Minimum of two values.

    Example:

    ```mlir
    %2 = "tfl.minimum"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.minimum"

    lhs = operand_def(_MINIMUM_ELEMENTS)
    rhs = operand_def(_MINIMUM_ELEMENTS)
    min = result_def(_MINIMUM_ELEMENTS)


_EQUAL_ELEMENTS = kinds.tensor_of("i1 f32 i16 i32 i64 QI8 QUI8 QI16 ui8 string")


@irdl_op_definition
class EqualOp(TFLOp):
    """
    True if two values are equal.

    Example:

    ```mlir
    %2 = "tfl.equal"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```
    """

    name = "tfl.equal"

    x = operand_def(_EQUAL_ELEMENTS)
    y = operand_def(_EQUAL_ELEMENTS)
    output = result_def(kinds.BOOL)

    traits = traits_def(
        Pure(),
        Requires(COMPARABLE, BROADCAST),
        Commutative(),
        quant.ComputesElementwise(),
    )


@irdl_op_definition
class NotEqualOp(ComparisonOp, elements="i1 f32 i32 i64 QUI8 QI8 QI16 quint8 string"):
    """
    True if two values are not equal.

    Example:

    ```mlir
    %2 = tfl.not_equal(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```
    """

    name = "tfl.not_equal"

    traits = traits_def(Commutative())


@irdl_op_definition
class GreaterOp(ComparisonOp, elements="f32 i32 i64 QUI8 QI8 quint8"):
    """
    True if `lhs > rhs`.

    Example:

    ```mlir
    %2 = tfl.greater(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```
    """

    name = "tfl.greater"


@irdl_op_definition
class GreaterEqualOp(ComparisonOp, elements="f32 i16 i32 i64 QUI8 QI8"):
    """
    True if `lhs >= rhs`.

    Example:

    ```mlir
    %2 = tfl.greater_equal(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```
    """

    name = "tfl.greater_equal"


@irdl_op_definition
class LessOp(ComparisonOp, elements="f32 i16 i32 i64 QUI8 QI8 quint8"):
    """
    True if `lhs < rhs`.

    Example:

    ```mlir
    %2 = tfl.less(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```
    """

    name = "tfl.less"


@irdl_op_definition
class LessEqualOp(ComparisonOp, elements="f32 i32 i64 QI8 QUI8"):
    """
    True if `lhs <= rhs`.

    Example:

    ```mlir
    %2 = tfl.less_equal(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```
    """

    name = "tfl.less_equal"


@irdl_op_definition
class LogicalAndOp(LogicalOp):
    """
    Logical and.

    Example:

    ```mlir
    %2 = tfl.logical_and %0, %1 : tensor<4xi1>
    ```
    """

    name = "tfl.logical_and"


@irdl_op_definition
class LogicalOrOp(LogicalOp):
    """
    Logical or.

    Example:

    ```mlir
    %2 = tfl.logical_or %0, %1 : tensor<4xi1>
    ```
    """

    name = "tfl.logical_or"


@irdl_op_definition
class LogicalNotOp(TFLOp):
    """
    Logical negation.

    Example:

    ```mlir
    %1 = "tfl.logical_not"(%0) : (tensor<4xi1>) -> tensor<4xi1>
    ```
    """

    name = "tfl.logical_not"

    lhs = operand_def(kinds.BOOL)
    output = result_def(kinds.BOOL)

    traits = traits_def(Pure(), Requires(SAME_TYPE), quant.ComputesElementwise())


@irdl_op_definition
class NegOp(SameElementsOp, elements="f32 f16 i32 i64"):
    """
    Negation; operand and result have the same scale.

    Example:

    ```mlir
    %1 = "tfl.neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.neg"


@irdl_op_definition
class SignOp(FunctionOp, elements="f32 f64 i32"):
    """
    Sign: -1, 0 or 1.

    Example:

    ```mlir
    %1 = "tfl.sign"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.sign"

    traits = traits_def(Requires(SAME_TYPE))


@irdl_op_definition
class AbsOp(FunctionOp, elements="i16 i32 f32 QI8 QI16"):
    """
    Absolute value.

    Example:

    ```mlir
    %1 = "tfl.abs"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.abs"

    traits = traits_def(Requires(SAME_SHAPE))


@irdl_op_definition
class SqrtOp(RootOp):
    """
    Square root.

    Example:

    ```mlir
    %1 = "tfl.sqrt"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.sqrt"


@irdl_op_definition
class RsqrtOp(RootOp):
    """
    Reciprocal of the square root.

    Example:

    ```mlir
    %1 = "tfl.rsqrt"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.rsqrt"


@irdl_op_definition
class ExpOp(FunctionOp, elements="f32 f16 QI8 QI16"):
    """
    Exponential function.

    Example:

    ```mlir
    %1 = "tfl.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.exp"

    traits = traits_def(Requires(SAME_FIRST))


@irdl_op_definition
class LogOp(FunctionOp, elements="f32 QI8"):
    """
    Natural logarithm.

    Example:

    ```mlir
    %1 = "tfl.log"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.log"

    traits = traits_def(Requires(SAME_FIRST))


@irdl_op_definition
class SinOp(SameElementsOp, elements="f32 f16"):
    """
    Sine.

    Example:

    ```mlir
    %1 = "tfl.sin"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.sin"


@irdl_op_definition
class CosOp(SameElementsOp, elements="f32 f16"):
    """
    Cosine.

    Example:

    ```mlir
    %1 = "tfl.cos"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.cos"


@irdl_op_definition
class SquareOp(SameElementsOp, elements="f32 f16"):
    """
    Square.

    Example:

    ```mlir
    %1 = "tfl.square"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.square"


@irdl_op_definition
class FloorOp(SameElementsOp):
    """
    Round down.

    Example:

    ```mlir
    %1 = "tfl.floor"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.floor"


@irdl_op_definition
class CeilOp(SameElementsOp):
    """
    Round up.

    Example:

    ```mlir
    %1 = "tfl.ceil"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.ceil"


@irdl_op_definition
class RoundOp(SameElementsOp):
    """
    Round to an integer, half to even.

    Example:

    ```mlir
    %1 = "tfl.round"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.round"


_CAST_ELEMENTS = kinds.tensor_of(
    "f16 bf16 f8E4M3FN f8E5M2 f32 f64 i1 i2 i4 ui4 i16 ui16 i32 ui32 i64 quint8 ui8 i8 c64"
)


@irdl_op_definition
class CastOp(TFLOp):
    """
    Convert elements to another type; quantized tensors are unsupported.

    Example:

    ```mlir
    %1 = "tfl.cast"(%0) : (tensor<4xi32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.cast"

    input = operand_def(_CAST_ELEMENTS)
    output = result_def(_CAST_ELEMENTS)

    traits = traits_def(Pure(), Requires(SAME_SHAPE), quant.ComputesElementwise())


_SAME_VALUES = (
    require_operand_types(1, 2, "operands have same element type"),
    result_has_operand_type(1, "operands and result have same element type"),
)


class SelectionOp(TFLOp, ABC):
    """Base class of ops that select one of two values by a condition."""

    condition = operand_def(kinds.BOOL)
    x = operand_def()
    y = operand_def()
    output = result_def()

    traits = traits_def(*data_movement_traits(1, 2))

    def __init_subclass__(cls, elements: str = "") -> None:
        super().__init_subclass__()
        # Redefined here, as operands declared in a base class would come last.
        cls.condition = operand_def(kinds.BOOL)
        declare_elements(cls, elements, ("x", "y"), ("output",))


@irdl_op_definition
class SelectOp(SelectionOp, elements="f32 i1 i8 i16 i32 i64 ui32 QI8 QUI8 QI16 quint8"):
    """
    Select one of two values by a condition, or by a vector of conditions along
    the first dimension.

    Example:

    ```mlir
    %3 = "tfl.select"(%0, %1, %2)
        : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.select"

    traits = traits_def(Requires(*_SAME_VALUES, SAME_SCALE))


@irdl_op_definition
class SelectV2Op(
    SelectionOp, elements="f32 f16 i1 i8 i16 i32 i64 ui32 QI8 QUI8 QI16 quint8"
):
    """
    Select one of two values by a condition, with broadcasting.

    Example:

    ```mlir
    %3 = "tfl.select_v2"(%0, %1, %2)
        : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.select_v2"

    traits = traits_def(Requires(*_SAME_VALUES, BROADCAST, SAME_SCALE))


@irdl_op_definition
class QuantizeOp(TFLOp):
    """
    Quantize floating-point values, or requantize quantized values.

    Example:

    ```mlir
    %1 = "tfl.quantize"(%0) <{qtype = tensor<4x!quant.uniform<i8:f32, 0.5>>}>
        : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    ```
    """

    name = "tfl.quantize"

    input = operand_def(kinds.tensor_of("f32 QI4 QUI4 QI8 QUI8 QI16 quint8"))
    qtype = prop_def(props.TENSOR_TYPE)
    output = result_def(kinds.tensor_of("QI4 QUI4 QI8 QUI8 QI16 quint8"))

    traits = traits_def(
        NoMemoryEffect(), Requires(SAME_SHAPE), quant.CastsQuantization()
    )


@irdl_op_definition
class DequantizeOp(TFLOp):
    """
    Dequantize values, or extend a smaller float type to `f32`.

    Example:

    ```mlir
    %1 = "tfl.dequantize"(%0)
        : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
    ```
    """

    name = "tfl.dequantize"

    input = operand_def(
        kinds.tensor_of("QI2 QI4 QUI4 QI8 QUI8 QI16 f16 f8E4M3FN f8E5M2")
    )
    output = result_def(kinds.FLOAT)

    traits = traits_def(NoMemoryEffect(), quant.CastsQuantization())
