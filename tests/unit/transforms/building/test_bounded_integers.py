"""The bounds of integers that are known at run time, by all operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import AnyFloat

from xdsl_quant.machines.expression import (
    Bounds,
    Direction,
    Integer,
    IntegerOperation,
    Number,
    Real,
    Truth,
    are_within,
    combined,
    signed_bounds,
    union,
)


class Recorded(Integer):
    """An integer whose ops are only counted."""

    def __init__(self, bounds: Bounds, ops: int = 0):
        self.bounds = bounds
        self.ops = ops

    def compared(self, direction: Direction, other: Number) -> Truth:
        raise NotImplementedError

    def as_float(self, type_: AnyFloat) -> Real:
        raise NotImplementedError

    def wrapped(self, bits: int = 32) -> Recorded:
        raise NotImplementedError

    def leading_zeros(self) -> Recorded:
        raise NotImplementedError

    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> Recorded:
        return Recorded(bounds, self.ops + 1)


X: Any = Recorded((-3, 5))


@pytest.mark.parametrize(
    ("result_of", "bounds", "ops"),
    [
        (lambda: X + 2, (-1, 7), 1),
        (lambda: X + 0, (-3, 5), 0),
        (lambda: 2 + X, (-1, 7), 1),
        (lambda: X - Recorded((1, 2)), (-5, 4), 1),
        (lambda: X - 0, (-3, 5), 0),
        (lambda: 1 - X, (-4, 4), 1),
        (lambda: -X, (-5, 3), 1),
        (lambda: X * -2, (-10, 6), 1),
        (lambda: X * 1, (-3, 5), 0),
        (lambda: X << 2, (-12, 20), 1),
        (lambda: X << 0, (-3, 5), 0),
        (lambda: 1 << Recorded((0, 3)), (1, 8), 1),
        (lambda: X >> 1, (-2, 2), 1),
        (lambda: X >> Recorded((0, 1)), (-3, 5), 1),
        (lambda: X & 12, (0, 12), 1),
        (lambda: Recorded((0, 5)) & 12, (0, 5), 1),
        (lambda: Recorded((0, 5)) & 6, (0, 5), 1),
        (lambda: Recorded((0, 7)) & 7, (0, 7), 0),
        (lambda: Recorded((1, 5)) & 7, (1, 5), 0),
        (lambda: Recorded((0, 8)) & 7, (0, 7), 1),
        (lambda: X.minimum(2), (-3, 2), 1),
        (lambda: X.minimum(5), (-3, 5), 0),
        (lambda: X.maximum(2), (2, 5), 1),
        (lambda: X.maximum(-3), (-3, 5), 0),
        (lambda: np.add(X, np.int64(2)), (-1, 7), 1),
    ],
)
def test_operators(result_of: Callable[[], Recorded], bounds: Bounds, ops: int):
    result = result_of()
    assert (result.bounds, result.ops) == (bounds, ops)


def test_functions_of_numpy():
    clip: Any = np.clip
    result = clip(X, np.int64(1), 2)
    assert (result.bounds, result.ops) == ((1, 2), 2)
    functions: tuple[Any, ...] = np.cbrt, np.sort
    for function in functions:
        with pytest.raises(TypeError):
            function(X, 1)


def test_bounds():
    assert signed_bounds(8) == (-128, 127)
    assert union((0, 3), (-1, 2)) == (-1, 3)
    assert are_within((0, 3), (0, 3))
    assert not are_within((0, 4), (0, 3))
    assert not are_within((-1, 3), (0, 3))
    assert combined(max, X, 1) == (1, 5)
