"""Symmetric quantization of weights with one scale per block."""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, Floats, check_finite, element_text, numbers
from .parameters import QuantizationParameters

WeightRange = Literal["min-max", "mse"]
"""
Range of weights that a scale covers: the full range of a block; or the fraction of this
range with the least squared error, beyond which weights saturate.
"""

_CLIPPED = np.arange(99, 19, -1) / 100
"""Candidates for the range, as fractions of the full range."""

_PIECE = 1 << 20
"""Number of weights quantized at a time, which bounds memory."""


def weight_parameters(
    weights: ArrayLike,
    block_shape: tuple[int, ...],
    *,
    bits: int = 8,
    weight_range: WeightRange = "min-max",
    expressed: str = "f32",
    narrow_range: bool = True,
    f16_scales: bool = False,
) -> QuantizationParameters:
    """
    Return parameters for constant weights: symmetric (zero point 0) and, by default,
    narrow-range (without the smallest stored value).

    With the range `min-max` the scale of a block is `max|w| / (2**(bits - 1) - 1)`. With
    `mse`, candidates are this scale and 80 smaller ones, down to a fifth of it; the
    candidate with the least sum of squared errors is chosen. A block of zeros has scale 1.

    Args:
        weights: finite numbers, at least one.
        block_shape: the shape of the blocks that share a scale. Each size divides the size
            of the weights along its dimension.
        bits: the width of stored values, from 2 to 8.
        weight_range: the range of weights that a scale covers.
        expressed: the expressed type.
        narrow_range: `False` to also store `-2**(bits - 1)`.
        f16_scales: True for scales of all blocks that both `f16` and `bf16` represent.

    Returns:
        per-tensor, per-axis or sub-channel parameters, the simplest equivalent form.

    Raises:
        ValueError: if weights are not finite, a scale exceeds `f16`, or another argument
            is out of range.
        TypeError: if weights are not numeric.
    """
    if weight_range not in get_args(WeightRange):
        raise ValueError(f"unknown range {weight_range!r}, available: 'min-max', 'mse'")
    if not 2 <= bits <= 8:
        raise ValueError(f"expected 2 to 8 bits, found {bits}")
    array = numbers(weights, "weights", "iuf")
    last = 2 ** (bits - 1) - 1
    bounds = -last if narrow_range else -last - 1, last
    rounding = _f16_and_bf16 if f16_scales else np.positive
    scales = _block_scales(array, block_shape, weight_range, bounds, rounding)
    split = {d: n for d, n in enumerate(block_shape) if n != array.shape[d]}
    is_per_axis = len(split) == 1 and 1 in split.values()
    return QuantizationParameters(
        scales.reshape(-1) if is_per_axis else scales if split else scales.reshape(()),
        storage=f"i{bits}",
        storage_min=bounds[0],
        expressed=expressed,
        quantized_dimension=next(iter(split)) if is_per_axis else None,
        block_sizes=split if split and not is_per_axis else None,
    )


def _block_scales(
    weights: Array,
    block_shape: tuple[int, ...],
    weight_range: WeightRange,
    bounds: tuple[int, int],
    rounding: Callable[[Floats], Floats],
) -> Array:
    if not weights.size:
        raise ValueError(f"expected at least one weight, found shape {weights.shape}")
    blocks = blocks_of(weights, block_shape)
    check_finite(weights.astype(blocks.dtype, copy=False), "weights")
    largest = np.maximum(blocks.max(-1), -blocks.min(-1)).astype(np.float64)
    smallest = np.finfo(blocks.dtype).tiny
    full = np.maximum(largest / bounds[1], smallest)
    scales = np.where(largest > 0, rounding(full), 1.0)
    if weight_range == "mse":
        return _mse_scales(blocks, scales, full, bounds, rounding)
    return scales


LARGEST_F16_SCALE = 65280.0
"""Largest number of both `f16` and `bf16`."""


def _f16_and_bf16(values: Floats) -> Floats:
    """Return the nearest positive numbers of `bf16` that are numbers of `f16`, too."""
    low, high = 2.0**-24, LARGEST_F16_SCALE
    if (is_large := values > high).any():
        raise ValueError(
            f"expected scales of at most {high:.0f}, found {values[is_large][0]:g}"
        )
    # `f16` has steps of 2**-24 below 2**-14, and there at least the digits of `bf16`.
    digits = np.spacing(values.astype(np.float32)).astype(np.float64) * 2**16
    steps = np.maximum(digits, low)
    return np.maximum(np.rint(values / steps) * steps, low)


