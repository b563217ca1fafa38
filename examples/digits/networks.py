"""
The networks as linalg ops on tensors with a dynamic batch dimension.

In both networks the weights are the first constants, in the order of the layers: the index
of a constant in its statistics key is the index of the layer.
"""

from dataclasses import dataclass
from string import Template
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .dataset import DIRECTORY


class Weights(NamedTuple):
    """The weights of a layer."""

    key: str
    """Key of the statistics."""

    values: NDArray[np.float32]

    channel_axis: int
    """Dimension of the output channels."""

    block_shape: tuple[int, ...]
    """Shape of a block with one scale in a sub-channel type."""


@dataclass(frozen=True)
class Network:
    """A network as MLIR text, with the keys of its weights and activations."""

    text: str
    """Text of a module with a function `main` from images to logits."""

    image_shape: tuple[int, ...]
    """Shape of an image argument of `main`."""

    weights: tuple[Weights, ...]

    activation_keys: tuple[str, ...]
    """
    Keys of the activations that are stored as integers: the values after the bias is added.
    """


def load_mlp() -> Network:
    """Return a multilayer perceptron with hidden layers of 64 and 32 values."""
    blocks = ((16, 1), (16, 1), (16, 1))
    return _network("mlp", _MLP, (64,), blocks)


def load_convolution() -> Network:
    """Return a network of two convolutions (3x3 and 2x2 windows) and a dense layer."""
    # A window of the first layer has 9 values, the other windows a multiple of 16.
    blocks = ((3, 3, 1, 1), (1, 1, 16, 1), (16, 1))
    return _network("convolution", _CONVOLUTION, (8, 8, 1), blocks)


def load_networks() -> dict[str, Network]:
    """Return all networks by name."""
    return {"mlp": load_mlp(), "convolution": load_convolution()}


def _network(
    name: str,
    template: Template,
    image_shape: tuple[int, ...],
    block_shapes: tuple[tuple[int, ...], ...],
) -> Network:
    with np.load(DIRECTORY / f"{name}.npz") as file:
        arrays = dict(file)
    text = template.substitute({key: _dense(array) for key, array in arrays.items()})
    weights = tuple(
        Weights(
            f"main:arith.constant:{index}",
            values := arrays[f"weights_{index}"],
            values.ndim - 1,
            block_shape,
        )
        for index, block_shape in enumerate(block_shapes)
    )
    results = (f"main:linalg.generic:{index}" for index in range(len(weights)))
    return Network(text, image_shape, weights, ("main:argument:0", *results))


def _dense(array: NDArray[np.float32]) -> str:
    return f'dense<"0x{array.astype("<f4").tobytes().hex().upper()}">'


_MLP = Template("""\
#element = affine_map<(d0, d1) -> (d0, d1)>
#channel = affine_map<(d0, d1) -> (d1)>

func.func @main(%images: tensor<?x64xf32>) -> tensor<?x10xf32> {
  %weights_0 = arith.constant $weights_0 : tensor<64x64xf32>
  %weights_1 = arith.constant $weights_1 : tensor<64x32xf32>
  %weights_2 = arith.constant $weights_2 : tensor<32x10xf32>
  %bias_0 = arith.constant $bias_0 : tensor<64xf32>
  %bias_1 = arith.constant $bias_1 : tensor<32xf32>
  %bias_2 = arith.constant $bias_2 : tensor<10xf32>
  %zero = arith.constant 0.0 : f32
  %dimension = arith.constant 0 : index
  %count = tensor.dim %images, %dimension : tensor<?x64xf32>

  %empty_0 = tensor.empty(%count) : tensor<?x64xf32>
  %zeros_0 = linalg.fill ins(%zero : f32) outs(%empty_0 : tensor<?x64xf32>)
      -> tensor<?x64xf32>
  %sums_0 = linalg.matmul
      ins(%images, %weights_0 : tensor<?x64xf32>, tensor<64x64xf32>)
      outs(%zeros_0 : tensor<?x64xf32>) -> tensor<?x64xf32>
  %hidden_0 = linalg.generic {
      indexing_maps = [#element, #channel, #element],
      iterator_types = ["parallel", "parallel"]
  } ins(%sums_0, %bias_0 : tensor<?x64xf32>, tensor<64xf32>)
      outs(%empty_0 : tensor<?x64xf32>) {
  ^bb0(%sum: f32, %bias: f32, %out: f32):
    %biased = arith.addf %sum, %bias : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<?x64xf32>

  %empty_1 = tensor.empty(%count) : tensor<?x32xf32>
  %zeros_1 = linalg.fill ins(%zero : f32) outs(%empty_1 : tensor<?x32xf32>)
      -> tensor<?x32xf32>
  %sums_1 = linalg.matmul
      ins(%hidden_0, %weights_1 : tensor<?x64xf32>, tensor<64x32xf32>)
      outs(%zeros_1 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %hidden_1 = linalg.generic {
      indexing_maps = [#element, #channel, #element],
      iterator_types = ["parallel", "parallel"]
  } ins(%sums_1, %bias_1 : tensor<?x32xf32>, tensor<32xf32>)
      outs(%empty_1 : tensor<?x32xf32>) {
  ^bb0(%sum: f32, %bias: f32, %out: f32):
    %biased = arith.addf %sum, %bias : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<?x32xf32>

  %empty_2 = tensor.empty(%count) : tensor<?x10xf32>
  %zeros_2 = linalg.fill ins(%zero : f32) outs(%empty_2 : tensor<?x10xf32>)
      -> tensor<?x10xf32>
  %sums_2 = linalg.matmul
      ins(%hidden_1, %weights_2 : tensor<?x32xf32>, tensor<32x10xf32>)
      outs(%zeros_2 : tensor<?x10xf32>) -> tensor<?x10xf32>
  %logits = linalg.generic {
      indexing_maps = [#element, #channel, #element],
      iterator_types = ["parallel", "parallel"]
  } ins(%sums_2, %bias_2 : tensor<?x10xf32>, tensor<10xf32>)
      outs(%empty_2 : tensor<?x10xf32>) {
  ^bb0(%sum: f32, %bias: f32, %out: f32):
    %biased = arith.addf %sum, %bias : f32
    linalg.yield %biased : f32
  } -> tensor<?x10xf32>
  return %logits : tensor<?x10xf32>
}
""")

