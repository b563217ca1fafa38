"""
Checks of parts of the analysis of certificates, against drawn values and exact numbers.

They import the package as it is now: [`certificate_mutants`][..certificate_mutants] runs
them on changed modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from importlib import import_module
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i16

from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.frontends.tflite.formulas.fixed_point import Multiplier, rescale_wide
from xdsl_quant.numerics.fixed_point import quantize_multiplier

Floats = NDArray[np.float64]

PACKAGE = "xdsl_quant.proving.certificates"


def are_slopes_bounded() -> bool:
    """Return True if difference quotients of all functions are within their bounds."""
    functions = import_module(f"{PACKAGE}.functions").FUNCTIONS
    ends = np.sort(np.random.default_rng(2).normal(0, 3, (2000, 2)), axis=1)
    for function in functions.values():
        own = np.exp(ends) if function.domain == 0 else ends
        smallest, largest = function.slopes(own[:, 0], own[:, 1])
        change = np.diff(function.compute(own), axis=1)[:, 0]
        quotient = change / np.diff(own, axis=1)[:, 0]
        error = 1e-7 * (1 + np.abs(quotient))
        if np.any((quotient < smallest - error) | (quotient > largest + error)):
            return False
        smallest, largest = function.slopes(own[:, 0], own[:, 0])
        slope = function.derivative(own[:, 0])
        if np.any((slope <= smallest) | (largest <= slope)):
            return False
    return True


def _contains(variable: Any, value: Floats, operands: Mapping[Any, Floats]) -> bool:
    """Return True if a value is within the box and the linear bounds of its variable."""
    linear = variable.constant
    for operand, coefficient in variable.terms:
        if isinstance(coefficient, np.ndarray):
            linear = linear + coefficient * operands[operand]
        else:
            linear = linear + coefficient.apply(operands[operand])
    distance = np.abs(value - linear) - variable.radius - variable.slack
    is_inside = (variable.low <= value) & (value <= variable.high)
    return bool(np.all(is_inside & (distance <= 0)))


def are_relaxations_bounded() -> bool:
    """Return True if drawn products and softmax, and differences, are within bounds."""
    bounds, relaxations = (
        import_module(f"{PACKAGE}.{name}") for name in ("bounds", "relaxations")
    )
    rng = np.random.default_rng(2)
    shape = 200, 4
    variables = bounds.Variables(shape[0])
    inputs: list[Any] = []
    for _ in range(4):
        low, width = rng.normal(0, 2, shape), np.exp(rng.normal(-2, 2, shape))
        # Without width, rounding errors are all of the bound.
        width = np.where(rng.random((shape[0], 1)) < 0.5, width, 0.0)
        inputs.append(variables.input(low, low + width))
    pairs = [bounds.ValuePair(*inputs[:2]), bounds.ValuePair(*inputs[2:])]
    products = relaxations.product_pair(variables, *pairs)
    softmax = relaxations.softmax_pair(variables, pairs[0], shape[1])
    for _ in range(100):
        share = rng.random((4, *shape))
        share = np.where(rng.random(share.shape) < 0.5, np.rint(share), share)
        drawn = {
            each: each.low + part * (each.high - each.low)
            for each, part in zip(inputs, share, strict=True)
        }
        first, change, second, more = drawn.values()
        # Products that are rounded to `f32`, as far as they may be.
        unit = rng.choice([-1, 1]) * 2.0**-24
        changed = (first + change) * (second + more)
        for pair, before, after in (
            (products, first * second * (1 + unit), changed * (1 - unit)),
            (softmax, _softmax(first, rng), _softmax(first + change, rng)),
        ):
            if not _contains(pair.number, before, drawn):
                return False
            if not _contains(pair.difference, after - before, drawn):
                return False
    return True


def are_roundings_bounded() -> bool:
    """Return True if bounds of rounding errors are at least the exact largest errors."""
    maps, networking = (
        import_module(f"{PACKAGE}.{name}") for name in ("linear_maps", "networks")
    )
    for bits, count in product((24, 53), (1, 2, 7, 64, 4096, 10**5, 10**6)):
        exact = Fraction(count, 2**bits - count)
        if Fraction(maps.growth(count, 2.0**-bits)) < exact:
            return False
    for count in (1, 2, 7, 64):
        path = maps.Path([maps.Matrix(1, np.full((count, 1), 3.0))])
        base, zero = networking.Value(None, (count,)), np.zeros(1)
        total = networking.Sum(None, (1,), [(base, path)], zero)
        affine = networking.expand(total, {base})
        # A product and `count - 1` sums, each rounded up; the constant is 0.
        exact = 3 * count * ((1 + Fraction(1, 2**24)) ** count - 1)
        if Fraction(affine.float_error([np.ones(count)])[0]) < exact:
            return False
    total = base = networking.Value(None, (1,))
    for _ in range(200):
        total = networking.Sum(None, (1,), [(total, maps.Path())], np.full(1, 1e-9))
    error = networking.expand(total, {base}).float_error([np.ones(1)])[0]
    # Each sum is rounded up; the constants are too small to count.
    return Fraction(error) > (1 + Fraction(1, 2**24)) ** 200 - 1


def are_maps_consistent() -> bool:
    """Return True if differences and transposes of linear maps agree with their results."""
    maps = import_module(f"{PACKAGE}.linear_maps")
    rng = np.random.default_rng(2)
    paddings = (1, 0), (0, 1)
    window = maps.WindowGeometry((1, 5, 4, 4), (2, 1), (1, 2), paddings)
    plain = maps.WindowGeometry((1, 3, 2, 4))
    kinds: Sequence[tuple[Any, tuple[int, ...]]] = (
        (partial(maps.Matrix, 2), (4, 3)),
        (partial(maps.Convolution, window), (2, 2, 2, 2, 3)),
        (partial(maps.Convolution, window), (2, 2, 1, 4, 3)),
        (partial(maps.Convolution, window), (2, 2, 2, 2, 1)),
        (partial(maps.Convolution, window), (2, 2, 4, 1, 1)),
        (partial(maps.Convolution, plain), (1, 1, 1, 4, 3)),
        (maps.ElementScaling, (7,)),
    )
    for kind, shape in kinds:
        lhs, rhs = (kind(rng.normal(size=shape)) for _ in range(2))
        values = rng.normal(size=(2, lhs.inputs))
        change = lhs.apply(values) - rhs.apply(values)
        if not np.allclose(lhs.minus(rhs).apply(values), change):
            return False
        rows = rng.normal(size=(2, lhs.outputs))
        sums = (lhs.transpose(rows) * values).sum(), (rows * lhs.apply(values)).sum()
        if not np.isclose(float(sums[0]), float(sums[1])):
            return False
        ones = kind(np.ones(shape))
        counts = ones.apply(np.ones(lhs.inputs)), ones.transpose(np.ones(lhs.outputs))
        if max(each.max() for each in counts) > lhs.terms:
            return False
    return True


def _softmax(values: Floats, rng: np.random.Generator) -> Floats:
    """Return the softmax of rows, with the largest rounding errors in `f32`."""

    def error(units: int) -> Floats:
        return 1 + units * 2.0**-24 * rng.choice([-1, 1], values.shape)

    differences = (values - values.max(axis=1, keepdims=True)) * error(1)
    powers = np.exp(differences) * error(16)
    return powers / powers.sum(axis=1, keepdims=True) * error(values.shape[1])


def are_tables_covered() -> bool:
    """Return True if ranges of tables contain all stored values of an interval."""
    bound = import_module(f"{PACKAGE}.relaxations")._table_range
    table_type = import_module(f"{PACKAGE}.networks").Table
    rng = np.random.default_rng(2)
    for step in (2.0**-7, 0.1, 1 / 3):
        inputs = (np.arange(256) - 131) * step
        results = rng.normal(size=256)
        results[[0, -1]] = -9, 9
        ends = np.sort(rng.integers(0, 256, (500, 2)), axis=1)
        # Beyond the table, too.
        outside = rng.choice([0.0, 400 * step], (500, 1)) * [-1, 1]
        table = table_type(inputs, results)
        low, high = bound(table, results, *(inputs[ends] + outside).T)
        for (first, last), is_wide, least, most in zip(
            ends, outside[:, 1], low, high, strict=True
        ):
            reached = results if is_wide else results[first : last + 1]
            if least > reached.min() or most < reached.max():
                return False
    return True


def are_clamps_bounded() -> bool:
    """Return True if lines contain clamps, and shares of differences with an error."""
    analysing, bounds, relaxations = (
        import_module(f"{PACKAGE}.{name}")
        for name in ("analysis", "bounds", "relaxations")
    )
    rng = np.random.default_rng(2)
    shape = 1, 2000
    low, width = rng.normal(0, 2, shape), rng.exponential(2, shape)
    operand = bounds.Variables(1).input(low, low + width)
    error, ends = np.full(shape, 0.3), (np.array(-0.7), np.array(1.1))
    ends_of_operand = operand.low, operand.high
    lines = bounds.Lines(operand, *relaxations.clamp_lines(*ends_of_operand, ends))
    sides = [analysing._chord(operand, error, side) for side in (-1.0, 1.0)]
    for part in (0.0, 0.3, 0.8, 1.0):
        x = low + part * width
        clamped = np.clip(x, *ends)
        is_inside = lines.low_slope * x + lines.low <= clamped + 1e-12
        is_inside &= clamped <= lines.high_slope * x + lines.high + 1e-12
        for share, rounding in product((0.0, 0.5, 1.0), (-0.3, 0.3)):
            changed = share * (x + rounding)
            first, last = (slope * x + offset for slope, offset in sides)
            is_inside &= (first <= changed + 1e-12) & (changed <= last + 1e-12)
        if not is_inside.all():
            return False
    return _are_errors_of_zeros_bounded()


def _are_errors_of_zeros_bounded() -> bool:
    """Return True if a rounding of 0 has exactly its error."""
    analysing, bounds, networking = (
        import_module(f"{PACKAGE}.{name}")
        for name in ("analysis", "bounds", "networks")
    )
    variables = bounds.Variables(1)
    zeros = np.zeros((1, 1))
    inputs = (variables.input(zeros, zeros) for _ in range(2))
    pair = bounds.ValuePair(*inputs, (zeros, zeros))
    infinity = np.array(np.inf)
    operand = networking.Value(None, (1,))
    error = np.full(1, 0.25)
    own = networking.StoredRounding(None, (1,), operand, error, -infinity, infinity)
    found = analysing.Analysis(None, variables)._clamped(pair, own, None, error)
    return bool(
        found.difference.low[0, 0] <= -0.25 and found.difference.high[0, 0] >= 0.25
    )


def are_functions_bounded() -> bool:
    """Return True if functions of pairs of values, and their differences, are bounded."""
    analysing, bounds, networking = (
        import_module(f"{PACKAGE}.{name}")
        for name in ("analysis", "bounds", "networks")
    )
    functions = import_module(f"{PACKAGE}.functions").FUNCTIONS
    rng = np.random.default_rng(2)
    shape = 300, 1
    for name, function in functions.items():
        variables = bounds.Variables(shape[0])
        inputs: list[Any] = []
        for width in (1.0, 0.3):
            low = rng.normal(0, 1, shape)
            if function.domain == 0 and not inputs:
                low = np.exp(low)
            inputs.append(variables.input(low, low + width * rng.random(shape)))
        if function.domain == 0:
            inputs[1] = variables.input(*np.abs([0 * inputs[1].low, inputs[1].low]))
        operand = networking.Value(None, (1,))
        value = networking.Function(SimpleNamespace(), (1,), operand, name)
        analysis = analysing.Analysis(None, variables)
        pair = analysis._function(value, bounds.ValuePair(*inputs))
        for parts in rng.random((20, 2, *shape)):
            drawn = {
                each: each.low + np.rint(part) * (each.high - each.low)
                for each, part in zip(inputs, parts, strict=True)
            }
            number, change = drawn.values()
            before, after = (function.compute(x) for x in (number, number + change))
            if not _contains(pair.number, before, drawn):
                return False
            if not _contains(pair.difference, after - before, drawn):
                return False
    return True


def are_sums_bounded() -> bool:
    """Return True if bounds of sums contain the exact largest and smallest sums."""
    maps, bounds = (import_module(f"{PACKAGE}.{n}") for n in ("linear_maps", "bounds"))
    rng = np.random.default_rng(2)
    for low, width in product((0.0, 0.1, -1e3), (0.0, 1e-3, 7.7)):
        variables = bounds.Variables(1)
        ends = np.full((1, 3), low), np.full((1, 3), low + width)
        operand = variables.input(*ends)
        weights, constant = rng.normal(size=(3, 2)), rng.normal(size=2)
        terms = [(operand, maps.Path([maps.Matrix(1, weights)]))]
        total = variables.define(terms, constant, 0.3)
        again = variables.define([(total, np.full((1, 2), -1.7))], np.full(2, 0.1))
        slope = np.full((1, 2), 0.9)
        lines = bounds.Lines(total, slope, slope - 1, slope, slope)
        between = variables.enclose(lines, np.full((1, 2), 0.2))
        if not _are_crossed_lines_bounded(total):
            return False
        for each, factor, offsets in (
            (total, 1.0, (-0.3, 0.3)),
            (again, -1.7, (0.1 - 0.3 * 1.7, 0.1 + 0.3 * 1.7)),
            (between, 0.9, (0.9 - 1 - 0.27 - 0.2, 0.9 + 0.27 + 0.2)),
        ):
            refined = variables.refine([each], np.ones((1, 2), np.bool_))
            for column in range(2):
                exact = _exact_ends(weights[:, column], constant[column], ends, factor)
                for index, side in enumerate((-1, 1)):
                    # Offsets are rounded decimals: a unit of 1e-15 less wide.
                    found = exact[index] + Fraction(offsets[index]) - side * _TINY
                    for bound in (refined[index], (each.low, each.high)[index]):
                        if side * (Fraction(float(bound[0, column])) - found) < 0:
                            return False
    return True


def _are_crossed_lines_bounded(total: Any) -> bool:
    """Return True if bounds hold where the offset of the upper line is the smaller one."""
    bounds = import_module(f"{PACKAGE}.bounds")
    variables = bounds.Variables(1)
    low, high = np.abs(total.low) + 4.0, np.abs(total.low) + 7.0
    operand = variables.input(low, high)
    # The upper line is the operand; the lower one meets it at the lower end.
    slope = np.full((1, 2), 0.5)
    lines = bounds.Lines(operand, slope, low / 2, 2 * slope, 0 * slope)
    result = variables.enclose(lines, 0 * slope)
    rows = np.ones((1, 1, 2))
    least, most = variables.bound({result: rows, operand: -rows})
    exact = -sum(Fraction(float(x)) for x in (high - low).ravel()) / 2
    return Fraction(float(least[0, 0])) <= exact and most[0, 0] >= 0


_TINY = Fraction(1, 10**15)


def _exact_ends(
    weights: Floats, constant: float, ends: tuple[Floats, Floats], factor: float
) -> list[Fraction]:
    """Return the smallest and the largest value of `factor * (weights * x + constant)`."""
    corners = [[Fraction(float(x)) for x in end.ravel()] for end in ends]
    found = [Fraction(0), Fraction(0)]
    for weight, low, high in zip(map(float, weights), *corners, strict=True):
        products = sorted((Fraction(weight) * low, Fraction(weight) * high))
        found = [total + part for total, part in zip(found, products, strict=True)]
    return sorted(Fraction(factor) * (each + Fraction(constant)) for each in found)


def are_rescales_bounded() -> bool:
    """Return True if multipliers of 15 bits are within the errors of 16-bit results."""
    bound = import_module(f"{PACKAGE}.readers").rounding_error
    type_ = UniformQuantizedType(i16, f32, 1)
    op: Any = SimpleNamespace(attributes={})
    for real in np.random.default_rng(2).uniform(2.0**-10, 1, 500):
        multiplier, shift = quantize_multiplier(float(real))
        sums = np.arange(-32768, 32768, 97) / real
        sums = sums.astype(np.int64)
        found = rescale_wide(sums, Multiplier(multiplier, 31 - shift))
        error = np.abs(found - sums * real).max()
        if error > np.max(bound(op, type_, real)):
            return False
    return True


CHECKS = {
    "slopes": are_slopes_bounded,
    "relaxations": are_relaxations_bounded,
    "roundings": are_roundings_bounded,
    "maps": are_maps_consistent,
    "tables": are_tables_covered,
    "clamps": are_clamps_bounded,
    "functions": are_functions_bounded,
    "sums": are_sums_bounded,
    "rescales": are_rescales_bounded,
}
"""Checks of parts of the analysis, which import the package as it is now."""
