"""Recipes of mode `dynamic-range`: activations are quantized when the model runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples.classifiers.forms import tfl_text
from examples.classifiers.networks import load_network
from tests.unit.frontends.tflite.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.interpreters import run_function
from xdsl_quant.quantizer import (
    Override,
    QuantizedModel,
    Recipe,
    WeightOptions,
    quantize,
)
from xdsl_quant.runtime.loading import parse_module

from .models import dense_layers, samples
from .test_weight_only import FULLY_CONNECTED

PLAIN = Recipe("mine", bias_correction=False, mode="dynamic-range")


def weight_types(model: QuantizedModel) -> list[str]:
    """The types of what products take as weights."""
    return [
        str(op.operands[1].type).split("!")[-1][:24]
        for op in model.module.walk()
        if len(op.operands) == 3
    ]


@pytest.mark.parametrize(
    # No two functions for `tanh` of floats give the same last digit.
    ("name", "bound"),
    [("wine", 0), ("breast_cancer", 1e-5), ("digits", 0)],
)
def test_the_file_runs_in_litert_with_the_same_floats(
    name: str, bound: float, tmp_path: Path
):
    network = load_network(name)
    path = tmp_path / "model.tflite"
    model = quantize(tfl_text(network), network.samples[:32], "dynamic-range")
    model.save(path)
    file = LiteRT(path.read_bytes())
    run = compile(model.module)
    for x in network.samples[32:64, None]:
        (expected,) = file.run(x)
        (interpreted,) = run_function(model.module, "main", x)
        for found in (run(x), interpreted):
            np.testing.assert_allclose(found, expected, rtol=0, atol=bound)
    names = [op.name for op in read_tflite(path).walk()]
    assert "tfl.dequantize" not in names
    assert len(weight_types(model)) == names.count("tfl.pseudo_qconst")


def test_the_report_is_about_what_is_computed():
    x = samples(16, 8)
    model = quantize(FULLY_CONNECTED, x, PLAIN)
    expected, found = (
        np.concatenate([compile(module)(batch) for batch in np.split(x, 4)])
        for module in (parse_module(FULLY_CONNECTED), model.module)
    )
    noise = np.square(expected.astype(np.float64) - found).sum()
    sqnr = 10 * math.log10(np.square(expected.astype(np.float64)).sum() / noise)
    report = model.report(x)
    (kernel,) = report.kernels
    assert [round(db, 3) for db in (kernel.sqnr, kernel.own_sqnr)] == [
        round(sqnr, 3)
    ] * 2
    assert kernel.weight_type.startswith("!quant.uniform<i8<-127:127>:f32:0, {")
    assert (kernel.float_bytes, kernel.stored_bytes) == (96, 24)


@pytest.mark.parametrize("asymmetric", [True, False])
def test_zero_points_of_activations(asymmetric: bool):
    recipe = replace(PLAIN, asymmetric_inputs=asymmetric)
    text = str(quantize(FULLY_CONNECTED, samples(4, 8), recipe).module)
    assert f"asymmetric_quantize_inputs = {str(asymmetric).lower()}" in text


def test_products_without_such_a_kernel_dequantize_their_weights(tmp_path: Path):
    network = load_network("digits")
    path, x = tmp_path / "model.tflite", network.samples[:1]
    recipe = replace(
        PLAIN,
        weights=WeightOptions(4),
        overrides=[Override(ops=["tfl.fully_connected"], weight_bits=8)],
    )
    model = quantize(tfl_text(network), x, recipe)
    # LiteRT has no kernel of depthwise convolutions for 4 bits.
    assert weight_types(model) == [
        "quant.uniform<i4<-7:7>:f",
        "tensor<1x3x3x8xf32>",
        "quant.uniform<i4<-7:7>:f",
        "quant.uniform<i8<-127:12",
    ]
    model.save(path)
    (expected,) = LiteRT(path.read_bytes()).run(x)
    np.testing.assert_allclose(compile(model.module)(x), expected, rtol=0, atol=1e-5)


def test_mistakes():
    x = samples(4, 6)
    message = (
        "^no product of the model can quantize activations when it runs, found 2 "
        "'stablehlo.dot_general'; use mode 'weight-only'$"
    )
    with pytest.raises(ValueError, match=message):
        quantize(dense_layers(), x, "dynamic-range")
    message = "^recipe 'mine' has mode 'dynamic-range', expected no target$"
    with pytest.raises(ValueError, match=message):
        quantize(FULLY_CONNECTED, samples(4, 8), PLAIN, target="tflite-int8")
