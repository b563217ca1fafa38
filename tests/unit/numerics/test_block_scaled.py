"""Quantization with parameters of blocks: see `tests/unit/transforms/quant` for types."""

import re
from typing import Any

import numpy as np
import pytest

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.block_scaled import (
    BlockScaledParameters,
    dequantize_blocks,
    quantize_blocks,
)
from xdsl_quant.rounding_mode import Rounding


def parameters_of(
    *scales: float, storage: str = "i8", **others: Any
) -> BlockScaledParameters:
    """Scales of blocks of 2 along the last one of two dimensions."""
    numbers = {name: np.array(each, np.float64) for name, each in others.items()}
    return BlockScaledParameters(
        np.array(scales),
        numbers.get("zero_points"),
        numbers.get("offsets"),
        ((1, 2),),
        QuantizationParameters(1, storage=storage),
        "f32",
    )


@pytest.mark.parametrize(
    ("mode", "order", "expected"),
    [
        ("nearest-even", "before-rounding", [2, 2, 4, 0]),
        ("nearest-even", "after-rounding", [1, 3, 3, 1]),
        ("nearest-away", "before-rounding", [2, 3, 4, 1]),
        ("nearest-away", "after-rounding", [2, 3, 4, 0]),
    ],
)
def test_ties(mode: Any, order: Any, expected: list[int]):
    values = np.array([[0.5, 1.5, 2.5, -0.5]], np.float32)
    parameters = parameters_of(1, 1, zero_points=[1, 1])
    stored = quantize_blocks(values, parameters, Rounding(mode, zero_point_order=order))
    assert stored.tolist() == [expected]


@pytest.mark.parametrize("columns", [3, 4])
def test_formula(columns: int):
    """The last block may be shorter."""
    parameters = parameters_of(0.5, 2, zero_points=[1, -1], offsets=[3, 10])
    stored = np.array([[1, 3, 5, -7], [0, 0, 0, 0]], np.int8)[:, :columns]
    expressed = np.array([[3, 4, 22, -2], [2.5, 2.5, 12, 12]], np.float32)[:, :columns]
    assert dequantize_blocks(stored, parameters).tolist() == expressed.tolist()
    assert quantize_blocks(expressed, parameters).tolist() == stored.tolist()
    assert quantize_blocks(expressed, parameters).dtype == np.int8


@pytest.mark.parametrize("shape", [(), (4,), (2, 5), (2, 2)])
def test_other_numbers_of_blocks(shape: tuple[int, ...]):
    message = (
        f"expected 2 blocks of size 2 along dimension 1 of values, found shape {shape}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        quantize_blocks(np.zeros(shape, np.float32), parameters_of(1, 1))


def test_values_that_are_none():
    masked: Any = np.ma.masked_array(np.zeros((2, 4), np.float32))
    with pytest.raises(
        TypeError, match=r"^unsupported masked array in expressed values"
    ):
        quantize_blocks(masked, parameters_of(1, 1))
    message = "expected expressed values with dtype float32, found float64"
    with pytest.raises(TypeError, match=f"^{message}$"):
        quantize_blocks(np.zeros((2, 4)), parameters_of(1, 1))


def test_values_that_f32_does_not_hold():
    parameters = parameters_of(3e38, 1e-38)
    stored = np.array([[100, 0, 1, 0]], np.int8)
    assert dequantize_blocks(stored, parameters)[0, :2].tolist() == [np.inf, 0]
    values = np.array([[0, 0, 3e38, -3e38]], np.float32)
    assert quantize_blocks(values, parameters).tolist() == [[0, 0, 127, -128]]


def test_zero_points_of_floats_are_added_before_rounding():
    values = np.array([[1.5, -1, 0, 0]], np.float32)
    rounding = Rounding(zero_point_order="after-rounding")
    parameters = parameters_of(1, 1, storage="f4E2M1FN")
    stored = quantize_blocks(values, parameters, rounding)
    assert stored.astype(np.float32).tolist() == values.tolist()
    parameters = parameters_of(1, 1, storage="f4E2M1FN", zero_points=[1, 1])
    message = (
        "unsupported zero point order 'after-rounding' for storage type 'f4E2M1FN'; "
        "use 'before-rounding'"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        quantize_blocks(values, parameters, rounding)
