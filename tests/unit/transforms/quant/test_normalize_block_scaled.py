"""Block-scaled types as `!quant.uniform`, where MLIR's text says the same."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.quant.normalize_quant_types import NormalizeQuantTypesPass


def normalized(tensor_type: str) -> str:
    module = parse_module(f"func.func private @f({tensor_type})")
    NormalizeQuantTypesPass().apply(Context(), module)
    function = next(iter(module.ops))
    return str(cast(FuncOp, function).function_type.inputs.data[0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("4x6x i8:f32:{0:4, 1:3}, scales = dense<[[2.0, 3.0]]> : tensor<1x2xf32>",
         "4x6x i8:f32:{0:4, 1:3}, {{2.000000e+00, 3.000000e+00}}"),
        ("4x6x i8:f32:{1:3}, scales = dense<[2.0, 3.0]> : tensor<2xf32>",
         "4x6x i8:f32:{1:3}, {{2.000000e+00, 3.000000e+00}}"),
        ("4x2x u8<1:9>:f16:{1:1}, scales = dense<[2.0, 3.0]> : tensor<2xf16>",
         "4x2x u8<1:9>:f16:1, {2.000000e+00,3.000000e+00}"),
        ("?x?x i8:f32:{1:1}, scales = dense<[2.0, 3.0]> : tensor<2xf32>",
         "?x?x i8:f32:1, {2.000000e+00,3.000000e+00}"),
        ("*x i8:f32:{1:1}, scales = dense<[2.0, 3.0]> : tensor<2xf32>",
         "*x i8:f32:1, {2.000000e+00,3.000000e+00}"),
        ("5x i8:f32:{}, scales = dense<0.5> : tensor<f32>", "5x i8:f32, 5.000000e-01"),
        ("4x u4:f32:{0:2}, scales = dense<2.0> : tensor<2xf32>, zero_points = "
         "dense<[7, 8]> : tensor<2xi4>",
         "4x u4:f32:{0:2}, {2.000000e+00:7, 2.000000e+00:8}"),
        # narrow scales
        ("4x i8:f32:{0:2}, scales = dense<[2.0, 0.5]> : tensor<2xf16>",
         "4x i8:f32:{0:2}, {2.000000e+00, 5.000000e-01}"),
    ],
)  # fmt: skip
def test_what_fits(before: str, after: str):
    text = "tensor<{}!quant.block_scaled<{}>>".format(*before.split(" ", 1))
    expected = "tensor<{}!quant.uniform<{}>>".format(*after.split(" ", 1))
    assert normalized(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        # scales that are no scales of MLIR, offsets
        "4x i8:f32:{0:2}, scales = dense<[2.0, -2.0]> : tensor<2xf32>",
        "4x i8:f32:{0:2}, scales = dense<[2.0, 0.0]> : tensor<2xf32>",
        "4x i8:f32:{0:2}, scales = dense<2> : tensor<2xi8> as !quant.uniform<i8:f32, 1.0>",
        "4x i8:f32:{0:2}, scales = dense<2.0> : tensor<2xf32>, offsets = dense<2.0> : "
        "tensor<2xf32>",
        # a shorter block, or perhaps one
        "3x i8:f32:{0:2}, scales = dense<2.0> : tensor<2xf32>",
        "?x i8:f32:{0:2}, scales = dense<2.0> : tensor<2xf32>",
        "*x i8:f32:{0:2}, scales = dense<2.0> : tensor<2xf32>",
        # zero points that do not fit, and floats
        "4x u4:f32:{0:2}, scales = dense<2.0> : tensor<2xf32>, zero_points = dense<16> : "
        "tensor<2xi8>",
        "4x u4:f32:{0:2}, scales = dense<2.0> : tensor<2xf32>, zero_points = dense<1.0> : "
        "tensor<2xf16>",
        # computed in another type, and a storage type that MLIR does not have
        "4x i16:f16:{0:2}, scales = dense<2.0> : tensor<2xf16>",
        "4x f6E2M3FN:f32:{0:2}, scales = dense<2.0> : tensor<2xf32>",
        # data that is not there
        "4x i8:f32:{0:2}, scales = dense_resource<missing> : tensor<2xf32>",
    ],
)
def test_what_does_not_fit(text: str):
    tensor_type = "tensor<{}!quant.block_scaled<{}>>".format(*text.split(" ", 1))
    assert "!quant.block_scaled" in normalized(tensor_type)


@pytest.mark.parametrize(("count", "kind"), [(4096, "uniform"), (4098, "block_scaled")])
def test_number_of_scales(count: int, kind: str, capsys: pytest.CaptureFixture[str]):
    tensor = f"tensor<2x{count}x!quant.block_scaled<i8:f32:{{0:1, 1:2}}, scales = "
    text = normalized(f"{tensor}dense<2.0> : tensor<2x{count // 2}xf16>>>")
    assert f"!quant.{kind}<" in text
    warning = capsys.readouterr().err
    assert ("block-scaled of <= 4,096 scales" in warning) == (count > 4096)


def test_properties_that_repeat_the_type():
    type_ = (
        "tensor<2x2x!quant.block_scaled<i4:f32:{0:1}, scales = dense<[0.5, 2.0]> : "
        "tensor<2xf16>>>"
    )
    module = parse_module(
        f"""func.func @main() -> {type_} {{
          %0 = "tfl.pseudo_qconst"() <{{qtype = {type_},
            value = dense<1> : tensor<2x2xi4>}}> : () -> {type_}
          return %0 : {type_}
        }}"""
    )
    apply_passes(module, "normalize-quant-types")
    new_type = "tensor<2x2x!quant.uniform<i4:f32:0, {5.000000e-01,2.000000e+00}>>"
    assert f"qtype = {new_type}, value" in str(module)
    assert f"() -> {new_type}" in str(module)


def test_scalars_stay():
    type_ = "!quant.block_scaled<i8:f32:{}, scales = dense<0.5> : tensor<f32>>"
    assert normalized(type_) == type_.replace("0.5", "5.000000e-01")


def test_values_are_what_they_were():
    type_ = (
        "tensor<4x6x!quant.block_scaled<u4:f32:{1:3}, scales = dense<[0.3, 7.0]> : "
        "tensor<2xf32>, zero_points = dense<[7, 8]> : tensor<2xi8>>>"
    )
    module = parse_module(f"""
func.func @f(%x: tensor<4x6xf32>) -> (tensor<4x6xi4>, tensor<4x6xf32>) {{
  %q = quant.qcast %x : tensor<4x6xf32> to {type_}
  %i = quant.scast %q : {type_} to tensor<4x6xi4>
  %y = quant.dcast %q : {type_} to tensor<4x6xf32>
  return %i, %y : tensor<4x6xi4>, tensor<4x6xf32>
}}""")
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32) * 9
    before = run_function(module, None, x)
    NormalizeQuantTypesPass().apply(Context(), module)
    module.verify()
    assert "block_scaled" not in str(module)
    for old, new in zip(before, run_function(module, None, x), strict=True):
        assert old.tobytes() == new.tobytes()
