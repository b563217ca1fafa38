"""The command xdsl-quant rosetta."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xdsl_quant.tools.rosetta import main

U4 = "!quant.uniform<u4:f16, 0.5:3>"
SOME = "--runtimes=onnx-definition"


def test_a_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "table.json"
    assert main([U4, SOME, "--json", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines() == [
        "quantize !quant.uniform<u4:f16, 5.000000e-01:3>: 65,536 inputs, compared with "
        "compiled",
        "  runtime          differ  input   result  compiled  NaN        same as compiled "
        "with",
        "  compiled         0       -       -       -         0          -",
        "  onnx-definition  30      0.2495  3       4         undefined  "
        "zero-point-order=after-rounding",
        "dequantize !quant.uniform<u4:f16, 5.000000e-01:3>: 16 inputs, compared with "
        "compiled",
        "  runtime          differ  input  result  compiled  same as compiled with",
        "  compiled         0       -      -       -         -",
        "  onnx-definition  0       -      -       -         default",
    ]
    quantized, dequantized = json.loads(path.read_text())
    assert quantized["title"] == "quantize !quant.uniform<u4:f16, 5.000000e-01:3>"
    assert quantized["rows"][1] == {
        "runtime": "onnx-definition",
        "version": "",
        "differences": 30,
        "first": {"input": "0.2495", "result": "3", "expected": "4"},
        "nan": "undefined",
        "match": {
            "options": {"zero-point-order": "after-rounding"},
            "differences": 0,
            "first": None,
            "is_same_for_nan": True,
        },
    }
    assert (dequantized["inputs"], dequantized["left_out"]) == (16, {})


def test_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.mlir"
    path.write_text(
        "func.func @f(%x: f16) -> !quant.uniform<i2:f16, 1.0> {\n"
        "  %q = quant.qcast %x : f16 to !quant.uniform<i2:f16, 1.0>\n"
        "  return %q : !quant.uniform<i2:f16, 1.0>\n}\n"
    )
    arguments = [str(path), SOME, "--against", "onnx-definition", "--all-inputs"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "quantize !quant.uniform<i2:f16, 1.000000e+00>: 65,536 inputs, compared with "
        "onnx-definition"
    )
    assert lines[2].split() == [
        "onnx-definition",
        "0",
        "-",
        "-",
        "-",
        "undefined",
        "default",
    ]


MODEL = Path(__file__).parents[3] / "docs" / "examples" / "tfl_elementwise.mlir"


def test_ops(capsys: pytest.CaptureFixture[str]):
    arguments = [str(MODEL), "--ops", "mul,add", "--runtimes", "compiled fallback=only"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tfl.mul 'product': 65,536 inputs, compared with compiled",
        "  runtime                 differ  input      result  compiled",
        "  compiled                0       -          -       -",
        "  compiled fallback=only  736     -128, -49  114     115",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["!quant.any<i8>"],
            "!quant.any<i8>: error: '!quant.any<i8>' is not a '!quant.uniform' type",
        ),
        (["!quant.uniform<i8:f32>"], "!quant.uniform<i8:f32>: error: expected ','"),
        (["missing.mlir"], "missing.mlir: error: no such file or directory"),
        (
            [U4, "--runtimes", "onnx"],
            f"{U4}: error: unknown runtime 'onnx'; available: 'compiled', ",
        ),
        (
            [str(MODEL), "--ops", "add"],
            f"{MODEL}: error: the model has no ops 'add' with static shapes that compute "
            "with stored values",
        ),
        (
            [str(MODEL), "--all-inputs"],
            f"{MODEL}: error: --all-inputs applies to types of casts, not to tfl ops",
        ),
        (
            [U4, "--ops", "add"],
            f"{U4}: error: --ops applies to tfl ops, but the input has none",
        ),
        (
            [str(MODEL), "--runtimes", "torch"],
            f"{MODEL}: error: unknown runtime 'torch'; available: 'compiled', ",
        ),
        (
            ["!quant.uniform<i8:f8E5M2, 0.5>", SOME],
            "!quant.uniform<i8:f8E5M2, 0.5>: error: unsupported expressed type 'f8E5M2'; "
            "use f16, bf16, f32 or f64",
        ),
        (
            ["!quant.uniform<i32:f16, 0.5>", "--against", "onnx-definition"],
            "!quant.uniform<i32:f16, 0.5>: error: cannot compare with 'onnx-definition': "
            "unsupported storage type 'i32'",
        ),
    ],
)
def test_mistakes(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(message)