def blocks_of(weights: Array, block_shape: tuple[int, ...]) -> Array:
    """
    Return the weights of each block as f32, or f64 for f64 weights.

    Args:
        weights: an array of any shape.
        block_shape: block sizes that divide the sizes of the array.

    Returns:
        an array with one more dimension: the block index along each dimension of the
            weights, then the index of the weight within its block, in row-major order.

    Raises:
        ValueError: if block sizes do not divide the sizes of the array.
    """
    shape, rank = weights.shape, weights.ndim
    if len(block_shape) != rank or any(
        block <= 0 or size % block
        for size, block in zip(shape, block_shape, strict=True)
    ):
        raise ValueError(
            f"expected block sizes that divide shape {shape}, found {block_shape}"
        )
    counts = [size // block for size, block in zip(shape, block_shape, strict=True)]
    sizes = [n for pair in zip(counts, block_shape, strict=True) for n in pair]
    parts = weights.reshape(sizes).transpose(
        *range(0, 2 * rank, 2), *range(1, 2 * rank, 2)
    )
    dtype = np.float64 if weights.dtype == np.float64 else np.float32
    return parts.reshape(*counts, -1).astype(dtype)


def _mse_scales(
    blocks: Array,
    scales: Floats,
    full: Floats,
    bounds: tuple[int, int],
    rounding: Callable[[Floats], Floats],
) -> Floats:
    """Return for each block the candidate scale with the least sum of squared errors."""
    rows, best = blocks.reshape(-1, blocks.shape[-1]), scales.reshape(-1).copy()
    step = max(1, _PIECE // rows.shape[1])
    for start in range(0, len(rows), step):
        piece = slice(start, start + step)
        errors = _squared_errors(rows[piece], best[piece], bounds)
        for part in _CLIPPED:
            candidates = rounding(full.reshape(-1)[piece] * part)
            candidate_errors = _squared_errors(rows[piece], candidates, bounds)
            is_better = candidate_errors < errors
            best[piece][is_better] = candidates[is_better]
            errors = np.minimum(errors, candidate_errors)
    return best.reshape(scales.shape)


def _squared_errors(rows: Array, scales: Floats, bounds: tuple[int, int]) -> Floats:
    steps = scales.astype(rows.dtype)[:, np.newaxis]
    stored = np.rint(rows / steps).clip(*bounds)
    return np.square(stored * steps - rows).sum(1)


def smoothing_factors(
    activations: ArrayLike, weights: ArrayLike, alpha: float = 0.5
) -> Floats:
    """
    Return the factors `max|x|**alpha / max|w|**(1 - alpha)` that balance activations and
    weights ([Xiao et al. 2022](https://arxiv.org/abs/2211.10438), formula 4). Divide each
    activation channel by its factor, and multiply the weights of the channel by it. A
    larger alpha makes activation channels more alike, and weight channels less alike.

    Args:
        activations: the largest absolute value of each channel.
        weights: the largest absolute weight of each channel, in the same shape.
        alpha: the exponent, from 0 to 1.

    Returns:
        positive numbers; 1 for channels whose largest activation or weight is 0.

    Raises:
        ValueError: if alpha is out of range, or numbers are negative or not finite.
        TypeError: if an array is not numeric.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"expected alpha from 0 to 1, found {alpha}")
    largest = [
        numbers(each, what, "iuf").astype(np.float64)
        for each, what in ((activations, "activations"), (weights, "weights"))
    ]
    for each, what in zip(largest, ("activations", "weights"), strict=True):
        is_wrong = ~((each >= 0) & np.isfinite(each))
        if is_wrong.any():
            found = element_text(each, is_wrong)
            raise ValueError(f"expected finite non-negative {what}, found {found}")
    first, second = largest
    is_used = (first > 0) & (second > 0)
    first, second = (np.where(is_used, each, 1.0) for each in largest)
    return first**alpha / second ** (1 - alpha)
