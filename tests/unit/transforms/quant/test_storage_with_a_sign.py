"""Storage spelled `si8` and `ui8` is lowered and run as that of `i8` and `u8` is."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.tools.run import main


def signless(text: str) -> str:
    """The text with `i8` for `si8`, and with `u8` for `ui8` of a quantized type."""
    text = re.sub(r"(?<=<)ui(?=\d)", "u", text)
    return re.sub(r"[su]i(?=\d)", "i", text)


def lowered(text: str, passes: str) -> str:
    module = parse_module(text)
    apply_passes(module, passes)
    return str(module)


TYPES = {
    "per tensor": "<{}:f32, 0.5:3>",
    "narrow": "<{}<1:6>:f32, 0.5:3>",
    "per axis": "<{}:f32:1, {{0.5:3,0.25,2.0:1}}>",
    "sub-channel": "<{}:f32:{{0:1, 1:3}}, {{{{0.5}},{{0.25:3}}}}>",
}

CASTS = """
func.func @f(%x: tensor<2x3xf32>, %s: tensor<2x3x!q>)
    -> (tensor<2x3x!q>, tensor<2x3xf32>) {{
  %c = arith.constant dense<[[0.5, 1.0, 2.0], [-9.0, 99.0, 1.25]]> : tensor<2x3xf32>
  %k = quant.qcast %c : tensor<2x3xf32> to tensor<2x3x!q>
  %e = quant.dcast %k : tensor<2x3x!q> to tensor<2x3xf32>
  %d = quant.dcast %s : tensor<2x3x!q> to tensor<2x3xf32>
  %y = arith.addf %d, %e : tensor<2x3xf32>
  %z = arith.addf %x, %y : tensor<2x3xf32>
  %q = quant.qcast %z : tensor<2x3xf32> to tensor<2x3x!q>
  return %q, %y : tensor<2x3x!q>, tensor<2x3xf32>
}}"""


def casts(storage: str, kind: str) -> str:
    quantized = f"!quant.uniform{TYPES[kind].format(storage)}"
    return CASTS.format().replace("!q>", f"{quantized}>")


PASSES = (
    "quant-convert-const",
    "lower-quant-ops",
    "lower-quant-ops{rounding-mode=nearest-even fuse=true},strip-func-quant-types",
    "normalize-quant-types,lower-quant-ops{rounding-mode=nearest-away}",
    "quant-casts-to-stablehlo,stablehlo-casts-to-quant",
    "quant-scales-to-fixed-point,lower-quant-ops,strip-func-quant-types,canonicalize",
)


STORAGES = ("ui8", "si8", "ui4", "si4", "ui16", "ui32")

CASES = [
    (storage, kind, passes)
    for storage in STORAGES
    for kind in TYPES
    for passes in PASSES
    # Not all types are there everywhere.
    if not (kind == "sub-channel" and ("fixed" in passes or "stablehlo" in passes))
    if not (storage.startswith("si") and "stablehlo" in passes)
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("storage", "kind", "passes"), CASES)
def test_passes_make_the_same_of_both_spellings(storage: str, kind: str, passes: str):
    text = casts(storage, kind)
    result = lowered(text, passes)
    assert signless(result) == lowered(signless(text), passes)
    # The type itself stays as it is spelled.
    if "strip" not in passes:
        assert f"!quant.uniform<{storage}" in result


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("storage", STORAGES)
def test_run(storage: str, kind: str):
    text = casts(storage, kind)
    random = np.random.default_rng(0)
    x = (4 * random.standard_normal((2, 3))).astype(np.float32)
    dtype = np.dtype(f"{'u' if storage[0] == 'u' else ''}int{max(int(storage[2:]), 8)}")
    stored = np.array([[1, 2, 3], [4, 5, 6]], dtype)
    expected = run_function(parse_module(signless(text)), "f", x, stored)
    assert np.asarray(expected[0]).dtype == dtype
    for results in (
        run_function(parse_module(text), "f", x, stored),
        compile(parse_module(text), "f")(x, stored),
    ):
        for one, other in zip(results, expected, strict=True):
            assert np.asarray(one).dtype == np.asarray(other).dtype
            np.testing.assert_array_equal(one, other)


def test_lowered_text_goes_through_mlir():
    text = casts("ui8", "per tensor")
    with Mlir() as mlir:
        assert isinstance(mlir.run(text), Accepted)
        result = lowered(text, "lower-quant-ops,strip-func-quant-types,canonicalize")
        assert "quant" not in result
        assert isinstance(mlir.run(result), Accepted)


STABLEHLO = """
!q = !quant.uniform<{0}:f32, 0.5:3>
!r = !quant.uniform<{0}:f32, 0.25:7>
!w = !quant.uniform<{0}:f32:1, {{0.5,0.25,2.0}}>
func.func @f(%x: tensor<2x2x!q>, %y: tensor<2x3x!q>) -> tensor<2x3x!r> {{
  %w = stablehlo.constant() <{{value = dense<[[1, 2, {1}], [4, 0, 6]]> : tensor<2x3x{0}>}}>
    : () -> tensor<2x3x!w>
  %s = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x2x!q>, tensor<2x3x!w>) -> tensor<2x3x!q>
  %a = stablehlo.add %s, %y : (tensor<2x3x!q>, tensor<2x3x!q>) -> tensor<2x3x!q>
  %r = stablehlo.uniform_quantize %a : (tensor<2x3x!q>) -> tensor<2x3x!r>
  %t = stablehlo.transpose %r, dims = [0, 1] : (tensor<2x3x!r>) -> tensor<2x3x!r>
  %m = stablehlo.maximum %t, %r : tensor<2x3x!r>
  return %m : tensor<2x3x!r>
}}"""

PIPELINES = {
    "integer": "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg",
    "qdq": "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,"
    "lower-quant-ops{rounding-mode=nearest-even keep-qdq=true},"
    "convert-stablehlo-to-linalg",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("storage", ["ui8", "ui4"])
def test_stablehlo(storage: str, pipeline: str):
    @settings(max_examples=5, deadline=None)
    @given(st.lists(st.integers(0, 15), min_size=10, max_size=10))
    def check(numbers: list[int]):
        text = STABLEHLO.format(storage, 13)
        # A constant of `u8` holds integers of `i8`.
        plain = signless(STABLEHLO.format(storage, 13 if storage == "ui8" else -3))
        values = np.array(numbers, np.uint8)
        arguments = values[:4].reshape(2, 2), values[4:].reshape(2, 3)
        results: list[Any] = []
        for source in (text, plain):
            module = parse_module(source)
            apply_passes(module, PIPELINES[pipeline])
            results += [
                run_function(module, "f", *arguments)[0],
                compile(module, "f")(*arguments),
            ]
        for result in results:
            assert result.dtype == np.uint8
            np.testing.assert_array_equal(result, results[0])

    check()


def test_run_by_the_tool(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "model.mlir"
    file.write_text(
        "func.func @f(%x: tensor<2xf32>) -> tensor<2x!quant.uniform<ui8:f32, 0.5>> {\n"
        "  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<ui8:f32, 0.5>>\n"
        "  return %q : tensor<2x!quant.uniform<ui8:f32, 0.5>>\n}"
    )
    assert main([str(file), "--input", "[100.0, -1.0]"]) in (0, None)
    assert capsys.readouterr().out == "result0: uint8, shape 2\n[200   0]\n"
