"""The math dialect."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError

from .running import (
    FLOAT_DTYPES,
    float_edges,
    float_pairs,
    nearest,
    run_body,
    same_bits,
)


def unary(name: str, type_: str, values: NDArray[Any]) -> NDArray[Any]:
    tensor = f"tensor<?x{type_}>"
    (result,) = run_body(f"%r0 = math.{name} %a0 : {tensor}", tensor, (values, tensor))
    assert result.dtype == values.dtype
    return result


def round_away(value: float) -> float:
    whole = math.floor(abs(Fraction(value)) + Fraction(1, 2))
    return math.copysign(float(whole), value)


ROUNDINGS: dict[str, Callable[[float], float]] = {
    "roundeven": lambda x: math.copysign(float(round(x)), x),
    "round": round_away,
    "floor": lambda x: math.copysign(float(math.floor(x)), x),
    "ceil": lambda x: math.copysign(float(math.ceil(x)), x),
    "trunc": lambda x: math.copysign(float(math.trunc(x)), x),
    "absf": abs,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", FLOAT_DTYPES)
@pytest.mark.parametrize("name", ROUNDINGS)
def test_roundings(name: str, type_: str):
    values = np.concatenate((float_edges(type_), float_pairs(type_)[0]))
    expected = [
        ROUNDINGS[name](x) if math.isfinite(x) else abs(x) if name == "absf" else x
        for x in values.astype(float).tolist()
    ]
    result = unary(name, type_, values)
    assert same_bits(result.astype(float), np.array(expected))


@pytest.mark.parametrize("type_", FLOAT_DTYPES)
def test_square_root_is_rounded_once(type_: str):
    values = np.abs(float_pairs(type_)[0])
    values = values[np.isfinite(values)]
    for x, root in zip(
        values.astype(float), unary("sqrt", type_, values).astype(float), strict=True
    ):
        # The root lies between the middles to the two floats next to the result.
        exact = Fraction(x)
        scaled = math.isqrt(exact.numerator * exact.denominator << 400)
        approximate = Fraction(scaled, exact.denominator << 200)
        assert root == nearest(approximate, type_)


def test_square_root_of_a_negative_number():
    (result,) = run_body("%r0 = math.sqrt %a0 : f32", "f32", (-1.0, "f32"))
    assert np.isnan(result)
    (result,) = run_body("%r0 = math.sqrt %a0 : f32", "f32", (-0.0, "f32"))
    assert same_bits(result, np.float32(-0.0))


FUNCTIONS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("type_", FLOAT_DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_f64(name: str, type_: str):
    values = np.array(
        [0.0, -0.0, 0.5, -0.75, 1.0, 2.0, -3.0, 1000.0, math.inf, math.nan]
    )
    values = values.astype(FLOAT_DTYPES[type_])
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](values.astype(float)).tolist()
    rounded = [nearest(Fraction(x), type_) if math.isfinite(x) else x for x in expected]
    rounded = [math.copysign(r, x) for r, x in zip(rounded, expected, strict=True)]
    result = unary(name, type_, values)
    assert same_bits(result.astype(float), np.array(rounded))


def test_binary_functions():
    x = np.array([2.0, -1.5, 0.0, -0.0], np.float32)
    y = np.array([0.5, -2.0, -1.0, 3.0], np.float32)
    tensor = "tensor<4xf32>"
    for name, expected in (
        ("copysign", np.copysign(x, y)),
        ("atan2", np.arctan2(x.astype(float), y.astype(float)).astype(np.float32)),
        ("powf", np.array([2**0.5, (-1.5) ** -2, np.inf, -0.0]).astype(np.float32)),
    ):
        (result,) = run_body(
            f"%r0 = math.{name} %a0, %a1 : {tensor}", tensor, (x, tensor), (y, tensor)
        )
        assert same_bits(result, expected), name


def test_integer_power():
    (result,) = run_body(
        "%r0 = math.fpowi %a0, %a1 : f32, i32", "f32", (-2.0, "f32"), (3, "i32")
    )
    assert same_bits(result, np.float32(-8.0))


def test_absolute_integers():
    (result,) = run_body(
        "%r0 = math.absi %a0 : tensor<3xi4>",
        "tensor<3xi4>",
        (np.array([-3, 7, -8], np.int8), "tensor<3xi4>"),
    )
    assert same_bits(result, np.array([3, 7, -8], np.int8))


def test_leading_zeros():
    values = [0, 1, (1 << 32) - 1, 1 << 32, (1 << 53) - 1, -1]
    (result,) = run_body(
        "%r0 = math.ctlz %a0 : tensor<6xi64>",
        "tensor<6xi64>",
        (np.array(values, np.int64), "tensor<6xi64>"),
    )
    assert same_bits(result, np.array([64, 63, 32, 31, 11, 0], np.int64))


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32"])
def test_fma_is_rounded_once(type_: str):
    random = np.random.default_rng(2)
    scale = 2.0 ** random.integers(-9, 9, (3, 3000))
    values = (random.standard_normal((3, 3000)) * scale).astype(FLOAT_DTYPES[type_])
    tensor = f"tensor<?x{type_}>"
    (result,) = run_body(
        f"%r0 = math.fma %a0, %a1, %a2 : {tensor}",
        tensor,
        *((v, tensor) for v in values),
    )
    for x, y, z, actual in zip(
        *values.astype(float), result.astype(float), strict=True
    ):
        assert actual == nearest(Fraction(x) * Fraction(y) + Fraction(z), type_)


def test_fma_whose_sum_is_a_tie_in_f64():
    # Rounded to f64 first, the sum were half way between two floats of type f32.
    x = 1 + 2**-12
    (result,) = run_body(
        "%r0 = math.fma %a0, %a1, %a2 : f32",
        "f32",
        (x, "f32"),
        (x, "f32"),
        (2.0**-90, "f32"),
    )
    assert float(result) == 1 + 2**-11 + 2**-23


def test_fma_of_f64():
    with pytest.raises(
        InterpretationError, match=r"^'math.fma' op on 'f64' is unsupported"
    ):
        run_body("%r0 = math.fma %a0, %a0, %a0 : f64", "f64", (1.0, "f64"))


def test_scalars():
    (result,) = run_body("%r0 = math.round %a0 : bf16", "bf16", (2.5, "bf16"))
    assert same_bits(result, ml_dtypes.bfloat16(3.0))


def test_missing_function():
    message = "Could not find interpretation function for op math.ipowi"
    with pytest.raises(InterpretationError, match=message):
        run_body("%r0 = math.ipowi %a0, %a0 : i32", "i32", (1, "i32"))
