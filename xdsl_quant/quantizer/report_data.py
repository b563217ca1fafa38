"""Report on a quantized model, as data, text, JSON and HTML."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from xdsl_quant.diagnostics import counted, table
from xdsl_quant.numerics.histogram import Histogram
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.runtime.extras import notebook_html, slice_function

from .labels import Accuracy
from .search_result import BitSearchResult
from .signal_noise import decibels, json_text


@dataclass(frozen=True)
class Times:
    """Median times of a call in seconds; NaN if the code cannot be compiled."""

    float_seconds: float = math.nan
    quantized_seconds: float = math.nan

    @property
    def is_known(self) -> bool:
        """True if at least one of the times is known."""
        return not (
            math.isnan(self.float_seconds) and math.isnan(self.quantized_seconds)
        )

    def __str__(self) -> str:
        """Return, e.g., `12.3 us -> 4.5 us`; `-` if neither time is known."""
        before, after = map(duration, (self.float_seconds, self.quantized_seconds))
        return f"{before} -> {after}" if self.is_known else "-"


NO_TIMES = Times()


def duration(seconds: float) -> str:
    """Format a time with three digits, e.g. `12.3 us`; `-` if it is NaN."""
    if math.isnan(seconds):
        return "-"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


@dataclass(frozen=True)
class Latency:
    """Times of the float model and of the quantized model."""

    times: Times

    sample_count: int
    """Number of samples in a call: the size of the first batch."""

    reason: str = ""
    """Reason for missing times; empty if all are known."""

    def __str__(self) -> str:
        """Return, e.g., `time of a call with 32 samples: 12.3 us -> 4.5 us`."""
        text = str(self.times) if self.times.is_known else "none"
        if self.reason:
            text += f", as {self.reason}"
        return f"time of a call with {counted(self.sample_count, 'sample')}: {text}"


@dataclass(frozen=True)
class ModelTimes:
    """Times of a model and of its kernels."""

    latency: Latency

    kernels: Mapping[int, Times]
    """Times by number of the kernel, without kernels that cannot run alone."""


MAX_SHOWN = 50
"""Maximum number of kernels in a table."""


@dataclass(frozen=True)
class KernelReport:
    """Quantization error and size of a kernel."""

    kernel: str
    location: str
    """Location in the model; empty if unknown."""

    result_type: str
    """Quantized type of the result; empty if the kernel stays in floating point."""

    weight_type: str
    """Quantized type of the weights; empty without weights."""

    sqnr: float
    """
    Signal-to-quantization-noise ratio of the result in the quantized model, in dB; NaN
    if no sample reaches the kernel.
    """

    own_sqnr: float
    """SQNR of the result in dB if no other kernel is quantized."""

    weight_sqnr: float
    """SQNR of the weights in dB; NaN without weights."""

    saturated_part: float
    """Fraction of the float model's values that are out of the storage range."""

    float_bytes: int
    """Size of the constants as floats. Shared constants count for the first kernel."""

    stored_bytes: int
    """Size of stored constants, without scales."""

    stored_range: tuple[float, float] | None = None
    """Representable range of the result; `None` in floating point."""

    is_constant: bool = False
    """
    True if all operands are constant. The result may then differ from the float model
    on purpose: bias correction changes it.
    """

    times: Times = NO_TIMES
    """Times of the kernel alone, if measured."""

    histogram: Histogram | None = field(default=None, repr=False, compare=False)
    """Histogram of the result in the float model; `None` if unknown."""

    @property
    def shown_sqnrs(self) -> tuple[float, float]:
        """`sqnr` and `own_sqnr` for tables: NaN for constants."""
        return _NO_SQNRS if self.is_constant else (self.sqnr, self.own_sqnr)


_NO_SQNRS = math.nan, math.nan

_HTML = "display.quantizer_report.quantizer_html"
"""Function of `display` that builds the page."""


