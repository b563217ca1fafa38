"""Passes say that they changed nothing, or left quantized ops, and pipelines are silent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.calibration import Statistics
from xdsl_quant.execution import compile
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import (
    apply_passes,
    multiverse_context,
    parse_module,
    parse_passes,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

F = "tensor<2xf32>"
Q = "!quant.uniform<i8:f32, 5.000000e-01>"
PLAIN = f"""
func.func @main(%x: {F}) -> {F} {{
  %y = stablehlo.add %x, %x : {F}
  func.return %y : {F}
}}
"""

CHECKS = {"verify-quant-constraints"}
"""Passes that never change a module."""

OPTIONS = {
    "quant-fuse-kernels": "{target=tflite-int8}",
    "quant-import-stats": '{file="FILE" missing=keep}',
    "quant-propagate": "{target=tflite-int8}",
}
"""Options of passes that need some; `FILE` is one of statistics without keys."""


def warned(
    text: str, passes: str, capsys: pytest.CaptureFixture[str]
) -> tuple[ModuleOp, str]:
    """The module after passes, and what they print."""
    context = multiverse_context()
    context.allow_unregistered = True
    module = parse_module(text, "model.mlir", context)
    apply_passes(module, passes, context)
    return module, capsys.readouterr().err


def test_every_pass_counts():
    assert {
        name
        for name, factory in XDSL_QUANT_UNIVERSE.all_passes.items()
        if not issubclass(factory(), CountingPass)
    } == CHECKS


def casts(type_: str) -> str:
    """The text of a function that quantizes and dequantizes."""
    return f"""
func.func @main(%x: {F}) -> {F} {{
  %q = quant.qcast %x : {F} to tensor<2x{type_}>
  %y = quant.dcast %q : tensor<2x{type_}> to {F}
  func.return %y : {F}
}}
"""


TEXTS = {
    "nothing": f"func.func @main(%x: {F}) -> {F} {{ func.return %x : {F} }}",
    "float": PLAIN.replace("stablehlo.add", "arith.addf"),
    "call": f"""
func.func private @declared({F}) -> {F}
func.func @main(%x: {F}) -> {F} {{
  %y = func.call @declared(%x) : ({F}) -> {F}
  func.return %y : {F}
}}
""",
    "uniform": casts(Q),
    "fixed-point": casts("!quant.fixed_point<i8:f32, 1073741824p-31>"),
    "calibrated": casts("!quant.calibrated<f32<-1.0:1.0>>"),
    "declared": f"func.func private @f(tensor<2x{Q}>) -> {F}",
    "declared-calibrated": (
        "func.func private @f() -> tensor<2x!quant.calibrated<f32<-1.0:1.0>>>"
    ),
}
"""Modules of which each pass changes only some, or none."""


@pytest.mark.parametrize("name", sorted(XDSL_QUANT_UNIVERSE.all_passes.keys() - CHECKS))
def test_counts_are_those_of_the_module(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A pass counts changes, and is silent, exactly if the module is another one."""
    Statistics().save(file := tmp_path / "empty.json")
    (pass_,) = parse_passes(name + OPTIONS.get(name, "").replace("FILE", str(file)))
    assert isinstance(pass_, CountingPass)
    for key, text in TEXTS.items():
        module = parse_module(text)
        try:
            outcome = pass_.rewrite(multiverse_context(), module)
        except PassFailedException:
            assert key != "nothing"
            continue
        is_changed = str(module) != str(parse_module(text))
        assert (key, bool(outcome.changed)) == (key, is_changed)
        capsys.readouterr()
        apply_passes(parse_module(text), [pass_])
        assert ("warning: " in capsys.readouterr().err) == (not is_changed)


@pytest.mark.parametrize(
    ("name", "expected", "found"),
    [
        (
            "quant-fold-batch-norm",
            "contractions with constant weights followed by one constant per channel",
            "none",
        ),
        (
            "quant-equalize-layers",
            "pairs of contractions with constant weights of different channel ranges",
            "none",
        ),
        (
            "quant-requantize-to-tosa",
            "a 'quant.qcast' of a 'quant.dcast', both of '!quant.fixed_point'",
            "none",
        ),
        (
            "quant-export",
            "a 'quant.region' with a quantized form, which 'quant-fuse-kernels' creates",
            "none",
        ),
        ("quant-convert-const", "a 'quant.qcast' of a constant", "none"),
        ("lower-quant-ops", "quantized casts", "none"),
        ("convert-tfl-to-linalg", "ops of TensorFlow Lite", "none"),
    ],
)
def test_nothing_matches(
    name: str, expected: str, found: str, capsys: pytest.CaptureFixture[str]
):
    module, error = warned(PLAIN, name, capsys)
    assert error == (
        f"warning: '{name}' changed nothing, expected {expected}, found {found}\n"
    )
    assert module.is_structurally_equivalent(parse_module(PLAIN))


