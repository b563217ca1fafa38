"""The report on a quantized model as HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from xdsl_quant.diagnostics import counted, shortened_text
from xdsl_quant.display.decibel_plot import Scale, Series, decibel_cell, decibel_plot
from xdsl_quant.display.histogram_svg import histogram_svg
from xdsl_quant.display.package_files import template
from xdsl_quant.display.report_parts import STYLE, bars_svg, page, percent

from .labels import ACCURACY
from .latency import Times
from .report_data import MAX_SHOWN, KernelReport, ReportData, storage, worst_kernels
from .search_result import BitSearchResult
from .signal_noise import decibels

_MAX_HISTOGRAMS = 6

_LEAST_PART = 0.01
"""The part of the values that fills a bar if no kernel has a larger one."""

_BODY = template("quantizer_report.html")

_TABLE = template("quantizer_table.html")

_LEGEND = (
    '<span class="mark own" aria-hidden="true">●</span> own: no other kernel is quantized; '
    '<span class="mark accumulated" aria-hidden="true">◆</span> accumulated: in the '
    "quantized model, with the errors of earlier kernels. 6 dB are one bit."
)


_BARS = (
    'Bars: <span class="key float"></span> floats, <span class="key in"></span> quantized, '
    '<span class="key out"></span> saturated.'
)


def html_of(report: ReportData, title: str | None) -> str:
    """
    Return a report as HTML.

    Args:
        report: the report.
        title: the title of a page with all kernels that needs nothing else; `None` for
            what a notebook shows: of a large model, no more than the worst kernels.
    """
    is_page = title is not None
    body = _body(report, is_page=is_page)
    return page(title, body) if is_page else body


def _body(report: ReportData, *, is_page: bool) -> str:
    worst = worst_kernels(report.kernels)
    caption, more = "Kernels in the order of the model", ""
    columns = _Columns(report)
    if others := worst[MAX_SHOWN:]:
        caption = f"The {MAX_SHOWN} kernels that lose most, in the order of the model"
        more = f"… and {counted(len(others), 'more kernel')}"
        more = (
            f"<details><summary>{more}</summary>"
            f"{columns.table('Kernels that lose less', others)}</details>"
            if is_page
            else f"<p>{more}: <code>save_html</code> writes all of them to a file.</p>"
        )
    return _BODY.substitute(
        style=STYLE,
        tiles="\n".join(_tiles(report)),
        plot=_plot(report),
        histograms=_histograms(worst),
        search=_search(report.search) if is_page and report.search else "",
        table=columns.table(f"{caption}. {_BARS}", worst[:MAX_SHOWN]),
        more=more,
    )


_TIMES_COLUMN = (
    '<th scope="col" class="n" title="CPU time of the kernel alone as compiled code, in '
    'floats and in integers">Time</th>\n'
)


def _search(found: BitSearchResult) -> str:
    """The trade-off of a search for bits, and what it chose."""
    return (
        f"<h2>Search for bits</h2>{found.svg()}"
        f'<pre tabindex="0">{escape(str(found))}</pre>'
    )


# The whole model


def _tiles(report: ReportData) -> Iterator[str]:
    """What there is to say about the whole model."""
    for name, sqnr in report.outputs.items():
        yield _tile("SQNR", _decibels(sqnr), escape(shortened_text(name)))
    if (accuracy := report.accuracy) is not None:
        values = accuracy.float_value, accuracy.quantized_value
        before, after = map(accuracy.text, values)
        note = counted(accuracy.sample_count, "sample")
        name = "Accuracy" if accuracy.metric == ACCURACY else accuracy.metric
        yield _tile(name, f"{before} → {after}", note)
    before, after = report.float_bytes, report.stored_bytes
    if before:
        ratio = f"{before / after:.2f} times less" if after else ""
        bars = _two_bars(before, after, before, f"{before} and {after} bytes", 160)
        sizes = f"{before:,} → {after:,}"
        yield _tile("Constants", f"{sizes} bytes", f"{bars}{ratio}")
    if (latency := report.latency) is not None:
        note = f"a call with {counted(latency.sample_count, 'sample')}"
        if latency.reason:
            note += f"; {escape(latency.reason)}"
        seconds = latency.times.float_seconds, latency.times.quantized_seconds
        if not any(map(math.isnan, seconds)):
            note = _two_bars(*seconds, max(seconds), str(latency.times), 160) + note
        text = _times_text(latency.times) if latency.times.is_known else "none"
        yield _tile("Time", text, note)
    count = sum(bool(each.result_type or each.weight_type) for each in report.kernels)
    names = ", ".join(
        f"{what} {name}"
        for what, name in (("recipe", report.recipe), ("target", report.target))
        if name
    )
    total = len(report.kernels)
    yield _tile("Quantized", f"{count} of {counted(total, 'kernel')}", escape(names))


def _tile(name: str, value: str, note: str) -> str:
    """A label, a value and a note, which is HTML."""
    return (
        f'<div><dt>{escape(name)}</dt><dd>{escape(value)}<div class="small">{note}</div>'
        "</dd></div>"
    )


def _decibels(sqnr: float) -> str:
    return f"{decibels(sqnr)} dB" if math.isfinite(sqnr) else decibels(sqnr)


def _two_bars(
    before: float, after: float, largest: float, title: str, width: int = 72
) -> str:
    return bars_svg([(before, "float"), (after, "in")], largest, title, width)


def _times_text(times: Times) -> str:
    return str(times).replace("->", "→").replace("us", "µs")


def _plot(report: ReportData) -> str:
    series = _series(report.kernels)
    if all(math.isnan(value) for each in series for value in each.values):
        return ""
    names = [
        f"{number} {kernel.kernel} {_place(kernel)}"
        for number, kernel in enumerate(report.kernels, 1)
    ]
    title = f"SQNR of {counted(len(names), 'kernel')} in dB, in the order of the model"
    return (
        f"<h2>Where the error arises</h2><p>{_LEGEND}</p>"
        f"{decibel_plot(names, series, title)}"
    )


def _series(kernels: Sequence[KernelReport]) -> Sequence[Series]:
    return [
        Series("accumulated", "accumulated", [each.shown_sqnrs[0] for each in kernels]),
        Series("own", "own", [each.shown_sqnrs[1] for each in kernels]),
    ]


# Kernels


def _place(kernel: KernelReport) -> str:
    """The name of the location, or where it is in a text."""
    return kernel.location.removeprefix('loc("').removesuffix('")')


def _histograms(worst: Sequence[tuple[int, KernelReport]]) -> str:
    """The values of the kernels that lose most."""
    figures = [
        _figure(number, kernel)
        for number, kernel in worst
        if kernel.histogram is not None
        and kernel.result_type
        and not kernel.is_constant
    ][:_MAX_HISTOGRAMS]
    if not figures:
        return ""
    return (
        "<h2>Values of the kernels that lose most</h2>"
        '<p>Heights are logarithms of numbers of values. <span class="key in"></span> '
        'values that can be stored, <span class="key out"></span> those that are '
        'saturated, <span class="key range"></span> what can be stored. The mark below is '
        f'at 0.</p><div class="figures">{"".join(figures)}</div>'
    )


def _figure(number: int, kernel: KernelReport) -> str:
    assert kernel.histogram is not None
    low, high = float(kernel.histogram.lows), float(kernel.histogram.highs)
    values = f"values {low:.4g} to {high:.4g}"
    if kernel.stored_range is not None:
        start, end = kernel.stored_range
        values += f", stored {start:.4g} to {end:.4g}"
    name = f"{number} {kernel.kernel}"
    svg = histogram_svg(kernel.histogram, kernel.stored_range, f"{name}: {values}")
    return (
        f"<figure>{svg}<figcaption>{escape(name)}"
        f'<div class="small">{escape(shortened_text(_place(kernel)))}</div>'
        f'<div class="small">own SQNR {_decibels(kernel.own_sqnr)}, {values}, '
        f"{percent(kernel.saturated_part)} saturated</div></figcaption></figure>"
    )


class _Columns:
    """Rows of a table whose pictures have one scale for each column."""

    def __init__(self, report: ReportData):
        kernels = report.kernels
        self.scale = Scale.of(_series(kernels))
        # Few values that are saturated do not fill a bar.
        self.saturated = max(_LEAST_PART, *(k.saturated_part for k in kernels), 0.0)
        self.bytes = max((k.float_bytes for k in kernels), default=0)
        self.has_times = report.has_times
        seconds = [
            s
            for k in kernels
            for s in (k.times.float_seconds, k.times.quantized_seconds)
            if not math.isnan(s)
        ]
        self.seconds = max(seconds, default=0.0)

    def table(self, caption: str, kernels: Sequence[tuple[int, KernelReport]]) -> str:
        """A table of kernels in the order of their numbers."""
        return _TABLE.substitute(
            caption=caption,
            times_column=_TIMES_COLUMN if self.has_times else "",
            rows="\n".join(self.row(*each) for each in sorted(kernels)),
        )

    def row(self, number: int, kernel: KernelReport) -> str:
        """A row."""
        sqnr, own = map(decibels, kernel.shown_sqnrs)
        dots = decibel_cell(
            self.scale, _series([kernel]), f"accumulated {sqnr}, own {own}"
        )
        types = escape(storage(kernel.result_type) or "float")
        if weights := storage(kernel.weight_type):
            types += f'<div class="small">{escape(weights)}</div>'
        place = _place(kernel)
        cells = [
            f'<td class="n">{number}</td>',
            f'<th scope="row">{escape(kernel.kernel)}<div class="small" '
            f'title="{escape(place)}">{escape(shortened_text(place))}</div></th>',
            f"<td>{types}</td><td>{'constant' if kernel.is_constant else dots}</td>",
            *(
                f'<td class="n">{text}</td>'
                for text in (sqnr, own, decibels(kernel.weight_sqnr))
            ),
            f'<td class="n">{self._saturated(kernel)}</td>',
            f'<td class="n">{self._bytes(kernel)}</td>',
        ]
        if self.has_times:
            cells.append(f'<td class="n">{self._times(kernel.times)}</td>')
        return f"<tr>{''.join(cells)}</tr>"

    def _saturated(self, kernel: KernelReport) -> str:
        if not kernel.result_type:
            return "-"
        text = percent(kernel.saturated_part)
        if not kernel.saturated_part:
            return text
        bars = [(kernel.saturated_part, "out")]
        return f"{text}{bars_svg(bars, self.saturated, f'{text} saturated')}"

    def _bytes(self, kernel: KernelReport) -> str:
        if not kernel.float_bytes:
            return "-"
        before, after = kernel.float_bytes, kernel.stored_bytes
        text = f"{before:,} → {after:,}"
        return f"{text}{_two_bars(before, after, self.bytes, f'{text} bytes')}"

    def _times(self, times: Times) -> str:
        seconds = times.float_seconds, times.quantized_seconds
        if not times.is_known:
            return "-"
        before, after = (0.0 if math.isnan(each) else each for each in seconds)
        text = _times_text(times)
        return f"{text}{_two_bars(before, after, self.seconds, text)}"
