"""
Networks with the structures of real ones, from floats to compiled integers: compiled code
computes the results of the interpreter, on each CPU level of this machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import CpuName, available_cpus
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import Recipe, quantize, read_recipe
from xdsl_quant.quantizer.recording import lower_stablehlo

from .networks import SMALL_STRUCTURES, STRUCTURES, Model

CASES = [
    ("int8", "tfl"),
    ("int16x8", "tfl"),
    ("int8", "stablehlo"),
    ("int16x8", "stablehlo"),
]
"""Recipes and dialects."""

CPUS: list[CpuName] = [cpu.name for cpu in available_cpus().values()]


def check_compiled_code(
    model: Model, recipe: Recipe, dialect: str, count: int, cpus: Iterable[CpuName]
) -> None:
    """Compare compiled code with the interpreter; calibrate with `count` samples."""
    text = model.tfl_text() if dialect == "tfl" else model.stablehlo_text()
    data = model.samples(count)
    quantized = quantize(text, data, recipe).module
    lower_stablehlo(quantized)
    samples = data[:3, np.newaxis]
    expected = [run_function(quantized, "main", sample)[0] for sample in samples]
    # They are no constants.
    assert not np.array_equal(expected[0], expected[1])
    for cpu in cpus:
        compiled = compile(quantized, cpu=cpu)
        for sample, result in zip(samples, expected, strict=True):
            np.testing.assert_array_equal(compiled(sample), result)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("case", range(len(CASES)), ids=map("-".join, CASES))
@pytest.mark.parametrize("number", range(len(SMALL_STRUCTURES)), ids=SMALL_STRUCTURES)
def test_small_networks(number: int, case: int):
    """The four cases of a network share the CPU levels, of which there are at most six."""
    recipe, dialect = CASES[case]
    cpus = (CPUS * 2)[(first := (2 * case + number) % len(CPUS)) : first + 2]
    # The correction changes constants only.
    plain = replace(read_recipe(recipe), bias_correction=False)
    model = [*SMALL_STRUCTURES.values()][number]
    check_compiled_code(model, plain, dialect, 4, cpus)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cpu", CPUS)
def test_products_that_quantize_their_activations(cpu: CpuName):
    model = SMALL_STRUCTURES["autoencoder"]
    check_compiled_code(model, read_recipe("dynamic-range"), "stablehlo", 4, [cpu])


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("recipe", "dialect"), CASES)
@pytest.mark.parametrize("name", STRUCTURES)
def test_compiled_code_computes_what_the_interpreter_does(
    name: str, recipe: str, dialect: str
):
    check_compiled_code(STRUCTURES[name], read_recipe(recipe), dialect, 16, CPUS)
