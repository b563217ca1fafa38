"""Casts and float ops become quantized ops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import apply_passes, parse_module

PARAMETERS = """
!a = !quant.uniform<i8:f32, 0.1>
!b = !quant.uniform<i8:f32, 0.2>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.1, 0.3}>
"""


def quantized(name: str, value: str, type_: str, source: str) -> str:
    return (
        f'%{name} = "tfl.quantize"(%{value}) <{{qtype = {type_}}}> : '
        f"({source}) -> {type_}\n"
    )


def dequantized(name: str, value: str, type_: str, result: str) -> str:
    return f'%{name} = "tfl.dequantize"(%{value}) : ({type_}) -> {result}\n'


F = "tensor<4xf32>"
A, B = "tensor<4x!a>", "tensor<4x!b>"


def function(arguments: str, body: str, *returned: str) -> str:
    values, types = (
        ", ".join(each.split(": ")[i] for each in returned) for i in (0, 1)
    )
    return (
        f"{PARAMETERS}func.func @main({arguments}) -> ({types}) {{\n{body}\n"
        f"return {values} : {types}\n}}"
    )


def relu(result: str, operand: str, types: str = f"({F}) -> {F}") -> str:
    return f'%{result} = "tfl.relu"(%{operand}) : {types}\n'


def check(before: str, after: str) -> None:
    module = parse_module(before)
    apply_passes(module, "tfl-fuse-qdq")
    module.verify()
    assert module.is_structurally_equivalent(parse_module(after)), str(module)


FLOATS = dequantized("x", "q", A, F)


def test_an_op_between_casts():
    body = FLOATS + relu("y", "x") + quantized("z", "y", B, F)
    fused = relu("z", "q", f"({A}) -> {B}")
    check(
        function(f"%q: {A}", body, f"%z: {B}"), function(f"%q: {A}", fused, f"%z: {B}")
    )


def test_equal_casts_of_a_result_share_the_op():
    """TensorFlow Lite's converter aborts."""
    body = (
        FLOATS + relu("y", "x") + quantized("z", "y", B, F) + quantized("t", "y", B, F)
    )
    fused = relu("z", "q", f"({A}) -> {B}")
    check(
        function(f"%q: {A}", body, f"%z: {B}", f"%t: {B}"),
        function(f"%q: {A}", fused, f"%z: {B}", f"%z: {B}"),
    )


@pytest.mark.parametrize("other", ["float", "type", "operand"])
def test_an_op_without_all_casts_stays(other: str):
    body = FLOATS + relu("y", "x") + quantized("z", "y", B, F)
    returned = [f"%z: {B}"]
    match other:
        case "float":
            returned.append(f"%y: {F}")
        case "type":
            body += quantized("t", "y", A, F)
            returned.append(f"%t: {A}")
        case _:
            body = body.replace(FLOATS, "").replace("(%x)", "(%f)")
    text = function(f"%q: {A}, %f: {F}", body, *returned)
    check(text, text)


def test_other_users_of_an_operand_do_not_matter():
    """TensorFlow Lite's converter keeps the op in floating point."""
    body = FLOATS + relu("y", "x") + quantized("z", "y", B, F) + relu("t", "x")
    fused = FLOATS + relu("z", "q", f"({A}) -> {B}") + relu("t", "x")
    check(
        function(f"%q: {A}", body, f"%z: {B}", f"%t: {F}"),
        function(f"%q: {A}", fused, f"%z: {B}", f"%t: {F}"),
    )


def test_unused_casts_do_not_matter():
    body = (
        FLOATS + relu("y", "x") + quantized("z", "y", B, F) + quantized("u", "y", A, F)
    )
    body += dequantized("v", "u", A, F)
    fused = relu("z", "q", f"({A}) -> {B}")
    check(
        function(f"%q: {A}", body, f"%z: {B}"), function(f"%q: {A}", fused, f"%z: {B}")
    )


def test_pairs_of_casts():
    """Pairs of equal per-axis types cancel, others stay: no kernel requantizes them."""
    body = FLOATS + quantized("s", "x", A, F) + dequantized("e", "s", A, F)
    body += quantized("z", "e", B, F)
    fused = quantized("z", "q", B, A)
    check(
        function(f"%q: {A}", body, f"%z: {B}"), function(f"%q: {A}", fused, f"%z: {B}")
    )
    rows, floats = "tensor<2x!w>", "tensor<2xf32>"
    cast = dequantized("x", "q", rows, floats)
    same = cast + quantized("z", "x", rows, floats)
    check(
        function(f"%q: {rows}", same, f"%z: {rows}"),
        function(f"%q: {rows}", "", f"%q: {rows}"),
    )
    other = cast + quantized("z", "x", "tensor<2x!a>", floats)
    text = function(f"%q: {rows}", other, "%z: tensor<2x!a>")
    check(text, text)


