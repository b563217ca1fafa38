"""Conditionals and loops in ONNX files."""

import numpy as np
import pytest

from .written_models import check, floats, op_types, written

_IF = """
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<4xf32>
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.multiply %x, %c : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %2 = stablehlo.add %0, %c : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition: bool):
    proto = check(_IF, np.bool_(condition), floats(4))
    assert op_types(proto) == ["If", "Add"]


_CASE = """
func.func @main(%i: tensor<i32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %a = stablehlo.constant dense<1.0> : tensor<f32>
  %b = stablehlo.constant dense<2.0> : tensor<f32>
  %0:2 = "stablehlo.case"(%i) ({
    %1 = stablehlo.tanh %x : tensor<4xf32>
    stablehlo.return %1, %a : tensor<4xf32>, tensor<f32>
  }, {
    stablehlo.return %x, %b : tensor<4xf32>, tensor<f32>
  }, {
    %2 = stablehlo.negate %x : tensor<4xf32>
    stablehlo.return %2, %b : tensor<4xf32>, tensor<f32>
  }) : (tensor<i32>) -> (tensor<4xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<f32>
}
"""


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 7])
def test_case(index: int):
    check(_CASE, np.int32(index), floats(4), atol=1e-6)


_WHILE = """
func.func @main(%n: tensor<i32>, %x: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %h = stablehlo.constant dense<0.5> : tensor<f32>
  %0:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2 = stablehlo.add %i, %one : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %h, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %4 = stablehlo.multiply %s, %3 : tensor<4xf32>
    %5 = stablehlo.add %4, %x : tensor<4xf32>
    stablehlo.return %2, %5 : tensor<i32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<i32>, tensor<4xf32>
}
"""


@pytest.mark.parametrize("count", [0, 1, 5])
def test_while(count: int):
    proto = check(_WHILE, np.int32(count), floats(4))
    assert op_types(proto) == ["Less", "Loop"]


def test_a_loop_in_a_branch():
    text = """
func.func @main(%p: tensor<i1>, %n: tensor<i32>) -> tensor<i32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.while(%i = %one) : tensor<i32>
    cond {
      %2 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %3 = stablehlo.add %i, %i : tensor<i32>
      stablehlo.return %3 : tensor<i32>
    }
    stablehlo.return %1 : tensor<i32>
  }, {
    stablehlo.return %n : tensor<i32>
  }) : (tensor<i1>) -> tensor<i32>
  return %0 : tensor<i32>
}
"""
    for condition in (True, False):
        check(text, np.bool_(condition), np.int32(100))


def test_barriers_are_not_written():
    text = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.optimization_barrier %x : tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
    assert op_types(written(text)) == ["Tanh"]
