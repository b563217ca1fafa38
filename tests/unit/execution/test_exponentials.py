"""Exponentials of f32 are as accurate as those of libm, and the same on each CPU."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import CpuName, available_cpus

TEXT = """
func.func @f(%x: tensor<?xf32>, %s: f32) -> (tensor<?xf32>, f32) {
  %0 = math.exp %x : tensor<?xf32>
  %1 = math.exp %s : f32
  return %0, %1 : tensor<?xf32>, f32
}"""

X = np.concatenate(
    [
        np.linspace(-105, 90, 20_000),
        np.logspace(-20, 0, 500),
        -np.logspace(-20, 0, 500),
        # Around multiples of log(2) / 2, where the exponent of the result changes
        np.arange(-290, 250) * np.log(2) / 2,
    ]
).astype(np.float32)


def exp(x: NDArray[np.float32], cpu: CpuName) -> NDArray[np.float32]:
    values, _ = compile(TEXT, cpu=cpu)(x, np.float32(0))
    return values


@pytest.mark.parametrize("cpu", available_cpus())
def test_within_one_ulp(cpu: CpuName):
    with np.errstate(over="ignore"):
        exact = np.exp(X.astype(np.float64))
        rounded = exact.astype(np.float32)
    found = exp(X, cpu)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(rounded))
    is_finite = np.isfinite(rounded)
    ulps = np.spacing(rounded[is_finite]).astype(np.float64)
    errors = np.abs(found[is_finite] - exact[is_finite]) / ulps
    assert errors.max() < 0.8
    np.testing.assert_array_equal(found, exp(X, "native"))


def test_special_values():
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, -103.9], np.float32)
    values, value = compile(TEXT)(x, np.float32(np.nan))
    expected = [1, 1, np.inf, 0, np.nan, np.inf, 0, 2.0**-149]
    np.testing.assert_array_equal(values, np.array(expected, np.float32))
    assert np.isnan(value)


@pytest.mark.parametrize(("type_", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_tanh(type_: str, dtype: type[np.floating]):
    text = TEXT.replace("f32", type_).replace("exp", "tanh")
    x = np.concatenate([np.linspace(-25, 25, 9999), np.logspace(-30, 1, 5000)])
    x = np.concatenate([x, [0, -0.0, np.inf, -np.inf, np.nan]]).astype(dtype)
    values, _ = compile(text)(x, dtype(0))
    expected = np.tanh(x.astype(np.longdouble)).astype(dtype)
    np.testing.assert_array_max_ulp(values[:-1], expected[:-1], 3)
    np.testing.assert_array_equal(np.signbit(values[:-1]), np.signbit(x[:-1]))
    assert np.isnan(values[-1])


def test_expm1():
    x = np.concatenate([X, [0, -0.0, np.inf, -np.inf, np.nan, 88.72]])
    values, _ = compile(TEXT.replace("exp", "expm1"))(
        x := x.astype(np.float32), np.float32(0)
    )
    with np.errstate(over="ignore"):
        expected = np.expm1(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_max_ulp(values, expected, 2)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(expected))


GELU = """
func.func @f(%x: tensor<4000xf32>) -> tensor<4000xf32> {
  %0 = "tfl.gelu"(%x) <{approximate = false}> : (tensor<4000xf32>) -> tensor<4000xf32>
  return %0 : tensor<4000xf32>
}"""


def test_complementary_error_function():
    """The relative error of its exponential grows with the square of the operand."""
    x = np.linspace(-12, 9, 4000).astype(np.float32)
    exact = np.array([0.5 * v * math.erfc(-v * math.sqrt(0.5)) for v in x.tolist()])
    errors = np.abs(compile(GELU)(x) / exact - 1)
    assert errors[np.abs(x) < 4].max() < 1.2e-6
    assert errors.max() < 2e-5


GAUSSIAN = """
#map = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]}
    outs(%x : tensor<?xf32>) {
  ^bb0(%a: f32):
    %y = arith.mulf %a, %a : f32
    %z = arith.negf %y : f32
    %e = math.exp %z : f32
    linalg.yield %e : f32
  } -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""


@pytest.mark.parametrize("cpu", available_cpus())
def test_exponentials_of_negated_squares(cpu: CpuName):
    x = np.linspace(-12, 12, 20_001).astype(np.float32)
    function = compile(GAUSSIAN, cpu=cpu)
    found = function(x)
    square = -(x * x)
    exact = np.exp(square.astype(np.float64))
    is_normal = square >= -87.33
    errors = np.abs(found / exact - 1)[is_normal]
    assert (errors < 2.0**-23 - square[is_normal] * 2.0**-28).all()
    assert not found[square < -87.69].any()
    assert np.abs(found - exact)[~is_normal].max() < 1e-38
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e30, 1e-30], np.float32)
    # A NaN whose last bits would change the exponent of the result
    special = np.append(special, np.array(0x7FC001FF, np.uint32).view(np.float32))
    found = function(special)
    np.testing.assert_array_equal(found, [1, 1, 0, 0, np.nan, 0, 1, np.nan])


@pytest.mark.parametrize("exponent", [2.0, 3.0, 2.5])
def test_powers(exponent: float):
    text = f"""
        func.func @f(%x: tensor<?xf64>) -> tensor<?xf64> {{
          %zero = arith.constant 0 : index
          %n = tensor.dim %x, %zero : tensor<?xf64>
          %e = arith.constant {exponent} : f64
          %y = tensor.splat %e[%n] : tensor<?xf64>
          %0 = math.powf %x, %y : tensor<?xf64>
          return %0 : tensor<?xf64>
        }}"""
    x = np.concatenate([np.linspace(0, 9, 100), [0.0, np.inf, np.nan, 1e200]])
    with np.errstate(over="ignore"):
        expected = np.power(x, exponent)
    np.testing.assert_array_max_ulp(compile(text)(x), expected, 1)


def test_other_floats_call_libm():
    text = TEXT.replace("f32", "f64")
    x = np.linspace(-700, 700, 1000)
    values, _ = compile(text)(x, 0.0)
    np.testing.assert_array_max_ulp(values, np.exp(x), 1)
