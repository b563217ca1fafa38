"""`execution.scheduling` may be missing: code has the same results without it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("mlir", reason="no MLIR bindings")

from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import CodeOptions, cpu_named
from xdsl_quant.execution.schedule import Schedule, schedule_for

SCHEDULING = "xdsl_quant.execution.scheduling"
NATIVE = CodeOptions(schedule=True, cpu=cpu_named("native"))

# No other test has this function in the cache of results.
PRODUCT = """
func.func @without_scheduling(%x: tensor<5x7xi32>, %y: tensor<7x17xi32>)
    -> tensor<5x17xi32> {
  %zero = arith.constant dense<0> : tensor<5x17xi32>
  %z = linalg.matmul ins(%x, %y : tensor<5x7xi32>, tensor<7x17xi32>)
    outs(%zero : tensor<5x17xi32>) -> tensor<5x17xi32>
  return %z : tensor<5x17xi32>
}"""


def test_a_missing_folder_makes_plain_code(monkeypatch: pytest.MonkeyPatch):
    assert type(schedule_for("kernel", {}, NATIVE)) is not Schedule
    monkeypatch.setitem(sys.modules, SCHEDULING, None)
    assert type(schedule_for("kernel", {}, NATIVE)) is Schedule
    x = np.arange(35, dtype=np.int32).reshape(5, 7)
    y = np.arange(119, dtype=np.int32).reshape(7, 17)
    found = compile(PRODUCT)(x, y)
    assert np.array_equal(found, x @ y)


def test_other_missing_modules_are_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, SCHEDULING, raising=False)
    monkeypatch.setitem(sys.modules, f"{SCHEDULING}.schedule", None)
    with pytest.raises(ModuleNotFoundError, match="schedule"):
        schedule_for("kernel", {}, NATIVE)
