"""Attributes of declarations are kept, and callees are found in tables."""

from unittest.mock import patch

import pytest
from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.traits import SymbolTable

from tests.conformance.real_mlir import Mlir
from xdsl_quant.dialects.quant import BlockScaledQuantizedType

from .modules import accepted, parse

DECLARATIONS = (
    "func.func private @a(f32 {a.b}, i8) -> (f32 {c.d = 1 : i8}) attributes {x.y}",
    "func.func private @b(f32, i8 {a.b}) -> f32",
    "func.func private @c(f32) -> (f32, i8 {c.d})",
    'func.func private @d(f32 {a.b = "text", c.d})',
    "func.func private @e() -> (f32 {c.d})",
    "func.func private @f(f32, i8) -> (f32, i8)",
    "func.func private @g()",
)


@pytest.mark.parametrize("text", DECLARATIONS)
def test_attributes_of_declarations_are_kept(mlir: Mlir, text: str):
    module = parse(text)
    if "{a.b" in text or "{c.d" in text:
        assert text in str(module)
    assert parse(str(module)).is_structurally_equivalent(module)
    assert accepted(mlir, str(module)) == accepted(mlir, text)


def test_attributes_of_definitions_are_kept():
    text = "func.func @f(%x: f32 {a.b}) -> (f32 {c.d}) {\n    func.return %x : f32"
    assert text in str(parse(text + "}"))


def test_named_arguments_of_declarations_are_read(mlir: Mlir):
    text = "func.func private @f(%x: f32 {a.b}, %y: i8) -> f32"
    assert accepted(mlir, str(parse(text))) == accepted(mlir, text)


def test_locations_of_declared_arguments_are_skipped():
    module = parse('func.func private @f(f32 {a.b} loc("file":1:2), i8 loc(unknown))')
    assert "func.func private @f(f32 {a.b}, i8)" in str(module)


@pytest.mark.parametrize(
    "text",
    [
        "@f(f32{a.b}, i8)",
        "@f(f32 // {c.d}\n {a.b}, i8)",
        "@f(f32 // one:\n {a.b}, i8)",
        "@f(tensor<2xf32>{a.b}, i8)",
        '@f(!llvm.struct<"x", (f32)> {a.b}, i8)',
        "@f(!quant.uniform<i8:f32:{0:1}, {{1.0, 2.0}}>\n\t{a.b}, i8)",
        "@f(() -> () {a.b}, i8)",
        "@f(%x: f32 {a.b}, %y: i8)",
    ],
)
def test_attributes_are_found(text: str):
    assert " {a.b}, i8)" in str(parse(f"func.func private {text}"))


def test_types_are_parsed_once_without_attributes():
    scaled = (
        "!quant.block_scaled<i4:f32:{0:1, 1:32}, scales = dense<0.5> : tensor<2x1xf16>>"
    )
    uniform = "!quant.uniform<i8:f32:{0:1}, {{1.0, 2.0}}>"
    text = f"func.func private @f(tensor<2x32x{scaled}>, tensor<2x{uniform}>) -> f32"
    with patch.object(
        BlockScaledQuantizedType,
        "parse_parameters",
        wraps=BlockScaledQuantizedType.parse_parameters,
    ) as parse_parameters:
        parse(text)
    assert parse_parameters.call_count == 1


def test_callees_are_found_in_a_table():
    """The number of visited ops is linear."""
    count = 40
    functions = "".join(f"func.func private @f{i}()\n" for i in range(count))
    calls = "".join(f"  func.call @f{i}() : () -> ()\n" for i in range(count))
    module = parse(f"{functions}func.func @main() {{\n{calls}  return\n}}")
    with patch.object(
        FuncOp, "get_attr_or_prop", autospec=True, side_effect=FuncOp.get_attr_or_prop
    ) as visit:
        module.verify()
    assert visit.call_count < 8 * count


def test_tables_follow_changes():
    module = parse("func.func private @f()\nfunc.func private @g()")
    first, second = (op for op in module.ops if isinstance(op, FuncOp))
    assert SymbolTable.lookup_symbol(module, "f") is first
    first.sym_name = StringAttr("h")
    assert SymbolTable.lookup_symbol(module, "f") is None
    assert SymbolTable.lookup_symbol(first, SymbolRefAttr("h")) is first
    second.detach()
    assert SymbolTable.lookup_symbol(module, StringAttr("g")) is None
    second.sym_name = StringAttr("f")
    module.body.block.add_op(second)
    assert SymbolTable.lookup_symbol(module, "f") is second


def test_nested_symbols_are_found():
    text = "builtin.module @a {\n  func.func private @f()\n}"
    module = parse(f"builtin.module {{\n{text}\n}}")
    (inner,) = module.ops
    (function,) = inner.regions[0].block.ops
    assert SymbolTable.lookup_symbol(module, SymbolRefAttr("a", ["f"])) is function
    assert SymbolTable.lookup_symbol(module, SymbolRefAttr("a", ["g"])) is None
    assert SymbolTable.lookup_symbol(function, "f") is function
