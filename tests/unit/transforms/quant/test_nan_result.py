"""What NaN becomes, by the option and by the attribute of a cast, which comes first."""

from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from tests.real_stablehlo import RealStableHLO
from xdsl_quant import execution
from xdsl_quant.dialects.quant import QuantizeCastOp
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.rounding_mode import NanResult, RoundingMode
from xdsl_quant.runtime.loading import apply_passes, parse_module

RESULTS: tuple[NanResult, ...] = get_args(NanResult)
EXPECTED: dict[str, int] = {"storage-min": -100, "stored-zero": 0}

VALUES = np.array([np.nan, 1.0, -np.inf], np.float32)


def _quantize(attribute: str = "", parameters: str = "i8<-100:100>:f32, 0.5:3") -> str:
    q = f"tensor<3x!quant.uniform<{parameters}>>"
    return f"""
func.func @f(%x: tensor<3xf32>) -> {q} {{
  %q = quant.qcast %x {attribute} : tensor<3xf32> to {q}
  return %q : {q}
}}"""


def _marked(name: str) -> str:
    return f'{{quant.nan = "{name}"}}'


def _all_results(text: str, nan: NanResult) -> list[list[int]]:
    """Interpreted, lowered and interpreted, and compiled."""
    results: list[NDArray[Any]] = [*run_function(text, "f", VALUES, nan=nan)]
    for fuse in ("false", "true"):
        module = parse_module(text)
        lowering = f"rounding-mode=nearest-even nan={nan} fuse={fuse}"
        apply_passes(module, f"lower-quant-ops{{{lowering}}},strip-func-quant-types")
        results += run_function(module, "f", VALUES)
        results.append(execution.compile(text, nan=nan, fuse=fuse == "true")(VALUES))
    return [result.tolist() for result in results]


@pytest.mark.parametrize(("nan", "marked"), [*product(RESULTS, ("", *RESULTS))])
def test_results(nan: NanResult, marked: NanResult | str):
    text = _quantize(_marked(marked) if marked else "")
    expected = [EXPECTED[marked or nan], 5, -100]
    assert _all_results(text, nan) == [expected] * 5


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [("i8<3:100>:f32, 0.5:3", 3), ("i8<-100:-3>:f32, 0.5:3", -3), ("u8:f32, 0.5:3", 0)],
)
def test_nearest_to_zero(parameters: str, expected: int):
    text = _quantize(_marked("stored-zero"), parameters)
    for result in _all_results(text, "storage-min"):
        assert result[0] == expected


@pytest.mark.parametrize(
    ("storage", "mode", "count"),
    [
        ("i8", "nearest-even", 2),
        # The clamp alone makes the smallest stored value of NaN.
        ("u8", "nearest-even", 1),
        ("i8<3:100>", "nearest-even", 1),
        # There is no clamp of floats.
        ("i8", "truncate", 1),
        ("u8", "truncate", 1),
    ],
)
def test_maxima_of_floats(storage: str, mode: RoundingMode, count: int):
    module = parse_module(_quantize(parameters=f"{storage}:f32, 0.5:3"))
    lowering = f"rounding-mode={mode} nan=stored-zero"
    apply_passes(module, f"lower-quant-ops{{{lowering}}}")
    assert str(module).count("arith.maxnumf") == count


def test_types_with_both_results():
    q = "!quant.uniform<i8:f32, 0.5:3>"
    text = f"""
func.func @f(%x: f32) -> ({q}, {q}, {q}) {{
  %0 = quant.qcast %x {_marked("stored-zero")} : f32 to {q}
  %1 = quant.qcast %x : f32 to {q}
  %2 = quant.qcast %x {_marked("stored-zero")} : f32 to {q}
  return %0, %1, %2 : {q}, {q}, {q}
}}"""
    for passes in (
        "",
        "cse",
        "canonicalize,cse,lower-quant-ops{rounding-mode=nearest-even}",
    ):
        module = parse_module(text)
        apply_passes(module, passes)
        assert run_function(module, "f", np.nan) == (0, -128, 0)
    module = parse_module(text)
    apply_passes(module, "cse")
    assert sum(isinstance(op, QuantizeCastOp) for op in module.walk()) == 2


