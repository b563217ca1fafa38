"""Casts that state their rounding keep it when kernels are specified and exported."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

AFTER = (
    '{quant.rounding_mode = "nearest-even", quant.zero_point_order = "after-rounding"}'
)

SPECIFY = "quant-fuse-kernels{target=mac-array},quant-constraints-to-specs"

VALUES: NDArray[Any] = np.zeros((2, 4), np.float32)
"""The first row has a tie of the input's cast, the second one of the result's."""
VALUES[:, 0] = 0.125, 0.25


def _module(attributes: str, result_attributes: str = "") -> str:
    result_attributes = result_attributes or attributes
    a, b = "!quant.uniform<i8:f32, 0.25:5>", "!quant.uniform<i8:f32, 0.5:7>"
    return f"""
func.func @f(%x: tensor<2x4xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>) {{
  %0 = quant.qcast %x {attributes} : tensor<2x4xf32> to tensor<2x4x{a}>
  %1 = quant.dcast %0 : tensor<2x4x{a}> to tensor<2x4xf32>
  %2 = stablehlo.constant dense<1.0> : tensor<4x1xf32>
  %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
  %4 = quant.qcast %3 {attributes} : tensor<2x1xf32> to tensor<2x1x{b}>
  %5 = quant.dcast %4 : tensor<2x1x{b}> to tensor<2x1xf32>
  %6 = quant.qcast %3 {result_attributes} : tensor<2x1xf32> to tensor<2x1x{b}>
  %7 = quant.dcast %6 : tensor<2x1x{b}> to tensor<2x1xf32>
  return %5, %7 : tensor<2x1xf32>, tensor<2x1xf32>
}}"""


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ("quant-inline-regions", [0.0, 0.0]),
        # The kernel stays in floating point.
        ("quant-export,stablehlo-casts-to-quant", [0.0, 0.0]),
        # The integer kernel rounds half up.
        ("quant-export{mode=codegen}", [0.0, 0.5]),
    ],
)
def test_results(passes: str, expected: list[float]):
    for attributes in (AFTER, ""):
        module = parse_module(_module(attributes))
        apply_passes(module, f"{SPECIFY},{passes},cse")
        if "codegen" not in passes:
            apply_passes(module, "convert-stablehlo-to-linalg")
        for result in run_function(module, "f", VALUES):
            assert result.ravel().tolist() == (expected if attributes else [0.5, 0.5])


def test_specifications():
    module = parse_module(_module(AFTER))
    apply_passes(module, SPECIFY)
    text = str(module)
    assert text.count("quant.qcast") == text.count("quant.dcast") == 1
    assert f"quant.qcast %x {AFTER}" in text
    assert f"quant.port_rounding = [{{port = 2 : i64, {AFTER[1:-1]}}}]" in text
    apply_passes(module, "quant-constraints-to-specs")
    assert str(module) == text


@pytest.mark.parametrize("other", ["{}", '{quant.nan = "stored-zero"}'])
def test_casts_that_round_differently_are_not_merged(other: str):
    module = parse_module(_module(AFTER, other))
    apply_passes(module, "quant-fuse-kernels{target=mac-array}")
    before = str(module)
    with pytest.raises(IRError) as error:
        apply_passes(module, "quant-constraints-to-specs")
    assert (
        "'quant.qcast' op cannot become a specification: another cast of its operand "
        "rounds differently; remove one of them"
    ) in str(error.value)
    assert str(module) == before


def test_an_invalid_attribute():
    module = parse_module(_module(AFTER))
    apply_passes(module, SPECIFY)
    text = str(module)
    start = text.index("quant.port_rounding = ")
    end = text.index("]", start) + 1
    module = parse_module(f"{text[:start]}quant.port_rounding = 3 : i64{text[end:]}")
    for passes in ("quant-inline-regions", "quant-export"):
        with pytest.raises(
            IRError, match="expects an array of dictionaries with an integer 'port' as"
        ):
            apply_passes(module.clone(), passes)


def test_codegen_of_a_float_kernel():
    a = "!quant.uniform<i8:f32, 1.0:5>"
    text = f"""
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = quant.region "k" (%1 = %x : tensor<2xf32>) -> (tensor<2xf32> as {a})
      attributes {{ATTRIBUTES}} {{
    %2 = math.ceil %1 : tensor<2xf32>
    %3 = arith.constant dense<0.5> : tensor<2xf32>
    %4 = arith.addf %2, %3 : tensor<2xf32>
    quant.return %4 : tensor<2xf32>
  }}
  return %0 : tensor<2xf32>
}}"""
    stated = f"quant.port_rounding = [{{port = 1 : i64, {AFTER[1:-1]}}}]"
    for attributes, expected in ((stated, [0.0, 2.0]), ("", [1.0, 1.0])):
        module = parse_module(text.replace("ATTRIBUTES", attributes))
        apply_passes(module, "quant-export{mode=codegen}")
        (result,) = run_function(module, "f", np.array([0.0, 1.0], np.float32))
        assert result.tolist() == expected
