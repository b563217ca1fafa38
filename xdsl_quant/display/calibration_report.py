"""Calibration reports: range, histogram, type and error by key of `quant.stats_ref`."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.calibration import Statistics
from xdsl_quant.diagnostics import counted, table
from xdsl_quant.dialects.quant import UniformQuantizedPerAxisType
from xdsl_quant.dialects.quant.constructor_arguments import bool_argument, int_argument
from xdsl_quant.dialects.quant.type_html import type_html
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.histogram import MIDDLE, Histogram
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.runtime.extras import notebook_html
from xdsl_quant.runtime.loading import Model
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)

from .evaluation import Evaluation, evaluate
from .histogram_svg import histogram_svg
from .pages import page, percent, render

Range = tuple[float, float]
"""Minimum and maximum."""

_MAX_SHOWN = 50
"""Maximum number of keys that a notebook shows."""

_MAX_CHANNELS = 5
"""Maximum number of channels shown per key."""

_UNKNOWN = "Histograms and errors are missing: calibrate with"


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationReport:
    """Table of keys, sorted by `evaluate`. Notebooks show HTML; `str` is a text table."""

    evaluations: Sequence[Evaluation]
    """Evaluation of each key, in the order of `evaluate`."""

    statistics: Statistics

    conversion: QuantCalibratedToUniformPass
    """Pass that chose the types."""

    def __repr__(self) -> str:
        rows = [("key", "SQNR in dB", "saturated", "range", "type")]
        rows += [
            (
                evaluation.key,
                _rough_mark(evaluation.histogram) + _decibels(evaluation.sqnr),
                _saturated(evaluation),
                _range_text(evaluation.ranges.layer),
                _type_text(evaluation),
            )
            for evaluation in self.evaluations
        ]
        lines = [*table(rows)]
        if self._has_unknown_errors():
            lines.append(f"{_UNKNOWN} histograms=True.")
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        return notebook_html(lambda: self._html(_MAX_SHOWN))

    def page(self, title: str = "Calibration") -> str:
        """
        Return a self-contained HTML page with all keys.

        Raises:
            ImportError: if Jinja2 is not installed.
        """
        return page(title, self._html(len(self.evaluations)))

    def save(self, path: str | os.PathLike[str], title: str = "Calibration") -> None:
        """
        Write the page to a file.

        Raises:
            ImportError: if Jinja2 is not installed.
            OSError: if the file cannot be written; an old file is unchanged.
        """
        write_text_atomically(path, self.page(title))

    def _has_unknown_errors(self) -> bool:
        return any(evaluation.histogram is None for evaluation in self.evaluations)

    def _html(self, shown: int) -> str:
        return render(
            "calibration_report.html",
            evaluations=self.evaluations,
            shown=shown,
            statistics=self.statistics,
            types=str(self.conversion.spec()),
            unknown=_UNKNOWN if self._has_unknown_errors() else "",
            key_row=_key_row,
            channel_rows=_channel_rows,
            type_text=_type_text,
            type_summary=_type_summary,
            type_html=type_html,
        )


def calibration_page(
    title: str,
    statistics: Statistics,
    conversion: QuantCalibratedToUniformPass,
    module: ModuleOp,
) -> str:
    """Return the HTML page of a calibration, with types chosen by a pass."""
    evaluations = evaluate(statistics, conversion, module)
    return CalibrationReport(evaluations, statistics, conversion).page(title)


def calibration_report(
    statistics: Statistics,
    module: Model | None = None,
    *,
    bits: int = 8,
    signed: bool = True,
    symmetric: bool = False,
    narrow_range: bool = False,
    per_axis: Literal["auto", "never"] = "auto",
) -> CalibrationReport:
    """
    Report the calibration of each key and the effect of quantization: range, histogram,
    type, saturated fraction and SQNR, worst first.

    Types are those of the pass `quant-calibrated-to-uniform` with the same options. Errors
    are estimated from histograms. The observers `min-max` and `moving-average` collect them
    only if [`calibrate`][xdsl_quant.calibration.calibrate] gets `histograms=True`.

    Args:
        statistics: calibration statistics.
        module: calibrated module or its text, for expressed types and the common types
            of `quant.coupled_ref`; by default f32 and an independent type for each key.
        bits: bit width of stored values.
        signed: True for signed storage.
        symmetric: True to fix the zero point at the middle of the storage range.
        narrow_range: True to exclude the smallest stored value.
        per_axis: `auto` for per-axis types of keys with ranges per channel, or `never`.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if the module lacks a key, or no key gets a type.
    """
    if not isinstance(cast(object, statistics), Statistics):
        name = type(statistics).__name__
        problem = f"statistics must be Statistics, not {name}"
        raise TypeError(f"{problem}; to use a file, call Statistics.load")
    conversion = _conversion_pass(bits, signed, symmetric, narrow_range, per_axis)
    evaluations = evaluate(statistics, conversion, module)
    return CalibrationReport(evaluations, statistics, conversion)


def _conversion_pass(
    bits: int,
    signed: bool,
    symmetric: bool,
    narrow_range: bool,
    per_axis: Literal["auto", "never"],
) -> QuantCalibratedToUniformPass:
    if per_axis not in ("auto", "never"):
        raise ValueError(f"per_axis must be 'auto' or 'never', not {per_axis!r}")
    return QuantCalibratedToUniformPass(
        int_argument(bits, "bits").data,
        bool_argument(signed, "signed"),
        bool_argument(symmetric, "symmetric"),
        bool_argument(narrow_range, "narrow_range"),
        per_axis,
    )


# Rows


@dataclass(frozen=True)
class _Row:
    """Cells of the table row for a key or channel."""

    name: str
    sqnr: str
    saturated: str
    bounds: Range
    histogram: Histogram | None
    stored: Range | None
    """Range of values that do not saturate; `None` if it differs between channels."""

    scale: str = ""
    zero_point: int = 0

    @property
    def range(self) -> str:
        return _range_text(self.bounds)

    @property
    def rough_mark(self) -> str:
        return _rough_mark(self.histogram)

    @property
    def values(self) -> str:
        """Range of the values as text; empty if it equals the observer's range."""
        if self.histogram is None or _value_range(self.histogram) == self.bounds:
            return ""
        return _range_text(_value_range(self.histogram))

    @property
    def picture(self) -> str:
        if self.histogram is None:
            return ""
        whole = self.histogram.of_tensor
        count, zeros = int(whole.counts.sum()), int(whole.zeros)
        title = f"{counted(count, 'value')} from {_range_text(_value_range(whole))}, "
        title += f"{zeros / count:.0%} are 0"
        if self.stored is not None:
            title += f"; saturated unless {_range_text(self.stored)}"
        return histogram_svg(whole, self.stored, title)


