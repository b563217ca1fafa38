"""Casts of block-scaled types: numerics, interpreter and compiled code agree."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import InterpretationError, PassFailedException

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.block_scaled import (
    BlockScaledParameters,
    dequantize_blocks,
    quantize_blocks,
)
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}

SCALES = "dense<[[0.5, -0.03125, 0.0], [1.0e-3, 3.0, 0.1]]> : tensor<2x3xf16>"
ZEROS = "dense<[[3, 8, 15], [0, -1, 7]]> : tensor<2x3xi4>"
OFFSETS = "dense<[[0.5, -1.25, 3.0], [0.1, 0.0, -7.0]]> : tensor<2x3xf16>"
STORED = (
    "dense<[[3, -4, 0], [127, -128, 1]]> : tensor<2x3xi8> as "
    "!quant.uniform<i8:f32, 0.0123>"
)
SUPER = (
    "dense<[[3, -4, 0], [31, -32, 1]]> : tensor<2x3xi6> as !quant.block_scaled<"
    "i6:f32:{0:1, 1:2}, scales = dense<[[0.25, 0.3], [-1.5, 0.0]]> : tensor<2x2xf16>>"
)
E4M3 = "dense<[[0.5, -448.0, 0.0], [0.001953125, 3.0, 0.1]]> : tensor<2x3xf8E4M3FN>"
POWERS = "dense<[[0.5, 4.0, 1.0], [0.03125, 3.0e-5, 1.0]]> : tensor<2x3xf8E8M0FNU>"

STORAGES = ["i4", "u4", "i8<-127:127>", "u2", "i16", "i6"]


def block_type(storage: str, expressed: str, scales: str, **others: str) -> str:
    parts = "".join(f", {name} = {text}" for name, text in others.items())
    blocks = "{0:4, 1:5}, scales"
    return f"!quant.block_scaled<{storage}:{expressed}:{blocks} = {scales}{parts}>"


TYPES = [
    *(block_type(storage, "f32", SCALES) for storage in STORAGES),
    *(block_type("u4", type_, SCALES, zero_points=ZEROS) for type_ in DTYPES),
    *(block_type("i4", type_, SCALES, offsets=OFFSETS) for type_ in DTYPES),
    block_type("u8", "f32", SCALES, zero_points=ZEROS, offsets=OFFSETS),
    block_type("i32", "f32", SCALES, zero_points=ZEROS, offsets=OFFSETS),
    *(block_type("i4", "f32", scales) for scales in (STORED, SUPER, E4M3, POWERS)),
    block_type("u4", "f32", SUPER, offsets=SUPER),
    block_type("i4", "f16", POWERS),
    block_type("i4", "bf16", STORED),
]

SHAPE = (7, 13)


def functions(type_: str, shape: str = "7x13x") -> str:
    expressed = type_.partition(":{")[0].rpartition(":")[2]
    return f"""
