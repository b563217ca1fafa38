"""The fallback is at most one step from exact results, and the documentation says so."""

from pathlib import Path

import pytest

from benchmarks.report import table
from benchmarks.tflite_fallback import HEADER, Row, divisions, lines, measure
from tests.unit.frontends.tflite.formulas.cases import cases

PAGE = Path(__file__).parents[5] / "docs" / "measured" / "benchmarks.md"


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return measure([*cases(), *divisions()])


@pytest.mark.sampled(0)
def test_at_most_one_step(rows: dict[str, Row]):
    assert len(rows) >= 80
    assert sum(row.values for row in rows.values()) > 69_000
    assert {row.largest_from_exact for row in rows.values()} == {0, 1}
    assert all(row.from_exact < row.values / 20 for row in rows.values())


@pytest.mark.sampled(0)
def test_table_of_the_documentation(rows: dict[str, Row]):
    assert table(HEADER, lines(rows)) in PAGE.read_text()