def _value_range(histogram: Histogram) -> Range:
    whole = histogram.of_tensor
    return float(whole.lows), float(whole.highs)


def _key_row(evaluation: Evaluation) -> _Row:
    parameters, stored = evaluation.parameters, None
    # With a scale for each channel, there is no common range without saturation.
    if parameters is not None and not parameters.scales.ndim:
        stored = _stored_range(parameters, 0)
    return _Row(
        evaluation.key,
        _decibels(evaluation.sqnr, " dB"),
        _saturated(evaluation),
        evaluation.ranges.layer,
        evaluation.histogram,
        stored,
    )


def _channel_rows(evaluation: Evaluation) -> list[_Row]:
    """Return the rows of the worst channels; empty if errors are unknown."""
    error, ranges = evaluation.error, evaluation.ranges.axis_ranges
    histogram, parameters = evaluation.histogram, evaluation.parameters
    if ranges is None or error is None or histogram is None or parameters is None:
        return []
    order: list[int] = np.argsort(error.channel_sqnr, kind="stable").tolist()
    rows: list[_Row] = []
    for channel in order[:_MAX_CHANNELS]:
        index = channel if parameters.scales.ndim else 0
        scale, zero_point = _channel(parameters, index)
        rows.append(
            _Row(
                str(channel),
                _decibels(float(error.channel_sqnr[channel]), " dB"),
                percent(float(error.channel_saturated_fraction[channel])),
                ranges[channel],
                histogram.of_channel(channel),
                _stored_range(parameters, index),
                _four_digits(scale),
                zero_point,
            )
        )
    return rows


def _four_digits(value: float) -> str:
    return f"{value:.4g}"


def _range_text(bounds: Range) -> str:
    low, high = bounds
    return f"{_four_digits(low)} to {_four_digits(high)}"


def _decibels(sqnr: float, unit: str = "") -> str:
    if math.isnan(sqnr):
        return "-"
    return "no error" if sqnr == math.inf else f"{sqnr:.1f}{unit}"


def _saturated(evaluation: Evaluation) -> str:
    error = evaluation.error
    return "-" if error is None else percent(error.saturated_fraction)


def _rough_mark(histogram: Histogram | None) -> str:
    """Return a mark if the estimate is rough: most nonzero values are in one bin."""
    if histogram is None:
        return ""
    zeros = histogram.zeros.sum()
    middle = histogram.counts[..., MIDDLE].sum() - zeros
    return "≈ " if 2 * middle > histogram.counts.sum() - zeros else ""


def _channel(parameters: QuantizationParameters, index: int) -> tuple[float, int]:
    """Return scale and zero point of a channel; pass index 0 for per-tensor types."""
    return float(parameters.scales.flat[index]), int(parameters.zero_points.flat[index])


def _stored_range(parameters: QuantizationParameters, index: int) -> Range:
    """Return the range of values that do not saturate in a channel."""
    scale, zero_point = _channel(parameters, index)
    return (
        (parameters.storage_min - zero_point - 0.5) * scale,
        (parameters.storage_max - zero_point + 0.5) * scale,
    )


def _type_text(evaluation: Evaluation) -> str:
    """Return the type without per-channel scales, or the reason for a missing type."""
    quantized_type = evaluation.quantized_type
    if quantized_type is None:
        return f"none: {evaluation.reason}"
    if not isinstance(quantized_type, UniformQuantizedPerAxisType):
        return str(quantized_type)
    # Printing all scales is slow.
    head = f"{quantized_type.storage_text}:{quantized_type.expressed_type}"
    return f"!quant.uniform<{head}:{quantized_type.axis}, {{...}}>"


def _type_summary(evaluation: Evaluation) -> tuple[str, str]:
    """Return two texts: the types with the axis, and the parameters in words."""
    parameters = evaluation.parameters
    assert parameters is not None
    head = _type_text(evaluation).removeprefix("!quant.uniform<").partition(", ")[0]
    if parameters.scales.ndim:
        return head, f"{parameters.scales.size} scales"
    scale, zero_point = _channel(parameters, 0)
    return head, f"scale {_four_digits(scale)}, zero point {zero_point}"
