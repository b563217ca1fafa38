"""Products of bytes with constants: what is one, and that sums are exact."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cpus.foreign_code import foreign_code
from tests.unit.execution.scheduling.guarded_memory import before_no_page
from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import available_cpus
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.byte_products import (
    is_byte_product,
    mark_byte_products,
)
from xdsl_quant.execution.scheduling.vector_code import Axis
from xdsl_quant.execution.scheduling.vnni_code import Product

Bytes = NDArray[np.int8]

CPU = "native" if "avx512-vnni" in available_cpus() else "avx512-vnni"


@pytest.fixture(autouse=True, scope="module")
def code_for_vnni() -> Iterator[None]:
    """Compile for VNNI, also on machines that lack it."""
    with foreign_code():
        yield


MATMUL = "(m, k)", "(k, n)", "(m, n)"
RNG = np.random.default_rng(0)


def some(*shape: int) -> Bytes:
    """Bytes of all values, the least and the largest more often."""
    values = RNG.integers(-128, 128, shape)
    return np.where(
        RNG.random(shape) < 0.3, RNG.choice([-128, 127], shape), values
    ).astype(np.int8)


def product(
    shape: tuple[int, ...],
    weights: Bytes,
    result: tuple[int, ...],
    maps: tuple[str, str, str] = MATMUL,
    loops: str = "m, n, k",
    *,
    extend: tuple[str, str] = ("extsi", "extsi"),
    zero_points: tuple[int, int] = (0, 0),
    before: str = "",
) -> str:
    """A function of the left factor and of the initial sums."""
    lhs, rhs, sums = (
        "x".join([*map(str, s), t])
        for s, t in ((shape, "i8"), (weights.shape, "i8"), (result, "i32"))
    )
    kinds = ", ".join(
        '"parallel"' if loop in maps[2] else '"reduction"' for loop in loops.split(", ")
    )
    map_list = ", ".join(f"affine_map<({loops}) -> {m}>" for m in maps)
    return f"""
func.func @f(%a: tensor<{lhs}>, %c: tensor<{sums}>) -> tensor<{sums}> {{
  %w = arith.constant dense<{weights.tolist()}> : tensor<{rhs}>
  %lz = arith.constant {zero_points[0]} : i32
  %rz = arith.constant {zero_points[1]} : i32
  {before or "%x = tensor.cast %a : tensor<" + lhs + "> to tensor<" + lhs + ">"}
  %0 = linalg.generic {{indexing_maps = [{map_list}], iterator_types = [{kinds}]}}
      ins(%x, %w : tensor<{lhs}>, tensor<{rhs}>) outs(%c : tensor<{sums}>) {{
  ^bb0(%l: i8, %r: i8, %s: i32):
    %le = arith.{extend[0]} %l : i8 to i32
    %re = arith.{extend[1]} %r : i8 to i32
    %ld = arith.subi %le, %lz : i32
    %rd = arith.subi %re, %rz : i32
    %p = arith.muli %ld, %rd : i32
    %t = arith.addi %s, %p : i32
    linalg.yield %t : i32
  }} -> tensor<{sums}>
  return %0 : tensor<{sums}>
}}"""


def quotient(divisor: int) -> tuple[str, str, str]:
    """Maps of columns of which so many have the same bytes."""
    return f"(m, k, n floordiv {divisor})", "(k, n)", "(m, n)"


def kept(text: str) -> int:
    """How many ops of a module are found to be products of bytes."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        mark_byte_products(module)
        assert module.operation.verify()
        return sum(map(is_byte_product, ops_in(module, "linalg.generic")))


def number(array: Bytes, extend: str, zero_point: int) -> NDArray[np.int64]:
    view = array.view(np.uint8) if extend == "extui" else array
    return view.astype(np.int64) - zero_point


@pytest.mark.sampled(44)
@pytest.mark.parametrize("rows", [1, 2, 5, 13])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 66])
@pytest.mark.parametrize("columns", [2, 15, 16, 17, 64, 65, 130])
def test_sizes(rows: int, depth: int, columns: int):
    weights, x = some(depth, columns), some(rows, depth)
    start = RNG.integers(-99, 99, (rows, columns)).astype(np.int32)
    text = product(x.shape, weights, start.shape)
    assert kept(text) == 1
    expected = start + x.astype(np.int32) @ weights.astype(np.int32)
    assert compile(text, cpu=CPU)(x, start).tolist() == expected.tolist()


