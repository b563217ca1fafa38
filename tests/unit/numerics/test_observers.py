"""Observers: states that merge in any order, and the ranges that are made of them."""

import json
import math
import pickle
from collections.abc import Iterable
from functools import reduce
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from xdsl_quant.numerics import choose_parameters, measure_error
from xdsl_quant.numerics.observations import (
    BINS,
    MAGNITUDES,
    Histogram,
    Observation,
)
from xdsl_quant.numerics.observers import (
    EntropyObserver,
    Observer,
    observe_histogram,
    parse_observer,
)

NAMES = ("min-max", "moving-average=0.75", "percentile=90", "entropy=4", "mse=4")

WIDTHS: dict[np.dtype[Any], Literal[16, 32, 64]] = {
    np.dtype(np.float16): 16,
    np.dtype(np.float32): 32,
    np.dtype(np.float64): 64,
}


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[NDArray[Any]], int | None]:
    """Some batches with three channels along an axis, or none; at all scales."""
    axis = draw(st.sampled_from([None, 0, 1]))
    dtype = draw(st.sampled_from([*WIDTHS]))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    shapes = [(3, size) if axis == 0 else (size, 3) for size in sizes]
    info = np.finfo(dtype)
    elements = st.floats(float(info.min), float(info.max), width=WIDTHS[dtype])
    return [draw(hnp.arrays(dtype, shape, elements=elements)) for shape in shapes], axis


def observed(
    observer: Observer, arrays: Iterable[NDArray[Any]], axis: int | None
) -> list[Observation]:
    return [observer.observe(array, axis, i) for i, array in enumerate(arrays)]


def merged(observations: Iterable[Observation]) -> Observation:
    return reduce(lambda one, other: one.merge(other), observations)


def ranges(
    name: str, values: NDArray[Any], axis: int | None = None
) -> list[list[float]]:
    """Pairs of bounds."""
    observer = parse_observer(name)
    lows, highs = observer.ranges(observer.observe(values, axis))
    assert lows.dtype == highs.dtype == np.float64
    return np.stack((lows, highs), -1).reshape(-1, 2).tolist()


# States


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_merging_does_not_depend_on_order(name: str, data: st.DataObject):
    arrays, axis = data.draw(batches())
    observer = parse_observer(name)
    observations = observed(observer, arrays, axis)
    expected = merged(observations)
    assert merged(data.draw(st.permutations(observations))) == expected
    middle = data.draw(st.integers(0, len(arrays)))
    parts = [part for part in (observations[:middle], observations[middle:]) if part]
    in_parts = merged(map(merged, reversed(parts)))
    assert in_parts == expected
    for one, other in zip(
        observer.ranges(in_parts), observer.ranges(expected), strict=True
    ):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", ["min-max", "percentile=90", "entropy", "mse"])
@settings(deadline=None)
@given(batches())
def test_batches_are_as_one(name: str, drawn: tuple[list[NDArray[Any]], int | None]):
    arrays, axis = drawn
    observer = parse_observer(name)
    together = np.concatenate(arrays, axis=1 if axis == 0 else 0)
    assert merged(observed(observer, arrays, axis)) == observer.observe(together, axis)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(batches())
def test_channels_are_like_tensors(
    name: str, drawn: tuple[list[NDArray[Any]], int | None]
):
    arrays, axis = drawn
    if axis is None:
        return
    observer = parse_observer(name)
    together = observer.ranges(merged(observed(observer, arrays, axis)))
    for channel in range(3):
        slices = [array.take(channel, axis) for array in arrays]
        alone = observer.ranges(merged(observed(observer, slices, None)))
        assert [bound.item() for bound in alone] == pytest.approx(
            [bounds[channel].item() for bounds in together], rel=1e-14, abs=0
        )


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(batches())
def test_states_are_kept(name: str, drawn: tuple[list[NDArray[Any]], int | None]):
    arrays, axis = drawn
    state = merged(observed(parse_observer(name), arrays, axis))
    copy = pickle.loads(pickle.dumps(state))
    assert copy == state
    text = json.dumps(state.to_json())
    again = type(state).from_json(json.loads(text))
    assert again == state
    assert json.dumps(again.to_json()) == text


@pytest.mark.parametrize("name", NAMES)
def test_states_that_differ(name: str):
    observer = parse_observer(name)
    one = observer.observe(np.array([1.0, 2.0]))
    assert one != observer.observe(np.array([1.0, 2.5]))
    assert one != observer.observe(np.array([1.0, 2.0]), 0)
    assert one != "state"


