"""The text of a convolution's dimension numbers and of its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntElementsAttr,
    DenseIntOrFPElementsAttr,
    IntAttr,
    IntegerType,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.hints import isa

from .attributes import ConvDimensionNumbersAttr, Dimensions, dimensions_attr
from .syntax import parse_dimensions

_RAW_FIELDS = (
    "input_batch_dimension",
    "input_feature_dimension",
    "input_spatial_dimensions",
    "kernel_input_feature_dimension",
    "kernel_output_feature_dimension",
    "kernel_spatial_dimensions",
    "output_batch_dimension",
    "output_feature_dimension",
    "output_spatial_dimensions",
)

_TENSOR_LETTERS = (("b", "f"), ("i", "o"), ("b", "f"))
"""What the two dimensions of input, kernel and output are called that are not spatial."""


def parse_dimension_numbers(parser: AttrParser) -> Sequence[Attribute]:
    """Parse `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]` to an attribute's parameters."""
    parameters: list[Attribute] = []
    for separator, letters in zip(("", "x", "->"), _TENSOR_LETTERS, strict=True):
        if separator:
            parser.parse_characters(separator)
        parameters += _parse_tensor_dimensions(parser, letters)
    return parameters


def _parse_tensor_dimensions(
    parser: AttrParser, letters: Sequence[str]
) -> tuple[IntAttr, IntAttr, Dimensions]:
    pos = parser.pos
    names: list[str | int] = []

    def parse_dimension() -> None:
        names.append(_parse_dimension(parser, letters, names))

    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_dimension)
    if missing := [letter for letter in letters if letter not in names]:
        parser.raise_error(
            f"Expected dimensions {', '.join(missing)} not specified", pos, parser.pos
        )
    spatial = range(len(names) - len(letters))
    if missing := [number for number in spatial if number not in names]:
        parser.raise_error(
            f"Expected spatial dimensions {', '.join(map(str, missing))} not specified",
            pos,
            parser.pos,
        )
    first, second = letters
    return (
        IntAttr(names.index(first)),
        IntAttr(names.index(second)),
        dimensions_attr([names.index(number) for number in spatial]),
    )


def _parse_dimension(
    parser: AttrParser, letters: Sequence[str], seen: Sequence[str | int]
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


def _dimensions_of_tensors(
    dimensions: ConvDimensionNumbersAttr,
) -> tuple[tuple[int, int, Sequence[int]], ...]:
    return (
        (
            dimensions.input_batch_dimension.data,
            dimensions.input_feature_dimension.data,
            dimensions.input_spatial_dimensions.get_values(),
        ),
        (
            dimensions.kernel_input_feature_dimension.data,
            dimensions.kernel_output_feature_dimension.data,
            dimensions.kernel_spatial_dimensions.get_values(),
        ),
        (
            dimensions.output_batch_dimension.data,
            dimensions.output_feature_dimension.data,
            dimensions.output_spatial_dimensions.get_values(),
        ),
    )


def _are_permutations(dimensions: ConvDimensionNumbersAttr) -> bool:
    """Whether each dimension of each tensor has one meaning, so that it can be named."""
    return all(
        sorted((first, second, *spatial)) == list(range(len(spatial) + 2))
        for first, second, spatial in _dimensions_of_tensors(dimensions)
    )


def print_dimension_numbers(
    printer: Printer, dimensions: ConvDimensionNumbersAttr
) -> None:
    """
    Print `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, or the raw fields if they are no
    permutations.
    """
    if not _are_permutations(dimensions):
        _print_raw_fields(printer, dimensions)
        return
    texts: list[str] = []
    for letters, (first, second, spatial) in zip(
        _TENSOR_LETTERS, _dimensions_of_tensors(dimensions), strict=True
    ):
        names = {first: letters[0], second: letters[1]}
        names |= {dimension: str(number) for number, dimension in enumerate(spatial)}
        texts.append(f"[{', '.join(names[index] for index in range(len(names)))}]")
    printer.print_string(f"{texts[0]}x{texts[1]}->{texts[2]}")


def parse_raw_fields(parser: AttrParser) -> Sequence[Attribute]:
    """Parse `input_batch_dimension = 0, ...` to an attribute's parameters."""
    fields: dict[str, Attribute] = {}

    def parse_field() -> None:
        name = parser.parse_keyword_in(_RAW_FIELDS)
        parser.parse_punctuation("=")
        if name.endswith("dimensions"):
            fields[name] = dimensions_attr(parse_dimensions(parser))
        else:
            fields[name] = IntAttr(parser.parse_integer())

    parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_field)
    if missing := [name for name in _RAW_FIELDS if name not in fields]:
        parser.raise_error(f"expected {', '.join(missing)}")
    return [fields[name] for name in _RAW_FIELDS]