def nibbles(*shape: int) -> Bytes:
    """Numbers of 4 bits, the least and the largest more often."""
    values = RNG.integers(-8, 8, shape)
    ends = RNG.choice([-8, 7], shape)
    return np.where(RNG.random(shape) < 0.3, ends, values).astype(np.int8)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@pytest.mark.parametrize("depth", [8, 16, 24, 88, 66])
@pytest.mark.parametrize("columns", [3, 16, 130])
@pytest.mark.parametrize("lhs", ["extsi", "extui"])
def test_weights_of_4_bits(rows: int, depth: int, columns: int, lhs: str):
    weights, x = nibbles(depth, columns), some(rows, depth)
    start = RNG.integers(-99, 99, (rows, columns)).astype(np.int32)
    zero_points = (-3, 0)
    text = product(
        x.shape, weights, start.shape, extend=(lhs, "extsi"), zero_points=zero_points
    )
    expected = start + number(x, lhs, -3) @ weights.astype(np.int64)
    assert compile(text, cpu=CPU)(x, start).tolist() == expected.tolist()


def test_weights_of_4_bits_in_several_runs():
    maps = "(m + 2 * r, k)", "(r, k, n)", "(m, n)"
    weights, x = nibbles(3, 8, 20), some(6, 8)
    start = RNG.integers(-99, 99, (2, 20)).astype(np.int32)
    text = product(x.shape, weights, start.shape, maps, "m, n, r, k")
    assert kept(text) == 1
    taps = np.stack([x[[m, m + 2, m + 4]] for m in range(2)]).astype(np.int64)
    expected = start + np.einsum("mrk,rkn->mn", taps, weights.astype(np.int64))
    assert compile(text, cpu=CPU)(x, start).tolist() == expected.tolist()


def test_few_rows_take_packed_weights_of_4_bits():
    """Others are multiplied faster if each byte is a weight."""
    weights = nibbles(16, 40)
    by_rows = {
        rows: Product(
            [Axis(rows, [16, 160])],
            weights,
            is_signed=True,
            zero_point=0,
            reductions=[Axis(16, [1])],
        )
        for rows in (4, 5)
    }
    assert [by_rows[rows].pack(2).nbytes for rows in (4, 5)] == [16 * 48 // 2, 16 * 48]
    wide = replace(by_rows[4], weights=weights * np.int8(2))
    assert not wide.has_nibbles


@pytest.mark.parametrize(("rows", "depth"), [(3, 0), (0, 3)])
def test_nothing_to_sum_up(rows: int, depth: int):
    weights, x = np.zeros((depth, 20), np.int8), np.zeros((rows, depth), np.int8)
    start = some(rows, 20).astype(np.int32)
    text = product(x.shape, weights, start.shape).replace("dense<[]>", "dense<>")
    assert kept(text) == 0
    assert compile(text, cpu=CPU)(x, start).tolist() == start.tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 0), (5, 1), (1 << 30, 0)])
@pytest.mark.parametrize("lhs", ["extsi", "extui"])
def test_signs_and_zero_points(lhs: str, zero_points: tuple[int, int]):
    # With a zero point, they have to be signed bytes again.
    weights = np.maximum(some(9, 20), -127)
    x, start = some(3, 9), np.ones((3, 20), np.int32)
    text = product(
        x.shape, weights, (3, 20), extend=(lhs, "extsi"), zero_points=zero_points
    )
    assert kept(text) == 1
    expected = number(x, lhs, zero_points[0]) @ number(weights, "extsi", zero_points[1])
    actual = compile(text, cpu=CPU)(x, start)
    assert actual.tolist() == (expected + 1).astype(np.int32).tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("zero_point", [0, 100, 128, 200, -1000, 1 << 30])
@pytest.mark.parametrize("extend", ["extsi", "extui"])
def test_weights_that_are_no_signed_bytes(zero_point: int, extend: str):
    weights, x = some(9, 20), some(3, 9)
    text = product(
        (3, 9), weights, (3, 20), extend=("extsi", extend), zero_points=(3, zero_point)
    )
    assert kept(text) == 1
    expected = number(x, "extsi", 3) @ number(weights, extend, zero_point)
    actual = compile(text, cpu=CPU)(x, np.zeros((3, 20), np.int32))
    assert actual.tolist() == expected.astype(np.int32).tolist()


