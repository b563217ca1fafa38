"""Errors of kernels, and the report on a model."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.numerics import quantize as quantize_values
from xdsl_quant.quantizer import quantize
from xdsl_quant.quantizer.errors import Error, measure_errors
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.module_kernels import kernels_of

from .models import PLAIN, TO_LINALG, Floats, dense_layers, samples


def sqnr(expected: Floats, actual: Floats) -> float:
    """In dB."""
    wide = expected.astype(np.float64)
    return 10 * math.log10(np.square(wide).sum() / np.square(wide - actual).sum())


def test_an_error_is_a_sum_over_batches():
    error = Error()
    assert error.sqnr == math.inf
    assert error.saturated_part == 0
    error.add(
        np.array([3.0, 4.0], np.float32), np.array([3.0, 4.5], np.float32), (-1.0, 3.0)
    )
    error.add(
        np.array([-2.0, 0.0], np.float32),
        np.array([-2.0, 0.5], np.float32),
        (-1.0, 3.0),
    )
    assert error.sqnr == pytest.approx(10 * math.log10(29 / 0.5))
    assert error.saturated_part == 0.5


def test_an_error_without_a_signal():
    error = Error()
    error.add(np.array([0.0], np.float32), np.array([0.5], np.float32), None)
    assert error.sqnr == -math.inf
    assert error.saturated_part == 0


def test_an_error_with_infinite_noise():
    error = Error()
    error.add(np.ones(1, np.float32), np.full(1, np.inf, np.float32), None)
    assert error.sqnr == -math.inf


TANH = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = stablehlo.tanh %x : tensor<?xf32>
  %z = stablehlo.negate %y : tensor<?xf32>
  return %z : tensor<?xf32>
}
"""


def test_the_own_error_of_a_kernel_is_that_from_exact_inputs():
    data = samples(500)
    model = quantize(TANH, data, PLAIN)
    measured = measure_errors(model.resolved, [data])
    assert [*measured] == ["0:0", "1:0", "main:output:0"]
    kernels = kernels_of(model.resolved)
    specs = [*kernels[0].specs, kernels[1].specs[1]]
    types = [
        QuantizationParameters.from_type(spec)
        for spec in specs
        if isinstance(spec, UniformType)
    ]
    assert len(types) == 3

    def rounded(values: Floats, index: int) -> Floats:
        return dequantize(quantize_values(values, types[index]), types[index])

    exact = np.tanh(data)
    after_tanh = rounded(np.tanh(rounded(data, 0)), 1)
    assert measured["0:0"].own.sqnr == pytest.approx(sqnr(exact, after_tanh), abs=0.01)
    assert measured["0:0"].accumulated == measured["0:0"].own
    own = rounded(-rounded(exact, 1), 2)
    assert measured["1:0"].own.sqnr == pytest.approx(sqnr(-exact, own), abs=0.01)
    accumulated = rounded(-after_tanh, 2)
    found = measured["1:0"].accumulated
    assert found.sqnr == pytest.approx(sqnr(-exact, accumulated), abs=0.01)
    assert measured["main:output:0"].accumulated.sqnr == found.sqnr


def test_a_report():
    data = samples(16, 6)
    model = quantize(dense_layers(), data, PLAIN)
    report = model.report(samples(8, 6, seed=1))
    assert [kernel.kernel for kernel in report.kernels] == [
        "stablehlo.dot_general",
        "stablehlo.tanh",
        "stablehlo.dot_general",
    ]
    first, second, third = report.kernels
    assert (first.float_bytes, first.stored_bytes) == (4 * 48, 48)
    assert (second.float_bytes, second.weight_type) == (0, "")
    assert math.isnan(second.weight_sqnr)
    assert (report.float_bytes, report.stored_bytes) == (4 * 72, 72)
    assert first.sqnr == first.own_sqnr
    assert third.sqnr < third.own_sqnr
    assert report.outputs == {"main:output:0": third.sqnr}
    lines = str(report).splitlines()
    assert lines[0].split() == (
        "kernel where result weights SQNR own weights saturated bytes".split()
    )
    assert lines[1].split()[:4] == [
        "stablehlo.dot_general",
        "module:4:3",
        "i8",
        "i8<-127:127>",
    ]
    assert lines[-1] == "constants: 288 -> 72 bytes, 4.00 times less"
    empty = str(replace(report, kernels=[])).splitlines()
    assert empty[-1] == "constants: 0 -> 0 bytes"
    content = json.loads(report.json())
    assert content["kernels"][0]["stored_bytes"] == 48
    # NaN is none of JSON's numbers.
    assert content["kernels"][1]["weight_sqnr"] is None


def test_the_results_of_a_report_are_those_of_running_the_models():
    data = samples(4, 6)
    model = quantize(dense_layers(), data, PLAIN)
    expected = run_function(lowered(dense_layers()), "main", data)[0]
    actual = run_function(lowered(str(model.module)), "main", data)[0]
    report = model.report(data)
    assert report.outputs["main:output:0"] == pytest.approx(sqnr(expected, actual))


def lowered(text: str) -> ModuleOp:
    module = parse_module(text)
    apply_passes(module, TO_LINALG)
    return module


def test_infinities_that_both_have_are_no_error():
    error = Error()
    expected = np.array([-np.inf, 2.0, np.inf], np.float32)
    error.add(expected, np.array([-np.inf, 2.5, np.inf], np.float32), None)
    assert (error.signal, error.noise, error.count) == (4.0, 0.25, 1)


def test_results_are_those_of_the_model_and_not_of_functions_that_it_calls():
    text = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = func.call @f(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = stablehlo.tanh %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""
    data = samples(64)
    assert [*quantize(text, data, PLAIN).report(data).outputs] == ["main:output:0"]
