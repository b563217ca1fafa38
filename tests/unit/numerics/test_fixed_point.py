"""Fixed-point multipliers are those of TOSA, and zero points come and go exactly."""

import ctypes
import re
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdsl_quant.numerics import (
    QuantizationParameters,
    ScaleRounding,
    affine_to_fixed_point,
    apply_scale,
    dequantize,
    fixed_point_to_affine,
    quantize_multiplier,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
MULTIPLIERS = st.one_of(
    st.integers(1 << 30, (1 << 31) - 1), st.integers(0, (1 << 31) - 1)
)
SHIFTS = st.integers(2, 62)
ROUNDINGS: tuple[ScaleRounding, ...] = ("single", "double")


# Multipliers


@given(st.floats(2.0**-32, 2.0**28, exclude_min=False))
def test_multiplier_is_the_nearest_one(real: float):
    multiplier, shift = quantize_multiplier(real)
    assert 1 << 30 <= multiplier < 1 << 31
    assert 2 <= shift <= 62
    error = abs(Fraction(multiplier, 1 << shift) - Fraction(real))
    assert error <= Fraction(1, 1 << (shift + 1))


@given(st.floats(2.0**-63, 2.0**-32))
def test_small_numbers_have_the_largest_shift(real: float):
    multiplier, shift = quantize_multiplier(real)
    assert shift == 62 or (multiplier, shift) == (1 << 30, 62)
    error = abs(Fraction(multiplier, 1 << shift) - Fraction(real))
    assert error <= Fraction(1, 1 << 63)


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (1.0, (1 << 30, 30)),
        (0.5, (1 << 30, 31)),
        (0.75, (3 << 29, 31)),
        (1 - 2.0**-53, (1 << 30, 30)),
        (1 - 2.0**-31, ((1 << 31) - 1, 31)),
        # The middle of two multipliers is rounded up.
        (1 - 3 * 2.0**-32, ((1 << 31) - 1, 31)),
        (2.0**29 - 1, ((1 << 31) - 4, 2)),
        (2.0**-62, (1, 62)),
        (2.0**-63, (1, 62)),
    ],
)
def test_multipliers(real: float, expected: tuple[int, int]):
    assert quantize_multiplier(real) == expected


def test_multipliers_of_arrays():
    reals = np.array([[1.0, 0.1], [3e-12, 100.0]])
    multipliers, shifts = quantize_multiplier(reals)
    assert (multipliers.dtype, shifts.dtype) == (np.int32, np.int8)
    assert multipliers.shape == shifts.shape == (2, 2)
    pairs = zip(multipliers.ravel().tolist(), shifts.ravel().tolist(), strict=True)
    assert [*pairs] == [quantize_multiplier(real) for real in reals.ravel().tolist()]


def test_multipliers_of_lists():
    multipliers, shifts = quantize_multiplier([0.5, 2])
    assert (multipliers.dtype, shifts.dtype) == (np.int32, np.int8)
    assert multipliers.tolist() == [1 << 30, 1 << 30]
    assert shifts.tolist() == [31, 29]


@pytest.mark.parametrize(
    ("real", "message"),
    [
        (0.0, "expected a positive finite multiplier, found 0.0"),
        (-1.0, "expected a positive finite multiplier, found -1.0"),
        (float("nan"), "expected a positive finite multiplier, found nan"),
        (float("inf"), "expected a positive finite multiplier, found inf"),
        (
            2.0**29,
            "multiplier 536870912.0 is too large; expected less than 2**29",
        ),
        (1e-30, "multiplier 1e-30 is too small; expected at least 2**-63"),
    ],
)
def test_numbers_without_a_multiplier(real: float, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        quantize_multiplier(real)
    where = "" if real > 0 and np.isfinite(real) else " at index 1"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}{where}$"):
        quantize_multiplier(np.array([1.0, real]))


# Products


def _product(value: int, multiplier: int, shift: int, rounding: str) -> int | None:
    """A product with the integers of Python; `None` where TOSA does not define it."""
    if not -(1 << (shift - 1)) <= value < 1 << (shift - 1):
        return None
    added = 1 << (shift - 1)
    if rounding == "double" and shift > 31:
        added += (1 << 30) if value >= 0 else -(1 << 30)
    return (value * multiplier + added) >> shift


