"""Bit casts, reduced precision and `map`, compared with StableHLO's own interpreter."""

from math import prod

import numpy as np
import pytest

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    TYPES,
    Array,
    function,
    run,
    same_bits,
    stablehlo_results,
    tensor,
)
from tests.unit.frontends.stablehlo.lowering.linalg.test_elementwise import (
    special_values,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

FORMATS = ((5, 10), (8, 7), (8, 23), (4, 3), (5, 2), (11, 52), (2, 0), (1, 3), (8, 1))


def _random_bits(shape: tuple[int, ...], name: str) -> Array:
    dtype = np.dtype(TYPES[name])
    octets = np.random.default_rng(0).integers(0, 256, prod(shape) * dtype.itemsize)
    return octets.astype(np.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize(
    ("source", "shape", "target", "result_shape"),
    [
        ("f32", (3,), "i32", (3,)),
        ("i32", (3,), "f32", (3,)),
        ("f64", (3,), "i32", (3, 2)),
        ("i8", (2, 4), "f32", (2,)),
        ("f32", (2,), "ui8", (2, 4)),
        ("i16", (4,), "i64", ()),
        ("f16", (2, 2), "f32", (2,)),
    ],
)
def test_bit_casts(
    source: str, shape: tuple[int, ...], target: str, result_shape: tuple[int, ...]
):
    values = _random_bits(shape, source)
    types = tensor(shape, source), tensor(result_shape, target)
    op = f"stablehlo.bitcast_convert %0 : ({types[0]}) -> {types[1]}"
    (actual,) = run(function(types[:1], [op], types[1:]), values)
    expected = values.reshape(-1).view(TYPES[target]).reshape(result_shape)
    same_bits(actual, expected)


def test_bit_casts_of_unknown_sizes():
    types = "tensor<?x2xf32>", "tensor<?x2xi32>"
    op = f"stablehlo.bitcast_convert %0 : ({types[0]}) -> {types[1]}"
    values = _random_bits((3, 2), "f32")
    (actual,) = run(function(types[:1], [op], types[1:]), values)
    same_bits(actual, values.view(np.int32))


def test_bit_casts_of_four_bits_and_quantized_types():
    """The first of two elements has the low bits of a byte."""
    quantized = "tensor<2x!quant.uniform<i8:f32, 0.5>>"
    text = function(
        ["tensor<2xi8>"],
        [
            "stablehlo.bitcast_convert %0 : (tensor<2xi8>) -> tensor<2x2xi4>",
            f"stablehlo.bitcast_convert %0 : (tensor<2xi8>) -> {quantized}",
        ],
        ["tensor<2x2xi4>", quantized],
    )
    module = parse_module(text)
    apply_passes(module, "convert-stablehlo-to-linalg")
    values = np.array([0x21, -2], np.int8)
    parts, stored = run_function(module, None, values)
    assert np.asarray(parts).tolist() == [[1, 2], [-2, -1]]
    assert np.asarray(stored).tolist() == [0x21, -2]


def test_bit_casts_to_another_shape_have_no_conversion():
    """StableHLO's verifier accepts this module, which has no meaning."""
    module = parse_module(
        function(
            ["tensor<2xf32>"],
            ["stablehlo.bitcast_convert %0 : (tensor<2xf32>) -> tensor<i32>"],
            ["tensor<i32>"],
        )
    )
    with pytest.raises(IRError, match="has a result of another shape"):
        apply_passes(module, "convert-stablehlo-to-linalg")


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_reduced_precision(name: str):
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore", under="ignore"):
        random = (rng.normal(0, 1, 100) * 10.0 ** rng.uniform(-7, 7, 100)).astype(
            TYPES[name]
        )
    values = np.concatenate([special_values(name), random])
    type_ = tensor(values.shape, name)
    ops = [
        f"stablehlo.reduce_precision %0, format = e{exponent}m{mantissa} : {type_}"
        for exponent, mantissa in FORMATS
    ]
    text = function([type_], ops, [type_] * len(ops))
    expected = stablehlo_results(text, values)
    for actual, wanted in zip(run(text, values), expected, strict=True):
        same_bits(actual, wanted)


def test_map():
    type_ = "tensor<2x3xf32>"
    op = (
        '"stablehlo.map"(%0, %1) <{dimensions = array<i64: 0, 1>}> ({\n'
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "%s = stablehlo.subtract %a, %b : tensor<f32>\n"
        "%c = stablehlo.compare LT, %s, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "stablehlo.return %c : tensor<i1> }) : "
        f"({type_}, {type_}) -> tensor<2x3xi1>"
    )
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    other = np.flip(values) - 2
    (actual,) = run(function([type_, type_], [op], ["tensor<2x3xi1>"]), values, other)
    same_bits(actual, values - other < values)