def test_two_roundings_stay():
    """TensorFlow Lite's converter drops the first, which gives other numbers."""
    body = quantized("q", "f", A, F) + FLOATS + quantized("z", "x", B, F)
    fused = quantized("q", "f", A, F) + quantized("z", "q", B, A)
    check(
        function(f"%f: {F}", body, f"%z: {B}"), function(f"%f: {F}", fused, f"%z: {B}")
    )
    module = parse_module(function(f"%f: {F}", body, f"%z: {B}"))
    x = np.array([0.26, 0.14, 5.0, 100.0], np.float32)
    (before,) = run_function(module, None, x)
    apply_passes(module, "tfl-fuse-qdq")
    (after,) = run_function(module, None, x)
    assert before.tolist() == after.tolist() == [2, 1, 25, 64]


def test_constants_with_scales_of_rows():
    """TensorFlow Lite's converter divides all rows of a splat by the first scale."""
    floats, rows = "tensor<2x4xf32>", "tensor<2x4x!w>"
    body = (
        f'%c = "tfl.pseudo_const"() <{{value = dense<1.5> : {floats}}}> : () -> {floats}\n'
        + quantized("z", "c", rows, floats)
    )
    fused = (
        f'%z = "tfl.pseudo_qconst"() <{{qtype = {rows}, '
        "value = dense<[[15, 15, 15, 15], [5, 5, 5, 5]]> : tensor<2x4xi8>}> : "
        f"() -> {rows}"
    )
    check(function("", body, f"%z: {rows}"), function("", fused, f"%z: {rows}"))


def test_kernels_that_the_runtime_lacks_stay_with_a_warning(
    capsys: pytest.CaptureFixture[str],
):
    body = FLOATS + f'%y = "tfl.softmax"(%x) {{beta = 1.0 : f32}} : ({F}) -> {F}\n'
    body += quantized("z", "y", A, F)
    text = function(f"%q: {A}", body, f"%z: {A}")
    check(text, text)
    assert capsys.readouterr().err == (
        "module:7:1: warning: 1 op between casts not fused, first 'tfl.softmax': scale 0.1 "
        "of !quant.uniform<i8:f32, 1.000000e-01> is not the fixed result scale of "
        "'tfl.softmax'; expected 0.00390625\n"
    )


def test_operands_without_casts_have_a_warning(capsys: pytest.CaptureFixture[str]):
    body = FLOATS + f'%y = "tfl.maximum"(%x, %f) : ({F}, {F}) -> {F}\n'
    body += quantized("z", "y", A, F)
    text = function(f"%q: {A}, %f: {F}", body, f"%z: {A}")
    check(text, text)
    assert capsys.readouterr().err == (
        "module:7:1: warning: 1 op between casts not fused, first 'tfl.maximum': operand "
        "#1 is not dequantized; 'quant-propagate' computes missing parameters\n"
    )


def test_different_scales_of_data_movement_stay(capsys: pytest.CaptureFixture[str]):
    """TensorFlow Lite's converter makes an invalid op, and fails."""
    body = FLOATS + f'%y = "tfl.maximum"(%x, %x) : ({F}, {F}) -> {F}\n'
    body += quantized("z", "y", B, F)
    text = function(f"%q: {A}", body, f"%z: {B}")
    check(text, text)
    assert (
        "1 op between casts not fused, first 'tfl.maximum'" in capsys.readouterr().err
    )


def test_a_module_without_casts(capsys: pytest.CaptureFixture[str]):
    text = function(f"%f: {F}", relu("y", "f"), f"%y: {F}")
    check(text, text)
    assert capsys.readouterr().err == (
        "warning: 'tfl-fuse-qdq' changed nothing, expected float ops between "
        "'tfl.dequantize' and 'tfl.quantize', found none\n"
    )


