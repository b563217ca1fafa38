"""Warnings of quantized models that are of no use, and of values that are lost."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.quantizer import (
    Override,
    QuantizedModel,
    Recipe,
    WeightOptions,
    quantize,
    read_recipe,
)
from xdsl_quant.quantizer.errors import Error, float_module, quantized_module
from xdsl_quant.quantizer.recipe_files import RecipeError, parse_recipe
from xdsl_quant.quantizer.recording import RecordedModule
from xdsl_quant.quantizer.user_warnings import (
    warn_of_low_sqnr,
    warn_of_worse_results,
)

from .models import PLAIN, Floats, samples
from .networks import NETWORKS

DATA = Path(__file__).parent / "data"
DETECTOR = DATA / "yolo_head.tflite"


@pytest.fixture(scope="module")
def images() -> Floats:
    """What the detector was reported with."""
    with np.load(DATA / "yolo_head_d.npz") as file:
        return file["x"][:8]


def scores_sqnr(model: QuantizedModel, images: Floats) -> float:
    """The SQNR of the scores of the detector, without those of the boxes."""
    exact = RecordedModule.of(float_module(model.reference), None)
    actual = RecordedModule.of(quantized_module(model.resolved), None)
    error = Error()
    for image in images[:, np.newaxis]:
        expected, found = (
            run.values(image)["main:output:0"][..., 4:] for run in (exact, actual)
        )
        error.add(expected, found, None)
    return error.sqnr


@pytest.mark.sampled(0)
def test_scores_that_share_the_scale_of_boxes(images: Floats):
    message = (
        "loc(\"y\"): 'tfl.concatenation' shares one scale between operands of "
        "different ranges: "
        'loc("scs") from'
    )
    with pytest.warns(UserWarning, match=re.escape(message)) as found:
        model = quantize(DETECTOR, images, PLAIN)
    (warning,) = found
    text = str(warning.message)
    assert ' spans only 0.4 steps of the scale of loc("boxm") from ' in text
    assert text.endswith(
        "; set 'float-concatenations = true' in the recipe to keep 'tfl.concatenation' in "
        "floating point"
    )
    assert scores_sqnr(model, images) == 0
    kept = quantize(
        DETECTOR, images, Recipe(bias_correction=False, float_concatenations=True)
    )
    assert scores_sqnr(kept, images) > 43.5
    storage = {
        each.kernel: each.result_type for each in kept.report(images[:1]).kernels
    }
    assert not storage["tfl.concatenation"]
    assert storage["tfl.reshape"].startswith("!quant.uniform<i8")


@pytest.mark.sampled(0)
def test_a_concatenation_that_is_in_floating_point_already(images: Floats):
    override = Override(ops=("tfl.concatenation",), keep_float=True)
    model = quantize(
        DETECTOR, images, Recipe(bias_correction=False, overrides=(override,))
    )
    assert scores_sqnr(model, images) > 43.5


def scores_and_boxes(factor: float) -> str:
    """Numbers below 1, and numbers that are `factor` times larger, side by side."""
    x, z = "tensor<1x4xf32>", "tensor<1x8xf32>"
    return f"""
