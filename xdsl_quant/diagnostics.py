"""Located messages: where an error is, and how a pass says so; tables of text."""

import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from xdsl.dialects.builtin import FileLineColLoc, NameLoc, UnregisteredOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException, VerifyException


def location_prefix(location: Attribute) -> str:
    """
    A location as the start of a message: `model.mlir:3:5: ` in a text, `loc("name"): ` in
    a TensorFlow Lite file; empty if unknown.
    """
    if isinstance(location, NameLoc):
        return f"loc({location.desc}): "
    if not isinstance(location, FileLineColLoc):
        return ""
    parts = (location.filename, location.line, location.column)
    return f"{':'.join(str(part.data) for part in parts)}: "


def op_name(op: Operation) -> str:
    """The name of an op, also if it is not registered."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def sentence_of(error: Exception) -> str:
    """What an error says, without the lines that follow and show the ops around."""
    first, *others = str(error).splitlines() or ("",)
    while first.endswith(":") and others:
        first += f" {others.pop(0)}"
    return first


def counted_names(ops: Iterable[Operation]) -> str:
    """The names of ops in alphabetical order, each with how many of them there are."""
    counts = Counter(map(op_name, ops))
    return ", ".join(f"{count} '{name}'" for name, count in sorted(counts.items()))


def counted(count: int, noun: str, plural: str = "") -> str:
    """E.g. `1 key` and `2 keys`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


_TEXT_LENGTH = 60
"""Messages and tables show no more than this of a long text."""


def shortened_text(text: str) -> str:
    """A text, or its beginning and end if it is long."""
    if len(text) <= _TEXT_LENGTH:
        return text
    half = _TEXT_LENGTH // 2
    return f"{text[:half]}...{text[-half:]}"


_LONG_QUOTED = re.compile(r"'([^'\n]{1000,})'")


def shortened_message(message: str) -> str:
    """A message in which types of more than 1,000 characters are shortened."""
    return _LONG_QUOTED.sub(lambda match: f"'{shortened_text(match[1])}'", message)


def table(rows: Sequence[Sequence[str]]) -> Sequence[str]:
    """The lines of a table: rows, all with as many cells, in columns as wide as needed."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def located_message(op: Operation, message: str) -> str:
    """A message about an op, after the location of the op if it is known."""
    message = shortened_message(message)
    prefix = location_prefix(op.location)
    return f"{prefix}error: {message}" if prefix else message


def fail(op: Operation, message: str) -> NoReturn:
    """
    Fail a pass because of an op.

    Raises:
        PassFailedException: with the message, after the location of the op if it is known.
    """
    message = located_message(op, message)
    op.emit_error(message, PassFailedException(message))


class Diagnostic(NamedTuple):
    """The parts of a message about one subject."""

    subject: str
    """The op, value or file with the problem, e.g. `'quant.qcast' op`."""

    problem: str
    """The mistake, as the predicate of a sentence, e.g. `cannot be lowered`."""

    found: object
    """The offending value, or the error that names it."""

    remedy: str = ""
    """Advice, if there is a choice."""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.subject} {self.problem}: {self.found}{remedy}"


def refuse(op: Operation, problem: str, found: object, remedy: str = "") -> NoReturn:
    """
    Fail a pass because of an op, with the parts of a `Diagnostic` about it.

    Raises:
        PassFailedException: with the message, after the location of the op if it is known.
    """
    fail(op, str(Diagnostic(f"'{op_name(op)}' op", problem, found, remedy)))


@contextmanager
def refusing(op: Operation, problem: str, remedy: str = "") -> Generator[None]:
    """`refuse` an op if an error of a value, a type or an import says what was found."""
    try:
        yield
    except (ValueError, ImportError, VerifyException) as e:
        refuse(op, problem, e, remedy)


def warn(message: str, place: str = "") -> None:
    """
    Print a warning of a pass to standard error.

    Args:
        message: what is unusual, what was found, and what to do.
        place: where it is, e.g. the `location_prefix` of the first of several ops.
    """
    print(f"{place}warning: {shortened_message(message)}", file=sys.stderr)


def fail_for_all(ops: Sequence[Operation], problem: str, remedy: str) -> NoReturn:
    """
    Fail a pass because of several ops.

    Args:
        ops: the ops: their names are told, how many there are, and where the first one is.
        problem: what is wrong with them, e.g. `quantized ops without integer form`.
        remedy: what to do.

    Raises:
        PassFailedException: with the message, after the location of the first op.
    """
    fail(ops[0], f"{problem}, found {counted_names(ops)}; {remedy}")
