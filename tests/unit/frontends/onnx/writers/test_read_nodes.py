"""Nodes that are read and written again, compared with the nodes in onnxruntime."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import onnx
import pytest
from numpy.typing import DTypeLike
from onnx import TensorProto, helper, numpy_helper

from tests.unit.frontends.onnx.onnxruntime_results import (
    check_written_node,
    floats,
    integers,
    node_model,
    runtime_results,
)
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx, write_onnx
from xdsl_quant.frontends.onnx.graph_builder import Conversion
from xdsl_quant.frontends.onnx.ops import CONVERSIONS
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import as_module


def _random(shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Any:
    is_float = np.dtype(dtype).kind == "f"
    values = np.random.default_rng(3).uniform(-2 if is_float else 0, 9, shape)
    return values.astype(dtype)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_order_of_nan_in_top_k(largest: int):
    check_written_node(
        "TopK",
        floats([3, np.nan, 1, 2]),
        integers([4]),
        constants=[1],
        result_count=2,
        nodes=["TopK"],
        largest=largest,
    )


def test_the_smallest_integers_along_another_axis():
    check_written_node(
        "TopK",
        _random((4, 3), np.int64),
        integers([2]),
        constants=[1],
        result_count=2,
        axis=0,
        largest=0,
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int32, np.int64])
@pytest.mark.parametrize("attributes", [{}, {"select_last_index": 1}, {"keepdims": 0}])
@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_positions(op_type: str, attributes: dict[str, Any], dtype: DTypeLike):
    x = _random((3, 4, 5), dtype).round()
    is_kept = "keepdims" not in attributes
    nodes = [op_type, "Reshape"] if is_kept else [op_type]
    check_written_node(op_type, x, nodes=nodes, axis=1, **attributes)


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 4, 5), (2, 3, 2, 3, 2)])
def test_means_of_images(shape: tuple[int, ...]):
    nodes = ["GlobalAveragePool"]
    check_written_node("GlobalAveragePool", _random(shape), atol=1e-6, nodes=nodes)


def _file_result(op_type: str, arguments: Mapping[str, Array], *shape: int) -> Array:
    """Return the result of a node that is written; it has the type of the last operand."""
    types = {
        name: helper.np_dtype_to_tensor_dtype(array.dtype)
        for name, array in arguments.items()
    }
    inputs = [
        helper.make_tensor_value_info(name, types[name], array.shape)
        for name, array in arguments.items()
    ]
    node = helper.make_node(op_type, [*arguments], ["r"])
    result = helper.make_tensor_value_info("r", [*types.values()][-1], shape)
    graph = helper.make_graph([node], "g", inputs, [result])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    file = write_onnx(read_onnx(proto.SerializeToString()))
    (found,) = runtime_results(file, arguments)
    return found


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.uint16, np.uint64])
def test_selects_of_types_that_onnxruntime_lacks(dtype: DTypeLike):
    x, condition = (_random((2, 3)) * 100).astype(dtype), _random((2, 3)) > 3
    found = _file_result("Where", {"c": condition, "x": x, "y": x[::-1]}, 2, 3)
    assert found.dtype == dtype
    expected = x.copy()
    expected[~condition] = x[::-1][~condition]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64]
)
def test_sums_of_types_that_onnxruntime_lacks(dtype: DTypeLike):
    x = (_random((2, 3)) * 100).astype(dtype)
    found = _file_result("ReduceSum", {"x": x}, 1, 1)
    assert (found.dtype, found.item()) == (dtype, x.sum(dtype=dtype))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.uint32])
def test_maxima_of_types_that_onnxruntime_lacks(dtype: DTypeLike):
    x = (_random((2, 3)) * 100).astype(dtype)
    found = _file_result("ReduceMax", {"x": x}, 1, 1)
    assert (found.dtype, found.item()) == (dtype, x.max())


@pytest.mark.parametrize("op_type", ["bitwise shift", "remainder"])
def test_16_bits(op_type: str):
    x = np.array([-9, 7, 300, -1], np.int16)
    if op_type == "remainder":
        check_written_node("Mod", x, np.array([4, -3, 7, 2], np.int16))
    else:
        u = x.astype(np.uint16)
        check_written_node("BitShift", u, np.full(4, 3, np.uint16), direction="LEFT")


def test_products_of_bytes_with_zero_points():
    image = _random((1, 2, 5, 5)).astype(np.uint8)
    kernel = np.random.default_rng(0).integers(-128, 128, (3, 2, 3, 3), np.int8)
    zero_points = np.uint8(4), np.int8(0)
    check_written_node(
        "ConvInteger", image, kernel, *zero_points, nodes=["ConvInteger"], pads=[1] * 4
    )
    x, y = _random((3, 4)).astype(np.uint8), kernel.reshape(-1)[:20].reshape(4, 5)
    check_written_node("MatMulInteger", x, y, nodes=["MatMulInteger"])
    columns = np.array([3, 0, -1, 2, 7], np.int8)
    check_written_node(
        "MatMulInteger", x, y, np.uint8(7), columns, nodes=["MatMulInteger"]
    )


def test_dynamic_quantization():
    nodes = ["DynamicQuantizeLinear", "Cast", "Cast", "Cast", "QuantizeLinear", "Cast"]
    x = _random((4, 6))
    check_written_node("DynamicQuantizeLinear", x, result_count=3)
    model = node_model(
        "DynamicQuantizeLinear", {"x": x}, operands=["x"], results=["q", "s", "z"]
    )
    written = onnx.load_from_string(write_onnx(read_onnx(model)))
    assert {node.op_type for node in written.graph.node} <= {*nodes}


def test_casts_to_16_bits_need_opset_21():
    x, scale, zero_point = _random((4,)), np.float32(0.01), np.int16(5)
    check_written_node("QuantizeLinear", x, scale, zero_point)


@pytest.mark.parametrize("data_type", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("has_zero_points", [False, True])
@pytest.mark.parametrize("rows", [8, 6])
def test_blocks(rows: int, has_zero_points: bool, data_type: int):
    """Blocks of 4 rows, of which the last one may be shorter."""
    random = np.random.default_rng(rows)
    low = -8 if data_type == TensorProto.INT4 else 0
    stored = random.integers(low, low + 16, rows * 3)
    scales = random.uniform(0.1, 1, (2, 3)).astype(np.float32)
    tensors = [
        helper.make_tensor("q", data_type, (rows, 3), stored.tolist()),
        numpy_helper.from_array(scales, "s"),
    ]
    if has_zero_points:
        points = random.integers(0, 4, 6).tolist()
        tensors.append(helper.make_tensor("z", data_type, (2, 3), points))
    names = [tensor.name for tensor in tensors]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["w"], axis=0, block_size=4),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        tensors,
    )
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    content = model.SerializeToString()
    x = {"x": _random((2, rows))}
    file = write_onnx(read_onnx(content))
    (found,), (expected,) = (runtime_results(each, x) for each in (file, content))
    np.testing.assert_array_equal(found, expected)


@pytest.fixture
def without_grid_sample(monkeypatch: pytest.MonkeyPatch):
    """Remove the conversion of an op whose definition has changed."""
    monkeypatch.delitem(cast("dict[str, Conversion]", CONVERSIONS), "GridSample")


@pytest.mark.usefixtures("without_grid_sample")
def test_ops_without_conversion_of_an_older_opset():
    """`GridSample` calls its mode `linear` since opset 20, before `bilinear`."""
    grid = np.random.default_rng(1).uniform(-1, 1, (1, 2, 2, 2)).astype(np.float32)
    for mode in ("bilinear", "bicubic"):
        check_written_node(
            "GridSample",
            _random((1, 1, 4, 4)),
            grid,
            opset=16,
            atol=1e-6,
            nodes=["GridSample"],
            mode=mode,
        )


@pytest.mark.usefixtures("without_grid_sample")
def test_ops_that_cannot_be_converted_to_the_opset_of_the_file():
    module = read_onnx(
        node_model(
            "GridSample",
            {"x": _random((1, 1, 4, 4)), "g": _random((1, 2, 2, 2))},
            operands=["x", "g"],
            opset=16,
        )
    )
    text = str(module).replace("GridSample", "Upsample").replace("= 16 :", "= 8 :")
    with pytest.raises(ONNXFileError) as error:
        write_onnx(as_module(text))
    assert "opset 8 defines 'Upsample' otherwise than 20" in str(error.value)


def test_names_with_commas():
    x = helper.make_tensor_value_info("a,b", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("c", TensorProto.FLOAT, [2])
    z = helper.make_tensor_value_info("d,e", TensorProto.FLOAT, [2])
    node = helper.make_node("Sub", ["a,b", "c"], ["d,e"])
    graph = helper.make_graph([node], "g", [x, y], [z])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    file = write_onnx(read_onnx(proto.SerializeToString()))
    written = onnx.load_from_string(file).graph
    assert [value.name for value in written.input] == ["a,b", "c"]
    assert [value.name for value in written.output] == ["d,e"]
