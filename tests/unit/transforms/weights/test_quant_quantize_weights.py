"""Weights of products as integers, executed and compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.execution import compile
from xdsl_quant.numerics import dequantize, quantize
from xdsl_quant.numerics.weights import weight_parameters
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.transforms.weights.quant_quantize_weights import (
    QuantizeWeight,
    Weight,
    block_shape,
    weight_of,
)

Array = NDArray[Any]

TO_LINALG = (
    "convert-tfl-to-linalg,convert-stablehlo-to-linalg,"
    "lower-quant-ops{rounding-mode=nearest-even},canonicalize"
)

RNG = np.random.default_rng(0)

# Integers, so that sums of products with scales that are powers of two are exact.
X = RNG.integers(-8, 9, (4, 8)).astype(np.float32)
IMAGE = RNG.integers(-8, 9, (1, 4, 4, 2)).astype(np.float32)


def weights(*shape: int) -> Array:
    """Weights whose scales with 4 bits are powers of two."""
    # None is in the middle of two multiples of a scale: dialects round these differently.
    values = (2 * RNG.integers(-56, 56, shape) + 1) / 128
    # Each block of an output channel has its largest weight.
    return np.where(RNG.random(shape) < 0.4, 0.875, values).astype(np.float32)


def dense(values: Array) -> str:
    shape = "x".join(map(str, values.shape))
    return f"dense<{values.tolist()}> : tensor<{shape}xf32>"


W = weights(8, 6)
W[[0, 4]] = 0.875
KERNEL = weights(2, 2, 2, 3)
KERNEL[0, 0, 0] = 0.875
DEPTHWISE = weights(1, 2, 2, 2)
DEPTHWISE[0, 0, 0] = 0.875


def matmul(x: Array, w: Array) -> Array:
    return x @ w


def convolution(image: Array, kernel: Array) -> Array:
    result = np.zeros((1, 3, 3, kernel.shape[3]), np.float32)
    for y, x in np.ndindex(3, 3):
        result[0, y, x] = np.tensordot(image[0, y : y + 2, x : x + 2], kernel, 3)
    return result


def depthwise(image: Array, kernel: Array) -> Array:
    result = np.zeros((1, 3, 3, 2), np.float32)
    for y, x in np.ndindex(3, 3):
        window = image[0, y : y + 2, x : x + 2] * kernel[0]
        result[0, y, x] = window.sum((0, 1))
    return result


DOT_GENERAL = f"""
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {{
  %w = stablehlo.constant {dense(W)}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}}"""

MATMUL = f"""
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {{
  %w = arith.constant {dense(W)}
  %z = arith.constant dense<0.0> : tensor<4x6xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>)
    outs(%z : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}}"""

FULLY_CONNECTED = f"""
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {{
  %w = "tfl.pseudo_const"() <{{value = {dense(W.T)}}}> : () -> tensor<6x8xf32>
  %n = "tfl.no_value"() <{{value}}> : () -> none
  %y = "tfl.fully_connected"(%x, %w, %n) <{{fused_activation_function = "NONE",
    keep_num_dims = false, weights_format = "DEFAULT"}}>
    : (tensor<4x8xf32>, tensor<6x8xf32>, none) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}}"""

CONVOLUTION = f"""
func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x3x3x3xf32> {{
  %w = stablehlo.constant {dense(KERNEL)}
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {{}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x4x4x2xf32>, tensor<2x2x2x3xf32>) -> tensor<1x3x3x3xf32>
  return %y : tensor<1x3x3x3xf32>
}}"""

_TFL_CONVOLUTION = """dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
    fused_activation_function = "NONE", padding = "VALID", stride_h = 1 : i32,
    stride_w = 1 : i32"""

CONV_2D = f"""
func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x3x3x3xf32> {{
  %w = "tfl.pseudo_const"() <{{value = {dense(KERNEL.transpose(3, 0, 1, 2))}}}>
    : () -> tensor<3x2x2x2xf32>
  %n = "tfl.no_value"() <{{value}}> : () -> none
  %y = "tfl.conv_2d"(%x, %w, %n) <{{{_TFL_CONVOLUTION}}}>
    : (tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, none) -> tensor<1x3x3x3xf32>
  return %y : tensor<1x3x3x3xf32>
}}"""

DEPTHWISE_CONV_2D = f"""
func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x3x3x2xf32> {{
  %w = "tfl.pseudo_const"() <{{value = {dense(DEPTHWISE)}}}> : () -> tensor<1x2x2x2xf32>
  %n = "tfl.no_value"() <{{value}}> : () -> none
  %y = "tfl.depthwise_conv_2d"(%x, %w, %n) <{{depth_multiplier = 1 : i32,
    {_TFL_CONVOLUTION}}}>
    : (tensor<1x4x4x2xf32>, tensor<1x2x2x2xf32>, none) -> tensor<1x3x3x2xf32>
  return %y : tensor<1x3x3x2xf32>
}}"""

PROGRAMS = {
    "dot_general": (DOT_GENERAL, X, matmul, W, 1, (4, 1)),
    "matmul": (MATMUL, X, matmul, W, 1, (4, 1)),
    "fully_connected": (FULLY_CONNECTED, X, matmul, W, 1, (4, 1)),
    # The input channels are summed last in the one, but first in the memory of the other.
    "convolution": (CONVOLUTION, IMAGE, convolution, KERNEL, 3, (1, 2, 2, 1)),
    "conv_2d": (CONV_2D, IMAGE, convolution, KERNEL, 3, (1, 2, 2, 1)),
    "depthwise": (DEPTHWISE_CONV_2D, IMAGE, depthwise, DEPTHWISE, 3, (1, 2, 2, 1)),
}


def quantized(values: Array, shape: tuple[int, ...], bits: int, weight_range: Any):
    parameters = weight_parameters(
        values, shape, bits=bits, weight_range=weight_range, expressed="f32"
    )
    return dequantize(quantize(values, parameters), parameters)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("weight_range", ["min-max", "mse"])
@pytest.mark.parametrize("granularity", ["tensor", "axis", "block"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_numpy(name: str, granularity: str, weight_range: str):
    text, x, formula, w, channels, block = PROGRAMS[name]
    module = parse_module(text)
    apply_passes(
        module,
        f"quant-quantize-weights{{bits=4 granularity={granularity} block-size=4 "
        f"range={weight_range}}},quant-convert-const",
    )
    assert "xi4>" in str(module)
    assert dense(w) not in str(module)
    apply_passes(module, TO_LINALG, is_routine=True)
    shapes = {
        "tensor": w.shape,
        "axis": tuple(1 if d == channels else n for d, n in enumerate(w.shape)),
        "block": block,
    }
    stored = quantized(w, shapes[granularity], 4, weight_range)
    assert np.abs(stored - w).max() > 0.01
    expected = formula(x, stored)
    if weight_range == "min-max":
        # All scales are 2**-3.
        assert np.array_equal(compile(module)(x), expected)
    else:
        np.testing.assert_allclose(compile(module)(x), expected, rtol=0, atol=2e-5)


def the_weight(text: str) -> tuple[Any, Weight]:
    module = parse_module(text)
    (found,) = [(op, w) for op in module.walk() if (w := weight_of(op)) is not None]
    return module, found[1]


def test_block_shapes():
    def shape(text: str, sizes: tuple[int, ...], block_size: int) -> tuple[int, ...]:
        # The module has to live as long as its ops.
        _, weight = the_weight(text)
        return block_shape(sizes, weight, "block", block_size)

    assert shape(MATMUL, (64, 10), 32) == (32, 1)
    # No divisor: the nearest one by ratio.
    assert shape(MATMUL, (37, 10), 32) == (37, 1)
    assert shape(MATMUL, (13, 10), 32) == (13, 1)
    assert shape(MATMUL, (96, 10), 36) == (32, 1)
    assert shape(MATMUL, (31, 10), 2) == (1, 1)
    assert shape(CONVOLUTION, (3, 3, 16, 8), 16) == (1, 1, 16, 1)
    assert shape(CONVOLUTION, (3, 3, 16, 8), 48) == (1, 3, 16, 1)
    assert shape(CONVOLUTION, (3, 3, 1, 8), 32) == (3, 3, 1, 1)
    assert shape(CONV_2D, (8, 3, 3, 16), 48) == (1, 1, 3, 16)


def test_batched_products():
    text = """
