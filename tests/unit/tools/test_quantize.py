"""The command xdsl-quant quantize."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.quantizer.models import dense_layers, mixed_model, samples
from tests.unit.quantizer.test_weight_only import FULLY_CONNECTED
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.quantizer import ModelReport, QuantizedModel, quantize, read_recipe
from xdsl_quant.runtime.loading import as_module, parse_module
from xdsl_quant.tools.quantize import main


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.mlir"
    path.write_text(dense_layers())
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "x.npz"
    np.savez(path, x=samples(16, 6))
    return str(path)


def test_a_model_and_what_it_costs(
    model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output, report = tmp_path / "quantized.mlir", tmp_path / "report.json"
    arguments = [model, "--data", data, "-o", str(output), "--report", str(report)]
    assert main(arguments) == 0
    expected = quantize(model, data)
    assert output.read_text() == f"{expected.module!s}\n"
    parse_module(output.read_text())
    printed = capsys.readouterr().out
    assert printed == f"{expected.report(data)}\n"
    assert json.loads(report.read_text())["kernels"][0]["stored_bytes"] == 48


def test_standard_streams(
    model: str,
    data: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """The files are all that standard output contains."""
    expected = quantize(model, data)
    with Path(data).open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main([model, "--data", "-", "-o", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{expected.module!s}\n"
    assert printed.err == f"{expected.report(data)}\n"
    arguments = [model, "--data", data, "-o", "/dev/null", "--json", "-"]
    assert main(arguments) == 0
    assert capsys.readouterr() == (expected.report(data).json(), "")


@pytest.mark.filterwarnings("default")
def test_constant_samples(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "zeros.npy"
    np.save(path, np.zeros((16, 6), np.float32))
    assert main([model, "--data", str(path), "-o", "/dev/null"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {path}: constant samples: every value is 0.0; ")


def test_a_budget_for_bits(
    model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output = tmp_path / "quantized.mlir"
    arguments = [model, "--data", data, "-o", str(output), "--recipe", "mixed"]
    assert main([*arguments, "--budget", "50 B"]) == 0
    expected = mixed_model(model, data, budget="50 B")
    assert capsys.readouterr().out == f"{expected.search}\n\n{expected.report(data)}\n"
    assert main([*arguments, "--budget", "50"]) == 1
    assert capsys.readouterr().err == (
        "--budget: error: expected a budget, found '50'; write bytes such as '20 kB', a "
        "loss of SQNR such as '1 dB', or a loss of accuracy in points such as '0.5 %'\n"
    )


@pytest.mark.sampled(0)
# Accuracy may be lost here, and so is SQNR.
@pytest.mark.filterwarnings("ignore:low SQNR of result")
def test_a_budget_of_accuracy(
    model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output, labels = tmp_path / "quantized.mlir", tmp_path / "labels.npy"
    classes = np.arange(16) % 3
    np.save(labels, classes)
    arguments = [model, "--data", data, "-o", str(output), "--recipe", "mixed"]
    arguments += ["--budget", "100 %"]
    expected = mixed_model(model, data, budget="100 %", labels=classes)
    for option in ("--labels", "--data-labels"):
        assert main([*arguments, option, str(labels)]) == 0
        assert capsys.readouterr().out.startswith(f"{expected.search}\n\n")
    # With other samples to test with, labels are theirs.
    options = ["--labels", str(labels), "--test-data", data]
    assert main([*arguments, *options]) == 1
    assert capsys.readouterr().err == (
        f"{model}: error: missing labels of the calibration samples for a budget of 100 "
        "points of accuracy lost; pass labels (--data-labels), or use a budget of SQNR "
        "such as '6 dB'\n"
    )


def test_a_recipe_a_target_and_samples_to_test_with(
    model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    recipe, other = tmp_path / "mine.toml", tmp_path / "y.npy"
    recipe.write_text('[[overrides]]\nops = ["stablehlo.tanh"]\nkeep-float = true\n')
    np.save(other, samples(4, 6, seed=1))
    output = tmp_path / "quantized.mlir"
    arguments = [model, "--data", data, "-o", str(output), "--recipe", str(recipe)]
    arguments += ["--target", "stablehlo-int8", "--test-data", str(other)]
    assert main(arguments) == 0
    module = parse_module(output.read_text())
    tanh = next(op for op in module.walk() if op.name == "stablehlo.tanh")
    assert str(tanh.results[0].type) == "tensor<4x8xf32>"
    report = quantize(model, data, read_recipe(recipe)).report(other)
    assert capsys.readouterr().out == f"{report}\n"


def test_a_file_of_tensorflow_lite(tmp_path: Path, data: str):
    source = tmp_path / "tanh.mlir"
    source.write_text(
        "func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {\n"
        '  %y = "tfl.tanh"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>\n'
        "  return %y : tensor<4x6xf32>\n}\n"
    )
    output = tmp_path / "quantized.tflite"
    assert main([str(source), "--data", data, "-o", str(output)]) == 0
    names = [op.name for op in read_tflite(output).walk()]
    assert names[2:5] == ["tfl.quantize", "tfl.tanh", "tfl.dequantize"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--recipe", "int9"],
            "--recipe: error: unknown recipe 'int9', available: 'dynamic-range', "
            "'int16x8', 'int2-blocks-128', 'int2-blocks-256', 'int2-blocks-32', "
            "'int2-blocks-64', 'int4-blocks-128', 'int4-blocks-256', 'int4-blocks-32', "
            "'int4-blocks-64', 'int4-weights', 'int8', 'int8-weights', 'mixed'; use one "
            "of them, or the path of a .toml file",
        ),
        (
            ["--target", "gpu"],
            "--target: error: unknown target 'gpu', available: 'mac-array', "
            "'onnxruntime-u8s8', "
            "'stablehlo-int16x8', 'stablehlo-int8', 'stablehlo-mixed', 'tflite-int16x8', "
            "'tflite-int8', 'tflite-mixed'; use one of them, or the path of a .toml file",
        ),
        (
            ["-o", "model.tflit"],
            "-o model.tflit: error: expected a .mlir, .onnx or .tflite file",
        ),
        (
            ["--recipe", "int8-weights", "--checkpoint", "{other}"],
            "--checkpoint {other}: error: unsupported checkpoint in mode 'weight-only' "
            "of recipe 'int8-weights'; leave it out",
        ),
        (
            ["--report", "{data}"],
            "--report {data}: error: output would overwrite --data {data}; use another "
            "file",
        ),
        (
            ["--test-data", "{other}", "--report", "{other}"],
            "--report {other}: error: output would overwrite --test-data {other}; use "
            "another file",
        ),
        (
            ["--recipe", "{other}", "--checkpoint", "{other}"],
            "--checkpoint {other}: error: output would overwrite --recipe {other}; use "
            "another file",
        ),
        (
            ["--target", "{other}", "--checkpoint", "{other}"],
            "--checkpoint {other}: error: output would overwrite --target {other}; use "
            "another file",
        ),
        (["--report", "{directory}"], "{directory}: error: is a directory"),
        (
            ["--report", "report.pdf"],
            "--report report.pdf: error: unknown kind of report; use .html, .htm or .json",
        ),
        (
            ["--data", "{other}"],
            "--data {other}: error: expected one file with samples, found 2; a .npz file "
            "has an array for each argument",
        ),
        (
            ["--test-data", "missing.npz"],
            "missing.npz: error: no such file or directory",
        ),
    ],
)
def test_mistakes(
    options: list[str],
    message: str,
    model: str,
    data: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    output = tmp_path / "quantized.mlir"
    other = tmp_path / "other.toml"
    other.touch()
    names = {"model": model, "data": data, "other": other, "directory": tmp_path}
    arguments = [option.format(**names) for option in options]
    assert main([model, "--data", data, "-o", str(output), *arguments]) == 1
    assert capsys.readouterr().err == message.format(**names) + "\n"
    assert not output.exists()


def test_a_page_and_times(
    model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output, page = tmp_path / "quantized.mlir", tmp_path / "report.html"
    arguments = [model, "--data", data, "-o", str(output), "--report", str(page)]
    assert main(arguments) == 0
    report = quantize(model, data).report(data)
    assert page.read_text() == report.page(f"Quantized {model}")
    assert capsys.readouterr().out == f"{report}\n"
    assert main([*arguments, "--times"]) == 0
    assert "\ntime of a call with 4 samples: " in capsys.readouterr().out
    assert "a call with 4 samples" in page.read_text()


@pytest.mark.parametrize("package", ["Jinja2", "matplotlib"])
def test_a_page_without_the_packages_that_draw_it(
    package: str,
    model: str,
    data: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, package.lower(), None)
    output = tmp_path / "quantized.mlir"
    arguments = [model, "--data", data, "-o", str(output), "--report"]
    assert main([*arguments, "report.html"]) == 1
    assert capsys.readouterr().err == (
        f"--report report.html: error: a page needs {package}, which is not installed; "
        "run pip install '.[notebook]' in a checkout of xdsl-quant\n"
    )
    assert not output.exists()
    # Text and JSON need neither.
    assert main([*arguments, str(tmp_path / "report.json")]) == 0
    assert output.exists()


def test_names_of_files_in_capitals(data: str, tmp_path: Path):
    source, output, page = (
        tmp_path / name for name in ("T.MLIR", "Q.TFLITE", "R.HTML")
    )
    source.write_text(FULLY_CONNECTED)
    recipe = tmp_path / "MINE.TOML"
    recipe.write_text('mode = "weight-only"\n')
    np.save(tmp_path / "x.npy", samples(4, 8))
    arguments = [str(source), "--data", str(tmp_path / "x.npy"), "-o", str(output)]
    assert main([*arguments, "--recipe", str(recipe), "--report", str(page)]) == 0
    assert output.read_bytes()[4:8] == b"TFL3"
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_labels(
    model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    labels, output = tmp_path / "labels.npy", tmp_path / "q.mlir"
    np.save(labels, np.arange(16) % 3)
    arguments = [model, "--data", data, "-o", str(output), "--labels", str(labels)]
    assert main(arguments) == 0
    report = quantize(model, data).report(data, np.arange(16) % 3)
    assert report.accuracy is not None
    assert capsys.readouterr().out == f"{report}\n"
    output.unlink()
    np.save(labels, np.arange(15) % 3)
    assert main(arguments) == 1
    assert capsys.readouterr().err == (
        f"{labels}: error: found 15 labels, expected 16 for the samples of {data}:x\n"
    )
    # That is known before the calibration.
    assert not output.exists()


def test_no_model_is_written_if_it_cannot_be_measured(
    model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    x = samples(4, 6)
    x[1, 2] = np.nan
    other, output = tmp_path / "y.npy", tmp_path / "q.mlir"
    np.save(other, x)
    arguments = [model, "--data", data, "--test-data", str(other), "-o", str(output)]
    assert main(arguments) == 1
    assert capsys.readouterr().err == (
        f"{other}: error: non-finite value in row 1: nan; leave the sample out\n"
    )
    assert not output.exists()


def test_no_model_is_written_without_its_report(
    model: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def page(self: ModelReport) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(ModelReport, "json", page)
    output, report = tmp_path / "q.mlir", tmp_path / "r.json"
    arguments = [model, "--data", data, "-o", str(output), "--report", str(report)]
    assert main(arguments) == 70
    assert not output.exists()
    assert not report.exists()


def test_no_report_is_written_without_its_model(
    model: str,
    data: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def save(self: QuantizedModel, path: str) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(QuantizedModel, "save", save)
    output, report = tmp_path / "q.mlir", tmp_path / "r.json"
    arguments = [model, "--data", data, "-o", str(output), "--report", str(report)]
    assert main(arguments) == 1
    assert capsys.readouterr().err == f"{output}: error: no space left on device\n"
    assert not report.exists()


def test_a_model_without_arguments(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model, output = tmp_path / "m.mlir", tmp_path / "q.mlir"
    model.write_text("""
