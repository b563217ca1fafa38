"""
With `after-rounding`, arrays are quantized as ONNX's `QuantizeLinear` does it: as its
reference evaluator has it, and onnxruntime.

The evaluator divides in the float type of its operands; onnxruntime divides f16 in f32 up
to opset 21 and in f16 from opset 23 on; `quantize` divides f16 in f16 for 8 bits and
otherwise in f32. A scale that is a power of two gives the same quotient in all of them.
"""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.quantize_linear import (
    Evaluate,
    quantize_linear,
    quantize_linear_inputs,
    quantize_linear_model,
)
from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.numerics.arithmetic import compute_dtype

Array = NDArray[Any]

ZERO_POINTS = {"i8": (3, -127), "u8": (127, 255), "i16": (-7,), "u16": (32769,)}
"""Odd ones: an even zero point and `nearest-even` go in any order."""

POWERS_OF_TWO = (0.5, 2.0**-5, 4.0)
OTHERS = (0.1, 0.007, 3.0)


@cache
def _reference(expressed: str, storage: str) -> Evaluate:
    evaluator = import_module("onnx.reference").ReferenceEvaluator(
        quantize_linear_model(expressed, storage)
    )

    def evaluate(*arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            return evaluator.run(None, quantize_linear_inputs(*arrays))[0]

    return evaluate


def _all_values(parameters: QuantizationParameters) -> Array:
    """All finite values of an expressed type of 16 bits."""
    values = np.arange(1 << 16, dtype=np.uint16).view(parameters.expressed_dtype)
    # The conversion of a signalling NaN is invalid.
    with np.errstate(invalid="ignore"):
        return values[np.isfinite(values.astype(np.float32))]


def _ties(parameters: QuantizationParameters) -> Array:
    """The middle of each two stored values, and of some beyond the range."""
    low, high = parameters.storage_min, parameters.storage_max
    middles = np.arange(low - 5, high + 5) + 0.5 - parameters.zero_points
    return (middles * parameters.scales).astype(np.float32)


def _check(
    values: Array, parameters: QuantizationParameters, evaluate: Evaluate, dtype: Any
) -> None:
    """Compare with what `evaluate` has for the same numbers in a float type."""
    scale = parameters.scales.astype(parameters.expressed_dtype).astype(dtype)
    zero_point = parameters.zero_points.astype(parameters.storage_dtype)
    stored = quantize(values, parameters, zero_point_order="after-rounding")
    expected = evaluate(values.astype(dtype), scale, zero_point)
    np.testing.assert_array_equal(stored, expected)


def _check_reference(
    values: Array, parameters: QuantizationParameters, dtype: np.dtype[Any]
) -> None:
    name = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}[dtype.name]
    evaluate = _reference(name, parameters.storage)
    # It converts quotients to int32.
    with np.errstate(all="ignore"):
        quotients = values.astype(dtype) / parameters.scales.astype(dtype)
        is_small = np.abs(quotients.astype(np.float64)) < 2**30
    _check(values[is_small], parameters, evaluate, dtype)


@pytest.mark.parametrize("storage", ZERO_POINTS)
@pytest.mark.parametrize("scale", POWERS_OF_TWO)
def test_ties(storage: str, scale: float):
    for zero_point in ZERO_POINTS[storage]:
        parameters = QuantizationParameters(scale, zero_point, storage=storage)
        ties = _ties(parameters)
        assert (ties / scale % 1 == 0.5).all()
        _check_reference(ties, parameters, np.dtype(np.float32))
        _check(ties, parameters, quantize_linear("f32", storage), np.float32)
        after = quantize(ties, parameters, zero_point_order="after-rounding")
        is_inside = slice(6, -6)
        assert (quantize(ties, parameters) != after)[is_inside].all()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("expressed", ["f16", "bf16"])
@pytest.mark.parametrize("scale", [*POWERS_OF_TWO, *OTHERS])
@pytest.mark.parametrize("storage", ZERO_POINTS)
def test_all_values(storage: str, scale: float, expressed: str):
    for zero_point in ZERO_POINTS[storage]:
        parameters = QuantizationParameters(
            scale, zero_point, storage=storage, expressed=expressed
        )
        values = _all_values(parameters)
        dtype = compute_dtype(parameters, "nearest-even")
        _check_reference(values, parameters, dtype)
        if scale in POWERS_OF_TWO:
            _check_reference(values, parameters, parameters.expressed_dtype)
        # It has no kernel for bf16.
        if dtype == np.float32:
            _check(values, parameters, quantize_linear("f32", storage), dtype)
        if expressed == "f16" and (dtype == np.float32 or scale in POWERS_OF_TWO):
            _check(values, parameters, quantize_linear("f16", storage), np.float16)


@pytest.mark.parametrize("storage", ["i8", "u8"])
def test_f16_is_divided_in_f16_from_opset_23_on(storage: str):
    for scale in OTHERS:
        parameters = QuantizationParameters(
            scale, ZERO_POINTS[storage][0], storage=storage, expressed="f16"
        )
        evaluate = quantize_linear("f16", storage, 23)
        _check(_all_values(parameters), parameters, evaluate, np.float16)


def test_infinities():
    values = np.array([np.inf, -np.inf, 3e38, -3e38], np.float32)
    for storage in ZERO_POINTS:
        parameters = QuantizationParameters(2.0**-5, 3, storage=storage)
        _check(values, parameters, quantize_linear("f32", storage), np.float32)
