"""Ops of a model by several runtimes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.rosetta import (
    Difference,
    Match,
    RuntimeComparison,
    Unavailable,
    compare_ops,
)
from xdsl_quant.rosetta.models import single_ops
from xdsl_quant.rosetta.onnx_ops import onnx_model
from xdsl_quant.rosetta.tosa import TosaTools
from xdsl_quant.runtime.loading import parse_module

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
FALLBACK = {"fallback": "only"}


def elementwise() -> ModuleOp:
    return parse_module((EXAMPLES / "tfl_elementwise.mlir").read_text())


def counts(comparison: RuntimeComparison) -> dict[str, int]:
    return {row.runtime: row.differences for row in comparison.rows}


# Models of one op


def test_elementwise_ops():
    product, rescaled = single_ops(elementwise())
    assert product.title == "tfl.mul 'product'"
    assert [array.shape for array in product.runs[0]] == [(1 << 16,)] * 2
    assert (
        len({*zip(*(array.tolist() for array in product.runs[0]), strict=True)})
        == 1 << 16
    )
    assert product.labels.text(257) == "-127, -127"
    assert rescaled.runs[0][0].tolist() == [*range(-128, 128)]
    assert "tensor<256x!quant.uniform<i8:f32, 3.700000e-01:2>>" in str(rescaled.op)


def test_constants_and_other_ops():
    pytest.importorskip("tflite")
    module = read_tflite(EXAMPLES / "streaming.tflite")
    dense, logistic = single_ops(module)
    assert dense.title == "tfl.fully_connected 'sum'"
    assert len(dense.runs) == 4096
    ((argument,), *_) = dense.runs
    assert (argument.shape, argument.dtype) == ((1, 6), np.int8)
    assert dense.labels.text(7) == "result 0 of run 7"
    assert not dense.is_elementwise
    assert logistic.title == "tfl.logistic 'probability'"
    assert [single.title for single in single_ops(module, ["logistic"])] == [
        logistic.title
    ]


def test_wide_operands_are_random_and_equal_ops_are_one():
    type_ = "tensor<2x!quant.uniform<i16:f32, 0.5>>"
    line = f'tfl.add %x, %x {{fused_activation_function = "NONE"}} : {type_}'
    module = parse_module(
        f"func.func @main(%x: {type_}) {{\n  %0 = {line}\n  %1 = {line}\n  return\n}}"
    )
    (single,) = single_ops(module)
    assert [array.size for array in single.runs[0]] == [1 << 16] * 2


def test_floats():
    module = parse_module(
        "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        '  %q = "tfl.quantize"(%x) <{qtype = tensor<3x!quant.uniform<u8:f32, 0.5:3>>}>'
        " : (tensor<3xf32>) -> tensor<3x!quant.uniform<u8:f32, 0.5:3>>\n"
        '  %y = "tfl.dequantize"(%q)'
        " : (tensor<3x!quant.uniform<u8:f32, 0.5:3>>) -> tensor<3xf32>\n"
        "  return %y : tensor<3xf32>\n}"
    )
    quantized, dequantized = compare_ops(module, runtimes=[])
    assert quantized.title == "tfl.quantize 'q'"
    assert quantized.rows[0].nan == "0"
    assert dequantized.inputs == 256


# Runtimes


def test_onnxruntime_and_litert():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite")
    product, rescaled = compare_ops(elementwise())
    assert counts(product) == {
        "compiled": 0,
        "compiled kernels=multiplier": 0,
        "compiled fallback=only": 736,
        "onnxruntime": 674,
        "litert-reference": 0,
        "litert-optimized": 0,
        "litert-xnnpack": 674,
        **({"tosa": 0} if TosaTools().are_installed else {}),
    }
    assert product.row("litert-reference").match == Match({}, 0)
    match = product.row("onnxruntime").match
    assert match is not None
    assert (match.options, match.differences) == (FALLBACK, 84)
    assert counts(rescaled)["litert-xnnpack"] == 29


@pytest.mark.sampled(0)
def test_products():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite")
    module = read_tflite(EXAMPLES / "layers_int8.tflite", static=True)
    runtimes = ["litert-reference", "onnxruntime"]
    found = [*compare_ops(module, runtimes=runtimes, ops=["fully_connected", "tanh"])]
    hidden, activation, logits = found
    assert hidden.title == "tfl.fully_connected 'hidden'"
    for each in (hidden, logits):
        assert counts(each) == {"compiled": 0, "litert-reference": 0, "onnxruntime": 0}
    assert activation.left_out == {"onnxruntime": "no quantized op for 'tfl.tanh'"}


def convolution(op: str) -> ModuleOp:
    axis, channels, shape, options = 0, 3, (4, 2, 3, 3), ""
    if op == "depthwise_conv_2d":
        axis, channels, shape = 3, 2, (1, 2, 3, 4)
        options = "depth_multiplier = 2 : i32, "
    values = np.random.default_rng(0).integers(-127, 128, shape).tolist()
    sizes = "x".join(map(str, shape))
    x = f"tensor<1x5x6x{channels}x!quant.uniform<i8:f32, 0.1:3>>"
    scales = f"f32:{axis}, {{0.02,0.03,0.01,0.05}}"
    w = f"tensor<{sizes}x!quant.uniform<i8<-127:127>:{scales}>>"
    y = "tensor<1x3x3x4x!quant.uniform<i8:f32, 1.5:-7>>"
    options += (
        "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = 2 : i32, "
        'stride_w = 2 : i32, fused_activation_function = "RELU", padding = "SAME"'
    )
    return parse_module(
        f"func.func @main(%x: {x}) -> {y} {{\n"
        f'  %w = "tfl.pseudo_qconst"() <{{qtype = {w}, '
        f"value = dense<{values}> : tensor<{sizes}xi8>}}> : () -> {w}\n"
        '  %b = "tfl.pseudo_const"() '
        "<{value = dense<[100, -50, 0, 7]> : tensor<4xi32>}> : () -> tensor<4xi32>\n"
        f'  %y = "tfl.{op}"(%x, %w, %b) <{{{options}}}> : ({x}, {w}, tensor<4xi32>) '
        f"-> {y}\n  return %y : {y}\n}}"
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", ["conv_2d", "depthwise_conv_2d"])
def test_convolutions(op: str):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite")
    runtimes = ["litert-reference", "onnxruntime"]
    (found,) = compare_ops(convolution(op), runtimes=runtimes)
    assert found.inputs == 114 * 36
    assert counts(found) == {"compiled": 0, "litert-reference": 0, "onnxruntime": 0}


# TOSA


def test_tosa_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    found = next(compare_ops(elementwise(), runtimes=["tosa"]))
    assert found.left_out == {"tosa": "not installed; run 'make tosa-tools'"}


def test_tosa():
    if not TosaTools().are_installed:
        pytest.skip("make tosa-tools")
    product, rescaled = compare_ops(elementwise(), runtimes=["tosa"])
    assert product.row("tosa").match == rescaled.row("tosa").match == Match({}, 0)
    module = read_tflite(EXAMPLES / "layers_int8.tflite", static=True)
    quantized, hidden, *_ = compare_ops(module, runtimes=["tosa"])
    assert quantized.left_out == {"tosa": "TOSA_UNPREDICTABLE"}
    match = hidden.row("tosa").match
    assert match == Match({"kernels": "multiplier"}, 0)


def test_errors_of_tosa_tools():
    # These have none of its modules.
    with TosaTools(Path(sys.executable)) as tools:
        with pytest.raises(
            Unavailable, match="the converter failed: ModuleNotFoundError"
        ):
            tools.run_file(b"", [], np.dtype(np.int8))
        status, message = tools.call("run", "", [])
        assert (status, message[:21]) == ("invalid", "PackageNotFoundError:")
    with TosaTools(Path("/bin/false")) as tools:
        with pytest.raises(Unavailable, match="the converter failed: aborts"):
            tools.run_file(b"", [], np.dtype(np.int8))


# Mistakes


def test_mistakes():
    with pytest.raises(
        ValueError, match="unknown runtime 'torch'; available: 'compiled',"
    ):
        next(compare_ops(elementwise(), runtimes=["torch"]))
    nothing = "with static shapes that compute with stored values"
    with pytest.raises(
        ValueError, match=f"the model has no ops 'add', 'sub' {nothing}"
    ):
        next(compare_ops(elementwise(), ops=["add", "sub"]))
    with pytest.raises(ValueError, match=f"the model has no ops {nothing}"):
        next(compare_ops(parse_module("func.func private @f()")))
    scaled = (
        "tensor<2x!quant.block_scaled<i8:f32:{}, scales = dense<0.5> : tensor<f32>>>"
    )
    module = parse_module(
        f"func.func private @f({scaled})\n"
        f"func.func @main(%x: {scaled}) {{\n"
        f'  %y = "tfl.relu"(%x) : ({scaled}) -> {scaled}\n  return\n}}'
    )
    with pytest.raises(
        ValueError,
        match=r"^no integer kernel supports '!quant\.block_scaled'; use "
        r"'tfl\.dequantize'$",
    ):
        next(compare_ops(module))
    pytest.importorskip("onnx")
    (single,) = single_ops(
        parse_module(
            "func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) {\n"
            '  %y = "tfl.relu"(%x) : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> '
            "tensor<2x!quant.uniform<i8:f32, 0.5>>\n  return\n}"
        )
    )
    with pytest.raises(Unavailable, match=r"no quantized op for 'tfl\.relu'"):
        onnx_model(single.op)


def test_difference_of_operands():
    product, _ = compare_ops(elementwise(), runtimes=["compiled fallback=only"])
    first = product.row("compiled fallback=only").first
    assert first == Difference("-128, -49", "114", "115")
