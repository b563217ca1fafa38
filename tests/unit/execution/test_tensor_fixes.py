"""Rewrites of tensors before bufferization."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlir")

from xdsl_quant.execution import compile
from xdsl_quant.execution.clock_reads import ClockReads
from xdsl_quant.execution.mlir_bindings import ir, made_by, ops_in
from xdsl_quant.execution.tensor_fixes import separate_destinations

MATMUL = (
    "linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) "
    "outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32>"
)

PARALLEL = (
    "indexing_maps = [affine_map<(i, j) -> (i, j)>], "
    'iterator_types = ["parallel", "parallel"]'
)


def separated(body: str) -> Any:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
func.func @f(%x: tensor<4x4xf32>, %n: f32) -> (tensor<4x4xf32>, tensor<4x4xf32>) {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  {body}
  return %y, %z : tensor<4x4xf32>, tensor<4x4xf32>
}}""")
        separate_destinations(module)
        assert module.operation.verify()
        return module


def destinations(module: Any, *names: str) -> list[Any]:
    """What ops write to, and what is behind that."""
    values = [[*op.operands][-1] for op in ops_in(module, *names)]
    return [made_by(value, "linalg.fill", "linalg.generic") for value in values]


FILL = (
    "%zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>) "
    "-> tensor<4x4xf32>"
)

GENERIC = f"""%zeros = linalg.generic {{{PARALLEL}}} outs(%empty : tensor<4x4xf32>) {{
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  }} -> tensor<4x4xf32>"""


@pytest.mark.parametrize("zeros", [FILL, GENERIC], ids=["fill", "generic"])
def test_destinations_of_their_own(zeros: str):
    module = separated(f"{zeros}\n%y = {MATMUL}\n%z = {MATMUL}")
    fills = destinations(module, "linalg.matmul")
    assert len({*fills}) == 2
    empties = [made_by([*fill.operands][-1], "tensor.empty") for fill in fills]
    assert len({*empties}) == 2
    # Nothing else is left, and all is where it is used.
    (function,) = module.body.operations
    names = [op.operation.name for op in function.body.blocks[0].operations]
    one = ["tensor.empty", zeros.split("= ")[1].split()[0], "linalg.matmul"]
    assert names == ["arith.constant", *one, *one, "func.return"]


def test_slices():
    slice_ = (
        "tensor.insert_slice %x into %zeros[0, 0] [4, 4] [1, 1] : "
        "tensor<4x4xf32> into tensor<4x4xf32>"
    )
    module = separated(f"{FILL}\n%y = {slice_}\n%z = {slice_}")
    slices = ops_in(module, "tensor.insert_slice")
    assert len({made_by(op.operands[1], "linalg.fill") for op in slices}) == 2


def test_what_is_read_stays():
    """Inputs are not written to, and what is filled with an argument is not repeated."""
    add = "arith.addf %zeros, %x : tensor<4x4xf32>"
    module = separated(f"{FILL}\n%y = {add}\n%z = {add}")
    assert len(ops_in(module, "linalg.fill")) == 1
    module = separated(
        f"{FILL.replace('%zero :', '%n :')}\n%y = {MATMUL}\n%z = {MATMUL}"
    )
    assert len(ops_in(module, "linalg.fill")) == 1


def test_no_copies(monkeypatch: pytest.MonkeyPatch):
    """Two products start from zeros, and neither copies those of the other one."""
    names: list[str] = []

    def insert(_: ClockReads, module: Any, __: str) -> None:
        names.extend(op.name for op in ops_in(module))

    monkeypatch.setattr(ClockReads, "insert", insert)
    function = compile(f"""
func.func @f(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  {FILL}
  %y = {MATMUL}
  %a = math.absf %y : tensor<4x4xf32>
  %z = {MATMUL.replace("%x, %x", "%x, %a")}
  return %a, %z : tensor<4x4xf32>, tensor<4x4xf32>
}}""")
    x = np.arange(16, dtype=np.float32).reshape(4, 4) - 7
    expected = abs(x @ x)
    for result, value in zip(function(x), (expected, x @ expected), strict=True):
        assert result.tolist() == value.tolist()
    function.profile(x)
    assert "scf.for" in names
    assert "memref.copy" not in names
