"""Requantization with integers alone, compared with rational numbers."""

from collections.abc import Mapping
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from xdsl_quant.numerics import (
    QuantizationParameters,
    ScaleRounding,
    apply_scale,
    quantize_multiplier,
    requantize_fixed_point,
    rescale_multiplier,
)

ROUNDINGS: tuple[ScaleRounding, ...] = ("single", "double")
STORAGES = ["i1", "u1", "i4", "u4", "i8", "u8", "i16", "u16", "i31", "i32", "u32"]
SCALES = st.floats(2.0**-32, 2.0**29, exclude_max=True)


def _range(storage: str) -> tuple[int, int]:
    width = int(storage[1:])
    if storage[0] == "u":
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


# Multipliers


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1 - 2.0**-33, (1 << 30, 30)),
        (1 - 2.0**-32, (1 << 30, 30)),
        (1 - 2.0**-31, ((1 << 31) - 1, 31)),
    ],
)
def test_a_multiplier_that_is_rounded_up_to_32_bits(
    ratio: float, expected: tuple[int, int]
):
    multiplier, shift = rescale_multiplier([ratio], 1.0)
    assert (int(multiplier), int(shift)) == expected


@given(st.lists(SCALES, min_size=1, max_size=3), SCALES)
def test_a_multiplier_is_the_nearest_one(sources: list[float], target: float):
    ratio = 1 / Fraction(target)
    for source in sources:
        ratio *= Fraction(source)
    if not Fraction(1, 1 << 63) <= ratio < (1 << 29) - 1:
        return
    multiplier, shift = map(int, rescale_multiplier(sources, target))
    # Half a unit is rounded up.
    assert multiplier == floor(ratio * (1 << shift) + Fraction(1, 2))
    assert 2 <= shift <= 62
    assert multiplier < 1 << 31
    assert multiplier >= 1 << 30 or shift == 62


@given(st.floats(2.0**-63, 2.0**29 - 1))
def test_one_scale_is_rounded_as_any_number(scale: float):
    multiplier, shift = rescale_multiplier([scale], 1)
    assert (int(multiplier), int(shift)) == quantize_multiplier(scale)


def test_a_ratio_is_rounded_once():
    # As a double the ratio is the middle of two multipliers, and rounded up once more.
    source, target = 0.9954468309275418, 1.5692038748222124
    assert quantize_multiplier(source / target) == (1362286843, 31)
    assert tuple(map(int, rescale_multiplier([source], target))) == (1362286842, 31)
    ratio = Fraction(source) / Fraction(target) * (1 << 31)
    assert 1362286842 < ratio < 1362286842 + Fraction(1, 2)


def test_multipliers_of_arrays_broadcast():
    weights = np.array([[0.5, 0.1, 3.0]])
    outputs = np.array([[0.25], [0.7]])
    multipliers, shifts = rescale_multiplier([0.3, weights], outputs)
    assert (multipliers.dtype, shifts.dtype) == (np.int32, np.int8)
    assert multipliers.shape == shifts.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            single = rescale_multiplier([0.3, weights[0, j]], outputs[i, 0])
            assert (multipliers[i, j], shifts[i, j]) == tuple(map(int, single))


def test_extreme_scales():
    smallest, largest = 5e-324, np.finfo(np.float64).max
    assert tuple(map(int, rescale_multiplier([smallest, 1e5], smallest * 100000))) == (
        1 << 30,
        30,
    )
    assert tuple(map(int, rescale_multiplier([largest], largest))) == (1 << 30, 30)


