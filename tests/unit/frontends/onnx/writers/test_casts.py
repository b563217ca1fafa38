"""Quantized types in ONNX files."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import as_module

from .written_models import check, floats, function, op_types, refusal, written


def _casts(type_: str, shape: str = "3x4") -> str:
    return function(
        f"%x: tensor<{shape}xf32>",
        f"tensor<{shape}xf32>",
        f"%0 = stablehlo.uniform_quantize %x : (tensor<{shape}xf32>) -> "
        f"tensor<{shape}x{type_}>",
        f"%1 = stablehlo.uniform_dequantize %0 : (tensor<{shape}x{type_}>) -> "
        f"tensor<{shape}xf32>",
        "%1",
    )


@pytest.mark.parametrize(
    ("type_", "data_type", "opset"),
    [
        ("!quant.uniform<i8:f32, 0.1:3>", TensorProto.INT8, 20),
        ("!quant.uniform<u8:f32, 0.1:120>", TensorProto.UINT8, 20),
        ("!quant.uniform<i8:f32:1, {0.1, 0.2, 0.3:5, 0.4}>", TensorProto.INT8, 20),
        ("!quant.uniform<i16:f32, 0.001>", TensorProto.INT16, 21),
        ("!quant.uniform<i4:f32, 0.25:1>", TensorProto.INT4, 21),
        ("!quant.uniform<u4:f32, 0.25:7>", TensorProto.UINT4, 21),
        # A narrow range is a clamp in front of the cast.
        ("!quant.uniform<i8<-5:7>:f32, 0.1:3>", TensorProto.INT8, 20),
        ("!quant.uniform<i2:f32, 0.25>", TensorProto.INT4, 21),
        (
            "!quant.uniform<i8<-5:7>:f32:1, {0.1, 0.2, 0.3, 0.4}>",
            TensorProto.INT8,
            20,
        ),
    ],
)
def test_casts(type_: str, data_type: int, opset: int):
    proto = check(_casts(type_), floats(3, 4, scale=3))
    (zero_point,) = (
        tensor
        for tensor in proto.graph.initializer
        if tensor.name.startswith("zero_point")
    )
    assert zero_point.data_type == data_type
    assert proto.opset_import[0].version == opset


_BLOCKS = """
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x3xf32> {{
  %w = stablehlo.constant dense<{0}> : tensor<{1}xi4>
  %q = quant.scast %w : tensor<{1}xi4> to tensor<{1}x{2}>
  %d = quant.dcast %q : tensor<{1}x{2}> to tensor<{1}xf32>
  %0 = stablehlo.dot_general %x, %d, contracting_dims = [1] x [{3}]
    : (tensor<2x8xf32>, tensor<{1}xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}}
"""


@pytest.mark.parametrize("is_transposed", [False, True])
def test_blocks(is_transposed: bool):
    numbers = np.arange(24).reshape(8, 3) % 15 - 7
    scales = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    if is_transposed:
        numbers, scales = numbers.T, scales.T
    rows = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in scales.tolist())
    sizes = "0:1, 1:4" if is_transposed else "0:4, 1:1"
    text = _BLOCKS.format(
        numbers.tolist(),
        "3x8" if is_transposed else "8x3",
        f"!quant.uniform<i4:f32:{{{sizes}}}, {{{rows}}}>",
        int(is_transposed),
    )
    proto = check(text, floats(2, 8), atol=1e-5, nodes=["MatMul"])
    (cast,) = (n for n in proto.graph.node if n.op_type == "DequantizeLinear")
    attributes = {a.name: a.i for a in cast.attribute}
    assert attributes == {"axis": 0, "block_size": 4}


_LAYER = """
!x = !quant.uniform<i8:f32, 0.05:3>
!w = !quant.uniform<i8<-127:127>:f32:3, {0.01, 0.02, 0.03, 0.04}>
!c = !quant.uniform<i32:f32:0, {5.0e-4, 1.0e-3, 1.5e-3, 2.0e-3}>
!s = !quant.uniform<i32:f32:3, {5.0e-4, 1.0e-3, 1.5e-3, 2.0e-3}>
!y = !quant.uniform<i8:f32, 0.06:-128>
func.func @main(%x: tensor<1x8x8x3x!x>) -> tensor<1x6x6x4x!y> {
  %w = stablehlo.constant() <{value = dense<WEIGHTS> : tensor<3x3x3x4xi8>}> : ()
    -> tensor<3x3x3x4x!w>
  %c = stablehlo.constant() <{value = dense<[100, -50, 7, 0]> : tensor<4xi32>}> : ()
    -> tensor<4x!c>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x3x!x>, tensor<3x3x3x4x!w>) -> tensor<1x6x6x4x!s>
  %b = stablehlo.broadcast_in_dim %c, dims = [3] : (tensor<4x!c>) -> tensor<1x6x6x4x!s>
  %1 = stablehlo.add %0, %b : tensor<1x6x6x4x!s>
  %2 = stablehlo.uniform_quantize %1 : (tensor<1x6x6x4x!s>) -> tensor<1x6x6x4x!y>
  %z = stablehlo.constant() <{value = dense<-128> : tensor<1x6x6x4xi8>}> : ()
    -> tensor<1x6x6x4x!y>
  %3 = stablehlo.maximum %2, %z : tensor<1x6x6x4x!y>
  return %3 : tensor<1x6x6x4x!y>
}
"""


def _layer() -> str:
    weights = np.random.default_rng(5).integers(-127, 128, (3, 3, 3, 4), np.int8)
    return _LAYER.replace("WEIGHTS", str(weights.tolist()))


_STORED_ZERO = """
  %z = stablehlo.constant() <{value = dense<-128> : tensor<1x6x6x4xi8>}> : ()
    -> tensor<1x6x6x4x!y>"""
_QUANTIZED_ZERO = """
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %g = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x6x6x4xf32>
  %z = stablehlo.uniform_quantize %g : (tensor<1x6x6x4xf32>) -> tensor<1x6x6x4x!y>"""


@pytest.mark.parametrize("zero", [_STORED_ZERO, _QUANTIZED_ZERO])
def test_a_layer_has_stored_weights_and_bias_and_no_saturating_maximum(zero: str):
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 3), np.int8)
    nodes = ["Transpose", "Conv", "Transpose"]
    assert _STORED_ZERO in _layer()
    proto = check(_layer().replace(_STORED_ZERO, zero), x, nodes=nodes)
    types = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    assert types["w_quantized"] == TensorProto.INT8
    assert types["c_quantized"] == TensorProto.INT32
    axes = {
        node.output[0]: onnx.helper.get_node_attr_value(node, "axis")
        for node in proto.graph.node
        if node.attribute and node.op_type == "DequantizeLinear"
    }
    assert axes == {"w": 0, "c": 0}


def test_a_written_layer_is_read_with_the_same_results():
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 3), np.int8)
    module = read_onnx(written(_layer()).SerializeToString())
    (found,), (expected,) = (
        run_function(each, None, x) for each in (module, as_module(_layer()))
    )
    np.testing.assert_array_equal(found, expected)


def test_one_pair_of_parameters_for_a_type():
    text = """
