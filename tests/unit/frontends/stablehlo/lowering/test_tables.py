"""Tables of elementwise ops with one operand of up to 8 bits."""

import numpy as np
import pytest
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import TypeAttribute

from tests.unit.frontends.stablehlo.lowering import (
    test_convert_quantized_stablehlo_to_linalg as quantized_programs,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

INTEGERS = "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg"
FLOATS = (
    "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,"
    "lower-quant-ops{rounding-mode=nearest-even},convert-stablehlo-to-linalg"
)
TABLES = [
    name for name in quantized_programs.FUNCTIONS if name not in ("abs", "negate")
]


def program(operand: str, result: str, size: int) -> str:
    """A function of a tensor of stored values, with a result for each op."""
    q, r = (f"tensor<{size}x!quant.uniform<{text}>>" for text in (operand, result))
    truth = f"tensor<{size}xi1>"
    lines = [f"%{name} = stablehlo.{name} %q : ({q}) -> {r}" for name in TABLES]
    lines += [
        f"%reduced = stablehlo.reduce_precision %q, format = e5m3 : {q}",
        f"%finite = stablehlo.is_finite %q : ({q}) -> {truth}",
    ]
    names = ", ".join(f"%{name}" for name in (*TABLES, "reduced", "finite"))
    types = ", ".join([r] * len(TABLES) + [q, truth])
    body = "\n".join(lines)
    return (
        f"func.func @f(%q: {q}) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}"
    )


@pytest.mark.parametrize(
    ("operand", "result"),
    [
        ("i8<-100:90>:f32, 0.07:5", "i8<-100:90>:f32, 0.03:-7"),
        ("u8:f32, 0.03:140", "u8:f32, 0.01:11"),
        ("i4:bf16, 0.3:-2", "i4:bf16, 0.02:3"),
        ("u2:f32, 0.6:1", "u2:f32, 0.4"),
    ],
)
def test_tables_are_the_results_of_floats(operand: str, result: str):
    """Of all stored values; the integer form has no float."""
    width = int(operand[1])
    low = 0 if operand[0] == "u" else -(1 << width - 1)
    dtype = np.uint8 if operand[0] == "u" else np.int8
    stored = np.arange(low, low + (1 << width)).astype(dtype)
    text = program(operand, result, len(stored))
    modules = [parse_module(text), parse_module(text)]
    for module, passes in zip(modules, (INTEGERS, FLOATS), strict=True):
        apply_passes(module, passes)
    elements = {
        scalar_or_element_type(value.type)
        for op in modules[0].walk()
        for value in op.results
        if isinstance(value.type, TypeAttribute)
    }
    assert not any(isinstance(element, AnyFloat) for element in elements)
    with np.errstate(all="ignore"):
        found, expected = (run_function(m, "f", stored) for m in modules)
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)
    if width == 8:
        for actual, wanted in zip(compile(modules[0])(stored), expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)


