"""Observers: states that merge in any order, and the ranges that are made of them."""

import json
import math
import pickle
from collections.abc import Iterable
from functools import reduce
from importlib.util import find_spec, module_from_spec
from itertools import islice
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tests.unit.numerics.distributions import distributions, onnxruntime_range
from xdsl_quant.numerics import choose_parameters, measure_error
from xdsl_quant.numerics.histogram import BIN_EDGES, BINS, MIDDLE, Histogram, bins_of
from xdsl_quant.numerics.histogram_errors import SpreadValues
from xdsl_quant.numerics.observations import Observation
from xdsl_quant.numerics.observers import (
    Divergence,
    EntropyObserver,
    MeanSquaredErrorObserver,
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
    content["version"] = 1
    message = r"^unsupported version 1 of observation; expected 2$"
    with pytest.raises(ValueError, match=message):
        state.__setstate__(content)


# Histograms


def counted(values: Iterable[float]) -> tuple[int, dict[int, int]]:
    """The unit as an exponent, and the bins that are not empty, 0 for the one around 0."""
    state = observe_histogram(np.array([*values]))
    used = np.flatnonzero(state.counts)
    indices = (used - MIDDLE).tolist()
    return int(state.exponents), dict(
        zip(indices, state.counts[used].tolist(), strict=True)
    )


# Octaves below the unit have 1024, 512, 256, 128, and then 64 bins, 32 of them in all.
UP_TO_OCTAVE = [64 * 28, 64 * 28 + 128, 64 * 28 + 384, 64 * 28 + 896, 64 * 28 + 1920]


def bin_of(value: float, exponent: int) -> int:
    """The bin of a value by the definition, 0 for the one around 0."""
    part, octave = math.frexp(abs(value))
    octave = exponent - octave
    if value == 0 or octave >= 32:
        return 0
    count = max(1024 >> octave, 64)
    before = sum(max(1024 >> i, 64) for i in range(octave + 1, 32))
    return int(math.copysign(before + int((2 * part - 1) * count) + 1, value))


def test_bins():
    assert BINS == 2 * (64 * 28 + 1920) + 1
    assert counted([0.0, -0.0, 0.0]) == (-1000, {0: 3})
    top = UP_TO_OCTAVE[4]
    values = [
        1.0,
        1.0009,
        1.001,
        -1.0,
        1.9999,
        0.5,
        2.0**-32,
        2.0**-31,
        2.0**-31 * 1.01,
    ]
    expected = {-top + 1023: 1, 0: 1, 1: 2, top - 1535: 1, top - 1023: 2, top - 1022: 1}
    assert counted(values) == (1, {**expected, top: 1})
    expected = {-top + 1535: 1, 0: 3, top - 1791: 1, top - 1535: 3, top - 1024: 1}
    assert counted([2.0, *values]) == (2, {**expected, top - 1023: 1})


def test_edges():
    """Those of a module that is loaded now: edges are computed while that happens."""
    spec = find_spec("xdsl_quant.numerics.histogram")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    magnitudes = [
        2.0**-octave * (0.5 + i / (2 * count))
        for octave in reversed(range(32))
        for count in [max(1024 >> octave, 64)]
        for i in range(count)
    ]
    expected = [-1, *(-edge for edge in reversed(magnitudes)), *magnitudes, 1]
    assert module.BIN_EDGES.tolist() == BIN_EDGES.tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(deadline=None)
@given(st.data())
def test_bins_are_those_of_the_definition(dtype: type[Any], data: st.DataObject):
    """Values are far apart and close together, at both ends of a type and in between."""
    limit = data.draw(st.sampled_from([1e-40, 1e-30, 1.0, 1e30]))
    elements = st.floats(-1, 1, width=WIDTHS[np.dtype(dtype)])
    scales = hnp.arrays(np.float64, 30, elements=st.floats(-45, 0))
    values = data.draw(hnp.arrays(dtype, 30, elements=elements))
    values = (values * limit * 2.0 ** data.draw(scales)).astype(dtype)
    exponent, counts = counted(values)
    largest = float(np.abs(values).max())
    assert exponent == (max(math.frexp(largest)[1], -1000) if largest else -1000)
    bins = [bin_of(value, exponent) for value in values.tolist()]
    assert counts == {index: bins.count(index) for index in sorted(set(bins))}


@settings(deadline=None)
@given(st.integers(0, BINS - 1), st.integers(0, 40))
def test_bins_are_parts_of_bins_of_a_larger_unit(position: int, shift: int):
    values = np.zeros(3)
    low, high = BIN_EDGES[position], BIN_EDGES[position + 1]
    values[0] = 0 if position == MIDDLE else min(low, high, key=abs)
    values[1] = np.nextafter(max(low, high, key=abs), 0)
    state = observe_histogram(values[:2])
    if position == MIDDLE:
        # The unit is that of the largest value.
        state = observe_histogram(np.append(values[:2], 0.75))
    larger = observe_histogram(np.array([math.ldexp(0.75, shift)]))
    merged_state = state.merge(larger)
    expected = {bin_of(value, shift) for value in values[:2].tolist()}
    bins = set(np.flatnonzero(merged_state.counts) - MIDDLE)
    assert expected <= bins


def test_zeros():
    values = np.array([[0.0, -0.0, 1e-30, 1.0], [0.0, 2.0, -3.0, 4.0]], np.float32)
    state = observe_histogram(values)
    assert (int(state.zeros), int(state.counts[MIDDLE])) == (3, 4)
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
    assert state.exponents.tolist() == [17, 18, 19]
    assert state.counts[0, -2:].tolist() == [0, 0]
    assert state.counts[1, -1024:][:3].tolist() == [128, 128, 128]


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


def test_the_first_batch_is_batch_0():
    observer = parse_observer("moving-average")
    assert observer.observe(np.ones(2)) == observer.observe(np.ones(2), batch=0)
    assert observer.observe(np.ones(2)) != observer.observe(np.ones(2), batch=1)


def test_moving_average_of_one_batch_twice():
    state = parse_observer("moving-average").observe(np.ones(2), batch=3)
    with pytest.raises(
        ValueError, match=r"^cannot merge observations with the same batch 3$"
    ):
        state.merge(state)


def test_percentile():
    values = np.arange(-500, 501, dtype=np.float32)
    # Of 1001 values 50 are left out on each side. Bins are 1/4 wide, and then 1.
    assert ranges("percentile=90", values) == [[-450.25, 450.25]]
    assert ranges("percentile=100", values) == [[-500, 500]]
    assert ranges("percentile=0.1", values) == [[-1 - 1 / 64, 1 + 1 / 64]]
    assert ranges("percentile=90", values + 600) == [[150, 1051]]
    assert ranges("percentile=90", -values - 600) == [[-1051, -150]]


def test_percentile_leaves_out_a_spike():
    values = np.zeros(10_001, np.float32)
    values[0] = 1e6
    ((low, high),) = ranges("percentile=99.9", values)
    assert (low, high) == (0, 2.0**-12)


@pytest.mark.parametrize("outlier", [4e3, 4e4, 4e5, 4e7, -4e9])
def test_percentile_with_an_outlier(outlier: float):
    """On all other values it is as good as the exact percentile."""
    values = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    ((low, high),) = ranges("percentile=99.99", np.append(values, np.float32(outlier)))
    all_values = np.append(values, np.float32(outlier))
    exact_low, exact_high = np.percentile(all_values, [0.005, 99.995]).tolist()
    assert sqnr(values, low, high, 8) > sqnr(values, exact_low, exact_high, 8) - 0.1
    # Up to here bins are 1/32 wide.
    assert exact_low - 0.04 < low < exact_low + 0.01
    assert exact_high - 0.01 < high < exact_high + 0.04


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


def sqnr(
    values: NDArray[Any], low: float, high: float, bits: int, symmetric: bool = False
) -> float:
    parameters = choose_parameters(
        min(low, 0.0), max(high, 0.0), storage=f"i{bits}", symmetric=symmetric
    )
    return float(measure_error(values, parameters).sqnr)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [3, 4, 8, 12])