func.func @f() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<1.0> : tensor<2xf32>
  return %0 : tensor<2xf32>
}""")
    np.savez(tmp_path / "none.npz")
    for samples_file in (data, str(tmp_path / "none.npz")):
        assert main([str(model), "--data", samples_file, "-o", str(output)]) == 1
        assert capsys.readouterr().err == (
            f"{samples_file}: error: function 'f' has no arguments, expected one for "
            "samples\n"
        )
        assert not output.exists()


def test_no_model_is_written_if_its_report_cannot_be(
    model: str, data: str, tmp_path: Path
):
    output = tmp_path / "q.mlir"
    arguments = [model, "--data", data, "-o", str(output)]
    # A directory cannot be replaced by a report.
    assert main([*arguments, "--report", str(tmp_path)]) == 1
    assert not output.exists()


def test_samples_with_a_number_that_is_not_finite(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    x = samples(16, 6)
    x[9, 2] = np.inf
    path = tmp_path / "x.npy"
    np.save(path, x)
    assert main([model, "--data", str(path), "-o", str(tmp_path / "q.mlir")]) == 1
    assert capsys.readouterr().err == (
        f"{path}: error: non-finite value in row 9: inf; leave the sample out\n"
    )


@pytest.mark.filterwarnings("always")
def test_samples_that_are_left_out_are_told_of_once(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, other = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(path, samples(10, 6))
    np.save(other, samples(9, 6))
    arguments = [model, "--data", str(path), "-o", str(tmp_path / "q.mlir")]
    assert main(arguments) == 0
    message = "warning: the last {} of {} samples are left out: function 'main' takes"
    error = capsys.readouterr().err
    assert error == f"{message.format(2, 10)} batches of 4\n"
    assert main([*arguments, "--test-data", str(other)]) == 0
    assert capsys.readouterr().err == f"{error}{message.format(1, 9)} batches of 4\n"


BLOCKS = """mode = "weight-only"
[weights]
bits = 3
granularity = "block"
block-size = 2
"""


@pytest.mark.parametrize("recipe", ["int8", "int8-weights"])
def test_stablehlo_is_written_to_a_tflite_file(recipe: str, tmp_path: Path):
    path, data, output = (tmp_path / name for name in ("m.mlir", "x.npy", "q.tflite"))
    path.write_text(dense_layers())
    np.save(data, samples(8, 6))
    arguments = [str(path), "--data", str(data), "-o", str(output)]
    assert main([*arguments, "--recipe", recipe]) == 0
    names = [op.name for op in as_module(output).walk()]
    assert names.count("tfl.fully_connected") == 2
    assert names.count("tfl.tanh") == 1


@pytest.mark.parametrize(
    ("text", "recipe", "message"),
    [
        (
            dense_layers().replace("tanh", "cbrt"),
            "int8",
            "{model}:6:3: error: 'stablehlo.cbrt' op has no conversion to TensorFlow "
            "Lite; use other ops, or keep it with 'partial=true' (in the pass "
            "convert-stablehlo-to-tfl), or write a .mlir file",
        ),
        (
            dense_layers().replace("tanh", "cbrt"),
            "int8-weights",
            "{model}:6:3: error: 'stablehlo.cbrt' op has no conversion to TensorFlow "
            "Lite; use other ops, or keep it with 'partial=true' (in the pass "
            "convert-stablehlo-to-tfl), or write a .mlir file",
        ),
        (
            FULLY_CONNECTED,
            BLOCKS,
            "{model}:3:3: error: 'tfl.pseudo_qconst' op has type 'tensor<3x8x"
            "!quant.block_scaled...000e-01]]> : tensor<3x4xf16>>>', which is unsupported "
            "in '.tflite' files; use '!quant.uniform' with i4, i8, i16 or i32 storage and "
            "per-tensor or per-axis scales, or write a .mlir file",
        ),
    ],
)
def test_what_has_no_file_is_refused_before_samples_are_run(
    text: str,
    recipe: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    path, data, output = (tmp_path / name for name in ("m.mlir", "x.npy", "q.tflite"))
    path.write_text(text)
    x = samples(8, 6 if "stablehlo" in text else 8)
    x[0] = np.nan
    np.save(data, x)
    if recipe == BLOCKS:
        (tmp_path / "blocks.toml").write_text(BLOCKS)
        recipe = str(tmp_path / "blocks.toml")
    arguments = [str(path), "--data", str(data), "-o", str(output)]
    assert main([*arguments, "--recipe", recipe]) == 1
    assert capsys.readouterr().err == message.format(model=path) + "\n"
