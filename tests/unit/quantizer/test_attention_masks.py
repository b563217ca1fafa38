"""Constants that mask the scores of an attention."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from xdsl_quant.calibration import calibrate
from xdsl_quant.quantizer import QuantizedModel, quantize
from xdsl_quant.quantizer.attention_masks import (
    AttentionMasks,
    separate_masks,
    warn_of_wide_constants,
)
from xdsl_quant.quantizer.errors import (
    OUTPUT,
    quantized_module,
    result_key,
    stored_bounds,
)
from xdsl_quant.quantizer.recording import RecordedModule
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .models import PLAIN, Floats, samples

DATA = Path(__file__).parent / "data"
CAUSAL = (DATA / "causal_mask.mlir").read_text()

SOFTMAX = """
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %max = stablehlo.reduce(%y init: %i) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %m = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
  %d = stablehlo.subtract %y, %m : tensor<4x4xf32>
  %e = stablehlo.exponential %d : tensor<4x4xf32>
  %o = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%e init: %o) applies stablehlo.add across dimensions = [1]
    : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %n = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
  %z = stablehlo.divide %e, %n : tensor<4x4xf32>
"""


def masked(number: str, score: str = "", softmax: str = SOFTMAX) -> str:
    """A softmax of scores `%x`, of which a constant masks the upper triangle."""
    return f"""
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
  %p = stablehlo.constant dense<[[true, false, false, false],
    [true, true, false, false], [true, true, true, false], [true, true, true, true]]>
    : tensor<4x4xi1>
  %c = stablehlo.constant dense<{number}> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  {score or "%y = stablehlo.select %p, %x, %b : tensor<4x4xi1>, tensor<4x4xf32>"}
  {softmax}
  return %z : tensor<4x4xf32>
}}
"""


def probabilities(model: QuantizedModel, data: Floats) -> Floats:
    """The results of the quantized model."""
    run = RecordedModule.of(quantized_module(model.resolved), None)
    batches = data.reshape(-1, 4, 4)
    return np.array([run.values((batch,))[f"main:{OUTPUT}0"] for batch in batches])


def result_range(model: QuantizedModel, kernel: str) -> tuple[float, float]:
    """The range that the result of a kernel can be stored in."""
    bounds = stored_bounds(model.resolved)
    (number,) = (
        number
        for number, region in enumerate(kernels_of(model.resolved))
        if region.kernel == kernel
    )
    return bounds[result_key(number, 0)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", ["-1.0e+09", "-3.4e+38", "0xFF800000"])
def test_a_causal_mask_of_jax(number: str):
    """jax outlines `where` as a function, which is inlined."""
    data = np.load(DATA / "causal_mask_data.npy")
    model = quantize(CAUSAL.replace("-1.000000e+09", number), data, PLAIN)
    report = model.report(data)
    assert report.outputs["main:output:0"] > 33
    # No kernel of the attention looks as if it were wrong.
    assert all(k.is_constant or k.own_sqnr > 30 for k in report.kernels)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", ["-1.0e+09", "0xFF800000"])
def test_a_row_whose_scores_lie_at_the_low_end(number: str):
    """Masked scores are 0 there, too, and the range is not lower than that needs."""
    scores = samples(32, 4, 4) * 2 + 6
    scores[:, 2] -= 14
    data = scores.reshape(-1, 4)
    model = quantize(masked(number), data)
    low, _ = result_range(model, "stablehlo.select")
    needed = scores[:, 2, :3].max(-1).min() - math.log(512)
    assert needed - 0.25 < low <= needed
    found = probabilities(model, data)
    assert not found[:, *np.triu_indices(4, 1)].any()
    np.testing.assert_allclose(found.sum(-1), 1, atol=0.05)


@pytest.mark.sampled(0)
def test_a_mask_that_is_added():
    """Zero or a low number is added to scores, as flax does."""
    zero = """
  %o2 = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.broadcast_in_dim %o2, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %k = stablehlo.select %p, %w, %b : tensor<4x4xi1>, tensor<4x4xf32>
  %y = stablehlo.add %x, %k : tensor<4x4xf32>