def test_mean_squared_error(bits: int, symmetric: bool):
    """No range of a finer search is noticeably better, and that of all values is worse."""
    values = np.random.default_rng(bits).laplace(size=50_000).astype(np.float32)
    values = np.where(values < -1, 0, values)
    name = f"mse={bits}{',symmetric' * symmetric}"
    ((low, high),) = ranges(name, values)
    smallest, largest = float(values.min()), float(values.max())
    assert smallest <= low < 0 < high <= largest
    found = sqnr(values, low, high, bits, symmetric)
    bounds = np.linspace(0.2, largest, 200)
    best = max(
        sqnr(values, max(-b, smallest), min(b, largest), bits, symmetric)
        for b in bounds.tolist()
    )
    assert found >= best - 0.05
    if bits < 12:
        assert found > sqnr(values, smallest, largest, bits, symmetric)


def test_mean_squared_error_of_symmetric_types():
    """All values are on one side, and half of the stored values are on the other one."""
    values = np.random.default_rng(0).lognormal(size=200_000).astype(np.float32)
    ((_, high),) = ranges("mse", values)
    ((_, high_symmetric),) = ranges("mse,symmetric", values)
    assert high_symmetric < 0.8 * high
    found, other = (sqnr(values, 0, h, 8, True) for h in (high_symmetric, high))
    assert found > other + 0.8