def test_candidates_are_counted(capsys: pytest.CaptureFixture[str]):
    text = """
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %w = stablehlo.constant dense<2.0> : tensor<2x2xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}
"""
    _, error = warned(text, "quant-fold-batch-norm", capsys)
    assert error == (
        "model.mlir:4:3: warning: 'quant-fold-batch-norm' changed nothing, expected "
        "contractions with constant weights followed by one constant per channel, found 1 "
        "'stablehlo.dot_general'\n"
    )


LEFT = f"""
func.func @main(%x: {F}) -> ({F}, {F}, {F}) {{
  %q = quant.qcast %x : {F} to tensor<2x{Q}>
  %d = quant.dcast %q : tensor<2x{Q}> to {F}
  %y = quant.region "k" (%a = %x : {F} as {Q}) -> ({F} as {Q}) {{
    %r = stablehlo.tanh %a : {F}
    quant.return %r : {F}
  }}
  %z = quant.const_fake_quant %x <-1.0:1.0> bits 8 signed : {F}
  func.return %d, %y, %z : {F}, {F}, {F}
}}
"""


def test_quantized_ops_are_left(capsys: pytest.CaptureFixture[str]):
    _, error = warned(LEFT, "lower-quant-ops", capsys)
    assert error == (
        "model.mlir:5:3: warning: 'lower-quant-ops' changed 2 of 4 ops, found 1 "
        "'quant.const_fake_quant', 1 'quant.region' left; 'quant-export' lowers kernels, "
        "'quant-convert-simulated-quantization' converts fake quantization to casts\n"
    )


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("ml_program.func", "main"),
        ("foreign.kernel", "main"),
        ("func.func", "main"),
    ],
)
def test_functions_of_any_dialect_get_references(
    op: str, name: str, capsys: pytest.CaptureFixture[str]
):
    text = f"""
"{op}"() ({{
^bb0(%x: {F}):
  %y = "stablehlo.add"(%x, %x) : ({F}, {F}) -> {F}
  "foreign.return"(%y) : ({F}) -> ()
}}) {{sym_name = "{name}", function_type = ({F}) -> {F}}} : () -> ()
"""
    if op == "func.func":
        text = text.replace("foreign.return", "func.return")
    module, error = warned(text, "quant-insert-stats-refs", capsys)
    assert error == ""
    keys = [x.stats_key.data for x in module.walk() if x.name == "quant.stats_ref"]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType] of this op
    assert keys == ["main:argument:0", "main:stablehlo.add:0"]


def test_values_in_other_ops_get_no_references(capsys: pytest.CaptureFixture[str]):
    text = f"""
"foreign.body"() ({{
^bb0(%x: {F}):
  %y = "stablehlo.add"(%x, %x) : ({F}, {F}) -> {F}
}}) : () -> ()
"""
    _, error = warned(text, "quant-insert-stats-refs", capsys)
    assert error == (
        "model.mlir:4:3: warning: 'quant-insert-stats-refs' changed nothing, expected "
        "float tensors without a 'quant.stats_ref' in functions, found 1 'stablehlo.add'\n"
    )


def test_constants_of_tosa_are_quantized(capsys: pytest.CaptureFixture[str]):
    text = f"""
func.func @main() -> tensor<2x{Q}> {{
  %c = "tosa.const"() <{{values = dense<[1.0, -2.0]> : {F}}}> : () -> {F}
  %q = quant.qcast %c : {F} to tensor<2x{Q}>
  func.return %q : tensor<2x{Q}>
}}
"""
    module, error = warned(text, "quant-convert-const", capsys)
    assert error == ""
    expected = f"""
func.func @main() -> tensor<2x{Q}> {{
  %c = "tosa.const"() <{{values = dense<[2, -4]> : tensor<2xi8>}}> : () -> tensor<2xi8>
  %q = quant.scast %c : tensor<2xi8> to tensor<2x{Q}>
  func.return %q : tensor<2x{Q}>
}}
"""
    assert str(module) == str(parse_module(expected))


def test_rewrite_returns_counts_and_is_silent(capsys: pytest.CaptureFixture[str]):
    (pass_,) = parse_passes("lower-quant-ops")
    assert isinstance(pass_, CountingPass)
    outcome = pass_.rewrite(multiverse_context(), parse_module(LEFT))
    assert isinstance(outcome, PassOutcome)
    assert (len(outcome.ops), outcome.changed, len(outcome.left)) == (4, 2, 2)
    apply_passes(parse_module(PLAIN), [pass_], is_routine=True)
    assert capsys.readouterr().err == ""


def test_pipelines_are_silent(capsys: pytest.CaptureFixture[str]):
    text = """
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [0.5, -1.0]]> : tensor<2x2xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}
"""
    batches = [(np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2),)]
    module = quantize(parse_module(text), batches).module
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    compile(module)
    assert capsys.readouterr().err == ""
