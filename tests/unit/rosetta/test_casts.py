"""Casts of a type by several runtimes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.rosetta import (
    RUNTIMES,
    Difference,
    Match,
    Runtime,
    RuntimeComparison,
    Unavailable,
    compare_runtimes,
)
from xdsl_quant.rosetta.compiled import MLIRDefault
from xdsl_quant.rosetta.inputs import (
    all_expressed_values,
    expressed_values,
    stored_inputs,
)
from xdsl_quant.rosetta.runtimes import OnnxDefinition, StableHLODefinition
from xdsl_quant.rosetta.worker import Worker
from xdsl_quant.runtime.loading import IRError, parse_module

I8 = "!quant.uniform<i8:f32, 0.3:5>"
AFTER = {"zero-point-order": "after-rounding"}
AWAY = {"rounding-mode": "nearest-away"}


def compared(source: str, *runtimes: str, **options: Any) -> list[RuntimeComparison]:
    return [*compare_runtimes(source, runtimes=runtimes, **options)]


def counts(comparison: RuntimeComparison) -> dict[str, int]:
    return {row.runtime: row.differences for row in comparison.rows}


# Inputs


@pytest.mark.parametrize("expressed", ["f32", "f64"])
@pytest.mark.parametrize("storage", ["i4", "u8"])
def test_inputs_are_on_both_sides_of_all_steps(expressed: str, storage: str):
    parameters = QuantizationParameters(0.3, 5, storage=storage, expressed=expressed)
    values = expressed_values(parameters)
    assert values.dtype == parameters.expressed_dtype
    scale = parameters.scales.astype(values.dtype)
    for middle in np.arange(parameters.storage_min, parameters.storage_max) - 4.5:
        nearest = (middle * scale).astype(values.dtype)
        for neighbour in (-np.inf, np.inf):
            assert np.nextafter(nearest, values.dtype.type(neighbour)) in values
    for special in (0.0, np.inf, -np.inf, np.finfo(values.dtype).max):
        assert special in values
    assert np.signbit(values[values == 0]).tolist() == [False, True]
    assert np.isnan(values).any()
    bits = values.view(f"u{values.itemsize}")
    assert np.unique(bits).size == bits.size
    # Each sign and exponent is there.
    patterns = np.unique(bits >> bits.dtype.type(np.finfo(values.dtype).nmant))
    assert patterns.size == 1 << (8 * values.itemsize - np.finfo(values.dtype).nmant)


def test_all_inputs():
    for expressed in ("f16", "bf16"):
        parameters = QuantizationParameters(0.3, expressed=expressed)
        (chunk,) = all_expressed_values(parameters)
        assert np.unique(chunk.view("u2")).size == 1 << 16
    numbers: list[int] = []

    def progress(chunks: Any) -> Any:
        numbers.extend(chunks)
        return numbers[:2]

    chunks = [*all_expressed_values(QuantizationParameters(0.3), progress)]
    assert len(numbers) * chunks[0].size == 1 << 32
    assert chunks[1].view("u4")[0] == chunks[0].view("u4")[-1] + 1
    with pytest.raises(Unavailable, match="at most 32 bits"):
        next(all_expressed_values(QuantizationParameters(0.3, expressed="f64")))


def test_stored_values():
    narrow = QuantizationParameters(0.3, storage="i8", storage_min=-127)
    assert stored_inputs(narrow).tolist() == [*range(-127, 128)]
    wide = stored_inputs(QuantizationParameters(0.3, storage="u32"))
    assert wide.dtype == np.uint32
    assert {0, 1, 2**32 - 1} <= {*wide.tolist()}
    assert wide.size > 1 << 16


# Runtimes


def test_definitions():
    runtimes = "onnx-definition", "stablehlo-definition"
    quantized, dequantized = compared(I8, *runtimes)
    assert quantized.title == "quantize !quant.uniform<i8:f32, 3.000000e-01:5>"
    assert quantized.inputs == 78_340
    assert counts(quantized) == {"compiled": 0, runtimes[0]: 289, runtimes[1]: 0}
    row = quantized.row("onnx-definition")
    assert row.first == Difference("0.14999995", "5", "6")
    assert row.match == Match(AFTER, 0)
    assert (row.nan, row.version) == ("undefined", "")
    assert quantized.row("stablehlo-definition").match == Match({}, 0)
    assert quantized.row("compiled").match is None
    assert dequantized.title == "dequantize !quant.uniform<i8:f32, 3.000000e-01:5>"
    assert dequantized.inputs == 256
    assert counts(dequantized) == {"compiled": 0, runtimes[0]: 0, runtimes[1]: 0}
    with pytest.raises(KeyError, match="torch"):
        quantized.row("torch")


@pytest.mark.sampled(0)
def test_our_own_formula_divides_in_the_expressed_type():
    """What compiled code computes in f32 is another number."""
    quantized, dequantized = compared(
        "!quant.uniform<i16:bf16, 0.1:128>", "onnx-definition", "stablehlo-definition"
    )
    assert counts(quantized)["onnx-definition"] == 1632
    match = quantized.row("onnx-definition").match
    assert match == Match({}, 1632, Difference("0.349609", "132", "131"))
    match = dequantized.row("onnx-definition").match
    assert match is not None
    assert (match.options, match.differences) == ({"rounding-mode": "truncate"}, 664)


def test_narrow_ranges_and_storage_types_of_definitions():
    onnx, stablehlo = OnnxDefinition(), StableHLODefinition()
    narrow = QuantizationParameters(0.5, storage_min=-127)
    values = np.array([-63.75, -64, 100, 0.25, 0.75], np.float32)
    assert onnx.run("quantize", narrow, values).tolist() == [-128, -128, 127, 0, 2]
    assert stablehlo.run("quantize", narrow, values).tolist() == [-127, -127, 127, 0, 2]
    # The largest stored value is no number of f16.
    wide = QuantizationParameters(0.5, storage="i16", expressed="f16")
    values = np.array([-20_000, 1, 20_000], np.float16)
    assert onnx.run("quantize", wide, values).tolist() == [-32768, 2, 32767]
    assert np.isnan(stablehlo.run("quantize", wide, values)).tolist() == [
        False,
        False,
        True,
    ]
    with pytest.raises(Unavailable, match="unsupported storage type 'i32'"):
        onnx.run("quantize", QuantizationParameters(0.5, storage="i32"), values)


def test_onnxruntime():
    pytest.importorskip("onnxruntime")
    quantized, dequantized = compared(I8, "onnxruntime")
    row = quantized.row("onnxruntime")
    assert (row.differences, row.nan, row.match) == (289, "-128", Match(AFTER, 0))
    assert row.version.startswith("onnxruntime ")
    assert dequantized.row("onnxruntime").match == Match({}, 0)
    halves = QuantizationParameters(0.5, 127, storage="u8", expressed="bf16")
    with Worker() as worker:
        with pytest.raises(Unavailable, match="unsupported expressed type 'bf16'"):
            worker.call(RUNTIMES["onnxruntime"].run, "quantize", halves, np.zeros(1))


def test_litert():
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite")
    names = "litert-reference", "litert-optimized", "litert-xnnpack"
    quantized, dequantized = compared("!quant.uniform<i8:f32, 0.5:3>", *names)
    assert counts(quantized) == {
        "compiled": 0,
        "litert-reference": 1721,
        "litert-optimized": 1849,
        "litert-xnnpack": 279,
    }
    # What is too large for an integer of 32 bits becomes the smallest stored value.
    too_large = Difference("1.1465958e+09", "-128", "127")
    matches = [quantized.row(name).match for name in names]
    assert matches == [
        Match({**AWAY, **AFTER}, 1570, too_large),
        Match(AFTER, 1570, too_large),
        Match(AFTER, 0, None, False),
    ]
    assert [quantized.row(name).nan for name in names] == ["-128", "-128", "127"]
    assert [dequantized.row(name).match for name in names] == [Match({}, 0)] * 3


@pytest.mark.sampled(0)
def test_xnnpack_multiplies_by_the_reciprocal():
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite")
    quantized, _ = compared(I8, "litert-xnnpack")
    match = quantized.row("litert-xnnpack").match
    assert match == Match(AFTER, 63, Difference("0.75000006", "8", "7"), False)


def test_stablehlo():
    pytest.importorskip("litert_converter")
    quantized, dequantized = compared("!quant.uniform<i8:f32, 0.5:3>", "stablehlo")
    row = quantized.row("stablehlo")
    assert (row.differences, row.nan) == (0, "0")
    assert row.match == Match({"nan": "stored-zero"}, 0)
    assert dequantized.row("stablehlo").match == Match({}, 0)


def test_against_what_only_quantizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OnnxDefinition, "only_quantizes", True)
    (quantized,) = compare_runtimes(
        I8, against="onnx-definition", runtimes=["compiled"]
    )
    assert counts(quantized) == {"onnx-definition": 0, "compiled": 289}


def test_torch():
    pytest.importorskip("torch")
    quantized, dequantized = compared(I8, "torch", "torch-fake-quantize")
    found = counts(quantized)
    assert (found["compiled"], found["torch-fake-quantize"]) == (0, 288)
    # torch 2.14 also multiplies by the reciprocal of the scale outside of training.
    assert found["torch"] in (66, 288)
    assert dequantized.row("torch").match == Match({}, 0)
    assert dequantized.left_out == {
        "torch-fake-quantize": "dequantization is unsupported"
    }


@pytest.mark.parametrize("storage", ["i8", "u8"])
def test_mlir(storage: str):
    parameters = QuantizationParameters(0.5, 3, storage=storage, expressed="f16")
    values = np.array([0.4, -0.4, 0.9, 62, -1.5], np.float16)
    stored = MLIRDefault().run("quantize", parameters, values)
    assert stored.dtype == parameters.storage_dtype
    assert stored.tolist() == [3, 2, 4, 127, 0]
    expressed = MLIRDefault().run("dequantize", parameters, stored)
    assert expressed.tolist() == [0, -0.5, 0.5, 62, -1.5]


def test_our_options():
    names = [name for name in RUNTIMES if name.startswith("compiled")]
    quantized, dequantized = compared("!quant.uniform<i4:bf16, 0.5:3>", *names)
    assert counts(quantized) == {
        "compiled": 0,
        "compiled zero-point-order=after-rounding": 27,
        "compiled rounding-mode=nearest-away": 20,
        "compiled rounding-mode=nearest-away zero-point-order=after-rounding": 19,
        "compiled rounding-mode=truncate": 33_322,
    }
    # Only these may differ.
    assert [*counts(dequantized)] == [*names[:1], names[2], names[4]]


# Sources


def test_sources():
    module = parse_module(
        "func.func @f(%x: f16, %s: !quant.uniform<i4:f16, 0.5>) -> f16 {\n"
        "  %q = quant.qcast %x : f16 to !quant.uniform<i4:f16, 0.25>\n"
        "  %y = quant.dcast %s : !quant.uniform<i4:f16, 0.5> to f16\n"
        "  return %y : f16\n}\n"
    )
    titles = [found.title for found in compare_runtimes(module, runtimes=[])]
    assert titles == [
        "quantize !quant.uniform<i4:f16, 2.500000e-01>",
        "dequantize !quant.uniform<i4:f16, 2.500000e-01>",
        "quantize !quant.uniform<i4:f16, 5.000000e-01>",
        "dequantize !quant.uniform<i4:f16, 5.000000e-01>",
    ]
    per_axis = "tensor<2x!quant.uniform<i4:f16:0, {0.25, 0.5:1}>>"
    titles = [found.title for found in compare_runtimes(per_axis, runtimes=[])]
    assert titles[2] == "quantize !quant.uniform<i4:f16, 5.000000e-01:1>"
    with pytest.raises(ValueError, match="expected casts to compare, found none"):
        list(compare_runtimes(parse_module("func.func private @f()")))
    with pytest.raises(ValueError, match=r"'f32' is not a '!quant\.uniform' type"):
        list(compare_runtimes("f32"))
    with pytest.raises(IRError):
        list(compare_runtimes("!quant.uniform<i8:f32>"))


def test_mistakes():
    with pytest.raises(
        ValueError, match="unknown runtime 'onnx'; available: 'compiled', "
    ):
        compared(I8, "onnx")
    with pytest.raises(ValueError, match="unknown runtime 'onnx'"):
        compared(I8, against="onnx")
    with pytest.raises(
        Unavailable,
        match="cannot compare with 'litert-xnnpack': unsupported expressed type 'f16'",
    ):
        compared("!quant.uniform<i8:f16, 0.3>", against="litert-xnnpack")


class Missing(Runtime):
    name = "missing"
    package = "no-such-package"
    modules = ("no_such_module",)

    def run(
        self, op: str, parameters: QuantizationParameters, values: NDArray[Any]
    ) -> NDArray[Any]:
        raise NotImplementedError


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(RUNTIMES, "missing", Missing())  # pyright: ignore[reportArgumentType] it has what the test needs
    quantized, _ = compared("!quant.uniform<i4:f16, 0.5>", "missing")
    assert quantized.left_out == {"missing": "no-such-package is not installed"}
    assert str(quantized).splitlines()[-1] == (
        "  left out: missing: no-such-package is not installed"
    )
    with pytest.raises(
        Unavailable, match="'missing': no-such-package is not installed"
    ):
        compared("!quant.uniform<i4:f16, 0.5>", against="missing")


class Calls:
    """What a worker is told to call."""

    def double(self, number: int) -> int:
        print("to the standard output")
        return 2 * number

    def fail(self) -> None:
        raise RuntimeError("first line\nsecond line")

    def end(self) -> None:
        raise SystemExit(3)


@pytest.mark.sampled(0)
def test_worker():
    with Worker() as worker:
        assert worker.call(Calls().double, 3) == 6
        with pytest.raises(Unavailable, match=r"^RuntimeError: first line$"):
            worker.call(Calls().fail)
        with pytest.raises(Unavailable, match="the library terminated its process"):
            worker.call(Calls().end)
        # It is started again.
        assert worker.call(Calls().double, 4) == 8


# Tables


def test_table():
    runtimes = "onnx-definition", "stablehlo-definition"
    quantized, dequantized = compared("!quant.uniform<i4:bf16, 0.5:3>", *runtimes)
    assert str(quantized).splitlines() == [
        "quantize !quant.uniform<i4:bf16, 5.000000e-01:3>: 65,536 inputs, compa"
        "red with compiled",
        "  runtime               differ  input     result  compiled  NaN       "
        " same as compiled with",
        "  compiled              0       -         -       -         -8         -",
        "  onnx-definition       27      0.246094  3       4         undefined "
        " zero-point-order=after-rounding",
        "  stablehlo-definition  0       -         -       -         undefined "
        " default",
    ]
    assert str(dequantized).splitlines()[1:3] == [
        "  runtime               differ  input  result  compiled  same as compiled with",
        "  compiled              0       -      -       -         -",
    ]


def test_text_of_matches():
    first = Difference("0.5", "1", "2")
    assert str(Match({}, 0)) == "default"
    assert str(Match({"a": "b", "c": "d"}, 0)) == "a=b c=d"
    assert str(Match({"a": "b"}, 0, None, False)) == "a=b, except for NaN"
    assert str(Match({"a": "b"}, 1234, first)) == (
        "none; 1,234 differ with a=b, first 0.5: 1, not 2"
    )
