"""
Text that several of StableHLO's ops share: lists of dimensions, properties among the
attributes, and the types of operands and results, which are one type if all are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FunctionType,
    IntegerType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, VerificationContext
from xdsl.irdl import declarative_assembly_format as assembly
from xdsl.irdl.declarative_assembly_format import ParsingState, PrintingState
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.hints import isa
from xdsl.utils.lexer import Position


def parse_number(parser: AttrParser) -> int:
    """Parse a number of a dimension or of elements, which has 64 bits."""
    pos = parser.pos
    number = parser.parse_integer(allow_boolean=False)
    if not -(1 << 63) <= number < 1 << 63:
        parser.raise_error("integer value too large", pos, parser.pos)
    return number


def parse_dimensions(parser: AttrParser) -> Sequence[int]:
    """Parse `[0, 1]`."""
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_number(parser)
    )


def dimensions_text(dimensions: Sequence[int]) -> str:
    """`[0, 1]`"""
    return f"[{', '.join(map(str, dimensions))}]"


def parse_dimension_size(parser: AttrParser) -> int:
    """Parse a size, or `?` for `DYNAMIC_INDEX`."""
    if parser.parse_optional_punctuation("?"):
        return DYNAMIC_INDEX
    return parse_number(parser)


def dimension_size_text(size: int) -> str:
    """A size as it is printed, `?` if it is not known."""
    return "?" if size == DYNAMIC_INDEX else str(size)


def move_properties(
    parser: Parser,
    op_type: type[IRDLOperation],
    attributes: dict[str, Attribute],
    properties: dict[str, Attribute],
    pos: Position,
) -> None:
    """Move what is a property from the attributes, parsed at `pos`, to the properties."""
    for name in op_type.get_irdl_definition().properties.keys() & attributes.keys():
        if name in properties:
            parser.raise_error(
                f"attribute '{name}' occurs more than once in the attribute list",
                pos,
                parser.pos,
            )
        properties[name] = attributes.pop(name)


def parse_attributes(
    parser: Parser, op_type: type[IRDLOperation], properties: dict[str, Attribute]
) -> dict[str, Attribute]:
    """
    Parse the attributes of an op, if there are any. Those that are properties are added
    to `properties`.
    """
    pos = parser.pos
    attributes = parser.parse_optional_attr_dict()
    move_properties(parser, op_type, attributes, properties, pos)
    return attributes


class ParsedTypes(VerificationContext):
    """
    Types of a text. xDSL verifies these before there is an op, MLIR with the op, of which
    its messages speak: constraints accept them in this context.
    """


@assembly.irdl_custom_directive
class CompleteOp(assembly.CustomDirective):
    """
    No text, at the end of an op: among the attributes there may be properties, also
    instead of those in the text, and types are verified with the op.
    """

    def parse(self, parser: Parser, state: ParsingState) -> None:
        properties = state.op_type.get_irdl_definition().properties
        for name in properties.keys() & state.attributes.keys():
            state.properties[name] = state.attributes.pop(name)
        state.context = ParsedTypes()

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        pass


@assembly.irdl_custom_directive
class DimensionList(assembly.CustomDirective):
    """`[0, 1]`, as an array of 64-bit integers."""

    dimensions: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        numbers = parse_dimensions(parser)
        self.dimensions.set(state, DenseArrayBase.from_list(i64, numbers))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        numbers = self.dimensions.get(op)
        assert isa(numbers, DenseArrayBase[IntegerType])
        printer.print_string(dimensions_text(numbers.get_values()))


@assembly.irdl_custom_directive
class OperandsBeforeKeyword(assembly.CustomDirective):
    """`%a, %b,`: operands, each with a comma after it."""

    operands: assembly.VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operands: list[UnresolvedOperand] = []
        while (operand := parser.parse_optional_unresolved_operand()) is not None:
            operands.append(operand)
            parser.parse_punctuation(",")
        self.operands.set(state, operands)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_list(op.operands, printer.print_ssa_value)
        printer.print_string(",")


@assembly.irdl_custom_directive
class SameOperandsAndResultType(assembly.CustomDirective):
    """
    `tensor<4xf32>` if that is the type of all operands and of the result, else
    `(tensor<4xf32>, tensor<4xf32>) -> tensor<?xf32>`.
    """

    operand_types: assembly.TypeDirective
    result_type: assembly.TypeDirective

    def _set(
        self, parser: Parser, state: ParsingState, type_: FunctionType, pos: int
    ) -> None:
        count = len(state.operands)
        inputs, outputs = type_.inputs.data, type_.outputs.data
        if len(inputs) != count:
            parser.raise_error(
                f"{count} operands present, but expected {len(inputs)}", pos, parser.pos
            )
        if len(outputs) != 1:
            parser.raise_error("expected single output", pos, parser.pos)
        self.operand_types.set(state, inputs)
        self.result_type.set(state, outputs)
        state.context = ParsedTypes()

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, FunctionType):
            count = len(state.operands)
            type_ = FunctionType.from_lists((type_,) * count, (type_,))
        self._set(parser, state, type_, pos)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        result_type = op.result_types[0]
        if all(type_ == result_type for type_ in op.operand_types):
            printer.print_attribute(result_type)
        else:
            printer.print_function_type(op.operand_types, op.result_types)


@assembly.irdl_custom_directive
class SelectType(SameOperandsAndResultType):
    """
    `tensor<4xi1>, tensor<4xf32>`: the predicate, and what is chosen from and the result.
    If these differ, `(tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<?xf32>`.
    """

    operand_types: assembly.TypeDirective
    result_type: assembly.TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        match parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_type
        ):
            case [FunctionType() as type_]:
                pass
            case [pred, result]:
                type_ = FunctionType.from_lists((pred, result, result), (result,))
            case _:
                parser.raise_error(
                    "expected functional type or list of two types", pos, parser.pos
                )
        self._set(parser, state, type_, pos)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        pred, on_true, on_false = op.operand_types
        result = op.result_types[0]
        if on_true == result == on_false:
            printer.print_list((pred, result), printer.print_attribute)
        else:
            printer.print_function_type(op.operand_types, op.result_types)


DIRECTIVES = (
    CompleteOp,
    DimensionList,
    OperandsBeforeKeyword,
    SameOperandsAndResultType,
    SelectType,
)
"""The directives that assembly formats of all ops can use."""

SAME_TYPE = (
    "attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type(results))"
)
FUNCTIONAL_TYPE = (
    "attr-dict `:` functional-type(operands, results) custom<CompleteOp>()"
)
"""The ends of assembly formats: attributes, and the types of operands and results."""
