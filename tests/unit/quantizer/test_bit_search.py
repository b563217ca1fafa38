"""The search for widths of storage."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32, i8
from xdsl.parser import Parser

from tests.unit.display.plot_marks import marks_of
from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.calibration import instrumented_function
from xdsl_quant.dialects.quant import AnyQuantizedType
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.display.figure_svg import NAMESPACE
from xdsl_quant.execution import compile
from xdsl_quant.quantizer import (
    Budget,
    MixedModel,
    Override,
    QuantizedModel,
    Recipe,
    Request,
    SearchOptions,
    bit_search,
    pipeline,
    quantize,
    read_recipe,
)
from xdsl_quant.quantizer.bit_search import BitSearch
from xdsl_quant.quantizer.kernel_widths import widths_of
from xdsl_quant.quantizer.recording import RecordedModule
from xdsl_quant.quantizer.static_stages import MixedPipeline
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.target_files import read_target
from xdsl_quant.transforms.propagation.target_spec import TargetSpec

from .models import dense_layers, mixed_model, samples, text_of
from .network_builders import (
    Builder,
    StableHLOBuilder,
    TFLiteBuilder,
    Value,
    text_of_network,
)
from .networks import NETWORKS
from .test_quantization import run

MIXED = replace(read_recipe("mixed"), bias_correction=False)
DATA = samples(16, 6)

allows_few_bits = pytest.mark.filterwarnings("ignore:low SQNR of result")
"""For tests whose weights have 2 bits."""


def weight_widths(model: QuantizedModel) -> list[str]:
    """The stored types of the weights of products."""
    return [
        str(scalar_or_element_type(kernel.input_specs.data[1]))[15:].partition(":f32")[
            0
        ]
        for kernel in kernels_of(model.resolved)
        if len(kernel.inputs) > 1
    ]


def new_result(budget: str, recipe: Recipe = MIXED) -> MixedModel:
    return mixed_model(dense_layers(), DATA, recipe, budget=budget)


@cache
def result(budget: str) -> MixedModel:
    return new_result(budget)


def search_of(text: str, budget: str) -> BitSearch:
    """The search of a model that is quantized."""
    steps = pipeline(Request(text, DATA, MIXED, budget=budget))
    assert isinstance(steps, MixedPipeline)
    steps.run(until="search")
    return steps.bit_search


@pytest.fixture(scope="module")
def brute_force() -> BitSearch:
    """A search that has measured all assignments of the model."""
    search = search_of(dense_layers(), "0 dB")
    search.measure(product(*(range(last + 1) for last in search.widest)))
    return search


def test_the_widest_assignment_is_that_of_8_bits():
    model = result("0 dB")
    assert weight_widths(model) == ["i8<-127:127>", "i8<-127:127>"]
    assert str(model.module) == str(
        quantize(dense_layers(), DATA, Recipe(bias_correction=False)).module
    )
    assert model.search.chosen is model.search.widest


def test_bytes_choose_the_best_assignment(brute_force: BitSearch):
    measured = brute_force.measured
    assert len(measured) == 9
    assert sorted(each.stored_bytes for each in measured.values()) == [
        18, 24, 30, 36, 36, 48, 54, 60, 72,
    ]  # fmt: skip
    for budget in range(18, 80, 3):
        choice, found = brute_force.run(Budget(budget, "bytes"))
        best = min(
            each.noise for each in measured.values() if each.stored_bytes <= budget
        )
        assert measured[choice].noise == found.chosen.noise == best


def test_decibels_choose_the_smallest_assignment(brute_force: BitSearch):
    measured = brute_force.measured
    widest = measured[brute_force.widest]
    for budget in (0.0, 5.0, 13.0, 16.0, 20.0, 30.0, 45.0):
        _, found = brute_force.run(Budget(budget, "dB"))
        kept = [
            each.stored_bytes
            for each in measured.values()
            if each is widest or each.loss(widest) <= budget
        ]
        assert found.chosen.stored_bytes == min(kept)


@pytest.mark.parametrize("budget", [Budget(36, "bytes"), Budget(5.4, "dB")])
def test_errors_that_are_not_independent(
    brute_force: BitSearch, budget: Budget, monkeypatch: pytest.MonkeyPatch
):
    alone = np.add.outer([3, 2, 0], [8, 2, 0]) + 1.0
    # The sum of what they add alone is 5, and so it is beaten by the 4 of (0, 2).
    alone[1, 1] = 3

    def measured(_: BitSearch, choice: tuple[int, ...]) -> Any:
        # The kernel in the middle has one width.
        noise = alone[choice[::2]] / 1000
        return replace(brute_force.measured[choice], noise=noise)

    monkeypatch.setattr(BitSearch, "_measured", measured)
    # No measurement with integers replaces these.
    monkeypatch.setattr(BitSearch, "_is_simulated", False)
    search = replace(brute_force)
    choice, found = search.run(budget)
    assert (1, 0, 1) not in search.front()
    assert choice == (1, 0, 1)
    assert found.chosen.stored_bytes == 36


def test_the_chosen_widths_are_those_of_the_model():
    model = result("40 B")
    chosen = model.search.chosen
    assert chosen.stored_bytes == 36
    assert model.report(DATA).stored_bytes == 36
    assert chosen.sqnr == pytest.approx(model.report(DATA).outputs["main:output:0"])
    assert weight_widths(model) == ["i4<-7:7>", "i4<-7:7>"]
    assert [*chosen.weight_bits] == [4, None, 4]
    assert [*chosen.activation_bits] == [8, 8, 8]


def test_it_is_deterministic():
    first, second = result("40 B"), new_result("40 B")
    assert str(first.module) == str(second.module)
    assert first.search == second.search


@allows_few_bits
@pytest.mark.sampled(2)
@pytest.mark.parametrize("budget", ["18 B", "36 B"])
def test_products_of_narrow_integers(budget: str):
    model = result(budget)
    names = [op.name for op in model.module.walk()]
    # Weights are widened to the storage of the other factor, and nothing is a float.
    assert names.count("stablehlo.dot_general") == 2
    assert names.count("stablehlo.uniform_dequantize") == 1
    in_floats = model.module.clone()
    apply_passes(in_floats, "stablehlo-legalize-quantized-op-to-qdq")
    results = [run(module, DATA[:4]) for module in (model.module, in_floats)]
    last = kernels_of(model.resolved)[-1].output_specs.data[0]
    assert isinstance(last, UniformType)
    # They are equal but for one step where a number is in the middle.
    steps = (results[0] - results[1]) / last.get_scales()
    assert np.abs(steps).max() < 1.001
    assert np.count_nonzero(np.abs(steps) > 0.001) <= 1


@cache
def mixed_target(*, says_const: bool) -> TargetSpec:
    """The target of StableHLO, or the same if its file did not say `const`."""
    target = read_target("stablehlo-mixed")
    if says_const:
        return target
    kernels = {
        name: replace(
            kernel,
            signatures=[
                replace(
                    signature,
                    inputs=[replace(p, is_constant=False) for p in signature.inputs],
                )
                for signature in kernel.signatures
            ],
        )
        for name, kernel in target.kernels.items()
    }
    return replace(target, kernels=kernels)


@pytest.mark.parametrize("says_const", [True, False])
def test_products_of_two_activations_have_8_bits(says_const: bool):
    x, y = "tensor<4x6xf32>", "tensor<6x6xf32>"
    text = f"""
