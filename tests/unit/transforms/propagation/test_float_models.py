"""
Float models of TensorFlow Lite: from statistics to a file of integers, compared with the
real quantizer and the real runtime.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.calibration import calibrate
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

Floats = NDArray[np.float32]

ANY_FILE = Path("docs/examples/dense.tflite").read_bytes()
"""The exporter wants a file, in the place of which it writes the module."""

QUANTIZE = (
    "quant-fuse-kernels{target=tflite-int8},quant-constraints-to-specs,"
    "quant-propagate{target=tflite-int8},quant-export{fully-quantized=true}"
)
REAL_QUANTIZE = (
    "func.func(tfl-prepare-quantize{quantize-signed=true post-training-quantize=true}),"
    "tfl-fuse-qdq,func.func(tfl-post-quantize)"
)
TO_STABLEHLO = (
    "convert-tfl-to-stablehlo{partial=true},quant-fuse-kernels{target=stablehlo-int8},"
    "quant-constraints-to-specs,quant-export,quant-casts-to-stablehlo"
)
STATISTICS = re.compile(
    r"quant\.stats (%[\w.]+) <([^:>]+):([^>]+)> : (tensor<[0-9x]+f32>)"
)

CONVOLUTION = (
    "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = 1 : i32, "
    'stride_w = 1 : i32, padding = "SAME", fused_activation_function'
)
POOL = (
    'filter_height = 2 : i32, filter_width = 2 : i32, padding = "VALID", stride_h = 2 : '
    'i32, stride_w = 2 : i32, fused_activation_function = "NONE"'
)
DENSE = (
    'keep_num_dims = false, weights_format = "DEFAULT", '
    'fused_activation_function = "NONE"'
)


def constant(rng: np.random.Generator, scale: float, *shape: int) -> str:
    def text(values: Floats) -> str:
        if values.ndim:
            return f"[{', '.join(map(text, values))}]"
        return f"{values:.9e}"

    values = rng.normal(0, scale, shape).astype(np.float32)
    return f"dense<{text(values)}> : tensor<{'x'.join(map(str, shape))}xf32>"


def digits_network(rng: np.random.Generator) -> str:
    """A convolution, a pool and a dense layer."""
    return f"""
    func.func @main(%x: tensor<1x8x8x1xf32>) -> tensor<1x10xf32> {{
      %w1 = arith.constant {constant(rng, 0.4, 8, 3, 3, 1)}
      %b1 = arith.constant {constant(rng, 0.1, 8)}
      %w2 = arith.constant {constant(rng, 0.3, 10, 128)}
      %b2 = arith.constant {constant(rng, 0.1, 10)}
      %sizes = arith.constant dense<[1, 128]> : tensor<2xi32>
      %0 = "tfl.conv_2d"(%x, %w1, %b1) {{{CONVOLUTION} = "RELU"}}
        : (tensor<1x8x8x1xf32>, tensor<8x3x3x1xf32>, tensor<8xf32>) -> tensor<1x8x8x8xf32>
      %1 = "tfl.max_pool_2d"(%0) {{{POOL}}} : (tensor<1x8x8x8xf32>) -> tensor<1x4x4x8xf32>
      %2 = "tfl.reshape"(%1, %sizes)
        : (tensor<1x4x4x8xf32>, tensor<2xi32>) -> tensor<1x128xf32>
      %3 = "tfl.fully_connected"(%2, %w2, %b2) {{{DENSE}}}
        : (tensor<1x128xf32>, tensor<10x128xf32>, tensor<10xf32>) -> tensor<1x10xf32>
      %4 = "tfl.softmax"(%3) {{beta = 1.0 : f32}} : (tensor<1x10xf32>) -> tensor<1x10xf32>
      func.return %4 : tensor<1x10xf32>
    }}
    """


def residual_network(rng: np.random.Generator) -> str:
    """A sum beside a depthwise convolution, a concatenation of two ranges, a mean."""
    return f"""
    func.func @main(%x: tensor<1x6x6x4xf32>) -> tensor<1x8xf32> {{
      %w1 = arith.constant {constant(rng, 0.4, 1, 3, 3, 4)}
      %b1 = arith.constant {constant(rng, 0.1, 4)}
      %axes = arith.constant dense<[1, 2]> : tensor<2xi32>
      %0 = "tfl.depthwise_conv_2d"(%x, %w1, %b1)
        {{depth_multiplier = 1 : i32, {CONVOLUTION} = "RELU6"}}
        : (tensor<1x6x6x4xf32>, tensor<1x3x3x4xf32>, tensor<4xf32>) -> tensor<1x6x6x4xf32>
      %1 = "tfl.add"(%x, %0) {{fused_activation_function = "NONE"}}
        : (tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
      %2 = "tfl.concatenation"(%0, %1)
        {{axis = 3 : i32, fused_activation_function = "NONE"}}
        : (tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) -> tensor<1x6x6x8xf32>
      %3 = "tfl.mean"(%2, %axes) {{keep_dims = false}}
        : (tensor<1x6x6x8xf32>, tensor<2xi32>) -> tensor<1x8xf32>
      %4 = "tfl.logistic"(%3) : (tensor<1x8xf32>) -> tensor<1x8xf32>
      func.return %4 : tensor<1x8xf32>
    }}
    """


NETWORKS = {"digits": digits_network, "residual": residual_network}


def float_model(name: str, litert_converter: Mlir) -> ModuleOp:
    """A network that the real exporter has written to a file."""
    text = NETWORKS[name](np.random.default_rng(0))
    exported = litert_converter.exported(text, ANY_FILE)
    assert isinstance(exported, Accepted), exported
    return read_tflite(base64.b64decode(exported.text))


def inputs(module: ModuleOp, count: int, seed: int) -> Sequence[Floats]:
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    type_ = function.body.block.args[0].type
    assert isinstance(type_, TensorType)
    shape = type_.get_shape()
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(count)]


def with_statistics(module: ModuleOp, path: Path) -> None:
    """Add the ranges that activations have for random inputs."""
    apply_passes(module, "quant-insert-stats-refs")
    calibrate(module, inputs(module, 20, 1)).save(path)
    apply_passes(module, f'quant-import-stats{{file="{path}"}}')


def real_statistics(text: str) -> str:
    """The statistics of a text in the words of the real converter; constants need none."""
    text = STATISTICS.sub(
        r'"quantfork.stats"(\1) {layerStats = dense<[\2, \3]> : tensor<2xf32>} '
        r": (\4) -> \4",
        text,
    )
    for name in re.findall(r'(%\S+) = (?:arith\.constant|"tfl\.pseudo_const")', text):
        statistics = re.search(
            rf'\n *(%\S+) = "quantfork\.stats"\({re.escape(name)}\).*', text
        )
        if statistics is not None:
            text = text.replace(statistics[0], "")
            text = re.sub(rf"{re.escape(statistics[1])}(?![\w.])", name, text)
    return text


def ops(text: str) -> Sequence[tuple[str, ...]]:
    """The ops of a module with their types and stored values, in no order."""
    return sorted(
        (
            op.name,
            *map(str, op.operand_types),
            *map(str, op.result_types),
            str(op.properties.get("value")),
        )
        for op in parse_module(text, "model.mlir").walk()
        if op.name.startswith("tfl.") and op.name != "tfl.pseudo_const"
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_ops_are_those_of_the_real_quantizer(
    name: str, litert_converter: Mlir, tmp_path: Path
):
    module = float_model(name, litert_converter)
    with_statistics(module, tmp_path / "stats.json")
    real = litert_converter.run(real_statistics(str(module)), REAL_QUANTIZE)
    assert isinstance(real, Accepted), real
    apply_passes(module, QUANTIZE)
    assert ops(str(module)) == ops(real.text)


def check_results(module: ModuleOp, original: ModuleOp) -> None:
    """Results are those of the runtime bit for bit, and near those of a float model."""
    runtime = LiteRT(write_tflite(module))
    for x in inputs(module, 20, 2):
        (expected,) = runtime.run(x)
        (result,) = run_function(module, "main", x)
        np.testing.assert_array_equal(result, expected)
        (exact,) = run_function(original, "main", x)
        np.testing.assert_allclose(result, exact, atol=0.05)


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_the_runtime(
    name: str, litert_converter: Mlir, tmp_path: Path
):
    module = float_model(name, litert_converter)
    original = module.clone()
    with_statistics(module, tmp_path / "stats.json")
    apply_passes(module, QUANTIZE)
    check_results(module, original)


@pytest.mark.parametrize("name", NETWORKS)
def test_activations_of_16_bits(name: str, tmp_path: Path):
    """
    Biases of convolutions are stored as i64, which the runtime expects; a concatenation
    has no form for 16 bits, and stays in floating point.
    """
    module = parse_module(NETWORKS[name](np.random.default_rng(0)))
    with_statistics(module, tmp_path / "stats.json")
    original = module.clone()
    passes = QUANTIZE.replace("int8", "int16x8").replace("{fully-quantized=true}", "")
    apply_passes(module, passes)
    module.verify()
    apply_passes(module, "verify-quant-constraints{rules=tflite}")
    (convolution,) = (op for op in module.walk() if "conv_2d" in op.name)
    bias = str(convolution.operands[2].type)
    assert bias == ("tensor<8xi64>" if name == "digits" else "tensor<4xi64>")
    check_results(module, original)


@pytest.mark.parametrize("name", NETWORKS)
def test_as_stablehlo(name: str, litert_converter: Mlir, tmp_path: Path):
    """Results differ by at most two stored units."""
    module = float_model(name, litert_converter)
    with_statistics(module, tmp_path / "stats.json")
    apply_passes(module, QUANTIZE)
    original = module.clone()
    apply_passes(module, TO_STABLEHLO)
    module.verify()
    assert not any(op.name.startswith("tfl.") for op in module.walk())
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    for x in inputs(module, 20, 2):
        (expected,) = run_function(original, "main", x)
        (result,) = run_function(module, "main", x)
        np.testing.assert_allclose(result, expected, atol=2 / 256)
