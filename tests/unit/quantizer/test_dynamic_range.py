"""Recipes of mode `dynamic-range`: activations are quantized when the model runs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from examples.classifiers.forms import tfl_text
from examples.classifiers.networks import load_network
from tests.real_stablehlo import RealStableHLO
from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import (
    Override,
    QuantizedModel,
    Recipe,
    RecipeError,
    WeightOptions,
    quantize,
)
from xdsl_quant.quantizer.dynamic_ranges import quantize_activations
from xdsl_quant.quantizer.weight_only import quantize_weights
from xdsl_quant.quantizer.weight_rounding import corrected_biases
from xdsl_quant.runtime.loading import apply_passes, parse_module

from .models import TO_LINALG, Floats, dense_layers, samples
from .test_weight_only import FULLY_CONNECTED

PLAIN = Recipe("mine", bias_correction=False, mode="dynamic-range")


def weight_types(model: QuantizedModel) -> list[str]:
    """The types of what products take as weights."""
    return [
        str(op.operands[1].type).split("!")[-1][:24]
        for op in model.module.walk()
        if len(op.operands) == 3
    ]


@pytest.mark.sampled(4)
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
    model = quantize(tfl_text(network), network.samples[:16], "dynamic-range")
    model.save(path)
    file = LiteRT(path.read_bytes())
    run = compile(model.module)
    for x in network.samples[32:40, None]:
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
    message = (
        "^unsupported target in mode 'dynamic-range' of recipe 'mine'; leave it out$"
    )
    with pytest.raises(ValueError, match=message):
        quantize(FULLY_CONNECTED, samples(4, 8), PLAIN, target="tflite-int8")


# StableHLO

RECTIFIED = dense_layers().replace("tanh %y", "maximum %y, %y")
"""Without `tanh`, of which no two functions give the same last digit."""


def function(op: str, lhs: str, weights: Floats, result: str) -> str:
    """A product by constant weights, and a sign that its result is used."""
    shape = "x".join(map(str, weights.shape))
    return f"""
