"""Sums of floats in lanes."""

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import available_cpus
from xdsl_quant.execution.float_reductions import (
    mark_sums_in_lanes,
    reduce_floats_in_lanes,
)
from xdsl_quant.execution.mlir_bindings import ir, ops_in, run_passes


def reduction(
    columns: int, combined: str = "addf", term: str = "", type_: str = "f32"
) -> str:
    """Combine each row with a start value; `term` computes %t from %x."""
    row, matrix = f"tensor<3x{type_}>", f"tensor<3x{columns}x{type_}>"
    return f"""
        func.func @f(%a: {matrix}, %b: {row}) -> {row} {{
          %r = linalg.generic {{indexing_maps = [
              affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
              iterator_types = ["parallel", "reduction"]}}
              ins(%a : {matrix}) outs(%b : {row}) {{
          ^bb0(%x: {type_}, %o: {type_}):
            {term}
            %s = arith.{combined} %o, {"%t" if term else "%x"} : {type_}
            linalg.yield %s : {type_}
          }} -> {row}
          return %r : {row}
        }}"""


SQUARE = "%t = arith.mulf %x, %x : f32"


def has_lanes(text: str) -> bool:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        mark_sums_in_lanes(module)
        run_passes(
            module,
            (
                "one-shot-bufferize{bufferize-function-boundaries=true "
                "function-boundary-type-conversion=identity-layout-map}",
                "func.func(convert-linalg-to-loops)",
            ),
        )
        reduce_floats_in_lanes(module)
        module.operation.verify()
        return bool(ops_in(module, "vector.load"))


def test_what_has_lanes():
    assert has_lanes(reduction(65))
    assert has_lanes(reduction(100, type_="f64"))
    assert has_lanes(reduction(100, term=SQUARE))
    assert not has_lanes(reduction(64))
    assert not has_lanes(reduction(100, "mulf"))
    assert not has_lanes(reduction(100, type_="f16"))
    product = "%h = arith.addf %x, %x : f32 %t = arith.mulf %x, %h : f32"
    assert not has_lanes(reduction(100, term=product))


@pytest.mark.parametrize("columns", [64, 65, 79, 200])
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_integers_add_up_exactly(columns: int, type_: str):
    rng = np.random.default_rng(0)
    x = rng.integers(-99, 99, (3, columns)).astype(type_.replace("f", "float"))
    start = np.array([1, 2, 3], x.dtype)
    found = compile(reduction(columns, type_=type_))(x, start)
    np.testing.assert_array_equal(found, start + x.sum(axis=1))


def in_order(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums of 16 lanes, added up by halves."""
    lanes = x.reshape(len(x), -1, 16)
    total = np.zeros_like(lanes[:, 0])
    for i in range(lanes.shape[1]):
        total = total + lanes[:, i]
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return total[:, 0]


def test_order_depends_neither_on_scheduling_nor_on_the_cpu():
    x = np.random.default_rng(1).normal(size=(3, 160)).astype(np.float32)
    start, text = np.zeros(3, np.float32), reduction(160, term=SQUARE)
    expected = in_order(x * x)
    np.testing.assert_array_equal(compile(text, schedule=False)(x, start), expected)
    for cpu in available_cpus().values():
        np.testing.assert_array_equal(compile(text, cpu=cpu.name)(x, start), expected)


def test_sums_of_negative_zeros():
    x = np.full((3, 80), -0.0, np.float32)
    start = np.full(3, -0.0, np.float32)
    assert np.signbit(compile(reduction(80))(x, start)).all()


@pytest.mark.parametrize("batch", ["3", "?"])
def test_reshapes_do_not_split_sums(batch: str):
    """MLIR would move the reshape across the sum, whose loop would have 10 iterations."""
    x = np.random.default_rng(1).normal(size=(3, 20, 10)).astype(np.float32)
    shape = f"tensor<{batch}x200xf32>"
    text = f"""
        func.func @f(%given: tensor<{batch}x20x10xf32>, %b: tensor<{batch}xf32>)
            -> tensor<{batch}xf32> {{
          %c = tensor.collapse_shape %given [[0], [1, 2]]
            : tensor<{batch}x20x10xf32> into {shape}
          %a = math.absf %c : {shape}
          {reduction(200).replace("tensor<3x", f"tensor<{batch}x").split("{", 1)[1]}"""
    expected = compile(reduction(200, term="%t = math.absf %x : f32"))(
        x.reshape(3, 200), x[:, 0, 0]
    )
    for schedule in (False, True):
        found = compile(text, schedule=schedule)(x, x[:, 0, 0])
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_terms_without_vector_form(type_: str):
    """Terms that have no vector form are added in lanes, too."""
    x = (
        np.random.default_rng(1)
        .normal(size=(3, 170))
        .astype(type_.replace("f", "float"))
    )
    plain = compile(reduction(170, type_=type_))
    start = x[:, 0]
    term = f"%c = arith.constant 0.25 : {type_} %t = arith.remf %x, %c : {type_}"
    found = compile(reduction(170, term=term, type_=type_))(x, start)
    np.testing.assert_array_equal(found, plain(np.fmod(x, x.dtype.type(0.25)), start))
