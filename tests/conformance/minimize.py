"""Small reproductions."""

import re
from collections.abc import Callable

# A string is one token: the lexer of xDSL 0.74 takes exponential time for half of one.
_TOKEN = re.compile(r'"[^"]*"|\s+|[\w.]+|.', re.DOTALL)


def minimized(text: str, is_wrong: Callable[[str], bool], tries: int = 2000) -> str:
    """
    A text with as few lines and tokens of `text` as can be found that is still wrong.
    """
    text = "".join(_fewest(text.splitlines(keepends=True), is_wrong, tries))
    return "".join(_fewest(_TOKEN.findall(text), is_wrong, tries))


def _fewest(parts: list[str], is_wrong: Callable[[str], bool], tries: int) -> list[str]:
    """Leave out runs of parts, long ones first, as long as the text stays wrong."""
    length = len(parts) // 2
    while length and tries > 0:
        at = 0
        while at < len(parts) and tries > 0:
            shorter = parts[:at] + parts[at + length :]
            tries -= 1
            if is_wrong("".join(shorter)):
                parts = shorter
            else:
                at += length
        length //= 2
    return parts
