"""
Models of `quantize_dynamic` as `.tflite` files: LiteRT's kernels quantize activations at
run time, as onnxruntime does for one row of activations.
"""

import numpy as np
import pytest
from numpy.typing import DTypeLike

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.frontends.tflite import TFLiteFileError, write_tflite
from xdsl_quant.frontends.tflite.dialect import (
    DequantizeOp,
    FullyConnectedOp,
    QConstOp,
)
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import apply_passes

from .onnxruntime_results import runtime_results
from .quantized_models import Graph


def _dynamic_graph(
    op_type: str,
    x: Array,
    weights: Array,
    zero_point: Array,
    scale: Array,
    **attributes: int,
) -> Graph:
    """Return what `quantize_dynamic` writes for one product."""
    graph = Graph()
    value = graph.argument(x)
    stored = graph.node("DynamicQuantizeLinear", [value], 3)
    operands = [stored, graph.constant(weights), f"{stored}_2"]
    operands.append(graph.constant(zero_point))
    total = graph.node(op_type, operands, **attributes)
    scales = graph.node("Mul", [f"{stored}_1", graph.constant(scale)])
    graph.node("Mul", [graph.node("Cast", [total], to=1), scales])
    return graph


def _graph(kind: str) -> Graph:
    rng = np.random.default_rng(1)
    dtype: DTypeLike = np.uint8 if kind.startswith("u8") else np.int8
    info = np.iinfo(dtype)
    attributes = dict[str, int]()
    if "convolution" in kind:
        attributes["group"] = groups = 2 if kind == "grouped convolution" else 1
        x = rng.normal(size=(1, 4, 6, 6)).astype(np.float32)
        weights = rng.integers(-127, 128, (4, 4 // groups, 3, 3), np.int8)
        op_type = "ConvInteger"
    else:
        x = rng.normal(size=(1, 16)).astype(np.float32)
        weights = rng.integers(info.min + 1, info.max + 1, (16, 5), dtype)
        op_type = "MatMulInteger"
    if kind == "weights of -128":
        weights[:, 2] = -128
    is_vector = "channels" in kind
    scale = rng.uniform(0.001, 0.01, 5 if is_vector else ()).astype(np.float32)
    is_unsigned = dtype is np.uint8
    zero_point = np.full(scale.shape, 120 if is_unsigned else 0, dtype)
    if kind == "u8 channels":
        zero_point[:2] = 100, 140
    return _dynamic_graph(op_type, x, weights, zero_point, scale, **attributes)


def _compare(content: bytes, graph: Graph, tolerance: float) -> None:
    """Compare LiteRT's result, relative to the largest value, with onnxruntime's."""
    (expected,) = runtime_results(graph.model(), graph.arguments)
    (result,) = LiteRT(content).run(*graph.arguments.values())
    size = np.abs(expected).max()
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize(
    ("kind", "tolerance", "kernel"),
    [
        # The reference kernel has no zero points for one scale.
        ("convolution", 2e-2, "conv_2d"),
        ("grouped convolution", 2e-2, "conv_2d"),
        ("matrix", 1e-5, "fully_connected"),
        ("scales of channels", 1e-5, "fully_connected"),
        # LiteRT has no kernel for weights with a zero point: activations are floats.
        ("u8 weights", 2e-2, "dequantize"),
        ("u8 channels", 2e-2, "dequantize"),
        # It overflows.
        ("weights of -128", 2e-2, "dequantize"),
    ],
)
def test_results_of_litert(kind: str, tolerance: float, kernel: str):
    graph = _graph(kind)
    (expected,) = runtime_results(graph.model(), graph.arguments)
    module = read_onnx(graph.model(expected.shape))
    _compare(write_tflite(module), graph, tolerance)
    apply_passes(module, "convert-stablehlo-to-tfl", is_routine=True)
    users = {
        use.operation.name
        for op in module.walk()
        if op.name == "tfl.pseudo_qconst"
        for use in op.results[0].uses
    }
    assert users == {f"tfl.{kernel}"}


def test_products_of_floats_keep_float_activations():
    graph, rng = _graph("matrix"), np.random.default_rng(3)
    weights = rng.integers(-127, 128, (5, 3), np.int8)
    operands = graph.constant(weights), graph.constant(np.array(0.01, np.float32))
    dequantized = graph.node("DequantizeLinear", operands)
    graph.node("MatMul", [graph.nodes[-2].output[0], dequantized])
    module = read_onnx(graph.model((1, 3)))
    apply_passes(module, "convert-stablehlo-to-tfl", is_routine=True)
    products = [op for op in module.walk() if isinstance(op, FullyConnectedOp)]
    owners = [op.operands[1].owner for op in products]
    assert [*map(type, owners)] == [QConstOp, DequantizeOp]


@pytest.mark.parametrize(
    "kind",
    ["no zero point", "another zero point", "scale of an argument", "scale of 0"],
)
def test_other_arithmetic_is_refused(kind: str):
    """LiteRT's kernels choose the scale and the zero point themselves."""
    x = np.random.default_rng(2).normal(size=(1, 4)).astype(np.float32)
    weights, zero = np.eye(4, dtype=np.int8), np.zeros((), np.int8)
    scale = np.array(0 if kind == "scale of 0" else 0.5, np.float32)
    graph = _dynamic_graph("MatMulInteger", x, weights, zero, scale)
    quantization, product, *others = graph.nodes
    if kind == "no zero point":
        product.input[2] = ""
    elif kind == "another zero point":
        product.input[2] = graph.constant(np.array(3, np.uint8))
    elif kind == "scale of an argument":
        graph.nodes = []
        scale_name = graph.argument(scale)
        operands = [quantization.input[0], scale_name, product.input[3]]
        stored = graph.node("QuantizeLinear", operands)
        product.input[0], product.input[2] = stored, product.input[3]
        others[0].input[0] = scale_name
        graph.nodes += [product, *others]
    module = read_onnx(graph.model((1, 4)))
    with pytest.raises(TFLiteFileError, match=r"'quant\.\w+' op has no conversion"):
        write_tflite(module)


def test_recipe():
    graph, rng = Graph(), np.random.default_rng(0)
    x = graph.argument(rng.normal(size=(1, 3, 8, 8)).astype(np.float32))
    weights = rng.normal(size=(64, 3, 3, 3)).astype(np.float32)
    graph.node("Conv", [x, graph.constant(weights)])
    module = read_onnx(graph.model((1, 64, 6, 6)))
    samples = [(*graph.arguments.values(),)]
    quantized = quantize(module, samples, recipe="dynamic-range").module
    assert quantized is not None
    content = write_tflite(quantized)
    assert len(content) < weights.nbytes
    _compare(content, graph, 2e-2)
