"""
Random models of float activations and stored weights, run by LiteRT's default kernels
(XNNPACK) and by this package with `kernels=xnnpack`.

On CPUs with AVX-512 VNNI results have the same bits; on others they are within 4e-6 of
the largest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.frontends.tflite.lowering.test_blockwise_kernels import (
    default_kernels,
    limit_of,
)
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

from .drawing import Draw
from .tally import Tally

NAME = "DEFAULT_KERNELS"

Array = NDArray[Any]

_ACTIVATIONS = "NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1"


def _floats(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


class Model:
    """The text of a function, under construction."""

    def __init__(self, draw: Draw, *inputs: Array):
        self.draw = draw
        self.inputs = inputs
        self._lines: list[str] = []
        self._returned = "", ""

    def add(self, text: str) -> str:
        """Add an op with one result; returns its name."""
        self._lines.append(f"%{len(self._lines)} = {text}")
        return f"%{len(self._lines) - 1}"

    def stored(self, type_: str, shape: Sequence[int], bits: int) -> tuple[str, str]:
        """Constant stored values of all sizes, and their type."""
        half = 1 << (bits - 1)
        values = self.draw.random.integers(-half, half, shape)
        if bits == 8 and "block" not in type_:
            values = np.maximum(values, -127)
        sizes = "x".join(map(str, shape))
        type_ = f"tensor<{sizes}x{type_}>"
        return self.add(
            f'"tfl.pseudo_qconst"() <{{qtype = {type_}, value = dense<'
            f"{values.tolist()}> : tensor<{sizes}xi{bits}>}}> : () -> {type_}"
        ), type_

    def blocks(self, rows: int, columns: int, size: int, bits: int) -> tuple[str, str]:
        """Constant blocks with `f16` scales, most of which are not `bf16` numbers."""
        counts = rows, columns // size
        largest = 10.0 ** self.draw.random.uniform(-3, 1)
        scales = self.draw.random.uniform(0.1, 1, counts) * largest
        numbers = scales.astype(np.float16).astype(np.float64).tolist()
        type_ = (
            f"!quant.block_scaled<i{bits}:f32:{{0:1, 1:{size}}}, scales = dense<"
            f"{numbers}> : tensor<{counts[0]}x{counts[1]}xf16>>"
        )
        return self.stored(type_, (rows, columns), bits)

    def channels(
        self, shape: Sequence[int], bits: int, axis: int = 0, per_axis: float = 0.7
    ) -> tuple[str, str]:
        """
        Constant weights with a scale for each index of a dimension, or one; `per_axis` is
        the probability of several.
        """
        is_per_axis = self.draw.chance(per_axis)
        count = shape[axis] if is_per_axis else 1
        scales = 10.0 ** self.draw.random.uniform(-4, 0, count)
        numbers = ", ".join(repr(float(np.float32(scale))) for scale in scales)
        storage = "i8<-127:127>" if bits == 8 else f"i{bits}"
        suffix = f":{axis}, {{{numbers}}}" if is_per_axis else f", {numbers}"
        return self.stored(f"!quant.uniform<{storage}:f32{suffix}>", shape, bits)

    def bias(self, size: int, without: float = 0.3) -> tuple[str, str]:
        """A constant bias or, with a probability, none; and its type."""
        if self.draw.chance(without):
            return self.add('"tfl.no_value"() <{value}> : () -> none'), "none"
        numbers = self.draw.random.normal(0, 1, size).astype(np.float32).tolist()
        type_ = _floats((size,))
        return self.add(
            f'"tfl.pseudo_const"() <{{value = dense<{numbers}> : {type_}}}> '
            f": () -> {type_}"
        ), type_

    def fully_connected(
        self, x: str, shape: Sequence[int], weights: tuple[str, str], outputs: int
    ) -> str:
        """A product of the rows of `x`, which has a shape."""
        bias, bias_type = self.bias(outputs)
        source, target = _floats(shape), _floats((*shape[:-1], outputs))
        value, type_ = weights
        activation = self.draw.choice(_ACTIVATIONS)
        keeps = str(len(shape) > 2).lower()
        return self.add(
            f'"tfl.fully_connected"({x}, {value}, {bias}) <{{'
            f'fused_activation_function = "{activation}", keep_num_dims = {keeps}, '
            f'weights_format = "DEFAULT"}}> : ({source}, {type_}, {bias_type}) '
            f"-> {target}"
        )

    def returning(self, result: str, shape: Sequence[int]) -> Model:
        """The model, complete with its result."""
        self._returned = result, _floats(shape)
        return self

    @property
    def text(self) -> str:
        """The module."""
        result, type_ = self._returned
        types = {np.dtype(np.float32): "f32", np.dtype(np.int32): "i32"}
        arguments = ", ".join(
            f"%x{i}: tensor<{'x'.join(map(str, x.shape))}x{types[x.dtype]}>"
            for i, x in enumerate(self.inputs)
        )
        body = "\n".join(self._lines)
        return (
            f"func.func @main({arguments}) -> {type_} {{\n{body}\n"
            f"return {result} : {type_}\n}}"
        )


def _activations(draw: Draw, shape: Sequence[int]) -> Array:
    """Rows of very different sizes; some are zeros or have one sign."""
    rows = shape[0], *[1] * (len(shape) - 1)
    sizes = 10.0 ** draw.random.uniform(-3, 3, rows)
    centers = draw.random.uniform(-2, 2, rows)
    values = draw.random.normal(centers, 1, shape) * sizes
    if draw.chance(0.2):
        values[0] = np.abs(values[0]) * draw.choice((0, 1, -1))
    return values.astype(np.float32)


def _weights(model: Model, kind: str, outputs: int, inputs: int) -> tuple[str, str]:
    """Weights of a kind such as `i4 blocks` or `i8`."""
    bits = int(kind[1])
    if kind.endswith("blocks"):
        size = next(n for n in (128, 64, 32) if not inputs % n)
        return model.blocks(outputs, inputs, size, bits)
    return model.channels((outputs, inputs), bits)


def _product(draw: Draw) -> Model:
    kind = draw.kind.removeprefix("product ")
    inputs = draw.integer(1, 8) * 32
    if kind == "i8":
        inputs = draw.integer(1, 300)
    outputs = draw.integer(1, 70)
    leading = [draw.integer(1, 6) for _ in range(draw.choice((1, 1, 1, 2)))]
    shape = *leading, inputs
    model = Model(draw, _activations(draw, shape))
    weights = _weights(model, kind, outputs, inputs)
    result = model.fully_connected("%x0", shape, weights, outputs)
    return model.returning(result, (*leading, outputs))


def _layers(draw: Draw) -> Model:
    """Two to four products, each with weights of any kind."""
    rows, width = draw.integer(1, 4), 32 * draw.integer(1, 6)
    model = Model(draw, _activations(draw, (rows, width)))
    value = "%x0"
    for _ in range(draw.integer(2, 4)):
        outputs = 32 * draw.integer(1, 6)
        kind = draw.choice(("i4 blocks", "i4 blocks", "i4", "i8"))
        weights = _weights(model, kind, outputs, width)
        value = model.fully_connected(value, (rows, width), weights, outputs)
        width = outputs
    return model.returning(value, (rows, width))


def _convolution(draw: Draw) -> Model:
    """A convolution, also with groups of channels, or a depthwise one."""
    _, bits, *form = draw.kind.split()
    batch, depth, outputs = (draw.integer(1, n) for n in (3, 9, 20))
    groups, channels = 1, depth
    weights_axis = 0
    if form == ["groups"]:
        groups = draw.integer(2, 4)
        channels, outputs = groups * depth, groups * draw.integer(1, 6)
    window = draw.choice(((1, 1), (3, 3), (2, 3), (1, 4)))
    filters = outputs, *window, depth
    name, options = "conv_2d", ""
    if form == ["depthwise"]:
        multiplier, weights_axis = draw.choice((1, 1, 2)), 3
        outputs = channels * multiplier
        filters = 1, *window, outputs
        name, options = "depthwise_conv_2d", f"depth_multiplier = {multiplier} : i32, "
    stride, dilation = draw.choice(((1, 1), (1, 1), (2, 1), (1, 2)))
    padding = draw.choice(("SAME", "VALID"))
    images = batch, draw.integer(7, 9), draw.integer(7, 9), channels
    model = Model(draw, _activations(draw, images))
    # LiteRT's own kernels expect a scale for each channel of these.
    per_axis = 1 if form == ["depthwise"] or "i4 groups" in draw.kind else 0.7
    weights, type_ = model.channels(filters, int(bits[1]), weights_axis, per_axis)
    bias, bias_type = model.bias(outputs, without=0)
    sizes = [
        -(-size // stride)
        if padding == "SAME"
        else (size - (length - 1) * dilation - 1) // stride + 1
        for size, length in zip(images[1:3], window, strict=True)
    ]
    shape = batch, *sizes, outputs
    source, target = _floats(images), _floats(shape)
    result = model.add(
        f'"tfl.{name}"(%x0, {weights}, {bias}) <{{{options}'
        f"dilation_h_factor = {dilation} : i32, dilation_w_factor = {dilation} : i32, "
        f'fused_activation_function = "{draw.choice(_ACTIVATIONS)}", padding = '
        f'"{padding}", stride_h = {stride} : i32, stride_w = {stride} : i32}}> : '
        f"({source}, {type_}, {bias_type}) -> {target}"
    )
    return model.returning(result, shape)


def _lookup(draw: Draw) -> Model:
    rows, columns = draw.integer(1, 30), 32 * draw.integer(1, 6)
    indices = draw.random.integers(0, rows, draw.integer(1, 9)).astype(np.int32)
    model = Model(draw, indices)
    bits = int(draw.kind.split()[1][1])
    table, type_ = model.blocks(rows, columns, draw.choice((32, 16, columns)), bits)
    shape = len(indices), columns
    result = model.add(
        f'"tfl.embedding_lookup"(%x0, {table}) : (tensor<{shape[0]}xi32>, {type_}) '
        f"-> {_floats(shape)}"
    )
    return model.returning(result, shape)


KINDS: Mapping[str, Callable[[Draw], Model]] = {
    "product i4 blocks": _product,
    "product i4": _product,
    "product i8": _product,
    "convolution i8": _convolution,
    "convolution i8 groups": _convolution,
    "convolution i8 depthwise": _convolution,
    "convolution i4": _convolution,
    "convolution i4 groups": _convolution,
    "lookup i4 blocks": _lookup,
    "lookup i2 blocks": _lookup,
    "layers": _layers,
}
"""Builders of models, by kinds of ops and weights."""


def compare_default_kernels(
    kind: str, draws: int, seed: int = 0, compiled_step: int = 20, first: int = 0
) -> Tally:
    """
    Compare random models of a kind; `compiled_step` is as in `comparing.compare`. Files are
    read and written again.
    """
    tally = Tally(NAME, kind)
    for index in range(first, first + draws):
        draw = Draw(NAME, kind, seed, index)
        model = KINDS[kind](draw)
        file = write_tflite(parse_module(model.text))
        try:
            (expected,) = default_kernels(file, *model.inputs)
        except (RuntimeError, ValueError) as e:
            tally.refused.append(f"{draw.name}: {e}")
            continue
        tally.draws += 1
        tally.values += expected.size
        ways: list[Callable[..., Any]] = [_interpreted]
        if index % compiled_step == compiled_step - 1:
            ways.append(_compiled)
            tally.compiled += 1
        for way in ways:
            (result,) = way(file, model.inputs)
            is_far = ~(np.abs(np.asarray(result) - expected) <= limit_of(expected))
            if is_far.any():
                tally.mismatches.append(
                    f"{draw.name}: {way.__name__[1:]}: {is_far.sum()} of {expected.size} "
                    "differ"
                )
    return tally


def _interpreted(file: bytes, inputs: Sequence[Array]) -> Sequence[Any]:
    return run_function(read_tflite(file), "main", *inputs, kernels="xnnpack")


def _compiled(file: bytes, inputs: Sequence[Array]) -> Sequence[Any]:
    return [compile(read_tflite(file), kernels="xnnpack")(*inputs)]
