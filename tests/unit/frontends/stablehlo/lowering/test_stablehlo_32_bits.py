"""With 32 bits of storage, integers are nearer to exact results than f32 is."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

FLOATS = (
    "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,"
    "lower-quant-ops{rounding-mode=nearest-even keep-qdq=true},"
    "convert-stablehlo-to-linalg"
)
INTEGERS = "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg"

COUNT = 2000
LOW, HIGH = -(2**31), 2**31 - 1


def tensor(scale: str, zero_point: int, expressed: str) -> str:
    return f"tensor<{COUNT}x!quant.uniform<i32:{expressed}, {scale}:{zero_point}>>"


def distance(stored: NDArray[Any], exact: list[Fraction]) -> float:
    """How many units the stored value that is furthest off is from the exact result."""
    return max(
        float(abs(int(value) - min(max(real, Fraction(LOW)), Fraction(HIGH))))
        for value, real in zip(stored, exact, strict=True)
    )


@pytest.mark.parametrize("expressed", ["f32", "f64"])
@pytest.mark.parametrize(("op", "units"), [("add", 0.51), ("uniform_quantize", 1.0)])
def test_distance_from_exact_results(op: str, units: float, expressed: str):
    types = [
        tensor(*arguments, expressed)
        for arguments in (("0.3", 3), ("0.11", -5), ("0.37", 7))
    ]
    count = 2 if op == "add" else 1
    operands = ", ".join(f"%{i}" for i in range(count))
    arguments = ", ".join(f"%{i}: {types[i]}" for i in range(count))
    text = f"""
func.func @f({arguments}) -> {types[2]} {{
  %result = stablehlo.{op} {operands} : ({", ".join(types[:count])}) -> {types[2]}
  return %result : {types[2]}
}}"""
    random = np.random.default_rng(0)
    values = [
        random.integers(LOW, HIGH, COUNT, np.int32, endpoint=True) for _ in range(count)
    ]
    exact = [
        sum(
            (
                (int(value) - zero_point) * Fraction(scale) / Fraction("0.37")
                for value, scale, zero_point in zip(
                    row, ("0.3", "0.11")[:count], (3, -5)[:count], strict=True
                )
            ),
            Fraction(7),
        )
        for row in zip(*values, strict=True)
    ]
    distances: dict[str, float] = {}
    for passes in (INTEGERS, FLOATS):
        module = parse_module(text)
        apply_passes(module, passes)
        (stored,) = run_function(module, "f", *values)
        distances[passes] = distance(stored, exact)
    assert distances[INTEGERS] <= units
    if expressed == "f32":
        assert distances[FLOATS] > 100
    else:
        # The scales are doubles, and not the decimal fractions.
        assert distances[FLOATS] < 0.51


@pytest.mark.parametrize("storage", ["u32<0:1000000000>", "ui32<0:1000000000>"])
def test_unsigned_range_of_31_bits(storage: str):
    """The stored values need no more bits for a sign."""
    type_ = f"tensor<2x!quant.uniform<{storage}:f32, 5.000000e-01>>"
    module = parse_module(f"""
func.func @f(%x: {type_}) -> {type_} {{
  %y = stablehlo.add %x, %x : {type_}
  return %y : {type_}
}}""")
    apply_passes(module, "stablehlo-legalize-quant-to-integer")
    apply_passes(module, "strip-func-quant-types")
    (actual,) = run_function(module, None, np.array([5, 600_000_000], np.uint32))
    assert np.asarray(actual).tolist() == [10, 1_000_000_000]
