"""Ops for constants, element indices and dimension sizes."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerAttr,
    NoneAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.traits import (
    AcceptsStoredValues,
    MovesElements,
    SameOperandsAndResultsScale,
)
from xdsl_quant.dialects.verification import RankedTensor, require

from . import tensor_kinds as kinds
from .attributes import TypeExtensionsAttr
from .base import InferredTypeOp, StableHLOOp
from .rules import verify_dimensions
from .syntax import FUNCTIONAL_TYPE, parse_attributes

__all__ = [
    "ConstantOp",
    "GetDimensionSizeOp",
    "IotaOp",
    "SetDimensionSizeOp",
]

ElementsAttr = DenseIntOrFPElementsAttr | DenseResourceAttr
"""Elements of a constant tensor."""


@irdl_op_definition
class ConstantOp(StableHLOOp):
    """
    Constant. For a quantized result, `value` contains the stored values.

    Example:

    ```mlir
    %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %1 = stablehlo.constant() <{value = dense<[1, 2]> : tensor<2xi8>}> : () ->
        tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#constant).
    """

    name = "stablehlo.constant"

    value = prop_def(ElementsAttr)
    output = result_def(kinds.STATIC_OR_PER_AXIS)

    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: ElementsAttr, result_type: Attribute | None = None):
        super().__init__(result_types=[result_type or value.get_type()], value=value)

    def verify_(self) -> None:
        result_type = self.output.type
        element_type = result_type.element_type
        if isinstance(element_type, StoredQuantizedType):
            element_type = element_type.storage_type
        expected = TensorType(element_type, result_type.shape, result_type.encoding)
        if (actual := self.value.get_type()) != expected:
            raise VerifyException(
                f"'{self.name}' op inferred type(s) '{actual}' are incompatible with "
                f"return type(s) of operation '{result_type}'"
            )

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        if parser.parse_optional_punctuation("("):
            parser.parse_punctuation(")")
            generic = parser.parse_optional_properties_dict()
            attributes, properties = parse_attributes(parser, cls, ())
            properties |= generic
            parser.parse_punctuation(":")
            result_types = parser.parse_function_type().outputs.data
        else:
            attributes, properties = parse_attributes(parser, cls, ("value",))
            pos = parser.pos
            properties["value"] = value = parser.parse_attribute()
            if not isa(value, ElementsAttr):
                message = "invalid kind of attribute specified"
                parser.raise_error(message, pos, parser.pos)
            result_types = [value.get_type()]
        return cls.build(
            result_types=result_types, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        # The short form prints one type, that of both value and result.
        value = self.properties.get("value")
        if isa(value, ElementsAttr) and value.get_type() == self.output.type:
            printer.print_op_attributes(self.attributes)
            printer.print_string(" ")
            printer.print_attribute(value)
            return
        printer.print_string("() <")
        printer.print_attr_dict(self.properties)
        printer.print_string(">")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type((), self.result_types)


@irdl_op_definition
class IotaOp(StableHLOOp):
    """
    Index of each element along a dimension.

    Example:

    ```mlir
    %0 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#iota).
    """

    name = "stablehlo.iota"

    iota_dimension = prop_def(IntegerAttr[I64])
    output = result_def(kinds.STATIC_NUMBER)

    assembly_format = (
        "`dim` `=` $iota_dimension attr-dict `:` type($output) custom<CompleteOp>()"
    )

    traits = traits_def(Pure())

    def verify_(self) -> None:
        dimension, rank = self.iota_dimension.value.data, len(self.output.type.shape)
        verify_dimensions("iota_dimension", (dimension,), rank)


@irdl_op_definition
class GetDimensionSizeOp(InferredTypeOp):
    """
    Size of a dimension.

    Example:

    ```mlir
    %1 = stablehlo.get_dimension_size %0, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#get_dimension_size).
    """

    name = "stablehlo.get_dimension_size"

    operand = operand_def(kinds.TENSOR_OR_PER_AXIS)
    dimension = prop_def(IntegerAttr[I64])
    result = result_def(kinds.I32_TENSOR)

    assembly_format = f"$operand `,` `dim` `=` $dimension {FUNCTIONAL_TYPE}"

    traits = traits_def(Pure(), AcceptsStoredValues())

    def inferred_type(self) -> RankedTensor:
        operand, _ = self.tensor_types
        dimension = self.dimension.value.data
        verify_dimensions("dimension", (dimension,), len(operand.shape))
        return TensorType(i32, ())


@irdl_op_definition
class SetDimensionSizeOp(InferredTypeOp):
    """
    Tensor whose size along a dimension is known at run time, with its static size as bound.

    Example:

    ```mlir
    %2 = stablehlo.set_dimension_size %0, %1, dim = 0
        : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
    ```
    """

    name = "stablehlo.set_dimension_size"

    operand = operand_def(kinds.TENSOR)
    size = operand_def(kinds.I32_TENSOR)
    dimension = prop_def(kinds.DIMENSION)
    result = result_def(kinds.TENSOR)

    assembly_format = f"$operand `,` $size `,` `dim` `=` $dimension {FUNCTIONAL_TYPE}"

    traits = traits_def(Pure(), MovesElements((0,)), SameOperandsAndResultsScale())

    def inferred_type(self) -> RankedTensor:
        operand, size, _ = self.tensor_types
        dimension, shape = self.dimension.value.data, [*operand.get_shape()]
        require(not size.shape, f"expects a size of rank 0, got '{size}'")
        verify_dimensions("dimension", (dimension,), len(shape))
        bounds = [DYNAMIC_INDEX] * len(shape)
        if isinstance(operand.encoding, TypeExtensionsAttr):
            bounds = [*operand.encoding.bounds.get_values()]
        if shape[dimension] != DYNAMIC_INDEX:
            bounds[dimension] = shape[dimension]
        shape[dimension] = DYNAMIC_INDEX
        has_bound = any(bound != DYNAMIC_INDEX for bound in bounds)
        encoding = TypeExtensionsAttr(bounds) if has_bound else NoneAttr()
        return TensorType(operand.element_type, shape, encoding)
