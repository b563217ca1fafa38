"""Symmetric quantization of weights, with a scale for each block."""

import re
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.numerics.weights import (
    WeightRange,
    blocks_of,
    smoothing_factors,
    weight_parameters,
)

WEIGHTS = np.random.default_rng(0).standard_t(4, (6, 8)).astype(np.float32)


def error(weights: NDArray[np.floating], parameters: QuantizationParameters) -> float:
    stored = quantize(weights, parameters)
    difference = dequantize(stored, parameters).astype(np.float64) - weights
    return float(np.square(difference).sum())


def test_blocks_are_those_of_slices():
    blocks = blocks_of(WEIGHTS, (3, 2))
    assert blocks.shape == (2, 4, 6)
    for i in range(2):
        for j in range(4):
            expected = WEIGHTS[3 * i : 3 * i + 3, 2 * j : 2 * j + 2].ravel()
            assert blocks[i, j].tolist() == expected.tolist()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_scales_are_those_of_the_largest_weights(bits: int):
    last = 2 ** (bits - 1) - 1
    largest = np.abs(WEIGHTS).astype(np.float64)
    whole = weight_parameters(WEIGHTS, (6, 8), bits=bits)
    assert whole == QuantizationParameters(
        largest.max() / last, storage=f"i{bits}", storage_min=-last
    )
    columns = weight_parameters(WEIGHTS, (6, 1), bits=bits)
    assert columns == QuantizationParameters(
        largest.max(0) / last,
        storage=f"i{bits}",
        storage_min=-last,
        quantized_dimension=1,
    )
    blocks = weight_parameters(WEIGHTS, (3, 1), bits=bits)
    assert blocks == QuantizationParameters(
        largest.reshape(2, 3, 8).max(1) / last,
        storage=f"i{bits}",
        storage_min=-last,
        block_sizes=((0, 3), (1, 1)),
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("block_shape", [(6, 8), (6, 1), (1, 8), (3, 1), (2, 4)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_least_error_of_all_that_are_tried(block_shape: tuple[int, int], bits: int):
    last = 2 ** (bits - 1) - 1
    found = weight_parameters(WEIGHTS, block_shape, bits=bits, weight_range="mse")
    scales = found.scales.reshape(-1)
    for row, scale in zip(
        blocks_of(WEIGHTS, block_shape).reshape(scales.size, -1), scales, strict=True
    ):
        full = float(np.abs(row).max()) / last
        tried = [full, *(full * part for part in np.arange(99, 19, -1) / 100)]
        assert len(tried) == 81
        errors = [
            error(row, QuantizationParameters(s, storage=f"i{bits}", storage_min=-last))
            for s in tried
        ]
        assert scale == tried[int(np.argmin(errors))]


def test_an_outlier_is_saturated_if_that_is_better():
    steps = [*range(-3, 4)] * 10
    weights = np.array([0.7 / 3 * step for step in steps] + [1.0], np.float32)
    ranges: list[WeightRange] = ["min-max", "mse"]
    full, clipped = (
        weight_parameters(weights, (71,), bits=3, weight_range=each) for each in ranges
    )
    assert float(full.scales) == 1 / 3
    # The error of 20 weights of 0.7 and that of 1.0 are in balance.
    assert float(clipped.scales) == pytest.approx(0.71 / 3)
    assert error(weights, clipped) < 0.1 < 0.5 < error(weights, full)


def test_zeros_and_tiny_weights():
    weights = np.array([[0, 0], [1e-44, 0]], np.float32)
    parameters = weight_parameters(weights, (1, 2))
    assert parameters.scales.tolist() == [1.0, float(np.finfo(np.float32).tiny)]
    assert not quantize(weights, parameters).any()
    clipped = weight_parameters(weights, (1, 2), weight_range="mse")
    assert clipped.scales.tolist() == parameters.scales.tolist()


def test_all_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch):
    expected = weight_parameters(WEIGHTS, (1, 8), bits=4, weight_range="mse")
    monkeypatch.setattr("xdsl_quant.numerics.weights._PIECE", 17)
    assert weight_parameters(WEIGHTS, (1, 8), bits=4, weight_range="mse") == expected


def test_f64_is_not_rounded():
    weights = np.array([1 + 2**-40, 0.5])
    parameters = weight_parameters(weights, (2,), expressed="f64")
    assert float(parameters.scales) == (1 + 2**-40) / 127
    assert parameters.expressed == "f64"


def test_integers_are_those_of_onnxruntime():
    pytest.importorskip("onnxruntime")
    library: Any = import_module("onnxruntime.quantization.quant_utils")
    weights = np.random.default_rng(1).standard_t(5, (64, 32)).astype(np.float32)
    stored = quantize(weights, weight_parameters(weights, (64, 1)))
    for channel in range(32):
        # 3 is the type INT8 of ONNX; the range is symmetric.
        *_, found = library.quantize_data(weights[:, channel].copy(), 3, True)
        assert np.array_equal(found, stored[:, channel])


def test_blocks_of_4_bits_are_those_of_onnxruntime():
    pytest.importorskip("onnxruntime")
    library: Any = import_module("onnxruntime.capi._pybind_state")
    weights = np.random.default_rng(1).standard_t(5, (64, 32)).astype(np.float32)
    packed = np.zeros((32, 2, 16), np.uint8)
    scales, zeros = np.zeros((32, 2), np.float32), np.zeros((32, 1), np.uint8)
    library.quantize_matmul_4bits(packed, weights, scales, zeros, 32, 32, 64, True)
    theirs = np.stack([packed & 15, packed >> 4], -1).reshape(32, 64).T.astype(int) - 8
    parameters = QuantizationParameters(
        np.abs(scales.T), storage="i4", block_sizes={0: 32, 1: 1}
    )
    # Its scales may be negative: the largest weight is -8 of them.
    signs = np.repeat(np.sign(scales.T), 32, 0)
    assert (signs < 0).any()
    assert np.array_equal(quantize(weights * signs, parameters), theirs)


def test_smoothing_factors():
    activations, weights = np.array([16.0, 0.25, 0, 9]), np.array([4.0, 1, 2, 0])
    for alpha, expected in (
        (0, [1 / 4, 1, 1, 1]),
        (0.5, [2, 0.5, 1, 1]),
        (0.75, [8 / 2**0.5, 2**-1.5, 1, 1]),
        (1, [16, 0.25, 1, 1]),
    ):
        found = smoothing_factors(activations, weights, alpha)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert np.array_equal(
        smoothing_factors(activations, weights),
        smoothing_factors(activations, weights, 0.5),
    )
    # Integers are not divided as such.
    assert smoothing_factors([9], [4]).tolist() == [1.5]
    for first, second, alpha, message in (
        ([1], [1], 1.5, "expected alpha from 0 to 1, found 1.5"),
        ([1], [1], -0.5, "expected alpha from 0 to 1, found -0.5"),
        (
            [1, -2],
            [1, 1],
            0.5,
            "expected finite non-negative activations, found -2.0 at index 1",
        ),
        ([1], [np.inf], 0.5, "expected finite non-negative weights, found inf"),
        ([np.nan], [1], 0.5, "expected finite non-negative activations, found nan"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            smoothing_factors(first, second, alpha)
    with pytest.raises(
        TypeError, match=r"^expected numbers as activations, found dtype <U1"
    ):
        smoothing_factors(np.array(["1"]), [1])
    with pytest.raises(
        TypeError, match=r"^expected numbers as weights, found dtype <U1"
    ):
        smoothing_factors([1], np.array(["1"]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.8])
def test_smoothing_factors_are_those_of_torchao(alpha: float):
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip("torchao")
    library: Any = import_module("torchao.prototype.smoothquant.core")
    inputs = np.random.default_rng(2).normal(size=(50, 8)) * [1, 100, *[5] * 6]
    observer = library.SmoothQuantObserver(torch.tensor(WEIGHTS), alpha)
    observer.forward(torch.tensor(inputs.astype(np.float32)))
    theirs = observer.calculate_qparams()[0].numpy()
    ours = smoothing_factors(np.abs(inputs).max(0), np.abs(WEIGHTS).max(0), alpha)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_mistakes():
    for weights, shape, bits, weight_range, message in (
        ([1.0], (1,), 9, "min-max", "expected 2 to 8 bits, found 9"),
        ([1.0], (1,), 4, "max", "unknown range 'max', available: 'min-max', 'mse'"),
        ([], (0,), 4, "mse", "expected at least one weight, found shape (0,)"),
        (
            [1.0, np.inf],
            (2,),
            4,
            "mse",
            "expected finite weights, found inf at index 1",
        ),
        ([1.0, 2.0], (3,), 4, "mse", "divide shape (2,), found (3,)"),
        ([1.0, 2.0], (0,), 4, "mse", "divide shape (2,), found (0,)"),
        ([1.0, 2.0], (1, 2), 4, "mse", "divide shape (2,), found (1, 2)"),
    ):
        arguments: Any = {"bits": bits, "weight_range": weight_range}
        with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
            weight_parameters(np.array(weights), shape, **arguments)
    with pytest.raises(
        TypeError, match=r"^expected numbers as weights, found dtype <U1"
    ):
        weight_parameters(np.array(["1"]), (1,))


# Scales of blocks in TensorFlow Lite files


@pytest.mark.parametrize("weight_range", ["min-max", "mse"])
@pytest.mark.parametrize("bits", [2, 4])
def test_scales_of_f16_and_bf16(bits: int, weight_range: WeightRange):
    rng = np.random.default_rng(bits)
    # From subnormal numbers of `f16` to large ones.
    weights = rng.normal(size=(64, 8)) * np.geomspace(1e-8, 1e4, 64)[:, np.newaxis]
    weights[0] = 0
    parameters = weight_parameters(
        weights,
        (1, 4),
        bits=bits,
        weight_range=weight_range,
        narrow_range=False,
        f16_scales=True,
    )
    assert parameters.storage_min == -(2 ** (bits - 1))
    scales = parameters.scales
    assert scales.shape == (64, 2)
    assert (scales > 0).all()
    np.testing.assert_array_equal(scales, scales.astype(np.float16))
    assert not (scales.astype(np.float32).view(np.uint32) & 0xFFFF).any()
    if weight_range == "min-max":
        largest = np.abs(weights).reshape(64, 2, 4).max(-1) / (2 ** (bits - 1) - 1)
        assert scales[0].tolist() == [1, 1]
        # Half a step: 8 significant bits, or the smallest number of `f16`.
        bound = np.maximum(largest[1:] * 2.0**-8, 2.0**-24)
        assert (np.abs(scales[1:] - largest[1:]) <= bound).all()


def test_candidates_are_rounded_before_they_are_compared():
    weights = np.random.default_rng(0).normal(size=(16, 32)).astype(np.float32)
    parameters = partial(weight_parameters, bits=4, narrow_range=False, f16_scales=True)
    best = parameters(weights, (1, 32), weight_range="mse")
    found = error(weights, best)
    for part in np.arange(20, 101) / 100:
        full = parameters(weights * part, (1, 32))
        assert found <= error(weights, full) * (1 + 1e-6)


def test_scales_beyond_f16():
    message = r"^expected scales of at most 65280, found 142857$"
    with pytest.raises(ValueError, match=message):
        weight_parameters([[1e6, 1.0]], (1, 2), bits=4, f16_scales=True)
