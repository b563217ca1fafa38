"""Casts that state their rounding have one result, whatever the options of passes are."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.utils.exceptions import InterpretationError, VerifyException
from xdsl.utils.hints import isa

from tests.quantize_linear import quantize_linear
from xdsl_quant import execution
from xdsl_quant.dialects.quant import QuantizeCastOp
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

Array = NDArray[Any]

ONNX = (
    '{quant.nan = "storage-min", quant.rounding_mode = "nearest-even", '
    'quant.zero_point_order = "after-rounding"}'
)
"""Rounding of ONNX's `QuantizeLinear`."""

ROUNDINGS = (
    Rounding(),
    Rounding("nearest-away", "after-rounding", "stored-zero"),
    Rounding("truncate", "before-rounding", "stored-zero"),
)
"""Options that the attributes override."""

LOWERINGS = (
    "",
    "{rounding-mode=truncate keep-qdq=false nan=stored-zero}",
    "{rounding-mode=nearest-away nan=stored-zero fuse=true}",
    "{rounding-mode=nearest-away zero-point-order=after-rounding}",
)

TO_STABLEHLO = "quant-casts-to-stablehlo"
BEFORE_LOWERING = (
    "canonicalize,cse",
    "quant-casts-to-dynamic",
    "quant-casts-to-dynamic,quant-casts-from-dynamic",
    f"{TO_STABLEHLO},stablehlo-casts-to-quant",
    f"{TO_STABLEHLO},stablehlo-legalize-quant-to-integer,stablehlo-casts-to-quant",
)


def _module(attributes: str, type_: str, count: int) -> str:
    q = f"tensor<{count}x!quant.uniform<{type_}>>"
    return f"""
func.func @f(%x: tensor<{count}xf32>) -> {q} {{
  %q = quant.qcast %x {attributes} : tensor<{count}xf32> to {q}
  return %q : {q}
}}"""


def _results(text: str, values: Array) -> Iterator[tuple[str, Array]]:
    """Results of all ways to run a module, with a name each."""
    for rounding in ROUNDINGS:
        options = rounding.arguments()
        yield f"interpreted, {rounding}", run_function(text, "f", values, **options)[0]
        compiled = execution.compile(text, **options)
        yield f"compiled, {rounding}", compiled(values)
    for first in ("", *BEFORE_LOWERING):
        for options in LOWERINGS if not first else LOWERINGS[:1]:
            passes = f"{first},lower-quant-ops{options}".removeprefix(",")
            module = parse_module(text)
            apply_passes(module, f"{passes},strip-func-quant-types")
            yield passes, run_function(module, "f", values)[0]
    passes = f"{TO_STABLEHLO},convert-quantized-stablehlo-to-linalg"
    module = parse_module(text)
    apply_passes(module, f"{passes},strip-func-quant-types")
    yield passes, run_function(module, "f", values)[0]


FACTS = np.array(
    [0.15, 0.14999995, 0.45000002, np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31],
    np.float32,
)


