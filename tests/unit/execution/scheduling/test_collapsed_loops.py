"""Elementwise ops on contiguous memrefs have one loop."""

import pytest

from xdsl_quant.execution.building import iterator_types_of
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.collapsed_loops import collapse_contiguous_loops

BODY = "%r = arith.addi %x, %c : i8"


def function(
    source: str = "4x1x6xi8",
    target: str = "4x1x6xi8",
    read: str = "i, j, k",
    written: str = "i, j, k",
    kind: str = "parallel",
    body: str = BODY,
) -> str:
    kinds = ", ".join(['"parallel"'] * 2 + [f'"{kind}"'])
    return f"""
        func.func @f(%a: memref<{source}>, %b: memref<{target}>, %c: i8) {{
          linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> ({read})>,
              affine_map<(i, j, k) -> ({written})>], iterator_types = [{kinds}]}}
              ins(%a : memref<{source}>) outs(%b : memref<{target}>) {{
          ^bb0(%x: i8, %o: i8):
            {body}
            linalg.yield %r : i8
          }}
          return
        }}"""


def loops(text: str) -> int:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        collapse_contiguous_loops(module)
        module.operation.verify()
        (op,) = ops_in(module, "linalg.generic")
        return len(iterator_types_of(op))


def test_contiguous():
    assert loops(function()) == 1
    assert loops(function("1x4x1x1x6xi8", read="0, i, j, 0, k")) == 1
    assert loops(function("4x6xi8", read="i, k")) == 1


@pytest.mark.parametrize(
    "text",
    [
        function("6xi8", read="k"),
        function("6x1x4xi8", read="k, j, i"),
        function("4x1x?xi8", "4x1x?xi8"),
        function("4x1x6xi8, strided<[8, 8, 1]>"),
        function("1x1x6xi8", "1x1x6xi8"),
        function(target="4x1xi8", written="i, j", kind="reduction"),
        function(
            body="%i = linalg.index 2 : index %r = arith.index_cast %i : index to i8"
        ),
    ],
)
def test_other_ops(text: str):
    assert loops(text) == 3
