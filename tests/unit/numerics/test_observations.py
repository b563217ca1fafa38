"""Observations of batches: merged, extended, saved."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xdsl_quant.numerics.histogram import BINS, MIDDLE, Histogram
from xdsl_quant.numerics.observations import BatchMinMax, MinMax


def by_batch(*batches: int) -> BatchMinMax:
    lows = np.array([[-batch, -2.0 * batch] for batch in batches])
    return BatchMinMax(lows, -lows, np.array(batches))


def test_batches_are_merged_in_their_order():
    assert by_batch(2, 7).merge(by_batch(1, 3, 9)) == by_batch(1, 2, 3, 7, 9)


@pytest.mark.parametrize("common", [1, 2, 4, 5])
def test_batches_that_are_in_both(common: int):
    message = f"^cannot merge observations with the same batch {common}$"
    with pytest.raises(ValueError, match=message):
        by_batch(1, 2, 4, 5).merge(by_batch(0, common, 9))


def test_extended_within_a_batch():
    one = MinMax(np.array([-1.0, 0.0]), np.array([2.0, 5.0]))
    other = MinMax(np.array([-3.0, 1.0]), np.array([1.0, 7.0]))
    both = MinMax(np.array([-3.0, 0.0]), np.array([2.0, 7.0]))
    assert one.extend(other) == both
    mine, theirs, expected = (
        BatchMinMax(state.lows[None], state.highs[None], np.array([4]))
        for state in (one, other, both)
    )
    assert mine.extend(theirs) == expected


@pytest.mark.parametrize(
    ("method", "class_"), [("merge", MinMax), ("extend", BatchMinMax)]
)
def test_numbers_of_channels_that_differ(
    method: str, class_: Callable[..., MinMax | BatchMinMax]
):
    two, three = (
        BatchMinMax(np.zeros((1, count)), np.ones((1, count)), np.array([0]))
        for count in (2, 3)
    )
    if class_ is MinMax:
        two, three = (MinMax(state.lows[0], state.highs[0]) for state in (two, three))
    message = "^cannot merge observations with 2 channels and with 3 channels$"
    with pytest.raises(ValueError, match=message):
        getattr(two, method)(three)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": [4, 4]}, "not in ascending order"),
        ({"batches": [4, 3]}, "not in ascending order"),
        ({"batches": [4]}, "unexpected shape"),
        ({"batches": [3.5, 4]}, "not integers"),
        ({"batches": [3, 1 << 64]}, "not integers"),
        ({"lows": [1.0, float("nan")]}, "not finite"),
        ({"lows": [1.0]}, "inconsistent ranges"),
        ({"lows": [1.0, 6.5]}, "inconsistent ranges"),
        ({"lows": [], "highs": [], "batches": []}, "inconsistent ranges"),
    ],
)
def test_saved_states_that_are_wrong(changes: dict[str, Any], message: str):
    saved = {"lows": [1.0, 6.0], "highs": [1.0, 6.0], "batches": [3, 4]}
    assert BatchMinMax.from_json(saved).to_json() == saved
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        BatchMinMax.from_json(saved | changes)


def test_saved_floats_may_be_integers():
    state = BatchMinMax.from_json({"lows": [1], "highs": [2], "batches": [0]})
    assert state.lows.dtype == state.highs.dtype == np.float64
    assert state.batches.dtype == np.int64


def test_state_of_another_class():
    content = MinMax(np.zeros(()), np.ones(())).__getstate__()
    with pytest.raises(ValueError, match="zip"):
        by_batch(1).__setstate__(content)


HISTOGRAM = {
    "lows": [0.0, -2.0],
    "highs": [1.0, 2.0],
    "exponents": [1, 2],
    "used_bins": [MIDDLE, BINS - 1024, BINS + MIDDLE - 5, BINS + MIDDLE + 5],
    "counts": [5, 1, 3, 2],
    "zeros": [4, 0],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"used_bins": [-1, MIDDLE, BINS, BINS + 1]}, "bin out of range"),
        ({"used_bins": [MIDDLE, BINS, BINS + 1, 2 * BINS]}, "bin out of range"),
        ({"used_bins": [0, 1, 2, 3, 4]}, "unexpected shape"),
        ({"used_bins": [], "counts": [], "zeros": [0, 0]}, "inconsistent histogram"),
        # No channel is without values, and no bin has less than none.
        ({"used_bins": [MIDDLE, 1, 2, 3]}, "inconsistent histogram"),
        ({"counts": [5, 1, 3, -2]}, "inconsistent histogram"),
        ({"counts": [5, 1, -3, 5]}, "inconsistent histogram"),
        ({"zeros": [6, 0]}, "inconsistent histogram"),
        ({"zeros": [4, -1]}, "inconsistent histogram"),
        ({"exponents": [1, 1]}, "inconsistent histogram"),
        ({"exponents": [2, 2]}, "inconsistent histogram"),
        ({"exponents": [1]}, "unexpected shape"),
        ({"zeros": [[4, 0]]}, "unexpected shape"),
    ],
)
def test_saved_histograms_that_are_wrong(changes: dict[str, Any], message: str):
    assert Histogram.from_json(HISTOGRAM).to_json() == HISTOGRAM
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Histogram.from_json(HISTOGRAM | changes)


@pytest.mark.parametrize("bins", [[0, BINS], [1, 2 * BINS - 1]])
def test_first_and_last_bins(bins: list[int]):
    saved = {**HISTOGRAM, "used_bins": bins, "counts": [1, 1], "zeros": [0, 0]}
    assert Histogram.from_json(saved).to_json() == saved