DISTRIBUTIONS = distributions()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_entropy_is_as_good_as_that_of_onnxruntime(name: str):
    pytest.importorskip("onnxruntime")
    values = DISTRIBUTIONS[name]
    ((low, high),) = ranges("entropy", values)
    theirs = sqnr(values, *onnxruntime_range(values), 8)
    assert sqnr(values, low, high, 8) > theirs - 0.5


@pytest.mark.parametrize("name", ["normal", "laplace"])
@pytest.mark.parametrize("count", [1000, 20_000, 200_000])
def test_entropy_is_almost_as_good_as_the_least_squared_error(name: str, count: int):
    values = DISTRIBUTIONS[name][:count]
    ((low, high),), ((mse_low, mse_high),) = (
        ranges("entropy", values),
        ranges("mse", values),
    )
    best = sqnr(values, mse_low, mse_high, 8)
    assert best - 1 < sqnr(values, low, high, 8) <= best + 0.02


@pytest.mark.sampled(5)
@pytest.mark.parametrize("bits", [2, 4, 6, 8, 12, 16])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_entropy_is_not_worse_than_all_values(name: str, bits: int):
    values = DISTRIBUTIONS[name][:50_000]
    ((low, high),) = ranges(f"entropy={bits}", values)
    whole = sqnr(values, float(values.min()), float(values.max()), bits)
    assert sqnr(values, low, high, bits) > whole - 0.1


def test_entropy_cuts_off_a_tail():
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    ((low, high),) = ranges("entropy=6", values)
    assert -4 < low < -3
    assert 3 < high < 4
    ((low, high),) = ranges("entropy=6", np.abs(values))
    assert low == 0
    assert 3 < high < 4.4


def test_entropy_of_what_is_evenly_spread():
    values = np.linspace(-1, 1, 4 * BINS, dtype=np.float32)
    assert ranges("entropy", values) == [[-1, 1]]


def test_zeros_do_not_change_the_range_of_entropy():
    values = DISTRIBUTIONS["normal"]
    for bits in (4, 8):
        expected = ranges(f"entropy={bits}", values)
        assert ranges(f"entropy={bits}", np.append(values, np.zeros(10**7))) == expected


def divergence(values: NDArray[Any], low: float, high: float, bits: int) -> float:
    """The divergence of a range by its definition, with loops over bins and levels."""
    state = observe_histogram(values)
    smallest, largest = float(state.lows), float(state.highs)
    unit = 2.0 ** float(state.exponents)
    parameters = choose_parameters(min(low, 0.0), max(high, 0.0), storage=f"i{bits}")
    scale, zero_point = float(parameters.scales), int(parameters.zero_points)
    total = int(state.counts.sum() - state.zeros)
    pieces: list[tuple[float, float, float, int]] = []
    for position in np.flatnonzero(state.counts):
        count = int(state.counts[position]) - (position == MIDDLE) * int(state.zeros)
        start = max(float(BIN_EDGES[position]) * unit, smallest)
        stop = min(float(BIN_EDGES[position + 1]) * unit, largest)
        for level in range(parameters.storage_min, parameters.storage_max + 1):
            middle = level - zero_point
            a = max(start, (middle - 0.5) * scale)
            b = min(stop, (middle + 0.5) * scale)
            if a < b and count:
                part = (b - a) / (stop - start)
                pieces.append((count * part, b - a, part, level))
    inside = sum(count for count, *_ in pieces)
    result = -math.log(inside / total)
    for level in {piece[-1] for piece in pieces}:
        middle = level - zero_point
        mine = [piece for piece in pieces if piece[-1] == level]
        count = sum(piece[0] for piece in mine)
        a = max((middle - 0.5) * scale, smallest)
        b = min((middle + 0.5) * scale, largest)
        for piece, width, _, _ in mine:
            result += piece / inside * math.log(piece / width / (count / (b - a)))
        used = sum(piece[2] for piece in mine)
        result -= max(used - 1, 0) / (2 * inside)
    return result


