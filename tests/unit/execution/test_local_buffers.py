"""Buffers that MLIR's deallocation does not see."""

import numpy as np
import pytest

pytest.importorskip("mlir", reason="no MLIR bindings")

from xdsl_quant.execution import compile
from xdsl_quant.execution.local_buffers import free_local_buffers, hide_local_buffers
from xdsl_quant.execution.mlir_bindings import ir, ops_in, run_passes

TYPE = "memref<4xf32>"


def hidden(text: str, *, is_freed: bool = False) -> ir.Module:
    """The module of a function with hidden buffers, which are freed again."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func private @use({TYPE})\n{text}")
        hide_local_buffers(module)
        if is_freed:
            run_passes(module, ["buffer-deallocation-pipeline"])
            free_local_buffers(module)
        assert module.operation.verify()
        return module


def test_buffers_that_stay_are_freed_at_the_end():
    module = hidden(
        f"""
func.func @f(%x: {TYPE}, %i: index) -> f32 {{
  %a = memref.alloc() {{alignment = 64 : i64}} : {TYPE}
  %b = memref.alloc() : {TYPE}
  %view = memref.cast %b : {TYPE} to memref<?xf32>
  memref.copy %x, %a : {TYPE} to {TYPE}
  linalg.add ins(%x, %a : {TYPE}, {TYPE}) outs(%b : {TYPE})
  func.call @use(%b) : ({TYPE}) -> ()
  %y = memref.load %view[%i] : memref<?xf32>
  return %y : f32
}}""",
        is_freed=True,
    )
    *_, load, first, second, end, _function, _module = ops_in(module)
    assert [op.name for op in (load, first, second, end)] == [
        "memref.load",
        *["memref.dealloc"] * 2,
        "func.return",
    ]
    allocs = ops_in(module, "memref.alloc")
    assert [str(op.attributes) for op in allocs] == [
        str(op.attributes) for op in allocs if "xdsl_quant.local" not in op.attributes
    ]
    assert str(allocs[0].attributes["alignment"]) == "64 : i64"
    assert not ops_in(module, "memref.alloca")


@pytest.mark.parametrize(
    "use",
    [
        "return %a : memref<4xf32>",
        """%view = memref.cast %a : memref<4xf32> to memref<?xf32>
  %b = memref.cast %view : memref<?xf32> to memref<4xf32>
  return %b : memref<4xf32>""",
        """%b = arith.select %is, %a, %x : memref<4xf32>
  return %b : memref<4xf32>""",
        """%b = scf.if %is -> memref<4xf32> {
    scf.yield %a : memref<4xf32>
  } else {
    scf.yield %x : memref<4xf32>
  }
  return %b : memref<4xf32>""",
        """cf.br ^end
^end:
  func.call @use(%a) : (memref<4xf32>) -> ()
  return %x : memref<4xf32>""",
        """%b = func.call @same(%a) : (memref<4xf32>) -> memref<4xf32>
  return %b : memref<4xf32>""",
    ],
    ids=["returned", "cast", "selected", "yielded", "other block", "passed"],
)
def test_buffers_that_escape_are_left_to_mlir(use: str):
    module = hidden(f"""
func.func private @same({TYPE}) -> {TYPE}
func.func @f(%x: {TYPE}, %is: i1) -> {TYPE} {{
  %a = memref.alloc() : {TYPE}
  {use}
}}""")
    assert len(ops_in(module, "memref.alloc")) == 1


@pytest.mark.parametrize("is_lowered", [False, True])
def test_buffers_of_users_on_the_stack_stay_there(is_lowered: bool):
    module = hidden(
        f"""
func.func @f() {{
  %a = memref.alloca() : {TYPE}
  func.call @use(%a) : ({TYPE}) -> ()
  return
}}""",
        is_freed=is_lowered,
    )
    assert not ops_in(module, "memref.dealloc")
    assert len(ops_in(module, "memref.alloca")) == 1


def test_dynamic_sizes_and_branches():
    """All kinds of buffers in one function."""
    function = compile("""
func.func @f(%x: tensor<?xf32>, %w: tensor<4xf32>, %is: i1) -> (tensor<?xf32>, f32) {
  %y = arith.addf %x, %x : tensor<?xf32>
  %v = scf.if %is -> (tensor<4xf32>) {
    %t = math.absf %w : tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  } else {
    scf.yield %w : tensor<4xf32>
  }
  %u = arith.mulf %v, %w : tensor<4xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %s = linalg.reduce ins(%u : tensor<4xf32>) outs(%zero : tensor<f32>) dimensions = [0]
    (%in: f32, %sum: f32) {
      %new = arith.addf %in, %sum : f32
      linalg.yield %new : f32
    }
  %e = tensor.extract %s[] : tensor<f32>
  return %y, %e : tensor<?xf32>, f32
}""")
    x, w = np.arange(5, dtype=np.float32), np.array([1, -2, 3, -4], np.float32)
    for is_positive in (True, False):
        y, total = function(x, w, is_positive)
        assert y.tolist() == (2 * x).tolist()
        assert total == np.sum((np.abs(w) if is_positive else w) * w)
