"""
Syntax highlighting of MLIR in the code blocks of the site, as a hook of mkdocs.

Pygments has no lexer for MLIR. This one uses the tokens of `xdsl_quant.display`, which
notebooks highlight. In blocks of the language `console`, the first line is a command; its
output is highlighted if it is MLIR.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from pygments import lexers
from pygments.lexer import Lexer
from pygments.token import Comment, Generic, Keyword, Name, Number, String, Text

from xdsl_quant.display.highlight import TOKEN

__all__ = ["MLIRLexer", "MLIRConsoleLexer"]

# Pygments has no annotations: a token type is any object of its own.
_Tokens: TypeAlias = Iterator[tuple[int, Any, str]]

_TOKEN_TYPES: dict[str | None, Any] = {
    "c": Comment.Single,
    "s": String,
    "q": Keyword.Type,
    "alias": Keyword.Type,
    "t": Keyword.Type,
    "shape": Keyword.Type,
    None: Keyword.Type,
    "v": Name.Variable,
    "o": Name.Function,
    "dense": Number,
    "n": Number,
}
"""Maps each group of the regular expression `TOKEN` to a token type of Pygments."""

_IS_MLIR = re.compile(r"builtin\.module|[!#]\w+ = ")
_COMMAND = re.compile(r"(\$ )(.*\n?)")


class MLIRLexer(Lexer):
    """Lexer for MLIR text."""

    name = "MLIR"

    def get_tokens_unprocessed(self, text: str) -> _Tokens:
        end = 0
        for match in TOKEN.finditer(text):
            if end < match.start():
                yield end, Text, text[end : match.start()]
            yield match.start(), _TOKEN_TYPES[match.lastgroup], match[0]
            end = match.end()
        if end < len(text):
            yield end, Text, text[end:]


class MLIRConsoleLexer(Lexer):
    """Lexer for a command after `$` and its output."""

    name = "Command and output"

    def get_tokens_unprocessed(self, text: str) -> _Tokens:
        start = 0
        if match := _COMMAND.match(text):
            yield 0, Generic.Prompt, match[1]
            bash: Lexer = cast(Any, lexers).get_lexer_by_name("bash")
            for index, token, value in bash.get_tokens_unprocessed(match[2]):
                yield match.start(2) + index, token, value
            start = match.end()
        output = text[start:]
        if not _IS_MLIR.match(output):
            yield start, Generic.Output, output
            return
        for index, token, value in MLIRLexer().get_tokens_unprocessed(output):
            yield start + index, token, value


def on_startup(**_: Any) -> None:
    """Make Pygments find the two lexers by their names, before mkdocs reads a page."""
    # The stubs of Pygments lack this table of module, name, aliases, files and MIME types.
    table: dict[str, tuple[object, ...]] = vars(lexers)["LEXERS"]
    table["MLIRLexer"] = (__name__, MLIRLexer.name, ("mlir",), ("*.mlir",), ())
    # This replaces the lexer of Pygments for `console`, which does not highlight outputs.
    name = MLIRConsoleLexer.name
    table["BashSessionLexer"] = (__name__, name, ("console",), (), ())
