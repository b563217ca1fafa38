"""The comparison of models in TOSA, and the table of the public converter in the docs."""

from __future__ import annotations

import re

import pytest

from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.lowering.tosa_execution import group_of
from xdsl_quant.rosetta.tosa import TosaTools

from .tosa import (
    EQUAL,
    TOOLS,
    WITHIN_ONE,
    Outcome,
    other_cases,
    outcome_of,
    table_in_docs,
    table_of,
)

FAILURES = {
    "`log_softmax`": "left as `tfl`",
    "`l2_normalization`": "left as `tfl`",
    "`quantize` of `f32`": "wraps",
    "`arg_min`": "illegal cast",
    **dict.fromkeys(
        ("`abs`", "`sqrt`", "`elu`", "`div`", "`pow`", "`floor_div`", "`floor_mod`"),
        "error",
    ),
    "`resize_bilinear`": "off",
}
"""What the public converter is known for."""


def rows() -> dict[str, tuple[str, str]]:
    found = re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", table_in_docs(), re.M)
    return {name: (public, here) for name, public, here in found}


@pytest.mark.parametrize("name", FAILURES)
def test_the_docs_name_the_failures_of_the_public_converter(name: str):
    assert FAILURES[name] in rows()[name][0]


def test_the_docs_have_no_failure_here():
    for _, here in rows().values():
        for part in here.split(", "):
            assert part.partition(" ")[2] in (EQUAL, WITHIN_ONE)


def test_table():
    outcomes = [
        Outcome("ABS #0", EQUAL, EQUAL, "error"),
        Outcome("ABS #1: INT8", EQUAL, EQUAL, "error"),
        Outcome("ABS/16 #0", EQUAL, EQUAL, "3 off"),
        Outcome("ABS/16 #1", EQUAL, WITHIN_ONE, "1 off"),
        Outcome("ADD #0", EQUAL, EQUAL, EQUAL),
        Outcome("SUB #0", EQUAL, EQUAL, EQUAL),
    ]
    assert table_of(outcomes) == (
        "| op | public converter | here |\n"
        "|---|---|---|\n"
        "| `abs` | 2 error | 2 equal |\n"
        "| `abs` of 16 bits | 2 off by up to 3 | 1 equal, 1 within one unit |\n"
        "\n"
        "Both compute all models of `add`, `sub`.\n"
    )


def test_cases_without_a_kernel():
    """They are executed and, if the tools are installed, run by the reference model."""
    cases = {group_of(case): case for case in reversed(other_cases())}
    publics = {"QUANTIZE/FLOAT32": "wraps", "DIV": "error", "POW": "error"}
    expected = {"QUANTIZE/FLOAT32": EQUAL, "DIV": WITHIN_ONE, "POW": WITHIN_ONE}
    with Mlir() as mlir, TosaTools(TOOLS) as tools:
        for group, case in cases.items():
            outcome = outcome_of(mlir, tools, case)
            assert outcome.lowered == expected[group]
            if TOOLS.exists():
                assert outcome.modelled == expected[group]
                assert outcome.public == publics[group]
            else:
                assert outcome.modelled == outcome.public == "skipped"
