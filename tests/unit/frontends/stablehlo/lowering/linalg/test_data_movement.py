"""Ops that only move elements, compared with StableHLO's own interpreter and NumPy."""

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
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


@pytest.mark.sampled(2)
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
@example(0, 1, 0, 0, False)
@settings(max_examples=12, deadline=None)
def test_padding(size: int, low: int, high: int, interior: int, is_dynamic: bool):
    inner = size + max(size - 1, 0) * interior
    if (
        low + inner + high < 0
        or (low < 0 and -low > inner)
        or (high < 0 and -high > inner)
    ):
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


# Indices


@pytest.mark.parametrize("name", [name for name in TYPES if name != "i1"])
def test_iota(name: str):
    types = [tensor((3, 200), name)] * 2
    ops = [f"stablehlo.iota dim = {axis} : {types[0]}" for axis in (0, 1)]
    for axis, actual in enumerate(run(function([], ops, types))):
        expected = np.indices((3, 200))[axis].astype(TYPES[name])
        same_bits(actual, expected)


def test_get_dimension_size():
    types = ["tensor<?x4xf32>"]
    ops = [
        f"stablehlo.get_dimension_size %0, dim = {axis} : ({types[0]}) -> tensor<i32>"
        for axis in (0, 1)
    ]
    text = function(types, ops, ["tensor<i32>"] * 2)
    sizes = run(text, np.zeros((3, 4), np.float32))
    assert [int(size) for size in sizes] == [3, 4]


GATHERS = [
    # The numbers of the specification, with and without the dimension of index vectors.
    (
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1",
        (1, 5),
        (6, 1),
        (6, 5),
    ),
    (
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1",
        (1, 3),
        (6,),
        (6, 3),
    ),
    (
        "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], "
        "index_vector_dim = 1",
        (4, 1),
        (6, 1),
        (4, 6),
    ),
    (
        "offset_dims = [1, 3], start_index_map = [1, 0], index_vector_dim = 0",
        (2, 3),
        (2, 3, 2),
        (3, 2, 2, 3),
    ),
    (
        "collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2",
        (1, 1),
        (2, 3, 2),
        (2, 3),
    ),
    (
        "offset_dims = [0, 1], start_index_map = [1], index_vector_dim = 0",
        (3, 2),
        (1,),
        (3, 2),
    ),
    (
        "offset_dims = [2], operand_batching_dims = [0], "
        "start_indices_batching_dims = [1], start_index_map = [1], index_vector_dim = 2",
        (1, 2),
        (3, 4, 1),
        (3, 4, 2),
    ),
    (
        "collapsed_slice_dims = [0], operand_batching_dims = [1], "
        "start_indices_batching_dims = [1], start_index_map = [0], index_vector_dim = 0",
        (1, 1),
        (1, 5),
        (5,),
    ),
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("numbers", "sizes", "shape", "result_shape"), GATHERS)
@pytest.mark.parametrize("name", ["i32", "ui8", "i64", "ui64"])
def test_gather(
    numbers: str,
    sizes: Sequence[int],
    shape: Sequence[int],
    result_shape: Sequence[int],
    name: str,
):
    """Start indices that are out of bounds are clamped."""
    table = np.arange(20, dtype=np.float32).reshape(4, 5)
    dtype = np.dtype(TYPES[name])
    # StableHLO's interpreter takes large unsigned indices for negative ones.
    smallest = 0 if name[0] == "u" else -2
    indices = np.random.default_rng(0).integers(smallest, 7, shape).astype(dtype)
    types = [tensor(table.shape, "f32"), tensor(shape, name)]
    result = tensor(result_shape, "f32")
    op = (
        f'"stablehlo.gather"(%0, %1) <{{dimension_numbers = #stablehlo.gather<{numbers}>,'
        f" slice_sizes = array<i64: {', '.join(map(str, sizes))}>}}> : "
        f"({types[0]}, {types[1]}) -> {result}"
    )
    text = function(types, [op], [result])
    (actual,) = run(text, table, indices)
    (expected,) = stablehlo_results(text, table, indices)
    same_bits(actual, expected)


def test_gather_of_stored_values_and_unknown_sizes():
    type_ = "!quant.uniform<u8:f32, 5.000000e-01:3>"
    types = [f"tensor<4x2x{type_}>", "tensor<?xi32>"]
    op = (
        '"stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> : "
        f"({types[0]}, {types[1]}) -> tensor<?x2x{type_}>"
    )
    table = np.arange(250, 258).astype(np.uint8).reshape(4, 2)
    ids = np.array([3, 0, 3], np.int32)
    (actual,) = run(function(types, [op], [f"tensor<?x2x{type_}>"]), table, ids)
    same_bits(actual, table[ids])
