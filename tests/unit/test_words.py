"""The words of the project stay within the limits of `tests.words`."""

from pathlib import Path

import pytest

from tests.words import LIMITS, Text, Words, docstrings, riddles


@pytest.fixture(scope="module")
def figures() -> dict[str, int]:
    return Words().figures()


def test_each_figure_has_a_limit(figures: dict[str, int]):
    assert figures.keys() == LIMITS.keys()


@pytest.mark.parametrize("figure", LIMITS)
def test_figure_is_within_its_limit(figures: dict[str, int], figure: str):
    assert figures[figure] <= LIMITS[figure], f"see: python -m tests.words '{figure}'"


def test_docstrings(tmp_path: Path):
    path = tmp_path / "m.py"
    path.write_text(
        '"""Module."""\n'
        "x = 1\n"
        '"""Attribute\n\nof two lines."""\n'
        "class C:\n"
        "    @property\n"
        "    def p(self):\n"
        '        """Property."""\n'
        "    async def f(self):\n"
        '        """Function."""\n'
        '        return "text"\n'
    )
    found = [(d.text.text[:8], d.lines, d.is_of_function) for d in docstrings(path)]
    assert sorted(found) == [
        ("Attribut", 3, False),
        ("Function", 1, True),
        ("Module.", 1, False),
        ("Property", 1, False),
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("what is multiplied", 1),
        ("# So many, and\n    # those that are made\n    # of others", 3),
        ("somewhat is, no longer, the made offer", 0),
        ("it is no longer there, but it is no constant", 1),
    ],
)
def test_riddles(text: str, count: int):
    assert len(list(riddles(Path(), [Text(Path(), 1, text)]))) == count