CONVOLUTION = "n, h, w, o, i, j, c"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("channels", [1, 3, 4, 16])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("columns", [16, 20])
def test_windows(channels: int, stride: int, dilation: int, columns: int):
    height, width = 5, 9
    shape = (
        2,
        stride * (height - 1) + 2 * dilation + 1,
        stride * (width - 1) + dilation + 1,
        channels,
    )
    weights, x = some(columns, 3, 2, channels), some(*shape)
    maps = (
        f"(n, h * {stride} + i * {dilation}, w * {stride} + j * {dilation}, c)",
        "(o, i, j, c)",
        "(n, h, w, o)",
    )
    result = (2, height, width, columns)
    text = product(shape, weights, result, maps, CONVOLUTION, zero_points=(-3, 0))
    # Bytes that are summed up must be beside each other.
    assert kept(text) == (channels > 1 or dilation == 1)
    expected = np.zeros(result, np.int64)
    for i in range(3):
        for j in range(2):
            rows = slice(i * dilation, i * dilation + stride * (height - 1) + 1, stride)
            cols = slice(j * dilation, j * dilation + stride * (width - 1) + 1, stride)
            window = x[:, rows, cols].astype(np.int64) + 3
            expected += window @ weights[:, i, j].astype(np.int64).T
    actual = compile(text, cpu=CPU)(x, np.zeros(result, np.int32))
    assert actual.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("shape", "weights", "result", "maps", "loops"),
    [
        # Bytes of each column that are not beside those of the next one
        ((3, 7, 5), (5, 7), (3, 7), ("(m, n, k)", "(k, n)", "(m, n)"), "m, n, k"),
        # A loop that only one factor depends on, a part of a dimension, a diagonal
        ((3, 5, 2), (5, 7), (3, 7), ("(m, k, j)", "(k, n)", "(m, n)"), "m, n, k, j"),
        ((3, 5), (9, 7), (3, 7), ("(m, k)", "(k + 2, n)", "(m, n)"), "m, n, k"),
        ((3, 5), (5, 7), (3, 5), ("(m, k)", "(k, n + 2)", "(m, n)"), "m, n, k"),
        # Quotients: of what is summed up, of rows, and of columns that are no whole
        # groups, or not in a vector
        ((3, 8), (16, 7), (3, 7), ("(m, k floordiv 2)", "(k, n)", "(m, n)"), "m, n, k"),
        ((8, 3), (8, 7), (6, 7), ("(k, m floordiv 2)", "(k, n)", "(m, n)"), "m, n, k"),
        ((3, 5, 3), (5, 9), (3, 9), quotient(3), "m, n, k"),
        ((3, 5, 4), (5, 7), (3, 7), quotient(2), "m, n, k"),
        ((3, 5, 2), (5, 64), (3, 64), quotient(32), "m, n, k"),
    ],
)
def test_other_contractions_stay(
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    result: tuple[int, ...],
    maps: tuple[str, str, str],
    loops: str,
):
    text = product(shape, some(*weights), result, maps, loops)
    assert kept(text) == 0
    x, start = some(*shape), np.zeros(result, np.int32)
    plain = compile(text, schedule=False, cpu=CPU)(x, start)
    assert compile(text, cpu=CPU)(x, start).tolist() == plain.tolist()


@pytest.mark.parametrize("columns", [2, 7, 16, 33])
def test_columns_on_their_own(columns: int):
    x, weights, start = some(3, 5, columns), some(5, columns), np.ones((3, columns))
    maps = "(m, k, n)", "(k, n)", "(m, n)"
    text = product(x.shape, weights, (3, columns), maps)
    assert kept(text) == 1
    expected = 1 + (x.astype(np.int32) * weights).sum(1)
    actual = compile(text, cpu=CPU)(x, start.astype(np.int32))
    assert actual.tolist() == expected.tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("einsum", "shape", "weights"),
    [
        ("mk,kn->nm", (33, 5), (5, 7)),
        ("km,kn->mn", (70, 35), (70, 7)),
        ("bkm,kn->bmn", (2, 9, 5), (9, 7)),
        ("kmj,kn->mjn", (5, 3, 2), (5, 7)),
        ("mk,kno->mno", (3, 5), (5, 7, 2)),
    ],
)
def test_layouts(einsum: str, shape: tuple[int, ...], weights: tuple[int, ...]):
    names, result = einsum.split("->")
    maps = [f"({', '.join(n)})" for n in (*names.split(","), result)]
    x, matrix = some(*shape), some(*weights)
    products = np.einsum(einsum, x.astype(np.int32), matrix.astype(np.int32))
    loops = ", ".join([*result, "k"])
    three = maps[0], maps[1], maps[2]
    text = product(shape, matrix, products.shape, three, loops)
    assert kept(text) == 1
    actual = compile(text, cpu=CPU)(x, np.ones(products.shape, np.int32))
    assert actual.tolist() == (products + 1).tolist()


