import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.numerics.formats import BlockScaled, Stored
from xdsl_quant.numerics.formats.gguf import (
    GGUF_FORMATS,
    GGUFFormat,
    _scales_and_offsets,  # pyright: ignore[reportPrivateUsage] a choice before rounding
)

ZEROS = pytest.mark.filterwarnings("ignore:.* stores values as zeros:RuntimeWarning")
BY_NAME = {format.name: format for format in GGUF_FORMATS}
OF_256 = [format for format in GGUF_FORMATS if format.name.endswith("_K")]


def test_sizes():
    sizes = {name: format.layout.itemsize for name, format in BY_NAME.items()}
    assert sizes == {
        "Q4_0": 18,
        "Q4_1": 20,
        "Q5_0": 22,
        "Q5_1": 24,
        "Q8_0": 34,
        "Q2_K": 84,
        "Q3_K": 110,
        "Q4_K": 144,
        "Q5_K": 176,
        "Q6_K": 210,
        "GGUF_MXFP4": 17,
    }


@pytest.mark.parametrize("format", GGUF_FORMATS, ids=BY_NAME)
def test_bytes_are_kept(format: GGUFFormat):
    size = format.layout.itemsize
    data = np.random.default_rng(0).integers(0, 256, (5, 3 * size), dtype=np.uint8)
    np.testing.assert_array_equal(
        format.pack(format.unpack({"data": data}))["data"], data
    )


@pytest.mark.parametrize("shape", [(), (17,), (2, 19)])
def test_bytes_that_are_no_blocks(shape: tuple[int, ...]):
    message = "expected rows of uint8 in blocks of 18 for Q4_0, found uint8 of shape "
    with pytest.raises(ValueError, match=f"^{re.escape(message + str(shape))}$"):
        BY_NAME["Q4_0"].unpack({"data": np.zeros(shape, np.uint8)})


def _fitted(row: NDArray[np.float64], bits: int) -> tuple[float, float]:
    """The line with the least squared error of those that are tried, for one block."""
    last, lowest = (1 << bits) - 1, min(0, row.min())
    unit = (max(0, row.max()) - lowest) / last
    lines: list[tuple[float, float, float]] = []
    for factor in np.linspace(0.6, 1.2, 25):
        codes = np.minimum(np.rint((row - lowest) / (factor * unit)), last)
        products = ((row - row.mean()) * codes).sum()
        slope = float(products / np.square(codes - codes.mean()).sum())
        offset = float(row.mean() - slope * codes.mean())
        if offset > 1e-12:
            slope, offset = float((codes * row).sum() / np.square(codes).sum()), 0.0
        error = np.square(row - slope * codes - offset).sum()
        lines.append((float(error), slope, offset))
    return min(lines)[1:]


@pytest.mark.parametrize("bits", [2, 4])
def test_least_squares(bits: int):
    random = np.random.default_rng(0)
    rows = random.normal(size=(7, 32))
    distances = np.array([[0], [0.5]])
    rows[1:3] = np.abs(rows[1:3]) + distances
    rows[3:5] = -np.abs(rows[3:5]) - distances
    rows[5] = 0.01 * np.abs(rows[5])
    rows[6] += 1
    found = np.array(_scales_and_offsets(rows, bits)).T
    expected = [_fitted(row, bits) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_first_of_equal_scales():
    """Those of fewer steps are exact, too."""
    assert BY_NAME["Q4_K"].quantize([0, 1] * 128).codes.tolist() == [0, 15] * 128
    assert BY_NAME["Q6_K"].quantize([0, -1] * 128).codes.tolist() == [0, -32] * 128


@pytest.mark.parametrize(
    ("name", "values", "codes", "of_supers"),
    [
        ("Q4_K", [15, 7.5], [63, 32], 1 / 63),
        ("Q6_K", [-32, 32], [-128, 127], -(2.0**-7)),
        # 179 / 128 units of f16 are rounded to one.
        ("Q6_K", [-32 * 179 * 2.0**-24, 0], [-128, 0], -(2.0**-24)),
    ],
)
def test_scales_of_a_super_block(
    name: str, values: list[float], codes: list[int], of_supers: float
):
    format = BY_NAME[name]
    array = np.zeros(256)
    array[[0, format.block]] = values
    scales = format.quantize(array).scales
    assert isinstance(scales, BlockScaled)
    assert scales.codes[:2].tolist() == codes
    assert scales.scales.codes.tolist() == [float(np.float16(of_supers))]


def test_negative_scale():
    values = np.linspace(-1, 8, 32)
    stored = BY_NAME["Q4_0"].quantize(values)
    assert stored.scales.codes.tolist() == [-1]
    assert stored.dequantize()[-1] == 8


@pytest.mark.parametrize(
    "name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K"]
)
def test_too_large_for_f16(name: str):
    values = np.zeros((2, 512))
    values[1, 261] = 1e12
    format = BY_NAME[name]
    is_super = name.endswith("K")
    noun = "a scale of the super-blocks of" if is_super else "a scale of"
    block = 768 // (256 if is_super else format.block)
    message = (
        rf"^{noun} {name} is not representable in f16, found [-+0-9.e]+ for block "
        rf"{block} in row-major order; divide the values by a constant$"
    )
    with pytest.raises(ValueError, match=message):
        format.quantize(values)


