"""Assembly format directives for properties with custom syntax, and abbreviated types."""

import re
from collections.abc import Container, Sequence
from itertools import zip_longest
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    TensorType,
    TupleType,
    i1,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl import declarative_assembly_format as assembly
from xdsl.irdl.declarative_assembly_format import ParsingState, PrintingState
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.hints import isa

from xdsl_quant.dialects.type_kinds import ParsedTypes

from .attributes import (
    ConvDimensionNumbersAttr,
    Dimensions,
    DotAlgorithmAttr,
    DotDimensionNumbersAttr,
    Pair,
    Precision,
    PrecisionAttr,
    booleans_attr,
    dimensions_attr,
    dimensions_text,
    padding_attr,
    parse_dimensions,
    parse_number,
)


def parse_attributes(
    parser: Parser, op_type: type[IRDLOperation], taken: Container[str]
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """
    Parse an attribute dictionary; return its discardable attributes and its properties.
    Refuse properties in `taken`, whose values are already parsed.
    """
    pos = parser.pos
    attributes = parser.parse_optional_attr_dict()
    # A set would order the names differently in each process.
    properties = op_type.get_irdl_definition().properties
    names = [name for name in attributes if name in properties]
    for name in names:
        if name in taken:
            parser.raise_error(
                f"attribute '{name}' occurs more than once in the attribute list",
                pos,
                parser.pos,
            )
    return attributes, {name: attributes.pop(name) for name in names}


@assembly.irdl_custom_directive
class CompleteOp(assembly.CustomDirective):
    """
    Directive that ends an assembly format and prints nothing. Properties in the
    attribute dictionary override properties parsed before. Types are not checked here,
    but by the op's verifier.
    """

    def parse(self, parser: Parser, state: ParsingState) -> None:
        properties = state.op_type.get_irdl_definition().properties
        for name in [name for name in state.attributes if name in properties]:
            state.properties[name] = state.attributes.pop(name)
        state.context = ParsedTypes()

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        pass


@assembly.irdl_custom_directive
class DimensionList(assembly.CustomDirective):
    """`[0, 1]`, as an array of 64-bit integers."""

    dimensions: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.dimensions.set(state, dimensions_attr(parse_dimensions(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        numbers = self.dimensions.get(op)
        assert isa(numbers, DenseArrayBase[IntegerType])
        printer.print_string(dimensions_text(numbers.get_values()))


@assembly.irdl_custom_directive
class OperandsBeforeKeyword(assembly.CustomDirective):
    """`%a, %b,`: operands, each followed by a comma."""

    operands: assembly.VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operands: list[UnresolvedOperand] = []
        while (operand := parser.parse_optional_unresolved_operand()) is not None:
            operands.append(operand)
            parser.parse_punctuation(",")
        if not operands:
            # As StableHLO prints it.
            parser.parse_optional_punctuation(",")
        self.operands.set(state, operands)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_list(self.operands.get(op), printer.print_ssa_value)
        printer.print_string(",")


@assembly.irdl_custom_directive
class SameOperandsAndResultType(assembly.CustomDirective):
    """`tensor<4xf32>` if all types are the same, otherwise a function type."""

    operand_types: assembly.TypeDirective
    result_type: assembly.TypeDirective

    def parse_types(self, parser: Parser, operand_count: int) -> FunctionType:
        """Parse a function type or its abbreviation."""
        pos, type_ = parser.pos, parser.parse_type()
        if isinstance(type_, FunctionType):
            return type_
        inputs = self.inputs_of(parser, type_, operand_count, pos)
        return FunctionType.from_lists(inputs, (type_,))

    def inputs_of(
        self, parser: Parser, type_: Attribute, operand_count: int, pos: int
    ) -> Sequence[Attribute]:
        """Return the operand types that a result type, parsed at `pos`, abbreviates."""
        return (type_,) * operand_count

    def short_types(self, op: IRDLOperation) -> Sequence[Attribute] | None:
        """Return the types of the short form, or `None` to print a function type."""
        result_type = op.result_types[0]
        is_same = all(type_ == result_type for type_ in op.operand_types)
        return [result_type] if is_same else None

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos, count = parser.pos, sum(map(_operand_count, state.operands))
        type_ = self.parse_types(parser, count)
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

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        if (types := self.short_types(op)) is not None:
            printer.print_list(types, printer.print_attribute)
        else:
            printer.print_function_type(op.operand_types, op.result_types)


def _operand_count(
    operands: UnresolvedOperand | Sequence[UnresolvedOperand] | None,
) -> int:
    """Return the number of values of an operand, which may be variadic."""
    if isinstance(operands, UnresolvedOperand):
        return 1
    return len(operands or ())


@assembly.irdl_custom_directive
class SelectType(SameOperandsAndResultType):
    """`tensor<4xi1>, tensor<4xf32>` for a predicate and one type for all other values."""

    operand_types: assembly.TypeDirective
    result_type: assembly.TypeDirective

    def parse_types(self, parser: Parser, operand_count: int) -> FunctionType:
        pos = parser.pos
        match parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_type
        ):
            case [FunctionType() as type_]:
                return type_
            case [pred, result]:
                return FunctionType.from_lists((pred, result, result), (result,))
            case _:
                parser.raise_error(
                    "expected functional type or list of two types", pos, parser.pos
                )

    def short_types(self, op: IRDLOperation) -> Sequence[Attribute] | None:
        pred, on_true, on_false = op.operand_types
        result = op.result_types[0]
        return [pred, result] if on_true == result == on_false else None


@assembly.irdl_custom_directive
class ComplexOpType(SameOperandsAndResultType):
    """`tensor<4xcomplex<f32>>` for operands that are its components."""

    operand_types: assembly.TypeDirective
    result_type: assembly.TypeDirective

    def inputs_of(
        self, parser: Parser, type_: Attribute, operand_count: int, pos: int
    ) -> Sequence[Attribute]:
        if (component := _component_type(type_)) is None:
            parser.raise_error("expected tensor with complex element type", pos)
        return (component,) * operand_count

    def short_types(self, op: IRDLOperation) -> Sequence[Attribute] | None:
        result = op.result_types[0]
        component = _component_type(result)
        return [result] if all(t == component for t in op.operand_types) else None


@assembly.irdl_custom_directive
class TupleOpType(SameOperandsAndResultType):
    """`tuple<tensor<4xf32>>` for operands that are its elements."""

    operand_types: assembly.TypeDirective
    result_type: assembly.TypeDirective

    def inputs_of(
        self, parser: Parser, type_: Attribute, operand_count: int, pos: int
    ) -> Sequence[Attribute]:
        if not isinstance(type_, TupleType):
            parser.raise_error("expected tuple type", pos, parser.pos)
        return type_.types.data

    def short_types(self, op: IRDLOperation) -> Sequence[Attribute] | None:
        (result,) = op.result_types
        is_own = isinstance(result, TupleType) and (
            result.types.data == (*op.operand_types,)
        )
        return [result] if is_own else None


def _component_type(type_: Attribute) -> Attribute | None:
    """Return the tensor type of the components of complex numbers."""
    if not isa(type_, TensorType[ComplexType]):
        return None
    component: Attribute = type_.element_type.element_type
    return TensorType(component, type_.shape, type_.encoding)


@assembly.irdl_custom_directive
class PairwiseTypes(assembly.CustomDirective):
    """`tensor<4xf32>, tensor<i1>`: the types of the operands, which the results have."""

    operand_types: assembly.TypeDirective
    result_types: assembly.TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_type
        )
        self.operand_types.set(state, types)
        self.result_types.set(state, types)
        state.context = ParsedTypes()

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_list(op.operand_types, printer.print_attribute)


@assembly.irdl_custom_directive
class SliceRanges(assembly.CustomDirective):
    """`[0:4, 1:5:2]`: start, limit and optional stride of each dimension."""

    start_indices: assembly.AttributeVariable
    limit_indices: assembly.AttributeVariable
    strides: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        def parse_range() -> tuple[int, int, int]:
            start = parse_number(parser)
            parser.parse_punctuation(":")
            limit = parse_number(parser)
            has_stride = parser.parse_optional_punctuation(":") is not None
            return start, limit, parse_number(parser) if has_stride else 1

        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_range)
        variables = self.start_indices, self.limit_indices, self.strides
        for index, variable in enumerate(variables):
            variable.set(state, dimensions_attr([range_[index] for range_ in ranges]))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        variables = self.start_indices, self.limit_indices, self.strides
        numbers = [cast(Dimensions, variable.get(op)) for variable in variables]
        texts = [
            f"{start}:{limit}" if stride == 1 else f"{start}:{limit}:{stride}"
            for start, limit, stride in zip_longest(*(n.get_values() for n in numbers))
        ]
        printer.print_string(f"[{', '.join(texts)}]")


@assembly.irdl_custom_directive
class ExponentAndMantissa(assembly.CustomDirective):
    """`e5m10`: numbers of exponent bits and mantissa bits."""

    exponent_bits: assembly.AttributeVariable
    mantissa_bits: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        match = re.fullmatch(r"e(\d+)m(\d+)", parser.parse_identifier())
        if match is None:
            parser.raise_error(
                "expected exponent mantissa in format e#m#", pos, parser.pos
            )
        for variable, digits in (
            (self.exponent_bits, match[1]),
            (self.mantissa_bits, match[2]),
        ):
            variable.set(state, IntegerAttr(int(digits), i32))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        exponent_bits, mantissa_bits = (
            cast(IntegerAttr, variable.get(op)).value.data
            for variable in (self.exponent_bits, self.mantissa_bits)
        )
        printer.print_string(f"e{exponent_bits}m{mantissa_bits}")


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
            f"{dimensions_text(lhs)} x {dimensions_text(rhs)}"
            for lhs, rhs in numbers.pairs()
        )
        if any(numbers.pairs()[0]):
            printer.print_string(f"batching_dims = {batching}, ")
        printer.print_string(f"contracting_dims = {contracting}")


