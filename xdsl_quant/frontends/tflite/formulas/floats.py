"""
Formulas of TensorFlow Lite ops on floats and on integers that are not quantized.

Results have the dtype of the operands and the accuracy of NumPy's functions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xdsl_quant.numerics.primitives import Array, divisor, erfc, primitive

from .fixed_point import quotient
from .products import Window, windows

# Activations

CLIPPED: Mapping[str, tuple[float, float]] = {
    "RELU": (0, np.inf),
    "RELU_N1_TO_1": (-1, 1),
    "RELU6": (0, 6),
    "RELU_0_TO_1": (0, 1),
}


def apply_activation(values: Array, activation: str) -> Array:
    """
    Apply an activation, given its name in `.tflite` files.

    Raises:
        ValueError: if the activation is unknown.
    """
    if activation == "NONE":
        return values
    if (bounds := CLIPPED.get(activation)) is not None:
        low, high = bounds
        if values.dtype.kind == "u":
            low = max(low, 0)
        values = np.maximum(values, values.dtype.type(low))
        return values if high == np.inf else np.minimum(values, values.dtype.type(high))
    if activation == "TANH":
        return np.tanh(values)
    if activation == "SIGN_BIT":
        return np.signbit(values).astype(values.dtype)
    raise ValueError(f"unknown activation '{activation}'")


def prelu(values: Array, alpha: Any) -> Array:
    """Return `x`, or `alpha * x` where `x` is negative."""
    return np.where(values >= 0, values, values * alpha).astype(values.dtype)


def logistic(values: Array) -> Array:
    """Return `1 / (1 + exp(-x))`."""
    return 1 / (1 + np.exp(-values))


def elu(values: Array) -> Array:
    """Return `x`, or `exp(x) - 1` where `x` is negative."""
    return np.where(values < 0, np.expm1(np.minimum(values, 0)), values)


def gelu(values: Array, approximate: bool = False) -> Array:
    """Return `x * Phi(x)` (standard normal distribution function), or approximate it."""
    number = values.dtype.type
    if approximate:
        cubic = number(0.044715) * (values * values * values)
        factor = 1 + np.tanh(number(math.sqrt(2 / math.pi)) * (values + cubic))
    else:
        factor = erfc(values * number(-math.sqrt(0.5)))
    return number(0.5) * values * factor


def hard_swish(values: Array) -> Array:
    """Return `x * min(max(x + 3, 0), 6) / 6`."""
    return values * np.clip(values + 3, 0, 6) / values.dtype.type(6)


# Arithmetic


def divide(lhs: Array, rhs: Array) -> Array:
    """
    Divide; integer quotients are rounded toward zero.

    Raises:
        ValueError: if an integer is divided by zero.
    """
    if lhs.dtype.kind == "f":
        return lhs / rhs
    return quotient(lhs, divisor(rhs))


@primitive
def floor_divide(lhs: Array, rhs: Array) -> Array:
    """
    Return quotients rounded down.

    Raises:
        ValueError: if an integer is divided by zero.
    """
    if lhs.dtype.kind == "f":
        return np.floor(lhs / rhs)
    return lhs // divisor(rhs)


@primitive
def floor_modulo(lhs: Array, rhs: Array) -> Array:
    """
    Return remainders with the sign of the divisor.

    Raises:
        ValueError: if an integer is divided by zero.
    """
    return lhs % (rhs if lhs.dtype.kind == "f" else divisor(rhs))


# Along the last dimension


def softmax(values: Array, beta: float = 1) -> Array:
    """Return `exp(beta * x)` divided by its sum along the last dimension."""
    if not values.size:
        return values
    differences = values - values.max(axis=-1, keepdims=True)
    exponentials = np.exp(differences * values.dtype.type(beta))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def log_softmax(values: Array) -> Array:
    """Return the logarithm of [`softmax`][..softmax]."""
    if not values.size:
        return values
    differences = values - values.max(axis=-1, keepdims=True)
    return differences - np.log(np.exp(differences).sum(axis=-1, keepdims=True))


def l2_normalization(values: Array) -> Array:
    """Divide by the L2 norm along the last dimension; norms below 1e-6 count as 1e-6."""
    norms = np.sqrt((values * values).sum(axis=-1, keepdims=True))
    return values / np.maximum(norms, values.dtype.type(1e-6))


# Products


def fully_connected(values: Array, weights: Array, keep_num_dims: bool) -> Array:
    """
    Multiply rows by weights.

    Args:
        values: floats whose last dimension is `inputs`, or that can be reshaped to
            `[-1, inputs]`.
        weights: `[outputs, inputs]`.
        keep_num_dims: keep all dimensions but the last, instead of flattening them to
            one dimension.
    """
    rows = values.reshape(-1, weights.shape[1])
    shape = values.shape[:-1] if keep_num_dims else (-1,)
    return (rows @ weights.T).reshape(*shape, weights.shape[0])


def batch_matmul(x: Array, y: Array, adj_x: bool, adj_y: bool) -> Array:
    """Multiply optionally transposed matrices, broadcasting their batch dimensions."""
    lhs = x.swapaxes(-1, -2) if adj_x else x
    return lhs @ (y.swapaxes(-1, -2) if adj_y else y)


def svdf(
    values: Array, features: Array, time: Array, state: Array, rank: int
) -> tuple[Array, Array]:
    """
    Compute one step of a low-rank filter, whose matrix is a sum of products of a
    feature vector and a time vector.

    Args:
        values: `[batch, inputs]`.
        features: `[filters, inputs]`.
        time: `[filters, memory]`.
        state: `[batch, filters * memory]`.
        rank: number of filters per unit.

    Returns:
        Sums `[batch, units]`, and the next state.
    """
    return filtered(values @ features.T, time, state, rank)


def filtered(
    column: Array, time: Array, state: Array, rank: int
) -> tuple[Array, Array]:
    """
    Compute [`svdf`][..svdf] from the products of values and features, `[batch, filters]`.
    """
    batch, filters = column.shape
    memory = state.reshape(batch, filters, -1)[..., 1:]
    memory = np.concatenate([memory, column[..., None]], axis=-1)
    sums = (memory * time).sum(axis=-1).reshape(batch, -1, rank).sum(axis=-1)
    return sums, memory.reshape(state.shape)


# Images and reduction


@primitive
def average_pool_2d(values: Array, sizes: tuple[int, int], window: Window) -> Array:
    """
    Return the mean of the elements inside the image at each window position.

    Integer means are rounded half away from zero, as TensorFlow Lite does.
    """
    elements = windows(values, sizes, window)
    counts: Array = windows(np.ones_like(values), sizes, window).sum(axis=(-2, -1))
    if values.dtype.kind == "f":
        return elements.sum(axis=(-2, -1)) / counts
    sums: Array = elements.sum(axis=(-2, -1), dtype=np.int64)
    half: Array = (counts // 2).astype(np.int64)
    rounded: Array = sums + np.where(sums > 0, half, -half)
    return divide(rounded, counts)


def max_pool_2d(values: Array, sizes: tuple[int, int], window: Window) -> Array:
    """
    Return the largest element inside the image at each window position; at least the
    smallest finite float, also for NaN.
    """
    if values.dtype.kind == "f":
        least: float = -values.dtype.type(3.4028234663852886e38)
        values = np.where(values > least, values, least)
    else:
        least = int(np.iinfo(values.dtype).min)
    return windows(values, sizes, window, least).max(axis=(-2, -1))


def mean(values: Array, axes: Sequence[int]) -> Array:
    """Return means along `axes`, reduced to size 1; integer means round toward 0."""
    distinct = tuple({axis % values.ndim for axis in axes})
    if values.dtype.kind == "f":
        return values.mean(axis=distinct, keepdims=True)
    count = np.array(math.prod(values.shape[axis] for axis in distinct))
    return divide(values.sum(axis=distinct, keepdims=True, dtype=np.int64), count)


def resize_bilinear(
    values: Array,
    sizes: tuple[int, int],
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Array:
    """
    Interpolate linearly between rows and between columns, in `f32`.

    Args:
        values: `[batch, height, width, channels]`.
        sizes: height and width of the result.
        align_corners: map the corner elements of the result to those of the image.
        half_pixel_centers: measure positions from the centers of elements.
    """
    (y, top, bottom), (x, left, right) = (
        _interpolation_neighbors(
            values.shape[axis + 1], size, align_corners, half_pixel_centers
        )
        for axis, size in enumerate(sizes)
    )
    y, x = y[:, None, None], x[:, None]
    one = np.float32(1)
    rows, low = values[:, top], values[:, bottom]
    return (
        rows[:, :, left] * (one - y) * (one - x)
        + low[:, :, left] * y * (one - x)
        + rows[:, :, right] * (one - y) * x
        + low[:, :, right] * y * x
    )


def _interpolation_neighbors(
    size: int, result_size: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[Array, Array, Array]:
    """Return the weight of the second neighbor and both indices for each result index."""
    is_aligned = align_corners and result_size > 1
    scale = np.float32(size - is_aligned) / np.float32(result_size - is_aligned)
    positions = np.arange(result_size).astype(np.float32)
    if half_pixel_centers:
        positions = (positions + np.float32(0.5)) * scale - np.float32(0.5)
    else:
        positions = positions * scale
    before = np.maximum(np.floor(positions).astype(np.int64), 0)
    after = np.minimum(np.ceil(positions).astype(np.int64), size - 1)
    return positions - before.astype(np.float32), before, after


Unary = Callable[[Array], Array]

UNARY: Mapping[str, Unary] = {
    "abs": np.abs,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "tanh": np.tanh,
    "logistic": logistic,
    "elu": elu,
    "hard_swish": hard_swish,
}
"""Functions of one tensor by op name."""
