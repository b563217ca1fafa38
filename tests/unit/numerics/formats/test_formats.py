"""What holds for all named formats."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xdsl_quant.numerics.float_dtypes import float_dtype
from xdsl_quant.numerics.formats import (
    FORMATS,
    BlockScaled,
    Format,
    QuantizeLinear,
    Stored,
)
from xdsl_quant.numerics.formats.grouped import GroupFormat
from xdsl_quant.numerics.formats.mx import NVFP4_FORMAT
from xdsl_quant.numerics.formats.nf4 import NF4, NF4_FORMAT

BITS = {
    "MXFP8_E4M3": 8.25,
    "MXFP8_E5M2": 8.25,
    "MXFP6_E2M3": 6.25,
    "MXFP6_E3M2": 6.25,
    "MXFP4": 4.25,
    "MXINT8": 8.25,
    "NVFP4": 4.5,
    "NF4": 4.5,
    "Q4_0": 4.5,
    "Q4_1": 5,
    "Q5_0": 5.5,
    "Q5_1": 6,
    "Q8_0": 8.5,
    "Q2_K": 2.625,
    "Q3_K": 3.4375,
    "Q4_K": 4.5,
    "Q5_K": 5.5,
    "Q6_K": 6.5625,
    "GGUF_MXFP4": 4.25,
    "GPTQ": 4.15625,
    "GPTQ_V2": 4.15625,
    "AWQ": 4.15625,
}

SQNR = {
    "MXFP8_E4M3": (30.6, 29.7),
    "MXFP8_E5M2": (25.3, 24.9),
    "MXFP6_E2M3": (30.6, 26.5),
    "MXFP6_E3M2": (25.3, 24.9),
    "MXFP4": (18.7, 17.1),
    "MXINT8": (40.9, 33.3),
    "NVFP4": (20.4, 19.3),
    "Q4_0": (21.2, 16.2),
    "Q4_1": (22.0, 17.0),
    "Q5_0": (27.2, 22.0),
    "Q5_1": (28.3, 23.6),
    "Q8_0": (45.3, 39.3),
    "Q2_K": (11.3, 10.2),
    "Q3_K": (16.7, 14.5),
    "Q4_K": (22.9, 20.5),
    "Q5_K": (28.8, 26.0),
    "Q6_K": (35.5, 31.0),
    "GGUF_MXFP4": (18.7, 17.1),
    "NF4": (20.7, 18.3),
    "GPTQ": (19.8, 15.6),
    "GPTQ_V2": (19.8, 15.6),
    "AWQ": (19.8, 15.6),
}
"""At least so many dB, of 64 x 512 normal values, and of as many with Student's t (3)."""

ALL = pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
OF_ROWS = {
    name: format
    for name, format in FORMATS.items()
    if not isinstance(format, GroupFormat | NF4)
}
"""Those of arrays of any rank whose last dimension is cut into blocks."""

ALL_OF_ROWS = pytest.mark.parametrize("format", OF_ROWS.values(), ids=OF_ROWS)


def sqnr(format: Format, values: np.ndarray) -> float:
    """The signal-to-noise ratio in dB."""
    error = format.quantize(values).dequantize().astype(np.float64) - values
    return float(10 * np.log10(np.square(values).sum() / np.square(error).sum()))


@ALL
def test_error(format: Format):
    random = np.random.default_rng(0)
    normal = random.normal(size=(64, 512))
    heavy = random.standard_t(3, (64, 512))
    found = sqnr(format, normal), sqnr(format, heavy)
    assert found[0] >= SQNR[format.name][0], found
    assert found[1] >= SQNR[format.name][1], found


@ALL
def test_bits(format: Format):
    values = np.random.default_rng(0).normal(size=(8, 1024))
    stored = format.quantize(values)
    overhead = 32 / values.size if format.name in ("NVFP4", "MXINT8") else 0
    assert stored.bits == BITS[format.name] + overhead
    if format.name == "GGUF_MXFP4" or format.name.startswith("Q"):
        assert 8 * format.pack(stored)["data"].size == stored.bits * values.size


@ALL_OF_ROWS
@pytest.mark.parametrize("shape", [(512,), (3, 256), (2, 1, 2, 256)])
def test_packed_and_unpacked(format: Format, shape: tuple[int, ...]):
    values = np.random.default_rng(1).normal(size=shape)
    stored = format.quantize(values)
    packed = format.pack(stored)
    again = format.unpack(packed)
    assert again.shape == stored.shape == shape
    assert again.codes.dtype == stored.codes.dtype
    np.testing.assert_array_equal(again.codes, stored.codes)
    np.testing.assert_array_equal(again.dequantize(), stored.dequantize())
    for name, array in format.pack(again).items():
        np.testing.assert_array_equal(array, packed[name])


