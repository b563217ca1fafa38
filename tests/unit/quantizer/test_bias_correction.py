"""Bias correction: what it does to constants, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseIntOrFPElementsAttr, ModuleOp

from examples.classifiers.forms import stablehlo_text, tfl_text
from examples.classifiers.networks import load_network
from xdsl_quant.quantizer import QuantizedModel, Recipe, bias_correction, quantize
from xdsl_quant.quantizer.bias_correction import correct_biases, split_rows
from xdsl_quant.quantizer.errors import float_module, quantized_module
from xdsl_quant.quantizer.recording import RecordedModule
from xdsl_quant.runtime.arrays import dense_elements

from .models import PLAIN, Floats, dense_layers, samples
from .networks import NETWORKS

CORRECTED = Recipe(bias_correction=True)


def float_constants(module: ModuleOp) -> list[NDArray[Any]]:
    """The elements of constants of floats, in the order of the text."""
    constants = [
        dense_elements(cast("DenseIntOrFPElementsAttr[Any]", value))
        for op in module.walk()
        if isinstance(value := op.properties.get("value"), DenseIntOrFPElementsAttr)
    ]
    return [values for values in constants if values.dtype == np.float32]


def layer(bias: Floats, form: str) -> str:
    """A product with a bias, of whose weights two are rounded up by 0.3 percent of 1."""
    weights = "dense<[[1.0, 1.0], [0.304, -1.0], [0.304, 1.0]]> : tensor<3x2xf32>"
    elements = [float(x) for x in bias]
    if form == "tfl":
        transposed = "dense<[[1.0, 0.304, 0.304], [1.0, -1.0, 1.0]]> : tensor<2x3xf32>"
        return f"""
