"""Whatever takes a model takes a path, a name, text, bytes or a module."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.calibration import calibrate
from xdsl_quant.display import calibration_report
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.inspecting.comparison import compare
from xdsl_quant.inspecting.inspection import inspect
from xdsl_quant.machines.numpy import StatefulModel, run_function
from xdsl_quant.proving import provers
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import IRError, Model, as_module, parse_module
from xdsl_quant.runtime.stateful_function import StatefulFunction

TEXT = """func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0], [0.5, 0.5, 1.5, -0.5],
    [-1.0, 0.0, 1.0, 0.0], [0.25, 2.0, -3.0, 1.0]]> : tensor<4x4xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %z = "quant.stats_ref"(%y) {statsKey = "y"} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %z : tensor<1x4xf32>
}
"""
X = np.array([[1.0, -2.0, 3.0, 0.5]], np.float32)
Y = np.array([[-2.875, 2.0, 1.5, 5.5]], np.float32)

CASTS = """!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<2xf32>) -> tensor<2x!q> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!q>
  return %0 : tensor<2x!q>
}
"""

TFLITE = Path(__file__).parents[3] / "docs/examples/dense.tflite"
LAYERS = TFLITE.with_name("layers.tflite")


class _OwnPath:
    """A path that is no `pathlib.Path`."""

    def __init__(self, path: Path):
        self._path = str(path)

    def __fspath__(self) -> str:
        return self._path


KINDS: tuple[Callable[[Path], Model], ...] = (
    lambda path: path,
    str,
    _OwnPath,
    lambda path: path.read_bytes(),
    lambda path: as_module(path),
)


FUNCTIONS: dict[str, Callable[[Model], object]] = {
    "compile": lambda model: compile(model)(X).tolist(),
    "run_function": lambda model: run_function(model, None, X)[0].tolist(),
    "StatefulModel": lambda model: StatefulModel(model).step(X)[0].tolist(),
    "StatefulFunction": lambda model: (
        StatefulFunction(model, compile).step(X)[0].tolist()
    ),
    "calibrate": lambda model: str(calibrate(model, [X]).ranges("y")),
    "calibration_report": lambda model: repr(
        calibration_report(calibrate(TEXT, [X]), model)
    ),
    "quantize": lambda model: str(quantize(model, [X]).module),
    "compare": lambda model: compare(model, model, [X]).json(),
    "inspect": lambda model: inspect(model).json(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kinds_of_models(name: str, tmp_path: Path):
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    call = FUNCTIONS[name]
    expected = call(TEXT)
    if name in ("compile", "run_function"):
        np.testing.assert_array_equal(np.array(expected), Y)
    for kind in KINDS:
        assert call(kind(path)) == expected


def test_provers(tmp_path: Path):
    path = tmp_path / "casts.mlir"
    path.write_text(CASTS)
    type_ = "!quant.uniform<i8:f32, 5.000000e-01>"
    for model in (CASTS, *(kind(path) for kind in KINDS)):
        assert [str(prover.cast.type) for prover in provers(model)] == [type_]
    # A type is no model.
    assert {str(prover.cast.type) for prover in provers(f" {type_}")} == {type_}


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_tensorflow_lite(kind: Callable[[Path], Model]):
    given = kind(TFLITE)
    assert str(as_module(given)) == str(read_tflite(TFLITE))
    if not isinstance(given, ModuleOp):
        static = read_tflite(TFLITE, static=True)
        assert str(as_module(given, static=True)) == str(static)
        assert "1x4x" in repr(compile(given))


def test_a_module_is_returned_unchanged():
    module = parse_module(TEXT)
    assert as_module(module) is module


@pytest.mark.parametrize(
    "text",
    [
        f"{TEXT}// of x.tflite",
        "builtin.module {\n}\n// of x.mlir",
        "builtin.module {} // of x.mlir.gz",
        "builtin.module {}\r// of x.mlir",
    ],
)
def test_text(text: str):
    assert str(as_module(text.encode())) == str(as_module(text))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("no.mlir", "no.mlir: error: no such file or directory"),
        ("NO.MLIR", "NO.MLIR: error: no such file or directory"),
        ("a b.tflite", "a b.tflite: error: no such file or directory"),
        (
            Path("x.txt"),
            "x.txt: error: unknown kind of file, expected .mlir, .onnx or .tflite",
        ),
        (Path("x"), "x: error: unknown kind of file, expected .mlir, .onnx or .tflite"),
        (
            "x.txt",
            "x.txt: error: expected MLIR text or the name of a .mlir, .onnx or .tflite "
            "file",
        ),
        (
            "x",
            "x: error: expected MLIR text or the name of a .mlir, .onnx or .tflite file",
        ),
        ("", "module: error: the text contains no op"),
        (b"", "module: error: the text contains no op"),
        ("a()", "module:1:2: error: Operation a is not registered"),
        (b"a()", "module:1:2: error: Operation a is not registered"),
        (
            b"ML\xefR\1",
            "module: error: expected the text of a module, but got MLIR bytecode; convert "
            "it to text with mlir-opt",
        ),
        (
            b"\xff\xfe",
            "module: error: expected the text of a module, but got a binary file; use "
            "UTF-8 text, like that of a .mlir file",
        ),
        (
            b"\x1c\0\0\0TFL3",
            "<bytes>: error: the file is damaged: an offset is beyond the end of the file",
        ),
    ],
)
def test_mistakes(model: Model, message: str):
    with pytest.raises(IRError) as error:
        as_module(model)
    assert str(error.value) == message


def test_files_of_other_content(tmp_path: Path):
    path = tmp_path / "a.mlir"
    path.write_bytes(TFLITE.read_bytes())
    with pytest.raises(IRError) as error:
        as_module(path)
    assert str(error.value) == (
        f"{path}: error: expected the text of a module, but got a .tflite file; pass a "
        "file with the suffix '.tflite'"
    )
    path.write_text("func.func @f() {\n  nothing\n}")
    for model in (path, str(path)):
        with pytest.raises(IRError, match=rf"^{path}:3:1: error: Operation nothing"):
            as_module(model)
        with pytest.raises(CompilationError, match=rf"^{path}:3:1: error: Operation"):
            compile(model)


@pytest.mark.parametrize("model", [None, 3, ["a.mlir"]])
def test_other_types(model: Any):
    with pytest.raises(TypeError) as error:
        as_module(model)
    assert str(error.value) == (
        "model must be a module, MLIR text, bytes or the path of a file, not "
        f"{type(model).__name__}"
    )


def test_a_file_that_changes_is_compiled_again(tmp_path: Path):
    path = tmp_path / "a.mlir"
    path.write_text(TEXT)
    first = compile(path)
    assert compile(os.fspath(path)) is first
    path.write_text(TEXT.replace("[1.0, 2.0", "[2.0, 2.0"))
    assert compile(path) is not first
    assert compile(path)(X).tolist() == [[-1.875, 2.0, 1.5, 5.5]]


def test_stablehlo_that_is_rounded_in_another_way_is_not_lowered():
    """The lowering rounds half to even, as StableHLO does."""
    text = """!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!q>
  %y = stablehlo.add %q, %q : tensor<2x!q>
  %z = stablehlo.uniform_dequantize %y : (tensor<2x!q>) -> tensor<2xf32>
  return %z : tensor<2xf32>
}"""
    x = np.array([1.0, -0.75], np.float32)
    for call in (lambda: compile(text)(x), lambda: run_function(text, None, x)[0]):
        assert call().tolist() == [2.0, -2.0]
    advice = (
        r"^module:3:3: error: 'stablehlo.uniform_quantize' op cannot be run; run "
        r"'convert-quantized-stablehlo-to-linalg' first$"
    )
    with pytest.raises(Exception, match=advice):
        compile(text, rounding_mode="nearest-away")
    with pytest.raises(Exception, match=advice):
        run_function(text, None, x, rounding_mode="nearest-away")
    floats = text.replace("!q = ", "!unused = ").replace("2x!q>", "2xf32>")
    floats = "\n".join(x for x in floats.split("\n") if "uniform_" not in x)
    floats = floats.replace("%q, %q", "%x, %x").replace("return %z", "return %y")
    assert compile(floats, rounding_mode="nearest-away")(x).tolist() == [2.0, -1.5]


def test_the_given_module_is_not_lowered():
    module = parse_module(TEXT)
    before = str(module)
    run_function(module, None, X)
    compile(module)
    assert str(module) == before