def test_weights_on_the_left():
    weights, x = some(4, 20), some(6, 4)
    text = product(x.shape, weights, (6, 20), ("(k, n)", "(m, k)", "(m, n)"))
    inputs = "%x, %w : tensor<6x4xi8>, tensor<4x20xi8>"
    assert inputs in text
    text = text.replace(inputs, "%w, %x : tensor<4x20xi8>, tensor<6x4xi8>")
    assert kept(text) == 1
    expected = x.astype(np.int32) @ weights.astype(np.int32)
    actual = compile(text, cpu=CPU)(x, np.zeros((6, 20), np.int32))
    assert actual.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("low", "is_product"), [(-120, True), (-255, True), (-121, False)]
)
def test_constants_of_more_than_bytes(low: int, is_product: bool):
    """Zero-point-corrected constants are products if their range has 8 bits."""
    high = 135
    weights = RNG.integers(low, low + 256 if is_product else high + 1, (40, 20))
    weights[0, :2] = low, low + 255 if is_product else high
    x, start = some(5, 40), np.zeros((5, 20), np.int32)
    text = product(x.shape, some(40, 20), start.shape)
    dense = text[text.index("dense<[[") : text.index(" : tensor<40x20xi8>")]
    text = text.replace(dense, f"dense<{weights.tolist()}>")
    text = text.replace("tensor<40x20xi8>", "tensor<40x20xi16>")
    text = text.replace("%r: i8", "%r: i16").replace("%r : i8", "%r : i16")
    assert kept(text) == is_product
    expected = x.astype(np.int32) @ weights.astype(np.int32)
    assert compile(text, cpu=CPU)(x, start).tolist() == expected.tolist()


def test_equal_weights():
    for value in (0, 1, -128):
        weights, x = np.full((4, 17), value, np.int8), some(6, 4)
        text = product(x.shape, weights, (6, 17))
        expected = x.astype(np.int32) @ weights.astype(np.int32)
        actual = compile(text, cpu=CPU)(x, np.zeros((6, 17), np.int32))
        assert actual.tolist() == expected.tolist()


def test_nothing_behind_the_bytes_is_read():
    """The last byte is the last one of a page, behind which nothing may be read."""
    values, weights = some(5, 7), some(7, 20)
    with before_no_page(values) as x:
        actual = compile(product((5, 7), weights, (5, 20)), cpu=CPU)(
            x, np.zeros((5, 20), np.int32)
        )
    expected = values.astype(np.int32) @ weights.astype(np.int32)
    assert actual.tolist() == expected.tolist()


def test_computed_bytes_are_in_memory_first():
    before = "%x = arith.muli %a, %a : tensor<3x9xi8>"
    weights, x = some(9, 20), some(3, 9)
    text = product(x.shape, weights, (3, 20), before=before)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        mark_byte_products(module)
        assert len(ops_in(module, "tensor.reshape")) == 1
    expected = (x * x).astype(np.int32) @ weights.astype(np.int32)
    actual = compile(text, cpu=CPU)(x, np.zeros((3, 20), np.int32))
    assert actual.tolist() == expected.tolist()


def test_names_that_are_taken():
    weights, x = some(4, 16), some(2, 4)
    text: Any = product(x.shape, weights, (2, 16)).replace("@f(", "@byte_product_0(")
    expected = x.astype(np.int32) @ weights.astype(np.int32)
    actual = compile(text, cpu=CPU)(x, np.zeros((2, 16), np.int32))
    assert actual.tolist() == expected.tolist()


def test_many_elementwise_ops():
    # There are more than 2**60 paths from the last op back to the arguments.
    type_ = "tensor<2x3xf32>"
    identity = "affine_map<(m, n) -> (m, n)>"
    ops = [
        f"""%{i} = linalg.generic {{indexing_maps = [{identity}, {identity}, {identity}],
      iterator_types = ["parallel", "parallel"]}}
      ins(%{i - 1}, %{i - 2} : {type_}, {type_}) outs(%0 : {type_}) {{
  ^bb0(%l: f32, %r: f32, %s: f32):
    %t = arith.addf %l, %r : f32
    linalg.yield %t : f32
  }} -> {type_}"""
        for i in range(2, 90)
    ]
    text = f"""func.func @f(%0: {type_}, %1: {type_}) -> {type_} {{
  {"".join(ops)}
  return %89 : {type_}
}}"""
    assert kept(text) == 0