@pytest.mark.parametrize(
    ("sources", "target", "error", "message"),
    [
        (
            [2.0, 3.0],
            1e-9,
            ValueError,
            r"^ratio of scales 2.0 \* 3.0 / 1e-09 is too large",
        ),
        ([1.0], 2.0**-29, ValueError, r"is too large; expected less than 2\*\*29$"),
        ([2.0**-64], 1.0, ValueError, r"is too small; expected at least 2\*\*-63$"),
        (
            [[1.0, 5e-324]],
            1.0,
            ValueError,
            "^ratio of scales 5e-324 / 1.0 is too small",
        ),
        ([1.0], 0.0, ValueError, "^expected a positive finite scale, found 0.0$"),
        ([1.0, np.nan], 1, ValueError, "^expected a positive finite scale, found nan$"),
        (
            [[1.0, 2.0]],
            [1.0] * 3,
            ValueError,
            r"^scales of shapes \(2,\), \(3,\) do not",
        ),
        (["a"], 1.0, TypeError, "^expected numbers as scales, found dtype <U1$"),
    ],
)
def test_wrong_scales(
    sources: list[Any], target: Any, error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        rescale_multiplier(sources, target)


# Requantization


def _expected(
    stored: int,
    zero_point: int,
    ratio: tuple[int, int],
    target: tuple[int, int, int],
    rounding: ScaleRounding,
) -> int:
    """By the formula, with integers of any size."""
    multiplier, shift = ratio
    value = stored - zero_point
    total = value * multiplier + (1 << (shift - 1))
    if rounding == "double" and shift > 31:
        total += 1 << 30 if value >= 0 else -(1 << 30)
    target_zero_point, low, high = target
    return min(max((total >> shift) + target_zero_point, low), high)


@st.composite
def _parameters(draw: st.DrawFn) -> QuantizationParameters:
    storage = draw(st.sampled_from(STORAGES))
    low, high = _range(storage)
    scale = draw(st.one_of(SCALES, st.floats(0.01, 10.0)))
    return QuantizationParameters(scale, draw(st.integers(low, high)), storage=storage)


def _stored_values(parameters: QuantizationParameters) -> NDArray[Any]:
    low, high = _range(parameters.storage)
    zero_point = int(parameters.zero_points)
    near = [zero_point + i for i in range(-40, 41)]
    spread = [low + (high - low) * i // 50 for i in range(51)]
    values = {value for value in (*near, *spread) if low <= value <= high}
    return np.array(sorted(values), parameters.storage_dtype)


@given(_parameters(), _parameters(), st.sampled_from(ROUNDINGS))
def test_requantization_is_the_formula(
    source: QuantizationParameters,
    target: QuantizationParameters,
    rounding: ScaleRounding,
):
    exact = Fraction(float(source.scales)) / Fraction(float(target.scales))
    values = _stored_values(source)
    if exact >= (1 << 29) - 1:
        with pytest.raises(ValueError, match="too large"):
            requantize_fixed_point(values, source, target)
        return
    result = requantize_fixed_point(values, source, target, rounding=rounding)
    assert result.dtype == target.storage_dtype
    multiplier, shift = map(int, rescale_multiplier([source.scales], target.scales))
    zero_point, low, high = (
        int(target.zero_points),
        target.storage_min,
        target.storage_max,
    )
    expected = [
        _expected(
            value,
            int(source.zero_points),
            (multiplier, shift),
            (zero_point, low, high),
            rounding,
        )
        for value in values.tolist()
    ]
    assert result.tolist() == expected
    # The bound: half a unit, a quarter with double rounding, and the multiplier's error.
    half = Fraction(1, 2) if rounding == "single" else Fraction(3, 4)
    for value, stored in zip(values.tolist(), result.tolist(), strict=True):
        real = (value - int(source.zero_points)) * exact
        wanted = min(max(real + zero_point, Fraction(low)), Fraction(high))
        assert abs(stored - wanted) <= half + abs(real) / (1 << 31) + Fraction(
            1, 1 << 31
        )


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_it_is_apply_scale_where_that_is_defined(rounding: ScaleRounding):
    source = QuantizationParameters(0.1, 10)
    target = QuantizationParameters(0.25, -5)
    multiplier, shift = rescale_multiplier([0.1], 0.25)
    values = np.arange(-128, 128).astype(np.int8)
    scaled = apply_scale(values.astype(np.int32) - 10, multiplier, shift, rounding)
    expected = np.clip(scaled - 5, -128, 127)
    result = requantize_fixed_point(values, source, target, rounding=rounding)
    assert (result == expected).all()


def test_nothing_overflows():
    low, high = _range("i32")
    values = np.array([low, low + 1, -1, 0, 1, high - 1, high], np.int32)
    for zero_point in (low, 0, high):
        same = QuantizationParameters(1.0, zero_point, storage="i32")
        for rounding in ROUNDINGS:
            result = requantize_fixed_point(values, same, same, rounding=rounding)
            assert result.tolist() == values.tolist()
    small = QuantizationParameters(1.0, low, storage="i32")
    large = QuantizationParameters(2.0**29, 0, storage="i32")
    assert requantize_fixed_point(values, small, large).tolist() == [
        0,
        0,
        4,
        4,
        4,
        8,
        8,
    ]
    # The product is just below 2**63, and half of the divisor is 2**59.
    largest = QuantizationParameters(1 - 2.0**-31, low, storage="i32")
    assert requantize_fixed_point(values[-1:], largest, large).tolist() == [8]
    unsigned = QuantizationParameters(1.0, 0, storage="u32")
    (result,) = requantize_fixed_point(values[-1:], largest, unsigned).tolist()
    assert result == _expected(
        high, low, ((1 << 31) - 1, 31), (0, *_range("u32")), "single"
    )


KINDS: Mapping[str, dict[str, Any]] = {
    "per-tensor": {"scales": 0.3, "zero_points": 4},
    "axis 0": {"scales": [0.3, 0.5], "zero_points": [1, -2], "quantized_dimension": 0},
    "axis 1": {
        "scales": [0.1, 0.2, 0.3, 0.4],
        "zero_points": [1, 2, 0, -4],
        "quantized_dimension": 1,
    },
    "blocks": {
        "scales": [[0.1, 0.2], [0.7, 1.3]],
        "zero_points": [[0, 1], [2, 3]],
        "block_sizes": {0: 1, 1: 2},
    },
}


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_all_kinds_of_parameters(source: str, target: str, order: Any):
    before = QuantizationParameters(**KINDS[source])
    after = QuantizationParameters(**KINDS[target], storage="i4", storage_min=-7)
    values = np.array([[-128, -17, 3, 4], [5, 11, 60, 127]], np.int8, order=order)
    result = requantize_fixed_point(values, before, after)

    def element(
        parameters: QuantizationParameters, i: int, j: int
    ) -> tuple[float, int]:
        index: Any = {
            "per-tensor": (),
            "axis 0": (i,),
            "axis 1": (j,),
            "blocks": (i, j // 2),
        }[source if parameters is before else target]
        return float(parameters.scales[index]), int(parameters.zero_points[index])

    for i in range(2):
        for j in range(4):
            scale, zero_point = element(before, i, j)
            target_scale, target_zero_point = element(after, i, j)
            single = requantize_fixed_point(
                values[i, j],
                QuantizationParameters(scale, zero_point),
                QuantizationParameters(
                    target_scale, target_zero_point, storage="i4", storage_min=-7
                ),
            )
            assert result[i, j] == single


def test_out_and_shapes():
    parameters = QuantizationParameters(0.5)
    values = np.array([1, 2, 3], np.int8)
    assert requantize_fixed_point(values, parameters, parameters, out=values) is values
    assert values.tolist() == [1, 2, 3]
    empty = np.empty((0, 3), np.int8)
    assert requantize_fixed_point(empty, parameters, parameters).shape == (0, 3)
    assert requantize_fixed_point(7, parameters, parameters).shape == ()
    large = np.arange(100_000).astype(np.int8).reshape(100, 1000)
    assert (requantize_fixed_point(large, parameters, parameters) == large).all()


def test_wrong_arguments():
    parameters = QuantizationParameters(0.5)
    with pytest.raises(ValueError, match=r"^unknown rounding 'up', available: "):
        requantize_fixed_point(1, parameters, parameters, rounding="up")  # pyright: ignore[reportArgumentType] the mistake
    with pytest.raises(
        ValueError, match=r"^cannot requantize from expressed type 'f32'"
    ):
        requantize_fixed_point(
            1, parameters, QuantizationParameters(0.5, expressed="f16")
        )
    with pytest.raises(TypeError, match=r"^expected stored values with dtype int8"):
        requantize_fixed_point(np.array([1], np.int16), parameters, parameters)


def _random_pair(
    rng: np.random.Generator, storages: tuple[str, str], zero_point_divisor: int
) -> list[QuantizationParameters]:
    """Two types whose ranges of expressed values are of a similar size."""
    span = float(2.0 ** rng.uniform(-4, 4))
    pair: list[QuantizationParameters] = []
    for storage in storages:
        low, high = _range(storage)
        multiplier, shift = quantize_multiplier(span / (high - low + 1))
        zero_point = int(
            rng.integers(low // zero_point_divisor, high // zero_point_divisor + 1)
        )
        scale = multiplier * 2.0**-shift
        pair.append(QuantizationParameters(scale, zero_point, storage=storage))
        span *= float(2.0 ** rng.uniform(-1, 2))
    return pair


def _nearest_even(numerator: int, denominator: int) -> int:
    """The nearest integer to a fraction; of two, the even one."""
    quotient, rest = divmod(numerator, denominator)
    is_above = 2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1)
    return quotient + is_above


@pytest.mark.parametrize(
    ("storages", "zero_point_divisor", "counts"),
    [
        (("i8", "i8"), 1, (35700, 0, 0)),
        (("i16", "i8"), 1, (35689, 0, 0)),
        (("i16", "i16"), 1, (35775, 0, 0)),
        (("i32", "i8"), 1, (35690, 0, 0)),
        (("i32", "i16"), 1, (35775, 0, 0)),
        (("i32", "i32"), 1 << 31, (45178, 6023, 1)),
        (("i32", "i32"), 1, (35776, 5349, 2)),
    ],
)
def test_how_often_it_is_the_nearest_integer(
    storages: tuple[str, str], zero_point_divisor: int, counts: tuple[int, int, int]
):
    """The numbers are those of the documentation: values in range, and what differs."""
    rng = np.random.default_rng(0)
    in_range, differing, largest = 0, 0, 0
    for _ in range(200):
        source, target = _random_pair(rng, storages, zero_point_divisor)
        low, high = _range(source.storage)
        values = rng.integers(low, high + 1, 256).astype(source.storage_dtype)
        results = requantize_fixed_point(values, source, target)
        ratio = Fraction(float(source.scales)) / Fraction(float(target.scales))
        offset = int(target.zero_points) * ratio.denominator
        for value, result in zip(values.tolist(), results.tolist(), strict=True):
            # The exact result, with the denominator of the ratio.
            real = (value - int(source.zero_points)) * ratio.numerator + offset
            lowest = target.storage_min * ratio.denominator
            if not lowest <= real <= target.storage_max * ratio.denominator:
                continue
            difference = abs(result - _nearest_even(real, ratio.denominator))
            in_range += 1
            differing += difference > 0
            largest = max(largest, difference)
    assert (in_range, differing, largest) == counts
