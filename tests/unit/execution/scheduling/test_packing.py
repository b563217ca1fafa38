"""Products of bytes of which neither factor is constant: sums are exact."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.execution.scheduling.guarded_memory import before_no_page
from tests.unit.execution.scheduling.test_byte_products import kept, number, some
from xdsl_quant.execution import compile
from xdsl_quant.runtime.loading import apply_passes, parse_module

pytestmark = pytest.mark.usefixtures("byte_products")

RNG = np.random.default_rng(0)

Extend = tuple[str, str]


def product(
    einsum: str,
    shapes: tuple[Sequence[int], Sequence[int]],
    extend: Extend = ("extsi", "extsi"),
    zero_points: tuple[int, int] = (0, 0),
    *,
    is_requantized: bool = False,
) -> str:
    """
    A function of two factors and of the initial sums, which are 0 if it requantizes.

    Args:
        einsum: the dimensions, as `np.einsum` has them.
        shapes: those of the factors.
        extend: how they are converted to i32.
        zero_points: what is subtracted from them.
        is_requantized: whether sums are halved until they fit i8.
    """
    names, result = einsum.split("->")
    lhs_names, rhs_names = names.split(",")
    sizes = dict(zip(lhs_names + rhs_names, [*shapes[0], *shapes[1]], strict=True))
    loops = result + "".join(sorted({*sizes} - {*result}))

    def tensor(names: str, element: str) -> str:
        return "tensor<" + "".join(f"{sizes[n]}x" for n in names) + f"{element}>"

    def map_(names: str) -> str:
        return f"affine_map<({', '.join(loops)}) -> ({', '.join(names)})>"

    kinds = [f'"{"parallel" if n in result else "reduction"}"' for n in loops]
    maps = ", ".join(map(map_, (lhs_names, rhs_names, result)))
    lhs, rhs = tensor(lhs_names, "i8"), tensor(rhs_names, "i8")
    sums, last = tensor(result, "i32"), tensor(result, "i8")
    every = ", ".join(['"parallel"'] * len(result))
    identity = f"affine_map<({', '.join(result)}) -> ({', '.join(result)})>"
    start = f"%start = tensor.cast %c : {sums} to {sums}"
    end = f"return %0 : {sums}"
    if is_requantized:
        start = f"""
  %zero = arith.constant 0 : i32
  %es = tensor.empty() : {sums}
  %start = linalg.fill ins(%zero : i32) outs(%es : {sums}) -> {sums}"""
        end = f"""
  %er = tensor.empty() : {last}
  %low = arith.constant -128 : i32
  %high = arith.constant 127 : i32
  %five = arith.constant 5 : i32
  %r = linalg.generic {{indexing_maps = [{identity}, {identity}],
      iterator_types = [{every}]}} ins(%0 : {sums}) outs(%er : {last}) {{
  ^bb0(%s: i32, %o: i8):
    %h = arith.shrsi %s, %five : i32
    %m = arith.maxsi %h, %low : i32
    %n = arith.minsi %m, %high : i32
    %y = arith.trunci %n : i32 to i8
    linalg.yield %y : i8
  }} -> {last}
  return %r : {last}"""
    return f"""
func.func @f(%a: {lhs}, %b: {rhs}, %c: {sums}) -> {last if is_requantized else sums} {{
  %lz = arith.constant {zero_points[0]} : i32
  %rz = arith.constant {zero_points[1]} : i32
  {start}
  %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{", ".join(kinds)}]}}
      ins(%a, %b : {lhs}, {rhs}) outs(%start : {sums}) {{
  ^bb0(%l: i8, %r: i8, %s: i32):
    %le = arith.{extend[0]} %l : i8 to i32
    %re = arith.{extend[1]} %r : i8 to i32
    %ld = arith.subi %le, %lz : i32
    %rd = arith.subi %re, %rz : i32
    %p = arith.muli %ld, %rd : i32
    %t = arith.addi %s, %p : i32
    linalg.yield %t : i32
  }} -> {sums}
  {end}
}}"""


def check(
    einsum: str,
    shapes: tuple[Sequence[int], Sequence[int]],
    extend: Extend = ("extsi", "extsi"),
    zero_points: tuple[int, int] = (0, 0),
    *,
    is_requantized: bool = False,
    **options: Any,
) -> None:
    """Compare with NumPy's integers."""
    x, y = (some(*shape) for shape in shapes)
    products: NDArray[np.int64] = np.einsum(
        einsum,
        number(x, extend[0], zero_points[0]),
        number(y, extend[1], zero_points[1]),
    )
    start = RNG.integers(-99, 99, products.shape).astype(np.int32)
    text = product(einsum, shapes, extend, zero_points, is_requantized=is_requantized)
    assert kept(text) == 1
    if is_requantized:
        expected = (products.astype(np.int32) >> 5).clip(-128, 127)
    else:
        expected = (products + start).astype(np.int32)
    assert compile(text, **options)(x, y, start).tolist() == expected.tolist()


