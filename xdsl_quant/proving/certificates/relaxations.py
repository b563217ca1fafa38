"""Linear bounds of clamps, functions, products of two variables, and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .bounds import Mask, ValuePair, Variable, Variables
from .functions import Elementwise
from .linear_maps import FLOAT_UNIT, SMALLEST, Floats, GroupMatrices, Indices, growth
from .networks import Table

Ends: TypeAlias = tuple[Floats, Floats]
"""Smallest and largest result."""

MARGIN = 2.0**-40
"""Bound of the relative rounding errors of the few operations of a relaxation."""


def center_and_radius(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return centers of intervals, and the distance of the farther end."""
    center = (low + high) / 2
    return center, np.maximum(high - center, center - low)


def clamp_lines(
    low: Floats, high: Floats, ends: Ends
) -> tuple[Floats, Floats, Floats, Floats]:
    """
    Return slopes and offsets of a lower and of an upper line that bound a clamp on
    intervals: chords, and tangents at one bend.
    """
    at_low, at_high = np.clip(low, *ends), np.clip(high, *ends)
    slope = (at_high - at_low) / np.maximum(high - low, SMALLEST)
    slope = np.clip(slope, 0.0, 1.0)
    points = [low, high, *(np.clip(end, low, high) for end in ends)]
    offsets = [np.clip(p, *ends) - slope * p for p in points]
    slopes, lines = [slope, slope], [np.minimum.reduce(offsets)]
    lines.append(np.maximum.reduce(offsets))
    bends = [(low < end) & (end < high) for end in ends]
    for index, end in enumerate(ends):
        # A clamp with one bend is convex or concave: the tangent with the smaller area.
        has_bend = bends[index] & ~bends[1 - index]
        is_linear = (high + low >= 2 * end) if index == 0 else (high + low <= 2 * end)
        tangent = np.where(is_linear, 1.0, 0.0)
        slopes[index] = np.where(has_bend, tangent, slopes[index])
        offset = np.where(is_linear, 0.0, end)
        lines[index] = np.where(has_bend, offset, lines[index])
    return slopes[0], lines[0], slopes[1], lines[1]


def contain_bend(low: Floats, high: Floats, bends: Sequence[Floats]) -> Mask:
    """Return a mask of the intervals that contain a bend."""
    found = np.zeros(low.shape, np.bool_)
    for bend in bends:
        found |= (low < bend) & (bend < high)
    return found


def function_result(
    variables: Variables,
    operand: Variable,
    function: Elementwise,
    errors: Ends | None = None,
) -> Variable:
    """
    Return a variable for a function of a variable.

    Args:
        errors: smallest and largest error; by default, that of the function in `f32`.
    """
    low, high = operand.low, operand.high
    smallest, largest = function.slopes(low, high)
    slope, swing = (smallest + largest) / 2, (largest - smallest) / 2
    center, around = center_and_radius(low, high)
    offset = function.compute(center) - slope * center
    error = function.error(low, high)
    first, last = (-error, error) if errors is None else errors
    steepest = np.maximum(np.abs(smallest), np.abs(largest))
    margin = MARGIN * (1 + operand.magnitude) * (1 + steepest)
    middle, error = center_and_radius(first, last)
    result = variables.define(
        [(operand, slope)],
        offset + middle,
        swing * around + error + margin + MARGIN * np.abs(middle),
    )
    least, most = function.range(low, high)
    margin = MARGIN * (np.abs(least) + np.abs(most) + np.abs(first) + np.abs(last))
    result.tighten(least + first - margin, most + last + margin)
    return result


def largest_result(
    variables: Variables, operand: Variable, groups: Indices
) -> Variable:
    """Return a variable for the largest elements of groups of elements."""
    low, high = (each[:, groups].max(axis=2) for each in (operand.low, operand.high))
    center, radius = center_and_radius(low, high)
    return variables.define((), center, radius + MARGIN * np.abs(center))


def product_result(variables: Variables, first: Variable, second: Variable) -> Variable:
    """
    Return a variable for the products of two variables.

    With centers `a0` and `b0`, the product is `a0 * b + b0 * a - a0 * b0`, plus the product
    of the distances from the centers.
    """
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
    return number


