"""Suggested types, compared with those of the passes, and what they cost."""

import re
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.calibration.statistics import KeyObservation
from xdsl_quant.display.evaluation import Evaluation, evaluate, suggested_types
from xdsl_quant.numerics import QuantizationParameters, measure_error
from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.runtime.loading import apply_passes, parse_module, parse_passes
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

TEXT = """
func.func @main(%x: tensor<?x3xf32>, %h: tensor<4xf16>) -> tensor<?x3xf32> {
  %a = quant.stats_ref %x "input" : tensor<?x3xf32>
  %y = arith.mulf %a, %a : tensor<?x3xf32>
  %b = quant.stats_ref %y "square" : tensor<?x3xf32>
  %z = arith.addf %b, %b : tensor<?x3xf32>
  %c = quant.stats_ref %z "twice" : tensor<?x3xf32>
  %g = quant.stats_ref %h "half" : tensor<4xf16>
  return %c : tensor<?x3xf32>
}
"""
COUPLED = TEXT.replace(
    "  return",
    '  %d = quant.coupled_ref %c "both" : tensor<?x3xf32>\n'
    '  %e = quant.coupled_ref %a "both" : tensor<?x3xf32>\n  return',
)

RANDOM = np.random.default_rng(0)
BATCHES = [
    (
        (RANDOM.standard_normal((500, 3)) * [0.1, 1, 5]).astype(np.float32),
        np.array([-1, 0.5, 0.25, 3], np.float16),
    )
    for _ in range(3)
]
OPTIONS = [
    "",
    "{bits=4 symmetric=true}",
    "{signed=false}",
    "{narrow-range=true bits=8}",
    "{per-axis=never}",
]


def conversion(options: str = "") -> QuantCalibratedToUniformPass:
    (parsed,) = parse_passes(f"quant-calibrated-to-uniform{options}")
    assert isinstance(parsed, QuantCalibratedToUniformPass)
    return parsed


def statistics(observer: str = "percentile=99", **options: Any) -> Statistics:
    return calibrate(TEXT, BATCHES, observer=observer, axes={"square": 1}, **options)


def types_of_passes(text: str, known: Statistics, options: str, path: Any) -> list[str]:
    """The types in the module that the passes leave, in the order of keys in it."""
    known.save(path / "stats.json")
    module: ModuleOp = parse_module(text)
    pipeline = (
        f'quant-import-stats{{file="{path / "stats.json"}"}},quant-stats-to-calibrated,'
        f"quant-calibrated-to-uniform{options}"
    )
    apply_passes(module, pipeline)
    types = re.findall(r"quant\.qcast .* to .*(!quant\.uniform<.*>)>\n", str(module))
    return types


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("text", [TEXT, COUPLED], ids=["alone", "coupled"])
def test_types_are_those_of_the_passes(text: str, options: str, tmp_path: Any):
    known = statistics()
    expected = types_of_passes(text, known, options, tmp_path)
    module = parse_module(text)
    before = str(module)
    for given in (module, text):
        found = {
            evaluation.key: str(evaluation.quantized_type)
            for evaluation in evaluate(known, conversion(options), given)
        }
        keys = ("input", "square", "twice", "half")
        assert [found[key] for key in keys] == expected[:4]
    assert str(module) == before
    assert ("f16" in found["half"], "f32:1" in found["square"]) == (
        True,
        "never" not in options,
    )
    assert (found["input"] == found["twice"]) == (text == COUPLED)


def test_without_a_module_all_are_f32():
    known = statistics()
    with_module = {e.key: e.quantized_type for e in evaluate(known, conversion(), TEXT)}
    without = {e.key: e.quantized_type for e in evaluate(known, conversion())}
    half = str(with_module.pop("half"))
    assert str(without.pop("half")) == half.replace("f16", "f32")
    assert without == with_module


def test_worst_first():
    evaluations = evaluate(statistics(), conversion("{per-axis=never}"), TEXT)
    assert len(evaluations) == 4
    ratios = [evaluation.sqnr for evaluation in evaluations]
    assert ratios == sorted(ratios)
    assert evaluations[-1].key == "half"