@given(INT32, MULTIPLIERS, SHIFTS, st.sampled_from(ROUNDINGS))
def test_product_is_the_exact_one(
    value: int, multiplier: int, shift: int, rounding: ScaleRounding
):
    expected = _product(value, multiplier, shift, rounding)
    if expected is None:
        with pytest.raises(ValueError, match="is out of range"):
            apply_scale(value, multiplier, shift, rounding)
        return
    result = apply_scale(value, multiplier, shift, rounding)
    assert (result.dtype, result.shape) == (np.int32, ())
    assert int(result) == expected


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_multipliers_broadcast(rounding: ScaleRounding):
    random = np.random.default_rng(0)
    values = random.integers(-(1 << 20), 1 << 20, (300, 7, 50), np.int32)
    multipliers, shifts = quantize_multiplier(random.uniform(1e-6, 1, (7, 1)))
    result = apply_scale(values, multipliers, shifts, rounding)
    assert result.shape == values.shape
    for index in np.ndindex(4, 7, 50):
        channel = index[1]
        assert result[index] == _product(
            int(values[index]),
            int(multipliers[channel, 0]),
            int(shifts[channel, 0]),
            rounding,
        )
    transposed = apply_scale(values.T, multipliers, shifts, rounding)
    assert (transposed == result.T).all()
    assert apply_scale(4, multipliers, shifts, rounding).shape == (7, 1)
    assert apply_scale([], 1 << 30, 30, rounding).shape == (0,)


def test_double_rounding_differs_only_for_large_shifts():
    value, multiplier = 3, 1 << 30
    # 3 * 2**30 / 2**33 is 0.375, and 0.5 after an eighth has been added.
    assert apply_scale(value, multiplier, 33).item() == 0
    assert apply_scale(value, multiplier, 33, "double").item() == 1
    # 3 * 2**30 / 2**31 is 1.5.
    for rounding in ROUNDINGS:
        assert apply_scale(value, multiplier, 31, rounding).item() == 2
        assert apply_scale(-value, multiplier, 31, rounding).item() == -1


def _tosa(rounding: ScaleRounding) -> Callable[[int, int, int], int]:
    """`tosa.apply_scale`, as MLIR compiles it."""
    module = f"""
    func.func @main(%value: i32, %multiplier: i32, %shift: i8) -> i32
        attributes {{llvm.emit_c_interface}} {{
      %0 = tosa.apply_scale %value, %multiplier, %shift
          {{rounding_mode = {rounding.upper()}_ROUND}} : (i32, i32, i8) -> i32
      return %0 : i32
    }}"""
    passes = (
        "tosa-to-arith{include-apply-rescale=true},convert-arith-to-llvm,"
        "convert-func-to-llvm,reconcile-unrealized-casts"
    )
    # The bindings have no types.
    ir: Any = import_module("mlir.ir")
    pass_manager: Any = import_module("mlir.passmanager").PassManager
    execution: Any = import_module("mlir.execution_engine")
    with ir.Context():
        parsed = ir.Module.parse(module)
        pass_manager.parse(f"builtin.module({passes})").run(parsed.operation)
        engine = execution.ExecutionEngine(parsed)

    def call(value: int, multiplier: int, shift: int) -> int:
        result = ctypes.c_int32()
        arguments: list[Any] = [
            ctypes.c_int32(value),
            ctypes.c_int32(multiplier),
            ctypes.c_int8(shift),
            result,
        ]
        engine.invoke("main", *map(ctypes.pointer, arguments))
        return result.value

    return call


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_product_is_that_of_mlir(rounding: ScaleRounding):
    compiled = _tosa(rounding)
    random = np.random.default_rng(1)
    compared = 0
    for _ in range(2000):
        shift = int(random.integers(2, 63))
        bound = 1 << min(shift - 1, 31)
        value = int(random.integers(-bound, bound))
        multiplier = int(random.integers(0, 1 << 31)) >> int(random.integers(0, 8))
        if _product(value, multiplier, shift, rounding) is None:
            continue
        compared += 1
        expected = compiled(value, multiplier, shift)
        assert apply_scale(value, multiplier, shift, rounding).item() == expected
    assert compared > 1000


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: apply_scale(1 << 31, 1, 2),
            ValueError,
            "value 2147483648 is out of the range -2147483648 to 2147483647",
        ),
        (
            lambda: quantize_multiplier(True),
            TypeError,
            "expected numbers as multipliers, found dtype bool",
        ),
        (
            lambda: apply_scale(1, -1, 2),
            ValueError,
            "multiplier -1 is out of the range 0 to 2147483647",
        ),
        (
            lambda: apply_scale(1, 1, 1),
            ValueError,
            "shift 1 is out of the range 2 to 62",
        ),
        (
            lambda: apply_scale(1, 1, [2, 63]),
            ValueError,
            "shift 63 at index 1 is out of the range 2 to 62",
        ),
        (
            lambda: apply_scale([0, 5], 1, [40, 3]),
            ValueError,
            "value 5 is out of range for a shift of 3; expected -4 to 3",
        ),
        (
            lambda: apply_scale([1.0], 1, 2),
            TypeError,
            "expected integers as values, found dtype float64",
        ),
        (
            lambda: apply_scale([1, 2], [1, 2, 3], 2),
            ValueError,
            "values of shape (2,), multipliers of shape (3,) and shifts of shape () do "
            "not broadcast",
        ),
        (
            lambda: apply_scale(1, 1, 2, "up"),  # pyright: ignore[reportArgumentType] the mistake
            ValueError,
            "unknown rounding 'up', available: 'single', 'double'",
        ),
    ],
)
def test_mistakes(call: Callable[[], object], error: type[Exception], message: str):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


