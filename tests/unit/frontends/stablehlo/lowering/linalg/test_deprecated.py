"""Deprecated ops, compared with StableHLO's own interpreter and NumPy."""

import numpy as np
import pytest

from tests.real_stablehlo import RealStableHLO
from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    Array,
    function,
    run,
    same_bits,
    tensor,
)
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module


def numbers(*shape: int) -> Array:
    return np.random.default_rng(shape).integers(-9, 9, shape).astype(np.float32)


def one_op(op: str, *types: str) -> str:
    *operands, result = types
    text = f"{op} : ({', '.join(operands)}) -> {result}"
    return function(operands, [text], [result])


def undeprecated(text: str, *arguments: Array) -> Array:
    """The result of the op that replaces a deprecated one in StableHLO."""
    passes = "stablehlo-legalize-deprecated-ops"
    (result,) = RealStableHLO().results(text, *arguments, passes=passes)
    return result


@pytest.mark.parametrize("sizes", ["", "3", "2, 3", "0"])
def test_broadcast(sizes: str):
    value = numbers(2, 4)
    shape = [*map(int, filter(None, sizes.split(", "))), 2, 4]
    op = f"stablehlo.broadcast %0, sizes = [{sizes}]"
    (actual,) = run(one_op(op, "tensor<2x4xf32>", tensor(shape, "f32")), value)
    same_bits(actual, np.broadcast_to(value, shape))


@pytest.mark.parametrize(
    "shapes", [([3], [3]), ([2, 3], [3]), ([3], [3, 4]), ([2, 3], [3, 4])]
)
def test_dot(shapes: tuple[list[int], list[int]]):
    arguments = [numbers(*shape) for shape in shapes]
    result = [*shapes[0][:-1], *shapes[1][1:]]
    types = [tensor(shape, "f32") for shape in (*shapes, result)]
    text = one_op("stablehlo.dot %0, %1", *types)
    (actual,) = run(text, *arguments)
    same_bits(actual, undeprecated(text, *arguments))
    same_bits(actual, np.dot(*arguments))


@pytest.mark.parametrize(
    ("config", "shapes"),
    [
        ("ab,bc->ac", [(2, 3), (3, 4)]),
        ("abc,acd->abd", [(2, 3, 4), (2, 4, 5)]),
        ("ab,cb->ca", [(2, 3), (4, 3)]),
        ("ab,ab->", [(2, 3), (2, 3)]),
        ("a,b->ba", [(2,), (3,)]),
        ("aab,b->a", [(2, 2, 3), (3,)]),
        ("ab,c->a", [(2, 3), (4,)]),
        ("ab->a", [(2, 3)]),
        ("ab->ba", [(2, 3)]),
        ("aa->a", [(3, 3)]),
        ("aa->", [(3, 3)]),
    ],
)
def test_einsum(config: str, shapes: list[tuple[int, ...]]):
    arguments = [numbers(*shape) for shape in shapes]
    expected = np.asarray(np.einsum(config, *arguments))
    operands = ", ".join(f"%{i}" for i in range(len(shapes)))
    name = "einsum" if len(shapes) == 2 else "unary_einsum"
    op = f'stablehlo.{name} {operands}, config = "{config}"'
    types = [tensor(shape, "f32") for shape in (*shapes, expected.shape)]
    (actual,) = run(one_op(op, *types), *arguments)
    same_bits(actual, expected)


@pytest.mark.parametrize(
    ("config", "result", "message"),
    [
        ("ab,bc", (2, 4), "configuration 'ab,bc', expected a letter for each"),
        ("...a,ab->...b", (2, 4), "expected a letter for each dimension"),
        ("ab,bc->ad", (2, 4), "expected a letter for each dimension"),
        ("ab,ac->bc", (3, 4), "sizes 2 and 3 of one dimension"),
        ("ab,bc->ac", (4, 2), "result of type 'tensor<4x2xf32>', expected sizes 2, 4"),
    ],
)
def test_refused_einsum(config: str, result: tuple[int, ...], message: str):
    types = [tensor(shape, "f32") for shape in ((2, 3), (3, 4), result)]
    module = parse_module(
        one_op(f'stablehlo.einsum %0, %1, config = "{config}"', *types)
    )
    with pytest.raises(IRError, match=message):
        apply_passes(module, "convert-stablehlo-to-linalg")


@pytest.mark.parametrize(
    ("shapes", "dim", "batch_dims"),
    [
        (((5, 3), (2,)), 0, 0),
        (((5, 3), (2, 4)), 1, 0),
        (((2, 5, 3), (2, 4)), 1, 1),
        (((2, 5, 3), (2,)), 2, 1),
        (((5,), ()), 0, 0),
        (((2, 5, 3), (2, 4)), -1, -1),
    ],
)
def test_torch_index_select(
    shapes: tuple[tuple[int, ...], ...], dim: int, batch_dims: int
):
    table, length = numbers(*shapes[0]), shapes[0][dim]
    indices = np.random.default_rng(1).integers(0, length, shapes[1]).astype(np.int32)
    at = dim % len(shapes[0])
    batch = batch_dims + (len(shapes[1]) if batch_dims < 0 else 0)
    if batch:
        parts = zip(table, indices, strict=True)
        expected = np.stack([np.take(one, i, at - 1) for one, i in parts])
    else:
        expected = np.take(table, indices, at)
    types = (
        tensor(shapes[0], "f32"),
        tensor(shapes[1], "i32"),
        tensor(expected.shape, "f32"),
    )
    text = one_op(
        f'"stablehlo.torch_index_select"(%0, %1) <{{batch_dims = {batch_dims} : i64, '
        f"dim = {dim} : i64}}>",
        *types,
    )
    (actual,) = run(text, table, indices)
    same_bits(actual, expected)


def test_refused_torch_index_select():
    for result, message in (
        ("tensor<2x4xf32>", "result of type 'tensor<2x4xf32>', expected sizes 2, 3"),
        ("tensor<2x3xf64>", "has a result of 'f64', expected elements of the operand"),
    ):
        properties = "<{batch_dims = 0 : i64, dim = 0 : i64}>"
        op = f'"stablehlo.torch_index_select"(%0, %1) {properties}'
        module = parse_module(one_op(op, "tensor<5x3xf32>", "tensor<2xi32>", result))
        with pytest.raises(IRError, match=message):
            apply_passes(module, "convert-stablehlo-to-linalg")
