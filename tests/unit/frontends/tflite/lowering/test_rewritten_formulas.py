"""
Formulas whose sums and products are written in another order build the same ops: machines
see values and primitives, not the source of a formula.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tests.unit.frontends.tflite.files.models import DTYPES, inputs_of, model_of
from tests.unit.frontends.tflite.formulas.cases import Case, cases
from tests.unit.frontends.tflite.formulas.rewriting import (
    REWRITINGS,
    Rewriting,
    rewritten,
)
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_linalg import (
    ConvertTFLToLinalgPass,
)
from xdsl_quant.machines.numpy import run_function

from .tosa_execution import converted, group_of

CASES = {group_of(case): case for case in cases()}
"""One case of each op and storage."""

TRACED = [
    *("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "EQUAL", "GREATER", "LESS_EQUAL"),
    *("PRELU", "LEAKY_RELU", "RELU6", "ABS/16", "HARD_SWISH", "LOGISTIC/16", "TANH/16"),
    *("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "RESIZE_BILINEAR"),
]
"""Ops whose stored values are computed by a formula on expressions."""


def to_linalg(case: Case) -> ModuleOp:
    """A case as linalg."""
    module = read_tflite(write_model(model_of(case)))
    ConvertTFLToLinalgPass().apply(Context(), module)
    return module


def ops_of(module: ModuleOp) -> Counter[str]:
    """The number of ops with each name."""
    return Counter(op.name for op in module.walk())


@pytest.mark.parametrize("rewriting", REWRITINGS)
@pytest.mark.parametrize("group", TRACED)
def test_ops_of_tosa(group: str, rewriting: Rewriting):
    case = CASES[group]
    expected = ops_of(converted(case))
    with rewritten(rewriting):
        assert ops_of(converted(case)) == expected


@pytest.mark.parametrize("rewriting", REWRITINGS)
@pytest.mark.parametrize("group", TRACED)
def test_results_of_linalg(group: str, rewriting: Rewriting):
    case = CASES[group]
    with rewritten(rewriting):
        module = to_linalg(case)
    (result,) = run_function(module, "main", *inputs_of(case))
    expected = case.results[0]
    np.testing.assert_array_equal(result, expected.array.astype(DTYPES[expected.type]))
