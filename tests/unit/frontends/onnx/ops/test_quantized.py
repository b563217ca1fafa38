"""Casts of ONNX and products with blocks of weights, compared with onnxruntime."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import ArrayLike, DTypeLike
from onnx import TensorProto

from tests.unit.frontends.onnx.onnxruntime_results import (
    check_node,
    floats,
    import_error,
)
from tests.unit.frontends.onnx.quantized_models import Graph, check_graph, integer_info
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.xdsl_patches.resources import RESOURCE_BYTES

SPECIAL = [0.5, 1.5, 2.5, -1.5, 1e30, np.inf, 2.0**31, -1e30, -np.inf, np.nan, 0, -0.0]
TIES = [0.15, 0.14999995, 0.45000002, -0.15, 0.75]

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16]


def drawn(count: int, spread: float = 30) -> Array:
    rng = np.random.default_rng(5)
    values = np.append(rng.normal(0, spread, count), [*SPECIAL, *TIES])
    return values.astype(np.float32)


def through_narrow(x: ArrayLike, dtype: DTypeLike, **attributes: Any) -> Graph:
    """Return a graph that quantizes to a type that onnxruntime cannot return, and back."""
    graph = Graph()
    parameters = [graph.constant(floats(0.3)), graph.constant(np.array(0, dtype))]
    q = graph.node(
        "QuantizeLinear", [graph.argument(np.asarray(x)), *parameters], **attributes
    )
    graph.node("DequantizeLinear", [q, *parameters])
    return graph


# QuantizeLinear


@pytest.mark.parametrize("constants", [(), (1, 2)])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_quantize(dtype: DTypeLike, constants: Sequence[int]):
    for scale, zero_point in ((0.3, 5), (1, 1), (0.011, 77)):
        check_node(
            "QuantizeLinear",
            drawn(2000),
            floats(scale),
            np.array(zero_point, dtype),
            constants=constants,
        )


@pytest.mark.parametrize("scale", [0.0, -0.5, np.inf, np.nan, 1e-45, 1e30])
def test_quantize_with_unusual_scale(scale: float):
    arguments = drawn(50), floats(scale), np.array(5, np.int8)
    check_node("QuantizeLinear", *arguments, constants=(1, 2), is_compiled=True)


@pytest.mark.parametrize("opset", [19, 22, 23])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_quantize_halves(dtype: DTypeLike, opset: int):
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    scale, zero_point = np.array(0.3, np.float16), np.array(5, dtype)
    if opset == 19 and np.dtype(dtype).itemsize > 1:
        pytest.skip("only integers of 8 bits")
    check_node("QuantizeLinear", x, scale, zero_point, constants=(1, 2), opset=opset)


def test_quantize_along_axis():
    x = drawn(103)[:120].reshape(4, 30)
    scales = np.linspace(0.1, 2, 4, dtype=np.float32)
    zero_points = np.array([0, 3, 200, 255], np.uint8)
    for axis in (0, -2):
        for constants in ((), (1, 2)):
            arguments = x, scales, zero_points
            check_node("QuantizeLinear", *arguments, constants=constants, axis=axis)
    # The default is axis 1; a single scale may be a vector.
    check_node("QuantizeLinear", x.T.copy(), scales, zero_points, constants=(1, 2))
    check_node("QuantizeLinear", x, scales[:1], zero_points[1:2], constants=(1, 2))
    check_node("QuantizeLinear", x, floats(0.3), opset=10, constants=(1,))


@pytest.mark.parametrize("block_size", [2, 4, 5])
def test_quantize_blocks(block_size: int):
    x = drawn(1)[:18].reshape(3, 6)
    count = -(-6 // block_size)
    scales = np.linspace(0.1, 2, 3 * count, dtype=np.float32).reshape(3, count)
    zero_points = np.arange(3 * count, dtype=np.uint8).reshape(3, count)
    for constants in ((), (1, 2)):
        arguments = x, scales, zero_points
        check_node(
            "QuantizeLinear",
            *arguments,
            constants=constants,
            axis=1,
            block_size=block_size,
        )


def test_quantize_to_output_type():
    x = drawn(50)
    data_type = TensorProto.INT16
    check_node("QuantizeLinear", x, floats(0.3), constants=(1,), output_dtype=data_type)
    check_node("QuantizeLinear", x, floats(0.3), constants=(1,))


def test_quantize_halves_with_single_scale():
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    scale, zero_point = floats(0.3), np.array(5, np.int8)
    for precision in (0, int(TensorProto.FLOAT)):
        check_node(
            "QuantizeLinear",
            *(x, scale, zero_point),
            opset=23,
            constants=(1, 2),
            precision=precision,
        )


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2]
)
def test_narrow_integers(dtype: DTypeLike):
    check_graph(through_narrow(drawn(200, 2), dtype), opset=25)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"])
def test_small_floats(name: str, saturate: int):
    dtype = getattr(ml_dtypes, f"float8_{name}")
    x = np.append(drawn(200, 100), floats([449, 464, 465, 7e4, 1e5]) * 0.3)
    # Without saturation, onnxruntime converts 480 to 448 in e4m3fn.
    x = x[saturate | (np.abs(np.abs(x) - 144) > 1)].astype(np.float32)
    check_graph(through_narrow(x, dtype, saturate=saturate))


def test_constant_is_quantized_at_import():
    graph = Graph()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(RESOURCE_BYTES // 4, 2)).astype(np.float32)
    parameters = [
        graph.constant(floats([0.01, 0.02])),
        graph.constant(np.array([0, 0], np.int8)),
    ]
    q = graph.node("QuantizeLinear", [graph.constant(x), *parameters], axis=1)
    graph.node("DequantizeLinear", [q, *parameters], axis=1)
    module = check_graph(graph)
    ops = [op.name for op in module.walk()]
    assert ops[-3:] == ["stablehlo.constant", "quant.dcast", "func.return"]
    assert len(ops) == 5
    assert "x!quant.uniform<i8:f32:1, {1.000000e-02,2.000000e-02}>" in str(module)


def test_values_between_casts_are_quantized():
    graph = Graph()
    parameters = [graph.constant(floats(0.5)), graph.constant(np.array(3, np.uint8))]
    q = graph.node("QuantizeLinear", [graph.argument(drawn(20)), *parameters])
    graph.node("DequantizeLinear", [q, *parameters])
    module = check_graph(graph, is_compiled=True)
    assert [op.name for op in module.walk()][2:] == [
        "quant.qcast",
        "quant.dcast",
        "func.return",
    ]


# DequantizeLinear


@pytest.mark.parametrize("scale", [0.3, -2, 1e-45, np.inf])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_dequantize(dtype: DTypeLike, scale: float):
    info = integer_info(dtype)
    x = np.arange(info.min, info.max + 1).astype(dtype)
    for constants in ((), (1,), (1, 2)):
        arguments = x, floats(scale), np.array(7, dtype)
        check_node("DequantizeLinear", *arguments, constants=constants, rtol=0, atol=0)


@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_dequantize_to_halves(dtype: DTypeLike, opset: int):
    info = integer_info(dtype)
    x = np.arange(info.min, info.max + 1).astype(dtype)
    arguments = x, np.array(0.011, np.float16), np.array(7, dtype)
    check_node(
        "DequantizeLinear", *arguments, constants=(1, 2), rtol=0, atol=0, opset=opset
    )


@pytest.mark.parametrize("constants", [(0, 1), (0, 1, 2), (1, 2), ()])
def test_dequantize_32_bits(constants: Sequence[int]):
    edges = [0, 16777216, 16777217, -16777217, 2147483647, -2147483648, 123456789]
    x = np.append(edges, np.random.default_rng(0).integers(-(2**31), 2**31, 500))
    arguments: list[Array] = [x.astype(np.int32), floats(0.0013)]
    check_node(
        "DequantizeLinear",
        *arguments,
        # Constants alone have no arguments.
        constants=[n for n in constants if n == 1],
        rtol=0,
        atol=0,
    )
    if 0 not in constants:
        arguments.append(np.array(1, np.int32))
        check_node("DequantizeLinear", *arguments, constants=constants, rtol=0, atol=0)


@pytest.mark.parametrize("largest", [1 << 24, (1 << 24) + 1])
def test_dequantize_constant_bias(largest: int):
    graph = Graph()
    x = graph.constant(np.array([largest, -5, 7], np.int32))
    scales = graph.constant(floats([0.1, 0.2, 0.3]))
    zeros = graph.constant(np.zeros(3, np.int32))
    graph.node("DequantizeLinear", [x, scales, zeros], axis=0)
    module = check_graph(graph)
    is_typed = "tensor<3x!quant.uniform<i32:f32:0, {" in str(module)
    assert is_typed == (largest == 1 << 24)


def test_dequantize_blocks():
    x = np.arange(-9, 9, dtype=np.int8).reshape(3, 6)
    for block_size in (2, 4, 5):
        count = -(-6 // block_size)
        scales = np.linspace(0.1, 2, 3 * count, dtype=np.float32).reshape(3, count)
        zero_points = np.arange(3 * count, dtype=np.int8).reshape(3, count)
        check_node(
            "DequantizeLinear",
            *(x, scales, zero_points),
            constants=(1, 2),
            axis=1,
            block_size=block_size,
        )


def test_blocks_have_sub_channel_types():
    graph = Graph()
    x = graph.constant(np.arange(-8, 8).reshape(2, 8).astype(ml_dtypes.int4))
    scales = graph.constant(floats([[0.5, 0.25], [1, 2]]))
    graph.node("DequantizeLinear", [x, scales], axis=1, block_size=4)
    module = check_graph(graph)
    assert "!quant.uniform<i4:f32:{0:1, 1:4}, " in str(module)


def test_single_zero_point_for_scales_of_one_element():
    graph = Graph()
    x = graph.constant(np.array([-9, 5, 7], np.int32))
    scale, zero = floats([0.1]), np.array(0, np.int32)
    graph.node(
        "DequantizeLinear", [x, graph.constant(scale), graph.constant(zero)], axis=0
    )
    assert "!quant.uniform<i32:f32, 1.000000e-01>" in str(check_graph(graph))


# DynamicQuantizeLinear


@pytest.mark.parametrize("seed", range(20))
def test_dynamic_quantize(seed: int):
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(0, 3), 10.0 ** rng.integers(-3, 4), 300)
    x = x.astype(np.float32)
    check_node("DynamicQuantizeLinear", x, result_count=3, rtol=0, atol=0)


@pytest.mark.parametrize(
    "values", [[0, 0], [1e-45, 0], [np.inf, 1], [-1, -2], [3, 4], [np.nan, 1, -1], []]
)
def test_dynamic_quantize_special_values(values: Sequence[float]):
    x = np.array(values, np.float32)
    check_node(
        "DynamicQuantizeLinear", x, result_count=3, rtol=0, atol=0, is_compiled=True
    )


# MatMulNBits


def packed(numbers: Array, bits: int) -> Array:
    """Pack the last dimension into bytes, the first number into the lowest bits."""
    count = 8 // bits
    padding = -numbers.shape[-1] % count
    numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, padding)])
    parts = numbers.reshape(*numbers.shape[:-1], -1, count)
    return (parts << np.arange(0, 8, bits)).sum(-1).astype(np.uint8)


@pytest.mark.parametrize("zero_points", ["absent", "packed", "float"])
@pytest.mark.parametrize("size", [64, 40])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_mat_mul_n_bits(bits: int, size: int, zero_points: str):
    if (bits, zero_points) == (8, "float"):
        pytest.skip("onnxruntime has no kernel")
    rng = np.random.default_rng(bits)
    columns, block_size = 6, 16
    count = -(-size // block_size)
    numbers = rng.integers(0, 1 << bits, (columns, count, block_size))
    scales = rng.uniform(0.01, 0.1, (columns, count)).astype(np.float32)
    graph = Graph()
    operands = [
        graph.argument(rng.normal(size=(2, 3, size)).astype(np.float32)),
        graph.constant(packed(numbers, bits)),
        graph.constant(scales),
    ]
    if zero_points == "packed":
        zeros = rng.integers(0, 1 << bits, (columns, count))
        operands.append(graph.constant(packed(zeros, bits)))
    elif zero_points == "float":
        zeros = rng.uniform(0, 1 << bits, (columns, count)).astype(np.float32)
        operands.append(graph.constant(zeros))
    graph.node(
        "com.microsoft.MatMulNBits",
        operands,
        K=size,
        N=columns,
        bits=bits,
        block_size=block_size,
    )
    module = check_graph(graph, rtol=1e-5)
    if size == 64 and zero_points != "float":
        assert f"!quant.uniform<u{bits}:f32:{{0:1, 1:16}}" in str(module)


def test_mat_mul_n_bits_with_bias():
    rng = np.random.default_rng(0)
    graph = Graph()
    operands = [
        graph.argument(rng.normal(size=(3, 32)).astype(np.float32)),
        graph.constant(rng.integers(0, 256, (5, 1, 16)).astype(np.uint8)),
        graph.constant(rng.uniform(0.01, 0.1, 5).astype(np.float32)),
        *("", ""),
        graph.constant(rng.normal(size=5).astype(np.float32)),
    ]
    graph.node("com.microsoft.MatMulNBits", operands, K=32, N=5, bits=4, block_size=32)
    check_graph(graph, rtol=1e-5, is_compiled=True)


# Messages


def test_zero_points_of_another_shape():
    x, scales = np.ones((4, 6), np.float32), np.ones(6, np.float32)
    zero_points = np.zeros(3, np.int8)
    zero_points[0] = 1
    found = import_error("QuantizeLinear", x, scales, zero_points, constants=(1, 2))
    assert found == "has scales or zero points of shape 3; expected 6"


def test_zero_points_of_another_type():
    x, zero_point = np.ones(4, np.int8), np.array(1, np.uint8)
    found = import_error("DequantizeLinear", x, floats(1), zero_point, constants=(1, 2))
    assert found == "has zero points of type 'ui8' for stored values of type 'i8'"


@pytest.mark.parametrize(
    ("scale", "attributes", "message"),
    [
        (np.ones(3, np.float32), {}, "has scales of shape 3; expected 6"),
        (np.ones(6, np.float32), {"axis": 2}, "axis 2 is out of range for rank 2"),
        (
            np.ones((4, 2), np.float32),
            {"block_size": 4, "axis": 0},
            "has scales of shape 4x2; expected 1x6",
        ),
        (np.array(1, np.int32), {}, "has scales of type 'i32'; expected floats"),
    ],
)
def test_invalid_scales(scale: Array, attributes: dict[str, Any], message: str):
    x = np.ones((4, 6), np.float32)
    found = import_error("QuantizeLinear", x, scale, constants=(1,), **attributes)
    assert found == message


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"bits": 3}, "has weights of 3 bits; expected 2, 4 or 8"),
        ({"bits": 2}, "has 80 packed elements of type 'ui8'; expected 40 bytes"),
        ({"block_size": 0}, "has blocks of size 0"),
        ({}, "has the unsupported input 'g_idx'"),
    ],
)
def test_unsupported_mat_mul_n_bits(attributes: dict[str, int], message: str):
    graph = Graph()
    operands = [
        graph.argument(np.ones((3, 32), np.float32)),
        graph.constant(np.zeros((5, 1, 16), np.uint8)),
        graph.constant(np.ones(5, np.float32)),
        "",
        "" if attributes else graph.constant(np.zeros(32, np.int32)),
    ]
    name = "com.microsoft.MatMulNBits"
    graph.node(name, operands, **{"K": 32, "N": 5, "block_size": 32, **attributes})
    with pytest.raises(ONNXFileError) as error:
        read_onnx(graph.model((3, 5)))
    assert str(error.value) == f"<bytes>: error: node 'v0' (MatMulNBits): {message}"
