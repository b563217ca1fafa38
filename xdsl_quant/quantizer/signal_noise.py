"""Differences between recorded values of a float model and of a quantized model."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.floating]"

Values: TypeAlias = "Mapping[str, Floats]"
"""Recorded values by key."""

OUTPUT = "output:"
"""Substring of the keys of model results; the result number follows it."""


@dataclass
class Error:
    """Difference between values of a float model and of a quantized model."""

    signal: float = 0.0
    """Sum of the squares of the float values."""

    noise: float = 0.0
    """Sum of the squares of the differences."""

    count: int = 0

    saturated: int = 0
    """Number of float values out of the storage range."""

    @property
    def sqnr(self) -> float:
        """Signal-to-quantization-noise ratio in dB; infinite without noise."""
        if not self.noise:
            return math.inf
        ratio = self.signal / self.noise
        return 10 * math.log10(ratio) if ratio else -math.inf

    @property
    def saturated_part(self) -> float:
        """Fraction of the float values out of the storage range, from 0 to 1."""
        return self.saturated / self.count if self.count else 0.0

    def add(
        self,
        expected: Floats,
        actual: Floats,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        """
        Add the differences between float and quantized values, and count float values
        out of bounds. Equal infinities are ignored.
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
    Return the noise divided by the signal, averaged over results of the model; infinite
    if the average is NaN.
    """
    ratios = [
        e.noise / e.signal if e.signal else (math.inf if e.noise else 0.0)
        for e in errors.values()
    ]
    mean = sum(ratios) / len(ratios) if ratios else 0.0
    return math.inf if math.isnan(mean) else mean


def json_text(content: object) -> str:
    """Return JSON text in which non-finite numbers are `null`."""
    text = json.dumps(content)
    return json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2) + "\n"


def decibels(sqnr: float) -> str:
    """Format a signal-to-quantization-noise ratio for a table."""
    if math.isnan(sqnr):
        return "-"
    return "exact" if sqnr == math.inf else f"{sqnr:.1f}"
