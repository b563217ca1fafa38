"""Malformed text gives one located diagnostic, never an error from inside the package."""

import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from tests.conformance.answers import Accepted
from tests.conformance.this_package import answer_type
from tests.conformance.type_texts import type_text

_FLAGS = ("--parsing-diagnostics", "--verify-diagnostics")
_LOCATION = re.compile(r"^.*input\.mlir:(\d+):(\d+)$", re.MULTILINE)


def _declaration(type_text: str) -> str:
    return f"func.func private @f({type_text})\n"


def _uniform(parameters: str) -> str:
    return _declaration(f"!quant.uniform<{parameters}>")


BAD_INPUTS = {
    # Widths and numbers
    "width 0": (_uniform("i0:f32, 1.0"), "illegal storage type size: 0"),
    "width 33": (_uniform("i33:f32, 1.0"), "illegal storage type size: 33"),
    "huge width": (_uniform("i999999999999:f32, 1.0"), "invalid integer width"),
    "huge unsigned width": (_uniform("u99999999999:f32, 1.0"), "storage type width"),
    "endless width": (_uniform(f"i{'9' * 9999}:f32, 1.0"), "invalid integer width"),
    "huge minimum": (_uniform(f"i8<-{'9' * 30}:7>:f32, 1.0"), "value too large"),
    "endless maximum": (_uniform(f"i8<0:{'9' * 9999}>:f32, 1.0"), "value too large"),
    "huge zero point": (_uniform(f"i8:f32, 1.0:{1 << 63}"), "value too large"),
    "endless zero point": (_uniform(f"i8:f32, 1.0:0x{'F' * 9999}"), "value too large"),
    "huge axis": (_uniform(f"i8:f32:{1 << 31}, {{1.0}}"), "value too large"),
    "huge block": (_uniform(f"i8:f32:{{0:{1 << 64}}}, {{1.0}}"), "value too large"),
    "negative axis": (_uniform("i8:f32:-1, {1.0}"), "illegal quantized dimension: -1"),
    "block of nothing": (_uniform("i8:f32:{0:0}, {1.0}"), "illegal block size: 0"),
    "range upside down": (_uniform("i8<7:-8>:f32, 1.0"), "min and storage max: (7:-8)"),
    "scale of 0": (_uniform("i8:f32, 0.0"), "out of expressed type range"),
    "huge scale": (_uniform("i8:f64, 1.0e999999999"), "scale INF out of expressed"),
    "endless scale": (
        _uniform(f"i8:f64, {'9' * 9999}.0"),
        "scale INF out of expressed",
    ),
    "NaN scale": (
        _uniform("i8:f32, 0x7FF8000000000000"),
        "out of expressed type range",
    ),
    "wide bits": (_uniform(f"i8:f32, 0x{'F' * 17}"), "constant out of range for type"),
    "integer scale": (_uniform("i8:f32, 1"), "unexpected decimal integer literal"),
    "digits of another script": (_uniform("i8:f32, 1.0:\u0663"), "expected integer"),
    "no digits at all": (_uniform("i8:f32, \u00b2"), "expected floating point literal"),
    # Brackets
    "deep nesting": (
        _uniform(f"i8:f32:{{}}, {'{' * 100_000}1.0{'}' * 100_000}"),
        "scales must not be nested deeper than",
    ),
    "deep nesting without end": (
        _uniform(f"i8:f32:{{}}, {'{' * 100_000}"),
        "unbalanced '{' character in pretty dialect name",
    ),
    "ragged": (
        _uniform("i8:f32:{}, {{1.0}, {1.0, 2.0}}"),
        "ranks are not consistent between elements",
    ),
    "two zero points": (_uniform("i8:f32:0, {1.0:2:3.0,4,5.0:6}"), "expected '}'"),
    "empty list": (_uniform("i8:f32:0, {}"), "expected floating point literal"),
    "missing brace": (_uniform("i8:f32:0, {1.0"), "unbalanced '{'"),
    "brace too many": (_uniform("i8:f32:0, {1.0}}"), "unbalanced '<'"),
    "wrong bracket": (_uniform("i8:f32:0, [1.0]"), "expected '{'"),
    "missing bracket": (_declaration("!quant.any<i8"), "unbalanced '<'"),
    # Ends of the text
    "no parameters": ("func.func private @f(!quant.uniform", "expected '<'"),
    "end after bracket": ("func.func private @f(!quant.uniform<", "unbalanced '<'"),
    "end after a space": ("func.func private @f(!quant.any <i8:", "non-function type"),
    "end after minus": (
        "func.func private @f(!quant.any <i8<-",
        "expected integer value",
    ),
    # Types
    "float storage": (_uniform("f32:f32, 1.0"), "illegal storage type prefix"),
    "index storage": (
        _uniform("index:f32, 1.0"),
        "illegal storage type prefix",
    ),
    "integer expressed": (_uniform("i8:i8, 1.0"), "invalid kind of type specified"),
    "no type": (_uniform("i8:foo, 1.0"), "expected non-function type"),
    "alias of nothing": (_uniform("i8:!foo, 1.0"), "undefined symbol alias id 'foo'"),
    "alias of another type": (
        f"!foo = tensor<2xi8>\n{_uniform('i8:!foo, 1.0')}",
        "invalid kind of type specified",
    ),
    "unknown body": (_declaration("!quant.foo<i8>"), "'quant.foo' is not registered"),
    "calibrated upside down": (
        _declaration("!quant.calibrated<f32<1.0:-1.0>>"),
        "illegal min and max",
    ),
    "calibrated without a range": (
        _declaration("!quant.calibrated<f32>"),
        "expected '<'",
    ),
    "none without a type": (_declaration("!quant.none"), "expected '<'"),
    "none of nothing": (_declaration("!quant.none<>"), "expected non-function type"),
    "none of integers": (_declaration("!quant.none<i8>"), "invalid kind of type"),
    "none with a range": (_declaration("!quant.none<f32<0.0:1.0>>"), "expected '>'"),
    "none without end": (_declaration("!quant.none<f32"), "unbalanced '<'"),
    "in a tensor": (_declaration("tensor<4x!quant.any<i0>>"), "storage type size: 0"),
    "in an attribute": ("module attributes {t = !quant.any<i0>} {}", "type size: 0"),
}