func.func @main(%x: {x}, %y: {y}) -> {x} {{
  %w = stablehlo.constant() <{{value = {text_of(samples(6, 6))}}}> : () -> {y}
  %p = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({x}, {y}) -> {x}
  %r = stablehlo.dot_general %p, %w, contracting_dims = [1] x [0] : ({x}, {y}) -> {x}
  return %r : {x}
}}
"""
    module = parse_module(text)
    target = mixed_target(says_const=says_const)
    fuse_kernels(module, target)
    options = SearchOptions((2, 4, 8))
    first, second = (widths_of(k, target, options) for k in kernels_of(module))
    assert [width.text for width in first] == ["8"]
    assert first[0].ports[1] == AnyQuantizedType(i8, f32)
    assert [width.text for width in second] == ["8x2", "8x4", "8x8"]


def self_attention(net: Builder, x: Value) -> Value:
    """Attention without products of weights but the last one."""
    scores = net.batch_product(x, x, transposed=True)
    y = net.batch_product(net.softmax(scores), x, transposed=False)
    return net.dense(y, 4)


def test_attention_keeps_the_budget():
    """The widest assignment is that of the recipe `int8`."""
    text = text_of_network(self_attention, (1, 4, 4), StableHLOBuilder())
    found = mixed_model(text, samples(8, 4, 4), MIXED, budget="3 dB").search
    assert found.widest.sqnr > 40
    assert found.chosen.sqnr > 37


@pytest.mark.sampled(0)
def test_files_with_mixed_widths_run_in_litert(tmp_path: Path):
    data = np.load("docs/examples/wine_samples.npz")["x"]
    recipe = replace(MIXED, search=SearchOptions((4, 8), (8, 16)))
    model = mixed_model("docs/examples/wine.tflite", data, recipe, budget="1100 B")
    chosen = [kernel.widths[kernel.chosen] for kernel in model.search.kernels]
    assert {*chosen} == {"8x4", "8x8", "16x8"}
    path = tmp_path / "mixed.tflite"
    model.save(path)
    file, compiled = LiteRT(path.read_bytes()), compile(model.module)
    for row in data[:8]:
        np.testing.assert_array_equal(file.run(row[None])[0], compiled(row[None]))


def test_another_budget_measures_no_more_than_it_has_to():
    found = result("40 B").search
    other = found.with_budget("18 B")
    assert other.chosen.stored_bytes == 18
    assert other.budget == Budget(18, "bytes")
    assert other.measured[: len(found.measured)] == found.measured
    assert other.with_budget(Budget(40, "bytes")).chosen == found.chosen


def test_an_override_says_the_least_width():
    recipe = replace(
        MIXED,
        overrides=(Override(locations=["module:8"], weight_bits=8),),
    )
    with pytest.raises(ValueError, match="expected 36 bytes or more"):
        new_result("20 B", recipe)


@allows_few_bits
def test_kernels_may_stay_in_floating_point():
    recipe = replace(
        MIXED, overrides=(Override(locations=["module:8"], keep_float=True),)
    )
    model = new_result("100 dB", recipe)
    assert weight_widths(model) == ["i2<-1:1>", ""]


@pytest.mark.parametrize(
    ("recipe", "budget", "message"),
    [
        (
            MIXED,
            "17 B",
            "budget of 17 bytes is too small: expected 18 bytes or more; increase it, or "
            "add narrower widths to the recipe",
        ),
        (
            Recipe(),
            "17 B",
            "unsupported budget of 17 bytes for recipe 'int8' without [search]; use recipe "
            "'mixed', or one with [search]",
        ),
        (
            replace(MIXED, search=SearchOptions((8,))),
            "17 B",
            "nothing to search: target 'stablehlo-mixed' supports at most one width for "
            "each kernel, with weights of 8 bits and activations of 8 bits; use "
            "another recipe or target",
        ),
    ],
)
def test_what_cannot_be_searched(recipe: Recipe, budget: str, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        new_result(budget, recipe)


def test_the_table():
    model = result("40 B")
    lines = str(model.search).splitlines()
    assert lines[0].split() == [
        "searched",
        "kernel",
        "where",
        "8x2",
        "8x4",
        "8x8",
        "chosen",
    ]
    assert [line.split()[-1] for line in lines[1:3]] == ["8x4", "8x4"]
    assert lines[-1].startswith("budget: 40 bytes, measured assignments: ")
    assert [line.split()[0] for line in lines if line.endswith(" chosen")] == [
        "searched", "36",
    ]  # fmt: skip


def test_wide_activations():
    recipe = replace(MIXED, search=SearchOptions((4, 8), (8, 16)))
    model = new_result("0 dB", recipe)
    assert "16x8" in model.search.kernels[0].widths
    wide = model.search.with_budget("72 B")
    assert wide.chosen.activation_bits[0] == 16
    assert read_target("stablehlo-mixed").name == model.target.name
    assert not math.isnan(wide.chosen.sqnr)
    assert np.isfinite(wide.chosen.noise)


# Accuracy


@pytest.fixture(scope="module")
def labels() -> NDArray[np.int64]:
    """The classes that the float model finds."""
    module = parse_module(dense_layers())
    results = [run(module, DATA[i : i + 4]) for i in (0, 4, 8, 12)]
    return np.concatenate(results).argmax(1)


@allows_few_bits
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("points", "most"), [(20, 36), (0, 72), (100, 18)])
def test_a_budget_of_accuracy(points: int, most: int, labels: NDArray[np.int64]):
    model = mixed_model(
        dense_layers(), DATA, MIXED, budget=f"{points} %", labels=labels
    )
    chosen, widest = model.search.chosen, model.search.widest
    assert chosen.points_lost(widest) <= points
    assert chosen.stored_bytes <= most
    accuracy = model.report(DATA, labels).accuracy
    assert accuracy is not None
    assert chosen.accuracy == accuracy.quantized_value
    assert widest.accuracy is not None
    # All that is smaller and was measured loses more.
    for each in model.search.measured:
        if each.stored_bytes < chosen.stored_bytes:
            assert each.points_lost(widest) > points
    assert "accuracy" in str(model.search)
    assert f"{chosen.accuracy:.1%} accuracy" in model.search.svg()


def test_accuracy_needs_labels(labels: NDArray[np.int64]):
    with pytest.raises(
        ValueError,
        match="missing labels of the calibration samples for a budget of 1 points of ",
    ):
        result("1 %")
    with pytest.raises(ValueError, match=r"^unsupported labels for recipe 'int8'"):
        quantize(dense_layers(), DATA, labels=labels)


# The picture


def test_the_picture():
    found = result("40 B").search
    svg = found.svg()
    assert "36 bytes, 18.0 dB" in svg
    assert ">budget<" in svg
    html = found._repr_html_()  # pyright: ignore[reportPrivateUsage] notebooks call it
    assert html is not None
    assert svg in html
    assert "<pre>searched kernel" in html
    (picture,) = ElementTree.fromstring(html.replace(NAMESPACE, "")).iter("svg")
    marks = {(mark.x, mark.y, mark.title) for mark in marks_of(picture)}
    assert marks == {
        (each.stored_bytes, round(each.sqnr, 3), each.text) for each in found.measured
    }
    widest = replace(found, budget=Budget(10, "dB"))
    assert ">budget<" in widest.svg()


def test_samples_of_zeros():
    x, w = "tensor<4x6xf32>", "tensor<6x6xf32>"
    text = f"""
