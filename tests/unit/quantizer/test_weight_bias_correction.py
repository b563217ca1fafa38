"""Biases that make up for the mean error of products."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.transforms.weights.layers import (
    CONVOLUTION,
    Array,
    constant,
    normal,
    run,
    type_of,
)
from xdsl_quant.numerics import dequantize
from xdsl_quant.numerics import quantize as quantize_array
from xdsl_quant.numerics.weights import weight_parameters
from xdsl_quant.quantizer import Recipe, WeightOptions, quantize
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.transforms.weights.layers.channels import constant_numbers

from .models import dense_layers, samples

X, H, Y = type_of(4, 6), type_of(4, 5), type_of(4, 3)
FIRST, SECOND, BIAS = normal(6, 5), normal(5, 3, seed=1), normal(5, seed=2)
DATA = np.abs(normal(12, 6, seed=3))

PERCEPTRON = f"""
func.func @main(%x: {X}) -> {Y} {{
  {constant("w", FIRST, "stablehlo")}
  {constant("v", SECOND, "stablehlo")}
  {constant("b", BIAS, "stablehlo")}
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : ({type_of(5)}) -> {H}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : ({X}, {type_of(6, 5)}) -> {H}
  %a = stablehlo.add %y, %bb : {H}
  %t = stablehlo.tanh %a : {H}
  %z = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0]
    : ({H}, {type_of(5, 3)}) -> {Y}
  return %z : {Y}
}}"""


def recipe(bits: int, *, bias_correction: bool = True) -> Recipe:
    return Recipe(
        "mine",
        mode="weight-only",
        weights=WeightOptions(bits, "tensor"),
        bias_correction=bias_correction,
    )


def stored(weights: Array, bits: int) -> Array:
    parameters = weight_parameters(weights, weights.shape, bits=bits)
    return dequantize(quantize_array(weights, parameters), parameters)


def test_biases_of_numpy():
    model = quantize(PERCEPTRON, DATA, recipe(3))
    hidden = np.tanh(DATA @ FIRST + BIAS)
    first, second = stored(FIRST, 3), stored(SECOND, 3)
    # The second product has no bias before.
    biases = (
        BIAS + (DATA @ (FIRST - first)).mean(0),
        (hidden @ (SECOND - second)).mean(0),
    )
    expected = np.tanh(DATA[:4] @ first + biases[0]) @ second + biases[1]
    found = run(model.module, DATA[:4])
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    plain = quantize(PERCEPTRON, DATA, recipe(3, bias_correction=False))
    before, after = (
        each.report(DATA).outputs["main:output:0"] for each in (plain, model)
    )
    assert after > before + 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_convolution_of_tflite(activation: str, has_bias: bool):
    image, kernel = type_of(1, 4, 4, 2), normal(5, 3, 3, 2)
    b, b_type = ("%b", type_of(5)) if has_bias else ("%n", "none")
    text = f"""
func.func @main(%x: {image}) -> {type_of(1, 4, 4, 5)} {{
  {constant("w", kernel, "tfl")}
  {constant("b", BIAS, "tfl")}
  %n = "tfl.no_value"() <{{value}}> : () -> none
  %y = "tfl.conv_2d"(%x, %w, {b}) <{{fused_activation_function = "{activation}",
    {CONVOLUTION}}}> : ({image}, {type_of(5, 3, 3, 2)}, {b_type}) -> {type_of(1, 4, 4, 5)}
  return %y : {type_of(1, 4, 4, 5)}
}}"""
    data = np.abs(normal(3, 4, 4, 2, seed=4))
    model = quantize(text, data, recipe(3))
    (product,) = [op for op in model.module.walk() if op.name == "tfl.conv_2d"]
    found = constant_numbers(product.operands[2])
    assert found is not None
    linear = parse_module(text.replace("RELU", "NONE"))
    quantized = parse_module(
        text.replace("RELU", "NONE").replace(
            constant("w", kernel, "tfl"), constant("w", stored(kernel, 3), "tfl")
        )
    )
    errors = [run(linear, x[np.newaxis]) - run(quantized, x[np.newaxis]) for x in data]
    expected = np.mean(errors, (0, 1, 2, 3)) + (BIAS if has_bias else 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_a_network_whose_products_cannot_have_biases():
    x = samples(4, 6)
    corrected, plain = (
        quantize(dense_layers("?"), x, recipe(4, bias_correction=wanted)).module
        for wanted in (True, False)
    )
    assert str(corrected) == str(plain)


def test_products_that_are_not_finite():
    data = samples(8, 6)
    data[5] = 3e38
    with pytest.raises(ValueError, match="non-finite") as caught:
        quantize(dense_layers(), data, "int8-weights")
    assert str(caught.value) == (
        "module:4:3: error: 'stablehlo.dot_general' op has non-finite results, found "
        "-inf; use samples that lead to finite values"
    )
