"""Conditionals and loops, compared with StableHLO's own interpreter."""

from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    run,
    same_bits,
    stablehlo_results,
)
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

PROGRAM = """
func.func @main(%n: tensor<i32>, %b: tensor<2xf32>, %k: tensor<ui8>)
    -> (tensor<i32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
        tensor<ui8>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %x = %b, %u = %k)
      : tensor<i32>, tensor<2xf32>, tensor<ui8>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %y = stablehlo.add %x, %b : tensor<2xf32>
      %v = stablehlo.multiply %u, %u : tensor<ui8>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %y, %v : tensor<i32>, tensor<2xf32>, tensor<ui8>
    }
  %p = stablehlo.compare GT, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %q = "stablehlo.if"(%p) ({
    %t = stablehlo.negate %b : tensor<2xf32>
    stablehlo.return %t : tensor<2xf32>
  }, {
    stablehlo.return %b : tensor<2xf32>
  }) : (tensor<i1>) -> tensor<2xf32>
  %z = "stablehlo.case"(%n) ({
    stablehlo.return %b : tensor<2xf32>
  }, {
    stablehlo.return %q : tensor<2xf32>
  }, {
    %t = stablehlo.multiply %b, %b : tensor<2xf32>
    stablehlo.return %t : tensor<2xf32>
  }) : (tensor<i32>) -> tensor<2xf32>
  %a = "stablehlo.case"(%n) ({
    %t = stablehlo.subtract %b, %z : tensor<2xf32>
    stablehlo.return %t : tensor<2xf32>
  }) : (tensor<i32>) -> tensor<2xf32>
  %o:2 = stablehlo.optimization_barrier %a, %z : tensor<2xf32>, tensor<2xf32>
  return %r#0, %r#1, %q, %o#0, %o#1, %r#2 : tensor<i32>, tensor<2xf32>, tensor<2xf32>,
      tensor<2xf32>, tensor<2xf32>, tensor<ui8>
}"""


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 3, 5])
def test_counts(count: int):
    arguments = [
        np.array(count, np.int32),
        np.array([1.5, -2], np.float32),
        np.array(3, np.uint8),
    ]
    expected = stablehlo_results(PROGRAM, *arguments)
    for actual, wanted in zip(run(PROGRAM, *arguments), expected, strict=True):
        same_bits(actual, wanted)


def test_quantized_state():
    """Three steps of `x + x / 4`, on stored values with scale 0.5."""
    q = "tensor<2x!quant.uniform<i8:f32, 0.5>>"
    text = f"""
    func.func @main(%b: {q}) -> {q} {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<3> : tensor<i32>
      %w = stablehlo.constant() <{{value = dense<1> : tensor<2xi8>}}>
          : () -> tensor<2x!quant.uniform<i8:f32, 0.25>>
      %r:2 = stablehlo.while(%i = %zero, %x = %b) : tensor<i32>, {q}
        cond {{
          %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %y = stablehlo.multiply %x, %w
              : ({q}, tensor<2x!quant.uniform<i8:f32, 0.25>>) -> {q}
          %z = stablehlo.add %x, %y : {q}
          %j = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %j, %z : tensor<i32>, {q}
        }}
      return %r#1 : {q}
    }}"""
    module = parse_module(text)
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    values = np.array([7, -99], np.int8)
    expected = values.astype(np.int64)
    for _ in range(3):
        expected = np.clip(expected + np.rint(expected / 4).astype(int), -128, 127)
    stored: Any = expected.astype(np.int8)
    same_bits(np.asarray(compile(module)(values)), stored)
    (interpreted,) = run_function(module, None, values)
    same_bits(np.asarray(interpreted), stored)


@pytest.mark.parametrize("widths", [("i8", "i8"), ("i8", "i32"), ("i32", "i8")])
def test_barrier_of_different_quantized_types(widths: tuple[str, str]):
    q, r = (
        f"tensor<3x!quant.uniform<{width}:f32, {parameters}>>"
        for width, parameters in zip(widths, ("0.1:3", "0.25:-7"), strict=True)
    )
    text = (
        f"func.func @main(%a: {q}, %b: {r}) -> ({q}, {r}) {{\n"
        f"%0:2 = stablehlo.optimization_barrier %a, %b : {q}, {r}\n"
        f"return %0#0, %0#1 : {q}, {r}\n}}"
    )
    values = [
        np.array([-128, 3, 127], np.int8 if width == "i8" else np.int32)
        for width in widths
    ]
    results: Any = compile(text)(*values)
    for actual in (results, run_function(parse_module(text), None, *values)):
        for one, expected in zip(actual, values, strict=True):
            same_bits(np.asarray(one), expected)


