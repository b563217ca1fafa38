"""Layers as products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.quantizer.recording import RecordedModule, record
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.transforms.weights.layers.inputs import matrix_product_of
from xdsl_quant.transforms.weights.layers.layer import layer_of

from .layers import constant, normal, relative, type_of


class Case(NamedTuple):
    """An op with the types X, W and Y."""

    op: str
    input: Sequence[int]
    weights: Sequence[int]
    result: Sequence[int]
    groups: int = 1
    has_probes: bool = True


def tfl(name: str, options: str, bias: str = "%b", bias_type: str = "B") -> str:
    return (
        f'"tfl.{name}"(%x, %w, {bias}) <{{{options}, fused_activation_function = "RELU"'
        f"}}> : (X, W, {bias_type}) -> Y"
    )


def window(padding: str, height: int, width: int, hole: int = 1) -> str:
    return (
        f'padding = "{padding}", stride_h = {height} : i32, stride_w = {width} : i32, '
        f"dilation_h_factor = {hole} : i32, dilation_w_factor = 1 : i32"
    )


def stablehlo(numbers: str, options: str, groups: int) -> str:
    return (
        f"stablehlo.convolution(%x, %w) dim_numbers = {numbers}, window = {{{options}}} "
        "{batch_group_count = 1 : i64, feature_group_count = "
        f"{groups} : i64}} : (X, W) -> Y"
    )


DENSE = 'keep_num_dims = false, weights_format = "DEFAULT"'
STEPS = "{dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}"
LINALG = "ins(%x, %w : X, W) outs(%o : Y) -> Y"
SAME = "pad = [[1, 1], [1, 1]], stride = [2, 1]"
DEPTHWISE = "depth_multiplier = 2 : i32, "

CASES = {
    "dense": Case(tfl("fully_connected", DENSE), (4, 8), (6, 8), (4, 6), 1, False),
    "dense, flattened": Case(
        tfl("fully_connected", DENSE), (4, 2, 4), (6, 8), (4, 6), 1, False
    ),
    "dense without a bias": Case(
        tfl("fully_connected", DENSE, "%n", "none"), (4, 8), (6, 8), (4, 6), 1, False
    ),
    "convolution": Case(
        tfl("conv_2d", window("SAME", 1, 1)), (2, 5, 4, 3), (6, 3, 2, 3), (2, 5, 4, 6)
    ),
    "strides and holes": Case(
        tfl("conv_2d", window("VALID", 2, 1, 2)),
        *((2, 8, 4, 3), (6, 3, 2, 3), (2, 2, 3, 6)),
    ),
    "without a bias": Case(
        tfl("conv_2d", window("VALID", 1, 2), "%n", "none"),
        *((1, 4, 4, 2), (6, 2, 2, 2), (1, 3, 2, 6)),
    ),
    "groups": Case(
        tfl("conv_2d", window("VALID", 1, 1)),
        *((2, 4, 4, 4), (6, 2, 2, 2), (2, 3, 3, 6), 2),
    ),
    "depthwise": Case(
        tfl("depthwise_conv_2d", DEPTHWISE + window("SAME", 2, 2)),
        *((2, 4, 4, 3), (1, 3, 3, 6), (2, 2, 2, 6), 3),
    ),
    "stablehlo": Case(
        stablehlo("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", SAME, 1),
        *((2, 5, 4, 3), (3, 3, 3, 6), (2, 3, 4, 6)),
    ),
    "stablehlo, channels first": Case(
        stablehlo("[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", SAME, 1),
        *((2, 3, 5, 4), (6, 3, 3, 3), (2, 6, 3, 4)),
    ),
    "stablehlo, depthwise": Case(
        stablehlo("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", SAME, 3),
        *((2, 5, 4, 3), (3, 3, 1, 6), (2, 3, 4, 6), 3),
    ),
    "dot": Case(
        "stablehlo.dot_general %x, %w, contracting_dims = [0] x [1] : (X, W) -> Y",
        *((8, 4), (6, 8), (4, 6), 1, False),
    ),
    "matmul": Case(f"linalg.matmul {LINALG}", (4, 8), (8, 6), (4, 6), 1, False),
    "linalg": Case(
        f"linalg.conv_2d_nchw_fchw {STEPS} {LINALG}",
        *((2, 3, 5, 5), (6, 3, 3, 3), (2, 6, 2, 2)),
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_products_of_matrices_are_those_of_the_op(name: str):
    case = CASES[name]
    types = type_of(*case.input), type_of(*case.weights), type_of(*case.result)
    body = case.op
    for letter, type_ in zip("XWYB", (*types, type_of(6)), strict=True):
        body = body.replace(f"{letter})", f"{type_})").replace(
            f"{letter},", f"{type_},"
        )
        body = body.replace(f": {letter}", f": {type_}").replace(
            f"-> {letter}", f"-> {type_}"
        )
    kind = "tfl" if "tfl" in body else "stablehlo" if "hlo" in body else "arith"
    weights, bias = normal(*case.weights, seed=1), np.abs(normal(6, seed=2)) + 9
    module = parse_module(
        f"""
func.func @main(%x: {types[0]}) -> {types[2]} {{
  {constant("w", weights, kind)}
  {constant("b", bias, kind)}
  {constant("o", np.zeros(case.result), kind)}
  %n = "tfl.no_value"() <{{value}}> : () -> none
  %y = {body}
  return %y : {types[2]}
}}"""
    )
    argument = normal(*case.input)
    (layer,) = [layer for op in module.walk() if (layer := layer_of(op)) is not None]
    product = matrix_product_of(layer)
    assert product is not None
    assert product.groups == case.groups
    assert (product.input is None) == case.has_probes
    matrices = product.matrices(weights)
    assert matrices.shape == (case.groups, product.count, product.outputs)
    assert np.array_equal(product.weights(matrices), weights)
    (*_, plain) = ops = layer.product_with_weights(weights.astype(np.float64))
    Rewriter.insert_op(ops, InsertPoint.before(layer.product))
    record(plain.results[0], "result")
    if product.input is not None:
        record(product.input, "0")
    probes = product.probes() if product.input is None else ()
    for number, ops in enumerate(probes):
        Rewriter.insert_op(ops, InsertPoint.before(layer.product))
        record(ops[-1].results[0], f"{number}")
    values = RecordedModule.of(module, "main").values(argument)
    inputs = product.inputs([values[f"{i}"] for i in range(max(1, len(probes)))])
    expected = np.moveaxis(values["result"], layer.channel, -1)
    found = (inputs @ matrices).transpose(1, 0, 2).reshape(expected.shape)
    assert relative(expected, found.astype(np.float32)) < 1e-6
    assert (expected < 0).any()
    assert {*np.unique(inputs)} <= {0.0, *argument.ravel().tolist()}


def test_ops_that_do_not_say_it():
    text = stablehlo("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", SAME, 2)
    x, w, y = type_of(2, 5, 4, 4), type_of(3, 3, 2, 6), type_of(2, 3, 4, 6)
    text = text.replace("(X, W) -> Y", f"({x}, {w}) -> {y}")
    module = parse_module(
        f"""
func.func @main(%x: {x}) -> {y} {{
  {constant("w", normal(3, 3, 2, 6), "stablehlo")}
  %y = {text}
  return %y : {y}
}}"""
    )
    (layer,) = [layer for op in module.walk() if (layer := layer_of(op)) is not None]
    assert matrix_product_of(layer) is None
