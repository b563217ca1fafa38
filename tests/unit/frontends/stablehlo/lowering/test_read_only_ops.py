"""Ops that are verified and kept: whatever would run them refuses them by name."""

from random import Random

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.conformance.stablehlo_rare_texts import RARE_KINDS, rare_text
from tests.stablehlo_support import is_lowered
from xdsl_quant.execution import compile
from xdsl_quant.frontends.stablehlo.dialect import StableHLO
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

ALL_REDUCE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
REFUSAL = "'stablehlo.all_reduce' op has no conversion to linalg"


def test_refused_by_all_tools():
    with pytest.raises(IRError, match=REFUSAL):
        apply_passes(parse_module(ALL_REDUCE), "convert-stablehlo-to-linalg")
    with pytest.raises(Exception, match=REFUSAL):
        run_function(parse_module(ALL_REDUCE), None, [0.0] * 4)
    with pytest.raises(Exception, match=REFUSAL):
        compile(parse_module(ALL_REDUCE))


def _refusal(module: ModuleOp) -> str:
    """The error of the lowering; nothing if there is none."""
    try:
        apply_passes(module, "convert-stablehlo-to-linalg")
    except IRError as e:
        return str(e)
    return ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", RARE_KINDS)
def test_refused_by_name(kind: str):
    """Valid modules are lowered, or unchanged and refused with the name of the op."""
    kept = {op.name for op in StableHLO.operations if not is_lowered(op)}
    for i in range(20):
        try:
            module = parse_module(rare_text(Random(f"{kind} {i}"), kind))
        except IRError:
            continue
        text = str(module)
        names = [op.name for op in module.walk() if op.name in kept]
        if refusal := _refusal(module):
            assert "\n" not in refusal
            assert not names or f"'{names[0]}' op" in refusal, text
            assert str(module) == text
        else:
            assert not names, text
