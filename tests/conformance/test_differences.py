"""The table of deliberate differences tells the truth."""

import pytest

from .checks import Conformance, agree
from .differences import DIFFERENCES, Difference, explanation

_EXAMPLES = [
    pytest.param(difference, example, id=f"{difference.name}-{i}")
    for difference in DIFFERENCES
    for i, example in enumerate(difference.examples)
]


@pytest.mark.parametrize(("difference", "example"), _EXAMPLES)
def test_is_still_a_difference(
    each_conformance: Conformance, difference: Difference, example: str
):
    comparison = each_conformance.compare(difference.subject, example)
    if comparison.release in difference.releases:
        assert not agree(comparison)
        assert difference.explains(comparison), comparison
    elif 22 in difference.releases:
        assert agree(comparison) or explanation(comparison, difference.subject)


def test_documentation_says_what_main_does():
    for difference in DIFFERENCES:
        assert (difference.main == "same") == (difference.releases == (22, 24))


def test_names_are_unique():
    names = [difference.name for difference in DIFFERENCES]
    assert len(set(names)) == len(names)
