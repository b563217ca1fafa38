"""Fake quantization as composites and custom calls."""

import re

import numpy as np
import pytest

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

PASS = "stablehlo-legalize-quant-composite"
SCALE = "scale = dense<0.0625> : tensor<1xf32>"
SCALES = "scale = dense<[0.5, 0.25]> : tensor<2xf32>"
BASE = f'dtype = "i8", narrow_range = false, {SCALE}'


def composite(attributes: str = BASE, type_: str = "tensor<2x3xf32>") -> str:
    return f"""
func.func @main(%x: {type_}) -> {type_} {{
  %y = stablehlo.composite "quant.fake_quant" %x {{
    composite_attributes = {{{attributes}}}, decomposition = @fake
  }} : ({type_}) -> {type_}
  func.return %y : {type_}
}}
func.func private @fake(%x: {type_}) -> {type_} {{
  func.return %x : {type_}
}}
"""


def custom_call(attributes: str = BASE, type_: str = "tensor<2x3xf32>") -> str:
    return f"""
func.func @main(%x: {type_}) -> {type_} {{
  %y = stablehlo.custom_call @quant.fake_quant(%x) {{{attributes}}} : ({type_}) -> {type_}
  func.return %y : {type_}
}}
"""


def converted(text: str) -> str:
    module = parse_module(text)
    apply_passes(module, PASS)
    return str(module)


@pytest.mark.parametrize(
    ("attributes", "quantized"),
    [
        (BASE, "i8:f32, 6.250000e-02"),
        (f"{BASE}, zero_point = dense<-3> : tensor<1xi32>", "i8:f32, 6.250000e-02:-3"),
        (f"{BASE}, quantization_dimension = 9 : i64", "i8:f32, 6.250000e-02"),
        (f'dtype = "i4", narrow_range = true, {SCALE}', "i4<-7:7>:f32, 6.250000e-02"),
        (f'dtype = "ui8", narrow_range = false, {SCALE}', "u8:f32, 6.250000e-02"),
        (
            f'dtype = "i8", narrow_range = true, {SCALES}, '
            "quantization_dimension = 0 : i32, zero_point = dense<1> : tensor<1xi64>",
            "i8<-127:127>:f32:0, {5.000000e-01:1,2.500000e-01:1}",
        ),
    ],
)
def test_types(attributes: str, quantized: str):
    q = f"tensor<2x3x!quant.uniform<{quantized}>>"
    expected = f"""
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %y = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> {q}
  %y_1 = stablehlo.uniform_dequantize %y : ({q}) -> tensor<2x3xf32>
  func.return %y_1 : tensor<2x3xf32>
}}
"""
    for text in (composite(attributes), custom_call(attributes)):
        assert converted(text) == str(parse_module(expected))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"i8"',
            '"i32"',
            "expected a 'dtype' of 'i2', 'i4', 'i8', 'i16', 'ui4', 'ui8', found \"i32\"",
        ),
        (
            "narrow_range = false, ",
            "",
            "expected a bool 'narrow_range', found none",
        ),
        (SCALE, "scale = 0.5 : f32", "expected a tensor of floats as 'scale', found "),
        ("0.0625", "-1.0", "expected positive numbers as 'scale', found -1.0"),
        (
            SCALE,
            SCALES,
            "expected 'quantization_dimension' with 2 scales, found none",
        ),
        (
            SCALE,
            f"{SCALE}, zero_point = dense<0> : tensor<2xi64>",
            "2 zero points do not match 1 scales",
        ),
        (
            SCALE,
            f"{SCALE}, zero_point = dense<0.0> : tensor<1xf32>",
            "expected a tensor of integers as 'zero_point', found ",
        ),
        (
            SCALE,
            f"{SCALE}, zero_point = dense<300> : tensor<1xi64>",
            "zero point 300 is not representable in 'i8'; expected -128 to 127",
        ),
    ],
)
def test_mistakes(old: str, new: str, message: str):
    module = parse_module(composite(BASE.replace(old, new)))
    before = str(module)
    problem = "'stablehlo.composite' op 'quant.fake_quant' cannot be converted: "
    with pytest.raises(IRError) as error:
        apply_passes(module, PASS)
    assert str(error.value).startswith(f"module:3:3: error: {problem}{message}")
    assert str(module) == before


def test_a_dimension_out_of_range_is_an_error():
    attributes = (
        f'dtype = "i8", narrow_range = true, {SCALES}, quantization_dimension = '
    )
    for dimension in (-1, 2, 1):
        with pytest.raises(IRError, match="cannot be converted"):
            converted(composite(f"{attributes}{dimension} : i64"))


def test_functions_with_other_users_are_kept():
    other = """
func.func @other(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = func.call @fake(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
"""
    assert "@fake(%x: " in converted(composite() + other)
    assert "@fake" not in converted(composite())


def test_the_quantizer_keeps_the_parameters():
    text = composite(f"{BASE}, zero_point = dense<5> : tensor<1xi64>").replace(
        "func.return %y",
        "%z = stablehlo.tanh %y : tensor<2x3xf32>\n  func.return %z",
        1,
    )
    samples = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    exported = str(quantize(parse_module(text), [samples]).module)
    q = "tensor<2x3x!quant.uniform<i8:f32, 6.250000e-02:5>>"
    assert f"stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> {q}" in exported
    assert f": ({q}) -> tensor<2x3x!quant.uniform<i8:f32, 7.812500e-03>>" in exported
    assert "@fake" not in exported


BLOCKS = "scale = dense<[[0.5, 0.25], [1.0, 0.125]]> : tensor<2x2xf32>"


def test_scales_of_blocks():
    """Neither flattened to an axis, nor with another rounding."""
    points = "zero_point = dense<[[0, 1], [2, 3]]> : tensor<2x2xi32>"
    attributes = f'dtype = "i8", narrow_range = false, {BLOCKS}, {points}'
    text = composite(attributes, "tensor<2x4xf32>")
    values = np.array([[0.75, -3.25, 0.3, 80], [0.5, 1.5, -2, 0.1875]], np.float32)
    module = parse_module(text)
    apply_passes(module, PASS)
    assert "i8:f32:{0:1, 1:2}" in str(module)
    (result,) = run_function(module, None, values)
    scales = np.repeat([[0.5, 0.25], [1.0, 0.125]], 2, axis=1)
    zero_points = np.repeat([[0, 1], [2, 3]], 2, axis=1)
    stored = np.clip(np.rint(values / scales + zero_points), -128, 127)
    np.testing.assert_array_equal(result, (stored - zero_points) * scales)


@pytest.mark.parametrize("shape", ["2x3", "?x4", "0x4"])
def test_blocks_that_do_not_divide_a_tensor(shape: str):
    type_ = f"tensor<{shape}xf32>"
    text = composite(f'dtype = "i8", narrow_range = false, {BLOCKS}', type_)
    message = f"expected a 'scale' whose shape divides that of '{type_}', found [2, 2]"
    with pytest.raises(IRError, match=re.escape(message)):
        converted(text)
