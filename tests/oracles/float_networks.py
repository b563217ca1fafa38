"""Models of several ops on floats, which grow op by op as those of stored values do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess
from tests.unit.frontends.tflite.formulas.cases import Tensor

from . import products
from .drawing import Draw
from .networks import Network

NAME = "FLOAT_NETWORK"

TOLERANCE = 1e-5
"""
The largest difference from the reference kernels, relative to the largest number of a
result, or to 1: sums are in another order, and functions have other last bits.
"""

Layer = Callable[[Network, Tensor], Tensor]


def _result(net: Network) -> Tensor:
    return net.draw.result("f32")


def _floats(net: Network, shape: Sequence[int], *, is_constant: bool = True) -> Tensor:
    values = net.draw.random.uniform(-1, 1, tuple(shape)).astype(np.float32)
    return net.draw.tensor(values, "f32", is_constant=is_constant)


def _weights(net: Network, shape: Sequence[int], count: int) -> Tensor:
    """Weights of sums of some numbers, which keep them about as large."""
    weights = _floats(net, shape)
    return weights._replace(array=weights.array / np.float32(np.sqrt(max(count, 1))))


def _convolution(net: Network, x: Tensor) -> Tensor:
    draw, image = net.draw, x.array.shape
    options = products.drawn_window(draw, image, has_dilations=draw.chance(0.3))
    sizes = options.pop("height"), options.pop("width")
    count = sizes[0] * sizes[1]
    if draw.chance(0.4):
        factor = draw.integer(1, 2)
        options["depth_multiplier"] = factor
        name, outputs = "DEPTHWISE_CONV_2D", image[3] * factor
        weights = _weights(net, (1, *sizes, outputs), count)
    else:
        name, outputs = "CONV_2D", draw.integer(1, 6)
        weights = _weights(net, (outputs, *sizes, image[3]), count * image[3])
    bias = _floats(net, [outputs])
    return net.op(name, [x, weights, bias], _result(net), **options)


def _transposed_convolution(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    batch, rows, columns, channels = x.array.shape
    outputs, stride = draw.integer(1, 4), draw.integer(1, 2)
    image = draw.integers((batch, rows * stride, columns * stride, outputs))
    sizes = draw.integer(1, 3), draw.integer(1, 3)
    weights = _weights(net, (outputs, *sizes, channels), channels * sizes[0] * sizes[1])
    return net.op(
        "TRANSPOSE_CONV",
        [image, weights, x, _floats(net, [outputs])],
        _result(net),
        stride_h=stride,
        stride_w=stride,
        padding=0,
        fused_activation_function=0,
    )


def _pool(net: Network, x: Tensor) -> Tensor:
    options = products.drawn_window(net.draw, x.array.shape, has_dilations=False)
    options["filter_height"] = options.pop("height")
    options["filter_width"] = options.pop("width")
    name = net.draw.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D"))
    return net.op(name, [x], _result(net), **options)


def _resizing(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    half = draw.chance(0.5)
    sizes = draw.integers((draw.integer(2, 9), draw.integer(2, 9)))
    return net.op(
        "RESIZE_BILINEAR",
        [x, sizes],
        _result(net),
        align_corners=not half and draw.chance(0.5),
        half_pixel_centers=half,
    )


def _fully_connected(net: Network, x: Tensor) -> Tensor:
    draw, depth, outputs = net.draw, x.array.shape[-1], net.draw.integer(2, 12)
    return net.op(
        "FULLY_CONNECTED",
        [x, _weights(net, (outputs, depth), depth), _floats(net, [outputs])],
        _result(net),
        keep_num_dims=draw.chance(0.5),
        fused_activation_function=draw.activation(),
    )


def _attention(net: Network, x: Tensor) -> Tensor:
    scores = net.op("BATCH_MATMUL", [x, x], _result(net), adj_x=False, adj_y=True)
    weights = net.op("SOFTMAX", [scores], _result(net), beta=1.0)
    return net.op("BATCH_MATMUL", [weights, x], _result(net), adj_x=False, adj_y=False)


def _softmax(net: Network, x: Tensor) -> Tensor:
    name = net.draw.choice(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"))
    options = {
        "SOFTMAX": {"beta": net.draw.scale(0.1, 2)},
        "LOG_SOFTMAX": {},
        "L2_NORMALIZATION": {"fused_activation_function": 0},
    }
    return net.op(name, [x], _result(net), **options[name])


def _activation(net: Network, x: Tensor) -> Tensor:
    name = net.draw.choice(
        (
            *("RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "LOGISTIC", "TANH"),
            *("GELU", "HARD_SWISH", "ABS", "NEG", "EXP", "SIN", "COS"),
        )
    )
    if name == "EXP":
        # Of numbers that are not too large.
        x = net.op("TANH", [x], _result(net))
    options: dict[str, dict[str, Any]] = {
        "LEAKY_RELU": {"alpha": net.draw.scale(0.01, 1)},
        "GELU": {"approximate": net.draw.chance(0.5)},
    }
    return net.op(name, [x], _result(net), **options.get(name, {}))


def _binary(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    name = draw.choice(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "DIV"))
    shape = x.array.shape
    y = _floats(net, draw.part_of(shape))
    if draw.chance(0.5) and name != "DIV":
        others = [net.tensors[i] for i in net.results]
        fitting = [t for t in others if t.array.shape == shape]
        y = draw.choice(fitting) if fitting else y
    if name == "DIV":
        y = y._replace(array=y.array + np.float32(2))
    has_activation = name in ("ADD", "SUB", "MUL", "DIV")
    options = {"fused_activation_function": draw.activation()} if has_activation else {}
    return net.op(name, [x, y], _result(net), **options)


def _reduction(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    name = draw.choice(("MEAN", "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"))
    axes = draw.integers(draw.axes(x.array.ndim, 2))
    return net.op(name, [x, axes], _result(net), keep_dims=draw.chance(0.7))


def _moved(net: Network, x: Tensor) -> Tensor:
    draw, shape, result = net.draw, x.array.shape, _result(net)
    match draw.integer(0, 4):
        case 0:
            order = draw.integers(draw.random.permutation(len(shape)))
            return net.op("TRANSPOSE", [x, order], result)
        case 1:
            widths = draw.integers([[draw.integer(0, 1)] * 2 for _ in shape])
            return net.op("PAD", [x, widths], result)
        case 2:
            begins = [draw.integer(0, size // 2) for size in shape]
            strides = [draw.integer(1, 2) for _ in shape]
            operands = [x, *map(draw.integers, (begins, shape, strides))]
            return net.op("STRIDED_SLICE", operands, result)
        case 3:
            options = {"axis": draw.integer(0, len(shape) - 1)}
            return net.op(
                "CONCATENATION", [x, x], result, fused_activation_function=0, **options
            )
        case _:
            axis = draw.integer(0, len(shape) - 1)
            count = draw.integer(1, 4)
            indices = draw.integers(draw.random.integers(0, shape[axis], count))
            return net.op("GATHER", [x, indices], result, axis=axis, batch_dims=0)


_ANY: Sequence[Layer] = (
    *(_activation,) * 3,
    *(_binary,) * 3,
    *(_moved, _moved, _reduction),
)
_ROWS: Sequence[Layer] = _fully_connected, _fully_connected, _softmax, _attention
_IMAGES: Sequence[Layer] = (
    *(_convolution,) * 5,
    _transposed_convolution,
    _pool,
    _pool,
    _resizing,
)


def _layers(x: Tensor) -> Sequence[Layer]:
    rank = x.array.ndim
    found = (*_ANY, *(_ROWS if rank >= 2 else ()), *(_IMAGES if rank == 4 else ()))
    return found if x.array.size < 2000 else (_reduction,)


def float_network(draw: Draw, process: LiteRTProcess) -> tuple[Network, list[str]]:
    """
    A random model on floats, and why the reference kernels did not run some of the ops that
    were to be in it.
    """
    net = Network(draw, process, 1)
    shape = (
        draw.integer(1, 2),
        draw.integer(3, 8),
        draw.integer(3, 8),
        draw.integer(1, 3),
    )
    if draw.chance(0.3):
        shape = draw.integer(1, 4), draw.integer(2, 12)
    x = _floats(net, shape, is_constant=False)
    x = net.op("RELU_N1_TO_1", [x], _result(net))
    refused: list[str] = []
    for _ in range(draw.integer(3, 10)):
        fitting = [
            tensor
            for index in net.results
            if (tensor := net.tensors[index]).array.ndim and tensor.array.size
        ]
        x = fitting[-1] if draw.chance(0.7) else draw.choice(fitting)
        layer = draw.choice(_layers(x))
        if message := net.attempt(layer, x):
            refused.append(f"{draw.name}: {message}")
    return net, refused
