"""Reasons why two runtimes compute different stored values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.dialects.quant.types import (
    StoredQuantizedType,
    UniformType,
    scalar_or_element_type,
)
from xdsl_quant.numerics import QuantizationParameters

from .executions import (
    COMPILED,
    DEFINITIONS,
    ERRORS,
    Execution,
    Runs,
    by_definition,
    floats_before_rounding,
)
from .runtimes import Unavailable
from .steps import ModelStep

_Stored = NDArray[np.int64]

_ROUNDINGS: Mapping[str, Execution] = {
    "order of the zero point": by_definition("before-rounding", "nearest-even"),
    "rounding mode": by_definition("after-rounding", "nearest-away"),
    "rounding mode and order of the zero point": by_definition(
        "before-rounding", "nearest-away"
    ),
}
"""Executions that differ from ONNX's definition, by the difference."""

_ARITHMETIC: Mapping[str, str] = {
    "f32 multiplier": f"{COMPILED} kernels=onnxruntime",
    "fixed-point multiplier": f"{COMPILED} kernels=multiplier",
    "integer kernel": COMPILED,
    "float ops": f"{COMPILED} fallback=only",
}
"""Other arithmetic, by the reason; values are names of executions."""

_TIE = 2**-7
"""
Distance from the middle between two integers, in units of the stored value, of sums that
are rounded up or down depending on the order of operations.
"""


@dataclass(frozen=True)
class Explanation:
    """Executions of a step with variations of the arithmetic."""

    step: ModelStep
    runs: Runs
    executions: Mapping[str, Execution]

    runtime: str
    """Name of the runtime that is compared with the reference."""

    against: str
    """Name of the reference."""

    def reason(
        self, found: _Stored, expected: _Stored, different: NDArray[np.int64]
    ) -> str:
        """
        Return the variation that has all results of the runtime where it differs from the
        reference, or else the one with most of them. If only the reference has arithmetic
        of its own, return the variation that has its results.

        Args:
            found: results of the runtime.
            expected: results of the reference.
            different: indices of the results that differ.
        """
        found, expected = found[different], expected[different]
        if self._is_saturated(found, expected):
            return "saturation"
        is_reference = self.runtime in DEFINITIONS and self.against not in DEFINITIONS
        target = expected if is_reference else found
        counts: dict[str, int] = {}
        for name, results in self._variations(
            self.against if is_reference else self.runtime
        ):
            counts[name] = int((results[different] == target).sum())
            if counts[name] == different.size:
                return name
        if self._are_next_to_ties(different):
            return "values next to a tie"
        best = max(counts, key=lambda name: counts[name], default="")
        if not counts.get(best):
            return "other"
        return f"{best} ({counts[best]:,} of {different.size:,})"

    def _variations(self, runtime: str) -> Iterator[tuple[str, _Stored]]:
        """Yield the results of variations; that of the runtime comes first."""
        known = self.executions
        named = {
            **_ROUNDINGS,
            **{
                text: known[name] for text, name in _ARITHMETIC.items() if name in known
            },
        }
        own = known.get(runtime)
        names = sorted(named, key=lambda name: named[name] is not own)
        for name, execution in ((name, named[name]) for name in names):
            try:
                results = execution(self.step)(self.runs)
            except (Unavailable, *ERRORS):
                continue
            yield name, np.concatenate([r.ravel().astype(np.int64) for r in results])

    def _is_saturated(self, found: _Stored, expected: _Stored) -> bool:
        """Return True if results that differ by more than 1 are at a storage bound."""
        type_ = scalar_or_element_type(self.step.value.type)
        if not isinstance(type_, StoredQuantizedType):
            return False
        bounds = type_.storage_range
        at_bound = np.isin(found, bounds) | np.isin(expected, bounds)
        return bool((at_bound & (np.abs(found - expected) > 1)).all())

    def _are_next_to_ties(self, different: NDArray[np.int64]) -> bool:
        type_ = scalar_or_element_type(self.step.value.type)
        if not isinstance(type_, UniformType) or not type_.is_per_tensor:
            return False
        try:
            floats = floats_before_rounding(self.step)(self.runs)
        except (Unavailable, *ERRORS):
            return False
        parameters = QuantizationParameters.from_integer_type(type_)
        values = np.concatenate([np.ravel(each) for each in floats])[different]
        quotients = values.astype(np.float64) / parameters.scales
        return bool((np.abs(quotients % 1 - 0.5) < _TIE).all())
