"""Certificates: bounds hold for drawn inputs, and refusals name the op."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from tests.oracles.certificate_parts import CHECKS
from tests.oracles.certificates import networks, violations
from xdsl_quant import execution
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.frontends.tflite.formulas.rows import softmax
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.proving import Certificate, Region, certify
from xdsl_quant.proving.certificates import certificate, witnesses
from xdsl_quant.proving.certificates.bounds import Variables
from xdsl_quant.proving.certificates.functions import FUNCTIONS
from xdsl_quant.proving.certificates.linear_maps import (
    Convolution,
    ElementScaling,
    Gathering,
    LinearMap,
    Matrix,
    WindowGeometry,
)
from xdsl_quant.proving.certificates.linear_maps import (
    Path as MapPath,
)
from xdsl_quant.proving.certificates.network_bounds import NetworkBounds
from xdsl_quant.proving.certificates.readers import read_network
from xdsl_quant.proving.certificates.tfl_readers import softmax_error
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import as_module

EXAMPLES = Path("docs/examples")
RADIUS = 0.05


@pytest.fixture(scope="module")
def wine() -> tuple[ModuleOp, Certificate]:
    quantized = quantize(EXAMPLES / "wine.tflite", EXAMPLES / "wine_samples.npz").module
    with np.load(EXAMPLES / "wine_test.npz") as file:
        samples = file[file.files[0]][:8]
    region = Region.ball(samples, RADIUS)
    return quantized, certify(quantized, EXAMPLES / "wine.tflite", region, tries=30)


def test_region_of_a_model_with_several_rows():
    region = Region.calibrated(as_module(EXAMPLES / "layers_int8.tflite"))
    assert region.low.shape == (1, 4, 6)
    assert np.all(region.low < region.high)
    with pytest.raises(ValueError, match="quantized model first"):
        Region.calibrated(as_module(EXAMPLES / "layers.tflite"))


def test_certificate_bounds_what_the_search_finds(wine: tuple[ModuleOp, Certificate]):
    _, found = wine
    assert len(found.regions) == 8
    assert all(0 < each.observed <= each.error for each in found.regions)
    # The search reaches a tenth of the bound, or the bound is useless.
    assert found.error < 10 * found.observed
    assert found.count("agreement", "certified") >= 6
    assert json.loads(found.json())["regions"][0]["verdicts"]["float"] == "certified"
    assert "error of a result in 8 regions: at most" in str(found)


def test_observed_error_is_the_error_of_its_argument(
    wine: tuple[ModuleOp, Certificate],
):
    quantized, found = wine
    region = found.regions[0]
    argument = np.array(region.argument, np.float32).reshape(found.shape)
    results = [
        np.asarray(run_function(model, "main", argument)[0], np.float64)
        for model in (quantized, as_module(EXAMPLES / "wine.tflite"))
    ]
    assert np.abs(results[0] - results[1]).max() == region.observed


def test_witnesses_have_other_classes():
    with np.load(EXAMPLES / "wine_test.npz") as file:
        samples = file[file.files[0]][:2]
    model = EXAMPLES / "wine.tflite"
    quantized = quantize(model, EXAMPLES / "wine_samples.npz").module
    found = certify(quantized, model, Region.ball(samples, 1.5), tries=60)
    refuted = {claim: (number, x) for number, claim, x in witnesses(found)}
    number, numbers = refuted["float"]
    argument = np.array(numbers, np.float32).reshape(found.shape)
    (result,) = run_function(model, "main", argument)
    assert result.argmax() != found.regions[number].classes[0]
    assert np.abs(argument - samples[number]).max() <= 1.5


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "least"),
    [("residual tfl", 0.02), ("attention stablehlo", 0.002), ("attention tfl", 0.01)],
)
def test_bounds_hold_for_all_ops(
    name: str, least: float, monkeypatch: pytest.MonkeyPatch
):
    def not_installed(*_: object, **__: object):
        raise ImportError

    # Compilation takes longer than the few runs of the interpreter.
    monkeypatch.setattr(execution, "compile", not_installed)
    network = networks()[name]()
    few = {"samples": network.samples[:12], "centers": network.centers[:2], "rows": 12}
    network = replace(network, **few)
    modules = network.modules(1)
    found = certify(*modules, network.region, tries=0)
    wrong, part = violations(network, modules, found, 24, seed=3, batch=1)
    assert wrong == 0
    # If bounds were far too wide, the test would not notice errors in them.
    assert part > least


def test_op_without_transfer_function_is_named():
    text = """
    func.func @main(%0: tensor<1x4xf32>) -> tensor<1x4xf32> {
      %1 = "tfl.sin"(%0) : (tensor<1x4xf32>) -> tensor<1x4xf32>
      func.return %1 : tensor<1x4xf32>
    }"""
    region = Region.box(np.zeros((1, 4)), np.ones((1, 4)))
    with pytest.raises(PassFailedException, match=r"'tfl\.sin' op cannot be"):
        certify(text, text, region)


_MASKED = """
func.func public @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
  %mask = stablehlo.constant dense<[true, true, false]> : tensor<3xi1>
  %least = stablehlo.constant dense<-1.0e9> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = func.call @where(%mask, %x, %least)
    : (tensor<3xi1>, tensor<1x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %1 = stablehlo.reduce(%0 init: %lowest) applies stablehlo.maximum across
    dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<1xf32>) -> tensor<1x3xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<1x3xf32>
  %4 = stablehlo.exponential %3 : tensor<1x3xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across
    dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<1xf32>) -> tensor<1x3xf32>
  %7 = stablehlo.divide %4, %6 : tensor<1x3xf32>
  return %7 : tensor<1x3xf32>
}
func.func private @where(%mask: tensor<3xi1>, %x: tensor<1x3xf32>,
    %y: tensor<f32>) -> tensor<1x3xf32> {
  %0 = stablehlo.broadcast_in_dim %mask, dims = [1] : (tensor<3xi1>) -> tensor<1x3xi1>
  %1 = stablehlo.broadcast_in_dim %y, dims = [] : (tensor<f32>) -> tensor<1x3xf32>
  %2 = stablehlo.select %0, %x, %1 : tensor<1x3xi1>, tensor<1x3xf32>
  return %2 : tensor<1x3xf32>
}"""


def test_masked_softmax_differs_from_itself_by_rounding_errors():
    found = certify(_MASKED, _MASKED, _box(1, 0.01), tries=20)
    assert 0 < found.error < 1e-3
    (kernel,) = (each for each in found.kernels if each.op == "stablehlo.divide")
    assert 0.5 < kernel.magnitude < 0.56


def test_divisor_that_may_be_zero_is_refused():
    text = """
    func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
      %0 = stablehlo.tanh %x : tensor<1x3xf32>
      %1 = stablehlo.divide %x, %0 : tensor<1x3xf32>
      return %1 : tensor<1x3xf32>
    }"""
    region = Region.box(np.full((1, 3), 0.5), np.ones((1, 3)))
    assert certify(text, text, region, tries=0).error < 1e-3
    with pytest.raises(PassFailedException, match="'reciprocal' may be -"):
        certify(text, text, _box(1, 1.0))


def test_tables_are_bounded_where_their_function_has_no_result():
    text = """
    func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
      %0 = stablehlo.rsqrt %x : tensor<1x3xf32>
      return %0 : tensor<1x3xf32>
    }"""
    stored, inverse = (
        f"tensor<1x3x!quant.uniform<i8:f32, {scale}:-128>>" for scale in (0.05, 0.03)
    )
    quantized = f"""
    func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {{
      %0 = stablehlo.uniform_quantize %x : (tensor<1x3xf32>) -> {stored}
      %1 = stablehlo.rsqrt %0 : ({stored}) -> {inverse}
      %2 = stablehlo.uniform_dequantize %1 : ({inverse}) -> tensor<1x3xf32>
      return %2 : tensor<1x3xf32>
    }}"""
    # Arguments below half of a scale are stored as 0, whose result saturates.
    region = Region.box(np.full((1, 3), 0.02), np.full((1, 3), 0.1))
    found = certify(quantized, text, region, tries=40)
    assert 1.5 < found.observed <= found.error < 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(Region.ball, np.zeros((2, 3)), -1.0), "radius of at least 0"),
        (
            partial(Region.ball, np.ones((1, 3)), 0.1, (0.0, 0.5)),
            "outside of the limits",
        ),
        (partial(Region.box, np.ones(3), np.zeros(3)), "exceeds the upper bound"),
        (partial(Region.box, np.full(3, np.nan), np.ones(3)), "not finite"),
        (partial(Region.ball, np.ones((1, 3)), 1e40), "exceeds the range of f32"),
        (partial(Region.box, np.ones(3), np.ones(4)), "equal shapes"),
    ],
)
def test_invalid_regions_are_refused(make: partial[Region], message: str):
    with pytest.raises(ValueError, match=message):
        make()


def test_region_must_match_the_argument():
    model = EXAMPLES / "wine.tflite"
    with pytest.raises(ValueError, match="regions of 4 elements do not match"):
        certify(model, model, Region.ball(np.zeros((1, 4)), 0.1))


_PRODUCT = """
!q = !quant.uniform<i8:f32, 0.05>
!w = !quant.uniform<i8:f32, 0.02>
!a = !quant.uniform<i32:f32, 0.001>
func.func @main(%x: tensor<ROWSx3xf32>) -> tensor<ROWSx2xf32> {
  %q = stablehlo.uniform_quantize %x : (tensor<ROWSx3xf32>) -> tensor<ROWSx3x!q>
  %0 = stablehlo.constant dense<[[50, -100], [25, 127], [75, -12]]> : tensor<3x2xi8>
  %1 = stablehlo.constant dense<BIAS> : tensor<ROWSx2xi32>
  %w = quant.scast %0 : tensor<3x2xi8> to tensor<3x2x!w>
  %b = quant.scast %1 : tensor<ROWSx2xi32> to tensor<ROWSx2x!a>
  %2 = stablehlo.dot_general %q, %w, contracting_dims = [1] x [0]
    : (tensor<ROWSx3x!q>, tensor<3x2x!w>) -> tensor<ROWSx2x!a>
  %3 = stablehlo.add %2, %b
    : (tensor<ROWSx2x!a>, tensor<ROWSx2x!a>) -> tensor<ROWSx2x!a>
  %y = stablehlo.uniform_dequantize %3 : (tensor<ROWSx2x!a>) -> tensor<ROWSx2xf32>
  return %y : tensor<ROWSx2xf32>
}"""
_FLOAT_PRODUCT = """
func.func @main(%x: tensor<ROWSx3xf32>) -> tensor<ROWSx2xf32> {
  %w = stablehlo.constant dense<[[1.0, -2.0], [0.5, 2.54], [1.5, -0.24]]>
    : tensor<3x2xf32>
  %b = stablehlo.constant dense<BIAS> : tensor<ROWSx2xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<ROWSx3xf32>, tensor<3x2xf32>) -> tensor<ROWSx2xf32>
  %y = stablehlo.add %0, %b : tensor<ROWSx2xf32>
  return %y : tensor<ROWSx2xf32>
}"""


def _product(rows: int = 1, bias: int = 0) -> tuple[str, str]:
    """Return a quantized and a float product with a bias, given as a stored value."""
    texts = (_PRODUCT, str(bias)), (_FLOAT_PRODUCT, f"{bias * 0.001:.9e}")
    quantized, number = (
        text.replace("ROWS", str(rows)).replace("BIAS", value) for text, value in texts
    )
    return quantized, number


@pytest.mark.parametrize("scale", ["1.0e-9", "5.9604644775390625e-08"])
def test_sum_whose_rescale_overflows_is_refused(scale: str):
    """
    The kernel adds in units of 2 / 2**20 of the larger scale, and shifts left: by 5 bits
    for the scale 2**-24.
    """
    text = """
    func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
      %1 = "tfl.add"(%x, %x) {fused_activation_function = "RELU"}
        : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
      return %1 : tensor<1x3xf32>
    }"""
    quantized = """
    !q = !quant.uniform<i8:f32, 0.5>
    !r = !quant.uniform<i8:f32, SCALE>
    func.func @main(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
      %q = "tfl.quantize"(%x) <{qtype = tensor<1x3x!q>}>
        : (tensor<1x3xf32>) -> tensor<1x3x!q>
      %1 = "tfl.add"(%q, %q) {fused_activation_function = "RELU"}
        : (tensor<1x3x!q>, tensor<1x3x!q>) -> tensor<1x3x!r>
      %y = "tfl.dequantize"(%1) : (tensor<1x3x!r>) -> tensor<1x3xf32>
      return %y : tensor<1x3xf32>
    }""".replace("SCALE", scale)
    region = Region.box(np.full((1, 3), -50.5), np.full((1, 3), -50.0))
    with pytest.raises(PassFailedException, match=r"'tfl.add' op may overflow"):
        certify(quantized, text, region)


def _box(rows: int, largest: float) -> Region:
    ends = np.full((rows, 3), largest)
    return Region.box(-ends, ends)


def test_accumulator_that_saturates_is_refused():
    """A 32-bit sum of StableHLO saturates, also if it is dequantized at once."""
    with pytest.raises(PassFailedException, match="may exceed the range of its type"):
        certify(*_product(bias=2**31 - 1), _box(1, 6.0))


def test_sum_that_overflows_f32_is_refused():
    with pytest.raises(PassFailedException, match="may exceed the range of its type"):
        certify(*_product(), _box(1, 3e38))


def _sums(constants: Sequence[float]) -> str:
    """Return a network that adds constants one after the other."""
    lines = [
        f"%c{n} = stablehlo.constant dense<{each:.12e}> : tensor<1xf32>\n"
        f"%{n + 1} = stablehlo.add %{n}, %c{n} : tensor<1xf32>"
        for n, each in enumerate(constants)
    ]
    body = "\n".join([*lines, f"return %{len(lines)} : tensor<1xf32>"])
    return f"func.func @main(%0: tensor<1xf32>) -> tensor<1xf32> {{\n{body}\n}}"


@pytest.mark.parametrize("operands", ["%x, %c", "%c, %x"])
@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_operands_of_limits_match(name: str, operands: str):
    text = f"""
    func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {{
      %c = stablehlo.constant dense<1.0> : tensor<1xf32>
      %y = stablehlo.{name} {operands} : tensor<1xf32>
      return %y : tensor<1xf32>
    }}"""
    found = certify(text, text, Region.box(np.full(1, -5.0), np.full(1, 7.0)), tries=1)
    assert found.error < 1e-9


def test_roundings_of_many_sums_are_bounded():
    # Each sum rounds up by almost half a unit in the last place.
    many, one = _sums([2.0**-24 * 1.0000001] * 200), _sums([200 * 2.0**-24])
    for pair in ((many, one), (one, many)):
        found = certify(*pair, Region.box(np.ones(1), np.ones(1)), tries=0)
        assert 200 * 2.0**-24 == found.observed <= found.error < 2.0**-16


@pytest.mark.parametrize(("name", "argument"), [("add", 1e-12), ("multiply", 1.0)])
def test_constants_are_rounded_like_those_of_the_float_model(
    name: str, argument: float
):
    text = """
    func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
      %one = stablehlo.constant dense<1.0> : tensor<1xf32>
      %small = stablehlo.constant dense<1.0e-9> : tensor<1xf32>
      CONSTANTS
      %y = stablehlo.NAME %x, %d : tensor<1xf32>
      return %y : tensor<1xf32>
    }""".replace("NAME", name)
    computed = """%c = stablehlo.add %one, %small : tensor<1xf32>
      %d = stablehlo.subtract %c, %one : tensor<1xf32>"""
    known = text.replace("CONSTANTS", "").replace("%d", "%small")
    computed = text.replace("CONSTANTS", computed)
    region = Region.box(*[np.full(1, argument)] * 2)
    # The computed constant is 0.
    found = certify(known, computed, region, tries=0)
    assert np.isclose(found.observed, 1e-9, rtol=1e-6)
    assert found.observed <= found.error < 1.1e-9


def test_computed_constants_of_unknown_roundings_are_refused():
    text = """
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %numbers = stablehlo.constant dense<[1.0, 1.0e-9]> : tensor<2xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %c = stablehlo.reduce(%numbers init: %zero) applies stablehlo.add across
        dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      %y = stablehlo.add %x, %c : tensor<f32>
      return %y : tensor<f32>
    }"""
    region = Region.box(np.ones(()), np.ones(()))
    with pytest.raises(
        PassFailedException, match=r"reduce.* operands that are all con"
    ):
        certify(text, text, region)


@pytest.mark.parametrize("zero_point", [0, -128])
def test_stored_values_beyond_f32_are_refused(zero_point: int):
    text = f"""
    func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {{
      %q = "quant.qcast"(%x) : (tensor<1xf32>)
        -> tensor<1x!quant.uniform<i8:f32, 5.0e37:{zero_point}>>
      %y = "quant.dcast"(%q) : (tensor<1x!quant.uniform<i8:f32, 5.0e37:{zero_point}>>)
        -> tensor<1xf32>
      return %y : tensor<1xf32>
    }}"""
    # 6.8 rounds to 7, and 7 * 5e37 exceeds `f32`.
    with pytest.raises(PassFailedException, match="may overflow"):
        certify(text, _sums([]), Region.box(*[np.full(1, 6.8 * 5e37)] * 2))


@pytest.mark.parametrize(
    ("quantized", "error"), [(0.75, 0.25), (np.inf, np.inf), (-np.inf, np.inf)]
)
def test_argument_that_violates_a_bound_is_no_result(
    quantized: float, error: float, monkeypatch: pytest.MonkeyPatch
):
    # A wrong run stands for a wrong bound.
    results = iter([quantized, 1.0])

    def run(*_: object) -> Callable[[object], NDArray[np.float64]]:
        result = np.full(1, next(results))
        return lambda _: result

    monkeypatch.setattr(certificate, "runner", run)
    with pytest.raises(AssertionError, match=f"error {error:g} exceeds the bound"):
        certify(_sums([]), _sums([]), Region.box(np.ones(1), np.ones(1)), tries=0)


def test_rows_of_a_batch_have_no_single_class():
    (region,) = certify(*_product(2), _box(2, 1.0), tries=0).regions
    assert not region.verdicts
    (region,) = certify(*_product(), _box(1, 1.0), tries=0).regions
    assert region.verdicts


def test_quantized_float_model_is_refused():
    quantized, number = _product()
    with pytest.raises(ValueError, match="the float model is quantized by"):
        certify(quantized, quantized, _box(1, 1.0))
    with pytest.raises(ValueError, match="the float model is quantized by"):
        certify(number, quantized, _box(1, 1.0))


def test_floats_of_other_types_are_refused():
    """The bounds of rounding errors are those of `f32`."""
    text = _FLOAT_PRODUCT.replace("ROWS", "1").replace("BIAS", "0.5")
    text = text.replace("f32", "f16")
    with pytest.raises(ValueError, match="argument of type tensor<1x3xf16>"):
        certify(text, text, _box(1, 1.0))


@pytest.mark.parametrize(
    ("window", "sizes", "found"),
    [
        ("base_dilations = array<i64: 1, 2, 2, 1>", "1x6x6x1", "dilated operand"),
        ("[0, 0], [-1, 0]", "1x2x3x1", "negative padding"),
        ("[0, 0], [0, -1]", "1x2x3x1", "negative padding"),
        ("[0, 0], [2, 0]", "1x5x3x1", "window of padding"),
        ("[1, 0], [0, 0]", "2x3x3x1", "along other dimensions"),
        ("[0, 1], [0, 0]", "2x3x3x1", "along other dimensions"),
    ],
)
def test_windows_without_transfer_function_are_refused(
    window: str, sizes: str, found: str
):
    result, attribute = f"tensor<{sizes}xf32>", window
    if window.startswith("["):
        attribute = f"padding = dense<[{window}, [0, 0], [0, 0]]> : tensor<4x2xi64>"
    text = f"""
    func.func @main(%x: tensor<1x4x4x1xf32>) -> {result} {{
      %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %1 = "stablehlo.reduce_window"(%x, %0) <{{
        window_dimensions = array<i64: 1, 2, 2, 1>, {attribute}}}> ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %2 = stablehlo.maximum %a, %b : tensor<f32>
          stablehlo.return %2 : tensor<f32>
      }}) : (tensor<1x4x4x1xf32>, tensor<f32>) -> {result}
      return %1 : {result}
    }}"""
    region = Region.box(np.zeros((1, 4, 4, 1)), np.ones((1, 4, 4, 1)))
    with pytest.raises(PassFailedException, match=found):
        certify(text, text, region)


_SPATIAL = """
func.func @main(%x: tensor<1x5x4x1xf32>) -> tensor<1x4x4x1xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.constant dense<[[[[0.5]], [[2.0]]], [[[-1.0]], [[3.0]]]]>
      : tensor<2x2x1x1xf32>
  %0 = stablehlo.pad %x, %zero, low = [0, 1, 0, 0], high = [0, 0, 1, 0],
      interior = [0, 0, 0, 0]
      : (tensor<1x5x4x1xf32>, tensor<f32>) -> tensor<1x6x5x1xf32>
  %1 = stablehlo.convolution(%0, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {rhs_dilate = [2, 1]} {
      batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x6x5x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x4x4x1xf32>
  func.return %1 : tensor<1x4x4x1xf32>
}
"""


def test_bounds_of_one_argument_match_its_result():
    argument = np.random.default_rng(3).normal(size=(1, 5, 4, 1)).astype(np.float32)
    ends = argument.reshape(1, -1).astype(np.float64)
    network = read_network(entry_function(as_module(_SPATIAL), None))
    result = NetworkBounds.of(network, ends, ends).variable(network.result)
    (found,) = run_function(as_module(_SPATIAL), "main", argument)
    np.testing.assert_allclose(result.low[0], found.ravel(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.high[0], found.ravel(), rtol=1e-5, atol=1e-5)


# Parts


def _maps() -> list[LinearMap]:
    rng = np.random.default_rng(0)
    window = WindowGeometry((2, 5, 6, 4), (2, 1), (1, 2), ((1, 1), (0, 2)))
    return [
        Matrix(3, rng.normal(size=(4, 5))),
        Convolution(window, rng.normal(size=(3, 2, 1, 4, 3))),
        Convolution(window, rng.normal(size=(3, 2, 2, 2, 3))),
        Convolution(window, rng.normal(size=(3, 2, 4, 1, 1))),
        ElementScaling(rng.normal(size=7)),
        Gathering(np.array([2, -1, 0, 2]), 4),
    ]


@pytest.mark.parametrize("linear", _maps(), ids=lambda each: type(each).__name__)
def test_transposes_are_adjoint(linear: LinearMap):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(3, linear.inputs)), rng.normal(size=(3, linear.outputs))
    mapped = linear.apply(x)
    assert mapped.shape == y.shape
    products = (mapped * y).sum(axis=1), (x * linear.transpose(y)).sum(axis=1)
    np.testing.assert_allclose(*products, rtol=1e-12)
    assert np.all(np.abs(mapped) <= linear.magnitude().apply(np.abs(x)) + 1e-12)


def test_back_substitution_lets_errors_cancel():
    variables = Variables(1)
    x = variables.input(np.array([[-1.0, -1.0]]), np.array([[1.0, 1.0]]))
    paths = [MapPath([Matrix(1, np.array([[1.0], [sign]]))]) for sign in (1.0, -1.0)]
    total, change = (variables.define([(x, path)], np.zeros(1)) for path in paths)
    rows = np.ones((1, 1, 1))
    low, high = variables.bound({total: rows, change: -rows})
    # (a + b) - (a - b) = 2 b; intervals alone give -4 to 4.
    assert -2 - 1e-8 < low[0, 0] <= -2
    assert 2 <= high[0, 0] < 2 + 1e-8


@pytest.mark.parametrize("name", FUNCTIONS)
def test_slopes_bound_difference_quotients(name: str):
    function = FUNCTIONS[name]
    rng = np.random.default_rng(2)
    ends = np.sort(rng.normal(0, 3, (2000, 2)), axis=1)
    if function.domain == 0:
        ends = np.exp(ends)
    smallest, largest = function.slopes(ends[:, 0], ends[:, 1])
    quotient = (
        np.diff(function.compute(ends), axis=1)[:, 0] / np.diff(ends, axis=1)[:, 0]
    )
    error = 1e-7 * (1 + np.abs(quotient))
    assert np.all((smallest <= quotient + error) & (quotient - error <= largest))
    points = ends[:, :1] + np.diff(ends, axis=1) * np.linspace(0, 1, 9)
    least, most = function.range(ends[:, 0], ends[:, 1])
    results = function.compute(points)
    error = 1e-12 * (1 + np.abs(results).max(axis=1))
    assert np.all(least - error <= results.min(axis=1))
    assert np.all(results.max(axis=1) <= most + error)


@pytest.mark.parametrize("part", [each for each in CHECKS if each != "slopes"])
def test_parts_of_the_analysis_hold_for_drawn_values(part: str):
    assert CHECKS[part]()


@pytest.mark.parametrize("scale", [1e-3, 0.023, 0.3])
@pytest.mark.parametrize("length", [1, 3, 40])
def test_softmax_kernel_is_within_its_error(scale: float, length: int):
    rng = np.random.default_rng(4)
    spread = rng.choice([2, 20, 256], (500, 1))
    stored = rng.integers(0, 256, (500, length)) % spread - 128
    operand = Quantized(stored, QuantizationParameters(np.float32(scale)))
    result = QuantizationParameters(1 / 256, -128)
    found = (softmax(operand, result) + 128) / 256
    powers = np.exp(
        float(np.float32(scale)) * (stored - stored.max(axis=1, keepdims=True))
    )
    exact = powers / powers.sum(axis=1, keepdims=True)
    limit = softmax_error(float(np.float32(scale)), 1.0, length) + 0.5 / 256
    # A result of 1 saturates to the largest stored value.
    assert np.abs(found - np.minimum(exact, 255 / 256)).max() <= limit
    # The error is that of 19 fractional bits, far below the rounding to stored values.
    assert limit < 0.53 / 256
