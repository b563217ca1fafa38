"""Which arrays are values of which types."""

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Attribute
from xdsl.parser import Parser

from xdsl_quant.dialects.quant import Quant
from xdsl_quant.numerics.float_dtypes import code_dtype, float_dtype
from xdsl_quant.runtime.arrays import check_argument, shape_text, shortened


def type_of(text: str) -> Attribute:
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Quant)
    return Parser(ctx, text).parse_attribute()


def uniform(storage: str) -> str:
    return f"!quant.uniform<{storage}:f32, 0.5>"


def accept(value: Any, text: str) -> Any:
    return check_argument(value, type_of(text), "argument 'x'")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.float32), "tensor<2x3xf32>"),
        (np.zeros((2, 3), np.float32), "tensor<?x3xf32>"),
        (np.zeros((2, 3), np.float32), "tensor<?x?xf32>"),
        (np.zeros((2, 3), np.float32), "tensor<*xf32>"),
        (np.zeros((2, 3), np.float32).T, "tensor<3x2xf32>"),
        (np.zeros((), ml_dtypes.bfloat16), "tensor<bf16>"),
        (np.array([True]), "tensor<1xi1>"),
        (np.array([-8, 7], np.int8), "tensor<2xi4>"),
        (np.array([0, 15], np.uint8), f"tensor<2x{uniform('u4')}>"),
        (np.array([-8, 7], np.int8), f"tensor<2x{uniform('i4<-7:7>')}>"),
        (np.array([1], np.uint8), "tensor<1xui8>"),
        (np.zeros((0, 5), np.int64), "tensor<?x5xindex>"),
    ],
)
def test_array_is_passed_on(value: np.ndarray[Any, Any], text: str):
    assert accept(value, text) is value


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        (np.array([200, 1], np.uint8), "tensor<2xi8>", np.array([-56, 1], np.int8)),
        (np.array([15, 7], np.uint8), "tensor<2xi4>", np.array([-1, 7], np.int8)),
        (np.array([2**24 - 1], np.uint32), "tensor<1xi24>", np.array([-1], np.int32)),
        (np.array([2**64 - 1], np.uint64), "tensor<1xindex>", np.array([-1])),
        (np.array([1, 2], ">f4"), "tensor<2xf32>", np.array([1, 2], np.float32)),
        (np.float32(1.5), "f32", np.array(1.5, np.float32)),
        (3, "i8", np.array(3, np.int8)),
        (3, "f32", np.array(3, np.float32)),
        (0.1, "f32", np.array(0.1, np.float32)),
        (0.1, "f64", np.array(0.1)),
        (1 + 2**-8 + 2**-40, "bf16", np.array(1 + 2**-7).astype(ml_dtypes.bfloat16)),
        (float("inf"), "f16", np.array(np.inf, np.float16)),
        ([[1, 2], [3, -4]], "tensor<2x2xi8>", np.array([[1, 2], [3, -4]], np.int8)),
        ([1, 2.5], "tensor<?xf32>", np.array([1, 2.5], np.float32)),
        ([], "tensor<?xi8>", np.zeros(0, np.int8)),
        (True, "i1", np.array(True)),
        ([0, 1], "tensor<2xi1>", np.array([False, True])),
        (255, uniform("u8"), np.array(255, np.uint8)),
        (2**63 - 1, "index", np.array(2**63 - 1)),
        (2**64 - 1, "ui64", np.array(2**64 - 1, np.uint64)),
    ],
)
def test_conversion(value: Any, text: str, expected: np.ndarray[Any, Any]):
    result = accept(value, text)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    assert np.array_equal(result, expected)


def test_unsigned_array_is_only_looked_at_differently():
    value = np.array([200, 1], np.uint8)
    assert np.shares_memory(accept(value, "tensor<2xi8>"), value)


def test_floats_from_a_file():
    # NumPy writes what it does not know as bytes.
    value = np.array([1.5, -2], ml_dtypes.bfloat16)
    result = accept(value.view("V2"), "tensor<2xbf16>")
    assert result.dtype == ml_dtypes.bfloat16
    assert np.array_equal(result, value)


