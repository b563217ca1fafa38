"""Primitives that expressions have forms for; their numbers are tested with formulas."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

from xdsl_quant.numerics import primitives
from xdsl_quant.numerics.primitives import PRIMITIVES


class Recorded:
    """An expression that records the primitives it is asked for, and has some of them."""

    def __init__(self, *own: str):
        self.own = own
        self.asked: list[str] = []

    def primitive(self, name: str) -> Callable[..., object] | None:
        self.asked.append(name)
        return (lambda *args: (name, *args)) if name in self.own else None


@pytest.mark.parametrize("name", PRIMITIVES)
def test_own_forms_of_all_primitives(name: str):
    expression = Recorded(name)
    assert PRIMITIVES[name](expression, 3) == (name, expression, 3)
    assert PRIMITIVES[name](3, expression) == (name, 3, expression)


def test_definitions_use_forms_of_other_primitives():
    expression: Any = Recorded("rounded_product")
    with pytest.raises(TypeError):
        # NumPy does not know the tuple that the form returns.
        primitives.doubling_high_product(expression, 3)
    assert expression.asked == ["doubling_high_product", "rounded_product"]


def test_arrays_take_the_definition():
    assert primitives.half_sum(np.array([3, -3, 4]), 2).tolist() == [3, -1, 3]
    assert primitives.saturating_shift(np.array([1, -1, 300]), 7, 16).tolist() == [
        128,
        -128,
        32767,
    ]
    assert primitives.below_largest(np.array([[1, 3], [2, 0]])).tolist() == [
        [-2, 0],
        [0, -2],
    ]
    assert primitives.stored_values(np.array([-9, 0, 9]), 2, -4, 5).tolist() == [
        -4,
        2,
        5,
    ]
    assert primitives.rounded_product(np.array([3, -3]), 1, 1).tolist() == [2, -1]


def test_checks_of_known_elements():
    with pytest.raises(ValueError, match=r"^square root of a negative number$"):
        primitives.radicand(np.array([0, -1]))
    with pytest.raises(ValueError, match=r"^division by zero$"):
        primitives.divisor(np.array([1, 0]))


def test_observers_see_their_own_thread():
    seen: list[str] = []

    def observe(name: str, _: object) -> None:
        seen.append(name)

    token = primitives.OBSERVERS.set((observe,))
    try:
        thread = Thread(target=primitives.saturated, args=(np.array([300]), 8))
        thread.start()
        thread.join()
        assert seen == []
        primitives.saturated(np.array([300]), 8)
    finally:
        primitives.OBSERVERS.reset(token)
    assert seen == ["saturated"]