func.func @quantize(%x: tensor<{shape}{expressed}>) -> tensor<{shape}{type_}> {{
  %q = quant.qcast %x : tensor<{shape}{expressed}> to tensor<{shape}{type_}>
  return %q : tensor<{shape}{type_}>
}}
func.func @dequantize(%q: tensor<{shape}{type_}>) -> tensor<{shape}{expressed}> {{
  %x = quant.dcast %q : tensor<{shape}{type_}> to tensor<{shape}{expressed}>
  return %x : tensor<{shape}{expressed}>
}}"""


def parameters_of(module: ModuleOp) -> BlockScaledParameters:
    first = next(iter(module.ops))
    (result,) = cast(Any, first).function_type.outputs
    return BlockScaledParameters.from_type(result.element_type)


def expressed_values(parameters: BlockScaledParameters) -> NDArray[Any]:
    """Numbers near stored ones, and all kinds of others."""
    rng = np.random.default_rng(1)
    low, high = parameters.elements.storage_min, parameters.elements.storage_max
    stored = rng.integers(2 * low - 2, 2 * high + 2, SHAPE, endpoint=True) / 2
    with np.errstate(all="ignore"):
        values = spread_formula(stored, parameters)
        values.flat[::7] = rng.normal(size=values.flat[::7].size) * 10
        values.flat[::19] = np.resize([np.inf, -np.inf, np.nan, 1e30, -0.0], 5)
        return values.astype(parameters.expressed_dtype)


def spread(numbers: NDArray[Any] | None) -> NDArray[Any]:
    if numbers is None:
        return np.zeros(SHAPE)
    return numbers.repeat(4, 0).repeat(5, 1)[:7, :13]


def spread_formula(
    stored: NDArray[Any], parameters: BlockScaledParameters
) -> NDArray[Any]:
    """The formula without any rounding to the type to compute in."""
    difference = stored - spread(parameters.zero_points)
    return difference * spread(parameters.scales) + spread(parameters.offsets)


def assert_same(found: NDArray[Any], expected: NDArray[Any]) -> None:
    assert found.dtype == expected.dtype
    if found.dtype.itemsize == 1:
        # Of NaN there is one code, or none.
        assert found.tobytes() == expected.tobytes()
        return
    if found.dtype.kind not in "iu":
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        found, expected = (np.where(np.isnan(x), 0, x) for x in (found, expected))
    assert found.tobytes() == expected.tobytes()


def assert_all_agree(text: str, name: str, x: Any, expected: Any, **options: Any):
    options = {"rounding_mode": "nearest-even", **options}
    assert_same(run_function(text, name, x, **options)[0], expected)
    if "tensor<*x" not in text:
        assert_same(compile(text, name, **options)(x), expected)
    lowered = parse_module(text)
    LowerQuantOpsPass(**options).apply(Context(), lowered)
    assert_same(run_function(lowered, name, x)[0], expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", TYPES)
def test_dequantize(type_: str):
    text = functions(type_)
    parameters = parameters_of(parse_module(text))
    low, high = parameters.elements.storage_min, parameters.elements.storage_max
    stored = np.random.default_rng(0).integers(low, high, SHAPE, endpoint=True)
    stored = stored.astype(parameters.elements.storage_dtype)
    expected = dequantize_blocks(stored, parameters)
    assert_all_agree(text, "dequantize", stored, expected)
    exact = spread_formula(stored.astype(np.float64), parameters)
    np.testing.assert_allclose(
        expected.astype(np.float64), exact, rtol=0.02, atol=0.02 * abs(exact).max()
    )


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("mode", "order", "nan"),
    [
        ("nearest-even", "before-rounding", "storage-min"),
        ("nearest-away", "after-rounding", "stored-zero"),
        ("truncate", "before-rounding", "stored-zero"),
    ],
)
@pytest.mark.parametrize("type_", TYPES)
def test_quantize(type_: str, mode: Any, order: Any, nan: Any):
    text = functions(type_)
    parameters = parameters_of(parse_module(text))
    values = expressed_values(parameters)
    rounding = Rounding(mode, order, nan)
    if mode == "truncate":
        # What does not fit the storage type is undefined, and near its ends a stored value
        # of 32 bits becomes that in f32.
        if parameters.elements.storage_width == 32:
            pytest.skip("undefined")
        stored = quantize_blocks(values, parameters)
        values = dequantize_blocks(stored, parameters)
    expected = quantize_blocks(values, parameters, rounding)
    assert_all_agree(
        text,
        "quantize",
        values,
        expected,
        rounding_mode=mode,
        zero_point_order=order,
        nan=nan,
    )


@pytest.mark.parametrize("type_", [t for t in TYPES if ":f32:" in t or ":f64:" in t])
def test_stored_values_survive(type_: str):
    """All codes, unless the scale is 0 or another stored value stands for the same."""
    parameters = parameters_of(parse_module(functions(type_)))
    low, high = parameters.elements.storage_min, parameters.elements.storage_max
    count = min(high - low + 1, 256)
    scales = spread(parameters.scales)
    for code in np.linspace(low, high, count).astype(parameters.elements.storage_dtype):
        stored = np.full(SHAPE, code, parameters.elements.storage_dtype)
        again = quantize_blocks(dequantize_blocks(stored, parameters), parameters)
        zero_points = np.clip(spread(parameters.zero_points), low, high)
        expected = np.where(scales == 0, zero_points, stored)
        has_offset = parameters.offsets is not None
        if has_offset and high > 255:
            continue
        np.testing.assert_array_equal(again, expected)


def test_formulas_of_one_block_each():
    """What is written in the docs, in numbers that can be checked by hand."""
    text = functions(
        "!quant.block_scaled<u4:f32:{0:2}, scales = dense<[0.5, -2.0, 0.0]> : "
        "tensor<3xf16>, zero_points = dense<[8, 1, 3]> : tensor<3xi4>, "
        "offsets = dense<[0.25, 0.0, 10.0]> : tensor<3xf16>>",
        "5x",
    )
    parameters = parameters_of(parse_module(text))
    stored = np.array([0, 9, 0, 3, 7], np.uint8)
    expected = np.array([-3.75, 0.75, 2.0, -4.0, 10.0], np.float32)
    assert_all_agree(text, "dequantize", stored, expected)
    x = np.array([100, 1, -5, np.nan, np.nan], np.float32)
    expected = np.array([15, 10, 4, 0, 3], np.uint8)
    assert_all_agree(text, "quantize", x, expected)
    np.testing.assert_array_equal(quantize_blocks(x, parameters), expected)


# Elements that are no integers

TABLE = "!quant.quantile<i2:f32, {-1.0,-0.25,0.125,1.0}>"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("nan", ["storage-min", "stored-zero"])
@pytest.mark.parametrize(
    "storage", ["f8E5M2", "f8E4M3FN", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN", TABLE]
)
@pytest.mark.parametrize("expressed", ["f32", "f16"])
def test_codes(storage: str, expressed: str, nan: Any):
    others = {"zero_points": ZEROS, "offsets": OFFSETS}
    text = functions(block_type(storage, expressed, SCALES, **others))
    parameters = parameters_of(parse_module(text))
    rng = np.random.default_rng(4)
    values = rng.normal(size=SHAPE) * 30
    values.flat[::19] = np.resize([np.inf, -np.inf, np.nan, 6e4, -0.0], 5)
    values = values.astype(DTYPES[expressed])
    rounding = Rounding(nan=nan)
    stored = quantize_blocks(values, parameters, rounding)
    assert_all_agree(text, "quantize", values, stored, nan=nan)
    codes = rng.integers(0, 1 << parameters.elements.storage_width, SHAPE)
    codes = codes.astype(np.uint8).view(stored.dtype)
    assert_all_agree(text, "dequantize", codes, dequantize_blocks(codes, parameters))


def test_codes_are_rounded_to_nearest_only():
    text = functions(block_type("f8E5M2", "f32", SCALES, zero_points=ZEROS))
    module = parse_module(text)
    message = "unsupported rounding mode 'truncate' for storage type 'f8E5M2'"
    with pytest.raises(PassFailedException, match=message):
        LowerQuantOpsPass("truncate").apply(Context(), module)
    message = "unsupported zero point order 'after-rounding' for storage type 'f8E5M2'"
    with pytest.raises(PassFailedException, match=message):
        LowerQuantOpsPass("nearest-even", zero_point_order="after-rounding").apply(
            Context(), module
        )


# Other shapes


def test_one_block_needs_no_tensor():
    type_ = "!quant.block_scaled<i4:f32:{}, scales = dense<-0.5> : tensor<f16>>"
    assert_all_agree(
        functions(type_, "3x"),
        "quantize",
        np.array([1, 3, -2], np.float32),
        np.array([-2, -6, 4], np.int8),
    )
    scalar = f"""
