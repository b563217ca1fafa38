"""
Count words of docstrings, comments, messages and pages that readers stumble over.

`python -m tests.words` prints each figure, its value and its limit.
`python -m tests.words 'FIGURE'` prints the places that the figure counts.
The unit tests fail if a figure exceeds its limit.
"""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

from tests.house import House

ROOT = Path(__file__).parents[1]

LIMITS = {
    "lines of docstrings in 1,000 lines of code": 253,
    "docstrings that begin with a clause": 0,
    "functions whose docstring begins with a noun": 15,
    "riddles in the package": 12,
    "riddles in pages": 7,
    "guides over 900 words": 0,
    "lines of README.md": 150,
    "lines of CHANGELOG.md": 140,
}
"""Largest allowed value of each figure."""

GUIDES = (
    "quantizer",
    "recipes",
    "reading_the_report",
    "calibration",
    "weights",
    "lowering",
    "tflite",
    "execution",
    "targets",
    "inspecting",
    "proving",
    "frontend_dialects",
)
"""Pages of the first level of the site."""

_CLAUSE = re.compile(
    r"(What|How|Which|Where|Why|Whether|Who|That|Those|If|When|There|It|Is|Are)\b"
)
_NOUN = re.compile(r"(The|A|An|All|Each|Every|One|Both|No|Args:|Raises:)(?=\s)")
_RIDDLE = re.compile(
    r"""\b(
        so\ many | how\ many | that\ which | as\ many\ as | those\ (that|which)
        | what\ (is|are|was|were|has|have|it|they|a|an|the|there|others?|no)
        | (is|are|be)\ told | (computed|made)\ of | (functions|arrays|code)\ of\ Python
        | (is|are)\ no(?!\ longer) | not\ otherwise
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""Relative clauses in the place of nouns, and other phrases that hide a subject."""


class Text(NamedTuple):
    """A text and its place."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        first = self.text.strip().partition("\n")[0]
        return f"{self.path.relative_to(ROOT)}:{self.line}: {first[:80]}"


class Docstring(NamedTuple):
    """A docstring, or the text after the definition of an attribute."""

    text: Text
    lines: int
    is_of_function: bool
    """True if the owner is a function, but not a property."""


def _is_function(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any("property" in ast.unparse(d) for d in node.decorator_list)


def docstrings(path: Path) -> Iterator[Docstring]:
    """Yield the docstrings of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        # Lambdas and conditional expressions have an expression as their body.
        body = getattr(node, "body", None)
        statements = cast("list[ast.stmt]", body) if isinstance(body, list) else []
        for i, statement in enumerate(statements):
            match statement:
                case ast.Expr(ast.Constant(str() as value)):
                    last = statement.end_lineno or statement.lineno
                    yield Docstring(
                        Text(path, statement.lineno, value),
                        last - statement.lineno + 1,
                        not i and _is_function(node),
                    )
                case _:
                    pass


def riddles(path: Path, texts: Sequence[Text]) -> Iterator[Text]:
    """Yield a line of each text for each riddle in it."""
    for text in texts:
        joined = re.sub(r"\s*\n\s*(# )?", " ", text.text)
        for found in _RIDDLE.finditer(joined):
            start = max(found.start() - 30, 0)
            yield Text(path, text.line, joined[start : found.end() + 40])


def _texts(path: Path) -> Iterator[Text]:
    """Yield the comments and texts of a Python file."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield Text(path, token.start[0], token.string)


def _toml_comments(path: Path) -> Sequence[Text]:
    lines = enumerate(path.read_text().splitlines(), 1)
    return [Text(path, i, line) for i, line in lines if line.startswith("#")]


class Words:
    """The words of the project."""

    @cached_property
    def sources(self) -> Sequence[Path]:
        """Python files of the package."""
        return sorted((ROOT / "xdsl_quant").rglob("*.py"))

    @cached_property
    def pages(self) -> Sequence[Path]:
        """Pages for users, without those that commands write."""
        docs = ROOT / "docs"
        pages = sorted(docs.rglob("*.md"))
        skipped = docs / "measured", docs / "upstream", docs / "images"
        pages = [p for p in pages if not any(s in p.parents for s in skipped)]
        return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages]

    @cached_property
    def docstrings(self) -> Sequence[Docstring]:
        """All docstrings of the package."""
        return [d for path in self.sources for d in docstrings(path)]

    def places(self) -> dict[str, Sequence[object]]:
        """Return the places of each figure that counts places."""
        texts = [d.text for d in self.docstrings]
        functions = [d.text for d in self.docstrings if d.is_of_function]
        guides = [ROOT / "docs" / f"{name}.md" for name in GUIDES]
        return {
            "docstrings that begin with a clause": [
                text for text in texts if _CLAUSE.match(text.text.strip())
            ],
            "functions whose docstring begins with a noun": [
                text for text in functions if _NOUN.match(text.text.strip())
            ],
            "riddles in the package": [
                place
                for path in self.sources
                for place in riddles(path, list(_texts(path)))
            ]
            + [
                place
                for path in sorted((ROOT / "xdsl_quant").rglob("*.toml"))
                for place in riddles(path, _toml_comments(path))
            ],
            "riddles in pages": [
                place
                for path in self.pages
                for number, line in enumerate(path.read_text().split("\n"), 1)
                for place in riddles(path, [Text(path, number, line)])
            ],
            "guides over 900 words": [
                path
                for path in guides
                if path.exists() and len(path.read_text().split()) > 900
            ],
        }

    def figures(self) -> dict[str, int]:
        """Return the value of each figure."""
        counts = {name: len(places) for name, places in self.places().items()}
        lines = sum(docstring.lines for docstring in self.docstrings)
        code = House.of_package().code_lines().total()
        counts["lines of docstrings in 1,000 lines of code"] = round(
            1000 * lines / code
        )
        for name in ("README.md", "CHANGELOG.md"):
            text = (ROOT / name).read_text()
            counts[f"lines of {name}"] = len(text.splitlines())
        return counts


def main(arguments: Sequence[str]) -> None:
    """Print the figures, or the places of one."""
    words = Words()
    for name in arguments:
        print(*words.places()[name], sep="\n")
    if not arguments:
        figures = words.figures()
        for name, limit in LIMITS.items():
            print(f"{name:46}{figures[name]:8,}{limit:8,}")


if __name__ == "__main__":
    main(sys.argv[1:])