func.func @main(%x: tensor<1x3xf32>) -> tensor<1x2xf32> {{
  %w = arith.constant {transposed}
  %b = arith.constant dense<{elements}> : tensor<2xf32>
  %y = "tfl.fully_connected"(%x, %w, %b) {{keep_num_dims = false,
    weights_format = "DEFAULT", fused_activation_function = "NONE"}}
    : (tensor<1x3xf32>, tensor<2x3xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}}
"""
    added = "%b"
    broadcast = ""
    shape = "2xf32" if form == "broadcast" else "1x2xf32"
    if form == "broadcast":
        added = "%c"
        broadcast = (
            "%c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> "
            "tensor<1x2xf32>"
        )
    values = elements if form == "broadcast" else [elements]
    return f"""
func.func @main(%x: tensor<1x3xf32>) -> tensor<1x2xf32> {{
  %w = arith.constant {weights}
  %b = arith.constant dense<{values}> : tensor<{shape}>
  {broadcast}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x3xf32>, tensor<3x2xf32>) -> tensor<1x2xf32>
  %z = stablehlo.add %y, {added} : tensor<1x2xf32>
  return %z : tensor<1x2xf32>
}}
"""


def shifted(count: int) -> Floats:
    """Samples with large means, so that rounded weights shift results."""
    return samples(count, 3) + np.array([3, 5, 4], np.float32)


def mean_error(model: QuantizedModel, data: Floats) -> float:
    """The mean difference of the first channel."""
    exact = RecordedModule.of(float_module(model.reference), None)
    actual = RecordedModule.of(quantized_module(model.resolved), None)
    key = "main:output:0"
    return float(
        np.mean(
            [
                exact.values(row)[key][0, 0] - actual.values(row)[key][0, 0]
                for row in data[:, np.newaxis]
            ]
        )
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["tfl", "broadcast", "add"])
def test_the_mean_of_each_channel_becomes_that_of_the_floats(form: str):
    bias = np.array([0.25, -0.5], np.float32)
    data = shifted(64)
    text = layer(bias, form)
    plain, corrected = (quantize(text, data, recipe) for recipe in (PLAIN, CORRECTED))
    before, after = (abs(mean_error(model, data)) for model in (plain, corrected))
    assert before > 0.02
    assert after < 0.002
    old, new = (float_constants(model.resolved)[1] for model in (plain, corrected))
    np.testing.assert_array_equal(old.ravel(), bias)
    assert not np.array_equal(new, old)
    np.testing.assert_array_equal(float_constants(corrected.reference)[1].ravel(), bias)


def test_weights_and_the_float_model_stay():
    data = shifted(64)
    text = layer(np.array([0.25, -0.5], np.float32), "tfl")
    plain, corrected = (quantize(text, data, recipe) for recipe in (PLAIN, CORRECTED))
    assert str(plain.float_module) == str(corrected.float_module)
    assert str(plain.reference) == str(corrected.reference) == str(plain.resolved)
    first, second = (float_constants(each.resolved)[0] for each in (plain, corrected))
    np.testing.assert_array_equal(first, second)


def test_what_may_be_chance_is_not_corrected():
    data = samples(16, 6)
    plain, corrected = (
        quantize(dense_layers(), data, recipe) for recipe in (PLAIN, CORRECTED)
    )
    # There is no bias at all.
    assert str(plain.module) == str(corrected.module)
    centred = np.concatenate([samples(32, 3), -samples(32, 3)])
    text = layer(np.zeros(2, np.float32) + 1, "tfl")
    plain, corrected = (
        quantize(text, centred, recipe) for recipe in (PLAIN, CORRECTED)
    )
    old, new = (float_constants(model.resolved)[1] for model in (plain, corrected))
    assert np.abs(new - old).max() < 2e-3


def test_a_bias_that_two_kernels_take_stays():
    text = layer(np.array([0.25, -0.5], np.float32), "tfl")
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "%y = " in line)
    again = [line.replace("%y = ", "%z = ") for line in lines[start : start + 3]]
    total = 'tfl.add %y, %z {fused_activation_function = "NONE"} : tensor<1x2xf32>'
    lines[start + 3 :] = [*again, f"%s = {total}", "return %s : tensor<1x2xf32>", "}"]
    text = "\n".join(lines)
    data = shifted(64)
    model = quantize(text, data, CORRECTED)
    assert str(model.resolved) == str(model.reference)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("form", [tfl_text, stablehlo_text])
def test_a_network_with_a_pool_that_rounds_up(form: Any):
    """The kernels of TensorFlow Lite round means half up, which shifts them."""
    network = load_network("digits")
    rows, others = network.halves(0)
    data, test = network.samples[rows[:100]], network.samples[others[:100]]
    plain, corrected = (
        quantize(form(network), data, recipe).report(test).outputs["main:output:0"]
        for recipe in (PLAIN, replace(CORRECTED, name="mine"))
    )
    assert corrected > plain + 2


def sqnr(text: str, data: Floats, test: Floats, recipe: Recipe) -> float:
    """The SQNR of the only result in dB."""
    (found,) = quantize(text, data, recipe).report(test).outputs.values()
    return found


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", ["depthwise_cnn", "deep_mlp"])
def test_deep_networks_are_not_worse_with_it(name: str):
    """All at once, biases were corrected too much: 17.1 and 1.5 dB."""
    model = NETWORKS[name]
    data, test = model.samples(64), model.samples(64, seed=1)
    text = model.tfl_text()
    plain, corrected = (sqnr(text, data, test, each) for each in (PLAIN, CORRECTED))
    assert corrected > plain - 0.5
    assert corrected > {"depthwise_cnn": 36, "deep_mlp": 21}[name]


@pytest.mark.parametrize("groups", [2, 1])
def test_kernels_are_corrected_in_order(groups: int, monkeypatch: pytest.MonkeyPatch):
    """The first kernel shifts what the second one takes, which is not corrected twice."""
    monkeypatch.setattr(bias_correction, "_MOST_GROUPS", groups)
    lines = layer(np.array([0.25, -0.5], np.float32), "tfl").splitlines()
    second = """
  %v = arith.constant dense<[[0.304, 1.0], [0.304, -1.0]]> : tensor<2x2xf32>
  %c = arith.constant dense<[0.5, 0.75]> : tensor<2xf32>
  %z = "tfl.fully_connected"(%y, %v, %c) {keep_num_dims = false,
    weights_format = "DEFAULT", fused_activation_function = "NONE"}
    : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  return %z : tensor<1x2xf32>
}"""
    data = shifted(64)
    model = quantize("\n".join([*lines[:-2], second]), data, CORRECTED)
    _, first_bias, _, second_bias = float_constants(model.resolved)
    np.testing.assert_allclose(first_bias, [0.2209, -0.5], rtol=0, atol=2e-3)
    # Without the correction of the first one: 0.4732 and 0.7222.
    np.testing.assert_allclose(second_bias, [0.4774, 0.7314], rtol=0, atol=2e-3)


@pytest.mark.parametrize("form", ["tfl", "add"])
def test_a_corrected_model_stays(form: str):
    first = layer(np.array([0.25, -0.5], np.float32), form)
    data = shifted(64)
    model = quantize(first, data, PLAIN)
    correction = correct_biases(model.resolved, [row[None] for row in data])
    assert correction is not None
    (before,), (after,) = correction.before.values(), correction.after.values()
    assert after.sqnr > before.sqnr + 3
    # What is corrected already stays.
    text = str(model.resolved)
    again = correct_biases(
        model.resolved, [row[None] for row in data], reference=model.reference
    )
    assert again is not None
    assert str(model.resolved) == text


@pytest.mark.parametrize("form", ["tfl", "add"])
def test_corrections_that_make_other_samples_worse_are_dropped(form: str):
    """Results of the samples that judge are shifted the other way."""
    data = shifted(64)
    data[1::2] *= -0.1
    model = quantize(layer(np.array([0.25, -0.5], np.float32), form), data, PLAIN)
    text = str(model.resolved)
    correction = correct_biases(model.resolved, [row[None] for row in data])
    assert correction is not None
    assert str(model.resolved) == text
    assert correction.after == correction.before


@pytest.mark.sampled(0)
def test_results_never_get_worse_on_the_samples_that_judge():
    model = NETWORKS["depthwise_cnn"]
    data = model.samples(8)
    quantized = quantize(model.tfl_text(), data, PLAIN)
    correction = correct_biases(quantized.resolved, [row[None] for row in data])
    assert correction is not None
    (before,), (after,) = correction.before.values(), correction.after.values()
    assert after.sqnr >= before.sqnr


def test_a_thousand_kernels_are_judged_in_few_groups():
    divide = bias_correction._kernel_groups  # pyright: ignore[reportPrivateUsage] as a thousand kernels take minutes
    keys = [f"{number}:0" for number in range(1000)]
    assert len(groups := divide(keys)) == 250
    assert [key for group in groups for key in group] == keys
    assert [*divide(keys[:2])] == [["0:0"], ["1:0"]]


def test_an_interpreted_float_model_changes_only_rounding_errors(
    monkeypatch: pytest.MonkeyPatch,
):
    model = NETWORKS["mlp"]
    quantized = quantize(model.tfl_text(), model.samples(16), PLAIN)
    batches = [row[None] for row in model.samples(16)]
    monkeypatch.setattr(bias_correction, "_MOST_CALLS", 16)
    monkeypatch.setattr(bias_correction, "_MOST_GROUPS", 2)
    corrections: list[bias_correction.Correction] = []
    for exact in (None, RecordedModule.of(float_module(quantized.reference), None)):
        found = correct_biases(quantized.resolved.clone(), batches, exact=exact)
        assert found is not None
        corrections.append(found)
    interpreted, compiled = corrections
    for key, bias in compiled.biases.items():
        np.testing.assert_allclose(interpreted.biases[key], bias, rtol=0, atol=1e-6)
    for key, error in compiled.after.items():
        assert interpreted.after[key].sqnr == pytest.approx(error.sqnr, abs=0.01)


@pytest.mark.parametrize("dynamic", [DYNAMIC_INDEX, -1])
def test_the_rows_of_one_batch_are_halved(dynamic: int):
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    first, second = split_rows((rows,), [(dynamic, 2)])
    np.testing.assert_array_equal(np.concatenate([*first, *second]), rows)
    np.testing.assert_array_equal(first[0], rows[:2])
    assert [*split_rows((rows,), [(5, 2)])] == [(rows,)]
    single = (rows[:1],)
    assert [*split_rows(single, [(dynamic, 2)])] == [single]
