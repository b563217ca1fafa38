"""The cell magic `%%quant`: run passes on the text of a cell and show what they change."""

import argparse
import inspect
import shlex
from collections.abc import Sequence
from typing import NoReturn

from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
    parse_passes,
)

from .ir_view import IRComparison, IRView, compare, show

_CELL = "<cell>"


class QuantMagicError(Exception):
    """A mistake in a cell; IPython shows the message and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"\x1b[31m{self}\x1b[0m"]


class _ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise QuantMagicError(f"{self.prog}: {message}")


def _arguments(line: str) -> argparse.Namespace:
    parser = _ArgumentParser(prog="%%quant", add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-p", "--passes", default="")
    parser.add_argument(
        "--aliases", action=argparse.BooleanOptionalAction, default=True
    )
    try:
        arguments, others = parser.parse_known_args(shlex.split(line))
    except ValueError as e:
        raise QuantMagicError(f"{parser.prog}: {e}") from e
    if others:
        parser.error(
            f"unrecognized arguments: {' '.join(others)}{_passes_hint(others)}"
        )
    return arguments


def _passes_hint(others: Sequence[str]) -> str:
    if all(word.startswith("-") for word in others):
        return ""
    return (
        " (passes are needed after -p, in quotes if there is a space: "
        "-p 'cse,canonicalize')"
    )


def quant(line: str, cell: str) -> IRView | IRComparison | None:
    """
    Run passes on the IR in this cell, and show it before and after.

    Usage: %%quant [-h] [-p PASSES] [--no-aliases]

    PASSES are those of `xdsl-opt -p`, with options in braces; quotes are needed where
    there is a space:

        %%quant -p 'lower-quant-ops{rounding-mode=nearest-even fuse=true},canonicalize'

    Without passes the IR is shown as it is. `--no-aliases` writes quantized types out.
    `-h` prints this text.
    """
    arguments = _arguments(line)
    if arguments.help:
        print(inspect.getdoc(quant))
        return None
    context = multiverse_context()
    try:
        passes = parse_passes(arguments.passes)
        # The line of the magic is the first one of the cell.
        before = parse_module("\n" + cell, _CELL, context)
        if not passes:
            return show(before, aliases=arguments.aliases)
        after = before.clone()
        apply_passes(after, passes, context)
    except IRError as e:
        raise QuantMagicError(str(e)) from e
    return compare(before, after, aliases=arguments.aliases)
