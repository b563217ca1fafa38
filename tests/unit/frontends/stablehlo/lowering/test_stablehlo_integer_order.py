"""
Ops that order, choose or compare values of different scales, with integers: checked against
NumPy's rescaling, exact rational arithmetic, floats, and real StableHLO.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.real_stablehlo import RealStableHLO
from tests.unit.frontends.stablehlo.lowering.stablehlo_evaluation import (
    FLOAT_MEANING,
    evaluate,
)
from tests.unit.frontends.stablehlo.lowering.stablehlo_programs import (
    elementwise,
    function,
    quantization,
    stored_values,
    tensor,
)
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, requantize_fixed_point
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

Array = NDArray[Any]

TO_INTEGER = "stablehlo-legalize-quant-to-integer"
TO_LINALG = f"{TO_INTEGER},convert-stablehlo-to-linalg"
TO_QDQ = "stablehlo-legalize-quantized-op-to-qdq"

SHAPE = (16, 16)

KINDS = {
    "i8": [quantization("i8", s, z) for s, z in ((0.3, 3), (0.11, -50), (0.37, 20))],
    "u8": [quantization("u8", s, z) for s, z in ((0.3, 128), (0.5, 9), (0.41, 77))],
    "ui8": [quantization("ui8", s, z) for s, z in ((0.3, 128), (0.5, 9), (0.41, 77))],
    "i4": [quantization("i4", s, z) for s, z in ((0.3, 3), (0.11, -5), (0.2, 2))],
    "i16": [quantization("i16", s, z) for s, z in ((1e-4, 300), (3e-4, 0), (2e-4, -9))],
    "i32": [
        quantization("i32", s, z) for s, z in ((0.3, 1 << 30), (0.11, 0), (1.0, 5))
    ],
}


def rescaled(
    stored: Array, source: QuantizationParameters, target: QuantizationParameters
) -> Array:
    if source == target:
        return stored
    return requantize_fixed_point(stored, source, target)


def _clamp(low: Array, value: Array, high: Array) -> Array:
    return np.minimum(np.maximum(value, low), high)


OPS: dict[str, Callable[..., Array]] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "clamp": _clamp,
}


def run(text: str, *arguments: Array) -> Array:
    """The result, which is the same interpreted and compiled."""
    module = parse_module(text)
    apply_passes(module, TO_LINALG)
    # Nothing but integers is computed with.
    assert not any(op.name.endswith("f") for op in module.walk())
    result = np.asarray(run_function(module, "f", *arguments)[0])
    np.testing.assert_array_equal(compile(module, "f")(*arguments), result)
    return result


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", OPS)
def test_operands_are_rescaled(op: str, kind: str):
    first, second, third = KINDS[kind]
    operands = [first, second, third][: 3 if op == "clamp" else 2]
    for result in (third, first):
        stored = [stored_values(i, SHAPE, p) for i, p in enumerate(operands)]
        actual = run(elementwise(op, SHAPE, operands, result), *stored)
        expected = OPS[op](
            *(rescaled(x, p, result) for x, p in zip(stored, operands, strict=True))
        )
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


def test_bounds_of_a_clamp_that_are_scalars():
    first, second, third = KINDS["i8"]
    text = function(
        [tensor((), second), tensor((4,), first), tensor((), third)],
        tensor((4,), third),
        "stablehlo.clamp %0, %1, %2",
    )
    low, high = np.array(-40, np.int8), np.array(40, np.int8)
    values = np.array([-128, 0, 20, 127], np.int8)
    expected = _clamp(
        rescaled(low, second, third),
        rescaled(values, first, third),
        high,
    )
    assert run(text, low, values, high).tolist() == expected.tolist()


def test_what_is_chosen_is_rescaled():
    first, _, third = KINDS["i8"]
    text = function(
        ["tensor<16x16xi1>", tensor(SHAPE, first), tensor(SHAPE, first)],
        tensor(SHAPE, third),
        "stablehlo.select %0, %1, %2",
    )
    condition = np.random.default_rng(0).integers(0, 2, SHAPE).astype(bool)
    x, y = (stored_values(seed, SHAPE, first) for seed in (1, 2))
    expected = rescaled(np.where(condition, x, y), first, third)
    np.testing.assert_array_equal(run(text, condition, x, y), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["negate", "abs"])
def test_signs(op: str, kind: str):
    source, _, target = KINDS[kind]
    stored = stored_values(0, SHAPE, source)
    actual = run(elementwise(op, SHAPE, [source], target), stored)
    values: Any = stored.astype(object) - int(source.zero_points)
    values = -values if op == "negate" else abs(values)
    real: Any = values * Fraction(float(source.scales)) / Fraction(float(target.scales))
    # A multiplier of 31 bits is 2**-31 of the value off.
    bound = Fraction(1, 2) + abs(real).max() * Fraction(1, 2**31)
    exact: Any = np.clip(
        real + int(target.zero_points), target.storage_min, target.storage_max
    )
    assert abs(actual.astype(object) - exact).max() <= bound


# Comparison

DIRECTIONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def comparison(direction: str, types: Sequence[str], shape: Sequence[int]) -> str:
    sizes = "".join(f"{size}x" for size in shape)
    return function(
        types, f"tensor<{sizes}i1>", f"stablehlo.compare {direction}, %0, %1"
    )


@st.composite
def comparisons(draw: st.DrawFn):
    storage = draw(st.sampled_from(["i4", "i8", "u8", "i16", "u16", "i32", "u32"]))
    plain = quantization(storage, 1.0)
    zero_points = st.integers(plain.storage_min, plain.storage_max)
    decimal = st.sampled_from([0.1, 0.3, 0.4, 0.7, 1.5, 2.0])
    scale = st.one_of(decimal, st.floats(1e-3, 1e3))
    operands = [quantization(storage, draw(scale), draw(zero_points)) for _ in range(2)]
    return draw(st.sampled_from([*DIRECTIONS])), operands, draw(st.integers(0, 99))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(comparisons())
def test_comparisons_are_exact(case: Any):
    direction, (first, second), seed = case
    text = comparison(direction, [tensor(SHAPE, p) for p in (first, second)], SHAPE)
    x, y = stored_values(seed, SHAPE, first), stored_values(seed + 1, SHAPE, second)
    # Values that are about the same.
    near = (x.astype(float) - int(first.zero_points)) * float(first.scales)
    near = near / float(second.scales) + int(second.zero_points)
    near = np.clip(np.rint(near), second.storage_min, second.storage_max)
    y[8:] = near[8:].astype(y.dtype)
    module = parse_module(text)
    apply_passes(module, TO_LINALG)
    actual = np.asarray(run_function(module, "f", x, y)[0])
    values: list[Any] = [
        (z.astype(object) - int(p.zero_points)) * Fraction(float(p.scales))
        for z, p in ((x, first), (y, second))
    ]
    a, b = values
    # Fractions like 3 * 0.4 and 4 * 0.3 are equal as decimals, but not as doubles.
    is_near: Any = (abs(a - b) * 2**30 <= abs(a)) & (a != b)
    expected: Any = DIRECTIONS[direction](np.where(is_near, 0, a - b), 0)
    # Differences of 32 bits have more bits than the factors.
    is_known: Any = ~is_near if first.storage_width == 32 else np.full(SHAPE, True)
    np.testing.assert_array_equal(actual[is_known], expected[is_known])


def test_decimal_fractions_that_are_equal():
    first, second = quantization("i8", 0.4), quantization("i8", 0.3)
    text = comparison("EQ", [tensor((3,), p) for p in (first, second)], (3,))
    x, y = np.array([3, 6, 3], np.int8), np.array([4, 8, 5], np.int8)
    assert run(text, x, y).tolist() == [True, True, False]


@pytest.mark.parametrize("storage", ["i8", "u8", "ui8"])
def test_equal_types_are_compared_as_they_are_stored(storage: str):
    quantized = quantization(storage, 0.4, 5)
    text = comparison("LT", [tensor((2,), quantized)] * 2, (2,))
    module = parse_module(text)
    apply_passes(module, TO_INTEGER)
    assert "extsi" not in str(module)
    assert "extui" not in str(module)
    low, high = quantized.storage_min, quantized.storage_max
    x, y = (
        np.array(row, quantized.storage_dtype) for row in ((low, high), (high, low))
    )
    assert run(text, x, y).tolist() == [True, False]


def test_scales_that_are_too_different_to_compare():
    types = [tensor((1,), quantization("i8", scale)) for scale in (1e-5, 1e5)]
    with pytest.raises(
        IRError, match=r"a ratio of scales of 1e\+10 is too large to compare values"
    ):
        apply_passes(parse_module(comparison("EQ", types, (1,))), TO_INTEGER)


# Floats, and StableHLO itself


@st.composite
def programs(draw: st.DrawFn, storages: Sequence[str]):
    storage = draw(st.sampled_from(storages))
    plain = quantization(storage, 1.0)
    kinds = [
        quantization(
            storage,
            float(np.float32(2.0 ** draw(st.floats(-3, 3)))),
            draw(st.integers(plain.storage_min, plain.storage_max)),
        )
        for _ in range(4)
    ]
    op = draw(st.sampled_from(["maximum", "minimum", "clamp", "negate", "abs"]))
    count = {"clamp": 3, "negate": 1, "abs": 1}.get(op, 2)
    return op, kinds[:count], kinds[3], draw(st.integers(0, 99))


@settings(max_examples=50, deadline=None)
@given(programs(["i4", "i8", "u8", "i16"]))
def test_at_most_one_unit_from_floats(program: Any):
    op, operands, result, seed = program
    stored = [stored_values(seed + i, SHAPE, p) for i, p in enumerate(operands)]
    text = elementwise(op, SHAPE, operands, result)
    (expected,) = evaluate(text, FLOAT_MEANING, *stored)
    (actual,) = evaluate(text, TO_INTEGER, *stored)
    assert actual.dtype == expected.dtype
    assert np.abs(actual.astype(int) - expected.astype(int)).max() <= 1


def test_at_most_one_unit_from_real_stablehlo():
    real = RealStableHLO()

    @settings(max_examples=40, deadline=None)
    @given(programs(["i8", "i16"]))
    def check(program: Any):
        op, operands, result, seed = program
        stored = [stored_values(seed + i, SHAPE, p) for i, p in enumerate(operands)]
        text = elementwise(op, SHAPE, operands, result)
        (expected,) = real.results(text, *stored, passes=TO_QDQ)
        (actual,) = evaluate(text, TO_INTEGER, *stored)
        assert np.abs(actual.astype(int) - expected.astype(int)).max() <= 1

    check()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_comparisons_of_real_stablehlo(direction: str):
    real = RealStableHLO()
    first, second, _ = KINDS["i8"]
    values = np.arange(-128, 128).astype(np.int8)
    x, y = np.repeat(values, 256), np.tile(values, 256)
    text = comparison(direction, [tensor(x.shape, p) for p in (first, second)], x.shape)
    (expected,) = real.results(text, x, y, passes=TO_QDQ)
    (actual,) = evaluate(text, TO_INTEGER, x, y)
    assert 0 < np.count_nonzero(actual) < actual.size
    # What floats round to is not always in the order of the products, as 30 * 0.11 and
    # 11 * 0.3 show.
    a, b = (
        (z.astype(float) - int(p.zero_points)) * float(p.scales)
        for z, p in ((x, first), (y, second))
    )
    is_certain = np.abs(a - b) > 2.0**-22 * np.abs(a)
    assert np.count_nonzero(~is_certain) < 32
    np.testing.assert_array_equal(actual[is_certain], expected[is_certain])
