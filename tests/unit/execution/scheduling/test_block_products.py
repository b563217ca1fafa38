"""Products with 4-bit weights of blocks: what is one, and that results are exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cpus.foreign_code import foreign_code
from tests.unit.execution.other_cpus import EMULATED, LoweredModule
from tests.unit.execution.scheduling.guarded_memory import before_no_page
from xdsl_quant.execution.cpu import Cpu
from xdsl_quant.execution.scheduling import block_products
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module


@pytest.fixture(autouse=True, scope="module")
def code_for_vnni() -> Iterator[None]:
    """Compile for VNNI, also on machines that lack it."""
    with foreign_code():
        yield


class Blocks(NamedTuple):
    """A product of bytes `[rows, blocks, size]` and weights `[blocks, size, columns]`."""

    rows: int
    blocks: int
    size: int
    columns: int


def dense(array: NDArray[Any], type_: str) -> str:
    """A constant."""
    shape = "x".join(map(str, array.shape))
    return f"arith.constant dense<{array.tolist()}> : tensor<{shape}x{type_}>"


def text_of(
    blocks: Blocks,
    largest: int = 7,
    offset: int = 128,
    scale: float = 0.25,
    *,
    is_shared: bool = False,
) -> str:
    """A function of the bytes and of the initial sums."""
    rows, count, size, columns = blocks
    rng = np.random.default_rng(columns)
    matrices = 1 if is_shared else count
    weights = rng.integers(-8, largest + 1, (matrices, size, columns))
    weights[0, 0, :2] = -8
    added = offset * np.repeat(weights, count // matrices, 0).sum(1, keepdims=True)
    scales = rng.uniform(scale, 4 * scale, (count, 1, columns)).astype(np.float32)
    types = [
        f"tensor<{rows}x{count * size}xi8>",
        f"tensor<{matrices}x{size}x{columns}xi8>",
        f"tensor<{count}x{rows}x{columns}xi32>",
        f"tensor<{count}x1x{columns}xi32>",
        f"tensor<{count}x1x{columns}xf32>",
        f"tensor<{rows}x{columns}xf32>",
    ]
    lhs, rhs, sums, added_type, scale_type, result = types
    by_block = "affine_map<(r, c, b) -> (b, r, c)>"
    by_column = "affine_map<(r, c, b) -> (b, 0, c)>"
    return f"""
func.func @main(%x: {lhs}, %start: {result}) -> {result} {{
  %w = {dense(weights, "i8")}
  %a = {dense(added, "i32")}
  %s = {dense(scales, "f32")}
  %c = arith.constant 0 : i32
  %e = tensor.empty() : {sums}
  %zero = linalg.fill ins(%c : i32) outs(%e : {sums}) -> {sums}
  %p = linalg.generic {{
      indexing_maps = [affine_map<(b, r, c, k) -> (r, b * {size} + k)>,
        affine_map<(b, r, c, k) -> ({"0" if is_shared else "b"}, k, c)>,
        affine_map<(b, r, c, k) -> (b, r, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%x, %w : {lhs}, {rhs}) outs(%zero : {sums}) {{
  ^bb0(%l: i8, %m: i8, %o: i32):
    %le = arith.extsi %l : i8 to i32
    %me = arith.extsi %m : i8 to i32
    %lm = arith.muli %le, %me : i32
    %t = arith.addi %o, %lm : i32
    linalg.yield %t : i32
  }} -> {sums}
  %y = linalg.generic {{
      indexing_maps = [{by_block}, {by_column}, {by_column},
        affine_map<(r, c, b) -> (r, c)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%p, %a, %s : {sums}, {added_type}, {scale_type}) outs(%start : {result}) {{
  ^bb0(%q: i32, %d: i32, %f: f32, %o: f32):
    %t = arith.addi %q, %d : i32
    %u = arith.sitofp %t : i32 to f32
    %v = math.fma %u, %f, %o : f32
    linalg.yield %v : f32
  }} -> {result}
  return %y : {result}
}}"""


SHAPES = [
    Blocks(1, 3, 32, 70),
    Blocks(5, 2, 64, 37),
    Blocks(3, 1, 8, 16),
    Blocks(2, 2, 40, 2),
]

_GENERATOR = f"{block_products.__name__}.block_product_text"


def check(text: str, cpu: Cpu, blocks: Blocks, functions: int) -> None:
    """Compare a product with the interpreter, and count the functions for products."""
    rng = np.random.default_rng(blocks.rows)
    x = rng.integers(-128, 128, (blocks.rows, blocks.blocks * blocks.size))
    x[0, :8] = -128
    x = x.astype(np.int8)
    start = rng.normal(0, 1e4, (blocks.rows, blocks.columns)).astype(np.float32)
    with patch(_GENERATOR, wraps=block_products.block_product_text) as generator:
        function = LoweredModule(text).compiled(cpu)
    assert generator.call_count == functions
    (expected,) = run_function(parse_module(text), "main", x, start)
    with before_no_page(x) as guarded:
        np.testing.assert_array_equal(np.asarray(function(guarded, start)), expected)


VNNI, *_ = EMULATED


@pytest.mark.parametrize("blocks", SHAPES, ids=lambda b: "x".join(map(str, b)))
def test_shapes(blocks: Blocks):
    check(text_of(blocks), VNNI, blocks, 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cpu", EMULATED[1:], ids=[cpu.name for cpu in EMULATED[1:]])
def test_other_cpus(cpu: Cpu):
    check(text_of(SHAPES[1]), cpu, SHAPES[1], int(cpu.vnni_bits > 0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "changes",
    [
        {"largest": 8},  # more than 4 bits
        {"offset": 0},  # signed bytes
        {"scale": 1e-38},  # a scale whose 16th part is subnormal
        {"size": 12},
        {"is_shared": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_products(changes: dict[str, Any]):
    blocks = Blocks(2, 2, changes.pop("size", 8), 3)
    check(text_of(blocks, **changes), VNNI, blocks, 0)
