"""Networks in the form in which jax prints them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from xdsl_quant.dialects.quant.types import PerAxisType, scalar_or_element_type
from xdsl_quant.quantizer import ModelReport, QuantizedModel, quantize, read_recipe
from xdsl_quant.quantizer.dynamic_ranges import prepare
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.transforms.composites.inlining import inline_small_functions

from .models import PLAIN, samples

JAX_TEXTS = Path(__file__).parents[1] / "frontends/stablehlo/lowering/jax_texts"


def convolution(size: int, moves: str) -> str:
    """A convolution in PyTorch's layout, whose bias some ops broadcast."""
    weights = samples(4, 3, 3, 3, seed=1).tolist()
    result = f"tensor<1x4x{size}x{size}xf32>"
    return f"""
func.func public @main(%x: tensor<1x3x{size}x{size}xf32>) -> {result} {{
  %w = stablehlo.constant dense<{weights}> : tensor<4x3x3x3xf32>
  %b = stablehlo.constant dense<[-2.0, 0.25, 1.0, 0.5]> : tensor<4xf32>
  %y = stablehlo.convolution(%x, %w)
    dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{pad = [[1, 1], [1, 1]]}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x3x{size}x{size}xf32>, tensor<4x3x3x3xf32>) -> {result}
  {moves}
  %z = stablehlo.add %y, %m : {result}
  return %z : {result}
}}
"""


IN_TWO_STEPS = """
  %k = stablehlo.{} : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %m = stablehlo.broadcast_in_dim %k, dims = [0, 1, 2, 3]
    : (tensor<1x4x1x1xf32>) -> tensor<1x4x{}x{}xf32>
"""
IN_ONE_STEP = """
  %m = stablehlo.broadcast_in_dim %b, dims = [1]
    : (tensor<4xf32>) -> tensor<1x4x{}x{}xf32>
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("size", "moves"),
    [
        (8, IN_TWO_STEPS.format("broadcast_in_dim %b, dims = [1]", 8, 8)),
        (8, IN_TWO_STEPS.format("reshape %b", 8, 8)),
        (8, IN_ONE_STEP.format(8, 8)),
        # As many columns as channels.
        (4, IN_ONE_STEP.format(4, 4)),
    ],
)
def test_the_bias_of_channels_that_come_before_the_window(size: int, moves: str):
    data = samples(16, 3, size, size)
    model = quantize(convolution(size, moves), data, PLAIN)
    product = model.report(data).kernels[-1]
    assert product.kernel == "product_bias"
    assert product.own_sqnr > 35
    (addition,) = (op for op in model.module.walk() if op.name == "stablehlo.add")
    for value in (*addition.operands, *addition.results):
        type_ = scalar_or_element_type(value.type)
        assert isinstance(type_, PerAxisType)
        assert type_.axis == 1


def layers(activation: str) -> str:
    """Two dense layers with transposed weights, and an activation between them."""
    first, second = (samples(8, 8, seed=seed).tolist() for seed in (1, 2))
    return f"""
