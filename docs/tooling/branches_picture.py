"""
The picture of the page about propagation: casts on branches, and the rescales there.

`python -m docs.tooling.branches_picture` writes it. The parameters in it are those that the
passes decide, and a test compares the file with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import QuantizeCastOp, RegionOp
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.runtime.loading import apply_passes, parse_module

BRANCHES_PICTURE = Path(__file__).parents[1] / "images" / "branches.svg"

_EXAMPLE = Path(__file__).parents[1] / "examples" / "branches.mlir"
_PASSES = (
    "quant-fuse-kernels{target=tflite-int8},quant-constraints-to-specs,"
    "quant-propagate{target=tflite-int8}"
)
_STYLE = """
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #7f8899 }
.title { font-weight: bold; font-size: 14px }
.in { fill: #fff; text-anchor: middle }
.kernel { fill: #1e2430; stroke: #59637a }
.cast { fill: #a85c0c } .rescale { fill: #2668a8 }
.arrow { stroke: #7f8899; stroke-width: 1.5; fill: none; marker-end: url(#head) }
"""
_ROW, _HEIGHT = 64, 34
_KERNEL, _CAST = 104, 132


def _box(kind: str, x: int, y: int, width: int, text: str) -> Iterator[str]:
    """A box whose middle is at a height, with a text."""
    top = y - _HEIGHT // 2
    yield (
        f'<rect class="{kind}" x="{x}" y="{top}" width="{width}" height="{_HEIGHT}" '
        'rx="6"/>'
    )
    yield f'<text class="in" x="{x + width // 2}" y="{y + 5}">{escape(text)}</text>'


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    return f'<path class="arrow" d="M{x} {y}L{to_x - 3} {to_y}"/>'


def _panel(
    x: int, kind: str, title: str, source: str, boxes: Mapping[str, str | None]
) -> Iterator[str]:
    """
    A graph: one kernel, and those that take its result.

    Args:
        x: the left side.
        kind: of the boxes between kernels.
        title: the text at the top.
        source: the text below the first kernel.
        boxes: the names of users, each with the text of a box in front of it.
    """
    middle = 60 + _ROW * (len(boxes) - 1) // 2
    cast, user = x + _KERNEL + 40, x + _KERNEL + 40 + _CAST + 32
    yield f'<text class="title" x="{x}" y="18">{escape(title)}</text>'
    yield from _box("kernel", x, middle, _KERNEL, "tfl.mul")
    yield f'<text x="{x}" y="{middle + 38}">{escape(source)}</text>'
    for row, (name, text) in enumerate(boxes.items()):
        y = 60 + _ROW * row
        if text is None:
            yield _arrow(x + _KERNEL, middle, user, y)
        else:
            yield _arrow(x + _KERNEL, middle, cast, y)
            yield from _box(kind, cast, y, _CAST, text)
            yield _arrow(cast + _CAST, y, user, y)
        yield from _box("kernel", user, y, _KERNEL, name)


def _scale(type_: Attribute) -> float:
    element_type = scalar_or_element_type(type_)
    assert isinstance(element_type, UniformType)
    return float(element_type.get_scales())


def branches_picture() -> str:
    """The picture as the text of an SVG file."""
    module = parse_module(_EXAMPLE.read_text())
    casts = [
        _scale(op.result.type) for op in module.walk() if isinstance(op, QuantizeCastOp)
    ]
    apply_passes(module, _PASSES)
    first, *users = [op for op in module.walk() if isinstance(op, RegionOp)]
    stored = _scale(first.specs[-1])
    found = {user.kernel: _scale(user.specs[0]) for user in users}
    before = dict.fromkeys(found) | dict(
        zip(
            (name for name, scale in found.items() if scale != stored),
            (f"cast, scale {scale:g}" for scale in casts),
            strict=True,
        )
    )
    after = {
        name: None if scale == stored else f"rescale to {scale:g}"
        for name, scale in found.items()
    }
    return "\n".join(
        (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 220" role="img" '
            'aria-label="A value with statistics and three uses, two of them behind casts: '
            "after propagation the value has the scale of its statistics, and it is "
            'rescaled for the uses behind casts">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#7f8899"/>'
            "</marker></defs>",
            *_panel(2, "cast", "Model", "statistics 0 to 1", before),
            *_panel(462, "rescale", "Propagated", f"scale {stored:.6f}", after),
            "</svg>\n",
        )
    )


if __name__ == "__main__":
    BRANCHES_PICTURE.write_text(branches_picture())
