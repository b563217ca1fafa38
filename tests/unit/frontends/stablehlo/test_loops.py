"""Loops of float models, which the quantizer unrolls."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer.dynamic_ranges import prepare
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module

N, X, H = "tensor<i32>", "tensor<4x1x3xf32>", "tensor<1x2xf32>"
WEIGHTS = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
X_DATA = np.random.default_rng(1).normal(size=(4, 1, 3)).astype(np.float32)


def loop(condition: str = "%i, %four", index: str = "%reversed") -> str:
    """A cell with a gate, on the rows of a sequence from the last to the first."""
    return f"""
func.func @main(%x: {X}, %n: {N}) -> ({H}, tensor<4x1x2xf32>) {{
  %w = stablehlo.constant dense<{WEIGHTS.tolist()}> : tensor<5x2xf32>
  %b = stablehlo.constant dense<[[0.5, -0.25]]> : {H}
  %zero = stablehlo.constant dense<0> : {N}
  %one = stablehlo.constant dense<1> : {N}
  %three = stablehlo.constant dense<3> : {N}
  %four = stablehlo.constant dense<4> : {N}
  %h = stablehlo.constant dense<0.0> : {H}
  %rows = stablehlo.constant dense<0.0> : tensor<4x1x2xf32>
  %r:3 = stablehlo.while(%i = %zero, %s = %h, %o = %rows)
      : {N}, {H}, tensor<4x1x2xf32>
  cond {{
    %c = stablehlo.compare LT, {condition} : ({N}, {N}) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %reversed = stablehlo.subtract %three, %i : {N}
    %p = stablehlo.dynamic_slice %x, {index}, %zero, %zero, sizes = [1, 1, 3]
        : ({X}, {N}, {N}, {N}) -> tensor<1x1x3xf32>
    %q = stablehlo.reshape %p : (tensor<1x1x3xf32>) -> tensor<1x3xf32>
    %a = stablehlo.concatenate %q, %s, dim = 1
        : (tensor<1x3xf32>, {H}) -> tensor<1x5xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
        : (tensor<1x5xf32>, tensor<5x2xf32>) -> {H}
    %e = stablehlo.add %d, %b : {H}
    %t = stablehlo.tanh %e : {H}
    %m = stablehlo.multiply %t, %s : {H}
    %k = stablehlo.add %m, %t : {H}
    %u = stablehlo.reshape %k : ({H}) -> tensor<1x1x2xf32>
    %v = stablehlo.dynamic_update_slice %o, %u, %i, %zero, %zero
        : (tensor<4x1x2xf32>, tensor<1x1x2xf32>, {N}, {N}, {N}) -> tensor<4x1x2xf32>
    %j = stablehlo.add %i, %one : {N}
    stablehlo.return %j, %k, %v : {N}, {H}, tensor<4x1x2xf32>
  }}
  return %r#1, %r#2 : {H}, tensor<4x1x2xf32>
}}"""


def prepared(text: str) -> tuple[ModuleOp, list[str]]:
    """A module after simplification, and its ops; the results are the same."""
    module = parse_module(text)
    expected = run_function(module.clone(), "main", X_DATA, np.int32(3))
    prepare(module, entry_function(module))
    module.verify()
    names = [op.name.removeprefix("stablehlo.") for op in module.walk()]
    results = run_function(module.clone(), "main", X_DATA, np.int32(3))
    for actual, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-7)
    return module, names


def test_constant_loops_are_unrolled():
    """Slices are static, and products of concatenated states have their own scales."""
    module, names = prepared(loop())
    assert not {"while", "dynamic_slice", "concatenate"} & {*names}
    assert [names.count(name) for name in ("slice", "tanh", "dot_general")] == [4, 4, 8]
    # All iterations share the two parts of the weights.
    assert str(module).count("tensor<3x2xf32>\n") == 1
    assert str(module).count("tensor<2x2xf32>\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        loop(condition="%i, %n"),
        loop().replace(
            "%four = stablehlo.constant dense<4>",
            "%four = stablehlo.constant dense<400>",
        ),
    ],
)
def test_other_loops_are_kept(text: str):
    """The number of iterations is an argument, or the unrolled loop would be too long."""
    _, names = prepared(text)
    assert names.count("while") == 1


def test_indices_that_depend_on_arguments():
    """They are clamped at run time."""
    _, names = prepared(loop(index="%n"))
    assert names.count("dynamic_slice") == 4
    assert "while" not in names


def test_products_of_stored_values_are_kept():
    """Their parts would be rounded one by one."""
    state, w = "!quant.uniform<i8:f32, 0.25>", "!quant.uniform<i8:f32, 0.5>"
    x, h = f"tensor<1x1x{state}>", f"tensor<1x2x{state}>"
    weights, rows = f"tensor<3x2x{w}>", f"tensor<1x3x{state}>"
    text = f"""
    func.func @main(%x: {x}, %s: {h}) -> {h} {{
      %w = "stablehlo.constant"() {{value = dense<[[1, 2], [3, 4], [5, 6]]>
          : tensor<3x2xi8>}} : () -> {weights}
      %zero = stablehlo.constant dense<0> : {N}
      %two = stablehlo.constant dense<2> : {N}
      %one = stablehlo.constant dense<1> : {N}
      %r:2 = stablehlo.while(%i = %zero, %h = %s) : {N}, {h}
      cond {{
        %c = stablehlo.compare LT, %i, %two : ({N}, {N}) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %a = stablehlo.concatenate %x, %h, dim = 1 : ({x}, {h}) -> {rows}
        %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
            : ({rows}, {weights}) -> {h}
        %e = stablehlo.add %d, %h : {h}
        %j = stablehlo.add %i, %one : {N}
        stablehlo.return %j, %e : {N}, {h}
      }}
      return %r#1 : {h}
    }}"""
    module = parse_module(text)
    arguments = np.array([[7]], np.int8), np.array([[-3, 5]], np.int8)
    (expected,) = run_function(module.clone(), "main", *arguments)
    prepare(module, entry_function(module))
    module.verify()
    assert str(module).count("stablehlo.concatenate") == 2
    (result,) = run_function(module, "main", *arguments)
    np.testing.assert_array_equal(result, expected)
