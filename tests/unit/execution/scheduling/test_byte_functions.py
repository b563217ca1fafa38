"""Elementwise functions of one byte are table lookups."""

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import available_cpus
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.byte_functions import look_up_byte_functions


def function(body: str, shape: str = "8x16", result: str = "i8") -> str:
    """An elementwise function on memrefs; the body computes %r from %x."""
    loops = ", ".join("ijk"[: shape.count("x") + 1])
    types = f"memref<{shape}xi8>", f"memref<{shape}x{result}>"
    kinds = ", ".join(['"parallel"'] * len(loops.split(", ")))
    return f"""
        func.func @f(%a: {types[0]}, %b: {types[1]}, %n: i32) {{
          linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({loops})>,
              affine_map<({loops}) -> ({loops})>], iterator_types = [{kinds}]}}
              ins(%a : {types[0]}) outs(%b : {types[1]}) {{
          ^bb0(%x: i8, %o: {result}):
            {body}
            linalg.yield %r : {result}
          }}
          return
        }}"""


HALVED = """
    %w = arith.extsi %x : i8 to i32
    %c = arith.constant 1 : i32
    %h = arith.shrsi %w, %c : i32
    %r = arith.trunci %h : i32 to i8"""


ASSERTION = """
    %t = arith.cmpi sgt, %w, %c : i32
    cf.assert %t, "too small"
"""


def is_lookup(text: str) -> bool:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        look_up_byte_functions(module)
        module.operation.verify()
        return not ops_in(module, "linalg.generic")


def test_what_is_looked_up():
    assert is_lookup(function(HALVED))
    assert is_lookup(function(HALVED, "200"))


@pytest.mark.parametrize(
    "text",
    [
        function(HALVED, "7x9"),
        function(HALVED, "?x64"),
        function("%r = arith.addi %x, %x : i8"),
        function(HALVED.replace("%w, %c", "%w, %n")),
        function(HALVED.replace("shrsi", "divsi")),
        function(HALVED.replace("constant 1", "constant 32")),
        function(HALVED + ASSERTION),
        function(HALVED.replace("i32 to i8", "i32 to i16"), result="i16"),
    ],
)
def test_what_is_left_alone(text: str):
    assert not is_lookup(text)


MODEL = """
func.func @f(%x: tensor<SHAPExX>) -> tensor<SHAPExY> {
  %0 = "tfl.OP"(%x) ATTRIBUTES : (tensor<SHAPExX>) -> tensor<SHAPExY>
  return %0 : tensor<SHAPExY>
}"""
X, Y = "!quant.uniform<i8:f32, 0.05:3>", "!quant.uniform<i8:f32, 0.00390625:-128>"


@pytest.mark.parametrize("shape", ["4x64", "1x16x19", "333"])
@pytest.mark.parametrize("op", ["logistic", "quantize"])
def test_results(shape: str, op: str):
    """All CPUs compute the same, whether or not they have table lookups."""
    attributes = f"{{qtype = tensor<{shape}x{Y}>}}" if op == "quantize" else ""
    text = MODEL.replace("SHAPE", shape).replace("OP", op)
    text = text.replace("ATTRIBUTES", attributes).replace("xX>", f"x{X}>")
    text = text.replace("xY>", f"x{Y}>")
    sizes = [int(size) for size in shape.split("x")]
    x = np.resize(np.arange(-128, 128), sizes).astype(np.int8)
    expected = compile(text, schedule=False)(x)
    for cpu in available_cpus().values():
        np.testing.assert_array_equal(compile(text, cpu=cpu.name)(x), expected)
