"""The command xdsl-quant prove."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_quant.numerics import quantize
from xdsl_quant.tools.prove import main
from xdsl_quant.tools.run import main as run

U4 = "!quant.uniform<u4:f16, 0.5:3>"


def lines(text: str) -> list[str]:
    """The lines without times."""
    return re.sub(r", \d+\.\d s\)", ")", text).splitlines()


def test_passes_need_a_module(capsys: pytest.CaptureFixture[str]):
    assert main([U4, "--after", "canonicalize"]) == 1
    message = f"{U4}: error: --after needs a module, not a type\n"
    assert capsys.readouterr().err == message


def test_a_type(capsys: pytest.CaptureFixture[str]):
    assert main([U4, "--all-inputs"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert lines(captured.out) == [
        "!quant.uniform<u4:f16, 5.000000e-01:3>: lower-quant-ops{"
        "rounding-mode=nearest-even keep-qdq=true},strip-func-quant-types,canonicalize",
        "  proved: qcast(x) is defined for all x (solver)",
        "  proved: qcast(x) is the formula for all x (solver)",
        "  proved: qcast(x) <= qcast(y) for all x <= y (solver)",
        "  proved: dcast(q) is the formula for all q (solver)",
        "  proved: qcast(dcast(q)) = q for all q (solver)",
        "  proved: qcast(x) is the formula for all x, compiled (65,536 inputs)",
        "  proved: qcast(x) is the formula for all x, numerics (65,536 inputs)",
        "  proved: qcast(dcast(q)) = q for all q, compiled (16 inputs)",
    ]


def test_what_is_refuted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.mlir"
    path.write_text(
        "func.func @f(%x: f16) -> !quant.uniform<i2:f16, 1.0> {\n"
        "  %q = quant.qcast %x : f16 to !quant.uniform<i2:f16, 1.0>\n"
        "  return %q : !quant.uniform<i2:f16, 1.0>\n}\n"
    )
    assert main([str(path), "--rounding-mode", "truncate", "--fuse"]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"{path}: error: 1 claim not proved\n"
    found = lines(captured.out)
    assert found[0].endswith(
        "lower-quant-ops{rounding-mode=truncate keep-qdq=true fuse=true},"
        "strip-func-quant-types,canonicalize"
    )
    assert found[1].startswith(
        "  refuted: qcast(x) is defined for all x (solver): x = "
    )
    assert found[2].startswith("echo 'func.func @main(%0: f16)")
    assert [line[:9] for line in found[3:]] == ["  proved:"] * 4


def test_all_scales(capsys: pytest.CaptureFixture[str]):
    arguments = ["!quant.uniform<i2:f16, 1.0>", "--scales", "0.5", "2"]
    assert main([*arguments, "--seconds", "0.0001"]) == 1
    captured = capsys.readouterr()
    assert "  unknown: " in captured.out
    assert main(arguments) == 0


def test_requantization(capsys: pytest.CaptureFixture[str]):
    source = "!quant.fixed_point<i8:f32, 1518500250p-37:-5>"
    target = "!quant.fixed_point<i4:f32, 1173741824p-35>"
    assert main([source, "--to", target, "--scale-rounding", "double"]) == 0
    assert lines(capsys.readouterr().out) == [
        f"{source} to {target}: lower-quant-ops{{rounding-mode=nearest-even keep-qdq=true "
        "scale-rounding=double},strip-func-quant-types,canonicalize",
        "  proved: requantized q is within 1 + |x| / 2**31 of x + z2 for all q (solver)",
    ]
    assert main([source, "--to", "!quant.uniform<i8:f32, 0.5>"]) == 1
    assert capsys.readouterr().err == (
        f"{source}: error: unsupported type '!quant.uniform<i8:f32, 5.000000e-01>'; "
        "expected per-tensor '!quant.fixed_point'\n"
    )


def test_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "model.mlir"
    path.write_text("""
!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: !q) -> !q {
  %a = quant.dcast %x : !q to f32
  %b = quant.qcast %a : f32 to !q
  return %b : !q
}
func.func @g(%x: f32) -> f32 {
  %a = quant.qcast %x : f32 to !q
  %b = quant.dcast %a : !q to f32
  return %b : f32
}
""")
    command = [str(path), "--after", "canonicalize", "--entry"]
    assert main([*command, "f"]) == 0
    assert lines(capsys.readouterr().out) == [
        f"{path}: canonicalize",
        "  proved: results are the same for all inputs (solver)",
    ]
    assert main([*command, "g"]) == 1
    refuted = lines(capsys.readouterr().out)[1]
    assert refuted.startswith(
        "  refuted: results are the same for all inputs (solver): %0 = "
    )
    # Truncation makes no 3 of 3 * 0.3.
    path.write_text(path.read_text().replace("0.5", "0.3"))
    assert main([*command, "f", "--rounding-mode", "truncate"]) == 1


DOCS = Path(__file__).parents[3] / "docs/proving.md"


def test_the_documentation_of_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    page = DOCS.read_text().partition("## Check a pass\n")[2]
    model, session = re.findall(r"^```(?:mlir|text)\n(.*?)^```", page, re.M | re.S)[:2]
    (tmp_path / "model.mlir").write_text(model)
    monkeypatch.chdir(tmp_path)
    for part in session.removeprefix("$ ").split("\n$ "):
        command, *expected = lines(part)
        main(shlex.split(command)[2:])
        assert lines(capsys.readouterr().out) == expected


@pytest.mark.parametrize(
    "arguments", ["", "--passes=strip-func-quant-types", "--entry=main"]
)
def test_the_commands_of_what_passes_change(
    arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "model.mlir"
    path.write_text("""
