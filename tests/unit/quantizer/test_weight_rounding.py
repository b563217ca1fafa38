"""Weights that are rounded by GPTQ, with the inputs of products on samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from xdsl.ir import BlockArgument

from tests.unit.transforms.weights.layers import (
    CONVOLUTION,
    Array,
    constant,
    normal,
    run,
    type_of,
)
from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.numerics import quantize as quantize_array
from xdsl_quant.numerics.gptq import gptq
from xdsl_quant.numerics.weights import weight_parameters
from xdsl_quant.quantizer import (
    Override,
    QuantizedModel,
    Recipe,
    WeightOptions,
    quantize,
)
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.transforms.weights.layers.channels import constant_numbers
from xdsl_quant.transforms.weights.quant_quantize_weights import Granularity, weight_of

from .models import dense_layers, samples

RNG = np.random.default_rng(1)
FIRST, SECOND = (
    RNG.normal(0, 0.5, shape).astype(np.float32) for shape in ((6, 8), (8, 3))
)
"""The weights of `dense_layers`."""

DATA = samples(40, 6) @ normal(6, 6, seed=5) + np.float32(0.5)


def recipe(
    options: WeightOptions, *overrides: Override, bias_correction: bool = False
) -> Recipe:
    return Recipe(
        "mine",
        mode="weight-only",
        weights=options,
        overrides=overrides,
        bias_correction=bias_correction,
    )


def rounded_weights(model: QuantizedModel) -> Sequence[Array]:
    """The weights of products, before they are quantized."""
    weights = [weight_of(op, is_quantized=True) for op in model.resolved.walk()]
    arrays = [weight.elements() for weight in weights if weight is not None]
    return [each for each in arrays if each is not None]


def expected(
    weights: Array, inputs: Array, parameters: QuantizationParameters
) -> tuple[Array, Array]:
    """The integers and the weights that they stand for."""
    ones = np.ones(weights.shape, parameters.storage_dtype)
    scales = dequantize(ones, parameters).astype(np.float64)
    limits = parameters.storage_min, parameters.storage_max
    x = inputs.astype(np.float64)
    stored = gptq(weights, x.T @ x, scales, limits)
    assert not np.array_equal(stored, quantize_array(weights, parameters))
    return stored, (stored * scales).astype(np.float32)


# Two bits are few.
@pytest.mark.filterwarnings("ignore:low SQNR of result")
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("bits", "granularity", "shapes"),
    [
        (8, "tensor", ((6, 8), (8, 3))),
        (2, "axis", ((6, 1), (8, 1))),
        (4, "block", ((2, 1), (2, 1))),
    ],
)
def test_integers_are_those_of_numpy(
    bits: int, granularity: Granularity, shapes: tuple[tuple[int, int], ...]
):
    options = WeightOptions(bits, granularity, 2, "mse", "gptq")
    batches: list[Iterable[Batch]] = []

    def progress(each: Iterable[Batch], count: int | None) -> Iterable[Batch]:
        assert count == 10
        batches.append(each)
        return each

    model = quantize(dense_layers(), DATA, recipe(options), progress=progress)
    assert len(batches) == 1
    inputs = DATA, np.tanh(DATA @ FIRST)
    for weights, shape, x, found in zip(
        (FIRST, SECOND), shapes, inputs, rounded_weights(model), strict=True
    ):
        parameters = weight_parameters(weights, shape, bits=bits, weight_range="mse")
        integers, rounded = expected(weights, x, parameters)
        assert np.array_equal(found, rounded)
        assert np.array_equal(quantize_array(found, parameters), integers)


def test_the_report_and_the_biases():
    options = WeightOptions(4, "axis", rounding="gptq")
    parameters = [
        weight_parameters(each, (len(each), 1), bits=4) for each in (FIRST, SECOND)
    ]
    hidden = np.tanh(DATA @ FIRST)
    _, first = expected(FIRST, DATA, parameters[0])
    _, second = expected(SECOND, hidden, parameters[1])
    plain = quantize(dense_layers(), DATA, recipe(options))
    np.testing.assert_allclose(
        run(plain.module, DATA[:4]), np.tanh(DATA[:4] @ first) @ second, atol=1e-5
    )
    report = plain.report(DATA)
    for kernel, weights, rounded, x in zip(
        report.kernels, (FIRST, SECOND), (first, second), (DATA, hidden), strict=True
    ):
        for number, exact, found in (
            (kernel.weight_sqnr, weights, rounded),
            (kernel.own_sqnr, x @ weights, x @ rounded),
        ):
            noise = np.square(exact.astype(np.float64) - found).sum()
            sqnr = 10 * np.log10(np.square(exact.astype(np.float64)).sum() / noise)
            assert number == pytest.approx(sqnr, abs=1e-3)
    corrected = quantize(dense_layers(), DATA, recipe(options, bias_correction=True))
    for found, weights in zip(rounded_weights(corrected), (first, second), strict=True):
        assert np.array_equal(found, weights)
    biases = (DATA @ (FIRST - first)).mean(0), (hidden @ (SECOND - second)).mean(0)
    uncorrected, result = (
        np.tanh(DATA @ first + shifts[0]) @ second + shifts[1]
        for shifts in ((0, 0), biases)
    )
    # Corrected results are a little worse here, so that the biases stay as they are.
    exact = hidden @ SECOND
    assert np.square(exact - uncorrected).sum() < np.square(exact - result).sum()
    found = run(corrected.module, DATA[:4])
    np.testing.assert_allclose(found, uncorrected[:4], atol=1e-5)


def test_biases_after_rounding():
    """Inputs whose mean is far from 0 make the error of rounding a shift of results."""
    data = DATA + np.float32(2)
    hidden = np.tanh(data @ FIRST)
    first, second = (
        expected(weights, x, weight_parameters(weights, (len(weights), 1), bits=4))[1]
        for weights, x in ((FIRST, data), (SECOND, hidden))
    )
    options = recipe(WeightOptions(4, "axis", rounding="gptq"), bias_correction=True)
    model = quantize(dense_layers(), data, options)
    for found, weights in zip(rounded_weights(model), (first, second), strict=True):
        assert np.array_equal(found, weights)
    biases = (data @ (FIRST - first)).mean(0), (hidden @ (SECOND - second)).mean(0)
    uncorrected, corrected = (
        np.tanh(data @ first + shifts[0]) @ second + shifts[1]
        for shifts in ((0, 0), biases)
    )
    exact = hidden @ SECOND
    assert np.square(exact - corrected).sum() < np.square(exact - uncorrected).sum()
    found = run(model.module, data[:4])
    np.testing.assert_allclose(found, corrected[:4], rtol=0, atol=1e-5)
    assert np.abs(found - uncorrected[:4]).max() > 1e-3


def test_a_depthwise_convolution_of_tflite():
    image, kernel = type_of(2, 4, 4, 2), normal(1, 3, 3, 4)
    text = f"""
