"""Transposed convolutions of infinities: pixels without a tap of the window stay finite."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module


@pytest.mark.parametrize(
    ("window", "stride", "padding", "size"),
    [(3, 2, "VALID", 9), (3, 2, "SAME", 8), (1, 2, "VALID", 7), (2, 3, "VALID", 11)],
)
def test_transposed_convolution(window: int, stride: int, padding: str, size: int):
    rng = np.random.default_rng(window)
    weights = rng.integers(1, 9, (2, window, window, 3)).astype(np.float32)
    result = f"tensor<1x{size}x{size}x2xf32>"
    kernel = f"tensor<2x{window}x{window}x3xf32>"
    text = f"""func.func @main(%x: tensor<1x4x4x3xf32>) -> {result} {{
      %s = "tfl.pseudo_const"() <{{value = dense<[1, {size}, {size}, 2]>
        : tensor<4xi32>}}> : () -> tensor<4xi32>
      %w = "tfl.pseudo_const"() <{{value = dense<{weights.tolist()}> : {kernel}}}>
        : () -> {kernel}
      %b = "tfl.no_value"() <{{value}}> : () -> none
      %y = "tfl.transpose_conv"(%s, %w, %x, %b) <{{padding = "{padding}",
        stride_h = {stride} : i32, stride_w = {stride} : i32,
        fused_activation_function = "NONE"}}>
        : (tensor<4xi32>, {kernel}, tensor<1x4x4x3xf32>, none) -> {result}
      return %y : {result}
    }}"""
    x = rng.integers(-9, 9, (1, 4, 4, 3)).astype(np.float32)
    x[0, 1, 2, 1], x[0, 3, 0, 0] = np.inf, -np.inf
    module = parse_module(text)
    (expected,) = LiteRT(write_tflite(module)).run(x)
    # LiteRT clamps results to finite numbers.
    largest = np.finfo(np.float32).max
    (interpreted,) = run_function(module, None, x)
    for found in (compile(module)(x), interpreted):
        assert np.isinf(found).any()
        np.testing.assert_array_equal(np.clip(found, -largest, largest), expected)