!q = !quant.uniform<u8:f32, 0.5>
func.func @main(%x: tensor<2x1xf32>, %y: f32, %z: tensor<1x!q>) -> (f32, tensor<1x!q>) {
  %a = quant.qcast %y : f32 to !q
  %b = quant.dcast %a : !q to f32
  return %b, %z : f32, tensor<1x!q>
}
""")
    command = [str(path), "--after", "canonicalize", *arguments.split()]
    assert main(command) == 1
    title, refuted, *commands = capsys.readouterr().out.splitlines()
    assert title == f"{path}: canonicalize"
    found = re.search(r": result 0 = (.*) before, and (.*) after$", refuted)
    assert found is not None
    for line, expected in zip(commands, found.groups(), strict=True):
        program, command_name, *options = shlex.split(line)
        assert (program, command_name) == ("xdsl-quant", "run")
        assert run(options) == 0
        printed = capsys.readouterr().out.splitlines()
        assert printed[0] == "result0: float32"
        assert np.float32(printed[1]) == np.float32(expected)


def test_products(capsys: pytest.CaptureFixture[str]):
    path = str(Path(__file__).parents[3] / "docs/examples/layers_int8.tflite")
    assert main([path]) == 0
    title, *rest = lines(capsys.readouterr().out)
    assert title == f"{path}: products"
    assert rest
    for line in rest:
        assert re.fullmatch(
            r"  proved: sums of '.*' op %\S+ fit 32 bits for all inputs \(exact bounds\): "
            r"sums are from -\d+ to \d+, 0\.\d\d% of 2\*\*31",
            line,
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["!quant.any<i8>"],
            "!quant.any<i8>: error: unsupported type '!quant.any<i8>'; expected "
            "'!quant.uniform'",
        ),
        (["!quant.uniform<i8:f32>"], "!quant.uniform<i8:f32>: error: expected ','"),
        (["missing.mlir"], "missing.mlir: error: no such file or directory"),
        (
            ["quant.uniform<i8:f32, 0.5>"],
            "quant.uniform<i8:f32, 0.5>: error: a type begins with '!': "
            "'!quant.uniform<i8:f32, 0.5>'",
        ),
        (
            [U4, "--rounding-mode", "truncate", "--zero-point-order", "after-rounding"],
            f"{U4}: error: unsupported zero point order 'after-rounding' for rounding mode",
        ),
        *(
            (
                [U4, "--seconds", seconds],
                f"{U4}: error: expected a positive number of --seconds, found {seconds}",
            )
            for seconds in ("0", "-1", "nan", "inf")
        ),
        *(
            (
                [U4, *options.split()],
                f"{U4}: error: option {name} has no effect {where}; remove it",
            )
            for options, name, where in (
                ("--entry main", "--entry", "without --after"),
                ("--passes canonicalize", "--passes", "for a type"),
                ("--shape x=1", "--shape", "for a type"),
                ("--static", "--static", "for a type"),
                ("--scales 1 2 --all-inputs", "--all-inputs", "with --scales"),
                ("--after canonicalize --scales 1 2", "--scales", "with --after"),
                ("--to f32 --after canonicalize", "--after", "with --to"),
                ("--to f32 --rounding-mode truncate", "--rounding-mode", "with --to"),
            )
        ),
        (
            ["model.mlir", "--scale-rounding", "double"],
            "model.mlir: error: option --scale-rounding has no effect without --after",
        ),
    ],
)
def test_mistakes(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[0].startswith(message)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("--all-inputs --rounding-mode truncate --fuse", "--all-inputs"),
        ("--scales 5 1", "--scales"),
        ("--nan stored-zero", "--nan"),
    ],
)
def test_options_without_casts(
    options: str, name: str, capsys: pytest.CaptureFixture[str]
):
    path = str(Path(__file__).parents[3] / "docs/examples/layers_int8.tflite")
    assert main([path, *options.split()]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"{path}: error: option {name} has no effect without casts; remove it\n"
    )


def test_all_inputs_that_are_refuted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def wrong(values: Any, *arguments: Any, **rounding: Any) -> Any:
        return np.where(np.isnan(values), 7, quantize(values, *arguments, **rounding))

    monkeypatch.setattr("xdsl_quant.proving.casts.quantize", wrong)
    assert main([U4, "--all-inputs", "--nan", "stored-zero"]) == 1
    found = lines(capsys.readouterr().out)
    place = next(i for i, line in enumerate(found) if line.startswith("  refuted"))
    assert found[place] == (
        "  refuted: qcast(x) is the formula for all x, numerics (65,536 inputs): "
        "input = nan, found = 7, expected = 0"
    )
    assert found[place + 1].endswith(
        " | xdsl-quant run - --input=nan --rounding-mode nearest-even "
        "--zero-point-order before-rounding --nan stored-zero"
    )


def test_sizes_of_a_file(capsys: pytest.CaptureFixture[str]):
    path = str(Path(__file__).parents[3] / "docs/examples/dense.tflite")
    assert main([path, "--after", "canonicalize"]) == 1
    assert "dynamic size" in capsys.readouterr().err
    assert main([path, "--static", "--after", "canonicalize", "--seconds", "1"]) in (
        0,
        1,
    )
    assert "dynamic size" not in capsys.readouterr().err


WINE = "docs/examples/wine.onnx"
NEAR = ["--samples", "docs/examples/wine_test.npz", "--radius", "0.05"]


def test_certificate_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["docs/examples/wine_int8.onnx", "--against", WINE, "--static", *NEAR]
    path = tmp_path / "certificate.json"
    assert main([*arguments, "--tries", "2", "--json", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "in both models          89         0        0\n" in captured.out
    regions = json.loads(path.read_text())["regions"]
    verdicts = [region["verdicts"]["agreement"] for region in regions]
    assert verdicts.count("certified") == 89


def test_witnesses_are_reproduced_by_their_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = """func.func @other() { return }
    func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
      return %x : tensor<1x2xf32>
    }"""
    (tmp_path / "float.mlir").write_text(text)
    cast = """func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
      %q = "quant.qcast"(%x) : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
      %y = "quant.dcast"(%q) : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
      return %y : tensor<1x2xf32>
    }"""
    (tmp_path / "int8.mlir").write_text(cast)
    np.save(tmp_path / "x.npy", np.array([[1.3, 1.4]], np.float32))
    models = [str(tmp_path / name) for name in ("int8.mlir", "float.mlir")]
    near = ["--samples", str(tmp_path / "x.npy"), "--radius", "0.3"]
    arguments = [models[0], "--against", models[1], *near, "--entry", "main"]
    assert main([*arguments, "-p", "cse"]) == 0
    commands = [
        shlex.split(line)
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("xdsl-quant run")
    ]
    read = [command[2] for command in commands]
    assert read == [models[1], models[0], models[1], models[0]]
    results: list[np.ndarray] = []
    for command in commands:
        assert command[3:-1][-2:] == ["--entry", "main"]
        path = tmp_path / "y.npy"
        assert run([*command[2:], "-o", str(path)]) == 0
        results.append(np.load(path))
    tops = [int(result.argmax()) for result in results]
    assert tops[0] != tops[1]
    # The class of the sample is 1 in the float model; 0, of two equal ones, in the other.
    assert tops[2] == 0
    assert tops[3] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*NEAR], "option --samples has no effect without --against"),
        (["--against", WINE, *NEAR[:2]], "missing option --radius"),
        (["--against", WINE, *NEAR[2:]], "missing option --samples"),
        (["--against", WINE, *NEAR, "0"], "expected --radius R or --radius R LOW HIGH"),
        (
            ["--against", WINE, "--static", *NEAR[:3], "-0.1"],
            "--radius -0.1: error: expected a radius of at least 0, found -0.1",
        ),
        (
            ["--against", WINE, "--static", *NEAR, "3", "1"],
            "--radius 0.05 3 1: error: lower limit 3 exceeds upper limit 1",
        ),
        (
            ["--against", WINE, "--static", *NEAR, "0", "1"],
            "--radius 0.05 0 1: error: a sample is outside of the limits 0 and 1",
        ),
        (["--against", WINE, "--samples", "no.npy", "--radius", "1"], "no such file"),
        (["--against", WINE], "argument of dynamic size; use --static or --shape"),
        (
            ["--against", WINE, *NEAR],
            "argument of dynamic size; use --static or --shape",
        ),
        (["--against", WINE, *NEAR, "--tries", "-1"], "--tries -1: error: expected a"),
        (["--tries", "3"], "option --tries has no effect without --against"),
        (
            ["--against", "docs/examples/layers.tflite", "--static"],
            "arguments of the models differ",
        ),
        (
            ["--against", "docs/examples/wine_int8.onnx", "--static", *NEAR],
            "the float model is quantized by 'quant.qcast'; give the quantized model first",
        ),
        (
            ["--against", WINE, "--after", "canonicalize"],
            "option --after has no effect with --against; remove it",
        ),
        (
            ["--after", "convert-tfl-to-nothing"],
            "unknown pass 'convert-tfl-to-nothing'",
        ),
    ],
)
def test_invalid_certificates(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["docs/examples/wine_int8.onnx", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