func.func @main(%x: tensor<2x4x8xf32>) -> tensor<2x4x3x5xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<2x8x3x5xf32>
  %y = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x4x8xf32>, tensor<2x8x3x5xf32>) -> tensor<2x4x3x5xf32>
  return %y : tensor<2x4x3x5xf32>
}"""
    _, weight = the_weight(text)
    assert (weight.dimension, [*weight.contracting_dimensions]) == (None, [1])
    assert block_shape((2, 8, 3, 5), weight, "block", 4) == (1, 4, 1, 1)
    # There is not one dimension of output channels.
    assert block_shape((2, 8, 3, 5), weight, "axis", 4) == (2, 8, 3, 5)


def test_a_transposed_matrix():
    module = parse_module(MATMUL)
    (product,) = [op for op in module.walk() if op.name == "linalg.matmul"]

    def of_maps(*maps: Callable[[Any, Any, Any], tuple[Any, ...]]):
        attrs = [AffineMapAttr(AffineMap.from_callable(each)) for each in maps]
        product.properties["indexing_maps"] = ArrayAttr(attrs)
        weight = weight_of(product)
        assert weight is not None
        return weight.dimension, [*weight.contracting_dimensions]

    assert of_maps(
        lambda m, _, k: (m, k), lambda _, n, k: (n, k), lambda m, n, _: (m, n)
    ) == (0, [1])
    assert of_maps(
        lambda m, _, k: (m, k), lambda _, n, k: (k,), lambda m, n, _: (m, n)
    ) == (None, [])


def test_a_weight_of_two_products_is_quantized_once():
    text = DOT_GENERAL.replace(
        "  return",
        """  %u = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return""",
    )
    module = parse_module(text)
    assert QuantizeWeight().rewrite_module(module) == 2
    names = [op.name for op in module.walk()]
    assert names.count("quant.qcast") == names.count("quant.dcast") == 1


def test_a_second_run_changes_nothing(capsys: pytest.CaptureFixture[str]):
    module = parse_module(DOT_GENERAL)
    apply_passes(module, "quant-quantize-weights")
    assert not capsys.readouterr().err
    once = str(module)
    apply_passes(module, "quant-quantize-weights")
    assert str(module) == once
    assert capsys.readouterr().err == (
        "module:4:3: warning: 'quant-quantize-weights' changed nothing, expected "
        "contractions with constant float weights, found 1 'stablehlo.dot_general'\n"
    )


def test_what_is_no_weight():
    text = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %q: tensor<0x6xf32>)
    -> tensor<4x6xf32> {
  %c = stablehlo.constant dense<1> : tensor<8x6xi32>
  %e = stablehlo.constant dense<> : tensor<0x6xf32>
  %i = stablehlo.constant dense<1> : tensor<4x8xi32>
  %z = stablehlo.dot_general %i, %c, contracting_dims = [1] x [0]
    : (tensor<4x8xi32>, tensor<8x6xi32>) -> tensor<4x6xi32>
  %u = stablehlo.dot_general %q, %e, contracting_dims = [0] x [0]
    : (tensor<0x6xf32>, tensor<0x6xf32>) -> tensor<6x6xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}"""
    module = parse_module(text)
    before = str(module)
    assert QuantizeWeight().rewrite_module(module) == 0
    assert str(module) == before


def test_bf16():
    text = DOT_GENERAL.replace("f32", "bf16")
    module = parse_module(text)
    apply_passes(module, "quant-quantize-weights{bits=4}")
    assert "!quant.uniform<i4<-7:7>:bf16:1, {1.250000e-01,1.250000e-01," in str(module)


def test_mistakes():
    text = DOT_GENERAL.replace("dense<[[", "dense<[[0x7F800000, ", 1)
    text = text.replace(f", {W[0, 5]}]", "]", 1)
    module = parse_module(text)
    before = str(module)
    with pytest.raises(IRError) as caught:
        apply_passes(module, "quant-quantize-weights")
    assert str(caught.value) == (
        "module:4:3: error: 'stablehlo.dot_general' op has a weight that cannot be "
        "quantized: expected finite weights, found inf at index (0, 0) (in the pass "
        "quant-quantize-weights)"
    )
    assert str(module) == before
    with pytest.raises(PassFailedException, match="expected 2 to 8 bits for a weight"):
        QuantizeWeight(bits=9)
    with pytest.raises(PassFailedException, match="positive block size, found 0"):
        QuantizeWeight(block_size=0)
