"""Networks with the ops of attention and of layer norm, with drawn weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

LENGTH, WIDTH, CLASSES = 4, 8, 4
"""Number of positions, numbers of each position, and results."""


class TextLines:
    """Text of a function with drawn weights, whose ops have a dialect's prefix."""

    def __init__(self, dialect: str, rng: np.random.Generator) -> None:
        self.dialect, self.rng, self.lines = dialect, rng, list[str]()

    def add(self, op: str, operands: Sequence[tuple[str, str]], result: str) -> str:
        """Add an op, given with its properties, and return the name of its result."""
        name, _, properties = op.partition(" ")
        types = ", ".join(type_ for _, type_ in operands)
        values = ", ".join(value for value, _ in operands)
        self.lines.append(
            f'%v{len(self.lines)} = "{self.dialect}.{name}"({values}) {properties} : '
            f"({types}) -> {result}"
        )
        return f"%v{len(self.lines) - 1}"

    def weights(self, *sizes: int) -> tuple[str, str]:
        """Add drawn weights of a standard deviation that keeps the size of values."""
        scale = 1.3 / np.sqrt(prod(sizes[1:])) if len(sizes) > 1 else 0.2
        return self.constant(self.rng.normal(0, scale, sizes).astype("<f4"), "f32")

    def constant(self, values: NDArray[np.generic], element: str) -> tuple[str, str]:
        """Add a constant; return its name and type."""
        type_ = f"tensor<{''.join(f'{size}x' for size in values.shape)}{element}>"
        text = f'dense<"0x{values.tobytes().hex()}"> : {type_}'
        self.lines.append(f"%v{len(self.lines)} = arith.constant {text}")
        return f"%v{len(self.lines) - 1}", type_

    def function(self, argument: str, result: str, value: str) -> str:
        """Return the text of the function."""
        body = "\n  ".join([*self.lines, f"func.return {value} : {result}"])
        return f"func.func @main(%x: {argument}) -> {result} {{\n  {body}\n}}\n"


_NONE = '{fused_activation_function = "NONE"}'
_DENSE = (
    'fully_connected {keep_num_dims = %s, weights_format = "DEFAULT", '
    'fused_activation_function = "NONE"}'
)


def tfl_attention_text(batch: int, seed: int = 0) -> str:
    """
    Return a layer norm, attention, hard swish, GELU and softmax in `tfl`, for arguments
    `[batch, LENGTH, WIDTH]`.
    """
    lines = TextLines("tfl", np.random.default_rng(seed))
    add = lines.add

    def sized(*sizes: int) -> str:
        return f"tensor<{batch}x{''.join(f'{size}x' for size in sizes)}f32>"

    x, row, square = sized(LENGTH, WIDTH), sized(LENGTH, 1), sized(LENGTH, LENGTH)
    axis = lines.constant(np.array([2], "<i4"), "i32")
    mean = add("mean {keep_dims = true}", [("%x", x), axis], row)
    change = add("squared_difference {}", [("%x", x), (mean, row)], x)
    variance = add("mean {keep_dims = true}", [(change, x), axis], row)
    epsilon = lines.constant(np.array(0.01, "<f4"), "f32")
    variance = add(f"add {_NONE}", [(variance, row), epsilon], row)
    inverse = add("rsqrt {}", [(variance, row)], row)
    centered = add(f"sub {_NONE}", [("%x", x), (mean, row)], x)
    normal = add(f"mul {_NONE}", [(centered, x), (inverse, row)], x)
    query, key, content = (
        add(_DENSE % "true", [(normal, x), lines.weights(WIDTH, WIDTH), bias], x)
        for bias in [lines.weights(WIDTH) for _ in range(3)]
    )
    right = "batch_matmul {adj_x = false, adj_y = true}"
    scores = add(right, [(query, x), (key, x)], square)
    factor = lines.constant(np.array(WIDTH**-0.5, "<f4"), "f32")
    scores = add(f"mul {_NONE}", [(scores, square), factor], square)
    shares = add("softmax {beta = 1.0 : f32}", [(scores, square)], square)
    plain = "batch_matmul {adj_x = false, adj_y = false}"
    mixed = add(plain, [(shares, square), (content, x)], x)
    first = add("hard_swish {}", [(mixed, x)], x)
    second = add("gelu {approximate = true}", [(content, x)], x)
    product = add(f"mul {_NONE}", [(first, x), (second, x)], x)
    total = add(f"add {_NONE}", [(product, x), (first, x)], x)
    axis = lines.constant(np.array([1], "<i4"), "i32")
    pooled = add("mean {keep_dims = false}", [(total, x), axis], sized(WIDTH))
    factors = [lines.weights(CLASSES, WIDTH), lines.weights(CLASSES)]
    result = sized(CLASSES)
    logits = add(_DENSE % "false", [(pooled, sized(WIDTH)), *factors], result)
    return lines.function(
        x, result, add("softmax {beta = 1.0 : f32}", [(logits, result)], result)
    )


