"""Translation of xDSL's verifier messages to MLIR's."""

import re
from collections.abc import Callable

from xdsl.ir import Operation

_POSITION = re.compile(
    r"(operand|result) '\w+' at positions? (\d+)(?: to \d+)? does not verify:\n"
    r"(?:#(\d+) )?"
)
_PROPERTY = re.compile(r"property '(\w+)' expected in operation '[\w.]+'")
_COUNT = re.compile(
    r"Expected (\d+)(?: or \d+)? (operand|result|region)s?, but got (\d+)"
)

_SINGLE = {"operand": "requires a single operand", "result": "requires one result"}


def _numbered(match: re.Match[str]) -> str:
    return f"{match[1]} #{int(match[2]) + int(match[3] or 0)} "


def _required(match: re.Match[str]) -> str:
    return f"requires attribute '{match[1]}'"


def _counted(match: re.Match[str]) -> str:
    count, what, found = match.groups()
    if count == "0":
        return f"requires zero {what}s"
    if count == "1" and what in _SINGLE:
        return _SINGLE[what]
    found = f", but found {found}" if what == "operand" else ""
    return f"expected {count} {what}s{found}"


_REWORDED: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_POSITION, _numbered),
    (_PROPERTY, _required),
    (_COUNT, _counted),
)


def mlir_message(op: Operation, message: str) -> str:
    """
    Translate a message of xDSL's verifier to MLIR's, which numbers operands and results
    instead of naming them.
    """
    for pattern, words in _REWORDED:
        message = pattern.sub(lambda match: f"'{op.name}' op {words(match)}", message)
    return message
