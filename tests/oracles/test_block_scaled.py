"""Casts of MX formats in TOSA, run by TOSA's reference model."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context

from tests.unit.frontends.tosa.mx_programs import STORAGE, all_products, printed
from xdsl_quant.frontends.tosa.quant_block_scaled_to_tosa import (
    QuantBlockScaledToTosaPass,
    ScalesIn,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.rosetta.tosa import TosaTools
from xdsl_quant.runtime.loading import parse_module

from .tosa import TOOLS

pytestmark = pytest.mark.skipif(
    not TOOLS.exists(), reason="make tosa-tools installs the model"
)


def _assert_equal_in_tosa(text: str, scales: ScalesIn):
    """The `tosa-opt` that reads the text is that of MLIR's main."""
    (expected,) = run_function(text, "main")
    module = parse_module(text)
    QuantBlockScaledToTosaPass(scales).apply(Context(), module)
    with TosaTools(TOOLS) as tools:
        status, results = tools.call("run", printed(module), [])
    assert status == "runs", results
    # Elements of bf16 are bytes to NumPy.
    found = np.asarray(results[0]).view(expected.dtype).astype(np.float32)
    expected = expected.astype(np.float32)
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    assert found[~is_nan].tobytes() == expected[~is_nan].tobytes()


@pytest.mark.parametrize("expressed", ["f32", "bf16"])
@pytest.mark.parametrize("storage", STORAGE)
def test_each_element_with_each_scale(storage: str, expressed: str):
    """8,192 to 65,536 products of each format, NaN and what overflows among them."""
    _assert_equal_in_tosa(all_products(storage, expressed), "operand")


@pytest.mark.parametrize("expressed", ["f32", "bf16"])
@pytest.mark.parametrize("storage", STORAGE)
def test_each_element_with_each_scale_in_its_type(storage: str, expressed: str):
    """The same without the scale NaN."""
    _assert_equal_in_tosa(all_products(storage, expressed, rows=255), "type")
