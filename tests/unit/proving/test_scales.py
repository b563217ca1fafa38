"""What holds of `apply_scale`, and what does not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.proving.scales import ScaleProver


@pytest.mark.parametrize("shift", [2, 31, 32, 39, 62])
def test_roundings_are_near_what_is_exact(shift: int):
    prover = ScaleProver(shift)
    assert {theorem.verdict for theorem in prover.theorems()} == {"proved"}
    less = Fraction(49, 100)
    assert prover.is_near("single", less).verdict == "refuted"
    is_twice = shift > 31
    expected = "refuted" if is_twice else "proved"
    assert prover.is_near("double", Fraction(1, 2)).verdict == expected
    assert prover.differ_by_at_most(0).verdict == expected
    assert prover.bound("double") == Fraction(1, 2) + (
        Fraction(1 << 30, 1 << shift) if is_twice else 0
    )
