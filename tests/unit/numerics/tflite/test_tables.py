"""Tables of results."""

from __future__ import annotations

import numpy as np

from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.tflite.quantized import Quantized
from xdsl_quant.numerics.tflite.tables import looked_up


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