def test_version_of_a_pickle():
    state = parse_observer("min-max").observe(np.ones(2))
    content = state.__getstate__()
    content["version"] = 2
    message = r"^observation has version 2, but only version 1 is known$"
    with pytest.raises(ValueError, match=message):
        state.__setstate__(content)


# Histograms


def counted(values: Iterable[float]) -> tuple[int, dict[int, int]]:
    """The exponent of the bins, and those that are not empty."""
    state = parse_observer("percentile").observe(np.array([*values]))
    assert isinstance(state, Histogram)
    used = np.flatnonzero(state.counts)
    indices = (used - (MAGNITUDES - 1)).tolist()
    return int(state.exponents), dict(
        zip(indices, state.counts[used].tolist(), strict=True)
    )


def test_bins():
    assert counted([0.0, -0.0, 0.0]) == (-126, {0: 3})
    values = [1.0, -1.0, 1 / 1024, -1 / 1024, 0.0009, -0.0009, 0.00098, 1.9999]
    expected = {-1024: 1, -1: 1, 0: 2, 1: 2, 1024: 1, 2047: 1}
    assert counted(values) == (-10, expected)
    assert counted([2.0, *values]) == (-9, {-512: 1, 0: 5, 512: 1, 1023: 1, 1024: 1})


@settings(deadline=None)
@given(
    hnp.arrays(
        np.float64, st.integers(1, 30), elements=st.floats(-1e300, 1e300, width=64)
    )
)
def test_bins_are_those_of_the_definition(values: NDArray[np.float64]):
    exponent, counts = counted(values)
    bins = [math.trunc(math.ldexp(value, -exponent)) for value in values.tolist()]
    assert counts == {index: bins.count(index) for index in sorted(set(bins))}
    largest = max(map(abs, bins))
    assert largest < MAGNITUDES
    assert exponent == -126 or 2 * largest + 1 >= MAGNITUDES


def test_zeros():
    values = np.array([[0.0, -0.0, 1e-30, 1.0], [0.0, 2.0, -3.0, 4.0]], np.float32)
    state = observe_histogram(values)
    assert (int(state.zeros), int(state.counts[MAGNITUDES - 1])) == (3, 4)
    state = observe_histogram(values, 0)
    assert state.zeros.tolist() == [2, 1]
    assert state.merge(observe_histogram(2 * values, 0)).zeros.tolist() == [4, 2]


@settings(deadline=None)
@given(batches())
def test_one_histogram_for_all_channels(drawn: tuple[list[NDArray[Any]], int | None]):
    array = drawn[0][0]
    for axis in (0, 1):
        state = observe_histogram(array, axis)
        assert state.of_tensor == observe_histogram(array)
        for channel in range(array.shape[axis]):
            alone = observe_histogram(np.take(array, channel, axis))
            assert state.of_channel(channel) == alone
    assert observe_histogram(array).of_tensor == observe_histogram(array)


def test_all_pieces_are_counted():
    values = np.arange(300_000, dtype=np.float32).reshape(3, 1, 100_000)
    state = parse_observer("mse").observe(values, 0)
    assert isinstance(state, Histogram)
    assert state.counts.shape == (3, BINS)
    assert state.counts.sum(axis=1).tolist() == [100_000] * 3
    assert state.exponents.tolist() == [6, 7, 8]
    assert state.counts[0, MAGNITUDES - 1 : MAGNITUDES + 1].tolist() == [64, 64]


def test_channels_are_counted_apart():
    values = np.random.default_rng(0).normal(size=(5000, 40)).astype(np.float32)
    state = observe_histogram(values, 1)
    for channel in range(40):
        alone = observe_histogram(values[:, channel])
        assert state.of_channel(channel) == alone


# Ranges


def test_min_max():
    values = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
    assert ranges("min-max", values) == [[-2, 4]]
    assert ranges("min-max", values, 0) == [[-2, 3], [-1, 4]]
    assert ranges("min-max", values, 1) == [[0.5, 1], [-2, 4], [-1, 3]]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ">f4"])
def test_other_floats(dtype: Any):
    values = np.array([[1.5, -2.0], [0.5, 1.0]], dtype)
    for name in ("min-max", "percentile=100", "moving-average"):
        assert ranges(name, values) == [[-2, 1.5]]


