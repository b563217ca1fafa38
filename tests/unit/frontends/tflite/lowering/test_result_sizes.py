"""Ops whose operand for the shape of the result is known at run time only."""

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function

BODIES = {
    "transpose_conv": (
        "1x4x4x1",
        """
          %n = "tfl.no_value"() <{value}> : () -> none
          %w = "tfl.pseudo_const"() <{value = dense<2.0> : tensor<1x2x2x1xf32>}> : ()
              -> tensor<1x2x2x1xf32>
          %y = "tfl.transpose_conv"(%s, %w, %x, %n) <{fused_activation_function = "NONE",
              padding = "SAME", stride_h = 2 : i32, stride_w = 2 : i32}>
              : (tensor<4xi32>, tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>, none)
              -> tensor<1x4x4x1xf32>
        """,
    ),
    "reshape": (
        "2x1x2x1",
        """
          %y = "tfl.reshape"(%x, %s) : (tensor<1x2x2x1xf32>, tensor<4xi32>)
              -> tensor<2x1x2x1xf32>
        """,
    ),
    "broadcast_to": (
        "3x2x2x2",
        """
          %y = "tfl.broadcast_to"(%x, %s) : (tensor<1x2x2x1xf32>, tensor<4xi32>)
              -> tensor<3x2x2x2xf32>
        """,
    ),
    "fill": (
        "2x1x1x2",
        """
          %a = "tfl.pseudo_const"() <{value = dense<3.0> : tensor<f32>}> : ()
              -> tensor<f32>
          %y = "tfl.fill"(%s, %a) : (tensor<4xi32>, tensor<f32>) -> tensor<2x1x1x2xf32>
        """,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_static_result_type_gives_the_sizes(name: str):
    shape, body = BODIES[name]
    text = f"""
        func.func @main(%s: tensor<4xi32>, %x: tensor<1x2x2x1xf32>)
            -> tensor<{shape}xf32> {{{body}
          return %y : tensor<{shape}xf32>
        }}
    """
    sizes = np.array([*map(int, shape.split("x"))], np.int32)
    x = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
    (expected,) = run_function(text, "main", sizes, x)
    assert expected.shape == (*sizes,)
    np.testing.assert_array_equal(compile(text)(sizes, x), expected)
