"""
Products of float activations and weights with a scale for each block of a row, as
LiteRT's default kernels (XNNPACK) compute them; its reference kernels do not.

Each row of activations is quantized at run time to 8 bits, with a zero point. Results are
bit-identical to those of XNNPACK on x86-64 with AVX-512 VNNI if block sizes are multiples
of 32, and elsewhere within 4e-6 of the largest result. LiteRT computes blocks of other
sizes with its optimized kernel, which does not round their scales.
"""

import math

import numpy as np

from xdsl_quant.numerics.primitives import Array, exact_factors, scaled_total

from .hybrid import Floats, xnnpack_rows

_WEIGHTS_PER_SUM = 16
"""Number of weights that the kernel adds before it multiplies by a scale."""


def _corrections(weights: Array, scales: Floats) -> Floats:
    """Return the negated scaled sum of each row of weights, in the kernel's order."""
    outputs, inputs = weights.shape
    size = inputs // scales.shape[1]
    group = math.gcd(size, _WEIGHTS_PER_SUM)
    sums = weights.reshape(outputs, -1, group).sum(axis=2).astype(np.float32)
    total = np.array(0, np.float32)
    for index in range(inputs // group):
        total = total - sums[:, index] * scales[:, index * group // size]
    return total


def _block_sums(stored: Array, weights: Array, blocks: int) -> Array:
    """
    Return the products `[blocks, rows, outputs]` of parts of rows and blocks of weights.
    128 is added to stored values.
    """
    outputs, inputs = weights.shape
    size = inputs // blocks
    parts = stored.reshape(-1, blocks, size).transpose(1, 0, 2)
    columns = weights.reshape(outputs, blocks, size).transpose(1, 2, 0)
    lhs, rhs = exact_factors(parts, columns, size)
    return lhs @ rhs + 128 * columns.sum(axis=1, keepdims=True)


def fully_connected(
    values: Floats,
    weights: Array,
    scales: Floats,
    bias: Floats | None,
    keep_num_dims: bool,
) -> Floats:
    """
    Multiply rows by weights.

    Args:
        values: `f32` values whose last dimension is `inputs`, or that can be reshaped to
            `[-1, inputs]`.
        weights: constant integers `[outputs, inputs]` of up to 8 bits.
        scales: `[outputs, blocks]`, rounded as in the kernel.
        bias: `[outputs]`, or `None`.
        keep_num_dims: keep all dimensions but the last, instead of flattening them to
            one dimension.
    """
    outputs, inputs = weights.shape
    blocks = scales.shape[1]
    rows = xnnpack_rows(values.reshape(-1, inputs))
    sums = _block_sums(rows.stored, weights, blocks)
    zero_points = (rows.zero_points + 128).astype(np.float32)
    start = _corrections(weights, scales) * zero_points
    result = scaled_total(sums, scales.T[:, None, :], start) * rows.scales
    if bias is not None:
        result = result + bias
    shape = values.shape[:-1] if keep_num_dims else (-1,)
    return result.reshape(*shape, outputs)