func.func public @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {{
  %w = stablehlo.constant dense<{first}> : tensor<8x8xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = stablehlo.constant dense<[0.5, 1.0, -1.0, 0.25, -0.5, 0.0, 1.0, 2.0]>
    : tensor<8xf32>
  %m = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
  %v = stablehlo.constant dense<{second}> : tensor<8x8xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0]
    : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  %a = stablehlo.add %y, %m : tensor<1x8xf32>
  %r = call @{activation}(%a) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %z = stablehlo.dot_general %r, %v, contracting_dims = [1] x [0]
    : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  return %z : tensor<1x8xf32>
}}
func.func private @relu(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {{
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<1x8xf32>
  %y = stablehlo.maximum %x, %b : tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}}
func.func private @outer(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {{
  %y = call @relu(%x) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}}
func.func private @endless(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {{
  %y = call @endless(%x) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}}
"""


@cache
def layers_in_int8(activation: str) -> tuple[QuantizedModel, ModelReport]:
    data = samples(16, 8)
    model = quantize(layers(activation), data, PLAIN)
    return model, model.report(data)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("activation", ["outer", "relu"])
def test_private_functions_are_inlined(activation: str):
    """The rectifier is part of the kernel of the product, and weights are per-axis."""
    model, report = layers_in_int8(activation)
    kernels = report.kernels
    assert [kernel.kernel for kernel in kernels] == [
        "stablehlo.broadcast_in_dim",
        "product_bias_relu",
        "stablehlo.dot_general",
    ]
    assert "quant.float_kernels" not in model.module.attributes
    for kernel in kernels[1:]:
        assert kernel.weight_type.count(",") == 8
    functions = [op for op in model.module.ops if isinstance(op, FuncOp)]
    assert [op.sym_name.data for op in functions] == ["main", "endless"]


def test_what_is_not_inlined():
    """Public functions, the entry, long functions, and those that call themselves."""
    module = parse_module(layers("endless").replace("private @relu", "public @relu"))
    function = entry_function(module, "outer")
    inline_small_functions(module, function)
    names = [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)]
    assert names == ["main", "relu", "outer", "endless"]
    assert str(module).count("func.call") == 3


def test_moves_of_constants_are_folded():
    module = parse_module("""
func.func @main(%x: tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32> {
  %b = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = stablehlo.reshape %b : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %m = stablehlo.broadcast_in_dim %r, dims = [0, 1, 2, 3]
    : (tensor<1x2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %k = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %n = stablehlo.broadcast_in_dim %k, dims = [0, 1, 2, 3]
    : (tensor<1x2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %o = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<f32>) -> tensor<1x2x3x3xf32>
  %c = stablehlo.convert %x : tensor<1x2x3x3xf32>
  %h = stablehlo.maximum %o, %c : tensor<1x2x3x3xf32>
  %y = stablehlo.add %h, %m : tensor<1x2x3x3xf32>
  %z = stablehlo.multiply %y, %n : tensor<1x2x3x3xf32>
  return %z : tensor<1x2x3x3xf32>
}""")
    prepare(module, entry_function(module))
    ops = [op for op in module.walk() if op.name.startswith("stablehlo.")]
    assert [str(op) for op in ops if op.name == "stablehlo.broadcast_in_dim"] == [
        f"%{name} = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> "
        "tensor<1x2x3x3xf32>"
        for name in ("m", "n")
    ]
    assert [op.name for op in ops].count("stablehlo.constant") == 2
    assert not {"stablehlo.reshape", "stablehlo.convert", "stablehlo.maximum"} & {
        op.name for op in ops
    }


def test_scalars_of_torch_are_folded():
    """They are `f64` constants of arith, which torch-mlir reshapes and converts."""
    module = parse_module("""
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = arith.constant dense<[0.5]> : tensor<1xf64>
  %s = stablehlo.reshape %c : (tensor<1xf64>) -> tensor<f64>
  %f = stablehlo.convert %s : (tensor<f64>) -> tensor<f32>
  %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %0 = stablehlo.multiply %x, %b : tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
""")
    prepare(module, entry_function(module))
    names = [op.name for op in module.walk()]
    assert not {"arith.constant", "stablehlo.reshape", "stablehlo.convert"} & {*names}


NEUTRAL = [
    "multiply %x, %m",
    "multiply %m, %x",
    "divide %x, %m",
    "multiply %x, %a",
]


@pytest.mark.parametrize("op", NEUTRAL)
def test_multiplication_by_one_is_removed(op: str):
    assert simplified(op) == []


@pytest.mark.parametrize(
    ("op", "numbers"),
    [
        ("divide %m, %x", "1.0, 1.0"),
        ("add %x, %m", "1.0, 1.0"),
        ("subtract %x, %m", "1.0, 1.0"),
        ("maximum %x, %m", "1.0, 1.0"),
        ("multiply %x, %m", "1.0, 2.0"),
        ("multiply %x, %m", "-1.0, -1.0"),
        ("multiply %x, %x", "1.0, 1.0"),
        ("divide %x, %m", "0.0, 0.0"),
        ("minimum %x, %m", "0xFF800000, 0xFF800000"),
        ("add %x, %m", "0xFF800000, 0xFF800000"),
    ],
)
def test_other_operands_are_kept(op: str, numbers: str):
    assert op.split()[0] in simplified(op, numbers)


def simplified(op: str, numbers: str = "1.0, 1.0") -> list[str]:
    """The computing ops of a function that are left."""
    return simplified_ops(f"%y = stablehlo.{op} : tensor<3x2xf32>", numbers)


def simplified_ops(ops: str, numbers: str) -> list[str]:
    module = parse_module(f"""
func.func @main(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {{
  %a = stablehlo.constant dense<1.0> : tensor<3x2xf32>
  %k = stablehlo.constant dense<[{numbers}]> : tensor<2xf32>
  %m = stablehlo.broadcast_in_dim %k, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
  {ops}
  return %y : tensor<3x2xf32>
}}""")
    prepare(module, entry_function(module))
    moving = ("constant", "broadcast_in_dim")
    names = [op.name.partition("stablehlo.")[2] for op in module.walk()]
    return [name for name in names if name and name not in moving]


LOGISTIC = """
%n = stablehlo.negate %x : tensor<3x2xf32>
%p = stablehlo.exponential %n : tensor<3x2xf32>
%s = stablehlo.add %m, %p : tensor<3x2xf32>
%q = stablehlo.divide %m, %s : tensor<3x2xf32>
%y = stablehlo.multiply %x, %q : tensor<3x2xf32>
"""


@pytest.mark.parametrize(
    ("before", "after", "numbers", "expected"),
    [
        ("", "", "1.0, 1.0", ["logistic", "multiply"]),
        ("add %m, %p", "add %p, %m", "1.0, 1.0", ["logistic", "multiply"]),
        ("divide %m", "divide %a", "1.0, 1.0", ["logistic", "multiply"]),
        ("", "", "1.0, 2.0", None),
        ("negate %x", "abs %x", "1.0, 1.0", None),
        ("exponential", "tanh", "1.0, 1.0", None),
        ("add", "subtract", "1.0, 1.0", None),
        ("divide %m, %s", "divide %s, %m", "2.0, 2.0", None),
        ("multiply %x, %q", "multiply %p, %q", "1.0, 1.0", None),
    ],
)
def test_logistic_of_jax(
    before: str, after: str, numbers: str, expected: list[str] | None
):
    """`jax.nn.silu`. The ops are kept if one is another, or has other uses."""
    text = LOGISTIC.replace(before, after) if before else LOGISTIC
    names = [line.split()[2].partition(".")[2] for line in text.split("\n") if line]
    found = simplified_ops(text, numbers)
    if "%p, %q" in text:
        assert found == ["negate", "exponential", "logistic", "multiply"]
    else:
        assert found == (expected or names)


def test_max_pool_of_jax_is_quantized():
    text = (JAX_TEXTS / "max_pool_cnn.mlir").read_text()
    with np.load(JAX_TEXTS / "max_pool_cnn.npz") as arrays:
        data = [tuple(arrays[f"argument_{i}"] for i in range(3))]
    model = quantize(text, data, target="stablehlo-int8")
    assert [kernel.kernel for kernel in model.report(data).kernels] == [
        "product_relu",
        "stablehlo.reduce_window[stablehlo.maximum]",
        "stablehlo.reshape",
        "stablehlo.dot_general",
    ]
    (pool,) = (o for o in model.module.walk() if o.name == "stablehlo.reduce_window")
    types = {scalar_or_element_type(v.type) for v in (*pool.operands, *pool.results)}
    assert {str(type_).split(",")[0] for type_ in types} == {"!quant.uniform<i8:f32"}
    assert len(types) == 1
    assert "quant.float_kernels" not in model.module.attributes


def test_16_bit_activations():
    data = samples(16, 8)
    wide = replace(read_recipe("int16x8"), bias_correction=False)
    model = quantize(layers("outer"), data, wide)
    report = model.report(data)
    assert report.target == "stablehlo-int16x8"
    assert [kernel.kernel for kernel in report.kernels] == [
        "stablehlo.broadcast_in_dim",
        "product_bias_relu",
        "stablehlo.dot_general",
    ]
    assert "!quant.uniform<i16:f32" in report.kernels[1].result_type
    _, narrow = layers_in_int8("outer")
    assert report.outputs["main:output:0"] > narrow.outputs["main:output:0"] + 3


def test_sums_that_exceed_32_bits():
    """A long sum of 16-bit activations stays in floats: it would saturate silently."""
    text = """
func.func @main(%x: tensor<1x2048xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<2048x2xf32>
  %b = stablehlo.constant dense<1.0> : tensor<1x2xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x2048xf32>, tensor<2048x2xf32>) -> tensor<1x2xf32>
  %z = stablehlo.add %y, %b : tensor<1x2xf32>
  return %z : tensor<1x2xf32>
}
"""
    data = abs(samples(8, 2048)) / 2 + 0.5
    wide = replace(read_recipe("int16x8"), bias_correction=False)
    model = quantize(text, data, wide)
    assert "sums of 'stablehlo.dot_general' may need more than 32 bits" in str(
        model.module.attributes["quant.float_kernels"]
    )
    assert model.report(data).outputs["main:output:0"] > 60