func.func @main(%x: {image}) -> {type_of(2, 4, 4, 4)} {{
  {constant("w", kernel, "tfl")}
  {constant("b", normal(4), "tfl")}
  %y = "tfl.depthwise_conv_2d"(%x, %w, %b) <{{depth_multiplier = 2 : i32,
    fused_activation_function = "RELU6", {CONVOLUTION}}}>
    : ({image}, {type_of(1, 3, 3, 4)}, {type_of(4)}) -> {type_of(2, 4, 4, 4)}
  return %y : {type_of(2, 4, 4, 4)}
}}"""
    data = np.abs(normal(6, 4, 4, 2, seed=4))
    options = WeightOptions(3, "axis", rounding="gptq")
    model = quantize(text, data, recipe(options))
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2)
    )
    parameters = weight_parameters(kernel, (1, 3, 3, 1), bits=3)
    scales = dequantize(np.ones(kernel.shape, np.int8), parameters).astype(np.float64)
    rounded = np.empty(kernel.shape)
    for channel in range(4):
        x = windows[:, :, :, channel // 2].reshape(-1, 9).astype(np.float64)
        steps = scales[..., channel].reshape(9, 1)
        weights = kernel[..., channel].reshape(9, 1)
        stored = gptq(weights, x.T @ x, steps, (-3, 3))
        rounded[..., channel] = (stored * steps).reshape(1, 3, 3)
    (found,) = rounded_weights(model)
    np.testing.assert_array_equal(found, rounded.astype(np.float32))


def tied(second: str) -> str:
    """Two products by the same matrix."""
    x, w = type_of(4, 6), type_of(6, 6)
    return f"""
