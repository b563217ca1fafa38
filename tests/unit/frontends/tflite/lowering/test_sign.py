"""
An op that is a declaration and one formula: `tfl.sign`, by all machines and in a file.
"""

import numpy as np
import pytest

from tests.unit.frontends.tflite.files.litert import LiteRT
from tests.unit.frontends.tflite.lowering import tosa_execution
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

FLOATS = np.array([1.5, -2, 0, -0.0, np.inf, -np.inf, 1e-45, np.nan], np.float32)
SIGNS = np.array([1, -1, 0, 0, 1, -1, 1, np.nan], np.float32)


def text(type_: str) -> str:
    return f"""
        func.func @main(%x: tensor<8x{type_}>) -> tensor<8x{type_}> {{
          %0 = "tfl.sign"(%x) : (tensor<8x{type_}>) -> tensor<8x{type_}>
          func.return %0 : tensor<8x{type_}>
        }}
    """


def test_floats_by_arrays_and_by_code():
    np.testing.assert_array_equal(run_function(text("f32"), "main", FLOATS)[0], SIGNS)
    np.testing.assert_array_equal(compile(text("f32"))(FLOATS), SIGNS)


@pytest.mark.parametrize(("type_", "dtype"), [("i32", np.int32), ("f64", np.float64)])
def test_other_types(type_: str, dtype: type[np.generic]):
    values = np.array([3, -4, 0, 1, -1, 7, 0, -(2**31)], dtype)
    signs = np.array([1, -1, 0, 1, -1, 1, 0, -1], dtype)
    np.testing.assert_array_equal(compile(text(type_))(values), signs)


def test_in_tosa():
    module = parse_module(text("f32"))
    apply_passes(module, "convert-tfl-to-tosa")
    (signs,) = tosa_execution.run(module, [FLOATS])
    np.testing.assert_array_equal(signs, SIGNS)


def test_in_a_file():
    file = write_tflite(parse_module(text("f32")))
    np.testing.assert_array_equal(LiteRT(file).run(FLOATS)[0], SIGNS)
    assert '"tfl.sign"' in str(read_tflite(file))
