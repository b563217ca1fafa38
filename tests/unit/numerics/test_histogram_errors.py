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
from xdsl_quant.numerics.histogram_errors import EstimatedError, estimate_error
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
