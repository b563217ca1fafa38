"""Floats times stored weights as XNNPACK computes them: LiteRT's default kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.frontends.tflite.files.litert import LiteRT
from tests.unit.frontends.tflite.lowering.test_blockwise_kernels import (
    assert_close,
    default_kernels,
)
from tests.unit.frontends.tflite.lowering.test_hybrid_kernels import (
    WINDOW,
    model,
    samples,
)
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_linalg import (
    ConvertTFLToLinalgPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import multiverse_context, parse_module

Floats = NDArray[np.float32]

OPTIONS = (
    'keep_num_dims = {}, weights_format = "DEFAULT", fused_activation_function = "{}"'
)


def check(text: str, x: Floats) -> None:
    module = parse_module(text)
    (expected,) = default_kernels(write_tflite(module), x)
    (result,) = run_function(module, None, x, kernels="xnnpack")
    assert_close(result, expected)
    compiled = compile(module, kernels="xnnpack")(x)
    np.testing.assert_array_equal(np.asarray(compiled), result)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("bits", "axis", "inputs", "activation"),
    [(8, 0, 35, "RELU6"), (8, None, 64, "NONE"), (4, 0, 38, "RELU_N1_TO_1")],
)
def test_fully_connected(bits: int, axis: int | None, inputs: int, activation: str):
    rng = np.random.default_rng(inputs)
    shapes = (6, inputs), (7, inputs), (6, 7)
    options = OPTIONS.format("false", activation)
    text = model(rng, "fully_connected", options, *shapes, axis, bits)
    check(text, samples(rng, (6, inputs)))


def test_rows_of_more_dimensions():
    rng = np.random.default_rng(0)
    options = OPTIONS.format("true", "NONE")
    text = model(rng, "fully_connected", options, (3, 2, 5), (4, 5), (3, 2, 4), axis=0)
    check(text, samples(rng, (3, 2, 5)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("filters", "stride", "dilation", "padding", "result"),
    [
        ((3, 3, 2, 2), 1, 1, "SAME", (5, 6)),
        ((3, 3, 2, 2), 1, 2, "VALID", (1, 4)),
        ((3, 1, 1, 2), 1, 1, "VALID", (5, 6)),  # a scale for each pixel
        ((3, 1, 1, 2), 2, 1, "SAME", (3, 3)),
        ((1, 1, 1, 1), 1, 1, "SAME", (5, 6)),
    ],
)
def test_convolution(
    filters: Sequence[int],
    stride: int,
    dilation: int,
    padding: str,
    result: Sequence[int],
):
    rng = np.random.default_rng(stride)
    options = WINDOW.format(stride, dilation, padding, "RELU")
    shapes = (4, 5, 6, filters[3]), filters, (4, *result, filters[0])
    check(model(rng, "conv_2d", options, *shapes, axis=0), samples(rng, shapes[0]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("bits", "window", "axis"),
    [
        (8, (2, 3), 0),
        (8, (2, 3), None),
        (8, (1, 1), None),  # a scale for each image, unlike without groups
        (4, (2, 3), 0),
    ],
)
def test_groups(bits: int, window: tuple[int, int], axis: int | None):
    rng = np.random.default_rng(bits)
    options = WINDOW.format(1, 1, "SAME", "NONE")
    shapes = (4, 5, 6, 4), (6, *window, 2), (4, 5, 6, 6)
    check(model(rng, "conv_2d", options, *shapes, axis, bits), samples(rng, shapes[0]))


@pytest.mark.parametrize("axis", [0, None])
def test_convolution_of_4_bits(axis: int | None):
    rng = np.random.default_rng(0)
    options = WINDOW.format(2, 1, "SAME", "RELU6")
    shapes = (4, 5, 6, 3), (5, 3, 2, 3), (4, 3, 3, 5)
    check(model(rng, "conv_2d", options, *shapes, axis, 4), samples(rng, shapes[0]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("channels", "multiplier"), [(3, 1), (8, 1), (7, 2)])
def test_depthwise_convolution(channels: int, multiplier: int):
    """The last channels, beyond a multiple of four, are scaled in another order."""
    rng = np.random.default_rng(channels)
    options = WINDOW.format(1, 1, "SAME", "RELU")
    options += f", depth_multiplier = {multiplier} : i32"
    outputs = channels * multiplier
    shapes = (4, 5, 6, channels), (1, 3, 2, outputs), (4, 5, 6, outputs)
    text = model(rng, "depthwise_conv_2d", options, *shapes, axis=3)
    check(text, samples(rng, shapes[0]))


@pytest.mark.parametrize(
    ("bits", "inputs", "activation"), [(4, 35, "NONE"), (8, 8, "TANH")]
)
def test_products_without_a_kernel_are_those_of_the_reference(
    bits: int, inputs: int, activation: str
):
    rng = np.random.default_rng(bits)
    shapes = (3, inputs), (4, inputs), (3, 4)
    options = OPTIONS.format("false", activation)
    module = parse_module(model(rng, "fully_connected", options, *shapes, 0, bits))
    x = samples(rng, (3, inputs))
    (expected,) = run_function(module, None, x, kernels="reference")
    (result,) = run_function(module, None, x, kernels="xnnpack")
    np.testing.assert_array_equal(result, expected)


def test_default_kernels_are_those_of_the_reference():
    rng = np.random.default_rng(0)
    shapes = (3, 8), (4, 8), (3, 4)
    text = model(rng, "fully_connected", OPTIONS.format("false", "NONE"), *shapes, 0)
    module, x = parse_module(text), samples(rng, (3, 8))
    (expected,) = LiteRT(write_tflite(module)).run(x)
    (result,) = run_function(module, None, x)
    np.testing.assert_array_equal(result, expected)


def test_the_module_selects_kernels():
    """As an attribute, as an argument, and as an option of the pass."""
    rng = np.random.default_rng(0)
    shapes = (3, 8), (4, 8), (3, 4)
    text = model(rng, "fully_connected", OPTIONS.format("false", "NONE"), *shapes, 0)
    x = samples(rng, (3, 8))
    marked = f'builtin.module attributes {{quant.kernels = "xnnpack"}} {{{text}\n}}'
    (expected,) = run_function(text, None, x, kernels="xnnpack")
    lowered = parse_module(text)
    option = ConvertTFLToLinalgPass(kernels="xnnpack")
    option.apply(multiverse_context(), lowered)
    results: list[Any] = [
        run_function(marked, None, x)[0],
        compile(marked)(x),
        run_function(lowered, None, x)[0],
    ]
    for result in results:
        np.testing.assert_array_equal(np.asarray(result), expected)
    (reference,) = run_function(marked, None, x, kernels="reference")
    assert not np.array_equal(reference, expected)


def test_unknown_kernels():
    text = 'builtin.module attributes {quant.kernels = "ruy"} { %s }'
    op = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = "tfl.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
        return %y : tensor<2xf32> }"""
    known = "'reference', 'multiplier', 'xnnpack', 'onnxruntime'"
    message = f"unknown kernels 'ruy'; available: {known}"
    x = np.zeros(2, np.float32)
    wrong: Any = "ruy"
    with pytest.raises(ValueError, match=message):
        run_function(text % op, None, x)
    with pytest.raises(ValueError, match=message):
        run_function(op, None, x, kernels=wrong)
    with pytest.raises(ValueError, match=message):
        compile(op, kernels=wrong)
    with pytest.raises(CompilationError, match=message):
        compile(text % op)
