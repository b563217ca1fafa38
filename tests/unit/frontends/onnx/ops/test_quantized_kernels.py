"""Quantized graphs and kernels, compared with onnxruntime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike
from onnx import helper

from tests.unit.frontends.onnx.onnxruntime_results import check_node, floats
from tests.unit.frontends.onnx.quantized_models import (
    DRAWS,
    EXACT,
    KERNELS,
    Drawn,
    Graph,
    activation,
    check_graph,
    integer_info,
    quantized_graph,
)
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.numerics.arrays import Array


@pytest.mark.parametrize("op_type", DRAWS)
def test_qdq(op_type: str):
    for dtype in (np.uint8, np.int8):
        rng = np.random.default_rng(np.dtype(dtype).num)
        graph = quantized_graph(DRAWS[op_type](rng, dtype), rng, dtype)
        units = 0 if op_type in EXACT else 1
        check_graph(graph, units=units, is_compiled=dtype is np.uint8)


@pytest.mark.parametrize("op_type", KERNELS)
def test_kernels(op_type: str):
    for dtype in (np.uint8, np.int8):
        rng = np.random.default_rng(np.dtype(dtype).num)
        drawn = DRAWS[op_type](rng, dtype)
        graph = quantized_graph(drawn, rng, dtype, is_kernel=True)
        check_graph(graph, units=1)


@pytest.mark.parametrize("op_type", ["AveragePool", "GlobalAveragePool"])
def test_channels_last(op_type: str):
    rng = np.random.default_rng(0)
    drawn = Drawn(op_type, [activation(rng, (2, 9, 8, 6), np.uint8)])
    if op_type == "AveragePool":
        drawn.attributes = {"kernel_shape": [3, 2], "strides": [2, 1]}
    graph = quantized_graph(drawn, rng, np.uint8, is_kernel=True)
    graph.nodes[-1].attribute.append(helper.make_attribute("channels_last", 1))
    check_graph(graph, units=1)


def test_gemm_to_floats():
    rng = np.random.default_rng(0)
    x = activation(rng, (5, 8), np.uint8)
    graph = Graph()
    operands = [*x.names(graph)]
    weights = rng.integers(-64, 65, (4, 8)).astype(np.int8)
    bias = rng.integers(-1000, 1000, 4).astype(np.int32)
    operands += [
        graph.constant(weights),
        graph.constant(floats([0.1, 0.2, 0.3, 0.4])),
        graph.constant(np.zeros(4, np.int8)),
        graph.constant(bias),
    ]
    graph.node("com.microsoft.QGemm", operands, transB=1, alpha=0.5)
    check_graph(graph, rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes"),
    [
        ("DepthToSpace", (), {"blocksize": 2}),
        ("Flatten", (), {}),
        ("MaxPool", (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("Reshape", ([4, -1],), {}),
        ("Slice", ([1], [5], [2]), {}),
        ("Split", (), {"axis": 2, "num_outputs": 2}),
        ("Squeeze", ([0],), {}),
        ("Transpose", (), {"perm": [0, 2, 3, 1]}),
        ("Unsqueeze", ([1],), {}),
    ],
)
def test_moves_keep_quantized_types(
    op_type: str, operands: Sequence[Sequence[int]], attributes: Mapping[str, Any]
):
    graph = Graph()
    x = np.random.default_rng(0).normal(0, 9, (1, 8, 6, 6)).astype(np.float32)
    parameters = [
        graph.constant(np.array(0.1, np.float32)),
        graph.constant(np.array(100, np.uint8)),
    ]
    q = graph.node("QuantizeLinear", [graph.argument(x), *parameters])
    others = [graph.constant(np.array(values)) for values in operands]
    count = attributes.get("num_outputs", 1)
    moved = graph.node(op_type, [q, *others], count, **attributes)
    graph.node("DequantizeLinear", [moved, *parameters])
    module = check_graph(graph, is_compiled=True)
    assert "quant.scast" not in {op.name for op in module.walk()}


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_positions_of_stored_values(op_type: str):
    graph = Graph()
    x = np.random.default_rng(0).normal(0, 1, (3, 40)).astype(np.float32)
    parameters = [
        graph.constant(np.array(0.1, np.float32)),
        graph.constant(np.array(100, np.uint8)),
    ]
    q = graph.node("QuantizeLinear", [graph.argument(x), *parameters])
    graph.node(op_type, [q], axis=1)
    module = check_graph(graph)
    assert "quant.scast" not in {op.name for op in module.walk()}


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(np.int8, -127, 127), (np.uint8, 0, 15)]
)
def test_clips_of_stored_values(dtype: DTypeLike, low: int, high: int):
    # As Brevitas writes narrow types.
    graph = Graph()
    x = np.random.default_rng(0).normal(0, 9, (3, 40)).astype(np.float32)
    x[0, :3] = np.nan, np.inf, -np.inf
    parameters = [
        graph.constant(np.array(0.1, np.float32)),
        graph.constant(np.array(3, dtype)),
    ]
    q = graph.node("QuantizeLinear", [graph.argument(x), *parameters])
    bounds = [graph.constant(np.array(bound, dtype)) for bound in (low, high)]
    graph.node("DequantizeLinear", [graph.node("Clip", [q, *bounds]), *parameters])
    text = str(check_graph(graph, is_compiled=True))
    assert f"<{low}:{high}>:f32" in text
    assert "quant.scast" not in text


# Sums of products of integers


def stored(shape: tuple[int, ...], dtype: DTypeLike, seed: int = 0) -> Array:
    info = integer_info(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min // 2, info.max // 2 + 1, shape).astype(dtype)


@pytest.mark.parametrize("x_dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("y_dtype", [np.uint8, np.int8])
def test_mat_mul_integer(x_dtype: DTypeLike, y_dtype: DTypeLike):
    x, y = stored((3, 5, 40), x_dtype), stored((40, 6), y_dtype, 1)
    x_zero_point = np.array(7, x_dtype)
    for y_zero_point in (np.array(3, y_dtype), np.arange(6).astype(y_dtype)):
        check_node("MatMulInteger", x, y, x_zero_point, y_zero_point)
    check_node("MatMulInteger", x, y, is_compiled=True)
    check_node("MatMulInteger", x[0, 0], y, None, y_zero_point)


@pytest.mark.parametrize("constants", [(), (1, 2, 3)])
def test_conv_integer(constants: tuple[int, ...]):
    x, weights = stored((1, 4, 8, 8), np.uint8), stored((6, 2, 3, 3), np.int8, 1)
    arguments = x, weights, np.array(9, np.uint8), np.array(0, np.int8)
    attributes: dict[str, Any] = {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1]}
    check_node("ConvInteger", *arguments, constants=constants, **attributes)
    check_node("ConvInteger", *arguments[:2], is_compiled=True, **attributes)


@pytest.mark.parametrize(
    ("op_type", "operands", "message"),
    [
        ("QLinearAdd", "x s z  s z s z", "operand 3 is missing"),
        ("QLinearSigmoid", "x s z", "operand 3 is missing"),
        ("QLinearSigmoid", "x s z s z z", "has 6 operands; expected at most 5"),
        (
            "QLinearConcat",
            "s z x s",
            "has 4 operands; expected scale and zero point of the result, then three for "
            "each tensor",
        ),
        ("QGemm", "x s3 z x s z", "has parameters of rank 3; expected 0, 1 or 2"),
    ],
)
def test_invalid_operands(op_type: str, operands: str, message: str):
    graph = Graph()
    names = {
        "x": graph.argument(np.zeros((4, 4), np.uint8)),
        "s": graph.constant(floats(0.1)),
        "s3": graph.constant(floats(np.ones((2, 2, 2)))),
        "z": graph.constant(np.array(1, np.uint8)),
        "": "",
    }
    operands = operands.replace("  ", " - ")
    graph.node(f"com.microsoft.{op_type}", [names.get(n, "") for n in operands.split()])
    with pytest.raises(ONNXFileError) as error:
        read_onnx(graph.model((4, 4), np.uint8))
    assert str(error.value) == f"<bytes>: error: node 'v0' ({op_type}): {message}"
