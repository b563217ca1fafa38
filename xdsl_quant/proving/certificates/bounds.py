"""
Sound linear bounds of values, for many regions at once.

A variable is an affine function of earlier variables plus an error that is bounded. To
bound a linear expression, back substitution replaces variables by their definitions until
only the inputs are left, so that errors cancel or add up as the weights tell. The
rounding errors of the analysis itself are part of every bound.

Arrays have the shape `[regions, elements]`, coefficients `[regions, rows, elements]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .linear_maps import (
    SMALLEST,
    Floats,
    GroupMatrices,
    Indices,
    Path,
    growth,
)

Mask: TypeAlias = NDArray[np.bool_]

Coefficient: TypeAlias = "Path | GroupMatrices | Floats"
"""Linear map, matrices of regions, or factors `[regions, elements]`."""

_MOST_ROUNDINGS = 4096
"""Bound of the number of roundings of a coefficient, and of terms that are added."""

_MOST_BYTES = 1 << 20
"""Maximum size in bytes of the coefficients of a variable: they should stay in cache."""


@dataclass(frozen=True)
class Corners:
    """
    Points `[regions, elements]` through which a lower line may have any slope from 0 to 1.
    """

    arguments: Floats
    results: Floats

    is_free: Mask
    """Elements with such a point."""


@dataclass(frozen=True)
class Lines:
    """Affine functions of one variable that bound another, `[regions, elements]`."""

    operand: Variable
    low_slope: Floats
    low: Floats
    high_slope: Floats
    high: Floats
    corners: Corners | None = None

    @cached_property
    def middle(self) -> tuple[Floats, Floats]:
        """Center and half of the distance of the two offsets."""
        return (self.low + self.high) / 2, (self.high - self.low) / 2

    @cached_property
    def _slopes(self) -> tuple[Floats, Floats, Indices]:
        """Center and half of the distance of the slopes, and elements where they differ."""
        gap = (self.high_slope - self.low_slope) / 2
        bent = np.flatnonzero(np.any(gap != 0, axis=0))
        return (self.low_slope + self.high_slope) / 2, gap[:, bent], bent

    def substitute(self, rows: Floats, sizes: Floats) -> Floats:
        """
        Return coefficients of the operand, for the smallest values of expressions with the
        coefficients `rows`, whose absolute values are `sizes`.
        """
        slope, gap, bent = self._slopes
        found = rows * slope[:, np.newaxis]
        if bent.size:
            found[:, :, bent] -= sizes[:, :, bent] * gap[:, np.newaxis]
        return found

    def low_offsets(self, slopes: Floats) -> Floats:
        """Return offsets of lower lines with other slopes, `[regions, rows, elements]`."""
        if (corners := self.corners) is None:
            return self.low[:, np.newaxis]
        arguments, results = corners.arguments, corners.results
        offsets = results[:, np.newaxis] - slopes * arguments[:, np.newaxis]
        is_free = corners.is_free[:, np.newaxis]
        return np.where(is_free, offsets, self.low[:, np.newaxis])

    def substitute_turned(self, rows: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        """
        Return coefficients of the operand and constants, for the smallest values of
        expressions with the coefficients `rows`, if lower lines have other slopes.
        """
        positive, negative = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
        constant = np.sum(positive * self.low_offsets(slopes), axis=2)
        found = positive * slopes + negative * self.high_slope[:, np.newaxis]
        return found, constant + _dot(negative, self.high)


@dataclass(eq=False)
class Variable:
    """An affine function of earlier variables, with an error; an input without terms."""

    number: int
    terms: Sequence[tuple[Variable, Coefficient]]
    constant: Floats
    radius: Floats
    """Largest absolute value of the error."""

    low: Floats
    high: Floats
    slack: Floats
    """Bound of the rounding errors when coefficients of 1 are substituted."""

    lines: Lines | None = None
    """Bounds of a variable that has no terms."""

    @property
    def magnitude(self) -> Floats:
        """Largest absolute value."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def tighten(self, low: Floats, high: Floats) -> None:
        """Intersect the bounds with others."""
        self.low = np.maximum(self.low, low)
        self.high = np.minimum(self.high, high)


