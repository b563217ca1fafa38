"""
Bounds of the values of one network.

An analysis of a pair of networks bounds differences. The class of one network needs no
differences, and a rounding to stored values before a clamp counts only as far as the clamp
lets it pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from .bounds import Corners, Lines, Mask, Variable, Variables
from .functions import FUNCTIONS
from .linear_maps import Floats, Indices
from .networks import (
    SUM_LIMIT,
    Argument,
    Clamp,
    ElementProduct,
    Function,
    Largest,
    Network,
    Softmax,
    StoredRounding,
    Sum,
    Value,
    element_scales,
    expand,
    scaled_type,
)
from .relaxations import (
    MARGIN,
    Ends,
    bounded_results,
    center_and_radius,
    clamp_lines,
    contain_bend,
    function_result,
    largest_result,
    product_result,
    softmax_result,
)

Limits: TypeAlias = Mapping[Value, Sequence[Ends]]
"""Bounds `[regions, elements]` of all operands of values that are not sums."""


@dataclass
class NetworkBounds:
    """Bounds of all values of a network for some regions."""

    network: Network
    variables: Variables
    known: dict[Value, Variable] = field(default_factory=dict[Value, Variable])

    limits: dict[Value, Sequence[Ends]] = field(
        default_factory=dict[Value, Sequence[Ends]]
    )
    """Bounds of the operands of all values that are not sums."""

    is_empty: Mask = field(init=False)
    """Regions that have no argument within the given limits."""

    stored_argument: StoredRounding | None = field(init=False)

    def __post_init__(self) -> None:
        self.is_empty = np.zeros(self.variables.regions, np.bool_)
        self.stored_argument = self.network.stored_argument()

    @staticmethod
    def of(
        network: Network, low: Floats, high: Floats, limits: Limits | None = None
    ) -> NetworkBounds:
        """
        Bound all values for regions of arguments.

        Args:
            network: a network of a pair whose analysis has excluded overflow.
            low: smallest arguments, `[regions, elements]`.
            high: largest arguments.
            limits: bounds of operands; by default, they are computed.
        """
        bounds = NetworkBounds(network, Variables(len(low)))
        bounds.known[network.argument] = bounds.variables.input(low, high)
        for value in network.values:
            if not isinstance(value, Argument | Sum):
                operands = [bounds.variable(each) for each in value.operands]
                if limits is None:
                    bounds._refine(value, operands)
                else:
                    for operand, ends in zip(operands, limits[value], strict=True):
                        operand.tighten(*ends)
                        bounds.is_empty |= np.any(operand.low > operand.high, axis=1)
                bounds.limits[value] = [(each.low, each.high) for each in operands]
                bounds.known[value] = bounds._result(value, operands)
        return bounds

    def variable(self, value: Value) -> Variable:
        """Return the variable of a value."""
        if value in self.known:
            return self.known[value]
        affine = expand(value, self.known)
        assert affine is not None
        error = MARGIN * affine.magnitude
        if value.op is None or scaled_type(value.op.results[0].type) is None:
            sizes = [self.known[base].magnitude for base, _ in affine.terms]
            error = error + affine.float_error(sizes)
        terms = [(self.known[base], path) for base, path in affine.terms]
        self.known[value] = self.variables.define(terms, affine.constant, error)
        return self.known[value]

    def bends(self) -> Iterator[tuple[Clamp | StoredRounding, Variable, Floats]]:
        """
        Yield clamps and roundings, their variables, and a bend of each element within the
        bounds of the operand, or NaN.
        """
        for value in self.network.values:
            if not isinstance(value, Clamp | StoredRounding):
                continue
            variable = self.known[value]
            if (lines := variable.lines) is None:
                continue
            low, high = lines.operand.low, lines.operand.high
            for end in (value.low, value.high):
                is_inside = (low < end) & (end < high)
                if np.any(is_inside):
                    yield value, variable, np.where(is_inside, end, np.nan)

    def _result(self, value: Value, operands: Sequence[Variable]) -> Variable:
        if isinstance(value, ElementProduct):
            return product_result(self.variables, *operands)
        (operand,) = operands
        if isinstance(value, Softmax):
            return softmax_result(self.variables, operand, value.length)
        if isinstance(value, Function):
            return self._function(value, operand)
        if isinstance(value, Largest):
            return largest_result(self.variables, operand, value.groups)
        assert isinstance(value, Clamp | StoredRounding)
        if isinstance(value, StoredRounding) and value is self.stored_argument:
            return self._rounded_argument(value, operand)
        return self._clamped(value, operand)

    def _function(self, value: Function, operand: Variable) -> Variable:
        function = FUNCTIONS[value.name]
        low, high = operand.low, operand.high
        with np.errstate(all="ignore"):
            errors, limits = bounded_results(value.table, function, low, high)
        is_defined = (low > function.domain) & np.isfinite(errors).all(axis=0)
        if not np.all(is_defined):
            if value.table is None:
                # The analysis of the pair, with tighter bounds, excludes larger results.
                limits = np.full_like(low, -SUM_LIMIT), np.full_like(low, SUM_LIMIT)
            # A table has results for all stored values, also where the function has none.
            center, radius = center_and_radius(*limits)
            return self.variables.define((), center, radius + MARGIN * np.abs(center))
        result = function_result(self.variables, operand, function, errors)
        result.tighten(*limits)
        return result

    def _rounded_argument(self, value: StoredRounding, operand: Variable) -> Variable:
        """Return an input for the stored values that the arguments may have."""
        assert value.op is not None
        type_ = scaled_type(value.op.results[0].type)
        assert type_ is not None
        scale = element_scales(type_, value.shape).ravel()
        ends = value.low, value.high
        low = np.clip(operand.low - value.error, *ends)
        high = np.clip(operand.high + value.error, *ends)
        # Stored values are multiples of the scale; 2^-20 covers the error of the quotient.
        low = np.ceil(low / scale - 2.0**-20) * scale
        high = np.floor(high / scale + 2.0**-20) * scale
        margin = MARGIN * (np.abs(low) + np.abs(high))
        return self.variables.input(low - margin, high + margin)

    def _clamped(self, value: Clamp | StoredRounding, operand: Variable) -> Variable:
        """Return the variable of a clamp, after a rounding."""
        error, ends = _error_of(value), (value.low, value.high)
        # The result is at least the clamp of the least rounded operand.
        low, high = operand.low - error, operand.high - error
        most = operand.low + error, operand.high + error
        low_slope, first, _, _ = clamp_lines(low, high, ends)
        _, _, high_slope, last = clamp_lines(*most, ends)
        is_free = (low <= ends[0]) & (high <= ends[1])
        floor = np.where(is_free, ends[0], 0.0)
        lines = Lines(
            operand,
            low_slope,
            first - low_slope * error,
            high_slope,
            last + high_slope * error,
            Corners(floor + error, floor, is_free),
        )
        margin = MARGIN * (operand.magnitude + error)
        result = self.variables.enclose(lines, margin)
        result.tighten(np.clip(low - margin, *ends), np.clip(most[1] + margin, *ends))
        return result

    def _refine(self, value: Value, operands: Sequence[Variable]) -> None:
        """Tighten the bounds of operands where the transfer function profits."""
        if isinstance(value, Clamp | StoredRounding):
            self._refine_bends(operands[0], _error_of(value), (value.low, value.high))
        elif not isinstance(value, Largest):
            for operand in operands:
                everything = np.ones(operand.low.shape, np.bool_)
                operand.tighten(*self.variables.refine([operand], everything))

    def _refine_bends(self, operand: Variable, error: Floats, ends: Ends) -> None:
        """Tighten the bounds of a variable where they contain a bend of a clamp."""
        shape = operand.low.shape
        error, *bends = (np.broadcast_to(each, shape) for each in (error, *ends))

        def is_decided(elements: Indices, low: Floats, high: Floats) -> Mask:
            own, *chosen = (
                np.take_along_axis(each, elements, 1) for each in (error, *bends)
            )
            return ~contain_bend(low - own, high + own, chosen)

        needed = contain_bend(operand.low - error, operand.high + error, bends)
        operand.tighten(*self.variables.refine([operand], needed, is_decided))


def _error_of(value: Clamp | StoredRounding) -> Floats:
    return value.error if isinstance(value, StoredRounding) else np.zeros(1)
