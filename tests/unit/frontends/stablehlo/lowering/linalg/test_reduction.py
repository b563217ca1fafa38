"""Reductions, compared with StableHLO's own interpreter and NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    TYPES,
    function,
    run,
    same_bits,
    stablehlo_results,
    tensor,
)

SHAPE = (3, 4, 5)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("name", TYPES)
def test_one_op(name: str, op: str):
    random, dtype = np.random.default_rng(5), np.dtype(TYPES[name])
    # Small integers, whose sums and products are exact in every type.
    values = random.integers(0, 2, SHAPE).astype(dtype)
    init_value = np.array(1, dtype)
    types = [tensor(SHAPE, name), tensor((), name)]
    cases: list[list[int]] = [[0], [1], [2], [0, 2], [0, 1, 2], []]
    results = [
        tensor([size for d, size in enumerate(SHAPE) if d not in dimensions], name)
        for dimensions in cases
    ]
    ops = [
        f"stablehlo.reduce(%0 init: %1) applies stablehlo.{op} across dimensions = "
        f"{dimensions} : ({types[0]}, {types[1]}) -> {result}"
        for dimensions, result in zip(cases, results, strict=True)
    ]
    text = function(types, ops, results)
    expected = stablehlo_results(text, values, init_value)
    for actual, wanted in zip(run(text, values, init_value), expected, strict=True):
        same_bits(actual, wanted)


def test_maximum_of_floats():
    values = np.array([[1, np.nan, 2], [-0.0, 0.0, -1], [-np.inf] * 3], np.float32)
    op = (
        "stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [1] "
        ": (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>"
    )
    text = function(["tensor<3x3xf32>", "tensor<f32>"], [op], ["tensor<3xf32>"])
    (actual,) = run(text, values, np.array(-np.inf, np.float32))
    same_bits(actual, np.array([np.nan, 0.0, -np.inf], np.float32))


ARGMAX = """
func.func @main(%x: tensor<?x5xi32>, %i: tensor<?x5xi32>)
    -> (tensor<?xi32>, tensor<?xi32>) {
  %low = stablehlo.constant dense<-2147483648> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1]
      : (tensor<?x5xi32>, tensor<?x5xi32>, tensor<i32>, tensor<i32>)
      -> (tensor<?xi32>, tensor<?xi32>)
    reducer(%a: tensor<i32>, %b: tensor<i32>) (%j: tensor<i32>, %k: tensor<i32>) {
    %is_first = stablehlo.compare GE, %a, %b, SIGNED
        : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %most = stablehlo.select %is_first, %a, %b : tensor<i1>, tensor<i32>
    %place = stablehlo.select %is_first, %j, %k : tensor<i1>, tensor<i32>
    stablehlo.return %most, %place : tensor<i32>, tensor<i32>
  }
  return %r#0, %r#1 : tensor<?xi32>, tensor<?xi32>
}"""


def test_several_inputs():
    values = np.random.default_rng(0).integers(-9, 9, (6, 5)).astype(np.int32)
    places = np.tile(np.arange(5, dtype=np.int32), (6, 1))
    most, place = run(ARGMAX, values, places)
    same_bits(most, values.max(1))
    same_bits(place, values.argmax(1).astype(np.int32))


SUM_OF_SQUARES = """
func.func @main(%x: tensor<2x3xi8>, %i: tensor<i16>) -> tensor<2xi32> {
  %r = stablehlo.reduce(%x init: %i) across dimensions = [1]
      : (tensor<2x3xi8>, tensor<i16>) -> tensor<2xi32>
    reducer(%a: tensor<i32>, %b: tensor<i32>) {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %c = stablehlo.multiply %b, %b : tensor<i32>
    %d = stablehlo.add %a, %c : tensor<i32>
    %e = stablehlo.add %d, %one : tensor<i32>
    stablehlo.return %e : tensor<i32>
  }
  return %r : tensor<2xi32>
}"""


def test_any_body_in_a_wider_type():
    """The result so far is the first argument of the region."""
    values = np.array([[-128, 127, 3], [1, 2, 3]], np.int8)
    init_value = np.array(-5, np.int16)
    (actual,) = run(SUM_OF_SQUARES, values, init_value)
    squares = (values.astype(np.int32) ** 2).sum(1)
    same_bits(actual, (squares + 3 - 5).astype(np.int32))


WINDOWS: list[tuple[Sequence[int], dict[str, Any]]] = [
    ((1, 2, 2), {}),
    ((2, 3, 1), {"window_strides": (1, 2, 3)}),
    ((1, 3, 2), {"padding": ((0, 0), (1, 2), (2, 1)), "window_strides": (1, 2, 2)}),
    ((2, 2, 2), {"base_dilations": (2, 1, 3), "window_dilations": (3, 2, 1)}),
    ((1, 2, 2), {"padding": ((0, 0), (-1, 0), (1, -2)), "base_dilations": (1, 2, 2)}),
    ((3, 4, 6), {}),
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("window", "options"), WINDOWS)
@pytest.mark.parametrize(
    ("op", "name", "init"),
    [("add", "i32", 1), ("maximum", "f32", -np.inf), ("minimum", "ui8", 255)],
)
def test_windows(
    window: Sequence[int], options: dict[str, Any], op: str, name: str, init: float
):
    """Padding is the initial value, and a window that does not fit gives nothing."""
    dtype = np.dtype(TYPES[name])
    values = np.random.default_rng(1).integers(0, 99, SHAPE).astype(dtype)
    attributes: dict[str, Any] = {
        "window_dimensions": window,
        **dict.fromkeys(
            ("window_strides", "base_dilations", "window_dilations"), (1, 1, 1)
        ),
        "padding": ((0, 0),) * 3,
        **options,
    }
    padding = attributes.pop("padding")
    texts = [
        f"{key} = array<i64: {', '.join(map(str, numbers))}>"
        for key, numbers in attributes.items()
    ]
    texts.append(f"padding = dense<{[*map(list, padding)]}> : tensor<3x2xi64>")
    types = [tensor(SHAPE, name), tensor((), name)]
    sizes = [
        ((size - 1) * base + 1 + low + high - (extent - 1) * dilation - 1) // stride + 1
        for size, base, (low, high), extent, dilation, stride in zip(
            SHAPE,
            attributes["base_dilations"],
            padding,
            window,
            attributes["window_dilations"],
            attributes["window_strides"],
            strict=True,
        )
    ]
    results = [tensor([max(size, 0) for size in sizes], name), tensor([None] * 3, name)]
    scalar = types[1]
    ops = [
        f'"stablehlo.reduce_window"(%0, %1) <{{{", ".join(texts)}}}> ({{\n'
        f"^bb0(%a: {scalar}, %b: {scalar}):\n"
        f"  %c = stablehlo.{op} %a, %b : {scalar}\n"
        f"  stablehlo.return %c : {scalar}\n}}) : ({types[0]}, {scalar}) -> {results[0]}"
    ]
    text = function(types, ops, results[:1])
    init_value = np.array(init, dtype)
    (actual,) = run(text, values, init_value)
    dynamic = text.replace(results[0], results[1]).replace(types[0], results[1])
    same_bits(run(dynamic, values, init_value)[0], actual)
    (expected,) = stablehlo_results(text, values, init_value)
    same_bits(actual, expected)
