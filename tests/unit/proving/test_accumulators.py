"""How large sums of products become, compared with sums of the inputs that are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.frontends.tflite.formulas.products import Window, convolution_sums
from xdsl_quant.proving import Accumulator, accumulators
from xdsl_quant.runtime.loading import parse_module


def constant(values: NDArray[Any], element: str) -> str:
    shape = "x".join(map(str, values.shape))
    return (
        f'"tfl.pseudo_qconst"() <{{qtype = tensor<{shape}x{element}>, '
        f"value = dense<{values.tolist()}> : tensor<{shape}xi8>}}> : () -> "
        f"tensor<{shape}x{element}>"
    )


def convolution(
    weights: NDArray[Any], bias: NDArray[Any], size: int, padding: str, zero_point: int
) -> Accumulator:
    outputs, height, width, channels = weights.shape
    result = size if padding == "SAME" else size - height + 1
    w = f"tensor<{outputs}x{height}x{width}x{channels}x!quant.uniform<i8:f32, 0.5>>"
    module = parse_module(f"""
!x = !quant.uniform<i8:f32, 0.5:{zero_point}>
func.func @main(%x: tensor<1x{size}x{size}x{channels}x!x>)
    -> tensor<1x{result}x{result}x{outputs}x!x> {{
  %w = {constant(weights, "!quant.uniform<i8:f32, 0.5>")}
  %b = arith.constant dense<{bias.tolist()}> : tensor<{outputs}xi32>
  %y = "tfl.conv_2d"(%x, %w, %b) <{{
    dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
    fused_activation_function = "NONE", padding = "{padding}",
    stride_h = 1 : i32, stride_w = 1 : i32}}>
    : (tensor<1x{size}x{size}x{channels}x!x>, {w}, tensor<{outputs}xi32>)
    -> tensor<1x{result}x{result}x{outputs}x!x>
  return %y : tensor<1x{result}x{result}x{outputs}x!x>
}}""")
    (found,) = accumulators(module)
    return found


@pytest.mark.parametrize("zero_point", [0, 5, -128])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_bounds_are_reached_and_not_exceeded(padding: str, zero_point: int):
    random = np.random.default_rng(zero_point + 128)
    weights = random.integers(-128, 128, (3, 2, 2, 2)).astype(np.int8)
    bias = random.integers(-5000, 5000, 3).astype(np.int32)
    found = convolution(weights, bias, 3, padding, zero_point)
    assert found.fits
    assert found.is_reached
    wide = weights.astype(np.int64)
    sums: list[int] = []
    # The ends of the range at which products are largest, or smallest.
    for channel in range(3):
        for ends in ((127, -128), (-128, 127)):
            x = np.where(wide[channel] > 0, *ends) - zero_point
            all_sums = convolution_sums(x[None], wide, Window()) + bias
            sums.append(int(all_sums[0, 0, 0, channel]))
    assert (found.low, found.high) == (min(sums), max(sums))
    x = random.integers(-128, 128, (50, 3, 3, 2)) - zero_point
    some = convolution_sums(x, wide, Window(padding=padding)) + bias
    assert found.low <= some.min()
    assert some.max() <= found.high


def test_no_whole_window():
    weights = np.full((1, 3, 3, 1), 100, np.int8)
    bias = np.array([0], np.int32)
    assert not convolution(weights, bias, 2, "SAME", 0).is_reached
    assert convolution(weights, bias, 3, "SAME", 0).is_reached


def fully_connected(columns: int, bias: str, weight: str = "dense<127>") -> Accumulator:
    w = f"tensor<1x{columns}x!quant.uniform<i8:f32, 0.5>>"
    module = parse_module(f"""
!x = !quant.uniform<i8:f32, 0.5:-128>
func.func @main(%x: tensor<1x{columns}x!x>, %v: tensor<1x!quant.uniform<i32:f32, 0.25>>)
    -> tensor<1x1x!x> {{
  %w = "tfl.pseudo_qconst"() <{{
    qtype = {w}, value = {weight} : tensor<1x{columns}xi8>}}> : () -> {w}
  %b = "tfl.pseudo_qconst"() <{{
    qtype = tensor<1x!quant.uniform<i32:f32, 0.25>>, value = dense<7> : tensor<1xi32>}}>
    : () -> tensor<1x!quant.uniform<i32:f32, 0.25>>
  %y = "tfl.fully_connected"(%x, %w, {bias}) <{{
    fused_activation_function = "NONE", keep_num_dims = false,
    weights_format = "DEFAULT"}}>
    : (tensor<1x{columns}x!x>, {w}, tensor<1x!quant.uniform<i32:f32, 0.25>>)
    -> tensor<1x1x!x>
  return %y : tensor<1x1x!x>
}}""")
    (found,) = accumulators(module)
    return found


def test_what_does_not_fit_has_inputs():
    # 255 * 127 * 66311 + 7 is the last sum below 2**31.
    assert fully_connected(66310, "%b").theorem().verdict == "proved"
    found = fully_connected(66312, "%b")
    assert (found.low, found.high) == (7, 255 * 127 * 66312 + 7)
    theorem = found.theorem()
    assert theorem.claim == (
        "sums of 'tfl.fully_connected' op %y fit 32 bits for all inputs"
    )
    assert theorem.verdict == "refuted"
    assert theorem.details == (
        "sums are from 7 to 2147514127, 100.00% of 2**31; channel 0, inputs 127 where "
        "weights are positive and -128 where they are negative"
    )


def test_a_bias_that_is_not_known_may_be_any():
    found = fully_connected(3, "%v")
    assert (found.low, found.high) == (-(1 << 31), 255 * 127 * 3 + (1 << 31) - 1)
    assert found.theorem().verdict == "unknown"


@pytest.mark.parametrize(
    ("columns", "verdict"), [(129000, "proved"), (130000, "unknown")]
)
def test_weights_that_are_no_constants(columns: int, verdict: str):
    module = parse_module(f"""