def _values(scale: float, zero_point: int, low: int, high: int) -> Array:
    """Special values, values around each tie and values drawn between these."""
    ties = np.arange(max(low - 3, -2000), min(high + 3, 2000)) + 0.5
    ties = ((ties - [[0], [zero_point]]) * np.float32(scale)).astype(np.float32).ravel()
    limit = np.float32(2 * max(-low, high) * scale)
    drawn = np.random.default_rng(0).uniform(-limit, limit, 100_000)
    around = [np.nextafter(ties, np.float32(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([FACTS, ties, *around, drawn.astype(np.float32)])


@pytest.mark.parametrize(
    ("storage", "scale", "zero_point"),
    [
        ("u8", 0.3, 5),
        ("i8", 0.3, 5),
        ("i8", 1.0, 1),
        ("u8", 1.0, 1),
        ("u16", 1.0, 32769),
        ("i16", 0.3, -7),
    ],
)
def test_results_are_those_of_onnxruntime(storage: str, scale: float, zero_point: int):
    bits = int(storage[1:])
    low = 0 if storage.startswith("u") else -(1 << (bits - 1))
    dtype = np.dtype(f"{storage[0]}{bits // 8}")
    values = _values(scale, zero_point, low, low + (1 << bits) - 1)
    expected = quantize_linear("f32", storage)(
        values, np.array(scale, np.float32), np.array(zero_point, dtype)
    )
    if (storage, scale) == ("u8", 0.3):
        assert expected[:9].tolist() == [5, 5, 7, 0, 255, 0, 255, 0, 255]
    text = _module(ONNX, f"{storage}:f32, {scale:e}:{zero_point}", len(values))
    for name, result in _results(text, values):
        np.testing.assert_array_equal(result.view(dtype), expected, err_msg=name)


@pytest.mark.parametrize(
    ("attributes", "options", "expected"),
    [
        ("", {}, [6, 6, -128]),
        ("", {"zero_point_order": "after-rounding"}, [5, 7, -128]),
        ('quant.zero_point_order = "after-rounding"', {}, [5, 7, -128]),
        ('quant.rounding_mode = "nearest-away"', {}, [6, 7, -128]),
        ('quant.rounding_mode = "truncate"', {"nan": "stored-zero"}, [5, 6, 0]),
        ('quant.nan = "stored-zero"', {"rounding_mode": "nearest-away"}, [6, 7, 0]),
    ],
)
def test_options_are_the_default(
    attributes: str, options: dict[str, Any], expected: list[int]
):
    values = np.array([0.5, 1.5, np.nan], np.float32)
    text = _module(f"{{{attributes}}}" if attributes else "", "i8:f32, 1.0:5", 3)
    (interpreted,) = run_function(text, "f", values, **options)
    assert interpreted.tolist() == expected
    assert execution.compile(text, **options)(values).tolist() == expected


@pytest.mark.parametrize("attributes", ["", ONNX])
@pytest.mark.parametrize("passes", ["canonicalize", "lower-quant-ops{keep-qdq=false}"])
def test_casts_that_state_their_rounding_mode_do_not_fold(attributes: str, passes: str):
    q = "tensor<3x!quant.uniform<i8:f32, 1.0:5>>"
    module = parse_module(f"""
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %q = quant.qcast %x {attributes} : tensor<3xf32> to {q}
  %y = quant.dcast %q : {q} to tensor<3xf32>
  return %y : tensor<3xf32>
}}""")
    apply_passes(module, passes)
    values = np.array([0.5, 1.7, 300.0], np.float32)
    (result,) = run_function(module, "f", values)
    assert result.tolist() == ([0.0, 2.0, 122.0] if attributes else values.tolist())


def test_equal_casts_with_other_roundings_are_not_merged():
    q = "!quant.uniform<i8:f32, 1.0:5>"
    module = parse_module(f"""
func.func @f(%x: f32) -> ({q}, {q}, {q}) {{
  %0 = quant.qcast %x {ONNX} : f32 to {q}
  %1 = quant.qcast %x : f32 to {q}
  %2 = quant.qcast %x {ONNX} : f32 to {q}
  return %0, %1, %2 : {q}, {q}, {q}
}}""")
    apply_passes(module, "cse")
    assert sum(isinstance(op, QuantizeCastOp) for op in module.walk()) == 2
    assert run_function(module, "f", 0.5) == (5, 6, 5)


def _stored_constants(module: ModuleOp) -> Sequence[Sequence[object]]:
    constants = [op.value for op in module.walk() if isinstance(op, ConstantOp)]
    assert isa(constants, list[DenseIntOrFPElementsAttr])
    return [[*value.get_values()] for value in constants]


@pytest.mark.parametrize(
    "options", ["", "rounding-mode=nearest-away", "zero-point-order=before-rounding"]
)
@pytest.mark.parametrize("dialect", ["quant", "stablehlo"])
def test_constants(options: str, dialect: str):
    type_ = "tensor<5x!quant.uniform<u8:f32, 0.3:5>>"
    cast = f"quant.qcast %c {ONNX} : tensor<5xf32> to {type_}"
    if dialect == "stablehlo":
        cast = f"stablehlo.uniform_quantize %c {ONNX} : (tensor<5xf32>) -> {type_}"
    numbers = "[0.15, 0.14999995, 0.45000002, 1.0e30, 0x7FC00000]"
    module = parse_module(f"""
%c = arith.constant dense<{numbers}> : tensor<5xf32>
%0 = {cast}""")
    apply_passes(module, f"quant-convert-const{{{options}}}")
    assert _stored_constants(module) == [[5, 5, 7, -1, 0]]


def test_nearest_away_with_its_own_order_is_not_that_of_mlir_14():
    q = "tensor<1x!quant.uniform<i8:f32, 1.0:5>>"
    module = parse_module(f"""
%c = arith.constant dense<-2.5> : tensor<1xf32>
%0 = quant.qcast %c {{quant.zero_point_order = "after-rounding"}} : tensor<1xf32> to {q}
%1 = quant.qcast %c : tensor<1xf32> to {q}""")
    apply_passes(module, "quant-convert-const{rounding-mode=nearest-away}")
    assert _stored_constants(module) == [[2], [3]]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", [0.0, 1.0, -1.0]),
        ('{quant.zero_point_order = "after-rounding"}', [0.0, 2.0, 0.0]),
    ],
)
def test_fake_quantization(attributes: str, expected: list[float]):
    # The scale is 1 and the zero point 5.
    text = f"""
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %y = quant.const_fake_quant %x <-5.0:10.0> bits 4 {attributes} : tensor<3xf32>
  return %y : tensor<3xf32>
}}"""
    values = np.array([0.25, 1.5, -0.5], np.float32)
    assert run_function(text, "f", values)[0].tolist() == expected
    assert execution.compile(text)(values).tolist() == expected
    module = parse_module(text)
    apply_passes(module, "quant-convert-simulated-quantization{exact-bits=true}")
    assert str(module).count(attributes) >= 2
    assert run_function(module, "f", values)[0].tolist() == expected


def test_requantization_with_fixed_point_scales():
    """Integers round half up; a cast that states its rounding rounds expressed values."""
    a, b = (f"!quant.fixed_point<i8:f32, 1073741824p-{p}>" for p in ("31", "30:5"))
    text = f"""
func.func @f(%x: tensor<2x{a}>) -> tensor<2x{b}> {{
  %0 = quant.dcast %x : tensor<2x{a}> to tensor<2xf32>
  %1 = quant.qcast %0 ATTRIBUTES : tensor<2xf32> to tensor<2x{b}>
  return %1 : tensor<2x{b}>
}}"""
    stored = np.array([1, 3], np.int8)
    for attributes, expected in (("", [6, 7]), (ONNX, [5, 7])):
        stated = text.replace("ATTRIBUTES", attributes)
        assert run_function(stated, "f", stored)[0].tolist() == expected
        assert execution.compile(stated)(stored).tolist() == expected


# Errors


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            'quant.zero_point_order = "after"',
            "unknown zero point order 'after', available: 'before-rounding', "
            "'after-rounding'",
        ),
        (
            'quant.nan = "zero"',
            "unknown nan 'zero', available: 'storage-min', 'stored-zero'",
        ),
        (
            "quant.rounding_mode = 1 : i32",
            "unknown rounding mode '1 : i32', available: 'truncate', 'nearest-even', "
            "'nearest-away'",
        ),
        (
            'quant.rounding_mode = "truncate", quant.zero_point_order = "after-rounding"',
            "unsupported zero point order 'after-rounding' for rounding mode 'truncate'; "
            "use 'nearest-even' or 'nearest-away'",
        ),
    ],
)
@pytest.mark.parametrize(
    "cast",
    [
        "quant.qcast %x {{{}}} : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>",
        "quant.dynamic_qcast %x, %s as <i8> {{{}}} : tensor<2xf32>, f32 to tensor<2xi8>",
        "stablehlo.uniform_quantize %x {{{}}} : (tensor<2xf32>) -> "
        "tensor<2x!quant.uniform<i8:f32, 0.5>>",
    ],
)
def test_invalid_attributes(attributes: str, message: str, cast: str):
    text = f"func.func @f(%x: tensor<2xf32>, %s: f32) {{\n{cast}\n  return\n}}"
    with pytest.raises(IRError) as error:
        parse_module(text.replace("{{{}}}", f"{{{attributes}}}").replace("{{", "{"))
    name, *_ = cast.split()
    assert str(error.value).endswith(f"error: '{name}' op {message}")


