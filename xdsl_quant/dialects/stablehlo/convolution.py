"""Convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    MultipliesAndAccumulates,
)

from .attributes import PrecisionAttr, dimensions_attr, optional_attr
from .base import PADDING, InferredShapeOp, at_least
from .compatibility import RankedTensor, are_compatible_elements
from .convolution_dimensions import ConvDimensionNumbersAttr, ConvDimensions
from .dot_general import verify_precision_config
from .quantized_constraints import (
    has_quantized,
    verify_features_of_convolution,
    verify_quantized_product,
)
from .syntax import DIRECTIVES, dimensions_text, parse_dimensions
from .tensor_kinds import TENSOR, TENSOR_OR_PER_AXIS
from .window import padding_attr, window_positions

_WINDOW_FIELDS = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}
"""The properties that the text has in `window = {...}`, by their names there."""


def _booleans_attr(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i1, [bool(value) for value in values])


def _parse_window_values(parser: AttrParser, name: str) -> Attribute:
    square = parser.Delimiter.SQUARE
    if name == "window_reversal":
        values = parser.parse_comma_separated_list(square, parser.parse_integer)
        return _booleans_attr(values)
    if name != "padding":
        return dimensions_attr(parse_dimensions(parser))
    pos = parser.pos
    pairs = parser.parse_comma_separated_list(square, lambda: parse_dimensions(parser))
    if any(len(pair) != 2 for pair in pairs):
        parser.raise_error("Expected array with 2 elements", pos, parser.pos)
    return padding_attr(pairs)


def _window_values_text(attribute: Attribute) -> str:
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        sizes = [str(size) for size in attribute.get_values()]
        pairs = zip(sizes[::2], sizes[1::2], strict=False)
        return f"[{', '.join(f'[{low}, {high}]' for low, high in pairs)}]"
    if not isa(attribute, DenseArrayBase[IntegerType]):
        # Not valid, and not meant to be parsed: it is part of the error message.
        return str(attribute)
    text = dimensions_text(attribute.get_values())
    if attribute.elt_type == i1:
        text = text.replace("-1", "true").replace("1", "true").replace("0", "false")
    return text


@irdl_custom_directive
class Window(CustomDirective):
    """`{stride = [1, 1], pad = [[1, 1], [1, 1]]}`: properties, as far as they are there."""

    window_strides: AttributeVariable
    padding: AttributeVariable
    lhs_dilation: AttributeVariable
    rhs_dilation: AttributeVariable
    window_reversal: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        def parse_field() -> None:
            field = parser.parse_keyword_in(_WINDOW_FIELDS)
            if (name := _WINDOW_FIELDS[field]) in state.properties:
                parser.raise_error(f"Unexpected keyword {field}")
            parser.parse_punctuation("=")
            state.properties[name] = _parse_window_values(parser, name)

        parser.parse_comma_separated_list(parser.Delimiter.BRACES, parse_field)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        fields = [
            f"{field} = {_window_values_text(op.properties[name])}"
            for field, name in _WINDOW_FIELDS.items()
            if name in op.properties
        ]
        printer.print_string(f"{{{', '.join(fields)}}}")


@irdl_op_definition
class ConvolutionOp(InferredShapeOp):
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

    See external [documentation](https://openxla.org/stablehlo/spec#convolution).
    """

    name = "stablehlo.convolution"

    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR_OR_PER_AXIS)
    window_strides = opt_prop_def(DenseArrayBase.constr(i64))
    padding = opt_prop_def(PADDING)
    lhs_dilation = opt_prop_def(DenseArrayBase.constr(i64))
    rhs_dilation = opt_prop_def(DenseArrayBase.constr(i64))
    window_reversal = opt_prop_def(DenseArrayBase.constr(i1))
    dimension_numbers = prop_def(ConvDimensionNumbersAttr)
    batch_group_count = prop_def(at_least(1, "batch_group_count"))
    feature_group_count = prop_def(at_least(1, "feature_group_count"))
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def(TENSOR_OR_PER_AXIS)

    assembly_format = (
        "`` `(` operands `)` "
        "`dim_numbers` `=` custom<ConvDimensions>($dimension_numbers) `,` "
        "`window` `=` custom<Window>($window_strides, $padding, $lhs_dilation, "
        "$rhs_dilation, $window_reversal) attr-dict custom<PropertiesInAttrDict>() `:` "
        "functional-type(operands, results) custom<VerifyTypesLater>()"
    )
    custom_directives = (*DIRECTIVES, ConvDimensions, Window)
    irdl_options = (ParsePropInAttrDict(),)

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
        properties: Mapping[str, Attribute | None] = {
            "dimension_numbers": dimension_numbers,
            "batch_group_count": IntegerAttr(batch_group_count, i64),
            "feature_group_count": IntegerAttr(feature_group_count, i64),
            "precision_config": precision_config,
            "window_strides": optional_attr(dimensions_attr, window_strides),
            "padding": optional_attr(padding_attr, padding),
            "lhs_dilation": optional_attr(dimensions_attr, lhs_dilation),
            "rhs_dilation": optional_attr(dimensions_attr, rhs_dilation),
            "window_reversal": optional_attr(_booleans_attr, window_reversal),
        }
        super().__init__(
            operands=[lhs, rhs], result_types=[result_type], properties=properties
        )

    def verify_(self) -> None:
        super().verify_()
        lhs, rhs, result = types = self.tensor_types
        if has_quantized(types):
            numbers = self.dimension_numbers
            verify_features_of_convolution(
                rhs.element_type,
                result.element_type,
                numbers.kernel_output_feature_dimension.data,
                numbers.output_feature_dimension.data,
            )
            verify_quantized_product(
                lhs.element_type, rhs.element_type, result.element_type
            )

    def inferred_shape(self) -> Sequence[int]:
        numbers = self.dimension_numbers
        lhs_type, rhs_type, _ = self.tensor_types
        _verify_operands(lhs_type, rhs_type)
        lhs, rhs = lhs_type.get_shape(), rhs_type.get_shape()
        rank = len(lhs)
        _verify_dimension_numbers(numbers, rank)
        _verify_groups(self, lhs, rhs)
        verify_precision_config(self.precision_config)
        spatial = numbers.input_spatial_dimensions.get_values()
        if rank != len(spatial) + 2:
            raise VerifyException(
                f"expects convolution arguments to have {len(spatial) + 2} dimensions. "
                f"Got: {rank}"
            )
        positions = window_positions(
            [lhs[dimension] for dimension in spatial],
            [rhs[index] for index in numbers.kernel_spatial_dimensions.get_values()],
            self.window_strides,
            self.padding,
            self.lhs_dilation,
            self.rhs_dilation,
            self.window_reversal,
        )
        batch = lhs[numbers.input_batch_dimension.data]
        if batch != DYNAMIC_INDEX:
            batch //= self.batch_group_count.value.data
        features = rhs[numbers.kernel_output_feature_dimension.data]
        output = numbers.by_tensor()["output"]
        sizes = dict(zip(output, (batch, features, *positions), strict=True))
        return [sizes[dimension] for dimension in range(rank)]


