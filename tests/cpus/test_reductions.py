"""Reductions that LLVM would miscompile."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cpus.foreign_code import foreign_code, foreign_cpus
from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import CpuName, available_cpus
from xdsl_quant.execution.llvm_library import libraries
from xdsl_quant.machines.numpy import run_function

ROOT = Path(__file__).parents[2]
AVX512_OR_LESS = [
    n for n in ({**available_cpus(), **foreign_cpus()}) if "vnni" not in n
]


@pytest.fixture(autouse=True)
def cpus() -> Generator[None]:
    with foreign_code():
        yield


def extremes(rows: int, columns: int, type_: str) -> str:
    """Min and max of each column, each in a loop of its own."""
    reductions = "".join(
        f"""
          %start_{op} = arith.constant dense<{start}> : tensor<{columns}x{type_}>
          %{op} = linalg.reduce
            ins(%x : tensor<{rows}x{columns}x{type_}>)
            outs(%start_{op} : tensor<{columns}x{type_}>) dimensions = [0]
            (%a: {type_}, %b: {type_}) {{
              %m = arith.{op} %a, %b : {type_}
              linalg.yield %m : {type_}
            }}"""
        for op, start in (("maxnumf", "-100.0"), ("minnumf", "100.0"))
    )
    row = f"tensor<{columns}x{type_}>"
    return f"""
        func.func @f(%x: tensor<{rows}x{columns}x{type_}>) -> ({row}, {row}) {{
          {reductions}
          return %maxnumf, %minnumf : {row}, {row}
        }}"""


@pytest.mark.parametrize("cpu", AVX512_OR_LESS)
@pytest.mark.parametrize(
    ("rows", "columns", "type_"),
    [(5, 16, "f32"), (7, 16, "f32"), (13, 16, "f16"), (14, 3, "f32"), (11, 16, "f64")],
)
def test_no_row_is_ignored(rows: int, columns: int, type_: str, cpu: CpuName):
    x = np.arange(rows * columns, dtype=type_.replace("f", "float"))
    x = x.reshape(rows, columns)
    for array in (x, -x, np.where(x == columns, np.nan, x).astype(x.dtype)):
        most, least = compile(extremes(rows, columns, type_), cpu=cpu)(array)
        assert most.tolist() == np.fmax.reduce(array).tolist()
        assert least.tolist() == np.fmin.reduce(array).tolist()


@pytest.mark.parametrize("cpu", AVX512_OR_LESS)
def test_scales_of_channels(cpu: CpuName):
    text = """
func.func @f(%x: tensor<1x7x7x8xf32>) -> tensor<8xf32> {
  %scale, %zero = quant.choose_parameters %x {3:1} as <i8>
    : tensor<1x7x7x8xf32> to tensor<8xf32>, tensor<8xi8>
  return %scale : tensor<8xf32>
}"""
    x = np.arange(1, 393, dtype=np.float32).reshape(1, 7, 7, 8)
    for array in (x, -x):
        (expected,) = run_function(text, "f", array)
        assert compile(text, cpu=cpu)(array).tolist() == expected.tolist()


def test_what_is_reduced_with_ordered_zeros():
    ir: Any = import_module("mlir.ir")
    llvm_fixes: Any = import_module("xdsl_quant.execution.llvm_fixes")
    text = """
llvm.func @f(%x: f32, %y: f32, %v: vector<4xf32>) {
  %c = llvm.mlir.constant(6.0 : f32) : f32
  %0 = llvm.intr.maxnum(%x, %y) : (f32, f32) -> f32
  %1 = llvm.intr.minnum(%0, %y) : (f32, f32) -> f32
  %2 = llvm.intr.maxnum(%v, %v) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
  %3 = llvm.intr.minnum(%1, %c) : (f32, f32) -> f32
  %4 = llvm.intr.maxnum(%3, %y) {fastmathFlags = #llvm.fastmath<nnan>} : (f32, f32) -> f32
  %5 = llvm.intr.minnum(%4, %y) {fastmathFlags = #llvm.fastmath<fast>} : (f32, f32) -> f32
  %6 = llvm.intr.maximum(%5, %y) : (f32, f32) -> f32
  llvm.return
}"""
    with ir.Context():
        module = ir.Module.parse(text)
        llvm_fixes.reduce_with_ordered_zeros(module)
        assert module.operation.verify()
        found = re.findall(r'intr\.\w+|"llvm\.\w+"', str(module))
    assert found == [
        '"llvm.maximumnum"',
        '"llvm.minimumnum"',
        '"llvm.maximumnum"',
        *("intr.minnum", "intr.maxnum", "intr.minnum", "intr.maximum"),
    ]


def test_the_issue_for_llvm_shows_the_error():
    """Once LLVM is right, the work-around is unnecessary."""
    text = (ROOT / "docs/upstream/llvm-maxnum-reductions.md").read_text()
    module = re.search("```llvm\n(.*?)```", text, re.DOTALL)
    assert module
    tools = libraries()[0].parent.parent / "bin"
    options = "-force-vector-width=4", "-force-vector-interleave=1"
    optimized = subprocess.run(
        [str(tools / "opt"), "-passes=loop-vectorize", *options, "-S"],
        input=module[1],
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    results = [
        subprocess.run([str(tools / "lli")], input=code, text=True, check=False)
        for code in (module[1], optimized)
    ]
    assert [result.returncode for result in results] == [6, 3]
