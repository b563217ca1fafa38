"""Batch normalization in the weights of the product before it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.transforms.weights.layers import (
    CONVOLUTION,
    Array,
    constant,
    normal,
    relative,
    run,
    type_of,
)
from xdsl_quant.quantizer import Request, pipeline
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.weights.quant_quantize_weights import weight_of

X, Y = type_of(4, 6), type_of(4, 3)
W, S, T = normal(6, 3), normal(3, seed=1), normal(3, seed=2)
ARGUMENT = normal(4, 6, seed=3)
PASS = "quant-fold-batch-norm"


def dot_general(*body: str, result: str = "%z") -> str:
    lines = "\n  ".join(body)
    return f"""
func.func @main(%x: {X}) -> {Y} {{
  {constant("w", W, "stablehlo")}
  {constant("s", S, "stablehlo")}
  {constant("t", T, "stablehlo")}
  %sb = stablehlo.broadcast_in_dim %s, dims = [1] : ({type_of(3)}) -> {Y}
  %tb = stablehlo.broadcast_in_dim %t, dims = [1] : ({type_of(3)}) -> {Y}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : ({X}, {type_of(6, 3)}) -> {Y}
  {lines}
  return {result} : {Y}
}}"""


def check(text: str, *arguments: Array) -> str:
    """Fold, compare results, and give the text."""
    module = parse_module(text)
    expected = run(module, *arguments)
    apply_passes(module, PASS)
    assert relative(expected, run(module, *arguments)) < 1e-6
    return str(module)


@pytest.mark.parametrize(
    "body",
    [
        [f"%z = stablehlo.multiply %y, %sb : {Y}"],
        [f"%z = stablehlo.multiply %sb, %y : {Y}"],
        [f"%z = stablehlo.divide %y, %sb : {Y}"],
    ],
)
def test_a_factor_goes(body: list[str]):
    text = check(dot_general(*body), ARGUMENT)
    assert [name for name in ("multiply", "divide", "add ") if name in text] == []
    assert "%s " not in text


def test_weights_are_products_rounded_once():
    module = parse_module(dot_general(f"%z = stablehlo.multiply %y, %sb : {Y}"))
    apply_passes(module, PASS)
    (product,) = [op for op in module.walk() if op.name == "stablehlo.dot_general"]
    weight = weight_of(product)
    assert weight is not None
    found = weight.elements()
    assert found is not None
    expected = (W.astype(np.float64) * S).astype(np.float32)
    assert np.array_equal(found, expected)


def test_batch_normalization_after_a_bias():
    text = check(
        dot_general(
            f"%a = stablehlo.add %y, %tb : {Y}",
            f"%b = stablehlo.subtract %a, %sb : {Y}",
            f"%c = stablehlo.multiply %b, %tb : {Y}",
            f"%z = stablehlo.add %sb, %c : {Y}",
        ),
        ARGUMENT,
    )
    assert [name for name in ("multiply", "subtract") if name in text] == []
    assert text.count("stablehlo.add") == 1


def test_a_factor_before_the_bias():
    text = check(
        dot_general(
            f"%a = stablehlo.multiply %y, %sb : {Y}",
            f"%z = stablehlo.add %a, %tb : {Y}",
        ),
        ARGUMENT,
    )
    assert "multiply" not in text
    assert text.count("stablehlo.add") == 1


def test_the_quantizer_skips_ops_that_batch_normalization_erased():
    text = dot_general(
        f"%a = stablehlo.add %y, %tb : {Y}",
        f"%b = stablehlo.multiply %a, %sb : {Y}",
        f"%z = stablehlo.add %b, %tb : {Y}",
    )
    stages = pipeline(Request(text, [ARGUMENT]))
    prepared = stages.run("prepare")
    assert "stablehlo.multiply" not in str(prepared)
    assert relative(run(parse_module(text), ARGUMENT), run(prepared, ARGUMENT)) < 1e-6


UNCHANGED = {
    "a sum is the bias": [f"%z = stablehlo.add %y, %tb : {Y}"],
    "the constant is divided": [f"%z = stablehlo.divide %sb, %y : {Y}"],
    "the product has two users": [
        f"%a = stablehlo.multiply %y, %sb : {Y}",
        f"%z = stablehlo.add %a, %y : {Y}",
    ],
    "the square": [f"%z = stablehlo.multiply %y, %y : {Y}"],
    "rows differ": [
        constant("r", normal(4, 3), "stablehlo"),
        f"%z = stablehlo.multiply %y, %r : {Y}",
    ],
    "one for each row": [
        constant("r", normal(4), "stablehlo"),
        f"%rb = stablehlo.broadcast_in_dim %r, dims = [0] : ({type_of(4)}) -> {Y}",
        f"%z = stablehlo.multiply %y, %rb : {Y}",
    ],
    "division by zero": [
        constant("r", np.array([1, 0, 1], np.float32), "stablehlo"),
        f"%rb = stablehlo.broadcast_in_dim %r, dims = [1] : ({type_of(3)}) -> {Y}",
        f"%z = stablehlo.divide %y, %rb : {Y}",
    ],
    "weights would overflow": [
        constant("r", np.array([3e38, 1, 1], np.float32), "stablehlo"),
        f"%rb = stablehlo.broadcast_in_dim %r, dims = [1] : ({type_of(3)}) -> {Y}",
        f"%z = stablehlo.multiply %y, %rb : {Y}",
    ],
    "no number": [
        constant("r", np.array([np.nan, 1, 1], np.float32), "stablehlo"),
        f"%rb = stablehlo.broadcast_in_dim %r, dims = [1] : ({type_of(3)}) -> {Y}",
        f"%z = stablehlo.multiply %y, %rb : {Y}",
    ],
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_stays(name: str):
    text = dot_general(*UNCHANGED[name])
    module = parse_module(text)
    before = str(module)
    apply_passes(module, PASS)
    assert str(module) == before


def test_weights_that_another_op_uses_stay():
    text = dot_general(
        f"%a = stablehlo.multiply %y, %sb : {Y}",
        f"%u = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({X}, "
        f"{type_of(6, 3)}) -> {Y}",
        f"%z = stablehlo.maximum %a, %u : {Y}",
    )
    assert "multiply" not in check(text, ARGUMENT)


def test_one_number_for_all_channels():
    text = dot_general(
        "%c = stablehlo.constant dense<2.5> : tensor<f32>",
        f"%cb = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {Y}",
        f"%z = stablehlo.multiply %y, %cb : {Y}",
    )
    assert "multiply" not in check(text, ARGUMENT)


def test_convolution_of_stablehlo():
    image, result = type_of(1, 5, 5, 2), type_of(1, 3, 4, 4)
    text = f"""
