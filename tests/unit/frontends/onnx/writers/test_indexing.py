"""Gathers, scatters, dynamic slices and sorting in ONNX files."""

import numpy as np
import pytest

from .written_models import check, file_results, floats, function, op_types, written


def _gather(numbers: str, sizes: str, shapes: tuple[str, str, str]) -> str:
    x, indices, y = shapes
    types = f"tensor<{x}xf32>", f"tensor<{indices}xi32>", f"tensor<{y}xf32>"
    return function(
        f"%x: {types[0]}, %i: {types[1]}",
        types[2],
        f'%0 = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<'
        f"{numbers}>, slice_sizes = array<i64: {sizes}>}}> : ({types[0]}, {types[1]}) -> "
        f"{types[2]}",
        "%0",
    )


def test_gathers_along_a_dimension_clamp_indices():
    text = _gather(
        "offset_dims = [0, 2], collapsed_slice_dims = [1], start_index_map = [1], "
        "index_vector_dim = 1",
        "2, 1, 4",
        ("2x5x4", "3", "2x3x4"),
    )
    proto = check(text, floats(2, 5, 4), np.array([-3, 2, 9], np.int32))
    assert op_types(proto)[-1] == "Gather"


def test_gathers_by_vectors():
    text = _gather(
        "offset_dims = [0], collapsed_slice_dims = [0, 2], start_index_map = [2, 0], "
        "index_vector_dim = 0",
        "1, 5, 1",
        ("2x5x4", "2x3", "5x3"),
    )
    indices = np.array([[3, 0, 7], [1, 0, -2]], np.int32)
    proto = check(text, floats(2, 5, 4), indices)
    assert op_types(proto)[-2:] == ["GatherND", "Transpose"]


def test_gathers_in_batches():
    text = _gather(
        "offset_dims = [1], collapsed_slice_dims = [1], operand_batching_dims = [0], "
        "start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1",
        "1, 1, 4",
        ("2x5x4", "2x1", "2x4"),
    )
    check(text, floats(2, 5, 4), np.array([[4], [1]], np.int32))


def _scatter(op: str) -> str:
    combined = f"%r = {op} %a, %b : tensor<f32>" if op else ""
    result = "%r" if op else "%b"
    return f"""
func.func @main(%x: tensor<5x4xf32>, %i: tensor<2x1xi32>, %u: tensor<2x4xf32>)
    -> tensor<5x4xf32> {{
  %0 = "stablehlo.scatter"(%x, %i, %u) <{{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    {combined}
    stablehlo.return {result} : tensor<f32>
  }}) : (tensor<5x4xf32>, tensor<2x1xi32>, tensor<2x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}}
"""


@pytest.mark.parametrize("op", ["", "stablehlo.add", "stablehlo.maximum"])
def test_scatters(op: str):
    indices = np.array([[3], [1]], np.int32)
    check(_scatter(op), floats(5, 4), indices, floats(2, 4, seed=1))


def test_negative_indices_of_scatters_are_an_error():
    # StableHLO drops these updates; ONNX would count from the end.
    proto = written(_scatter("stablehlo.add"))
    indices = np.array([[-1], [1]], np.int32)
    with pytest.raises(Exception, match="invalid indice found"):
        file_results(proto, [floats(5, 4), indices, floats(2, 4)])


@pytest.mark.parametrize("start", [(0, 0), (1, 2), (9, -4)])
def test_dynamic_slices_are_clamped(start: tuple[int, int]):
    text = function(
        "%x: tensor<5x6xf32>, %i: tensor<i32>, %j: tensor<i32>, %u: tensor<2x3xf32>",
        "tensor<2x3xf32>, tensor<5x6xf32>",
        "%0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3] : (tensor<5x6xf32>, "
        "tensor<i32>, tensor<i32>) -> tensor<2x3xf32>",
        "%1 = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<5x6xf32>, "
        "tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x6xf32>",
        "%0, %1",
    )
    i, j = map(np.int32, start)
    check(text, floats(5, 6), i, j, floats(2, 3, seed=3))


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_sorting_moves_other_operands(direction: str):
    text = f"""
func.func @main(%x: tensor<3x5xf32>, %y: tensor<3x5xi32>)
    -> (tensor<3x5xf32>, tensor<3x5xi32>) {{
  %0:2 = "stablehlo.sort"(%x, %y) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare {direction}, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }}) : (tensor<3x5xf32>, tensor<3x5xi32>) -> (tensor<3x5xf32>, tensor<3x5xi32>)
  return %0#0, %0#1 : tensor<3x5xf32>, tensor<3x5xi32>
}}
"""
    numbers = np.arange(15, dtype=np.int32).reshape(3, 5)
    x = np.round(floats(3, 5))
    check(text, x, numbers, nodes=["TopK", "GatherElements"])


def test_the_largest_elements():
    text = function(
        "%x: tensor<3x5xf32>",
        "tensor<3x2xf32>, tensor<3x2xi32>",
        "%0, %1 = chlo.top_k(%x, k = 2) : tensor<3x5xf32> -> (tensor<3x2xf32>, "
        "tensor<3x2xi32>)",
        "%0, %1",
    )
    check(text, floats(3, 5), nodes=["TopK", "Cast"])