def test_super_block_of_a_later_piece():
    values = np.zeros(((1 << 12) + 3, 256), np.float32)
    values[-2, 0] = 1e12
    with pytest.raises(ValueError, match=r"for block 4097 in row-major order"):
        BY_NAME["Q6_K"].quantize(values)


def test_too_large_an_offset():
    message = (
        r"^an offset of Q4_1 is not representable in f16, found -100000.0 for block 0"
    )
    with pytest.raises(ValueError, match=message):
        BY_NAME["Q4_1"].quantize(np.full(32, -1e5))


@ZEROS
@pytest.mark.parametrize("name", BY_NAME)
def test_too_small_for_a_scale(name: str):
    numbers = BY_NAME[name].quantize(np.full(256, 1e-44)).dequantize()
    assert (np.abs(numbers) <= 1e-43).all()


@ZEROS
@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
@pytest.mark.parametrize("size", [0, 1e-44])
def test_elements_without_a_scale(name: str, size: float):
    assert not BY_NAME[name].quantize([size, -size] * 16).codes.any()


def test_range_that_f32_does_not_hold():
    with pytest.raises(ValueError, match=r"^an offset of Q4_1 is not representable"):
        BY_NAME["Q4_1"].quantize([3e38, -3e38] * 16)


@pytest.mark.parametrize("format", OF_256, ids=lambda format: format.name)
def test_super_blocks(format: GGUFFormat):
    """Constants and ramps are exact but for the f16 and the bits of scales."""
    stored = format.quantize(np.full((2, 512), -3.0))
    assert isinstance(stored.scales, BlockScaled)
    assert stored.scales.scales.shape == (2, 2)
    np.testing.assert_allclose(stored.dequantize(), -3, rtol=2e-3)
    flat = Stored(stored.scales.dequantize(), "f32")
    with pytest.raises(
        ValueError, match=f"blocks with scales of .* for {format.name}, "
    ):
        format.pack(replace(stored, scales=flat))


def test_mxfp4_rounds_ties_to_zero():
    values = np.zeros(32)
    values[:8] = 6, 0.25, -0.25, 0.75, 1.75, 3.5, -5, -0.0
    stored = BY_NAME["GGUF_MXFP4"].quantize(values)
    numbers = stored.dequantize()
    assert numbers[:8].tolist() == [6, 0, 0, 0.5, 1.5, 3, -4, 0]
    assert not np.signbit(numbers[[2, 7]]).any()


def test_logarithms_of_mxfp4_are_those_of_f32():
    """Just below 8, the logarithm is rounded to 3."""
    values = np.zeros((2, 32), np.float32)
    values[:, 0] = np.nextafter(np.array([8, 2], np.float32), np.float32(0))
    stored = BY_NAME["GGUF_MXFP4"].quantize(values)
    assert stored.scales.dequantize().tolist() == [[2], [0.25]]