@pytest.mark.parametrize(
    "options", ["", "rounding-mode=nearest-away", "nan=stored-zero"]
)
def test_constants(options: str):
    q = "tensor<2x!quant.uniform<i8:f32, 0.5:3>>"
    module = parse_module(
        f"""
%c = arith.constant dense<[0x7FC00000, 1.0]> : tensor<2xf32>
%0 = quant.qcast %c {_marked("stored-zero")} : tensor<2xf32> to {q}
%1 = quant.qcast %c : tensor<2xf32> to {q}
%2 = quant.qcast %c {_marked("storage-min")} : tensor<2xf32> to {q}"""
    )
    apply_passes(module, f"quant-convert-const{{{options}}}")
    constants = [op.value for op in module.walk() if isinstance(op, ConstantOp)]
    values = [
        [*value.get_values()]
        for value in constants
        if isinstance(value, DenseIntOrFPElementsAttr)
    ]
    assert values == [[0, 5], [0 if "zero" in options else -128, 5], [-128, 5]]


def test_fake_quantization():
    text = """
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = quant.const_fake_quant %x <-1.5:2.0> bits 3 signed : tensor<3xf32>
  return %y : tensor<3xf32>
}"""
    # The smallest stored value is -4, and the zero point -1.
    results: dict[NanResult, float] = {"storage-min": -1.5, "stored-zero": 0.5}
    for nan, expected in results.items():
        (result,) = run_function(text, "f", VALUES, nan=nan)
        assert result.tolist() == [expected, 1.0, -1.5]
        assert execution.compile(text, nan=nan)(VALUES).tolist() == result.tolist()


def test_the_pass_that_makes_casts_of_stablehlo_removes_it():
    module = parse_module(_quantize(_marked("stored-zero")))
    apply_passes(module, "quant-casts-to-stablehlo")
    assert "quant.nan" not in str(module)
    apply_passes(module, "stablehlo-casts-to-quant")
    assert 'quant.nan = "stored-zero"' in str(module)


# StableHLO

TO_QDQ = "stablehlo-legalize-quantized-op-to-qdq"
TO_QUANT = f"{TO_QDQ},stablehlo-casts-to-quant"
KEEP = "stablehlo-legalize-quant-to-integer{fallback=keep}"
LOWERING = (
    "lower-quant-ops{rounding-mode=nearest-even keep-qdq=true},"
    "convert-stablehlo-to-linalg,strip-func-quant-types"
)


def _divide(q: str) -> str:
    return f"""
func.func @f(%x: {q}, %y: {q}) -> {q} {{
  %q = stablehlo.divide %x, %y : {q}
  return %q : {q}
}}"""


def _uniform_quantize(q: str) -> str:
    return f"""
func.func @f(%x: tensor<3xf32>) -> {q} {{
  %q = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> {q}
  return %q : {q}
}}"""


def _routes(text: str, *arguments: NDArray[Any]) -> list[list[int]]:
    """All ways to run StableHLO with floats."""
    results: list[NDArray[Any]] = []
    for first in (TO_QUANT, f"{KEEP},{TO_QUANT}"):
        module = parse_module(text)
        apply_passes(module, f"{first},{LOWERING}")
        results += run_function(module, "f", *arguments)
        results.append(execution.compile(module)(*arguments))
        module = parse_module(text)
        apply_passes(module, f"{first},convert-stablehlo-to-linalg")
        results += run_function(module, "f", *arguments)
        results.append(execution.compile(module)(*arguments))
        apply_passes(module, "quant-casts-to-stablehlo,stablehlo-casts-to-quant")
        results += run_function(module, "f", *arguments)
    return [result.tolist() for result in results]


def test_uniform_quantize_is_the_real_one():
    q = "tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>"
    (expected,) = RealStableHLO().results(_uniform_quantize(q), VALUES)
    assert expected.tolist() == [0, 5, -128]
    assert _routes(_uniform_quantize(q), VALUES) == [expected.tolist()] * 10


def test_quotient_of_zeros_is_the_real_one():
    q = "tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>"
    lhs, rhs = np.array([3, 5, 3], np.int8), np.array([3, 5, 9], np.int8)
    (expected,) = RealStableHLO().results(_divide(q), lhs, rhs, passes=TO_QDQ)
    assert expected.tolist() == [0, 5, 3]
    assert _routes(_divide(q), lhs, rhs) == [expected.tolist()] * 10


@pytest.mark.parametrize(("bounds", "expected"), [("3:100", 3), ("-100:-3", -3)])
def test_ranges_without_zero_are_kept(bounds: str, expected: int):
    # Real StableHLO stores 0, which is no number of the type.
    # StableHLO wants the zero point in the range.
    q = f"tensor<3x!quant.uniform<i8<{bounds}>:f32, 5.000000e-01:{2 * expected}>>"
    for result in _routes(_uniform_quantize(q), VALUES):
        assert result[0] == expected
