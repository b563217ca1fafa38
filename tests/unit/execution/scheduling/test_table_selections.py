"""Elements of tables of 16 numbers that are selected by the bits of their index."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.unit.execution.test_loop_fixes import lookup
from xdsl_quant import execution


def selected(text: str) -> str:
    ir: Any = import_module("mlir.ir")
    scheduling: Any = import_module("xdsl_quant.execution.scheduling.constant_codes")
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        scheduling.select_from_tables(module)
        module.operation.verify()
        return str(module)


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
def test_tables_of_16_are_selected_from(type_: str):
    printed = selected(lookup(type_, mask=15, size=16))
    assert printed.count("arith.select") == 15
    assert printed.count("arith.cmpi ne") == 4
    assert "memref.load %table" not in printed
    assert f": memref<16x{type_}>" in printed


@pytest.mark.parametrize(
    "text", [lookup(), lookup(mask=7, size=8), lookup(mask=31, narrowed="i6", size=32)]
)
def test_others_are_loaded(text: str):
    assert "arith.select" not in selected(text)


@pytest.mark.parametrize("expressed", ["f16", "f32", "f64"])
def test_each_index_selects_its_number(expressed: str):
    numbers = np.random.default_rng(0).permutation(16) - 7.5
    table = ",".join(map(repr, map(float, numbers)))
    type_ = f"!quant.uniform<!quant.quantile<ui4:f32, {{{table}}}>:{expressed}, 0.5>"
    function = execution.compile(f"""
        func.func @f(%q: tensor<64x{type_}>) -> tensor<64x{expressed}> {{
          %x = quant.dcast %q : tensor<64x{type_}> to tensor<64x{expressed}>
          return %x : tensor<64x{expressed}>
        }}""")
    codes = (np.arange(64) % 16).astype(np.uint8)
    assert function(codes).tolist() == (numbers[codes] * 0.5).tolist()
