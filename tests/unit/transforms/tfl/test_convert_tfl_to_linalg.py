"""Ops of TensorFlow Lite as linalg: against its reference kernels, and against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tests.unit.frontends.tflite.models import model_of
from tests.unit.interpreters.running import same_bits
from tests.unit.interpreters.test_tfl import expected_of, values_of
from tests.unit.numerics.tflite.cases import Case, cases
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.writer import write_model
from xdsl_quant.interpreters import run_function
from xdsl_quant.transforms.tfl.convert_tfl_to_linalg import ConvertTFLToLinalgPass

STATEFUL = {"SVDF"}


def converted(module: ModuleOp, **options: Any) -> ModuleOp:
    ConvertTFLToLinalgPass(**options).apply(Context(), module)
    module.verify()
    assert not [op for op in module.walk() if op.name.startswith("tfl.")]
    return module


def module_of(case: Case) -> ModuleOp:
    return converted(read_tflite(write_model(model_of(case))))


def assert_results(case: Case, results: Any):
    for result, expected in zip(results, expected_of(case), strict=True):
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=1e-6)
        else:
            assert same_bits(np.asarray(result), expected), case.name


OPS = sorted({case.op for case in cases()} - STATEFUL)


@pytest.mark.parametrize("op", OPS)
def test_interpreted(op: str):
    for case in cases():
        if case.op == op:
            results = run_function(module_of(case), "main", *values_of(case))
            assert_results(case, results)


@pytest.mark.parametrize("op", OPS)
def test_compiled(op: str, request: pytest.FixtureRequest):
    step = 1 if request.config.getoption("--all-cases") else 7
    chosen = [case for case in cases() if case.op == op][::step]
    for case in chosen:
        results = compile(module_of(case))(*values_of(case))
        assert_results(case, results if isinstance(results, tuple) else (results,))