@pytest.mark.parametrize("position", [0, 1, 2])
def test_shapes_broadcast(position: int):
    arguments: list[Any] = [6, 1 << 30, 31]
    arguments[position] = np.full((2, 3), arguments[position])
    result = apply_scale(*arguments)
    assert result.dtype == np.int32
    assert result.tolist() == [[3] * 3] * 2


# Zero points


@pytest.mark.parametrize(
    "storage", ["i8", "u8", "u4", "i16", "u16", "i31", "i32", "u32"]
)
def test_fixed_point_values_are_stored_values_without_zero_point(storage: str):
    plain = QuantizationParameters(1, storage=storage)
    low, high = plain.storage_min, plain.storage_max
    zero_points = np.array([low, high, (low + high) // 2])
    parameters = QuantizationParameters(
        [0.5, 1, 2],
        zero_points,
        storage=storage,
        expressed="f64",
        quantized_dimension=1,
    )
    stored = np.array([[low] * 3, [high] * 3, zero_points]).astype(plain.storage_dtype)
    fixed_point = affine_to_fixed_point(stored, parameters)
    assert fixed_point.dtype == (
        np.int64 if parameters.storage_width == 32 else np.int32
    )
    assert (fixed_point == stored.astype(np.int64) - zero_points).all()
    assert (fixed_point * parameters.scales == dequantize(stored, parameters)).all()
    back = fixed_point_to_affine(fixed_point, parameters)
    assert back.dtype == stored.dtype
    assert (back == stored).all()


def test_affine_values_saturate():
    parameters = QuantizationParameters(1, 5, storage_min=-100, storage_max=100)
    values = np.array([-(1 << 63), -106, -105, 0, 95, 96, (1 << 63) - 1])
    expected = [-100, -100, -100, 5, 100, 100, 100]
    assert fixed_point_to_affine(values, parameters).tolist() == expected
    assert fixed_point_to_affine(7, parameters).item() == 12
    assert fixed_point_to_affine(np.zeros((0, 2), np.int32), parameters).shape == (0, 2)
    assert affine_to_fixed_point(np.zeros((0, 2), np.int8), parameters).shape == (0, 2)
    assert affine_to_fixed_point(12, parameters).item() == 7


def test_unsigned_fixed_point_values_are_refused():
    with pytest.raises(TypeError, match=r"^expected integers as fixed-point values"):
        fixed_point_to_affine(np.zeros(3, np.uint8), QuantizationParameters(1))
