"""Sums of reductions are clamped at each step only if a partial sum may be out of range."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import Operation

from xdsl_quant.execution import compile
from xdsl_quant.frontends.stablehlo.lowering.integers import elementwise
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

PASSES = "convert-quantized-stablehlo-to-linalg,strip-func-quant-types,canonicalize"

I8 = "!quant.uniform<i8:f32, 5.000000e-01:-128>"
I32 = "!quant.uniform<i32:f32, 5.000000e-01>"


def lowered(text: str) -> str:
    module = parse_module(text)
    apply_passes(module, PASSES)
    return str(module)


def sums(
    size: object,
    init: str,
    source: str = I8,
    sum_type: str = I32,
    operands: str = "%a, %b",
) -> str:
    """Sums of rows after requantization, whose initial value is `init`."""
    return f"""
!q = {source}
!s = {sum_type}
func.func @f(%x: tensor<2x{size}x!q>, %y: tensor<!s>) -> tensor<2x!s> {{
  %w = stablehlo.uniform_quantize %x : (tensor<2x{size}x!q>) -> tensor<2x{size}x!s>
  {init}
  %r = stablehlo.reduce(%w init: %i) across dimensions = [1]
    : (tensor<2x{size}x!s>, tensor<!s>) -> tensor<2x!s>
    reducer(%a: tensor<!s>, %b: tensor<!s>) {{
      %t = stablehlo.add {operands} : tensor<!s>
      stablehlo.return %t : tensor<!s>
    }}
  return %r : tensor<2x!s>
}}"""


def constant(number: int, storage: str = "i32") -> str:
    return (
        f"%i = stablehlo.constant() <{{value = dense<{number}> : tensor<{storage}>}}> "
        ": () -> tensor<!s>"
    )


@pytest.mark.parametrize(
    ("size", "init", "is_clamped"),
    [
        # 8421504 * 255 + 127 is the largest number of 32 bits.
        (8421504, constant(127), False),
        (8421504, constant(128), True),
        (8421505, constant(0), True),
        (1, constant(-(1 << 31)), False),
        (0, constant(0), True),
        (4, "%i = stablehlo.reshape %y : (tensor<!s>) -> tensor<!s>", True),
        ("?", constant(0), True),
    ],
)
@pytest.mark.parametrize("operands", ["%a, %b", "%b, %a"])
def test_clamps(size: object, init: str, is_clamped: bool, operands: str):
    text = lowered(sums(size, init, operands=operands))
    assert ("arith.maxsi" in text) == is_clamped
    assert ("i64" in text) == is_clamped


def test_terms_that_are_not_requantized():
    text = f"""
!s = {I32}
func.func @f(%x: tensor<2x9x!s>) -> tensor<2x!s> {{
  {constant(0)}
  %r = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1]
    : (tensor<2x9x!s>, tensor<!s>) -> tensor<2x!s>
  return %r : tensor<2x!s>
}}"""
    assert "arith.maxsi" in lowered(text)


WINDOW = f"""
!s = {I32}
func.func @f(%x: tensor<4x4x{I8}>) -> tensor<SIZExSIZEx!s> {{
  %w = stablehlo.uniform_quantize %x : (tensor<4x4x{I8}>) -> tensor<4x4x!s>
  CONSTANT
  %r = "stablehlo.reduce_window"(%w, %i) <{{
    window_dimensions = array<i64: 2, 2>, padding = dense<PAD> : tensor<2x2xi64>
  }}> ({{
  ^bb0(%a: tensor<!s>, %b: tensor<!s>):
    %t = stablehlo.add %a, %b : tensor<!s>
    stablehlo.return %t : tensor<!s>
  }}) : (tensor<4x4x!s>, tensor<!s>) -> tensor<SIZExSIZEx!s>
  return %r : tensor<SIZExSIZEx!s>
}}"""


@pytest.mark.parametrize(
    ("init", "is_clamped"), [(0, False), (429496729, False), (429496730, True)]
)
def test_windows_add_the_initial_value_as_padding(init: int, is_clamped: bool):
    """Four additions and the initial value are five times 429496729, or 2**31 - 3."""
    text = WINDOW.replace("CONSTANT", constant(init)).replace("PAD", "1")
    assert ("arith.maxsi" in lowered(text.replace("SIZE", "5"))) == is_clamped


@pytest.mark.parametrize("count", [1, 9, 100, 300])
@pytest.mark.parametrize(
    ("source", "sum_type", "init"),
    [
        ("!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i16:f32, 0.5>", 0),
        ("!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i16:f32, 0.5:-1000>", 7),
        ("!quant.uniform<u8:f32, 0.3:200>", "!quant.uniform<i16:f32, 0.7:20>", -30000),
        ("!quant.uniform<i8:f32, 3.0:-128>", "!quant.uniform<i16:f32, 0.01>", 5),
        ("!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i16<-500:400>:f32, 0.4>", 0),
    ],
)
def test_bounds_do_not_change_sums(
    source: str, sum_type: str, init: int, count: int, monkeypatch: pytest.MonkeyPatch
):
    text = sums(count, constant(init, "i16"), source, sum_type)
    texts = [lowered(text)]
    monkeypatch.setattr(elementwise, "partial_sum_bounds", dict[Operation, None]().get)
    texts.append(lowered(text))
    dtype = np.uint8 if "u8" in source else np.int8
    limits = np.iinfo(dtype)
    rows = np.random.default_rng(0).integers(limits.min, limits.max, (6, count), dtype)
    rows[0], rows[1] = limits.min, limits.max
    for pair in rows.reshape(3, 2, count):
        results = [
            run_function(parse_module(t), "f", pair, np.int16(0))[0] for t in texts
        ]
        np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("schedule", [False, True])
def test_sums_of_nothing_are_initial_values(schedule: bool):
    i16 = "!quant.uniform<i16:f32, 5.000000e-01:-58>"
    function = compile(sums(0, constant(-58, "i16"), sum_type=i16), schedule=schedule)
    x, y = np.zeros((2, 0), np.int8), np.zeros((), np.int16)
    np.testing.assert_array_equal(function(x, y), [-58, -58])
