"""Integer kernels of reductions."""

import math
from collections.abc import Sequence

import numpy as np

from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.numerics.primitives import folded, rescaled, wrapped

from .fixed_point import Integers, Multiplier, quantized_multiplier, rescale_wide
from .quantized import Quantized, scale_of, store_corrected


def _centered_sum(x: Quantized, axes: Sequence[int]) -> tuple[Integers, int]:
    distinct = tuple({axis % x.values.ndim for axis in axes})
    count = math.prod(x.values.shape[axis] for axis in distinct)
    return x.corrected.sum(axis=distinct, keepdims=True), count


def sum_of(
    x: Quantized, axes: Sequence[int], result: QuantizationParameters
) -> Integers:
    """Return sums along `axes`, reduced to size 1, as stored values."""
    sums, _ = _centered_sum(x, axes)
    ratio = float(x.scale) / float(scale_of(result))
    return store_corrected(rescaled(sums, quantized_multiplier(ratio)), result)


def mean(x: Quantized, axes: Sequence[int], result: QuantizationParameters) -> Integers:
    """Return means along `axes`, reduced to size 1, as stored values."""
    sums, count = _centered_sum(x, axes)
    value, exponent = quantized_multiplier(float(x.scale) / float(scale_of(result)))
    # The kernel shifts by fewer bits if the ratio of scales is so small that each result
    # is the zero point anyway.
    bits = count.bit_length() - 1
    divided = Multiplier((int(value) << bits) // count, int(exponent) - bits)
    return store_corrected(rescaled(sums, divided), result)


def reduce_prod(
    x: Quantized, axes: Sequence[int], result: QuantizationParameters
) -> Integers:
    """Return products along `axes`, reduced to size 1, as stored values."""
    rank = x.values.ndim
    distinct = sorted({axis % rank for axis in axes})
    outer = [axis for axis in range(rank) if axis not in distinct]
    count = math.prod(x.values.shape[axis] for axis in distinct)
    rows = x.corrected.transpose(*outer, *distinct)
    rows = rows.reshape(*rows.shape[: len(outer)], count)
    root = float(scale_of(result)) ** (1 / count)
    multiplier = quantized_multiplier(float(x.scale) / root)

    def step(product: Integers, factor: Integers) -> Integers:
        return wrapped(rescale_wide(product * factor, multiplier))

    product = folded(rows, step)
    values = store_corrected(wrapped(rescale_wide(product, multiplier)), result)
    return np.expand_dims(values, tuple(distinct))
