"""
The picture of the page on formats: which numbers an element can have.

`python -m docs.tooling.grids_picture` writes it. Everything in it is computed from the
named formats, and a test compares the file with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.formats import FORMATS
from xdsl_quant.numerics.parameters import storage_range
from xdsl_quant.numerics.small_floats import SMALL_FLOATS

GRIDS_PICTURE = Path(__file__).parents[1] / "images" / "grids.svg"

_LEFT, _WIDTH, _RIGHT = 120, 560, 300
"""Widths of the names, of the grids, and of the notes."""

_ROW, _TITLE, _AXIS = 24, 40, 40
"""Heights of a grid, of a title and of an axis."""

_OCTAVES = 36
"""Powers of two on the logarithmic axis."""

# Colours that are legible on light and on dark pages.
_STYLE = """
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #7f8899 }
.title { font-weight: bold; font-size: 14px }
.name { text-anchor: end; font-family: ui-monospace, Menlo, "DejaVu Sans Mono", monospace }
.tick { text-anchor: middle; font-size: 11px }
.power { font-size: 9px }
.integer { stroke: #e08214 } .float { stroke: #3a8fd9 } .table { stroke: #2fa37c }
.axis, .grid { stroke: #7f8899; stroke-opacity: 0.5; fill: none }
path { stroke-width: 1 }
"""


@dataclass(frozen=True)
class Grid:
    """The numbers of a type of elements or scales."""

    name: str
    kind: str
    numbers: NDArray[np.float64]
    formats: tuple[str, ...]


def _numbers(name: str) -> tuple[str, NDArray[np.float64]]:
    if (small := SMALL_FLOATS.get(name)) is not None:
        values = small.values[np.isfinite(small.values)]
        return "float", np.unique(values).astype(np.float64)
    first, last = storage_range(name)
    return "integer", np.arange(first, last + 1, dtype=np.float64)


def element_grids() -> list[Grid]:
    """A grid for each type of elements that a named format has, in groups by kind."""
    formats: dict[str, list[str]] = {}
    tables: dict[str, tuple[float, ...]] = {}
    for name, each in FORMATS.items():
        stored = each.quantize(np.ones((8, 256)))
        if stored.table is not None:
            tables[name] = stored.table
        formats.setdefault(stored.type if stored.table is None else name, []).append(
            name
        )
    grids = [
        Grid(name, *_numbers(name), tuple(used))
        for name, used in formats.items()
        if name not in tables
    ]
    grids += [
        Grid(f"{name} table", "table", np.array(table, np.float64), (name,))
        for name, table in tables.items()
    ]
    kinds = "integer", "float", "table"
    return sorted(grids, key=lambda grid: (kinds.index(grid.kind), grid.numbers.size))


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{x:g}" y="{y:g}">{text}</text>'


def _power(exponent: float) -> str:
    """A power of two. Nothing follows it in a line, as it would be raised, too."""
    return f'2<tspan class="power" dy="-5">{exponent:g}</tspan>'


def _row(y: float, grid: Grid, places: NDArray[np.float64], note: str) -> Iterator[str]:
    """A grid with places from 0 to 1."""
    yield _text("name", _LEFT - 14, y + 4, grid.name)
    yield f'<path class="axis" d="M{_LEFT} {y}h{_WIDTH}"/>'
    xs = np.unique(np.round(_LEFT + _WIDTH * places, 2))
    path = "".join(f"M{x:g} {y - 8}v16" for x in xs.tolist())
    yield f'<path class="{grid.kind}" d="{path}"/>'
    yield _text("note", _LEFT + _WIDTH + 14, y + 4, note)


def _axis(y: float, ticks: dict[float, str]) -> Iterator[str]:
    for place, label in ticks.items():
        x = _LEFT + _WIDTH * place
        yield f'<path class="axis" d="M{x:g} {y - 4}v6"/>'
        yield _text("tick", x, y + 16, label)


def _linear(top: float, grids: list[Grid]) -> Iterator[str]:
    title = "Elements, relative to the largest magnitude"
    yield _text("title", _LEFT, top + 18, title)
    yield _text("title", _LEFT + _WIDTH + 14, top + 18, "Count; formats")
    for i, grid in enumerate(grids):
        relative = grid.numbers / np.abs(grid.numbers).max()
        note = f"{grid.numbers.size}; {', '.join(grid.formats)}"
        yield from _row(top + _TITLE + _ROW * i, grid, (relative + 1) / 2, note)
    ticks = {(x + 1) / 2: f"{x:g}" for x in (-1, -0.5, 0, 0.5, 1)}
    yield from _axis(top + _TITLE + _ROW * len(grids), ticks)


def _logarithmic(top: float, grids: list[Grid]) -> Iterator[str]:
    title = "Positive numbers, relative to the largest one, logarithmic"
    yield _text("title", _LEFT, top + 18, title)
    yield _text("title", _LEFT + _WIDTH + 14, top + 18, "Largest / smallest")
    for i, grid in enumerate(grids):
        positive = grid.numbers[grid.numbers > 0]
        octaves = np.log2(positive / positive.max())
        places = 1 + octaves[octaves >= -_OCTAVES] / _OCTAVES
        note = _power(round(float(-octaves.min()), 1))
        yield from _row(top + _TITLE + _ROW * i, grid, places, note)
    ticks = {1 - n / _OCTAVES: _power(-n) for n in range(0, _OCTAVES + 1, 6)}
    yield from _axis(top + _TITLE + _ROW * len(grids), ticks)


def grids_picture() -> str:
    """The picture as the text of an SVG file."""
    elements = element_grids()
    scales = Grid("f8E8M0FNU", *_numbers("f8E8M0FNU"), ())
    integers = [grid for grid in elements if grid.name in ("i4", "i8")]
    floats = [grid for grid in elements if grid.kind == "float"]
    logarithmic = [*integers, *floats, scales]
    middle = _TITLE + _ROW * len(elements) + _AXIS
    height = middle + _TITLE + _ROW * len(logarithmic) + _AXIS
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 '
            f'{_LEFT + _WIDTH + _RIGHT} {height}" role="img" aria-label="The numbers of'
            " each element type: integers are evenly spaced, floats and the table of NF4"
            ' are denser near zero">',
            f"<style>{_STYLE}</style>",
            *_linear(0, elements),
            *_logarithmic(middle, logarithmic),
            "</svg>\n",
        )
    )


if __name__ == "__main__":
    GRIDS_PICTURE.write_text(grids_picture())
