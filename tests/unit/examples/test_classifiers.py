"""The classifiers: their forms agree, and one of them is quantized in one call."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.classifiers.__main__ import main
from examples.classifiers.forms import onnx_model, stablehlo_text, tfl_text
from examples.classifiers.networks import (
    ARCHITECTURES,
    WITH_BATCH_NORM,
    Network,
    load_network,
)
from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.runtime.loading import apply_passes, parse_module

PAGE = Path(__file__).parents[3] / "docs/example_programs/wake_word.md"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*ARCHITECTURES, *WITH_BATCH_NORM])
def test_forms_compute_the_same(name: str):
    network = load_network(name)
    samples = network.samples[:20]
    tfl = compile(parse_module(tfl_text(network, len(samples))))(samples)
    module = parse_module(stablehlo_text(network, len(samples)))
    apply_passes(module, "convert-stablehlo-to-linalg")
    np.testing.assert_allclose(compile(module)(samples), tfl, atol=1e-5)
    runtime: Any = import_module("onnxruntime")
    session = runtime.InferenceSession(onnx_model(network).SerializeToString())
    np.testing.assert_allclose(session.run(None, {"x": samples})[0], tfl, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "accuracy"),
    [
        ("wine", 86),
        ("breast_cancer", 273),
        ("digits", 866),
        ("wine_batch_norm", 88),
        ("digits_batch_norm", 884),
    ],
)
def test_trained_networks_know_their_samples(name: str, accuracy: int):
    network = load_network(name)
    # They are trained on every other sample.
    rows = np.arange(1, len(network.samples), 2)
    run = compile(parse_module(tfl_text(network, len(rows))))
    found = network.accuracy(run(network.samples[rows]), rows)
    assert round(found * len(rows)) == accuracy


@pytest.mark.sampled(0)
def test_quantized_in_one_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # The page of the demo shows the table of all recipes; its test runs the demo.
    def no_table(network: Network, batch: int) -> str:
        return ""

    monkeypatch.setattr("examples.classifiers.__main__.table", no_table)
    path = tmp_path / "new" / "digits.tflite"
    main([str(path)])
    *lines, file, _, end = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("kernel ")
    assert lines[-1].startswith("accuracy on 899 other samples: ")
    shown = PAGE.read_text().splitlines()
    assert [line for line in lines if line not in shown] == []
    size = f"{path.stat().st_size:,} bytes"
    assert (file, end) == (f"{path}: {size}", "")
    assert f"build/digits_int8.tflite: {size}" in shown
    network = load_network("digits")
    (result,) = LiteRT(path.read_bytes()).run(network.samples[:1])
    assert result.argmax() == network.labels[0]
