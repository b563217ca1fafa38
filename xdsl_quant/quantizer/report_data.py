"""The report on a quantized model: its data, as text, JSON and HTML."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from xdsl_quant.diagnostics import counted, table
from xdsl_quant.numerics.histogram import Histogram
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.runtime.extras import display_function, notebook_html

from .labels import Accuracy
from .search_result import BitSearchResult
from .signal_noise import decibels, json_text


@dataclass(frozen=True)
class Times:
    """Median times of a call in seconds; NaN if there is no such form to be compiled."""

    float_seconds: float = math.nan
    quantized_seconds: float = math.nan

    @property
    def is_known(self) -> bool:
        """True if one of them is known."""
        return not (
            math.isnan(self.float_seconds) and math.isnan(self.quantized_seconds)
        )

    def __str__(self) -> str:
        """E.g. `12.3 us -> 4.5 us`; `-` if none is known."""
        before, after = map(duration, (self.float_seconds, self.quantized_seconds))
        return f"{before} -> {after}" if self.is_known else "-"


NO_TIMES = Times()


def duration(seconds: float) -> str:
    """Return a time with three digits, e.g. `12.3 us`; `-` if it is not known."""
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
    True if its result is the same for all samples. It need not be an error that it
    differs from that of the float model: correction changes biases.
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

_HTML = "quantizer_report.quantizer_html"
"""The function of `display` that draws a report."""


@dataclass(frozen=True)
class ModelReport:
    """What quantization did to a model, as data, text, JSON and HTML."""

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
        """True if the time of a kernel is known."""
        return any(kernel.times.is_known for kernel in self.kernels)

    def json(self) -> str:
        """
        Return the report as JSON: objects whose keys are the fields of these classes. A
        ratio without noise, and one of what there is not, is `null`.
        """
        content = asdict(replace(self, search=None))
        content["search"] = None if self.search is None else self.search.content()
        for kernel in content["kernels"]:
            del kernel["histogram"]
        return json_text(content)

    def page(self, title: str = "Quantized model") -> str:
        """
        Return the text of an HTML page with all kernels, which needs nothing else.

        Raises:
            ImportError: if Jinja2 or matplotlib is not installed.
        """
        return display_function("a page", _HTML)(self, title)

    def save_html(
        self, path: str | os.PathLike[str], title: str = "Quantized model"
    ) -> None:
        """
        Write the page to a file.

        Raises:
            ImportError: if Jinja2 or matplotlib is not installed.
            OSError: if the file cannot be written; it is as it was before.
        """
        write_text_atomically(path, self.page(title))

    def _repr_html_(self) -> str | None:
        return notebook_html(lambda: display_function("a page", _HTML)(self, None))

    def with_times(self, times: ModelTimes) -> ModelReport:
        """Return the same with times of the model and of its kernels."""
        kernels = [
            replace(kernel, times=times.kernels.get(number, kernel.times))
            for number, kernel in enumerate(self.kernels)
        ]
        return replace(self, kernels=kernels, latency=times.latency)

    def __str__(self) -> str:
        """
        Return the report as a table, of a large model with the kernels that lose most.
        """
        worst = worst_kernels(self.kernels)
        shown = [each for _, each in sorted(worst[:MAX_SHOWN])]
        rows = [_COLUMNS, *map(_kernel_row, shown)]
        if self.has_times:
            times = "time", *(str(each.times) for each in shown)
            rows = [(*row, time) for row, time in zip(rows, times, strict=True)]
        lines = [*table(rows)]
        if others := len(worst) - len(shown):
            lines.append(
                f"... and {counted(others, 'more kernel')} that lose less, which --report "
                "writes to a file"
            )
        outputs = ", ".join(
            f"{name} {decibels(sqnr)} dB" for name, sqnr in self.outputs.items()
        )
        lines += ["", f"SQNR of the results: {outputs}"]
        lines += [str(x) for x in (self.accuracy, self.latency) if x is not None]
        ratio = ""
        if self.stored_bytes:
            ratio = f", {self.float_bytes / self.stored_bytes:.2f} times less"
        sizes = f"{self.float_bytes} -> {self.stored_bytes}"
        return "\n".join([*lines, f"constants: {sizes} bytes{ratio}"])


ReportData = ModelReport
"""The former name of the base class of `ModelReport`, which the API reference printed."""


def worst_kernels(kernels: Sequence[KernelReport]) -> list[tuple[int, KernelReport]]:
    """Return the kernels with their numbers from 1, those that lose most first."""

    def badness(numbered: tuple[int, KernelReport]) -> tuple[bool, float]:
        _, own = numbered[1].shown_sqnrs
        return math.isnan(own), own

    return sorted(enumerate(kernels, 1), key=badness)


def storage(quantized_type: str) -> str:
    """Return a quantized type without its parameters, e.g. `i8`."""
    found = re.match(r"!quant\.uniform<(\w+(<[^>]*>)?)", quantized_type)
    return found[1] if found else ""


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