def _print_raw_fields(printer: Printer, dimensions: ConvDimensionNumbersAttr) -> None:
    """Print dimension numbers of which some are missing or there twice."""

    values = [
        value
        for first, second, spatial in _dimensions_of_tensors(dimensions)
        for value in (first, second, f"[{', '.join(map(str, spatial))}]")
    ]
    fields = zip(_RAW_FIELDS, values, strict=True)
    printer.print_string(
        f"raw {', '.join(f'{name} = {value}' for name, value in fields)}"
    )


WINDOW_FIELDS = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}
"""The properties that the text has in `window = {...}`, by their names there."""


def parse_window(parser: AttrParser) -> dict[str, Attribute]:
    """Parse `{stride = [1, 1], pad = [[1, 1], [1, 1]]}` to properties."""
    properties: dict[str, Attribute] = {}

    def parse_field() -> None:
        field = parser.parse_keyword_in(WINDOW_FIELDS)
        if (name := WINDOW_FIELDS[field]) in properties:
            parser.raise_error(f"Unexpected keyword {field}")
        parser.parse_punctuation("=")
        properties[name] = _parse_window_values(parser, name)

    parser.parse_comma_separated_list(parser.Delimiter.BRACES, parse_field)
    return properties


def _parse_window_values(parser: AttrParser, name: str) -> Attribute:
    square = parser.Delimiter.SQUARE
    if name == "window_reversal":
        values = parser.parse_comma_separated_list(square, parser.parse_integer)
        return DenseArrayBase.from_list(i1, [bool(value) for value in values])
    if name != "padding":
        return dimensions_attr(parse_dimensions(parser))
    pos = parser.pos
    pairs = parser.parse_comma_separated_list(square, lambda: parse_dimensions(parser))
    if any(len(pair) != 2 for pair in pairs):
        parser.raise_error("Expected array with 2 elements", pos, parser.pos)
    return padding_attr(pairs)


def padding_attr(pairs: Sequence[Sequence[int]]) -> DenseIntElementsAttr:
    """Low and high padding of each spatial dimension as an attribute."""
    return DenseIntOrFPElementsAttr.from_list(
        TensorType(i64, (len(pairs), 2)), [size for pair in pairs for size in pair]
    )


def print_window(printer: Printer, properties: Mapping[str, Attribute]) -> None:
    """Print `{stride = [1, 1], pad = [[1, 1], [1, 1]]}`."""
    fields = [
        f"{field} = {_window_values_text(properties[name])}"
        for field, name in WINDOW_FIELDS.items()
        if name in properties
    ]
    printer.print_string(f"{{{', '.join(fields)}}}")


def _window_values_text(attribute: Attribute) -> str:
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        sizes = [str(size) for size in attribute.get_values()]
        pairs = zip(sizes[::2], sizes[1::2], strict=False)
        return f"[{', '.join(f'[{low}, {high}]' for low, high in pairs)}]"
    if isa(attribute, DenseArrayBase[IntegerType]):
        values = attribute.get_values()
        if attribute.elt_type == i1:
            values = ["true" if value else "false" for value in values]
        return f"[{', '.join(map(str, values))}]"
    # Not valid, and not meant to be parsed: it is part of the error message.
    return str(attribute)
