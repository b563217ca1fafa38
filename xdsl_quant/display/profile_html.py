"""A profile of compiled code as HTML."""

from __future__ import annotations

from html import escape

from xdsl_quant.diagnostics import counted, shortened_text
from xdsl_quant.execution.profile import Profile, ProfileRow

from .package_files import template
from .report_parts import STYLE, bars_svg

_TABLE = template("profile_table.html")


def profile_html(profile: Profile) -> str:
    """A table of the rows that take longest, with bars of their times."""
    shown = profile.longest
    more = len(profile.rows) - len(shown)
    rest = f"<p>… and {counted(more, 'row')} that take less: see <code>rows</code>.</p>"
    summary = profile.summary.replace(" us", " µs")
    return _TABLE.substitute(
        style=STYLE,
        caption=f"<code>{escape(profile.name)}</code>: {summary}.",
        rows="\n".join(_row(profile, row) for row in shown),
        more=rest if more else "",
    )


def _row(profile: Profile, row: ProfileRow) -> str:
    time, *numbers = profile.cells(row)
    longest = max(each.seconds for each in profile.rows)
    bar = bars_svg([(row.seconds, "in")], longest, f"{time} µs") if row.seconds else ""
    place = row.location.removeprefix('loc("').removesuffix('")')
    cells = "".join(f'<td class="n">{text}</td>' for text in numbers)
    return (
        f'<tr><td class="n">{row.number}</td><th scope="row">{escape(row.name)}'
        f'<div class="small" title="{escape(place)}">{escape(shortened_text(place))}</div>'
        f'</th><td><code>{escape(row.result_type)}</code></td><td class="n">{time}{bar}'
        f"</td>{cells}<td>{escape(row.fused)}</td></tr>"
    )