func.func @main(%x: {image}) -> {result} {{
  {constant("w", normal(2, 2, 2, 3), "stablehlo")}
  {constant("s", S, "stablehlo")}
  %sb = stablehlo.broadcast_in_dim %s, dims = [1] : ({type_of(3)}) -> {result}
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, f, 0, 1],
    window = {{}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : ({image}, {type_of(2, 2, 2, 3)}) -> {result}
  %z = stablehlo.multiply %y, %sb : {result}
  return %z : {result}
}}"""
    assert "multiply" not in check(text, normal(1, 5, 5, 2))


def test_linalg():
    text = f"""
func.func @main(%x: {X}) -> {Y} {{
  {constant("w", W, "arith")}
  {constant("s", np.tile(S, (4, 1)), "arith")}
  {constant("t", np.tile(T, (4, 1)), "arith")}
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {Y}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {Y}) -> {Y}
  %y = linalg.matmul ins(%x, %w : {X}, {type_of(6, 3)}) outs(%zeros : {Y}) -> {Y}
  %a = arith.addf %y, %t : {Y}
  %z = arith.mulf %a, %s : {Y}
  return %z : {Y}
}}"""
    assert "arith.mulf" not in check(text, ARGUMENT)
    # What the product is added to would have to be multiplied, too.
    text = text.replace("outs(%zeros", "outs(%t")
    module = parse_module(text)
    before = str(module)
    apply_passes(module, PASS)
    assert str(module) == before


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
def test_fully_connected(bias: bool, activation: str):
    b, b_type = ("%t", type_of(3)) if bias else ("%n", "none")
    text = f"""
func.func @main(%x: {X}) -> {Y} {{
  {constant("w", np.ascontiguousarray(W.T), "tfl")}
  {constant("s", S, "tfl")}
  {constant("t", T, "tfl")}
  %n = "tfl.no_value"() <{{value}}> : () -> none
  %y = "tfl.fully_connected"(%x, %w, {b}) <{{fused_activation_function = "NONE",
    keep_num_dims = false, weights_format = "DEFAULT"}}>
    : ({X}, {type_of(3, 6)}, {b_type}) -> {Y}
  %m = tfl.mul(%y, %s) <{{fused_activation_function = "NONE"}}> : ({Y}, {type_of(3)}) -> {Y}
  %z = tfl.add(%t, %m) <{{fused_activation_function = "{activation}"}}>
    : ({type_of(3)}, {Y}) -> {Y}
  return %z : {Y}
}}"""
    found = check(text, ARGUMENT)
    assert "tfl.mul" not in found
    assert "tfl.add" not in found
    assert f'"{activation}"' in found
    # Something between them stays where it is.
    text = text.replace(
        'fused_activation_function = "NONE",\n', 'fused_activation_function = "RELU",\n'
    )
    assert "tfl.mul" in check(text, ARGUMENT)


@pytest.mark.parametrize("op", ["conv_2d", "depthwise_conv_2d"])
def test_convolutions_of_tflite(op: str):
    is_depthwise = op == "depthwise_conv_2d"
    shape = (1, 2, 2, 3) if is_depthwise else (3, 2, 2, 3)
    extra = "depth_multiplier = 1 : i32, " if is_depthwise else ""
    image = type_of(1, 4, 4, 3)
    text = f"""
func.func @main(%x: {image}) -> {image} {{
  {constant("w", normal(*shape), "tfl")}
  {constant("s", S.reshape(1, 1, 1, 3), "tfl")}
  {constant("t", T, "tfl")}
  %y = "tfl.{op}"(%x, %w, %t) <{{{extra}fused_activation_function = "NONE", {CONVOLUTION}}}>
    : ({image}, {type_of(*shape)}, {type_of(3)}) -> {image}
  %z = tfl.mul(%y, %s) <{{fused_activation_function = "NONE"}}>
    : ({image}, {type_of(1, 1, 1, 3)}) -> {image}
  return %z : {image}
}}"""
    assert "tfl.mul" not in check(text, normal(1, 4, 4, 3))


def test_the_quantizer_folds():
    body = dot_general(
        f"%b = stablehlo.multiply %sb, %y : {Y}", f"%z = stablehlo.add %tb, %b : {Y}"
    )
    prepared = pipeline(Request(body, [])).run(until="prepare")
    names = {op.name for op in prepared.walk()}
    assert "stablehlo.multiply" not in names
    assert "stablehlo.add" in names, "the bias"
    found, expected = run(prepared, ARGUMENT), run(parse_module(body), ARGUMENT)
    assert relative(expected, found) < 1e-6
