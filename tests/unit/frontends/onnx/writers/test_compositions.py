"""Softmax and means, for which ONNX has ops."""

import pytest

from xdsl_quant.frontends.onnx import read_onnx

from .written_models import check, floats, function, op_types, written

_SOFTMAX = """
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0, 2] : (tensor<2x4xf32>)
    -> tensor<2x3x4xf32>
  %d = stablehlo.subtract %x, %mb : tensor<2x3x4xf32>
  %e = stablehlo.exponential %d : tensor<2x3x4xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %r = stablehlo.reshape %s : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %sb = stablehlo.broadcast_in_dim %r, dims = [0, 1, 2] : (tensor<2x1x4xf32>)
    -> tensor<2x3x4xf32>
  %y = stablehlo.divide %e, %sb : tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}
"""


def test_softmax():
    proto = check(_SOFTMAX, floats(2, 3, 4), atol=1e-6, nodes=["Softmax"])
    assert proto.graph.node[0].attribute[0].i == 1
    assert not proto.graph.initializer


def test_a_read_softmax_is_written_as_one_node():
    proto = written(read_onnx(written(_SOFTMAX).SerializeToString()))
    assert op_types(proto) == ["Softmax"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stablehlo.maximum", "stablehlo.minimum"),
        ("stablehlo.subtract %x, %mb", "stablehlo.subtract %mb, %x"),
        ("stablehlo.reduce(%e init: %zero)", "stablehlo.reduce(%d init: %zero)"),
    ],
)
def test_other_quotients_are_divisions(old: str, new: str):
    text = _SOFTMAX.replace(old, new)
    assert "Div" in op_types(check(text, floats(2, 3, 4), atol=1e-4))


def test_the_maximum_along_another_dimension_is_no_softmax():
    text = (
        _SOFTMAX.replace("2x3x4", "2x3x3")
        .replace("2x4x", "2x3x")
        .replace("2x1x4", "2x1x3")
        .replace("maximum across dimensions = [1]", "maximum across dimensions = [2]")
    )
    assert "Div" in op_types(check(text, floats(2, 3, 3), atol=1e-5))


@pytest.mark.parametrize(("divisor", "nodes"), [(8, 1), (3, 2)])
def test_means(divisor: int, nodes: int):
    text = function(
        "%x: tensor<2x3x4xf32>",
        "tensor<3xf32>",
        "%c = stablehlo.constant dense<0.0> : tensor<f32>",
        f"%n = stablehlo.constant dense<{divisor}.0> : tensor<3xf32>",
        "%0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = "
        "[0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>",
        "%1 = stablehlo.divide %0, %n : tensor<3xf32>",
        "%1",
    )
    names = ["ReduceMean"] if nodes == 1 else ["ReduceSum", "Div"]
    check(text, floats(2, 3, 4), atol=1e-6, nodes=names)


def test_means_of_windows():
    text = """
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<4.0> : tensor<1x3x4x4xf32>
  %0 = "stablehlo.reduce_window"(%x, %c) <{window_dimensions = array<i64: 1, 1, 2, 2>,
    window_strides = array<i64: 1, 1, 2, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<1x3x8x8xf32>, tensor<f32>) -> tensor<1x3x4x4xf32>
  %2 = stablehlo.divide %0, %n : tensor<1x3x4x4xf32>
  return %2 : tensor<1x3x4x4xf32>
}
"""
    check(text, floats(1, 3, 8, 8), atol=1e-6, nodes=["AveragePool"])
