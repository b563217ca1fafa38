"""Models whose symbolic sizes stay unknown: they run for any batch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.unit.frontends.onnx.onnxruntime_results import runtime_results
from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx, write_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import apply_passes

node = helper.make_node

_EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"


def _weights(*shape: int) -> Array:
    return np.random.default_rng([*shape]).normal(0, 0.5, shape).astype(np.float32)


def _model(
    nodes: Sequence[NodeProto],
    constants: Mapping[str, Array],
    shape: Sequence[int | str],
    opset: int = 17,
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    content: bytes = onnx.shape_inference.infer_shapes(model).SerializeToString()
    return content


def convolutional_network() -> bytes:
    """Return a convolutional network with a residual sum."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4),
        node("BatchNormalization", ["c1", "scale", "b1", "mean", "variance"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "w2", "b2"], ["c2"], pads=[1] * 4),
        node("Add", ["c2", "p"], ["sum"]),
        node("Clip", ["sum", "low", "high"], ["clipped"]),
        node("AveragePool", ["clipped"], ["a"], kernel_shape=[3, 3], pads=[1] * 4),
        node("GlobalAveragePool", ["a"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["logits"], transB=1),
        node("Softmax", ["logits"], ["y"], axis=1),
    ]
    constants = {
        "w1": _weights(4, 3, 3, 3),
        "b1": _weights(4),
        "scale": _weights(1, 4)[0],
        "mean": _weights(2, 4)[0],
        "variance": np.abs(_weights(3, 4)[0]) + np.float32(0.5),
        "w2": _weights(4, 4, 3, 3),
        "b2": _weights(4, 1)[:, 0],
        "low": np.float32(-1),
        "high": np.float32(2),
        "w3": _weights(5, 4),
        "b3": _weights(5),
    }
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    return _model(nodes, arrays, ["N", 3, 8, 8])


def _perceptron() -> bytes:
    nodes = [
        node("Reshape", ["x", "copied"], ["r1"]),
        node("MatMul", ["r1", "w1"], ["m"]),
        node("Add", ["m", "b1"], ["b"]),
        node("Sigmoid", ["b"], ["s"]),
        node("Mul", ["b", "s"], ["swish"]),
        node("Reshape", ["swish", "inferred"], ["r2"]),
        node("ReduceMean", ["r2"], ["mean"], axes=[2], keepdims=0),
        node("LeakyRelu", ["mean"], ["l"]),
        node("Unsqueeze", ["l", "axis"], ["u"]),
        node("Concat", ["u", "u"], ["c"], axis=1),
        node("Squeeze", ["u", "axis"], ["q"]),
        node("LayerNormalization", ["q", "scale", "bias"], ["y"]),
    ]
    constants = {
        "copied": np.array([0, -1]),
        "w1": _weights(12, 8),
        "b1": _weights(8),
        "inferred": np.array([-1, 4, 2]),
        "axis": np.array([1]),
        "scale": _weights(4),
        "bias": _weights(1, 4)[0],
    }
    return _model(nodes, constants, ["N", 3, 4])


@pytest.mark.parametrize(
    ("content", "shape"),
    [(convolutional_network(), (3, 8, 8)), (_perceptron(), (3, 4))],
    ids=["convolutions", "products"],
)
def test_a_module_for_any_batch(content: bytes, shape: tuple[int, ...]):
    module = read_onnx(content)
    assert f"tensor<?x{'x'.join(map(str, shape))}xf32>" in str(module)
    compiled, file = compile(module), write_onnx(module)
    for size in (1, 2, 7):
        x = _weights(size, *shape)
        (expected,) = runtime_results(content, {"x": x})
        (interpreted,) = run_function(module, None, x)
        (written,) = runtime_results(file, {"x": x})
        for found in (interpreted, compiled(x), written):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


