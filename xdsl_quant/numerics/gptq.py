"""
GPTQ: rounding of weights that minimizes the change of matrix products.

The weights of one input are rounded at a time. The weights of all later inputs are then
changed to compensate these rounding errors, as far as the inputs are correlated
([Frantar et al. 2022](https://arxiv.org/abs/2210.17323), algorithm 1).
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, Floats, Integers, check_finite, numbers

InputOrder = Literal["natural", "activation"]
"""
Order in which the weights of inputs are rounded: `natural` is by index, `activation` by
descending sum of squares of the input, so that most weights can compensate large errors.
"""

# Type stubs of `numpy.linalg` are incomplete.
_linalg: Any = np.linalg

_LAZY = 128
"""Number of inputs after which one matrix product updates all later weights."""


def gptq(
    weights: ArrayLike,
    hessian: ArrayLike,
    scales: ArrayLike,
    storage_range: tuple[int, int],
    *,
    order: InputOrder = "activation",
    damping: float = 0.01,
) -> Integers:
    """
    Return stored values of weights `W` that approximately minimize the sum of squares of
    `X W - X Q`, where `Q` are the dequantized weights.

    With the Cholesky decomposition `UᵀU` of the inverse Hessian, the error
    `(w_k - q_k) / U_kk` of input `k`, multiplied by `U_kj`, is subtracted from the weights
    of all later inputs `j`. Inputs are processed in sequence, all outputs at once.

    The weights of an input that is always 0 are rounded without compensation.

    Args:
        weights: finite numbers of shape `(..., inputs, outputs)`; leading dimensions are
            separate products.
        hessian: `XᵀX` of shape `(..., inputs, inputs)`, for inputs `X` with one sample per
            row. A constant factor, such as 2 in the paper, has no effect.
        scales: positive numbers that broadcast to the weights.
        storage_range: the smallest and the largest stored value.
        order: the order in which the weights of inputs are rounded.
        damping: the number added to the diagonal of the Hessian, relative to its mean:
            positive, because inputs may be linearly dependent.

    Returns:
        an array with the shape of the weights.

    Raises:
        ValueError: if numbers are not finite, arrays are empty, shapes differ, or an
            argument is out of range.
        TypeError: if weights, Hessian or scales are not numeric.
    """
    if order not in get_args(InputOrder):
        raise ValueError(f"unknown order {order!r}, available: 'natural', 'activation'")
    if not damping > 0:
        raise ValueError(f"expected a positive damping, found {damping}")
    rest, squares, steps = _checked_arguments(weights, hessian, scales)
    inputs: Array = np.broadcast_to(range(rest.shape[-2]), rest.shape[:-1])
    if order == "activation":
        diagonal: Floats = np.diagonal(squares, axis1=-2, axis2=-1)
        inputs = (-diagonal).argsort(kind="stable")
    rows, columns = inputs[..., np.newaxis], inputs[..., np.newaxis, :]
    rest, steps = (np.take_along_axis(array, rows, -2) for array in (rest, steps))
    squares = np.take_along_axis(squares, rows, -2)
    squares = np.take_along_axis(squares, columns, -1)
    stored = _round_inputs(rest, _factor(squares, damping), steps, storage_range)
    result = np.empty_like(stored)
    np.put_along_axis(result, rows, stored, -2)
    return result


def _checked_arguments(
    weights: ArrayLike, hessian: ArrayLike, scales: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Check the arguments; return weights, their Hessian, and the scale of each weight."""
    rest = _finite_floats(weights, "weights")
    if rest.ndim < 2 or not rest.size:
        raise ValueError(
            f"expected weights of shape (..., inputs, outputs), found {rest.shape}"
        )
    squares = _finite_floats(hessian, "hessian")
    shape = (*rest.shape[:-1], rest.shape[-2])
    if squares.shape != shape:
        raise ValueError(f"expected a hessian of shape {shape}, found {squares.shape}")
    steps = _finite_floats(scales, "scales")
    if not (steps > 0).all():
        raise ValueError(f"expected positive scales, found {steps.min()}")
    return rest, squares, np.broadcast_to(steps, rest.shape)


def _finite_floats(values: ArrayLike, what: str) -> Floats:
    array = numbers(values, what, "iuf").astype(np.float64)
    check_finite(array, what)
    return array


def _factor(hessian: Floats, damping: float) -> Floats:
    """Return the upper triangular `U` for which `UᵀU` is the inverse of the Hessian."""
    diagonal = np.diagonal(hessian, axis1=-2, axis2=-1)
    # As in the paper's code, inputs that are always 0 count as 1 in the mean.
    mean = np.where(diagonal > 0, diagonal, 1.0).mean(-1)
    added = damping * mean[..., np.newaxis, np.newaxis] * np.eye(hessian.shape[-1])
    damped = hessian + added
    # If `J` reverses the order and `J H J = L Lᵀ`, then `H = (J L J)(J L J)ᵀ`, and `U`
    # is the inverse of the upper triangular `J L J`. The inverse of `H` is never
    # computed.
    lower: Floats = _linalg.cholesky(damped[..., ::-1, ::-1])
    upper: Floats = _linalg.inv(lower[..., ::-1, ::-1])
    return np.triu(upper)


def _round_inputs(
    rest: Floats, factor: Floats, steps: Floats, storage_range: tuple[int, int]
) -> Array:
    """Return the stored values. `rest` contains the updated weights, and is overwritten."""
    stored = np.empty(rest.shape, np.int64)
    count = rest.shape[-2]
    for start in range(0, count, _LAZY):
        end = min(start + _LAZY, count)
        errors = np.empty_like(rest[..., start:end, :])
        for k in range(start, end):
            step = steps[..., k, :]
            codes = np.rint(rest[..., k, :] / step).clip(*storage_range)
            stored[..., k, :] = codes
            error = (rest[..., k, :] - codes * step) / factor[..., k, k, np.newaxis]
            errors[..., k - start, :] = error
            later = factor[..., k, k:end, np.newaxis]
            rest[..., k:end, :] -= later * error[..., np.newaxis, :]
        later = factor[..., start:end, end:].swapaxes(-1, -2)
        rest[..., end:, :] -= later @ errors
    return stored