COMPOSITE = """
func.func private @twice(%x: tensor<2xui8>) -> tensor<2xui8> {
  %0 = stablehlo.add %x, %x : tensor<2xui8>
  return %0 : tensor<2xui8>
}
func.func @main(%x: tensor<2xui8>) -> tensor<2xui8> {
  %0 = stablehlo.composite "my.twice" %x {
    composite_attributes = {n = 1 : i32}, decomposition = @twice, version = 1 : i32
  } : (tensor<2xui8>) -> tensor<2xui8>
  return %0 : tensor<2xui8>
}"""


def test_composites_are_calls():
    module = parse_module(COMPOSITE)
    assert (
        '%0 = stablehlo.composite "my.twice" %x {composite_attributes = {n = 1 : i32}, '
        "decomposition = @twice, version = 1 : i32} : (tensor<2xui8>) -> tensor<2xui8>"
    ) in str(module)
    apply_passes(module, "convert-stablehlo-to-linalg")
    values = np.array([3, 200], np.uint8)
    same_bits(np.asarray(compile(module, "main")(values)), values + values)
    (interpreted,) = run_function(module, "main", values)
    same_bits(np.asarray(interpreted), values + values)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"my.twice"',
            '"twice"',
            "name must be a valid namespaced op name, i.e. it must match the following "
            "regular expression: ^[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+$ e.g. "
            '"my_namespace.my_op"',
        ),
        ("= @twice", "= @other", "'other' does not reference a valid function"),
        (
            "%x {",
            "%x, %x {",
            "has 2 operand(s), but decomposition has 1",
        ),
        (
            "(%x: tensor<2xui8>) -> tensor<2xui8> {\n  %0 = stablehlo.add %x, %x",
            "(%x: tensor<2xui8>, %y: tensor<2xui8>) -> tensor<2xui8> {\n"
            "  %0 = stablehlo.add %x, %x",
            "has 1 operand(s), but decomposition has 2",
        ),
        (
            "@main(%x: tensor<2xui8>)",
            "@main(%x: tensor<2xi8>)",
            "operand at index 0 has type 'tensor<2xi8>', but decomposition has type "
            "'tensor<2xui8>'",
        ),
    ],
)
def test_composites_are_verified(old: str, new: str, message: str):
    text = COMPOSITE.replace(old, new)
    if "%x, %x {" in new:
        text = text.replace("} : (tensor<2xui8>)", "} : (tensor<2xui8>, tensor<2xui8>)")
    if "tensor<2xi8>" in new:
        text = text.replace("} : (tensor<2xui8>)", "} : (tensor<2xi8>)")
    with pytest.raises(IRError) as error:
        parse_module(text)
    assert str(error.value).endswith(message)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (
            "%r = stablehlo.while(%a = %x) : tensor<2xf32>\n"
            "cond { stablehlo.return %p : tensor<i1> } do {\n"
            "%y = stablehlo.custom_call @resized(%a) : (tensor<2xf32>) -> tensor<?xf32>\n"
            "stablehlo.return %y : tensor<?xf32> }",
            "stablehlo.while' op has a region that returns values of types "
            r"\(tensor<\?xf32>\), expected the types of its results, \(tensor<2xf32>\)",
        ),
        (
            '%r = "stablehlo.if"(%p) ({ stablehlo.return %t : !stablehlo.token }, '
            "{ stablehlo.return %t : !stablehlo.token }) "
            ": (tensor<i1>) -> !stablehlo.token",
            "stablehlo.if' op has a token, which has no conversion to linalg",
        ),
    ],
)
def test_control_flow_without_conversion(op: str, reason: str):
    text = (
        "func.func @f(%x: tensor<2xf32>, %p: tensor<i1>, %t: !stablehlo.token) "
        f"{{\n{op}\nreturn\n}}"
    )
    module = parse_module(text)
    before = str(module)
    with pytest.raises(IRError, match=reason):
        apply_passes(module, "convert-stablehlo-to-linalg")
    assert str(module) == before


def test_recursion_that_ends():
    text = """
      func.func @main(%n: tensor<i32>, %x: tensor<5xf32>) -> tensor<5xf32> {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %ends = stablehlo.compare LE, %n, %zero
          : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %r = "stablehlo.if"(%ends) ({
          stablehlo.return %x : tensor<5xf32>
        }, {
          %m = stablehlo.subtract %n, %one : tensor<i32>
          %y = stablehlo.add %x, %x : tensor<5xf32>
          %z = func.call @main(%m, %y) : (tensor<i32>, tensor<5xf32>) -> tensor<5xf32>
          %s = stablehlo.add %z, %x : tensor<5xf32>
          stablehlo.return %s : tensor<5xf32>
        }) : (tensor<i1>) -> tensor<5xf32>
        func.return %r : tensor<5xf32>
      }
    """
    x, count = np.arange(5, dtype=np.float32), np.int32(3)
    # 8x, and x, 2x and 4x from the callers.
    np.testing.assert_array_equal(run_function(text, "main", count, x)[0], 15 * x)
    np.testing.assert_array_equal(compile(text)(count, x), 15 * x)
