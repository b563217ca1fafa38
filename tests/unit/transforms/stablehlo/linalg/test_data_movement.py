"""Ops that only move elements, held against StableHLO's own interpreter and NumPy."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.transforms.stablehlo.linalg.running import (
    TYPES,
    Array,
    function,
    run,
    same_bits,
    stablehlo_results,
    tensor,
)


def numbered(shape: tuple[int, ...], name: str) -> Array:
    dtype = np.dtype(TYPES[name])
    values = np.arange(math.prod(shape)).reshape(shape)
    return (values % 3 == 0) if dtype == np.bool_ else values.astype(dtype)


@pytest.mark.parametrize("name", TYPES)
def test_as_stablehlo_does(name: str):
    values, padding = numbered((3, 4), name), numbered((2,), name)[1]
    column = numbered((3, 1), name)
    types = [tensor(shape, name) for shape in ((3, 4), (3, 1), ())]
    type_, column_type, scalar = types
    cases = [
        (f"stablehlo.reshape %0 : ({type_}) ->", (2, 6)),
        (f"stablehlo.reshape %0 : ({type_}) ->", (1, 2, 1, 6)),
        (f"stablehlo.reshape %2 : ({scalar}) ->", (1, 1)),
        (f"stablehlo.transpose %0, dims = [1, 0] : ({type_}) ->", (4, 3)),
        (
            f"stablehlo.broadcast_in_dim %1, dims = [0, 2] : ({column_type}) ->",
            (3, 5, 2),
        ),
        (f"stablehlo.broadcast_in_dim %2, dims = [] : ({scalar}) ->", (3, 2)),
        (
            f"stablehlo.concatenate %0, %1, %0, dim = 1 : ({type_}, {column_type}, "
            f"{type_}) ->",
            (3, 9),
        ),
        (f"stablehlo.slice %0 [1:3, 0:4:3] : ({type_}) ->", (2, 2)),
        (f"stablehlo.slice %0 [1:1, 1:4] : ({type_}) ->", (0, 3)),
        (
            f"stablehlo.pad %0, %2, low = [1, -1], high = [-1, 2], interior = [0, 2] : "
            f"({type_}, {scalar}) ->",
            (3, 11),
        ),
    ]
    ops = [f"{op} {tensor(shape, name)}" for op, shape in cases]
    text = function(types, ops, [tensor(shape, name) for _, shape in cases])
    arguments = values, column, np.array(padding)
    expected = stablehlo_results(text, *arguments)
    for actual, wanted in zip(run(text, *arguments), expected, strict=True):
        same_bits(actual, wanted)


def padded(values: Array, padding: Any, low: int, high: int, interior: int) -> Array:
    """Elements and padding of one dimension, straight from the definition."""
    count = len(values)
    size = max(low + max(0, count + (count - 1) * interior) + high, 0)
    if count == 0:
        size = max(low + high, 0)
    result = np.full(size, padding, values.dtype)
    for index, value in enumerate(values):
        if 0 <= (place := low + index * (interior + 1)) < size:
            result[place] = value
    return result


edges = st.integers(-3, 3)


@given(st.integers(0, 5), edges, edges, st.integers(0, 2), st.booleans())
@settings(max_examples=40, deadline=None)
def test_padding(size: int, low: int, high: int, interior: int, is_dynamic: bool):
    inner = size + max(size - 1, 0) * interior
    if (
        low + inner + high < 0
        or (low < 0 and -low > inner)
        or (high < 0 and -high > inner)
    ):
        return
    if is_dynamic and min(low, high) < 0:
        interior = 0
        if size + min(low, 0) + min(high, 0) < 0:
            return
    values = np.arange(1, size + 1, dtype=np.int32)
    expected = padded(values, -7, low, high, interior)
    shape = [None] if is_dynamic else values.shape
    types = [tensor(shape, "i32"), "tensor<i32>"]
    result = tensor([None] if is_dynamic else expected.shape, "i32")
    op = (
        f"stablehlo.pad %0, %1, low = [{low}], high = [{high}], interior = [{interior}] "
        f": ({types[0]}, tensor<i32>) -> {result}"
    )
    (actual,) = run(function(types, [op], [result]), values, np.int32(-7).reshape(()))
    same_bits(actual, expected)


def test_sizes_that_are_not_known():
    values = np.arange(12, dtype=np.int16).reshape(3, 4)
    more = values + np.int16(100)
    types = ["tensor<?x4xi16>", "tensor<3x?xi16>"]
    cases = [
        ("transpose %0, dims = [1, 0]", "tensor<?x4xi16>", "tensor<4x?xi16>", values.T),
        (
            "concatenate %0, %1, dim = 0",
            "tensor<?x4xi16>, tensor<3x?xi16>",
            "tensor<?x4xi16>",
            np.concatenate([values, more]),
        ),
        ("slice %0 [1:3, 0:4:2]", types[0], "tensor<2x2xi16>", values[1:3, ::2]),
        ("slice %0 [1:3, 0:4:2]", types[0], "tensor<?x2xi16>", values[1:3, ::2]),
        ("reshape %0", types[0], "tensor<2x6xi16>", values.reshape(2, 6)),
    ]
    ops = [
        f"stablehlo.{op} : ({inputs}) -> {result}" for op, inputs, result, _ in cases
    ]
    text = function(types, ops, [result for _, _, result, _ in cases])
    for actual, (*_, expected) in zip(run(text, values, more), cases, strict=True):
        same_bits(actual, expected)


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        ("[1, -2, 3]", "3xi8", np.array([1, -2, 3], np.int8)),
        ("[1, 254, 3]", "3xui8", np.array([1, 254, 3], np.uint8)),
        ("[1, 14]", "2xui4", np.array([1, -2], np.int8)),
        ("[[1.5], [-0.0]]", "2x1xf32", np.array([[1.5], [-0.0]], np.float32)),
        ("[1.5, 2.0]", "2xbf16", np.array([1.5, 2.0], ml_dtypes.bfloat16)),
        ("[true, false]", "2xi1", np.array([True, False])),
        ("7", "2x2xui16", np.full((2, 2), 7, np.uint16)),
    ],
)
def test_constant(value: str, type_: str, expected: Array):
    op = f"stablehlo.constant dense<{value}> : tensor<{type_}>"
    (actual,) = run(function([], [op], [f"tensor<{type_}>"]))
    same_bits(actual, expected)


def test_constant_in_a_resource():
    op = "stablehlo.constant dense_resource<numbers> : tensor<3xui8>"
    text = function([], [op], ["tensor<3xui8>"]) + (
        '\n{-# dialect_resources: {builtin: {numbers: "0x010000000102FE"}} #-}'
    )
    (actual,) = run(text)
    same_bits(actual, np.array([1, 2, 254], np.uint8))
