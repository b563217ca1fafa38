"""Batch normalization, compared with its formula, and dimensions of dynamic size."""

from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    run,
    same_bits,
    tensor,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module


def batch_norm(type_: str, feature_type: str, index: int) -> str:
    types = f"({type_}, {', '.join([feature_type] * 4)}) -> {type_}"
    features = "".join(f", %{name}: {feature_type}" for name in "somv")
    return f"""
func.func @main(%x: {type_}{features}) -> {type_} {{
  %r = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) <{{
    epsilon = 1.000000e-03 : f32, feature_index = {index} : i64}}> : {types}
  return %r : {type_}
}}"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "dtype"), [("f32", np.float32), ("f64", np.float64)])
@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("is_static", [True, False])
def test_inference(name: str, dtype: Any, index: int, is_static: bool):
    random, shape = np.random.default_rng(index), (3, 4, 5)
    value = random.normal(size=shape).astype(dtype)
    scale, offset, mean = random.normal(size=(3, shape[index])).astype(dtype)
    variance = random.uniform(0.5, 2.0, shape[index]).astype(dtype)
    sizes = shape if is_static else [None if d == 0 else s for d, s in enumerate(shape)]
    text = batch_norm(
        tensor(sizes, name),
        tensor([shape[index] if is_static or index else None], name),
        index,
    )
    along = [-1 if d == index else 1 for d in range(3)]
    s, o, m, v = (a.reshape(along) for a in (scale, offset, mean, variance))
    epsilon = dtype(np.float32(1e-3))
    expected = (value - m) / np.sqrt(v + epsilon) * s + o
    (actual,) = run(text, value, scale, offset, mean, variance, is_exact=False)
    tolerance = 8 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


Q = "!quant.uniform<i8:f32, 5.000000e-01>"


def test_quantized():
    text = batch_norm(f"tensor<2x3x{Q}>", f"tensor<3x{Q}>", 1)
    module = parse_module(text)
    passes = "convert-quantized-stablehlo-to-linalg,strip-func-quant-types"
    apply_passes(module, passes)
    value = np.array([[10, -7, 30], [0, 1, -128]], np.int8)
    scale, offset = np.array([2, 4, 6], np.int8), np.array([1, 0, -3], np.int8)
    mean, variance = np.array([2, -2, 0], np.int8), np.array([2, 8, 18], np.int8)
    (actual,) = run_function(module, None, value, scale, offset, mean, variance)
    x, s, o, m, v = (
        np.float32(0.5) * a.astype(np.float32)
        for a in (value, scale, offset, mean, variance)
    )
    real = (x - m) / np.sqrt(v + np.float32(1e-3)) * s + o
    same_bits(
        np.asarray(actual), np.rint(np.clip(real / 0.5, -128, 127)).astype(np.int8)
    )


@pytest.mark.parametrize("name", ["training", "grad"])
def test_others_are_refused(name: str):
    features = "tensor<4xf32>"
    operands = f"tensor<2x4xf32>, {features}, {features}"
    if name == "grad":
        operands += f", {features}, tensor<2x4xf32>"
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(operands.split(", ")))
    names = ", ".join(f"%{i}" for i in range(len(operands.split(", "))))
    module = parse_module(f"""
func.func @main({arguments}) {{
  %r:3 = "stablehlo.batch_norm_{name}"({names}) <{{epsilon = 1.000000e-03 : f32,
    feature_index = 1 : i64}}> : ({operands}) -> (tensor<2x4xf32>, {features}, {features})
  return
}}""")
    message = f"'stablehlo.batch_norm_{name}' op has no conversion to linalg"
    with pytest.raises(IRError, match=message):
        apply_passes(module, "convert-stablehlo-to-linalg")
