"""The pass as a whole: what it refuses, quantized tensors, and types with a sign."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.pattern_rewriter import PatternRewriteWalker

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    lowered,
    run,
    same_bits,
)
from xdsl_quant.frontends.stablehlo.lowering.convert_stablehlo_to_linalg import (
    ConvertStableHLOToLinalgPass,
)
from xdsl_quant.frontends.stablehlo.lowering.linalg.contraction import LowerDotGeneral
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

Q = "!quant.uniform<i8:f32, 5.000000e-01:3>"
U = "!quant.uniform<u8:f32, 5.000000e-01:3>"


def test_registered():
    name = ConvertStableHLOToLinalgPass.name
    assert name == "convert-stablehlo-to-linalg"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is ConvertStableHLOToLinalgPass


# What cannot be converted

REFUSED = [
    (
        f"%r = stablehlo.add %a, %a : tensor<4x{Q}>",
        f"tensor<4x{Q}>",
        "'stablehlo.add' op is arithmetic on a quantized tensor: run "
        "'convert-quantized-stablehlo-to-linalg' instead",
    ),
    (
        f"%r = stablehlo.uniform_dequantize %a : (tensor<4x{Q}>) -> tensor<4xf32>",
        f"tensor<4x{Q}>",
        "'stablehlo.uniform_dequantize' op is a quantization cast: run "
        "'convert-quantized-stablehlo-to-linalg' instead, or 'stablehlo-casts-to-quant' "
        "first",
    ),
    (
        "%r = stablehlo.add %a, %a : tensor<4xcomplex<f32>>",
        "tensor<4xcomplex<f32>>",
        "'stablehlo.add' op has a value of type 'tensor<4xcomplex<f32>>', expected "
        "elements of type bf16, f16, f32, f64 or an integer of up to 64 bits",
    ),
    (
        "%r = stablehlo.add %a, %a : tensor<4xf8E4M3FN>",
        "tensor<4xf8E4M3FN>",
        "'stablehlo.add' op has a value of type 'tensor<4xf8E4M3FN>', expected "
        "elements of type bf16, f16, f32, f64 or an integer of up to 64 bits",
    ),
    (
        "%r = stablehlo.custom_call @target(%a) : (tensor<4xf32>) -> tensor<4xf32>",
        "tensor<4xf32>",
        "'stablehlo.custom_call' op calls 'target', which has no conversion to linalg",
    ),
    (
        "%r = stablehlo.convolution(%a, %a) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        "window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>",
        "tensor<?x?x?xf32>",
        "'stablehlo.convolution' op has a window of unknown size, which has no conversion "
        "to linalg",
    ),
]


def text_with(op: str, type_: str) -> str:
    return (
        f"func.func @main(%a: {type_}, %x: tensor<4xf32>) {{\n"
        "  %y = stablehlo.add %x, %x : tensor<4xf32>\n"
        f"  {op}\n  return\n}}"
    )


@pytest.mark.parametrize(("op", "type_", "message"), REFUSED)
def test_what_is_refused(op: str, type_: str, message: str):
    """With the place, and before anything is changed."""
    module = parse_module(text_with(op, type_), "model.mlir")
    before = str(module)
    line = 3 + op.count("\n")
    with pytest.raises(IRError) as error:
        apply_passes(module, "convert-stablehlo-to-linalg")
    assert str(error.value) == (
        f"model.mlir:{line}:3: error: {message} (in the pass convert-stablehlo-to-linalg)"
    )
    assert str(module) == before


REDUCTION = """
func.func @main(%x: tensor<4xf32>, %i: tensor<f32>, %o: tensor<f32>) -> tensor<f32> {{
  %r = stablehlo.reduce(%x init: %i) across dimensions = [0]
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    reducer(%a: tensor<f32>, %b: tensor<f32>) {{
    {body}
    stablehlo.return %c : tensor<f32>
  }}
  return %r : tensor<f32>
}}"""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            "%c = stablehlo.add %a, %o : tensor<f32>",
            "'stablehlo.add', which uses a value from outside of the body",
        ),
        (
            "%c = stablehlo.reshape %a : (tensor<f32>) -> tensor<f32>",
            "'stablehlo.reshape', which is not elementwise",
        ),
        (
            "%d = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> "
            "tensor<1xf32>\n%c = stablehlo.add %a, %b : tensor<f32>",
            "'stablehlo.broadcast_in_dim', which has a value that is not a tensor of rank "
            "0",
        ),
        (
            "%k = arith.constant 1 : i32\n%s, %v = arith.addui_extended %k, %k : i32, i1\n"
            "%c = stablehlo.add %a, %b : tensor<f32>",
            "'arith.addui_extended', which is not elementwise",
        ),
        (
            "%k = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>\n"
            "%c = stablehlo.add %a, %b : tensor<f32>",
            "'stablehlo.constant', which has the unsupported element type 'complex<f32>'",
        ),
        (
            "%e = tensor.empty() : tensor<f32>\n%c = linalg.generic {indexing_maps = "
            "[affine_map<() -> ()>], iterator_types = []} outs(%e : tensor<f32>) {\n"
            "^bb0(%n: f32):\n%t = tensor.extract %o[] : tensor<f32>\n"
            "linalg.yield %t : f32\n} -> tensor<f32>",
            "'tensor.extract', which uses a value from outside of the body",
        ),
    ],
)
def test_bodies_that_are_refused(body: str, problem: str):
    with pytest.raises(IRError, match=f"has a body with {problem}"):
        lowered(REDUCTION.format(body=body))


def test_a_type_with_a_sign_elsewhere():
    text = (
        "func.func @main(%a: tensor<4xui8>) {\n"
        '  "test.op"(%a) : (tensor<4xui8>) -> ()\n  return\n}'
    )
    with pytest.raises(
        IRError, match=r"'test.op' op has a value of type 'tensor<4xui8>'"
    ):
        lowered(text)


# Types with a sign

SIGNS = """
func.func private @half(%x: tensor<4xui8>, %two: tensor<4xui8>) -> tensor<4xui8> {
  %y = stablehlo.divide %x, %two : tensor<4xui8>
  return %y : tensor<4xui8>
}
func.func @main(%x: tensor<4xui8>, %which: i1) -> tensor<4xui8> {
  %two = stablehlo.constant dense<2> : tensor<4xui8>
  %y = func.call @half(%x, %two) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  %r = scf.if %which -> (tensor<4xui8>) {
    scf.yield %y : tensor<4xui8>
  } else {
    scf.yield %x : tensor<4xui8>
  }
  return %r : tensor<4xui8>
}"""


def test_types_with_a_sign_go_everywhere():
    assert "ui8" not in str(lowered(SIGNS))
    values = np.array([0, 7, 200, 255], np.uint8)
    (actual,) = run(SIGNS, values, True)
    same_bits(actual, values // 2)


# Quantized tensors


def moving(type_: str) -> str:
    return f"""
