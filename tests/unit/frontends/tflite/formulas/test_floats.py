"""What ops compute of floats and of plain integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from tests.unit.machines.numpy.running import same_bits
from xdsl_quant.frontends.tflite.formulas import floats
from xdsl_quant.frontends.tflite.formulas.products import Window

Array = NDArray[Any]


def f32(values: ArrayLike) -> Array:
    return np.array(values, np.float32)


X = f32([-3.5, -1.0, -0.25, 0.0, 0.5, 1.0, 7.0])


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("NONE", X),
        ("RELU", f32([0, 0, 0, 0, 0.5, 1, 7])),
        ("RELU_N1_TO_1", f32([-1, -1, -0.25, 0, 0.5, 1, 1])),
        ("RELU6", f32([0, 0, 0, 0, 0.5, 1, 6])),
        ("RELU_0_TO_1", f32([0, 0, 0, 0, 0.5, 1, 1])),
        ("TANH", np.tanh(X)),
        ("SIGN_BIT", f32([1, 1, 1, 0, 0, 0, 0])),
    ],
)
def test_activations(activation: str, expected: Array):
    assert same_bits(floats.apply_activation(X, activation), expected)
    integers = np.array([-3, 0, 7], np.int32)
    if activation.startswith("RELU"):
        low, high = -1 if "N1" in activation else 0, 6 if "6" in activation else 1
        top = 7 if activation == "RELU" else high
        clipped = np.array([low, 0, top], np.int32)
        assert same_bits(floats.apply_activation(integers, activation), clipped)


def test_activation_of_unsigned_integers():
    values = np.array([0, 1, 3], np.uint8)
    for activation in ("RELU_N1_TO_1", "RELU_0_TO_1"):
        clipped = np.array([0, 1, 1], np.uint8)
        assert same_bits(floats.apply_activation(values, activation), clipped)


def test_unknown_activation():
    with pytest.raises(ValueError, match=r"^unknown activation 'SWISH'$"):
        floats.apply_activation(X, "SWISH")


def test_prelu():
    alpha = f32([0.5, 2.0])
    result = floats.prelu(f32([[-2, -2], [-0.0, 3], [0.25, 0.25]]), alpha)
    assert same_bits(result, f32([[-1, -4], [-0.0, 3], [0.25, 0.25]]))


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def elu(x: float) -> float:
    return x if x >= 0 else math.expm1(x)


def hard_swish(x: float) -> float:
    return x * min(max(x + 3, 0), 6) / 6


def negative(x: float) -> float:
    return -x


def reciprocal_root(x: float) -> float:
    return 1 / math.sqrt(x)


REAL: list[tuple[Callable[[Array], Array], Callable[[float], float]]] = [
    (floats.logistic, logistic),
    (floats.elu, elu),
    (floats.gelu, lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    (
        lambda x: floats.gelu(x, approximate=True),
        lambda x: (
            0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        ),
    ),
    (floats.hard_swish, hard_swish),
    (floats.UNARY["abs"], abs),
    (floats.UNARY["neg"], negative),
    (floats.UNARY["exp"], math.exp),
    (floats.UNARY["sin"], math.sin),
    (floats.UNARY["cos"], math.cos),
    (floats.UNARY["floor"], math.floor),
    (floats.UNARY["ceil"], math.ceil),
    (floats.UNARY["round"], round),
    (floats.UNARY["tanh"], math.tanh),
    (floats.UNARY["logistic"], logistic),
    (floats.UNARY["elu"], elu),
    (floats.UNARY["hard_swish"], hard_swish),
]


@pytest.mark.parametrize(("function", "real"), REAL)
def test_functions(function: Callable[[Array], Array], real: Callable[[float], float]):
    values = np.linspace(-7.25, 7.25, 59).astype(np.float32)
    expected = [real(float(x)) for x in values]
    result = function(values)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize(
    ("name", "real"),
    [("sqrt", math.sqrt), ("rsqrt", reciprocal_root), ("log", math.log)],
)
def test_functions_of_positive_numbers(name: str, real: Callable[[float], float]):
    values = np.linspace(0.25, 9, 36).astype(np.float32)
    result = floats.UNARY[name](values)
    assert result.dtype == np.float32
    np.testing.assert_allclose(
        result, [real(float(x)) for x in values], rtol=3e-7, atol=1e-7
    )


def test_elu_of_large_numbers_does_not_overflow():
    assert same_bits(floats.elu(f32([1000, -1000])), f32([1000, -1]))


class Expression:
    """What a lowering has in place of an array, of which it gives what it is asked for."""

    dtype = np.dtype(np.float32)

    def __neg__(self) -> Expression:
        return self

    def __mul__(self, other: object) -> Expression:
        return self

    __rmul__ = __mul__

    def astype(self, dtype: object) -> Expression:
        return self

    def primitive(self, name: str) -> Callable[[Expression], float]:
        assert name == "erfc"

        def one(x: Expression) -> float:
            return 1.0

        return one


def test_expressions_have_an_error_function():
    values: Any = Expression()
    assert floats.gelu(values) is values


LHS = np.array([7, -7, 7, -7, 6, 0], np.int32)
RHS = np.array([2, 2, -2, -2, 3, 5], np.int32)


@pytest.mark.parametrize(
    ("function", "integers", "real"),
    [
        (floats.divide, [3, -3, -3, 3, 2, 0], [3.5, -3.5, -3.5, 3.5, 2, 0]),
        (floats.floor_divide, [3, -4, -4, 3, 2, 0], [3, -4, -4, 3, 2, 0]),
        (floats.floor_modulo, [1, 1, -1, -1, 0, 0], [1, 1, -1, -1, 0, 0]),
    ],
)
def test_quotients(
    function: Callable[[Array, Array], Array], integers: list[int], real: list[float]
):
    assert same_bits(function(LHS, RHS), np.array(integers, np.int32))
    assert same_bits(
        function(LHS.astype(np.float32), RHS.astype(np.float32)), f32(real)
    )
    with np.errstate(all="ignore"):
        assert not np.isfinite(function(f32([1.0]), f32([0.0]))).any()
    with pytest.raises(ValueError, match=r"^division by zero$"):
        function(LHS, RHS - 2)


ROWS = f32([[[1, 2, 4]], [[-100, 0, 100]]])


def test_softmax():
    for beta in (1, 0.5):
        exponentials = np.exp(ROWS.astype(np.float64) * beta)
        expected = exponentials / exponentials.sum(-1, keepdims=True)
        result = floats.softmax(ROWS, beta) if beta != 1 else floats.softmax(ROWS)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-30)
    # No number is too large.
    assert same_bits(floats.softmax(f32([[1e4, 1e4]])), f32([[0.5, 0.5]]))


def test_log_softmax():
    rows = ROWS.astype(np.float64)
    expected = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
    result = floats.log_softmax(ROWS)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert floats.log_softmax(f32([[1e4, 0]])).tolist() == [[0, -1e4]]


def test_l2_normalization():
    result = floats.l2_normalization(f32([[[3, 4]], [[0, 0]], [[3e-7, 4e-7]]]))
    np.testing.assert_allclose(
        result, [[[0.6, 0.8]], [[0, 0]], [[0.3, 0.4]]], rtol=1e-6
    )
    assert result.dtype == np.float32


WEIGHTS = f32([[1, -2], [3, 4], [0, 1]])


def test_fully_connected():
    values = f32([[[1, 2], [3, 4]]])
    expected = f32([[-3, 11, 2], [-5, 25, 4]])
    assert same_bits(floats.fully_connected(values, WEIGHTS, False), expected)
    assert same_bits(floats.fully_connected(values, WEIGHTS, True), expected[None])
    rows = floats.fully_connected(values.reshape(1, 4), WEIGHTS, False)
    assert same_bits(rows, expected)


def test_batch_matmul():
    x, y = np.arange(12, dtype=np.float32).reshape(2, 2, 3), WEIGHTS
    expected = x @ y
    assert same_bits(floats.batch_matmul(x, y, False, False), expected)
    assert same_bits(floats.batch_matmul(x.swapaxes(1, 2), y, True, False), expected)
    assert same_bits(floats.batch_matmul(x, y.T, False, True), expected)
    matrices = np.stack([y.T, 2 * y.T])
    both = floats.batch_matmul(x, matrices, False, True)
    assert same_bits(both, expected * f32([1, 2])[:, None, None])


def test_svdf():
    features = f32([[1, 2], [0, 1], [1, 0], [2, 2]])
    time = f32([[1, 10, 100], [2, 20, 200], [3, 30, 300], [4, 40, 400]])
    state = np.arange(12, dtype=np.float32).reshape(1, 12)
    values, after = floats.svdf(f32([[5, 6]]), features, time, state, 2)
    assert after.tolist() == [[1, 2, 17, 4, 5, 6, 7, 8, 5, 10, 11, 22]]
    units = [1 + 20 + 1700, 8 + 100 + 1200, 21 + 240 + 1500, 40 + 440 + 8800]
    assert same_bits(values, f32([[units[0] + units[1], units[2] + units[3]]]))


IMAGE = f32([[1, -2, 3, 4], [5, 6, -7, 8], [9, 10, 11, 12]]).reshape(1, 3, 4, 1)


@pytest.mark.parametrize(
    ("padding", "means", "maxima"),
    [
        ("VALID", [[2.5, 2]], [[6, 8]]),
        ("SAME", [[2.5, 2], [9.5, 11.5]], [[6, 8], [10, 12]]),
    ],
)
def test_pools(padding: str, means: ArrayLike, maxima: ArrayLike):
    window = Window((2, 2), (1, 1), padding)
    result = floats.average_pool_2d(IMAGE, (2, 2), window)
    assert same_bits(result[0, :, :, 0], f32(means))
    assert same_bits(floats.max_pool_2d(IMAGE, (2, 2), window)[0, :, :, 0], f32(maxima))
    # Nothing outside of the image is greater.
    lower = floats.max_pool_2d(IMAGE - 100, (2, 2), window)
    assert same_bits(lower[0, :, :, 0], f32(maxima) - 100)


def test_mean():
    values = IMAGE[..., 0]
    assert same_bits(floats.mean(values, [1]), f32([[[5, 14 / 3, 7 / 3, 8]]]))
    assert same_bits(floats.mean(values, [1, -2]), f32([[[5, 14 / 3, 7 / 3, 8]]]))
    assert same_bits(floats.mean(values, [0, 2]), f32([[[1.5], [3], [10.5]]]))
    integers = np.array([[7, -7], [0, 0], [1, -1]], np.int32)
    result = floats.mean(integers, [0])
    assert result.tolist() == [[2, -2]]
    bytes_ = np.full((1, 300), 127, np.int8)
    assert floats.mean(bytes_, [1]).tolist() == [[127]]
    unsigned = floats.mean(np.full((1, 300), 255, np.uint8), [1])
    assert same_bits(unsigned, np.array([[255]], np.int64))


ROW = f32([0, 8, 16]).reshape(1, 1, 3, 1)


@pytest.mark.parametrize(
    ("align", "half", "size", "expected"),
    [
        (False, False, 6, [0, 4, 8, 12, 16, 16]),
        (True, False, 5, [0, 4, 8, 12, 16]),
        (True, False, 2, [0, 16]),
        (True, False, 1, [0]),
        (False, True, 6, [0, 2, 6, 10, 14, 16]),
        (False, True, 1, [8]),
        (False, False, 2, [0, 12]),
    ],
)
def test_resize_bilinear(align: bool, half: bool, size: int, expected: list[float]):
    wide = floats.resize_bilinear(ROW, (1, size), align, half)
    assert same_bits(wide, f32(expected).reshape(1, 1, size, 1))
    column = ROW.reshape(1, 3, 1, 1)
    tall = floats.resize_bilinear(column, (size, 1), align, half)
    assert same_bits(tall, f32(expected).reshape(1, size, 1, 1))


def test_resize_bilinear_in_both_directions():
    image = f32([[0, 8], [16, 40]]).reshape(1, 2, 2, 1)
    result = floats.resize_bilinear(image, (4, 4))
    expected = [[0, 4, 8, 8], [8, 16, 24, 24], [16, 28, 40, 40], [16, 28, 40, 40]]
    assert same_bits(result[0, :, :, 0], f32(expected))
