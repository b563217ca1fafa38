"""Pushed rescales, for all inputs."""

import pytest

from tests.proving.pushed import theorem


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_pushed_rescales(seed: int):
    found = theorem(seed)
    assert (found.verdict, found.details) == ("proved", "")
    assert found.claim == "pushed rescales are within their bound of unpushed ones"


@pytest.mark.parametrize(
    ("seed", "details"),
    [(3, "inputs -128, -7: 1 units, bound 1"), (4, "inputs 1, 96: 1 units, bound 1")],
)
def test_a_bound_that_is_too_small(seed: int, details: str):
    found = theorem(seed, tightened=1)
    assert (found.verdict, found.details) == ("refuted", details)
