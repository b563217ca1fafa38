"""Syntax of TOSA ops with enum keywords."""

from collections.abc import Callable, Mapping

from xdsl.dialects.tosa import NanMode, NanModeAttr, RoundingMode, RoundingModeAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, OptPropertyDef
from xdsl.parser import Parser
from xdsl.printer import Printer

from .attributes import BlockSize, BlockSizeAttr, ResizeMode, ResizeModeAttr

_KEYWORDS: Mapping[str, Callable[[Parser], Attribute]] = {
    "block_size": lambda parser: BlockSizeAttr(parser.parse_str_enum(BlockSize)),
    "mode": lambda parser: ResizeModeAttr(parser.parse_str_enum(ResizeMode)),
    "nan_mode": lambda parser: NanModeAttr(parser.parse_str_enum(NanMode)),
    "rounding_mode": lambda parser: RoundingModeAttr(
        parser.parse_str_enum(RoundingMode)
    ),
}
"""Parser of each property that is printed as a keyword, by property name."""


def parse_with_keywords(cls: type[IRDLOperation], parser: Parser) -> IRDLOperation:
    """
    Parse an op with enum keywords: `{axis = 1 : i32, nan_mode = IGNORE}`, or
    `min_val(0 : i8) max_val(1 : i8)` as in MLIR's main branch.
    """

    def parse_value(name: str) -> Attribute:
        attribute = parser.parse_optional_attribute()
        if attribute is None:
            attribute = _KEYWORDS.get(name, Parser.parse_attribute)(parser)
        return attribute

    def parse_entry() -> tuple[str, Attribute]:
        name = parser.parse_optional_str_literal() or parser.parse_identifier()
        parser.parse_punctuation("=")
        return name, parse_value(name)

    position = parser.pos
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    attributes: dict[str, Attribute] = {}
    while (name := parser.parse_optional_identifier()) is not None:
        with parser.in_parens():
            attributes[name] = parse_value(name)
    entries = parser.parse_optional_comma_separated_list(
        parser.Delimiter.BRACES, parse_entry
    )
    parser.parse_punctuation(":")
    type_ = parser.parse_function_type()
    attributes |= dict(entries or ())
    # Keep properties in the order of the text.
    names = [*filter(cls.get_irdl_definition().properties.__contains__, attributes)]
    return cls.create(
        operands=parser.resolve_operands(operands, type_.inputs.data, position),
        result_types=type_.outputs.data,
        properties={name: attributes.pop(name) for name in names},
        attributes=attributes,
    )


def print_with_keywords(self: IRDLOperation, printer: Printer) -> None:
    """Print an op with enum keywords; omit optional properties with default values."""
    definitions = self.get_irdl_definition().properties
    attributes = dict(self.attributes)
    for name, value in self.properties.items():
        definition = definitions[name]
        is_optional = isinstance(definition, OptPropertyDef)
        if not is_optional or value != definition.default_value:
            attributes[name] = value

    def print_entry(name: str) -> None:
        value = attributes[name]
        printer.print_identifier_or_string_literal(name)
        printer.print_string(" = ")
        if isinstance(
            value, BlockSizeAttr | NanModeAttr | ResizeModeAttr | RoundingModeAttr
        ):
            printer.print_string(value.data)
        else:
            printer.print_attribute(value)

    printer.print_string(" ")
    printer.print_list(self.operands, printer.print_ssa_value)
    if attributes:
        printer.print_string(" ")
        with printer.in_braces():
            printer.print_list(sorted(attributes), print_entry)
    printer.print_string(" : ")
    printer.print_function_type(self.operand_types, self.result_types)
