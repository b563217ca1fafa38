"""Files that onnxruntime's quantizer writes, read and compared with onnxruntime."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.unit.frontends.onnx.onnxruntime_results import floats, runtime_results
from tests.unit.frontends.onnx.quantized_models import Graph
from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array


def image_graph() -> Graph:
    """Return a small image classifier."""
    rng = np.random.default_rng(0)

    def constant(*shape: int) -> str:
        return graph.constant(floats(rng.normal(size=shape) * 0.2))

    graph = Graph()
    x = graph.argument(floats(rng.normal(size=(1, 3, 12, 12))))
    value = graph.node("Conv", [x, constant(8, 3, 3, 3), constant(8)], pads=[1] * 4)
    value = graph.node("Relu", [value])
    value = graph.node("MaxPool", [value], kernel_shape=[2, 2], strides=[2, 2])
    branch = graph.node("Conv", [value, constant(8, 1, 3, 3)], pads=[1] * 4, group=8)
    value = graph.node("Add", [value, branch])
    value = graph.node("LeakyRelu", [value], alpha=0.1)
    value = graph.node("GlobalAveragePool", [value])
    value = graph.node("Flatten", [value])
    value = graph.node("Gemm", [value, constant(5, 8), constant(5)], transB=1)
    graph.node("Softmax", [value])
    return graph


class _Samples:
    """Calibration data of an image model."""

    def __init__(self) -> None:
        self._arrays: Iterator[Array] = (
            floats(np.random.default_rng(seed).normal(size=(1, 3, 12, 12)))
            for seed in range(8)
        )

    def get_next(self) -> dict[str, Array] | None:
        array = next(self._arrays, None)
        return None if array is None else {"x0": array}


def check_file(path: Path, arguments: dict[str, Array], units: float) -> None:
    """Compare a file with onnxruntime; the tolerance is in units of a scale of 1/256."""
    (expected,) = runtime_results(path.read_bytes(), arguments)
    module = read_onnx(path)
    assert "custom_call" not in str(module)
    (result,) = run_function(module, None, *arguments.values())
    assert isinstance(result, np.ndarray)
    np.testing.assert_allclose(result, expected, 0, units / 256)
    compiled: Any = compile(module)(*arguments.values())
    np.testing.assert_allclose(compiled, result, 0, units / 256)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activations", ["QUInt8", "QInt8"])
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.filterwarnings("ignore")
def test_static(form: str, activations: str, per_channel: bool, tmp_path: Path):
    quantization: Any = import_module("onnxruntime.quantization")
    graph = image_graph()
    model, path = tmp_path / "model.onnx", tmp_path / "quantized.onnx"
    model.write_bytes(graph.model((1, 5), opset=17))
    quantization.quantize_static(
        *(model, path, _Samples()),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[activations],
        weight_type=quantization.QuantType.QInt8,
        per_channel=per_channel,
        # Kernels of onnxruntime for AVX2 saturate sums of products of wider weights.
        reduce_range=True,
    )
    check_file(path, graph.arguments, 1.01)


@pytest.mark.filterwarnings("ignore")
def test_dynamic(tmp_path: Path):
    quantization: Any = import_module("onnxruntime.quantization")
    rng = np.random.default_rng(0)
    graph = Graph()
    x = graph.argument(floats(rng.normal(size=(4, 16))))
    weights = graph.constant(floats(rng.normal(size=(16, 8))))
    value = graph.node("MatMul", [x, weights])
    graph.node("Add", [value, graph.constant(floats(rng.normal(size=8)))])
    model, path = tmp_path / "model.onnx", tmp_path / "quantized.onnx"
    model.write_bytes(graph.model((4, 8), opset=17))
    quantization.quantize_dynamic(model, path, reduce_range=True)
    proto = onnx.load_from_string(path.read_bytes())
    ops = {node.op_type for node in proto.graph.node}
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= ops
    check_file(path, graph.arguments, 1e-3)
