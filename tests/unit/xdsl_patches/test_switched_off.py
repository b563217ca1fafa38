"""What does not work with `XDSL_QUANT_PATCHES=off`, and that it says why."""

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32

from xdsl_quant.xdsl_patches.resources import new_resource, resource_data

from .modules import run

WHY = "XDSL_QUANT_PATCHES is 'off'; unset it to patch xDSL"

CAST = """func.func @f(%x: {0}f32{1}) -> {0}!quant.uniform<i8:f32, 0.5>{1} {{
  %0 = quant.qcast %x : {0}f32{1} to {0}!quant.uniform<i8:f32, 0.5>{1}
  func.return %0 : {0}!quant.uniform<i8:f32, 0.5>{1}
}}"""

LOWERED = """func.func @f(%x: tensor<2xi8>) -> tensor<2xf32> {
  %0 = arith.sitofp %x : tensor<2xi8> to tensor<2xf32>
  func.return %0 : tensor<2xf32>
}"""

LOWER = ("xdsl-opt", "--verify-diagnostics", "-p", "lower-quant-ops")


def test_ops_of_tensors_cannot_be_lowered():
    printed = run(*LOWER, stdin=CAST.format("tensor<2x", ">"), XDSL_QUANT_PATCHES="off")
    assert f"| 'arith.fptosi' op is invalid without patches, {WHY}\n" in printed


def test_scalars_are_lowered():
    printed = run(*LOWER, stdin=CAST.format("", ""), XDSL_QUANT_PATCHES="off")
    assert "arith.fptosi %" in printed
    assert WHY not in printed


SCRIPT = """
import sys
from xdsl_quant.{room} import {function}
try:
    {function}(sys.stdin.read(), *{arguments})
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("room", "function", "arguments", "text", "error"),
    [
        (
            *("runtime.loading", "parse_module", (), LOWERED),
            "module: error: tensor<2xi8> should be of base attribute integer_type",
        ),
        (
            *("execution", "compile", ("f",), CAST.format("", "")),
            "error: unpatched xDSL does not print all constants in MLIR's syntax",
        ),
    ],
)
def test_evaluators_say_why(
    room: str, function: str, arguments: tuple[str, ...], text: str, error: str
):
    script = SCRIPT.format(room=room, function=function, arguments=arguments)
    printed = run("python", "-c", script, stdin=text, XDSL_QUANT_PATCHES="off")
    assert printed == f"{error}, {WHY}\n"


def test_resources_stay_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDSL_QUANT_PATCHES", "off")
    array = np.array([1.5, -2.5], np.float32)
    value = new_resource("text", array, TensorType(f32, (2,)))
    assert resource_data(value) == array.tobytes()
