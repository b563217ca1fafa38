"""Ops that multiply by weights and accumulate: matrix product and convolution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    i1,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl import declarative_assembly_format as assembly
from xdsl.irdl.declarative_assembly_format import ParsingState, PrintingState
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    MultipliesAndAccumulates,
)
from xdsl_quant.dialects.quant.types import PerAxisType

from . import tensor_kinds as kinds
from .attributes import (
    Dimensions,
    DotAlgorithmAttr,
    DotDimensionNumbersAttr,
    FieldsAttr,
    Precision,
    PrecisionAttr,
    dimensions_attr,
)
from .base import (
    InferredShapeOp,
    Operand,
    are_compatible_elements,
    are_compatible_shapes,
    require,
    verify_count,
    verify_dimensions,
)
from .quantized_constraints import (
    has_quantized,
    verify_quantized_product,
    verify_rhs_of_dot,
)
from .syntax import DIRECTIVES, FUNCTIONAL_TYPE, dimensions_text, parse_dimensions
from .window import padding_attr, window_positions


class ProductOp(InferredShapeOp, ABC):
    """An op that multiplies a tensor by weights, and accumulates."""

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR_OR_PER_AXIS)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    traits = traits_def(Pure(), MultipliesAndAccumulates(), AffineOpCoefficient())

    @abstractmethod
    def verify_quantization(self, rhs: Attribute, result: Attribute) -> None:
        """
        Verify element types of which one is quantized.

        Raises:
            VerifyException: if zero points or quantized dimensions are not possible here.
        """

    def verify_(self) -> None:
        precisions = self.precision_config or ()
        require(
            len(precisions) <= 2,
            "expects precision config to be empty or have <= 2 elements, got "
            f"{len(precisions)}",
        )
        super().verify_()
        if has_quantized(types := self.tensor_types):
            lhs, rhs, result = (type_.element_type for type_ in types)
            self.verify_quantization(rhs, result)
            verify_quantized_product(lhs, rhs, result)


Pair = tuple[Sequence[int], Sequence[int]]
"""Dimensions of `lhs` and of `rhs`."""


@assembly.irdl_custom_directive
class DotDimensions(assembly.CustomDirective):
    """`batching_dims = [0] x [0], contracting_dims = [2] x [1]`"""

    dot_dimension_numbers: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        def parse_pair() -> Pair:
            parser.parse_punctuation("=")
            lhs = parse_dimensions(parser)
            parser.parse_keyword("x")
            return lhs, parse_dimensions(parser)

        batching: Pair = (), ()
        if parser.parse_optional_keyword("batching_dims"):
            batching = parse_pair()
            parser.parse_punctuation(",")
        parser.parse_keyword("contracting_dims")
        contracting = parse_pair()
        numbers = DotDimensionNumbersAttr(*batching, *contracting)
        self.dot_dimension_numbers.set(state, numbers)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        numbers = self.dot_dimension_numbers.get(op)
        assert isinstance(numbers, DotDimensionNumbersAttr)
        batching, contracting = (
            f"{name} = {dimensions_text(lhs)} x {dimensions_text(rhs)}"
            for name, (lhs, rhs) in zip(
                ("batching_dims", "contracting_dims"), _pairs(numbers), strict=True
            )
        )
        if any(_pairs(numbers)[0]):
            printer.print_string(f"{batching}, ")
        printer.print_string(contracting)


@assembly.irdl_custom_directive
class PrecisionAndAlgorithm(assembly.CustomDirective):
    """`, precision = [DEFAULT, HIGH], algorithm = <...>`, as far as they are there."""

    precision_config: assembly.AttributeVariable
    algorithm: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if not parser.parse_optional_punctuation(","):
            return
        if parser.parse_optional_keyword("precision"):
            parser.parse_punctuation("=")
            precisions = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_str_enum(Precision)
            )
            config = ArrayAttr([PrecisionAttr(precision) for precision in precisions])
            self.precision_config.set(state, config)
            if not parser.parse_optional_punctuation(","):
                return
        parser.parse_keyword("algorithm")
        parser.parse_punctuation("=")
        parameters = DotAlgorithmAttr.parse_parameters(parser)
        self.algorithm.set(state, DotAlgorithmAttr.new(parameters))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        assert isinstance(op, DotGeneralOp)
        if op.precision_config is not None:
            precisions = ", ".join(precision.data for precision in op.precision_config)
            printer.print_string(f", precision = [{precisions}]")
        if op.algorithm is not None:
            printer.print_string(", algorithm = ")
            op.algorithm.print_parameters(printer)


@irdl_op_definition
class DotGeneralOp(ProductOp):
    """
    Sum of products over the contracting dimensions, for each index of the others.

    Example:

    ```mlir
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]
        : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#dot_general).
    """

    name = "stablehlo.dot_general"

    dot_dimension_numbers = prop_def(DotDimensionNumbersAttr)
    algorithm = opt_prop_def(DotAlgorithmAttr)

    assembly_format = (
        "$lhs `,` $rhs `,` custom<DotDimensions>($dot_dimension_numbers) "
        "custom<PrecisionAndAlgorithm>($precision_config, $algorithm) "
        f"{FUNCTIONAL_TYPE}"
    )
    custom_directives = (*DIRECTIVES, DotDimensions, PrecisionAndAlgorithm)

    def __init__(
        self,
        lhs: Operand,
        rhs: Operand,
        dot_dimension_numbers: DotDimensionNumbersAttr,
        result_type: Attribute,
        precision_config: ArrayAttr[PrecisionAttr] | None = None,
    ):
        super().__init__(
            lhs,
            rhs,
            result_types=[result_type],
            dot_dimension_numbers=dot_dimension_numbers,
            precision_config=precision_config,
        )

    def verify_quantization(self, rhs: Attribute, result: Attribute) -> None:
        numbers = self.dot_dimension_numbers
        verify_rhs_of_dot(rhs, numbers.rhs_contracting_dimensions.get_values())

    def inferred_shape(self) -> Sequence[int]:
        batching, contracting = _pairs(self.dot_dimension_numbers)
        lhs, rhs, _ = self.tensor_types
        shapes = lhs.get_shape(), rhs.get_shape()
        used = [[*batching[side], *contracting[side]] for side in (0, 1)]
        for name, shape, dimensions in zip(("lhs", "rhs"), shapes, used, strict=True):
            verify_dimensions(f"{name} dimension numbers", dimensions, len(shape))
        for kind, pair in (("batching", batching), ("contracting", contracting)):
            a, b = (
                [shape[dimension] for dimension in dimensions]
                for shape, dimensions in zip(shapes, pair, strict=True)
            )
            require(
                are_compatible_shapes(a, b), f"{kind} dimensions must match for lhs/rhs"
            )
        free = [
            size
            for shape, dimensions in zip(shapes, used, strict=True)
            for dimension, size in enumerate(shape)
            if dimension not in dimensions
        ]
        return [*(shapes[0][dimension] for dimension in batching[0]), *free]


def _pairs(numbers: DotDimensionNumbersAttr) -> tuple[Pair, Pair]:
    """The batching and the contracting dimensions."""
    values = [
        cast(Dimensions, parameter).get_values() for parameter in numbers.parameters
    ]
    return (values[0], values[1]), (values[2], values[3])


_LETTERS = {"input": "bf", "kernel": "io", "output": "bf"}
"""What the two dimensions of each tensor are called that are not spatial."""


@irdl_attr_definition
class ConvDimensionNumbersAttr(FieldsAttr):
    """
    What each dimension of input, kernel and output of `stablehlo.convolution` is.

    In the text `b` is the batch dimension, `f` the feature dimension, `i` and `o` are the
    kernel's input and output feature dimension, and numbers are spatial dimensions.

    Example:

    ```mlir
    #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>
    ```
    """

    name = "stablehlo.conv"

    IS_SPARSE: ClassVar[bool] = False

    input_batch_dimension: IntAttr = param_def(converter=IntAttr.get)
    input_feature_dimension: IntAttr = param_def(converter=IntAttr.get)
    input_spatial_dimensions: Dimensions = param_def(converter=dimensions_attr)
    kernel_input_feature_dimension: IntAttr = param_def(converter=IntAttr.get)
    kernel_output_feature_dimension: IntAttr = param_def(converter=IntAttr.get)
    kernel_spatial_dimensions: Dimensions = param_def(converter=dimensions_attr)
    output_batch_dimension: IntAttr = param_def(converter=IntAttr.get)
    output_feature_dimension: IntAttr = param_def(converter=IntAttr.get)
    output_spatial_dimensions: Dimensions = param_def(converter=dimensions_attr)

    def by_tensor(self) -> dict[str, Sequence[int]]:
        """
        The dimensions of input, kernel and output: the two that are not spatial, in the
        order of their parameters, and then the spatial ones.
        """
        values = [
            [parameter.data]
            if isinstance(parameter, IntAttr)
            else parameter.get_values()
            for parameter in cast(Sequence[IntAttr | Dimensions], self.parameters)
        ]
        return {
            name: [*chain.from_iterable(values[3 * index : 3 * index + 3])]
            for index, name in enumerate(_LETTERS)
        }

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("raw"):
                return cls.parse_fields(parser)
            return cls.parse_dimensions(parser)

    @classmethod
    def parse_dimensions(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
        parameters: list[Attribute] = []
        for separator, letters in zip(("", "x", "->"), _LETTERS.values(), strict=True):
            if separator:
                parser.parse_characters(separator)
            parameters += _parse_tensor_dimensions(parser, letters)
        return parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_dimensions(printer)

    def print_dimensions(self, printer: Printer) -> None:
        """
        Print `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, or the fields if a dimension of a
        tensor is missing or there twice.
        """
        tensors = self.by_tensor()
        if any(
            sorted(numbers) != [*range(len(numbers))] for numbers in tensors.values()
        ):
            printer.print_string("raw ")
            self.print_fields(printer)
            return
        texts: list[str] = []
        for letters, numbers in zip(_LETTERS.values(), tensors.values(), strict=True):
            names = [*letters, *map(str, range(len(numbers) - 2))]
            ordered = sorted(zip(numbers, names, strict=True))
            texts.append(f"[{', '.join(name for _, name in ordered)}]")
        printer.print_string(f"{texts[0]}x{texts[1]}->{texts[2]}")


def _parse_tensor_dimensions(parser: AttrParser, letters: str) -> Sequence[Attribute]:
    """Parse `[b, 0, 1, f]`, where the letters may be `bf`."""
    pos = parser.pos

    def parse_dimension() -> str:
        number = parser.parse_optional_integer(allow_boolean=False)
        return parser.parse_identifier() if number is None else str(number)

    names = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_dimension)
    expected = [*letters, *map(str, range(len(names) - len(letters)))]
    if sorted(names) != sorted(expected):
        message = f"Expected dimensions {', '.join(expected)} in any order"
        parser.raise_error(message, pos, parser.pos)
    first, second, *spatial = (names.index(name) for name in expected)
    return IntAttr(first), IntAttr(second), dimensions_attr(spatial)


@assembly.irdl_custom_directive
class ConvDimensions(assembly.CustomDirective):
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`"""

    dimension_numbers: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parameters = ConvDimensionNumbersAttr.parse_dimensions(parser)
        self.dimension_numbers.set(state, ConvDimensionNumbersAttr.new(parameters))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        numbers = self.dimension_numbers.get(op)
        assert isinstance(numbers, ConvDimensionNumbersAttr)
        numbers.print_dimensions(printer)


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


