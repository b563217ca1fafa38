"""The difference between recorded values of a float model and those of a quantized one."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.floating]"

Values: TypeAlias = "Mapping[str, Floats]"
"""Recorded values by their keys."""

OUTPUT = "output:"
"""What results of the model are called, with a number after it."""


@dataclass
class Error:
    """The difference between the values of a float model and those of a quantized one."""

    signal: float = 0.0
    """The sum of the squares of the values of the float model."""

    noise: float = 0.0
    """The sum of the squares of the differences."""

    count: int = 0
    """The number of values."""

    saturated: int = 0
    """How many values of the float model are outside of what can be stored."""

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise ratio in dB: infinite if there is no difference."""
        if not self.noise:
            return math.inf
        ratio = self.signal / self.noise
        return 10 * math.log10(ratio) if ratio else -math.inf

    @property
    def saturated_part(self) -> float:
        """The part of the values that is outside of what can be stored, from 0 to 1."""
        return self.saturated / self.count if self.count else 0.0

    def add(
        self,
        expected: Floats,
        actual: Floats,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        """
        Add values of the float model, those instead of them, and their storage range.
        Infinities that both have are left out.
        """
        differs = np.isfinite(expected) | (expected != actual)
        values = expected[differs].astype(np.float64)
        self.signal += float(np.square(values).sum())
        self.noise += float(np.square(values - actual[differs]).sum())
        self.count += values.size
        if bounds is not None:
            low, high = bounds
            self.saturated += int(np.count_nonzero((values < low) | (values > high)))


def relative_noise(errors: Mapping[str, Error]) -> float:
    """
    Return the mean over results of the model of noise by signal, infinite if that is no
    number.
    """
    ratios = [
        e.noise / e.signal if e.signal else (math.inf if e.noise else 0.0)
        for e in errors.values()
    ]
    mean = sum(ratios) / len(ratios) if ratios else 0.0
    return math.inf if math.isnan(mean) else mean


def json_text(content: object) -> str:
    """Content as JSON, in which a number that is not finite is `null`."""
    text = json.dumps(content)
    return json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2) + "\n"


def decibels(sqnr: float) -> str:
    """Return a signal to quantization noise ratio in a table."""
    if math.isnan(sqnr):
        return "-"
    return "exact" if sqnr == math.inf else f"{sqnr:.1f}"