_CONVOLUTION = Template("""\
#element = affine_map<(d0, d1) -> (d0, d1)>
#channel = affine_map<(d0, d1) -> (d1)>
#pixel = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#pixel_channel = affine_map<(d0, d1, d2, d3) -> (d3)>

func.func @main(%images: tensor<?x8x8x1xf32>) -> tensor<?x10xf32> {
  %weights_0 = arith.constant $weights_0 : tensor<3x3x1x16xf32>
  %weights_1 = arith.constant $weights_1 : tensor<2x2x16x32xf32>
  %weights_2 = arith.constant $weights_2 : tensor<288x10xf32>
  %bias_0 = arith.constant $bias_0 : tensor<16xf32>
  %bias_1 = arith.constant $bias_1 : tensor<32xf32>
  %bias_2 = arith.constant $bias_2 : tensor<10xf32>
  %zero = arith.constant 0.0 : f32
  %dimension = arith.constant 0 : index
  %count = tensor.dim %images, %dimension : tensor<?x8x8x1xf32>

  %empty_0 = tensor.empty(%count) : tensor<?x6x6x16xf32>
  %zeros_0 = linalg.fill ins(%zero : f32) outs(%empty_0 : tensor<?x6x6x16xf32>)
      -> tensor<?x6x6x16xf32>
  %sums_0 = linalg.conv_2d_nhwc_hwcf
      {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%images, %weights_0 : tensor<?x8x8x1xf32>, tensor<3x3x1x16xf32>)
      outs(%zeros_0 : tensor<?x6x6x16xf32>) -> tensor<?x6x6x16xf32>
  %hidden_0 = linalg.generic {
      indexing_maps = [#pixel, #pixel_channel, #pixel],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%sums_0, %bias_0 : tensor<?x6x6x16xf32>, tensor<16xf32>)
      outs(%empty_0 : tensor<?x6x6x16xf32>) {
  ^bb0(%sum: f32, %bias: f32, %out: f32):
    %biased = arith.addf %sum, %bias : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<?x6x6x16xf32>

  %empty_1 = tensor.empty(%count) : tensor<?x3x3x32xf32>
  %zeros_1 = linalg.fill ins(%zero : f32) outs(%empty_1 : tensor<?x3x3x32xf32>)
      -> tensor<?x3x3x32xf32>
  %sums_1 = linalg.conv_2d_nhwc_hwcf
      {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%hidden_0, %weights_1 : tensor<?x6x6x16xf32>, tensor<2x2x16x32xf32>)
      outs(%zeros_1 : tensor<?x3x3x32xf32>) -> tensor<?x3x3x32xf32>
  %hidden_1 = linalg.generic {
      indexing_maps = [#pixel, #pixel_channel, #pixel],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%sums_1, %bias_1 : tensor<?x3x3x32xf32>, tensor<32xf32>)
      outs(%empty_1 : tensor<?x3x3x32xf32>) {
  ^bb0(%sum: f32, %bias: f32, %out: f32):
    %biased = arith.addf %sum, %bias : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<?x3x3x32xf32>

  %flat = tensor.collapse_shape %hidden_1 [[0], [1, 2, 3]]
      : tensor<?x3x3x32xf32> into tensor<?x288xf32>
  %empty_2 = tensor.empty(%count) : tensor<?x10xf32>
  %zeros_2 = linalg.fill ins(%zero : f32) outs(%empty_2 : tensor<?x10xf32>)
      -> tensor<?x10xf32>
  %sums_2 = linalg.matmul
      ins(%flat, %weights_2 : tensor<?x288xf32>, tensor<288x10xf32>)
      outs(%zeros_2 : tensor<?x10xf32>) -> tensor<?x10xf32>
  %logits = linalg.generic {
      indexing_maps = [#element, #channel, #element],
      iterator_types = ["parallel", "parallel"]
  } ins(%sums_2, %bias_2 : tensor<?x10xf32>, tensor<10xf32>)
      outs(%empty_2 : tensor<?x10xf32>) {
  ^bb0(%sum: f32, %bias: f32, %out: f32):
    %biased = arith.addf %sum, %bias : f32
    linalg.yield %biased : f32
  } -> tensor<?x10xf32>
  return %logits : tensor<?x10xf32>
}
""")