@ALL
def test_views_of_other_dtypes(format: Format):
    values = np.random.default_rng(2).integers(-9, 9, (256, 8)).astype(np.float16).T
    expected = format.quantize(np.ascontiguousarray(values, np.float32))
    found = format.quantize(values)
    np.testing.assert_array_equal(found.codes, expected.codes)
    packed = format.pack(found)
    strided = {name: np.stack([a, a], -1)[..., 0] for name, a in packed.items()}
    np.testing.assert_array_equal(
        format.unpack(strided).dequantize(), expected.dequantize()
    )


def test_values_of_bf16():
    values = np.linspace(-1, 1, 32).astype(float_dtype("bf16"))
    expected = FORMATS["MXFP4"].quantize(values.astype(np.float32))
    found = FORMATS["MXFP4"].quantize(values)
    np.testing.assert_array_equal(found.dequantize(), expected.dequantize())


def test_values_with_a_mask():
    with pytest.raises(TypeError, match=r"^unsupported masked array in values"):
        FORMATS["MXFP4"].quantize(np.ma.masked_array(np.ones(32)))


def test_values_that_f32_does_not_hold():
    expected = FORMATS["MXFP4"].quantize(np.full(32, np.inf)).dequantize()
    found = FORMATS["MXFP4"].quantize(np.full(32, 1e39)).dequantize()
    np.testing.assert_array_equal(found, expected)


@ALL
def test_all_zero(format: Format):
    stored = format.quantize(np.zeros((8, 256)))
    assert not stored.dequantize().any()


TOO_SMALL = {
    **dict.fromkeys(BITS, 1e-8),
    **dict.fromkeys(("MXFP4", "MXFP6_E2M3", "MXFP6_E3M2", "GGUF_MXFP4"), 1e-40),
    **dict.fromkeys(("MXFP8_E4M3", "MXFP8_E5M2", "MXINT8"), 1e-44),
    **{"NVFP4": 7e-36, "NF4": 1e-40},
}
"""A magnitude of which each format stores only zeros."""


def message_of_zeros(name: str, size: float) -> str:
    return (
        f"{name} stores values as zeros: their largest magnitude is {size:.3g}; scale the "
        "values or use another format"
    )


@pytest.mark.parametrize("name", TOO_SMALL)
def test_values_that_become_zeros(name: str):
    """One warning says so, also if larger values are in other blocks."""
    block, small = FORMATS[name].block, TOO_SMALL[name]
    values = np.full((8, 512), small)
    beside = values.copy()
    beside[:, 256:] = 1
    # Numbers of f64 that are zero in f32 are lost, too.
    arrays = [(values, small), (values * 1e-30, small * 1e-30)]
    # All blocks of NVFP4 share a scale.
    for array, size in arrays if name == "NVFP4" else [*arrays, (beside, small)]:
        array[3, 1], array[5, 2] = -array[3, 1] / 2, 0
        with pytest.warns(RuntimeWarning) as caught:
            stored = FORMATS[name].quantize(array)
        assert [str(each.message) for each in caught] == [message_of_zeros(name, size)]
        assert caught[0].filename == __file__
        assert not stored.dequantize()[:, :block].any()


@ALL
def test_blocks_without_a_warning(format: Format):
    """Zeros stay zeros, and a block with one larger value is not zero."""
    values = np.zeros((8, 256))
    values[0, : format.block] = 1e-50
    values[0, 0] = 1
    assert format.quantize(values).dequantize()[0, 0] > 0.5


@pytest.mark.parametrize(
    ("name", "small"), [("Q2_K", 1e-3), ("Q6_K", 1e-3), ("NVFP4", 1e-7)]
)
def test_small_blocks_beside_others_that_share_a_scale(name: str, small: float):
    """They are no more wrong than the others."""
    values = np.ones((2, 256))
    values[:, : (block := FORMATS[name].block)] = small
    assert not FORMATS[name].quantize(values).dequantize()[:, :block].any()


@pytest.mark.parametrize(
    ("name", "size"), [("NVFP4", 8e-36), ("NF4", 1e-38), ("MXFP8_E5M2", 1e-43)]
)
def test_smallest_values_that_are_stored(name: str, size: float):
    assert FORMATS[name].quantize(np.full((8, 256), size)).dequantize().all()