@pytest.mark.parametrize("sign", [1, -1])
def test_values_closest_to_the_end_of_a_bin(sign: int):
    """They are in that bin, though f32 has no number between them and its end."""
    values = sign * np.nextafter([0.5, 0.75, 1.5, 2.0], 0)
    histogram = observe_histogram(values)
    used = np.flatnonzero(histogram.counts)
    assert used.tolist() == np.sort(bins_of(values / 2)).tolist()


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [2, 8])
@pytest.mark.parametrize("name", ["normal", "relu(laplace)", "t3"])
def test_clipping_errors_are_lower_bounds(name: str, bits: int, symmetric: bool):
    """Types that are symmetric reach further below 0 than above."""
    values = SpreadValues(observe_histogram(-np.abs(DISTRIBUTIONS[name])), slice(None))
    observer = MeanSquaredErrorObserver(bits, symmetric)
    for bounds, errors in islice(observer.candidate_bounds(values), 100):
        assert errors <= values.squared_errors(observer.quantizer(values, bounds))


@pytest.mark.parametrize("channels", [1, 2])
def test_subnormal_values_are_in_the_bins_of_their_size(channels: int):
    values = np.array([[1e-40, -2e-40, 3e-40, 1e-44], [0, 0, 0, 0]], np.float32)
    values = values[:channels]
    histogram = observe_histogram(values, 0)
    larger = observe_histogram(np.ldexp(values.astype(np.float64), 100), 0)
    np.testing.assert_array_equal(histogram.counts, larger.counts)
    assert (histogram.counts[0] > 0).sum() == 4


def test_divergence_of_each_channel():
    channels = [DISTRIBUTIONS[name][:500] for name in ("normal", "relu(laplace)", "t3")]
    histogram = observe_histogram(np.stack(channels), 0)
    values = SpreadValues(histogram, slice(None))
    divergences = Divergence(values)
    observer = EntropyObserver(3)
    for fraction in (1.0, 0.5, 0.125):
        bounds = fraction * np.maximum(np.abs(values.lows), np.abs(values.highs))
        found = divergences.of(observer.quantizer(values, bounds))
        expected: list[list[float]] = []
        for channel in channels:
            bound = fraction * float(np.abs(channel).max())
            low, high = (
                max(-bound, float(channel.min())),
                min(bound, float(channel.max())),
            )
            expected.append([divergence(channel, low, high, 3)])
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bits", [3, 5])
@pytest.mark.parametrize("name", ["normal", "relu(laplace)", "t3"])
def test_entropy_has_the_least_divergence(name: str, bits: int):
    values = DISTRIBUTIONS[name][:20_000]
    ((low, high),) = ranges(f"entropy={bits}", values)
    found = divergence(values, low, high, bits)
    smallest, largest = min(0.0, float(values.min())), float(values.max())
    whole = sqnr(values, smallest, largest, bits)
    others: list[float] = []
    for i in range(0, 96, 4):
        bound = max(-smallest, largest) * 2 ** (-i / 32)
        other = max(smallest, -bound), min(largest, bound)
        if sqnr(values, *other, bits) > whole + 0.1:
            others.append(divergence(values, *other, bits))
    assert others
    assert found <= min(others) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["entropy=4", "mse=4"])
def test_types_reach_further_than_their_range(name: str):
    """The zero point is rounded, so a smaller bound may be better for one large value."""
    values = np.array([-129.0, 8504.0])
    assert ranges(name, values)[0][1] < 8504
    assert ranges(name, np.stack([values, values[::-1]]), 0) == 2 * ranges(name, values)


