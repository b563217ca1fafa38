"""Accuracy on samples with labels."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.inspecting.comparison import compare
from xdsl_quant.quantizer import QuantizedModel, quantize, read_recipe
from xdsl_quant.quantizer.accuracy import Labels, Outputs, accuracy_of
from xdsl_quant.quantizer.errors import quantized_module
from xdsl_quant.quantizer.samples import DataError, batches_of
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

from .models import PLAIN, TO_LINALG, Floats, dense_layers, samples

DATA = samples(70, 6)


@cache
def quantized(name: str) -> QuantizedModel:
    recipe = replace(read_recipe(name), bias_correction=False)
    return quantize(dense_layers("?"), DATA, recipe)


def outputs(text: str, data: Floats) -> Floats:
    module = parse_module(text)
    apply_passes(module, TO_LINALG)
    return compile(module)(data)


@cache
def float_classes() -> NDArray[np.int64]:
    return outputs(dense_layers("?"), DATA).argmax(1)


def labels_of_the_float_model(wrong: int) -> NDArray[np.int64]:
    """Labels of which some are not what the float model says."""
    labels = float_classes().copy()
    labels[:wrong] = (labels[:wrong] + 1) % 3
    return labels


@pytest.mark.sampled(2)
@pytest.mark.parametrize("recipe", ["int8", "int4-weights"])
def test_the_accuracy_of_a_report(recipe: str):
    model = quantized(recipe)
    labels = labels_of_the_float_model(7)
    report = model.report(DATA, labels)
    found = outputs(str(model.module), DATA).argmax(1)
    expected = np.count_nonzero(found == labels) / 70
    assert expected < 1
    assert report.accuracy is not None
    assert report.accuracy.float_value == 0.9
    assert report.accuracy.quantized_value == expected
    assert f"\naccuracy: 90.0% -> {expected:.1%} of 70 samples\n" in str(report)
    assert json.loads(report.json())["accuracy"] == {
        "metric": "accuracy",
        "float_value": 0.9,
        "quantized_value": expected,
        "sample_count": 70,
    }
    plain = model.report(DATA)
    assert plain.accuracy is None
    assert "accuracy" not in str(plain)
    # The other measurements are the same.
    assert [repr(kernel) for kernel in plain.kernels] == [*map(repr, report.kernels)]


def test_a_metric_of_the_user():
    def largest_error(outputs: Outputs, labels: NDArray[Any]) -> float:
        assert [each.shape for each in outputs] == [(70, 3)]
        return np.abs(outputs[0] - labels).max()

    model = quantized("int8")
    expected = outputs(dense_layers("?"), DATA)
    found = outputs(str(model.module), DATA)
    accuracy = model.report(DATA, expected, largest_error).accuracy
    assert accuracy is not None
    assert (accuracy.metric, accuracy.float_value) == ("largest_error", 0.0)
    assert accuracy.quantized_value == np.abs(found - expected).max()
    assert str(accuracy) == (
        f"largest_error: 0 -> {accuracy.quantized_value:.6g} of 70 samples"
    )


def test_the_accuracy_of_a_comparison():
    model = quantized("int8")
    labels = labels_of_the_float_model(14)
    found = compare(parse_module(dense_layers("?")), model.module, DATA, labels=labels)
    assert found.accuracy == model.report(DATA, labels).accuracy
    assert f"\n{found.accuracy}\n" in str(found)


def test_the_accuracy_of_one_model():
    model = quantized("int8")
    labels = labels_of_the_float_model(7)
    batches, _ = batches_of(DATA, entry_function(model.module))
    report = model.report(DATA, labels)
    assert report.accuracy is not None
    known = Labels.of(labels, batches)
    text = str(model.module)
    for module, expected in (
        (model.float_module, report.accuracy.float_value),
        (model.module, report.accuracy.quantized_value),
        (quantized_module(model.resolved), report.accuracy.quantized_value),
    ):
        assert accuracy_of(module, batches, known) == expected
    assert str(model.module) == text


def test_the_classes_of_each_pixel():
    text = """
