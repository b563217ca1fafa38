"""The target `mlir-aliased`, called in Python."""

from dataclasses import fields
from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8
from xdsl.targets.mlir import MLIRTarget

from xdsl_quant.dialects.quant import (
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)
from xdsl_quant.targets.mlir_aliased import AliasPrinter, MLIRAliasedTarget

A = UniformQuantizedType(i8, f32, 0.5)
B = UniformQuantizedType(i8, f32, 2.0)


def _emitted(module: ModuleOp, target: MLIRTarget) -> str:
    output = StringIO()
    target.emit(Context(), module, output)
    return output.getvalue()


def _per_axis() -> UniformQuantizedPerAxisType:
    return UniformQuantizedPerAxisType(
        i8, f32, [0.5 + i / 8 for i in range(64)], quantized_dimension=0
    )


def test_options_are_those_of_the_target_mlir():
    assert [(f.name, f.type, f.default) for f in fields(MLIRAliasedTarget)] == [
        (f.name, f.type, f.default) for f in fields(MLIRTarget)
    ]


def test_syntax_highlight():
    module = ModuleOp([test.TestOp(result_types=[A])])
    assert _emitted(module, MLIRAliasedTarget(syntax_highlight=True)) == (
        "!q0 = !quant.uniform<i8:f32, 5.000000e-01>\n"
        "builtin.module {\n"
        '  \x1b[95m%0\x1b[0m = "test.op"() : () -> !q0\n'
        "}\n"
    )


def test_print_properties_as_attributes():
    module = ModuleOp([test.TestOp(properties={"prop1": A})])
    target = MLIRAliasedTarget(print_properties_as_attributes=True)
    assert '"test.op"() {prop1 = !q0} : () -> ()' in _emitted(module, target)


def test_equal_types_have_one_alias_and_each_text_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
):
    texts: list[str] = []
    text = UniformQuantizedPerAxisType.text

    def recorded_text(self: UniformQuantizedPerAxisType) -> str:
        texts.append(text(self))
        return texts[-1]

    monkeypatch.setattr(UniformQuantizedPerAxisType, "text", recorded_text)
    ops = [
        test.TestOp(result_types=[TensorType(_per_axis(), [64])]) for _ in range(100)
    ]
    lines = _emitted(ModuleOp(ops), MLIRAliasedTarget()).splitlines()
    assert len(texts) == 1
    assert lines[0] == f"!q0 = !quant.uniform{texts[0]}"
    assert lines[2:-1] == [
        f'  %{i} = "test.op"() : () -> tensor<64x!q0>' for i in range(100)
    ]


def test_printers_that_share_aliases_define_what_they_use():
    first, second = StringIO(), StringIO()
    printer = AliasPrinter(first)
    printer.print_op(test.TestOp(result_types=[A, B]))
    other_printer = AliasPrinter(second, aliases=printer.aliases)
    other_printer.print_op(test.TestOp(result_types=[B]))
    assert printer.definitions == f"!q0 = {A}\n!q1 = {B}\n"
    assert other_printer.definitions == f"!q1 = {B}\n"
    assert second.getvalue() == '%0 = "test.op"() : () -> !q1'
