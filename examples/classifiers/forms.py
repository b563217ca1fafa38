"""The networks as TensorFlow Lite, StableHLO and ONNX models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .networks import (
    Activation,
    Convolution,
    Dense,
    Depthwise,
    Floats,
    Network,
    Pointwise,
    Pool,
    Scale,
    Step,
)

_WINDOW = (
    "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = 1 : i32, "
    'stride_w = 1 : i32, padding = "SAME", fused_activation_function'
)
_POOL = (
    'filter_height = 2 : i32, filter_width = 2 : i32, padding = "VALID", stride_h = 2 : '
    'i32, stride_w = 2 : i32, fused_activation_function = "NONE"'
)
_DENSE = 'keep_num_dims = false, weights_format = "DEFAULT", fused_activation_function'


def _tensor(shape: Sequence[int]) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def _dense_text(values: Floats) -> str:
    if not values.any():
        return "dense<0.0>"
    return f'dense<"0x{values.astype("<f4").tobytes().hex()}">'


class _Text:
    """Builder of the text of a function; each line defines one value."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> str:
        """Add a line, given without its value name, and return that name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {line}")
        return name

    def constant(self, values: Floats) -> str:
        """Add a constant and return its name."""
        text = f"{_dense_text(values)} : {_tensor(values.shape)}"
        return self.add(f"arith.constant {text}")

    def function(
        self, input_shape: Sequence[int], result: str, shape: Sequence[int]
    ) -> str:
        """Return the text of the function with the argument `%x`."""
        body = "\n  ".join([*self.lines, f"func.return {result} : {_tensor(shape)}"])
        argument = f"%x: {_tensor(input_shape)}"
        return f"func.func @main({argument}) -> {_tensor(shape)} {{\n  {body}\n}}\n"


# TensorFlow Lite


def tfl_text(network: Network, batch: int = 1) -> str:
    """
    Return the network as text of the `tfl` dialect. Attributes of the function define the
    signature of the file: `serving_default`, from `x` to `y`.
    """
    text, value = _Text(), "%x"
    shape: Sequence[int] = (batch, *network.input_shape)
    for step in network.steps:
        value = _tfl_step(text, step, value, batch)
        shape = (batch, *step.result_shape)
    function = text.function((batch, *network.input_shape), value, shape)
    head, body = function.split("\n", 1)
    found = re.fullmatch(r"func.func @main\((.*)\) -> (\S+) \{", head)
    assert found is not None
    return (
        "module attributes {tf_saved_model.semantics} {\n"
        f'func.func @main({found[1]} {{tf_saved_model.index_path = ["x"]}}) -> '
        f'({found[2]} {{tf_saved_model.index_path = ["y"]}}) attributes '
        '{tf.entry_function = {inputs = "x:0", outputs = "y:0"}, '
        f'tf_saved_model.exported_names = ["serving_default"]}} {{\n{body}}}\n'
    )


def _tfl_step(text: _Text, step: Step, value: str, batch: int) -> str:
    shape, result = (batch, *step.shape), (batch, *step.result_shape)
    layer = step.layer
    if isinstance(layer, Pool):
        return text.add(
            f'"tfl.average_pool_2d"({value}) {{{_POOL}}} : ({_tensor(shape)}) -> '
            f"{_tensor(result)}"
        )
    assert step.weights is not None
    assert step.bias is not None
    match layer:
        case Dense():
            if len(shape) > 2:
                flat = (batch, int(np.prod(step.shape)))
                sizes = text.add(
                    f"arith.constant dense<[{batch}, {flat[1]}]> : tensor<2xi32>"
                )
                value = text.add(
                    f'"tfl.reshape"({value}, {sizes}) : ({_tensor(shape)}, '
                    f"tensor<2xi32>) -> {_tensor(flat)}"
                )
                shape = flat
            op, weights, options = "fully_connected", step.weights.T, _DENSE
        case Convolution() | Pointwise():
            op, options = "conv_2d", _WINDOW
            weights = step.weights.transpose(3, 0, 1, 2)
        case Scale():
            return _tfl_scale(text, step, value, batch)
        case Depthwise():
            op, weights = "depthwise_conv_2d", step.weights[np.newaxis]
            options = f"depth_multiplier = 1 : i32, {_WINDOW}"
    is_fused = layer.activation in ("relu", "relu6")
    name = layer.activation.upper() if is_fused else "NONE"
    factors = text.constant(np.ascontiguousarray(weights)), text.constant(step.bias)
    value = text.add(
        f'"tfl.{op}"({value}, {", ".join(factors)}) {{{options} = "{name}"}} : '
        f"({_tensor(shape)}, {_tensor(weights.shape)}, {_tensor(step.bias.shape)}) -> "
        f"{_tensor(result)}"
    )
    if layer.activation != "tanh":
        return value
    return text.add(f'"tfl.tanh"({value}) : ({_tensor(result)}) -> {_tensor(result)}')


def _tfl_scale(text: _Text, step: Step, value: str, batch: int) -> str:
    assert step.weights is not None
    assert step.bias is not None
    assert isinstance(step.layer, Scale)
    shape = _tensor((batch, *step.shape))
    activation = step.layer.activation.upper()
    for op, numbers, name in (
        ("mul", step.weights, "NONE"),
        ("add", step.bias, activation),
    ):
        value = text.add(
            f'"tfl.{op}"({value}, {text.constant(numbers)}) {{fused_activation_function = '
            f'"{name}"}} : ({shape}, {_tensor(numbers.shape)}) -> {shape}'
        )
    return value


# StableHLO


def stablehlo_text(network: Network, batch: int = 1) -> str:
    """Return the network as StableHLO text."""
    text, value = _Text(), "%x"
    shape: Sequence[int] = (batch, *network.input_shape)
    for step in network.steps:
        value = _stablehlo_step(text, step, value, batch)
        shape = (batch, *step.result_shape)
    return text.function((batch, *network.input_shape), value, shape)


def _stablehlo_step(text: _Text, step: Step, value: str, batch: int) -> str:
    shape, result = (batch, *step.shape), (batch, *step.result_shape)
    layer = step.layer
    if isinstance(layer, Pool):
        zero, quarter = (text.constant(np.array(x, np.float32)) for x in (0, 0.25))
        sums = text.add(
            f'"stablehlo.reduce_window"({value}, {zero}) <{{window_dimensions = array<i64: '
            "1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({"
            "^bb0(%a: tensor<f32>, %b: tensor<f32>): "
            "%s = stablehlo.add %a, %b : tensor<f32> "
            "stablehlo.return %s : tensor<f32> }) : "
            f"({_tensor(shape)}, tensor<f32>) -> {_tensor(result)}"
        )
        factors = _broadcast(text, quarter, (), result, ())
        return text.add(f"stablehlo.multiply {sums}, {factors} : {_tensor(result)}")
    assert step.weights is not None
    assert step.bias is not None
    weights = step.weights
    if isinstance(layer, Scale):
        for op, numbers in (("multiply", weights), ("add", step.bias)):
            channel = (len(result) - 1,)
            constant = text.constant(numbers)
            constant = _broadcast(text, constant, numbers.shape, result, channel)
            value = text.add(f"stablehlo.{op} {value}, {constant} : {_tensor(result)}")
        return _stablehlo_activation(text, layer.activation, value, result)
    if isinstance(layer, Dense):
        if len(shape) > 2:
            flat = (batch, int(np.prod(step.shape)))
            value = text.add(
                f"stablehlo.reshape {value} : ({_tensor(shape)}) -> {_tensor(flat)}"
            )
            shape = flat
        op = f"dot_general {value}, {text.constant(weights)}, contracting_dims = [1] x [0]"
    else:
        groups = 1
        if isinstance(layer, Depthwise):
            weights, groups = weights[:, :, np.newaxis], weights.shape[-1]
        pad = weights.shape[0] // 2
        op = (
            f"convolution({value}, {text.constant(weights)}) "
            "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
            f"window = {{pad = [[{pad}, {pad}], [{pad}, {pad}]]}} "
            f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}"
        )
    value = text.add(
        f"stablehlo.{op} : ({_tensor(shape)}, {_tensor(weights.shape)}) -> "
        f"{_tensor(result)}"
    )
    bias = text.constant(step.bias)
    bias = _broadcast(text, bias, step.bias.shape, result, (len(result) - 1,))
    value = text.add(f"stablehlo.add {value}, {bias} : {_tensor(result)}")
    return _stablehlo_activation(text, layer.activation, value, result)


def _broadcast(
    text: _Text,
    value: str,
    shape: Sequence[int],
    result: Sequence[int],
    dimensions: Sequence[int],
) -> str:
    return text.add(
        f"stablehlo.broadcast_in_dim {value}, dims = [{', '.join(map(str, dimensions))}] : "
        f"({_tensor(shape)}) -> {_tensor(result)}"
    )


def _stablehlo_activation(
    text: _Text, activation: Activation, value: str, shape: Sequence[int]
) -> str:
    match activation:
        case "none":
            return value
        case "tanh":
            return text.add(f"stablehlo.tanh {value} : {_tensor(shape)}")
        case "relu":
            zero = text.constant(np.zeros(shape, np.float32))
            return text.add(f"stablehlo.maximum {value}, {zero} : {_tensor(shape)}")
        case "relu6":
            zero, six = (text.constant(np.array(x, np.float32)) for x in (0, 6))
            return text.add(
                f"stablehlo.clamp {zero}, {value}, {six} : (tensor<f32>, {_tensor(shape)}, "
                f"tensor<f32>) -> {_tensor(shape)}"
            )


# ONNX


def onnx_model(network: Network) -> Any:
    """
    Return the network as an ONNX model. Images are channels-last, as in the other forms.

    Raises:
        ImportError: if the package `onnx` is not installed.
    """
    onnx: Any = import_module("onnx")
    helper: Any = import_module("onnx.helper")
    arrays: Any = import_module("onnx.numpy_helper")
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, values: Any) -> str:
        constants.append(arrays.from_array(np.ascontiguousarray(values), name))
        return name

    def add(op: str, *inputs: str, **attributes: object) -> str:
        output = f"{op.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(op, [*inputs], [output], **attributes))
        return output

    value = "x"
    if len(network.input_shape) > 1:
        value = add("Transpose", value, perm=[0, 3, 1, 2])
    for index, step in enumerate(network.steps):
        layer = step.layer
        if isinstance(layer, Pool):
            value = add("AveragePool", value, kernel_shape=[2, 2], strides=[2, 2])
            continue
        weights, numbers = step.weights, step.bias
        assert weights is not None
        assert numbers is not None
        if isinstance(layer, Scale):
            sizes = (-1, *[1] * (len(step.shape) - 1))
            weights, numbers = weights.reshape(sizes), numbers.reshape(sizes)
        bias = constant(f"bias_{index}", numbers)
        if isinstance(layer, Scale):
            value = add("Mul", value, constant(f"weights_{index}", weights))
            value = add("Add", value, bias)
        elif isinstance(layer, Dense):
            if len(step.shape) > 1:
                value = add("Transpose", value, perm=[0, 2, 3, 1])
                sizes = np.array([-1, np.prod(step.shape)])
                value = add("Reshape", value, constant(f"sizes_{index}", sizes))
            value = add("Gemm", value, constant(f"weights_{index}", weights), bias)
        else:
            groups, size = 1, weights.shape[0]
            if isinstance(layer, Depthwise):
                weights, groups = weights[:, :, np.newaxis], weights.shape[-1]
            kernel = constant(f"weights_{index}", weights.transpose(3, 2, 0, 1))
            pads, kernel_shape = [size // 2] * 4, [size, size]
            value = add(
                "Conv",
                value,
                kernel,
                bias,
                group=groups,
                pads=pads,
                kernel_shape=kernel_shape,
            )
        match layer.activation:
            case "relu":
                value = add("Relu", value)
            case "relu6":
                bounds = (
                    constant(f"{x}_{index}", np.array(x, np.float32)) for x in (0, 6)
                )
                value = add("Clip", value, *bounds)
            case "tanh":
                value = add("Tanh", value)
            case "none":
                pass
    nodes[-1].output[0] = "y"
    float_type = onnx.TensorProto.FLOAT
    shapes = (["n", *network.input_shape], ["n", *network.steps[-1].result_shape])
    infos = [
        helper.make_tensor_value_info(name, float_type, shape)
        for name, shape in zip("xy", shapes, strict=True)
    ]
    graph = helper.make_graph(nodes, network.name, infos[:1], infos[1:], constants)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)