def named(evaluations: list[Evaluation], key: str) -> Evaluation:
    return next(evaluation for evaluation in evaluations if evaluation.key == key)


@pytest.mark.parametrize("per_axis", ["auto", "never"])
def test_errors_are_as_measured(per_axis: str):
    options = f"{{per-axis={per_axis}}}"
    found = named(evaluate(statistics(), conversion(options), TEXT), "square")
    values = np.square(np.concatenate([x for x, _ in BATCHES]))
    assert found.quantized_type is not None
    parameters = QuantizationParameters.from_type(found.quantized_type)
    measured = measure_error(values, parameters)
    assert found.error is not None
    assert found.error.sqnr == pytest.approx(measured.sqnr, abs=0.2)
    assert found.error.saturated_fraction == pytest.approx(
        measured.saturated_fraction, abs=1e-3
    )
    assert found.error.saturated_fraction > 0
    assert found.error.channel_sqnr.shape == (3,)


def test_a_histogram_beside_is_used():
    known = statistics("min-max", histograms=True)
    for evaluation in evaluate(known, conversion(), TEXT):
        assert evaluation.sqnr > 30
        assert evaluation.error is not None
        assert evaluation.error.saturated_fraction == 0


def test_without_histograms():
    evaluations = evaluate(statistics("min-max"), conversion(), TEXT)
    assert [evaluation.key for evaluation in evaluations] == [
        "half", "input", "square", "twice",
    ]  # fmt: skip
    for evaluation in evaluations:
        assert np.isnan(evaluation.sqnr)
        assert evaluation.quantized_type is not None


# What has no type

HUGE_FOR_F16 = KeyStatistics((0.0, 1e9))
LARGE = KeyStatistics((0.0, 1e300))
USUAL = KeyStatistics((-1.0, 1.0))


def test_some_have_no_type():
    types = suggested_types(
        {"half": HUGE_FOR_F16, "twice": LARGE, "input": USUAL, "square": USUAL},
        conversion(),
        parse_module(COUPLED),
    )
    assert types["twice"] == "a bound exceeds f32"
    assert isinstance(types["half"], str)
    assert types["half"].startswith("scale ")
    expected = suggested_types({"input": USUAL}, conversion())["input"]
    assert types["input"] == types["square"] == expected


def test_channels_without_a_type():
    """There are more of them than the value has."""
    known = KeyStatistics((0.0, 1.0), 1, [(0.0, 1.0)] * 4)
    types = suggested_types(
        {"input": known, "twice": USUAL}, conversion(), parse_module(TEXT)
    )
    assert "axisStats must have shape" in str(types["input"])
    assert not isinstance(types["twice"], str)


def test_what_has_no_type_is_first():
    observer = "percentile=99"
    known = calibrate(TEXT, BATCHES, observer=observer)
    huge = np.array([0, 1e9], np.float32)
    half = KeyObservation.of(huge, None, parse_observer(observer), 0, False)
    known = Statistics(observer, {**known.observations, "half": half}, 1)
    first, *others = evaluate(known, conversion(), TEXT)
    assert first.key == "half"
    assert first.quantized_type is None
    assert first.reason.startswith("scale ")
    assert np.isnan(first.sqnr)
    assert len(others) == 3
    assert all(evaluation.quantized_type is not None for evaluation in others)


def test_nothing_has_a_type():
    message = (
        "^symmetric quantization requires stored values below and above the zero "
        "point, found -1 to 0 of 'i1'$"
    )
    with pytest.raises(ValueError, match=message):
        evaluate(statistics(), conversion("{bits=1 symmetric=true}"), TEXT)


def test_key_that_the_module_does_not_have():
    text = TEXT.replace('"twice"', '"other"')
    with pytest.raises(ValueError, match=r"^no op of the module has key 'twice'$"):
        evaluate(statistics(), conversion(), text)


def test_no_keys():
    assert evaluate(Statistics(), conversion()) == []