"""
    data = samples(128, 4) * 3
    model = quantize(masked("-1.0e+09", zero), data, PLAIN)
    assert model.report(data).outputs["main:output:0"] > 30
    assert not probabilities(model, data)[:, *np.triu_indices(4, 1)].any()


DENSE = """
  %k = stablehlo.constant dense<[[0.0, NUMBER, NUMBER, NUMBER], [0.0, 0.0, NUMBER, NUMBER],
    [0.0, 0.0, 0.0, NUMBER], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %y = stablehlo.add %k, %x : tensor<4x4xf32>
"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", ["stablehlo-int8", "onnxruntime-u8s8"])
@pytest.mark.parametrize("number", ["-1.0e+04", "-3.4028235e+38", "0xFF800000"])
def test_a_constant_mask_that_is_added(number: str, target: str):
    """A tensor of zeros and low numbers is added, as PyTorch does."""
    data = samples(128, 4) * 3
    text = masked("0.0", DENSE.replace("NUMBER", number))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = quantize(text, data, PLAIN, target=target)
    assert model.report(data).outputs["main:output:0"] > 30
    # The softmax of onnxruntime returns floats.
    assert probabilities(model, data)[:, *np.triu_indices(4, 1)].max() < 2**-16


COMPUTED = """
  %one = stablehlo.constant dense<1.0> : tensor<4x4xf32>
  %q = stablehlo.subtract %one, %keep : tensor<4x4xf32>
  %s = stablehlo.multiply %q, %b : tensor<4x4xf32>
  %k = stablehlo.constant dense<[[0.0, -1.0e+09, -1.0e+09, -1.0e+09],
    [0.0, 0.0, -1.0e+09, -1.0e+09], [0.0, 0.0, 0.0, -1.0e+09], [0.0, 0.0, 0.0, 0.0]]>
    : tensor<4x4xf32>
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "sums",
    [
        "%t = stablehlo.add %s, %k : tensor<4x4xf32>\n"
        "%y = stablehlo.add %t, %x : tensor<4x4xf32>",
        "%t = stablehlo.add %x, %s : tensor<4x4xf32>\n"
        "%y = stablehlo.add %t, %k : tensor<4x4xf32>",
        "%y = stablehlo.add %x, %s : tensor<4x4xf32>",
    ],
)
@pytest.mark.parametrize("number", ["-1.0e+04", "-3.4028235e+38"])
def test_a_mask_that_is_computed(number: str, sums: str):
    """The samples contain the positions that count, and another mask may be constant."""
    text = masked(number, COMPUTED + sums).replace(
        "(%x: tensor<4x4xf32>", "(%x: tensor<4x4xf32>, %keep: tensor<4x4xf32>"
    )
    scores = samples(32, 4, 4) * 3
    keep = np.ones((32, 4, 4), np.float32)
    keep[::2, :, 2:] = 0
    batches = [*zip(scores, keep, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = quantize(text, batches, PLAIN)
    assert model.report(batches).outputs["main:output:0"] > 30
    run = RecordedModule.of(quantized_module(model.resolved), None)
    found = np.array([run.values(batch)[f"main:{OUTPUT}0"] for batch in batches])
    assert not found[::2, :, 2:].any()
    assert (found[1::2, 3, 3] > 0).any()


CHECKED = """
  %infinity = stablehlo.constant dense<0xFF800000> : tensor<4x4xf32>
  %eq = stablehlo.compare EQ, %y, %infinity, FLOAT
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %all = stablehlo.reduce(%eq init: %yes) applies stablehlo.and across dimensions = [1]
    : (tensor<4x4xi1>, tensor<i1>) -> tensor<4xi1>
  %rows = stablehlo.broadcast_in_dim %all, dims = [0] : (tensor<4xi1>) -> tensor<4x4xi1>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %checked = stablehlo.select %rows, %zeros, %z : tensor<4x4xi1>, tensor<4x4xf32>
  return %checked
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", ["false", "true"])
@pytest.mark.parametrize("number", ["-3.4028235e+38", "0xFF800000"])
def test_a_check_for_rows_that_are_masked_as_a_whole(number: str, first: str):
    """PyTorch returns zeros for a row whose scores are all negative infinity."""
    row = "%p = stablehlo.constant dense<[[true, false, false, false]"
    score = """
  %small = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.broadcast_in_dim %small, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %k = stablehlo.select %p, %w, %b : tensor<4x4xi1>, tensor<4x4xf32>
  %l = stablehlo.broadcast_in_dim %k, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = stablehlo.add %x, %l : tensor<4x4xf32>
"""
    text = masked(number, score).replace("return %z", CHECKED)
    text = text.replace(row, row.replace("true", first))
    data = samples(128, 4) * 3
    model = quantize(text, data, PLAIN)
    report = model.report(data)
    assert all(kernel.result_type for kernel in report.kernels)
    found = probabilities(model, data)
    if first == "false":
        expected = 0 if number == "0xFF800000" else 0.25
        assert (abs(found[:, 0] - expected) < 0.01).all()
    assert not found[:, 1:][:, *np.triu_indices(3, 2, 4)].any()
    assert (abs(found[:, 1:].sum(-1) - 1) < 0.05).all()