func.func @main(%x: tensor<2x3x{type_}>, %c: tensor<2x3xi1>)
    -> (tensor<3x2x{type_}>, tensor<4x3x{type_}>, tensor<1x3x{type_}>,
        tensor<2x3x{type_}>) {{
  %0 = stablehlo.transpose %x, dims = [1, 0]
      : (tensor<2x3x{type_}>) -> tensor<3x2x{type_}>
  %1 = stablehlo.concatenate %x, %x, dim = 0
      : (tensor<2x3x{type_}>, tensor<2x3x{type_}>) -> tensor<4x3x{type_}>
  %2 = stablehlo.slice %1 [3:4, 0:3] : (tensor<4x3x{type_}>) -> tensor<1x3x{type_}>
  %3 = stablehlo.select %c, %x, %x : tensor<2x3xi1>, tensor<2x3x{type_}>
  return %0, %1, %2, %3 : tensor<3x2x{type_}>, tensor<4x3x{type_}>,
      tensor<1x3x{type_}>, tensor<2x3x{type_}>
}}"""


@pytest.mark.parametrize(("type_", "dtype"), [(Q, np.int8), (U, np.uint8)])
def test_stored_values_are_moved(type_: str, dtype: Any):
    values = np.array([[1, 2, 100], [4, 5, 200]], np.uint8).view(dtype)
    condition = np.array([[True, False, True]] * 2)
    actual = run(moving(type_), values, condition)
    twice = np.concatenate([values, values])
    for one, other in zip(actual, (values.T, twice, twice[3:], values), strict=True):
        same_bits(one, other)


def test_the_quantized_dimension_moves_along():
    rows, columns, planes = (
        f"!quant.uniform<i8:f32:{axis}, {{1.0,2.0,3.0}}>" for axis in (0, 1, 2)
    )
    text = f"""