def ds_cnn_text(batch: int, channels: int = 64, seed: int = 0) -> str:
    """Return a network of the size of DS-CNN, for arguments `[batch, 49, 10, 1]`."""
    lines = TextLines("tfl", np.random.default_rng(seed))

    def sized(*sizes: int) -> str:
        return f"tensor<{batch}x{''.join(f'{size}x' for size in sizes)}f32>"

    settings = (
        "{dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = %d : i32, "
        'stride_w = %d : i32, padding = "SAME", fused_activation_function = "RELU"%s}'
    )
    x, image = sized(49, 10, 1), sized(25, 5, channels)
    factors = [lines.weights(channels, 10, 4, 1), lines.weights(channels)]
    value = lines.add("conv_2d " + settings % (2, 2, ""), [("%x", x), *factors], image)
    for _ in range(4):
        more = ", depth_multiplier = 1 : i32"
        factors = [lines.weights(1, 3, 3, channels), lines.weights(channels)]
        op = "depthwise_conv_2d " + settings % (1, 1, more)
        value = lines.add(op, [(value, image), *factors], image)
        factors = [lines.weights(channels, 1, 1, channels), lines.weights(channels)]
        op = "conv_2d " + settings % (1, 1, "")
        value = lines.add(op, [(value, image), *factors], image)
    axes = lines.constant(np.array([1, 2], "<i4"), "i32")
    pooled = sized(channels)
    value = lines.add("mean {keep_dims = false}", [(value, image), axes], pooled)
    factors = [lines.weights(12, channels), lines.weights(12)]
    result = lines.add(_DENSE % "false", [(value, pooled), *factors], sized(12))
    return lines.function(x, sized(12), result)


