"""One block of memory for the intermediate values of a function."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlir", reason="no MLIR bindings")

from xdsl_quant.execution import compile
from xdsl_quant.execution.loop_fixes import allocated_bytes
from xdsl_quant.execution.mlir_bindings import (
    attribute_of,
    integer_of,
    ir,
    ops_in,
)
from xdsl_quant.execution.scheduling.buffer_planning import plan_buffers

USE = "func.call @use(%{0}) : (memref<32xf32>) -> ()"
ALLOC = "%{0} = memref.alloc() : memref<32xf32>"
FREE = "memref.dealloc %{0} : memref<32xf32>"


def planned(*lines: str) -> tuple[int, Any]:
    """The bytes that a function allocates, and its module."""
    body = "\n  ".join(lines)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
func.func private @use(memref<32xf32>)
func.func private @same(memref<32xf32>) -> memref<32xf32>
func.func private @cast(memref<?xf32>)
func.func @f(%is: i1, %n: index) {{
  {body}
  return
}}""")
        plan_buffers(module, "f")
        assert module.operation.verify()
        return allocated_bytes(module, "f"), module


def lines(text: str, *names: str) -> list[str]:
    return [text.format(name) for name in names]


def offsets(module: ir.Module) -> list[int | None]:
    """Where buffers are in the block."""
    views = ops_in(module, "memref.view")
    return [integer_of(view.operands[1]) for view in views]


def counts(module: ir.Module) -> list[int]:
    names = "memref.alloc", "memref.dealloc"
    return [len(ops_in(module, name)) for name in names]


def test_memory_is_shared():
    a, b, c = ([ALLOC.format(name), USE.format(name)] for name in "abc")
    size, module = planned(*a, *b, *lines(USE, "a"), *c, *lines(FREE, *"abc"))
    assert size == 256
    assert offsets(module) == [0, 128, 0]
    assert counts(module) == [1, 1]
    (block,) = ops_in(module, "memref.alloc")
    assert str(block.results[0].type) == "memref<256xi8>"
    assert attribute_of(block, "alignment", ir.IntegerAttr).value == 64


def test_views_are_uses():
    size, module = planned(
        *lines(ALLOC, "a", "b"),
        "%v = memref.cast %a : memref<32xf32> to memref<?xf32>",
        USE.format("b"),
        "func.call @cast(%v) : (memref<?xf32>) -> ()",
        *lines(FREE, "a", "b"),
    )
    assert size == 256
    assert offsets(module) == [0, 128]


@pytest.mark.parametrize(
    ("body", "size"),
    [
        # Nothing is known of a value that a function returns.
        (
            [
                ALLOC.format("a"),
                "%b = func.call @same(%a) : (memref<32xf32>) -> memref<32xf32>",
                *lines(USE, "b"),
                FREE.format("a"),
            ],
            128,
        ),
        (
            [ALLOC.format("a"), "scf.if %is {", USE.format("a"), "}", FREE.format("a")],
            128,
        ),
        # It is not freed, or not always.
        ([ALLOC.format("a"), USE.format("a")], 128),
        ([ALLOC.format("a"), "scf.if %is {", FREE.format("a"), "}"], 128),
        (
            [
                *lines(ALLOC, "a", "b"),
                "%c = arith.select %is, %a, %b : memref<32xf32>",
                *lines(USE, "c"),
                *lines(FREE, "a", "b"),
            ],
            256,
        ),
        # Sizes that are not known are not counted.
        (
            [
                "%a = memref.alloc(%n) : memref<?xf32>",
                "func.call @cast(%a) : (memref<?xf32>) -> ()",
                "memref.dealloc %a : memref<?xf32>",
            ],
            0,
        ),
        (
            ["scf.if %is {", ALLOC.format("a"), USE.format("a"), FREE.format("a"), "}"],
            0,
        ),
        ([], 0),
    ],
    ids=[
        "returned",
        "used inside of ops",
        "not freed",
        "freed sometimes",
        "one of two",
        "dynamic",
        "inside of ops",
        "none",
    ],
)
def test_what_is_not_planned(body: list[str], size: int):
    text = planned(*body)[1]
    before = len([line for line in body if "memref.alloc" in line])
    assert planned(*body)[0] == size
    assert not ops_in(text, "memref.view")
    assert counts(text)[0] == before


@pytest.mark.parametrize(
    ("type_", "size"), [("i8", 1), ("bf16", 2), ("f64", 8), ("index", 8)]
)
def test_sizes_of_elements(type_: str, size: int):
    memref = f"memref<64x3x{type_}>"
    found, _ = planned(
        f"%a = memref.alloc() : {memref}",
        f"%b = memref.alloc() : {memref}",
        f"memref.copy %a, %b : {memref} to {memref}",
        f"memref.dealloc %a : {memref}",
        f"memref.dealloc %b : {memref}",
    )
    assert found == 2 * 64 * 3 * size


CHAIN = """
func.func @f(%x: tensor<16x16xi32>) -> tensor<16x16xi32> {
  %zero = arith.constant dense<0> : tensor<16x16xi32>
  %y0 = linalg.matmul ins(%x, %x : tensor<16x16xi32>, tensor<16x16xi32>)
    outs(%zero : tensor<16x16xi32>) -> tensor<16x16xi32>
  %y1 = linalg.matmul ins(%y0, %x : tensor<16x16xi32>, tensor<16x16xi32>)
    outs(%zero : tensor<16x16xi32>) -> tensor<16x16xi32>
  %y2 = linalg.matmul ins(%y1, %x : tensor<16x16xi32>, tensor<16x16xi32>)
    outs(%zero : tensor<16x16xi32>) -> tensor<16x16xi32>
  %y3 = linalg.matmul ins(%y2, %y0 : tensor<16x16xi32>, tensor<16x16xi32>)
    outs(%zero : tensor<16x16xi32>) -> tensor<16x16xi32>
  return %y3 : tensor<16x16xi32>
}"""


@pytest.mark.parametrize(("schedule", "buffers"), [(True, 3), (False, 4)])
def test_threads(schedule: bool, buffers: int):
    """Each call has memory of its own."""
    function = compile(CHAIN, schedule=schedule)
    # The first product is needed until the end, and the last one is the result.
    assert function.temporary_bytes == buffers * 1024
    random = np.random.default_rng(0)
    inputs = [random.integers(-9, 9, (16, 16), np.int32) for _ in range(200)]
    with ThreadPoolExecutor(4) as executor:
        results = [*executor.map(function, inputs)]
    for x, result in zip(inputs, results, strict=True):
        assert np.array_equal(result, x @ x @ x @ x @ (x @ x))
