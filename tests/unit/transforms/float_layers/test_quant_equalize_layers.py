"""Channels between two products, with weights of the same size in both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.unit.transforms.weights.layers import (
    CONVOLUTION,
    Array,
    constant,
    normal,
    relative,
    run,
    type_of,
)
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.weights.quant_quantize_weights import weight_of

PASS = "quant-equalize-layers"
EXACT = "quant-equalize-layers{factors=power-of-two}"

X, H, Y = type_of(4, 6), type_of(4, 5), type_of(4, 3)

# Channels of very different size, one of them zero.
SIZES = np.array([100, 1, 0.01, 0, 3], np.float32)
FIRST = normal(6, 5) * SIZES
SECOND = normal(5, 3, seed=1)
BIAS = normal(5, seed=2) * SIZES
ARGUMENT = normal(4, 6, seed=3)


def perceptron(*between: str, value: str = "%r") -> str:
    lines = "\n  ".join(between)
    return f"""
func.func @main(%x: {X}) -> {Y} {{
  {constant("w", FIRST, "stablehlo")}
  {constant("v", SECOND, "stablehlo")}
  {constant("b", BIAS, "stablehlo")}
  %zeros = stablehlo.constant dense<0.0> : {H}
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : ({type_of(5)}) -> {H}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : ({X}, {type_of(6, 5)}) -> {H}
  {lines}
  %z = stablehlo.dot_general {value}, %v, contracting_dims = [1] x [0]
    : ({H}, {type_of(5, 3)}) -> {Y}
  return %z : {Y}
}}"""


RELU = f"%r = stablehlo.maximum %a, %zeros : {H}"
ADD = f"%a = stablehlo.add %y, %bb : {H}"


def weights_of(module: ModuleOp) -> Sequence[Array]:
    return [
        elements
        for op in module.walk()
        if (weight := weight_of(op)) is not None
        and (elements := weight.elements()) is not None
    ]


def changed(
    text: str, argument: Array, passes: str = PASS, within: float = 1e-6
) -> Sequence[Array]:
    """The weights after the pass, which keeps the results."""
    module = parse_module(text)
    expected = run(module, argument)
    apply_passes(module, passes)
    found = run(module, argument)
    if passes == EXACT:
        assert np.array_equal(found, expected)
    assert relative(expected, found) < within
    return weights_of(module)


def largest(weights: Array, dimension: int) -> Array:
    return np.abs(
        np.moveaxis(weights, dimension, 0).reshape(weights.shape[dimension], -1)
    ).max(1)


@pytest.mark.parametrize(
    "between",
    [
        ([], "%y"),
        ([ADD], "%a"),
        ([ADD, RELU], "%r"),
        ([RELU.replace("%a", "%y")], "%r"),
        ([RELU.replace("%a, %zeros", "%zeros, %y")], "%r"),
        ([RELU.replace("%a", "%y").replace("maximum", "minimum")], "%r"),
    ],
)
def test_the_largest_weights_of_a_channel_are_equal(between: tuple[list[str], str]):
    body, value = between
    text = perceptron(*body, value=value)
    first, second = changed(text, ARGUMENT)
    geometric = np.sqrt(largest(FIRST, 1) * largest(SECOND, 0))
    used = SIZES > 0
    for found, dimension in ((first, 1), (second, 0)):
        np.testing.assert_allclose(
            largest(found, dimension)[used], geometric[used], rtol=1e-6
        )
    # The channel of zeros stays.
    assert np.array_equal(second[~used], SECOND[~used])
    first, second = changed(text, ARGUMENT, EXACT)
    quotient = largest(first, 1)[used] / largest(second, 0)[used]
    assert ((quotient > 0.49) & (quotient < 2.01)).all()
    factors = FIRST[0, used] / first[0, used]
    assert np.array_equal(factors, 2.0 ** np.rint(np.log2(factors)))


def test_three_layers_and_a_second_run():
    sizes = np.array([1, 50, 2, 3, 0.1, 1], np.float32)
    text = f"""
func.func @main(%x: {X}) -> {Y} {{
  {constant("u", normal(6, 6, seed=5) * sizes, "stablehlo")}
  {constant("w", FIRST, "stablehlo")}
  {constant("v", SECOND, "stablehlo")}
  %t = stablehlo.dot_general %x, %u, contracting_dims = [1] x [0]
    : ({X}, {type_of(6, 6)}) -> {X}
  %y = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0]
    : ({X}, {type_of(6, 5)}) -> {H}
  %z = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0]
    : ({H}, {type_of(5, 3)}) -> {Y}
  return %z : {Y}
}}"""
    one, two, three = changed(text, ARGUMENT)
    np.testing.assert_allclose(largest(one, 1), largest(two, 0), rtol=0.03)
    used = SIZES > 0
    np.testing.assert_allclose(
        largest(two, 1)[used], largest(three, 0)[used], rtol=0.03
    )
    module = parse_module(text)
    apply_passes(module, PASS)
    once = str(module)
    apply_passes(module, PASS)
    assert str(module) == once


@pytest.mark.parametrize(
    "between",
    [
        ([f"%r = stablehlo.tanh %y : {H}"], "%r"),
        ([ADD, f"%r = stablehlo.maximum %a, %bb : {H}"], "%r"),
        ([ADD, f"%r = stablehlo.maximum %a, %y : {H}"], "%r"),
        ([ADD, f"%r = stablehlo.multiply %a, %zeros : {H}"], "%r"),
        (
            [
                f"%s = stablehlo.maximum %zeros, %zeros : {H}",
                ADD,
                f"%r = stablehlo.add %a, %s : {H}",
            ],
            "%r",
        ),
    ],
)
def test_what_stays(between: tuple[list[str], str]):
    body, value = between
    module = parse_module(perceptron(*body, value=value))
    before = str(module)
    apply_passes(module, PASS)
    assert str(module) == before


@pytest.mark.sampled(5)
@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6"])
@pytest.mark.parametrize("between", ["", "tfl.relu", "tfl.leaky_relu", "tfl.relu6"])
def test_convolutions_of_tflite(activation: str, between: str):
    image, hidden = type_of(1, 4, 4, 2), type_of(1, 4, 4, 5)
    value, line = "%d", ""
    if between:
        alpha = "<{alpha = 0.5 : f32}> " if "leaky" in between else ""
        value, line = "%r", f'%r = "{between}"(%d) {alpha}: ({hidden}) -> {hidden}'
    text = f"""
