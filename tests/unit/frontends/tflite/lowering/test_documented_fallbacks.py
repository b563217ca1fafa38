"""The reasons and the results that the page on integers promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_linalg import (
    ConvertTFLToLinalgPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.runtime.loading import multiverse_context, parse_module

PAGE = (
    Path(__file__).parents[5] / "docs" / "reference" / "tflite_integers.md"
).read_text()
REASONS = [
    reason
    for row in re.findall(r"^\| .* \| (`has .*`) \| .* \|$", PAGE, re.M)
    for reason in re.findall(r"`(.*?)`", row)
]

X = "!quant.uniform<i8:f32, 0.5:3>"
Y = "!quant.uniform<i8:f32, 0.25>"
SHORT = "!quant.uniform<i16:f32, 0.5>"
PER_AXIS = "!quant.uniform<i8:f32:1, {0.5, 0.25}>"
NONE = 'fused_activation_function = "NONE"'
CONVOLUTION = (
    f'dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, {NONE}, padding = "SAME", '
    "stride_h = 1 : i32, stride_w = 1 : i32"
)


def unary(name: str, operand: str, result: str, properties: str = "") -> str:
    """A function of one op with one operand."""
    x, y = f"tensor<2x2x{operand}>", f"tensor<2x2x{result}>"
    return f"""
        func.func @main(%x: {x}) -> {y} {{
          %y = "tfl.{name}"(%x) <{{{properties}}}> : ({x}) -> {y}
          return %y : {y}
        }}
    """


def binary(name: str, lhs: str, rhs: str, result: str, properties: str = "") -> str:
    """A function of one op with two operands."""
    x, y, z = (f"tensor<2x2x{type_}>" for type_ in (lhs, rhs, result))
    return f"""
        func.func @main(%x: {x}, %y: {y}) -> {z} {{
          %z = "tfl.{name}"(%x, %y) <{{{properties}}}> : ({x}, {y}) -> {z}
          return %z : {z}
        }}
    """


def convolution(operand: str, weights: str, result: str = X) -> str:
    """A convolution without a bias."""
    x, w, y = (
        f"tensor<1x2x2x1x{operand}>",
        f"tensor<2x1x1x1x{weights}>",
        f"tensor<1x2x2x2x{result}>",
    )
    return f"""
        func.func @main(%x: {x}) -> {y} {{
          %w = "tfl.pseudo_qconst"() <{{
              qtype = {w}, value = dense<[[[[3]]], [[[-7]]]]> : tensor<2x1x1x1xi8>
          }}> : () -> {w}
          %none = "tfl.no_value"() <{{value}}> : () -> none
          %y = "tfl.conv_2d"(%x, %w, %none) <{{{CONVOLUTION}}}> : ({x}, {w}, none) -> {y}
          return %y : {y}
        }}
    """


def biased(weights: str, bias: str) -> str:
    """A product with a bias."""
    x, w, b = f"tensor<1x2x2x1x{X}>", f"tensor<2x1x1x1x{weights}>", f"tensor<2x{bias}>"
    y = f"tensor<1x2x2x2x{X}>"
    return f"""
        func.func @main(%x: {x}, %w: {w}, %b: {b}) -> {y} {{
          %y = "tfl.conv_2d"(%x, %w, %b) <{{{CONVOLUTION}}}> : ({x}, {w}, {b}) -> {y}
          return %y : {y}
        }}
    """


BYTES = "!quant.uniform<u8:f32, 0.5:3>"
SHIFTED = "!quant.uniform<i16:f32, 0.5:3>"
WEIGHTS = "!quant.uniform<i8<-127:127>:f32:0, {0.5, 0.25}>"
MODULES = {
    "has no integer kernel": binary("div", X, X, X, NONE),
    "has a zero point, which the kernel ignores": unary("neg", X, X),
    "has unsigned storage, for which no kernel is implemented": unary(
        "l2_normalization",
        "!quant.uniform<u8:f32, 0.5:3>",
        "!quant.uniform<u8:f32, 0.0078125:128>",
        NONE,
    ),
    "has a result with a scale or zero point other than that of the kernel": unary(
        "softmax", X, X, "beta = 1.0 : f32"
    ),
    "has a result whose scale is not 2**-15, or a zero point": unary(
        "logistic", SHORT, SHORT
    ),
    "has an operand whose scale is 128 or more times that of its result": unary(
        "hard_swish", "!quant.uniform<i8:f32, 64.0>", X
    ),
    "has operands whose storage type differs from that of its result": binary(
        "add", X, X, SHORT, NONE
    ),
    "has a zero point with 16-bit storage, which the kernel ignores": unary(
        "exp", SHIFTED, SHORT
    ),
    "has storage of more than 8 bits": unary("hard_swish", SHORT, SHORT),
    "has a storage type other than 'i8'": binary(
        "squared_difference", BYTES, BYTES, BYTES
    ),
    "has an operand whose squared scale is 4096 or more times the result scale": binary(
        "squared_difference", X, "!quant.uniform<i8:f32, 64.0>", X
    ),
    "has weights of more than 8 bits": biased(SHORT, "!quant.uniform<i32:f32, 0.25>"),
    "has a bias whose storage is not 'i32' or whose zero point is not 0": biased(X, X),
    "has a bias whose scale is not the product of input and weight scales": biased(
        X, "!quant.uniform<i32:f32, 0.5>"
    ),
    "has an operand #0 with several scales": unary("exp", PER_AXIS, X),
    "has a result with several scales": unary("exp", X, PER_AXIS),
    "has weights with a zero point for each channel": convolution(
        X, "!quant.uniform<i8:f32:0, {0.5:1, 0.25}>"
    ),
    "has weights with scales along another dimension than the channels": convolution(
        X, "!quant.uniform<i8<-127:127>:f32:3, {0.5}>"
    ),
    "has an operand #0 that is not quantized": convolution("f32", WEIGHTS),
    "has a float result": convolution(X, WEIGHTS, "f32"),
}


def converted(text: str) -> ModuleOp:
    module = parse_module(text)
    ConvertTFLToLinalgPass().apply(Context(), module)
    return module


TESTED_ELSEWHERE = (
    "has the activation 'TANH', which has no integer form",
    "has a ratio of scales that is not finite",
    "has values from ... to ..., which need more than 64 bits",
)


def test_all_reasons_are_tested():
    assert sorted({*REASONS} - {*TESTED_ELSEWHERE}) == sorted(MODULES)


@pytest.mark.parametrize("reason", MODULES)
def test_reason(reason: str):
    module = converted(MODULES[reason])
    assert f'reason = "{reason}"' in str(module.attributes["tfl.fallback"])


# Where the reference kernels are broken

LARGE = "!quant.uniform<i8:f32, 2.0:3>"
TINY = "!quant.uniform<i8:f32, 5.0e-7>"


def parameters(type_: str) -> QuantizationParameters:
    """Those of a type in text."""
    module = parse_module(f"func.func private @f(tensor<2x2x{type_}>)")
    function: Any = module.body.block.first_op
    return QuantizationParameters.from_type(
        function.function_type.inputs.data[0].element_type
    )


def floor_divided(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    return np.floor(x / y)


def rectified(x: NDArray[Any]) -> NDArray[Any]:
    return np.maximum(x, 0)


@pytest.mark.parametrize(
    ("name", "types", "properties", "function"),
    [
        ("add", (X, X, TINY), NONE, np.add),
        ("sub", (X, X, TINY), NONE, np.subtract),
        ("add", (PER_AXIS, X, X), NONE, np.add),
        ("mul", (PER_AXIS, X, X), NONE, np.multiply),
        ("div", (X, X, Y), NONE, np.divide),
        ("floor_div", (X, X, X), "", floor_divided),
        ("floor_mod", (X, X, X), "", np.mod),
        ("neg", (X, X), "", np.negative),
        ("relu", (PER_AXIS, X), "", rectified),
    ],
)
def test_results(name: str, types: tuple[str, ...], properties: str, function: Any):
    """They are at most one step from the exact ones."""
    if len(types) == 2:
        text = unary(name, types[0], types[1], properties)
    else:
        text = binary(name, types[0], types[1], types[2], properties)
    module = converted(text)
    random = np.random.default_rng(0)
    *operands, result = map(parameters, types)
    for _ in range(25):
        # Their numbers are not 0, by which nothing can be divided.
        stored = [random.integers(4, 128, (2, 2)).astype(np.int8) for _ in operands]
        stored = [np.where(random.random((2, 2)) < 0.5, x, -x) for x in stored]
        numbers = [
            dequantize(*pair).astype(np.float64)
            for pair in zip(stored, operands, strict=True)
        ]
        exact = quantize(function(*numbers).astype(np.float32), result)
        (computed,) = run_function(module, "main", *stored)
        assert np.abs(computed.astype(int) - exact.astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ((PER_AXIS, X, X), "has an operand #0 with several scales"),
        ((X, Y, PER_AXIS), "has a result with several scales"),
        ((X, "f32", Y), "has an operand #1 that is not quantized"),
        (("f32", X, "f32"), "has a float result"),
    ],
)
def test_concatenation(types: tuple[str, str, str], reason: str):
    """The verifier demands equal parameters, which files need not have."""
    *operands, wide = (
        f"tensor<2x{n}x{t}>" for n, t in zip((2, 2, 4), types, strict=True)
    )
    wide = wide.replace("{0.5, 0.25}", "{0.5, 0.25, 0.5, 0.25}")
    text = f"""
        func.func @main(%x: {operands[0]}, %y: {operands[1]}) -> {wide} {{
          %z = "tfl.concatenation"(%x, %y) <{{axis = 1 : i32, {NONE}}}>
            : ({operands[0]}, {operands[1]}) -> {wide}
          return %z : {wide}
        }}
    """
    module = Parser(multiverse_context(), text).parse_module()
    lowered = module.clone()
    ConvertTFLToLinalgPass().apply(Context(), lowered)
    assert f'reason = "{reason}"' in str(lowered.attributes["tfl.fallback"])
    random = np.random.default_rng(0)
    stored: list[Any] = []
    numbers: list[Any] = []
    for type_ in types[:2]:
        values = random.integers(-100, 100, (2, 2)).astype(np.int8)
        if type_ == "f32":
            values = values.astype(np.float32)
        stored.append(values)
        is_float = type_ == "f32"
        numbers.append(values if is_float else dequantize(values, parameters(type_)))
    expected = np.concatenate(numbers, 1)
    if types[2] != "f32":
        function: Any = module.body.block.first_op
        element_type = function.function_type.outputs.data[0].element_type
        expected = quantize(expected, QuantizationParameters.from_type(element_type))
    for each in (module, lowered):
        (computed,) = run_function(each, "main", *stored)
        np.testing.assert_array_equal(computed, expected)


def test_comparison_of_large_scales():
    x, y, z = (f"tensor<256x{t}>" for t in (LARGE, "!quant.uniform<i8:f32, 3.0>", "i1"))
    module = converted(f"""
        func.func @main(%x: {x}, %y: {y}) -> {z} {{
          %z = "tfl.less"(%x, %y) : ({x}, {y}) -> {z}
          return %z : {z}
        }}
    """)
    first = np.arange(-128, 128, dtype=np.int8)
    second = np.random.default_rng(0).permutation(first)
    (computed,) = run_function(module, "main", first, second)
    expected = 2 * (first.astype(int) - 3) < 3 * second.astype(int)
    np.testing.assert_array_equal(computed, expected)


def test_sum_of_signed_values():
    x, y = f"tensor<3x4x{X}>", "tensor<3x!quant.uniform<i8:f32, 1.5:-4>>"
    module = converted(f"""
        func.func @main(%x: {x}) -> {y} {{
          %axes = "tfl.pseudo_const"() <{{value = dense<1> : tensor<1xi32>}}>
              : () -> tensor<1xi32>
          %y = "tfl.sum"(%x, %axes) <{{keep_dims = false}}> : ({x}, tensor<1xi32>) -> {y}
          return %y : {y}
        }}
    """)
    stored = np.array([[-128, 3, 5, 7], [9, -9, 0, 3], [100, 91, 3, 3]], np.int8)
    assert "tfl.fallback" not in module.attributes
    # (sum of stored - 3) * 0.5 / 1.5 - 4
    (computed,) = run_function(module, "main", stored)
    np.testing.assert_array_equal(computed, [-46, -7, 58])


def test_convolution_without_bias():
    module = converted(convolution(X, WEIGHTS))
    assert "tfl.fallback" not in module.attributes
    stored = np.array([4, 3, 13, -7], np.int8).reshape(1, 2, 2, 1)
    (computed,) = run_function(module, "main", stored)
    # (stored - 3) times 3 * 0.5 and -7 * 0.25, plus 3; halves are rounded away from 0.
    expected = [[5, 1], [3, 3], [18, -15], [-12, 21]]
    np.testing.assert_array_equal(computed.reshape(4, 2), expected)


def test_softmax_of_8_bits_with_a_result_of_16_bits():
    result = "!quant.uniform<i16:f32, 1.52587890625e-5:-32768>"
    module = converted(unary("softmax", X, result, "beta = 1.0 : f32"))
    assert "tfl.fallback" not in module.attributes
    stored = np.array([[5, 3], [5, 3]], np.int8)
    (computed,) = run_function(module, "main", stored)
    # The exact results are 1 / (1 + exp(-1)) = 0.7310586 and 0.2689414.
    np.testing.assert_array_equal(computed, [[15143, -15143], [15143, -15143]])
