"""Floats times stored weights: LiteRT, compiled and interpreted code compute the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

Floats = NDArray[np.float32]


def f32(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def model(
    rng: np.random.Generator,
    op: str,
    options: str,
    x: Sequence[int],
    w: Sequence[int],
    y: Sequence[int],
    axis: int | None,
    bits: int = 8,
) -> str:
    """A product by random weights, with a scale for each index of a dimension, or one."""
    outputs = y[-1]
    scales = rng.uniform(0.001, 0.1, 1 if axis is None else outputs).astype(np.float32)
    along = "" if axis is None else f":{axis}"
    numbers = ", ".join(repr(float(scale)) for scale in scales)
    braced = numbers if axis is None else f"{{{numbers}}}"
    largest = 2 ** (bits - 1) - 1
    type_ = f"!quant.uniform<i{bits}<{-largest}:{largest}>:f32{along}, {braced}>"
    if bits == 4:
        type_ = type_.replace("<-7:7>", "")
    weights = f"tensor<{'x'.join(map(str, w))}x{type_}>"
    values = rng.integers(-largest, largest + 1, w).tolist()
    bias = rng.normal(0, 1, outputs).astype(np.float32).tolist()
    return f"""
        func.func @main(%x: {f32(x)}) -> {f32(y)} {{
          %w = "tfl.pseudo_qconst"() <{{qtype = {weights},
            value = dense<{values}> : tensor<{"x".join(map(str, w))}xi{bits}>}}>
            : () -> {weights}
          %b = "tfl.pseudo_const"() <{{value = dense<{bias}> : tensor<{outputs}xf32>}}>
            : () -> tensor<{outputs}xf32>
          %y = "tfl.{op}"(%x, %w, %b) <{{{options}}}>
            : ({f32(x)}, {weights}, tensor<{outputs}xf32>) -> {f32(y)}
          return %y : {f32(y)}
        }}
    """


def samples(rng: np.random.Generator, shape: Sequence[int]) -> Floats:
    """
    Numbers of very different sizes; zeros, numbers of one sign, and multiples of 1/4, some
    of which are ties, in the first, second and third row or image.
    """
    sizes = 10.0 ** rng.uniform(-3, 3, (shape[0], *[1] * (len(shape) - 1)))
    values = (rng.normal(rng.uniform(-2, 2), 1, shape) * sizes).astype(np.float32)
    values[0] = 0
    values[1:2] = np.abs(values[1:2])
    values[2:3] = np.round(values[2:3] / np.float32(sizes.flat[-1]) * 4) / 4
    return values


def check(text: str, x: Floats) -> None:
    module = parse_module(text)
    (expected,) = LiteRT(write_tflite(module)).run(x)
    np.testing.assert_array_equal(compile(module)(x), expected)
    (interpreted,) = run_function(module, None, x)
    np.testing.assert_array_equal(interpreted, expected)


WINDOW = (
    "dilation_h_factor = {1} : i32, dilation_w_factor = {1} : i32, stride_h = {0} : i32, "
    'stride_w = {0} : i32, padding = "{2}", fused_activation_function = "{3}"'
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("asymmetric", ["true", "false"])
@pytest.mark.parametrize("axis", [0, None])
@pytest.mark.parametrize("bits", [8, 4])
def test_fully_connected(asymmetric: str, axis: int | None, bits: int):
    rng = np.random.default_rng(bits)
    options = (
        'keep_num_dims = false, weights_format = "DEFAULT", '
        f"asymmetric_quantize_inputs = {asymmetric}, fused_activation_function = "
    )
    for activation in ("NONE", "RELU"):
        named = f'{options}"{activation}"'
        text = model(
            rng, "fully_connected", named, (6, 35), (7, 35), (6, 7), axis, bits
        )
        check(text, samples(rng, (6, 35)))


def test_rows_of_more_dimensions():
    rng = np.random.default_rng(0)
    options = (
        'keep_num_dims = true, weights_format = "DEFAULT", '
        'fused_activation_function = "RELU6"'
    )
    shapes = (3, 2, 5), (4, 5), (3, 2, 4)
    text = model(rng, "fully_connected", options, *shapes, axis=0)
    check(text, samples(rng, (3, 2, 5)))


@pytest.mark.parametrize(("asymmetric", "steps"), [("false", 127), ("true", 255)])
def test_smallest_rows(asymmetric: str, steps: int):
    """
    LiteRT's results of rows with smaller scales are undefined: the reciprocals overflow.
    They are zeros here.
    """
    rng = np.random.default_rng(0)
    options = (
        'keep_num_dims = false, weights_format = "DEFAULT", '
        f"asymmetric_quantize_inputs = {asymmetric}, "
        'fused_activation_function = "NONE"'
    )
    text = model(rng, "fully_connected", options, (2, 35), (7, 35), (2, 7), axis=0)
    # Another bias would hide the products.
    bias = re.compile("dense<[^>]*> : tensor<7xf32>")
    module = parse_module(bias.sub("dense<0.0> : tensor<7xf32>", text))
    x = rng.uniform(0, 1, (2, 35)).astype(np.float32)
    x[:, 0] = 1
    x *= np.float32(steps * (1 + 2**-20) * 2.0**-128)
    (expected,) = LiteRT(write_tflite(module)).run(x)
    x[1] /= 2
    expected[1] = LiteRT(write_tflite(module)).run(np.zeros_like(x))[0][1]
    np.testing.assert_array_equal(compile(module)(x), expected)
    (interpreted,) = run_function(module, None, x)
    np.testing.assert_array_equal(interpreted, expected)


def test_zero_points_that_are_ties():
    """
    Rows from `-(k + 1/2) s` to `(254 1/2 - k) s`: in 32 bits, one end is nearer to a
    tie than the other, and the zero point hangs on which one it is computed from.
    """
    rng = np.random.default_rng(0)
    steps = rng.uniform(0.5, 2, 300).astype(np.float32)
    below = rng.integers(0, 255, 300).astype(np.float32) + np.float32(0.5)
    x = np.stack([-below * steps, (255 - below) * steps, steps, 3 * steps], axis=1)
    options = (
        'keep_num_dims = false, weights_format = "DEFAULT", '
        'asymmetric_quantize_inputs = true, fused_activation_function = "NONE"'
    )
    shapes = (300, 4), (3, 4), (300, 3)
    check(model(rng, "fully_connected", options, *shapes, axis=0), x)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("stride", "dilation", "padding", "result"),
    [(1, 1, "SAME", (5, 6)), (2, 1, "VALID", (2, 3)), (1, 2, "VALID", (1, 4))],
)
@pytest.mark.parametrize("axis", [0, None])
def test_convolution(
    stride: int, dilation: int, padding: str, result: tuple[int, int], axis: int | None
):
    rng = np.random.default_rng(stride + dilation)
    options = WINDOW.format(stride, dilation, padding, "RELU_N1_TO_1")
    shapes = (4, 5, 6, 2), (3, 3, 2, 2), (4, *result, 3)
    text = model(rng, "conv_2d", options, *shapes, axis)
    check(text, samples(rng, shapes[0]))


def test_convolution_by_weights_with_one_scale_along_an_axis():
    """A file does not tell this type from a per-tensor type."""
    rng = np.random.default_rng(0)
    options = WINDOW.format(1, 1, "SAME", "NONE")
    shapes = (2, 3, 3, 2), (1, 2, 2, 2), (2, 3, 3, 1)
    check(model(rng, "conv_2d", options, *shapes, axis=0), samples(rng, shapes[0]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("stride", "padding", "result"), [(1, "SAME", (5, 6)), (2, "VALID", (2, 3))]
)
@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_convolution(
    stride: int, padding: str, result: tuple[int, int], multiplier: int
):
    rng = np.random.default_rng(stride)
    options = WINDOW.format(stride, 1, padding, "RELU")
    options += f", depth_multiplier = {multiplier} : i32"
    outputs = 3 * multiplier
    shapes = (4, 5, 6, 3), (1, 3, 2, outputs), (4, *result, outputs)
    text = model(rng, "depthwise_conv_2d", options, *shapes, axis=3)
    check(text, samples(rng, shapes[0]))