def product_pair(variables: Variables, lhs: ValuePair, rhs: ValuePair) -> ValuePair:
    """
    Return the pair of the products of two pairs of values. The difference of two products
    is `(a + a') / 2 * (b' - b) + (b + b') / 2 * (a' - a)`.
    """
    number = product_result(variables, lhs.number, rhs.number)
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


def softmax_result(variables: Variables, operand: Variable, length: int) -> Variable:
    """
    Return a variable for the softmax of groups of `length` elements, by the mean value
    theorem: derivatives `p[i] * (i == j) - p[i] * p[j]` are products of results.
    """
    center, around = center_and_radius(operand.low, operand.high)
    matrices, radii, ends = _derivatives(operand.low, operand.high, length)
    at_center = _softmax_ends(center, center, length)[0]
    rounding, margin = _softmax_errors(operand, length)
    result = variables.define(
        [(operand, matrices)],
        at_center - matrices.apply(center),
        radii.apply(around) + rounding + margin,
    )
    result.tighten(ends[0] - rounding, ends[1] + rounding)
    return result


def _softmax_errors(operand: Variable, length: int) -> tuple[float, Floats]:
    """
    Return bounds of the error of softmax in `f32`, and of the rounding of its relaxation.
    """
    # Exponentials with a relative error of 16 units in `f32` above and below the line, the
    # sum and the quotient; of a difference `x` from the maximum, `x * exp(x)` counts.
    rounding = growth(length + 40, FLOAT_UNIT) + SMALLEST
    return rounding, 2.0**-34 * length * (1 + operand.magnitude)


def softmax_pair(variables: Variables, operand: ValuePair, length: int) -> ValuePair:
    """Return the pair of the softmax of groups of `length` elements."""
    number, difference = operand.number, operand.difference
    result = softmax_result(variables, number, length)
    rounding, margin = _softmax_errors(number, length)
    ends = _softmax_ends(number.low, number.high, length)
    matrices, radii, quantized_ends = _derivatives(*operand.ends, length)
    change = variables.define(
        [(difference, matrices)],
        0.0,
        radii.apply(difference.magnitude) + 2 * rounding + margin,
        size=number.low.shape[1],
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


def bounded_results(
    table: Table | None, function: Elementwise, low: Floats, high: Floats
) -> tuple[Ends, Ends]:
    """
    Return bounds of the errors and of the results of a table, or of a function in `f32`, on
    intervals of its inputs. Errors of a table are not finite outside of the domain.
    """
    if table is not None:
        with np.errstate(all="ignore"):
            errors = table.results - function.compute(table.inputs)
        errors, ends = (
            _table_range(table, each, low, high) for each in (errors, table.results)
        )
    else:
        error = function.error(low, high)
        errors, ends = (-error, error), function.range(low, high)
        ends = ends[0] - error, ends[1] + error
    margin = MARGIN * (1 + np.abs(ends[0]) + np.abs(ends[1]))
    return errors, (ends[0] - margin, ends[1] + margin)


def _table_range(table: Table, numbers: Floats, low: Floats, high: Floats) -> Ends:
    """Return the extremes of numbers of all stored values that intervals reach."""
    step = table.inputs[1] - table.inputs[0]
    last = len(numbers) - 1
    # One more stored value on each side, as the division rounds.
    start = np.clip(np.floor((low - table.inputs[0]) / step) - 1, 0, last).astype(int)
    end = np.clip(np.ceil((high - table.inputs[0]) / step) + 1, 0, last).astype(int)
    return -_range_maximum(-numbers, start, end), _range_maximum(numbers, start, end)


def _range_maximum(values: Floats, start: np.ndarray, end: np.ndarray) -> Floats:
    """Return the largest of `values[start : end + 1]`, by a table of powers of two."""
    levels = [values]
    size = 1
    while 2 * size <= len(values):
        before = levels[-1]
        levels.append(np.maximum(before[:-size], before[size:]))
        size *= 2
    level = np.log2(end - start + 1).astype(int)
    result = np.empty(start.shape)
    for number, best in enumerate(levels):
        chosen = level == number
        first = start[chosen]
        second = end[chosen] - (1 << number) + 1
        result[chosen] = np.maximum(best[first], best[second])
    return result