func.func @main(%x: {x}) -> {x} {{
  %w = stablehlo.constant() <{{value = {text_of(samples(6, 6))}}}> : () -> {w}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {x}
  return %y : {x}
}}
"""
    with pytest.warns(UserWarning, match="constant samples|narrower widths") as caught:
        quantize(text, np.zeros_like(DATA), MIXED)
    assert [str(each.message) for each in caught] == [
        "data: constant samples: every value is 0.0; use real inputs, or ranges and "
        "errors are meaningless",
        "narrower widths do not reduce the SQNR of inf dB on the samples; check that "
        "results differ from sample to sample",
    ]


def test_results_with_infinite_noise():
    # The first values are stored as 0, of which the root has no reciprocal.
    text = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %w = stablehlo.constant() <{value = dense<0.5> : tensor<6x3xf32>}>
    : () -> tensor<6x3xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  %z = stablehlo.rsqrt %y : tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}
"""
    data = np.abs(DATA)
    data[:4] *= 1e-6
    keep = Override(ops=("stablehlo.rsqrt",), keep_float=True)
    with pytest.raises(ValueError, match="-inf dB") as caught:
        quantize(text, data, replace(MIXED, overrides=(keep,)))
    assert str(caught.value) == (
        "SQNR of the results is -inf dB with the widest widths; use samples whose results "
        "are finite and not all 0"
    )


