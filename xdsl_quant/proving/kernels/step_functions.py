"""Comparison of step functions: non-decreasing functions from integers to integers."""

from collections.abc import Callable

import numpy as np

from xdsl_quant.numerics.arrays import Array

StepFunction = Callable[[Array], Array]
"""Function of `int64` arrays `[steps, channels]`; each channel is non-decreasing."""


def thresholds(
    function: StepFunction, low: Array, high: Array, results: Array
) -> Array:
    """
    Return the smallest arguments for which a function is at least some results.

    Args:
        function: non-decreasing function.
        low: smallest arguments `[channels]`.
        high: largest arguments `[channels]`.
        results: the results `[steps, channels]`, or `[steps, 1]` for all channels.

    Returns:
        Array `[steps, channels]`, `high + 1` if no argument gives a result.
    """
    shape = len(results), len(low)
    first = np.broadcast_to(low, shape).copy()
    last = np.broadcast_to(high + 1, shape).copy()
    while (first < last).any():
        middle = (first + last) >> 1
        is_reached = function(np.minimum(middle, high)) >= results
        is_open = first < last
        last = np.where(is_open & is_reached, middle, last)
        first = np.where(is_open & ~is_reached, middle + 1, first)
    return first


def merged_steps(
    one: StepFunction, other: StepFunction, low: Array, high: Array, results: Array
) -> Array:
    """
    Return arguments `[steps, channels]` that determine where two functions differ.

    Each function is constant from one of these arguments of a channel to the next. The
    functions are equal for all arguments if they are equal for these.

    Args:
        one: non-decreasing function.
        other: non-decreasing function.
        low: smallest arguments `[channels]`.
        high: largest arguments `[channels]`.
        results: all results, from the smallest to the largest, as for `thresholds`.
    """
    found = [thresholds(each, low, high, results) for each in (one, other)]
    return np.minimum(np.concatenate(found), high)


_SIGN = 1 << 31


def ordered_bits(numbers: Array) -> Array:
    """Return `f32` numbers as integers in the same order; -0 is before 0."""
    bits = numbers.astype(np.float32).view(np.uint32).astype(np.int64)
    return np.where(bits < _SIGN, bits, _SIGN - 1 - bits)


def from_ordered_bits(integers: Array) -> Array:
    """Return the `f32` numbers of `ordered_bits`."""
    bits = np.where(integers >= 0, integers, _SIGN - 1 - integers)
    return bits.astype(np.uint32).view(np.float32)
