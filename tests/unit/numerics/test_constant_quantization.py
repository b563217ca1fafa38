"""Quantization of constants as MLIR 14 does it; its pass is in the tests of ours."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.quantization import quantize_constant

# Quotients in f64 are a bit more than -23.5, and exactly 23.5; in f32 both are ties.
TIES = np.array([-2.35, 2.35], np.float32)


@pytest.mark.parametrize(
    ("storage", "zero_point", "expected"),
    [
        ("i8", 0, [-23, 23]),
        ("i8", -62, [-85, -39]),
        ("i16", -62, [-85, -39]),
        ("u8", 130, [107, 153]),
    ],
)
def test_division_in_f64(storage: str, zero_point: int, expected: list[int]):
    parameters = QuantizationParameters(0.1, zero_point, storage=storage)
    assert quantize_constant(TIES, parameters).tolist() == expected


@pytest.mark.parametrize(
    ("storage", "expressed", "dtype", "expected"),
    [
        ("i8", "f32", np.float32, [1, 2, 3, 6]),
        ("u8", "f32", np.float32, [1, 2, 3, 6]),
        ("i16", "f32", np.float32, [0, 1, 3, 6]),
        ("i4", "f32", np.float32, [0, 1, 3, 6]),
        ("i8", "f64", np.float64, [0, 1, 3, 6]),
        ("i8", "bf16", ml_dtypes.bfloat16, [0, 1, 3, 6]),
    ],
)
def test_zero_point_before_or_behind_rounding(
    storage: str, expressed: str, dtype: Any, expected: list[int]
):
    parameters = QuantizationParameters(1.0, 3, storage=storage, expressed=expressed)
    values = np.array([-2.5, -1.5, 0.25, 2.5], dtype)
    assert quantize_constant(values, parameters).tolist() == expected


def test_ends():
    parameters = QuantizationParameters(
        0.5, 1, storage="i32", storage_min=-7, storage_max=2**31 - 1
    )
    values = np.array([np.nan, -np.inf, np.inf, 3e38, -4, 0.24999999], np.float32)
    expected = [-7, -7, 2**31 - 1, 2**31 - 1, -7, 1]
    assert quantize_constant(values, parameters).tolist() == expected


def expected_values(values: NDArray[Any], scales: NDArray[Any]) -> NDArray[Any]:
    quotients = values.astype(np.float64) / scales
    rounded = np.sign(quotients) * np.floor(np.abs(quotients) + 0.5)
    return np.clip(rounded, -128, 127).astype(np.int8)


@pytest.mark.parametrize("shape", [(6, 4, 10), (1, 4, 20_000), (0, 4, 3)])
def test_channels_and_blocks(shape: tuple[int, ...]):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    scales = np.array([0.1, 0.02, 0.3, 0.01])
    parameters = QuantizationParameters(scales, quantized_dimension=1)
    expected = expected_values(values, scales[:, None])
    for array in (values, np.asfortranarray(values)):
        assert np.array_equal(quantize_constant(array, parameters), expected)
    if shape[2] % 2 == 0:
        blocks = np.array([[[0.1, 0.2]] * 2])
        halves = {0: max(1, shape[0]), 1: 2, 2: shape[2] // 2}
        parameters = QuantizationParameters(blocks, block_sizes=halves)
        expected = expected_values(values, np.repeat([0.1, 0.2], shape[2] // 2))
        assert np.array_equal(quantize_constant(values, parameters), expected)


def test_a_number():
    stored = quantize_constant(1.25, QuantizationParameters(0.5))
    assert stored.shape == ()
    assert stored == 3


def test_wrong_arrays():
    parameters = QuantizationParameters(0.5)
    with pytest.raises(TypeError, match="expected expressed values with dtype float32"):
        quantize_constant(np.zeros(2), parameters)
    with pytest.raises(
        ValueError, match=r"expected values of size 2 along dimension 0.* found 3"
    ):
        quantize_constant(
            np.zeros(3, np.float32),
            QuantizationParameters([0.5, 1.0], quantized_dimension=0),
        )
