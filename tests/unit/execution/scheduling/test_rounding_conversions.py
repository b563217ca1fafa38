"""Conversions to integers which round, where that gives the same numbers."""

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.rounding_conversions import round_while_converting

BODY = """
  %low = arith.constant {low} : {type}
  %high = arith.constant {high} : {type}
  %0 = math.roundeven %x : {type}
  %1 = arith.{first} %0, %low : {type}
  %2 = arith.{second} %1, %high : {type}
  %3 = arith.fptosi %2 : {type} to {result}
"""


def body(
    low: str = "-128.0",
    high: str = "127.0",
    *,
    type_: str = "f32",
    result: str = "i32",
    first: str = "maxnumf",
    second: str = "minnumf",
) -> str:
    return BODY.format(
        low=low, high=high, type=type_, result=result, first=first, second=second
    )


def rounds_while_converting(text: str, type_: str = "f32") -> bool:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @f(%x: {type_}) {{ {text} return }}")
        round_while_converting(module)
        module.operation.verify()
        return bool(ops_in(module, "llvm.intr.lrint"))


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_clamped_to_integers(type_: str):
    assert rounds_while_converting(body(type_=type_), type_)


def test_clamped_in_the_other_order():
    text = body("127.0", "-128.0", first="minnumf", second="maxnumf")
    assert rounds_while_converting(text)


@pytest.mark.parametrize(
    "text",
    [
        body(high="126.5"),
        body(low="-127.5"),
        body(high="2147483648.0"),
        body(low="-2147483904.0"),
        body(high="0x7FC00000"),
        body(low="0xFF800000"),
        body(result="i64"),
        body(second="maxnumf"),
        body(first="maximumf"),
        body().replace("roundeven", "trunc"),
        body().replace("%1, %high", "%1, %x"),
    ],
)
def test_what_is_left_alone(text: str):
    assert not rounds_while_converting(text)


def test_f16_is_left_alone():
    assert not rounds_while_converting(body(type_="f16"), "f16")


@pytest.mark.parametrize(("high", "largest"), [("127.0", 127), ("3.5", 3)])
def test_numbers(high: str, largest: int):
    function = compile(
        f"""
func.func @f(%values: tensor<?xf32>) -> tensor<?xi32> {{
  %c0 = arith.constant 0 : index
  %size = tensor.dim %values, %c0 : tensor<?xf32>
  %empty = tensor.empty(%size) : tensor<?xi32>
  %result = linalg.generic {{
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]
  }} ins(%values : tensor<?xf32>) outs(%empty : tensor<?xi32>) {{
  ^bb0(%x: f32, %old: i32):
    {body(high=high)}
    linalg.yield %3 : i32
  }} -> tensor<?xi32>
  return %result : tensor<?xi32>
}}"""
    )
    halves = np.arange(-300, 300, dtype=np.float32) / 2
    values = np.concatenate(
        [halves, np.array([-np.inf, np.inf, 1e30, -1e-40, 2.5000002], np.float32)]
    )
    expected = np.clip(np.rint(values), -128, float(high)).astype(np.int32)
    np.testing.assert_array_equal(function(values), expected)
    assert expected.max() == largest
    assert function(np.array([np.nan], np.float32)).tolist() == [-128]
