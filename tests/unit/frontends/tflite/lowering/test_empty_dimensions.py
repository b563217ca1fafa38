"""Softmax and extremes of no elements: LiteRT, compiled and interpreted code agree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

DTYPES = {
    "f32": np.float32,
    "i32": np.int32,
    "!quant.uniform<i8:f32, 0.5>": np.int8,
    "!quant.uniform<u8:f32, 0.5>": np.uint8,
}


def check(text: str, type_: str, shape: tuple[int, ...]) -> None:
    module, x = parse_module(text), np.zeros(shape, DTYPES[type_])
    (expected,) = LiteRT(write_tflite(module)).run(x)
    (interpreted,) = run_function(module, None, x)
    for found in (compile(module)(x), interpreted):
        np.testing.assert_array_equal(found, expected)
        assert np.shape(found) == expected.shape


@pytest.mark.parametrize("type_", [*DTYPES])
@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes(name: str, type_: str, axis: int):
    operand, result = f"tensor<0x3x{type_}>", f"tensor<{[3, 0][axis]}x{type_}>"
    text = f"""func.func @main(%x: {operand}) -> {result} {{
      %a = "tfl.pseudo_const"() <{{value = dense<{axis}> : tensor<1xi32>}}>
        : () -> tensor<1xi32>
      %y = "tfl.{name}"(%x, %a) <{{keep_dims = false}}>
        : ({operand}, tensor<1xi32>) -> {result}
      return %y : {result}
    }}"""
    check(text, type_, (0, 3))


@pytest.mark.parametrize(
    ("name", "type_", "result"),
    [
        ("softmax", "f32", "f32"),
        ("log_softmax", "f32", "f32"),
        *(
            (
                name,
                "!quant.uniform<i8:f32, 0.5>",
                f"!quant.uniform<i8:f32, {parameters}>",
            )
            for name, parameters in (
                ("softmax", "0.00390625:-128"),
                ("log_softmax", "0.0625:127"),
            )
        ),
    ],
)
def test_softmax(name: str, type_: str, result: str):
    types = f"tensor<2x0x{type_}>", f"tensor<2x0x{result}>"
    beta = "<{beta = 1.0 : f32}>" if name == "softmax" else ""
    text = f"""func.func @main(%x: {types[0]}) -> {types[1]} {{
      %y = "tfl.{name}"(%x) {beta} : ({types[0]}) -> {types[1]}
      return %y : {types[1]}
    }}"""
    check(text, type_, (2, 0))