def test_an_addend_that_is_no_mask():
    """It is not clipped, although the softmax result of its minimum is 0."""
    bias = "dense<[-20.0, -10.0, 3.0, 0.0]> : tensor<4xf32>"
    score = f"""
  %k = stablehlo.constant {bias}
  %l = stablehlo.broadcast_in_dim %k, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
  %y = stablehlo.add %x, %l : tensor<4x4xf32>
"""
    data = samples(128, 4) * 3
    model = quantize(masked("0.0", score), data, PLAIN)
    low, _ = result_range(model, "stablehlo.add")
    assert low == pytest.approx(float(data[:, 0].min()) - 20, abs=0.2)


def test_a_mask_that_several_softmaxes_take():
    """It is raised to the lowest of their floors."""
    second = re.sub(r"%(\w+)", r"%\1_2", SOFTMAX)
    score = """
  %y = stablehlo.add %x, %mask : tensor<4x4xf32>
  %x_2 = stablehlo.multiply %x, %b : tensor<4x4xf32>
  %y_2 = stablehlo.add %x_2, %mask : tensor<4x4xf32>
"""
    text = masked("2.0", score, SOFTMAX + second).replace(
        "(%x: tensor<4x4xf32>", "(%x: tensor<4x4xf32>, %mask: tensor<4x4xf32>"
    )
    text = text.replace(
        "return %z", "%r = stablehlo.add %z, %z_2 : tensor<4x4xf32>\n return %r"
    )
    scores = samples(32, 4, 4)
    mask = np.where(np.tri(4, dtype=bool), 0, -1e9).astype(np.float32)
    module = parse_module(text)
    apply_passes(module, "quant-insert-stats-refs")
    statistics = calibrate(module, [(score, mask) for score in scores])
    ranges = {key: statistics.ranges(key) for key in statistics.observations}
    clipped = AttentionMasks(module, ranges, 8).clipped_ranges()
    floors = [clipped[f"main:stablehlo.add:{i}"].layer[0] for i in range(2)]
    highs = [scores.max(), 2 * scores.max()]
    expected = min(floor - high for floor, high in zip(floors, highs, strict=True))
    assert clipped["main:argument:1"].layer == (pytest.approx(expected), 0)


@pytest.mark.sampled(0)
def test_a_row_that_is_masked_as_a_whole():
    text = masked("-1.0e+09").replace(
        "[true, false, false, false]", "[false, false, false, false]"
    )
    data = samples(128, 4) * 3
    model = quantize(text, data, PLAIN)
    assert model.report(data).outputs["main:output:0"] > 30
    assert (abs(probabilities(model, data)[:, 0] - 0.25) < 0.01).all()


def test_an_infinite_constant_that_others_use_stays():
    """Only masks become finite: the maximum begins with the same constant."""
    text = masked("0xFF800000", softmax=SOFTMAX.replace("init: %i", "init: %c"))
    module = parse_module(text)
    separate_masks(module)
    printed = str(module)
    assert printed.count("dense<0xff800000>") == 2
    assert "dense<-1.000000e+09>" in printed


@pytest.mark.parametrize(
    ("type_", "infinity", "number"),
    [("f16", "0xFC00", "-3.275200e+04"), ("bf16", "0xFF80", "-9.982440e+08")],
)
def test_an_infinite_mask_of_16_bits(type_: str, infinity: str, number: str):
    """It becomes -1e9, or half of the lowest number of the type if that is higher."""
    text = masked("0xFF800000").replace("f32", type_).replace("0xFF800000", infinity)
    module = parse_module(text)
    separate_masks(module)
    assert f"dense<{number}> : tensor<{type_}>" in str(module)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("number", "is_wide"), [("-1.0e+09", True), ("-16.5", True), ("-15.0", False)]
)
def test_a_constant_of_any_other_select(number: str, is_wide: bool):
    """It stays, with a warning where it makes the range more than 8 times wider."""
    data = samples(32, 4)
    data[0, :2] = -1, 1
    text = masked(number, softmax="%z = stablehlo.negate %y : tensor<4x4xf32>")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = quantize(text, data, PLAIN)
    places = [
        each.filename
        for each in found
        if "constant widens the result range" in str(each.message)
    ]
    assert places == [__file__] * is_wide
    low, _ = result_range(model, "stablehlo.select")
    assert low == pytest.approx(float(number), rel=0.01)