!q = !quant.uniform<i8:f32, 0.05:3>
func.func @main(%x: tensor<4x!q>, %y: tensor<4x!q>) -> tensor<8x!q> {
  %0 = stablehlo.add %x, %y : tensor<4x!q>
  %1 = stablehlo.concatenate %0, %y, dim = 0 : (tensor<4x!q>, tensor<4x!q>) -> tensor<8x!q>
  return %1 : tensor<8x!q>
}
"""
    x, y = (
        np.random.default_rng(seed).integers(-128, 128, 4, np.int8) for seed in (0, 1)
    )
    proto = check(text, x, y, nodes=["Add", "Concat"])
    assert [t.name for t in proto.graph.initializer] == ["scale", "zero_point"]


def test_reductions_of_quantized_values():
    text = """
!q = !quant.uniform<u8:f32, 0.05:3>
func.func @main(%x: tensor<3x4x!q>) -> tensor<3x!q> {
  %c = stablehlo.constant() <{value = dense<0> : tensor<i8>}> : () -> tensor<!q>
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.OP across dimensions = [1]
    : (tensor<3x4x!q>, tensor<!q>) -> tensor<3x!q>
  return %0 : tensor<3x!q>
}
"""
    x = np.random.default_rng(0).integers(0, 256, (3, 4), np.uint8)
    check(text.replace("OP", "maximum"), x, nodes=["ReduceMax"])
    assert refusal(text.replace("OP", "add")).endswith(
        "op cannot be written as ONNX: reduction of quantized values by 'stablehlo.add'"
    )


def test_clamps_of_quantized_values():
    text = """
!q = !quant.uniform<i8:f32, 0.05:-128>
func.func @main(%x: tensor<4x!q>) -> (tensor<4x!q>, tensor<4x!q>) {
  %a = stablehlo.constant() <{value = dense<-128> : tensor<i8>}> : () -> tensor<!q>
  %b = stablehlo.constant() <{value = dense<-8> : tensor<i8>}> : () -> tensor<!q>
  %c = stablehlo.constant() <{value = dense<127> : tensor<i8>}> : () -> tensor<!q>
  %0 = stablehlo.clamp %a, %x, %b : (tensor<!q>, tensor<4x!q>, tensor<!q>) -> tensor<4x!q>
  %1 = stablehlo.clamp %a, %x, %c : (tensor<!q>, tensor<4x!q>, tensor<!q>) -> tensor<4x!q>
  return %0, %1 : tensor<4x!q>, tensor<4x!q>
}
"""
    x = np.array([-128, -9, 5, 127], np.int8)
    proto = check(text, x)
    assert op_types(proto) == ["Min", "Identity"]


@pytest.mark.parametrize(("zero_point", "nodes"), [(0, []), (7, ["Relu"])])
def test_a_maximum_with_a_quantized_zero(zero_point: int, nodes: list[str]):
    text = f"""
!q = !quant.uniform<u8:f32, 0.05:{zero_point}>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %z = stablehlo.uniform_quantize %b : (tensor<4xf32>) -> tensor<4x!q>
  %q = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!q>
  %m = stablehlo.maximum %q, %z : tensor<4x!q>
  %y = stablehlo.uniform_dequantize %m : (tensor<4x!q>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}}
"""
    check(text, np.array([-3, -0.2, 0.1, 2], np.float32), nodes=nodes)


def test_unsupported_types():
    text = """
!q = !quant.uniform<i8:f32:{0:2, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
func.func @main(%x: tensor<4x4x!q>) -> tensor<4x4xf32> {
  %0 = quant.dcast %x : tensor<4x4x!q> to tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""
    assert refusal(text).endswith("with blocks along several dimensions")
