"""Shardings as JAX prints them."""

from io import StringIO
from typing import Any

import numpy as np
import pytest
from xdsl.printer import Printer

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

TEXT = """builtin.module {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {jax.result_info = "r", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y", ?}]>}) {
    %0 = stablehlo.add %x, %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    func.return %1 : tensor<8x4xf32>
  }
}"""  # noqa: E501 as printed


def test_text():
    module = parse_module(TEXT)
    module.verify()
    assert str(module) == TEXT
    rule = "#sdy.op_sharding_rule<([i, j], [k])->([i, j]) {i=4, j=4, k=2}, custom>"
    call = f"""builtin.module {{
  func.func @f(%x: tensor<4xf32>) {{
    stablehlo.custom_call @g(%x) {{sdy.sharding_rule = {rule}}} : (tensor<4xf32>) -> ()
    func.return
  }}
}}"""
    assert str(parse_module(call)) == call


def test_lowered_modules_have_none():
    module = parse_module(TEXT)
    apply_passes(module, "convert-stablehlo-to-linalg")
    assert "sdy" not in str(module)
    assert 'jax.result_info = "r"' in str(module)
    values = np.ones((8, 4), np.float32)
    (interpreted,) = run_function(parse_module(TEXT), None, values)
    compiled: Any = compile(parse_module(TEXT))(values)
    assert (
        np.asarray(interpreted).tolist() == compiled.tolist() == (2 * values).tolist()
    )


MANUAL = """builtin.module {
  sdy.mesh @mesh = <["x"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}]}}
  func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"x"} (%a: tensor<4xf32>) {
      %1 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%b: tensor<f32>, %c: tensor<f32>):
        %2 = stablehlo.add %b, %c : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<4xf32>
    func.return %0 : tensor<4xf32>
  }
}"""  # noqa: E501 as printed


def test_manual_computation():
    module = parse_module(MANUAL)
    module.verify()
    assert str(module) == MANUAL
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    assert str(parse_module(stream.getvalue())) == MANUAL
    assert '#sdy<manual_axes {"x"}>' in stream.getvalue()
    message = "'sdy.manual_computation' op has no conversion to linalg"
    with pytest.raises(IRError, match=message):
        apply_passes(module, "convert-stablehlo-to-linalg")
    assert str(module) == MANUAL
