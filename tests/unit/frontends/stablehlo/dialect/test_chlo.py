"""CHLO's ops: text, verification and values."""

import math

import numpy as np
import pytest

from tests.unit.frontends.stablehlo.lowering.linalg.running import TYPES, run, same_bits
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

FUNCTIONS = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "sinh": np.sinh,
    "square": np.square,
    "tan": np.tan,
}


def chlo_function(name: str, operand: str, result: str) -> str:
    return (
        f"func.func @main(%x: {operand}) -> {result} {{\n"
        f"%0 = chlo.{name} %x : {operand} -> {result}\nreturn %0 : {result}\n}}"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
def test_functions(name: str, element: str):
    values = np.linspace(-3, 3, 25).astype(TYPES[element])
    type_ = f"tensor<25x{element}>"
    (actual,) = run(chlo_function(name, type_, type_), values, is_exact=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        exact = FUNCTIONS[name](values.astype(np.float64))
    eps = float(np.finfo(values.dtype).eps)
    np.testing.assert_allclose(actual, exact, rtol=4 * eps, atol=4 * eps)


@pytest.mark.parametrize("element", ["f16", "f32"])
def test_inverse_error_function(element: str):
    values = np.array([0, -0.0, 0.25, -0.9, 0.99, -0.9995, 1, -1, 2], TYPES[element])
    type_ = f"tensor<9x{element}>"
    (actual,) = run(chlo_function("erf_inv", type_, type_), values, is_exact=False)
    eps = float(np.finfo(values.dtype).eps)
    restored = np.vectorize(math.erf)(actual[:6].astype(np.float64))
    np.testing.assert_allclose(restored, values[:6], rtol=8 * eps, atol=0)
    assert actual[6:].tolist()[:2] == [np.inf, -np.inf]
    assert np.isnan(actual[8])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("is_inf", [True, True, False, False]),
        ("is_pos_inf", [True, False, False, False]),
        ("is_neg_inf", [False, True, False, False]),
    ],
)
def test_infinities(name: str, expected: list[bool]):
    values = np.array([np.inf, -np.inf, np.nan, 3], np.float32)
    (actual,) = run(chlo_function(name, "tensor<4xf32>", "tensor<4xi1>"), values)
    same_bits(actual, np.array(expected))


def test_text():
    text = """builtin.module {
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
    %0 = chlo.square %x : tensor<4x8xf32> -> tensor<4x8xf32>
    %1, %2 = chlo.top_k(%0, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
    func.return %1, %2 : tensor<4x2xf32>, tensor<4x2xi32>
  }
}"""
    assert str(parse_module(text)) == text


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            "chlo.acos %x : tensor<4x8xf32> -> tensor<4x8xf64>",
            "'chlo.acos' op requires compatible types for all operands and results",
        ),
        (
            "chlo.erf %i : tensor<4xi32> -> tensor<4xi32>",
            "'chlo.erf' op operand #0 must be tensor of 4/6/8/16/32/64-bit float values, "
            "but got 'tensor<4xi32>'",
        ),
        (
            "chlo.is_inf %x : tensor<4x8xf32> -> tensor<3xi1>",
            "'chlo.is_inf' op all non-scalar operands/results must have the same shape "
            "and base type",
        ),
        (
            '"chlo.top_k"(%x) <{k = 9 : i64}> '
            ": (tensor<4x8xf32>) -> (tensor<4x9xf32>, tensor<4x9xi32>)",
            "'chlo.top_k' op operand's last dimension must be at least 9",
        ),
        (
            '"chlo.top_k"(%x) <{k = 3 : i64}> '
            ": (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>)",
            "'chlo.top_k' op inferred type(s) 'tensor<4x3xf32>', 'tensor<4x3xi32>' are "
            "incompatible with return type(s) of operation 'tensor<4x3xf32>', "
            "'tensor<4x3xi64>'",
        ),
    ],
)
def test_verification(op: str, message: str):
    """JAX's bindings of CHLO print these messages."""
    names = "%0:2" if "top_k" in op else "%0"
    text = (
        "func.func @f(%x: tensor<4x8xf32>, %i: tensor<4xi32>) "
        f"{{\n{names} = {op}\nreturn\n}}"
    )
    with pytest.raises(IRError) as error:
        parse_module(text)
    assert str(error.value).partition(" error: ")[2] == message


@pytest.mark.parametrize("name", ["lgamma", "digamma", "bessel_i1e"])
def test_functions_without_formula(name: str):
    module = parse_module(chlo_function(name, "tensor<4xf32>", "tensor<4xf32>"))
    with pytest.raises(
        IRError, match=f"'chlo.{name}' op is elementwise, but has no formula"
    ):
        apply_passes(module, "convert-stablehlo-to-linalg")
