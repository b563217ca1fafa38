"""The distance of integer kernels from what is exact."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.proving.kernels import (
    EXACT,
    KERNELS,
    STABLEHLO,
    TFL,
    TRUTH,
    Draw,
    Kernel,
    Parameters,
    all_distances,
    distances,
)
from xdsl_quant.dialects.quant.traits import (
    CastsQuantization,
    Clamps,
    ComputesElementwise,
)
from xdsl_quant.frontends.stablehlo.dialect import StableHLO
from xdsl_quant.frontends.tflite.dialect import TFL as TFLDialect

COMPARE = "compare <{comparison_direction = #stablehlo<comparison_direction LE>}>"


def kernel(op: str) -> tuple[str, Kernel]:
    """The kernel of an op, for 4 bits if it is StableHLO's."""
    dialect, _, name = op.partition(".")
    kernels = STABLEHLO if dialect == "stablehlo" else TFL
    found = next(k for k in kernels if k.name == name)
    return dialect, replace(found, storages=("i4",)) if kernels is STABLEHLO else found


@pytest.mark.parametrize(
    "op",
    [
        *("stablehlo.add", "stablehlo.multiply", "stablehlo.abs", "stablehlo.tanh"),
        *("stablehlo.compare", "stablehlo.clamp", "stablehlo.round_nearest_even"),
        *("tfl.logistic", "tfl.hard_swish", "tfl.leaky_relu", "tfl.gelu", "tfl.rsqrt"),
    ],
)
def test_kernels_are_near_what_is_exact(op: str):
    dialect, found = kernel(op)
    total, _ = all_distances(dialect, found, 2)
    assert 0 < total.inputs
    assert total.largest <= found.bound
    if found.bound == EXACT:
        assert not total.misrounded


WITHOUT_NUMBERS = {
    **dict.fromkeys(
        ("stablehlo.and", "stablehlo.or", "stablehlo.not"), "of truth values"
    ),
    **dict.fromkeys(
        ("tfl.logical_and", "tfl.logical_or", "tfl.logical_not"), "of truth values"
    ),
    **dict.fromkeys(
        (
            *("stablehlo.xor", "stablehlo.popcnt", "stablehlo.count_leading_zeros"),
            *("stablehlo.shift_left", "stablehlo.shift_right_arithmetic"),
            "stablehlo.shift_right_logical",
        ),
        "of bits",
    ),
    **dict.fromkeys(
        ("stablehlo.real", "stablehlo.imag", "stablehlo.complex"), "of complex numbers"
    ),
    **dict.fromkeys(
        ("stablehlo.power", "stablehlo.remainder", "stablehlo.atan2"),
        "has no integer form; its floats are compared with StableHLO's interpreter",
    ),
    "stablehlo.reduce_precision": "rounds the expressed value to another float format",
    "stablehlo.select": "moves elements",
    "stablehlo.convert": "of types that are not quantized",
    "tfl.cast": "of stored values: an integer becomes another type",
    "stablehlo.uniform_dequantize": "has no integer form; a claim about casts",
    "tfl.dequantize": "has no integer form; a claim about casts",
}
"""Ops that compute elements, but not numbers of a quantized type, and why."""


def test_all_elementwise_ops_are_compared():
    elementwise = {
        op.name
        for dialect in (StableHLO, TFLDialect)
        for op in dialect.operations
        if any(
            isinstance(trait, ComputesElementwise | Clamps | CastsQuantization)
            for trait in op.traits.traits
        )
    }
    compared = {f"{dialect}.{kernel.name}" for dialect, kernel in KERNELS}
    assert elementwise - compared == {*WITHOUT_NUMBERS}
    assert compared <= elementwise


@pytest.mark.parametrize(
    "wrong",
    [
        Kernel("add", lambda x, y: x + y + Fraction(1, 50), EXACT, 2),
        Kernel("add", lambda x, y: x - y, EXACT, 2),
        Kernel("multiply", lambda x, y: x * y * Fraction(101, 100), EXACT, 2),
        Kernel("negate", lambda x: x, EXACT),
        Kernel(COMPARE, lambda x, y: x < y, Fraction(0), 2, result=TRUTH),
    ],
)
def test_another_function_is_not_near(wrong: Kernel):
    found, _ = all_distances("stablehlo", replace(wrong, storages=("i4",)), 2)
    assert found.largest > EXACT


def test_distances():
    # A fourth is rounded up from 2 of 4 on, and to 7 in the end.
    identity = kernel("stablehlo.uniform_quantize")[1]
    source, target = Parameters("i4", 0.25, 0), Parameters("i4", 1.0, 6)
    found = distances(Draw(identity, "stablehlo", [source], target))
    assert found == (16, Fraction(1, 2), 0, [-6])
    (bad,) = (replace(k, op=identity.op) for k in [Kernel("", lambda x: x + 1, EXACT)])
    found = distances(Draw(bad, "stablehlo", [source], target))
    assert (found.inputs, found.largest) == (16, Fraction(5, 4))
    assert found.misrounded
    # What is not defined is left out.
    root = kernel("stablehlo.rsqrt")[1]
    assert distances(Draw(root, "stablehlo", [source], target)).inputs == 7
