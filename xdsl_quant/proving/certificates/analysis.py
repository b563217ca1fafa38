"""
Bounds of the values of a float network, and of their differences from a quantized network.

For each pair of values there are two variables: the float value and the difference. Their
errors are independent, and rounding errors of the float network in `f32` are among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from xdsl_quant.diagnostics import refuse

from .bounds import Coefficient, Lines, Mask, ValuePair, Variable, Variables
from .functions import FUNCTIONS, Elementwise
from .linear_maps import (
    FLOAT_UNIT,
    SMALLEST,
    ElementScaling,
    Floats,
    Indices,
    Path,
)
from .networks import (
    SUM_LIMIT,
    Affine,
    Clamp,
    ElementProduct,
    Function,
    Largest,
    Softmax,
    StoredRounding,
    Value,
    expand,
    real_bounds,
    scaled_type,
)
from .pairing import Pairing
from .relaxations import (
    MARGIN,
    Ends,
    bounded_results,
    center_and_radius,
    clamp_lines,
    contain_bend,
    function_result,
    largest_result,
    product_pair,
    softmax_pair,
)


@dataclass
class Analysis:
    """Bounds of all pairs of values for some regions."""

    pairing: Pairing
    variables: Variables
    pairs: dict[Value, ValuePair] = field(default_factory=dict[Value, ValuePair])
    """Pairs by quantized value."""

    floats: dict[Value, Variable] = field(default_factory=dict[Value, Variable])
    """Variables by float value."""

    @staticmethod
    def of(pairing: Pairing, low: Floats, high: Floats) -> Analysis:
        """
        Bound all values for regions of arguments.

        Args:
            pairing: the two networks.
            low: smallest arguments, `[regions, elements]`.
            high: largest arguments.
        """
        analysis = Analysis(pairing, Variables(len(low)))
        variables = analysis.variables
        number = variables.input(low, high)
        zero = variables.define((), size=low.shape[1])
        analysis.floats[pairing.float_network.argument] = number
        analysis.pairs[pairing.quantized.argument] = ValuePair(number, zero)
        for value in pairing.quantized.values:
            if value not in pairing.operands:
                analysis._check_sum_range(value)
                continue
            pair = analysis._result(value)
            analysis.pairs[value] = pair
            analysis.floats[pairing.counterparts[value]] = pair.number
        return analysis

    # Affine functions

    def _check_sum_range(self, value: Value) -> None:
        """Refuse a sum of the quantized network that exceeds the range of its type."""
        if value.op is None or (affine := expand(value, self.pairs)) is None:
            return
        total = np.abs(affine.constant)
        for base, path in affine.terms:
            pair = self.pairs[base]
            total = total + path.magnitude.apply(np.max(np.abs(pair.quantized), axis=0))
        type_ = scaled_type(value.op.results[0].type)
        limit: Floats | float = SUM_LIMIT
        if type_ is not None and type_.storage_type_integral_width > 16:
            low, high = real_bounds(type_, value.shape)
            limit = np.minimum(-low, high)
        # Also true for NaN.
        if not np.all(total < limit):
            _refuse_range(value)

    def result(self) -> ValuePair:
        """
        Return the pair of the results of the networks.

        Raises:
            PassFailedException: if a result is not an affine function of paired values.
        """
        networks = self.pairing.quantized, self.pairing.float_network
        return self._pair_of(networks[0].result, networks[1].result)

    def _pair_of(self, quantized: Value, partner: Value) -> ValuePair:
        """Return the pair of an affine function of quantized values and its partner."""
        if quantized in self.pairs and partner in self.floats:
            pair = self.pairs[quantized]
            if pair.number is self.floats[partner]:
                return pair
        mine = expand(quantized, self.pairs)
        other = expand(partner, self.floats)
        if mine is None or other is None:
            op = quantized.op
            assert op is not None
            refuse(op, "cannot be paired", "no counterpart", "give the original model")
        number, error = self._number(partner, other)
        if not np.all(error < SUM_LIMIT * FLOAT_UNIT):
            _refuse_range(quantized)
        terms: list[tuple[Variable, Coefficient]] = []
        for base, path in mine.terms:
            terms.append((self.pairs[base].difference, path))
        terms += self._changes(mine, other)
        own_error = self._float_error(quantized, mine)
        difference = self.variables.define(
            terms,
            mine.constant - other.constant,
            error + own_error + MARGIN * (mine.magnitude + other.magnitude),
        )
        return ValuePair(number, difference, self._limits(mine, own_error))

    def _limits(self, affine: Affine, error: Floats | float) -> tuple[Floats, Floats]:
        """Return bounds of a sum of quantized values, from their bounds alone."""
        own = Variables(self.variables.regions)
        terms = [
            (own.input(*self.pairs[base].quantized), path)
            for base, path in affine.terms
        ]
        error = error + MARGIN * affine.magnitude
        total = own.define(terms, affine.constant, error)
        return total.low, total.high

    def _float_error(self, quantized: Value, affine: Affine) -> Floats | float:
        """Return the error of a sum that the quantized network computes in `f32`."""
        op = quantized.op
        if op is None or scaled_type(op.results[0].type) is not None:
            return 0.0
        numbers = [self.pairs[base] for base, _ in affine.terms]
        sizes = [each.number.magnitude + each.difference.magnitude for each in numbers]
        return affine.float_error(sizes)

    def _number(self, partner: Value, affine: Affine) -> tuple[Variable, Floats]:
        """Return the variable of a float value and the bound of its rounding error."""
        sizes = [self.floats[base].magnitude for base, _ in affine.terms]
        error = affine.float_error(sizes)
        if partner in self.floats:
            return self.floats[partner], error
        terms = [(self.floats[base], path) for base, path in affine.terms]
        number = self.variables.define(terms, affine.constant, error)
        self.floats[partner] = number
        return number, error

    def _changes(
        self, mine: Affine, other: Affine
    ) -> list[tuple[Variable, Coefficient]]:
        """Return the difference of two affine functions of the same float values."""
        terms: list[tuple[Variable, Coefficient]] = []
        rest = [*other.terms]
        for base, path in mine.terms:
            number = self.pairs[base].number
            match = next((t for t in rest if self.floats[t[0]] is number), None)
            if match is not None and (
                path.equals(match[1]) or path.minus(match[1]) is not None
            ):
                rest.remove(match)
                if (change := path.minus(match[1])) is not None:
                    terms.append((number, change))
            else:
                terms.append((number, path))
        for base, path in rest:
            terms.append((self.floats[base], path.then(_negation(path, base))))
        return terms

    # Other values

    def _result(self, value: Value) -> ValuePair:
        counterpart, partners = (
            self.pairing.counterparts[value],
            self.pairing.operands[value],
        )
        operands = [
            self._pair_of(*each) for each in zip(value.operands, partners, strict=True)
        ]
        if isinstance(value, ElementProduct | Softmax | Function):
            for operand in operands:
                self._refine_all(operand)
        if isinstance(value, ElementProduct):
            return self._product(value, *operands)
        (operand,) = operands
        if isinstance(value, Softmax):
            return softmax_pair(self.variables, operand, value.length)
        if isinstance(value, Function):
            return self._function(value, operand)
        if isinstance(value, Largest):
            return self._largest(value, operand)
        clamp = counterpart if isinstance(counterpart, Clamp) else None
        if counterpart is partners[0]:
            clamp = None
        if isinstance(value, StoredRounding):
            return self._clamped(operand, value, clamp, value.error)
        assert isinstance(value, Clamp)
        return self._clamped(operand, value, clamp, np.zeros(1))

    def _refine_all(self, operand: ValuePair) -> None:
        """Tighten the bounds of all elements of a pair."""
        everything = np.ones(operand.number.low.shape, np.bool_)
        for variable in (operand.number, operand.difference):
            variable.tighten(*self.variables.refine([variable], everything))

    def _product(
        self, value: ElementProduct, lhs: ValuePair, rhs: ValuePair
    ) -> ValuePair:
        pair = product_pair(self.variables, lhs, rhs)
        sizes = pair.number.magnitude + pair.difference.magnitude
        if not np.all(sizes < SUM_LIMIT):
            _refuse_range(value)
        return pair

    def _clamped(
        self,
        operand: ValuePair,
        own: StoredRounding | Clamp,
        clamp: Clamp | None,
        error: Floats,
    ) -> ValuePair:
        """Return the pair of a rounding that saturates, and of a clamp or the identity."""
        infinity = np.array(np.inf)
        own_ends = own.low, own.high
        ends = (-infinity, infinity) if clamp is None else (clamp.low, clamp.high)
        self._refine(operand, error, (*own_ends, *ends))
        self._check_limit(own, operand)
        number, difference = operand.number, operand.difference
        result = number
        if clamp is not None:
            lines = Lines(number, *clamp_lines(number.low, number.high, ends))
            result = self.variables.enclose(lines, MARGIN * number.magnitude)
        changed = self._saturated(operand, own_ends, ends, error)
        limits = (
            np.clip(operand.limits[0] - error, *own_ends),
            np.clip(operand.limits[1] + error, *own_ends),
        )
        margin = MARGIN * (operand.number.magnitude + difference.magnitude + error)
        changed.tighten(
            limits[0] - result.high - margin, limits[1] - result.low + margin
        )
        return ValuePair(result, changed, limits)

    def _saturated(
        self, operand: ValuePair, own: Ends, ends: Ends, error: Floats
    ) -> Variable:
        """
        Return the difference of `clamp(number + difference + error)` to the ends `own`, and
        of `clamp(number)` to other ends: a share of `difference + error`, and the
        difference of the clamps of the float value.
        """
        number, difference = operand.number, operand.difference
        low, high = number.low, number.high
        first, last = difference.low - error, difference.high + error
        is_inside = (low >= own[0]) & (high <= own[1])
        is_inside &= (low + first >= own[0]) & (high + last <= own[1])
        is_outside = (np.maximum(high, high + last) <= own[0]) | (
            np.minimum(low, low + first) >= own[1]
        )
        points = [low, high, *(np.clip(end, low, high) for end in (*own, *ends))]
        changes = [np.clip(p, *own) - np.clip(p, *ends) for p in points]
        smallest, largest = np.minimum.reduce(changes), np.maximum.reduce(changes)
        slopes: list[Floats] = []
        offsets: list[Floats] = []
        for side in (-1.0, 1.0):
            slope, offset = _chord(difference, error, side)
            slope = np.where(is_inside, 1.0, np.where(is_outside, 0.0, slope))
            exact = np.where(is_inside, side * error, 0.0)
            slopes.append(slope)
            offsets.append(np.where(is_inside | is_outside, exact, offset))
        margin = MARGIN * (number.magnitude + difference.magnitude + error)
        first_line, last_line = offsets[0] + smallest, offsets[1] + largest
        lines = Lines(difference, slopes[0], first_line, slopes[1], last_line)
        changed = self.variables.enclose(lines, margin)
        changed.tighten(
            np.minimum(first, 0.0) + smallest - margin,
            np.maximum(last, 0.0) + largest + margin,
        )
        return changed

    def _refine(
        self, operand: ValuePair, error: Floats, bends: Sequence[Floats]
    ) -> None:
        """Tighten the bounds of a pair where they contain a bend of a clamp."""
        number, difference = operand.number, operand.difference
        before = np.minimum(difference.low - error, 0.0)
        after = np.maximum(difference.high + error, 0.0)
        spread = [np.broadcast_to(bend, before.shape) for bend in bends]

        def is_decided(elements: Indices, low: Floats, high: Floats) -> Mask:
            parts = (np.take_along_axis(each, elements, 1) for each in (before, after))
            return ~contain_bend(
                low + next(parts),
                high + next(parts),
                [np.take_along_axis(each, elements, 1) for each in spread],
            )

        needed = contain_bend(number.low + before, number.high + after, spread)
        number.tighten(*self.variables.refine([number], needed, is_decided))
        needed = contain_bend(number.low + before, number.high + after, spread)
        difference.tighten(*self.variables.refine([difference], needed))

    def _check_limit(self, own: StoredRounding | Clamp, operand: ValuePair) -> None:
        if not isinstance(own, StoredRounding):
            return
        largest = operand.number.magnitude + operand.difference.magnitude
        if np.any(largest >= own.limit):
            assert own.op is not None
            refuse(
                own.op,
                "may overflow",
                f"sums up to {float((largest / own.limit).max()):.3g} times the limit of "
                "the accumulator",
                "certify smaller regions",
            )

    def _function(self, value: Function, operand: ValuePair) -> ValuePair:
        """Return the pair of a table of stored values and a function of floats."""
        function = FUNCTIONS.get(value.name)
        if function is None:
            assert value.op is not None
            refuse(value.op, "cannot be bounded", f"function '{value.name}'")
        number, difference = operand.number, operand.difference
        inputs = operand.quantized
        # A table has results for all stored values, also where the function has none.
        own = operand.ends if value.table is None else (number.low, number.high)
        _check_domain(value, function, *own)
        result = function_result(self.variables, number, function)
        errors, limits = bounded_results(value.table, function, *inputs)
        is_defined = operand.ends[0] > function.domain
        is_defined &= np.isfinite(errors[0]) & np.isfinite(errors[1])
        first, last = (np.where(is_defined, error, 0.0) for error in errors)
        low, high = (np.where(is_defined, end, number.low) for end in operand.ends)
        smallest, largest = function.slopes(low, high)
        slope, swing = (smallest + largest) / 2, (largest - smallest) / 2
        sizes = number.magnitude + difference.magnitude
        steepest = np.maximum(np.abs(smallest), np.abs(largest))
        radius = swing * difference.magnitude + (last - first) / 2
        radius = radius + function.error(number.low, number.high)
        radius = radius + MARGIN * (1 + sizes) * (1 + steepest)
        margin = MARGIN * (1 + result.magnitude)
        change = limits[0] - result.high - margin, limits[1] - result.low + margin
        offset = np.where(is_defined, first + last, change[0] + change[1]) / 2
        around = (change[1] - change[0]) / 2 + MARGIN * np.abs(offset)
        slope = np.where(is_defined, slope, 0.0)
        radius = np.where(is_defined, radius, around)
        changed = self.variables.define([(difference, slope)], offset, radius)
        changed.tighten(*change)
        return ValuePair(result, changed, limits)

    def _largest(self, value: Largest, operand: ValuePair) -> ValuePair:
        """Return the pair of the largest elements of groups."""
        number, difference = operand.number, operand.difference
        groups = value.groups
        low = number.low[:, groups].max(axis=2)
        high = number.high[:, groups].max(axis=2)
        result = largest_result(self.variables, number, groups)
        # The difference is at most that of the largest quantized element, and at least
        # that of the largest float element.
        least, most = (each[:, groups] for each in operand.quantized)
        is_first = number.high[:, groups] >= low[..., np.newaxis]
        is_second = most >= least.max(axis=2, keepdims=True)
        first = np.where(is_first, difference.low[:, groups], np.inf).min(axis=2)
        last = np.where(is_second, difference.high[:, groups], -np.inf).max(axis=2)
        first = np.maximum(first, least.max(axis=2) - high)
        last = np.minimum(last, most.max(axis=2) - low)
        center, radius = center_and_radius(first, last)
        sizes = np.abs(center) + np.abs(low) + np.abs(high)
        changed = self.variables.define((), center, radius + MARGIN * sizes)
        return ValuePair(result, changed, (least.max(axis=2), most.max(axis=2)))


def _chord(difference: Variable, error: Floats, side: float) -> tuple[Floats, Floats]:
    """
    Return slope and offset of a line that bounds a share, from 0 to 1, of a difference with
    an error: `max(0, x)` from above (side 1), `min(0, x)` from below (side -1).
    """
    limit = np.maximum if side > 0 else np.minimum
    start = limit(difference.low + side * error, 0.0)
    end = limit(difference.high + side * error, 0.0)
    width = np.maximum(difference.high - difference.low, SMALLEST)
    slope = np.clip((end - start) / width, 0.0, 1.0)
    # Both ends are on the same side of the line, although the slope is rounded.
    ends = start - slope * difference.low, end - slope * difference.high
    return slope, limit(*ends)


def _check_domain(
    value: Function, function: Elementwise, low: Floats, high: Floats
) -> None:
    """Refuse a function of arguments where it is undefined, or exceeds `f32`."""
    assert value.op is not None
    # Also true for NaN.
    if not np.all(low > function.domain):
        found = f"an argument of '{value.name}' may be {float(low.min()):.3g}"
        refuse(value.op, "cannot be bounded", found, "certify smaller regions")
    with np.errstate(over="ignore"):
        sizes = np.abs(function.range(low, high))
    if not np.all(sizes < SUM_LIMIT):
        _refuse_range(value)


def _refuse_range(value: Value) -> NoReturn:
    assert value.op is not None
    found = f"a sum may exceed the range of its type {value.op.results[0].type}"
    refuse(value.op, "cannot be bounded", found, "certify smaller regions")


def _negation(path: Path, base: Value) -> Path:
    count = path.maps[-1].outputs if path.maps else base.size
    return Path([ElementScaling(np.full(count, -1.0))])
