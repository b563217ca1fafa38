"""Files with ops that this package does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph, Tensor
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import StatefulModel, run_function
from xdsl_quant.tools import import_model, run

CUSTOM = Operator("CUSTOM", [0, 1], [2], {}, "Mine", b"a\0\xff")
UNKNOWN = Operator("REVERSE_SEQUENCE", [0, 1], [2], {"seq_dim": 0, "batch_dim": 1})
NAMES = {
    "CUSTOM": "'tfl.custom' op",
    "REVERSE_SEQUENCE": "'tfl.reverse_sequence' op",
}
DETAILS = {
    "CUSTOM": ": unsupported custom operator 'Mine'; split the model before it",
    "REVERSE_SEQUENCE": "",
}
OPERATORS = pytest.mark.parametrize(
    "operator", [CUSTOM, UNKNOWN], ids=["custom", "unknown"]
)


def content_of(operator: Operator) -> bytes:
    """A file with the op, whose result has a name that no value in a text can have."""
    sizes = np.array([1, 2, 2], np.int32).view(np.uint8)
    tensors = [
        Tensor("x", "FLOAT32", (2, 3), None, None, None),
        Tensor("sizes", "INT32", (3,), None, sizes, None),
        Tensor("block/turned:0", "FLOAT32", (2, 3), None, None, None),
        Tensor("y", "FLOAT32", (2, 3), None, None, None),
    ]
    operators = [operator, Operator("RELU", [2], [3], {})]
    return write_model(Model([Subgraph("main", tensors, [0], [3], operators)]))


@OPERATORS
def test_they_are_written_as_they_were_read(operator: Operator):
    content = content_of(operator)
    assert write_tflite(read_tflite(content)) == content


@OPERATORS
def test_the_real_importer_has_the_same_text(
    operator: Operator, litert_converter: Mlir
):
    content = content_of(operator)
    expected = litert_converter.imported(content)
    assert isinstance(expected, Accepted)
    assert litert_converter.run(str(read_tflite(content))) == expected


X = np.ones((2, 3), np.float32)


def interpret(path: Path) -> Any:
    return run_function(path, None, X)


def interpret_step(path: Path) -> Any:
    return StatefulModel(path).step(X)


@OPERATORS
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (compile, "has no conversion to linalg"),
        (interpret_step, "cannot be run"),
        (interpret, "cannot be run"),
    ],
    ids=["compile", "stateful", "interpreter"],
)
def test_errors_in_python(
    operator: Operator, function: Callable[[Path], Any], words: str, tmp_path: Path
):
    path = tmp_path / "m.tflite"
    path.write_bytes(content_of(operator))
    details = DETAILS[operator.code]
    if not details and words == "cannot be run":
        details = ": unsupported operator"
    with pytest.raises((CompilationError, InterpretationError)) as info:
        function(path)
    assert str(info.value).splitlines()[0] == (
        f'loc("block/turned:0"): error: {NAMES[operator.code]} {words}{details}'
    )


@OPERATORS
@pytest.mark.parametrize(
    ("main", "arguments", "words"),
    [
        (run.main, ["--input", "[[1, 2, 3], [4, 5, 6]]"], "cannot be run"),
        (
            import_model.main,
            ["-p", "convert-tfl-to-linalg"],
            "has no conversion to linalg",
        ),
        (import_model.main, ["-p", "convert-tfl-to-tosa"], "has no conversion to TOSA"),
    ],
    ids=["run", "linalg", "tosa"],
)
def test_errors_of_commands(
    operator: Operator,
    main: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    path = tmp_path / "m.tflite"
    path.write_bytes(content_of(operator))
    details = DETAILS[operator.code]
    if words == "cannot be run":
        details = details or ": unsupported operator"
        note = ""
    else:
        note = f" (in the pass {arguments[1]})"
    assert main([str(path), *arguments]) == 1
    assert capsys.readouterr().err == (
        f'{path}: loc("block/turned:0"): error: {NAMES[operator.code]} {words}{details}'
        f"{note}\n"
    )


@OPERATORS
def test_other_passes_keep_them(operator: Operator, tmp_path: Path):
    path, written = tmp_path / "m.tflite", tmp_path / "n.tflite"
    path.write_bytes(content_of(operator))
    assert import_model.main([str(path), "-p", "canonicalize", "-o", str(written)]) == 0
    assert written.read_bytes() == path.read_bytes()
