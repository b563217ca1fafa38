"""Sums of products of floats as partial sums, one for each lane."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

BODY = """^bb0(%l: f32, %r: f32, %sum: f32):
  %p = arith.mulf %l, %r : f32
  %s = arith.addf %sum, %p : f32
  linalg.yield %s : f32"""
MATVEC = """#w = affine_map<(n, k) -> (n, k)>
#x = affine_map<(n, k) -> (k)>
#y = affine_map<(n, k) -> (n)>
func.func @main(%w: tensor<6x{size}xf32>, %x: tensor<{size}xf32>, %b: tensor<6xf32>)
    -> tensor<6xf32> {{
  %y = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
    ins(%w, %x : tensor<6x{size}xf32>, tensor<{size}xf32>) outs(%b : tensor<6xf32>) {{
  {body}
  }} -> tensor<6xf32>
  return %y : tensor<6xf32>
}}"""
BUFFERS = f"""#w = affine_map<(n, k) -> (n, k)>
#x = affine_map<(n, k) -> (k)>
#y = affine_map<(n, k) -> (n)>
func.func @main(%w: memref<6x64xf32>, %x: memref<64xf32>, %b: memref<6xf32>) {{
  linalg.generic {{
      indexing_maps = [#w, #x, #y], iterator_types = ["parallel", "reduction"]
  }} ins(%w, %x : memref<6x64xf32>, memref<64xf32>) outs(%b : memref<6xf32>) {{
  {BODY}
  }}
  return
}}"""
MAPS, KINDS = "#w, #x, #y", '"parallel", "reduction"'


def matvec(
    size: int = 64, body: str = BODY, maps: str = MAPS, kinds: str = KINDS
) -> str:
    return MATVEC.format(size=size, body=body, maps=maps, kinds=kinds)


def partial_sums(
    weights: NDArray[np.float32], x: NDArray[np.float32], lanes: int
) -> NDArray[np.float32]:
    """One sum for each row and lane, added up in order, with products that are exact."""
    sums = np.zeros((len(weights), lanes), np.float32)
    for first in range(0, x.size, lanes):
        products = weights[:, first : first + lanes].astype(np.longdouble)
        products *= x[first : first + lanes]
        # To round twice, by way of 64 bits, makes no difference for these numbers.
        sums = (products + sums).astype(np.float32)
    return sums


def test_products_are_rounded_in_other_types():
    text = matvec().replace("f32", "f64")
    module = parse_module(text)
    apply_passes(module, "quant-split-reductions")
    assert "math.fma" not in str(module)
    random = np.random.default_rng(0)
    operands = [random.normal(size=shape) for shape in ((6, 64), 64, 6)]
    (found,) = run_function(module, "main", *operands)
    weights, x, expected = operands
    lanes = np.zeros((6, 32))
    for first in (0, 32):
        lanes += weights[:, first : first + 32] * x[first : first + 32]
    for lane in lanes.T:
        expected = expected + lane
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("lanes", [2, 16, 32])
def test_order_of_additions(lanes: int):
    random = np.random.default_rng(lanes)
    weights, x, start = (
        random.normal(size=shape).astype(np.float32) for shape in ((6, 64), 64, 6)
    )
    expected = start.copy()
    for lane in partial_sums(weights, x, lanes).T:
        expected += lane
    module = parse_module(matvec())
    apply_passes(module, f"quant-split-reductions{{lanes={lanes}}}")
    (found,) = run_function(module, "main", weights, x, start)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(compile(module)(weights, x, start), expected)
    (in_order,) = run_function(parse_module(matvec()), "main", weights, x, start)
    assert (found != in_order).any()


def test_dequantized_weights_are_not_in_memory():
    rows, columns = 2048, 1024
    scales = ",".join(["0.5"] * 32)
    type_ = f"!quant.uniform<i8:f32:{{1:32}}, {{{{{scales}}}}}>"
    text = f"""#w = affine_map<(n, k) -> (n, k)>
#x = affine_map<(n, k) -> (k)>
#y = affine_map<(n, k) -> (n)>
func.func @main(
    %q: tensor<{rows}x{columns}x{type_}>, %x: tensor<{columns}xf32>,
    %b: tensor<{rows}xf32>) -> tensor<{rows}xf32> {{
  %w = quant.dcast %q : tensor<{rows}x{columns}x{type_}> to tensor<{rows}x{columns}xf32>
  %y = linalg.generic {{indexing_maps = [#w, #x, #y], iterator_types = [{KINDS}]}}
    ins(%w, %x : tensor<{rows}x{columns}xf32>, tensor<{columns}xf32>)
    outs(%b : tensor<{rows}xf32>) {{
  {BODY}
  }} -> tensor<{rows}xf32>
  return %y : tensor<{rows}xf32>
}}"""
    module = parse_module(text)
    apply_passes(module, "quant-split-reductions")
    function = compile(module)
    random = np.random.default_rng(0)
    stored = random.integers(-128, 128, (rows, columns), np.int8)
    x = random.normal(size=columns).astype(np.float32)
    expected = np.zeros(rows, np.float32)
    weights = stored.astype(np.float32) * np.float32(0.5)
    for lane in partial_sums(weights, x, 32).T:
        expected += lane
    found = function(stored, x, np.zeros(rows, np.float32))
    np.testing.assert_array_equal(found, expected)
    # Partial sums, and what is added to.
    assert function.temporary_bytes == (32 + 1) * rows * 4


@pytest.mark.parametrize(
    "text",
    [
        matvec(32),
        matvec(48),
        matvec(body=BODY.replace("arith.mulf %l, %r", "arith.addf %l, %r")),
        matvec(body=BODY.replace("arith.mulf %l, %r", "arith.mulf %l, %l")),
        matvec(body=BODY.replace("addf %sum, %p", "subf %sum, %p")),
        matvec(body=BODY.replace("yield %s", "yield %p")),
        matvec(
            maps="#w, affine_map<(n, k) -> (n * 0 + k)>, #y",
        ),
        matvec(6, maps="#w, affine_map<(n, k) -> (n)>, #y"),
        matvec().replace("tensor<64xf32>", "tensor<?xf32>").replace("6x64", "?x64"),
        BUFFERS,
    ],
    ids=[
        *("one vector", "rest", "sum", "square", "difference", "product"),
        *("calculated index", "index of the result", "unknown size", "buffers"),
    ],
)
def test_others_stay_as_they_are(text: str):
    module = parse_module(text)
    before = str(module)
    apply_passes(module, "quant-split-reductions")
    assert str(module) == before


def test_too_few_lanes():
    with pytest.raises(
        IRError,
        match="expected at least 2 lanes, found 1",
    ):
        apply_passes(parse_module(matvec()), "quant-split-reductions{lanes=1}")