def test_few_modules_are_compiled(monkeypatch: pytest.MonkeyPatch):
    """Assignments are simulated, and only two are lowered to integers."""
    made: list[str] = []
    of = RecordedModule.of

    def counted(module: ModuleOp, entry: str | None) -> RecordedModule:
        made.append(str(module))
        return of(module, entry)

    monkeypatch.setattr(RecordedModule, "of", staticmethod(counted))
    found = new_result("40 B").search
    # The model in floats, its simulation, and the widest and the chosen assignment; then
    # both models whose results are compared at the end.
    assert len(made) == 6
    assert len(found.measured) > 4


@pytest.mark.parametrize(
    ("recipe", "compiled"),
    [
        # Calibration, the model in floats, and with biases as arguments.
        ("int8", 3),
        # The same, the simulation, and another assignment.
        ("mixed", 5),
    ],
)
def test_few_modules_are_parsed_and_compiled(
    recipe: str, compiled: int, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("mlir", reason="no MLIR bindings")
    from xdsl_quant.execution.machine_code import MachineCode

    counts: Counter[str] = Counter()

    def count(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return method(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    count(Parser, "parse_module")
    count(MachineCode, "__init__")
    instrumented_function._cached_runs.clear()  # pyright: ignore[reportPrivateUsage] a cache of compiled code
    network = NETWORKS["mlp"]
    model = quantize(network.stablehlo_text(), network.samples(16), recipe)
    if isinstance(model, MixedModel):
        assert model.search.chosen is not model.search.widest
    assert counts == {"parse_module": 1, "__init__": compiled}


def test_corrected_biases_are_those_of_the_search(monkeypatch: pytest.MonkeyPatch):
    network = NETWORKS["mlp"]
    model = quantize(network.stablehlo_text(), network.samples(16), "mixed")

    def none(_search: BitSearch, _resolved: ModuleOp) -> None:
        """No correction is known."""

    monkeypatch.setattr(BitSearch, "corrected", none)
    again = quantize(network.stablehlo_text(), network.samples(16), "mixed")
    assert str(model.module) == str(again.module)
    assert str(model.resolved) == str(again.resolved)


def test_results_in_floats_that_are_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bit_search, "_MOST_BYTES", 0)
    assert new_result("40 B").search == result("40 B").search


def test_simulations_are_close_to_integers(brute_force: BitSearch):
    for choice in ((2, 0, 2), (0, 0, 1)):
        brute_force.confirm(choice)
        exact = brute_force.confirmed[choice].sqnr
        assert brute_force.measured[choice].sqnr == pytest.approx(exact, abs=0.5)


def two_dense_layers(net: Builder, x: Value) -> Value:
    return net.dense(net.dense(x, 8, "relu"), 3)


def test_simulations_of_tensorflow_lite():
    """Only the widest assignment and the chosen one are measured with integers."""
    text = text_of_network(two_dense_layers, (1, 6), TFLiteBuilder())
    search = search_of(text, "80 B")
    assert len(search.measured) == 4
    assert [*search.confirmed] == [(1, 1), (0, 0)]
    for choice, exact in search.confirmed.items():
        simulated = search.measured[choice]
        assert simulated is not exact
        assert simulated.sqnr == pytest.approx(exact.sqnr, abs=0.5)
