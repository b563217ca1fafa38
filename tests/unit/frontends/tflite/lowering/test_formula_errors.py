"""Errors of formulas: unsupported types have an exception of their own, bugs do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.utils.exceptions import InterpretationError, PassFailedException

from xdsl_quant.frontends.tflite.formulas import floats
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_linalg import (
    ConvertTFLToLinalgPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module


def unary(name: str, element_type: str) -> str:
    type_ = f"tensor<4x{element_type}>"
    return f"""func.func @main(%x: {type_}) -> {type_} {{
      %y = "tfl.{name}"(%x) : ({type_}) -> {type_}
      return %y : {type_}
    }}"""


def buggy(*_: Any, **__: Any) -> Any:
    raise TypeError("a bug")


def test_a_bug_of_a_formula_is_no_missing_conversion(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(floats, "apply_activation", buggy)
    type_ = "tensor<4xf32>"
    text = f"""func.func @main(%x: {type_}) -> {type_} {{
      %y = tfl.add %x, %x {{fused_activation_function = "NONE"}} : {type_}
      return %y : {type_}
    }}"""
    module = parse_module(text)
    with pytest.raises(TypeError, match="a bug"):
        ConvertTFLToLinalgPass().apply(Context(), module)
    with pytest.raises(TypeError, match="a bug"):
        run_function(module, "main", np.zeros(4, np.float32))


@pytest.mark.parametrize("name", ["floor", "log"])
def test_floats_for_integers(name: str):
    with pytest.raises(PassFailedException) as error:
        ConvertTFLToLinalgPass().apply(
            Context(), parse_module(unary(name, "i32"), "model.mlir")
        )
    assert str(error.value) == (
        f"model.mlir:2:7: error: 'tfl.{name}' op has no conversion to linalg for these "
        "element types"
    )


@pytest.mark.parametrize("name", ["abs", "neg", "logistic", "softmax"])
def test_numbers_of_truth_values(name: str):
    text = unary(name, "i1").replace("(%x) :", "(%x) <{beta = 1.0 : f32}> :")
    module = parse_module(
        text if name == "softmax" else unary(name, "i1"), "model.mlir"
    )
    message = (
        f"model.mlir:2:7: error: 'tfl.{name}' op has operands of 'i1', expected numbers"
    )
    with pytest.raises(InterpretationError) as error:
        run_function(module, "main", np.zeros(4, np.bool_))
    assert str(error.value) == message
    with pytest.raises(PassFailedException) as failure:
        ConvertTFLToLinalgPass().apply(Context(), module)
    assert str(failure.value) == message


@pytest.mark.parametrize(
    ("name", "operands", "properties"),
    [
        ("embedding_lookup", "%i, %x", ""),
        ("gather", "%x, %i", " <{axis = 0 : i32, batch_dims = 0 : i32}>"),
        ("gather_nd", "%x, %i", ""),
    ],
)
def test_float_indices(name: str, operands: str, properties: str):
    indices = "tensor<2x1xf32>" if name == "gather_nd" else "tensor<2xf32>"
    types = [indices if x == "%i" else "tensor<4x2xf32>" for x in operands.split(", ")]
    text = f"""func.func @main(%x: tensor<4x2xf32>, %i: {indices}) -> tensor<2x2xf32> {{
      %y = "tfl.{name}"({operands}){properties}
        : ({", ".join(types)}) -> tensor<2x2xf32>
      return %y : tensor<2x2xf32>
    }}"""
    module = parse_module(text, "model.mlir")
    message = (
        f"model.mlir:2:7: error: 'tfl.{name}' op has float32 indices, expected integers"
    )
    shape = (2, 1) if name == "gather_nd" else (2,)
    values, places = np.zeros((4, 2), np.float32), np.zeros(shape, np.float32)
    with pytest.raises(InterpretationError) as error:
        run_function(module, "main", values, places)
    assert str(error.value) == message
    with pytest.raises(PassFailedException) as failure:
        ConvertTFLToLinalgPass().apply(Context(), module)
    assert str(failure.value) == message


def convolution(name: str, channels: object, filter: str, outputs: int) -> str:
    image, result = f"tensor<1x4x4x{channels}xf32>", f"tensor<1x4x4x{outputs}xf32>"
    types = f"{image}, tensor<{filter}xf32>, tensor<{outputs}xf32>"
    multiplier = "depth_multiplier = 1 : i32, " if name != "conv_2d" else ""
    return f"""func.func @main(%x: {image}, %w: tensor<{filter}xf32>,
        %b: tensor<{outputs}xf32>) -> {result} {{
      %y = "tfl.{name}"(%x, %w, %b) <{{{multiplier}dilation_h_factor = 1 : i32,
        dilation_w_factor = 1 : i32, fused_activation_function = "NONE",
        padding = "VALID", stride_h = 1 : i32, stride_w = 1 : i32
      }}> : ({types}) -> {result}
      return %y : {result}
    }}"""


MULTIPLE = "channels, expected a multiple of the"


@pytest.mark.parametrize("target", ["linalg", "stablehlo", "tosa"])
@pytest.mark.parametrize(
    ("name", "channels", "filter", "outputs", "reason"),
    [
        ("conv_2d", 5, "4x1x1x3", 4, f"5 input {MULTIPLE} 3 channels of the filter"),
        ("conv_2d", 2, "4x1x1x4", 4, f"2 input {MULTIPLE} 4 channels of the filter"),
        ("conv_2d", 6, "3x1x1x3", 3, f"3 output {MULTIPLE} 2 groups"),
        ("depthwise_conv_2d", 3, "1x1x1x4", 4, f"4 output {MULTIPLE} 3 groups"),
    ],
)
def test_channels_without_groups(
    name: str, channels: int, filter: str, outputs: int, reason: str, target: str
):
    module = parse_module(convolution(name, channels, filter, outputs), "model.mlir")
    with pytest.raises(IRError) as error:
        apply_passes(module, f"convert-tfl-to-{target}")
    start = f"model.mlir:3:7: error: 'tfl.{name}' op has {reason}"
    assert str(error.value).startswith(start)


def test_channels_of_unknown_number():
    module = parse_module(convolution("conv_2d", "?", "4x1x1x3", 4), "model.mlir")
    with pytest.raises(IRError, match=r"3:7: .* has a dynamic number of channels; use"):
        apply_passes(module, "convert-tfl-to-stablehlo")


def test_padding_value_that_is_not_constant():
    module = parse_module(
        """func.func @main(%x: tensor<2xf32>, %v: tensor<f32>) -> tensor<4xf32> {
          %p = "tfl.pseudo_const"() <{value = dense<1> : tensor<1x2xi32>}>
              : () -> tensor<1x2xi32>
          %y = "tfl.padv2"(%x, %p, %v)
              : (tensor<2xf32>, tensor<1x2xi32>, tensor<f32>) -> tensor<4xf32>
          return %y : tensor<4xf32>
        }""",
        "model.mlir",
    )
    (padded,) = run_function(module, "main", np.ones(2, np.float32), np.float32(5))
    assert padded.tolist() == [5, 1, 1, 5]
    with pytest.raises(PassFailedException) as error:
        ConvertTFLToLinalgPass().apply(Context(), module)
    assert str(error.value) == (
        "model.mlir:4:11: error: 'tfl.padv2' op has a non-constant padding value"
    )