_SLICED = [
    # Values of starts, ends, axes and steps.
    ([1], [3], [1], [1]),
    ([1, -2], [1 << 62, -1], [1, 2], [1, 1]),
    ([0, 0], [(1 << 31) - 1, 5], [0, 1], [1, 2]),
    ([-1], [-(1 << 62)], [1], [-2]),
    ([0], [1 << 40], [0], [1]),
]


@pytest.mark.parametrize("lists", _SLICED, ids=str)
def test_slices_of_other_dimensions(lists: Sequence[Sequence[int]]):
    names = ["starts", "ends", "axes", "steps"]
    constants = {
        name: np.array(numbers) for name, numbers in zip(names, lists, strict=True)
    }
    nodes = [
        node("Slice", ["x", *names], ["s"]),
        node("Concat", ["s", "s"], ["c"], axis=1),
        node("Split", ["c"], ["y", "z"], axis=1),
    ]
    content = _model(nodes, constants, ["N", 6, 4])
    module, x = read_onnx(content), _weights(3, 6, 4)
    file = write_onnx(module)
    read_onnx(file)
    (expected,) = runtime_results(content, {"x": x})
    (written,) = runtime_results(file, {"x": x})
    (interpreted,) = run_function(module, None, x)
    for found in (interpreted, compile(module)(x), written):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("index", [np.array(0), np.array(-1), np.array([[2]])], ids=str)
def test_gather_of_one_index(index: Array):
    """As models select a token."""
    nodes = [node("Gather", ["x", "i"], ["y"], axis=1)]
    content = _model(nodes, {"i": index}, ["N", 5, 4])
    module, x = read_onnx(content), _weights(3, 5, 4)
    (written,) = runtime_results(write_onnx(module), {"x": x})
    (interpreted,) = run_function(module, None, x)
    for found in (interpreted, compile(module)(x), written):
        np.testing.assert_array_equal(found, np.take(x, index, 1))


def test_slices_of_an_unknown_dimension():
    constants = {"starts": np.array([1]), "ends": np.array([3])}
    nodes = [node("Slice", ["x", "starts", "ends"], ["y"])]
    with pytest.warns(UserWarning, match=r"unknown sizes are 1.*--shape"):
        read_onnx(_model(nodes, constants, ["N", 3, 4]))


@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_dynamic_quantization(op: str):
    """The scale of a batch is computed from all its elements."""
    w = np.random.default_rng(0).integers(-127, 128, (8, 3, 3, 3), np.int8)
    is_conv = op == "Conv"
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node(f"{op}Integer", ["q", "w", "z"], ["sum"]),
        node("Cast", ["sum"], ["float"], to=TensorProto.FLOAT),
        node("Mul", ["s", "w_scale"], ["scale"]),
        node("Mul", ["float", "scale"], ["y"]),
    ]
    constants = {
        "w": w if is_conv else w.reshape(27, 8),
        "w_scale": np.array(0.01, np.float32),
    }
    shape = (3, 6, 5) if is_conv else (27,)
    content = _model(nodes, constants, ["N", *shape])
    module = read_onnx(content)
    assert f"tensor<?x{'x'.join(map(str, shape))}xf32>" in str(module)
    compiled, file = compile(module), write_onnx(module)
    for size in (1, 3):
        x = _weights(size, *shape)
        (expected,) = runtime_results(content, {"x": x})
        (written,) = runtime_results(file, {"x": x})
        (interpreted,) = run_function(module, None, x)
        for found in (interpreted, compiled(x), written):
            np.testing.assert_array_equal(found, expected)


def test_kernels_of_onnxruntime():
    """Groups of ops between casts are replaced for unknown sizes, too."""
    texts: list[str] = []
    for static in (False, True):
        module = read_onnx(_EXAMPLES / "wine_int8.onnx", static=static)
        apply_passes(module, "stablehlo-legalize-qdq-to-integer{signed=true}")
        texts.append(str(module))
    unknown, known = texts
    for text in texts:
        assert text.count("stablehlo.dot_general") == 3
    assert "(tensor<?x13xi16>, tensor<13x32xi16>) -> tensor<?x32xi32>" in unknown
    assert unknown.count("linalg.generic") == known.count("linalg.generic")


