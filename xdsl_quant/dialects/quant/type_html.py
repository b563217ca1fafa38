"""
Quantized types as notebooks show them: as HTML, and as a text of limited length.

Colours are those of the page, so that a table is legible on light and dark ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import NoneAttr

from .fixed_point_types import (
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
)
from .types import (
    CalibratedQuantizedType,
    QuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
    float_array,
    int_array,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_LISTED = 8
"""Most scales that are shown one by one."""

_MAX_POINTS = 200
"""Most points of a curve."""

_MAX_TEXT = 200
"""Most characters of a text."""

_WIDTH, _HEIGHT, _MARGIN = 240, 40, 2

_CELL_STYLE = "text-align:left;vertical-align:top;padding:0.15em 0.8em 0.15em 0"


def _number(value: float) -> str:
    return f"{value:.6g}"


def _row(name: str, value: str) -> str:
    """A row of the table; `value` is HTML."""
    return (
        f'<tr><th scope="row" style="{_CELL_STYLE}">{escape(name)}</th>'
        f'<td style="{_CELL_STYLE}">{value}</td></tr>'
    )


def _points(xs: Iterable[float], ys: Iterable[float]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def _sparkline(scales: NDArray[np.float64], title: str) -> str:
    """
    A curve of the scales in their order. Where there are more of them than points, a band
    from the smallest to the largest of each bin.
    """
    import numpy as np

    title = escape(title)
    if scales.max() > 10 * scales.min():
        scales = np.log10(scales)
        title += ", logarithmic"
    starts = np.linspace(
        0, scales.size, min(scales.size, _MAX_POINTS), endpoint=False, dtype=np.int64
    )
    low = np.minimum.reduceat(scales, starts)
    high = np.maximum.reduceat(scales, starts)
    extent = high.max() - low.min()
    # Equal scales are a line at half height.
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


def _scale_rows(
    quantized_type: UniformQuantizedPerAxisType | UniformQuantizedSubChannelType,
) -> Iterable[str]:
    scales, zero_points = quantized_type.scales, quantized_type.zero_points
    if len(scales) <= _MAX_LISTED:
        yield _row("scales", ", ".join(map(_number, float_array(scales))))
        yield _row("zero points", ", ".join(map(str, int_array(zero_points))))
        return
    import numpy as np

    values = np.frombuffer(scales.data.data, np.float64)
    low, median, high = map(
        _number, map(float, (values.min(), np.median(values), values.max()))
    )
    yield _row(
        "scales",
        f"{len(values)}: min {low}, median {median}, max {high}"
        + _sparkline(values, f"{len(values)} scales from {low} to {high}"),
    )
    integers = np.frombuffer(zero_points.data.data, np.int64)
    first, last = int(integers.min()), int(integers.max())
    yield _row("zero points", f"all {first}" if first == last else f"{first} to {last}")


def _blocks_text(quantized_type: UniformQuantizedSubChannelType) -> str:
    counts = " x ".join(map(str, quantized_type.scales_shape.get_values()))
    sizes = [
        f"size {size} along dimension {dimension}"
        for dimension, size in quantized_type.block_size_info
    ]
    return ", ".join((counts, *sizes))


def _kind(quantized_type: QuantizedType) -> str:
    match quantized_type:
        case UniformQuantizedType():
            return "uniform, per-layer"
        case UniformQuantizedPerAxisType():
            return "uniform, per-axis"
        case UniformQuantizedSubChannelType():
            return "uniform, sub-channel"
        case FixedPointQuantizedType():
            return "fixed-point, per-layer"
        case FixedPointQuantizedPerAxisType():
            return "fixed-point, per-axis"
        case _:
            return quantized_type.name.removeprefix("quant.")


def _axis_rows(quantized_type: UniformQuantizedPerAxisType) -> Iterable[str]:
    dimension = quantized_type.quantized_dimension.data
    yield _row("quantized dimension", str(dimension))
    yield from _scale_rows(quantized_type)


def _rows(quantized_type: QuantizedType) -> Iterable[str]:
    yield _row("kind", _kind(quantized_type))
    if isinstance(quantized_type, StoredQuantizedType):
        low = quantized_type.storage_type_min.data
        high = quantized_type.storage_type_max.data
        storage = f"{quantized_type.storage_type_name}, {low} to {high}"
        yield _row("storage", escape(storage))
    if not isinstance(quantized_type.expressed_type, NoneAttr):
        yield _row("expressed", escape(str(quantized_type.expressed_type)))
    match quantized_type:
        case UniformQuantizedType():
            yield _row("scale", _number(quantized_type.scale.data))
            yield _row("zero point", str(quantized_type.zero_point.data))
        case UniformQuantizedPerAxisType():
            yield from _axis_rows(quantized_type)
        case FixedPointQuantizedType():
            multiplier, shift = (
                quantized_type.multiplier.data,
                quantized_type.shift.data,
            )
            scale = _number(quantized_type.to_uniform().scale.data)
            yield _row("scale", f"{multiplier}p-{shift} = {scale}")
            yield _row("zero point", str(quantized_type.zero_point.data))
        case FixedPointQuantizedPerAxisType():
            yield from _axis_rows(quantized_type.to_uniform())
        case UniformQuantizedSubChannelType():
            yield _row("blocks", _blocks_text(quantized_type))
            yield from _scale_rows(quantized_type)
        case CalibratedQuantizedType():
            low = _number(quantized_type.min.data)
            yield _row("range", f"{low} to {_number(quantized_type.max.data)}")
        case _:
            pass


def type_html(quantized_type: QuantizedType) -> str:
    """
    A table of the parameters of a type.

    More than eight scales are summed up, and drawn as a small curve.
    """
    return (
        f'<table aria-label="!{quantized_type.name}" '
        'style="color:inherit;border-collapse:collapse">'
        f"<tbody>{''.join(_rows(quantized_type))}</tbody></table>"
    )


def short_text(quantized_type: QuantizedType) -> str:
    """The text of a type, or its beginning and end if it is long."""
    text = str(quantized_type)
    if len(text) <= _MAX_TEXT:
        return text
    end = _MAX_TEXT // 5
    return f"{text[: _MAX_TEXT - end]} ... {text[-end:]}"
