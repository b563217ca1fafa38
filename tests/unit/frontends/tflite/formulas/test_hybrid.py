"""Rows of floats that are quantized when a kernel runs, by hand."""

import numpy as np
import pytest

from xdsl_quant.frontends.tflite.formulas.hybrid import convolution, fully_connected
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.numerics import QuantizationParameters


def weights(values: object, scale: float = 0.5) -> Quantized:
    parameters = QuantizationParameters(scale, storage="i8", storage_min=-127)
    return Quantized(np.array(values, np.int64), parameters)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_rows_of_zeros_are_zeros(asymmetric: bool):
    rows = np.zeros((2, 3), np.float32)
    with np.errstate(all="raise"):
        found = fully_connected(rows, weights([[1, 2, 3]]), None, False, asymmetric)
    assert found.tobytes() == np.zeros((2, 1), np.float32).tobytes()


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("size", [1e-45, 1e-40, 3e-37])
def test_tiny_rows_are_zeros(asymmetric: bool, size: float):
    """The reciprocals of their scales would overflow."""
    rows = np.array([[size, -size / 4, 0]], np.float32)
    bias = np.array([2.5], np.float32)
    with np.errstate(over="raise", invalid="raise"):
        found = fully_connected(rows, weights([[1, 2, 3]]), bias, False, asymmetric)
    assert found.tolist() == [[2.5]]


def test_symmetric_rows():
    # Steps of 1/127 and of 1: 0.5 is 63.5 steps, which becomes 64.
    rows = np.array([[1, 0.5], [-127, 64.4]], np.float32)
    found = fully_connected(rows, weights([[2, 0], [0, 2]]), None, False, False)
    step = np.float32(1) / np.float32(127)
    expected = np.array([[127 * step, 64 * step], [-127, 64]], np.float32)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32


def test_asymmetric_rows():
    # Steps of 1 from -55 to 200, and of 2 from 0 to 510.
    rows = np.array([[-55, 200, 10.4], [510, 10.9, 3]], np.float32)
    identity = weights(2 * np.eye(3, dtype=np.int64))
    found = fully_connected(rows, identity, None, False, True)
    np.testing.assert_array_equal(found, [[-55, 200, 10], [510, 10, 4]])


def test_products_of_zeros_are_never_negative_zeros():
    rows, minus = np.array([[0, 1]], np.float32), weights([[-1, 0]])
    found = fully_connected(rows, minus, None, False, False)
    assert not np.signbit(found).any()
    found = fully_connected(-rows, minus, np.array([2.5], np.float32), False, False)
    assert found.tolist() == [[2.5]]


def test_dimensions_of_results():
    rows, ones = np.ones((2, 3, 4), np.float32), weights(np.ones((5, 4)))
    assert fully_connected(rows, ones, None, False, False).shape == (6, 5)
    assert fully_connected(rows, ones, None, True, False).shape == (2, 3, 5)
    assert fully_connected(rows, weights(np.ones((5, 6))), None, False, True).shape == (
        4,
        5,
    )


def test_convolutions_with_one_scale_have_no_zero_points():
    # With a zero point of its own, 0.4 steps from 0 would be 0.8 steps, which is 1.
    image = np.array([127, 0.4], np.float32).reshape(1, 1, 2, 1)
    one = weights(np.full((1, 1, 1, 1), 2))
    window = Window()
    found = convolution(image, one, None, window, False)
    assert found.ravel().tolist() == [127, 0]
    found = convolution(image, one, None, window, True)
    assert found.ravel().tolist() != [127, 0]
