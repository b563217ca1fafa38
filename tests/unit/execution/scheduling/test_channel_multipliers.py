"""Depthwise convolutions with several channels of the result for each of the image."""

import numpy as np
import pytest

from tests.unit.execution.scheduling.test_byte_products import kept, number, some
from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, ops_in, shaped_type
from xdsl_quant.execution.scheduling.byte_products import (
    is_byte_product,
    mark_byte_products,
)
from xdsl_quant.execution.scheduling.channel_multipliers import merge_channels

pytestmark = pytest.mark.usefixtures("byte_products")


def convolution(
    weights: np.ndarray[tuple[int, ...], np.dtype[np.int8]],
    channels: int,
    size: int,
    *,
    stride: int = 1,
    extend: str = "extsi",
    zero_point: int = 0,
    is_stablehlo: bool = False,
) -> str:
    """
    A convolution that is halved five times, of an image that is padded already.

    Args:
        weights: window, channels of the result.
        channels: those of the image.
        size: pixels of the result along each side.
        stride: that of the window.
        extend: how weights are converted.
        zero_point: what is subtracted from them.
        is_stablehlo: write the weights with one dimension for channels, and a loop over the
            channels of a group.
    """
    height, width, outputs = weights.shape
    more = outputs // channels
    sizes = [stride * (size - 1) + n for n in (height, width)]
    image = f"tensor<2x{sizes[0]}x{sizes[1]}x{channels}xi8>"
    shape = f"2x{size}x{size}x"
    sums, merged = (
        f"tensor<{shape}{channels}x{more}xi32>",
        f"tensor<{shape}{outputs}xi32>",
    )
    result = f"tensor<{shape}{outputs}xi8>"
    if is_stablehlo:
        loops, kinds = "n, y, x, c, k, i, j, g", 3
        places = "c + g", f"i, j, g, c * {more} + k"
        factor = f"{height}x{width}x1x{outputs}xi8"
        array = weights.reshape(height, width, 1, outputs)
    else:
        loops, kinds = "n, y, x, c, k, i, j", 2
        places = "c", "i, j, c, k"
        factor = f"{height}x{width}x{channels}x{more}xi8"
        array = weights.reshape(height, width, channels, more)
    maps = ", ".join(
        f"affine_map<({loops}) -> ({place})>"
        for place in (
            f"n, y * {stride} + i, x * {stride} + j, {places[0]}",
            places[1],
            "n, y, x, c, k",
        )
    )
    iterators = ", ".join(['"parallel"'] * 5 + ['"reduction"'] * kinds)
    identity = "affine_map<(n, y, x, o) -> (n, y, x, o)>"
    return f"""
func.func @f(%a: {image}) -> {result} {{
  %w = arith.constant dense<{array.tolist()}> : tensor<{factor}>
  %zp = arith.constant {zero_point} : i32
  %seven = arith.constant 7 : i32
  %es = tensor.empty() : {sums}
  %start = linalg.fill ins(%seven : i32) outs(%es : {sums}) -> {sums}
  %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
      ins(%a, %w : {image}, tensor<{factor}>) outs(%start : {sums}) {{
  ^bb0(%l: i8, %r: i8, %s: i32):
    %le = arith.extsi %l : i8 to i32
    %re = arith.{extend} %r : i8 to i32
    %rd = arith.subi %re, %zp : i32
    %p = arith.muli %le, %rd : i32
    %t = arith.addi %s, %p : i32
    linalg.yield %t : i32
  }} -> {sums}
  %shape = arith.constant dense<[2, {size}, {size}, {outputs}]> : tensor<4xindex>
  %1 = tensor.reshape %0(%shape) : ({sums}, tensor<4xindex>) -> {merged}
  %er = tensor.empty() : {result}
  %low = arith.constant -128 : i32
  %high = arith.constant 127 : i32
  %five = arith.constant 5 : i32
  %2 = linalg.generic {{indexing_maps = [{identity}, {identity}],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%1 : {merged}) outs(%er : {result}) {{
  ^bb0(%s: i32, %o: i8):
    %h = arith.shrsi %s, %five : i32
    %m = arith.maxsi %h, %low : i32
    %n = arith.minsi %m, %high : i32
    %y = arith.trunci %n : i32 to i8
    linalg.yield %y : i8
  }} -> {result}
  return %2 : {result}
}}"""


def merged(text: str) -> int:
    """How many products of bytes there are once channels are merged."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        merge_channels(module)
        mark_byte_products(module)
        assert module.operation.verify()
        ranks = [
            shaped_type(op.results[0]).rank
            for op in ops_in(module, "linalg.generic")
            if is_byte_product(op)
        ]
        assert {*ranks} <= {4}
        return len(ranks)


@pytest.mark.parametrize("is_stablehlo", [False, True])
@pytest.mark.parametrize(
    ("channels", "multiplier"),
    [
        (16, 1),
        (20, 1),
        (4, 1),
        (16, 2),
        (9, 2),
        (4, 2),
        (5, 4),
        (3, 8),
        (5, 16),
        (2, 2),
    ],
)
def test_multipliers(channels: int, multiplier: int, is_stablehlo: bool):
    size, stride = 4, 1 + channels % 2
    weights = some(3, 3, channels * multiplier)
    text = convolution(
        weights, channels, size, stride=stride, is_stablehlo=is_stablehlo
    )
    assert merged(text) == 1
    count = stride * (size - 1) + 3
    x = some(2, count, count, channels)
    assert compile(text)(x).tolist() == expected(x, weights, size, stride).tolist()


def expected(
    x: np.ndarray[tuple[int, ...], np.dtype[np.int8]],
    weights: np.ndarray[tuple[int, ...], np.dtype[np.int64 | np.int8]],
    size: int,
    stride: int,
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The result in NumPy's integers."""
    multiplier = weights.shape[-1] // x.shape[-1]
    sums = np.full((2, size, size, weights.shape[-1]), 7)
    end = stride * (size - 1) + 1
    for i, j in np.ndindex(*weights.shape[:2]):
        window = x[:, i : i + end : stride, j : j + end : stride].astype(np.int64)
        sums += window.repeat(multiplier, -1) * weights[i, j]
    return (sums >> 5).clip(-128, 127)


@pytest.mark.parametrize("zero_point", [0, 128, 200, -3])
def test_weights_that_are_no_signed_bytes(zero_point: int):
    weights = some(3, 3, 32)
    text = convolution(weights, 16, 4, extend="extui", zero_point=zero_point)
    assert merged(text) == 1
    x = some(2, 6, 6, 16)
    numbers = number(weights, "extui", zero_point)
    assert compile(text)(x).tolist() == expected(x, numbers, 4, 1).tolist()


@pytest.mark.parametrize(
    ("channels", "multiplier", "extend", "zero_point"),
    [
        # The multiplier does not divide 16, weights are too far from bytes.
        (8, 3, "extsi", 0),
        (16, 2, "extsi", 1 << 20),
    ],
)
def test_others_stay(channels: int, multiplier: int, extend: str, zero_point: int):
    weights = some(3, 3, channels * multiplier)
    text = convolution(weights, channels, 4, extend=extend, zero_point=zero_point)
    assert merged(text) == kept(text) == 0
    x = some(2, 6, 6, channels)
    numbers = number(weights, extend, zero_point)
    assert compile(text)(x).tolist() == expected(x, numbers, 4, 1).tolist()
