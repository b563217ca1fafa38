"""HTML of quantized types for notebooks, in the colours of the page (light or dark)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_LISTED = 8
"""Maximum number of scales that are listed."""

_MAX_POINTS = 200
"""Maximum number of points of a curve."""

_WIDTH, _HEIGHT, _MARGIN = 240, 40, 2

_CELL_STYLE = "text-align:left;vertical-align:top;padding:0.15em 0.8em 0.15em 0.3em"


def _number_text(value: float) -> str:
    return f"{value:.6g}"


def _table_row(name: str, value: str) -> str:
    """Return a table row; `value` is HTML."""
    return (
        f'<tr><th scope="row" style="{_CELL_STYLE}">{escape(name)}</th>'
        f'<td style="{_CELL_STYLE}">{value}</td></tr>'
    )


def _points(xs: Iterable[float], ys: Iterable[float]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def _sparkline(scales: NDArray[np.float64], title: str) -> str:
    """
    Return an SVG curve of the scales in order. If there are more scales than points, draw a
    band from the minimum to the maximum of each bin of scales.
    """
    import numpy as np

    title = escape(title)
    # Table values may be negative: only positive ones have logarithms.
    if 0 < 10 * scales.min() < scales.max():
        scales = np.log10(scales)
        title += ", logarithmic"
    starts = np.linspace(
        0, scales.size, min(scales.size, _MAX_POINTS), endpoint=False, dtype=np.int64
    )
    low = np.minimum.reduceat(scales, starts)
    high = np.maximum.reduceat(scales, starts)
    extent = high.max() - low.min()
    # Draw equal scales as a line at half height.
    unit = (_HEIGHT - 2 * _MARGIN) / extent if extent else 0.0
    base = _HEIGHT - _MARGIN if extent else _HEIGHT / 2
    xs = np.linspace(_MARGIN, _WIDTH - _MARGIN, starts.size)
    upper = _points(xs, base - (high - low.min()) * unit)
    lower = _points(xs[::-1], base - (low[::-1] - low.min()) * unit)
    return (
        f'<svg role="img" aria-label="{title}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" style="display:block;max-width:100%">'
        f'<title>{title}</title><polygon points="{upper} {lower}" stroke="currentColor" '
        'fill="currentColor" fill-opacity="0.3" stroke-linejoin="round"/></svg>'
    )


def _numbers_text(name: str, numbers: array[float]) -> str:
    if len(numbers) <= _MAX_LISTED:
        return ", ".join(map(_number_text, numbers))
    import numpy as np

    values = np.frombuffer(numbers)
    # A block scale of type f8E8M0FNU may be NaN.
    finite = values[~np.isnan(values)]
    if not finite.size:
        return f"{values.size}: all NaN"
    low, median, high = map(
        _number_text, map(float, (finite.min(), np.median(finite), finite.max()))
    )
    nan = f", {values.size - finite.size} NaN" if finite.size < values.size else ""
    return f"{values.size}: min {low}, median {median}, max {high}{nan}" + _sparkline(
        finite, f"{finite.size} {name} from {low} to {high}"
    )


def _integers_text(integers: array[int]) -> str:
    if len(integers) <= _MAX_LISTED:
        return ", ".join(map(str, integers))
    first, last = min(integers), max(integers)
    return f"all {first}" if first == last else f"{first} to {last}"


def _value_html(name: str, value: object) -> str:
    match value:
        case array(typecode="d"):
            return _numbers_text(name.partition(",")[0], cast("array[float]", value))
        case array():
            return _integers_text(cast("array[int]", value))
        case float():
            return _number_text(value)
        case _:
            return escape(str(value))


class DescribedType(Protocol):
    """A type with a description: names and values of its parameters."""

    @property
    def name(self) -> str: ...

    def description(self) -> Iterable[tuple[str, object]]: ...


def type_html(quantized_type: DescribedType) -> str:
    """
    Return an HTML table of the parameters of a type. More than eight scales are summarized
    and drawn as a small curve.
    """
    rows = "".join(
        _table_row(name, _value_html(name, value))
        for name, value in quantized_type.description()
    )
    return (
        f'<table aria-label="!{quantized_type.name}" '
        'style="color:inherit;border-collapse:collapse;margin:0.3em 0">'
        f"<tbody>{rows}</tbody></table>"
    )
