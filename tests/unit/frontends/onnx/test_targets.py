"""The target `onnxruntime-u8s8`, and models with the integers of onnxruntime's kernels."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import DTypeLike

from tests.oracles.onnx_kernels import kernel_differences
from xdsl_quant.frontends.onnx import read_onnx, write_onnx
from xdsl_quant.frontends.onnx.target_patterns import normalization
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.quantizer import Recipe, Request, pipeline, quantize
from xdsl_quant.quantizer.recipe_files import read_recipe, with_target_of_file
from xdsl_quant.quantizer.static_stages import StaticPipeline
from xdsl_quant.runtime.loading import apply_passes, as_module
from xdsl_quant.tools.quantize import main

from .quantized_models import (
    DRAWS,
    Drawn,
    Graph,
    activation,
    bias,
    quantized_graph,
    weights,
)
from .test_quantizer_files import image_graph


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op_type", DRAWS)
def test_integers_of_onnxruntime(op_type: str, dtype: DTypeLike):
    rng = np.random.default_rng([3, 1])
    graph = quantized_graph(DRAWS[op_type](rng, dtype), rng, dtype)
    assert not kernel_differences(graph, dtype).any()


def test_sums_of_32_bits_with_a_bias_wrap():
    rng = np.random.default_rng(5)
    x, w = activation(rng, (1, 2, 6, 6), np.uint8), weights(rng, (6, 2, 3, 3), 0)
    b = bias(rng, x, w, 6)
    b.stored[:4] = 2**31 - 1, 1 - 2**31, 2**24 + 1, 2**30 + 1
    graph = quantized_graph(Drawn("Conv", [x, w, b]), rng, np.uint8)
    assert not kernel_differences(graph, np.uint8).any()


def test_inputs_of_an_unrolled_recurrence_are_one_product():
    rng = np.random.default_rng(6)
    graph = Graph()
    parameters = [graph.constant(np.array(0.05, np.float32))]
    parameters.append(graph.constant(np.array(120, np.uint8)))
    input_weights, state_weights = (
        graph.node("DequantizeLinear", weights(rng, (8, size), 0).names(graph), axis=0)
        for size in (16, 8)
    )
    x = graph.argument(rng.integers(0, 256, (3, 16)).astype(np.uint8))

    def requantized(value: str) -> str:
        value = graph.node("QuantizeLinear", [value, *parameters])
        return graph.node("DequantizeLinear", [value, *parameters])

    state = ""
    for row in range(3):
        stored = graph.node("Gather", [x, graph.constant(np.array([row]))], axis=0)
        value = graph.node("DequantizeLinear", [stored, *parameters])
        value = graph.node("Gemm", [value, input_weights], transB=1)
        if state:
            product = graph.node("Gemm", [state, state_weights], transB=1)
            terms = requantized(value), requantized(product)
            value = graph.node("Add", terms)
        state = requantized(value)
    graph.nodes.pop()
    assert not kernel_differences(graph, np.uint8).any()
    module = read_onnx(graph.model((1, 8), np.uint8))
    apply_passes(module, "stablehlo-legalize-qdq-to-integer", is_routine=True)
    # A product of all inputs, and one of each state: those depend on each other.
    assert str(module).count("stablehlo.dot_general") == 3


def test_quantized_model():
    module = as_module("""
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x3xf32> {
  %w = stablehlo.constant dense<0.25> : tensor<8x3xf32>
  %b = stablehlo.constant dense<[1.0, -0.5, 0.25]> : tensor<3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<4x3xf32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
  %s = stablehlo.add %p, %c : tensor<4x3xf32>
  %r = stablehlo.maximum %s, %zero : tensor<4x3xf32>
  %y = stablehlo.logistic %r : tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}
