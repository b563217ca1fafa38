"""
The picture at the top of the README and of the site: text in, integers out.

`python -m docs.tooling.overview_picture` writes it. Everything in it is computed: the
module is lowered, interpreted and compiled here, and a test compares the file with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from docs.tooling.mlir_lexer import MLIRLexer
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

PICTURE = Path(__file__).parents[1] / "images" / "overview.svg"

_EXAMPLE = Path(__file__).parents[1] / "examples" / "quantize.mlir"
_PIPELINE = (
    "lower-quant-ops{rounding-mode=nearest-even fuse=true},"
    "strip-func-quant-types,canonicalize"
)
_INPUT = np.array([[0.4, -3, 100], [0.4, -3, 100]], np.float32)

_LINE_HEIGHT = 19
_TITLE_HEIGHT = 34
_PADDING = 14
_MIDDLE = 64
_LEFT_WIDTH, _RIGHT_WIDTH, _GAP = 560, 530, 86
_MAX_COLUMNS = 64

# The cards are dark on light and on dark pages; what is between them is grey.
_STYLE = """
text { font: 12.5px ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace;
  fill: #d6dbe4; white-space: pre }
.card { fill: #1e2430; stroke: #59637a }
.title { font: bold 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #fff }
.label { font: bold 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif;
  fill: #7f8899; text-anchor: middle }
.arrow { stroke: #7f8899; stroke-width: 2; fill: none; marker-end: url(#head) }
.Type { fill: #7fd88f } .Function { fill: #d3a3f5 } .Variable { fill: #86bdfa }
.Number { fill: #f0b37a }
"""


def _highlighted(line: str) -> Iterator[str]:
    """The parts of a line of MLIR as SVG, with a class for the kind of each token."""
    for token, text in MLIRLexer(stripnl=False, ensurenl=False).get_tokens(line):
        yield f'<tspan class="{token[-1]}">{escape(text)}</tspan>'


def _height(lines: Sequence[str]) -> int:
    return _TITLE_HEIGHT + _LINE_HEIGHT * len(lines) + _PADDING


def _card(
    x: int, y: int, width: int, height: int, title: str, lines: Sequence[str]
) -> Iterator[str]:
    """A box with a title and lines of code."""
    left = x + _PADDING
    yield (
        f'<rect class="card" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
    )
    yield f'<text class="title" x="{left}" y="{y + 22}">{escape(title)}</text>'
    for i, line in enumerate(lines):
        baseline = y + _TITLE_HEIGHT + _LINE_HEIGHT * (i + 1) - 5
        yield f'<text x="{left}" y="{baseline}">{"".join(_highlighted(line))}</text>'


def _arrow(points: str, label: str, x: int, y: int) -> Iterator[str]:
    yield f'<path class="arrow" d="{points}"/>'
    yield f'<text class="label" x="{x}" y="{y}">{escape(label)}</text>'


def _array_lines(array: np.ndarray) -> list[str]:
    rows = np.array2string(array, separator=", ").splitlines()
    return [f"  {row}" for row in rows]


def _function_lines(module: str) -> list[str]:
    """The lines of the only function of a module; the end of a long line is cut off."""
    lines = [line.removeprefix("  ") for line in module.splitlines()[1:-1]]
    return [
        line if len(line) <= _MAX_COLUMNS else f"{line[: _MAX_COLUMNS - 4]} ..."
        for line in lines
    ]


def overview_picture() -> str:
    """The picture as the text of an SVG file."""
    text = _EXAMPLE.read_text()
    module = parse_module(text)
    (stored,) = run_function(module, "quantize", _INPUT)
    assert np.array_equal(stored, compile(module, "quantize")(_INPUT))
    apply_passes(module, _PIPELINE)
    lowered = _function_lines(str(module))

    source = text.strip().splitlines()
    arrays = ["x, float32:", *_array_lines(_INPUT), "quantize(x), int8:"]
    arrays += _array_lines(stored)
    top, bottom = _height(source), _height(arrays)
    width = _LEFT_WIDTH + _GAP + _RIGHT_WIDTH
    height = max(top + _MIDDLE + bottom, _height(lowered))
    right = _LEFT_WIDTH + _GAP
    middle, below = top // 2, height - bottom // 2
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 -2 {width + 4}'
            f' {height + 4}" role="img"'
            ' aria-label="Quantized MLIR, the loop that it is lowered to, and the'
            ' integers that the function returns">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="8" refY="5"'
            ' markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 10 5 0 10z" fill="#7f8899"/></marker></defs>',
            *_card(
                0,
                0,
                _LEFT_WIDTH,
                top,
                "1  Text in: a module with quantized types",
                source,
            ),
            *_card(
                right,
                0,
                _RIGHT_WIDTH,
                height,
                "2  Lowered: arith, math, tensor and linalg",
                lowered,
            ),
            *_card(
                0,
                height - bottom,
                _LEFT_WIDTH,
                bottom,
                "3  Integers out: the function on NumPy arrays",
                arrays,
            ),
            *_arrow(
                f"M{_LEFT_WIDTH + 8} {middle}H{right - 8}",
                "xdsl-opt",
                _LEFT_WIDTH + _GAP // 2,
                middle - 10,
            ),
            *_arrow(
                f"M{right - 8} {below}H{_LEFT_WIDTH + 8}",
                "compiled",
                _LEFT_WIDTH + _GAP // 2,
                below - 10,
            ),
            *_arrow(
                f"M{_LEFT_WIDTH // 2} {top + 8}V{height - bottom - 8}",
                "interpreted",
                _LEFT_WIDTH // 2 + 50,
                (top + height - bottom) // 2 + 4,
            ),
            "</svg>\n",
        )
    )


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(overview_picture())
