"""Sorting, compared with NumPy's stable sort and StableHLO's own interpreter."""

from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    TYPES,
    Array,
    run,
    same_bits,
    stablehlo_results,
    tensor,
)
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module


def sort(types: list[str], elements: list[str], dimension: int, comparison: str) -> str:
    parameters = ", ".join(
        f"%{letter}{i}: tensor<{element}>"
        for i, element in enumerate(elements)
        for letter in "ab"
    )
    operands = ", ".join(f"%{i}" for i in range(len(types)))
    listed = ", ".join(types)
    results = ", ".join(f"%r#{i}" for i in range(len(types)))
    arguments = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(types))
    return (
        f"func.func @main({arguments}) -> ({listed}) {{\n"
        f'  %r:{len(types)} = "stablehlo.sort"({operands}) '
        f"<{{dimension = {dimension} : i64, is_stable = true}}> ({{\n"
        f"  ^bb0({parameters}):\n    %c = {comparison}\n"
        f"    stablehlo.return %c : tensor<i1>\n"
        f"  }}) : ({listed}) -> ({listed})\n  return {results} : {listed}\n}}"
    )


def less(element: str, direction: str = "LT", kind: str = "") -> str:
    pair = f"(tensor<{element}>, tensor<{element}>)"
    return f"stablehlo.compare {direction}, %a0, %b0{kind} : {pair} -> tensor<i1>"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 33])
def test_stable_sort_with_other_operand(size: int):
    """Few distinct keys: equal ones keep the order of their numbers."""
    keys = np.random.default_rng(size).integers(0, 4, (2, size)).astype(np.int32)
    numbers: Array = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    types = [tensor(keys.shape, "i32"), tensor(keys.shape, "f32")]
    text = sort(types, ["i32", "f32"], 1, less("i32"))
    order = np.argsort(keys, axis=1, kind="stable")
    actual = run(text, keys, numbers)
    same_bits(actual[0], np.take_along_axis(keys, order, 1))
    same_bits(actual[1], np.take_along_axis(numbers, order, 1))


@pytest.mark.parametrize("name", ["i8", "ui8", "f32", "f16"])
@pytest.mark.parametrize("dimension", [0, 1, -2])
def test_types_and_dimensions(name: str, dimension: int):
    values = np.random.default_rng(0).integers(0, 100, (5, 2, 3)).astype(TYPES[name])
    type_ = tensor(values.shape, name)
    text = sort([type_], [name], dimension, less(name, "GT"))
    (actual,) = run(text, values)
    same_bits(actual, stablehlo_results(text, values)[0])
    same_bits(actual, np.flip(np.sort(values, dimension), dimension))


def test_total_order():
    values = np.array([1, np.nan, -0.0, 0.0, -np.inf, -np.nan, 2], np.float32)
    text = sort(["tensor<7xf32>"], ["f32"], 0, less("f32", kind=", TOTALORDER"))
    (actual,) = run(text, values)
    order = [5, 4, 2, 3, 0, 6, 1]
    assert actual.view(np.uint32).tolist() == values.view(np.uint32)[order].tolist()


@pytest.mark.parametrize(
    ("name", "k"), [("f32", 3), ("i32", 8), ("ui8", 1), ("f32", 0)]
)
def test_top_k(name: str, k: int):
    """The first of equal elements comes first; NaN is the largest."""
    values = np.random.default_rng(1).integers(0, 4, (3, 8)).astype(TYPES[name])
    if name == "f32":
        values[0, 5] = np.nan
    if name == "ui8":
        values[1, 2] = 200
    types = [tensor((3, 8), name), tensor((3, k), name), tensor((3, k), "i32")]
    text = (
        f"func.func @main(%0: {types[0]}) -> ({types[1]}, {types[2]}) {{\n"
        f"%v, %i = chlo.top_k(%0, k = {k}) : {types[0]} -> ({types[1]}, {types[2]})\n"
        f"return %v, %i : {types[1]}, {types[2]}\n}}"
    )
    largest, indices = run(text, values)
    keys = np.where(np.isnan(values), 9, values) if name == "f32" else values
    order = np.argsort(-keys.astype(np.int64), axis=1, kind="stable")[:, :k]
    same_bits(indices, order.astype(np.int32))
    same_bits(largest, np.take_along_axis(values, order, 1))


def test_sort_of_stored_values():
    q = "!quant.uniform<i8:f32, 0.5:3>"
    types = [f"tensor<5x{q}>"]
    text = sort(types, [q], 0, less(q))
    module = parse_module(text)
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    values = np.array([3, -7, 100, 0, -128], np.int8)
    (interpreted,) = run_function(module, None, values)
    compiled: Any = compile(module)(values)
    for actual in (interpreted, compiled):
        same_bits(np.asarray(actual), np.sort(values))


@pytest.mark.parametrize(
    ("type_", "comparison", "reason"),
    [
        (
            "tensor<4xf32>",
            "stablehlo.custom_call @less(%a0, %b0) : (tensor<f32>, tensor<f32>) "
            "-> tensor<i1>",
            "has a body with 'stablehlo.custom_call', which is not elementwise",
        ),
    ],
)
def test_no_conversion(type_: str, comparison: str, reason: str):
    module = parse_module(sort([type_], ["f32"], 0, comparison))
    with pytest.raises(IRError, match=reason):
        apply_passes(module, "convert-stablehlo-to-linalg")


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("dimension", [0, 1])
def test_unknown_sizes(size: int, dimension: int):
    values = np.random.default_rng(size).integers(0, 9, (size, 4)).astype(np.float32)
    text = sort(["tensor<?x?xf32>"], ["f32"], dimension, less("f32"))
    (actual,) = run(text, values)
    same_bits(actual, np.sort(values, axis=dimension))


TOP_2 = """
func.func @main(%x: tensor<?x?xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>) {
  %0, %1 = chlo.top_k(%x, k = 2)
    : tensor<?x?xf32> -> (tensor<?x2xf32>, tensor<?x2xi32>)
  return %0, %1 : tensor<?x2xf32>, tensor<?x2xi32>
}"""


def test_top_k_of_unknown_size():
    values = np.array([[3, 1, 4], [1, 5, 9]], np.float32)
    largest, indices = run(TOP_2, values)
    assert largest.tolist() == [[4, 3], [9, 5]]
    assert indices.tolist() == [[2, 0], [2, 1]]
    message = "'chlo.top_k' op has fewer than 2 elements in its last dimension"
    module = parse_module(TOP_2)
    apply_passes(module, "convert-stablehlo-to-linalg")
    with pytest.raises(InterpretationError, match=message):
        run_function(module, None, values[:, :1])


def test_constants_from_outside():
    """JAX exports them so; other values from outside are refused."""
    text = """
func.func @main(%x: tensor<5xf32>, %y: tensor<f32>) -> tensor<5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %r = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.maximum %a, %zero : tensor<f32>
    %d = stablehlo.maximum %b, %zero : tensor<f32>
    %e = stablehlo.compare LT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %e : tensor<i1>
  }) : (tensor<5xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}"""
    (actual,) = run(text, np.array([3, -1, 2, -2, 1], np.float32), np.float32(0))
    assert actual.tolist() == [-1, -2, 1, 2, 3]
    module = parse_module(text.replace("%b, %zero", "%b, %y"))
    with pytest.raises(IRError, match="uses a value from outside of the body"):
        apply_passes(module, "convert-stablehlo-to-linalg")
