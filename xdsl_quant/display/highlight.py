"""
MLIR text as HTML: kinds of tokens in colours, long constants and types cut short.

Each token is found by a regular expression, as no library has a lexer for MLIR.
"""

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

_MAX_TOKEN = 120
"""Most characters of one token that are shown."""

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
"""Matches one token; the name of the group that matches last is its kind."""

_CLASSES = {None: "t", "shape": "t", "alias": "q", "dense": "n"}
"""The style of a kind whose name is not that of its style."""

_DEFINITION = re.compile(r"^([!#][A-Za-z_][\w$]*+)\s*=\s*(.*)$", re.MULTILINE)


def alias_definitions(text: str) -> dict[str, str]:
    """The aliases that a module begins with, and what they stand for."""
    return {match[1]: match[2] for match in _DEFINITION.finditer(text)}


def cut(text: str) -> str:
    """A text without its middle if it is long."""
    if len(text) <= _MAX_TOKEN:
        return text
    head, tail = _MAX_TOKEN * 2 // 3, _MAX_TOKEN // 6
    return f"{text[:head]} ... {text[-tail:]}"


def with_cut_tokens(text: str) -> str:
    """A text of IR in which long constants and types are without their middle."""
    return TOKEN.sub(lambda match: cut(match[0]), text)


def highlighted(text: str, aliases: Mapping[str, str]) -> str:
    """
    A text of IR as HTML, to be put in an element of the class `xdsl-quant-ir`.

    `aliases` are shown when the pointer is over one of them.
    """

    def token_html(match: re.Match[str]) -> str:
        kind, title = match.lastgroup, ""
        if kind == "alias" and match[0] in aliases:
            title = f' title="{escape(cut(aliases[match[0]]))}"'
        class_ = _CLASSES.get(kind, kind)
        return f'<span class="{class_}"{title}>{escape(cut(match[0]))}</span>'

    parts: list[str] = []
    end = 0
    for match in TOKEN.finditer(text):
        parts += (escape(text[end : match.start()]), token_html(match))
        end = match.end()
    return "".join((*parts, escape(text[end:])))
