"""The command xdsl-quant compare."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.quantizer.models import dense_layers, samples
from xdsl_quant.quantizer import quantize
from xdsl_quant.tools.compare import main

TABLE = """\
layer                         op                     stored  SQNR  inputs  weights
main:stablehlo.dot_general:0  stablehlo.dot_general  i8      42.0  -       48.1     *
main:stablehlo.tanh:0         stablehlo.tanh         i8      40.8  42.0    -
main:stablehlo.dot_general:1  stablehlo.dot_general  i8      39.0  40.8    49.0

* adds most error

SQNR of the results: main:output:0 39.0 dB
layers matched by name: 0, by position: 3
constants of both models: 2
of the float model only: none
of the quantized model only: 1 'stablehlo.uniform_dequantize', 1 'stablehlo.uniform_quantize'
"""  # noqa: E501 lines of a table


@pytest.fixture(scope="module")
def quantized_text() -> str:
    return f"{quantize(dense_layers(), samples(16, 6)).module!s}\n"


@pytest.fixture
def models(tmp_path: Path, quantized_text: str) -> tuple[str, str, str]:
    """The float model, the quantized one, and samples."""
    source, output, data = (
        tmp_path / name for name in ("model.mlir", "quantized.mlir", "x.npy")
    )
    source.write_text(dense_layers())
    np.save(data, samples(16, 6))
    output.write_text(quantized_text)
    return str(source), str(output), str(data)


def test_values(
    models: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, output, data = models
    path = tmp_path / "errors.json"
    assert main([source, output, "--data", data, "--json", str(path)]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (TABLE, "")
    content = json.loads(path.read_text())
    assert [value["storage"] for value in content["values"]][:2] == [
        "i8<-127:127>",
        "i8",
    ]


def test_labels(
    models: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    labels = tmp_path / "labels.npy"
    np.save(labels, np.arange(16) % 3)
    arguments = [*models[:2], "--data", models[2], "--labels", str(labels)]
    assert main(arguments) == 0
    line = f"\n{quantize(models[0], models[2]).report(models[2], labels).accuracy}\n"
    assert capsys.readouterr().out == TABLE.replace(" dB\n", f" dB{line}")


TFL_TABLE = """\
layer        op                   stored  SQNR  inputs  weights
hidden       tfl.fully_connected  i8      42.0  -       50.2
"""


def test_tensorflow_lite_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    directory = "docs/examples/layers"
    data = f"{directory}.npz"
    assert (
        main(
            [
                f"{directory}.tflite",
                f"{directory}_int8.tflite",
                "--data",
                data,
                "--static",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.startswith(TFL_TABLE)
    # Names of locations are also in text.
    text = tmp_path / "quantized.mlir"
    quantize(f"{directory}.tflite", data).save(text)
    assert main([f"{directory}.tflite", str(text), "--data", data, "--static"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "of the float model only: none" in lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--json", "{output}"],
            "--json {output}: error: output would overwrite the quantized model; use "
            "another file",
        ),
        (
            ["--json", "{source}"],
            "--json {source}: error: output would overwrite the input module; use another "
            "file",
        ),
        (
            ["--entry", "other"],
            "{source}: error: unknown function 'other'; available: 'main'",
        ),
        (
            ["--data", "missing.npz"],
            "--data missing.npz: error: expected one file with samples, found 2; a .npz "
            "file has an array for each argument",
        ),
    ],
)
def test_mistakes(
    options: list[str],
    message: str,
    models: tuple[str, str, str],
    capsys: pytest.CaptureFixture[str],
):
    source, output, data = models
    texts = [option.format(source=source, output=output) for option in options]
    assert main([source, output, "--data", data, *texts]) == 1
    expected = message.format(source=source, output=output)
    assert capsys.readouterr().err == f"{expected}\n"


def test_samples_that_do_not_fit(
    models: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, output, data = models
    path, labels = tmp_path / "two.npz", tmp_path / "labels.npy"

    def message(*options: str) -> str:
        assert main([source, output, *options]) == 1
        return capsys.readouterr().err

    x = samples(16, 6)
    np.savez(path, x=x, y=x)
    assert message("--data", str(path)) == (
        f"{path}: error: expected 1 array, one for each argument of function 'main', found "
        f"2: {path}:x, {path}:y; leave out arrays that are not arguments, such as labels\n"
    )
    np.savez(path, x=x[:, :5])
    assert message("--data", str(path)) == (
        f"{path}:x: error: rows of shape [5] do not match argument 0 of function 'main' "
        "of type tensor<4x6xf32>, expected rows of shape [6]\n"
    )
    np.save(labels, np.arange(15) % 3)
    options = ["--data", data, "--labels", str(labels)]
    assert message(*options) == (
        f"{labels}: error: found 15 labels, expected 16 for the samples of {data}\n"
    )
    np.save(labels, np.arange(16))
    assert message(*options) == (
        f"{labels}: error: expected class indices from 0 to 2, found 0 to 15\n"
    )


def test_models_in_the_wrong_order(
    models: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
):
    source, output, data = models
    assert main([output, source, "--data", data]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (
        "",
        f"{output}: error: the first model is quantized and the second model is not: "
        "found 'stablehlo.uniform_quantize' with a quantized result; pass the float "
        "model first\n",
    )


def test_a_file_that_is_no_model(
    models: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, _, data = models
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"TFL3")
    assert main([source, str(broken), "--data", data]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{broken}: error: ")