_parametrized = pytest.mark.parametrize(
    ("text", "message"), BAD_INPUTS.values(), ids=BAD_INPUTS
)


def _input_file(directory: Path, text: str) -> str:
    path = directory / "input.mlir"
    path.write_text(text)
    return str(path)


@_parametrized
def test_one_located_diagnostic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
):
    xDSLOptMain(args=[_input_file(tmp_path, text), *_FLAGS]).run()
    output = capsys.readouterr().out
    assert message in output
    (place,) = _LOCATION.findall(output)
    line, column = map(int, place)
    assert 1 <= line <= text.count("\n") + 1
    assert 1 <= column <= len(text.splitlines()[line - 1]) + 1


@_parametrized
def test_parse_error_without_flags(tmp_path: Path, text: str, message: str):
    with pytest.raises(ParseError) as error:
        xDSLOptMain(args=[_input_file(tmp_path, text)]).run()
    assert message in error.value.msg


_BAD_OPS = {
    "no quantized type": "quant.dcast %x : f32 to f32",
    "per-axis scalar": "quant.qcast %x : f32 to !quant.uniform<i8:f32:0, {1.0}>",
    "other expressed type": "quant.qcast %x : f32 to !quant.uniform<i8:f64, 1.0>",
    "two integers": "quant.scast %x : f32 to i8",
}


@pytest.mark.parametrize("cast", _BAD_OPS.values(), ids=_BAD_OPS)
def test_one_diagnostic_for_an_op(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cast: str
):
    text = f"func.func @f(%x: f32) {{\n  %y = {cast}\n  return\n}}\n"
    path = _input_file(tmp_path, text)
    xDSLOptMain(args=[path, *_FLAGS]).run()
    output = capsys.readouterr().out
    with pytest.raises(DiagnosticException) as error:
        xDSLOptMain(args=[path]).run()
    # The message, and the module with the same message at the op.
    assert output.startswith(f"{error.value}\n")
    assert output.count('"quant.') == 1


def test_generated(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rng = Random(0)
    texts = [type_text(rng) for _ in range(300)]
    bad = [text for text in texts if not isinstance(answer_type(text), Accepted)]
    path = _input_file(tmp_path, "// -----\n".join(map(_declaration, bad)))
    xDSLOptMain(args=[path, *_FLAGS, "--split-input-file"]).run()
    assert len(_LOCATION.findall(capsys.readouterr().out)) == len(bad)


@pytest.mark.parametrize(
    "name", ["endless zero point", "deep nesting", "end after bracket"]
)
def test_exit_codes(tmp_path: Path, name: str):
    text, message = BAD_INPUTS[name]
    command = [
        *(sys.executable, "-m", "xdsl.tools.xdsl_opt"),
        _input_file(tmp_path, text),
    ]
    # Stock xDSL takes a diagnostic that was asked for as success.
    asked = subprocess.run([*command, *_FLAGS], capture_output=True, text=True)
    assert asked.returncode == 0
    assert message in asked.stdout
    assert not asked.stderr
    unasked = subprocess.run(command, capture_output=True, text=True)
    assert unasked.returncode == 1
    assert message in unasked.stderr