func.func @main(%x: tensor<?x2x3xbf16>) -> tensor<?x2x3xbf16> {
  %y = stablehlo.tanh %x : tensor<?x2x3xbf16>
  return %y : tensor<?x2x3xbf16>
}
"""
    data = samples(8, 2, 3).astype(ml_dtypes.bfloat16)
    labels = data.argmax(-1)
    labels[0, 0] = (labels[0, 0] + 1) % 3
    accuracy = quantize(text, data, PLAIN).report(data, labels).accuracy
    assert accuracy is not None
    assert (accuracy.float_value, accuracy.sample_count) == (15 / 16, 8)


def test_labels_of_samples_that_are_left_out():
    recipe = replace(PLAIN, mode="weight-only")
    model = quantize(dense_layers(32), DATA[:64], recipe)
    labels = labels_of_the_float_model(0)
    with pytest.warns(UserWarning, match="the last 6 of 70 samples are left out"):
        accuracy = model.report(DATA, labels).accuracy
    assert accuracy is not None
    assert (accuracy.float_value, accuracy.sample_count) == (1.0, 64)


def test_labels_of_batches(tmp_path: Path):
    model = quantized("int8")
    labels = labels_of_the_float_model(7)
    path = tmp_path / "labels.npz"
    np.savez(path, labels.astype(np.uint8))
    expected = model.report(DATA, labels).accuracy
    assert model.report([DATA[:10], (DATA[10:],)], path).accuracy == expected
    with pytest.raises(DataError) as caught:
        model.report([DATA[:10]], labels)
    assert str(caught.value) == (
        "labels: found 70 labels, expected 10 for the rows of the outputs"
    )
    with pytest.raises(DataError) as empty:
        model.report([DATA[:0]], labels[:0])
    assert str(empty.value) == "labels: expected one or more labels, found none"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            np.zeros(69, np.int64),
            "labels: found 69 labels, expected 70 for the samples of data",
        ),
        (
            np.zeros(70),
            "labels: expected class indices, found dtype float64; convert them with "
            "astype, or give a metric in Python",
        ),
        (
            np.eye(3)[np.zeros(70, np.int64)],
            "labels: expected class indices, found dtype float64; take argmax(-1) of "
            "one-hot labels, or give a metric in Python",
        ),
        (
            np.full(70, 3),
            "labels: expected class indices from 0 to 2, found 3 to 3",
        ),
        (
            np.eye(3, dtype=np.int64)[np.zeros(70, np.int64)],
            "labels: expected class indices of shape [70], found [70, 3]; take "
            "argmax(-1) of one-hot labels, or give a metric in Python",
        ),
    ],
)
def test_labels_that_do_not_fit(labels: NDArray[Any], message: str):
    with pytest.raises(DataError) as caught:
        quantized("int8").report(DATA, labels)
    assert str(caught.value) == message


def test_files_and_types_that_are_no_labels(tmp_path: Path):
    model = quantized("int8")
    path = tmp_path / "labels.npz"
    np.savez(path, DATA, DATA)
    remedy = "write the labels to a separate file"
    for labels, error, message in (
        (path, DataError, f"{path}: expected one array of labels, found 2; {remedy}"),
        ([0, 1], TypeError, "labels must be a file or an array, not list"),
        (
            np.array(1),
            DataError,
            "labels: expected an array of numbers with a row for each sample",
        ),
    ):
        with pytest.raises(error) as caught:
            model.report(DATA, labels)  # pyright: ignore[reportArgumentType] tested
        assert str(caught.value) == message
    with pytest.raises(TypeError) as no_function:
        model.report(DATA, np.zeros(70), "f1")  # pyright: ignore[reportArgumentType] tested
    assert str(no_function.value) == (
        "metric must be a function of outputs and labels, not str"
    )
    with pytest.raises(TypeError, match="not int"):
        model.report(DATA, np.zeros(70), 0)  # pyright: ignore[reportArgumentType] tested
    with pytest.raises(TypeError) as missing:
        model.report(DATA, metric=lambda outputs, labels: 0.0)
    assert str(missing.value) == "missing labels for the metric; pass labels"


def test_outputs_that_are_no_classes():
    text = """
func.func @main(%x: tensor<?x1xf32>) -> tensor<?x1xf32> {
  %y = stablehlo.tanh %x : tensor<?x1xf32>
  return %y : tensor<?x1xf32>
}
"""
    data = samples(8, 1)
    with pytest.raises(DataError) as caught:
        quantize(text, data, PLAIN).report(data, np.zeros(8, np.int64))
    assert str(caught.value) == (
        "labels: expected two or more classes in the last dimension of the first output, "
        "found shape [8, 1]; give a metric in Python"
    )


@pytest.mark.parametrize("value", ["x", None, np.zeros(2), math.nan])
def test_a_metric_returns_a_number(value: Any):
    def best(outputs: Outputs, labels: NDArray[Any]) -> Any:
        return value

    model = quantized("int4-weights")
    with pytest.raises(TypeError, match="metric") as caught:
        model.report(DATA, np.zeros(70), best)
    assert str(caught.value) == f"metric 'best' must return a number, not {value!r}"