func.func @main(%x: {image}) -> {type_of(1, 4, 4, 3)} {{
  {constant("u", normal(5, 3, 3, 2) * SIZES.reshape(-1, 1, 1, 1), "tfl")}
  {constant("v", normal(1, 3, 3, 5, seed=4), "tfl")}
  {constant("w", normal(3, 1, 1, 5, seed=5), "tfl")}
  {constant("b", BIAS, "tfl")}
  %n = "tfl.no_value"() <{{value}}> : () -> none
  %c = "tfl.conv_2d"(%x, %u, %b) <{{fused_activation_function = "{activation}",
    {CONVOLUTION}}}> : ({image}, {type_of(5, 3, 3, 2)}, {type_of(5)}) -> {hidden}
  %d = "tfl.depthwise_conv_2d"(%c, %v, %b) <{{fused_activation_function = "NONE",
    depth_multiplier = 1 : i32, {CONVOLUTION}}}>
    : ({hidden}, {type_of(1, 3, 3, 5)}, {type_of(5)}) -> {hidden}
  {line}
  %z = "tfl.conv_2d"({value}, %w, %n) <{{fused_activation_function = "NONE",
    {CONVOLUTION}}}> : ({hidden}, {type_of(3, 1, 1, 5)}, none) -> {type_of(1, 4, 4, 3)}
  return %z : {type_of(1, 4, 4, 3)}
}}"""
    # Sums that are larger than 6 by far are rounded before they are cut off.
    within = 1e-5 if between == "tfl.relu6" else 1e-6
    one, two, three = changed(text, normal(1, 4, 4, 2, seed=6), within=within)
    used = SIZES > 0
    first = largest(one, 0)[used], largest(two, 3)[used]
    second = largest(two, 3), largest(three, 3)
    is_first, is_second = (
        bool(np.allclose(*pair, rtol=0.05)) for pair in (first, second)
    )
    assert is_first == (activation != "RELU6")
    if activation == "RELU6":
        assert is_second == (between != "tfl.relu6")


def test_groups_stay():
    image, hidden = type_of(1, 4, 4, 2), type_of(1, 4, 4, 4)
    text = f"""
func.func @main(%x: {image}) -> {hidden} {{
  {constant("u", normal(4, 3, 3, 2), "tfl")}
  {constant("v", normal(4, 3, 3, 2, seed=4), "tfl")}
  %n = "tfl.no_value"() <{{value}}> : () -> none
  %c = "tfl.conv_2d"(%x, %u, %n) <{{fused_activation_function = "NONE", {CONVOLUTION}}}>
    : ({image}, {type_of(4, 3, 3, 2)}, none) -> {hidden}
  %d = "tfl.conv_2d"(%c, %v, %n) <{{fused_activation_function = "NONE", {CONVOLUTION}}}>
    : ({hidden}, {type_of(4, 3, 3, 2)}, none) -> {hidden}
  return %d : {hidden}
}}"""
    module = parse_module(text)
    before = str(module)
    apply_passes(module, PASS)
    assert str(module) == before


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolutions_of_stablehlo(groups: int):
    image, hidden = type_of(1, 4, 4, 2), type_of(1, 4, 4, 4)
    inputs = 4 // groups
    numbers = "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
    text = f"""
func.func @main(%x: {image}) -> {hidden} {{
  {constant("u", normal(1, 1, 2, 4) * SIZES[[0, 1, 2, 4]], "stablehlo")}
  {constant("v", normal(1, 1, inputs, 4, seed=4), "stablehlo")}
  %c = stablehlo.convolution(%x, %u) {numbers}, window = {{}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : ({image}, {type_of(1, 1, 2, 4)}) -> {hidden}
  %d = stablehlo.convolution(%c, %v) {numbers}, window = {{}}
    {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : ({hidden}, {type_of(1, 1, inputs, 4)}) -> {hidden}
  return %d : {hidden}
}}"""
    module = parse_module(text)
    before = str(module)
    apply_passes(module, PASS)
    assert (str(module) == before) == (groups == 2)
    one, two = changed(text, normal(1, 4, 4, 2))
    if groups != 2:
        dimension = 2 if groups == 1 else 3
        np.testing.assert_allclose(largest(one, 3), largest(two, dimension), rtol=1e-6)