def _verify_operands(lhs: RankedTensor, rhs: RankedTensor) -> None:
    rank, types = len(lhs.get_shape()), f"'{lhs}' and '{rhs}'."
    if rank < 2:
        raise VerifyException(
            f"expects convolution arguments to have >= 2 dimensions. Got: {types}"
        )
    if rank != len(rhs.get_shape()):
        raise VerifyException(
            "expects convolution arguments to have same number of dimensions. Got: "
            f"{types}"
        )
    if not has_quantized((lhs, rhs)) and not are_compatible_elements(
        lhs.element_type, rhs.element_type
    ):
        raise VerifyException(
            "expects lhs and rhs to have compatible element type. Got: "
            f"'{lhs.element_type}' and '{rhs.element_type}'"
        )


def _verify_dimension_numbers(numbers: ConvDimensionNumbersAttr, rank: int) -> None:
    tensors = numbers.by_tensor()
    counts = [len(dimensions) - 2 for dimensions in tensors.values()]
    if len(set(counts)) > 1:
        raise VerifyException(
            "expects the same size for input, kernel and output spatial-dimensions, but "
            f"got {counts[0]}, {counts[1]}, and {counts[2]} resp."
        )
    if not all(
        0 <= dimension < rank
        for dimensions in tensors.values()
        for dimension in dimensions
    ):
        raise VerifyException(
            "expects input, kernel, and output dimension-numbers to be in-range "
            f"[0, {rank})."
        )
    for tensor, dimensions in tensors.items():
        if len(set(dimensions)) != len(dimensions):
            raise VerifyException(
                f"expects {tensor} dimension-numbers to be unique, got "
                f"{{{', '.join(map(str, dimensions))}}}."
            )


def _verify_groups(op: ConvolutionOp, lhs: Sequence[int], rhs: Sequence[int]) -> None:
    numbers = op.dimension_numbers
    batch_groups = op.batch_group_count.value.data
    feature_groups = op.feature_group_count.value.data
    if batch_groups > 1 and feature_groups > 1:
        raise VerifyException(
            "expects batch_group_count and feature_group_count not to be both greater "
            f"than 1. Got {batch_groups} and {feature_groups} resp."
        )
    batch = lhs[numbers.input_batch_dimension.data]
    features = lhs[numbers.input_feature_dimension.data]
    kernel_features = rhs[numbers.kernel_input_feature_dimension.data]
    output_features = rhs[numbers.kernel_output_feature_dimension.data]
    if batch != DYNAMIC_INDEX and batch % batch_groups:
        raise VerifyException(
            f"expects input batch dimension ({batch}) to be divisible by "
            f"batch_group_count. Got batch_group_count = {batch_groups}."
        )
    if features != DYNAMIC_INDEX:
        if features % feature_groups:
            raise VerifyException(
                f"expects input feature dimension ({features}) to be a multiple of "
                f"feature_group_count. Got feature_group_count = {feature_groups}."
            )
        if kernel_features not in (DYNAMIC_INDEX, features // feature_groups):
            raise VerifyException(
                f"expects input feature dimension ({features}) / feature_group_count = "
                f"kernel input feature dimension ({kernel_features}). Got "
                f"feature_group_count = {feature_groups}."
            )
    if output_features == DYNAMIC_INDEX:
        return
    if output_features % batch_groups:
        raise VerifyException(
            f"expects output feature dimension size ({output_features}) to be a "
            f"multiple of batch_group_count. Got batch_group_count = {batch_groups}."
        )
    if output_features % feature_groups:
        raise VerifyException(
            f"expects kernel output feature dimension ({output_features}) to be "
            f"divisible by feature_group_count. For feature_group_count = "
            f"{feature_groups}."
        )
