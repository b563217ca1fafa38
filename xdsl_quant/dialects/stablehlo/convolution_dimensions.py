"""What each dimension of the tensors of a convolution is, and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from .attributes import (
    REQUIRED_DIMENSIONS,
    REQUIRED_INTEGER,
    Dimensions,
    Field,
    dimensions_attr,
    parse_fields,
    print_fields,
)

_LETTERS = {"input": "bf", "kernel": "io", "output": "bf"}
"""What the two dimensions of each tensor are called that are not spatial."""


@irdl_attr_definition
class ConvDimensionNumbersAttr(ParametrizedAttribute):
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

    FIELDS: ClassVar[Mapping[str, Field]] = {
        "input_batch_dimension": REQUIRED_INTEGER,
        "input_feature_dimension": REQUIRED_INTEGER,
        "input_spatial_dimensions": REQUIRED_DIMENSIONS,
        "kernel_input_feature_dimension": REQUIRED_INTEGER,
        "kernel_output_feature_dimension": REQUIRED_INTEGER,
        "kernel_spatial_dimensions": REQUIRED_DIMENSIONS,
        "output_batch_dimension": REQUIRED_INTEGER,
        "output_feature_dimension": REQUIRED_INTEGER,
        "output_spatial_dimensions": REQUIRED_DIMENSIONS,
    }

    input_batch_dimension: IntAttr
    input_feature_dimension: IntAttr
    input_spatial_dimensions: Dimensions
    kernel_input_feature_dimension: IntAttr
    kernel_output_feature_dimension: IntAttr
    kernel_spatial_dimensions: Dimensions
    output_batch_dimension: IntAttr
    output_feature_dimension: IntAttr
    output_spatial_dimensions: Dimensions

    def __init__(
        self,
        *,
        input_batch_dimension: int,
        input_feature_dimension: int,
        input_spatial_dimensions: Sequence[int],
        kernel_input_feature_dimension: int,
        kernel_output_feature_dimension: int,
        kernel_spatial_dimensions: Sequence[int],
        output_batch_dimension: int,
        output_feature_dimension: int,
        output_spatial_dimensions: Sequence[int],
    ):
        super().__init__(
            IntAttr(input_batch_dimension),
            IntAttr(input_feature_dimension),
            dimensions_attr(input_spatial_dimensions),
            IntAttr(kernel_input_feature_dimension),
            IntAttr(kernel_output_feature_dimension),
            dimensions_attr(kernel_spatial_dimensions),
            IntAttr(output_batch_dimension),
            IntAttr(output_feature_dimension),
            dimensions_attr(output_spatial_dimensions),
        )

    def by_tensor(self) -> dict[str, Sequence[int]]:
        """
        The dimensions of input, kernel and output: the two that are not spatial, in the
        order of their parameters, and then the spatial ones.
        """
        return {
            "input": (
                self.input_batch_dimension.data,
                self.input_feature_dimension.data,
                *self.input_spatial_dimensions.get_values(),
            ),
            "kernel": (
                self.kernel_input_feature_dimension.data,
                self.kernel_output_feature_dimension.data,
                *self.kernel_spatial_dimensions.get_values(),
            ),
            "output": (
                self.output_batch_dimension.data,
                self.output_feature_dimension.data,
                *self.output_spatial_dimensions.get_values(),
            ),
        }

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("raw"):
                return parse_fields(parser, cls.FIELDS)
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
            print_fields(printer, self.FIELDS, self.parameters)
            return
        texts: list[str] = []
        for letters, numbers in zip(_LETTERS.values(), tensors.values(), strict=True):
            names = [*letters, *map(str, range(len(numbers) - 2))]
            ordered = sorted(zip(numbers, names, strict=True))
            texts.append(f"[{', '.join(name for _, name in ordered)}]")
        printer.print_string(f"{texts[0]}x{texts[1]}->{texts[2]}")


def _parse_tensor_dimensions(parser: AttrParser, letters: str) -> Sequence[Attribute]:
    pos = parser.pos
    names: list[str | int] = []

    def parse_dimension() -> None:
        names.append(_parse_dimension(parser, letters, names))

    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_dimension)
    spatial = range(len(names) - len(letters))
    for words, expected in (("dimensions", letters), ("spatial dimensions", spatial)):
        if missing := [str(name) for name in expected if name not in names]:
            message = f"Expected {words} {', '.join(missing)} not specified"
            parser.raise_error(message, pos, parser.pos)
    first, second = letters
    return (
        IntAttr(names.index(first)),
        IntAttr(names.index(second)),
        dimensions_attr([names.index(number) for number in spatial]),
    )


def _parse_dimension(
    parser: AttrParser, letters: str, seen: Sequence[str | int]
) -> str | int:
    """Parse the name of a dimension that is not one of those that were seen."""
    number = parser.parse_optional_integer(allow_boolean=False)
    if number is not None:
        if number < 0:
            parser.raise_error(f"Unexpected dimension {number}")
        if number in seen:
            parser.raise_error(f"Duplicate entries for spatial dimension {number}")
        return number
    keyword = parser.parse_identifier()
    remaining = [letter for letter in letters if letter not in seen]
    if not remaining:
        parser.raise_error(f"Unexpected keyword {keyword}")
    if keyword not in remaining:
        parser.raise_error(
            f"Unexpected dimension {keyword}, expecting {', '.join(remaining)}"
        )
    return keyword


@irdl_custom_directive
class ConvDimensions(CustomDirective):
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`"""

    dimension_numbers: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parameters = ConvDimensionNumbersAttr.parse_dimensions(parser)
        self.dimension_numbers.set(state, ConvDimensionNumbersAttr.new(parameters))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        numbers = self.dimension_numbers.get(op)
        assert isinstance(numbers, ConvDimensionNumbersAttr)
        numbers.print_dimensions(printer)
