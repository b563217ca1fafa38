"""Indices in loops over lanes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

lane_loops: Any = import_module("xdsl_quant.execution.scheduling.lane_loops")
LaneIndex: Any = lane_loops.LaneIndex

LANES = np.arange(32)

QUOTIENT, SUM, PRODUCT = (
    lane_loops._ARITHMETIC[f"arith.{name}"] for name in ("divsi", "addi", "muli")
)


def term(number: int) -> Any:
    """A term that is this number."""
    return lane_loops._Quotient((), number, 1)


def value(index: Any) -> NDArray[np.int64]:
    """What an index is in each lane."""
    terms = (
        factor
        * (value(LaneIndex(dict(each.terms), np.array([each.number])))[0])
        // each.divisor
        for each, factor in index.terms.items()
    )
    return sum(terms) + index.numbers


def constant(number: int) -> Any:
    return LaneIndex({}, np.full(32, number))


def numbers(least: int) -> st.SearchStrategy[int]:
    return st.integers(least, 300)


def index_of(terms: dict[int, int], first: int, step: int) -> Any:
    """A sum of multiples of numbers, and of what each lane adds."""
    factors = {term(number): factor for number, factor in terms.items()}
    return LaneIndex(factors, first + step * LANES)


def indices(least: int) -> st.SearchStrategy[Any]:
    factors = numbers(least) | st.just(32)
    terms = st.dictionaries(numbers(0), factors, max_size=2)
    return st.builds(index_of, terms, numbers(least), st.sampled_from([0, 1]))


@given(indices(-300), indices(-300))
def test_sums(left: Any, right: Any):
    np.testing.assert_array_equal(value(SUM(left, right)), value(left) + value(right))


def test_sums_of_the_same_terms():
    found = SUM(LaneIndex({term(5): 3}, LANES), LaneIndex({term(5): 4}, LANES))
    assert found.terms == {term(5): 7}


@given(indices(-300), indices(-300))
def test_products(left: Any, right: Any):
    found = PRODUCT(left, right)
    if found is None:
        # Neither is a number that is the same in all lanes.
        assert not any(each.advances(0) and not each.terms for each in (left, right))
    else:
        np.testing.assert_array_equal(value(found), value(left) * value(right))


def test_products_of_terms():
    terms = LaneIndex({term(5): 3}, np.zeros(32, np.int64))
    assert PRODUCT(terms, terms) is None
    last_differs = LaneIndex({}, np.where(LANES == 31, 2, 1))
    first_differs = LaneIndex({}, np.where(LANES == 0, 2, 1))
    assert PRODUCT(terms, last_differs) is PRODUCT(first_differs, terms) is None
    assert PRODUCT(terms, constant(2)).terms == {term(5): 6}


@given(indices(0), numbers(1))
def test_quotients(left: Any, divisor: int):
    found = QUOTIENT(left, constant(divisor))
    if found is not None:
        np.testing.assert_array_equal(value(found), value(left) // divisor)


@pytest.mark.parametrize("divisor", [1, 16, 32, 64, 96, 128])
def test_quotients_of_blocks(divisor: int):
    for number in range(9):
        block = LaneIndex({term(number): 32}, LANES)
        found = QUOTIENT(block, constant(divisor))
        np.testing.assert_array_equal(value(found), value(block) // divisor)


def test_what_is_not_divided():
    block = LaneIndex({term(1): 32}, LANES)
    for divisor in (constant(0), constant(-1), LaneIndex({}, LANES + 1), block):
        assert QUOTIENT(block, divisor) is None
    first_differs = LaneIndex({}, np.where(LANES == 0, 2, 1))
    assert QUOTIENT(block, first_differs) is None
    for dividend in (
        LaneIndex({term(1): -32}, LANES + 64),
        LaneIndex({term(1): 32}, LANES - 1),
        LaneIndex({term(1): 32}, LANES + 1),
        LaneIndex({term(1): 32}, np.where(LANES == 0, 32, 0)),
    ):
        assert QUOTIENT(dividend, constant(64)) is None


def test_terms_that_vanish_are_not_negative():
    nothing = LaneIndex({term(1): 0}, LANES)
    assert QUOTIENT(nothing, constant(4)).numbers.tolist() == (LANES // 4).tolist()