NETWORK = """
!x = !quant.uniform<i8:f32, 0.0078125>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.0078125, 0.015625}>
!b = !quant.uniform<i32:f32:0, {0.00006103515625, 0.0001220703125}>
!y = !quant.uniform<i8:f32, 0.02>
!s = !quant.uniform<i8:f32, 0.00390625:-128>
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %0 = "tfl.quantize"(%x) <{qtype = tensor<3x4x!x>}> : (tensor<3x4xf32>)
    -> tensor<3x4x!x>
  %1 = "tfl.dequantize"(%0) : (tensor<3x4x!x>) -> tensor<3x4xf32>
  %w = "tfl.pseudo_const"() <{value = dense<[[0.5, -0.25, 1.0, 0.75],
    [0.1, 0.2, 0.3, 0.4]]> : tensor<2x4xf32>}> : () -> tensor<2x4xf32>
  %2 = "tfl.quantize"(%w) <{qtype = tensor<2x4x!w>}> : (tensor<2x4xf32>)
    -> tensor<2x4x!w>
  %3 = "tfl.dequantize"(%2) : (tensor<2x4x!w>) -> tensor<2x4xf32>
BIAS
  %y = "tfl.fully_connected"(%1, %3, %c) <{asymmetric_quantize_inputs = false,
    fused_activation_function = "NONE", keep_num_dims = false,
    weights_format = "DEFAULT"}> : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<2xf32>)
    -> tensor<3x2xf32>
  %4 = "tfl.quantize"(%y) <{qtype = tensor<3x2x!y>}> : (tensor<3x2xf32>)
    -> tensor<3x2x!y>
  %5 = "tfl.dequantize"(%4) : (tensor<3x2x!y>) -> tensor<3x2xf32>
  %6 = "tfl.softmax"(%5) <{beta = 1.0 : f32}> : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %7 = "tfl.quantize"(%6) <{qtype = tensor<3x2x!s>}> : (tensor<3x2xf32>)
    -> tensor<3x2x!s>
  %8 = "tfl.dequantize"(%7) : (tensor<3x2x!s>) -> tensor<3x2xf32>
  return %8 : tensor<3x2xf32>
}
"""
FLOAT_BIAS = """
  %c = "tfl.pseudo_const"() <{value = dense<[0.1, -0.2]> : tensor<2xf32>}>
    : () -> tensor<2xf32>
"""
STORED_BIAS = """
  %b = "tfl.pseudo_qconst"() <{qtype = tensor<2x!b>,
    value = dense<[1638, -1638]> : tensor<2xi32>}> : () -> tensor<2x!b>
  %c = "tfl.dequantize"(%b) : (tensor<2x!b>) -> tensor<2xf32>
"""
X = np.random.default_rng(0).uniform(-1, 1, (3, 4)).astype(np.float32)


@pytest.mark.parametrize("bias", ["float", "stored"])
def test_files_of_both_forms_give_the_numbers_of_litert(bias: str):
    """LiteRT cannot dequantize 32 bits, so it runs the file with a float bias only."""
    text = NETWORK.replace("BIAS", FLOAT_BIAS if bias == "float" else STORED_BIAS)
    module = parse_module(text)
    if bias == "float":
        module = read_tflite(write_tflite(module))
        (expected,) = LiteRT(write_tflite(module)).run(X)
        assert np.array_equal(run_function(module, None, X)[0], expected)
        assert np.array_equal(compile(module)(X), expected)
    apply_passes(module, "tfl-fuse-qdq")
    file = write_tflite(module)
    (expected,) = LiteRT(file).run(X)
    module = read_tflite(file)
    assert np.array_equal(run_function(module, None, X)[0], expected)
    ops = [op.name for op in module.walk()]
    # An op with a float bias stays in floating point.
    assert ops.count("tfl.quantize") == (1 if bias == "stored" else 2)


def test_quantization_of_a_qdq_model_keeps_its_parameters():
    """The bias, which has none, gets the product of the scales."""
    module = parse_module(NETWORK.replace("BIAS", STORED_BIAS))
    apply_passes(module, "tfl-fuse-qdq")
    found = quantize(NETWORK.replace("BIAS", FLOAT_BIAS), X).module
    assert [(op.name, op.result_types) for op in found.walk()] == [
        (op.name, op.result_types) for op in module.walk()
    ]


def test_models_of_integers_and_of_hybrid_ops_are_quantized_already():
    module = parse_module(NETWORK.replace("BIAS", STORED_BIAS))
    apply_passes(module, "tfl-fuse-qdq")
    with pytest.raises(ValueError, match="fully_connected' with a quantized operand"):
        quantize(module, X)
    text = NETWORK.replace("BIAS", FLOAT_BIAS)
    text = text.replace("%1, %3, %c", "%x, %2, %c").replace(
        "tensor<2x4xf32>, tensor<2xf32>)", "tensor<2x4x!w>, tensor<2xf32>)"
    )
    with pytest.raises(ValueError, match="fully_connected' with a quantized operand"):
        quantize(text, X)
