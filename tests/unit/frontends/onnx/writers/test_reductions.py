"""Reductions over dimensions and windows in ONNX files."""

import numpy as np
import pytest

from .written_models import check, floats, function, integers, refusal


def _reduce(op: str, init: str, element: str, name: str = "stablehlo") -> str:
    return function(
        f"%x: tensor<2x3x4x{element}>",
        f"tensor<3x{element}>",
        f"%c = stablehlo.constant dense<{init}> : tensor<{element}>",
        f"%0 = stablehlo.reduce(%x init: %c) applies {name}.{op} across dimensions = "
        f"[0, 2] : (tensor<2x3x4x{element}>, tensor<{element}>) -> tensor<3x{element}>",
        "%0",
    )


@pytest.mark.parametrize(
    ("op", "init", "nodes"),
    [
        ("add", "0.0", ["ReduceSum"]),
        ("add", "1.5", ["ReduceSum", "Add"]),
        ("multiply", "1.0", ["ReduceProd"]),
        ("maximum", "0xFF800000", ["ReduceMax"]),
        ("maximum", "0.0", ["ReduceMax", "Max"]),
        ("minimum", "0x7F800000", ["ReduceMin"]),
    ],
)
def test_reductions(op: str, init: str, nodes: list[str]):
    check(_reduce(op, init, "f32"), floats(2, 3, 4), atol=1e-5, nodes=nodes)


def test_reductions_of_integers_start_with_the_smallest_one():
    text = _reduce("maximum", str(-(1 << 63)), "i64")
    check(text, integers(2, 3, 4).astype(np.int64), nodes=["ReduceMax"])


@pytest.mark.parametrize(("op", "node"), [("and", "ReduceMin"), ("or", "ReduceMax")])
def test_reductions_of_truth_values(op: str, node: str):
    init = "true" if op == "and" else "false"
    x = floats(2, 3, 4) > (-1 if op == "and" else 1)
    check(_reduce(op, init, "i1"), x, nodes=["Cast", node, "Cast"])


def test_reductions_keep_the_order_of_dimensions():
    text = function(
        "%x: tensor<2x3x4xf32>",
        "tensor<4x2xf32>",
        "%c = stablehlo.constant dense<0.0> : tensor<f32>",
        "%t = stablehlo.transpose %x, dims = [2, 1, 0] : (tensor<2x3x4xf32>) -> "
        "tensor<4x3x2xf32>",
        "%0 = stablehlo.reduce(%t init: %c) applies stablehlo.add across dimensions = [1] "
        ": (tensor<4x3x2xf32>, tensor<f32>) -> tensor<4x2xf32>",
        "%0",
    )
    check(text, floats(2, 3, 4), atol=1e-6, nodes=["ReduceSum", "Transpose"])


def _windows(op: str, init: str, options: str, shape: str) -> str:
    return f"""
func.func @main(%x: tensor<1x8x8x3xf32>) -> tensor<{shape}xf32> {{
  %c = stablehlo.constant dense<{init}> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %c) <{{{options}}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.{op} %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }}) : (tensor<1x8x8x3xf32>, tensor<f32>) -> tensor<{shape}xf32>
  return %0 : tensor<{shape}xf32>
}}
"""


_WINDOW = "window_dimensions = array<i64: 1, 2, 2, 1>"


@pytest.mark.parametrize(
    ("op", "init", "nodes"),
    [
        ("maximum", "0xFF800000", ["Transpose", "MaxPool", "Transpose"]),
        ("maximum", "0.5", ["Transpose", "MaxPool", "Max", "Transpose"]),
        ("add", "0.0", ["Transpose", "AveragePool", "Mul", "Transpose"]),
    ],
)
def test_windows(op: str, init: str, nodes: list[str]):
    text = _windows(op, init, _WINDOW, "1x7x7x3")
    check(text, floats(1, 8, 8, 3), atol=1e-5, nodes=nodes)


def test_windows_with_strides_dilations_and_cropped_padding():
    options = (
        f"{_WINDOW}, window_strides = array<i64: 1, 2, 2, 1>, window_dilations = "
        "array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [1, -1], [1, 1], [0, 0]]> : "
        "tensor<4x2xi64>"
    )
    text = _windows("add", "0.0", options, "1x3x4x3")
    check(text, floats(1, 8, 8, 3), atol=1e-5)


@pytest.mark.parametrize(
    ("op", "init", "pads", "nodes"),
    [
        # As large as the window, which onnxruntime refuses.
        ("maximum", "0xFF800000", "[2, 1], [0, 2]", ["Pad", "MaxPool"]),
        ("add", "0.0", "[2, 3], [2, 0]", ["Pad", "AveragePool", "Mul"]),
        # Padding counts as the initial value.
        ("add", "1.5", "[1, 0], [0, 1]", ["Pad", "AveragePool", "Mul", "Add"]),
        ("maximum", "0.5", "[1, 0], [0, 1]", ["Pad", "MaxPool", "Max"]),
        ("maximum", "0xFF800000", "[1, 0], [0, 1]", ["MaxPool"]),
    ],
)
def test_padding_of_windows(op: str, init: str, pads: str, nodes: list[str]):
    options = f"{_WINDOW}, padding = dense<[[0, 0], {pads}, [0, 0]]> : tensor<4x2xi64>"
    numbers = [
        int(number) for number in pads.replace("[", "").replace("]", "").split(",")
    ]
    rows, columns = 7 + sum(numbers[:2]), 7 + sum(numbers[2:])
    text = _windows(op, init, options, f"1x{rows}x{columns}x3")
    check(
        text,
        floats(1, 8, 8, 3),
        atol=1e-5,
        nodes=["Transpose", *nodes, "Transpose"],
    )


@pytest.mark.parametrize(
    ("op", "init", "node"), [("or", "true", "Or"), ("and", "false", "And")]
)
def test_initial_truth_values(op: str, init: str, node: str):
    x = floats(2, 3, 4) > 0
    proto = check(_reduce(op, init, "i1"), x)
    assert proto.graph.node[-1].op_type == node


def test_unsupported_reductions():
    text = _windows("multiply", "1.0", _WINDOW, "1x7x7x3")
    assert refusal(text).endswith(
        "'stablehlo.reduce_window' op cannot be written as ONNX: minimum or product of "
        "windows"
    )
    assert refusal(_reduce("xor", "0", "i32")).endswith("reduction by 'stablehlo.xor'")


def test_sums_of_quantized_values():
    text = """
!q = !quant.uniform<i8:f32, 0.05:3>
!sum = !quant.uniform<i32:f32, 0.05>
func.func @main(%x: tensor<3x8x!q>) -> tensor<3x!q> {
  %zero = stablehlo.constant() <{value = dense<0> : tensor<i32>}> : () -> tensor<!sum>
  %0 = stablehlo.uniform_quantize %x : (tensor<3x8x!q>) -> tensor<3x8x!sum>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<3x8x!sum>, tensor<!sum>) -> tensor<3x!sum>
  %2 = stablehlo.uniform_quantize %1 : (tensor<3x!sum>) -> tensor<3x!q>
  return %2 : tensor<3x!q>
}
"""
    check(text, integers(3, 8).astype(np.int8), nodes=["ReduceSum"])
