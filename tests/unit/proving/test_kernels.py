"""The distance of integer kernels from what is exact."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.proving.kernels import (
    EXACT,
    STABLEHLO,
    TFL,
    Draw,
    Kernel,
    Parameters,
    all_distances,
    distances,
)


def kernel(op: str) -> tuple[str, Kernel]:
    """The kernel of an op, for 4 bits if it is StableHLO's."""
    dialect, _, name = op.partition(".")
    kernels = STABLEHLO if dialect == "stablehlo" else TFL
    (found,) = (k for k in kernels if k.op.partition(" ")[0] == name)
    return dialect, replace(found, storages=("i4",)) if kernels is STABLEHLO else found


@pytest.mark.parametrize(
    "op",
    [
        *("stablehlo.add", "stablehlo.multiply", "stablehlo.abs", "stablehlo.tanh"),
        *("tfl.logistic", "tfl.hard_swish", "tfl.leaky_relu", "tfl.gelu", "tfl.rsqrt"),
    ],
)
def test_kernels_are_near_what_is_exact(op: str):
    dialect, found = kernel(op)
    total, _ = all_distances(dialect, found, 2)
    assert 0 < total.inputs
    assert total.largest <= found.bound
    if found.bound == EXACT:
        assert not total.misrounded


@pytest.mark.parametrize(
    "wrong",
    [
        Kernel("add", lambda x, y: x + y + Fraction(1, 50), EXACT, 2),
        Kernel("add", lambda x, y: x - y, EXACT, 2),
        Kernel("multiply", lambda x, y: x * y * Fraction(101, 100), EXACT, 2),
        Kernel("negate", lambda x: x, EXACT),
    ],
)
def test_another_function_is_not_near(wrong: Kernel):
    found, _ = all_distances("stablehlo", replace(wrong, storages=("i4",)), 2)
    assert found.largest > EXACT


def test_distances():
    # A fourth is rounded up from 2 of 4 on, and to 7 in the end.
    identity = kernel("stablehlo.uniform_quantize")[1]
    source, target = Parameters("i4", 0.25, 0), Parameters("i4", 1.0, 6)
    found = distances(Draw(identity, "stablehlo", [source], target))
    assert found == (16, Fraction(1, 2), 0, [-6])
    (bad,) = (replace(k, op=identity.op) for k in [Kernel("", lambda x: x + 1, EXACT)])
    found = distances(Draw(bad, "stablehlo", [source], target))
    assert (found.inputs, found.largest) == (16, Fraction(5, 4))
    assert found.misrounded
    # What is not defined is left out.
    root = kernel("stablehlo.rsqrt")[1]
    assert distances(Draw(root, "stablehlo", [source], target)).inputs == 7
