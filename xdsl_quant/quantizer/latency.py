"""Times of models and of their kernels, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl_quant.diagnostics import counted


@dataclass(frozen=True)
class Times:
    """Median times of a call in seconds; NaN if there is no such form to be compiled."""

    float_seconds: float = math.nan
    quantized_seconds: float = math.nan

    @property
    def is_known(self) -> bool:
        """Whether one of them is known."""
        return not (
            math.isnan(self.float_seconds) and math.isnan(self.quantized_seconds)
        )

    def __str__(self) -> str:
        """E.g. `12.3 us -> 4.5 us`; `-` if none is known."""
        before, after = map(duration, (self.float_seconds, self.quantized_seconds))
        return f"{before} -> {after}" if self.is_known else "-"


NO_TIMES = Times()


def duration(seconds: float) -> str:
    """A time with three digits, e.g. `12.3 us`; `-` if it is not known."""
    if math.isnan(seconds):
        return "-"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


@dataclass(frozen=True)
class Latency:
    """How long the float model and the quantized one take."""

    times: Times

    sample_count: int
    """The number of samples in a call, that of the first batch."""

    reason: str = ""
    """Why there are no times, or not all of them."""

    def __str__(self) -> str:
        """E.g. `time of a call with 32 samples: 12.3 us -> 4.5 us`."""
        text = str(self.times) if self.times.is_known else "none"
        if self.reason:
            text += f", as {self.reason}"
        return f"time of a call with {counted(self.sample_count, 'sample')}: {text}"


@dataclass(frozen=True)
class ModelTimes:
    """The times of a model and of its kernels."""

    latency: Latency

    kernels: Mapping[int, Times]
    """The times of kernels by their numbers; those that cannot be run alone are missing."""
