"""A fixed sample of the cases that `make cpus` runs."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cpus.__main__ import BATCH, cpus_of
from tests.cpus.cases import GROUPS, Case, Tensor, sample
from tests.cpus.comparison import GuardedArray, differences
from tests.cpus.foreign_code import foreign_code
from xdsl_quant.execution.disk_cache import VARIABLE


@pytest.mark.parametrize("group", GROUPS)
def test_compiled_code_computes_what_the_interpreter_does(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with foreign_code():
        assert differences(sample(group, BATCH // 2), cpus_of(group)) == []


def test_names_of_cases_are_unique():
    names = [case.name for group in GROUPS.values() for case in group()]
    assert len({*names}) == len(names)


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch):
    tensor = Tensor((3,), "i8")
    case = Case("sum", [tensor], tensor, "%r = arith.addi %a0, %a0 : tensor<3xi8>")

    def wrong_result(module: object, name: str, x: Any) -> tuple[Any]:
        return (x + np.array([x[0], x[1], x[2] + 1], np.int8),)

    monkeypatch.setattr("tests.cpus.comparison.run_function", wrong_result)
    found = differences([case], ["native"])
    # With and without special numbers.
    assert len(found) == 2
    assert all(line.startswith("native sum: ") for line in found)


def test_what_is_written_around_an_array_is_found():
    for is_at_end in (True, False):
        guarded = GuardedArray((5,), np.int16, is_at_end=is_at_end)
        guarded.array[...] = 7
        assert guarded.is_intact()
        around = guarded.array.ctypes.data + (-1 if is_at_end else 10)
        ctypes.memset(around, 7, 1)
        assert not guarded.is_intact()
