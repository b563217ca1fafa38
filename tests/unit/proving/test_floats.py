"""What is tried for conversions to small floats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.proving.floats import CONVERSIONS, differences
from xdsl_quant.numerics.small_floats import SmallFloat, small_float


@pytest.mark.parametrize(("format", "saturate"), CONVERSIONS)
def test_few_inputs(format: SmallFloat, saturate: bool):
    assert differences(format, saturate, 5_000) == (5_000, 0, "")


def test_differences_are_counted():
    wrong = replace(small_float("f8E8M0FNU"), nan=0)
    assert differences(wrong, False, 5_000) == (5_000, 1, "0x0 0x0 0xff")
