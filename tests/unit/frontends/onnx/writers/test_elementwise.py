"""Elementwise ops in ONNX files."""

import numpy as np
import pytest

from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function

from .written_models import (
    check,
    floats,
    function,
    integers,
    op_types,
    refusal,
    written,
)

_UNARY = {
    "stablehlo.abs": ("Abs",),
    "stablehlo.ceil": ("Ceil",),
    "stablehlo.cosine": ("Cos",),
    "stablehlo.exponential": ("Exp",),
    "stablehlo.floor": ("Floor",),
    "stablehlo.logistic": ("Sigmoid",),
    "stablehlo.negate": ("Neg",),
    "stablehlo.round_nearest_even": ("Round",),
    "stablehlo.sign": ("Sign",),
    "stablehlo.sine": ("Sin",),
    "stablehlo.tan": ("Tan",),
    "stablehlo.tanh": ("Tanh",),
}


@pytest.mark.parametrize("name", _UNARY)
def test_unary_ops(name: str):
    text = function(
        "%x: tensor<3x4xf32>",
        "tensor<3x4xf32>",
        f"%0 = {name} %x : tensor<3x4xf32>",
        "%0",
    )
    check(text, floats(3, 4), atol=1e-6, nodes=_UNARY[name])


@pytest.mark.parametrize("name", ["exponential_minus_one", "log_plus_one"])
def test_functions_near_zero_are_accurate(name: str):
    text = function(
        "%x: tensor<6xf32>",
        "tensor<6xf32>",
        f"%0 = stablehlo.{name} %x : tensor<6xf32>",
        "%0",
    )
    check(text, np.array([1e-9, -3e-5, 0, 0.7, -0.5, 3], np.float32), atol=4e-6)
    check(text, np.array([1e-9, -3e-5, 0, 1e-20, 0, 0], np.float32), atol=1e-11)


def test_halves_are_rounded_away_from_zero():
    text = function(
        "%x: tensor<6xf32>",
        "tensor<6xf32>",
        "%0 = stablehlo.round_nearest_afz %x : tensor<6xf32>",
        "%0",
    )
    check(text, np.array([0.5, -0.5, 2.5, 0.49999997, -1.2, 1e9], np.float32))


def test_broadcasts_are_those_of_numpy():
    text = function(
        "%x: tensor<2x3x4xf32>, %y: tensor<3xf32>",
        "tensor<2x3x4xf32>",
        "%c = stablehlo.constant dense<2.0> : tensor<f32>",
        "%0 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<3xf32>) -> "
        "tensor<2x3x4xf32>",
        "%1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> "
        "tensor<2x3x4xf32>",
        "%2 = stablehlo.add %x, %0 : tensor<2x3x4xf32>",
        "%3 = stablehlo.multiply %1, %2 : tensor<2x3x4xf32>",
        "%3",
    )
    check(text, floats(2, 3, 4), floats(3), nodes=["Reshape", "Add", "Mul"])


def test_the_maximum_with_zero_is_a_relu_and_of_integers_a_maximum():
    zero = "%c = stablehlo.constant dense<0{0}> : tensor<4x{1}>"
    for suffix, element, array, node in (
        (".0", "f32", floats(4), "Relu"),
        ("", "i32", integers(4), "Max"),
    ):
        text = function(
            f"%x: tensor<4x{element}>",
            f"tensor<4x{element}>",
            zero.format(suffix, element),
            f"%0 = stablehlo.maximum %x, %c : tensor<4x{element}>",
            "%0",
        )
        check(text, array, nodes=[node])


def test_clamps_to_constants_and_to_values():
    text = function(
        "%x: tensor<4xf32>, %y: tensor<f32>",
        "tensor<4xf32>, tensor<4xf32>",
        "%l = stablehlo.constant dense<-0.5> : tensor<f32>",
        "%h = stablehlo.constant dense<0.5> : tensor<f32>",
        "%0 = stablehlo.clamp %l, %x, %h : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> "
        "tensor<4xf32>",
        "%1 = stablehlo.clamp %l, %x, %y : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> "
        "tensor<4xf32>",
        "%0, %1",
    )
    nodes = ["Clip", "Max", "Min"]
    check(text, floats(4), np.float32(0.1), nodes=nodes)


def test_comparisons_and_selections():
    text = function(
        "%x: tensor<4xf32>, %y: tensor<4xf32>, %p: tensor<i1>",
        "tensor<4xf32>, tensor<4xf32>",
        "%0 = stablehlo.compare NE, %x, %y : (tensor<4xf32>, tensor<4xf32>) -> "
        "tensor<4xi1>",
        "%1 = stablehlo.select %0, %x, %y : tensor<4xi1>, tensor<4xf32>",
        "%2 = stablehlo.select %p, %x, %y : tensor<i1>, tensor<4xf32>",
        "%1, %2",
    )
    nodes = ["Equal", "Not", "Where", "Where"]
    check(text, floats(4), floats(4, seed=2), np.bool_(True), nodes=nodes)


@pytest.mark.parametrize(
    "name", ["shift_left", "shift_right_logical", "shift_right_arithmetic"]
)
def test_shifts_of_signed_integers_by_more_than_their_width(name: str):
    text = function(
        "%x: tensor<5xi32>, %n: tensor<5xi32>",
        "tensor<5xi32>",
        f"%0 = stablehlo.{name} %x, %n : tensor<5xi32>",
        "%0",
    )
    x = np.array([-7, -7, 7, -1, 1 << 30], np.int32)
    check(text, x, np.array([0, 31, 2, 32, 40], np.int32))


def test_truth_values_and_bits():
    text = function(
        "%x: tensor<4xi32>, %y: tensor<4xi32>, %f: tensor<3xf32>",
        "tensor<4xi32>, tensor<3xi1>",
        "%0 = stablehlo.and %x, %y : tensor<4xi32>",
        "%1 = stablehlo.not %0 : tensor<4xi32>",
        "%2 = stablehlo.xor %1, %y : tensor<4xi32>",
        "%3 = stablehlo.is_finite %f : (tensor<3xf32>) -> tensor<3xi1>",
        "%4 = stablehlo.not %3 : tensor<3xi1>",
        "%2, %4",
    )
    numbers = np.array([1, np.inf, np.nan], np.float32)
    check(text, integers(4), integers(4) + 3, numbers)


def test_bits_of_floats():
    text = function(
        "%x: tensor<4xf32>",
        "tensor<4xi32>",
        "%0 = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> tensor<4xi32>",
        "%0",
    )
    proto, x = written(text), np.array([1, -0.0, np.inf, np.nan], np.float32)
    assert op_types(proto) == ["BitCast"]
    # onnxruntime 1.32 has no kernel.
    (found,) = run_function(read_onnx(proto.SerializeToString()), None, x)
    np.testing.assert_array_equal(found, x.view(np.int32))


def test_bits_of_another_shape_are_refused():
    text = function(
        "%x: tensor<4xf32>",
        "tensor<4x2xi16>",
        "%0 = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> tensor<4x2xi16>",
        "%0",
    )
    assert refusal(text).endswith(
        "'stablehlo.bitcast_convert' op cannot be written as ONNX: bits of 'f32' as 'i16'"
    )
