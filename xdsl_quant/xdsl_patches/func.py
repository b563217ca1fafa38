"""Patches of the dialect `func`: attributes of declarations, and lookup of callees."""

import re
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.utils import print_func_output
from xdsl.dialects.utils.format import _print_func_outputs  # pyright: ignore[reportPrivateUsage] no public way
from xdsl.ir import Attribute, Operation, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface, SymbolTable

_MAY_HAVE_ATTRIBUTES = re.compile(r"[^:,{<\s]\s*\{|//")
"""
Matches if the arguments of a declaration may have attributes. A brace that follows a type
starts attributes; a brace that follows punctuation is part of a type. The test avoids
parsing types with a million scales twice.
"""


def keep_declaration_attributes() -> None:
    """
    Print and parse argument and result attributes of declarations. xDSL drops argument
    attributes when parsing, and prints neither argument nor result attributes.

    MLIR: keeps both.
    Obsolete with: `docs/upstream/func-declarations.md`.
    """
    attributes = ArrayAttr((DictionaryAttr({"kept": UnitAttr()}),))
    declaration = FuncOp(
        "f", ((f32,), (f32,)), Region(), arg_attrs=attributes, res_attrs=attributes
    )
    if str(declaration).count("kept") == 2:
        return

    parse_definition, print_definition = FuncOp.parse, FuncOp.print

    def print_(self: FuncOp, printer: Printer) -> None:
        if self.is_declaration and (self.arg_attrs or self.res_attrs):
            _print_declaration(self, printer)
        else:
            print_definition(self, printer)

    def parse(parser: Parser) -> FuncOp:
        start = parser.pos
        func = parse_definition(parser)
        end = parser.pos
        has_inputs = func.is_declaration and func.function_type.inputs.data
        if has_inputs and _MAY_HAVE_ATTRIBUTES.search(
            parser.lexer.input.content, start, end
        ):
            # xDSL dropped the attributes: parse them again.
            parser._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
            func.arg_attrs = _parse_argument_attributes(parser)
            parser._resume_from(end)  # pyright: ignore[reportPrivateUsage] no public way
        return func

    FuncOp.print = print_
    FuncOp.parse = staticmethod(parse)


def _parse_argument_attributes(parser: Parser) -> ArrayAttr[DictionaryAttr] | None:
    def parse_argument() -> dict[str, Attribute]:
        if parser.parse_optional_argument() is None:
            parser.parse_type()
        attributes = parser.parse_optional_dictionary_attr_dict()
        parser.parse_optional_location()
        return attributes

    parser.parse_optional_visibility_keyword()
    parser.parse_symbol_name()
    attributes = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parse_argument
    )
    return ArrayAttr(map(DictionaryAttr, attributes)) if any(attributes) else None


def _print_declaration(func: FuncOp, printer: Printer) -> None:
    inputs, results = func.function_type.inputs.data, func.function_type.outputs.data
    attributes = func.arg_attrs or [DictionaryAttr({})] * len(inputs)
    if func.sym_visibility:
        printer.print_string(f" {func.sym_visibility.data}")
    printer.print_string(" ")
    printer.print_symbol_name(func.sym_name.data)
    with printer.in_parens():
        printer.print_list(
            zip(inputs, attributes, strict=True),
            lambda pair: print_func_output(printer, *pair),
        )
    _print_func_outputs(printer, results, func.res_attrs)
    printer.print_op_attributes(func.attributes, print_keyword=True)


def look_up_symbols_in_tables() -> None:
    """
    Look up symbols in constant time. xDSL visits the ops of the module for each call, so
    the time to verify calls of as many functions is quadratic. With a faster xDSL, this
    patch has no effect on results either.

    MLIR: looks up symbols in a table that a verification builds once.
    Obsolete with: `docs/upstream/func-callees.md`.
    """
    find = SymbolTable.lookup_symbol
    if find.__module__ == __name__:
        return
    tables: WeakKeyDictionary[Operation, dict[str, Operation]] = WeakKeyDictionary()

    def lookup_symbol(
        op: Operation, name: str | StringAttr | SymbolRefAttr
    ) -> Operation | None:
        parent: Operation | None = op
        while parent is not None and not parent.has_trait(SymbolTable):
            parent = parent.parent_op()
        if isinstance(name, SymbolRefAttr) and not name.nested_references:
            name = name.root_reference
        if parent is None or isinstance(name, SymbolRefAttr):
            return find(op, name)
        symbol = name if isinstance(name, str) else name.data
        found = tables.get(parent, {}).get(symbol)
        if (
            found is None
            or found.parent_op() is not parent
            or _symbol_name(found) != symbol
        ):
            tables[parent] = _symbols_in(parent)
            found = tables[parent].get(symbol)
        return find(op, name) if found is None else found

    SymbolTable.lookup_symbol = staticmethod(lookup_symbol)


def _symbol_name(op: Operation) -> str | None:
    name = op.get_attr_or_prop("sym_name")
    return name.data if isinstance(name, StringAttr) else None


def _symbols_in(parent: Operation) -> dict[str, Operation]:
    """Return the first symbol of each name."""
    symbols: dict[str, Operation] = {}
    for op in parent.regions[0].block.ops:
        if (name := _symbol_name(op)) is not None and op.has_trait(SymbolOpInterface):
            symbols.setdefault(name, op)
    return symbols


PATCHES = (keep_declaration_attributes, look_up_symbols_in_tables)
