"""The cell magic `%%quant`: runs passes on a cell and shows the changes."""

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
    """Error in a cell; IPython shows the message without a traceback."""

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
        arguments, unknown = parser.parse_known_args(shlex.split(line))
    except ValueError as e:
        raise QuantMagicError(f"{parser.prog}: {e}") from e
    if unknown:
        parser.error(
            f"unrecognized arguments: {' '.join(unknown)}{_passes_hint(unknown)}"
        )
    return arguments


def _passes_hint(unknown: Sequence[str]) -> str:
    if all(word.startswith("-") for word in unknown):
        return ""
    return (
        " (pass pipelines follow -p, in quotes if they contain a space: "
        "-p 'cse,canonicalize')"
    )


def quant(line: str, cell: str) -> IRView | IRComparison | None:
    """
    Run passes on the IR in this cell, and show it before and after.

    Usage: %%quant [-h] [-p PASSES] [--no-aliases]

    PASSES is a pipeline as for `xdsl-opt -p`, with options in braces. Quote it if it
    contains a space:

        %%quant -p 'lower-quant-ops{rounding-mode=nearest-even fuse=true},canonicalize'

    Without passes, show the IR. `--no-aliases` prints quantized types in full. `-h`
    prints this text.
    """
    arguments = _arguments(line)
    if arguments.help:
        print(inspect.getdoc(quant))
        return None
    context = multiverse_context()
    try:
        passes = parse_passes(arguments.passes)
        # Line 1 of the cell is the magic: add a line for correct locations.
        before = parse_module("\n" + cell, _CELL, context)
        if not passes:
            return show(before, aliases=arguments.aliases)
        after = before.clone()
        apply_passes(after, passes, context)
    except IRError as e:
        raise QuantMagicError(str(e)) from e
    return compare(before, after, aliases=arguments.aliases)
