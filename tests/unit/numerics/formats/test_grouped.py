from dataclasses import replace

import numpy as np
import pytest

from xdsl_quant.numerics.formats.grouped import GROUP_FORMATS, GroupFormat

GPTQ, GPTQ_V2, AWQ = GROUP_FORMATS
ALL = pytest.mark.parametrize("format", GROUP_FORMATS, ids=lambda format: format.name)


@ALL
@pytest.mark.parametrize("block", [32, 64, 128])
def test_packed_and_unpacked(format: GroupFormat, block: int):
    format = replace(format, block=block)
    values = np.random.default_rng(0).normal(size=(24, 256))
    stored = format.quantize(values)
    packed = format.pack(stored)
    shapes = {name: array.shape for name, array in packed.items()}
    words = (256, 3) if format.is_awq else (32, 24)
    groups = 256 // block
    expected = {"qweight": words, "qzeros": (groups, 3), "scales": (groups, 24)}
    assert shapes == expected | ({} if format.is_awq else {"g_idx": (256,)})
    if not format.is_awq:
        assert packed["g_idx"].tolist() == [i // block for i in range(256)]
        assert packed["g_idx"].dtype == np.int32
    again = format.unpack(packed)
    np.testing.assert_array_equal(again.codes, stored.codes)
    np.testing.assert_array_equal(again.dequantize(), stored.dequantize())
    assert np.abs(stored.dequantize() - values).max() < 0.3


def test_order():
    codes = np.arange(8, dtype=np.uint8).repeat(128).reshape(8, 128)
    ones = np.ones((8, 1))
    for format, word in ((AWQ, 0x75316420), (GPTQ, 0)):
        stored = replace(format.quantize(np.zeros((8, 128))), codes=codes)
        assert format.pack(stored)["qweight"][0, 0] == word
        np.testing.assert_array_equal(stored.scales.codes, ones)


def test_zero_points():
    values = np.tile(np.arange(-3, 13), 8 * 8).reshape(8, 128)
    words = {
        format.name: int(format.pack(format.quantize(values))["qzeros"][0, 0])
        for format in GROUP_FORMATS
    }
    assert words == {"GPTQ": 0x22222222, "GPTQ_V2": 0x33333333, "AWQ": 0x33333333}


@ALL
def test_shapes(format: GroupFormat):
    message = rf"weights of rank 2 \(outputs, inputs\) for {format.name}, found shape"
    with pytest.raises(ValueError, match=message):
        format.quantize(np.zeros(128))
    message = (
        "the last dimension must be a multiple of 128, the block size of "
        f"{format.name}, found shape"
    )
    with pytest.raises(ValueError, match=message):
        format.quantize(np.zeros((8, 64)))
    with pytest.raises(ValueError, match="expected multiples of 8 outputs and inputs"):
        format.pack(format.quantize(np.zeros((7, 128))))


def test_positive_weights():
    stored = AWQ.quantize(np.linspace(1, 15, 128).reshape(1, 128))
    assert stored.zero_points is not None
    assert stored.zero_points.codes.tolist() == [[0]]
    assert stored.scales.codes.tolist() == [[1]]


def test_scale_that_is_rounded_down():
    """A range of 21 units of f16 has a scale of one unit."""
    values = np.zeros((1, 128))
    values[0, :3] = np.ldexp([-21.0, -14, -15], -24)
    stored = AWQ.quantize(values)
    assert stored.scales.codes.tolist() == [[2.0**-24]]
    assert stored.zero_points is not None
    assert stored.zero_points.codes.tolist() == [[15]]
    assert stored.codes[0, :4].tolist() == [0, 1, 0, 15]


def test_range_that_f32_does_not_hold():
    with pytest.raises(ValueError, match=r"^a scale of AWQ is not representable"):
        AWQ.quantize(np.tile([3e38, -3e38], (8, 64)))


def test_no_zero_points():
    stored = replace(AWQ.quantize(np.zeros((8, 128))), zero_points=None)
    with pytest.raises(
        ValueError, match=r"blocks with .*, zero points of u4 for AWQ, found"
    ):
        AWQ.pack(stored)


def test_missing_arrays():
    message = "missing arrays of GPTQ: qzeros, scales; expected qweight, qzeros, scales"
    with pytest.raises(ValueError, match=f"^{message}$"):
        GPTQ.unpack({"qweight": np.zeros((16, 8), np.int32)})


def test_other_order_of_inputs():
    packed = GPTQ.pack(GPTQ.quantize(np.zeros((8, 256))))
    packed["g_idx"] = packed["g_idx"][::-1]
    message = (
        "expected groups of 128 consecutive inputs for GPTQ, found another order in "
        "g_idx"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        GPTQ.unpack(packed)


def test_too_large_for_f16():
    values = np.ones((8, 256))
    values[1] = 1.5e6
    message = (
        r"^a scale of AWQ is not representable in f16, found 100000.0 for block 2 in "
        r"row-major order; divide the values by a constant$"
    )
    with pytest.raises(ValueError, match=message):
        AWQ.quantize(values)