@pytest.mark.parametrize("name", ["entropy", "mse"])
def test_many_channels_are_like_tensors(name: str):
    """More than are looked at together."""
    values = np.random.default_rng(0).laplace(size=(70, 50)).astype(np.float32)
    expected = [ranges(name, channel)[0] for channel in values]
    assert ranges(name, values, 0) == expected


@pytest.mark.parametrize(
    "name", ["entropy", "mse", "entropy=2", "mse=2", "mse=3,symmetric"]
)
def test_ranges_contain_zero(name: str):
    assert ranges(name, np.full(5, 3.0)) == [[0, 3]]
    assert ranges(name, np.full(5, -3.0)) == [[-3, 0]]
    assert ranges(name, np.zeros(5)) == [[0, 0]]


# Mistakes


@pytest.mark.parametrize(
    ("values", "axis", "message"),
    [
        ([1, np.nan, np.inf], None, "expected finite values, found NaN"),
        ([1, np.inf], None, "expected finite values, found infinity"),
        ([-np.inf, 1], 0, "expected finite values, found infinity"),
        ([], None, r"expected at least one value, found shape \(0,\)"),
        ([1, 2], 1, r"dimension 1 is out of range for shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_values(name: str, values: list[float], axis: int | None, message: str):
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse_observer(name).observe(np.array(values, np.float32), axis)


@pytest.mark.parametrize("name", NAMES)
def test_masked_values(name: str):
    masked = np.ma.masked_greater(np.array([1.0, 2.0, 1e9]), 10)
    message = "^unsupported masked array in values"
    with pytest.raises(TypeError, match=message):
        parse_observer(name).observe(masked)


@pytest.mark.parametrize("name", NAMES)
def test_channels_that_do_not_merge(name: str):
    observer = parse_observer(name)
    three = observer.observe(np.ones((2, 3)), 1, 0)
    message = "^cannot merge observations with 3 channels and with {}$"
    with pytest.raises(ValueError, match=message.format("2 channels")):
        three.merge(observer.observe(np.ones((2, 3)), 0, 1))
    with pytest.raises(ValueError, match=message.format("no channels")):
        three.merge(observer.observe(np.ones((2, 3)), None, 1))


def test_kinds_that_do_not_merge():
    states = [parse_observer(name).observe(np.ones(2)) for name in ("min-max", "mse")]
    message = r"^cannot merge observations 'extremes' and 'histogram'$"
    with pytest.raises(ValueError, match=message):
        states[0].merge(states[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "minmax",
            "unknown observer 'minmax', available: min-max, moving-average, ",
        ),
        ("min-max=1", "observer 'min-max' takes no number, found '1'"),
        ("percentile=", "observer 'percentile' takes a number, found ''"),
        ("percentile=nan", "observer 'percentile' takes a number, found 'nan'"),
        (
            "percentile=0",
            "expected a percentile in \\(0, 100\\], found 0.0",
        ),
        (
            "percentile=100.5",
            "expected a percentile in \\(0, 100\\], found 100.5",
        ),
        (
            "moving-average=1",
            "expected a moving average weight in \\[0, 1\\), found 1.0$",
        ),
        (
            "entropy=17",
            "expected stored values of 2 to 16 bits, found 17",
        ),
        ("mse=1", "expected stored values of 2 to 16 bits, found 1"),
        ("mse=4.0", "observer 'mse' takes an integer, found '4.0'"),
        (
            "mse=4,signed",
            "observer 'mse' takes only 'symmetric' after a comma, found 'signed'",
        ),
        ("entropy, ", "observer 'entropy' takes only 'symmetric' after a comma, found"),
        (
            "percentile=90,symmetric",
            "observer 'percentile' takes nothing after a comma, found 'symmetric'",
        ),
    ],
)
def test_wrong_observers(text: str, message: str):
    with pytest.raises(ValueError, match=f"^{message}"):
        parse_observer(text)


def test_observers_are_texts():
    with pytest.raises(TypeError) as raised:
        parse_observer(3)  # pyright: ignore[reportArgumentType] the mistake
    assert (
        str(raised.value)
        == "expected the name of an observer, e.g. 'min-max', found int"
    )
