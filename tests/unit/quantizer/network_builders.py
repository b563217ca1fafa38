"""
Float networks with drawn weights, written as text of TensorFlow Lite or of StableHLO.

A network is a function that is given a builder and its input. Builders draw the same
weights in the same order, so that both forms compute the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

Activation: TypeAlias = Literal["none", "relu", "relu6"]


class Value(NamedTuple):
    """A value of a network."""

    name: str
    shape: tuple[int, ...]

    @property
    def type(self) -> str:
        """The type as text."""
        return tensor(self.shape)


def tensor(shape: Sequence[int], element: str = "f32") -> str:
    """The text of a tensor type."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


class Builder(ABC):
    """Lines of a function, each of which defines one value."""

    def __init__(self, seed: int = 0):
        self.lines: list[str] = []
        self.random = np.random.default_rng(seed)

    def line(self, text: str, shape: Sequence[int]) -> Value:
        """Add a line without the name of its value, which is returned."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return Value(name, (*shape,))

    def constant(self, values: Floats | float) -> Value:
        """Add a constant of floats."""
        array = np.asarray(values, "<f4")
        dense = f'dense<"0x{array.tobytes().hex()}">'
        return self.line(f"arith.constant {dense} : {tensor(array.shape)}", array.shape)

    def weights(self, shape: Sequence[int], depth: int) -> Floats:
        """Draw weights of sums of `depth` products."""
        deviation = (2 / depth) ** 0.5
        return (deviation * self.random.normal(size=shape)).astype(np.float32)

    def bias(self, count: int) -> Floats:
        """Draw the terms of products."""
        return (0.1 * self.random.normal(size=count)).astype(np.float32)

    def text(self, argument: Value, result: Value) -> str:
        """The text of the module, whose function has the signature of a file."""
        body = "\n  ".join([*self.lines, f"func.return {result.name} : {result.type}"])
        return (
            "module attributes {tf_saved_model.semantics} {\n"
            f"func.func @main({argument.name}: {argument.type} "
            '{tf_saved_model.index_path = ["x"]})'
            f' -> ({result.type} {{tf_saved_model.index_path = ["y"]}}) attributes '
            '{tf.entry_function = {inputs = "x", outputs = "y"}, '
            'tf_saved_model.exported_names = ["serving_default"]} '
            f"{{\n  {body}\n}}\n}}\n"
        )

    def convolution(
        self,
        x: Value,
        channels: int,
        size: int = 3,
        stride: int = 1,
        activation: Activation = "relu",
    ) -> Value:
        """A window that moves over padded images, a bias, and an activation."""
        depth = size * size * x.shape[-1]
        weights = self.weights((channels, size, size, x.shape[-1]), depth)
        bias = self.bias(channels)
        return self.window(x, weights, bias, stride, activation, is_depthwise=False)

    def depthwise(
        self, x: Value, stride: int = 1, activation: Activation = "relu"
    ) -> Value:
        """The same for each channel on its own."""
        weights = self.weights((1, 3, 3, x.shape[-1]), 9)
        bias = self.bias(x.shape[-1])
        return self.window(x, weights, bias, stride, activation, is_depthwise=True)

    def dense(self, x: Value, units: int, activation: Activation = "none") -> Value:
        """A product of the last dimension, a bias, and an activation."""
        weights = self.weights((units, x.shape[-1]), x.shape[-1])
        return self.product(x, weights, self.bias(units), activation)

    def layer_norm(self, x: Value) -> Value:
        """Values whose last dimension has mean 0 and deviation 1, scaled and moved."""
        centred = self.binary("sub", x, self.mean(x, (len(x.shape) - 1,)))
        squares = self.binary("mul", centred, centred)
        variance = self.mean(squares, (len(x.shape) - 1,))
        padded = self.binary("add", variance, self.constant(1e-3))
        result = self.binary("mul", centred, self.unary("rsqrt", padded))
        factors = 1 + self.bias(x.shape[-1])
        result = self.binary("mul", result, self.constant(factors))
        return self.binary("add", result, self.constant(self.bias(x.shape[-1])))

    def silu(self, x: Value) -> Value:
        """`x` times its logistic function."""
        return self.binary("mul", x, self.unary("logistic", x))

    @abstractmethod
    def window(
        self,
        x: Value,
        weights: Floats,
        bias: Floats,
        stride: int,
        activation: Activation,
        *,
        is_depthwise: bool,
    ) -> Value:
        """A convolution by weights in the layout of TensorFlow Lite."""

    @abstractmethod
    def product(
        self, x: Value, weights: Floats, bias: Floats, activation: Activation
    ) -> Value:
        """A product by weights of shape `(outputs, inputs)`."""

    @abstractmethod
    def binary(self, name: str, x: Value, y: Value) -> Value:
        """`add`, `sub` or `mul`, with broadcasting."""

    @abstractmethod
    def unary(self, name: str, x: Value) -> Value:
        """`relu`, `logistic`, `tanh` or `rsqrt`."""

    @abstractmethod
    def gelu(self, x: Value) -> Value:
        """GELU by its approximation with `tanh`."""

    @abstractmethod
    def softmax(self, x: Value) -> Value:
        """Softmax over the last dimension."""

    @abstractmethod
    def batch_product(self, x: Value, y: Value, *, transposed: bool) -> Value:
        """Products of matrices; `transposed` if those of `y` are."""

    @abstractmethod
    def mean(self, x: Value, axes: Sequence[int]) -> Value:
        """The mean over dimensions, which stay with size 1."""

    @abstractmethod
    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""

    @abstractmethod
    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """The same elements with other dimensions."""

    @abstractmethod
    def slice(self, x: Value, start: int, end: int) -> Value:
        """A part of the last dimension."""

    @abstractmethod
    def concatenate(self, values: Sequence[Value]) -> Value:
        """Values one after the other in the last dimension."""


def _broadcast_shape(x: Value, y: Value) -> tuple[int, ...]:
    return np.broadcast_shapes(x.shape, y.shape)


def _window_shape(x: Value, channels: int, stride: int) -> tuple[int, ...]:
    return (
        x.shape[0],
        *(-(-size // stride) for size in x.shape[1:3]),
        channels,
    )


class TFLiteBuilder(Builder):
    """Ops of TensorFlow Lite."""

    def _op(
        self,
        name: str,
        values: Sequence[Value],
        shape: Sequence[int],
        options: str = "",
    ) -> Value:
        names = ", ".join(value.name for value in values)
        types = ", ".join(value.type for value in values)
        return self.line(
            f'"tfl.{name}"({names}) {{{options}}} : ({types}) -> {tensor(shape)}', shape
        )

    def _integers(self, values: Sequence[int]) -> Value:
        type_ = tensor((len(values),), "i32")
        name = self.line(f"arith.constant dense<{[*values]}> : {type_}", ()).name
        return _Integers(name, (len(values),))

    def window(
        self,
        x: Value,
        weights: Floats,
        bias: Floats,
        stride: int,
        activation: Activation,
        *,
        is_depthwise: bool,
    ) -> Value:
        options = (
            "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, "
            f"stride_h = {stride} : i32, stride_w = {stride} : i32, "
            f'padding = "SAME", fused_activation_function = "{activation.upper()}"'
        )
        name = "conv_2d"
        if is_depthwise:
            name, options = (
                "depthwise_conv_2d",
                f"depth_multiplier = 1 : i32, {options}",
            )
        values = [x, self.constant(weights), self.constant(bias)]
        return self._op(name, values, _window_shape(x, len(bias), stride), options)

    def product(
        self, x: Value, weights: Floats, bias: Floats, activation: Activation
    ) -> Value:
        options = (
            f"keep_num_dims = {'true' if len(x.shape) > 2 else 'false'}, "
            'weights_format = "DEFAULT", '
            f'fused_activation_function = "{activation.upper()}"'
        )
        values = [x, self.constant(weights), self.constant(bias)]
        return self._op("fully_connected", values, (*x.shape[:-1], len(bias)), options)

    def binary(self, name: str, x: Value, y: Value) -> Value:
        return self._op(
            name, [x, y], _broadcast_shape(x, y), 'fused_activation_function = "NONE"'
        )

    def unary(self, name: str, x: Value) -> Value:
        return self._op(name, [x], x.shape)

    def gelu(self, x: Value) -> Value:
        return self._op("gelu", [x], x.shape, "approximate = true")

    def softmax(self, x: Value) -> Value:
        return self._op("softmax", [x], x.shape, "beta = 1.0 : f32")

    def batch_product(self, x: Value, y: Value, *, transposed: bool) -> Value:
        flag = "true" if transposed else "false"
        shape = (*x.shape[:-1], y.shape[-2 if transposed else -1])
        return self._op("batch_matmul", [x, y], shape, f"adj_x = false, adj_y = {flag}")

    def mean(self, x: Value, axes: Sequence[int]) -> Value:
        shape = [1 if d in axes else size for d, size in enumerate(x.shape)]
        return self._op("mean", [x, self._integers(axes)], shape, "keep_dims = true")

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return self._op("reshape", [x, self._integers(shape)], shape)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        shape = [x.shape[d] for d in order]
        return self._op("transpose", [x, self._integers(order)], shape)

    def slice(self, x: Value, start: int, end: int) -> Value:
        shape = (*x.shape[:-1], end - start)
        begin = [*[0] * (len(shape) - 1), start]
        values = [x, self._integers(begin), self._integers(shape)]
        return self._op("slice", values, shape)

    def concatenate(self, values: Sequence[Value]) -> Value:
        shape = (*values[0].shape[:-1], sum(value.shape[-1] for value in values))
        options = f'axis = {len(shape) - 1} : i32, fused_activation_function = "NONE"'
        return self._op("concatenation", values, shape, options)


class _Integers(Value):
    """A vector of integers."""

    @property
    def type(self) -> str:
        return tensor(self.shape, "i32")


class StableHLOBuilder(Builder):
    """Ops of StableHLO, as jax writes them."""

    def _same(self, name: str, *values: Value) -> Value:
        names = ", ".join(value.name for value in values)
        return self.line(
            f"stablehlo.{name} {names} : {values[0].type}", values[0].shape
        )

    def _broadcast(self, x: Value, shape: Sequence[int]) -> Value:
        if x.shape == (*shape,):
            return x
        dimensions = [*range(len(shape) - len(x.shape), len(shape))]
        return self.line(
            f"stablehlo.broadcast_in_dim {x.name}, dims = {dimensions} : ({x.type}) -> "
            f"{tensor(shape)}",
            shape,
        )

    def _activation(self, x: Value, activation: Activation) -> Value:
        if activation == "none":
            return x
        if activation == "relu":
            return self.unary("relu", x)
        zero, six = self.constant(0.0), self.constant(6.0)
        return self.line(
            f"stablehlo.clamp {zero.name}, {x.name}, {six.name} : (tensor<f32>, "
            f"{x.type}, tensor<f32>) -> {x.type}",
            x.shape,
        )

    def window(
        self,
        x: Value,
        weights: Floats,
        bias: Floats,
        stride: int,
        activation: Activation,
        *,
        is_depthwise: bool,
    ) -> Value:
        groups = len(bias) if is_depthwise else 1
        moved = weights.transpose((1, 2, 0, 3) if is_depthwise else (1, 2, 3, 0))
        kernel = self.constant(np.ascontiguousarray(moved))
        shape = _window_shape(x, len(bias), stride)
        pads: list[list[int]] = []
        for size, result in zip(x.shape[1:3], shape[1:3], strict=True):
            pad = max((result - 1) * stride + weights.shape[1] - size, 0)
            pads.append([pad // 2, pad - pad // 2])
        value = self.line(
            f"stablehlo.convolution({x.name}, {kernel.name}) dim_numbers = "
            "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = "
            f"[{stride}, {stride}], pad = {pads}}} {{batch_group_count = 1 : i64, "
            f"feature_group_count = {groups} : i64}} : ({x.type}, {kernel.type}) -> "
            f"{tensor(shape)}",
            shape,
        )
        return self._activation(
            self.binary("add", value, self.constant(bias)), activation
        )

    def product(
        self, x: Value, weights: Floats, bias: Floats, activation: Activation
    ) -> Value:
        matrix = self.constant(np.ascontiguousarray(weights.T))
        shape = (*x.shape[:-1], len(bias))
        value = self.line(
            f"stablehlo.dot_general {x.name}, {matrix.name}, contracting_dims = "
            f"[{len(x.shape) - 1}] x [0] : ({x.type}, {matrix.type}) -> {tensor(shape)}",
            shape,
        )
        return self._activation(
            self.binary("add", value, self.constant(bias)), activation
        )

    def binary(self, name: str, x: Value, y: Value) -> Value:
        shape = _broadcast_shape(x, y)
        op = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}[name]
        return self._same(op, self._broadcast(x, shape), self._broadcast(y, shape))

    def unary(self, name: str, x: Value) -> Value:
        if name == "relu":
            return self._same(
                "maximum", x, self._broadcast(self.constant(0.0), x.shape)
            )
        return self._same(name, x)

    def gelu(self, x: Value) -> Value:
        cube = self.binary("mul", x, self.binary("mul", x, x))
        inner = self.binary("mul", cube, self.constant(0.044715))
        inner = self.binary(
            "mul", self.binary("add", x, inner), self.constant(0.79788456)
        )
        half = self.binary("mul", x, self.constant(0.5))
        one = self.binary("add", self.unary("tanh", inner), self.constant(1.0))
        return self.binary("mul", half, one)

    def _reduce(
        self, name: str, x: Value, axes: Sequence[int], initial: float
    ) -> Value:
        start = self.constant(initial)
        shape = [size for d, size in enumerate(x.shape) if d not in axes]
        reduced = self.line(
            f"stablehlo.reduce({x.name} init: {start.name}) applies stablehlo.{name} "
            f"across dimensions = {[*axes]} : ({x.type}, tensor<f32>) -> {tensor(shape)}",
            shape,
        )
        return self.reshape(
            reduced, [1 if d in axes else size for d, size in enumerate(x.shape)]
        )

    def softmax(self, x: Value) -> Value:
        last = (len(x.shape) - 1,)
        moved = self.binary("sub", x, self._reduce("maximum", x, last, -np.inf))
        powers = self._same("exponential", moved)
        return self.binary("div", powers, self._reduce("add", powers, last, 0.0))

    def batch_product(self, x: Value, y: Value, *, transposed: bool) -> Value:
        rank = len(x.shape)
        batch = [*range(rank - 2)]
        contracted = rank - 1 if transposed else rank - 2
        shape = (*x.shape[:-1], y.shape[-2 if transposed else -1])
        return self.line(
            f"stablehlo.dot_general {x.name}, {y.name}, batching_dims = {batch} x {batch}, "
            f"contracting_dims = [{rank - 1}] x [{contracted}] : ({x.type}, {y.type}) -> "
            f"{tensor(shape)}",
            shape,
        )

    def mean(self, x: Value, axes: Sequence[int]) -> Value:
        sums = self._reduce("add", x, axes, 0.0)
        count = prod(x.shape[d] for d in axes)
        return self.binary("mul", sums, self.constant(1 / count))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return self.line(
            f"stablehlo.reshape {x.name} : ({x.type}) -> {tensor(shape)}", shape
        )

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        shape = [x.shape[d] for d in order]
        return self.line(
            f"stablehlo.transpose {x.name}, dims = {[*order]} : ({x.type}) -> "
            f"{tensor(shape)}",
            shape,
        )

    def slice(self, x: Value, start: int, end: int) -> Value:
        shape = (*x.shape[:-1], end - start)
        ranges = ", ".join([f"0:{size}" for size in x.shape[:-1]] + [f"{start}:{end}"])
        return self.line(
            f"stablehlo.slice {x.name} [{ranges}] : ({x.type}) -> {tensor(shape)}",
            shape,
        )

    def concatenate(self, values: Sequence[Value]) -> Value:
        shape = (*values[0].shape[:-1], sum(value.shape[-1] for value in values))
        names = ", ".join(value.name for value in values)
        types = ", ".join(value.type for value in values)
        return self.line(
            f"stablehlo.concatenate {names}, dim = {len(shape) - 1} : ({types}) -> "
            f"{tensor(shape)}",
            shape,
        )


Network: TypeAlias = "Callable[[Builder, Value], Value]"


def text_of_network(network: Network, shape: Sequence[int], builder: Builder) -> str:
    """The text of a network whose input has a shape."""
    argument = Value("%x", (*shape,))
    return builder.text(argument, network(builder, argument))
