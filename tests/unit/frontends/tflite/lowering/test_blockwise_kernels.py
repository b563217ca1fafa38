"""Floats times 4-bit weights of blocks: LiteRT's default kernels compute the same."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.tflite import files
from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.execution.cpu import machine_features
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import TFLiteFileError
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.arrays import dense_elements
from xdsl_quant.runtime.loading import IRError, parse_module

Floats = NDArray[np.float32]

RECIPES = Path(files.__path__[0]) / "recipes"

TOLERANCE = 4e-6
"""Largest difference on CPUs without AVX-512 VNNI, as part of the largest result."""


def default_kernels(file: bytes, *arguments: Any) -> list[Floats]:
    """The results of LiteRT with its default kernels, those of XNNPACK."""
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    # It has no type annotations.
    library: Any = import_module("ai_edge_litert.interpreter")
    interpreter = library.Interpreter(model_content=file, num_threads=1)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    for detail, array in zip(details, arguments, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    outputs = interpreter.get_output_details()
    return [interpreter.get_tensor(detail["index"]) for detail in outputs]


def limit_of(expected: Floats, blocks: int = 64) -> float:
    """
    Return the largest difference from results of the default kernels on this machine. With
    VNNI, they add the sums of blocks in our order. Others differ by rounding errors, which
    grow with the number of blocks beyond 64.
    """
    if "avx512_vnni" in machine_features():
        return 0
    tolerance = TOLERANCE * max(1, blocks / 64)
    return tolerance * float(np.abs(expected).max(initial=0))


def assert_close(result: Any, expected: Floats, blocks: int = 64) -> None:
    limit = limit_of(expected, blocks)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=limit)


def model(
    rng: np.random.Generator,
    outputs: int,
    blocks: int,
    size: int,
    x: str,
    y: str,
    activation: str = "NONE",
    bits: int = 4,
) -> str:
    """A product by random weights, with scales that are not representable in `bf16`."""
    inputs = blocks * size
    scales = rng.uniform(0.01, 0.02, (outputs, blocks)).astype(np.float16)
    half = 2 ** (bits - 1)
    values = rng.integers(-half, half, (outputs, inputs)).tolist()
    bias = rng.normal(0, 1, outputs).astype(np.float32).tolist()
    type_ = (
        f"!quant.block_scaled<i{bits}:f32:{{0:1, 1:{size}}}, scales = "
        f"dense<{scales.astype(np.float64).tolist()}> : tensor<{outputs}x{blocks}xf16>>"
    )
    weights = f"tensor<{outputs}x{inputs}x{type_}>"
    keeps = "true" if y.count("x") > 2 else "false"
    return f"""
        func.func @main(%x: {x}) -> {y} {{
          %w = "tfl.pseudo_qconst"() <{{qtype = {weights},
            value = dense<{values}> : tensor<{outputs}x{inputs}xi{bits}>}}>
            : () -> {weights}
          %b = "tfl.pseudo_const"() <{{value = dense<{bias}> : tensor<{outputs}xf32>}}>
            : () -> tensor<{outputs}xf32>
          %y = "tfl.fully_connected"(%x, %w, %b) <{{
            fused_activation_function = "{activation}", keep_num_dims = {keeps},
            weights_format = "DEFAULT"}}>
            : ({x}, {weights}, tensor<{outputs}xf32>) -> {y}
          return %y : {y}
        }}
    """


@pytest.mark.parametrize(
    ("outputs", "blocks", "size", "x", "y", "activation"),
    [
        (5, 3, 32, "tensor<4x96xf32>", "tensor<4x5xf32>", "NONE"),
        (1, 2, 64, "tensor<3x128xf32>", "tensor<3x1xf32>", "RELU"),
        (7, 2, 128, "tensor<2x256xf32>", "tensor<2x7xf32>", "RELU6"),
        (6, 1, 256, "tensor<2x256xf32>", "tensor<2x6xf32>", "NONE"),
        (2, 128, 32, "tensor<1x4096xf32>", "tensor<1x2xf32>", "NONE"),
        (4, 2, 32, "tensor<2x3x64xf32>", "tensor<2x3x4xf32>", "NONE"),
    ],
)
def test_fully_connected(
    outputs: int, blocks: int, size: int, x: str, y: str, activation: str
):
    rng = np.random.default_rng(outputs)
    text = model(rng, outputs, blocks, size, x, y, activation)
    module = parse_module(text, "m.mlir")
    shape = [int(number) for number in x[7:-5].split("x")]
    values = rng.normal(rng.uniform(-1, 1, (*shape[:-1], 1)), 1, shape)
    values = values.astype(np.float32)
    (expected,) = default_kernels(write_tflite(module), values)
    (result,) = run_function(module, "main", values)
    assert_close(result, expected, blocks)
    np.testing.assert_array_equal(np.asarray(compile(module)(values)), result)


@pytest.mark.parametrize("size", [8, 24, 80, 96])
def test_sizes_of_blocks(size: int):
    """
    Scales are rounded to `bf16` if LiteRT leaves the product to XNNPACK. The rounding is
    a hundred times the tolerance, the order of sums that of the CPU's kernel.
    """
    types = f"tensor<3x{4 * size}xf32>", "tensor<3x9xf32>"
    text = model(np.random.default_rng(size), 9, 4, size, *types)
    module = parse_module(text, "m.mlir")
    values = np.random.default_rng(0).normal(0, 1, (3, 4 * size)).astype(np.float32)
    (expected,) = default_kernels(write_tflite(module), values)
    (result,) = run_function(module, "main", values)
    limit = 2 * TOLERANCE * float(np.abs(expected).max())
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=limit)
    np.testing.assert_array_equal(np.asarray(compile(module)(values)), result)


def test_rows_of_one_sign_and_of_zeros():
    rng = np.random.default_rng(0)
    text = model(rng, 3, 2, 32, "tensor<4x64xf32>", "tensor<4x3xf32>")
    values = np.abs(rng.normal(0, 1, (4, 64))).astype(np.float32)
    values *= np.array([[0], [1], [-1], [1e30]], np.float32)
    module = parse_module(text, "m.mlir")
    (expected,) = default_kernels(write_tflite(module), values)
    assert_close(run_function(module, "main", values)[0][:3], expected[:3])
    assert_close(run_function(module, "main", values)[0][3:], expected[3:])


@pytest.mark.parametrize("size", [32, 64])
def test_recipes_of_4_bits(size: int):
    file = (RECIPES / f"dynamic_wi4b{size}_afp32.tflite").read_bytes()
    rng = np.random.default_rng(size)
    arguments = rng.normal(0, 1, (2, 64)).astype(np.float32), np.array([2, 0], np.int32)
    module = read_tflite(file)
    results = run_function(module, "main", *arguments)
    for result, compiled in zip(results, compile(module)(*arguments), strict=True):
        np.testing.assert_array_equal(np.asarray(compiled), result)
    for result, expected in zip(
        results, default_kernels(file, *arguments), strict=True
    ):
        assert_close(result, expected)


@pytest.mark.parametrize("name", ["gemma4_mixed48_b32_tf_lite_embedder"])
def test_lookups(name: str):
    """The reference kernels compute lookups, but not products."""
    file = (RECIPES / f"{name}.tflite").read_bytes()
    arguments = np.zeros((2, 64), np.float32), np.array([1, 2], np.int32)
    _, rows, _ = run_function(read_tflite(file), "main", *arguments)
    np.testing.assert_array_equal(np.asarray(rows), LiteRT(file).run(*arguments)[1])


def dequantized(file: bytes, name: str, bits: int) -> Floats:
    """Weights times their scales."""
    tensors = read_tflite_model(file, "").subgraphs[0].tensors
    (tensor,) = (tensor for tensor in tensors if tensor.name == name)
    assert tensor.data is not None
    assert tensor.quantization is not None
    blocks = tensor.quantization.blocks
    assert blocks is not None
    assert blocks.scales.data is not None
    rows, _ = tensor.shape
    shifts = np.arange(0, 8, bits)
    stored = (tensor.data[:, None].astype(int) >> shifts) % (1 << bits)
    stored = np.where(stored >= 1 << bits - 1, stored - (1 << bits), stored)
    scales = blocks.scales.data.view(np.float16).astype(np.float32)
    products = stored.reshape(scales.size, -1) * scales[:, None]
    return products.reshape(rows, -1).astype(np.float32)


def rounded_to_bf16(scales: Floats) -> Floats:
    """`f32` numbers with 8 significant bits; ties become even."""
    significands, exponents = np.frexp(scales.astype(np.float64))
    return np.ldexp(np.rint(significands * 256), exponents - 8).astype(np.float32)


def constants(module: ModuleOp) -> tuple[NDArray[Any], Floats, Floats]:
    """Stored weights, their scales, and the bias."""
    (weights,) = (op for op in module.walk() if isinstance(op, tfl.QConstOp))
    (bias,) = (op for op in module.walk() if isinstance(op, tfl.ConstOp))
    type_: Any = scalar_or_element_type(weights.output.type)
    scales = type_.get_numbers()["scales"].astype(np.float32)
    return dense_elements(weights.value), scales, dense_elements(bias.value)


def real_product(x: Floats, stored: NDArray[Any], scales: Floats) -> Floats:
    """
    Products of quantized rows and weights in `f64`; the sums of the kernel are within
    4e-6 of the largest one.
    """
    low, high = np.minimum(x.min(1), 0), np.maximum(x.max(1), 0)
    inverse = np.float32(255) / (high - low)
    where: Any = np.where
    zero_points: Floats = where(
        (-128 + low * inverse) + (127 + high * inverse) > 0,
        -128 - low * inverse,
        127 - high * inverse,
    )
    zero_points = np.rint(zero_points)[:, None]
    rows = np.clip(np.rint(x * inverse[:, None]) + zero_points, -128, 127)
    size = stored.shape[1] // scales.shape[1]
    weights = stored * np.repeat(scales.astype(np.float64), size, axis=1)
    return ((rows - zero_points) / inverse[:, None] @ weights.T).astype(np.float32)


@pytest.mark.parametrize("bits", [2, 8])
def test_fully_connected_of_other_widths(bits: int):
    """LiteRT refuses these files; the formula is that of 4 bits."""
    rng = np.random.default_rng(bits)
    types = "tensor<4x96xf32>", "tensor<4x5xf32>"
    module = parse_module(model(rng, 5, 3, 32, *types, bits=bits), "m.mlir")
    x = rng.normal(0.5, 1, (4, 96)).astype(np.float32)
    (result,) = run_function(module, "main", x)
    np.testing.assert_array_equal(np.asarray(compile(module)(x)), result)
    stored, scales, bias = constants(module)
    expected = real_product(x, stored, rounded_to_bf16(scales)) + bias
    limit = TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=limit)


def test_weights_only():
    """Blocks that an op dequantizes are multiplied as floats."""
    rng = np.random.default_rng(0)
    types = "tensor<4x96xf32>", "tensor<4x5xf32>"
    text = model(rng, 5, 3, 32, *types)
    start, _, call = text.partition('%y = "tfl.fully_connected"')
    block_type = (
        text.partition("qtype = ")[2].partition(", value")[0].partition(",\n")[0]
    )
    text = (
        f'{start}%d = "tfl.dequantize"(%w) : ({block_type}) -> tensor<5x96xf32>\n'
        '%y = "tfl.fully_connected"'
        + call.replace("%w", "%d").replace(block_type, "tensor<5x96xf32>")
    )
    module = parse_module(text, "m.mlir")
    x = rng.normal(0.5, 1, (4, 96)).astype(np.float32)
    (result,) = run_function(module, "main", x)
    stored, scales, bias = constants(module)
    floats = (stored * np.repeat(scales, 32, axis=1)).astype(np.float32)
    for floats_of in (result, compile(module)(x)):
        expected = x @ floats.T + bias
        np.testing.assert_allclose(np.asarray(floats_of), expected, atol=1e-6)


def test_multi_axis_weights():
    """No kernel of LiteRT computes them."""
    file = (RECIPES.parent / "reported" / "multi_axis.tflite").read_bytes()
    x = np.random.default_rng(0).normal(0, 1, (4, 128)).astype(np.float32)
    (result,) = run_function(read_tflite(file), "main", x)
    expected = x @ dequantized(file, "w", 4).T
    limit = 0.01 * np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=limit)


BLOCKS = "!quant.block_scaled<i4:f32:{0:1, 1:2}, scales = dense<0.5> : tensor<2x2xf16>>"


def test_activations_are_floats():
    text = f"""func.func @main(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>,
      %w: tensor<2x4x{BLOCKS}>) -> tensor<2x2xf32> {{
      %none = "tfl.no_value"() <{{value}}> : () -> none
      %y = "tfl.fully_connected"(%x, %w, %none) <{{
        fused_activation_function = "NONE", keep_num_dims = false,
        weights_format = "DEFAULT"}}>
        : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x{BLOCKS}>, none)
        -> tensor<2x2xf32>
      return %y : tensor<2x2xf32>
    }}"""
    arrays = [np.zeros((2, 4), np.int8)] * 2
    message = (
        "'tfl.fully_connected' op has weights of '!quant.block_scaled' and type "
        "'tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>'; expected 'f32'"
    )
    with pytest.raises(InterpretationError, match=re.escape(message)):
        run_function(text, "main", *arrays)
    with pytest.raises(CompilationError, match=re.escape(message)):
        compile(text)


WINDOW = (
    'dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, padding = "VALID", '
    'fused_activation_function = "NONE", stride_h = 1 : i32, stride_w = 1 : i32'
)


@pytest.mark.parametrize(
    ("op", "options", "x", "w", "y"),
    [
        ("batch_matmul", "adj_x = false, adj_y = true", "2x4", "2x4", "2x2"),
        ("conv_2d", WINDOW, "1x1x1x4", "2x1x1x4", "1x1x1x2"),
        (
            "depthwise_conv_2d",
            f"{WINDOW}, depth_multiplier = 1 : i32",
            *("1x2x1x4", "1x2x1x4", "1x1x1x4"),
        ),
    ],
)
def test_other_products_are_refused(op: str, options: str, x: str, w: str, y: str):
    axes = {"conv_2d": "{0:1, 3:2}", "depthwise_conv_2d": "{1:1, 3:2}"}
    block_type = BLOCKS.replace("{0:1, 1:2}", axes.get(op, "{0:1, 1:2}"))
    type_ = f"tensor<{w}x{block_type}>"
    bias, bias_type = ("", "") if op == "batch_matmul" else (", %none", ", none")
    text = f"""func.func @main(%x: tensor<{x}xf32>) -> tensor<{y}xf32> {{
      %w = "tfl.pseudo_qconst"() <{{qtype = {type_}, value = dense<1> : tensor<{w}xi4>}}>
        : () -> {type_}
      %none = "tfl.no_value"() <{{value}}> : () -> none
      %y = "tfl.{op}"(%x, %w{bias}) <{{{options}}}>
        : (tensor<{x}xf32>, {type_}{bias_type}) -> tensor<{y}xf32>
      return %y : tensor<{y}xf32>
    }}"""
    message = (
        f"'tfl.{op}' op has an operand of '!quant.block_scaled', for which no kernel is "
        "implemented; use 'tfl.dequantize'"
    )
    with pytest.raises(IRError, match=f"^m.mlir:5:7: error: {message}$"):
        parse_module(text, "m.mlir")
    with pytest.raises(IRError, match=message):
        run_function(text, "main", np.zeros([*map(int, x.split("x"))], np.float32))
    with pytest.raises(CompilationError, match=message):
        compile(text)
    # The runtime reads such a file, and returns zeros.
    with patch("xdsl_quant.runtime.loading.verify_module"):
        module = parse_module(text, "m.mlir")
    with pytest.raises(TFLiteFileError, match=f"^<bytes>: .*y.*: error: {message}$"):
        read_tflite(write_tflite(module))
