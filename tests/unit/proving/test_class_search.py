"""Certain classes of one network: slopes, multipliers, cases."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from examples.digits.dataset import load_digits
from tests.oracles.certificates import drawn_inputs, networks
from xdsl_quant.proving import Region, certify
from xdsl_quant.proving.certificates import attacks
from xdsl_quant.proving.certificates.bounds import Corners, Lines, Variable, Variables
from xdsl_quant.proving.certificates.class_search import smallest_leads
from xdsl_quant.proving.certificates.network_bounds import NetworkBounds
from xdsl_quant.proving.certificates.networks import Argument, Function, Network
from xdsl_quant.proving.certificates.readers import read_network
from xdsl_quant.proving.certificates.slopes import SlopeSearch
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module

Floats = NDArray[np.float64]
ONE = np.ones((1, 1))


def _relu(low: float, high: float) -> tuple[Variable, Variable]:
    """Return an input and the larger of it and 0, with a lower line of slope 0."""
    variables = Variables(1)
    x = variables.input(low * ONE, high * ONE)
    slope = high / (high - low) * ONE
    corners = Corners(0 * ONE, 0 * ONE, np.ones((1, 1), np.bool_))
    lines = Lines(x, 0 * ONE, 0 * ONE, slope, -slope * low, corners)
    return x, variables.enclose(lines, 0 * ONE)


def _bound(
    expression: dict[Variable, float],
    rounds: int,
    sides: dict[Variable, tuple[Floats, Floats]] | None = None,
) -> float:
    rows = {each: np.full((1, 1, 1), factor) for each, factor in expression.items()}
    return float(SlopeSearch(rows, sides or {}).bounds(rounds)[0, 0])


def test_slopes_are_optimized():
    x, y = _relu(-1.0, 1.0)
    # The smallest value of y - x / 2 is 0, with a lower line of slope 1 / 2.
    assert _bound({y: 1.0, x: -0.5}, 0) == pytest.approx(-0.5, abs=1e-8)
    assert -0.02 < _bound({y: 1.0, x: -0.5}, 20) <= 0


@pytest.mark.parametrize(
    ("sides", "expected"),
    [((0.0, inf), 0.0), ((-inf, inf), -1.0), ((-0.25, 0.5), -0.25), ((-inf, 0), -1.0)],
)
def test_multipliers_use_sides(sides: tuple[float, float], expected: float):
    x, y = _relu(-1.0, 1.0)
    limits = sides[0] * ONE, sides[1] * ONE
    found = _bound({y: 1.0, x: 1.0}, 30, {y: limits})
    assert expected - 0.02 < found <= expected + 1e-9


def test_upper_sides():
    x, y = _relu(-1.0, 1.0)
    # With x <= -1 / 2, -x is at least 1 / 2.
    found = _bound({y: 1.0, x: -1.0}, 30, {y: (-inf * ONE, -0.5 * ONE)})
    assert 0.48 < found <= 0.5 + 1e-9


_STORED = """
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5:3>> {
  %q = stablehlo.uniform_quantize %x
      : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>
  func.return %q : tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>
}
"""


def _read(module: ModuleOp) -> Network:
    return read_network(entry_function(module, None))


def test_bounds_of_stored_arguments_are_stored_values():
    network = _read(parse_module(_STORED))
    low, high = (
        np.array([[0.2, -0.1], [0.25, 0.3]]),
        np.array([[0.6, 99.0], [0.3, 0.75]]),
    )
    result = NetworkBounds.of(network, low, high).variable(network.result)
    # 0.2 rounds to 0 and 0.6 to 0.5; the largest stored value is (127 - 3) / 2. A half
    # may be rounded to both sides.
    expected = np.array([[0.0, 0.0], [0.0, 0.5]]), np.array([[0.5, 62.0], [0.5, 1.0]])
    np.testing.assert_allclose(result.low, expected[0], atol=1e-9)
    np.testing.assert_allclose(result.high, expected[1], atol=1e-9)
    assert np.all(result.low <= expected[0])
    assert np.all(result.high >= expected[1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", networks())
@pytest.mark.parametrize("is_quantized", [True, False])
def test_results_are_within_bounds(name: str, is_quantized: bool):
    network = networks()[name]()
    few = {"samples": network.samples[:12], "centers": network.centers[:2], "rows": 12}
    network = replace(network, **few)
    module = network.modules(1)[not is_quantized]
    values = _read(module)
    bounds = NetworkBounds.of(values, *network.region.flattened(values.argument.size))
    result = bounds.variable(values.result)
    run = attacks.runner(module, None, values.argument.shape)
    rng = np.random.default_rng(4)
    size = values.result.size
    rows = np.broadcast_to(np.eye(size), (2, size, size))
    low = SlopeSearch({result: rows}, {}).bounds(4)
    high = -SlopeSearch({result: -rows}, {}).bounds(4)
    ends = network.region.float_ends(values.argument.size)
    for region, (first, last) in enumerate(zip(*ends, strict=True)):
        for argument in drawn_inputs(first, last, 1 / 255, 12, rng):
            found = run(argument)
            assert np.all(result.low[region] <= found)
            assert np.all(found <= result.high[region])
            assert np.all(low[region] <= found)
            assert np.all(found <= high[region])


def test_cases_contain_all_arguments():
    network = networks()["wine tfl"]()
    values = _read(network.modules(1)[0])
    low, high = network.region.flattened(values.argument.size)
    bounds = NetworkBounds.of(values, low[:1], high[:1])
    value, variable, bends = next(bounds.bends())
    element = int(np.flatnonzero(~np.isnan(bends[0]))[0])
    assert variable.lines is not None
    ends = bounds.limits[value][0]
    below, above = ([end.copy() for end in ends] for _ in range(2))
    below[1][0, element] = above[0][0, element] = bends[0, element]
    for side in (below, above):
        limits = {**bounds.limits, value: [(side[0], side[1])]}
        case = NetworkBounds.of(values, low[:1], high[:1], limits)
        assert not case.is_empty.any()
    # No argument is below the lower end.
    below[1][0, element] = ends[0][0, element] - 1
    limits = {**bounds.limits, value: [(below[0], below[1])]}
    assert NetworkBounds.of(values, low[:1], high[:1], limits).is_empty.all()


# Samples of digits that need cases; of the last one, the class stays open.
SAMPLES = [36, 42, 20, 22]


def test_splits_certify_classes_of_digits():
    network = networks()["digits convolution stablehlo"]()
    images = load_digits()[1].images
    centers = np.asarray(images[SAMPLES], np.float32).reshape(-1, 8, 8, 1)
    network = replace(network, centers=centers)
    modules = network.modules(1)
    found = [
        [
            region.verdicts["agreement"] == "certified"
            for region in certify(
                *modules, network.region, tries=0, cases=cases
            ).regions
        ]
        for cases in (0, 1, None)
    ]
    assert found == [[False] * 4, [False] * 4, [True, True, True, False]]


def test_leads_are_below_those_of_drawn_arguments():
    network = networks()["wine_saturated tfl"]()
    for module in network.modules(1):
        values = _read(module)
        ends = network.region.float_ends(values.argument.size)
        run = attacks.runner(module, None, values.argument.shape)
        rng = np.random.default_rng(4)
        chosen = slice(0, 6)
        low, high = (end[chosen] for end in ends)
        classes = [
            int(run((a + b) / 2).argmax()) for a, b in zip(low, high, strict=True)
        ]
        leads = smallest_leads(values, low, high, classes, 100)
        assert np.any(leads > 0)
        for lead, top, first, last in zip(leads, classes, low, high, strict=True):
            for argument in drawn_inputs(first, last, 0.0, 40, rng):
                results = run(argument)
                assert lead <= results[top] - np.delete(results, top).max()


# A tie at 5: 0 is its class, although class 1 leads elsewhere.
_TIE = """
func.func @main(%x: tensor<1x1xf32>) -> tensor<1x2xf32> {
  %c7 = stablehlo.constant dense<7.0> : tensor<1x1xf32>
  %c6 = stablehlo.constant dense<6.0> : tensor<1x1xf32>
  %u = stablehlo.minimum %x, %c7 : tensor<1x1xf32>
  %v = stablehlo.minimum %u, %c6 : tensor<1x1xf32>
  %r = "stablehlo.concatenate"(%v, %u) <{dimension = 1 : i64}>
      : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x2xf32>
  return %r : tensor<1x2xf32>
}
"""


def test_tie_is_not_certified():
    region = Region.box(np.full((1, 1), 4.5), np.full((1, 1), 10.0))
    (found,) = certify(_TIE, _TIE, region, tries=0).regions
    assert set(found.verdicts.values()) == {"open"}
    assert -1e-8 < found.margin <= 0


_DEQUANTIZED = """
func.func @main(%x: tensor<1x1xf32>) -> tensor<1x2xf32> {{
  {}
  %r = "stablehlo.concatenate"(%c, %x) <{{dimension = 1 : i64}}>
      : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x2xf32>
  return %r : tensor<1x2xf32>
}}
"""


def test_dequantized_constants_are_rounded():
    type_ = "tensor<1x1x!quant.uniform<i8:f32, 0.1>>"
    quantized = _DEQUANTIZED.format(
        "%0 = stablehlo.constant dense<3> : tensor<1x1xi8>\n"
        f"%q = quant.scast %0 : tensor<1x1xi8> to {type_}\n"
        f"%c = stablehlo.uniform_dequantize %q : ({type_}) -> tensor<1x1xf32>"
    )
    number = _DEQUANTIZED.format("%c = stablehlo.constant dense<0.3> : tensor<1x1xf32>")
    # 3 * 0.1 is 0.3 in `f32`, above the real number: a tie with the lower end.
    region = Region.box(np.full((1, 1), float(np.float32(0.3))), np.full((1, 1), 0.4))
    (found,) = certify(quantized, number, region, tries=0).regions
    assert set(found.verdicts.values()) == {"open"}


def test_dequantized_constants_per_axis():
    type_ = "!quant.uniform<i8:f32:1, {0.5:1, 0.25:-2}>"
    text = f"""
    func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {{
      %0 = stablehlo.constant dense<[[3, 7]]> : tensor<1x2xi8>
      %q = quant.scast %0 : tensor<1x2xi8> to tensor<1x2x{type_}>
      %c = stablehlo.uniform_dequantize %q : (tensor<1x2x{type_}>) -> tensor<1x2xf32>
      %r = stablehlo.add %x, %c : tensor<1x2xf32>
      return %r : tensor<1x2xf32>
    }}"""
    network = _read(parse_module(text))
    zeros = np.zeros((1, 2))
    result = NetworkBounds.of(network, zeros, zeros).variable(network.result)
    np.testing.assert_allclose(result.low, [[1.0, 2.25]], atol=1e-6)
    np.testing.assert_allclose(result.high, [[1.0, 2.25]], atol=1e-6)


@pytest.mark.parametrize("name", ["reciprocal", "sqrt"])
def test_function_where_it_is_undefined(name: str):
    argument = Argument(None, (1,))
    value = Function(None, (1,), argument, name)
    network = Network([argument, value], argument, value)
    low, high = np.array([[-1e-3], [1.0]]), np.array([[1.0], [2.0]])
    result = NetworkBounds.of(network, low, high).variable(value)
    assert result.low[0, 0] < -1e38
    assert result.high[0, 0] > 1e38


def test_unknown_leads_are_not_certain(monkeypatch: pytest.MonkeyPatch):
    network = networks()["wine tfl"]()
    values = _read(network.modules(1)[0])
    low, high = network.region.flattened(values.argument.size)
    bounds = SlopeSearch.bounds

    def one_unknown(search: SlopeSearch, rounds: int) -> Floats:
        # Cases of a split: a certain and an unknown one.
        found = bounds(search, rounds)
        return np.array([[1.0], [np.nan]]) if len(found) == 2 else 0 * found - 1e-3

    monkeypatch.setattr(SlopeSearch, "bounds", one_unknown)
    leads = smallest_leads(values, low[:1], high[:1], [0], 40)
    assert not leads[0] > 0
