"""Memory is freed where calls are given up."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlir", reason="no MLIR bindings")

from xdsl_quant.execution import compile
from xdsl_quant.execution.loop_fixes import free_where_assertions_fail
from xdsl_quant.execution.mlir_bindings import identity_of, ir, ops_in

USE = "func.call @use(%{0}) : (memref<32xf32>) -> ()"
ALLOC = "%{0} = memref.alloc() : memref<32xf32>"
FREE = "memref.dealloc %{0} : memref<32xf32>"


def lines(text: str, *names: str) -> list[str]:
    return [text.format(name) for name in names]


def virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


def test_calls_that_are_given_up():
    """They free the block, too."""
    type_ = "tensor<2048x2048xi32>"
    column, row = "tensor<2048x1xi32>", "tensor<1x2048xi32>"
    function = compile(f"""
func.func @f(
    %x: {column}, %w: {row}, %y: tensor<?xi32>, %z: tensor<?xi32>, %i: index
) -> (i32, {column}) {{
  %sums = arith.addi %y, %z : tensor<?xi32>
  %sum = tensor.extract %sums[%i] : tensor<?xi32>
  %number = arith.constant 0 : i32
  %empty = tensor.empty() : {type_}
  %zero = linalg.fill ins(%number : i32) outs(%empty : {type_}) -> {type_}
  %zeros = arith.constant dense<0> : {column}
  %y0 = linalg.matmul ins(%x, %w : {column}, {row}) outs(%zero : {type_}) -> {type_}
  %y1 = linalg.matmul ins(%y0, %x : {type_}, {column}) outs(%zeros : {column})
    -> {column}
  return %sum, %y1 : i32, {column}
}}""")
    assert function.temporary_bytes >= 16 << 20
    x, y = np.zeros((2048, 1), np.int32), np.ones(2, np.int32)
    before = virtual_bytes()
    for _ in range(20):
        with pytest.raises(ValueError, match="dimension"):
            function(x, x.T, y, y[:1], 0)
    assert virtual_bytes() - before < 10 * (16 << 20)


def freed_before_failing(*lines: str) -> list[list[str]]:
    """For each assertion the names of the buffers that are freed if it does not hold."""
    body = "\n  ".join(lines)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
func.func private @use(memref<32xf32>)
func.func @f(%is: i1, %n: index) {{
  {body}
  return
}}""")
        before = {*map(identity_of, ops_in(module, "memref.dealloc"))}
        free_where_assertions_fail(module)
        assert module.operation.verify()
    freed: list[list[str]] = []
    for assertion in ops_in(module, "cf.assert"):
        ops = [op.operation for op in assertion.block.operations]
        branch = ops[ops.index(assertion) - 1]
        frees = ops_in(branch, "memref.dealloc") if branch.name == "scf.if" else []
        new = [free for free in frees if identity_of(free) not in before]
        freed.append([free.operands[0].get_name() for free in new])
    return freed


ASSERT = 'cf.assert %is, "it fails"'


FREED: list[tuple[list[str], list[list[str]]]] = [
    ([ASSERT, ALLOC.format("a"), FREE.format("a")], [[]]),
    (
        [
            *lines(ALLOC, "a", "b"),
            ASSERT,
            FREE.format("a"),
            ASSERT,
            FREE.format("b"),
            ASSERT,
        ],
        [["%alloc", "%alloc_0"], ["%alloc_0"], []],
    ),
    # Around and inside of ops.
    (
        [
            ALLOC.format("a"),
            "scf.if %is {",
            *[ALLOC.format("b"), ASSERT, FREE.format("b"), ASSERT],
            "}",
            ASSERT,
            FREE.format("a"),
        ],
        [["%alloc", "%alloc_0"], ["%alloc"], ["%alloc"]],
    ),
    # It may have been freed.
    (
        [ALLOC.format("a"), "scf.if %is {", FREE.format("a"), "}", ASSERT],
        [[]],
    ),
]


@pytest.mark.parametrize(
    ("body", "expected"),
    FREED,
    ids=["allocated later", "freed earlier", "nested", "freed sometimes"],
)
def test_what_is_freed_where_assertions_fail(
    body: list[str], expected: list[list[str]]
):
    assert freed_before_failing(*body) == expected


@pytest.mark.parametrize("is_in_loop", [True, False])
def test_dynamic_sizes_of_calls_that_are_given_up(is_in_loop: bool):
    """Buffers that are allocated before an assertion are freed if it does not hold."""
    type_ = "tensor<?x?xi32>"
    loop = "scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %zero) -> (i32) {"
    begin, end = (
        (f"%sum = {loop}", "scf.yield %number : i32 }")
        if is_in_loop
        else ("%i = arith.constant 1 : index", "%sum = arith.addi %number, %zero : i32")
    )
    function = compile(f"""
func.func @f(%x: {type_}, %y: {type_}, %far: index) -> i32 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0 : i32
  %n = tensor.dim %x, %c0 : {type_}
  {begin}
    %empty = tensor.empty(%n, %n) : {type_}
    %zeros = linalg.fill ins(%zero : i32) outs(%empty : {type_}) -> {type_}
    %product = linalg.matmul ins(%x, %y : {type_}, {type_}) outs(%zeros : {type_})
      -> {type_}
    %j = arith.muli %i, %far : index
    %number = tensor.extract %product[%j, %j] : {type_}
  {end}
  return %sum : i32
}}""")
    x, y = np.ones((2048, 1), np.int32), np.ones((1, 2048), np.int32)
    assert function(x, y, 2047) == 1
    before = virtual_bytes()
    for _ in range(20):
        with pytest.raises(ValueError, match="out-of-bounds"):
            function(x, y, 2048)
    assert virtual_bytes() - before < 10 * (16 << 20)
