"""Linear bounds of products of two variables, and of softmax."""

from __future__ import annotations

import numpy as np

from .bounds import ValuePair, Variable, Variables
from .linear_maps import FLOAT_UNIT, SMALLEST, Floats, GroupMatrices, growth

MARGIN = 2.0**-40
"""Bound of the relative rounding errors of the few operations of a relaxation."""


def center_and_radius(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return centers of intervals, and the distance of the farther end."""
    center = (low + high) / 2
    return center, np.maximum(high - center, center - low)


def product_pair(variables: Variables, lhs: ValuePair, rhs: ValuePair) -> ValuePair:
    """
    Return the pair of the products of two pairs of values.

    With centers `a0` and `b0`, the product is `a0 * b + b0 * a - a0 * b0`, plus the product
    of the distances from the centers. The difference of two products is
    `(a + a') / 2 * (b' - b) + (b + b') / 2 * (a' - a)`.
    """
    first, second = lhs.number, rhs.number
    centers, radii = zip(
        *(center_and_radius(each.low, each.high) for each in (first, second)),
        strict=True,
    )
    sizes = first.magnitude, second.magnitude
    rounding = (FLOAT_UNIT * 1.01 + MARGIN) * sizes[0] * sizes[1] + SMALLEST
    number = variables.define(
        [(second, centers[0]), (first, centers[1])],
        -centers[0] * centers[1],
        radii[0] * radii[1] + rounding,
    )
    corners = [
        x * y for x in (first.low, first.high) for y in (second.low, second.high)
    ]
    number.tighten(
        np.minimum.reduce(corners) - rounding, np.maximum.reduce(corners) + rounding
    )
    return ValuePair(number, _product_difference(variables, lhs, rhs))


def _product_difference(
    variables: Variables, lhs: ValuePair, rhs: ValuePair
) -> Variable:
    first, second = lhs.difference, rhs.difference
    middles, spreads = zip(*(_middle_of_pair(pair) for pair in (lhs, rhs)), strict=True)
    numbers = lhs.number.magnitude, rhs.number.magnitude
    quantized = numbers[0] + first.magnitude, numbers[1] + second.magnitude
    rounding = (FLOAT_UNIT * 1.01 + MARGIN) * (
        numbers[0] * numbers[1] + 2 * quantized[0] * quantized[1]
    )
    radius = spreads[0] * second.magnitude + spreads[1] * first.magnitude
    return variables.define(
        [(second, middles[0]), (first, middles[1])],
        0.0,
        radius + rounding + SMALLEST,
        size=first.low.shape[1],
    )


def _middle_of_pair(pair: ValuePair) -> tuple[Floats, Floats]:
    """Return center and radius of the mean of the float and the quantized value."""
    number, difference = pair.number, pair.difference
    return center_and_radius(
        number.low + difference.low / 2, number.high + difference.high / 2
    )


def softmax_pair(variables: Variables, operand: ValuePair, length: int) -> ValuePair:
    """
    Return the pair of the softmax of groups of `length` elements, by the mean value
    theorem: derivatives `p[i] * (i == j) - p[i] * p[j]` are products of results.
    """
    number, difference = operand.number, operand.difference
    center, around = center_and_radius(number.low, number.high)
    matrices, radii, ends = _derivatives(number.low, number.high, length)
    at_center = _softmax_ends(center, center, length)[0]
    # Exponentials with a relative error of 16 units in `f32` above and below the line, the
    # sum and the quotient; of a difference `x` from the maximum, `x * exp(x)` counts.
    rounding = growth(length + 40, FLOAT_UNIT) + SMALLEST
    margin = 2.0**-34 * length * (1 + number.magnitude)
    result = variables.define(
        [(number, matrices)],
        at_center - matrices.apply(center),
        radii.apply(around) + rounding + margin,
    )
    result.tighten(ends[0] - rounding, ends[1] + rounding)
    matrices, radii, quantized_ends = _derivatives(*operand.ends, length)
    change = variables.define(
        [(difference, matrices)],
        0.0,
        radii.apply(difference.magnitude) + 2 * rounding + margin,
        size=center.shape[1],
    )
    change.tighten(
        quantized_ends[0] - ends[1] - 2 * rounding,
        quantized_ends[1] - ends[0] + 2 * rounding,
    )
    return ValuePair(result, change)


def _softmax_ends(low: Floats, high: Floats, length: int) -> tuple[Floats, Floats]:
    """Return the smallest and largest results of softmax on boxes."""
    shape = len(low), -1, length
    lows, highs = low.reshape(shape), high.reshape(shape)
    is_own = np.eye(length, dtype=np.bool_)
    ends: list[Floats] = []
    for own, others, side in ((lows, highs, -1.0), (highs, lows, 1.0)):
        differences = others[:, :, np.newaxis] - own[..., np.newaxis]
        # Powers that overflow give 0, which is the smallest result.
        with np.errstate(over="ignore"):
            powers = np.exp(np.where(is_own, 0.0, differences))
        result = 1 / powers.sum(axis=3) * (1 + side * 1e-12 * (1 + length))
        ends.append(np.clip(result, 0.0, 1.0).reshape(low.shape))
    return ends[0], ends[1]


def _derivatives(
    low: Floats, high: Floats, length: int
) -> tuple[GroupMatrices, GroupMatrices, tuple[Floats, Floats]]:
    """Return centers and radii of the derivatives of softmax on boxes, and its range."""
    ends = _softmax_ends(low, high, length)
    first, last = (each.reshape(len(low), -1, length) for each in ends)
    smallest = -last[..., np.newaxis] * last[:, :, np.newaxis]
    largest = -first[..., np.newaxis] * first[:, :, np.newaxis]
    slopes = first * (1 - first), last * (1 - last)
    has_half = (first <= 0.5) & (last >= 0.5)
    diagonal = np.arange(length)
    smallest[..., diagonal, diagonal] = np.minimum(*slopes)
    largest[..., diagonal, diagonal] = np.where(has_half, 0.25, np.maximum(*slopes))
    center, radius = center_and_radius(smallest, largest)
    return GroupMatrices(center), GroupMatrices(radius * (1 + 1e-12) + 1e-15), ends
