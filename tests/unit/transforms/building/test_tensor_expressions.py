"""Formulas of arrays, built as ops and interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    ModuleOp,
    TensorType,
    UnknownLoc,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint

from xdsl_quant.interpreters import run_function
from xdsl_quant.numerics.tflite import data_movement, products
from xdsl_quant.numerics.tflite.products import Window
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.tensor_expressions import (
    TensorExpression,
    constant,
    stored,
)

Array = NDArray[Any]
Formula = Callable[[Any], Any]

TYPES = {"i1": i8, "i2": i16, "i4": i32, "f4": f32, "f8": f64, "b1": i1}


def module_of(formula: Callable[..., Any], *arrays: Array) -> ModuleOp:
    types = [TensorType(TYPES[a.dtype.str[1:]], a.shape) for a in arrays]
    block = Block(arg_types=types)
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    result = formula(*(stored(builder, argument) for argument in block.args))
    assert isinstance(result, TensorExpression)
    type_ = {"f4": f32, "f8": f64, "b1": i1}.get(result.dtype.str[1:], i64)
    value = result.tensor(type_)
    block.add_op(ReturnOp(value))
    module = ModuleOp([FuncOp("main", (types, [value.type]), Region(block))])
    module.verify()
    return module


def check(formula: Callable[..., Any], *arrays: Array):
    """An expression has the shape and the elements that an array has."""
    # Formulas have unbounded integers.
    wide = (a.astype(np.int64) if a.dtype.kind == "i" else a for a in arrays)
    expected = np.asarray(formula(*wide))
    (result,) = run_function(module_of(formula, *arrays), "main", *arrays)
    np.testing.assert_array_equal(result, expected, strict=True)


RANDOM = np.random.default_rng(0)
X = RANDOM.integers(-128, 128, (2, 5, 6, 3)).astype(np.int8)
SHORTS = RANDOM.integers(-(1 << 15), 1 << 15, (4, 7)).astype(np.int16)
FLOATS = RANDOM.standard_normal((3, 4)).astype(np.float32)
W = RANDOM.integers(-127, 128, (4, 3, 2, 3))
WHERE: Any = np.where
INDICES = np.array([[0, 2], [1, 1]])


def folded(x: Any) -> Any:
    return np.pad(x, [(0, 0), (1, 2), (2, 0), (0, 0)], mode="reflect")


def stacked(x: Any) -> Any:
    return np.stack([x, x - 1], axis=-2)


INTEGER_FORMULAS: dict[str, Formula] = {
    "shift": lambda x: (x - 3 << 20) >> 4,
    "sum": lambda x: x.sum(axis=(1, -1), keepdims=True),
    "sum of all": lambda x: x.sum(),
    "max": lambda x: x - np.max(x, axis=-1, keepdims=True),
    "min": lambda x: np.min(x, axis=(0, 2)),
    "argmax": lambda x: np.argmax(x, axis=2),
    "argmin": lambda x: np.argmin(x, axis=-1),
    "mean": lambda x: x.astype(np.float32).mean(axis=(1, 2), dtype=np.float32),
    "einsum": lambda x: np.einsum("abcd,oijd->abco", x, W),
    "matmul": lambda x: x @ x.swapaxes(-1, -2),
    "broadcast matmul": lambda x: x[:1] @ np.ones((3, 4), np.int64),
    "convolution": lambda x: products.convolution_sums(
        x - 4, W, Window((2, 1), (1, 2), "SAME")
    ),
    "depthwise": lambda x: products.depthwise_sums(x, W[:1], Window()),
    "transposed": lambda x: products.transposed_sums(
        x, W, (2, 10, 6, 4), Window((2, 1), padding="SAME")
    ),
    "pad": lambda x: np.pad(x - 3, [(0, 0), (1, 1), (2, 0), (0, 0)]),
    "pad with": lambda x: np.pad(x, ((0, 1),) * 4, constant_values=7),
    "mirror": folded,
    "slices": lambda x: x.transpose(0, 3, 1, 2)[:, ::-1, ::2, 1:4],
    "part from 0": lambda x: x[:, :2, :1] + 1,
    "index": lambda x: x[1, ..., None, -1],
    "split": lambda x: x.reshape(2, 5, 3, 2, 3)[:, 1, None],
    "merge": lambda x: x.reshape(10, -1),
    "squeeze": lambda x: np.squeeze(np.expand_dims(x, (0, 2)), 2),
    "concatenate": lambda x: np.concatenate([x, x * 300], 2),
    "stack": stacked,
    "take": lambda x: np.take(x, INDICES, 3),
    "take twice": lambda x: x[:, INDICES[0]][:, :, INDICES[1]],
    "gather": lambda x: data_movement.gather_nd(x, INDICES),
    "tile": lambda x: np.tile(x, (1, 2, 1, 3)),
    "flip": lambda x: np.flip(x, (1, 3)),
    "where": lambda x: WHERE(x > 3, x, -x),
    "choice by rows": lambda x: WHERE(x > 3, x, x[:, :, :, :1]),
    "conditions": lambda x: ~((x > 3) & (x < 50)) | (x == 9),
    "floor": lambda x: x // 7 + x % 5,
    "sign": lambda x: np.sign(x) * (np.abs(x) // 3),
    "top": lambda x: data_movement.top_k(x, 2)[0],
    "top places": lambda x: data_movement.top_k(x, 2)[1].astype(np.int64),
    "update": lambda x: data_movement.dynamic_update_slice(
        x, W[:1, :2, :2, :2], [5, 1, 0, 1]
    ),
    "update with more bits": lambda x: data_movement.dynamic_update_slice(
        x, (W[:1, :2, :2, :2] + 1000).astype(np.int64), [5, 1, 0, 1]
    ),
    "nothing beside nothing": lambda x: np.concatenate([x[:0], x[:0]], 1),
    "float": lambda x: (x.astype(np.float32) / np.float32(3)).astype(np.int64),
}


@pytest.mark.parametrize("name", INTEGER_FORMULAS)
def test_integers(name: str):
    check(INTEGER_FORMULAS[name], X)


FLOAT_FORMULAS: dict[str, Formula] = {
    "arithmetic": lambda x: 1 - np.maximum(x, np.float32(0)) * x + 2 / x,
    "comparison": lambda x: x > 0,
    "rounding": lambda x: np.floor(x) + np.ceil(x) + np.rint(x) + np.trunc(x),
    "sign": lambda x: np.copysign(x, -x) + np.sign(x) + np.abs(x),
    "remainder": lambda x: np.remainder(x, np.float32(0.3)),
    "wide": lambda x: x.astype(np.float64) * 1e-3,
    "number": lambda x: np.where(x > 0, x, 0),
    "product": lambda x: np.prod(x, axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", FLOAT_FORMULAS)
def test_floats(name: str):
    check(FLOAT_FORMULAS[name], FLOATS)


def test_sum_of_words():
    """Sums that need more than 32 bits have 64."""

    def formula(x: Any) -> Any:
        return ((x << 16) * 3).sum(axis=0)

    check(formula, SHORTS)


def taken(indices: Any, x: Any) -> Any:
    return np.take(x, indices, axis=1)


def test_indices_at_run_time():
    check(taken, np.array([3, 0, 2], np.int32), X)


def test_indices_out_of_bounds():
    """They are those of the nearest element, which is in memory."""
    indices = np.array([-1, 100], np.int32)

    (result,) = run_function(module_of(taken, indices, X), "main", indices, X)
    np.testing.assert_array_equal(result, X[:, [0, 4]])


def loop_nests(module: ModuleOp) -> int:
    return len([op for op in module.walk() if isinstance(op, GenericOp)])


def test_one_loop_nest():
    """A formula of elements, slices and a broadcast is one nest of loops."""

    def formula(x: Any) -> Any:
        rows = x[:, None, ::-1] + 1
        return WHERE(rows > 3, rows * rows, rows - 7)

    assert loop_nests(module_of(formula, SHORTS)) == 1


def test_what_is_broadcast_is_computed_once():
    def formula(x: Any) -> Any:
        return x * (x[:, :1] * x[:, :1])

    assert loop_nests(module_of(formula, SHORTS)) == 2


def test_what_is_read_is_not_computed():
    """A sum has a nest for its zeros and one of its own; the last one reads it."""

    def formula(x: Any) -> Any:
        return x - x.sum(axis=1, keepdims=True)

    assert loop_nests(module_of(formula, SHORTS)) == 3


def test_sums_of_weights_know_their_bounds():
    """Not each weight is as large as the largest one."""
    weights = np.zeros((1, 1 << 9), np.int64)
    weights[0, 3] = 127
    block = Block(arg_types=[TensorType(i16, (2, 1 << 9))])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    x = stored(builder, block.args[0])
    assert (x @ weights.T).computed.bounds == (-127 << 15, 127 << 15)


def test_truth():
    block = Block(arg_types=[TensorType(i8, (2,))])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    x = stored(builder, block.args[0])
    with pytest.raises(TypeError, match="known at run time"):
        bool(x > 0)
    with pytest.raises(TypeError):
        np.linalg.svd(x)  # pyright: ignore[reportCallIssue, reportArgumentType] refused


def test_constants_have_the_smallest_type():
    builder = LoweringBuilder(InsertPoint.at_end(Block()), location=UnknownLoc())
    for array, type_ in (
        (np.array([-128, 127]), i8),
        (np.array([128]), i16),
        (np.array([1 << 15]), i32),
        (np.array([1 << 31]), i64),
        (np.array([True]), i1),
        (np.array([0.5]), f64),
    ):
        assert constant(builder, array).value.type == TensorType(type_, array.shape)
