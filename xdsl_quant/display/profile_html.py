"""A profile of compiled code as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from xdsl_quant.diagnostics import counted, shortened_text

from .package_files import template
from .report_parts import STYLE, bars_svg

_TABLE = template("profile_table.html")


class TimedRow(NamedTuple):
    """Ops that share code, and how long it takes."""

    number: int
    name: str
    location: str
    result_type: str
    seconds: float

    cells: Sequence[str]
    """The texts of microseconds, share, products and their speed."""

    fused: str
    """The other ops in the code."""


def profile_html(
    name: str, summary: str, rows: Sequence[TimedRow], hidden_count: int
) -> str:
    """
    A table with bars of times.

    Args:
        name: that of the function.
        summary: what is said of it.
        rows: those that are shown.
        hidden_count: the number of others, which take less.
    """
    rest = ""
    if hidden_count:
        others = counted(hidden_count, "row")
        rest = f"<p>… and {others} that take less: see <code>rows</code>.</p>"
    longest = max((row.seconds for row in rows), default=0.0)
    return _TABLE.substitute(
        style=STYLE,
        caption=f"<code>{escape(name)}</code>: {summary.replace(' us', ' µs')}.",
        rows="\n".join(_row(row, longest) for row in rows),
        more=rest,
    )


def _row(row: TimedRow, longest: float) -> str:
    time, *numbers = row.cells
    bar = bars_svg([(row.seconds, "in")], longest, f"{time} µs") if row.seconds else ""
    place = row.location.removeprefix('loc("').removesuffix('")')
    cells = "".join(f'<td class="n">{text}</td>' for text in numbers)
    return (
        f'<tr><td class="n">{row.number}</td><th scope="row">{escape(row.name)}'
        f'<div class="small" title="{escape(place)}">{escape(shortened_text(place))}</div>'
        f'</th><td><code>{escape(row.result_type)}</code></td><td class="n">{time}{bar}'
        f"</td>{cells}<td>{escape(row.fused)}</td></tr>"
    )