func.func @main(%x: {x}) -> {x} {{
  {constant("w", normal(6, 6), "stablehlo")}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {x}
  %z = stablehlo.dot_general %y, %w, contracting_dims = {second} : ({x}, {w}) -> {x}
  return %z : {x}
}}"""


@pytest.mark.filterwarnings("ignore:'rounding = \"gptq\"' reduces the SQNR")
def test_weights_that_two_products_take():
    options = WeightOptions(4, "tensor", rounding="gptq")
    model = quantize(tied("[1] x [0]"), DATA, recipe(options))
    parameters = weight_parameters(normal(6, 6), (6, 6), bits=4)
    inputs = np.concatenate([DATA, DATA @ normal(6, 6)])
    _, rounded = expected(normal(6, 6), inputs, parameters)
    assert all(np.array_equal(found, rounded) for found in rounded_weights(model))
    # One of the two takes rows, the other one columns.
    model = quantize(tied("[1] x [1]"), DATA, recipe(options))
    assert all(np.array_equal(found, normal(6, 6)) for found in rounded_weights(model))


def test_products_have_bits_of_their_own():
    options = WeightOptions(4, "axis", rounding="gptq")
    overrides = (
        Override(locations=["4:3"], keep_float=True),
        Override(locations=["8:3"], weight_bits=3),
    )
    model = quantize(dense_layers(), DATA, recipe(options, *overrides))
    first, second = rounded_weights(model)
    assert np.array_equal(first, FIRST)
    parameters = weight_parameters(SECOND, (8, 1), bits=3)
    assert np.array_equal(
        second, expected(SECOND, np.tanh(DATA @ FIRST), parameters)[1]
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("bits", "storage"), [(8, "i8<-127:127>"), (4, "i4<-7:7>")])
@pytest.mark.parametrize("bias_correction", [False, True])
def test_kernels_of_a_target(bits: int, storage: str, bias_correction: bool):
    options = Recipe(
        targets=("stablehlo-mixed",),
        overrides=[Override(ops=["*"], weight_bits=bits)],
        bias_correction=bias_correction,
    )
    rounded = replace(options, weights=WeightOptions(rounding="gptq"))
    model = quantize(dense_layers(), DATA, rounded)
    kernels = [
        each for each in model.report(DATA).kernels if storage in each.weight_type
    ]
    assert len(kernels) == 2
    products = [
        op for op in model.resolved.walk() if op.name == "stablehlo.dot_general"
    ]
    for op, weights, x, kernel in zip(
        products, (FIRST, SECOND), (DATA, np.tanh(DATA @ FIRST)), kernels, strict=True
    ):
        region, port = op.parent_op(), op.operands[1]
        assert isinstance(region, RegionOp)
        assert isinstance(port, BlockArgument)
        type_ = region.specs[port.index]
        assert isinstance(type_, UniformType)
        parameters = QuantizationParameters.from_type(type_)
        _, numbers = expected(weights, x, parameters)
        found = constant_numbers(region.inputs[port.index])
        assert found is not None
        assert np.array_equal(found, numbers)
        noise = np.square(weights.astype(np.float64) - numbers).sum()
        sqnr = 10 * np.log10(np.square(weights.astype(np.float64)).sum() / noise)
        assert kernel.weight_sqnr == pytest.approx(sqnr, abs=1e-3)
    constants = [
        constant_numbers(op.results[0]) for op in model.reference.walk() if op.results
    ]
    assert any(np.array_equal(found, FIRST) for found in constants if found is not None)
    if bits == 4:
        nearest = quantize(dense_layers(), DATA, options)
        (before,), (after,) = (
            each.report(DATA).outputs.values() for each in (nearest, model)
        )
        assert after > before + 1


def test_values_that_are_not_finite():
    text = dense_layers().replace("stablehlo.tanh", "stablehlo.sqrt")
    message = (
        r"^module:8:3: error: 'stablehlo.dot_general' op takes non-finite values, "
        "found nan; use samples that lead to finite values$"
    )
    with pytest.raises(ValueError, match=message):
        quantize(text, DATA, recipe(WeightOptions(4, rounding="gptq")))
