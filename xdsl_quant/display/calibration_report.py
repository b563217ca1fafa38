"""
What calibration saw of each value, and what quantization would do to it: in a notebook, and
as a page that needs nothing else.

Colours are those of the page, or as far from white as from black, so that both are legible
on light and dark pages.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from html import escape
from typing import Literal, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.calibration import Statistics
from xdsl_quant.calibration.evaluation import Evaluation, evaluate
from xdsl_quant.dialects.quant import UniformQuantizedPerAxisType
from xdsl_quant.dialects.quant.constructor_arguments import bool_argument, int_argument
from xdsl_quant.dialects.quant.type_html import type_html
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.histogram import MIDDLE, Histogram
from xdsl_quant.numerics.histogram_errors import EstimatedError
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)

from .histogram_svg import histogram_svg

_MAX_SHOWN = 50
"""Most keys that a notebook shows."""

_MAX_CHANNELS = 5
"""Most channels of a key that are shown."""

_UNKNOWN = "Histograms and errors are not known: calibrate with"

_STYLE = """<style>
.xdsl-quant-report{line-height:1.4;overflow-x:auto}
.xdsl-quant-report table{border-collapse:collapse;color:inherit;margin:0.6em 0;
  font-size:inherit}
.xdsl-quant-report caption{text-align:left;padding:0 0 0.4em;max-width:60em}
.xdsl-quant-report .keys th,.xdsl-quant-report .keys td{text-align:left;vertical-align:top;
  padding:0.35em 1.2em 0.35em 0;background:none}
.xdsl-quant-report .keys>thead th{border-bottom:2px solid rgba(128,128,128,0.6);
  white-space:nowrap}
.xdsl-quant-report .keys>tbody>tr>*{border-bottom:1px solid rgba(128,128,128,0.3)}
.xdsl-quant-report tbody th{font-weight:normal;overflow-wrap:anywhere;min-width:9em}
.xdsl-quant-report .keys .n{text-align:right;white-space:nowrap;
  font-variant-numeric:tabular-nums}
.xdsl-quant-report .keys>tbody>tr:has(+.channels)>*{border-bottom:none}
.xdsl-quant-report .keys>tbody>.channels>td{padding-top:0}
.xdsl-quant-report .channels table{margin:0.3em 0 0.3em 1.5em}
.xdsl-quant-report .r,.xdsl-quant-report .t summary{white-space:nowrap}
.xdsl-quant-report .small{font-size:0.85em;opacity:0.8}
.xdsl-quant-report code{font-family:ui-monospace,monospace;font-size:0.9em;
  overflow-wrap:anywhere;background:none;color:inherit}