""")
    x = np.random.default_rng(0).normal(0, 1, (20, 4, 8)).astype(np.float32)
    quantized = quantize(module, [(row,) for row in x], target="onnxruntime-u8s8")
    text = str(quantized.module)
    for op in ("dot_general", "add", "logistic"):
        (line,) = (line for line in text.splitlines() if f"stablehlo.{op} " in line)
        assert "!quant.uniform" in line
    assert "u8:f32" in text
    assert "i8<-127:127>:f32:1" in text
    assert "i32:f32:1" in text
    passes = "verify-quant-constraints{rules=stablehlo}"
    apply_passes(quantized.module, passes, is_routine=True)


def _normalized_text() -> str:
    """Return a layer, layer normalization as PyTorch exports it, and softmax."""
    graph = Graph()
    x = graph.argument(np.zeros((1, 6), np.float32))
    for shape in ((6, 8), (8, 4)):
        w = np.random.default_rng(shape).normal(size=shape).astype(np.float32)
        x = graph.node("MatMul", [x, graph.constant(w)])
        if shape == (8, 4):
            break
        mean = graph.node("ReduceMean", [x], axes=[-1])
        centered = graph.node("Sub", [x, mean])
        square = graph.node("Pow", [centered, graph.constant(np.array(2, np.float32))])
        variance = graph.node("ReduceMean", [square], axes=[-1])
        shifted = graph.node(
            "Add", [variance, graph.constant(np.array(1e-5, np.float32))]
        )
        x = graph.node("Div", [centered, graph.node("Sqrt", [shifted])])
        x = graph.node("Mul", [x, graph.constant(w[0])])
        x = graph.node("Add", [x, graph.constant(w[1])])
    graph.node("Softmax", [x], axis=-1)
    return str(read_onnx(graph.model((1, 4), opset=17)))


def test_compositions_are_kernels():
    module = as_module(_normalized_text())
    x = np.random.default_rng(0).normal(size=(40, 1, 6)).astype(np.float32)
    quantized = quantize(module, [(row,) for row in x], target="onnxruntime-u8s8")
    assert quantized.module is not None
    proto = onnx.load_from_string(write_onnx(quantized.module))
    casts = {"QuantizeLinear": "Q", "DequantizeLinear": ""}
    names = [casts.get(node.op_type, node.op_type) for node in proto.graph.node]
    normalization = "ReduceMean Reshape Sub Mul ReduceMean Reshape Add Sqrt Div Mul Add"
    expected = f"Q MatMul Q {normalization} Q MatMul Q Softmax"
    assert [*filter(None, names)] == expected.split()


_ROOT_MEAN_SQUARE = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<8x8xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = stablehlo.multiply VALUE, VALUE : tensor<4x8xf32>
  %t = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %r = stablehlo.rsqrt %t : tensor<4xf32>
  %b = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %y = stablehlo.multiply %x, %b : tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
"""


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("%x", ["multiply", "reduce", "rsqrt", "broadcast_in_dim", "multiply"]),
        # The product is a kernel of its own.
        ("%p", []),
    ],
)
def test_a_normalization_contains_no_product(value: str, names: list[str]):
    module = as_module(_ROOT_MEAN_SQUARE.replace("VALUE", value))
    *_, last = (op for op in module.walk() if isinstance(op, stablehlo.MultiplyOp))
    ops = normalization(last) or ()
    assert [op.name for op in ops] == [f"stablehlo.{name}" for name in names]


def test_no_casts_in_softmax():
    """Samples seldom contain the largest sum of powers: the one of equal scores."""
    x = np.random.default_rng(0).normal(0, 1, (20, 4, 8)).astype(np.float32)
    graph = Graph()
    weights = graph.constant(np.eye(8, 3, dtype=np.float32))
    scores = graph.node("MatMul", [graph.argument(x[0]), weights])
    graph.node("Softmax", [scores], axis=1)
    module = read_onnx(graph.model((4, 3)))
    quantized = quantize(module, [(row,) for row in x], target="onnxruntime-u8s8")
    proto = onnx.load_from_string(write_onnx(quantized.module))
    casts = ["QuantizeLinear", "DequantizeLinear"]
    assert [node.op_type for node in proto.graph.node] == [
        *(*casts, "DequantizeLinear", "MatMul", *casts, "Softmax")
    ]


@pytest.mark.parametrize(
    ("recipe", "target"),
    [
        ("int8", "onnxruntime-u8s8"),
        ("int16x8", "stablehlo-int16x8"),
        (Recipe(targets=["stablehlo-int8"]), "stablehlo-int8"),
    ],
)
def test_default_target_of_files(recipe: str | Recipe, target: str, tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(image_graph().model((1, 5), opset=17))
    stages = pipeline(Request(path, [], recipe))
    assert isinstance(stages, StaticPipeline)
    stages.run(until="fuse")
    assert stages.target.name == target


def test_observer_of_files(tmp_path: Path):
    own = tmp_path / "int8.toml"
    own.write_text('observer = "min-max"\n')
    observers = [
        with_target_of_file(read_recipe(source), source, "model.onnx").observer
        for source in ("int8", own)
    ]
    assert observers == ["percentile", "min-max"]


def test_default_target_of_the_command(tmp_path: Path):
    output = tmp_path / "quantized.onnx"
    command = ["docs/examples/wine.onnx", "--static", "--recipe", "int8"]
    command += ["--data", "docs/examples/wine_samples.npz", "-o", str(output)]
    assert main(command) == 0
    proto = onnx.load_from_string(output.read_bytes())
    types = {each.name: each.data_type for each in proto.graph.initializer}
    casts = [node for node in proto.graph.node if node.op_type == "QuantizeLinear"]
    assert {types[node.input[2]] for node in casts} == {onnx.TensorProto.UINT8}
