"""`select_and_scatter`, compared with StableHLO's own interpreter."""

from collections.abc import Sequence

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
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

PADDED = (
    "window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 3>, "
    "padding = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>"
)


def select_and_scatter(
    types: Sequence[str],
    window: str,
    direction: str = "GE",
    inner: str = "add",
    scalar: str | None = None,
) -> str:
    scalar = scalar or types[2]
    return f"""
func.func @main(%x: {types[0]}, %s: {types[1]}, %i: {types[2]}) -> {types[0]} {{
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{{{window}}}> ({{
  ^bb0(%a: {scalar}, %b: {scalar}):
    %c = stablehlo.compare {direction}, %a, %b : ({scalar}, {scalar}) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}, {{
  ^bb0(%a: {scalar}, %b: {scalar}):
    %c = stablehlo.{inner} %a, %b : {scalar}
    stablehlo.return %c : {scalar}
  }}) : ({", ".join(types)}) -> {types[0]}
  return %r : {types[0]}
}}"""


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", [name for name in TYPES if name != "i1"])
@pytest.mark.parametrize("direction", ["GE", "LE", "GT"])
@pytest.mark.parametrize("inner", ["add", "maximum"])
def test_window(name: str, direction: str, inner: str):
    random, dtype = np.random.default_rng(7), np.dtype(TYPES[name])
    # Overlapping windows with padding; few distinct numbers, so that some are equal.
    values = random.integers(0, 4, (6, 7)).astype(dtype)
    source = random.integers(0, 9, (3, 3)).astype(dtype)
    # Neutral: the specification lets it be combined any number of times.
    arguments = values, source, np.array(0, dtype)
    types = [tensor(argument.shape, name) for argument in arguments]
    text = select_and_scatter(types, PADDED, direction, inner)
    (expected,) = stablehlo_results(text, *arguments)
    (actual,) = run(text, *arguments)
    same_bits(actual, expected)


@pytest.mark.parametrize("window", ["1, 1", "4, 1", "2, 2", "4, 6"])
def test_gradient_of_max_pooling(window: str):
    """The gradient of each window goes to its first largest element."""
    sizes = [*map(int, window.split(", "))]
    values = np.arange(24, dtype=np.float32).reshape(4, 6) % 7
    source = np.arange(1, 1 + 24 // (sizes[0] * sizes[1]), dtype=np.float32)
    source = source.reshape(4 // sizes[0], 6 // sizes[1])
    expected = np.zeros_like(values)
    for i, j in np.ndindex(*source.shape):
        part = values[
            i * sizes[0] : (i + 1) * sizes[0], j * sizes[1] : (j + 1) * sizes[1]
        ]
        a, b = np.unravel_index(np.argmax(part), part.shape)
        expected[i * sizes[0] + a, j * sizes[1] + b] = source[i, j]
    types = ["tensor<4x6xf32>", tensor(source.shape, "f32"), "tensor<f32>"]
    text = select_and_scatter(
        types,
        f"window_dimensions = array<i64: {window}>, window_strides = array<i64: {window}>",
    )
    (actual,) = run(text, values, source, np.array(0, np.float32))
    same_bits(actual, expected)


def test_scalars():
    types = ["tensor<i32>"] * 3
    text = select_and_scatter(types, "window_dimensions = array<i64>")
    (actual,) = run(text, np.int32(4), np.int32(5), np.int32(6))
    assert actual.tolist() == 11


FLOATS = (
    "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,lower-quant-ops,"
    "convert-stablehlo-to-linalg,strip-func-quant-types"
)
INTEGERS = (
    "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg,"
    "strip-func-quant-types"
)
QUANTIZED = "!quant.uniform<i8:f32, 5.000000e-01:3>"


@pytest.mark.parametrize("passes", [FLOATS, INTEGERS])
def test_quantized(passes: str):
    types = [
        f"tensor<4x6x{QUANTIZED}>",
        f"tensor<2x3x{QUANTIZED}>",
        f"tensor<{QUANTIZED}>",
    ]
    window = "window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>"
    text = select_and_scatter(types, window)
    module = parse_module(text)
    apply_passes(module, passes)
    random = np.random.default_rng(3)
    values = random.integers(-128, 128, (4, 6)).astype(np.int8)
    source = random.integers(-128, 128, (2, 3)).astype(np.int8)
    (actual,) = run_function(module, None, values, source, np.array(3, np.int8))
    expected = np.full((4, 6), 3, np.int8)
    for i, j in np.ndindex(2, 3):
        part = values[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        a, b = np.unravel_index(np.argmax(part), part.shape)
        expected[2 * i + a, 2 * j + b] = source[i, j]
    assert np.asarray(actual).tolist() == expected.tolist()


@pytest.mark.parametrize("inner", ["add", "maximum"])
@pytest.mark.parametrize("storage", ["i8", "u8", "i16"])
def test_integers_are_floats(inner: str, storage: str):
    """Sums of overlapping windows saturate in each step."""
    element = f"!quant.uniform<{storage}:f32, 5.000000e-01:3>"
    types = [
        f"tensor<4x6x{element}>",
        f"tensor<3x3x{element}>",
        f"tensor<{element}>",
    ]
    window = "window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 2>"
    text = select_and_scatter(types, window, inner=inner)
    random, dtype = (
        np.random.default_rng(3),
        np.dtype(TYPES[storage.replace("u", "ui")]),
    )
    limits = np.iinfo(dtype)
    values = random.integers(limits.min, limits.max + 1, (4, 6)).astype(dtype)
    source = random.integers(limits.min, limits.max + 1, (3, 3)).astype(dtype)
    results: list[Array] = []
    for passes in (FLOATS, INTEGERS):
        module = parse_module(text)
        apply_passes(module, passes)
        initial = np.array(limits.min if inner == "maximum" else 3, dtype)
        (result,) = run_function(module, None, values, source, initial)
        results.append(np.asarray(result))
    assert results[0].tolist() == results[1].tolist()


def test_windows_in_padding():
    """Elements of the source are dropped if their whole window is padding."""
    types = ["tensor<1xf32>", "tensor<3xf32>", "tensor<f32>"]
    padding = "padding = dense<1> : tensor<1x2xi64>"
    text = select_and_scatter(types, f"window_dimensions = array<i64: 1>, {padding}")
    values, source = np.array([5], np.float32), np.array([1, 2, 4], np.float32)
    (actual,) = run(text, values, source, np.float32(0))
    assert actual.tolist() == [2]


def test_unknown_sizes():
    types = ["tensor<?x4xf32>", "tensor<?x2xf32>", "tensor<f32>"]
    window = "window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>"
    text = select_and_scatter(types, window)
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    source = np.array([[1, 2], [3, 4]], np.float32)
    (actual,) = run(text, values, source, np.float32(0))
    expected = np.zeros((4, 4), np.float32)
    expected[1::2, 1::2] = source
    same_bits(actual, expected)
    module = parse_module(text)
    apply_passes(module, "convert-stablehlo-to-linalg")
    message = "has another number of windows than elements of its source"
    with pytest.raises(InterpretationError, match=message):
        run_function(module, None, values, source[:1], np.float32(0))
