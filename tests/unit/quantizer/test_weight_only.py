"""Weights as integers in one call."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.numerics import dequantize
from xdsl_quant.numerics import quantize as quantize_array
from xdsl_quant.numerics.weights import weight_parameters
from xdsl_quant.quantizer import (
    Override,
    Recipe,
    RecipeError,
    WeightOptions,
    quantize,
    read_recipe,
)
from xdsl_quant.runtime.loading import apply_passes

from .models import TO_LINALG, Floats, dense_layers, samples

INT4 = Recipe(
    "mine",
    bias_correction=False,
    mode="weight-only",
    weights=WeightOptions(4, "block", 2),
)

RNG = np.random.default_rng(1)
FIRST, SECOND = (
    RNG.normal(0, 0.5, shape).astype(np.float32) for shape in ((6, 8), (8, 3))
)
"""The weights of `dense_layers`."""


def stored(weights: Floats, bits: int, block: tuple[int, ...]) -> Floats:
    parameters = weight_parameters(weights, block, bits=bits)
    return dequantize(quantize_array(weights, parameters), parameters)


def decibels(expected: Floats, actual: Floats) -> float:
    noise = np.square(expected.astype(np.float64) - actual).sum()
    return 10 * math.log10(np.square(expected.astype(np.float64)).sum() / noise)


def test_the_model_computes_with_stored_weights():
    x = samples(4, 6)
    model = quantize(dense_layers(), x, INT4)
    assert str(model.module).count("arith.constant") == 2
    apply_passes(model.module, TO_LINALG)
    hidden = np.tanh(x @ stored(FIRST, 4, (2, 1)))
    expected = hidden @ stored(SECOND, 4, (2, 1))
    np.testing.assert_allclose(compile(model.module)(x), expected, rtol=0, atol=1e-6)


def test_the_report():
    x = samples(8, 6)
    report = quantize(dense_layers(), x, INT4).report(x)
    hidden = np.tanh(x @ FIRST)
    first, second = stored(FIRST, 4, (2, 1)), stored(SECOND, 4, (2, 1))
    found = [(each.sqnr, each.own_sqnr, each.weight_sqnr) for each in report.kernels]
    quantized_hidden = np.tanh(x @ first)
    sums = decibels(hidden @ SECOND, quantized_hidden @ second)
    expected = [
        [*[decibels(x @ FIRST, x @ first)] * 2, decibels(FIRST, first)],
        [sums, decibels(hidden @ SECOND, hidden @ second), decibels(SECOND, second)],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert {name: round(db, 2) for name, db in report.outputs.items()} == {
        "main:output:0": round(sums, 2)
    }
    assert (report.float_bytes, report.stored_bytes) == (72 * 4, 72 // 2)
    assert [each.kernel for each in report.kernels] == ["stablehlo.dot_general"] * 2
    assert report.kernels[0].weight_type.startswith("!quant.uniform<i4<-7:7>:f32:{")
    assert report.kernels[0].result_type == ""


def test_shipped_recipes():
    x = samples(8, 6)
    sizes = {
        name: quantize(
            dense_layers(), x, replace(read_recipe(name), bias_correction=False)
        )
        .report(x)
        .stored_bytes
        for name in ("int8-weights", "int4-weights")
    }
    assert sizes == {"int8-weights": 72, "int4-weights": 36}


def test_overrides():
    x = samples(8, 6)
    first = Override(locations=[":4:"], keep_float=True)
    last = Override(locations=[":8:"], weight_bits=8)
    recipe = Recipe(
        "mine", bias_correction=False, mode="weight-only", overrides=[first, last]
    )
    report = quantize(dense_layers(), x, recipe).report(x)
    assert [each.weight_type[:24] for each in report.kernels] == [
        "",
        "!quant.uniform<i8<-127:1",
    ]
    assert report.kernels[0].sqnr == math.inf
    assert math.isnan(report.kernels[0].weight_sqnr)
    assert report.stored_bytes == 48 * 4 + 24
    # A later override counts more.
    both = Override(ops=["stablehlo.*"], weight_bits=4)
    recipe = Recipe(
        "mine", bias_correction=False, mode="weight-only", overrides=[first, both]
    )
    report = quantize(dense_layers(), x, recipe).report(x)
    assert report.stored_bytes == 36


def test_mistakes():
    x = samples(8, 6)
    for overrides, message in (
        (
            [Override(ops=["tfl.*"], keep_float=True)],
            "recipe 'mine': 'tfl.*' in 'ops' selects nothing in the model",
        ),
        (
            [Override(values=["main:argument:0"], keep_float=True)],
            "recipe 'mine': 'values' and 'observer' have no effect in mode 'weight-only', "
            "expected 'ops' or 'locations' with 'keep-float' or 'weight-bits'",
        ),
    ):
        recipe = Recipe(
            "mine", bias_correction=False, mode="weight-only", overrides=overrides
        )
        with pytest.raises(RecipeError) as caught:
            quantize(dense_layers(), x, recipe)
        assert str(caught.value) == message
    all_floats = [Override(ops=["*"], keep_float=True)]
    recipe = Recipe(
        "mine", bias_correction=False, mode="weight-only", overrides=all_floats
    )
    with pytest.raises(ValueError, match="recipe 'mine' keeps all"):
        quantize(dense_layers(), x, recipe)
    with pytest.raises(ValueError, match="unsupported target in mode 'weight-only'"):
        quantize(dense_layers(), x, INT4, target="stablehlo-int8")
    with pytest.raises(ValueError, match="unsupported checkpoint in mode 'weight-only"):
        quantize(dense_layers(), x, INT4, checkpoint="x.json")
    text = "func.func @main(%x: tensor<?x2xf32>) { return }"
    message = "^the model has no product with constant weights, found no float op$"
    with pytest.raises(ValueError, match=message):
        quantize(text, samples(8, 2), INT4)


ROWS = RNG.normal(0, 1, (3, 8)).astype(np.float32)
FULLY_CONNECTED = f"""
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x3xf32> {{
  %w = "tfl.pseudo_const"() <{{value = dense<{ROWS.tolist()}> : tensor<3x8xf32>}}>
    : () -> tensor<3x8xf32>
  %b = "tfl.pseudo_const"() <{{value = dense<0.5> : tensor<3xf32>}}> : () -> tensor<3xf32>
  %y = "tfl.fully_connected"(%x, %w, %b) <{{keep_num_dims = false,
    weights_format = "DEFAULT", fused_activation_function = "NONE"}}>
    : (tensor<4x8xf32>, tensor<3x8xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}}
"""


def test_blocks_in_a_tflite_file_are_channels(tmp_path: Path):
    weights = WeightOptions(4, "block-or-axis", 2)
    recipe = Recipe(bias_correction=False, mode="weight-only", weights=weights)
    model = quantize(FULLY_CONNECTED, samples(4, 8), recipe)
    model.save(tmp_path / "model.tflite")
    axis = replace(recipe, weights=WeightOptions(4))
    expected = quantize(FULLY_CONNECTED, samples(4, 8), axis)
    assert str(model.module) == str(expected.module)
    blocks = replace(recipe, weights=WeightOptions(4, "block", 2))
    model, expected = (
        quantize(dense_layers(), samples(4, 6), each) for each in (recipe, blocks)
    )
    assert str(model.module) == str(expected.module)


@pytest.mark.parametrize("bits", [4, 8])
def test_a_tflite_file_runs_in_litert(tmp_path: Path, bits: int):
    data = samples(4, 8)
    recipe = Recipe(
        bias_correction=False, mode="weight-only", weights=WeightOptions(bits)
    )
    path = tmp_path / "model.tflite"
    quantize(FULLY_CONNECTED, data, recipe).save(path)
    (found,) = LiteRT(path.read_bytes()).run(data)
    expected = data @ stored(ROWS, bits, (1, 8)).T + np.float32(0.5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
