"""Masked arrays are refused wherever arrays are taken, as their masks would not count."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_quant.calibration import calibrate
from xdsl_quant.display import plot_error
from xdsl_quant.execution import compile
from xdsl_quant.interpreters import run_function
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
from xdsl_quant.runtime.loading import parse_module

PARAMETERS = QuantizationParameters(0.5)
PLAIN = np.array([1, 2, 300], np.float32)
FLOATS = np.ma.masked_array(PLAIN, [False, False, True])
STORED = FLOATS.astype(np.int8)
UNMASKED = np.ma.masked_array(PLAIN)
TEXT = """
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = quant.stats_ref %x "x" : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""
ADVICE = (
    " must be without a mask, but there is a masked array; use its .filled(value), or "
    ".compressed() to leave out what is masked"
)

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
    "plot_error": (lambda: plot_error(FLOATS, PARAMETERS), "expressed values"),
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
    "run_function": (
        lambda: run_function(parse_module(TEXT), "f", FLOATS),
        "argument 0 (%x)",
    ),
    "run_function, list": (
        lambda: run_function(parse_module(TEXT), "f", [FLOATS[2], 1.0]),
        "argument 0 (%x)",
    ),
    "compiled": (lambda: compile(TEXT)(FLOATS), "argument 0"),
    "compiled, out": (
        lambda: compile(TEXT)(PLAIN, out=FLOATS.copy()),
        "out",
    ),
    "bound": (lambda: compile(TEXT).bind(FLOATS), "argument 0"),
    "calibrate": (lambda: calibrate(TEXT, [PLAIN, FLOATS]), "batch 1: argument 0"),
}


@pytest.mark.parametrize("name", CALLS)
def test_refusal(name: str):
    call, what = CALLS[name]
    with pytest.raises(TypeError) as info:
        call()
    assert str(info.value) == what + ADVICE


def test_what_the_message_says_to_do():
    zeros = quantize(FLOATS.filled(0), PARAMETERS)
    assert zeros.tolist() == [2, 4, 0]
    assert quantize(FLOATS.compressed(), PARAMETERS).tolist() == [2, 4]


def test_other_arrays():
    """Subclasses of arrays are fine."""
    matrix: Any = PLAIN.view(np.recarray)
    assert quantize(matrix, PARAMETERS).tolist() == [2, 4, 127]
    assert quantize([PLAIN, PLAIN], PARAMETERS).tolist() == [[2, 4, 127]] * 2


def test_resuming_with_a_mask(tmp_path: Path):
    """The data is that of the checkpoint."""
    file = tmp_path / "checkpoint.json"
    calibrate(TEXT, [PLAIN], checkpoint=file)
    with pytest.raises(ValueError, match="is of other inputs: delete it"):
        calibrate(TEXT, [UNMASKED], checkpoint=file)


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
