"""The innermost loop of a reduction runs over contiguous elements."""

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.building import indexing_maps, iterator_types_of
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.loop_order import move_contiguous_loops_inside


def column_sums(
    columns: int = 32, body: str = "", maps: str = "(j, i) -> (i, j)"
) -> str:
    """Sums of columns; the body may compute %t from %x."""
    source = f"tensor<7x{columns}xf32>"
    result = f"tensor<{columns}xf32>"
    return f"""
        func.func @f(%a: {source}, %b: {result}) -> {result} {{
          %r = linalg.generic {{indexing_maps = [
              affine_map<{maps}>, affine_map<(j, i) -> (j)>],
              iterator_types = ["parallel", "reduction"]}}
              ins(%a : {source}) outs(%b : {result}) {{
          ^bb0(%x: f32, %o: f32):
            {body}
            %s = arith.addf %o, {"%t" if body else "%x"} : f32
            linalg.yield %s : f32
          }} -> {result}
          return %r : {result}
        }}"""


INDEX = """
    %i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i32
    %m = arith.sitofp %n : i32 to f32
    %t = arith.mulf %x, %m : f32"""


def innermost(text: str) -> str:
    """Kind of the innermost loop, after the step."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        move_contiguous_loops_inside(module)
        module.operation.verify()
        (op,) = ops_in(module, "linalg.generic")
        assert indexing_maps(op)[0].n_dims == 2
        return "parallel" if "parallel" in iterator_types_of(op)[-1] else "reduction"


def test_which_loop_is_innermost():
    assert innermost(column_sums()) == "parallel"
    assert innermost(column_sums(15)) == "reduction"
    assert innermost(column_sums(body=INDEX)) == "reduction"
    rows = column_sums(7, maps="(j, i) -> (j, i)")
    assert innermost(rows) == "reduction"


@pytest.mark.parametrize("columns", [15, 32])
@pytest.mark.parametrize("body", ["", INDEX])
def test_column_sums(columns: int, body: str):
    x = np.arange(7 * columns, dtype=np.float32).reshape(7, columns)
    start = np.ones(columns, np.float32)
    factors = np.arange(7, dtype=np.float32)[:, None] if body else np.float32(1)
    expected = start + (x * factors).sum(axis=0)
    np.testing.assert_array_equal(
        compile(column_sums(columns, body))(x, start), expected
    )
