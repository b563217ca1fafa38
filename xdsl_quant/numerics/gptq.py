"""
GPTQ: rounding weights so that products by them change least.

A weight that is rounded changes a product; the weights that are not rounded yet can take
this back as far as inputs are correlated. Weights of one input after the other are rounded,
and those of all later inputs are changed
([Frantar et al. 2022](https://arxiv.org/abs/2210.17323), algorithm 1).
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, Floats, Integers, numbers

InputOrder = Literal["natural", "activation"]
"""
Which input is rounded first: the first one, or the one with the largest squares, whose
error can be taken back by most others.
"""

# Its functions have no complete types.
_linalg: Any = np.linalg

_LAZY = 128
"""After how many inputs the weights of all later ones are changed, in one product."""


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
    Stored values of weights `W`, such that the squares of `X W - X Q` have a small sum,
    where `Q` are the stored values times their scales.

    With `U` from the Cholesky decomposition `UᵀU` of the inverse of the hessian, the error
    `(w_k - q_k) / U_kk` of input `k` times `U_kj` is subtracted from the weights of all
    later inputs `j`. This is a loop over inputs, as each step needs the one before; it is
    done for all outputs at once.

    An input that is always 0 has nothing to be taken back, so its weights are rounded as
    they are.

    Args:
        weights: finite numbers of shape `(..., inputs, outputs)`; leading dimensions are
            products of their own.
        hessian: `XᵀX` of shape `(..., inputs, inputs)`, for inputs `X` of which each row
            is a sample. A factor, such as the 2 of the paper, changes nothing.
        scales: positive numbers that broadcast to the weights.
        storage_range: the smallest and the largest stored value.
        order: which input is rounded first.
        damping: what is added to the diagonal of the hessian, as a part of its mean: more
            than 0, as inputs may depend on each other.

    Returns:
        an array with the shape of the weights.

    Raises:
        ValueError: if numbers are not finite, there are none, shapes differ, or an argument
            is not one of these.
        TypeError: if weights, hessian or scales are no numbers.
    """
    if order not in get_args(InputOrder):
        raise ValueError(f"expected 'natural' or 'activation', found order {order!r}")
    if not damping > 0:
        raise ValueError(f"expected a positive damping, found {damping}")
    rest, squares, steps = _checked_problem(weights, hessian, scales)
    inputs: Array = np.broadcast_to(range(rest.shape[-2]), rest.shape[:-1])
    if order == "activation":
        diagonal: Floats = np.diagonal(squares, axis1=-2, axis2=-1)
        inputs = (-diagonal).argsort(kind="stable")
    rows, columns = inputs[..., np.newaxis], inputs[..., np.newaxis, :]
    rest, steps = (np.take_along_axis(each, rows, -2) for each in (rest, steps))
    squares = np.take_along_axis(squares, rows, -2)
    squares = np.take_along_axis(squares, columns, -1)
    stored = _rounded_in_turn(rest, _factor(squares, damping), steps, storage_range)
    result = np.empty_like(stored)
    np.put_along_axis(result, rows, stored, -2)
    return result


def _checked_problem(
    weights: ArrayLike, hessian: ArrayLike, scales: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Weights, their hessian, and the scale of each weight."""
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
        raise ValueError(f"scales must be positive, found {steps.min()}")
    return rest, squares, np.broadcast_to(steps, rest.shape)


def _finite_floats(values: ArrayLike, what: str) -> Floats:
    array = numbers(values, what, "iuf").astype(np.float64)
    if not (is_finite := np.isfinite(array)).all():
        raise ValueError(f"{what} must be finite, found {array[~is_finite][0]}")
    return array


def _factor(hessian: Floats, damping: float) -> Floats:
    """Return the upper triangular `U` with `UᵀU` the inverse of the hessian."""
    diagonal = np.diagonal(hessian, axis1=-2, axis2=-1)
    # In the paper's code, too, an input that is always 0 has a part in the mean: 1.
    mean = np.where(diagonal > 0, diagonal, 1.0).mean(-1)
    added = damping * mean[..., np.newaxis, np.newaxis] * np.eye(hessian.shape[-1])
    damped = hessian + added
    # `J H J = L Lᵀ` with `J`, which reverses the order, makes `H = (J L J)(J L J)ᵀ`, and
    # `U` the inverse of the upper triangular `J L J`: the inverse of `H` is never made.
    lower: Floats = _linalg.cholesky(damped[..., ::-1, ::-1])
    upper: Floats = _linalg.inv(lower[..., ::-1, ::-1])
    return np.triu(upper)


def _rounded_in_turn(
    rest: Floats, factor: Floats, steps: Floats, storage_range: tuple[int, int]
) -> Array:
    """
    Return the stored values; `rest`, which is changed, has what of the weights is left.
    """
    stored = np.empty(rest.shape, np.int64)
    count = rest.shape[-2]
    for start in range(0, count, _LAZY):
        end = min(start + _LAZY, count)
        errors = np.empty_like(rest[..., start:end, :])
        for k in range(start, end):
            step = steps[..., k, :]
            found = np.rint(rest[..., k, :] / step).clip(*storage_range)
            stored[..., k, :] = found
            error = (rest[..., k, :] - found * step) / factor[..., k, k, np.newaxis]
            errors[..., k - start, :] = error
            later = factor[..., k, k:end, np.newaxis]
            rest[..., k:end, :] -= later * error[..., np.newaxis, :]
        later = factor[..., start:end, end:].swapaxes(-1, -2)
        rest[..., end:, :] -= later @ errors
    return stored
