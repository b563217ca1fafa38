"""Errors of quantization estimated from histograms, compared with measured ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from xdsl_quant.numerics import (
    QuantizationParameters,
    choose_parameters,
    measure_error,
)
from xdsl_quant.numerics.histogram import BIN_EDGES, MIDDLE, Histogram
from xdsl_quant.numerics.histogram_errors import (
    EstimatedError,
    SpreadValues,
    clipped_fraction,
    estimate_error,
)
from xdsl_quant.numerics.observers import observe_histogram

RANDOM = np.random.default_rng(0)
NORMAL = RANDOM.standard_normal(100_000).astype(np.float32)
VALUES = {
    "normal": NORMAL,
    "relu": np.maximum(NORMAL, 0),
    "laplace": RANDOM.laplace(size=100_000).astype(np.float32),
    "uniform": RANDOM.random(100_000).astype(np.float32),
    "offset": 100 + RANDOM.random(100_000).astype(np.float32),
    "negative": -1 - np.abs(NORMAL),
    "outliers": np.append(NORMAL, np.full(10, 300, np.float32)),
    "clipped": np.clip(4 * NORMAL, 0, 6),
    "large": 1e30 * NORMAL,
}


def estimated(
    values: NDArray[Any], parameters: QuantizationParameters, axis: int | None = None
) -> EstimatedError:
    return estimate_error(
        observe_histogram(values, axis),
        parameters.scales,
        parameters.zero_points,
        parameters.storage_min,
        parameters.storage_max,
    )


def parameters_for(
    values: NDArray[Any], part: float, **options: Any
) -> QuantizationParameters:
    """Parameters for a part of the range of the values, and 0."""
    low, high = float(values.min()), float(values.max())
    return choose_parameters(min(part * low, 0.0), max(part * high, 0.0), **options)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("part", [0.25, 1.0])
@pytest.mark.parametrize(
    "options",
    [
        {"storage": "i8"},
        {"storage": "u8", "symmetric": True},
        {"storage": "i4", "narrow_range": True},
        {"storage": "i16"},
    ],
)
def test_as_measured(name: str, part: float, options: dict[str, Any]):
    values = VALUES[name]
    parameters = parameters_for(values, part, **options)
    measured = measure_error(values, parameters)
    error = estimated(values, parameters)
    assert error.sqnr == pytest.approx(measured.sqnr, abs=0.25)
    assert error.saturated_fraction == pytest.approx(
        measured.saturated_fraction, abs=3e-3
    )
    assert error.channel_sqnr.tolist() == [pytest.approx(error.sqnr)]
    assert error.channel_saturated_fraction.tolist() == [error.saturated_fraction]


def test_values_of_any_size():
    """The error in decibels does not depend on a factor that is a power of two."""
    expected = estimated(NORMAL.astype(np.float64), parameters_for(NORMAL, 0.5))
    for exponent in (-90, 90, 400):
        values = np.ldexp(NORMAL.astype(np.float64), exponent)
        parameters = QuantizationParameters(
            np.ldexp(parameters_for(NORMAL, 0.5).scales, exponent),
            parameters_for(NORMAL, 0.5).zero_points,
            storage="i8",
            expressed="f64",
        )
        error = estimated(values, parameters)
        assert error.sqnr == expected.sqnr
        assert error.saturated_fraction == expected.saturated_fraction


def test_saturation_ends_between_bins():
    # A bin is 1/8 wide, and 255.5 is between two of them.
    values = np.arange(0, 300, 0.125)
    error = estimate_error(observe_histogram(values), 1.0, -128, -128, 127)
    assert error.saturated_fraction == (values >= 255.5).mean()


def test_saturation_ends_in_a_bin():
    values = np.arange(0, 300, 1 / 64)
    error = estimate_error(observe_histogram(values), 0.13, 0, 0, 255)
    exact = (values > 255.5 * 0.13).mean()
    assert error.saturated_fraction == pytest.approx(exact, abs=1 / 64 / 300)


def test_one_value():
    values = np.full(7, 3.3)
    error = estimate_error(observe_histogram(values), 1.0, 0, -128, 127)
    expected = 20 * np.log10(3.3 / 0.3)
    assert error.sqnr == pytest.approx(expected, rel=1e-12)
    error = estimate_error(observe_histogram(values), 1.0, 0, -2, 1)
    assert error.saturated_fraction == 1
    assert error.sqnr == pytest.approx(20 * np.log10(3.3 / 2.3), rel=1e-12)


def test_no_error():
    error = estimate_error(observe_histogram(np.zeros(5)), 1.0, 3, -128, 127)
    assert (error.sqnr, error.saturated_fraction) == (np.inf, 0)


def test_zeros_are_kept():
    """Other values near 0 are not taken for zeros, nor are zeros for others."""
    values = np.array([1000.0, *[0.0] * 1000])
    error = estimate_error(observe_histogram(values), 1000.0, 0, 0, 1)
    assert error.sqnr == np.inf
    values[1:] = 0.2
    error = estimate_error(observe_histogram(values), 1000.0, 0, 0, 1)
    assert error.sqnr < 50


@pytest.mark.parametrize("axis", [0, 1])
def test_channels(axis: int):
    channels = [NORMAL[:5000] * factor for factor in (1.0, 0.01, 40.0)]
    values = np.stack(channels, axis)
    parameters = choose_parameters(
        [-1, -0.02, -200], [1, 0.02, 200], quantized_dimension=axis
    )
    error = estimated(values, parameters, axis)
    measured = measure_error(values, parameters, per="channel")
    assert error.channel_sqnr == pytest.approx(measured.sqnr, abs=0.1)
    assert error.channel_saturated_fraction == pytest.approx(
        measured.saturated_fraction, abs=2e-3
    )
    whole = measure_error(values, parameters)
    assert error.sqnr == pytest.approx(whole.sqnr, abs=0.1)
    assert error.saturated_fraction == pytest.approx(whole.saturated_fraction, abs=1e-3)


def test_channels_with_one_scale():
    values = np.stack([NORMAL[:5000], 0.01 * NORMAL[:5000]])
    parameters = choose_parameters(-4, 4)
    error = estimated(values, parameters, 0)
    for channel, sqnr in zip(values, error.channel_sqnr.tolist(), strict=True):
        expected = measure_error(channel, parameters).sqnr
        assert sqnr == pytest.approx(expected, abs=0.3)


@settings(deadline=None)
@given(
    hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e3, 1e3, width=32)),
    st.sampled_from(["i4", "u8", "i16"]),
    st.booleans(),
)
@example(np.array([999, -999], np.float32), "i4", False)
@example(np.array([1e-45], np.float32), "u8", False)
def test_any_values(values: NDArray[Any], storage: str, symmetric: bool):
    """A part is a part, and values in range are not saturated."""
    # f64 has a scale for denormals of f32, too, which f32 itself has not.
    options = {"storage": storage, "symmetric": symmetric, "expressed": "f64"}
    parameters = parameters_for(values, 1.0, **options)
    error = estimated(values, parameters)
    assert error.saturated_fraction < 1e-9
    parameters = parameters_for(values, 0.3, **options)
    error = estimated(values, parameters)
    assert 0 <= error.saturated_fraction <= 1
    assert not np.isnan(error.sqnr)


def integral(
    start: float, stop: float, scale: float, first: int, last: int
) -> tuple[float, float]:
    """The mean of the squared error over a range, and the part that is saturated."""
    if start == stop:
        nearest = min(max(round(start / scale), first), last)
        limits = (first - 0.5) * scale, (last + 0.5) * scale
        outside = not limits[0] <= start <= limits[1]
        return (start - nearest * scale) ** 2, float(outside)
    error = outside = 0.0
    limits = [(level + 0.5) * scale for level in range(first, last)]
    for level, low, high in zip(
        range(first, last + 1), [-np.inf, *limits], [*limits, np.inf], strict=True
    ):
        a, b = max(start, low), min(stop, high)
        if a < b:
            ends = b - level * scale, a - level * scale
            error += (ends[0] ** 3 - ends[1] ** 3) / 3
    for a, b in (
        (start, min(stop, (first - 0.5) * scale)),
        (max(start, (last + 0.5) * scale), stop),
    ):
        outside += max(b - a, 0)
    return error / (stop - start), outside / (stop - start)


def by_definition(
    histogram: Histogram, scale: float, first: int, last: int
) -> tuple[float, float, float, int]:
    """Sums of a tensor: squares, squared errors, saturated values and values."""
    unit = 2.0 ** float(histogram.exponents)
    low, high = float(histogram.lows), float(histogram.highs)
    signal = noise = saturated = 0.0
    for position in np.flatnonzero(histogram.counts).tolist():
        count = int(histogram.counts[position])
        if position == MIDDLE:
            count -= int(histogram.zeros)
        a, b = (BIN_EDGES[position + i] * unit for i in (0, 1))
        a, b = max(float(a), low), min(float(b), high)
        error, outside = integral(a, b, scale, first, last)
        signal += count * (a * a + a * b + b * b) / 3
        noise += count * error
        saturated += count * outside
    return signal, noise, saturated, int(histogram.counts.sum())


def test_errors_are_those_of_the_definition():
    """Also of many channels, of very different sizes, some with one value only."""
    random = np.random.default_rng(1)
    count = 19
    values = random.normal(size=(count, 60)) * 4.0 ** np.arange(count)[:, None]
    values[2:4] = [[3.0], [-0.7]]
    values[5] = np.abs(values[5])
    values[6] = -np.abs(values[6])
    values[7, ::2] = 0
    scales = 4.0 ** np.arange(count) / 3.7
    zero_points = np.arange(count) - 9
    histogram = observe_histogram(values, 0)
    error = estimate_error(histogram, scales, zero_points, -5, 6)
    sums = [
        by_definition(
            histogram.of_channel(i), float(scale), -5 - zero_point, 6 - zero_point
        )
        for i, (scale, zero_point) in enumerate(
            zip(scales.tolist(), zero_points.tolist(), strict=True)
        )
    ]
    signals, noises, saturated, counts = np.array(sums).T
    assert error.channel_sqnr == pytest.approx(
        10 * np.log10(signals / noises), rel=1e-9
    )
    assert error.channel_saturated_fraction == pytest.approx(
        saturated / counts, abs=1e-9
    )
    ratio = float(signals.sum() / noises.sum())
    assert error.sqnr == pytest.approx(10 * np.log10(ratio), rel=1e-9)
    fraction = float(saturated.sum() / counts.sum())
    assert error.saturated_fraction == pytest.approx(fraction, abs=1e-9)


def test_scales_that_are_much_larger_than_all_values():
    """All values become a stored value that expresses 5000."""
    error = estimate_error(observe_histogram(np.ones(3)), 1000.0, -10, -5, 5)
    assert error.sqnr == pytest.approx(-20 * np.log10(4999), rel=1e-12)
    assert error.saturated_fraction == 1


def test_narrow_zero_points():
    values = np.array([0.25, 1.5])
    expected = estimate_error(observe_histogram(values), 0.5, 3, -128, 127)
    for zero_point in (np.uint8(3), np.array(3, np.uint8), np.int8(3)):
        error = estimate_error(observe_histogram(values), 0.5, zero_point, -128, 127)
        assert error.sqnr == expected.sqnr
        assert error.saturated_fraction == expected.saturated_fraction == 0


def test_narrow_scales():
    """Parts of a unit may be out of the range of the dtype of a scale."""
    values = np.array([1e9, 0.3])
    expected = estimate_error(observe_histogram(values), 1.0, 0, -128, 127)
    for scale in (np.float16(1), np.int8(1), 1):
        error = estimate_error(observe_histogram(values), scale, 0, -128, 127)
        assert error.channel_sqnr == expected.channel_sqnr


def test_clipping_errors():
    """Values are taken for the ends of their bins that are closer to 0."""
    values = np.array([[-1.5, -0.7, 0.0, 0.4, 0.9], [0.0, 0.1, 0.2, -0.3, 3.9]])
    histogram = observe_histogram(values, 0)
    spread = SpreadValues(histogram, slice(None))
    magnitudes = np.abs(values) / np.ldexp(1.0, histogram.exponents)[:, None]
    ends = BIN_EDGES[np.searchsorted(BIN_EDGES, magnitudes, "right") - 1]
    for bound in (0.01, 0.3, 0.5, 0.8, 2.0):
        bounds = np.array([[bound], [0.9 * bound]])
        expected = np.square(np.maximum(ends - bounds, 0)).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(
            spread.clipping_errors(bounds), expected, rtol=1e-12, atol=1e-15
        )


def test_no_values_are_cut_off_at_their_bounds():
    for value in (0.7, 1.0, 3.0, -0.7, -4.0, 1e30):
        bound = abs(value)
        with_zero = observe_histogram(np.array([value] * 3 + [0.0]))
        assert clipped_fraction(with_zero, -bound, bound) == 0
        without = observe_histogram(np.array([value] * 3))
        # Bounds are rounded.
        for part, fraction in (
            (1, 0),
            (1 - 5e-13, 0),
            (1 - 1.5e-12, 1),
            (0.5, 1),
            (2, 0),
        ):
            assert clipped_fraction(without, -bound * part, bound * part) == fraction


def test_cut_off_fraction():
    """Zeros do not count, and each channel has its own bounds."""
    count = 20
    values = np.linspace(0, 1, 4097)[None] * np.arange(1, count + 1)[:, None]
    values[:, 2049:] = 0
    values[3] = 7
    values[12] = -3
    histogram = observe_histogram(values, 0)
    lows = np.full(count, -1.0)
    highs = np.arange(1, count + 1) / 4.0
    highs[0] = 0.125
    outside = [
        np.count_nonzero((row < low) | (row > high))
        for row, low, high in zip(values, lows, highs, strict=True)
    ]
    expected = sum(outside) / np.count_nonzero(values)
    assert clipped_fraction(histogram, lows, highs) == pytest.approx(expected, rel=1e-3)
    assert clipped_fraction(histogram, -7.0, 20.0) == 0
    mirrored = observe_histogram(-values, 0)
    fraction = clipped_fraction(mirrored, -highs, -lows)
    assert fraction == pytest.approx(expected, rel=1e-3)
    assert clipped_fraction(observe_histogram(np.zeros(5)), 1.0, 2.0) == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_values_of_the_outermost_bin_that_are_cut_off(sign: int):
    """They are spread between the largest one and the end of the bin."""
    bin_end, part = BIN_EDGES[-2], 2.0**-14
    values = sign * (bin_end + part * np.arange(8))
    histogram = observe_histogram(values)
    assert histogram.counts.max() == 8
    for bound, fraction in (
        (bin_end - part, 1),
        (bin_end + 1.75 * part, 0.75),
        (bin_end + 3.5 * part, 0.5),
        (bin_end + 7 * part, 0),
        (bin_end + 7.5 * part, 0),
        (1.0, 0),
        (2.0, 0),
    ):
        assert clipped_fraction(histogram, -bound, bound) == fraction


def test_part_of_one_value_that_is_cut_off():
    assert clipped_fraction(observe_histogram(np.array([0.0, 2.0])), -1, 1) == 1
    values = np.array([[1.0, 1.0], [3.0, 3.0], [-3.0, -3.0]])
    histogram = observe_histogram(values, 0)
    assert clipped_fraction(histogram, -2.0, 2.0) == 2 / 3
    assert clipped_fraction(histogram, [-2.0, -2, -4], [2.0, 2, 4]) == 1 / 3
    assert clipped_fraction(histogram, [2.0, 2, -4], [4.0, 4, 4]) == 1 / 3