@dataclass(frozen=True)
class ValuePair:
    """Variables of a float value, and of the quantized value less the float value."""

    number: Variable
    difference: Variable

    limits: tuple[Floats | float, Floats | float] = (-np.inf, np.inf)
    """Further bounds of the quantized value, such as its storage range."""

    @property
    def quantized(self) -> tuple[Floats, Floats]:
        """Smallest and largest quantized value."""
        low = self.number.low + self.difference.low
        high = self.number.high + self.difference.high
        return np.maximum(low, self.limits[0]), np.minimum(high, self.limits[1])

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """Smallest and largest number between the float and the quantized value."""
        low, high = self.quantized
        return np.minimum(low, self.number.low), np.maximum(high, self.number.high)


def outward(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return bounds that are wider by one unit in the last place."""
    return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)


def applied(coefficient: Coefficient, values: Floats) -> Floats:
    """Map values `[regions, elements]` or `[regions, rows, elements]`."""
    if isinstance(coefficient, np.ndarray):
        return values * (
            coefficient if values.ndim == 2 else coefficient[:, np.newaxis]
        )
    return coefficient.apply(values)


def _absolute(coefficient: Coefficient) -> Coefficient:
    if isinstance(coefficient, np.ndarray):
        return np.abs(coefficient)
    return coefficient.magnitude


def _transpose(coefficient: Coefficient, rows: Floats) -> Floats:
    if isinstance(coefficient, np.ndarray):
        return rows * coefficient[:, np.newaxis]
    return coefficient.transpose(rows)


def _roundings(coefficient: Coefficient) -> int:
    return 1 if isinstance(coefficient, np.ndarray) else coefficient.roundings


@dataclass
class Variables:
    """The variables of an analysis of some regions, in order of definition."""

    regions: int
    known: list[Variable] = field(default_factory=list[Variable])

    def input(self, low: Floats, high: Floats) -> Variable:
        """Add an input, which has any value from `low` to `high`."""
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        middle = (low + high) / 2
        # The distance of each end from the rounded middle.
        radius = np.nextafter(np.maximum(high - middle, middle - low), np.inf)
        slack = growth(low.shape[-1] + _MOST_ROUNDINGS) * (np.abs(middle) + radius)
        return self._add((), middle, radius, low, high, slack)

    def define(
        self,
        terms: Sequence[tuple[Variable, Coefficient]],
        constant: Floats | float = 0.0,
        radius: Floats | float = 0.0,
        size: int | None = None,
    ) -> Variable:
        """
        Add an affine function of variables.

        Args:
            terms: variables and their coefficients.
            constant: `[elements]` or `[regions, elements]`.
            radius: bound of an error that is added, with the same shapes.
            size: number of elements, needed without terms.
        """
        middle = np.zeros((self.regions, size or np.shape(constant)[-1])) + constant
        constant = middle
        spread = np.zeros_like(middle) + radius
        radius = spread
        # Substitution adds as many products as a row has elements.
        slack = growth(middle.shape[-1] + _MOST_ROUNDINGS) * (np.abs(constant) + radius)
        for variable, coefficient in terms:
            center = (variable.low + variable.high) / 2
            around = np.maximum(variable.high - center, center - variable.low)
            positive = _absolute(coefficient)
            middle = middle + applied(coefficient, center)
            spread = spread + applied(positive, around)
            size_of_terms = applied(positive, variable.magnitude + SMALLEST)
            slack = (
                slack
                + growth(_roundings(coefficient) + _MOST_ROUNDINGS) * size_of_terms
            )
        # Several definitions may use a variable: their coefficients are added.
        slack = slack + growth(_MOST_ROUNDINGS) * (np.abs(middle) + spread) + SMALLEST
        spread = (spread + slack) * (1 + 2.0**-36)
        low, high = outward(middle - spread, middle + spread)
        return self._add(terms, constant, radius, low, high, slack)

    def enclose(self, lines: Lines, radius: Floats) -> Variable:
        """
        Add a variable between two affine functions of another variable.

        Args:
            lines: the functions; where slopes are not negative.
            radius: bound of an error that is added.
        """
        operand = lines.operand
        low = lines.low_slope * operand.low + lines.low
        high = lines.high_slope * operand.high + lines.high
        sizes = np.maximum(lines.low_slope, lines.high_slope) * operand.magnitude
        sizes = sizes + np.maximum(np.abs(lines.low), np.abs(lines.high)) + radius
        if (corners := lines.corners) is not None:
            points = np.abs(corners.arguments) + np.abs(corners.results)
            sizes = sizes + corners.is_free * (points + operand.magnitude)
        slack = growth(low.shape[-1] + _MOST_ROUNDINGS) * sizes + SMALLEST
        low, high = outward(low - radius - slack, high + radius + slack)
        zeros = np.zeros_like(low)
        variable = self._add((), zeros, zeros + radius, low, high, slack)
        variable.lines = lines
        return variable

    def _add(
        self,
        terms: Sequence[tuple[Variable, Coefficient]],
        constant: Floats,
        radius: Floats,
        low: Floats,
        high: Floats,
        slack: Floats,
    ) -> Variable:
        variable = Variable(len(self.known), terms, constant, radius, low, high, slack)
        self.known.append(variable)
        return variable

    def bound(
        self,
        expression: Mapping[Variable, Floats],
        watched: dict[Variable, Floats] | None = None,
        is_decided: Callable[[Indices, Floats, Floats], Mask] | None = None,
    ) -> tuple[Floats, Floats]:
        """
        Return bounds `[regions, rows]` of linear expressions of variables.

        Args:
            expression: coefficients `[regions, rows, elements]` by variable.
            watched: receives the coefficients of its variables.
            is_decided: function from rows and their bounds `[regions, rows]` to a mask of
                rows that need not be tighter.
        """
        (first, *_) = expression.values()
        count = first.shape[1]
        # The largest value is the smallest of the opposite, negated.
        todo = {
            variable: np.concatenate([rows, -rows], axis=1)
            for variable, rows in expression.items()
        }
        state = Substitution(todo, np.zeros((first.shape[0], 2 * count)))
        while todo:
            variable = state.last()
            # After a sum, the box of its operands is seldom better than after the next.
            if watched is not None or not is_affine(variable):
                state.add_box()
            if is_decided is not None and variable.lines is not None:
                state.drop(is_decided)
            if variable not in todo:
                break
            if watched is not None and variable in watched:
                watched[variable] = todo[variable][:, :count]
            state.substitute(variable)
        state.add_box()
        return state.low[:, :count], -state.low[:, count:]

    def refine(
        self,
        parts: Sequence[Variable],
        needed: Mask,
        decide: Callable[[Indices, Floats, Floats], Mask] | None = None,
    ) -> tuple[Floats, Floats]:
        """
        Return bounds of the sum of variables; rows that are not needed stay infinite.

        Args:
            parts: variables of the same size.
            needed: elements to bound, `[regions, elements]`.
            decide: function from elements and bounds, `[regions, rows]` each, to a mask of
                the bounds that need not be tighter.
        """
        low = np.full(needed.shape, -np.inf)
        high = np.full(needed.shape, np.inf)
        count = int(needed.sum(axis=1).max(initial=0))
        if not count:
            return low, high
        # The needed elements of each region first; other regions may need more.
        order = np.argsort(~needed, axis=1, kind="stable")[:, :count]
        widest = max(each.low.shape[-1] for each in self.known)
        step = max(1, _MOST_BYTES // (16 * widest * self.regions))
        for start in range(0, count, step):
            chosen = order[:, start : start + step]
            rows = np.zeros((*chosen.shape, needed.shape[1]))
            np.put_along_axis(rows, chosen[:, :, np.newaxis], 1.0, axis=2)
            is_decided = None if decide is None else partial(_decided, decide, chosen)
            ends = self.bound(dict.fromkeys(parts, rows), is_decided=is_decided)
            np.put_along_axis(low, chosen, ends[0], axis=1)
            np.put_along_axis(high, chosen, ends[1], axis=1)
        return low, high


def is_affine(variable: Variable) -> bool:
    """Return True if a linear map of a tensor defines the variable."""
    return any(isinstance(coefficient, Path) for _, coefficient in variable.terms)


def _decided(
    decide: Callable[[Indices, Floats, Floats], Mask],
    chosen: Indices,
    rows: Indices,
    low: Floats,
    high: Floats,
) -> Mask:
    """Return a mask of the rows whose bounds are tight enough in all regions."""
    return np.all(decide(chosen[:, rows], low, high), axis=0)


@dataclass
class Substitution:
    """Lower bounds of expressions whose variables are substituted one by one."""

    todo: dict[Variable, Floats]
    """Coefficients `[regions, rows, elements]` by variable."""

    center: Floats

    slopes: Mapping[Variable, Floats] = field(default_factory=dict[Variable, Floats])
    """Slopes `[regions, rows, elements]` of lower lines, instead of their own."""

    radius: Floats = field(init=False)

    low: Floats = field(init=False)
    """Largest lower bounds `[regions, rows]` so far, also of rows that were dropped."""

    rows: Indices = field(init=False)
    """Rows that are substituted."""

    def __post_init__(self) -> None:
        self.radius = np.zeros_like(self.center)
        self.low = np.full_like(self.center, -np.inf)
        self.rows = np.arange(self.center.shape[1])

    def substitute(self, variable: Variable) -> None:
        """Replace a variable by its definition."""
        rows = self.todo.pop(variable)
        sizes = np.abs(rows)
        constant, error = variable.constant, variable.radius + variable.slack
        added = [(each, _transpose(path, rows)) for each, path in variable.terms]
        if variable in self.slopes and variable.lines is not None:
            lines = variable.lines
            more, center = lines.substitute_turned(rows, self.slopes[variable])
            self.center = self.center + center
            added.append((lines.operand, more))
        elif (lines := variable.lines) is not None:
            middle, half = lines.middle
            constant, error = constant + middle, error + half
            added.append((lines.operand, lines.substitute(rows, sizes)))
        self.center = self.center + _dot(rows, constant)
        self.radius = self.radius + _dot(sizes, error)
        for operand, more in added:
            if operand in self.todo:
                self.todo[operand] = self.todo[operand] + more
            else:
                self.todo[operand] = more

    def last(self) -> Variable:
        """Return the variable to substitute next: no other one depends on it."""
        return max(self.todo, key=lambda each: each.number)

    def add_box(self) -> None:
        """Bound the expressions by the bounds of each variable alone."""
        center, radius = self.center, self.radius
        for variable, coefficients in self.todo.items():
            middle = (variable.low + variable.high) / 2
            around = np.maximum(variable.high - middle, middle - variable.low)
            unit = growth(middle.shape[-1] + _MOST_ROUNDINGS)
            error = around + unit * (np.abs(middle) + around)
            center = center + _dot(coefficients, middle)
            radius = radius + _dot(np.abs(coefficients), error)
        low = np.maximum(self.low[:, self.rows], _lower_ends(center, radius))
        self.low[:, self.rows] = low

    def drop(self, is_decided: Callable[[Indices, Floats, Floats], Mask]) -> None:
        """Stop substituting rows that are decided, and their opposites."""
        count = self.low.shape[1] // 2
        rows = self.rows[: len(self.rows) // 2]
        is_open = ~is_decided(rows, self.low[:, rows], -self.low[:, rows + count])
        (kept,) = np.nonzero(np.tile(is_open, 2))
        if kept.size == self.rows.size:
            return
        self.rows = self.rows[kept]
        self.center, self.radius = self.center[:, kept], self.radius[:, kept]
        for variable, coefficients in self.todo.items():
            self.todo[variable] = coefficients[:, kept]
        if not kept.size:
            self.todo.clear()


def _dot(rows: Floats, values: Floats) -> Floats:
    return (rows @ values[:, :, np.newaxis])[:, :, 0]


def _lower_ends(center: Floats, radius: Floats) -> Floats:
    """Return the lower end of an interval, less the errors of its sums."""
    # Offsets of lines, at 0, may be in any order: the radius may be negative.
    errors = np.abs(radius) * 2.0**-30 + np.abs(center) * 2.0**-46 + SMALLEST
    return np.nextafter(center - radius - errors, -np.inf)