@dataclass(frozen=True)
class ModelReport:
    """Quantization error and size of a model, as data, text, JSON and HTML."""

    kernels: Sequence[KernelReport]

    outputs: Mapping[str, float]
    """SQNR of each result of the model in dB."""

    accuracy: Accuracy | None = None
    """Accuracy of the float model and of the quantized model, if there are labels."""

    latency: Latency | None = None
    """Times of the float model and of the quantized model, if measured."""

    recipe: str = ""
    target: str = ""
    """Name of the target; empty if only weights are quantized."""

    search: BitSearchResult | None = field(default=None, repr=False, compare=False)
    """Result of the search for storage widths; shown on the HTML page."""

    @property
    def float_bytes(self) -> int:
        """Size of constants in floating point."""
        return sum(kernel.float_bytes for kernel in self.kernels)

    @property
    def stored_bytes(self) -> int:
        """Size of the stored constants, without scales."""
        return sum(kernel.stored_bytes for kernel in self.kernels)

    @property
    def has_times(self) -> bool:
        """True if the time of at least one kernel is known."""
        return any(kernel.times.is_known for kernel in self.kernels)

    def json(self) -> str:
        """
        Return the report as JSON, with the fields of `ModelReport` and `KernelReport`
        as keys. Infinite and unknown ratios are `null`.
        """
        content = asdict(replace(self, search=None))
        content["search"] = None if self.search is None else self.search.content()
        for kernel in content["kernels"]:
            del kernel["histogram"]
        return json_text(content)

    def page(self, title: str = "Quantized model") -> str:
        """
        Return a self-contained HTML page with all kernels.

        Raises:
            ImportError: if Jinja2 or matplotlib is not installed.
        """
        return slice_function("a page", _HTML)(self, title)

    def save_html(
        self, path: str | os.PathLike[str], title: str = "Quantized model"
    ) -> None:
        """
        Write the page to a file.

        Raises:
            ImportError: if Jinja2 or matplotlib is not installed.
            OSError: if the file cannot be written; an existing file does not change.
        """
        write_text_atomically(path, self.page(title))

    def _repr_html_(self) -> str | None:
        return notebook_html(lambda: slice_function("a page", _HTML)(self, None))

    def with_times(self, times: ModelTimes) -> ModelReport:
        """Return a copy with times of the model and of its kernels."""
        kernels = [
            replace(kernel, times=times.kernels.get(number, kernel.times))
            for number, kernel in enumerate(self.kernels)
        ]
        return replace(self, kernels=kernels, latency=times.latency)

    def __str__(self) -> str:
        """Return a table of the `MAX_SHOWN` kernels with the largest errors."""
        worst = worst_kernels(self.kernels)
        shown = [each for _, each in sorted(worst[:MAX_SHOWN])]
        rows = [_COLUMNS, *map(_kernel_row, shown)]
        if self.has_times:
            times = "time", *(str(each.times) for each in shown)
            rows = [(*row, time) for row, time in zip(rows, times, strict=True)]
        lines = [*table(rows)]
        if others := len(worst) - len(shown):
            lines.append(
                f"... and {counted(others, 'more kernel')} with smaller errors; --report "
                "writes all of them to a file"
            )
        outputs = ", ".join(
            f"{name} {decibels(sqnr)}" + (" dB" if sqnr < math.inf else "")
            for name, sqnr in self.outputs.items()
        )
        lines += ["", f"SQNR of the results: {outputs}"]
        lines += [str(x) for x in (self.accuracy, self.latency) if x is not None]
        ratio = ""
        if self.stored_bytes:
            ratio = f", {self.float_bytes / self.stored_bytes:.2f} times less"
        sizes = f"{self.float_bytes} -> {self.stored_bytes}"
        return "\n".join([*lines, f"constants: {sizes} bytes{ratio}"])


ReportData = ModelReport
"""Former name of a base class of `ModelReport`, kept for compatibility."""


def worst_kernels(kernels: Sequence[KernelReport]) -> list[tuple[int, KernelReport]]:
    """Return the kernels with their numbers from 1, in order of increasing own SQNR."""

    def badness(numbered: tuple[int, KernelReport]) -> tuple[bool, float]:
        _, own = numbered[1].shown_sqnrs
        return math.isnan(own), own

    return sorted(enumerate(kernels, 1), key=badness)


def storage(quantized_type: str) -> str:
    """Return the storage type of a quantized type, e.g. `i8`."""
    match = re.match(
        r"!quant\.(?:uniform|block_scaled)<(\w+(<[^>]*>)?)", quantized_type
    )
    return match[1] if match else ""


_COLUMNS = "kernel where result weights SQNR own weights saturated bytes".split()


def _kernel_row(kernel: KernelReport) -> Sequence[str]:
    sizes = f"{kernel.float_bytes} -> {kernel.stored_bytes}"
    return (
        kernel.kernel,
        kernel.location,
        storage(kernel.result_type) or "float",
        storage(kernel.weight_type) or "-",
        *map(decibels, (*kernel.shown_sqnrs, kernel.weight_sqnr)),
        f"{kernel.saturated_part:.2%}",
        sizes if kernel.float_bytes else "-",
    )