func.func @main(%x: tensor<2x3x{columns}>)
    -> (tensor<3x2x{rows}>, tensor<1x2x3x{planes}>, tensor<2x2x3x{planes}>) {{
  %0 = stablehlo.transpose %x, dims = [1, 0]
      : (tensor<2x3x{columns}>) -> tensor<3x2x{rows}>
  %1 = stablehlo.reshape %x : (tensor<2x3x{columns}>) -> tensor<1x2x3x{planes}>
  %2 = stablehlo.broadcast_in_dim %x, dims = [1, 2]
      : (tensor<2x3x{columns}>) -> tensor<2x2x3x{planes}>
  return %0, %1, %2 : tensor<3x2x{rows}>, tensor<1x2x3x{planes}>,
      tensor<2x2x3x{planes}>
}}"""
    values = np.arange(6, dtype=np.int8).reshape(2, 3)
    transposed, reshaped, repeated = run(text, values)
    same_bits(transposed, values.T)
    same_bits(reshaped, values[None])
    same_bits(repeated, np.array([values, values]))


def test_quantized_constants_and_padding():
    text = f"""
func.func @main() -> (tensor<5x{Q}>, tensor<2x2x{U}>) {{
  %x = stablehlo.constant() <{{value = dense<[-7, 8]> : tensor<2xi8>}}>
      : () -> tensor<2x{Q}>
  %p = stablehlo.constant() <{{value = dense<3> : tensor<i8>}}> : () -> tensor<{Q}>
  %0 = stablehlo.pad %x, %p, low = [1], high = [1], interior = [1]
      : (tensor<2x{Q}>, tensor<{Q}>) -> tensor<5x{Q}>
  %y = stablehlo.constant() <{{value = dense<[-1, 1]> : tensor<2xi8>}}>
      : () -> tensor<2x{U}>
  %z = stablehlo.reshape %y : (tensor<2x{U}>) -> tensor<2x1x{U}>
  %1 = stablehlo.broadcast_in_dim %z, dims = [0, 1]
      : (tensor<2x1x{U}>) -> tensor<2x2x{U}>
  return %0, %1 : tensor<5x{Q}>, tensor<2x2x{U}>
}}"""
    padded, repeated = run(text)
    same_bits(padded, np.array([3, -7, 3, 8, 3], np.int8))
    same_bits(repeated, np.array([[255, 255], [1, 1]], np.uint8))


def test_casts_between_moves_go():
    text = f"""
func.func @main(%x: tensor<2x3x{Q}>) -> tensor<2x3x{Q}> {{
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3x{Q}>) -> tensor<3x2x{Q}>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<3x2x{Q}>) -> tensor<2x3x{Q}>
  return %1 : tensor<2x3x{Q}>
}}"""
    assert str(lowered(text)).count("quant.scast") == 2


# Patterns


def test_one_pattern_alone():
    """It lowers the ops that it supports, and the module stays valid."""
    text = """
func.func @main(%x: tensor<2x2xui8>, %y: tensor<2x2xcomplex<f32>>) {
  %0 = stablehlo.add %x, %x : tensor<2x2xui8>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0]
      : (tensor<2x2xui8>, tensor<2x2xui8>) -> tensor<2x2xui8>
  %2 = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0]
      : (tensor<2x2xcomplex<f32>>, tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
  return
}"""
    module = parse_module(text)
    PatternRewriteWalker(LowerDotGeneral()).rewrite_module(module)
    module.verify()
    names = [op.name for op in module.walk()]
    assert names.count("stablehlo.add") == names.count("stablehlo.dot_general") == 1
    assert names.count("builtin.unrealized_conversion_cast") == 3


# Results


def test_ops_that_do_nothing():
    """The result of one is its operand, also if that is the result of another one."""
    text = """
func.func @main(%x: tensor<2x3xui8>) -> tensor<2x3xui8> {
  %0 = stablehlo.add %x, %x : tensor<2x3xui8>
  %1 = stablehlo.transpose %0, dims = [0, 1] : (tensor<2x3xui8>) -> tensor<2x3xui8>
  %2 = stablehlo.reshape %1 : (tensor<2x3xui8>) -> tensor<2x3xui8>
  return %2 : tensor<2x3xui8>
}"""
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for type_, dtype in (("ui8", np.uint8), ("f32", np.float32)):
        (actual,) = run(text.replace("ui8", type_), values.astype(dtype))
        same_bits(actual, (2 * values).astype(dtype))


def test_places_and_names():
    module = parse_module(
        text_with("%r = stablehlo.abs %a : tensor<4xf32>", "tensor<4xf32>")
    )
    apply_passes(module, "convert-stablehlo-to-linalg")
    generics = [op for op in module.walk() if op.name == "linalg.generic"]
    assert [op.results[0].name_hint for op in generics] == ["y", "r"]
    for op, line in zip(generics, (2, 3), strict=True):
        for inner in op.walk():
            assert isinstance(inner.location, FileLineColLoc)
            assert inner.location.line.data == line


def test_the_text_can_be_read_again():
    module = lowered(SIGNS)
    assert str(parse_module(str(module))) == str(module)
    module = lowered(moving(Q))
    assert str(parse_module(str(module))) == str(module)
