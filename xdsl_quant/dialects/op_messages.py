"""Translation of xDSL's verifier messages to MLIR's wording."""

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


def _numbered_value(match: re.Match[str]) -> str:
    return f"{match[1]} #{int(match[2]) + int(match[3] or 0)} "


def _missing_attribute(match: re.Match[str]) -> str:
    return f"requires attribute '{match[1]}'"


def _count_mismatch(match: re.Match[str]) -> str:
    count, noun, actual = match.groups()
    if count == "0":
        return f"requires zero {noun}s"
    if count == "1" and noun in _SINGLE:
        return _SINGLE[noun]
    suffix = f", but found {actual}" if noun == "operand" else ""
    return f"expected {count} {noun}s{suffix}"


_TRANSLATIONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_POSITION, _numbered_value),
    (_PROPERTY, _missing_attribute),
    (_COUNT, _count_mismatch),
)


def mlir_message(op: Operation, message: str) -> str:
    """
    Translate a message of xDSL's verifier to MLIR's wording, e.g. `operand #0` for
    `operand 'x' at position 0`.
    """
    for pattern, words in _TRANSLATIONS:
        message = pattern.sub(lambda match: f"'{op.name}' op {words(match)}", message)
    return message