def stablehlo_attention_text(batch: int, seed: int = 0) -> str:
    """
    Return a layer norm, attention and hard swish in StableHLO, for arguments
    `[batch, LENGTH, WIDTH]`.
    """
    rng = np.random.default_rng(seed)

    def weights(*sizes: int) -> str:
        values = rng.normal(0, 0.5 / np.sqrt(sizes[0]), sizes).astype("<f4")
        shape = "x".join(map(str, sizes))
        return f'dense<"0x{values.tobytes().hex()}"> : tensor<{shape}xf32>'

    x = f"tensor<{batch}x{LENGTH}x{WIDTH}xf32>"
    square = f"tensor<{batch}x{LENGTH}x{LENGTH}xf32>"
    row, result = f"tensor<{batch}x{LENGTH}xf32>", f"tensor<{batch}x{CLASSES}xf32>"
    pooled = f"tensor<{batch}x{WIDTH}xf32>"
    matrix, last = f"tensor<{WIDTH}x{WIDTH}xf32>", f"tensor<{WIDTH}x{CLASSES}xf32>"
    dense = "contracting_dims = [2] x [0]"

    def reduced(op: str, value: str, type_: str, axis: int, into: str) -> str:
        first = "%lowest" if op == "maximum" else "%zero"
        return (
            f"stablehlo.reduce({value} init: {first}) applies stablehlo.{op} across "
            f"dimensions = [{axis}] : ({type_}, tensor<f32>) -> {into}"
        )

    def spread(value: str, type_: str, into: str) -> str:
        dims = "[0, 1]" if type_ == row else "[]"
        return (
            f"stablehlo.broadcast_in_dim {value}, dims = {dims} : ({type_}) -> {into}"
        )

    scalars = {"zero": 0.0, "three": 3.0, "six": 6.0, "width": WIDTH, "epsilon": 0.01}
    constants = "\n  ".join(
        f"%{name} = stablehlo.constant dense<{value:e}> : tensor<f32>"
        for name, value in (*scalars.items(), ("root", WIDTH**-0.5), ("part", 0.25))
    )
    return f"""
func.func @main(%x: {x}) -> {result} {{
  {constants}
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %wq = stablehlo.constant {weights(WIDTH, WIDTH)}
  %wk = stablehlo.constant {weights(WIDTH, WIDTH)}
  %wl = stablehlo.constant {weights(WIDTH, CLASSES)}
  %n0 = {reduced("add", "%x", x, 2, row)}
  %widths = {spread("%width", "tensor<f32>", row)}
  %n1 = stablehlo.divide %n0, %widths : {row}
  %n2 = {spread("%n1", row, x)}
  %c = stablehlo.subtract %x, %n2 : {x}
  %c2 = stablehlo.multiply %c, %c : {x}
  %v0 = {reduced("add", "%c2", x, 2, row)}
  %v1 = stablehlo.divide %v0, %widths : {row}
  %epsilons = {spread("%epsilon", "tensor<f32>", row)}
  %v2 = stablehlo.add %v1, %epsilons : {row}
  %r0 = stablehlo.rsqrt %v2 : {row}
  %r1 = {spread("%r0", row, x)}
  %y = stablehlo.multiply %c, %r1 : {x}
  %q = stablehlo.dot_general %y, %wq, {dense} : ({x}, {matrix}) -> {x}
  %k = stablehlo.dot_general %y, %wk, {dense} : ({x}, {matrix}) -> {x}
  %s0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0],
    contracting_dims = [2] x [2] : ({x}, {x}) -> {square}
  %roots = {spread("%root", "tensor<f32>", square)}
  %s1 = stablehlo.multiply %s0, %roots : {square}
  %m0 = {reduced("maximum", "%s1", square, 2, row)}
  %m1 = {spread("%m0", row, square)}
  %s2 = stablehlo.subtract %s1, %m1 : {square}
  %e = stablehlo.exponential %s2 : {square}
  %t0 = {reduced("add", "%e", square, 2, row)}
  %t1 = {spread("%t0", row, square)}
  %p = stablehlo.divide %e, %t1 : {square}
  %a = stablehlo.dot_general %p, %k, batching_dims = [0] x [0],
    contracting_dims = [2] x [1] : ({square}, {x}) -> {x}
  %threes = {spread("%three", "tensor<f32>", x)}
  %g0 = stablehlo.add %a, %threes : {x}
  %g1 = stablehlo.clamp %zero, %g0, %six : (tensor<f32>, {x}, tensor<f32>) -> {x}
  %g2 = stablehlo.multiply %a, %g1 : {x}
  %h0 = {reduced("add", "%g2", x, 1, pooled)}
  %parts = {spread("%part", "tensor<f32>", pooled)}
  %h1 = stablehlo.multiply %h0, %parts : {pooled}
  %z = stablehlo.dot_general %h1, %wl, contracting_dims = [1] x [0]
    : ({pooled}, {last}) -> {result}
  return %z : {result}
}}"""
