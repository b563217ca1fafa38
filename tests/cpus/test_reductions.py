"""Reductions that LLVM would miscompile."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from tests.cpus.foreign_code import foreign_code, foreign_cpus
from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import CpuName, available_cpus
from xdsl_quant.execution.llvm_library import libraries

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