@assembly.irdl_custom_directive
class Window(assembly.CustomDirective):
    """`{stride = [1, 1], pad = [[1, 1], [1, 1]]}`: properties, as far as they are there."""

    window_strides: assembly.AttributeVariable
    padding: assembly.AttributeVariable
    lhs_dilation: assembly.AttributeVariable
    rhs_dilation: assembly.AttributeVariable
    window_reversal: assembly.AttributeVariable

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
class ConvolutionOp(ProductOp):
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

    window_strides = opt_prop_def(DenseArrayBase.constr(i64))
    padding = opt_prop_def(DenseIntOrFPElementsAttr[I64])
    lhs_dilation = opt_prop_def(DenseArrayBase.constr(i64))
    rhs_dilation = opt_prop_def(DenseArrayBase.constr(i64))
    window_reversal = opt_prop_def(DenseArrayBase.constr(i1))
    dimension_numbers = prop_def(ConvDimensionNumbersAttr)
    batch_group_count = prop_def(IntegerAttr[I64])
    feature_group_count = prop_def(IntegerAttr[I64])

    assembly_format = (
        "`` `(` operands `)` "
        "`dim_numbers` `=` custom<ConvDimensions>($dimension_numbers) `,` "
        "`window` `=` custom<Window>($window_strides, $padding, $lhs_dilation, "
        f"$rhs_dilation, $window_reversal) {FUNCTIONAL_TYPE}"
    )
    custom_directives = (*DIRECTIVES, ConvDimensions, Window)
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(
        self,
        lhs: Operand,
        rhs: Operand,
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
        super().__init__(
            lhs,
            rhs,
            result_types=[result_type],
            dimension_numbers=dimension_numbers,
            batch_group_count=batch_group_count,
            feature_group_count=feature_group_count,
            precision_config=precision_config,
            window_strides=window_strides,
            padding=None if padding is None else padding_attr(padding),
            lhs_dilation=lhs_dilation,
            rhs_dilation=rhs_dilation,
            window_reversal=(
                None if window_reversal is None else _booleans_attr(window_reversal)
            ),
        )

    def verify_quantization(self, rhs: Attribute, result: Attribute) -> None:
        """C29 and C30 of `convolution`."""
        for name, type_, words in (
            ("rhs", rhs, "kernel_output_feature_dimension"),
            ("result", result, "output_feature_dimension"),
        ):
            require(
                not isinstance(type_, PerAxisType)
                or type_.quantized_dimension == getattr(self.dimension_numbers, words),
                f"quantization dimension of {name} should be same with {words}",
            )

    def inferred_shape(self) -> Sequence[int]:
        lhs_type, rhs_type, _ = self.tensor_types
        lhs, rhs = lhs_type.get_shape(), rhs_type.get_shape()
        if not has_quantized((lhs_type, rhs_type)) and not are_compatible_elements(
            lhs_type.element_type, rhs_type.element_type
        ):
            raise VerifyException(
                "expects lhs and rhs to have compatible element type. Got: "
                f"'{lhs_type.element_type}' and '{rhs_type.element_type}'"
            )
        rank = len(lhs)
        verify_count("dimensions of the kernel", rhs, rank)
        tensors = self.dimension_numbers.by_tensor()
        for name, dimensions in tensors.items():
            verify_count(f"{name} dimension-numbers", dimensions, rank)
            verify_dimensions(f"{name} dimension-numbers", dimensions, rank)
        batch, features, *input_sizes = (lhs[i] for i in tensors["input"])
        kernel_features, output_features, *window = (rhs[i] for i in tensors["kernel"])
        positions = window_positions(
            input_sizes,
            window,
            self.window_strides,
            self.padding,
            self.lhs_dilation,
            self.rhs_dilation,
            self.window_reversal,
        )
        batch_groups = self.batch_group_count.value.data
        feature_groups = self.feature_group_count.value.data
        require(
            1 in (batch_groups, feature_groups),
            "expects batch_group_count and feature_group_count not to be both greater "
            f"than 1. Got {batch_groups} and {feature_groups} resp.",
        )
        for name, size, groups in (
            ("input batch", batch, batch_groups),
            ("input feature", features, feature_groups),
            ("output feature", output_features, batch_groups),
            ("output feature", output_features, feature_groups),
        ):
            require(groups > 0, f"expects positive group counts, got {groups}")
            require(
                size == DYNAMIC_INDEX or not size % groups,
                f"expects {name} dimension ({size}) to be a multiple of the group count "
                f"({groups})",
            )
        require(
            features == DYNAMIC_INDEX
            or kernel_features in (DYNAMIC_INDEX, features // feature_groups),
            f"expects input feature dimension ({features}) / feature_group_count "
            f"({feature_groups}) = kernel input feature dimension ({kernel_features})",
        )
        if batch != DYNAMIC_INDEX:
            batch //= batch_groups
        sizes = dict(
            zip(tensors["output"], (batch, output_features, *positions), strict=True)
        )
        return [sizes[dimension] for dimension in range(rank)]
