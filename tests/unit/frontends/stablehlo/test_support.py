"""The table of supported ops in the documentation."""

from tests.stablehlo_support import PAGE, lines_per_op, page_with_table, table


def test_the_page_has_the_table():
    """After a change of ops, run `python -m tests.stablehlo_support`."""
    page = PAGE.read_text()
    assert table() in page
    assert page_with_table(page) == page


def test_lines_per_op():
    """Declaration, verifier, linalg form and integer form of an op: at most 60 lines."""
    assert sum(lines_per_op().values()) <= 60