func.func @f(%x: f32) -> f32 {{
  %q = quant.qcast %x : f32 to {type_}
  %y = quant.dcast %q : {type_} to f32
  return %y : f32
}}"""
    assert run_function(scalar, None, np.float32(1.2))[0] == 1
    assert compile(scalar)(np.float32(1.2)) == 1


@pytest.mark.parametrize("shape", ["?x?x", "?x13x", "*x"])
def test_unknown_sizes(shape: str):
    type_ = block_type("u4", "f32", SCALES, zero_points=ZEROS, offsets=OFFSETS)
    text = functions(type_, shape)
    parameters = parameters_of(parse_module(functions(type_)))
    values = expressed_values(parameters)
    stored = quantize_blocks(values, parameters)
    assert_all_agree(text, "quantize", values, stored)
    assert_all_agree(text, "dequantize", stored, dequantize_blocks(stored, parameters))


@pytest.mark.parametrize("shape", ["?x?x", "*x"])
def test_run_time_checks_count_blocks(shape: str):
    type_ = block_type("i4", "f32", SCALES)
    module = parse_module(functions(type_, shape))
    LowerQuantOpsPass("nearest-even", runtime_checks=True).apply(Context(), module)
    message = "dimension 1 must have 3 blocks of 5"
    assert message in str(module)
    for columns in (11, 15):
        run_function(module, "dequantize", np.ones((7, columns), np.int8))
    for columns in (10, 16):
        with pytest.raises(InterpretationError, match=message):
            run_function(module, "dequantize", np.ones((7, columns), np.int8))


def test_interpreter_checks_sizes():
    text = functions(block_type("i4", "f32", SCALES), "?x?x")
    with pytest.raises(
        Exception, match="expected 3 blocks of size 5 along dimension 1 of values"
    ):
        run_function(text, "dequantize", np.ones((7, 16), np.int8))


# Large ones


def test_missing_resource_is_a_located_message():
    text = functions(
        block_type("i4", "f32", "dense_resource<no_scales> : tensor<2x3xf16>")
    )
    with pytest.raises(
        PassFailedException, match=r"missing data of resource 'no_scales.*'"
    ):
        LowerQuantOpsPass().apply(Context(), parse_module(text))
    with pytest.raises(
        InterpretationError, match=r"missing data of resource 'no_scales.*'"
    ):
        run_function(text, "dequantize", np.ones(SHAPE, np.int8))


def test_infinite_scale_of_a_resource_is_a_located_message():
    resource = "dense_resource<infinite_scales> : tensor<2x3xf16>"
    text = f"""
    {functions(block_type("i4", "f32", resource))}
    {{-# dialect_resources: {{
      builtin: {{ infinite_scales: "0x0200000000400040007C004000400040" }}
    }} #-}}"""
    message = "block parameters must be finite, but one of resource '.*' is inf"
    with pytest.raises(
        PassFailedException, match=rf"module:\d+:\d+: error: .* op .*{message}"
    ):
        LowerQuantOpsPass().apply(Context(), parse_module(text))
    with pytest.raises(InterpretationError, match=rf"'quant.dcast' op.*: {message}"):
        run_function(text, "dequantize", np.ones(SHAPE, np.int8))


def test_many_blocks():
    """2048 x 2048 elements in blocks of 32."""
    rng = np.random.default_rng(0)
    scales = rng.normal(size=(2048, 64)).astype(np.float16)
    type_ = (
        f'!quant.block_scaled<i4:f32:{{0:1, 1:32}}, scales = dense<"0x'
        f'{scales.tobytes().hex()}"> : tensor<2048x64xf16>>'
    )
    module = parse_module(functions(type_, "2048x2048x"))
    stored = rng.integers(-8, 8, (2048, 2048)).astype(np.int8)
    expected = stored * scales.astype(np.float32).repeat(32, 1)
    assert_same(dequantize_blocks(stored, parameters_of(module)), expected)
    assert_same(compile(module, "dequantize")(stored), expected)
