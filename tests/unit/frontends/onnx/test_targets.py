"""The target `onnxruntime-u8s8`, and models with the integers of onnxruntime's kernels."""

import numpy as np
import pytest
from numpy.typing import DTypeLike

from tests.oracles.onnx_kernels import kernel_differences
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import apply_passes, as_module

from .quantized_models import DRAWS, quantized_graph


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op_type", DRAWS)
def test_integers_of_onnxruntime(op_type: str, dtype: DTypeLike):
    rng = np.random.default_rng([3, 1])
    graph = quantized_graph(DRAWS[op_type](rng, dtype), rng, dtype)
    assert not kernel_differences(graph, dtype).any()


def test_quantized_model():
    module = as_module("""
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x3xf32> {
  %w = stablehlo.constant dense<0.25> : tensor<8x3xf32>
  %b = stablehlo.constant dense<[1.0, -0.5, 0.25]> : tensor<3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<4x3xf32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
  %s = stablehlo.add %p, %c : tensor<4x3xf32>
  %r = stablehlo.maximum %s, %zero : tensor<4x3xf32>
  %y = stablehlo.logistic %r : tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}
""")
    x = np.random.default_rng(0).normal(0, 1, (20, 4, 8)).astype(np.float32)
    quantized = quantize(module, [(row,) for row in x], target="onnxruntime-u8s8")
    text = str(quantized.module)
    for op in ("dot_general", "add", "logistic"):
        (line,) = (line for line in text.splitlines() if f"stablehlo.{op} " in line)
        assert "!quant.uniform" in line
    assert "u8:f32" in text
    assert "i8<-127:127>:f32:1" in text
    assert "i32:f32:1" in text
    passes = "verify-quant-constraints{rules=stablehlo}"
    apply_passes(quantized.module, passes, is_routine=True)
