"""Tables of results."""

from __future__ import annotations

import numpy as np

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.tflite.quantized import Quantized
from xdsl_quant.numerics.tflite.tables import function, looked_up, table_of_16_bits


def test_value_outside_of_a_narrowed_range():
    """Constants of files may have it, and kernels look it up as any other."""
    values = np.array([-128, -127, 0, 127])
    result = QuantizationParameters(0.05, -128)
    narrow = QuantizationParameters(0.02, storage_min=-127)
    full = QuantizationParameters(0.02)
    expected = looked_up("exp", Quantized(values, full), result)
    assert expected.tolist() == [-126, -126, -108, 126]
    assert looked_up("exp", Quantized(values, narrow), result).tolist() == [
        *expected.tolist()
    ]


def test_root_is_rounded_before_its_reciprocal():
    """Rounded once, `1 / sqrt(x)` would give 8858 here, which the kernel does not."""
    x = QuantizationParameters(0.00029962745611555874, storage="i16")
    result = QuantizationParameters(8.218483708333224e-05, storage="i16")
    stored = looked_up("rsqrt", Quantized(np.array([6298]), x), result)
    assert stored.tolist() == [8859]


def test_points_that_are_no_numbers():
    """Where the exponential is infinite, points are too, and those between are NaN."""
    x = QuantizationParameters(0.5017449855804443, storage="i16")
    values, scales = (0.5017449855804443, 0), (2.585018855330752e-14, 0)
    table = table_of_16_bits(function("exp", x), values, scales, np.float32)
    assert table[0] == 0
    assert abs(table).max() <= 32768


def test_approximate_gelu_is_computed_with_32_bits():
    """Rounded once, it would give 8096 here, which the kernel does not."""
    x = QuantizationParameters(0.00014932279009371996, storage="i16")
    result = QuantizationParameters(0.0001953816245077178, storage="i16")
    stored = looked_up("approximate_gelu", Quantized(np.array([11131]), x), result)
    assert stored.tolist() == [8095]