func.func public @main(%x: tensor<{lhs}xf32>) -> tensor<{result}xf32> {{
  %w = stablehlo.constant dense<{weights.tolist()}> : tensor<{shape}xf32>
  %y = {op} : (tensor<{lhs}xf32>, tensor<{shape}xf32>) -> tensor<{result}xf32>
  return %y : tensor<{result}xf32>
}}
"""


def storable(shape: tuple[int, ...], dimension: int | None) -> Floats:
    """Weights without an error of rounding, with a scale for each index of a dimension."""
    weights = np.random.default_rng(2).integers(-126, 127, shape)
    channels = np.moveaxis(weights, 0 if dimension is None else dimension, 0)
    channels.reshape(len(channels), -1)[:, 0] = 127
    if dimension is not None:
        scales = 2.0 ** -np.arange(len(channels))
        weights = np.moveaxis(
            np.moveaxis(weights, dimension, -1) * scales, -1, dimension
        )
    return weights.astype(np.float32)


def results(module: ModuleOp, *inputs: Floats) -> list[NDArray[np.float32]]:
    """The result for each input, which is the same interpreted and compiled."""
    lowered = module.clone()
    apply_passes(lowered, TO_LINALG, is_routine=True)
    run = compile(lowered, "main")
    found = [run(x) for x in inputs]
    for x, result in zip(inputs, found, strict=True):
        np.testing.assert_array_equal(run_function(lowered, "main", x)[0], result)
    return found


def integers(text: str, recipe: Recipe = PLAIN) -> ModuleOp:
    """The quantized module, without what a call of `quantize` measures."""
    module = quantize_weights(parse_module(text), recipe)
    quantize_activations(module)
    module.verify()
    assert "quant" not in str(module)
    return module


CONVOLUTION = (
    "stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
    "window = {{stride = [2, 1], pad = [[1, 1], [0, 2]]}} {{batch_group_count = {} : i64, "
    "feature_group_count = {} : i64, "
    "precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}}"
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("op", "lhs", "shape", "dimension", "result", "axes"),
    [
        (
            "stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], "
            "precision = [DEFAULT, HIGHEST]",
            (4, 6),
            (6, 5),
            1,
            "4x5",
            (1,),
        ),
        (
            "stablehlo.dot_general %x, %w, batching_dims = [2] x [0], "
            "contracting_dims = [0] x [1]",
            (6, 3, 2),
            (2, 6, 5),
            2,
            "2x3x5",
            (0,),
        ),
        (
            "stablehlo.dot_general %x, %w, contracting_dims = [2, 0] x [1, 2]",
            (3, 4, 2),
            (5, 2, 3, 2),
            None,
            "4x5x2",
            (0, 2),
        ),
        (CONVOLUTION.format(1, 1), (2, 4, 5, 2), (2, 3, 2, 3), 3, "2x3x5x3", (1, 2, 3)),
        (CONVOLUTION.format(1, 2), (2, 4, 5, 4), (2, 3, 2, 6), 3, "2x3x5x6", (1, 2, 3)),
        (CONVOLUTION.format(2, 1), (4, 4, 5, 2), (2, 3, 2, 4), 3, "2x3x5x4", None),
    ],
    ids=["dot", "batched", "two_dimensions", "convolution", "groups", "batch_groups"],
)
def test_products_of_stablehlo(
    op: str,
    lhs: tuple[int, ...],
    shape: tuple[int, ...],
    dimension: int | None,
    result: str,
    axes: tuple[int, ...] | None,
):
    text = function(op, "x".join(map(str, lhs)), storable(shape, dimension), result)
    rng = np.random.default_rng(3)
    magnitudes = 10.0 ** rng.integers(-3, 3, [lhs[0], *[1] * (len(lhs) - 1)])
    x = (rng.uniform(-1, 1, lhs) * magnitudes).astype(np.float32)
    module = integers(text)
    (product,) = (
        op
        for op in module.walk()
        if op.name in ("stablehlo.dot_general", "stablehlo.convolution")
    )
    assert [
        str(value.type)[-4:] for value in (*product.operands, *product.results)
    ] == [
        "xi8>",
        "xi8>",
        "i32>",
    ]
    scales: Floats = np.abs(x).max(axes, keepdims=True) / np.float32(127)
    rounded: Floats = np.round(x / scales) * scales
    (found,) = results(module, x)
    (expected,) = results(parse_module(text), rounded)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    (real,) = RealStableHLO().results(str(module), x)
    np.testing.assert_array_equal(found, real)


def test_biases_of_stablehlo_take_back_the_error_of_rounding_activations():
    op = "stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]"
    text = function(op, "4x6", storable((6, 5), 1), "4x5")
    x = samples(4, 6)
    biased = corrected_biases(
        parse_module(text), quantize_weights(parse_module(text), PLAIN), [x]
    )
    modules = parse_module(text), integers(str(biased)), integers(text)
    expected, corrected, uncorrected = (
        results(module, x)[0].mean(axis=0) for module in modules
    )
    np.testing.assert_allclose(corrected, expected, rtol=0, atol=1e-5)
    assert np.abs(uncorrected - expected).max() > 1e-2


def test_zeros_and_values_that_are_not_finite():
    module = integers(RECTIFIED)
    x = samples(4, 6)
    x[0], x[1, 2], x[2] = 0, np.nan, 1e-44
    with_zeros = samples(4, 6)
    with_zeros[0] = with_zeros[2] = 0
    found, expected = results(module, x, with_zeros)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[[0, 3]], expected[[0, 3]])
    np.testing.assert_allclose(found[2], expected[0], rtol=0, atol=1e-35)


def test_the_report_about_stablehlo(tmp_path: Path):
    x = samples(16, 6)
    model = quantize(RECTIFIED, x, "dynamic-range")
    batches = np.split(x, 4)
    expected, found = (
        np.concatenate(results(module, *batches)).astype(np.float64)
        for module in (parse_module(RECTIFIED), model.module)
    )
    sqnr = 10 * math.log10(
        np.square(expected).sum() / np.square(expected - found).sum()
    )
    report = model.report(x)
    assert round(report.outputs["main:output:0"], 3) == round(sqnr, 3) > 40
    assert [each.kernel for each in report.kernels] == ["stablehlo.dot_general"] * 2
    assert (report.float_bytes, report.stored_bytes) == (72 * 4, 72)
    model.save(tmp_path / "model.mlir")
    assert (tmp_path / "model.mlir").read_text() == f"{model.module!s}\n"


@pytest.mark.parametrize("bits", [2, 4])
def test_narrow_weights_of_stablehlo(bits: int):
    module = integers(RECTIFIED, replace(PLAIN, weights=WeightOptions(bits)))
    x = samples(4, 6)
    assert f"tensor<6x8xi{bits}>) -> tensor<6x8xi8>" in str(module)
    (found,) = results(module, x)
    (real,) = RealStableHLO().results(str(module), x)
    np.testing.assert_array_equal(found, real)


@pytest.mark.parametrize("element_type", ["f16", "f64"])
def test_other_floats_of_stablehlo(element_type: str):
    dtype = np.dtype(element_type.replace("f", "float"))
    text, x = RECTIFIED.replace("f32", element_type), samples(4, 6).astype(dtype)
    module = integers(text)
    found, expected = (results(each, x)[0] for each in (module, parse_module(text)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.03)
    (real,) = RealStableHLO().results(str(module), x)
    np.testing.assert_array_equal(found, real)


def test_other_products_of_stablehlo_dequantize_their_weights():
    text = """
