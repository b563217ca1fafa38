"""Quantized `iota`, and `get_dimension_size` of quantized tensors."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.frontends.stablehlo.lowering.stablehlo_programs import (
    quantization,
    tensor,
)
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import (
    QuantizationParameters,
    quantize,
    requantize_fixed_point,
)
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

Array = NDArray[Any]

TO_INTEGER = "stablehlo-legalize-quant-to-integer"
TO_QDQ = "stablehlo-legalize-quantized-op-to-qdq"
TO_LINALG = "convert-stablehlo-to-linalg"
ONE_PASS = "convert-quantized-stablehlo-to-linalg"
LOWERED_QDQ = (
    "stablehlo-casts-to-quant,lower-quant-ops{rounding-mode=nearest-even},"
    "convert-stablehlo-to-linalg"
)

PIPELINES = {
    "integer": f"{TO_INTEGER},{TO_LINALG}",
    "double": f"{TO_INTEGER}{{rounding=double}},{TO_LINALG}",
    "qdq": f"{TO_QDQ},{LOWERED_QDQ}",
    "one pass": ONE_PASS,
}


def run(text: str, passes: str, *arguments: Array) -> Array:
    """The result, which is the same interpreted and compiled."""
    module = parse_module(text)
    apply_passes(module, passes)
    (interpreted,) = run_function(module, None, *arguments)
    compiled: Any = compile(module)(*arguments)
    assert compiled.dtype == np.asarray(interpreted).dtype
    np.testing.assert_array_equal(compiled, interpreted)
    return compiled


def iota(quantized: QuantizationParameters, shape: tuple[int, ...], axis: int) -> str:
    type_ = tensor(shape, quantized)
    return f"""
    func.func @f() -> {type_} {{
      %r = stablehlo.iota dim = {axis} : {type_}
      return %r : {type_}
    }}"""


KINDS = {
    "of the report": quantization("i8", 0.5, 3),
    "saturating": quantization("i8", 0.03, -7),
    "without a zero point": quantization("i16", 0.001),
    "narrow": quantization("i8", 0.25, bounds=(-20, 40)),
    "u4": quantization("u4", 0.7, 5),
    "u8": quantization("u8", 0.11, 200),
    "coarse": quantization("i8", 3.0, 100),
    "i32": quantization("i32", 1e-7, -5),
    "f64": quantization("i16", 0.003, 5, expressed="f64"),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_iota_is_quantized_indices(axis: int, kind: str, pipeline: str):
    quantized, shape = KINDS[kind], (3, 150)
    actual = run(iota(quantized, shape, axis), PIPELINES[pipeline])
    indices = np.indices(shape)[axis]
    if pipeline == "qdq":
        expected = quantize(indices.astype(quantized.expressed_dtype), quantized)
    else:
        plain = quantization("i32", 1.0, expressed=quantized.expressed)
        expected = requantize_fixed_point(
            indices.astype(np.int32),
            plain,
            quantized,
            rounding="double" if pipeline == "double" else "single",
        )
    width = quantized.storage_width
    np.testing.assert_array_equal(
        actual.astype(np.int64) & (1 << width) - 1,
        expected.astype(np.int64) & (1 << width) - 1,
    )


def test_iota_rounds_half_up_with_integers_and_half_to_even_with_floats():
    text = iota(quantization("i8", 2.0), (8,), 0)
    assert run(text, PIPELINES["integer"]).tolist() == [0, 1, 1, 2, 2, 3, 3, 4]
    assert run(text, PIPELINES["qdq"]).tolist() == [0, 0, 1, 2, 2, 2, 3, 4]


@pytest.mark.parametrize("shape", [(1,), (0,)])
def test_small_iota(shape: tuple[int, ...]):
    for passes in PIPELINES.values():
        actual = run(iota(quantization("i8", 0.5, 3), shape, 0), passes)
        assert actual.tolist() == [3] * shape[0]


def test_iota_without_floats():
    module = parse_module(iota(quantization("i8", 0.3, 7), (4,), 0))
    apply_passes(module, f"{TO_INTEGER},strip-func-quant-types,canonicalize")
    text = str(module)
    assert "stablehlo.iota dim = 0 : tensor<4xi32>" in text
    assert "f32" not in text


def test_iota_of_floats_between_casts():
    module = parse_module(iota(quantization("i8", 0.5, 3), (4,), 0))
    apply_passes(module, TO_QDQ)
    quantized = tensor((4,), quantization("i8", 0.5, 3)).replace("0.5", "5.000000e-01")
    assert (
        str(module)
        == f"""\
builtin.module {{
  func.func @f() -> {quantized} {{
    %r_f32 = stablehlo.iota dim = 0 : tensor<4xf32>
    %r = stablehlo.uniform_quantize %r_f32 : (tensor<4xf32>) -> {quantized}
    func.return %r : {quantized}
  }}
}}"""
    )


def test_scale_without_multiplier():
    text = iota(quantization("i32", 1e-10), (4,), 0)
    module = parse_module(text, "model.mlir")
    with pytest.raises(IRError) as error:
        apply_passes(module, TO_INTEGER)
    assert str(error.value) == (
        "model.mlir:3:7: error: 'stablehlo.iota' op cannot be computed with integers: "
        "ratio of scales 1.0 / 1e-10 is too large; expected less than 2**29; use "
        f"'fallback=qdq' to compute it with floats (in the pass {TO_INTEGER})"
    )
    assert run(text, ONE_PASS).tolist() == [0, 2**31 - 1, 2**31 - 1, 2**31 - 1]


def test_indices_that_exceed_32_bits():
    text = iota(quantization("i8", 1.0), ((1 << 31) + 1,), 0)
    module = parse_module(text, "model.mlir")
    with pytest.raises(IRError) as error:
        apply_passes(module, TO_INTEGER)
    assert str(error.value) == (
        "model.mlir:3:7: error: 'stablehlo.iota' op cannot be computed with integers: "
        "size 2147483649 of dimension 0 has indices that exceed i32; use 'fallback=qdq' "
        f"to compute it with floats (in the pass {TO_INTEGER})"
    )


# Sizes


def size(type_: str, axis: int) -> str:
    return f"""
    func.func @f(%x: {type_}) -> tensor<i32> {{
      %r = stablehlo.get_dimension_size %x, dim = {axis} : ({type_}) -> tensor<i32>
      return %r : tensor<i32>
    }}"""


TYPES = {
    "per-tensor": "tensor<?x?x!quant.uniform<i8:f32, 0.5:3>>",
    "per-axis": "tensor<?x2x!quant.uniform<i8:f32:1, {0.5,0.25}>>",
    "static": "tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>",
}


@pytest.mark.parametrize("kind", TYPES)
def test_size(kind: str):
    for passes in PIPELINES.values():
        for axis, expected in enumerate((3, 2)):
            actual = run(size(TYPES[kind], axis), passes, np.zeros((3, 2), np.int8))
            assert (int(actual), actual.dtype) == (expected, np.int32)


def test_size_of_stored_values():
    module = parse_module(size(TYPES["per-tensor"], 1))
    apply_passes(module, f"{TO_INTEGER},strip-func-quant-types,canonicalize")
    assert (
        str(module)
        == """\
builtin.module {
  func.func @f(%x: tensor<?x?xi8>) -> tensor<i32> {
    %r = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xi8>) -> tensor<i32>
    func.return %r : tensor<i32>
  }
}"""
    )


def test_size_stays_quantized_without_integers():
    module = parse_module(size(TYPES["per-axis"], 1))
    before = str(module)
    apply_passes(module, TO_QDQ)
    assert str(module) == before