def test_moving_average():
    observer = parse_observer("moving-average=0.75")
    arrays = [
        np.array([low, high]) for low, high in [(0.0, 4.0), (-4.0, 8.0), (8.0, 9.0)]
    ]
    lows, highs = observer.ranges(merged(observed(observer, arrays, None)))
    low, high = 0.0, 4.0
    for next_low, next_high in [(-4.0, 8.0), (8.0, 9.0)]:
        low, high = 0.75 * low + 0.25 * next_low, 0.75 * high + 0.25 * next_high
    assert (lows.item(), highs.item()) == (low, high)
    lows, highs = parse_observer("moving-average=0").ranges(
        merged(observed(parse_observer("moving-average=0"), arrays, None))
    )
    assert (lows.item(), highs.item()) == (8, 9)


def test_moving_average_of_one_batch_twice():
    state = parse_observer("moving-average").observe(np.ones(2), batch=3)
    with pytest.raises(ValueError, match=r"^batch 3 is in both observations$"):
        state.merge(state)


def test_percentile():
    values = np.arange(-500, 501, dtype=np.float32)
    # Of 1001 values 50 are left out on each side. Bins are 1/4 wide, and then 1.
    assert ranges("percentile=90", values) == [[-450.25, 450.25]]
    assert ranges("percentile=100", values) == [[-500, 500]]
    assert ranges("percentile=0.1", values) == [[-1.25, 1.25]]
    assert ranges("percentile=90", values + 600) == [[150, 1051]]
    assert ranges("percentile=90", -values - 600) == [[-1051, -150]]


def test_percentile_leaves_out_a_spike():
    values = np.zeros(10_001, np.float32)
    values[0] = 1e6
    ((low, high),) = ranges("percentile=99.9", values)
    assert (low, high) == (0, 512)


@settings(deadline=None)
@given(
    st.floats(0.5, 100),
    hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(-8, 8, width=32)),
)
def test_percentile_leaves_out_no_more(percentile: float, values: NDArray[Any]):
    ((low, high),) = ranges(f"percentile={percentile}", values)
    outside = math.floor(values.size * ((100 - percentile) / 200))
    assert np.count_nonzero(values < low) <= outside
    assert np.count_nonzero(values > high) <= outside
    assert values.min() <= low <= high <= values.max()


def squared_error(values: NDArray[Any], low: float, high: float, bits: int) -> float:
    parameters = choose_parameters(low, high, storage=f"u{bits}")
    return float(measure_error(values, parameters).mean_squared)


@pytest.mark.parametrize("bits", [3, 4, 8])
def test_mean_squared_error(bits: int):
    """No range of a finer search is noticeably better, and that of all values is worse."""
    values = np.random.default_rng(bits).laplace(size=50_000).astype(np.float32)
    ((low, high),) = ranges(f"mse={bits}", values)
    assert values.min() <= low < 0 < high <= values.max()
    found = squared_error(values, low, high, bits)
    bounds = np.linspace(0.2, float(np.abs(values).max()), 200)
    least = min(
        squared_error(values, max(-b, values.min()), min(b, values.max()), bits)
        for b in bounds.tolist()
    )
    assert found <= 1.02 * least
    assert found < squared_error(values, values.min(), values.max(), bits)


def test_entropy_cuts_off_a_tail():
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    values[:3] = 20.0
    ((low, high),) = ranges("entropy", values)
    assert low == values.min()
    assert 3 < high < 10
    ((_, high),) = ranges("entropy", np.abs(values))
    assert 3 < high < 10


def test_entropy_of_what_is_evenly_spread():
    values = np.linspace(-1, 1, 4 * BINS, dtype=np.float32)
    assert ranges("entropy", values) == [[-1, 1]]


