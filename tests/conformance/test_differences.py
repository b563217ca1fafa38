"""The table of deliberate differences tells the truth."""

import pytest

from .checks import Conformance, agree
from .differences import DIFFERENCES, Difference

_EXAMPLES = [
    pytest.param(difference, example, id=f"{difference.name}-{i}")
    for difference in DIFFERENCES
    for i, example in enumerate(difference.examples)
]


@pytest.mark.parametrize(("difference", "example"), _EXAMPLES)
def test_is_still_a_difference(
    conformance: Conformance, difference: Difference, example: str
):
    comparison = conformance.compare(difference.subject, example)
    assert not agree(comparison)
    assert difference.explains(comparison), comparison


def test_names_are_unique():
    names = [difference.name for difference in DIFFERENCES]
    assert len(set(names)) == len(names)