LAYOUTS = "mk,kn->mn", "mk,nk->mn"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("einsum", LAYOUTS)
@pytest.mark.parametrize("depth", [1, 3, 4, 66, 189])
@pytest.mark.parametrize("columns", [2, 16, 17, 65, 130])
def test_sizes(einsum: str, depth: int, columns: int):
    rhs = (depth, columns) if "kn" in einsum else (columns, depth)
    check(einsum, ((13, depth), rhs), zero_points=(3 * (columns % 2), depth % 2))


@pytest.mark.parametrize("einsum", LAYOUTS)
@pytest.mark.parametrize(
    "zero_points",
    [(0, 0), (-128, 0), (0, -128), (127, 128), (5, 1), (1 << 30, -(1 << 31))],
)
@pytest.mark.parametrize("extend", [("extsi", "extsi"), ("extui", "extui")])
def test_signs_and_zero_points(
    einsum: str, zero_points: tuple[int, int], extend: Extend
):
    depth = 70 if zero_points[0] else 3
    rhs = (depth, 20) if "kn" in einsum else (20, depth)
    check(einsum, ((5, depth), rhs), extend, zero_points, is_requantized=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("einsum", "shapes"),
    [
        ("bmk,bkn->bmn", ((3, 5, 9), (3, 9, 20))),
        ("bmk,bnk->bmn", ((3, 5, 9), (3, 20, 9))),
        ("abmk,abnk->abmn", ((2, 3, 5, 9), (2, 3, 20, 9))),
        # Heads beside each other
        ("bmhk,bnhk->bhmn", ((2, 5, 3, 8), (2, 20, 3, 8))),
        ("bhmn,bnhk->bmhk", ((2, 3, 5, 9), (2, 9, 3, 20))),
        # Several matrices for the same rows, and several loops over what is summed up
        ("mk,bkn->bmn", ((5, 9), (3, 9, 20))),
        ("mk,kbn->mbn", ((5, 9), (9, 3, 20))),
        ("bmk,kn->bmn", ((2, 5, 9), (9, 20))),
        ("mjk,jkn->mn", ((5, 3, 9), (3, 9, 20))),
        ("mjk,kjn->mn", ((5, 3, 9), (9, 3, 20))),
        ("mjk,njk->mn", ((5, 3, 9), (20, 3, 9))),
        ("mjik,jnik->mn", ((5, 3, 2, 9), (3, 20, 2, 9))),
        # Bytes of the left factor that are summed up are not beside each other.
        ("km,kn->mn", ((70, 37), (70, 20))),
        ("km,kn->mn", ((64, 32), (64, 20))),
        ("km,nk->mn", ((9, 5), (20, 9))),
        ("bkm,bnk->bmn", ((3, 9, 5), (3, 20, 9))),
        ("jkm,jkn->mn", ((3, 9, 5), (3, 9, 20))),
        ("kjm,jkn->mn", ((9, 3, 5), (3, 9, 20))),
        ("bkhm,bnhk->bhmn", ((2, 9, 3, 5), (2, 20, 3, 9))),
        ("km,bkn->bmn", ((9, 5), (3, 9, 20))),
        # The right factor comes first.
        ("kn,mk->mn", ((9, 20), (5, 9))),
        ("nk,mk->mn", ((20, 9), (5, 9))),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_layouts(
    einsum: str,
    shapes: tuple[Sequence[int], Sequence[int]],
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(
        "xdsl_quant.execution.scheduling.byte_products._MIN_THREADED_PRODUCTS", 1
    )
    check(einsum, shapes, zero_points=(3, -5), threads=threads)
    check(
        einsum,
        shapes,
        ("extui", "extui"),
        (3, 128),
        is_requantized=True,
        threads=threads,
    )


def test_random_shapes():
    for _ in range(12):
        b, m, k, n = (
            int(RNG.integers(*ends)) for ends in ((2, 4), (4, 30), (1, 150), (2, 90))
        )
        einsum = str(RNG.choice(["bmk,bkn->bmn", "bmk,bnk->bmn"]))
        rhs = (b, k, n) if "bkn" in einsum else (b, n, k)
        lz, rz = RNG.integers(-128, 256, 2).tolist()
        extend = tuple(RNG.choice(["extsi", "extui"], 2).tolist())
        check(einsum, ((b, m, k), rhs), extend, (lz, rz))


@pytest.mark.parametrize(
    ("einsum", "shapes"),
    [
        # Too few rows to pack a matrix
        ("mk,kn->mn", ((1, 9), (9, 20))),
        # Neither columns nor rows of the right factor beside each other
        ("mk,knj->mn", ((5, 9), (9, 20, 2))),
        # No columns
        ("mk,k->m", ((5, 9), (9,))),
        # Columns in both factors
        ("mnk,kn->mn", ((5, 20, 9), (9, 20))),
    ],
)
def test_other_contractions_stay(
    einsum: str, shapes: tuple[Sequence[int], Sequence[int]]
):
    text = product(einsum, shapes)
    assert kept(text) == 0
    x, y = (some(*shape) for shape in shapes)
    expected = np.einsum(einsum, x.astype(np.int32), y.astype(np.int32))
    start = np.zeros(expected.shape, np.int32)
    assert compile(text)(x, y, start).tolist() == expected.tolist()


@pytest.mark.parametrize("einsum", LAYOUTS)
@pytest.mark.parametrize("depth", [7, 66])
def test_nothing_behind_the_bytes_is_read(einsum: str, depth: int):
    """The last byte is the last one of a page, behind which nothing may be read."""
    shapes = (5, depth), ((depth, 20) if "kn" in einsum else (20, depth))
    values, matrix = (some(*shape) for shape in shapes)
    text = product(einsum, shapes, zero_points=(0, 1))
    start = np.zeros((5, 20), np.int32)
    with before_no_page(values) as x, before_no_page(matrix) as y:
        actual = compile(text)(x, y, start)
    expected = np.einsum(einsum, number(values, "extsi", 0), number(matrix, "extsi", 1))
    assert actual.tolist() == expected.tolist()


def test_the_same_factor_twice():
    x = some(9, 20)
    text = product("mk,nk->mn", (x.shape, x.shape), zero_points=(3, 3))
    text = text.replace("%b: tensor<9x20xi8>, ", "").replace("%a, %b", "%a, %a")
    assert kept(text) == 1
    numbers = number(x, "extsi", 3)
    actual = compile(text)(x, np.zeros((9, 9), np.int32))
    assert actual.tolist() == (numbers @ numbers.T).tolist()


def test_packed_matrices_are_in_planned_memory():
    shapes = (16, 64), (64, 32)
    text = product("mk,kn->mn", shapes, zero_points=(0, 1), is_requantized=True)
    function = compile(text)
    # The sums of rows, the matrix, and the sums of its columns
    assert function.temporary_bytes == 16 * 4 + math.prod(shapes[1]) + 32 * 4


def test_dynamic_sizes_stay():
    text = product("mk,kn->mn", ((5, 9), (9, 20))).replace("5x", "?x")
    assert kept(text) == 0
    x, y = some(6, 9), some(9, 20)
    actual = compile(text)(x, y, np.zeros((6, 20), np.int32))
    assert actual.tolist() == (x.astype(np.int32) @ y.astype(np.int32)).tolist()


@pytest.mark.parametrize("adj_x", ["false", "true"])
@pytest.mark.parametrize("adj_y", ["false", "true"])
def test_lowered_products_are_found(adj_x: str, adj_y: str):
    element = "!quant.uniform<i8:f32, 0.02:3>"
    lhs, rhs, result = (
        f"tensor<2x{rows}x{columns}x{element}>"
        for rows, columns in (
            (9, 5) if adj_x == "true" else (5, 9),
            (20, 9) if adj_y == "true" else (9, 20),
            (5, 20),
        )
    )
    module = parse_module(f"""
      func.func @main(%x: {lhs}, %y: {rhs}) -> {result} {{
        %z = "tfl.batch_matmul"(%x, %y) {{
          adj_x = {adj_x}, adj_y = {adj_y}, asymmetric_quantize_inputs = false
        }} : ({lhs}, {rhs}) -> {result}
        func.return %z : {result}
      }}""")
    apply_passes(module, "convert-tfl-to-linalg,strip-func-quant-types")
    assert kept("\n".join(map(str, module.ops))) == 1
