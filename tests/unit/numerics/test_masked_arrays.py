"""Masked arrays are refused, as their masks would not count."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xdsl_quant.numerics import (
    QuantizationParameters,
    affine_to_fixed_point,
    apply_scale,
    choose_parameters,
    dequantize,
    measure_error,
    quantize,
    requantize,
    requantize_fixed_point,
)
from xdsl_quant.numerics.quantization import quantize_constant

PARAMETERS = QuantizationParameters(0.5)
PLAIN = np.array([1, 2, 300], np.float32)
FLOATS = np.ma.masked_array(PLAIN, [False, False, True])
STORED = FLOATS.astype(np.int8)
UNMASKED = np.ma.masked_array(PLAIN)
ADVICE = "; use its .filled(value) or .compressed()"

CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "quantize": (lambda: quantize(FLOATS, PARAMETERS), "expressed values"),
    "nothing masked": (lambda: quantize(UNMASKED, PARAMETERS), "expressed values"),
    "list": (lambda: quantize([FLOATS, FLOATS], PARAMETERS), "expressed values"),
    "list of lists": (
        lambda: quantize([[PLAIN], (FLOATS,)], PARAMETERS),
        "expressed values",
    ),
    "element": (
        lambda: quantize([1.0, FLOATS[2]], PARAMETERS),
        "expressed values",
    ),
    "quantize, out": (
        lambda: quantize(PLAIN, PARAMETERS, out=STORED.copy()),
        "out",
    ),
    "quantize_constant": (
        lambda: quantize_constant(FLOATS, PARAMETERS),
        "expressed values",
    ),
    "dequantize": (lambda: dequantize(STORED, PARAMETERS), "stored values"),
    "dequantize, out": (
        lambda: dequantize(STORED.data, PARAMETERS, out=FLOATS.copy()),
        "out",
    ),
    "requantize": (lambda: requantize(STORED, PARAMETERS, PARAMETERS), "stored values"),
    "requantize_fixed_point": (
        lambda: requantize_fixed_point(STORED, PARAMETERS, PARAMETERS),
        "stored values",
    ),
    "measure_error": (lambda: measure_error(FLOATS, PARAMETERS), "expressed values"),
    "choose_parameters, min": (
        lambda: choose_parameters(FLOATS, PLAIN, quantized_dimension=0),
        "ranges",
    ),
    "choose_parameters, max": (
        lambda: choose_parameters(0.0, FLOATS[2]),
        "ranges",
    ),
    "scales": (
        lambda: QuantizationParameters(FLOATS, quantized_dimension=0),
        "scales",
    ),
    "zero points": (
        lambda: QuantizationParameters(PLAIN, STORED, quantized_dimension=0),
        "zero points",
    ),
    "affine_to_fixed_point": (
        lambda: affine_to_fixed_point(STORED, PARAMETERS),
        "stored values",
    ),
    "apply_scale": (lambda: apply_scale(STORED, 1 << 30, 31), "values"),
}


@pytest.mark.parametrize("name", CALLS)
def test_refusal(name: str):
    call, what = CALLS[name]
    with pytest.raises(TypeError) as info:
        call()
    assert str(info.value) == f"unsupported masked array in {what}{ADVICE}"


def test_what_the_message_says_to_do():
    zeros = quantize(FLOATS.filled(0), PARAMETERS)
    assert zeros.tolist() == [2, 4, 0]
    assert quantize(FLOATS.compressed(), PARAMETERS).tolist() == [2, 4]


def test_other_arrays():
    """Subclasses of arrays are fine."""
    matrix: Any = PLAIN.view(np.recarray)
    assert quantize(matrix, PARAMETERS).tolist() == [2, 4, 127]
    assert quantize([PLAIN, PLAIN], PARAMETERS).tolist() == [[2, 4, 127]] * 2


def test_plain_arrays_do_not_need_the_module():
    """Importing it takes longer than to quantize."""
    code = """
import sys, numpy
from xdsl_quant.numerics import QuantizationParameters, quantize
quantize(numpy.ones(1, numpy.float32), QuantizationParameters([0.5], quantized_dimension=0))
print("numpy.ma" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == "False\n"
