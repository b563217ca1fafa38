"""Ends of ranges that compiled code finds: batches are merged later, all at once."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from xdsl_quant.calibration import calibrate, min_max_layout
from xdsl_quant.calibration.min_max_layout import MinMaxLayout
from xdsl_quant.calibration.statistics import KeyObservation
from xdsl_quant.numerics.observations import BatchMinMax, MinMax
from xdsl_quant.numerics.observers import MinMaxObserver, MovingAverageObserver

INF = np.inf

LAYOUT = MinMaxLayout(
    ("a", "b", "c", "d"),
    ((-1, 3), (-1, 3), (2, -1), ()),
    (None, 1, 1, None),
)


def test_positions():
    assert LAYOUT.counts == [1, 3, 0, 1]
    assert LAYOUT.positions == [0, 1, 4, 4]


@pytest.mark.parametrize("axis", [2, 7])
def test_dimension_that_is_not_there(axis: int):
    assert MinMaxLayout(("a",), ((2, 3),), (axis,)).counts == [0]


@pytest.mark.parametrize(
    ("counts", "batches"), [((1,), 1024), ((1023, 1), 128), ((1 << 20,), 1)]
)
def test_max_batches(counts: tuple[int, ...], batches: int):
    shapes = tuple((count,) for count in counts)
    layout = MinMaxLayout(("a", "b")[: len(counts)], shapes, (0, 0)[: len(counts)])
    assert layout.max_batches == batches


BATCHES = [3, 5, 8]
ENDS = np.array(
    [
        [[1, -2, 5, 0, -0.0], [1, 3, 6, 1, -0.0]],
        [[INF] * 5, [-INF] * 5],
        [[-4, -1, 5, 2, INF], [2, 2, 9, 3, -INF]],
    ]
)


def observed(observer: Any) -> dict[str, KeyObservation]:
    return dict(LAYOUT.observations(observer, BATCHES, list(ENDS)))


def test_min_max():
    seen = observed(MinMaxObserver())
    assert seen == {
        "a": (None, MinMax(np.array(-4.0), np.array(2.0)), None),
        "b": (1, MinMax(np.array([-2.0, 5, 0]), np.array([3.0, 9, 3])), None),
        "d": (None, MinMax(np.array(0.0), np.array(0.0)), None),
    }
    assert not np.signbit(seen["d"].observation.lows)
    assert seen["a"].observation.lows.shape == ()


def test_batch_min_max():
    assert observed(MovingAverageObserver()) == {
        "a": (
            None,
            BatchMinMax(np.array([1.0, -4]), np.array([1.0, 2]), np.array([3, 8])),
            None,
        ),
        "b": (
            1,
            BatchMinMax(
                np.array([[-2.0, 5, 0], [-1, 5, 2]]),
                np.array([[3.0, 6, 1], [2, 9, 3]]),
                np.array([3, 8]),
            ),
            None,
        ),
        "d": (None, BatchMinMax(np.zeros(1), np.zeros(1), np.array([3])), None),
    }


TEXT = """
func.func @f(%x: tensor<?x3xf32>, %n: index, %c: i1) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %a = quant.stats_ref %x "a" : tensor<?x3xf32>
  scf.for %i = %0 to %n step %1 iter_args(%v = %a) -> (tensor<?x3xf32>) {
    %w = arith.addf %v, %x : tensor<?x3xf32>
    %b = quant.stats_ref %w "loop" : tensor<?x3xf32>
    scf.yield %b : tensor<?x3xf32>
  }
  scf.if %c {
    %d = quant.stats_ref %x "branch" : tensor<?x3xf32>
  }
  return
}
"""


def batches() -> Iterator[Any]:
    random = np.random.default_rng(0)
    for index in range(7):
        yield random.normal(size=(4, 3)).astype(np.float32), index % 3, index > 3


@pytest.mark.parametrize("observer", ["min-max", "moving-average=0.75"])
@pytest.mark.parametrize("at_once", [1, 3, 7, 100])
def test_merged_at_once(observer: str, at_once: int, monkeypatch: pytest.MonkeyPatch):
    """It does not matter how many batches are."""
    options: Any = {"observer": observer, "axes": {"a": 1, "loop": 1}}
    expected = calibrate(TEXT, batches(), **options)
    monkeypatch.setattr(min_max_layout, "_MAX_POSITIONS", at_once * 7)
    statistics = calibrate(TEXT, batches(), **options)
    assert statistics == expected
    assert statistics.to_text() == expected.to_text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("observer", ["min-max", "moving-average=0.75"])
@pytest.mark.parametrize("axes", [{}, {"a": 1, "loop": 1, "branch": 0}])
def test_as_with_values(
    observer: str, axes: dict[str, int], request: pytest.FixtureRequest
):
    """Compiled code finds the same ends as NumPy."""
    compiled = calibrate(TEXT, batches(), observer=observer, axes=axes)
    request.getfixturevalue("interpreted")
    assert calibrate(TEXT, batches(), observer=observer, axes=axes) == compiled


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-INF, "infinity")])
@pytest.mark.parametrize("axes", [{}, {"a": 1, "loop": 1}])
def test_not_finite(value: float, what: str, axes: dict[str, int]):
    """The first key that has such a value is named, and batches before do not matter."""
    bad = np.ones((4, 3), np.float32)
    bad[2, 1] = value
    message = rf"^batch 7, key 'a': expected finite values, found {what}; leave out "
    with pytest.raises(ValueError, match=message):
        calibrate(TEXT, [*batches(), (bad, 2, True)], axes=axes)
    overflow = np.full((4, 3), 3e38, np.float32)
    message = (
        r"^batch 7, key 'loop': expected finite values, found infinity; leave out "
    )
    with pytest.raises(ValueError, match=message):
        calibrate(TEXT, [*batches(), (overflow, 2, True)], axes=axes)


def test_first_key_where_one_is_seen_with_all_values():
    """Its number of channels is dynamic, so that ends are not found."""
    bad = np.full((4, 3), np.nan, np.float32)
    with pytest.raises(
        ValueError, match=r"^batch 0, key 'a': expected finite values, found NaN"
    ):
        calibrate(TEXT, [(bad, 1, True)], axes={"branch": 0})


BLOCKS = """
func.func @f(%x: tensor<?x3xf32>, %c: i1) {
  %a = quant.stats_ref %x "a" : tensor<?x3xf32>
  cf.cond_br %c, ^y(%x : tensor<?x3xf32>), ^z
^y(%h: tensor<?x3xf32>):
  %b = quant.stats_ref %h "b" : tensor<?x3xf32>
  return
^z:
  return
}
"""


@pytest.mark.parametrize("axes", [{}, {"a": 1, "b": 1}])
def test_blocks(axes: dict[str, int]):
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3) * i for i in (1, -2)]
    statistics = calibrate(BLOCKS, zip(arrays, (True, False), strict=True), axes=axes)
    assert statistics.ranges("a").layer == (-10, 5)
    assert statistics.ranges("b").layer == (0, 5)
    channels = [(0, 3), (1, 4), (2, 5)] if axes else None
    assert statistics.ranges("b").axis_ranges == channels


PART = """
func.func @f(%x: tensor<?xf32>, %n: index) {
  %0 = tensor.extract_slice %x[0] [%n] [1] : tensor<?xf32> to tensor<?xf32>
  %1 = quant.stats_ref %0 "part" : tensor<?xf32>
  return
}
"""


def test_no_values():
    values = np.ones(3, np.float32)
    assert calibrate(PART, [(values, 2)]).ranges("part").layer == (1, 1)
    message = r"^batch 1, key 'part': expected at least one value"
    with pytest.raises(ValueError, match=message):
        calibrate(PART, [(values, 2), (values, 0)])
