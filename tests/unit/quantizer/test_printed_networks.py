"""Networks in the form in which jax prints them."""

from __future__ import annotations

import pytest

from xdsl_quant.dialects.quant.types import PerAxisType, scalar_or_element_type
from xdsl_quant.quantizer import quantize

from .models import samples


def convolution(size: int, moves: str) -> str:
    """A convolution in PyTorch's layout, whose bias some ops broadcast."""
    weights = samples(4, 3, 3, 3, seed=1).tolist()
    result = f"tensor<1x4x{size}x{size}xf32>"
    return f"""
func.func public @main(%x: tensor<1x3x{size}x{size}xf32>) -> {result} {{
  %w = stablehlo.constant dense<{weights}> : tensor<4x3x3x3xf32>
  %b = stablehlo.constant dense<[-2.0, 0.25, 1.0, 0.5]> : tensor<4xf32>
  %y = stablehlo.convolution(%x, %w)
    dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{pad = [[1, 1], [1, 1]]}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x3x{size}x{size}xf32>, tensor<4x3x3x3xf32>) -> {result}
  {moves}
  %z = stablehlo.add %y, %m : {result}
  return %z : {result}
}}
"""


IN_TWO_STEPS = """
  %k = stablehlo.{} : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %m = stablehlo.broadcast_in_dim %k, dims = [0, 1, 2, 3]
    : (tensor<1x4x1x1xf32>) -> tensor<1x4x{}x{}xf32>
"""
IN_ONE_STEP = """
  %m = stablehlo.broadcast_in_dim %b, dims = [1]
    : (tensor<4xf32>) -> tensor<1x4x{}x{}xf32>
"""


@pytest.mark.parametrize(
    ("size", "moves"),
    [
        (8, IN_TWO_STEPS.format("broadcast_in_dim %b, dims = [1]", 8, 8)),
        (8, IN_TWO_STEPS.format("reshape %b", 8, 8)),
        (8, IN_ONE_STEP.format(8, 8)),
        # As many columns as channels.
        (4, IN_ONE_STEP.format(4, 4)),
    ],
)
def test_the_bias_of_channels_that_come_before_the_window(size: int, moves: str):
    data = samples(16, 3, size, size)
    model = quantize(convolution(size, moves), data)
    product = model.report(data).kernels[-1]
    assert product.kernel == "product_bias"
    assert product.own_sqnr > 35
    (addition,) = (op for op in model.module.walk() if op.name == "stablehlo.add")
    for value in (*addition.operands, *addition.results):
        type_ = scalar_or_element_type(value.type)
        assert isinstance(type_, PerAxisType)
        assert type_.axis == 1
