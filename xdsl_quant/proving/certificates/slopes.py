"""
Lower bounds of linear expressions with optimized slopes and multipliers.

The lower line of a clamp with one bend may have any slope from 0 to 1. If the operand of a
clamp is on one side of a bend, the distance from the bend may be subtracted with any
positive factor, a Lagrange multiplier. Every choice is sound: gradients only look for one
with a large bound (Wang et al., Beta-CROWN, 2021). The gradient of a bound is taken at the
values at which the bound is reached; steps are those of Adam (Kingma and Ba, 2015).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from .bounds import Lines, Substitution, Variable, applied, is_affine
from .linear_maps import SMALLEST, Floats, growth

_FIRST_STEP = 0.3
_SHRINKAGE = 0.93
"""Size of the first change of a slope, and factor from one change to the next."""

_DECAYS = 0.9, 0.999
"""Weights of the past in the means of gradients and of their squares."""


@dataclass
class SlopeSearch:
    """Search for slopes and multipliers with large bounds."""

    expression: Mapping[Variable, Floats]
    """Coefficients `[regions, rows, elements]` by variable."""

    sides: Mapping[Variable, tuple[Floats, Floats]]
    """Bounds `[regions, elements]` of the operands of some clamps; most are infinite."""

    slopes: dict[Variable, Floats] = field(
        default_factory=dict[Variable, Floats], init=False
    )
    """Slopes of lower lines, `[regions, rows, elements]`."""

    multipliers: dict[Variable, Floats] = field(
        default_factory=dict[Variable, Floats], init=False
    )
    """Factors of the operands of clamps: positive for lower, negative for upper bounds."""

    means: dict[tuple[Variable, str], tuple[Floats, Floats]] = field(
        default_factory=dict[tuple[Variable, str], tuple[Floats, Floats]], init=False
    )
    """Means of the gradients and of their squares."""

    coefficients: dict[Variable, Floats] = field(
        default_factory=dict[Variable, Floats], init=False
    )
    """Coefficients of all variables in the last round."""

    def bounds(self, rounds: int) -> Floats:
        """Return the largest lower bounds `[regions, rows]` after a number of changes."""
        best = self._substituted()
        clamps = {v: rows for v, rows in self.coefficients.items() if v.lines}
        for variable, rows in clamps.items():
            slope = _lines_of(variable).low_slope[:, np.newaxis]
            self.slopes[variable] = np.repeat(slope, rows.shape[1], axis=1)
            if variable in self.sides:
                self.multipliers[variable] = np.zeros_like(rows)
        for number in range(rounds if clamps else 0):
            values = self.worst_values()
            for variable, rows in clamps.items():
                self._change(variable, values, number, np.abs(rows))
            best = np.maximum(best, self._substituted())
        return best

    def _substituted(self) -> Floats:
        """Return the lower bounds for the current choice."""
        (first, *_) = self.expression.values()
        todo = dict(self.expression)
        state = Substitution(todo, np.zeros(first.shape[:2]), self.slopes)
        for variable, factors in self.multipliers.items():
            operand = _lines_of(variable).operand
            todo[operand] = todo.get(operand, 0.0) - factors
            low, high = (
                np.where(np.isfinite(end), end, 0.0)[:, np.newaxis]
                for end in self.sides[variable]
            )
            products = np.maximum(factors, 0.0) * low + np.minimum(factors, 0.0) * high
            state.center = state.center + products.sum(axis=2)
            error = growth(products.shape[2] + 4) * np.abs(products).sum(axis=2)
            state.radius = state.radius + error
        self.coefficients = {}
        while state.todo:
            variable = state.last()
            if not is_affine(variable):
                state.add_box()
            self.coefficients[variable] = state.todo[variable]
            state.substitute(variable)
        state.add_box()
        return state.low

    def worst_values(self) -> Mapping[Variable, Floats]:
        """Return values of all variables with which the last bounds are reached."""
        values: dict[Variable, Floats] = {}
        for variable in sorted(self.coefficients, key=lambda each: each.number):
            rows = self.coefficients[variable]
            value = variable.constant[:, np.newaxis]
            for operand, coefficient in variable.terms:
                value = value + applied(coefficient, values[operand])
            if (lines := variable.lines) is not None:
                operand = values[lines.operand]
                slopes = self.slopes[variable]
                lower = slopes * operand + lines.low_offsets(slopes)
                upper = lines.high_slope[:, np.newaxis] * operand
                value = np.where(rows > 0, lower, upper + lines.high[:, np.newaxis])
            values[variable] = value - np.sign(rows) * variable.radius[:, np.newaxis]
        return values

    def _change(
        self,
        variable: Variable,
        values: Mapping[Variable, Floats],
        number: int,
        sizes: Floats,
    ) -> None:
        """
        Change slopes and multipliers of a clamp in the direction of the gradient.

        Args:
            values: values with which the bounds are reached.
            number: number of the round.
            sizes: scale of the multipliers.
        """
        lines = _lines_of(variable)
        operand = values[lines.operand]
        if (corners := lines.corners) is not None:
            rows = np.maximum(self.coefficients[variable], 0.0)
            gradient = rows * (operand - corners.arguments[:, np.newaxis])
            gradient = gradient * corners.is_free[:, np.newaxis]
            step = self._step(variable, "slopes", gradient, number)
            self.slopes[variable] = np.clip(self.slopes[variable] + step, 0.0, 1.0)
        if variable in self.multipliers:
            factors = self.multipliers[variable]
            low, high = (end[:, np.newaxis] for end in self.sides[variable])
            ends = np.where(factors > 0, low, np.where(factors < 0, high, operand))
            nearest = np.where(factors == 0, np.clip(operand, low, high), ends)
            step = self._step(variable, "multipliers", nearest - operand, number)
            changed = factors + step * sizes
            least = np.where(np.isfinite(high), -np.inf, 0.0)
            most = np.where(np.isfinite(low), np.inf, 0.0)
            self.multipliers[variable] = np.clip(changed, least, most)

    def _step(
        self, variable: Variable, kind: str, gradient: Floats, number: int
    ) -> Floats:
        """Return the change of slopes or multipliers in a round."""
        zeros = np.zeros_like(gradient)
        mean, square = self.means.get((variable, kind), (zeros, zeros))
        first, second = _DECAYS
        mean = first * mean + (1 - first) * gradient
        square = second * square + (1 - second) * gradient**2
        self.means[variable, kind] = mean, square
        direction = mean / (1 - first ** (number + 1))
        size = np.sqrt(square / (1 - second ** (number + 1)))
        return _FIRST_STEP * _SHRINKAGE**number * direction / (size + SMALLEST)


def _lines_of(variable: Variable) -> Lines:
    assert variable.lines is not None
    return variable.lines
