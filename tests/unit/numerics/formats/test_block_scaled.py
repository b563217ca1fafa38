import re
from typing import Any

import numpy as np
import pytest

from xdsl_quant.numerics.formats import BlockScaled, Stored
from xdsl_quant.numerics.formats.bits import join_bits, split_bits
from xdsl_quant.numerics.formats.block_scaled import code_width


def test_formula():
    """The last block of each dimension is shorter."""
    codes = np.arange(15, dtype=np.uint8).reshape(3, 5)
    stored = BlockScaled(
        codes,
        "u4",
        block_shape=(2, 3),
        scales=Stored(np.array([[1, 2], [-3, 0.5]], np.float16), "f16"),
        zero_points=Stored(np.array([[0, 1], [2, 3]], np.uint8), "u4"),
        offsets=Stored(np.array([[0, 1], [2, 3]], np.float32), "f32"),
    )
    np.testing.assert_array_equal(
        stored.dequantize(),
        [[0, 1, 2, 5, 7], [5, 6, 7, 15, 17], [-22, -25, -28, 8, 8.5]],
    )
    assert stored.bits == (15 * 4 + 4 * (16 + 4 + 32)) / 15


def test_scales_that_are_quantized():
    stored = BlockScaled(
        np.array([[1, -2, 3, -4]], np.int8),
        "i4",
        block_shape=(1, 2),
        scales=BlockScaled(
            np.array([[2, 0x81]], np.uint8),
            "f8E8M0FNU",
            block_shape=(1, 2),
            scales=Stored(np.array([[3]], np.float32), "f32"),
        ),
    )
    expected = np.array([3 * 2.0**-125, -6 * 2.0**-125, 36, -48], np.float32)
    np.testing.assert_array_equal(stored.dequantize(), [expected])


def test_table():
    stored = Stored(np.array([3, 0], np.uint8), "u2", table=(-1.0, -0.5, 0.1, 1.0))
    np.testing.assert_array_equal(stored.dequantize(), np.array([1, -1], np.float32))


def test_shape_of_scales():
    message = r"expected scales of shape \(1, 2\) .* found \(2,\)"
    with pytest.raises(ValueError, match=message):
        BlockScaled(
            np.zeros((1, 4), np.int8),
            "i8",
            block_shape=(1, 2),
            scales=Stored(np.ones(2, np.float32), "f32"),
        )


@pytest.mark.parametrize("block_shape", [(2,), (1, 0), (1, "2"), [1, 2], 2])
def test_block_shape(block_shape: Any):
    with pytest.raises(ValueError, match="expected a tuple of positive block sizes"):
        BlockScaled(
            np.zeros((1, 4), np.int8),
            "i8",
            block_shape=block_shape,
            scales=Stored(np.ones((1, 2), np.float32), "f32"),
        )


@pytest.mark.parametrize(
    ("type_name", "width"),
    [
        ("i4", 4),
        ("u6", 6),
        ("f16", 16),
        ("bf16", 16),
        ("f8E8M0FNU", 8),
        ("f6E2M3FN", 6),
    ],
)
def test_bit_width(type_name: str, width: int):
    assert code_width(type_name) == width


def test_runs_of_bits():
    codes = np.arange(16, dtype=np.uint8)
    adjacent = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]
    np.testing.assert_array_equal(join_bits(codes, 4), adjacent)
    far = [0x40, 0x51, 0x62, 0x73, 0xC8, 0xD9, 0xEA, 0xFB]
    np.testing.assert_array_equal(join_bits(codes, 4, 4), far)
    np.testing.assert_array_equal(join_bits(codes, 1), [0b10101010, 0b10101010])


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("run", [1, 4])
def test_bits_that_are_joined_and_split(width: int, run: int):
    codes = np.random.default_rng(0).integers(0, 1 << width, (3, 64), dtype=np.uint8)
    joined = join_bits(codes, width, run)
    assert joined.shape == (3, 8 * width)
    np.testing.assert_array_equal(split_bits(joined, width, run), codes)


@pytest.mark.parametrize(
    ("type_name", "dtype", "expected"),
    [
        ("f16", np.float32, "expected float16 for codes of type f16, found float32"),
        ("bf16", np.uint16, "expected bfloat16 for codes of type bf16, found uint16"),
        ("f8E4M3FN", np.int8, "expected uint8 for codes of type f8E4M3FN, found int8"),
        ("u4", np.float64, "expected integers for codes of type u4, found float64"),
    ],
)
def test_dtype_of_codes(type_name: str, dtype: type[np.generic], expected: str):
    with pytest.raises(ValueError, match=expected):
        Stored(np.zeros(2, dtype), type_name)


@pytest.mark.parametrize(
    "type_name", ["fp4", "e8m0", "bogus", "f4e2m1fn", "int4", "uint8", "i33", "f8", "b"]
)
def test_unknown_type(type_name: str):
    message = (
        f"unknown type of codes '{type_name}', available: i1 to i32, u1 to u32, f16, "
        "bf16, f32, f64, f8E5M2, f8E4M3, f8E3M4, f8E4M3FN, f8E5M2FNUZ, f8E4M3FNUZ, "
        "f8E4M3B11FNUZ, f8E8M0FNU, f6E2M3FN, f6E3M2FN, f4E2M1FN"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Stored(np.zeros(2, np.uint8), type_name)


@pytest.mark.parametrize(
    ("code", "type_name", "table", "expected"),
    [
        (16, "f4E2M1FN", None, "f4E2M1FN from 0 to 15, found 16"),
        (64, "f6E2M3FN", None, "f6E2M3FN from 0 to 63, found 64"),
        (16, "u4", None, "u4 from 0 to 15, found 16"),
        (8, "i4", None, "i4 from -8 to 7, found 8"),
        (3, "u2", (0.0, 1.0, 2.0), "u2 in a table from 0 to 2, found 3"),
        (2, "u1", (0.0, 1.0, 2.0), "u1 in a table from 0 to 1, found 2"),
    ],
)
def test_range_of_codes(code: int, type_name: str, table: Any, expected: str):
    with pytest.raises(
        ValueError, match=f"^expected codes of type {expected} at index 1$"
    ):
        Stored(np.array([0, code], np.uint8), type_name, table)


def test_indices_may_not_be_negative():
    with pytest.raises(ValueError, match=r"u2 in a table from 0 to 1, found -1$"):
        Stored(np.array([-1], np.int8), "u2", (0.0, 1.0))


def test_codes_that_are_no_array():
    codes: Any = [1, 2]
    with pytest.raises(TypeError, match=r"^expected an array of codes, found list$"):
        Stored(codes, "i8")
    with pytest.raises(TypeError, match="unsupported masked array in codes"):
        Stored(np.ma.masked_array([1, 2], dtype=np.int8), "i8")


@pytest.mark.parametrize("name", ["scales", "zero_points", "offsets"])
def test_parameters_without_a_type(name: str):
    parts: Any = {"scales": Stored(np.ones((1, 2), np.float32), "f32")}
    parts[name] = np.ones((1, 2), np.float32)
    message = (
        f"expected Stored or BlockScaled as {name}, found ndarray; use Stored(array, "
        "type)"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        BlockScaled(np.zeros((1, 4), np.int8), "i8", block_shape=(1, 2), **parts)


def test_missing_scales():
    scales: Any = None
    with pytest.raises(TypeError, match="as scales, found NoneType; use Stored"):
        BlockScaled(np.zeros(4, np.int8), "i8", block_shape=(4,), scales=scales)
