"""Highlighted IR in notebooks, with aliases for types, alone or side by side."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from io import StringIO
from itertools import zip_longest
from typing import cast

from xdsl.ir import Operation

from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.runtime.loading import is_file_name
from xdsl_quant.targets.mlir_aliased import AliasPrinter

from .highlight import STYLE, alias_definitions, highlight_html, shorten_tokens

_MAX_LINES = 1000
"""Maximum number of IR lines that a notebook shows."""


def _ir_text(ir: Operation | str, aliases: dict[QuantizedType, str] | None) -> str:
    """Return the text of an op, with type aliases unless they are `None`."""
    if isinstance(ir, str):
        if is_file_name(ir):
            raise ValueError(f"expected an op or IR text, found the file name '{ir}'")
        return ir.strip("\n")
    if not isinstance(cast(object, ir), Operation):
        raise TypeError(f"expected an op or IR text, found {type(ir).__name__}")
    if aliases is None:
        return str(ir)
    body = StringIO()
    printer = AliasPrinter(stream=body, aliases=aliases)
    printer.print_op(ir)
    return printer.definitions + body.getvalue()


def _shown_lines(text: str) -> list[str]:
    lines = text.split("\n")
    if (left_out := len(lines) - _MAX_LINES) <= 0:
        return lines
    return [*lines[:_MAX_LINES], f"// ... and {left_out} more lines"]


class _PlainText:
    """Base class of views. Notebooks store a shortened text; `str` is complete."""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": shorten_tokens("\n".join(_shown_lines(repr(self))))}


class IRView(_PlainText):
    """IR text that notebooks show highlighted."""

    def __init__(self, text: str):
        self.text = text
        """Complete text, which xDSL and MLIR can parse."""

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        text = highlight_html(
            "\n".join(_shown_lines(self.text)), alias_definitions(self.text)
        )
        return (
            f'<div class="xdsl-quant-ir scroll" tabindex="0">{STYLE}'
            f"<pre>{text}</pre></div>"
        )


def show(ir: Operation | str, *, aliases: bool = True) -> IRView:
    """
    Show an op, such as a module, or IR text.

    Quantized types of an op are printed as `!q0`, `!q1`, ... with tooltips, unless
    `aliases` is `False`. Later changes of the op do not change the view.

    Raises:
        TypeError: if `ir` is neither an op nor text.
        ValueError: if `ir` is a file name.
    """
    return IRView(_ir_text(ir, {} if aliases else None))


_CHANGED = "background:rgba(128,128,128,0.22)"


def _aligned_lines(
    before: list[str], after: list[str]
) -> Iterable[tuple[str | None, str | None, bool]]:
    """Yield pairs of lines, with `None` on a missing side, and whether they differ."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, after_start, after_end in matcher.get_opcodes():
        for left, right in zip_longest(before[start:end], after[after_start:after_end]):
            yield left, right, tag != "equal"


def _column(title: str, lines: Iterable[tuple[str | None, bool]], text: str) -> str:
    aliases = alias_definitions(text)
    rows: list[str] = []
    for line, changed in lines:
        style = f' style="{_CHANGED}"' if changed and line is not None else ""
        # An empty element has no height.
        rows.append(f"<div{style}>{highlight_html(line or '', aliases) or ' '}</div>")
    return (
        f'<div role="group" aria-label="{title}" tabindex="0" class="scroll" '
        f'style="flex:1 1 24em;min-width:0"><b>{title}</b>'
        f'<pre style="width:max-content;min-width:100%">{"".join(rows)}</pre></div>'
    )


class IRComparison(_PlainText):
    """Two IR texts: side by side in notebooks, one after the other in plain text."""

    def __init__(self, before: str, after: str):
        self.before = before
        """Complete text on the left."""
        self.after = after
        """Complete text on the right."""

    def __repr__(self) -> str:
        return f"// before\n{self.before}\n// after\n{self.after}"

    def _repr_html_(self) -> str:
        pairs = list(
            _aligned_lines(_shown_lines(self.before), _shown_lines(self.after))
        )
        left = _column("before", ((a, changed) for a, _, changed in pairs), self.before)
        right = _column("after", ((b, changed) for _, b, changed in pairs), self.after)
        return (
            f'<div class="xdsl-quant-ir">{STYLE}'
            '<div style="display:flex;flex-wrap:wrap;gap:1em 1.5em">'
            f"{left}{right}</div></div>"
        )


def compare(
    before: Operation | str, after: Operation | str, *, aliases: bool = True
) -> IRComparison:
    """
    Show two ops or IR texts side by side, with changed lines on a gray background.

    Aliases are the same on both sides. Passes change a module in place: run them on
    `module.clone()` to compare.

    Raises:
        TypeError: if an argument is neither an op nor text.
        ValueError: if an argument is a file name.
    """
    names: dict[QuantizedType, str] | None = {} if aliases else None
    return IRComparison(_ir_text(before, names), _ir_text(after, names))
