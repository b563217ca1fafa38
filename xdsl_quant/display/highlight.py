"""
MLIR text as HTML: highlighted tokens, with long constants and types shortened.

Tokens are found by a regular expression, as no library has an MLIR lexer.
"""

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

_MAX_TOKEN = 120
"""Maximum number of characters shown of a token."""

_CSS = files("xdsl_quant.display").joinpath("highlight.css")

STYLE = f"<style>\n{_CSS.read_text(encoding='utf-8')}</style>"
"""Style sheet of the token classes."""

TOKEN = re.compile(
    r"""
    (?P<c>//[^\n]*)
  | (?P<s>"(?:[^"\\\n]|\\.)*+")
  | (?P<q>!quant\.\w+<(?:[^<>\n]++|<[^<>\n]*+>)*+>)
  | (?P<alias>[!#][A-Za-z_][\w$]*+(?![\w$.<]))
  | (?P<t>[!#][A-Za-z_][\w$.]*+)
  | (?P<v>[%@^][\w$.-]++(?:[#]\d+)?)
  | (?P<dense>\bdense<[^>\n]*+>)
  | (?P<o>\b[a-z_]\w*+(?:\.[a-z_]\w*+)++)
  | \b(?:tensor|memref|vector|tuple|complex)
    (?P<shape><[\d?*x]*+(?:[su]?i\d+|b?f\d\w*|tf32|index)?)
  | \b(?:[su]?i\d+|b?f\d\w*|tf32|index|none)\b
  | (?P<n>-?\b(?:0x[0-9A-Fa-f]+|\d++(?:\.\d*+(?:[eE][-+]?\d+)?)?))
    """,
    re.VERBOSE,
)
"""Pattern of one token; the name of the last matching group is its kind."""

_CLASSES = {None: "t", "shape": "t", "alias": "q", "dense": "n"}
"""CSS class by token kind, where it differs from the name of the kind."""

_DEFINITION = re.compile(r"^([!#][A-Za-z_][\w$]*+)\s*=\s*(.*)$", re.MULTILINE)


def alias_definitions(text: str) -> dict[str, str]:
    """Return the aliases defined at the beginning of a module."""
    return {match[1]: match[2] for match in _DEFINITION.finditer(text)}


def shorten_token(text: str) -> str:
    """Shorten a long text by omitting its middle."""
    if len(text) <= _MAX_TOKEN:
        return text
    head, tail = _MAX_TOKEN * 2 // 3, _MAX_TOKEN // 6
    return f"{text[:head]} ... {text[-tail:]}"


def shorten_tokens(text: str) -> str:
    """Return IR text with long constants and types shortened."""
    return TOKEN.sub(lambda match: shorten_token(match[0]), text)


def highlight_html(text: str, aliases: Mapping[str, str]) -> str:
    """
    Return IR text as HTML, for an element of the class `xdsl-quant-ir`.

    The types in `aliases` are shown as tooltips.
    """

    def token_html(match: re.Match[str]) -> str:
        kind, title = match.lastgroup, ""
        if kind == "alias" and match[0] in aliases:
            title = f' title="{escape(shorten_token(aliases[match[0]]))}"'
        class_ = _CLASSES.get(kind, kind)
        return f'<span class="{class_}"{title}>{escape(shorten_token(match[0]))}</span>'

    parts: list[str] = []
    end = 0
    for match in TOKEN.finditer(text):
        parts += (escape(text[end : match.start()]), token_html(match))
        end = match.end()
    return "".join((*parts, escape(text[end:])))