def test_an_attribute_that_contradicts_the_options():
    text = _module('{quant.zero_point_order = "after-rounding"}', "i8:f32, 0.5:3", 3)
    module = parse_module(text)
    before = str(module)
    message = (
        "unsupported zero point order 'after-rounding' for rounding mode 'truncate'"
    )
    with pytest.raises(IRError) as error:
        apply_passes(module, "lower-quant-ops")
    assert f"'quant.qcast' op cannot be lowered: {message}" in str(error.value)
    assert str(module) == before
    with pytest.raises(InterpretationError) as failure:
        run_function(module, "f", FACTS[:3], rounding_mode="truncate")
    assert message in str(failure.value)


def test_verifier_raises_the_usual_exception():
    (op,) = (
        op
        for op in parse_module(_module("", "i8:f32, 0.5:3", 3)).walk()
        if isinstance(op, QuantizeCastOp)
    )
    op.attributes["quant.nan"] = op.result.type
    with pytest.raises(VerifyException, match="op unknown nan"):
        op.verify()


# StableHLO


def test_stablehlo_keeps_what_differs_from_its_own_rounding():
    module = parse_module(_module(ONNX, "u8:f32, 0.3:5", 3))
    apply_passes(module, TO_STABLEHLO)
    assert (
        'stablehlo.uniform_quantize %x {quant.nan = "storage-min", '
        'quant.zero_point_order = "after-rounding"}'
    ) in str(module)
    apply_passes(module, "stablehlo-casts-to-quant")
    assert str(module) == str(parse_module(_module(ONNX, "u8:f32, 0.3:5", 3)))


