"""Conversions to and from small floats as ops, for all inputs of 16 bits and all codes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    ModuleOp,
    TensorType,
    UnknownLoc,
    f32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint

from tests.unit.numerics.test_small_floats import all_codes, formats, thresholds
from xdsl_quant.execution import compile
from xdsl_quant.machines.arith import FloatExpression
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.float_dtypes import float_dtype
from xdsl_quant.numerics.small_floats import SmallFloat
from xdsl_quant.transforms.building.builder import Body, LoweringBuilder
from xdsl_quant.transforms.building.codec_arithmetic import (
    decode_small_float,
    encode_small_float,
)

SOURCES = [Float16Type(), BFloat16Type(), Float32Type(), Float64Type()]


def module_of(source: Any, result: Any, size: int, body: Body) -> ModuleOp:
    """A function that computes each element of its result from that of its argument."""
    argument_type, result_type = (
        TensorType(type_, [size]) for type_ in (source, result)
    )
    block = Block(arg_types=[argument_type])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    inputs = [(block.args[0], [AffineDimExpr(0)])]
    value = builder.map(inputs, result_type, [size], body)
    block.add_op(ReturnOp(value))
    function = FuncOp("main", ([argument_type], [result_type]), Region(block))
    module = ModuleOp([function])
    module.verify()
    return module


def results(module: ModuleOp, values: NDArray[Any]) -> list[NDArray[Any]]:
    """What is interpreted and what is compiled."""
    (interpreted,) = run_function(module, "main", values)
    return [interpreted, np.asarray(cast(Any, compile(module))(values))]


def inputs_of(source: Any, format: SmallFloat) -> NDArray[Any]:
    """All of 16 bits, or thresholds with their neighbours and what is special."""
    dtype = float_dtype(source.name)
    if dtype.itemsize == 2:
        return np.arange(1 << 16).astype(np.uint16).view(dtype)
    special = np.array([0, np.inf, np.nan, 1e-45, 3e38, format.largest])
    values = np.concatenate([thresholds(format), special]).astype(dtype)
    near = [np.nextafter(values, dtype.type(end)) for end in (0, np.inf)]
    positive = np.concatenate([values, *near])
    return np.concatenate([positive, -positive])


@pytest.mark.sampled(16)
@formats
@pytest.mark.parametrize("source", SOURCES, ids=str)
@pytest.mark.parametrize("saturate", [False, True])
def test_encoded(format: SmallFloat, source: Any, saturate: bool):
    def body(builder: LoweringBuilder, args: Any) -> SSAValue:
        number = FloatExpression(builder, args[0])
        return encode_small_float(number, format, saturate=saturate)

    values = inputs_of(source, format)
    module = module_of(source, IntegerType(format.bits), values.size, body)
    expected = format.encode(values, saturate=saturate)
    for found in results(module, values):
        codes = found.view(np.uint8) & ((1 << format.bits) - 1)
        np.testing.assert_array_equal(codes, expected)


@formats
def test_decoded(format: SmallFloat):
    def body(builder: LoweringBuilder, args: Any) -> SSAValue:
        return decode_small_float(builder, args[0], format).value

    codes = all_codes(format)
    if format.name == "f8E5M2FNUZ":
        message = "unsupported format f8E5M2FNUZ: codes cannot be extended to f16"
        with pytest.raises(ValueError, match=f"^{message}$"):
            module_of(IntegerType(format.bits), f32, codes.size, body)
        return
    module = module_of(IntegerType(format.bits), f32, codes.size, body)
    expected = format.decode(codes)
    for found in results(module, codes):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_ops_of_an_encoding():
    """No number of f32 needs more than 32 bits, and what is no NaN needs no choice."""

    def body(builder: LoweringBuilder, args: Any) -> SSAValue:
        number = FloatExpression(builder, args[0], (-6, 6), may_be_nan=False)
        return encode_small_float(
            number, SmallFloat("f4E2M1FN", 2, 1, 1, 0x7), saturate=True
        )

    module = module_of(f32, IntegerType(4), 4, body)
    text = str(module)
    assert "i64" not in text
    assert text.count("arith.select") == 1
