"""Errors and warnings with source locations, and formatting of messages and tables."""

import os
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TextIO, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException, VerifyException

if TYPE_CHECKING:
    from xdsl.parser import AttrParser


def location_prefix(location: Attribute) -> str:
    """
    Return a location as message prefix: `model.mlir:3:5: `, `loc("name"): ` or empty.
    Calls are located in the callee, fused ops where the first of them is.
    """
    if isinstance(location, CallSiteLoc):
        return location_prefix(location.callee)
    if isinstance(location, FusedLoc):
        fused = cast(ArrayAttr[Attribute], location.locations)
        prefixes = (location_prefix(part) for part in fused)
        return next((prefix for prefix in prefixes if prefix), "")
    if isinstance(location, NameLoc):
        return f"loc({location.desc}): "
    if not isinstance(location, FileLineColLoc):
        return ""
    parts = (location.filename, location.line, location.column)
    return f"{':'.join(str(part.data) for part in parts)}: "


def locate(
    op: Operation, parser: "AttrParser", start: int, line_offset: int = 0
) -> None:
    """
    Set the location of an op without location.

    Args:
        op: an op that the parser has read.
        parser: its parser.
        start: offset of the op in the text of the parser.
        line_offset: number of lines of the file before the text.
    """
    if not isinstance(op.location, UnknownLoc):
        return
    if (known := vars(parser).get("_line_starts")) is None:
        text, starts = parser.lexer.input.content, [0]
        # Splitting the text would copy it.
        while end := text.find("\n", starts[-1]) + 1:
            starts.append(end)
        known = vars(parser)["_line_starts"] = (
            StringAttr(parser.lexer.input.name),
            starts,
        )
    file, starts = known
    line = bisect_right(starts, start)
    column = _integer_attribute(start - starts[line - 1] + 1)
    op.location = FileLineColLoc(file, _integer_attribute(line + line_offset), column)


_integer_attribute = lru_cache(IntAttr)
"""Columns repeat, and ops of a line have the same line."""


def op_name(op: Operation) -> str:
    """Return the name of an op, registered or not."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def error_summary(error: Exception) -> str:
    """Return the message of an error without the IR excerpt that follows it."""
    first, *lines = str(error).splitlines() or ("",)
    while first.endswith(":") and lines:
        first += f" {lines.pop(0)}"
    return first


def counted_names(ops: Iterable[Operation]) -> str:
    """Return distinct op names with their counts, e.g. `2 'tfl.add', 1 'tfl.mul'`."""
    counts = Counter(map(op_name, ops))
    return ", ".join(f"{count} '{name}'" for name, count in sorted(counts.items()))


def quoted(values: Iterable[object]) -> str:
    """Return the texts of values, each in quotes, separated by commas."""
    return ", ".join(f"'{value}'" for value in values)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun, e.g. `1 key` or `2 keys`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


_TEXT_LENGTH = 60
"""Maximum length of a text in messages and tables."""


def shortened_text(text: str) -> str:
    """Return a text, with the middle elided if it exceeds 60 characters."""
    if len(text) <= _TEXT_LENGTH:
        return text
    half = _TEXT_LENGTH // 2
    return f"{text[:half]}...{text[-half:]}"


_LONG_QUOTED = re.compile(r"'([^'\n]{1000,})'")


def shortened_message(message: str) -> str:
    """Elide the middle of quoted texts that have 1,000 characters or more."""
    return _LONG_QUOTED.sub(lambda match: f"'{shortened_text(match[1])}'", message)


def colored(message: str, stream: TextIO) -> str:
    """Color `error:` or `warning:` for a terminal, unless `NO_COLOR` is set."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_plain or not stream.isatty():
        return message
    return re.sub(r"\berror:|\bwarning:", "\033[1;31m\\g<0>\033[0m", message, count=1)


def table(rows: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return rows of equal length as lines of text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def located_message(op: Operation, message: str) -> str:
    """Return a message, prefixed by the op's location if known."""
    message = shortened_message(message)
    prefix = location_prefix(op.location)
    return f"{prefix}error: {message}" if prefix else message


def fail(op: Operation, message: str) -> NoReturn:
    """Raise a `PassFailedException` with a message at the location of an op."""
    message = located_message(op, message)
    op.emit_error(message, PassFailedException(message))


class Diagnostic(NamedTuple):
    """Message of the form `subject problem: found; remedy`."""

    subject: str
    """Name of the op, value or file at fault, e.g. `'quant.qcast' op`."""

    problem: str
    """Predicate of the message, e.g. `cannot be lowered`."""

    found: object
    """Offending value, or the error that names it."""

    remedy: str = ""
    """Advice to the user, or empty."""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.subject} {self.problem}: {self.found}{remedy}"


def refuse(op: Operation, problem: str, found: object, remedy: str = "") -> NoReturn:
    """Raise a `PassFailedException` with a `Diagnostic` at the location of an op."""
    fail(op, str(Diagnostic(f"'{op_name(op)}' op", problem, found, remedy)))


@contextmanager
def refusing(op: Operation, problem: str, remedy: str = "") -> Generator[None]:
    """Catch value, import and verification errors, and `refuse` the op with the error."""
    try:
        yield
    except (ValueError, ImportError, VerifyException) as e:
        refuse(op, problem, e, remedy)


def warn(message: str, place: str = "") -> None:
    """
    Print a warning of a pass to standard error.

    Args:
        message: the problem, the value found, and advice.
        place: a prefix, e.g. the `location_prefix` of the op.
    """
    text = f"{place}warning: {shortened_message(message)}"
    print(colored(text, sys.stderr), file=sys.stderr)


def fail_for_all(ops: Sequence[Operation], problem: str, remedy: str) -> NoReturn:
    """
    Fail a pass because of several ops.

    Args:
        ops: the ops at fault, which the message counts by name.
        problem: the common mistake, e.g. `quantized ops without integer form`.
        remedy: the advice.

    Raises:
        PassFailedException: with the message, at the location of the first op.
    """
    fail(ops[0], f"{problem}, found {counted_names(ops)}; {remedy}")
