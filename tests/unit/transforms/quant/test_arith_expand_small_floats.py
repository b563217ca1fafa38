"""Conversions of small floats, compiled, against `ml_dtypes`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.execution import compile
from xdsl_quant.numerics.float_dtypes import float_dtype, rounded
from xdsl_quant.numerics.small_floats import SMALL_FLOATS
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.quant.arith_expand_small_floats import (
    ArithExpandSmallFloatsPass,
)

WIDE = ("f16", "bf16", "f32", "f64")


def conversion(source: str, target: str, shape: str = "?x") -> str:
    is_wider = float_dtype(source).itemsize < float_dtype(target).itemsize
    op = "extf" if is_wider else "truncf"
    x, y = (f"tensor<{shape}{type_}>" for type_ in (source, target))
    return f"""
        func.func @f(%x: {x}) -> {y} {{
          %y = arith.{op} %x : {x} to {y}
          return %y : {y}
        }}"""


def inputs(name: str) -> NDArray[Any]:
    """All floats of 16 bits, in another type with their neighbours."""
    dtype = float_dtype(name)
    halves = np.arange(1 << 16).astype(np.uint16)
    if dtype.itemsize == 2:
        return halves.view(dtype)
    with np.errstate(invalid="ignore"):
        values = np.concatenate(
            [halves.view(float_dtype(each)).astype(dtype) for each in ("f16", "bf16")]
        )
        near = [np.nextafter(values, dtype.type(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([values, *near])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("source", WIDE)
@pytest.mark.parametrize("target", SMALL_FLOATS)
def test_all_numbers_are_rounded_once(source: str, target: str):
    values = inputs(source)
    if target == "f8E8M0FNU":
        # `ml_dtypes` rounds negative and subnormal numbers in other ways.
        with np.errstate(invalid="ignore"):
            doubles = values.astype(np.float64)
        values = values[(doubles >= 2.0**-126) & (doubles <= 2.0**127)]
    found = compile(conversion(source, target))(values)
    expected = rounded(values, float_dtype(target))
    is_nan = np.isnan(expected.astype(np.float32))
    assert np.array_equal(np.isnan(found.astype(np.float32)), is_nan)
    assert np.array_equal(
        found[~is_nan].view(np.uint8), expected[~is_nan].view(np.uint8)
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["bf16", "f32", "f64"])
@pytest.mark.parametrize("source", sorted({*SMALL_FLOATS} - {"f8E5M2FNUZ"}))
def test_all_codes_are_extended(source: str, target: str):
    codes = np.arange(1 << SMALL_FLOATS[source].bits).astype(np.uint8)
    values = codes.view(float_dtype(source))
    found = compile(conversion(source, target))(values)
    expected = values.astype(np.float32).astype(float_dtype(target))
    assert np.array_equal(
        found.astype(np.float64), expected.astype(np.float64), equal_nan=True
    )
    # MLIR's conversion of f32 to bf16 drops the sign of NaN.
    signs, right = (np.signbit(a.astype(np.float64)) for a in (found, expected))
    assert ((signs == right) | np.isnan(values.astype(np.float32))).all()


def test_between_small_floats_and_scalars():
    values = np.arange(16).astype(np.uint8).view(float_dtype("f4E2M1FN"))
    text = conversion("f4E2M1FN", "f8E4M3FN").replace("truncf", "extf")
    assert (compile(text)(values).astype(np.float32) == values.astype(np.float32)).all()
    scalar = """
        func.func @f(%x: f32) -> f8E5M2 {
          %y = arith.truncf %x : f32 to f8E5M2
          return %y : f8E5M2
        }"""
    for value, expected in ((1.1, 1.0), (6e4, 57344.0), (1e5, np.inf)):
        assert float(compile(scalar)(np.float32(value))) == expected


@pytest.mark.parametrize("op", ["quant.qcast", "quant.dcast"])
def test_small_expressed_types_are_compiled(op: str):
    expressed, stored = (
        "tensor<4xf8E4M3FN>",
        "tensor<4x!quant.uniform<i8:f8E4M3FN, 0.5>>",
    )
    values: NDArray[Any] = np.array([1, -2, 0.25, 300], float_dtype("f8E4M3FN"))
    expected = [2, -4, 0, 127]
    types = expressed, stored
    if op == "quant.dcast":
        types, values = types[::-1], np.array([3, -128, 0, 127], np.int8)
        expected = [1.5, -64, 0, 64]
    text = f"""
        func.func @f(%x: {types[0]}) -> {types[1]} {{
          %y = {op} %x : {types[0]} to {types[1]}
          return %y : {types[1]}
        }}"""
    assert compile(text)(values).astype(np.float32).tolist() == expected


@pytest.mark.parametrize(
    "text",
    [
        conversion("f32", "f16"),
        conversion("f8E5M2FNUZ", "f32"),
        'func.func @f(%x: f32) { %y = "arith.truncf"(%x) {roundingmode = 2 : i32} : '
        "(f32) -> f8E5M2 return }",
    ],
)
def test_others_stay(text: str):
    module = parse_module(text)
    before = str(module)
    apply_passes(module, "arith-expand-small-floats")
    assert str(module) == before


@pytest.mark.parametrize(
    ("op", "source", "target"),
    [
        ("extf", "vector<4xf8E4M3FN>", "vector<4xf32>"),
        ("truncf", "vector<2x4xf32>", "vector<2x4xf4E2M1FN>"),
    ],
)
def test_vectors_are_refused(op: str, source: str, target: str):
    module = parse_module(
        f"""func.func @f(%x: {source}) -> {target} {{
          %y = arith.{op} %x : {source} to {target}
          return %y : {target}
        }}""",
        "model.mlir",
    )
    with pytest.raises(PassFailedException) as error:
        ArithExpandSmallFloatsPass().apply(Context(), module)
    assert str(error.value) == (
        f"model.mlir:2:11: error: 'arith.{op}' op converts between '{source}' and "
        f"'{target}': expected floats or ranked tensors; unroll vectors first"
    )


def test_vectors_of_other_floats_stay():
    module = parse_module("""func.func @f(%x: vector<4xf16>) -> vector<4xf32> {
      %y = arith.extf %x : vector<4xf16> to vector<4xf32>
      return %y : vector<4xf32>
    }""")
    before = str(module)
    ArithExpandSmallFloatsPass().apply(Context(), module)
    assert str(module) == before
