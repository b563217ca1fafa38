"""Activations that StableHLO quantizes at run time, as LiteRT's kernels do or otherwise."""

import pytest

from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

MODULE = """
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x2xf32> {
  %low = stablehlo.constant dense<-127.0> : tensor<f32>
  %high = stablehlo.constant dense<127.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %steps = stablehlo.constant dense<127.0> : tensor<2xf32>
  %weights = stablehlo.constant dense<3> : tensor<4x2xi8>
  %magnitudes = stablehlo.abs %x : tensor<2x4xf32>
  %largest = stablehlo.reduce(%magnitudes init: %zero) applies stablehlo.maximum
    across dimensions = [1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %scale = stablehlo.divide %largest, %steps : tensor<2xf32>
  %divisors = stablehlo.broadcast_in_dim %scale, dims = [0]
    : (tensor<2xf32>) -> tensor<2x4xf32>
  %quotients = stablehlo.divide %x, %divisors : tensor<2x4xf32>
  %rounded = stablehlo.round_nearest_even %quotients : tensor<2x4xf32>
  %clamped = stablehlo.clamp %low, %rounded, %high
    : (tensor<f32>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %stored = stablehlo.convert %clamped : (tensor<2x4xf32>) -> tensor<2x4xi8>
  %sums = stablehlo.dot_general %stored, %weights, contracting_dims = [1] x [0]
    : (tensor<2x4xi8>, tensor<4x2xi8>) -> tensor<2x2xi32>
  %floats = stablehlo.convert %sums : (tensor<2x2xi32>) -> tensor<2x2xf32>
  %factors = stablehlo.broadcast_in_dim %scale, dims = [0]
    : (tensor<2xf32>) -> tensor<2x2xf32>
  %result = stablehlo.multiply %floats, %factors : tensor<2x2xf32>
  return %result : tensor<2x2xf32>
}
"""

COLUMNS = "%factors = stablehlo.broadcast_in_dim %scale, dims = [1]"


def test_kernel():
    module = parse_module(MODULE)
    apply_passes(module, "convert-stablehlo-to-tfl")
    assert "tfl.fully_connected" in str(module)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dense<-127.0>", "dense<-7.0>"),
        ("dense<127.0> : tensor<2xf32>", "dense<7.0> : tensor<2xf32>"),
        (
            "%magnitudes = stablehlo.abs %x",
            "%y = stablehlo.add %x, %x : tensor<2x4xf32>\n%magnitudes = stablehlo.abs %y",
        ),
        ("stablehlo.maximum", "stablehlo.add"),
        ("%factors = stablehlo.broadcast_in_dim %scale, dims = [0]", COLUMNS),
    ],
)
def test_other_arithmetic_is_refused(old: str, new: str):
    text = MODULE.replace(old, new)
    assert text != MODULE
    with pytest.raises(IRError, match="elements of type 'i8', for which LiteRT has no"):
        apply_passes(parse_module(text), "convert-stablehlo-to-tfl")
