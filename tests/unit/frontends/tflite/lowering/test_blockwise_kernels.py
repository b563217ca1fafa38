"""Floats times 4-bit weights of blocks: LiteRT's default kernels compute the same."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.tflite import files
from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of
from xdsl_quant.runtime.loading import parse_module

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


def assert_close(result: Any, expected: Floats) -> None:
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    limit = 0 if "avx512_vnni" in flags else TOLERANCE * float(np.abs(expected).max())
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=limit)


def model(
    rng: np.random.Generator,
    outputs: int,
    blocks: int,
    size: int,
    x: str,
    y: str,
    activation: str = "NONE",
) -> str:
    """A product by random weights, with scales that are not representable in `bf16`."""
    inputs = blocks * size
    scales = rng.uniform(0.01, 0.02, (outputs, blocks)).astype(np.float16)
    values = rng.integers(-8, 8, (outputs, inputs)).tolist()
    bias = rng.normal(0, 1, outputs).astype(np.float32).tolist()
    type_ = (
        f"!quant.block_scaled<i4:f32:{{0:1, 1:{size}}}, scales = "
        f"dense<{scales.astype(np.float64).tolist()}> : tensor<{outputs}x{blocks}xf16>>"
    )
    weights = f"tensor<{outputs}x{inputs}x{type_}>"
    keeps = "true" if y.count("x") > 2 else "false"
    return f"""
        func.func @main(%x: {x}) -> {y} {{
          %w = "tfl.pseudo_qconst"() <{{qtype = {weights},
            value = dense<{values}> : tensor<{outputs}x{inputs}xi4>}}> : () -> {weights}
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
    assert_close(result, expected)
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


def test_products_without_a_kernel_are_those_of_floats():
    """LiteRT refuses the file, whose weights have 2 bits."""
    file = (RECIPES / "dynamic_wi2b32_afp32.tflite").read_bytes()
    x = np.random.default_rng(0).normal(0, 1, (2, 64)).astype(np.float32)
    module = read_tflite(file)
    _, _, result = run_function(module, "main", x, np.array([0, 0], np.int32))
    expected = x @ dequantized(file, "other_weights", 2).T
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5)


def test_multi_axis_weights():
    """No kernel of LiteRT computes them."""
    file = (RECIPES.parent / "reported" / "multi_axis.tflite").read_bytes()
    x = np.random.default_rng(0).normal(0, 1, (4, 128)).astype(np.float32)
    (result,) = run_function(read_tflite(file), "main", x)
    expected = x @ dequantized(file, "w", 4).T
    limit = 0.01 * np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=limit)


BLOCKS = "!quant.block_scaled<i4:f32:{0:1, 1:2}, scales = dense<0.5> : tensor<2x2xf16>>"

CHANNELS = BLOCKS.replace("1:2", "3:2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"""func.func @main(%x: tensor<2x4xf32>, %w: tensor<2x4x{BLOCKS}>)
              -> tensor<2x2xf32> {{
              %y = "tfl.batch_matmul"(%x, %w) <{{adj_x = false, adj_y = true}}>
                : (tensor<2x4xf32>, tensor<2x4x{BLOCKS}>) -> tensor<2x2xf32>
              return %y : tensor<2x2xf32>
            }}""",
            "'tfl.batch_matmul' op has an operand of '!quant.block_scaled', for which no "
            "kernel is implemented; use 'tfl.dequantize'",
        ),
        (
            f"""func.func @main(%x: tensor<1x1x1x4xf32>, %w: tensor<2x1x1x4x{CHANNELS}>)
              -> tensor<1x1x1x2xf32> {{
              %none = "tfl.no_value"() <{{value}}> : () -> none
              %y = "tfl.conv_2d"(%x, %w, %none) <{{
                dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
                fused_activation_function = "NONE", padding = "VALID",
                stride_h = 1 : i32, stride_w = 1 : i32}}>
                : (tensor<1x1x1x4xf32>, tensor<2x1x1x4x{CHANNELS}>, none)
                -> tensor<1x1x1x2xf32>
              return %y : tensor<1x1x1x2xf32>
            }}""",
            "'tfl.conv_2d' op has an operand of '!quant.block_scaled', for which no "
            "kernel is implemented; use 'tfl.dequantize'",
        ),
        (
            f"""func.func @main(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>,
              %w: tensor<2x4x{BLOCKS}>) -> tensor<2x2xf32> {{
              %none = "tfl.no_value"() <{{value}}> : () -> none
              %y = "tfl.fully_connected"(%x, %w, %none) <{{
                fused_activation_function = "NONE", keep_num_dims = false,
                weights_format = "DEFAULT"}}>
                : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x{BLOCKS}>, none)
                -> tensor<2x2xf32>
              return %y : tensor<2x2xf32>
            }}""",
            "'tfl.fully_connected' op has weights of '!quant.block_scaled' and type "
            "'tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>'; expected 'f32'",
        ),
    ],
)
def test_other_products_are_refused(text: str, message: str):
    module = parse_module(text, "m.mlir")
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    types = function.function_type.inputs
    arguments = [np.zeros(shape_of(type_), numpy_dtype(type_)) for type_ in types]
    with pytest.raises(InterpretationError) as e:
        run_function(module, "main", *arguments)
    assert str(e.value).endswith(message)
