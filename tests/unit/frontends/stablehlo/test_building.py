"""Constants of the builder of StableHLO ops."""

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    IntegerType,
    Signedness,
    UnknownLoc,
    f16,
    f32,
    i1,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block
from xdsl.rewriter import InsertPoint

from xdsl_quant.frontends.stablehlo.building import StableHLOBuilder
from xdsl_quant.runtime.arrays import constant_elements


@pytest.mark.parametrize(
    ("value", "element_type", "expected"),
    [
        (1, i1, True),
        (-np.inf, i1, False),
        (300, i8, 127),
        (-np.inf, i64, -(2**63)),
        (np.inf, i64, 2**63 - 1),
        (2**63 - 1, i64, 2**63 - 1),
        (np.inf, IntegerType(64, Signedness.UNSIGNED), 2**64 - 1),
        (-1, IntegerType(8, Signedness.UNSIGNED), 0),
        (1e30, f16, 65504.0),
        (-np.inf, f16, -np.inf),
        (0.1, f32, np.float32(0.1)),
    ],
)
def test_numbers_are_clamped(value: float, element_type: Attribute, expected: float):
    builder = StableHLOBuilder(InsertPoint.at_end(Block()), location=UnknownLoc())
    elements = constant_elements(builder.scalar(value, element_type))
    assert elements is not None
    assert elements.shape == ()
    assert elements[()] == expected
