"""Error measures are what their definitions say."""

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.numerics.cases import full
from xdsl_quant.numerics import (
    QuantizationError,
    QuantizationParameters,
    dequantize,
    measure_error,
    quantize,
)
from xdsl_quant.numerics.arithmetic import ROUNDING_MODES

RANDOM = np.random.default_rng(0)
SHAPE = (6, 40, 64)
VALUES = (RANDOM.standard_normal(SHAPE) * 10).astype(np.float32)
LAYER = QuantizationParameters(0.1, 3)
AXIS = QuantizationParameters(
    np.linspace(0.05, 0.3, 40), RANDOM.integers(-9, 9, 40), quantized_dimension=1
)
BLOCKS = QuantizationParameters(
    np.linspace(0.05, 0.3, 6 * 16).reshape(6, 1, 16), block_sizes={0: 1, 2: 4}
)


def _measures(
    parameters: QuantizationParameters, mode: Any, axes: tuple[int, ...], split: bool
) -> list[NDArray[Any]]:
    """The definitions, on whole arrays."""
    stored = quantize(VALUES, parameters, rounding_mode=mode)
    back = dequantize(stored, parameters, rounding_mode=mode)
    exact = VALUES.astype(np.float64)
    errors = back.astype(np.float64) - exact
    scales, zero_points = full(parameters, SHAPE)
    scaled = VALUES / scales.astype(np.float32) + zero_points.astype(np.float32)
    if mode == "nearest-even":
        rounded = np.rint(scaled)
    elif mode == "truncate":
        rounded = np.trunc(scaled)
    else:
        rounded = np.trunc(scaled.astype(np.float64) + np.copysign(0.5, scaled))
    saturated = (rounded < -128) | (rounded > 127)
    if split:
        errors, exact, saturated = (
            array.reshape(6, 40, 16, 4) for array in (errors, exact, saturated)
        )
    return [
        np.abs(errors).max(axes),
        np.abs(errors).mean(axes),
        (errors**2).mean(axes),
        10 * np.log10((exact**2).sum(axes) / (errors**2).sum(axes)),
        saturated.mean(axes),
    ]


def _fields(error: QuantizationError) -> list[Any]:
    return [
        error.max_absolute,
        error.mean_absolute,
        error.mean_squared,
        error.sqnr,
        error.saturated_fraction,
    ]


@pytest.mark.parametrize("mode", ROUNDING_MODES)
@pytest.mark.parametrize("parameters", [LAYER, AXIS, BLOCKS])
def test_errors_of_a_tensor(parameters: QuantizationParameters, mode: Any):
    actual = _fields(measure_error(VALUES, parameters, rounding_mode=mode))
    assert all(type(measure) is float for measure in actual)
    expected = _measures(parameters, mode, (0, 1, 2), False)
    assert np.allclose(actual, expected, rtol=1e-12)
    assert 0 < actual[4] < 1


@pytest.mark.parametrize("parameters", [QuantizationParameters(0.1), LAYER])
def test_errors_of_many_values(parameters: QuantizationParameters):
    """They are measured piece by piece."""
    measured = measure_error(VALUES, parameters)
    repeated = measure_error(np.tile(VALUES, (20, 1, 1)), parameters)
    assert np.allclose(_fields(repeated), _fields(measured), rtol=1e-12)


@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_errors_of_channels_and_blocks(mode: Any):
    actual = measure_error(VALUES, AXIS, per="channel", rounding_mode=mode)
    expected = _measures(AXIS, mode, (0, 2), False)
    for a, b in zip(_fields(actual), expected, strict=True):
        assert a.shape == (40,)
        assert np.allclose(a, b, rtol=1e-12)
    actual = measure_error(VALUES, BLOCKS, per="block", rounding_mode=mode)
    expected = _measures(BLOCKS, mode, (1, 3), True)
    for a, b in zip(_fields(actual), expected, strict=True):
        assert a.shape == (6, 1, 16)
        assert np.allclose(a[:, 0], b, rtol=1e-12)


def test_zero_point_order():
    # The second value becomes 2 if the zero point is added before rounding.
    parameters = QuantizationParameters(1, 1, storage_max=1)
    before = measure_error([-0.25, 0.5], parameters)
    assert before.saturated_fraction == 0.5
    after = measure_error([-0.25, 0.5], parameters, zero_point_order="after-rounding")
    assert after.saturated_fraction == 0
    # 2 - 3 and 3 - 3.
    parameters = QuantizationParameters(1, 3)
    before = measure_error([-0.5], parameters)
    assert (before.max_absolute, before.sqnr) == (0.5, 0)
    after = measure_error([-1.5], parameters, zero_point_order="after-rounding")
    assert after.max_absolute == 0.5