def _parse_precisions(parser: Parser) -> ArrayAttr[PrecisionAttr]:
    """Parse `= [DEFAULT, HIGH]`."""
    parser.parse_punctuation("=")
    precisions = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_str_enum(Precision)
    )
    return ArrayAttr([PrecisionAttr(precision) for precision in precisions])


def _print_precisions(printer: Printer, config: Attribute | None) -> None:
    """Print `, precision = [DEFAULT, HIGH]`, or nothing."""
    if isa(config, ArrayAttr[PrecisionAttr]):
        precisions = ", ".join(precision.data for precision in config)
        printer.print_string(f", precision = [{precisions}]")


@assembly.irdl_custom_directive
class Precisions(assembly.CustomDirective):
    """`, precision = [DEFAULT, HIGH]`, optional."""

    precision_config: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("precision")
            self.precision_config.set(state, _parse_precisions(parser))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        _print_precisions(printer, self.precision_config.get(op))


@assembly.irdl_custom_directive
class PrecisionAndAlgorithm(assembly.CustomDirective):
    """`, precision = [DEFAULT, HIGH], algorithm = <...>`, both optional."""

    precision_config: assembly.AttributeVariable
    algorithm: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if not parser.parse_optional_punctuation(","):
            return
        if parser.parse_optional_keyword("precision"):
            self.precision_config.set(state, _parse_precisions(parser))
            if not parser.parse_optional_punctuation(","):
                return
        parser.parse_keyword("algorithm")
        parser.parse_punctuation("=")
        parameters = DotAlgorithmAttr.parse_parameters(parser)
        self.algorithm.set(state, DotAlgorithmAttr.new(parameters))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        _print_precisions(printer, self.precision_config.get(op))
        if isinstance(algorithm := self.algorithm.get(op), DotAlgorithmAttr):
            printer.print_string(", algorithm = ")
            algorithm.print_parameters(printer)


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
"""Property names by keyword in `window = {...}`."""


def _parse_window_values(parser: AttrParser, name: str) -> Attribute:
    square = parser.Delimiter.SQUARE
    if name == "window_reversal":
        values = parser.parse_comma_separated_list(square, parser.parse_integer)
        return booleans_attr(values)
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
        # Invalid attributes are printed in error messages only.
        return str(attribute)
    text = dimensions_text(attribute.get_values())
    if attribute.elt_type == i1:
        text = text.replace("-1", "true").replace("1", "true").replace("0", "false")
    return text


@assembly.irdl_custom_directive
class ConvolutionWindow(assembly.CustomDirective):
    """`{stride = [1, 1], pad = [[1, 1], [1, 1]]}`: optional window properties."""

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


DIRECTIVES = tuple(
    value
    for value in [*globals().values()]
    if isinstance(value, type) and issubclass(value, assembly.CustomDirective)
)
"""Directives for the assembly formats of all ops."""

SAME_TYPE = (
    "attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type(results))"
)
FUNCTIONAL_TYPE = (
    "attr-dict `:` functional-type(operands, results) custom<CompleteOp>()"
)
"""End of assembly formats: attributes, and a function type."""
