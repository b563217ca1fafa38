"""Types of what is stored in named formats express the same numbers, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import bf16, f32
from xdsl.parser import Parser
from xdsl.universe import Universe

from xdsl_quant.dialects.quant import BlockScaledQuantizedType
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.block_scaled import BlockScaledParameters, dequantize_blocks
from xdsl_quant.numerics.formats import FORMATS, BlockScaled
from xdsl_quant.numerics.formats.format_types import block_scaled_type


def stored_in(name: str) -> BlockScaled:
    rng = np.random.default_rng(3)
    values = rng.standard_t(3, (6, 512)).astype(np.float32)
    # Blocks without a scale, and with a small one.
    values[0, :256] = 0
    values[1] *= np.float32(1e-4)
    return FORMATS[name].quantize(values)


def assert_same_bits(found: NDArray[Any], expected: NDArray[Any]) -> None:
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FORMATS)
def test_type_of_format(name: str):
    stored = stored_in(name)
    type_ = block_scaled_type(stored)
    context = Context()
    for dialect, factory in Universe.get_multiverse().all_dialects.items():
        context.register_dialect(dialect, factory)
    assert Parser(context, str(type_)).parse_type() == type_
    expected = stored.dequantize()
    parameters = BlockScaledParameters.from_type(type_)
    assert_same_bits(dequantize_blocks(stored.codes, parameters), expected)
    text = f"""
func.func @f(%q: tensor<6x512x{type_}>) -> tensor<6x512xf32> {{
  %x = quant.dcast %q : tensor<6x512x{type_}> to tensor<6x512xf32>
  return %x : tensor<6x512xf32>
}}"""
    assert_same_bits(run_function(text, None, stored.codes)[0], expected)
    assert_same_bits(compile(text)(stored.codes), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FORMATS)
def test_stored_values_are_found_again(name: str):
    stored = stored_in(name)
    type_ = block_scaled_type(stored)
    text = f"""
func.func @f(%x: tensor<6x512xf32>) -> tensor<6x512x{type_}> {{
  %q = quant.qcast %x : tensor<6x512xf32> to tensor<6x512x{type_}>
  return %q : tensor<6x512x{type_}>
}}"""
    values = stored.dequantize()
    for found in (run_function(text, None, values)[0], compile(text)(values)):
        again = block_scaled_type(stored)
        parameters = BlockScaledParameters.from_type(again)
        np.testing.assert_array_equal(dequantize_blocks(found, parameters), values)


def test_texts():
    texts = {name: str(block_scaled_type(stored_in(name))) for name in FORMATS}
    beginnings = {
        "Q4_0": "!quant.block_scaled<i4:f32:{0:1, 1:32}, scales = dense<",
        "Q4_K": "!quant.block_scaled<u4:f32:{0:1, 1:32}, scales = dense<",
        "MXFP4": "!quant.block_scaled<f4E2M1FN:f32:{0:1, 1:32}, scales = dense<",
        "MXFP6_E2M3": "!quant.block_scaled<f6E2M3FN:f32:{0:1, 1:32}, scales = dense<",
    }
    for name, beginning in beginnings.items():
        assert texts[name].startswith(beginning)
    ends = {
        "Q4_0": "tensor<6x16xf16>>",
        "Q4_1": "tensor<6x16xf16>>",
        "Q4_K": "tensor<6x2xf16>>>",
        "MXFP4": "tensor<6x16xf8E8M0FNU>>",
    }
    for name, end in ends.items():
        assert texts[name].endswith(end)
    assert (
        "> : tensor<6x16xi6> as !quant.block_scaled<u6:f32:{0:1, 1:8}" in texts["Q4_K"]
    )
    assert ", offsets = dense<" in texts["Q4_K"]
    assert (
        "> : tensor<6x32xf8E4M3FN> as !quant.block_scaled<f8E4M3FN:f32:{}, scales = "
        in (texts["NVFP4"])
    )


def test_expressed_type():
    stored = stored_in("Q4_0")
    type_ = block_scaled_type(stored, bf16)
    assert isinstance(type_, BlockScaledQuantizedType)
    assert (type_.expressed_type, type_.compute_type) == (bf16, f32)
    found = dequantize_blocks(stored.codes, BlockScaledParameters.from_type(type_))
    expected = stored.dequantize().astype(found.dtype)
    assert_same_bits(found, expected)


def test_one_block_has_no_dimensions():
    stored = FORMATS["Q8_0"].quantize(np.linspace(-1, 1, 32, dtype=np.float32))
    assert str(block_scaled_type(stored)) == (
        "!quant.block_scaled<i8:f32:{}, scales = dense<7.873540e-03> : tensor<f16>>"
    )


def test_array_without_blocks():
    codes: Any = np.zeros((1, 32), np.int8)
    message = (
        "expected a BlockScaled, found ndarray; use the result of 'quantize' or "
        "'unpack' of a format"
    )
    with pytest.raises(TypeError, match=f"^{message}$"):
        block_scaled_type(codes)