.xdsl-quant-report summary{cursor:pointer}
.xdsl-quant-report svg{display:block}
.xdsl-quant-report .in{fill:#1f77dc}
.xdsl-quant-report .out{fill:#d24a3d}
.xdsl-quant-report .range{fill:rgba(128,128,128,0.22)}
.xdsl-quant-report .bad{color:#d24a3d}
.xdsl-quant-report .key{display:inline-block;width:0.8em;height:0.8em}
</style>"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="color-scheme" content="light dark"/>
<meta name="viewport" content="width=device-width"/>
<title>{title}</title>
<style>
:root{{color-scheme:light dark}}
body{{font-family:system-ui,sans-serif;font-size:14px;margin:1.5em 2em}}
h1{{font-size:1.4em;margin:0 0 0.4em}}
.xdsl-quant-report{{overflow-x:visible}}
.xdsl-quant-report .keys>thead th{{position:sticky;top:0;background:Canvas}}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


class CalibrationReport:
    """
    A table of keys, the worst first, that a notebook shows. `str` is a table of text.
    """

    def __init__(
        self,
        evaluations: Sequence[Evaluation],
        statistics: Statistics,
        conversion: QuantCalibratedToUniformPass,
    ):
        self.evaluations = evaluations
        """What there is to know of each key, the worst first."""
        self._statistics = statistics
        self._conversion = conversion

    def __repr__(self) -> str:
        rows = [("key", "SQNR in dB", "saturated", "range", "type")]
        rows += [
            (
                evaluation.key,
                _rough_mark(evaluation.histogram) + _decibels(evaluation.sqnr),
                _saturated(evaluation),
                _range(evaluation.ranges.layer),
                _type(evaluation),
            )
            for evaluation in self.evaluations
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if self._has_unknown_errors():
            lines.append(f"{_UNKNOWN} histograms=True.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self._html(_MAX_SHOWN)

    def page(self, title: str = "Calibration") -> str:
        """The text of an HTML page with all keys, which needs nothing else."""
        body = self._html(len(self.evaluations))
        return _PAGE.format(title=escape(title), body=body)

    def save(self, path: str | os.PathLike[str], title: str = "Calibration") -> None:
        """
        Write the page to a file.

        Raises:
            OSError: if the file cannot be written; it is as it was before.
        """
        write_text_atomically(path, self.page(title))

    def _html(self, count: int) -> str:
        shown = self.evaluations[:count]
        left_out = len(self.evaluations) - len(shown)
        more = f"<p>… and {left_out} more keys: <code>save</code> them to a file.</p>"
        rows = "\n".join(map(_rows, shown))
        return (
            f'<div class="xdsl-quant-report" tabindex="0">{_STYLE}\n'
            f"{self._summary()}\n"
            f'<table class="keys"><caption>{self._caption()}</caption>\n'
            f"<thead><tr>{_HEADS}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
            f"{more if left_out else ''}</div>"
        )

    def _summary(self) -> str:
        count, batches = len(self.evaluations), self._statistics.batch_count
        return (
            f"<p>{_counted(count, 'key')}, {_counted(batches, 'batch', 'batches')}, "
            f"observer <code>{escape(self._statistics.observer)}</code>, types of "
            f"<code>{escape(str(self._conversion.spec()))}</code>.</p>"
        )

    def _has_unknown_errors(self) -> bool:
        return any(evaluation.histogram is None for evaluation in self.evaluations)

    def _caption(self) -> str:
        if self._has_unknown_errors():
            return f"Keys in their order. {_UNKNOWN} <code>histograms=True</code>."
        return (
            "The worst key first. Heights are logarithms of numbers of values: "
            '<span class="key" style="background:#1f77dc"></span> values that the type '
            'can store, <span class="key" style="background:#d24a3d"></span> those that '
            'are saturated, <span class="key" style="background:rgba(128,128,128,0.4)">'
            "</span> what the type can store. The mark below is at 0."
        )


def calibration_report(
    statistics: Statistics,
    module: ModuleOp | str | None = None,
    *,
    bits: int = 8,
    signed: bool = True,
    symmetric: bool = False,
    narrow_range: bool = False,
    per_axis: Literal["auto", "never"] = "auto",
) -> CalibrationReport:
    """
    Show what calibration saw under each key, and what quantization would do to it: the
    range, a histogram, the type, the saturated part of the values and the signal to
    quantization noise ratio, the worst first.

    Types are those of the pass `quant-calibrated-to-uniform` with the same options. Errors
    are estimated from histograms, which observers but `min-max` and `moving-average` have;
    for these, [`calibrate`][xdsl_quant.calibration.calibrate] with `histograms=True`.

    Args:
        statistics: what was observed.
        module: what was calibrated, or its text. It says which expressed types values have,
            and which of them are coupled; by default all are f32, and none is.
        bits: number of bits of a stored value.
        signed: whether stored values are signed.
        symmetric: whether the zero point is in the middle.
        narrow_range: whether the smallest stored value is left out.
        per_axis: whether values with a range for each channel get a per-axis type.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if the module does not have a key, or no key gets a type.
    """
    if not isinstance(cast(object, statistics), Statistics):
        raise TypeError(
            f"statistics must be Statistics, not {type(statistics).__name__}; read a file "
            "with Statistics.load"
        )
    if not isinstance(cast(object, module), ModuleOp | str | None):
        raise TypeError(
            f"module must be a module or its text, not {type(module).__name__}"
        )
    if per_axis not in ("auto", "never"):
        raise ValueError(f"per_axis must be 'auto' or 'never', not {per_axis!r}")
    conversion = QuantCalibratedToUniformPass(
        int_argument(bits, "bits").data,
        bool_argument(signed, "signed"),
        bool_argument(symmetric, "symmetric"),
        bool_argument(narrow_range, "narrow_range"),
        per_axis,
    )
    evaluations = evaluate(statistics, conversion, module)
    return CalibrationReport(evaluations, statistics, conversion)


# Rows

_HEADS = "".join(
    f'<th scope="col"{attributes}>{name}</th>'
    for name, attributes in (
        ("Key", ""),
        (
            "SQNR",
            ' class="n" title="Signal to quantization noise ratio: more is better"',
        ),
        ("Saturated", ' class="n" title="Values that the type cannot store"'),
        ("Range", ' title="What the observer found"'),
        ("Histogram", ""),
        ("Type", ""),
    )
)


def _rows(evaluation: Evaluation) -> str:
    return (
        f'<tr><th scope="row">{escape(evaluation.key)}</th>'
        f'<td class="n">{_sqnr_html(evaluation.sqnr, evaluation.histogram)}</td>'
        f'<td class="n">{escape(_saturated(evaluation))}</td>'
        f'<td class="r">{_range_html(evaluation.ranges.layer, evaluation.histogram)}</td>'
        f"<td>{_histogram(evaluation)}</td>"
        f'<td class="t">{_type_cell(evaluation)}</td></tr>'
        f"{_channel_row(evaluation)}"
    )


def _number(value: float) -> str:
    return f"{value:.4g}"


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _range(ends: tuple[float, float]) -> str:
    low, high = ends
    return f"{_number(low)} to {_number(high)}"


def _decibels(sqnr: float) -> str:
    if math.isnan(sqnr):
        return "-"
    return "no error" if sqnr == math.inf else f"{sqnr:.1f}"


def _percent(part: float) -> str:
    """A part that is neither none nor all of it does not look like that."""
    if part in (0, 1):
        return f"{part:.0%}"
    return "< 0.001%" if part < 1e-5 else f"{part * 100:.2g}%"


def _saturated(evaluation: Evaluation) -> str:
    error = evaluation.error
    return "-" if error is None else _percent(error.saturated_fraction)


def _with_unit(sqnr: float) -> str:
    text = _decibels(sqnr)
    return f"{text} dB" if math.isfinite(sqnr) else text


def _sqnr_html(sqnr: float, histogram: Histogram | None) -> str:
    text = _with_unit(sqnr)
    if not (mark := _rough_mark(histogram)):
        return text
    return (
        '<span title="Most values are in one bin of the histogram, around 0: the ratio is '
        f'that of values spread evenly over it">{mark}{text}</span>'
    )


def _rough_mark(histogram: Histogram | None) -> str:
    return "≈ " if histogram is not None and _is_rough(histogram) else ""


def _is_rough(histogram: Histogram) -> bool:
    """Whether most of the values that are not 0 are in the bin in the middle."""
    zeros = histogram.zeros.sum()
    middle = histogram.counts[..., MIDDLE].sum() - zeros
    return bool(2 * middle > histogram.counts.sum() - zeros)


def _range_html(ends: tuple[float, float], histogram: Histogram | None) -> str:
    text = _range(ends)
    if histogram is None:
        return text
    seen = (float(histogram.lows.min()), float(histogram.highs.max()))
    if seen == ends:
        return text
    return f'{text}<div class="small">values {_range(seen)}</div>'


def _stored_range(
    parameters: QuantizationParameters, index: int = 0
) -> tuple[float, float]:
    """From where to where values are not saturated, with one of the scales of a type."""
    scale = float(parameters.scales.flat[index])
    zero_point = int(parameters.zero_points.flat[index])
    return (
        (parameters.storage_min - zero_point - 0.5) * scale,
        (parameters.storage_max - zero_point + 0.5) * scale,
    )


def _histogram(evaluation: Evaluation) -> str:
    if evaluation.histogram is None:
        return ""
    histogram, parameters = evaluation.histogram.of_tensor, evaluation.parameters
    # Channels with a scale each have no range in common.
    stored = None
    if parameters is not None and not parameters.scales.ndim:
        stored = _stored_range(parameters)
    return histogram_svg(histogram, stored, _title(histogram, stored))


def _title(histogram: Histogram, stored: tuple[float, float] | None) -> str:
    count, zeros = int(histogram.counts.sum()), int(histogram.zeros)
    seen = _range((float(histogram.lows), float(histogram.highs)))
    title = f"{_counted(count, 'value')} from {seen}, {zeros / count:.0%} are 0"
    return title if stored is None else f"{title}; saturated unless {_range(stored)}"


def _type(evaluation: Evaluation) -> str:
    """The text of the type without the scales of channels, or why there is none."""
    quantized_type = evaluation.quantized_type
    if quantized_type is None:
        return f"none: {evaluation.reason}"
    if not isinstance(quantized_type, UniformQuantizedPerAxisType):
        return str(quantized_type)
    # The text of all scales takes long.
    head = str(_of_one_scale(quantized_type)).partition("{")[0]
    return f"{head}{{...}}>"


def _of_one_scale(
    quantized_type: UniformQuantizedPerAxisType,
) -> UniformQuantizedPerAxisType:
    return UniformQuantizedPerAxisType(
        quantized_type.storage_type,
        quantized_type.expressed_type,
        [1.0],
        [quantized_type.storage_type_max.data],
        quantized_dimension=quantized_type.quantized_dimension.data,
        storage_type_min=quantized_type.storage_type_min.data,
        storage_type_max=quantized_type.storage_type_max.data,
        is_signed=quantized_type.is_signed,
    )


def _type_cell(evaluation: Evaluation) -> str:
    quantized_type = evaluation.quantized_type
    if quantized_type is None:
        return f'<span class="bad">{escape(_type(evaluation))}</span>'
    text, parameters = _type(evaluation), evaluation.parameters
    assert parameters is not None
    head = text.removeprefix("!quant.uniform<").partition(", ")[0]
    short = f"{parameters.scales.size} scales"
    if not parameters.scales.ndim:
        scale, zero_point = float(parameters.scales), int(parameters.zero_points)
        short = f"scale {_number(scale)}, zero point {zero_point}"
    return (
        f"<details><summary><code>{escape(head)}</code> {short}</summary>"
        f"<code>{escape(text)}</code>{type_html(quantized_type)}</details>"
    )


# Channels


def _channel_row(evaluation: Evaluation) -> str:
    """A row below that of a key, with its worst channels. They are shown when opened."""
    histogram, error = evaluation.histogram, evaluation.error
    if evaluation.ranges.axis_ranges is None or histogram is None or error is None:
        return ""
    count = len(evaluation.ranges.axis_ranges)
    worst = np.argsort(error.channel_sqnr, kind="stable")[:_MAX_CHANNELS].tolist()
    rows = "\n".join(
        _channel(evaluation, histogram.of_channel(channel), error, channel)
        for channel in worst
    )
    which = f"Worst {len(worst)} of {_counted(count, 'channel')}"
    from_ = _with_unit(float(error.channel_sqnr[worst[0]]))
    return (
        f'<tr class="channels"><td colspan="6"><details><summary>{which} along dimension '
        f"{evaluation.ranges.axis}, from {from_}</summary>\n"
        f'<table aria-label="Channels of {escape(evaluation.key)}">'
        f"<thead><tr>{_CHANNEL_HEADS}</tr></thead>\n<tbody>{rows}</tbody></table>"
        "</details></td></tr>"
    )


_CHANNEL_HEADS = "".join(
    f'<th scope="col"{attributes}>{name}</th>'
    for name, attributes in (
        ("Channel", ""),
        ("SQNR", ' class="n"'),
        ("Saturated", ' class="n"'),
        ("Range", ""),
        ("Histogram", ""),
        ("Scale", ""),
        ("Zero point", ""),
    )
)


def _channel(
    evaluation: Evaluation, histogram: Histogram, error: EstimatedError, channel: int
) -> str:
    ranges, parameters = evaluation.ranges.axis_ranges, evaluation.parameters
    assert ranges is not None
    assert parameters is not None
    index = channel if parameters.scales.ndim else 0
    stored = _stored_range(parameters, index)
    saturated = float(error.channel_saturated_fraction[channel])
    sqnr = float(error.channel_sqnr[channel])
    return (
        f'<tr><th scope="row">{channel}</th>'
        f'<td class="n">{_sqnr_html(sqnr, histogram)}</td>'
        f'<td class="n">{escape(_percent(saturated))}</td>'
        f'<td class="r">{_range_html(ranges[channel], histogram)}</td>'
        f"<td>{histogram_svg(histogram, stored, _title(histogram, stored))}</td>"
        f"<td>{_number(float(parameters.scales.flat[index]))}</td>"
        f"<td>{int(parameters.zero_points.flat[index])}</td></tr>"
    )
