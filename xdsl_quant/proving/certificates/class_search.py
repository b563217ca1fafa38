"""
Certain leads of a class, by branch and bound.

If the bound of a lead is not positive, the arguments are split at the bend of the clamp
that widens the bound most, and both cases are bounded (Bunel et al., Branch and Bound for
Piecewise Linear Neural Network Verification, 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .linear_maps import Floats
from .network_bounds import Limits, NetworkBounds
from .networks import Network, Value
from .relaxations import Ends
from .slopes import SlopeSearch

_ROUNDS = 16
"""Number of changes of the slopes."""

_MOST_AT_ONCE = 16
"""Number of cases that are bounded together."""


@dataclass(frozen=True)
class _Split:
    """A bend of a clamp at which a case is split."""

    value: Value
    element: int
    bend: float


@dataclass(frozen=True)
class _Case:
    """Sides of some bends, and the bound of a lead in this case."""

    sides: Sequence[tuple[_Split, bool]]
    """Bends, and True for operands above."""

    lead: float
    split: _Split | None


def leads(classes: Sequence[int], count: int) -> Floats:
    """Return coefficients of the leads over other classes, `[regions, rows, results]`."""
    rows = np.eye(count)[list(classes)][:, np.newaxis] - np.eye(count)
    is_other = np.arange(count) != np.array(classes)[:, np.newaxis]
    return rows[is_other].reshape(len(classes), count - 1, count)


def smallest_leads(
    network: Network, low: Floats, high: Floats, classes: Sequence[int], cases: int
) -> Floats:
    """
    Return lower bounds `[regions]` of the lead of a class over all others.

    Args:
        network: a network of a pair whose analysis has excluded overflow.
        low: smallest arguments, `[regions, elements]`.
        high: largest arguments.
        classes: a class for each region.
        cases: largest number of cases of a region.
    """
    rows = leads(classes, network.result.size)
    bounds = NetworkBounds.of(network, low, high)
    result = bounds.variable(network.result)
    found = SlopeSearch({result: rows}, {}).bounds(_ROUNDS)
    for region, own in enumerate(found):
        limits = {
            value: [(first[region], last[region]) for first, last in ends]
            for value, ends in bounds.limits.items()
        }
        search = _CaseSearch(network, low[region], high[region], limits, cases)
        # The smallest lead first: if it stays negative, the others do not matter.
        for row in np.argsort(own):
            if own[row] > 0:
                break
            own[row] = max(own[row], search.smallest(rows[region, row]))
            if own[row] <= 0:
                break
    return found.min(axis=1)


@dataclass
class _CaseSearch:
    """Branch and bound in one region."""

    network: Network
    low: Floats
    high: Floats

    limits: Mapping[Value, Sequence[Ends]]
    """Bounds `[elements]` of operands in the whole region."""

    left: int
    """Number of cases that may still be bounded."""

    def smallest(self, row: Floats) -> float:
        """Return a lower bound of a lead; the search ends when it is positive."""
        cases = self._bounded([()], row)
        while cases[0].lead <= 0:
            worst = cases[: min(_MOST_AT_ONCE, self.left) // 2]
            chosen = [case for case in worst if case.lead <= 0]
            sides = [
                (*case.sides, (case.split, is_above))
                for case in chosen
                if case.split is not None
                for is_above in (False, True)
            ]
            if not chosen or len(sides) < 2 * len(chosen):
                break
            cases = cases[len(chosen) :] + self._bounded(sides, row)
            cases.sort(key=lambda each: each.lead)
        return cases[0].lead

    def _bounded(
        self, sides: Sequence[Sequence[tuple[_Split, bool]]], row: Floats
    ) -> list[_Case]:
        """Bound a lead in some cases."""
        self.left -= len(sides)
        low, high = (
            np.repeat(each[np.newaxis], len(sides), axis=0)
            for each in (self.low, self.high)
        )
        limits, chosen = self._limits(sides)
        bounds = NetworkBounds.of(self.network, low, high, limits)
        rows = np.broadcast_to(row, (len(sides), 1, row.size))
        result = bounds.variable(self.network.result)
        ends = {bounds.known[value]: limit for value, limit in chosen.items()}
        search = SlopeSearch({result: rows}, ends)
        found = np.nan_to_num(search.bounds(_ROUNDS)[:, 0], nan=-np.inf)
        found = np.where(bounds.is_empty, np.inf, found)
        splits = _widest(bounds, search, found)
        parts = zip(sides, found.tolist(), splits, strict=True)
        return [_Case(*each) for each in parts]

    def _limits(
        self, sides: Sequence[Sequence[tuple[_Split, bool]]]
    ) -> tuple[Limits, Mapping[Value, Ends]]:
        """Return bounds of all operands in some cases, and those of the sides alone."""
        limits: Limits = {
            value: [
                (np.tile(low, (len(sides), 1)), np.tile(high, (len(sides), 1)))
                for low, high in ends
            ]
            for value, ends in self.limits.items()
        }
        chosen: dict[Value, Ends] = {}
        for case, splits in enumerate(sides):
            for split, is_above in splits:
                value = split.value
                if value not in chosen:
                    shape = len(sides), value.size
                    chosen[value] = np.full(shape, -np.inf), np.full(shape, np.inf)
                for ends in (chosen[value], limits[value][0]):
                    end = ends[0 if is_above else 1]
                    end[case, split.element] = split.bend
        return limits, chosen


def _widest(
    bounds: NetworkBounds, search: SlopeSearch, found: Floats
) -> list[_Split | None]:
    """
    Return the bend that widens the bound of each region most; `None` if the bound stays
    negative without the widths of all bends.
    """
    values = search.worst_values()
    regions = bounds.variables.regions
    best: list[_Split | None] = [None] * regions
    largest, total = np.zeros(regions), np.zeros(regions)
    for value, variable, bends in bounds.bends():
        if variable not in search.coefficients or (lines := variable.lines) is None:
            continue
        # Distance of the result from that of the clamp, where the bound is reached.
        exact = np.clip(values[lines.operand][:, 0], value.low, value.high)
        distance = np.abs(exact - values[variable][:, 0])
        widths = distance * np.abs(search.coefficients[variable][:, 0])
        widths = np.where(np.isnan(bends), 0.0, widths)
        total = total + widths.sum(axis=1)
        elements = widths.argmax(axis=1)
        for region, element in enumerate(elements):
            if (width := widths[region, element]) > largest[region]:
                largest[region] = width
                bend = float(bends[region, element])
                best[region] = _Split(value, int(element), bend)
    return [
        split if lead > 0 else None
        for split, lead in zip(best, found + total, strict=True)
    ]