def test_softmax_of_onnxruntime():
    """The kernel is replaced for an unknown batch, with the same integers."""
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
        node("DequantizeLinear", ["q", "sx", "zx"], ["d"]),
        node("Softmax", ["d"], ["s"], axis=-1),
        node("QuantizeLinear", ["s", "sy", "zy"], ["t"]),
        node("DequantizeLinear", ["t", "sy", "zy"], ["y"]),
    ]
    scales = {"sx": np.array(0.03, np.float32), "sy": np.array(1 / 256, np.float32)}
    zero_points = {"zx": np.array(120, np.uint8), "zy": np.array(0, np.uint8)}
    content = _model(nodes, scales | zero_points, ["N", 3, 4])
    module = read_onnx(content)
    compiled = compile(module, kernels="onnxruntime")
    apply_passes(module, "stablehlo-legalize-qdq-to-integer{signed=true}")
    assert "stablehlo.exponential" not in str(module)
    for size in (1, 5):
        x = 6 * _weights(size, 3, 4)
        (expected,) = runtime_results(content, {"x": x}, optimizes=True)
        np.testing.assert_array_equal(compiled(x), expected)


def test_a_written_network_has_the_nodes_of_the_file():
    file = onnx.load_from_string(write_onnx(read_onnx(convolutional_network())))
    nodes = [each.op_type for each in file.graph.node]
    assert [*map(nodes.count, ("Conv", "Gemm", "Softmax", "GlobalAveragePool"))] == [
        *(2, 1, 1, 1)
    ]
    assert "Expand" not in nodes
    assert "Shape" not in nodes


@pytest.mark.parametrize(
    ("shape", "requested", "expected"),
    [
        (["N", 3, 4], [0, 12], (5, 12)),
        (["N", 3, 4], [-1, 6], (10, 6)),
        (["N", 3, 4], [1, -1], (1, 60)),
        (["N", 3, "M"], [0, -1], (5, 12)),
        (["N", 3, "M"], [0, 0, 2, -1], (5, 3, 2, 2)),
        (["N", 6, 4], [-1, 8], (15, 8)),
        (["N", 3, 4], [-1], (60,)),
    ],
)
def test_reshapes(
    shape: Sequence[int | str], requested: list[int], expected: tuple[int, ...]
):
    sizes = [{"N": 5, "M": 4}.get(str(size), size) for size in shape]
    x = _weights(*map(int, sizes))
    constants = {"s": np.array(requested)}
    content = _model([node("Reshape", ["x", "s"], ["y"])], constants, shape)
    module = read_onnx(content)
    (interpreted,) = run_function(module, None, x)
    for found in (interpreted, compile(module)(x)):
        np.testing.assert_array_equal(found, x.reshape(expected))


@pytest.mark.parametrize("requested", [[2, 7], [0, 11], [3, 4, 5]])
def test_reshapes_to_other_sizes(requested: list[int]):
    constants = {"s": np.array(requested)}
    content = _model([node("Reshape", ["x", "s"], ["y"])], constants, ["N", 3, 4])
    with pytest.raises(ONNXFileError, match="cannot reshape"):
        read_onnx(content)


def test_operands_of_other_sizes_at_run_time_are_refused():
    """Unknown sizes of operands are equal; ONNX would broadcast a size of 1."""
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.FLOAT, [name, 2]) for name in ("a", "b")]
    graph = helper.make_graph(
        [node("Add", ["a", "b"], ["y"])],
        "g",
        inputs,
        [value("y", TensorProto.FLOAT, ["n", 2])],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets)
    module = read_onnx(model.SerializeToString())
    arguments: Any = _weights(3, 2), _weights(1, 2)
    with pytest.raises(Exception, match="shapes that do not match"):
        run_function(module, None, *arguments)
    with pytest.raises(ValueError, match="incompatible with inferred dimension size"):
        compile(module)(*arguments)
