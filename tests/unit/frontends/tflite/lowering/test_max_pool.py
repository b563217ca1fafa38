"""Largest elements of windows with NaN and infinities, compared with LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

NAN, INFINITY = np.nan, np.inf
IMAGE = np.array(
    [
        [NAN, 1, 2, NAN, -INFINITY, -INFINITY],
        [3, 4, 5, NAN, -INFINITY, -INFINITY],
        [NAN, NAN, NAN, INFINITY, NAN, -1],
        [NAN, NAN, 0, -0.0, -7, NAN],
    ],
    np.float32,
).reshape(1, 4, 6, 1)


@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
@pytest.mark.parametrize(("padding", "stride"), [("VALID", 2), ("SAME", 1)])
def test_numbers_win_over_nan(activation: str, padding: str, stride: int):
    type_ = "tensor<1x2x3x1xf32>" if stride == 2 else "tensor<1x4x6x1xf32>"
    module = parse_module(f"""
        func.func @main(%x: tensor<1x4x6x1xf32>) -> {type_} {{
          %y = "tfl.max_pool_2d"(%x) <{{
            filter_height = 2 : i32, filter_width = 2 : i32, padding = "{padding}",
            fused_activation_function = "{activation}", stride_h = {stride} : i32,
            stride_w = {stride} : i32
          }}> : (tensor<1x4x6x1xf32>) -> {type_}
          return %y : {type_}
        }}""")
    (expected,) = LiteRT(write_tflite(module)).run(IMAGE)
    # LiteRT clamps results to finite numbers.
    largest = np.finfo(np.float32).max
    for result in (run_function(module, None, IMAGE)[0], compile(module)(IMAGE)):
        np.testing.assert_array_equal(np.minimum(result, largest), expected)
