"""Sums of constants become constants."""

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.channel_multipliers import fold_constant_sums

RNG = np.random.default_rng(0)
SOURCE = RNG.integers(-(1 << 31), 1 << 31, (2, 3, 4)).astype(np.int32)

FILLS = {
    "fill": """
  %s = arith.constant 7 : i32
  %e = tensor.empty() : tensor<{sums}xi32>
  %i = linalg.fill ins(%s : i32) outs(%e : tensor<{sums}xi32>) -> tensor<{sums}xi32>""",
    "generic": """
  %s = arith.constant dense<7> : tensor<i32>
  %e = tensor.empty() : tensor<{sums}xi32>
  %i = linalg.generic {{indexing_maps = [
      affine_map<({loops}) -> ()>, affine_map<({loops}) -> ({loops})>],
      iterator_types = [{kinds}]}} ins(%s : tensor<i32>) outs(%e : tensor<{sums}xi32>) {{
  ^bb0(%x: i32, %o: i32):
    linalg.yield %x : i32
  }} -> tensor<{sums}xi32>""",
    "argument": "%i = tensor.cast %a : tensor<{sums}xi32> to tensor<{sums}xi32>",
}


def sums_of(result: str, *, fill: str = "fill", op: str = "addi") -> str:
    """A function that sums up a constant over the loops that its result does not have."""
    loops = result.split(", ")
    sums = "x".join(str(SOURCE.shape["ijk".index(loop)]) for loop in loops)
    kinds = ", ".join(
        '"parallel"' if loop in loops else '"reduction"' for loop in "ijk"
    )
    filled = FILLS[fill].format(
        sums=sums, loops=result, kinds=", ".join(['"parallel"'] * len(loops))
    )
    return f"""
func.func @f(%a: tensor<{sums}xi32>) -> tensor<{sums}xi32> {{
  %c = arith.constant dense<{SOURCE.tolist()}> : tensor<2x3x4xi32>
  {filled}
  %r = linalg.generic {{indexing_maps = [
      affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> ({result})>],
      iterator_types = [{kinds}]}}
      ins(%c : tensor<2x3x4xi32>) outs(%i : tensor<{sums}xi32>) {{
  ^bb0(%x: i32, %o: i32):
    %t = arith.{op} %o, %x : i32
    linalg.yield %t : i32
  }} -> tensor<{sums}xi32>
  return %r : tensor<{sums}xi32>
}}"""


def is_folded(text: str) -> bool:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        before = len(ops_in(module, "linalg.generic"))
        fold_constant_sums(module)
        assert module.operation.verify()
        return len(ops_in(module, "linalg.generic")) < before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fill", ["fill", "generic"])
@pytest.mark.parametrize("result", ["k", "i, k", "k, i", "j, i"])
def test_sums(result: str, fill: str):
    text = sums_of(result, fill=fill)
    assert is_folded(text)
    loops = result.split(", ")
    reduced = tuple(i for i, loop in enumerate("ijk") if loop not in loops)
    expected = SOURCE.sum(reduced, dtype=np.int32) + np.int32(7)
    expected = expected if loops == sorted(loops) else expected.T
    start = np.zeros(expected.shape, np.int32)
    np.testing.assert_array_equal(compile(text)(start), expected)


@pytest.mark.parametrize(
    "text",
    [
        sums_of("i, k", fill="argument"),
        sums_of("i, k", op="muli"),
        sums_of("i, k", op="maxsi"),
        sums_of("i, k").replace("%o, %x", "%x, %x"),
    ],
)
def test_others(text: str):
    assert not is_folded(text)


def test_an_op_with_two_results():
    """Sums begin with what is in the one that is used."""
    tensor = "tensor<2xi32>"
    maps = "affine_map<(i) -> (i)>, affine_map<(i) -> (i)>"
    text = f"""
func.func @f() -> {tensor} {{
  %c = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %e = tensor.empty() : {tensor}
  %a, %b = "linalg.generic"(%e, %e) <{{
      indexing_maps = [{maps}], iterator_types = [#linalg.iterator_type<parallel>],
      operandSegmentSizes = array<i32: 0, 2>}}> ({{
  ^bb0(%x: i32, %y: i32):
    %first = arith.constant 100 : i32
    %second = arith.constant 5 : i32
    "linalg.yield"(%first, %second) : (i32, i32) -> ()
  }}) : ({tensor}, {tensor}) -> ({tensor}, {tensor})
  %r = linalg.generic {{indexing_maps = [
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%c : tensor<2x3xi32>) outs(%b : {tensor}) {{
  ^bb0(%x: i32, %o: i32):
    %t = arith.addi %o, %x : i32
    linalg.yield %t : i32
  }} -> {tensor}
  return %r : {tensor}
}}"""
    assert is_folded(text)
    assert compile(text)().tolist() == [11, 20]
