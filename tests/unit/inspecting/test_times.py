"""Times of kernels and of models: what is run, not how long it takes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.quantizer.models import PLAIN, dense_layers, samples
from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.inspecting import times
from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.quantizer import Override, quantize
from xdsl_quant.quantizer.report_data import NO_TIMES, Latency, Times, duration
from xdsl_quant.runtime.extras import missing_package
from xdsl_quant.transforms.propagation.module_kernels import kernels_of

DATA = samples(8, 6)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """The calls that are measured, which take no time."""
    found: list[Any] = []

    def medians(measured: Any) -> list[float]:
        found.extend(measured)
        return [math.nan if call is None else 1e-6 * len(found) for call in measured]

    monkeypatch.setattr(times, "_medians", medians)
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", ["?", 4])
def test_what_is_measured(rows: str | int, calls: list[Callable[[], Any]]):
    model = quantize(dense_layers(rows), DATA, PLAIN)
    report = model.report(DATA, times=True)
    count = 8 if rows == "?" else 4
    assert report.latency == Latency(Times(2e-6, 2e-6), count)
    assert [kernel.times.float_seconds for kernel in report.kernels] == [
        pytest.approx(each) for each in (4e-6, 6e-6, 8e-6)
    ]
    results = [call() for call in calls]
    x = DATA[:count]
    expected = model.report(x)
    assert expected.latency is None
    # The model, then each kernel, as floats and as stored values.
    noise = np.square(results[0] - results[1]).sum()
    sqnr = 10 * math.log10(np.square(results[0].astype(np.float64)).sum() / noise)
    assert sqnr == pytest.approx(expected.outputs["main:output:0"])
    for number, kernel in enumerate(kernels_of(model.resolved)):
        floats, stored = results[2 * number + 2 : 2 * number + 4]
        assert (floats.dtype, stored.dtype) == (np.float32, np.int8)
        spec = kernel.output_specs.data[0]
        assert isinstance(spec, UniformQuantizedType)
        parameters = QuantizationParameters.from_type(spec)
        noise = np.square(floats - dequantize(stored, parameters)).sum()
        own = 10 * math.log10(np.square(floats.astype(np.float64)).sum() / noise)
        assert own == pytest.approx(expected.kernels[number].own_sqnr, rel=1e-4)


def test_a_kernel_that_is_no_function_of_floats(calls: list[Callable[[], Any]]):
    text = """
func.func @main(%x: tensor<?x2xf32>, %i: tensor<1xi32>) -> tensor<?x2xf32> {
  %y = stablehlo.tanh %x : tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}
func.func @other(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %y = stablehlo.tanh %x : tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}
"""
    batch = samples(3, 2), np.zeros(1, np.int32)
    report = quantize(text, [batch], PLAIN, entry="main").report([batch], times=True)
    assert len(calls) == 4
    # The other function is not called.
    assert report.kernels[1].times == NO_TIMES
    assert str(report).splitlines()[2].endswith("  -")


def test_only_weights(calls: list[Callable[[], Any]]):
    report = quantize(dense_layers(), DATA, replace(PLAIN, mode="weight-only")).report(
        DATA, times=True
    )
    assert report.latency == Latency(Times(2e-6, 2e-6), 4)
    assert len(calls) == 2
    assert {kernel.times for kernel in report.kernels} == {NO_TIMES}


def test_a_kernel_in_floating_point(calls: list[Callable[[], Any]]):
    override = Override(values=("main:stablehlo.tanh:*",), keep_float=True)
    model = quantize(dense_layers(), DATA, replace(PLAIN, overrides=(override,)))
    report = model.report(DATA, times=True)
    known = [not math.isnan(each.times.quantized_seconds) for each in report.kernels]
    is_float = [not each.result_type for each in report.kernels]
    assert any(is_float)
    assert known == [not each for each in is_float]
    assert not any(math.isnan(each.times.float_seconds) for each in report.kernels)


def test_without_mlir(monkeypatch: pytest.MonkeyPatch):
    model = quantize(dense_layers(), DATA, PLAIN)

    def compile_without_mlir(*args: object, **options: object) -> None:
        raise missing_package("compiled execution", "MLIR", "mlir")

    monkeypatch.setattr("xdsl_quant.execution.compile", compile_without_mlir)
    report = model.report(DATA, times=True)
    line = (
        "time of a call with 4 samples: none, as compiled execution needs MLIR, which is "
        "not installed; run pip install '.[mlir]' in a checkout of xdsl-quant"
    )
    assert line in str(report).splitlines()
    assert json.loads(report.json())["latency"]["times"] == {
        "float_seconds": None,
        "quantized_seconds": None,
    }


def test_a_model_that_cannot_be_compiled():
    latency = Latency(Times(2e-6), 1, "a.mlir:1:1: error: no lowering")
    assert str(latency) == (
        "time of a call with 1 sample: 2 us -> -, as a.mlir:1:1: error: no lowering"
    )


def test_medians_of_calls_that_alternate(monkeypatch: pytest.MonkeyPatch):
    clock = 0.0
    order: list[str] = []

    def call(name: str, seconds: float) -> Callable[[], object]:
        def run() -> None:
            nonlocal clock
            order.append(name)
            clock += seconds

        return run

    monkeypatch.setattr("time.thread_time", lambda: clock)
    measured = times._medians([call("a", 0.01), None, call("b", 0.03)])  # pyright: ignore[reportPrivateUsage] no other way to set the clock
    assert measured[0] == pytest.approx(0.01)
    assert math.isnan(measured[1])
    assert measured[2] == pytest.approx(0.03)
    # Two calls each to find out how often to call.
    assert order == ["a", "a", "b", "b"] + ["a", "b"] * 15
    order.clear()
    times._medians([call("slow", 60.0)])  # pyright: ignore[reportPrivateUsage] as above
    assert len(order) == 5
    order.clear()
    (short,) = times._medians([call("fast", 1e-6)])  # pyright: ignore[reportPrivateUsage] as above
    assert short == pytest.approx(1e-6)
    assert 15 * 2000 <= len(order) < 15 * 5000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (math.nan, "-"),
        (1.5, "1.5 s"),
        (0.0321, "32.1 ms"),
        (12.345e-6, "12.3 us"),
        (5e-7, "500 ns"),
    ],
)
def test_durations(seconds: float, text: str):
    assert duration(seconds) == text
