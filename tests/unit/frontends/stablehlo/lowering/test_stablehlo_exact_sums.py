"""
Sums of quantized tensors are at most a quarter of a unit off before they are rounded, or
refused, however wide storage is: checked against exact rational arithmetic.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tests.unit.frontends.stablehlo.lowering.stablehlo_programs import (
    elementwise,
    quantization,
)
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

INTEGERS = "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg"
SIGNS = {"add": 1, "subtract": -1}
COUNT = 64

Array = NDArray[Any]


def exact_sums(
    op: str,
    stored: list[Any],
    operands: list[QuantizationParameters],
    result: QuantizationParameters,
) -> list[Fraction]:
    """The real numbers that are to be rounded and clamped."""
    return [
        sum(
            (
                sign
                * (int(value) - int(p.zero_points))
                * Fraction(float(p.scales))
                / Fraction(float(result.scales))
                for sign, value, p in zip((1, SIGNS[op]), row, operands, strict=True)
            ),
            Fraction(int(result.zero_points)),
        )
        for row in zip(*stored, strict=True)
    ]


def largest_distance(
    actual: Any, exact: list[Fraction], result: QuantizationParameters
) -> Fraction:
    low, high = Fraction(result.storage_min), Fraction(result.storage_max)
    return max(
        abs(int(value) - min(max(real, low), high))
        for value, real in zip(actual, exact, strict=True)
    )


@st.composite
def sums(draw: st.DrawFn):
    storage = draw(st.sampled_from(["i32", "i32", "u32", "i16", "u16", "i8"]))
    kinds: list[QuantizationParameters] = []
    # Scales that are nearly equal, and a result that may be far finer.
    like = draw(st.floats(0.001, 1000.0))
    finer = draw(st.sampled_from([0.0, 1.0, 10.0, 20.0, 24.0, 28.0]))
    for exponent, spread in ((0.0, 1e-9), (0.0, 1e-3), (finer, 0.9)):
        scale = like * 2.0 ** (draw(st.floats(-spread, spread)) - exponent)
        plain = quantization(storage, 1.0)
        zero_point = draw(st.integers(plain.storage_min, plain.storage_max))
        kinds.append(quantization(storage, scale, zero_point))
    return (
        draw(st.sampled_from([*SIGNS])),
        kinds[:2],
        kinds[2],
        draw(st.integers(0, 99)),
    )


def cancelling_values(
    seed: int, op: str, operands: list[QuantizationParameters]
) -> list[Any]:
    """Random stored values, half of them with a sum of about 0."""
    random = np.random.default_rng(seed)
    first, second = operands
    values = random.integers(
        first.storage_min, first.storage_max, (2, COUNT), endpoint=True
    )
    values[0, :2] = first.storage_min, first.storage_max
    ratio = float(first.scales) / float(second.scales)
    real = (values[0] - int(first.zero_points)) * ratio
    near: Array = np.rint(-SIGNS[op] * real) + int(second.zero_points)
    near = np.clip(near, second.storage_min, second.storage_max)
    values[1, : COUNT // 2] = near[: COUNT // 2]
    return [row.astype(first.storage_dtype) for row in values]


def refusal(module: ModuleOp) -> str | None:
    try:
        apply_passes(module, INTEGERS)
    except IRError as e:
        return str(e)
    return None


def test_sums_are_a_quarter_of_a_unit_off_or_refused():
    outcomes: set[tuple[bool, bool]] = set()

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(sums())
    def check(case: Any):
        op, operands, result, seed = case
        module = parse_module(elementwise(op, (COUNT,), operands, result))
        is_wide = result.storage_width == 32
        if (reason := refusal(module)) is not None:
            assert "times that of the result is too large" in reason
            outcomes.add((is_wide, False))
            return
        outcomes.add((is_wide, True))
        stored = cancelling_values(seed, op, operands)
        exact = exact_sums(op, stored, operands, result)
        (actual,) = run_function(module, "f", *stored)
        assert largest_distance(actual, exact, result) <= Fraction(3, 4)

    check()
    assert outcomes == {(True, True), (True, False), (False, True)}


CANCELLING = [
    ("add", (30000.1, 29999.7, 0.3), (2147455015, -2147483648)),
    ("add", (1.3, 1.29, 0.3), (2130964150, -2147483648)),
    ("subtract", (30000.1, 29999.7, 0.3), (2147455015, 2147483647)),
]


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize(("op", "scales", "values"), CANCELLING)
def test_wide_sums_that_cancel(
    op: str, scales: tuple[float, ...], values: tuple[int, int], shape: tuple[int, ...]
):
    first, second, result = (quantization("i32", scale) for scale in scales)
    module = parse_module(elementwise(op, shape, [first, second], result))
    apply_passes(module, INTEGERS)
    stored = [np.full(shape, value, np.int32) for value in values]
    flat = [array.reshape(-1) for array in stored]
    (exact,) = exact_sums(op, flat, [first, second], result)
    expected = (
        int(exact + Fraction(1, 2)) if exact > 0 else -int(Fraction(1, 2) - exact)
    )
    assert abs(expected) < 2**31
    assert np.asarray(run_function(module, "f", *stored)[0]) == np.full(shape, expected)
    assert compile(module, "f")(*stored) == np.full(shape, expected)


# Multipliers of two parts, and of one: their bits are chosen in two places.
@pytest.mark.parametrize("exponent", [20, -6])
@pytest.mark.parametrize("op", SIGNS)
def test_the_largest_products_do_not_overflow(op: str, exponent: int):
    low, high = -(2**31), 2**31 - 1
    # Multipliers just below a power of two, and values of 32 bits without a sign.
    scale = 2.0**exponent * (1 - 1e-9)
    first = quantization("i32", scale, low)
    second = quantization("i32", scale, low if op == "add" else high)
    stored = [
        np.array([high, low], np.int32),
        np.array([high if op == "add" else low, low], np.int32),
    ]
    result = quantization("i32", 1.0)
    module = parse_module(elementwise(op, (2,), [first, second], result))
    apply_passes(module, INTEGERS)
    exact = exact_sums(op, stored, [first, second], result)
    (actual,) = run_function(module, "f", *stored)
    assert largest_distance(actual, exact, result) <= Fraction(1, 2)
    assert actual[0] == (high if exponent > 0 else 2**27)


def test_scales_for_each_channel():
    scales = np.array([30000.1, 0.25, 1.3])
    first = quantization("i32", scales, 5, axis=0)
    second = quantization("i32", [29999.7, 0.5, 1.29], -7, axis=0)
    result = quantization("i32", [0.3, 0.25, 0.3], 9, axis=0)
    module = parse_module(elementwise("add", (3,), [first, second], result))
    apply_passes(module, INTEGERS)
    stored = [
        np.array([2147455015, 7, 2130964150], np.int32),
        np.array([-(2**31), 9, -(2**31)], np.int32),
    ]
    exact = [
        exact_sums(
            "add",
            [row[i : i + 1] for row in stored],
            [
                quantization("i32", float(p.scales[i]), int(p.zero_points[i]))
                for p in (first, second)
            ],
            quantization("i32", float(result.scales[i]), 9),
        )[0]
        for i in range(3)
    ]
    (actual,) = run_function(module, "f", *stored)
    assert largest_distance(actual, exact, result) <= Fraction(1, 2)
    assert compile(module, "f")(*stored).tolist() == actual.tolist()


def test_a_ratio_that_is_too_large_is_refused():
    coarse, fine = quantization("i32", 2.0**26), quantization("i32", 0.3)
    module = parse_module(elementwise("add", (1,), [coarse, coarse], fine))
    before = str(module)
    with pytest.raises(
        IRError,
        match=r"a scale 2\.23696e\+08 times that of the result is too large: its "
        "multiplier of 58 bits causes an error of 0.89 units",
    ):
        apply_passes(module, INTEGERS)
    assert str(module) == before


@pytest.mark.parametrize("scale", [math.nextafter(2.0**-28, end) for end in (0, 1)])
def test_shifts_of_less_than_one_bit_are_refused(scale: float):
    operand, result = quantization("i32", 1.0), quantization("i32", scale)
    module = parse_module(elementwise("add", (COUNT,), [operand, operand], result))
    reason = refusal(module)
    assert reason is not None
    assert (
        "a scale 2.68435e+08 times that of the result is too large: its multiplier of 58 "
        "bits has no fractional bits" in reason
    )


SIZE = 300
# The largest sum of products is 300 * 128 * 128.
ALMOST_HALF = 0.1 * (1 + 1 / (2.0 * SIZE * 128 * 128 + 2))


@pytest.mark.parametrize(
    ("scale", "rounds"), [(ALMOST_HALF, False), (0.1, False), (0.1001, True)]
)
def test_a_scale_that_was_rounded(scale: float, rounds: bool):
    """The sum of products is not multiplied if no integer would become another one."""
    x, y = f"tensor<2x{SIZE}x!x>", f"tensor<{SIZE}x2x!y>"
    module = parse_module(f"""
        !x = !quant.uniform<i8:f32, 0.5>
        !y = !quant.uniform<i8:f32, 0.2>
        !z = !quant.uniform<i32:f32, {scale!r}>
        func.func @f(%x: {x}, %y: {y}) -> tensor<2x2x!z> {{
          %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
            : ({x}, {y}) -> tensor<2x2x!z>
          return %z : tensor<2x2x!z>
        }}
    """)
    apply_passes(module, INTEGERS)
    names = {op.name for op in module.walk()}
    assert ("arith.shrsi" in names) == rounds
    values = np.full((2, SIZE), -128, np.int8)
    values[1, 0] = 1
    sums = values.astype(int) @ values.T.astype(int)
    exact = [Fraction(int(s)) * Fraction(0.5) * Fraction(0.2) for s in sums.ravel()]
    expected = [round(value / Fraction(scale)) for value in exact]
    (actual,) = run_function(module, "f", values, values.T)
    assert actual.ravel().tolist() == expected
