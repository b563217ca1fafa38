"""Dead and repeated ops on tensors are removed."""
# ruff: noqa: E501 - an op in one line

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce

from xdsl_quant.runtime.loading import multiverse_context

from .modules import parse


def generic(name: str, ins: str, outs: str, op: str, result: str) -> str:
    return f"""
  {name} linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}} ins({ins}) outs({outs}) {{
  ^bb0(%in: f32, %out: f32):
    {op}
    linalg.yield %y : f32
  }} {result}"""


ON_TENSORS = ("%x : tensor<4xf32>", "%e : tensor<4xf32>")
ON_BUFFERS = ("%m : memref<4xf32>", "%m : memref<4xf32>")
SQUARE = "%y = arith.mulf %in, %in : f32"
UNKNOWN_EFFECT = '%y = "test.op"(%in) : (f32) -> f32'
TO_TENSOR = "-> tensor<4xf32>"


def generics(*ops: str) -> ModuleOp:
    return parse(
        f"""func.func @f(%x: tensor<4xf32>, %m: memref<4xf32>) {{
        %e = tensor.empty() : tensor<4xf32>
        {"".join(ops)}
        func.return
        }}"""
    )


def count_generics(module: ModuleOp) -> int:
    return sum(op.name == "linalg.generic" for op in module.walk())


def remove_unused(module: ModuleOp) -> None:
    region_dce(module.body)


def canonicalize(module: ModuleOp) -> None:
    CanonicalizePass().apply(multiverse_context(), module)


@pytest.mark.parametrize("remove_dead", [remove_unused, cse, canonicalize])
@pytest.mark.parametrize(
    ("op", "left"),
    [
        (generic("%0 =", *ON_TENSORS, SQUARE, TO_TENSOR), 0),
        (generic("%0 =", *ON_TENSORS, UNKNOWN_EFFECT, TO_TENSOR), 1),
        (generic("", *ON_BUFFERS, SQUARE, ""), 1),
    ],
)
def test_dead_generics_on_tensors_are_removed(
    remove_dead: Callable[[ModuleOp], object], op: str, left: int
):
    module = generics(op)
    remove_dead(module)
    assert count_generics(module) == left


def test_repeated_generics_on_tensors_become_one():
    def use(name: str) -> str:
        return f'\n"test.op"({name}) : (tensor<4xf32>) -> ()'

    module = generics(
        generic("%0 =", *ON_TENSORS, SQUARE, TO_TENSOR),
        generic("%1 =", *ON_TENSORS, SQUARE, TO_TENSOR),
        generic("%2 =", *ON_TENSORS, "%y = arith.addf %in, %in : f32", TO_TENSOR),
        use("%0"),
        use("%1"),
        use("%2"),
    )
    cse(module)
    assert count_generics(module) == 2
    used = [op.operands[0] for op in module.walk() if op.name == "test.op"]
    assert used[0] is used[1]
    assert used[1] is not used[2]
