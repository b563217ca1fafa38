"""
Counterparts: the value of the float network for each value of the quantized network.

A bound is sound for any pair of values. A counterpart only makes it tight: it is the
value that is computed from the same counterparts, and whose numbers are closest on drawn
arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from xdsl_quant.diagnostics import op_name, refuse

from .linear_maps import Floats, Path
from .networks import Argument, Clamp, Function, Network, StoredRounding, Sum, Value


@dataclass(frozen=True)
class Affine:
    """A value as a sum of linear maps of paired values, and a constant."""

    terms: Sequence[tuple[Value, Path]]
    constant: Floats

    magnitude: Floats
    """Sum of the absolute values of the constants that are added."""

    @property
    def bases(self) -> set[Value]:
        """Paired values from which the value is computed."""
        return {base for base, _ in self.terms}

    def apply(self, probes: Mapping[Value, Floats]) -> Floats:
        """Return the values for drawn values of the bases."""
        return self.constant + sum(
            path.apply(probes[base]) for base, path in self.terms
        )


def expand(value: Value, bases: set[Value] | Mapping[Value, object]) -> Affine | None:
    """Return a value in terms of `bases`; `None` if it is not affine in them."""
    if value in bases:
        zeros = np.zeros(value.size)
        return Affine([(value, Path())], zeros, zeros)
    if not isinstance(value, Sum):
        return None
    terms: list[tuple[Value, Path]] = []
    constant, magnitude = value.constant, np.abs(value.constant)
    for operand, path in value.terms:
        inner = expand(operand, bases)
        if inner is None:
            return None
        terms += [(base, first.then(path)) for base, first in inner.terms]
        constant = constant + path.apply(inner.constant)
        magnitude = magnitude + path.magnitude.apply(inner.magnitude)
    return Affine(terms, constant, magnitude)


_FARTHEST = 0.5
"""Largest relative distance of counterparts on drawn arguments."""


@dataclass
class Pairing:
    """Counterparts of values of a quantized network."""

    quantized: Network
    float_network: Network

    counterparts: dict[Value, Value] = field(default_factory=dict[Value, Value])
    """Float values by quantized value."""

    operands: dict[Value, Value] = field(default_factory=dict[Value, Value])
    """Float counterparts of the operands of values that are not affine."""

    @staticmethod
    def of(quantized: Network, float_network: Network) -> Pairing:
        """
        ValuePair the values of two networks.

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
        (operand,) = value.operands
        partner = self.operands[value] = self._partner(value, operand)
        kind = type(value)
        if isinstance(value, StoredRounding):
            # A clamp of the quantized network may be the saturation of its rounding.
            is_last = not any(isinstance(user, Clamp) for user in users[value])
            kind = Clamp if is_last else StoredRounding
        found = [
            user
            for user in float_users.get(partner, ())
            if isinstance(user, kind)
            and (not isinstance(value, Function) or _function_name(user) == value.name)
        ]
        only_user = len(float_users.get(partner, ())) == 1
        if found and (kind is not Clamp or only_user or isinstance(value, Clamp)):
            self.counterparts[value] = found[0]
        elif isinstance(value, StoredRounding | Clamp):
            self.counterparts[value] = partner
        else:
            _refuse_pair(value)

    def _partner(self, value: Value, operand: Value) -> Value:
        """Return the float value that is closest to the operand of a value."""
        if operand in self.counterparts:
            return self.counterparts[operand]
        affine = expand(operand, self.counterparts)
        if affine is None or not affine.terms:
            _refuse_pair(value)
        floats = {self.counterparts[base] for base in affine.bases}
        rng = np.random.default_rng(0)
        drawn = {base: rng.normal(size=(4, base.size)) for base in floats}
        probes = {base: drawn[self.counterparts[base]] for base in affine.bases}
        expected = affine.apply(probes)
        best, distance = None, _FARTHEST
        for candidate in self.float_network.values:
            if candidate.size != operand.size or not isinstance(candidate, Sum):
                continue
            expanded = expand(candidate, floats)
            if expanded is None or not expanded.terms:
                continue
            error = np.linalg.norm(expanded.apply(drawn) - expected)
            error /= np.linalg.norm(expected) + 1e-300
            if error < distance:
                best, distance = candidate, float(error)
        if best is None:
            _refuse_pair(value)
        return best


def _function_name(value: Value) -> str:
    return value.name if isinstance(value, Function) else ""


def _refuse_pair(value: Value) -> NoReturn:
    assert value.op is not None
    refuse(
        value.op,
        "cannot be paired",
        f"the float model computes nothing close to the operand of '{op_name(value.op)}'",
        "give the model that was quantized",
    )
