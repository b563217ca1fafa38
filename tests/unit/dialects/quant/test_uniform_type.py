"""Types become parameters and types again."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, f32, i8
from xdsl.parser import Parser

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    Quant,
    QuantizedType,
    UniformQuantizedPerAxisType,
    uniform_type,
)
from xdsl_quant.numerics import QuantizationParameters


def _type(text: str) -> QuantizedType:
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Quant)
    quantized_type = Parser(ctx, text).parse_type()
    assert isinstance(quantized_type, QuantizedType)
    return quantized_type


@pytest.mark.parametrize(
    "text",
    [
        "!quant.uniform<i8:f32, 5.000000e-01>",
        "!quant.uniform<u8:f32, 1.000000e-01:128>",
        "!quant.uniform<i8<-127:127>:bf16, 5.000000e-01:3>",
        "!quant.uniform<u4:f16, 5.000000e-01>",
        "!quant.uniform<i32:f64, 1.000000e-01>",
        "!quant.uniform<i8:f8E4M3FN, 5.000000e-01>",
        "!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>",
        "!quant.uniform<i8:f32:{0:1, 2:4}, {{{1.0, 2.0:3}}, {{3.0, 4.0}}}>",
        "!quant.uniform<u8:f16:{3:3, 0:1}, {{1.0, 2.0:255}, {3.0, 4.0}}>",
        "!quant.uniform<i8:f32:{}, {1.0}>",
    ],
)
def test_types_become_parameters_and_types_again(text: str):
    quantized_type = _type(text)
    parameters = QuantizationParameters.from_type(quantized_type)
    assert uniform_type(parameters) == quantized_type
    assert QuantizationParameters.from_type(uniform_type(parameters)) == parameters


def test_signed_and_unsigned_storage_types_are_kept():
    quantized_type = _type("!quant.uniform<i8:f32, 5.000000e-01>")
    for storage in ("si8", "ui8"):
        parameters = QuantizationParameters(0.5, storage=storage)
        converted = uniform_type(parameters)
        assert converted != quantized_type
        assert converted.storage_type_name == storage
        assert QuantizationParameters.from_type(converted) == parameters


def test_fields():
    parameters = QuantizationParameters.from_type(
        _type(
            "!quant.uniform<u8<1:200>:f16:{0:1, 2:4}, {{{1.0, 2.0:3}}, {{3.0, 4.0}}}>"
        )
    )
    assert parameters.scales.tolist() == [[[1, 2]], [[3, 4]]]
    assert parameters.zero_points.tolist() == [[[0, 3]], [[0, 0]]]
    assert (parameters.storage, parameters.expressed) == ("u8", "f16")
    assert (parameters.storage_min, parameters.storage_max) == (1, 200)
    assert parameters.block_sizes == ((0, 1), (2, 4))


@pytest.mark.parametrize(
    ("quantized_type", "message"),
    [
        (
            AnyQuantizedType(i8, f32),
            "type '!quant.any<i8:f32>' has no scale; use '!quant.uniform'",
        ),
        (
            CalibratedQuantizedType(f32, -1, 1),
            "type '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no scale; "
            "use '!quant.uniform'",
        ),
        (
            NoQuantizedType(f32),
            "type '!quant.none<f32>' has no scale; use '!quant.uniform'",
        ),
        (
            _type("!quant.uniform<i8:f32, 1.0:1000>"),
            "zero point 1000 is not representable in 'i8'; expected -128 to 127",
        ),
    ],
)
def test_types_without_parameters(quantized_type: QuantizedType, message: str):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 compared below
        QuantizationParameters.from_type(quantized_type)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "value", ["!quant.uniform<i8:f32, 1.0>", QuantizationParameters(1), None]
)
def test_what_is_no_type(value: object):
    with pytest.raises(TypeError) as raised:
        QuantizationParameters.from_type(value)  # pyright: ignore[reportArgumentType] the mistake
    assert str(raised.value) == (
        f"expected a '!quant.uniform' type, found {type(value).__name__}"
    )


def test_types_of_arrays_are_those_of_lists():
    scales, zero_points = [0.5, 0.1, 3.0, 1e-3], [1, -2, 0, 7]
    expected = UniformQuantizedPerAxisType(
        i8, f32, scales, zero_points, quantized_dimension=0
    )
    for dtype in (np.int64, np.int32, np.int8, ">i8", object):
        for step in (1, -1):
            actual = UniformQuantizedPerAxisType(
                i8,
                f32,
                np.array(scales[::step])[::step],
                np.array(zero_points[::step], dtype)[::step],
                quantized_dimension=0,
            )
            assert actual == expected
    integers = UniformQuantizedPerAxisType(
        i8, f32, np.array([1, 2]), np.array([3, 4], np.uint64), quantized_dimension=0
    )
    assert integers.scales.get_values() == (1.0, 2.0)
    assert integers.zero_points.get_values() == (3, 4)