def test_order_in_memory_does_not_matter():
    transposed = QuantizationParameters(
        AXIS.scales, AXIS.zero_points, quantized_dimension=1
    )
    values = np.asfortranarray(VALUES)
    actual = _fields(measure_error(values, transposed, per="channel"))
    expected = _fields(measure_error(VALUES, AXIS, per="channel"))
    for a, b in zip(actual, expected, strict=True):
        assert np.allclose(a, b, rtol=1e-12)


def test_exact_values():
    error = measure_error([1.0, -2.0, 0.5], QuantizationParameters(0.5))
    assert _fields(error) == [0, 0, 0, math.inf, 0]
    assert measure_error([0.0], QuantizationParameters(0.5)).sqnr == math.inf


def test_known_values():
    # 0.25 becomes 0, 100 becomes 7 and -0.75 becomes -1.
    error = measure_error(
        [0.25, 100, -0.75, 3], QuantizationParameters(1, storage="i4")
    )
    signal = 0.25**2 + 100**2 + 0.75**2 + 3**2
    assert _fields(error) == pytest.approx(
        [
            93,
            93.5 / 4,
            (93**2 + 2 * 0.25**2) / 4,
            10 * math.log10(signal / (93**2 + 2 * 0.25**2)),
            0.25,
        ],
        rel=1e-14,
    )


def test_saturation_begins_after_rounding():
    values = [7.5, 7.4, -8.5, -8.6]
    parameters = QuantizationParameters(1, storage="i4")
    # Halves are rounded to even: 7.5 to 8, which is out of range, and -8.5 to -8.
    assert measure_error(values, parameters).saturated_fraction == 0.5
    away = measure_error(values, parameters, rounding_mode="nearest-away")
    assert away.saturated_fraction == 0.75
    truncated = measure_error(values, parameters, rounding_mode="truncate")
    assert truncated.saturated_fraction == 0


def test_nan_and_infinity():
    parameters = QuantizationParameters([1, 1, 1], quantized_dimension=0)
    error = measure_error(
        [[1, math.nan], [1, math.inf], [1, 1.25]], parameters, per="channel"
    )
    assert np.isnan(error.max_absolute).tolist() == [True, False, False]
    assert np.isnan(error.mean_absolute).tolist() == [True, False, False]
    assert np.isnan(error.sqnr).tolist() == [True, True, False]
    assert error.mean_squared.tolist()[1:] == [math.inf, 0.03125]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] an array
    assert error.saturated_fraction.tolist() == [0.5, 0.5, 0]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] an array


@pytest.mark.parametrize(
    ("values", "scale", "least"),
    [
        # Squares of values are infinite, and those of errors are not, or are, too.
        ([1e160, 3e159], 1.1e152, -10),
        ([1e300, 3e299], 7e299, -10),
        # Only those of errors are infinite, or 0.
        ([1.0], 1e160, 1),
        ([1.0, 1e-200], 1.0, -10),
        # All are 0.
        ([1e-200], 3e-200, -10),
    ],
)
def test_squares_that_f64_does_not_hold(values: list[float], scale: float, least: int):
    parameters = QuantizationParameters(
        scale, storage="i32", storage_min=least, expressed="f64"
    )
    error = measure_error(values, parameters)
    assert error.max_absolute > 0
    assert math.isnan(error.sqnr)  # pyright: ignore[reportArgumentType] a float


def test_ratios_of_nothing():
    # Zeros become 1.
    parameters = QuantizationParameters(1.0, storage_min=1)
    assert measure_error([0.0], parameters).sqnr == -math.inf
    # Whether there is no error does not depend on squares.
    parameters = QuantizationParameters(2.0**600, storage="i32", expressed="f64")
    assert measure_error([2.0**600], parameters).sqnr == math.inf


def test_scalar():
    assert measure_error(0.25, QuantizationParameters(1)).max_absolute == 0.25


def test_memory_is_a_part_of_the_input():
    values = np.ones((2048, 2048), np.float32)
    tracemalloc.start()
    measure_error(values, QuantizationParameters(0.3))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.2 * values.nbytes


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: measure_error([], LAYER),
            ValueError,
            "expected at least one value, found an empty array",
        ),
        (
            lambda: measure_error([1.0], LAYER, per="channel"),
            ValueError,
            "per='channel' requires parameters with a quantized_dimension",
        ),
        (
            lambda: measure_error(VALUES, AXIS, per="block"),
            ValueError,
            "per='block' requires parameters with block_sizes",
        ),
        (
            lambda: measure_error(VALUES, AXIS, per="row"),  # pyright: ignore[reportArgumentType] the mistake
            ValueError,
            "unknown scope 'row', available: 'tensor', 'channel', 'block'",
        ),
        (
            lambda: measure_error(VALUES.astype(np.float64), AXIS),
            TypeError,
            "expected expressed values with dtype float32, found float64",
        ),
    ],
)
def test_mistakes(call: Callable[[], object], error: type[Exception], message: str):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message