!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32, 0.5>
func.func @main(%x: tensor<1x{columns}x!x>, %w: tensor<{columns}x1x!w>) -> tensor<1x1x!x> {{
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x{columns}x!x>, tensor<{columns}x1x!w>) -> tensor<1x1x!x>
  return %y : tensor<1x1x!x>
}}""")
    (found,) = accumulators(module)
    assert found.high == 131 * 127 * columns
    assert (found.low, found.channel) == (-131 * 127 * columns, None)
    assert found.theorem().verdict == verdict


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("!quant.uniform<i8:f32, 1.0>", (-383, 382, True)),
        # Inputs are from 5 to 15, and padding is 0.
        ("!quant.uniform<i8<0:10>:f32, 1.0:-5>", (-15, 30, False)),
    ],
)
def test_padding_need_not_be_in_the_storage_range(
    type_: str, expected: tuple[int, int, bool]
):
    module = parse_module(f"""
!x = tensor<1x3x1x1x{type_}>
!w = tensor<1x3x1x1x!quant.uniform<i8:f32, 1.0>>
func.func @main(%x: !x) -> !w {{
  %w = "tfl.pseudo_qconst"() {{
    qtype = !w, value = dense<[[[[1]], [[1]], [[-1]]]]> : tensor<1x3x1x1xi8>
  }} : () -> !w
  %b = "tfl.no_value"() {{value}} : () -> none
  %y = "tfl.conv_2d"(%x, %w, %b) {{
    dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
    fused_activation_function = "NONE", padding = "SAME",
    stride_h = 1 : i32, stride_w = 1 : i32
  }} : (!x, !w, none) -> !w
  return %y : !w
}}""")
    (found,) = accumulators(module)
    assert (found.low, found.high, found.is_reached) == expected


@pytest.mark.parametrize(
    ("bias", "verdict", "ends"),
    [
        ("i64", "unknown", (-(1 << 63), (1 << 63) - 1)),
        ("i32", "unknown", (-(1 << 31), (1 << 31) - 1)),
        ("!quant.uniform<i32:f32, 0.25>", "unknown", (-(1 << 31), (1 << 31) - 1)),
        ("!quant.uniform<i32<-100:99>:f32, 0.25>", "proved", (-100, 99)),
    ],
)
def test_a_bias_that_is_an_argument_has_all_bits_of_its_type(
    bias: str, verdict: str, ends: tuple[int, int]
):
    module = parse_module(f"""
!a = !quant.uniform<i16:f32, 0.5>
!w = !quant.uniform<i8<-127:127>:f32:0, {{0.5,0.5}}>
func.func @main(%x: tensor<1x4x!a>, %b: tensor<2x{bias}>) -> tensor<1x2x!a> {{
  %w = "tfl.pseudo_qconst"() {{
    qtype = tensor<2x4x!w>, value = dense<127> : tensor<2x4xi8>
  }} : () -> tensor<2x4x!w>
  %r = "tfl.fully_connected"(%x, %w, %b) {{
    fused_activation_function = "NONE", keep_num_dims = false,
    weights_format = "DEFAULT"
  }} : (tensor<1x4x!a>, tensor<2x4x!w>, tensor<2x{bias}>) -> tensor<1x2x!a>
  return %r : tensor<1x2x!a>
}}""")
    (found,) = accumulators(module)
    low, high = -32768 * 127 * 4, 32767 * 127 * 4
    assert (found.low, found.high) == (low + ends[0], high + ends[1])
    assert found.theorem().verdict == verdict


def test_a_constant_bias_near_the_limit():
    module = parse_module("""
!a = !quant.uniform<i16:f32, 0.5>
!w = !quant.uniform<i8<-127:127>:f32, 0.5>
func.func @main(%x: tensor<1x4x!a>) -> tensor<1x1x!a> {
  %b = arith.constant dense<9223372036854775807> : tensor<1xi64>
  %w = "tfl.pseudo_qconst"() {
    qtype = tensor<1x4x!w>, value = dense<127> : tensor<1x4xi8>
  } : () -> tensor<1x4x!w>
  %r = "tfl.fully_connected"(%x, %w, %b) {
    fused_activation_function = "NONE", keep_num_dims = false,
    weights_format = "DEFAULT"
  } : (tensor<1x4x!a>, tensor<1x4x!w>, tensor<1xi64>) -> tensor<1x1x!a>
  return %r : tensor<1x1x!a>
}""")
    (found,) = accumulators(module)
    assert found.high == 32767 * 127 * 4 + (1 << 63) - 1
    assert found.theorem().verdict == "refuted"


def test_sums_of_more_than_64_bits():
    module = parse_module("""
!q = !quant.uniform<i32:f32, 0.5>
func.func @main(%x: tensor<1x4x!q>) -> tensor<1x1x!q> {
  %c = arith.constant dense<2147483647> : tensor<4x1xi32>
  %w = quant.scast %c : tensor<4x1xi32> to tensor<4x1x!q>
  %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x4x!q>, tensor<4x1x!q>) -> tensor<1x1x!q>
  return %r : tensor<1x1x!q>
}""")
    (found,) = accumulators(module)
    largest = 4 * ((1 << 31) - 1)
    assert (found.low, found.high) == (-largest << 31, largest * ((1 << 31) - 1))
    assert found.theorem().verdict == "refuted"
