"""The networks as quantized StableHLO, in each form that they are run in."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from examples.digits.dataset import load_digits
from examples.digits.networks import load_networks
from examples.digits.pipeline import Ranges, Variant, calibrate_network, count_correct
from examples.digits.stablehlo import (
    FORMS,
    STABLEHLO_VARIANTS,
    Difference,
    Layer,
    Stored,
    difference,
    lower,
    quantized_layers,
    run,
    stablehlo_text,
    store_images,
)
from tests.real_stablehlo import RealStableHLO
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.inspecting.verify_quant_constraints import (
    quant_constraint_violations,
)
from xdsl_quant.numerics import quantize
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.building.type_replacement import defined_values

TRAINING, TEST = load_digits()
NETWORKS = load_networks()
PER_LAYER, PER_AXIS = STABLEHLO_VARIANTS

# How many digits of the test half are read correctly, and how many of their 8990 logits
# integers make differ from floats, and by how many units at most.
RESULTS = {
    ("mlp", PER_LAYER): (880, Difference(0, 0)),
    ("mlp", PER_AXIS): (877, Difference(0, 0)),
    ("convolution", PER_LAYER): (887, Difference(4, 1)),
    ("convolution", PER_AXIS): (887, Difference(2, 1)),
}

INTEGER_FORMS = [form for form in FORMS if form != "qdq"]

for_each_variant = pytest.mark.parametrize(
    ("name", "variant"), [*product(NETWORKS, STABLEHLO_VARIANTS)], ids=str
)
for_each_form = pytest.mark.parametrize("form", FORMS)


@cache
def ranges(name: str) -> Ranges:
    return calibrate_network(NETWORKS[name], TRAINING.images)


@cache
def layers(name: str, variant: Variant) -> list[Layer]:
    return quantized_layers(name, ranges(name), variant)


def images(name: str, variant: Variant, count: int | None = None) -> Stored:
    chosen = TEST.images[:count]
    return store_images(NETWORKS[name], layers(name, variant), chosen)


def text(name: str, variant: Variant, count: int) -> str:
    return stablehlo_text(NETWORKS[name], layers(name, variant), count)


@cache
def lowered(name: str, variant: Variant, form: str) -> ModuleOp:
    return lower(text(name, variant, len(TEST.labels)), form)


@cache
def logits(name: str, variant: Variant, form: str) -> Stored:
    return run(lowered(name, variant, form), images(name, variant))


# The module


@pytest.mark.sampled(2)
@for_each_variant
def test_types(name: str, variant: Variant):
    for layer in layers(name, variant):
        weight = layer.weight
        assert (weight.storage, weight.storage_min, weight.storage_max) == (
            "i8",
            -127,
            127,
        )
        axis = layer.weights.ndim - 1 if variant is PER_AXIS else None
        assert weight.quantized_dimension == axis
        assert weight.scales.size == (1 if axis is None else len(layer.bias))
        for activation in (layer.input, layer.result):
            assert activation.storage == "i8"
            assert activation.scales.size == 1
        sums = layer.sums(3)
        assert sums.storage == "i32"
        assert not sums.has_zero_points
        assert sums.quantized_dimension == (None if axis is None else 3)
        assert np.array_equal(sums.scales, layer.input.scales * weight.scales)


@for_each_variant
def test_no_rule_is_violated(name: str, variant: Variant):
    module = parse_module(text(name, variant, 5))
    assert quant_constraint_violations(module) == []
    assert quant_constraint_violations(module, "tflite") == []


@for_each_variant
def test_rules_know_what_is_a_weight(name: str, variant: Variant):
    wrong = text(name, variant, 5).replace("i8<-127:127>", "i8")
    violations = quant_constraint_violations(parse_module(wrong), "tflite")
    assert [violation.rule for violation in violations] == ["weight-range"] * 3


@pytest.mark.sampled(6)
@for_each_variant
def test_real_stablehlo_computes_the_same(name: str, variant: Variant):
    real = RealStableHLO()
    module = text(name, variant, 24)
    stored = images(name, variant, 24)
    (expected,) = real.results(
        module, stored, passes="stablehlo-legalize-quantized-op-to-qdq"
    )
    assert expected.dtype == np.int8
    assert np.array_equal(logits(name, variant, "qdq")[:24], expected)


# What is computed


@pytest.mark.sampled(0)
@for_each_form
@for_each_variant
def test_correct_digits(name: str, variant: Variant, form: str):
    correct, expected = RESULTS[name, variant]
    found = logits(name, variant, form)
    assert found.shape == (899, 10)
    assert count_correct(found, TEST) == correct
    if form == "qdq":
        expected = Difference(0, 0)
    assert difference(found, logits(name, variant, "qdq")) == expected


@pytest.mark.sampled(7)
@for_each_form
@for_each_variant
def test_interpreter_and_compiled_code_agree(name: str, variant: Variant, form: str):
    module = lowered(name, variant, form)
    interpreted = run(module, images(name, variant), interpreted=True)
    assert np.array_equal(interpreted, logits(name, variant, form))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("form", INTEGER_FORMS)
@for_each_variant
def test_integers_give_the_exact_result(name: str, variant: Variant, form: str):
    value: NDArray[Any] = images(name, variant)
    for layer in layers(name, variant):
        value = result_by_numpy(layer, value)
    assert np.array_equal(logits(name, variant, form), value)


def result_by_numpy(layer: Layer, stored: NDArray[Any]) -> NDArray[Any]:
    """The stored result of a layer: exact but for the quotient of scales in f64."""
    weights = quantize(layer.weights, layer.weight).astype(np.float64)
    centred = stored - layer.input.zero_points.astype(np.float64)
    if layer.is_dense:
        sums = centred.reshape(len(stored), -1) @ weights
    else:
        windows = sliding_window_view(centred, weights.shape[:2], (1, 2))
        windows = windows[:, :: layer.stride, :: layer.stride]
        sums = np.einsum("nijchw,hwco->nijo", windows, weights)
    scales = layer.sums(0).scales
    sums += np.round(layer.bias / scales)
    # Up in the middle.
    rounded = np.floor(sums * (scales / layer.result.scales) + 0.5)
    rounded += layer.result.zero_points
    low = layer.result.zero_points if layer.has_relu else -128
    return np.clip(rounded, low, 127)


# Integers alone


def float_types(module: ModuleOp) -> set[Attribute]:
    """All floating-point types of values, tensors of them included, and of signatures."""
    types: list[Attribute] = []
    for op in module.walk():
        types += [value.type for value in (*op.operands, *defined_values(op))]
        if isinstance(op, FuncOp):
            types += [*op.function_type.inputs, *op.function_type.outputs]
    element_types = {scalar_or_element_type(type_) for type_ in types}
    return {type_ for type_ in element_types if isinstance(type_, AnyFloat)}


@pytest.mark.sampled(4)
@for_each_variant
def test_no_floats_are_left(name: str, variant: Variant):
    assert f32 in float_types(lowered(name, variant, "qdq"))
    for form in INTEGER_FORMS:
        module = lowered(name, variant, form)
        assert float_types(module) == set()
        assert {op.name.split(".")[0] for op in module.walk()} <= {
            "builtin",
            "func",
            "arith",
            "linalg",
            "tensor",
        }


@for_each_variant
def test_scales_are_integers(name: str, variant: Variant):
    module = parse_module(text(name, variant, 5))
    apply_passes(module, "quant-scales-to-fixed-point")
    assert "quant.fixed_point<" in str(module)
    assert "quant.uniform<" not in str(module)
