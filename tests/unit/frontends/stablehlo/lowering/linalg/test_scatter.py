"""Scatter, compared with StableHLO's own interpreter."""

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    Array,
    lowered,
    run,
    same_bits,
    stablehlo_results,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, parse_module

ADD = "%c = stablehlo.add %a, %b : tensor<f32>"
SET = "%c = stablehlo.add %b, %b : tensor<f32>"


def scatter(types: list[str], numbers: str, body: str = ADD) -> str:
    arguments = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(types))
    return (
        f"func.func @main({arguments}) -> {types[0]} {{\n"
        f'  %r = "stablehlo.scatter"(%0, %1, %2) <{{scatter_dimension_numbers = '
        f"#stablehlo.scatter<{numbers}>}}> ({{\n"
        f"  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    {body}\n"
        f"    stablehlo.return %c : tensor<f32>\n"
        f"  }}) : ({', '.join(types)}) -> {types[0]}\n  return %r : {types[0]}\n}}"
    )


def floats(*shape: int) -> Array:
    return np.random.default_rng(shape).integers(-9, 9, shape).astype(np.float32)


CASES = {
    "elements": (
        ["tensor<8xf32>", "tensor<4x1xi32>", "tensor<4xf32>"],
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = 1",
        [[2], [7], [2], [8]],
    ),
    "scalar indices": (
        ["tensor<8xf32>", "tensor<4xi64>", "tensor<4xf32>"],
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = 1",
        [0, -1, 3, 0],
    ),
    "rows": (
        ["tensor<4x3xf32>", "tensor<2x1xi32>", "tensor<2x3xf32>"],
        "update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
        [[3], [1]],
    ),
    "windows": (
        ["tensor<4x5xf32>", "tensor<2x3xi32>", "tensor<2x3x3xf32>"],
        "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [1, 0], "
        "index_vector_dim = 0",
        [[0, 3, 1], [1, 0, 3]],
    ),
    "batches": (
        ["tensor<3x4xf32>", "tensor<3x1xi32>", "tensor<3x2xf32>"],
        "update_window_dims = [1], input_batching_dims = [0], "
        "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], "
        "index_vector_dim = 1",
        [[0], [2], [1]],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("body", [ADD, SET])
def test_scatter(case: str, body: str):
    types, numbers, indices = CASES[case]
    shapes = [[*map(int, t[7:].split("x")[:-1])] for t in types]
    values, updates = floats(*shapes[0]), floats(*shapes[2])
    dtype = np.int64 if "i64" in types[1] else np.int32
    arguments = [values, np.array(indices, dtype), updates]
    text = scatter(types, numbers, body)
    (actual,) = run(text, *arguments)
    same_bits(actual, stablehlo_results(text, *arguments)[0])


def test_two_inputs():
    """The second input takes the update if the first one is exceeded."""
    text = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xi32>, %i: tensor<3x1xi32>,
    %u: tensor<3xf32>, %v: tensor<3xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %r:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    %p = stablehlo.compare GT, %c, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %m = stablehlo.maximum %a, %c : tensor<f32>
    %s = stablehlo.select %p, %d, %b : tensor<i1>, tensor<i32>
    stablehlo.return %m, %s : tensor<f32>, tensor<i32>
  }) : (tensor<4xf32>, tensor<4xi32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xi32>)
    -> (tensor<4xf32>, tensor<4xi32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xi32>
}"""
    largest, winners = run(
        text,
        np.array([0, 5, 0, 0], np.float32),
        np.array([-1, -1, -1, -1], np.int32),
        np.array([[2], [1], [2]], np.int32),
        np.array([3, 4, 7], np.float32),
        np.array([10, 11, 12], np.int32),
    )
    assert largest.tolist() == [0, 5, 7, 0]
    assert winners.tolist() == [-1, -1, 12, -1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "tensor<4x1xi32>",
            "tensor<4x1xf32>",
            "must be ranked tensor of integer or index",
        ),
        (
            "tensor<4xf32>",
            "tensor<5xf32>",
            "updates bound is 5 , scatter_indices bound is 4",
        ),
        (
            "operand_dims = [0]",
            "operand_dims = [1]",
            r"distinct dimensions in \[0, 1\)",
        ),
        (
            "operand_dims = [0]",
            "operand_dims = [0, 0]",
            r"distinct dimensions in \[0, 1\)",
        ),
        (
            "vector_dim = 1",
            "vector_dim = 3",
            r"in \[0, 3\) as index_vector_dim, got \[3\]",
        ),
        ("window_dims = [0]", "window_dims = []", "expects 1 window dimensions, got 0"),
        ("tensor<4xf32>", "tensor<4x2xf32>", "expects updates of rank 1, got 2"),
        (
            "tensor<4x1xi32>",
            "tensor<4x2xi32>",
            "expects 2 scatter_dims_to_operand_dims",
        ),
    ],
)
def test_verification(old: str, new: str, message: str):
    types, numbers, _ = CASES["elements"]
    text = scatter(types, numbers)
    assert old in text
    with pytest.raises(IRError, match=message):
        parse_module(text.replace(old, new))


def test_unknown_sizes():
    types, numbers, indices = CASES["elements"]
    static = scatter(types, numbers)
    text = static.replace("tensor<8x", "tensor<?x").replace("tensor<4x", "tensor<?x")
    arguments = floats(8), np.array(indices, np.int32), floats(4)
    (actual,) = run(text, *arguments)
    same_bits(actual, run(static, *arguments)[0])
    with pytest.raises(InterpretationError, match="another number of updates than of"):
        run_function(lowered(text), None, *arguments[:2], floats(3))
