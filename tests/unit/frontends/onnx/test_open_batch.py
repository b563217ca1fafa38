"""Files that keep the batch of the model from which they were quantized."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.unit.frontends.onnx.onnxruntime_results import runtime_results
from tests.unit.frontends.onnx.test_unknown_sizes import convolutional_network
from xdsl_quant.frontends.onnx import read_onnx, write_onnx
from xdsl_quant.frontends.onnx.open_batch import open_batch
from xdsl_quant.quantizer import quantize

node = helper.make_node

_CONSTANTS: Mapping[str, Any] = {
    "one": np.array(1, np.float32),
    "image": np.ones((1, 3, 4), np.float32),
    "matrix": np.ones((4, 2), np.float32),
    "column": np.ones((4, 1), np.float32),
    "square": np.eye(3, dtype=np.float32),
    "square_2": np.eye(2, dtype=np.float32),
    "axis": np.array(0),
    "batched_matrix": np.ones((1, 5, 3), np.float32),
    "zero_point": np.array(0, np.uint8),
    "scales": np.ones(1, np.float32),
    "zero_points": np.zeros(1, np.uint8),
    "axis_0": np.array([0]),
    "axis_1": np.array([1]),
    "last_axis": np.array([-1]),
    "first_axis": np.array([-3]),
    "two": np.array([2]),
    "images": np.ones((5, 3, 4), np.float32),
    "matrices": np.ones((5, 2, 3), np.float32),
    "blocks": np.ones((1, 3, 2), np.float32),
    "zero_blocks": np.zeros((1, 3, 2), np.uint8),
    "more_axes": np.array([1, 2, 3, 4]),
    "shape": np.array([1, 12]),
    "no_batch": np.array([3, 4]),
    "expanded": np.array([1, 3, 4]),
    "repeated": np.array([5, 3, 4]),
    "pads": np.array([0, 1, 0, 0, 0, 2]),
    "pads_of_samples": np.array([0, 1, 0, 1, 0, 2]),
}


def _model(*nodes: NodeProto, shape: Sequence[int] = (1, 3, 4)) -> onnx.ModelProto:
    """Return a model from `x` to `y`, which is the result of a node."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name="y")],
        [
            numpy_helper.from_array(array, name)
            for name, array in _CONSTANTS.items()
            if any(name in each.input for each in nodes)
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(
    "each",
    [
        node("Relu", ["x"], ["y"]),
        node("Add", ["one", "x"], ["y"]),
        node("Mul", ["x", "image"], ["y"]),
        node("MatMul", ["x", "matrix"], ["y"]),
        node("MatMul", ["batched_matrix", "x"], ["y"]),
        node("MatMul", ["square", "x"], ["y"]),
        node("Concat", ["x", "x"], ["y"], axis=-1),
        node("Softmax", ["x"], ["y"]),
        node("Transpose", ["x"], ["y"], perm=[0, 2, 1]),
        node("Reshape", ["x", "shape"], ["y"]),
        node("Expand", ["x", "expanded"], ["y"]),
        node("Gather", ["x", "two"], ["y"], axis=2),
        node("Slice", ["x", "axis_0", "two", "axis_1"], ["y"]),
        node("Pad", ["x", "pads"], ["y"]),
        node("ReduceMean", ["x", "last_axis"], ["y"], keepdims=0),
        node("Unsqueeze", ["x", "last_axis"], ["y"]),
        node("GlobalAveragePool", ["x"], ["y"]),
        node("QuantizeLinear", ["x", "one", "zero_point"], ["y"], axis=0),
    ],
    ids=lambda each: each.op_type,
)
def test_nodes_with_independent_samples(each: NodeProto):
    model = _model(each)
    x = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    expected = [
        runtime_results(model.SerializeToString(), {"x": sample})[0]
        for sample in x[:, np.newaxis]
    ]
    assert open_batch(model, ["n"]) is None
    (found,) = runtime_results(model.SerializeToString(), {"x": x})
    np.testing.assert_array_equal(found, np.concatenate(expected))
    (output,) = model.graph.output
    assert output.type.tensor_type.shape.dim[0].dim_param == "n"


@pytest.mark.parametrize(
    "each",
    [
        node("Add", ["x", "images"], ["y"]),
        node("MatMul", ["matrices", "x"], ["y"]),
        node("Concat", ["x", "x"], ["y"], axis=-3),
        node("Concat", ["x", "image"], ["y"], axis=1),
        node("Softmax", ["x"], ["y"], axis=0),
        node("Transpose", ["x"], ["y"], perm=[1, 0, 2]),
        node("Transpose", ["x"], ["y"]),
        node("Reshape", ["x", "no_batch"], ["y"]),
        node("Expand", ["x", "repeated"], ["y"]),
        node("Expand", ["x", "more_axes"], ["y"]),
        node("Gather", ["x", "axis_0"], ["y"]),
        node("Slice", ["x", "axis_0", "two", "axis_0"], ["y"]),
        node("Slice", ["x", "axis_0", "two"], ["y"]),
        node("Pad", ["x", "pads_of_samples"], ["y"]),
        node("ReduceSum", ["x", "first_axis"], ["y"]),
        node("ReduceSum", ["x"], ["y"]),
        node("Squeeze", ["x", "axis_0"], ["y"]),
        node("Unsqueeze", ["x", "axis_0"], ["y"]),
        node("QuantizeLinear", ["x", "scales", "zero_points"], ["y"], axis=0),
        node("QuantizeLinear", ["x", "blocks", "zero_blocks"], ["y"], block_size=2),
        node("CumSum", ["x", "axis"], ["y"]),
    ],
    ids=lambda each: each.op_type,
)
def test_nodes_that_combine_samples(each: NodeProto):
    _check_is_refused(_model(each), each)


@pytest.mark.parametrize(
    "each",
    [
        node("MatMul", ["column", "x"], ["y"]),
        node("Gemm", ["column", "x"], ["y"]),
        node("Gemm", ["x", "column"], ["y"], transA=1, transB=1),
        node("Gemm", ["x", "square_2", "x"], ["y"]),
    ],
    ids=lambda each: each.op_type,
)
def test_products_that_combine_samples(each: NodeProto):
    _check_is_refused(
        _model(each, shape=(1, 2 if "square_2" in each.input else 1)), each
    )


def _check_is_refused(model: onnx.ModelProto, each: NodeProto) -> None:
    content = model.SerializeToString()
    assert open_batch(model, ["n"]) == f"node 'y' ({each.op_type})"
    assert model.SerializeToString() == content


def test_a_quantized_network(tmp_path: Path):
    path = tmp_path / "network.onnx"
    path.write_bytes(convolutional_network())
    x = np.random.default_rng(0).normal(size=(6, 3, 8, 8)).astype(np.float32)
    quantized = quantize(path, x)
    file = write_onnx(quantized.module)
    expected = np.concatenate(
        [runtime_results(file, {"x": sample})[0] for sample in x[:, np.newaxis]]
    )
    np.testing.assert_array_equal(runtime_results(file, {"x": x})[0], expected)
    # A float model with `static`, or a given batch, has a static batch.
    for module in (
        read_onnx(path, static=True),
        read_onnx(path, shapes={"x": x.shape}),
    ):
        written = onnx.load_from_string(write_onnx(module))
        assert written.graph.input[0].type.tensor_type.shape.dim[0].dim_value > 0


def test_a_quantized_network_that_combines_samples(tmp_path: Path):
    path = tmp_path / "network.onnx"
    model = _model(
        node("Relu", ["x"], ["r"]),
        node("MatMul", ["r", "matrix"], ["m"]),
        node("ReduceMean", ["m", "first_axis"], ["y"]),
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    path.write_bytes(model.SerializeToString())
    x = np.random.default_rng(0).normal(size=(6, 3, 4)).astype(np.float32)
    quantized = quantize(path, x)
    with pytest.warns(UserWarning, match="written file is 1") as warnings:
        file = write_onnx(quantized.module)
    (warning,) = warnings
    assert "may combine samples; set the batch with --shape" in str(warning.message)
    (result,) = runtime_results(file, {"x": x[:1]})
    assert result.shape == (1, 3, 2)
