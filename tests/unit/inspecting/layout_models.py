"""The same small CNN as an ONNX file (NCHW) and as ops of TensorFlow Lite (NHWC)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.unit.quantizer.models import Floats

helper: Any = onnx.helper  # its functions take attributes as keyword arguments

_POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
_WINDOW = {"kernel_shape": [3, 3], "pads": [1] * 4}


def images(count: int) -> Floats:
    """Samples of shape `(count, 3, 6, 6)`."""
    random = np.random.default_rng(1)
    return random.normal(size=(count, 3, 6, 6)).astype(np.float32)


def channels_last(values: Floats) -> Floats:
    """Values of shape `(N, H, W, C)`."""
    return np.ascontiguousarray(np.moveaxis(values, 1, -1))


def weights(channels: int) -> dict[str, Floats]:
    """Weights of ONNX: two convolutions, the first with `channels`, and a dense layer."""
    random = np.random.default_rng(0)
    shapes = {
        "k1": (channels, 3, 3, 3),
        "b1": (channels,),
        "k2": (4, channels, 3, 3),
        "b2": (4,),
        "d": (5, 36),
        "b3": (5,),
    }
    return {
        name: (random.normal(size=shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


def onnx_model(channels: int = 8) -> onnx.ModelProto:
    """Convolutions with ReLU, a maximum, and a dense layer."""
    nodes = [
        helper.make_node("Conv", ["x", "k1", "b1"], ["c1"], **_WINDOW),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], **_POOL),
        helper.make_node("Conv", ["p1", "k2", "b2"], ["c2"], **_WINDOW),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Flatten", ["r2"], ["f"]),
        helper.make_node("Gemm", ["f", "d", "b3"], ["y"], transB=1),
    ]
    signature = [
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)]
        for name, shape in (("x", [1, 3, 6, 6]), ("y", [1, 5]))
    ]
    tensors = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in weights(channels).items()
    ]
    graph = helper.make_graph(nodes, "graph", *signature, tensors)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def tfl_text(channels: int = 8) -> str:
    """The same with ops of TensorFlow Lite."""
    known = weights(channels)
    for name in ("k1", "k2"):
        known[name] = channels_last(known[name])
    known["d"] = channels_last(known["d"].reshape(5, 4, 3, 3)).reshape(5, 36)
    shapes = {name: "x".join(map(str, each.shape)) for name, each in known.items()}
    constants = "\n  ".join(
        f'%{name} = arith.constant dense<"0x{array.tobytes().hex()}"> '
        f": tensor<{shapes[name]}xf32>"
        for name, array in known.items()
    )
    window = (
        '<{dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, padding = "SAME", '
        'fused_activation_function = "RELU", stride_h = 1 : i32, stride_w = 1 : i32}>'
    )
    pooling = (
        "<{filter_height = 2 : i32, filter_width = 2 : i32, stride_h = 2 : i32, "
        'stride_w = 2 : i32, padding = "VALID", fused_activation_function = "NONE"}>'
    )
    return f"""
func.func @main(%x: tensor<1x6x6x3xf32>) -> tensor<1x5xf32> {{
  {constants}
  %s = arith.constant dense<[1, 36]> : tensor<2xi32>
  %1 = "tfl.conv_2d"(%x, %k1, %b1) {window}
    : (tensor<1x6x6x3xf32>, tensor<{shapes["k1"]}xf32>, tensor<{channels}xf32>)
    -> tensor<1x6x6x{channels}xf32>
  %2 = "tfl.max_pool_2d"(%1) {pooling}
    : (tensor<1x6x6x{channels}xf32>) -> tensor<1x3x3x{channels}xf32>
  %3 = "tfl.conv_2d"(%2, %k2, %b2) {window}
    : (tensor<1x3x3x{channels}xf32>, tensor<{shapes["k2"]}xf32>, tensor<4xf32>)
    -> tensor<1x3x3x4xf32>
  %4 = "tfl.reshape"(%3, %s)
    : (tensor<1x3x3x4xf32>, tensor<2xi32>) -> tensor<1x36xf32>
  %5 = "tfl.fully_connected"(%4, %d, %b3) <{{fused_activation_function = "NONE",
    keep_num_dims = false, weights_format = "DEFAULT"}}>
    : (tensor<1x36xf32>, tensor<5x36xf32>, tensor<5xf32>) -> tensor<1x5xf32>
  return %5 : tensor<1x5xf32>
}}
"""
