"""Tables of results."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.frontends.tflite.formulas.tables import (
    compute_with_table,
    function,
    interpolated_lookup,
    table_of_16_bits,
)
from xdsl_quant.numerics import QuantizationParameters

P = QuantizationParameters


def test_value_outside_of_a_narrowed_range():
    """Constants of files may have it, and kernels look it up as any other."""
    values = np.array([-128, -127, 0, 127])
    result = QuantizationParameters(0.05, -128)
    narrow = QuantizationParameters(0.02, storage_min=-127)
    full = QuantizationParameters(0.02)
    expected = compute_with_table("exp", Quantized(values, full), result)
    assert expected.tolist() == [-126, -126, -108, 126]
    assert compute_with_table("exp", Quantized(values, narrow), result).tolist() == [
        *expected.tolist()
    ]


def test_root_is_rounded_before_its_reciprocal():
    """Rounded once, `1 / sqrt(x)` would give 8858 here, which the kernel does not."""
    x = QuantizationParameters(0.00029962745611555874, storage="i16")
    result = QuantizationParameters(8.218483708333224e-05, storage="i16")
    stored = compute_with_table("rsqrt", Quantized(np.array([6298]), x), result)
    assert stored.tolist() == [8859]


def test_points_that_are_no_numbers():
    """Where the exponential is infinite, points are too, and those between are NaN."""
    x = QuantizationParameters(0.5017449855804443, storage="i16")
    values, scales = (0.5017449855804443, 0), (2.585018855330752e-14, 0)
    table = table_of_16_bits(function("exp", x), values, scales, np.float32)
    assert table[[0, 254, 255, 256, 257, 510, 511, 512]].tolist() == [
        *(0, 0, -32768, -32768, 0, 0, 0, 32767)
    ]


@pytest.mark.parametrize(
    ("name", "x", "value", "result", "expected"),
    [
        ("logistic", P(0.0012931377859786153, -121), -6, P(1 / 256, -128), 9),
        ("exp", P(0.006830988451838493, -13), 106, P(0.010659141466021538, -128), 83),
        ("exp", P(0.004508492071181536, 91), -47, P(0.03976128622889519, -128), -114),
        (
            "approximate_gelu",
            P(0.006554606836289167, -128),
            90,
            P(0.00707421125844121, -128),
            59,
        ),
        (
            "exp",
            P(1.1412031199142803e-05, storage="i16"),
            10624,
            P(0.00010790840315166861, storage="i16"),
            10461,
        ),
    ],
)
def test_steps_that_are_rounded_to_32_bits(
    name: str, x: P, value: int, result: P, expected: int
):
    """Each operand and each result is of type `f32`, as the kernel has it."""
    assert (
        compute_with_table(name, Quantized(np.array([value]), x), result).item()
        == expected
    )


def test_functions_where_they_are_not_defined():
    result = P(0.5, 3)
    values = np.array([-1, 0, 4], np.float32)
    assert function("rsqrt", result)(values).tolist() == [63.5, 63.5, 0.5]
    assert function("log", result)(values[:2]).tolist() == [-65.5, -65.5]


def test_exponentials_that_overflow():
    x = Quantized(np.array([-128, 0, 88, 89, 127]), P(1.0))
    with warnings.catch_warnings(action="error"):
        assert compute_with_table("exp", x, P(0.5)).tolist() == [0, 2, 127, 127, 127]


def test_slopes_and_results_of_tables_are_wrapped():
    """Both have 16 bits."""
    table = np.full(513, 32767)
    table[::2] = -32768
    values = np.array([-32768, -32704, -32640, -32577, -32576, -32513])
    least, most = -32768, 32767
    expected = [least, least, most, most, least, least]
    assert interpolated_lookup(table, values).tolist() == expected


@pytest.mark.parametrize(
    ("name", "scale", "expected"),
    [
        # The product with 3 * 2^12 is 16383.8 and is not doubled.
        ("logistic", 1.3333185911178589, [6836, 16384, 25932]),
        ("logistic", 1.5, [5977, 16384, 26791]),
        ("tanh", 1.5, [-29660, 0, 29660]),
    ],
)
def test_sigmoids_of_large_scales(name: str, scale: float, expected: list[int]):
    x = Quantized(np.array([-1, 0, 1]), P(scale, storage="i16"))
    assert compute_with_table(name, x, P(2**-15, storage="i16")).tolist() == expected


def test_gelu_is_computed_with_32_bits():
    """Each step is rounded to 32 bits: 11,138 and 14,056 with 64 bits."""
    x = QuantizationParameters(0.0001392145495628938, 0, storage="i16")
    result = QuantizationParameters(0.00027001567650586367, 0, storage="i16")
    stored = compute_with_table("gelu", Quantized(np.array([21632, 27264]), x), result)
    assert stored.tolist() == [11139, 14055]


def test_approximate_gelu_is_computed_with_32_bits():
    """Rounded once, it would give 8096 here, which the kernel does not."""
    x = QuantizationParameters(0.00014932279009371996, storage="i16")
    result = QuantizationParameters(0.0001953816245077178, storage="i16")
    stored = compute_with_table(
        "approximate_gelu", Quantized(np.array([11131]), x), result
    )
    assert stored.tolist() == [8095]
