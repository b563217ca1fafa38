"""Formulas of arrays, built as ops and interpreted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    UnknownLoc,
    f16,
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
from xdsl.dialects.tensor import ExtractSliceOp
from xdsl.ir import Attribute, Block, Region
from xdsl.rewriter import InsertPoint

from xdsl_quant.frontends.tflite.formulas import data_movement, products
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.machines.arith import Condition, FloatExpression, IntegerExpression
from xdsl_quant.machines.expression import ANY_INTEGER, Bounds
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import primitives
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.tensor_expressions import (
    TensorExpression,
    constant,
    constant_tensor,
    plain,
    stored,
    with_expression,
)
from xdsl_quant.transforms.building.tensor_expressions.expressions import (
    InMemoryArray,
    Mapped,
    View,
    storage_type,
)
from xdsl_quant.transforms.building.tensor_expressions.loops import Loops, as_dtype
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches.resources import RESOURCE_BYTES

Array = NDArray[Any]
Formula = Callable[[Any], Any]

TYPES = {
    "i1": i8,
    "u1": i8,
    "i2": i16,
    "u2": i16,
    "i4": i32,
    "i8": i64,
    "f2": f16,
    "f4": f32,
    "f8": f64,
    "b1": i1,
}


def type_of(dtype: np.dtype[Any]) -> Attribute:
    return TYPES[dtype.str[1:]]


def inputs_of(types: Sequence[Attribute]) -> tuple[LoweringBuilder, Block]:
    block = Block(arg_types=types)
    return LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc()), block


def an_input(array: Array, load: Any = stored) -> Any:
    builder, block = inputs_of([TensorType(type_of(array.dtype), array.shape)])
    return load(builder, block.args[0], is_signed=array.dtype.kind != "u")


def a_builder() -> LoweringBuilder:
    return inputs_of([])[0]


def module_of(
    formula: Callable[..., Any], *arrays: Array, load: Any = stored
) -> ModuleOp:
    types = [TensorType(type_of(a.dtype), a.shape) for a in arrays]
    builder, block = inputs_of(types)
    result = formula(
        *(
            load(builder, argument, is_signed=array.dtype.kind != "u")
            for argument, array in zip(block.args, arrays, strict=True)
        )
    )
    assert isinstance(result, TensorExpression)
    value = result.tensor(type_of(result.dtype))
    block.add_op(ReturnOp(value))
    module = ModuleOp([FuncOp("main", (types, [value.type]), Region(block))])
    module.verify()
    return module


def check(formula: Callable[..., Any], *arrays: Array, load: Any = stored):
    """An expression has the shape, the dtype and the elements that an array has."""
    # Stored integers are unbounded.
    is_wide = load is stored
    expected = np.asarray(
        formula(
            *(
                a.astype(np.int64) if is_wide and a.dtype.kind in "iu" else a
                for a in arrays
            )
        )
    )
    signless = [a.view(f"i{a.itemsize}") if a.dtype.kind == "u" else a for a in arrays]
    module = module_of(formula, *arrays, load=load)
    (result,) = run_function(module, "main", *signless)
    if expected.dtype.kind == "u":
        result = result.view(expected.dtype)
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
    "top": lambda x: primitives.top_k(x, 2)[0],
    "top places": lambda x: primitives.top_k(x, 2)[1].astype(np.int64),
    "update": lambda x: primitives.with_part(x, W[:1, :2, :2, :2], [5, 1, 0, 1]),
    "update with more bits": lambda x: primitives.with_part(
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
    "i32": lambda x: (x * 9).astype(np.int32),
    "loaded as i32": lambda x: x.astype(np.int32),
    "loaded as i64": lambda x: x.astype(np.int64),
    "max": lambda x: np.max(x - 9, axis=1),
    "exact sum": lambda x: (x * 0 + np.array([1, 2**-40, 0, 0], "f4")).sum(
        1, dtype="f8"
    ),
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
    x = an_input(np.zeros((2, 1 << 9), np.int16))
    assert (x @ weights.T).computed.bounds == (-127 << 15, 127 << 15)


def test_constants_have_the_smallest_type():
    builder = a_builder()
    for array, type_ in (
        (np.array([-128, 127]), i8),
        (np.array([128]), i16),
        (np.array([1 << 15]), i32),
        (np.array([1 << 31]), i64),
        (np.array([True]), i1),
        (np.array([0.5]), f64),
    ):
        assert constant(builder, array).value.type == TensorType(type_, array.shape)


# Small arrays

Y = np.array([[-128, 0, 127, 2], [1, -1, 5, -7], [0, 3, -50, 99]], np.int8)
BYTES = np.array([[0, 1, 127], [128, 200, 255]], np.uint8)
TRUTHS = np.array([[True, False, True], [False, True, True]])
STACK: Any = np.stack
TAKEN = np.array([2, 0, 2])


def repeated(value: Any) -> Callable[[Any], Any]:
    """A number that no tensor has, as often as there are elements."""
    dtype = np.asarray(value).dtype
    return lambda y: WHERE(np.True_, value, y.astype(dtype))


SMALL_FORMULAS: dict[str, Formula] = {
    "rows": lambda y: STACK([*y]),
    "rows by number": lambda y: STACK([y[i] for i in range(len(y))]),
    "product with itself": lambda y: y[:, :3] @ y[:, :3],
    "the same array": lambda y: (lambda z: z @ z)(y[:, :3]),
    "sum of squares": lambda y: np.einsum("ij,ij->i", y, y),
    "reshape": lambda y: y.reshape(2, -1),
    "reshape to one dimension": lambda y: y.reshape(-1),
    "reshape to a tuple": lambda y: y.reshape((4, 3)),
    "reshape to a NumPy size": lambda y: y.reshape(np.int64(12)),
    "new inner dimension": lambda y: (y + 1).reshape(3, 2, 1, 2),
    "T": lambda y: y.T,
    "transpose": lambda y: y.transpose() * 2,
    "transpose to an order": lambda y: y[None].transpose((2, 0, 1)),
    "transpose of one dimension": lambda y: y.reshape(-1).transpose(0),
    "transpose without a move": lambda y: (y[:, None] + 1).transpose(1, 0, 2),
    "max": lambda y: y.max(axis=1),
    "max of all": lambda y: y.max(),
    "min": lambda y: y.min(axis=0),
    "min that keeps dimensions": lambda y: y.min(axis=0, keepdims=True),
    "mean": lambda y: y.astype(np.float32).mean(axis=0),
    "mean of all": lambda y: y.astype(np.float32).mean(),
    "mean that keeps dimensions": lambda y: y.astype(np.float32).mean(
        axis=1, keepdims=True
    ),
    "mean of integers": lambda y: y.mean(axis=1, dtype=np.float64),
    "narrow mean of integers": lambda y: y.mean(axis=0, dtype=np.float32),
    "sum of floats": lambda y: y.sum(axis=1, dtype=np.float32),
    "sum of one row": lambda y: y[:1].sum(axis=0),
    "product with one column": lambda y: y[:, :1] @ y[:1],
    "sum of truth values": lambda y: (y > 0).sum(axis=0),
    "max of truth values": lambda y: np.max(y > 3, axis=1),
    "not the max of truth values": lambda y: ~np.max(y > 3, axis=1),
    "product": lambda y: np.prod(y[1:, 2:] * 300, axis=1),
    "large product": lambda y: np.prod(y[:, ::2] - 1000, axis=(0, 1)),
    "argmax": lambda y: np.argmax(y, axis=0),
    "argmin": lambda y: np.argmin(y, axis=-1) + 1,
    "argmax of floats": lambda y: np.argmax(y.astype(np.float32), axis=-1),
    "argmin of floats": lambda y: np.argmin(y.astype(np.float32), axis=0),
    "argmax of equals": lambda y: np.argmax(y > 0, axis=1),
    "as truth values": lambda y: y.astype(np.bool_),
    "choice by integers": lambda y: WHERE(y, 3, 4),
    "choice of truth values": lambda y: WHERE(y > 0, y > 5, False),
    "choice of known truth values": lambda y: WHERE(y > 0, True, False),
    "choice of a float": lambda y: WHERE(y > 0, y, 1.5),
    "choice of floats": lambda y: WHERE(y > 0, 0.1, 2.5),
    "choice of a truth value and a number": lambda y: WHERE(y > 0, y > 5, 3),
    "one known condition": lambda y: WHERE(np.False_, 1.5, y),
    "known condition": lambda y: WHERE(np.array([[True], [False], [True]]), y, -y),
    "equal known conditions": lambda y: WHERE(np.full((3, 1), False), y, -y),
    "times a float": lambda y: y * 1.5,
    "times a narrow float": lambda y: y * np.array([1.5, 2, 3, 0.1], np.float32),
    "quotient": lambda y: y / 4,
    "half precision": lambda y: y.astype(np.float16) * np.float16(0.5),
    "i8": lambda y: (y * 3).astype(np.int8),
    "ui8": lambda y: (y * 3).astype(np.uint8),
    "i16": lambda y: (y * 3000).astype(np.int16),
    "ui16": lambda y: (y * 3000).astype(np.uint16),
    "i32": lambda y: (y << 30).astype(np.int32),
    "number": repeated(5),
    "numbers": lambda y: repeated(5)(y) + y,
    "wide number": repeated(1 << 40),
    "number as i8": lambda y: repeated(300)(y).astype(np.int8),
    "sum of a number": lambda y: repeated(5)(y).sum(axis=0),
    "sum of a float": lambda y: repeated(np.float64(0.1))(y).sum(axis=1),
    "sum of a narrow float": lambda y: repeated(np.float32(0.5))(y).sum(),
    "argmax of a number": lambda y: np.argmax(repeated(5)(y), axis=0),
    "argmin of a float": lambda y: np.argmin(repeated(np.float32(0.5))(y), axis=0),
    "float": repeated(np.float32(0.1)),
    "wide float": repeated(np.float64(0.1)),
    "truth value": repeated(np.True_),
    "false": repeated(np.False_),
    "sum of repeated rows": lambda y: np.broadcast_to(y[:, None], (3, 5, 4)).sum(
        axis=1
    ),
    "max of repeated rows": lambda y: np.max(
        y[:, None] + np.zeros((5, 1), np.int64), 1
    ),
    "one row": lambda y: y + np.array([[1000]]),
    "different ranks": lambda y: y - np.array([3, 2, 1, 0]) + y[1],
    "truth values": lambda y: WHERE(
        np.array([[True], [False], [True]]) & (y > 0), y, 9
    ),
    "floats": lambda y: y + np.array([0.1, 0.2, 0.3, 0.4], np.float32),
    "floats beside an array": lambda y: np.concatenate(
        [y.astype(np.float32), np.array([[0.5, 2, 3, 4]], np.float32)]
    ),
    "nan": lambda y: WHERE(y > 0, y, np.array([np.nan, 1, 2, 3])),
    "nothing": lambda y: y[:0] + 1,
    "nothing and nothing known": lambda y: y[:0] + np.zeros((0, 4), np.int64),
    "sums of nothing": lambda y: y[:, :0].sum(axis=1) + 3,
    "products of nothing": lambda y: np.prod(y[:0], axis=0),
    "no sums": lambda y: y[:0].sum(axis=1),
    "mean of no rows": lambda y: y[:0].astype(np.float32).mean(axis=1),
    "no weights": lambda y: y[:, :0] @ np.zeros((0, 2), np.int64),
    "weights for no results": lambda y: y @ np.zeros((4, 0), np.int64),
    "reshape of nothing": lambda y: y[:0].reshape(0),
    "reverse": lambda y: (y + 1)[::-1, ::-1],
    "reverse of two": lambda y: y[:2][::-1],
    "reverse and index": lambda y: y[::-1, None, 1],
    "part of a reverse": lambda y: y[::-1][:, :2],
    "odd columns": lambda y: y[::-1, 1::2],
    "part of all dimensions": lambda y: y[:1, :2],
    "index from the end": lambda y: y[-3, -1],
    "reversed rows that are picked": lambda y: np.take(y, TAKEN, 1)[::-1],
    "every second element that is picked": lambda y: np.take(y, TAKEN, 1)[:, ::-2],
    "one row that is picked": lambda y: np.take(y, TAKEN, 1)[1, ::-1],
    "one index": lambda y: np.take(y, np.array([1, 1]), 0),
    "two arrays": lambda y: y[np.array([0, 2]), np.array([3, 1])],
    "two arrays that are broadcast": lambda y: y[
        np.array([[0], [2]]), np.array([3, 1])
    ],
    "two arrays of inner dimensions": lambda y: y.reshape(3, 2, 2, 1)[
        :, np.array([0, 1]), np.array([1, 1])
    ],
    "list": lambda y: y[:, [1, 0]],
    "pad": lambda y: np.pad(y - 3, 1),
    "pad with the largest one": lambda y: np.pad(y - 3, 1, constant_values=124),
    "pad with more": lambda y: np.pad(y - 3, 1, constant_values=125),
    "pad of a sum": lambda y: np.pad(y + y[:, :1], 1),
    "pad of a reverse": lambda y: np.pad(y[::-1] - 1, 1),
    "pad of a choice": lambda y: np.pad(WHERE(y, 3, 4), 1),
    "pad of floats": lambda y: np.pad(y.astype(np.float32) / np.float32(3), 1),
    "split": lambda y: STACK(np.split(y, [1, 2], axis=0)[2]),
}


@pytest.mark.parametrize("name", SMALL_FORMULAS)
def test_small_arrays(name: str):
    check(SMALL_FORMULAS[name], Y)


PLAIN_FORMULAS: dict[str, Formula] = {
    "sum": lambda x: x + x,
    "difference": lambda x: x - x[:1],
    "product": lambda x: x * x * x,
    "shift": lambda x: x << 1,
    "number": lambda x: x * 100,
    "wider": lambda x: x.astype(np.int64) + x,
    "wider from one": lambda x: x + x.astype(np.int64),
    "sign": lambda x: x.astype(np.int8),
    "no sign": lambda x: x.astype(np.uint8),
    "comparison": lambda x: x > 100,
    "equal": lambda x: x == x[:, :1],
    "float": lambda x: x.astype(np.float32) + np.float32(0.5),
    "as integers": lambda x: (x.astype(np.float32) / np.float32(2)).astype(x.dtype),
    "maximum": lambda x: np.maximum(x, 7),
    "clip": lambda x: np.clip(x, 3, 100),
}


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4"])
@pytest.mark.parametrize("name", PLAIN_FORMULAS)
def test_plain_integers(name: str, dtype: str):
    """Their arithmetic wraps around."""
    check(
        PLAIN_FORMULAS[name], (BYTES.astype(np.int64) * 255).astype(dtype), load=plain
    )


UNSIGNED_FORMULAS: dict[str, Formula] = {
    "as it is": lambda x: x,
    "sum": lambda x: x + 1,
    "product": lambda x: x * -x,
    "sums": lambda x: x.sum(axis=1),
    "comparison": lambda x: x > 128,
    "sum with bytes": lambda x: x + BYTES.astype(np.int64),
    "part": lambda x: x[:, 1:] + 1,
    "float": lambda x: x.astype(np.float64),
}


@pytest.mark.parametrize("name", UNSIGNED_FORMULAS)
def test_unsigned_integers(name: str):
    check(UNSIGNED_FORMULAS[name], BYTES)


TRUTH_FORMULAS: dict[str, Formula] = {
    "choice": lambda b: WHERE(b, 3, 4),
    "not": lambda b: ~b,
    "and": lambda b: b & ~b[:1],
    "or with a known one": lambda b: b | np.array([True, False, False]),
    "sum": lambda b: b + 3,
    "product": lambda b: b * 3,
    "sum of both": lambda b: b + b,
    "number": lambda b: b.astype(np.int64),
    "float": lambda b: b.astype(np.float32),
    "sums": lambda b: b.sum(axis=0),
    "any": lambda b: np.max(b, axis=0),
    "beside others": lambda b: np.concatenate([b, ~b]),
}


@pytest.mark.parametrize("name", TRUTH_FORMULAS)
def test_truth_values(name: str):
    check(TRUTH_FORMULAS[name], TRUTHS)


def test_erfc():
    def formula(x: Any) -> Any:
        return primitives.erfc(x)

    x = np.array([-9.0, 0, 30])
    (result,) = run_function(module_of(formula, x), "main", x)
    assert result.tolist() == [2, 1, 0]


def test_folded():
    def step(so_far: Any, element: Any) -> Any:
        return so_far * 2 - element

    def formula(y: Any) -> Any:
        return primitives.folded(y, step)

    arrays = [Y, Y[:, :1], Y[:, :2]]
    for array in arrays:
        module = module_of(formula, array)
        (result,) = run_function(module, "main", array)
        expected = array[:, 0].astype(np.int64)
        for i in range(1, array.shape[1]):
            expected = step(expected, array[:, i])
        np.testing.assert_array_equal(result, expected, strict=True)


def test_scaled_total():
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**28), 2**28, (5, 3, 2)).astype(np.int32)
    scales = rng.normal(0, 1, (5, 1, 2)).astype(np.float32)
    start = rng.normal(0, 1e8, (3, 2)).astype(np.float32)

    def formula(x: Any) -> Any:
        return primitives.scaled_total(x, scales, start)

    (result,) = run_function(module_of(formula, values), "main", values)
    np.testing.assert_array_equal(result, formula(values), strict=True)
    # Exact sums of products, each rounded once.
    for row, column in np.ndindex(3, 2):
        total = Fraction(float(start[row, column]))
        for value, scale in zip(
            values[:, row, column], scales[:, 0, column], strict=True
        ):
            product = Fraction(float(np.float32(value))) * Fraction(float(scale))
            total = Fraction(float(nearest_f32(total + product)))
        assert result[row, column] == float(total)


def nearest_f32(number: Fraction) -> np.float32:
    """The nearest `f32` of a number, which may be between two numbers of `f64`."""
    near = np.float32(float(number))
    around = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    return min((near, *around), key=lambda x: abs(Fraction(float(x)) - number))


def test_entries_of_a_table():
    table = np.array([5, 1000, -3])
    indices = np.array([[2, 0], [1, 1]], np.int8)

    def formula(x: Any) -> Any:
        return primitives.lookup(table, x)

    module = module_of(formula, indices)
    (result,) = run_function(module, "main", indices)
    np.testing.assert_array_equal(result, table[indices], strict=True)


@pytest.mark.parametrize("index", [-2, 3, 100])
def test_one_index_out_of_bounds(index: int):
    """It is that of the nearest element, too, if it is known."""
    indices = np.full(2, index)
    (result,) = run_function(module_of(partial(taken, indices), Y), "main", Y)
    np.testing.assert_array_equal(result, Y[:, [min(max(index, 0), 3)] * 2])


ERRORS: list[tuple[Formula, type[Exception], str]] = [
    (lambda y: y[3], IndexError, "index 3 is out of bounds for a size of 3"),
    (lambda y: y[:, -5], IndexError, "index -5 is out of bounds for a size of 4"),
    (
        lambda y: y.reshape(5, 3),
        ValueError,
        "cannot reshape array of size 12 into shape (5, 3)",
    ),
    (
        lambda y: np.squeeze(y, 0),
        ValueError,
        "cannot squeeze a dimension whose size is not 1",
    ),
    (
        lambda y: np.split(y, 2),
        ValueError,
        "a size of 3 cannot be split into 2 equal parts",
    ),
    (
        lambda y: bool(y[0, 0] > 0),
        Unsupported,
        "has a condition that is known only at run time",
    ),
]


@pytest.mark.parametrize(
    ("formula", "error", "message"), ERRORS, ids=range(len(ERRORS))
)
def test_errors(formula: Formula, error: type[Exception], message: str):
    with pytest.raises(error) as raised:
        formula(an_input(Y))
    assert str(raised.value) == message


INDICES_WITH_ARRAYS: list[Formula] = [
    lambda y: y[1:, [0, 2]],
    lambda y: y[[0, 2], 1],
    lambda y: y[[0, 2], :2],
    lambda y: y[None, [0, 2]],
    lambda y: y[:, None][[0, 2], :, [1, 2]],
]


@pytest.mark.parametrize(
    "formula", INDICES_WITH_ARRAYS, ids=range(len(INDICES_WITH_ARRAYS))
)
def test_unsupported_indices(formula: Formula):
    with pytest.raises(IndexError) as raised:
        formula(an_input(Y))
    assert str(raised.value) == (
        "unsupported index: expected adjacent index arrays, and full slices "
        "in all other dimensions"
    )


UNKNOWN: list[Formula] = [
    np.linalg.svd,
    np.add.reduce,
    lambda y: np.add(y, 1, dtype=np.int8),
    lambda y: np.add.at(y, 0, 1),
]


@pytest.mark.parametrize("formula", UNKNOWN, ids=range(len(UNKNOWN)))
def test_functions_without_a_form(formula: Formula):
    with pytest.raises(TypeError):
        formula(an_input(Y))


def test_too_wide():
    message = rf"^has values from 0 to {1 << 63}, which need more than 64 bits$"
    with pytest.raises(Unsupported, match=message):
        storage_type((0, 1 << 63))


# What is built


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], bool]] = [
    ((6,), (2, 3), True),
    ((6, 4), (2, 3, 4), True),
    ((2, 3), (2, 1, 3), True),
    ((2, 3), (1, 2, 3, 1), True),
    ((4,), (2, 2), True),
    ((2, 1, 3), (2, 3), True),
    ((1, 8), (2, 1, 4), True),
    ((2, 3), (6,), False),
    ((2, 6), (3, 4), False),
    ((5, 0), (0,), False),
    ((0,), (0, 5), False),
]


@pytest.mark.parametrize(("old", "new", "is_view"), SHAPES, ids=str)
def test_split_dimensions_are_views(
    old: tuple[int, ...], new: tuple[int, ...], *, is_view: bool
):
    """What splits dimensions alone builds no op."""
    x = an_input(np.zeros(old, np.int8)).reshape(new)
    assert isinstance(x, View) == is_view
    assert bool([*x.builder.insertion_point.block.ops]) != is_view


NESTS: list[tuple[Formula, int]] = [
    (lambda y: (y + 1)[:, None], 1),
    (lambda y: (y + 1)[:, 2:], 2),
    (lambda y: (y + 1).reshape(3, 2, 2), 1),
    (lambda y: (y[:, None] + 1).transpose(1, 0, 2), 1),
    (lambda y: (y + 1).transpose(0, 1), 1),
    (lambda y: np.take(y, [1], 0), 1),
]


@pytest.mark.parametrize(("formula", "count"), NESTS, ids=range(len(NESTS)))
def test_loop_nests(formula: Formula, count: int):
    assert loop_nests(module_of(formula, Y)) == count


def test_parts_of_tensors():
    """A part of a tensor is a slice with the bounds of the tensor."""
    part = an_input(Y)[:2, 1:]
    assert isinstance(part, InMemoryArray)
    assert isinstance(part.value.owner, ExtractSliceOp)
    assert part.bounds == (-128, 127)


PADDED: list[tuple[list[int], Formula, int, bool]] = [
    ([-3, 9], lambda x: x - 3, 0, True),
    ([-3, 9], lambda x: x - 3, -6, True),
    ([-3, 9], lambda x: x - 3, 6, True),
    ([-3, 9], lambda x: x - 3, 7, False),
    ([-3, 9], lambda x: x * 2, 3, False),
    ([-3, 9], lambda x: x + x, 0, False),
    ([-3, 9], lambda x: x[::-1] + 1, 0, False),
    ([-3, 9], lambda x: WHERE(x, 3, 0), 0, False),
    ([-3, 9], lambda x: x.astype(np.float32), 0, False),
    ([-3, 9], lambda x: x > 3, 0, False),
    ([40_000, 40_010], lambda x: x - 40_000, 0, True),
    ([0, 1 << 16], lambda x: x - 1, 0, True),
    ([0, (1 << 16) + 1], lambda x: x - 1, 0, False),
]


@pytest.mark.parametrize(
    ("elements", "formula", "value", "expected"), PADDED, ids=range(len(PADDED))
)
def test_what_is_padded(
    elements: list[int], formula: Formula, value: int, *, expected: bool
):
    """It is what is in memory if an element in its bounds gives the value."""
    x = constant(a_builder(), np.array(elements))
    padded = np.pad(formula(x), 1, constant_values=value)
    assert isinstance(padded, Mapped) == expected


def test_names_of_arguments():
    """All that a loop nest reads is called `in`, also what only says how often it runs."""
    formulas: list[Formula] = [
        lambda y: y.sum(axis=1),
        lambda y: repeated(5)(y).sum(axis=1),
    ]
    for formula in formulas:
        module = module_of(formula, Y)
        op, *_ = (op for op in module.walk() if isinstance(op, GenericOp) and op.inputs)
        assert [a.name_hint for a in op.regions[0].block.args] == ["in", "out"]


# Types and bounds


@pytest.mark.parametrize("bits", [4, 8, 12, 16, 32, 64])
def test_stored_and_plain(bits: int):
    builder, block = inputs_of([TensorType(IntegerType(bits), [2])])
    half = 1 << (bits - 1)
    letters = {True: "i", False: "u"}
    for is_signed, bounds in ((True, (-half, half - 1)), (False, (0, 2 * half - 1))):
        integers = stored(builder, block.args[0], is_signed=is_signed)
        assert (integers.dtype, integers.bounds) == (np.int64, bounds)
        integers = plain(builder, block.args[0], is_signed=is_signed)
        assert integers.dtype == np.dtype(f"{letters[is_signed]}{-(-bits // 8)}")
        assert integers.bounds == bounds
    assert plain(builder, block.args[0]).bounds == (-half, half - 1)
    assert stored(builder, block.args[0]).bounds == (-half, half - 1)


def test_wide_bounds_are_unsigned():
    """An element is extended with zeros if its type has no such signed number."""
    builder, block = inputs_of([TensorType(i8, [1])])
    for largest, type_ in ((127, i8), (128, i32)):
        x = InMemoryArray(builder, block.args[0], np.dtype(np.int64), (0, largest))
        scalar: Any = x.element(Loops(builder), ())
        assert scalar.value.type == type_


def integer(bounds: Bounds) -> IntegerExpression:
    builder, block = inputs_of([i64])
    return IntegerExpression(builder, block.args[0], bounds)


INTEGER_DTYPES: list[tuple[Bounds, str, Bounds | None]] = [
    ((0, 255), "u1", None),
    ((0, 0), "u1", None),
    ((5, 200), "u1", None),
    ((0, 256), "u1", (0, 255)),
    ((300, 400), "u1", (0, 255)),
    ((-1, 255), "u1", (0, 255)),
    ((-5, -1), "u1", (0, 255)),
    ((0, 65535), "u2", None),
    ((0, 65536), "u2", (0, 65535)),
    ((-128, 127), "i1", None),
    ((-129, 127), "i1", (-128, 127)),
    ((0, 255), "i1", (-128, 127)),
    ((-(1 << 31), 1 << 31), "i4", (-(1 << 31), (1 << 31) - 1)),
    ((-5, 1 << 40), "i8", None),
    ((-5, 1 << 40), "u8", None),
]


@pytest.mark.parametrize(("bounds", "dtype", "expected"), INTEGER_DTYPES, ids=str)
def test_integers_as_dtypes(bounds: Bounds, dtype: str, expected: Bounds | None):
    """What is within the bounds of a dtype is itself, if there are none expected."""
    x = integer(bounds)
    result: Any = as_dtype(x, np.dtype(dtype))
    if expected is None:
        assert result is x
    else:
        assert result.bounds == expected


def test_conditions_as_truth_values():
    condition: Any = integer((0, 3)) > 1
    assert as_dtype(condition, np.dtype(np.bool_)) is condition


def test_bounds():
    x = an_input(Y)
    assert (x - 3).computed.bounds == (-131, 124)
    assert (x[:0] - 3).computed.bounds == (0, 0)
    assert (x > 3).computed.bounds == ANY_INTEGER
    assert x.astype(np.float32).computed.bounds == ANY_INTEGER
    assert repeated(5)(x).computed.bounds == (5, 5)
    assert np.argmax(x, axis=0).computed.bounds == (0, 2)
    assert np.prod(x, axis=0).computed.bounds == ANY_INTEGER
    assert WHERE(x > 3, 1.5, 2.5).astype(np.int64).computed.bounds == (1, 2)


SUM_BOUNDS: list[tuple[Formula, Bounds]] = [
    (lambda y: y.sum(axis=1), (-512, 508)),
    (lambda y: y[:, :0].sum(axis=1), (0, 0)),
    # These are those of all sums on the way.
    (lambda y: (y + 200).sum(axis=1), (0, 4 * 327)),
    (lambda y: (y - 200).sum(axis=1), (-4 * 328, 0)),
    (lambda y: y.max(axis=1), (-128, 127)),
    (lambda y: y @ y.T, (-4 * 128 * 127, 4 << 14)),
    (lambda y: y @ np.array([[1, 0], [0, 1], [0, 0], [0, 0]]), (-128, 128)),
    (lambda y: y @ np.array([[9, 1], [1, 1], [0, -1], [0, 1]]), (-1280, 1280)),
    (lambda y: y @ np.full((4, 2), -128, np.int8), (-(127 << 9), 1 << 16)),
    (lambda y: y @ np.array([[0, -128]] * 4, np.int8), (-(127 << 9), 1 << 16)),
    (lambda y: y @ np.zeros((4, 2), np.int64), (0, 0)),
    (lambda y: y @ np.zeros((4, 0), np.int64), ANY_INTEGER),
    (lambda y: y[:, :0] @ np.zeros((0, 2), np.bool_), (0, 0)),
    (lambda y: y @ np.zeros((4, 0), np.bool_), (0, 0)),
    (
        lambda y: (y > 0).astype(np.int64) @ np.array([[(1 << 60) + 1], [1], [0], [0]]),
        (0, (1 << 60) + 2),
    ),
]


@pytest.mark.parametrize(
    ("formula", "expected"), SUM_BOUNDS, ids=range(len(SUM_BOUNDS))
)
def test_bounds_of_sums(formula: Formula, expected: Bounds):
    assert formula(an_input(Y)).computed.bounds == expected


def test_nothing():
    """Empty results have a builder and a dtype, too."""
    x = an_input(Y)
    for result in (x[:0] + 1, x[:0].sum(axis=1), np.prod(x[:, :0], axis=1)):
        assert result.computed.builder is x.builder
        assert result.computed.dtype == np.int64
    assert np.max(x[:0], axis=1).dtype == np.int64


# Constants


def test_known_arrays():
    builder = a_builder()
    integers = constant(builder, np.array([3, 300]))
    assert integers.bounds == (3, 300)
    bytes_ = integers.astype(np.uint8)
    assert bytes_.builder is builder
    assert (bytes_.dtype, bytes_.computed.bounds) == (np.uint8, (3, 44))
    floats = integers.astype(np.float32, copy=False)
    assert (floats.dtype, floats.computed.bounds) == (np.float32, ANY_INTEGER)


FLOAT_ELEMENTS: list[tuple[list[float], tuple[float, float], bool]] = [
    ([1, 2.5, -3], (-3, 2.5), False),
    ([1, np.inf], (1, np.inf), False),
    ([-np.inf, np.inf], (-np.inf, np.inf), False),
    ([1, np.nan, 3], (-np.inf, np.inf), True),
]


@pytest.mark.parametrize(("elements", "bounds", "may_be_nan"), FLOAT_ELEMENTS, ids=str)
def test_bounds_of_known_floats(
    elements: list[float], bounds: tuple[float, float], *, may_be_nan: bool
):
    builder = a_builder()
    scalar = constant(builder, np.array(elements)).element(Loops(builder), ())
    assert isinstance(scalar, FloatExpression)
    assert (scalar.bounds, scalar.may_be_nan) == (bounds, may_be_nan)


def test_equal_elements_are_numbers():
    builder = a_builder()
    for array in (np.array([7]), np.full((2, 3), 7), np.full(1 << 17, 7)):
        assert constant(builder, array).element(Loops(builder), ()) == 7
    truths = constant(builder, np.array([True, False]))
    assert isinstance(truths.element(Loops(builder), ()), Condition)


RESOURCES: list[tuple[int, Attribute, bool]] = [
    (RESOURCE_BYTES, i8, True),
    (RESOURCE_BYTES - 1, i8, False),
    (RESOURCE_BYTES, IntegerType(4), False),
    (RESOURCE_BYTES, i1, False),
    (RESOURCE_BYTES // 2, i16, True),
    (RESOURCE_BYTES // 8, f64, True),
]


@pytest.mark.parametrize(("size", "type_", "is_resource"), RESOURCES, ids=str)
def test_large_constants_are_resources(
    size: int, type_: Attribute, *, is_resource: bool
):
    value = constant_tensor(a_builder(), np.arange(size) % 2, type_)
    assert value.type == TensorType(type_, [size])
    assert isinstance(value.owner, ConstantOp)
    attribute = value.owner.value
    assert isinstance(attribute, DenseResourceAttr | DenseIntOrFPElementsAttr)
    assert attribute.type == TensorType(type_, [size])
    assert isinstance(attribute, DenseResourceAttr) == is_resource
    if isinstance(attribute, DenseResourceAttr):
        assert attribute.resource_handle.data.startswith("constant")


def test_with_expression():
    x = an_input(Y)
    assert with_expression(x) is x
    number = with_expression(3, 4, x)
    assert number.builder is x.builder
    assert (number.shape, number.computed.bounds) == ((), (3, 3))
