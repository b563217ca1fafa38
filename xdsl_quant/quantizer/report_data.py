"""What a report on a quantized model says."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl_quant.numerics.histogram import Histogram

from .labels import Accuracy
from .latency import NO_TIMES, Latency, Times
from .search_result import BitSearchResult

MAX_SHOWN = 50
"""Most kernels that a table shows."""


@dataclass(frozen=True)
class KernelReport:
    """What quantization did to a kernel."""

    kernel: str
    """The name of the kernel."""

    location: str
    """Where it is in the model; empty if that is not known."""

    result_type: str
    """The quantized type of its result; empty if the kernel stays in floating point."""

    weight_type: str
    """The quantized type of its weights; empty if it has none."""

    sqnr: float
    """
    Signal to quantization noise ratio of the result in dB, in the quantized model; NaN if
    no sample reaches the kernel.
    """

    own_sqnr: float
    """The same if no other kernel is quantized."""

    weight_sqnr: float
    """That of the weights; NaN if it has none."""

    saturated_part: float
    """The part of the values of the float model that is outside of what is stored."""

    float_bytes: int
    """
    The size of constants in floating point. What several kernels take counts for the first
    of them.
    """

    stored_bytes: int
    """The size of what is stored instead, without scales."""

    stored_range: tuple[float, float] | None = None
    """From where to where results can be stored; `None` in floating point."""

    is_constant: bool = False
    """
    Whether its result is the same for all samples. It need not be an error that it differs
    from that of the float model: correction changes biases.
    """

    times: Times = NO_TIMES
    """How long the kernel takes alone, if that was measured."""

    histogram: Histogram | None = field(default=None, repr=False, compare=False)
    """The values of the result in the float model; `None` if they are not known."""

    @property
    def shown_sqnrs(self) -> tuple[float, float]:
        """`sqnr` and `own_sqnr` as tables have them: NaN for constants."""
        return _NO_SQNRS if self.is_constant else (self.sqnr, self.own_sqnr)


_NO_SQNRS = math.nan, math.nan


@dataclass(frozen=True)
class ReportData:
    """What is known of a quantized model."""

    kernels: Sequence[KernelReport]
    """The kernels in the order of the text."""

    outputs: Mapping[str, float]
    """The signal to quantization noise ratio of each result of the model in dB."""

    accuracy: Accuracy | None = None
    """That of the float and of the quantized model, if there are labels."""

    latency: Latency | None = None
    """How long the float and the quantized model take, if that was measured."""

    recipe: str = ""
    """The name of the recipe."""

    target: str = ""
    """The name of the hardware target; empty if only weights are quantized."""

    search: BitSearchResult | None = field(default=None, repr=False, compare=False)
    """What a search for bits has found, which the page shows."""

    @property
    def float_bytes(self) -> int:
        """The size of constants in floating point."""
        return sum(kernel.float_bytes for kernel in self.kernels)

    @property
    def stored_bytes(self) -> int:
        """The size of what is stored instead, without scales."""
        return sum(kernel.stored_bytes for kernel in self.kernels)

    @property
    def has_times(self) -> bool:
        """Whether the time of a kernel is known."""
        return any(kernel.times.is_known for kernel in self.kernels)


def worst_kernels(kernels: Sequence[KernelReport]) -> list[tuple[int, KernelReport]]:
    """The kernels with their numbers from 1, those that lose most first."""

    def badness(numbered: tuple[int, KernelReport]) -> tuple[bool, float]:
        _, own = numbered[1].shown_sqnrs
        return math.isnan(own), own

    return sorted(enumerate(kernels, 1), key=badness)


def storage(quantized_type: str) -> str:
    """A quantized type without its parameters, e.g. `i8`."""
    found = re.match(r"!quant\.uniform<(\w+(<[^>]*>)?)", quantized_type)
    return found[1] if found else ""
