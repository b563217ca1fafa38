"""Files after public reports, compared with the reference kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conformance.real_mlir import Mlir
from tests.oracles.networks_in_tosa import tosa_steps
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.machines.numpy import StatefulModel, run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.runtime.stateful_function import StatefulFunction

from .litert import LiteRT

Array = NDArray[Any]
Step = Callable[..., Sequence[Any]]

FILES = Path(__file__).with_name("reported")


def content(name: str) -> bytes:
    return (FILES / f"{name}.tflite").read_bytes()


def inputs_of(file: bytes) -> list[Array]:
    """Random arguments, over the whole range of integers."""
    random = np.random.default_rng(0)
    arrays: list[Array] = []
    for shape, dtype in LiteRT(file).input_types():
        if np.dtype(dtype).kind == "f":
            arrays.append(random.standard_normal(shape).astype(dtype))
            continue
        limits = np.iinfo(dtype)
        values = random.integers(limits.min, limits.max, shape, endpoint=True)
        arrays.append(values.astype(dtype))
    return arrays


def interpreted(file: bytes) -> Step:
    return StatefulModel(read_tflite(file)).step


def compiled(file: bytes) -> Step:
    return StatefulFunction(read_tflite(file), compile).step


def written(file: bytes) -> Step:
    return LiteRT(write_tflite(read_tflite(file))).run


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as worker:
        yield worker


def assert_equals_reference(file: bytes, way: Step) -> None:
    inputs = inputs_of(file)
    for result, expected in zip(way(*inputs), LiteRT(file).run(*inputs), strict=True):
        np.testing.assert_array_equal(np.asarray(result), expected, strict=True)


@pytest.mark.parametrize("way", [interpreted, compiled, written])
@pytest.mark.parametrize("name", ["depthwise_u8", "w16x8_transpose_conv_int32_opt"])
def test_products(name: str, way: Callable[[bytes], Step]):
    assert_equals_reference(content(name), way(content(name)))


@pytest.mark.parametrize("way", [interpreted, compiled, written])
@pytest.mark.parametrize(
    "name", ["reshape_one_input", "reshape_shape_rank2", "scalar_without_has_rank"]
)
def test_shapes(name: str, way: Callable[[bytes], Step]):
    assert_equals_reference(content(name), way(content(name)))


@pytest.mark.parametrize("way", [interpreted, written])
def test_sizes_that_are_computed(way: Callable[[bytes], Step]):
    assert_equals_reference(content("dyn_slice"), way(content("dyn_slice")))


def test_sizes_that_are_computed_from_static_ones():
    """Files are compiled with their static sizes."""
    file = content("dyn_slice")
    (x,) = inputs_of(file)
    (expected,) = LiteRT(file).run(x)
    result = np.asarray(compile(file)(x))
    assert result.shape == (1, 8)
    np.testing.assert_array_equal(result, expected)


def test_advice_for_computed_sizes():
    module = read_tflite(content("dyn_slice"))
    with pytest.raises(IRError, match=r"'tfl-infer-shapes\{static=true\}'"):
        apply_passes(module, "convert-tfl-to-stablehlo")
    apply_passes(module, "tfl-infer-shapes{static=true},convert-tfl-to-stablehlo")


def test_unsigned_products_in_tosa(mlir: Mlir):
    file = content("depthwise_u8")
    assert_equals_reference(file, tosa_steps(mlir)(file))


def test_a_value_of_an_unsigned_product():
    """It is 50 if the scales are multiplied in 64 bits."""
    x = np.random.default_rng(0).integers(0, 255, (1, 112, 112, 48)).astype(np.uint8)
    (result,) = interpreted(content("depthwise_u8"))(x)
    assert np.asarray(result)[0, 22, 31, 47] == 51


@pytest.mark.parametrize("way", [interpreted, compiled, written])
def test_square(way: Callable[[bytes], Step], mlir: Mlir):
    file = content("square")
    assert_equals_reference(file, way(file))
    assert_equals_reference(file, tosa_steps(mlir)(file))


def test_square_in_stablehlo():
    module = read_tflite(content("square"))
    apply_passes(module, "convert-tfl-to-stablehlo")
    assert "stablehlo.multiply %x, %x : tensor<2x3xf32>" in str(module)


@pytest.mark.parametrize("type", ["!quant.uniform<i8:f32, 0.5:3>", "i32", "f16"])
def test_square_of_other_elements(type: str):
    """Quantized values fall back to floats, which the runtime does not have."""
    module = parse_module(
        f"""func.func @main(%x: tensor<4x{type}>) -> tensor<4x{type}> {{
          %y = "tfl.square"(%x) : (tensor<4x{type}>) -> tensor<4x{type}>
          return %y : tensor<4x{type}>
        }}"""
    )
    dtype = {"f16": np.float16, "i32": np.int32}.get(type, np.int8)
    x = np.array([3, 9, -3, 100], dtype)
    expected = x * x if dtype != np.int8 else np.array([3, 21, 21, 127], dtype)
    for result in (run_function(module, "main", x)[0], compile(module, "main")(x)):
        np.testing.assert_array_equal(np.asarray(result), expected)
