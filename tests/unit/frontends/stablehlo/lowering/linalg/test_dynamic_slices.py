"""Slices at dynamic indices and reversals, compared with StableHLO's interpreter."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    TYPES,
    Array,
    function,
    run,
    same_bits,
    stablehlo_results,
)
from xdsl_quant.runtime.loading import parse_module

VALUES: Array = np.arange(12, dtype=np.float32).reshape(3, 4)
UPDATE: Array = -np.ones((2, 1), np.float32)


def slices(index_type: str) -> str:
    types = ["tensor<3x4xf32>", "tensor<2x1xf32>", *[f"tensor<{index_type}>"] * 2]
    indices = f"tensor<{index_type}>, tensor<{index_type}>"
    ops = [
        "stablehlo.dynamic_slice %0, %2, %3, sizes = [2, 2] : "
        f"(tensor<3x4xf32>, {indices}) -> tensor<2x2xf32>",
        "stablehlo.dynamic_update_slice %0, %1, %2, %3 : "
        f"(tensor<3x4xf32>, tensor<2x1xf32>, {indices}) -> tensor<3x4xf32>",
    ]
    return function(types, ops, ["tensor<2x2xf32>", "tensor<3x4xf32>"])


@pytest.mark.parametrize(
    ("index_type", "row", "column"),
    [
        ("i32", 1, 2),
        ("i32", -1, 7),
        ("i64", 5, -(2**40)),
        ("i8", -128, 127),
        ("ui8", 1, 2),
    ],
)
def test_indices_are_clamped(index_type: str, row: int, column: int):
    dtype = TYPES[index_type]
    arguments = [VALUES, UPDATE, np.array(row, dtype), np.array(column, dtype)]
    text = slices(index_type)
    expected = stablehlo_results(text, *arguments)
    for actual, wanted in zip(run(text, *arguments), expected, strict=True):
        same_bits(actual, wanted)


def test_large_unsigned_indices():
    """StableHLO's own interpreter takes them for negative ones."""
    last = np.array(255, np.uint8)
    part, updated = run(slices("ui8"), VALUES, UPDATE, last, last)
    same_bits(part, sliding_window_view(VALUES, (2, 2))[-1, -1])
    expected = VALUES.copy()
    expected[1:, 3:] = UPDATE
    same_bits(updated, expected)


def test_scalars():
    """StableHLO prints this text, too, but does not read it."""
    text = function(
        ["tensor<f32>"],
        ["stablehlo.dynamic_slice %0, , sizes = [] : (tensor<f32>) -> tensor<f32>"],
        ["tensor<f32>"],
    )
    assert "dynamic_slice %0, , sizes = [] :" in str(parse_module(text))
    (actual,) = run(text, np.array(3, np.float32))
    same_bits(actual, np.array(3, np.float32))


def test_reverse():
    type_ = "tensor<3x4xf32>"
    axes = ((), (0,), (1,), (1, 0))
    ops = [f"stablehlo.reverse %0, dims = {[*a]} : {type_}" for a in axes]
    actual = run(function([type_], ops, [type_] * 4), VALUES)
    for one, dimensions in zip(actual, axes, strict=True):
        same_bits(one, np.flip(VALUES, dimensions))


def test_reverse_of_unknown_sizes():
    type_ = "tensor<?x4xf32>"
    op = f"stablehlo.reverse %0, dims = [0, 1] : {type_}"
    (actual,) = run(function([type_], [op], [type_]), VALUES)
    same_bits(actual, VALUES[::-1, ::-1])
