"""Softmax of a dynamic batch, which is one kernel."""

import numpy as np

from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import parse_module

TEXT = """
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
  %w = stablehlo.constant dense<WEIGHTS> : tensor<8x4xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  %batch = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %shape = stablehlo.concatenate %batch, %four, dim = 0
    : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %m = stablehlo.reduce(%y init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<?x4xf32>, tensor<f32>) -> tensor<?xf32>
  %lows = stablehlo.dynamic_broadcast_in_dim %low, %batch, dims = []
    : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
  %n = stablehlo.maximum %lows, %m : tensor<?xf32>
  %ms = stablehlo.dynamic_broadcast_in_dim %n, %shape, dims = [0]
    : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  %d = stablehlo.subtract %y, %ms : tensor<?x4xf32>
  %e = stablehlo.exponential %d : tensor<?x4xf32>
  %t = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<?x4xf32>, tensor<f32>) -> tensor<?xf32>
  %ts = stablehlo.dynamic_broadcast_in_dim %t, %shape, dims = [0]
    : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  %p = stablehlo.divide %e, %ts : tensor<?x4xf32>
  func.return %p : tensor<?x4xf32>
}
"""


def test_softmax_of_a_dynamic_batch():
    random = np.random.default_rng(0)
    weights = random.standard_normal((8, 4)).astype(np.float32)
    samples = random.standard_normal((32, 8)).astype(np.float32)
    module = parse_module(TEXT.replace("WEIGHTS", str(weights.tolist())))
    report = quantize(module, samples).report(samples)
    product, softmax = report.kernels
    assert (product.kernel, softmax.kernel) == ("stablehlo.dot_general", "softmax")
    assert np.isinf(softmax.own_sqnr), "it is not rounded between its ops"
