"""Conversions to integers which round, where that gives the same numbers."""

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.rounding_conversions import (
    round_in_f32,
    round_while_converting,
)

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


def test_clamps_that_keep_nan():
    assert rounds_while_converting(body(first="maximumf", second="minimumf"))
    assert rounds_in_f32(AWAY.format(**{**AWAY_OPTIONS, "first": "maximumf"}))


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
        body(first="minimumf"),
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


AWAY = """
  %half = arith.constant {half} : f64
  %moved = arith.constant {moved} : f64
  %low = arith.constant {low} : f64
  %high = arith.constant {high} : f64
  %0 = arith.extf %x : {type} to f64
  %1 = math.absf %0 : f64
  %2 = arith.addf %1, %half : f64
  %3 = math.floor %2 : f64
  %4 = math.copysign %3, %0 : f64
  %5 = arith.addf %4, %moved : f64
  %6 = arith.{first} %5, %low : f64
  %7 = arith.{second} %6, %high : f64
  %8 = arith.fptosi %7 : f64 to i32
"""

AWAY_OPTIONS = {
    "half": "0.5",
    "moved": "3.0",
    "low": "-128.0",
    "high": "127.0",
    "type": "f32",
    "first": "maxnumf",
    "second": "minnumf",
}


def rounds_in_f32(text: str, type_: str = "f32") -> bool:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @f(%x: {type_}) {{ {text} return }}")
        round_in_f32(module)
        module.operation.verify()
        (conversion,) = ops_in(module, "arith.fptosi")
        return str(conversion.operands[0].type) == "f32"


def test_rounds_half_away_in_f32():
    assert rounds_in_f32(AWAY.format(**AWAY_OPTIONS))
    without = AWAY.replace("%5 = arith.addf %4, %moved : f64", "")
    assert rounds_in_f32(without.replace("%5", "%4").format(**AWAY_OPTIONS))


@pytest.mark.parametrize(
    "options",
    [
        {"half": "0.25"},
        {"moved": "0.5"},
        {"low": "-127.5"},
        {"high": "1048581.0"},
        {"first": "minimumf"},
        {"first": "minnumf"},
        {"type": "f16"},
    ],
)
def test_others_do_not_round_half_away_in_f32(options: dict[str, str]):
    options = {**AWAY_OPTIONS, **options}
    assert not rounds_in_f32(AWAY.format(**options), options["type"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("moved", [0, -128, 5])
@pytest.mark.parametrize("scale", [1.0, 0.02, 3.0])
def test_halves_and_their_neighbours(moved: int, scale: float):
    low, high = ("-128", "127") if moved else ("-1048000", "1048000")
    options = {"moved": f"{moved}.0", "low": f"{low}.0", "high": f"{high}.0"}
    text = AWAY.format(**{**AWAY_OPTIONS, **options}).replace("%x", "%q")
    function = compile(f"""
        func.func @f(%t: tensor<?xf32>) -> tensor<?xi32> {{
          %zero = arith.constant 0 : index
          %scale = arith.constant {scale} : f32
          %n = tensor.dim %t, %zero : tensor<?xf32>
          %e = tensor.empty(%n) : tensor<?xi32>
          %r = linalg.generic {{indexing_maps = [
              affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
              iterator_types = ["parallel"]}}
              ins(%t : tensor<?xf32>) outs(%e : tensor<?xi32>) {{
          ^bb0(%x: f32, %o: i32):
            %q = arith.divf %x, %scale : f32
            {text}
            linalg.yield %8 : i32
          }} -> tensor<?xi32>
          return %r : tensor<?xi32>
        }}""")
    halves = (np.arange(-3000, 3000) + 0.5).astype(np.float32)
    halves = np.concatenate(
        [halves, np.ldexp(halves[3000:], 9), np.array([0, 0.25], np.float32)]
    )
    x = np.concatenate([halves, np.nextafter(halves, 0), np.nextafter(halves, 9e9)])
    x = np.concatenate([x, -x, x * scale, [np.inf, -np.inf, np.nan, 1e30]])
    x = x.astype(np.float32)
    quotient = (x / np.float32(scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(quotient) + 0.5), quotient) + moved
    expected = np.fmin(np.fmax(rounded, float(low)), float(high)).astype(np.int32)
    np.testing.assert_array_equal(function(x), expected)