@pytest.mark.parametrize(
    ("value", "text", "error", "message"),
    [
        (
            np.zeros(2),
            "tensor<2xf32>",
            TypeError,
            "has dtype float64, but 'tensor<2xf32>' takes float32",
        ),
        (np.float64(1), "f32", TypeError, "has dtype float64, but 'f32' takes float32"),
        (
            np.zeros(2, np.int16),
            "tensor<2xi8>",
            TypeError,
            "has dtype int16, but 'tensor<2xi8>' takes int8",
        ),
        (
            np.zeros(2, np.int8),
            f"tensor<2x{uniform('u8')}>",
            TypeError,
            "has dtype int8, but ",
        ),
        (
            np.zeros(2, np.uint8),
            f"tensor<2x{uniform('i8')}>",
            TypeError,
            "has dtype uint8, but ",
        ),
        (
            np.zeros(2, np.uint8),
            "tensor<2xi1>",
            TypeError,
            "has dtype uint8, but 'tensor<2xi1>' takes bool",
        ),
        (
            np.zeros(2, np.int8),
            "tensor<2xui8>",
            TypeError,
            "has dtype int8, but 'tensor<2xui8>' takes uint8",
        ),
        (
            np.zeros(2, "V2"),
            "tensor<2xf16>",
            TypeError,
            "has dtype |V2, but 'tensor<2xf16>' takes float16",
        ),
        (
            np.zeros(2, np.float32),
            "f32",
            ValueError,
            "has rank 1, but 'f32' has rank 0",
        ),
        (
            1.0,
            "tensor<1xf32>",
            ValueError,
            "has rank 0, but 'tensor<1xf32>' has rank 1",
        ),
        (
            np.zeros((2, 3), np.float32),
            "tensor<?x4xf32>",
            ValueError,
            "has shape 2x3, but 'tensor<?x4xf32>' has shape ?x4",
        ),
        (
            np.array([8], np.int8),
            "tensor<1xi4>",
            ValueError,
            "contains 8, but 'tensor<1xi4>' takes -8 to 7",
        ),
        (
            np.array([16], np.uint8),
            "tensor<1xi4>",
            ValueError,
            "contains 16, but 'tensor<1xi4>' takes 0 to 15",
        ),
        (
            np.array([16], np.uint8),
            f"tensor<1x{uniform('u4')}>",
            ValueError,
            "contains 16, but ",
        ),
        (128, "i8", ValueError, "contains 128, but 'i8' takes -128 to 127"),
        (-1, uniform("u8"), ValueError, "contains -1, but "),
        (2, "i1", ValueError, "contains 2, but 'i1' takes 0 to 1"),
        (
            2**70,
            "i64",
            ValueError,
            "contains 1180591620717411303424, but 'i64' takes -",
        ),
        (1.5, "i8", TypeError, "contains 1.5, but 'i8' takes integers"),
        (True, "i8", TypeError, "is a boolean, but 'i8' takes numbers"),
        (True, "f32", TypeError, "is a boolean, but 'f32' takes numbers"),
        (1e39, "f32", ValueError, "contains 1e+39, which exceeds 'f32'"),
        (65520.0, "f16", ValueError, "contains 65520.0, which exceeds 'f16'"),
        (9, uniform("f4E2M1FN"), ValueError, "contains 9.0, which exceeds "),
        (-6.5, uniform("f4E2M1FN"), ValueError, "contains -6.5, which exceeds '"),
        (np.inf, uniform("f4E2M1FN"), ValueError, "contains inf, which exceeds"),
        (np.nan, uniform("f4E2M1FN"), ValueError, "contains nan, but '!quant.uniform<"),
        (1000, uniform("f8E4M3FN"), ValueError, "contains 1000.0, which exceeds"),
        (-np.inf, uniform("f8E4M3FN"), ValueError, "contains -inf, which exceeds"),
        (1e6, uniform("f8E5M2"), ValueError, "contains 1000000.0, which exceeds"),
        (
            [np.nan],
            "tensor<1xf4E2M1FN>",
            ValueError,
            "contains nan, but 'tensor<1xf4E2M1FN>' has no NaN",
        ),
        (8, "f4E2M1FN", ValueError, "contains 8.0, which exceeds 'f4E2M1FN'"),
        (
            "1.5",
            "f32",
            TypeError,
            "is a str, expected an array, a number or a list of numbers",
        ),
        (
            None,
            "f32",
            TypeError,
            "is a NoneType, expected an array, a number or a list of numbers",
        ),
        (
            [[1], [2, 3]],
            "tensor<2x?xi8>",
            ValueError,
            "is a ragged list",
        ),
    ],
)
def test_mistakes(value: Any, text: str, error: type[Exception], message: str):
    with pytest.raises(error) as caught:
        accept(value, text)
    assert str(caught.value).startswith(f"argument 'x' {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("has_ml_dtypes", [True, False])
@pytest.mark.parametrize(
    ("storage", "values", "codes"),
    [
        ("f4E2M1FN", [1, -6, 2.4], [0x2, 0xF, 0x4]),
        ("f8E4M3FN", [1, 448, np.nan], [0x38, 0x7E, 0x7F]),
        ("f8E5M2", [1, -np.inf, 57344], [0x3C, 0xFC, 0x7B]),
    ],
)
def test_numbers_in_a_list_are_values(
    storage: str,
    values: list[float],
    codes: list[int],
    has_ml_dtypes: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    if not has_ml_dtypes:
        code_dtype.cache_clear()
        float_dtype.cache_clear()
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    array = accept(values, f"tensor<3x{uniform(storage)}>")
    code_dtype.cache_clear()
    assert (array.dtype == np.uint8) is not has_ml_dtypes
    np.testing.assert_array_equal(array.view(np.uint8), np.array(codes, np.uint8))


@pytest.mark.parametrize(
    ("value", "text", "hint"),
    [
        ([0, 128, 255], "tensor<3xi8>", "an array of uint8"),
        (15, "i4", "an array of uint8"),
        (2**64 - 1, "i64", "an array of uint64"),
        ([-1, 255], "tensor<2xi8>", None),
        (256, "i8", None),
        (16, "i4", None),
        (255, uniform("i8"), None),
    ],
)
def test_unsigned_numbers_in_a_list(value: Any, text: str, hint: str | None):
    end = f", or {hint} for unsigned numbers" if hint else ""
    with pytest.raises(ValueError, match=f" takes -[0-9]+ to [0-9]+{end}$"):
        accept(value, text)


def test_long_types_are_shortened():
    scales = ", ".join(["0.5"] * 100).replace(" ", "")
    type_ = type_of(f"tensor<100x!quant.uniform<i8:f32:0, {{{scales}}}>>")
    assert len(shortened(type_)) == 63
    assert shortened(type_).startswith("tensor<100x!quant.uniform<i8:f")
    with pytest.raises(ValueError, match="shape 3") as caught:
        check_argument(np.zeros(3, np.int8), type_, "x")
    assert len(str(caught.value)) < 150


def test_shape_text():
    assert shape_text((2, -(2**63), 3)) == "2x?x3"
    assert shape_text(()) == ""


def test_types_are_printed_in_messages_only(monkeypatch: pytest.MonkeyPatch):
    """The text of a type may have the scales of a million blocks."""

    def printed(type_: Attribute) -> str:
        raise AssertionError(type_.name)

    monkeypatch.setattr("xdsl_quant.runtime.arrays.shortened", printed)
    for text, array in (
        ("tensor<3x!quant.uniform<f4E2M1FN:f32, 0.5>>", np.array([0, 7, 15], np.uint8)),
        ("tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>", np.array([0, 255], np.uint8)),
        ("tensor<2x!quant.uniform<u4:f32, 0.5>>", np.array([0, 15], np.uint8)),
        ("tensor<2x!quant.uniform<i4:f32, 0.5>>", np.array([-8, 7], np.int8)),
    ):
        found = accept(array, text)
        np.testing.assert_array_equal(found.view(array.dtype), array)
