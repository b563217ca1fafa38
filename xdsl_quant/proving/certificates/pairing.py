"""
Counterparts: the value of the float network for each value of the quantized network.

A bound is sound for any pair of values. A counterpart only makes it tight: it is the
value that is computed from the same counterparts, and whose numbers are closest on drawn
arguments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from xdsl_quant.diagnostics import op_name, refuse

from .linear_maps import Floats
from .networks import (
    Argument,
    Clamp,
    Function,
    Network,
    StoredRounding,
    Sum,
    Value,
    expand,
)

_FARTHEST = 0.5
"""Largest relative distance of counterparts on drawn arguments."""


@dataclass
class Pairing:
    """Counterparts of values of a quantized network."""

    quantized: Network
    float_network: Network

    counterparts: dict[Value, Value] = field(default_factory=dict[Value, Value])
    """Float values by quantized value."""

    operands: dict[Value, Sequence[Value]] = field(
        default_factory=dict[Value, Sequence[Value]]
    )
    """Float counterparts of the operands of values that are not affine."""

    @staticmethod
    def of(quantized: Network, float_network: Network) -> Pairing:
        """
        Pair the values of two networks.

        Raises:
            PassFailedException: if a value has no counterpart.
            ValueError: if arguments or results differ, or the float model is quantized.
        """
        pairing = Pairing(quantized, float_network)
        shapes = quantized.argument.shape, float_network.argument.shape
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"arguments of the models differ: {[*shapes[0]]} in the quantized model, "
                f"{[*shapes[1]]} in the float model; give both models the same sizes"
            )
        for value in float_network.values:
            if isinstance(value, StoredRounding) and value.op is not None:
                raise ValueError(
                    f"the float model is quantized by '{op_name(value.op)}'; give the "
                    "quantized model first, and the float model after --against"
                )
        pairing.counterparts[quantized.argument] = float_network.argument
        users, float_users = quantized.users(), float_network.users()
        for value in quantized.values:
            if not isinstance(value, Argument | Sum):
                pairing._pair(value, users, float_users)
        return pairing

    def _pair(
        self,
        value: Value,
        users: Mapping[Value, Sequence[Value]],
        float_users: Mapping[Value, Sequence[Value]],
    ) -> None:
        if not isinstance(value, StoredRounding | Clamp):
            self.counterparts[value] = found = self._computed_alike(value)
            self.operands[value] = found.operands
            return
        (operand,) = value.operands
        partner = self._partner(value, operand)
        self.operands[value] = [partner]
        # A clamp of the quantized network may be the saturation of its rounding.
        is_last = not any(isinstance(user, Clamp) for user in users[value])
        partners_users = float_users.get(partner, ())
        clamps = [user for user in partners_users if isinstance(user, Clamp)]
        may_clamp = isinstance(value, Clamp) or (is_last and len(partners_users) == 1)
        self.counterparts[value] = clamps[0] if clamps and may_clamp else partner

    def _computed_alike(self, value: Value) -> Value:
        """Return the float value of the same kind whose operands are closest."""
        operands = [_Probe.of(self, operand) for operand in value.operands]
        best, distance = None, _FARTHEST
        for candidate in self.float_network.values:
            if _kind(candidate) != _kind(value):
                continue
            error = max(
                math.inf if probe is None else probe.distance(each)
                for probe, each in zip(operands, candidate.operands, strict=True)
            )
            if error < distance:
                best, distance = candidate, error
        if best is None:
            _refuse_pair(value)
        return best

    def _partner(self, value: Value, operand: Value) -> Value:
        """Return the float value that is closest to the operand of a value."""
        if operand in self.counterparts:
            return self.counterparts[operand]
        probe = _Probe.of(self, operand)
        if probe is None:
            _refuse_pair(value)
        best, distance = None, _FARTHEST
        for candidate in self.float_network.values:
            if isinstance(candidate, Sum) and (
                (error := probe.distance(candidate)) < distance
            ):
                best, distance = candidate, error
        if best is None:
            _refuse_pair(value)
        return best


@dataclass(frozen=True)
class _Probe:
    """A quantized value on drawn values of its bases, to find its counterpart."""

    counterpart: Value | None
    expected: Floats
    constant: Floats
    drawn: Mapping[Value, Floats]
    """Drawn values of the counterparts of the bases."""

    @staticmethod
    def of(pairing: Pairing, value: Value) -> _Probe | None:
        """Return the probe of a value, or `None` if it is not affine in paired values."""
        affine = expand(value, pairing.counterparts)
        if affine is None or not affine.terms:
            return None
        # In the order of the terms: sets of values have no fixed order.
        floats = dict.fromkeys(pairing.counterparts[base] for base, _ in affine.terms)
        rng = np.random.default_rng(0)
        drawn = {base: rng.normal(size=(4, base.size)) for base in floats}
        probes = {base: drawn[pairing.counterparts[base]] for base in affine.bases}
        counterpart = pairing.counterparts.get(value)
        return _Probe(counterpart, affine.apply(probes), affine.constant, drawn)

    def distance(self, candidate: Value) -> float:
        """Return the relative distance of a float value on the same draws."""
        if candidate is self.counterpart:
            return 0.0
        if candidate.size != self.expected.shape[1]:
            return math.inf
        expanded = expand(candidate, self.drawn)
        if expanded is None or not expanded.terms:
            return math.inf
        found = expanded.apply(self.drawn)
        linear = found - expanded.constant, self.expected - self.constant
        # Constants, such as those of attention masks, may differ by any factor.
        distances = (
            _relative_distance(*linear),
            _relative_distance(found, self.expected),
        )
        return distances[0] + 1e-3 * min(distances[1], 1.0)


def _relative_distance(found: Floats, expected: Floats) -> float:
    error = np.linalg.norm(found - expected)
    return float(error / (np.linalg.norm(expected) + 1e-300))


def _kind(value: Value) -> tuple[type[Value], str]:
    return type(value), value.name if isinstance(value, Function) else ""


def _refuse_pair(value: Value) -> NoReturn:
    assert value.op is not None
    refuse(
        value.op,
        "cannot be paired",
        f"the float model computes nothing close to the operand of '{op_name(value.op)}'",
        "give the model that was quantized",
    )
