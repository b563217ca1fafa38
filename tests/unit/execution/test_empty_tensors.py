"""Moves of data whose operands have no elements, which MLIR makes invalid slices of."""

from typing import Any

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function


def pad(source: str, low: tuple[int, int], high: tuple[int, int], result: str) -> str:
    return f"""%r = tensor.pad %x low{[*low]} high{[*high]} {{
  ^bb0(%i: index, %j: index):
    %k = arith.muli %i, %i : index
    %l = arith.addi %j, %k : index
    %v = arith.index_cast %l : index to i32
    tensor.yield %v : i32
  }} : tensor<{source}xi32> to tensor<{result}xi32>"""


CASES: dict[str, tuple[list[str], str, str]] = {
    "pad": (["0x3"], "4x5", pad("0x3", (4, 1), (0, 1), "4x5")),
    "pad both": (["0x0"], "5x2", pad("0x0", (3, 2), (2, 0), "5x2")),
    "pad before": (["2x0"], "2x3", pad("2x0", (0, 3), (0, 0), "2x3")),
    "pad to nothing": (["0x3"], "0x5", pad("0x3", (0, 1), (0, 1), "0x5")),
    "pad dynamic": (["?x3"], "?x5", pad("?x3", (4, 1), (0, 1), "?x5")),
    "concat": (
        ["0x3", "2x3", "0x3"],
        "2x3",
        "%r = tensor.concat dim(0) %x, %y, %z : (tensor<0x3xi32>, tensor<2x3xi32>, "
        "tensor<0x3xi32>) -> tensor<2x3xi32>",
    ),
    "concat behind": (
        ["2x3", "1x3", "0x3"],
        "3x3",
        "%r = tensor.concat dim(0) %x, %y, %z : (tensor<2x3xi32>, tensor<1x3xi32>, "
        "tensor<0x3xi32>) -> tensor<3x3xi32>",
    ),
    "concat nothing": (
        ["2x0", "2x0"],
        "2x0",
        "%r = tensor.concat dim(1) %x, %y : (tensor<2x0xi32>, tensor<2x0xi32>) "
        "-> tensor<2x0xi32>",
    ),
    "concat dynamic": (
        ["2x3", "?x3"],
        "?x3",
        "%r = tensor.concat dim(0) %x, %y : (tensor<2x3xi32>, tensor<?x3xi32>) "
        "-> tensor<?x3xi32>",
    ),
    "extract at the end": (
        ["2x3"],
        "0x3",
        "%r = tensor.extract_slice %x[2, 0] [0, 3] [1, 1] "
        ": tensor<2x3xi32> to tensor<0x3xi32>",
    ),
    "insert at the end": (
        ["0x3", "2x3"],
        "2x3",
        "%r = tensor.insert_slice %x into %y[2, 0] [0, 3] [1, 1] "
        ": tensor<0x3xi32> into tensor<2x3xi32>",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_moves_without_elements(name: str):
    operands, result, body = CASES[name]
    arguments = ", ".join(
        f"%{name}: tensor<{shape}xi32>" for name, shape in zip("xyz", operands)
    )
    text = f"""
func.func @f({arguments}) -> tensor<{result}xi32> {{
  {body}
  return %r : tensor<{result}xi32>
}}"""
    arrays: list[Any] = []
    for shape in operands:
        sizes = [int(size) for size in shape.replace("?", "0").split("x")]
        arrays.append(np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes))
    (expected,) = run_function(text, "f", *arrays)
    found = compile(text)(*arrays)
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()
