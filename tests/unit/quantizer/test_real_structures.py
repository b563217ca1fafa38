"""
Networks with the structures of real ones, from floats to compiled integers: what is
compiled computes what the interpreter does, on each CPU that this machine can be taken for.
"""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import available_cpus
from xdsl_quant.interpreters import run_function
from xdsl_quant.quantizer import quantize
from xdsl_quant.quantizer.recording import lower_stablehlo

from .networks import STRUCTURES

CASES = [("int8", "tfl"), ("int16x8", "tfl"), ("int8", "stablehlo")]
"""Recipes and dialects. `int16x8` has no target for StableHLO."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("recipe", "dialect"), CASES)
@pytest.mark.parametrize("name", STRUCTURES)
def test_compiled_code_computes_what_the_interpreter_does(
    name: str, recipe: str, dialect: str
):
    model = STRUCTURES[name]
    text = model.tfl_text() if dialect == "tfl" else model.stablehlo_text()
    data = model.samples(16)
    quantized = quantize(text, data, recipe).module
    lower_stablehlo(quantized)
    samples = data[:3, np.newaxis]
    expected = [run_function(quantized, "main", sample)[0] for sample in samples]
    # They are no constants.
    assert not np.array_equal(expected[0], expected[1])
    for cpu in available_cpus().values():
        compiled = compile(quantized, cpu=cpu.name)
        for sample, result in zip(samples, expected, strict=True):
            np.testing.assert_array_equal(compiled(sample), result)
