"""Convolution."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    i1,
    i64,
)
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
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    MultipliesAndAccumulates,
)

from .attributes import ConvDimensionNumbersAttr, PrecisionAttr, dimensions_attr
from .compatibility import tensor_types, verify_inferred_shape
from .convolution_shapes import convolved_shape
from .convolution_syntax import (
    padding_attr,
    parse_dimension_numbers,
    parse_window,
    print_dimension_numbers,
    print_window,
)
from .quantized_constraints import (
    has_quantized,
    verify_features_of_convolution,
    verify_quantized_product,
)
from .syntax import parse_attributes
from .tensor_kinds import TENSOR, TENSOR_OR_PER_AXIS, verify_kinds

_IN_ATTR_DICT = ("batch_group_count", "feature_group_count", "precision_config")
"""The properties that the text has among the attributes."""


@irdl_op_definition
class ConvolutionOp(IRDLOperation):
    """
    Dot products of a kernel with the windows of a tensor.

    Example:

    ```mlir
    %2 = stablehlo.convolution(%0, %1)
        dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {stride = [1, 1], pad = [[1, 1], [1, 1]]}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x8x8x16xf32>
    ```
    """

    name = "stablehlo.convolution"

    lhs = operand_def()
    rhs = operand_def()
    window_strides = opt_prop_def(DenseArrayBase.constr(i64))
    padding = opt_prop_def(DenseIntOrFPElementsAttr)
    lhs_dilation = opt_prop_def(DenseArrayBase.constr(i64))
    rhs_dilation = opt_prop_def(DenseArrayBase.constr(i64))
    window_reversal = opt_prop_def(DenseArrayBase.constr(i1))
    dimension_numbers = prop_def(ConvDimensionNumbersAttr)
    feature_group_count = prop_def(IntegerAttr[I64])
    batch_group_count = prop_def(IntegerAttr[I64])
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def()

    traits = traits_def(Pure(), MultipliesAndAccumulates(), AffineOpCoefficient())

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        dimension_numbers: ConvDimensionNumbersAttr,
        result_type: Attribute,
        *,
        window_strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
        lhs_dilation: Sequence[int] | None = None,
        rhs_dilation: Sequence[int] | None = None,
        window_reversal: Sequence[bool] | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        precision_config: ArrayAttr[PrecisionAttr] | None = None,
    ):
        """What is left out of the window is 1, 0 or false for each spatial dimension."""

        def dimensions(values: Sequence[int] | None) -> Attribute | None:
            return None if values is None else dimensions_attr(values)

        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={
                "window_strides": dimensions(window_strides),
                "padding": None if padding is None else padding_attr(padding),
                "lhs_dilation": dimensions(lhs_dilation),
                "rhs_dilation": dimensions(rhs_dilation),
                "window_reversal": None
                if window_reversal is None
                else DenseArrayBase.from_list(i1, window_reversal),
                "dimension_numbers": dimension_numbers,
                "feature_group_count": IntegerAttr(feature_group_count, i64),
                "batch_group_count": IntegerAttr(batch_group_count, i64),
                "precision_config": precision_config,
            },
        )

    def verify_(self) -> None:
        for name, count in (
            ("feature_group_count", self.feature_group_count),
            ("batch_group_count", self.batch_group_count),
        ):
            if count.value.data <= 0:
                raise VerifyException(
                    f"'{self.name}' op attribute '{name}' failed to satisfy constraint: "
                    "64-bit signless integer attribute whose value is positive"
                )
        if self.padding is not None and self.padding.get_element_type() != i64:
            raise VerifyException(
                f"'{self.name}' op attribute 'padding' failed to satisfy constraint: "
                "64-bit signless integer elements attribute"
            )
        verify_kinds(self, (TENSOR, TENSOR_OR_PER_AXIS), (TENSOR_OR_PER_AXIS,))
        lhs, rhs, result = types = tensor_types(
            (self.lhs.type, self.rhs.type, self.result.type)
        )
        verify_inferred_shape(self, convolved_shape(self, lhs, rhs))
        if has_quantized(types):
            dimensions = self.dimension_numbers
            verify_features_of_convolution(
                rhs.element_type,
                result.element_type,
                dimensions.kernel_output_feature_dimension.data,
                dimensions.output_feature_dimension.data,
            )
            verify_quantized_product(
                lhs.element_type, rhs.element_type, result.element_type
            )

    @classmethod
    def parse(cls, parser: Parser) -> ConvolutionOp:
        pos = parser.pos
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        parser.parse_keyword("dim_numbers")
        parser.parse_punctuation("=")
        dimension_numbers = ConvDimensionNumbersAttr.new(
            parse_dimension_numbers(parser)
        )
        parser.parse_punctuation(",")
        parser.parse_keyword("window")
        parser.parse_punctuation("=")
        properties = parse_window(parser)
        properties["dimension_numbers"] = dimension_numbers
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        type_ = parser.parse_function_type()
        return cls.build(
            operands=parser.resolve_operands(operands, type_.inputs.data, pos),
            result_types=type_.outputs.data,
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(" dim_numbers = ")
        print_dimension_numbers(printer, self.dimension_numbers)
        printer.print_string(", window = ")
        print_window(printer, self.properties)
        in_attr_dict = {
            name: value
            for name, value in self.properties.items()
            if name in _IN_ATTR_DICT
        }
        printer.print_op_attributes(
            dict(sorted((self.attributes | in_attr_dict).items()))
        )
        printer.print_string(" : ")
        printer.print_operation_type(self)