def divergence(
    counts: NDArray[np.int64], low: float, high: float, bound: int, bits: int
) -> float:
    """The divergence of a range by its definition, with a loop over bins."""
    bins = range(max(math.trunc(low), 1 - bound), min(math.trunc(high), bound - 1) + 1)
    inside = [int(counts[i + MAGNITUDES - 1]) for i in bins]
    exact = list(inside)
    exact[0] += int(counts[: bins[0] + MAGNITUDES - 1].sum())
    exact[-1] += int(counts[bins[-1] + MAGNITUDES :].sum())
    levels = [i * 2**bits // len(bins) for i in range(len(bins))]
    stored = [0.0] * len(bins)
    for level in set(levels):
        used = [i for i in range(len(bins)) if levels[i] == level and inside[i]]
        for i in used:
            stored[i] = sum(inside[j] for j in used) / len(used)
    kept, total = sum(stored), sum(exact)
    result = 0.0
    for p, q in zip(exact, stored, strict=True):
        part = q / kept if kept else 1 / len(bins)
        if p:
            mixed = (1 - 1e-6) * part + 1e-6 / len(bins)
            result += p / total * math.log(p / total / mixed)
    return result


@pytest.mark.parametrize("bits", [2, 5, 8])
def test_divergences(bits: int):
    random = np.random.default_rng(bits)
    values = random.standard_normal((6, 400)) * [[1], [5], [0.1], [1], [1], [0]]
    values[3] = np.abs(values[3])
    values[4, :3] = 90
    state = observe_histogram(values, 0)
    lows, highs = (
        (ends / state.widths)[:, None]
        for ends in (np.minimum(state.lows, 0), np.maximum(state.highs, 0))
    )
    costs = EntropyObserver(bits).costs(state.counts.astype(np.float64))
    for bound in (MAGNITUDES, 1500, 255):
        low, high = np.maximum(lows, -bound), np.minimum(highs, bound)
        expected = [
            divergence(counts, one.item(), other.item(), bound, bits)
            for counts, one, other in zip(state.counts, low, high, strict=True)
        ]
        cost = costs(low, high, bound).tolist()
        assert cost == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["entropy", "mse"])
def test_many_channels_are_like_tensors(name: str):
    """More than are looked at together."""
    values = np.random.default_rng(0).laplace(size=(70, 50)).astype(np.float32)
    expected = [ranges(name, channel)[0] for channel in values]
    assert ranges(name, values, 0) == expected


@pytest.mark.parametrize("name", ["entropy", "mse", "entropy=2", "mse=2"])
def test_ranges_contain_zero(name: str):
    assert ranges(name, np.full(5, 3.0)) == [[0, 3]]
    assert ranges(name, np.full(5, -3.0)) == [[-3, 0]]
    assert ranges(name, np.zeros(5)) == [[0, 0]]


# Mistakes


@pytest.mark.parametrize(
    ("values", "axis", "message"),
    [
        ([1, np.nan, np.inf], None, "there are NaN among the values"),
        ([1, np.inf], None, "there are infinite values"),
        ([-np.inf, 1], 0, "there are infinite values"),
        ([], None, "there are no values"),
        ([1, 2], 1, r"there is no dimension 1 in shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_values(name: str, values: list[float], axis: int | None, message: str):
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse_observer(name).observe(np.array(values, np.float32), axis)


@pytest.mark.parametrize("name", NAMES)
def test_channels_that_do_not_merge(name: str):
    observer = parse_observer(name)
    three = observer.observe(np.ones((2, 3)), 1, 0)
    message = "^observations with 3 channels and with {} do not merge$"
    with pytest.raises(ValueError, match=message.format("2 channels")):
        three.merge(observer.observe(np.ones((2, 3)), 0, 1))
    with pytest.raises(ValueError, match=message.format("no channels")):
        three.merge(observer.observe(np.ones((2, 3)), None, 1))


def test_kinds_that_do_not_merge():
    states = [parse_observer(name).observe(np.ones(2)) for name in ("min-max", "mse")]
    message = r"^observations 'extremes' and 'histogram' do not merge$"
    with pytest.raises(ValueError, match=message):
        states[0].merge(states[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "minmax",
            "there is no observer 'minmax', use one of min-max, moving-average, ",
        ),
        ("min-max=1", "observer 'min-max' takes no number, but got '1'"),
        ("percentile=", "observer 'percentile' takes a number, but got ''"),
        ("percentile=nan", "observer 'percentile' takes a number, but got 'nan'"),
        ("percentile=0", "percentile 0.0 is not more than 0 and at most 100"),
        ("percentile=100.5", "percentile 100.5 is not more than 0 and at most 100"),
        ("moving-average=1", "weight 1.0 of a moving average is not at least 0 "),
        (
            "entropy=9",
            "an observer of stored values with 9 bits is not known, use 2 to 8",
        ),
        ("mse=1", "an observer of stored values with 1 bits is not known, use 2 to 8"),
        ("mse=4.0", "observer 'mse' takes an integer, but got '4.0'"),
    ],
)
def test_wrong_observers(text: str, message: str):
    with pytest.raises(ValueError, match=f"^{message}"):
        parse_observer(text)
