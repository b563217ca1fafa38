"""HTML report on a quantized model."""

import math
from collections.abc import Mapping, Sequence

from xdsl_quant.diagnostics import counted
from xdsl_quant.quantizer.labels import ACCURACY
from xdsl_quant.quantizer.report_data import (
    MAX_SHOWN,
    KernelReport,
    ModelReport,
    storage,
    worst_kernels,
)
from xdsl_quant.quantizer.signal_noise import decibels

from .figure_svg import Scale, Series, decibel_plot
from .histogram_svg import histogram_svg
from .pages import location_name, page, render

_MAX_HISTOGRAMS = 6

_LEAST_PART = 0.01
"""Minimum fraction of saturated values that a bar of full length represents."""


def quantizer_html(report: ModelReport, title: str | None) -> str:
    """
    Render a report as HTML.

    Args:
        report: report on the model.
        title: title of a self-contained page with all kernels; `None` for a notebook,
            which shows only the worst kernels of a large model.

    Raises:
        ImportError: if Jinja2 or matplotlib is not installed.
    """
    is_page = title is not None
    body = _body(report, is_page=is_page)
    return page(title, body) if is_page else body


def _body(report: ModelReport, *, is_page: bool) -> str:
    worst = worst_kernels(report.kernels)
    histograms = [
        (number, kernel)
        for number, kernel in worst
        if kernel.histogram is not None
        and kernel.result_type
        and not kernel.is_constant
    ]
    return render(
        "quantizer_report.html",
        report=report,
        is_page=is_page,
        quantized_count=sum(
            bool(kernel.result_type or kernel.weight_type) for kernel in report.kernels
        ),
        plot=_plot(report.kernels),
        scale=Scale.of(_series(report.kernels)),
        largest=_bar_limits(report.kernels),
        histograms=histograms[:_MAX_HISTOGRAMS],
        shown=worst[:MAX_SHOWN],
        others=worst[MAX_SHOWN:],
        default_metric=ACCURACY,
        decibels=decibels,
        with_unit=_with_unit,
        storage=storage,
        values_text=_values_text,
        histogram_svg=histogram_svg,
    )


def _plot(kernels: Sequence[KernelReport]) -> str:
    series = _series(kernels)
    if all(math.isnan(value) for s in series for value in s.values):
        return ""
    names = [
        f"{number} {kernel.kernel} {location_name(kernel.location)}"
        for number, kernel in enumerate(kernels, 1)
    ]
    title = f"SQNR of {counted(len(names), 'kernel')} in dB, in execution order"
    return decibel_plot(names, series, title)


def _series(kernels: Sequence[KernelReport]) -> Sequence[Series]:
    return [
        Series("accumulated", "accumulated", [k.shown_sqnrs[0] for k in kernels]),
        Series("own", "own", [k.shown_sqnrs[1] for k in kernels]),
    ]


def _bar_limits(kernels: Sequence[KernelReport]) -> Mapping[str, float]:
    """Return, for each table column, the value that a full bar stands for."""
    seconds = [
        time
        for kernel in kernels
        for time in (kernel.times.float_seconds, kernel.times.quantized_seconds)
    ]
    return {
        # A minimum keeps tiny fractions from filling a bar.
        "saturated": max(_LEAST_PART, *(k.saturated_part for k in kernels), 0.0),
        "bytes": max((k.float_bytes for k in kernels), default=0),
        "seconds": max((s for s in seconds if not math.isnan(s)), default=0.0),
    }


def _with_unit(sqnr: float) -> str:
    return f"{decibels(sqnr)} dB" if math.isfinite(sqnr) else decibels(sqnr)


def _values_text(kernel: KernelReport) -> str:
    """Return the range of a kernel's result, and the range that does not saturate."""
    assert kernel.histogram is not None
    low, high = float(kernel.histogram.lows), float(kernel.histogram.highs)
    values = f"values {low:.4g} to {high:.4g}"
    if kernel.stored_range is None:
        return values
    start, end = kernel.stored_range
    return f"{values}, stored {start:.4g} to {end:.4g}"
