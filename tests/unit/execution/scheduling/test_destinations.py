"""Memory of results."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlir", reason="no MLIR bindings")

from xdsl_quant.execution import compile
from xdsl_quant.execution.clock_reads import ClockReads
from xdsl_quant.execution.mlir_bindings import defining_op, identity_of, ir, ops_in
from xdsl_quant.execution.scheduling.destinations import (
    read_padded_tensors,
    separate_destinations,
)

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
    return [defining_op(value, "linalg.fill", "linalg.generic") for value in values]


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
    assert len({*map(identity_of, fills)}) == 2
    empties = [defining_op([*fill.operands][-1], "tensor.empty") for fill in fills]
    assert len({identity_of(op) for op in empties if op}) == 2
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
    fills = [defining_op(op.operands[1], "linalg.fill") for op in slices]
    assert len({identity_of(op) for op in fills if op}) == 2


def test_what_is_read_stays():
    """Inputs are not written to, and what is filled with an argument is not repeated."""
    add = "arith.addf %zeros, %x : tensor<4x4xf32>"
    module = separated(f"{FILL}\n%y = {add}\n%z = {add}")
    assert len(ops_in(module, "linalg.fill")) == 1
    module = separated(
        f"{FILL.replace('%zero :', '%n :')}\n%y = {MATMUL}\n%z = {MATMUL}"
    )
    assert len(ops_in(module, "linalg.fill")) == 1


ADD = (
    "linalg.add ins(%a, %x : tensor<4x4xf32>, tensor<4x4xf32>) "
    "outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>"
)

PAD = """%fives = tensor.empty() : tensor<5x5xf32>
  %zeros = linalg.fill ins(%{0} : f32) outs(%fives : tensor<5x5xf32>) -> tensor<5x5xf32>
  %p = tensor.insert_slice %a into %zeros[1, 0] [4, 4] [1, 1]
    : tensor<4x4xf32> into tensor<5x5xf32>"""

PAD_AGAIN = """%q = tensor.insert_slice %x into %p[0, 0] [4, 4] [1, 1]
    : tensor<4x4xf32> into tensor<5x5xf32>"""


def padded(*lines: str) -> Any:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
func.func @f(%x: tensor<4x4xf32>, %n: f32, %k: index) -> tensor<4x4xf32> {{
  %zero = arith.constant 0.0 : f32
  %five = tensor.empty() : tensor<5x5xf32>
  %a = math.absf %x : tensor<4x4xf32>
  {"".join(f"{line}{chr(10)}" for line in lines)}
  return %y : tensor<4x4xf32>
}}""")
        read_padded_tensors(module)
        assert module.operation.verify()
        return module


def test_tensors_are_read_where_they_are_padded():
    module = padded(PAD.format("zero"), f"%y = {ADD}")
    (slice_,) = ops_in(module, "tensor.extract_slice")
    (insert,) = ops_in(module, "tensor.insert_slice")
    assert slice_.operands[0] == insert.results[0]
    assert insert.operands[0] == ops_in(module, "math.absf")[0].results[0]
    for name in ("static_offsets", "static_sizes", "static_strides"):
        assert slice_.attributes[name] == insert.attributes[name]
    (add,) = ops_in(module, "linalg.add")
    assert add.operands[0] == slice_.results[0]


@pytest.mark.parametrize(
    "lines",
    [
        # It is read before it is inserted.
        [f"%y = {ADD}", PAD.format("zero")],
        # Something is inserted on top of it, which may be in place.
        [PAD.format("zero"), PAD_AGAIN, f"%y = {ADD}"],
        # What is around it is no padding.
        [PAD.format("zero").replace("into %zeros", "into %fives"), f"%y = {ADD}"],
        [PAD.format("zero").replace("%a into", "%x into"), f"%y = {ADD}"],
        [PAD.format("zero").replace("[1, 0]", "[%k, 0]"), f"%y = {ADD}"],
        # A result should be an array of the caller at once.
        [
            PAD.format("zero"),
            "%y = tensor.cast %a : tensor<4x4xf32> to tensor<4x4xf32>",
        ],
    ],
    ids=["before", "in place", "no padding", "another one", "dynamic", "result"],
)
def test_tensors_that_are_read_elsewhere(lines: list[str]):
    assert not ops_in(padded(*lines), "tensor.extract_slice")


def test_reshapes_of_padded_tensors():
    reshape = """%shape = arith.constant dense<[1, 4, 4]> : tensor<3xindex>
  %r = tensor.reshape %a(%shape) : (tensor<4x4xf32>, tensor<3xindex>) -> tensor<1x4x4xf32>
  %y = tensor.collapse_shape %r [[0, 1], [2]] : tensor<1x4x4xf32> into tensor<4x4xf32>"""
    module = padded(PAD.format("zero"), reshape)
    assert not ops_in(module, "tensor.reshape")
    (expand,) = ops_in(module, "tensor.expand_shape")
    assert defining_op(expand.operands[0], "tensor.extract_slice")
    other = reshape.replace("1, 4, 4", "4, 4, 1").replace("1x4x4", "4x4x1")
    other = other.replace("[[0, 1], [2]]", "[[0], [1, 2]]")
    module = padded(PAD.format("zero"), other)
    assert len(ops_in(module, "tensor.reshape")) == 1
    assert not ops_in(module, "tensor.extract_slice")


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
