from dataclasses import replace

import numpy as np
import pytest

from xdsl_quant.numerics.formats import BlockScaled
from xdsl_quant.numerics.formats.nf4 import (
    NF4_FORMAT,
    NF4_TABLE,
    dynamic_table,
    flat_block_shape,
)


@pytest.mark.parametrize(
    "shape", [(7,), (1000,), (3, 64), (5, 16), (2, 3, 128), (1, 70)]
)
@pytest.mark.parametrize("quantizes_scales", [False, True])
def test_packed_and_unpacked(shape: tuple[int, ...], quantizes_scales: bool):
    values = np.random.default_rng(0).normal(size=shape)
    stored = NF4_FORMAT.quantize(values, quantizes_scales=quantizes_scales)
    flat = NF4_FORMAT.quantize(values.reshape(-1), quantizes_scales=quantizes_scales)
    np.testing.assert_array_equal(stored.dequantize().reshape(-1), flat.dequantize())
    packed = NF4_FORMAT.pack(stored)
    assert packed["weight"].shape == (-(-values.size // 2), 1)
    again = NF4_FORMAT.unpack(packed)
    np.testing.assert_array_equal(again.codes, stored.codes)
    np.testing.assert_array_equal(again.dequantize(), stored.dequantize())


def test_elements_of_the_table():
    values = 4 * np.array([*NF4_TABLE] * 4)
    stored = NF4_FORMAT.quantize(values)
    assert stored.codes.tolist() == [*range(16)] * 4
    np.testing.assert_array_equal(stored.dequantize(), values.astype(np.float32))
    first = NF4_FORMAT.pack(stored)["weight"][:3, 0]
    assert first.tolist() == [0x01, 0x23, 0x45]


def test_ties_are_those_of_f32():
    """The middle of two elements, rounded to f32, becomes the smaller one."""
    elements = np.array(NF4_TABLE, np.float32)
    ties = (elements[:-1] + elements[1:]) / 2
    assert NF4_FORMAT.quantize([*ties, 1]).codes.tolist() == [*range(16)]


@pytest.mark.parametrize(("size", "is_shorter"), [(64, False), (63, True), (65, True)])
def test_smallest_scale_of_a_shorter_block(size: int, is_shorter: bool):
    scales = NF4_FORMAT.quantize(np.zeros(size)).scales.codes
    assert scales[-1] == (np.float32(1e-38) if is_shorter else 0)


def test_double_quantization():
    values = np.random.default_rng(1).normal(size=(512, 64))
    stored = NF4_FORMAT.quantize(values, quantizes_scales=True)
    assert isinstance(stored.scales, BlockScaled)
    assert stored.scales.scales.shape == (2, 1)
    assert stored.scales.codes.dtype == np.uint8
    exact = NF4_FORMAT.quantize(values).scales.codes
    np.testing.assert_allclose(stored.scales.dequantize(), exact, atol=0.02)
    assert NF4_FORMAT.quantize(values).bits == 4.5


def test_packed_arrays():
    """As those of a checkpoint are, all in one dimension but `weight`."""
    values = np.random.default_rng(2).normal(size=(300, 64))
    stored = NF4_FORMAT.quantize(values, quantizes_scales=True)
    packed = NF4_FORMAT.pack(stored)
    kinds = {name: (array.dtype.name, array.shape) for name, array in packed.items()}
    assert kinds == {
        "weight": ("uint8", (9600, 1)),
        "absmax": ("uint8", (300,)),
        "quant_map": ("float32", (16,)),
        "shape": ("int64", (2,)),
        "nested_absmax": ("float32", (2,)),
        "nested_quant_map": ("float32", (256,)),
        "nested_offset": ("float32", ()),
    }
    assert packed["quant_map"].tolist() == [*NF4_TABLE]
    assert packed["nested_quant_map"].tolist() == [*dynamic_table()]


def test_offset_is_the_mean_of_scales():
    """The mean is computed in f64: in f32 the ones are lost beside 2**25."""
    values = np.ones((9, 64))
    values[0] = 2.0**25
    stored = NF4_FORMAT.quantize(values, quantizes_scales=True)
    assert isinstance(stored.scales, BlockScaled)
    assert stored.scales.offsets is not None
    expected = np.float32((2.0**25 + 8) / 9)
    assert stored.scales.offsets.codes.tolist() == [[expected]]


def test_scales_are_looked_up_on_a_grid():
    """
    What is looked up is the nearest of 65536 quotients from -1 to 1: that of 0.2500001 is
    40959 / 32767.5 - 1, which is less than 1/4.
    """
    format = replace(NF4_FORMAT, block=1)
    table = [0, 0.1, 0.4, 1]
    stored = format.quantize(
        [1, 0.2500001, 0.25001], quantizes_scales=True, offset=0, table=table
    )
    assert stored.scales.codes.tolist() == [3, 1, 2]
    # Numbers are those of f32.
    assert stored.scales.table == tuple(np.array(table, np.float32).tolist())


def test_dynamic_table():
    table = dynamic_table()
    assert len(table) == len({*table}) == 256
    assert table[-1] == 1
    assert table[0] == -np.float32(0.99296875)
    assert min(abs(number) for number in table if number) == np.float32(5.5e-7)


@pytest.mark.parametrize(
    ("shape", "block_shape"),
    [
        ((5,), (5,)),
        ((100,), (64,)),
        ((3, 128), (1, 64)),
        ((8, 16), (4, 16)),
        ((2, 2, 32), (1, 2, 32)),
        ((4, 2, 8), (4, 2, 8)),
        ((1, 100), (1, 64)),
        ((2, 3, 8), (2, 3, 8)),
    ],
)
def test_flat_blocks(shape: tuple[int, ...], block_shape: tuple[int, ...]):
    assert flat_block_shape(shape, 64) == block_shape


@pytest.mark.parametrize("shape", [(2, 100), (64, 3), (2, 3, 32)])
def test_blocks_that_cross_rows(shape: tuple[int, ...]):
    message = "shape that blocks of 64 consecutive elements divide evenly, found "
    with pytest.raises(ValueError, match=message):
        NF4_FORMAT.quantize(np.zeros(shape))


def test_size_of_weight():
    packed = NF4_FORMAT.pack(NF4_FORMAT.quantize(np.zeros(64)))
    with pytest.raises(ValueError, match=r"expected 33 bytes for NF4 of shape \(65,\)"):
        NF4_FORMAT.unpack({**packed, "shape": np.array([65])})


def test_elements_of_another_table():
    stored = NF4_FORMAT.quantize(np.zeros(64, np.float32))
    with pytest.raises(
        ValueError,
        match=r"^expected elements of type u4 with NF4_TABLE in blocks of shape \(64,\) "
        r"for NF4, found u4 with another table in blocks of shape \(64,\)$",
    ):
        NF4_FORMAT.pack(replace(stored, table=(*NF4_TABLE[:-1], 2.0)))
