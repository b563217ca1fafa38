"""`tfl.fake_quant`, by the interpreter and by code, compared with LiteRT."""

import numpy as np
import pytest

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module


def text(low: float, high: float, bits: int, narrow: str, count: int) -> str:
    return f"""
        func.func @main(%x: tensor<{count}xf32>) -> tensor<{count}xf32> {{
          %0 = "tfl.fake_quant"(%x) <{{min = {low} : f32, max = {high} : f32,
            num_bits = {bits} : i32, narrow_range = {narrow}}}>
            : (tensor<{count}xf32>) -> tensor<{count}xf32>
          func.return %0 : tensor<{count}xf32>
        }}
    """


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bits", [2, 8, 16])
@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (-0.37, 2.9), (0.5, 6.0), (-3.0, -0.25)]
)
def test_results_of_litert(low: float, high: float, bits: int):
    model = text(low, high, bits, "false", 512)
    x = np.random.default_rng(0).uniform(-4, 7, 512).astype(np.float32)
    x[:4] = np.inf, -np.inf, 0, -0.0
    (expected,) = LiteRT(write_tflite(parse_module(model))).run(x)
    np.testing.assert_array_equal(run_function(model, "main", x)[0], expected)
    np.testing.assert_array_equal(compile(model)(x), expected)


def test_narrow_range():
    """LiteRT does not run it: there are 3 values of 2 bits, -1, 0 and 1."""
    x = np.array([-2, -0.75, -0.25, 0.25, 0.5, 3], np.float32)
    (found,) = run_function(text(-1.0, 1.0, 2, "true", 6), "main", x)
    assert found.tolist() == [-1, -1, 0, 0, 1, 1]