def _requantization(attributes: str) -> str:
    a, b = (f"tensor<4x!quant.uniform<i8:f32, {p}>>" for p in ("0.5", "1.0:5"))
    return f"""
func.func @f(%x: {a}) -> {b} {{
  %0 = stablehlo.uniform_quantize %x {attributes} : ({a}) -> {b}
  return %0 : {b}
}}"""


def test_requantization_of_stablehlo_with_another_rounding_is_not_that_of_integers():
    stored = np.array([1, 3, -1, 5], np.int8)
    text = _requantization('{quant.zero_point_order = "after-rounding"}')
    for module, expected in (
        (text, [5, 7, 5, 7]),
        (_requantization(""), [6, 7, 5, 8]),
    ):
        module = parse_module(module)
        apply_passes(module, "convert-quantized-stablehlo-to-linalg")
        apply_passes(module, "strip-func-quant-types")
        (result,) = run_function(module, "f", stored)
        assert result.tolist() == expected


def test_quantized_ops_are_not_composed_from_another_rounding():
    q = "tensor<4x!quant.uniform<i8:f32, 0.5>>"
    text = f"""
func.func @f(%x: {q}) -> {q} {{
  %0 = stablehlo.uniform_dequantize %x : ({q}) -> tensor<4xf32>
  %1 = stablehlo.abs %0 : tensor<4xf32>
  %2 = stablehlo.uniform_quantize %1 ATTRIBUTES : (tensor<4xf32>) -> {q}
  return %2 : {q}
}}"""
    for attributes, count in (("", 2), ('{quant.nan = "storage-min"}', 4)):
        module = parse_module(text.replace("ATTRIBUTES", attributes))
        apply_passes(module, "stablehlo-legalize-qdq-to-quantized-op")
        (function,) = module.body.block.ops
        assert len(function.regions[0].block.ops) == count