PRODUCT = """
  %k = stablehlo.convert %p : (tensor<4x4xi1>) -> tensor<4x4xf32>
  %m = stablehlo.multiply %k, %b : tensor<4x4xf32>
  %y = stablehlo.add %x, %m : tensor<4x4xf32>
"""

NEGATE = "%z = stablehlo.negate %y : tensor<4x4xf32>"


@pytest.mark.parametrize(
    ("number", "factor", "text", "expected"),
    [
        (-129.0, 1.0, PRODUCT, "11:3: 'stablehlo.add': -129"),
        (-128.0, 1.0, PRODUCT, ""),
        # Each of them alone would be too wide.
        (-0.5, 1000.0, PRODUCT, ""),
        (-129.0, 0.0, PRODUCT, ""),
        (
            -1e9,
            1.0,
            "%y = stablehlo.add %b, %x : tensor<4x4xf32>",
            "8:3: 'stablehlo.add': -1e+09",
        ),
        (
            1e9,
            1.0,
            "%y = stablehlo.subtract %x, %b : tensor<4x4xf32>",
            "8:3: 'stablehlo.subtract': 1e+09",
        ),
    ],
)
def test_a_constant_that_is_added(
    number: float, factor: float, text: str, expected: str
):
    """A warning names the sum where other values have fewer than 4 of 256 steps."""
    module = parse_module(masked(f"{number:e}", text, NEGATE))
    apply_passes(module, "quant-insert-stats-refs")
    low, high = sorted((0.0, number * factor))
    ranges = {
        "main:argument:0": KeyStatistics((-1.0, 1.0)),
        "main:stablehlo.multiply:0": KeyStatistics((low, high)),
    }
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_wide_constants(module, ranges)
    place, _, result = expected.partition(" ")
    assert [str(each.message) for each in found] == [
        f"module:{place} constant widens the result range of {result}, while other "
        "values are -1 to 1; use a constant closer to them"
    ][: bool(expected)]


@pytest.mark.parametrize(
    ("score", "place"),
    [
        (
            "",
            "module:8:3: constant widens the result range of 'stablehlo.select'",
        ),
        (
            "%y = stablehlo.add %x, %b : tensor<4x4xf32>",
            "module:8:3: constant widens the result range of 'stablehlo.add'",
        ),
        (
            PRODUCT,
            "module:10:3: constant widens the result range of 'stablehlo.multiply'",
        ),
    ],
)
def test_an_infinite_constant_without_a_softmax(score: str, place: str):
    """It is refused by name, and not the sample."""
    text = masked("0xFF800000", score, NEGATE)
    message = f"{place}: -inf; use a finite constant close to the other values"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        quantize(text, samples(4, 4), PLAIN)


def test_a_result_that_exceeds_its_type():
    """An infinite constant of another op is not the reason."""
    score = """
  %q = stablehlo.divide %x, %b : tensor<4x4xf32>
  %y = stablehlo.subtract %x, %q : tensor<4x4xf32>
"""
    text = masked("0xFF800000", score, NEGATE.replace("negate", "exponential"))
    with pytest.raises(
        ValueError, match="exponential:0': expected finite values, found infinity; le"
    ):
        quantize(text, samples(4, 4) * 1000, PLAIN)


def test_a_softmax_whose_scores_go_elsewhere():
    """A mask that is a result of the model keeps its range."""
    text = masked("-100.0").replace(
        "return %z", "%r = stablehlo.add %z, %y : tensor<4x4xf32>\n  return %r"
    )
    module = parse_module(text)
    separate_masks(module)
    assert "quant.mask" not in str(module)


def test_a_mask_of_tensorflow_lite():
    """Maxima of rows are unknown here: all scores of the samples stay above the mask."""
    text = """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = "tfl.pseudo_const"() <{value = dense<[[true, false, false, false],
    [true, true, false, false], [true, true, true, false], [true, true, true, true]]>
    : tensor<4x4xi1>}> : () -> tensor<4x4xi1>
  %b = "tfl.pseudo_const"() <{value = dense<-1.0e+09> : tensor<4x4xf32>}>
    : () -> tensor<4x4xf32>
  %y = "tfl.select_v2"(%p, %x, %b)
    : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = "tfl.softmax"(%y) <{beta = 1.0 : f32}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}
"""
    data = samples(128, 4) * 3
    model = quantize(text, data, PLAIN)
    assert model.report(data).outputs["main:output:0"] > 30
    assert not probabilities(model, data)[:, *np.triu_indices(4, 1)].any()
