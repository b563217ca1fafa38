"""Kernels become ops again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

PROGRAM = """
!x = tensor<4xf32>
!r = !quant.uniform<i8:f32, 5.000000e-01:3>
!t = !quant.uniform<i8:f32, 7.812500e-03>
func.func @f(%x: !x) -> !x {
  %r = quant.region "tfl.relu" (%a = %x : !x as !quant.any<i8:f32>) -> (!x as !r) {
    %b = "tfl.relu"(%a) : (!x) -> !x
    quant.return %b : !x
  }
  %t = quant.region "tfl.tanh" (%a = %r : !x as !r) -> (!x as !t) {
    %b = "tfl.tanh"(%a) : (!x) -> !x
    quant.return %b : !x
  }
  return %t : !x
}
"""


def inlined(options: str = "") -> ModuleOp:
    module = parse_module(PROGRAM)
    apply_passes(module, f"quant-inline-regions{options}")
    return module


def lines(module: ModuleOp) -> Sequence[str]:
    """The ops of the function without types of results and casts' operands."""
    body = str(module).splitlines()[2:-2]
    return [re.sub(r" : .* to", " to", line.strip()) for line in body]


def test_specifications_become_casts():
    assert lines(inlined()) == [
        "%0 = quant.qcast %x to tensor<4x!quant.any<i8:f32>>",
        "%a = quant.dcast %0 to tensor<4xf32>",
        '%b = "tfl.relu"(%a) : (tensor<4xf32>) -> tensor<4xf32>',
        "%1 = quant.qcast %b to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>",
        "%r = quant.dcast %1 to tensor<4xf32>",
        "%2 = quant.qcast %r to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>",
        "%a_1 = quant.dcast %2 to tensor<4xf32>",
        '%b_1 = "tfl.tanh"(%a_1) : (tensor<4xf32>) -> tensor<4xf32>',
        "%3 = quant.qcast %b_1 to tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>",
        "%t = quant.dcast %3 to tensor<4xf32>",
        "func.return %t : tensor<4xf32>",
    ]


def left(module: ModuleOp) -> Sequence[str]:
    return [op.kernel for op in module.walk() if isinstance(op, RegionOp)]


def test_kernels_that_are_named():
    assert left(inlined('{kernels="tfl.relu"}')) == ["tfl.tanh"]
    assert left(inlined('{kernels="tfl.relu","tfl.tanh"}')) == []
    with pytest.raises(IRError) as error:
        inlined('{kernels="tfl.add"}')
    assert (
        "unknown kernel 'tfl.add' in option 'kernels', available: 'tfl.relu', 'tfl.tanh'"
    ) in str(error.value)


def test_kernels_that_another_target_has_not(tmp_path: Path):
    assert left(inlined("{not-in-target=tflite-int8}")) == ["tfl.relu", "tfl.tanh"]
    assert left(inlined("{not-in-target=mac-array}")) == []
    # It has another zero point.
    path = tmp_path / "t.toml"
    path.write_text(
        '[[kernels]]\nops = ["tfl.relu", "tfl.tanh"]\ninputs = ["i8"]\noutputs = ["i8:0"]'
    )
    assert left(inlined(f'{{not-in-target="{path}"}}')) == ["tfl.tanh"]
    path.write_text(path.read_text().replace('["i8"]', '["const i8"]'))
    assert left(inlined(f'{{not-in-target="{path}"}}')) == []
    path.write_text(path.read_text().replace("const ", ""))
    both = f'{{kernels="tfl.tanh" not-in-target="{path}"}}'
    assert left(inlined(both)) == ["tfl.relu", "tfl.tanh"]
    with pytest.raises(IRError, match="unknown target 'npu'"):
        inlined("{not-in-target=npu}")


POSITIONS = """
!x = tensor<4xf32>
func.func @f(%x: !x) -> !x {
  %u = "tfl.exp"(%x) : (!x) -> !x
  %t = quant.region "k" (%a = %x : !x, %v = %u : !x) -> (!x)
      attributes {quant.positions = [WHERE]} {
    %b = "tfl.relu"(%a) : (!x) -> !x
    %c = tfl.add %b, %v {fused_activation_function = "NONE"} : !x
    quant.return %c : !x
  }
  return %t : !x
}
"""
IN_PLACE = ["tfl.exp", "tfl.relu", "tfl.add", "func.return"]


@pytest.mark.parametrize(
    ("positions", "names"),
    [
        ("0, 2", ["tfl.relu", "tfl.exp", "tfl.add", "func.return"]),
        ("1, 2", IN_PLACE),
        # What is no order, or has an op before its operands, is not believed.
        ("2, 0", IN_PLACE),
        ("0, 1", IN_PLACE),
        ("2, 2", IN_PLACE),
        ("1, 3", IN_PLACE),
        ("1, 7", IN_PLACE),
        ("1", IN_PLACE),
        ('"a", "b"', IN_PLACE),
    ],
)
def test_positions(positions: str, names: Sequence[str]):
    module = parse_module(POSITIONS.replace("WHERE", positions))
    apply_passes(module, "quant-inline-regions")
    function = next(iter(module.body.block.ops))
    assert [op.name for op in function.regions[0].block.ops] == names