def test_arguments_that_make_zeros():
    message = message_of_zeros("NVFP4", 1)
    with pytest.warns(RuntimeWarning, match=f"^{message}$"):
        NVFP4_FORMAT.quantize(np.ones(16), tensor_scale=1e6)
    # Blocks along the first dimension, the last one of which is shorter.
    values = np.repeat([[1.0, 2.0, 0.25]], 5, 0).T
    for stored_type in ("i8", "f8E5M2"):
        format = QuantizeLinear("QuantizeLinear", stored_type, 2, 0)
        scales = np.full((2, 5), 1.0)
        scales[1] = 1e6
        message = message_of_zeros("QuantizeLinear", 0.25)
        with pytest.warns(RuntimeWarning, match=f"^{message}$"):
            format.quantize(values, scales)


@ALL_OF_ROWS
def test_block_does_not_divide(format: Format):
    message = f"the last dimension must be a multiple of .*{format.name}, found shape"
    with pytest.raises(ValueError, match=message):
        format.quantize(np.zeros((256, 8)))


@ALL
def test_values_that_are_none(format: Format):
    with pytest.raises(TypeError, match="expected numbers as values, found dtype <U1"):
        format.quantize(np.array(["a"] * 256))
    message = "expected values with at least one dimension, found a number"
    with pytest.raises(ValueError, match=f"^{message}$"):
        format.quantize(1.0)
    with pytest.raises(
        ValueError, match=r"expected at least one value, found shape \(0, 256\)"
    ):
        format.quantize(np.zeros((0, 256)))


@ALL
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_not_finite(format: Format, value: float):
    values = np.zeros((2, 256))
    values[1, 3] = value
    if format.name.startswith("MX"):
        numbers = format.quantize(values).dequantize()
        is_finite = format.name == "MXINT8" and np.isinf(value)
        assert np.isfinite(numbers[1, 3]) == is_finite
        assert not numbers[0].any()
        return
    message = f"expected finite values for {format.name}, found {value}"
    with pytest.raises(ValueError, match=re.escape(message)):
        format.quantize(values)


@ALL
def test_other_format(format: Format):
    other = FORMATS["MXFP4" if format.name != "MXFP4" else "Q8_0"]
    if other.type == format.type and other.block == format.block:
        return
    stored = other.quantize(np.zeros((8, 256)))
    with pytest.raises(
        ValueError, match=f"expected elements of type .* for {format.name}, "
    ):
        format.pack(stored)


@pytest.mark.parametrize(
    ("name", "other"),
    [("MXINT8", "Q8_0"), ("Q8_0", "MXINT8"), ("Q4_K", "Q4_1"), ("Q5_K", "Q5_1")],
)
def test_same_elements_with_other_scales(name: str, other: str):
    stored = FORMATS[name].quantize(np.ones((1, 256)))
    with pytest.raises(
        ValueError, match=f"blocks with scales of .* for {other}, found"
    ):
        FORMATS[other].pack(stored)


def test_alternatives_of_scales():
    stored = replace(NF4_FORMAT.quantize([1.0]), scales=Stored(np.ones(1, "f2"), "f16"))
    message = (
        "expected blocks with scales of f32 or scales of u8 times f32 for NF4, found "
        "scales"
    )
    with pytest.raises(ValueError, match=message):
        NF4_FORMAT.pack(stored)


@ALL
def test_missing_array(format: Format):
    with pytest.raises(ValueError, match=f"missing arrays of {format.name}: "):
        format.unpack({})


@ALL
def test_other_arrays(format: Format):
    stored: BlockScaled = format.quantize(np.ones((8, 256)))
    packed = {name: a.astype(np.float64) for name, a in format.pack(stored).items()}
    with pytest.raises(ValueError, match=f"^expected .* for {format.name}"):
        format.unpack(packed)


@ALL
def test_lists(format: Format):
    stored = format.quantize(np.ones((8, 256)))
    packed = {name: array.tolist() for name, array in format.pack(stored).items()}
    with pytest.raises(ValueError, match=f"^expected .* for {format.name}"):
        format.unpack(packed)


@ALL
@pytest.mark.parametrize("block", [0, -1, "32", 32.0])
def test_block_that_is_no_size(format: Format, block: Any):
    message = (
        f"expected a positive integer as block size of {format.name}, found {block!r}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(format, block=block)


@ALL
def test_packed_array(format: Format):
    codes: Any = np.ones((8, 256))
    message = (
        "expected a BlockScaled, found ndarray; use the result of 'quantize' or "
        "'unpack' of a format"
    )
    with pytest.raises(TypeError, match=f"^{message}$"):
        format.pack(codes)
    without_scales: Any = Stored(codes, "f64")
    with pytest.raises(TypeError, match="found Stored;"):
        format.pack(without_scales)


def test_unknown_format():
    message = f"unknown format 'mxfp4', available: {', '.join(FORMATS)}"
    with pytest.raises(KeyError) as error:
        FORMATS["mxfp4"]
    assert error.value.args == (message,)
    assert FORMATS.get("mxfp4") is None
    assert "mxfp4" not in FORMATS