Q, SCALAR = (f"tensor<{shape}!quant.uniform<i8:f32, 0.5:3>>" for shape in ("4x", ""))
REGIONS = {
    "while": f"""
      %0:2 = "stablehlo.while"(%n, %x) ({{
      ^bb0(%i: tensor<i32>, %a: {Q}):
        %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}, {{
      ^bb0(%i: tensor<i32>, %a: {Q}):
        %j = stablehlo.add %i, %one : tensor<i32>
        %b = stablehlo.tanh %a : {Q}
        %d = stablehlo.add %b, %x : {Q}
        stablehlo.return %j, %d : tensor<i32>, {Q}
      }}) : (tensor<i32>, {Q}) -> (tensor<i32>, {Q})
      return %0#1 : {Q}""",
    "case": f"""
      %0 = "stablehlo.case"(%n) ({{
        %b = stablehlo.tanh %x : {Q}
        stablehlo.return %b : {Q}
      }}, {{
        stablehlo.return %x : {Q}
      }}) : (tensor<i32>) -> {Q}
      return %0 : {Q}""",
    "if": f"""
      %c = stablehlo.compare EQ, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %0 = "stablehlo.if"(%c) ({{
        stablehlo.return %x : {Q}
      }}, {{
        %b = stablehlo.tanh %x : {Q}
        stablehlo.return %b : {Q}
      }}) : (tensor<i1>) -> {Q}
      return %0 : {Q}""",
    "composite": f"""
      %0 = stablehlo.composite "my.tanh" %x {{decomposition = @tanh}} : ({Q}) -> {Q}
      return %0 : {Q}""",
    "map": f"""
      %0 = "stablehlo.map"(%x) ({{
      ^bb0(%a: {SCALAR}):
        %b = stablehlo.tanh %a : {SCALAR}
        %c = stablehlo.add %b, %a : {SCALAR}
        stablehlo.return %c : {SCALAR}
      }}) {{dimensions = array<i64: 0>}} : ({Q}) -> {Q}
      return %0 : {Q}""",
    "scatter": f"""
      %p = stablehlo.constant dense<[[2], [2], [0], [3]]> : tensor<4x1xi32>
      %0 = "stablehlo.scatter"(%x, %p, %x) ({{
      ^bb0(%a: {SCALAR}, %b: {SCALAR}):
        %c = stablehlo.add %a, %b : {SCALAR}
        stablehlo.return %c : {SCALAR}
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
        : ({Q}, tensor<4x1xi32>, {Q}) -> {Q}
      return %0 : {Q}""",
    "sort": f"""
      %k = stablehlo.iota dim = 0 : tensor<4xi32>
      %0:2 = "stablehlo.sort"(%x, %k) ({{
      ^bb0(%a: {SCALAR}, %b: {SCALAR}, %c: tensor<i32>, %d: tensor<i32>):
        %e = stablehlo.compare GT, %a, %b : ({SCALAR}, {SCALAR}) -> tensor<i1>
        stablehlo.return %e : tensor<i1>
      }}) {{dimension = 0 : i64}} : ({Q}, tensor<4xi32>) -> ({Q}, tensor<4xi32>)
      return %0#0 : {Q}""",
    "barrier": f"""
      %b = stablehlo.tanh %x : {Q}
      %0 = stablehlo.optimization_barrier %b : {Q}
      return %0 : {Q}""",
}


def _tanh(x: np.ndarray) -> np.ndarray:
    return np.rint(np.tanh((x - 3.0) / 2) * 2 + 3)


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b - 3


X = np.array([1, 5, -60, 9], np.int8)
TWICE = _added(_tanh(_added(_tanh(_added(_tanh(X), X)), X)), X)
EXPECTED = {
    "while": TWICE,
    "case": _tanh(X),
    "if": _tanh(X),
    "composite": _tanh(X),
    "map": _added(_tanh(X), X),
    "scatter": np.array([1 - 60 - 3, 5, -60 + 1 + 5 - 6, 9 + 9 - 3]),
    "sort": np.array([9, 5, 1, -60]),
    "barrier": _tanh(X),
}


def region_program(name: str) -> str:
    """A function of stored values and an index."""
    return f"""
    func.func private @tanh(%x: {Q}) -> {Q} {{
      %0 = stablehlo.tanh %x : {Q}
      return %0 : {Q}
    }}
    func.func @f(%x: {Q}, %n: tensor<i32>) -> {Q} {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %three = stablehlo.constant dense<3> : tensor<i32>
      {REGIONS[name]}
    }}"""


@pytest.mark.parametrize("name", REGIONS)
def test_regions_on_stored_values(name: str):
    """No float and no quantized tensor is left, and the results are exact."""
    module = parse_module(region_program(name))
    apply_passes(module, f"{INTEGERS},strip-func-quant-types,canonicalize")
    assert "quant." not in str(module)
    assert "f32" not in str(module)
    (interpreted,) = run_function(module, "f", X, np.int32(0))
    assert interpreted.tolist() == EXPECTED[name].tolist()
    assert compile(module, "f")(X, np.int32(0)).tolist() == EXPECTED[name].tolist()
