"""
The pieces of text that several of StableHLO's ops share: lists of dimensions, and the
types of operands and results, which are one type if all are the same.
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
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.hints import isa


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


def print_dimensions(printer: Printer, dimensions: Sequence[int]) -> None:
    """Print `[0, 1]`."""
    printer.print_string(f"[{', '.join(map(str, dimensions))}]")


def parse_dimension_size(parser: AttrParser) -> int:
    """Parse a size, or `?` for `DYNAMIC_INDEX`."""
    if parser.parse_optional_punctuation("?"):
        return DYNAMIC_INDEX
    return parse_number(parser)


def dimension_size_text(size: int) -> str:
    """A size as it is printed, `?` if it is not known."""
    return "?" if size == DYNAMIC_INDEX else str(size)


def parse_attributes(
    parser: Parser, op_type: type[IRDLOperation], properties: dict[str, Attribute]
) -> dict[str, Attribute]:
    """
    Parse the attributes of an op, if there are any. Those that are properties are added
    to `properties`.
    """
    pos = parser.pos
    attributes = parser.parse_optional_attr_dict()
    for name in op_type.get_irdl_definition().properties:
        if name not in attributes:
            continue
        if name in properties:
            parser.raise_error(
                f"attribute '{name}' occurs more than once in the attribute list",
                pos,
                parser.pos,
            )
        properties[name] = attributes.pop(name)
    return attributes


@irdl_custom_directive
class DimensionList(CustomDirective):
    """`[0, 1]`, as an array of 64-bit integers."""

    dimensions: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        numbers = parse_dimensions(parser)
        self.dimensions.set(state, DenseArrayBase.from_list(i64, numbers))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        numbers = self.dimensions.get(op)
        assert isa(numbers, DenseArrayBase[IntegerType])
        print_dimensions(printer, numbers.get_values())


def _print_function_type(
    printer: Printer, operand_types: Sequence[Attribute], result_type: Attribute
) -> None:
    with printer.in_parens():
        printer.print_list(operand_types, printer.print_attribute)
    printer.print_string(" -> ")
    printer.print_attribute(result_type)


def _split_function_type(
    parser: Parser, type_: FunctionType, count: int, pos: int
) -> tuple[Sequence[Attribute], Attribute]:
    """The types of `count` operands and of the one result."""
    inputs, outputs = type_.inputs.data, type_.outputs.data
    if len(inputs) != count:
        parser.raise_error(
            f"{count} operands present, but expected {len(inputs)}", pos, parser.pos
        )
    if len(outputs) != 1:
        parser.raise_error("expected single output", pos, parser.pos)
    return inputs, outputs[0]


def _parse_types(parser: Parser, count: int) -> tuple[Sequence[Attribute], Attribute]:
    pos = parser.pos
    type_ = parser.parse_type()
    if isinstance(type_, FunctionType):
        return _split_function_type(parser, type_, count, pos)
    return (type_,) * count, type_


class _SameType(CustomDirective):
    """
    `tensor<4xf32>` if that is the type of all operands and of the result, else
    `(tensor<4xf32>, tensor<4xf32>) -> tensor<?xf32>`.
    """

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        operand_types, result_type = op.operand_types, op.result_types[0]
        if all(type_ == result_type for type_ in operand_types):
            printer.print_attribute(result_type)
        else:
            _print_function_type(printer, operand_types, result_type)


@irdl_custom_directive
class SameUnaryType(_SameType):
    """The types of an op with one operand."""

    operand: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operand_types, result_type = _parse_types(parser, 1)
        self.operand.set(state, operand_types)
        self.result.set(state, (result_type,))


@irdl_custom_directive
class SameBinaryType(_SameType):
    """The types of an op with two operands."""

    lhs: TypeDirective
    rhs: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        (lhs, rhs), result = _parse_types(parser, 2)
        self.lhs.set(state, (lhs,))
        self.rhs.set(state, (rhs,))
        self.result.set(state, (result,))


@irdl_custom_directive
class SameTernaryType(_SameType):
    """The types of an op with three operands."""

    first: TypeDirective
    second: TypeDirective
    third: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        (first, second, third), result = _parse_types(parser, 3)
        self.first.set(state, (first,))
        self.second.set(state, (second,))
        self.third.set(state, (third,))
        self.result.set(state, (result,))


@irdl_custom_directive
class SelectType(CustomDirective):
    """
    `tensor<4xi1>, tensor<4xf32>`: the predicate, and what is chosen from and the result.
    If these differ, `(tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<?xf32>`.
    """

    pred: TypeDirective
    on_true: TypeDirective
    on_false: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        pred: Attribute
        types = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_type
        )
        if len(types) == 2:
            pred, result = types
            on_true: Attribute = result
            on_false: Attribute = result
        elif len(types) == 1 and isinstance(type_ := types[0], FunctionType):
            operand_types, result = _split_function_type(parser, type_, 3, pos)
            pred, on_true, on_false = operand_types
        else:
            parser.raise_error(
                "expected functional type or list of two types", pos, parser.pos
            )
        self.pred.set(state, (pred,))
        self.on_true.set(state, (on_true,))
        self.on_false.set(state, (on_false,))
        self.result.set(state, (result,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        pred, on_true, on_false = op.operand_types
        result = op.result_types[0]
        if on_true == result == on_false:
            printer.print_list((pred, result), printer.print_attribute)
        else:
            _print_function_type(printer, op.operand_types, result)


@irdl_custom_directive
class OperandsBeforeKeyword(CustomDirective):
    """`%a, %b,`: operands, each with a comma after it."""

    operands: VariadicOperandVariable

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