func.func @main(%x: {x}) -> {z} {{
  %c = stablehlo.constant dense<{factor}> : {x}
  %s = stablehlo.tanh %x : {x}
  %b = stablehlo.multiply %x, %c : {x}
  %y = stablehlo.concatenate %s, %b, dim = 1 : ({x}, {x}) -> {z}
  return %y : {z}
}}
"""


def test_sixteen_bits_have_room_for_both():
    data = samples(8, 4)
    with pytest.warns(UserWarning, match=r"spans only 0\.3 steps of the scale"):
        quantize(scores_and_boxes(640.0), data, PLAIN)
    wide = replace(read_recipe("int16x8"), bias_correction=False)
    module = quantize(scores_and_boxes(640.0), data, wide).module
    (both,) = (op for op in module.walk() if op.name == "stablehlo.concatenate")
    types = {
        str(scalar_or_element_type(value.type)).partition(":")[0]
        for value in (*both.operands, *both.results)
    }
    assert types == {"!quant.uniform<i16"}
    # Eight bits have room for similar ranges.
    quantize(scores_and_boxes(4.0), data, PLAIN)


def test_the_option_in_a_file():
    recipe = parse_recipe("float-concatenations = true")
    assert recipe.float_concatenations
    assert not parse_recipe("").float_concatenations
    with pytest.raises(
        RecipeError, match="has no effect in mode 'weight-only'; leave it out"
    ):
        parse_recipe('mode = "weight-only"\nfloat-concatenations = true')


def test_results_with_much_noise():
    message = (
        "low SQNR of result 'b': 3.0 dB on the samples, expected 10 dB or more; give more "
        "bits to the kernels with the largest errors in the report, or keep them in "
        "floating point"
    )
    errors = {"a": Error(8.0, 1.0), "b": Error(2.0, 1.0), "c": Error(0.0, 1.0)}
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        warn_of_low_sqnr(errors)
    warn_of_low_sqnr({"a": Error(10.0, 1.0), "b": Error(1.0, 0.0)})
    warn_of_low_sqnr({"a": Error(math.nan, math.nan)})


def test_steps_that_make_results_worse():
    message = (
        "'rounding' reduces the SQNR of the results from 20.0 dB to 10.0 dB; leave it "
        "out"
    )
    before, after = {"a": Error(100.0, 1.0)}, {"a": Error(10.0, 1.0)}
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        warn_of_worse_results("'rounding'", before, after)
    warn_of_worse_results("'rounding'", after, before)
    warn_of_worse_results("'rounding'", before, {"a": Error(95.0, 1.0)})


@pytest.mark.parametrize("bits", [2, 8])
def test_a_model_that_is_of_no_use(bits: int):
    model = NETWORKS["mlp"]
    text = f"""mode = "weight-only"
bias-correction = false
[weights]
bits = {bits}
"""
    recipe = parse_recipe(text)
    if bits == 8:
        quantize(model.tfl_text(), model.samples(8), recipe)
        return
    with pytest.warns(UserWarning, match="low SQNR of result 'main:output:0': "):
        quantize(model.tfl_text(), model.samples(8), recipe)


def test_a_result_that_quantization_destroys():
    x = "tensor<1x2xf32>"
    text = f"""
func.func @main(%x: {x}, %c: {x}) -> {x} {{
  %y = stablehlo.add %x, %c : {x}
  %z = stablehlo.subtract %y, %c : {x}
  return %z : {x}
}}
"""
    message = (
        "low SQNR of result 'main:output:0': 0.0 dB on the samples, expected 10 dB or "
        "more; give more bits to the kernels with the largest errors in the report, or "
        "keep them in floating point"
    )
    # A step of the sums is 3.9.
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        quantize(text, [tuple(np.array([[[1, 0]], [[1000, 1000]]], np.float32))], PLAIN)


def test_a_rounding_that_makes_results_worse():
    x, w, y = "tensor<1x3xf32>", "tensor<3x1xf32>", "tensor<1x1xf32>"
    text = f"""
func.func @main(%x: {x}) -> {y} {{
  %w = stablehlo.constant dense<[[-0.01], [1.05], [0.74]]> : {w}
  %c = stablehlo.constant dense<0.0> : {y}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
  %z = stablehlo.maximum %y, %c : {y}
  return %z : {y}
}}
"""
    # GPTQ rounds for all three; the last one has a negative product, which is lost.
    data = [[0.82, 0.72, 0.77], [1.43, 1.63, 1.53], [-1.36, -1.37, -1.33]]
    message = (
        "'rounding = \"gptq\"' reduces the SQNR of the results from 61.0 dB to 51.5 dB; "
        "leave it out"
    )
    recipe = replace(PLAIN, weights=WeightOptions(rounding="gptq"))
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        quantize(text, np.array(data, np.float32), recipe)
