"""
Programs as `jax.jit(f).lower(x).as_text()` prints them, interpreted and compiled: the same
numbers as jax's.
"""

from pathlib import Path

import numpy as np
import pytest

from tests.unit.frontends.stablehlo.lowering.linalg.running import lowered
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function

TEXTS = Path(__file__).parent / "jax_texts"


@pytest.mark.parametrize("name", sorted(path.stem for path in TEXTS.glob("*.mlir")))
def test_jax_program(name: str):
    module = lowered((TEXTS / f"{name}.mlir").read_text())
    with np.load(TEXTS / f"{name}.npz") as arrays:
        arguments = [arrays[key] for key in sorted(arrays) if key[0] == "a"]
        expected = [arrays[key] for key in sorted(arrays) if key[0] == "r"]
    interpreted = run_function(module, None, *arguments)
    compiled = compile(module)(*arguments)
    for results in (interpreted, compiled if len(expected) > 1 else [compiled]):
        for actual, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.asarray(actual), wanted, rtol=1e-6, atol=1e-6)