func.func public @main(%x: tensor<4x2xf32>) -> tensor<4x2x2xf32> {
  %w = stablehlo.constant dense<[[127.0, 2.0], [3.0, 254.0]]> : tensor<2x2xf32>
  %v = stablehlo.constant dense<[0.5, 63.5]> : tensor<2xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %z = stablehlo.dot_general %y, %v, contracting_dims = [] x []
    : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2x2xf32>
  return %z : tensor<4x2x2xf32>
}
"""
    x = samples(4, 2)
    per_tensor = replace(PLAIN, weights=WeightOptions(8, "tensor"))
    for recipe in (PLAIN, per_tensor):
        module = integers(text, recipe)
        (found,) = results(module, x)
        (real,) = RealStableHLO().results(str(module), x)
        np.testing.assert_array_equal(found, real)


def test_stablehlo_without_integer_form():
    with pytest.raises(ValueError, match="quantize activations") as caught:
        quantize_weights(parse_module(dense_layers("?")), PLAIN)
    assert str(caught.value) == (
        "cannot quantize activations at run time: 2 "
        "'stablehlo.dot_general': unsupported dynamic sizes; use mode 'weight-only'"
    )


def test_blocks_of_stablehlo_are_dequantized():
    blocks = replace(PLAIN, weights=WeightOptions(4, "block", 2))
    x = samples(4, 6)
    with pytest.warns(UserWarning, match="activations stay in floating") as caught:
        model = quantize(dense_layers(), x, blocks)
    assert str(caught[0].message) == (
        "activations stay in floating point: 2 'stablehlo.dot_general': unsupported "
        "weights, expected per-tensor or per-axis types of 2, 4 or 8 bits"
    )
    expected = quantize(dense_layers(), x, replace(blocks, mode="weight-only"))
    assert str(model.module) == str(expected.module)


def test_sums_of_more_than_32_bits():
    op = "stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]"
    text = function(op, "1x9", np.full((9, 1), 0.5, np.float32), "1x1")
    text = re.sub(r"dense<.*?>", "dense<0.5>", text).replace("9x", "140000x")
    message = "'stablehlo.dot_general': sums of up to 33 bits exceed 32 bits;"
    with pytest.raises(ValueError, match=message):
        quantize_weights(parse_module(text), PLAIN)


def test_stablehlo_has_no_zero_points_of_activations():
    message = (
        "^recipe 'mine': 'asymmetric-inputs' has no effect on 'stablehlo.dot_general', "
        "whose activations have no zero points; leave it out$"
    )
    with pytest.raises(RecipeError, match=message):
        integers(RECTIFIED, replace(PLAIN, asymmetric_inputs=True))
    symmetric = integers(RECTIFIED, replace(PLAIN, asymmetric_inputs=False))
    assert str(symmetric) == str(integers(RECTIFIED))


@pytest.mark.parametrize("recipe", ["dynamic-range", "int8-weights"])
def test_products_that_no_sample_runs(recipe: str):
    """The report has no error of a product in a branch that is never taken."""
    text = """
func.func @main(%x: tensor<1x2xf32>, %p: tensor<i1>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, -4.0]]> : tensor<2x2xf32>
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    stablehlo.return %1 : tensor<1x2xf32>
  }, {
    stablehlo.return %x : tensor<1x2xf32>
  }) : (tensor<i1>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}"""
    data = [(np.array([[1, -2]], np.float32), np.array(False))]
    report = quantize(text, data, recipe).report(data)
    (product,) = report.kernels
    assert math.isnan(product.sqnr)
    assert str(report).splitlines()[-2] == "SQNR of the results: main:output:0 exact"
