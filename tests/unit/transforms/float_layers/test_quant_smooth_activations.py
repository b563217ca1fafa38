"""Ranges of channels that are alike in an activation, and the weights that take it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from tests.unit.transforms.weights.layers import (
    CONVOLUTION,
    Array,
    constant,
    normal,
    relative,
    run,
    type_of,
)
from xdsl_quant.dialects.quant import StatisticsOp
from xdsl_quant.dialects.quant.instrumentation import ranges_of
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.float_layers.quant_smooth_activations import (
    QuantSmoothActivationsPass,
)
from xdsl_quant.transforms.weights.quant_quantize_weights import weight_of

PASS = "quant-smooth-activations"

X, H, Y = type_of(4, 6), type_of(4, 5), type_of(4, 3)
SIZES = np.array([100, 1, 0.01, 3, 20], np.float32)
FIRST, SECOND = normal(6, 5) * SIZES, normal(5, 3, seed=1)
THIRD = normal(5, 3, seed=6)
BIAS = normal(5, seed=2) * SIZES
ARGUMENT = normal(4, 6, seed=3)
RANGES = np.stack([-np.abs(BIAS) - 1, np.arange(1, 6)], 1).astype(np.float32)
"""The ranges of channels: in the last one, the largest value is greater."""

DOT = f"contracting_dims = [1] x [0] : ({H}, {type_of(5, 3)}) -> {Y}"


def statistics(name: str, value: str, ranges: Array = RANGES, axis: int = 1) -> str:
    pairs = ", ".join(f"<{low:.9e}:{high:.9e}>" for low, high in ranges)
    layer = f"<{ranges.min():.9e}:{ranges.max():.9e}>"
    return f"%{name} = quant.stats {value} {layer} axis {axis} [{pairs}] : {H}"


def model(*body: str, more: str = "") -> str:
    """Ops from `%y`, the product of the argument, to `%z`."""
    lines = "\n  ".join(body)
    return f"""
func.func @main(%x: {X}) -> {Y} {{
  {constant("w", FIRST, "stablehlo")}
  {constant("v", SECOND, "stablehlo")}
  {constant("u", THIRD, "stablehlo")}
  {constant("b", BIAS, "stablehlo")}
  {constant("g", normal(5, seed=4), "stablehlo")}
  %zeros = stablehlo.constant dense<0.0> : {H}
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : ({type_of(5)}) -> {H}
  %gb = stablehlo.broadcast_in_dim %g, dims = [1] : ({type_of(5)}) -> {H}
  {more}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : ({X}, {type_of(6, 5)}) -> {H}
  {lines}
  return %z : {Y}
}}"""


LAST = f"%z = stablehlo.dot_general %s, %v, {DOT}"


def factors(weights: Array = SECOND, alpha: float = 0.5) -> Array:
    """The formula of the paper."""
    largest = np.abs(RANGES.astype(np.float64)).max(1)
    return largest**alpha / np.abs(weights.astype(np.float64)).max(1) ** (1 - alpha)


def weights_of(module: ModuleOp) -> Sequence[Array]:
    return [
        elements
        for op in module.walk()
        if (weight := weight_of(op)) is not None
        and (elements := weight.elements()) is not None
    ]


def smoothed(text: str, passes: str = PASS) -> ModuleOp:
    """The module after the pass, which keeps the results."""
    module = parse_module(text)
    expected = run(module, ARGUMENT)
    apply_passes(module, passes)
    module.verify()
    assert relative(expected, run(module, ARGUMENT)) < 1e-6
    return module


def f32(numbers: Array) -> Array:
    return numbers.astype(np.float32)


ADD = f"%a = stablehlo.add %y, %bb : {H}"
RELU = f"%r = stablehlo.maximum %a, %zeros : {H}"


@pytest.mark.parametrize(
    "body",
    [
        [statistics("s", "%y")],
        [ADD, statistics("s", "%a")],
        [ADD, RELU, statistics("s", "%r")],
        [ADD, statistics("t", "%a"), RELU.replace("%a", "%t"), statistics("s", "%r")],
        [
            statistics("t", "%y"),
            ADD.replace("%y, %bb", "%bb, %t"),
            RELU.replace("%a, %zeros", "%zeros, %a"),
            statistics("s", "%r"),
        ],
    ],
)
def test_a_layer_is_divided(body: Sequence[str], capsys: pytest.CaptureFixture[str]):
    module = smoothed(model(*body, LAST))
    first, second = weights_of(module)
    s = factors()
    assert np.array_equal(first, f32(FIRST / s))
    assert np.array_equal(second, f32(SECOND * s[:, np.newaxis]))
    ranges = [op for op in module.walk() if isinstance(op, StatisticsOp)]
    assert len(ranges) == sum("quant.stats" in line for line in body)
    for op in ranges:
        assert op.axis is not None
        assert op.axis_stats is not None
        found, expected = np.array(ranges_of(op.axis_stats)), RANGES / s[:, np.newaxis]
        assert np.array_equal(found, f32(expected))
        assert ranges_of(op.layer_stats) == [(found.min(), found.max())]
        assert op.axis.value.data == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("alpha", [0, 0.25, 1])
def test_alpha(alpha: float):
    text = model(ADD, statistics("s", "%a"), LAST)
    _, second = weights_of(smoothed(text, f"{PASS}{{alpha={alpha}}}"))
    assert np.array_equal(second, f32(SECOND * factors(alpha=alpha)[:, np.newaxis]))


@pytest.mark.parametrize(
    ("body", "reciprocal"),
    [
        ([f"%a = stablehlo.multiply %t, %gb : {H}"], False),
        ([f"%a = stablehlo.multiply %gb, %t : {H}"], False),
        ([f"%a = stablehlo.divide %t, %gb : {H}"], True),
        ([f"%a = stablehlo.divide %gb, %t : {H}"], False),
        (
            [
                f"%p = stablehlo.multiply %t, %gb : {H}",
                statistics("q", "%p"),
                f"%a = stablehlo.add %q, %bb : {H}",
            ],
            False,
        ),
        (
            [
                f"%p = stablehlo.multiply %t, %gb : {H}",
                f"%a = stablehlo.subtract %bb, %p : {H}",
            ],
            False,
        ),
    ],
)
def test_constants_are_divided(body: Sequence[str], reciprocal: bool):
    tanh = f"%t = stablehlo.tanh %y : {H}"
    module = smoothed(model(tanh, *body, statistics("s", "%a"), LAST))
    s = factors()
    first, second = weights_of(module)
    assert np.array_equal(first, FIRST)
    assert np.array_equal(second, f32(SECOND * s[:, np.newaxis]))
    numbers = normal(5, seed=4).astype(np.float64)
    expected = f32(numbers * s if reciprocal else numbers / s)
    assert any(np.array_equal(found, expected) for found in vectors(module))
    if "add" in "".join(body):
        assert any(np.array_equal(found, f32(BIAS / s)) for found in vectors(module))


def vectors(module: ModuleOp) -> Sequence[Array]:
    """All constants, without their shapes."""
    found: list[Array] = []
    for op in module.walk():
        value = op.get_attr_or_prop("value")
        if isinstance(value, DenseIntOrFPElementsAttr):
            found.append(np.array([*value.get_values()], np.float32))
    return found


def test_a_number_for_all_channels_becomes_one_for_each():
    two = "%c = stablehlo.constant dense<2.0> : tensor<f32>"
    repeat = f"%cb = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {H}"
    module = smoothed(
        model(
            f"%t = stablehlo.tanh %y : {H}",
            f"%a = stablehlo.multiply %t, %cb : {H}",
            statistics("s", "%a"),
            LAST,
            more=f"{two}\n  {repeat}",
        )
    )
    assert any(np.array_equal(found, f32(2 / factors())) for found in vectors(module))


def test_two_products_take_the_values():
    module = smoothed(
        model(
            ADD,
            statistics("s", "%a"),
            LAST.replace("%z", "%p"),
            LAST.replace("%z", "%q").replace("%v", "%u"),
            f"%z = stablehlo.add %p, %q : {Y}",
        )
    )
    s = factors(np.maximum(np.abs(SECOND), np.abs(THIRD)))
    first, second, third = weights_of(module)
    assert np.array_equal(first, f32(FIRST / s))
    assert np.array_equal(second, f32(SECOND * s[:, np.newaxis]))
    assert np.array_equal(third, f32(THIRD * s[:, np.newaxis]))


OTHER_USER = [
    ADD,
    statistics("s", "%a"),
    LAST.replace("%z", "%p"),
    f"%t = stablehlo.tanh %s : {H}",
    LAST.replace("%s", "%t").replace("%z", "%q"),
    f"%z = stablehlo.add %p, %q : {Y}",
]

UNSUPPORTED = {
    "an argument": (
        [statistics("s", "%h"), LAST],
        "the values are a block argument",
    ),
    "no scaling function": (
        [f"%t = stablehlo.tanh %y : {H}", statistics("s", "%t"), LAST],
        "preceding op 'stablehlo.tanh' has no constant to divide",
    ),
    "another user": (OTHER_USER, "'stablehlo.tanh' also uses the values"),
    "a user before": (
        [
            ADD,
            statistics("s", "%a"),
            LAST.replace("%z", "%p"),
            LAST.replace("%s", "%a").replace("%z", "%q"),
            f"%z = stablehlo.add %p, %q : {Y}",
        ],
        "another op uses values that would be divided",
    ),
    "one range": (
        [ADD, f"%t = quant.stats %a <-9.0:9.0> : {H}", statistics("s", "%t"), LAST],
        "a preceding 'quant.stats' has no channel ranges",
    ),
    "another axis": (
        [
            ADD,
            statistics("t", "%a", RANGES[:4], 0),
            statistics("s", "%t"),
            LAST,
        ],
        "a preceding 'quant.stats' has no channel ranges",
    ),
    "the sum of two values": (
        [f"%t = stablehlo.add %y, %y : {H}", statistics("s", "%t"), LAST],
        "preceding op 'stablehlo.add' has no constant to divide",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_stays_and_why(name: str, capsys: pytest.CaptureFixture[str]):
    body, reason = UNSUPPORTED[name]
    text = model(*body)
    if "%h" in text:
        text = text.replace(f"(%x: {X})", f"(%x: {X}, %h: {H})")
    module = parse_module(text)
    before = str(module)
    apply_passes(module, PASS)
    assert str(module) == before
    warning = capsys.readouterr().err
    assert warning.startswith("module:")
    assert warning.endswith(f": warning: channels are not smoothed: {reason}\n")


@pytest.mark.parametrize(
    "name", [each for each in UNSUPPORTED if each != "an argument"]
)
def test_multiplications_are_inserted(name: str, capsys: pytest.CaptureFixture[str]):
    body, _ = UNSUPPORTED[name]
    module = smoothed(model(*body), f"{PASS}{{insert-multiply=true}}")
    assert capsys.readouterr().err == ""
    s = factors()
    first, second, *_ = weights_of(module)
    assert np.array_equal(first, FIRST)
    assert np.array_equal(second, f32(SECOND * s[:, np.newaxis]))
    (multiply,) = [op for op in module.walk() if op.name == "stablehlo.multiply"]
    assert any(np.array_equal(found, f32(1 / s)) for found in vectors(module))
    before = multiply.operands[0].owner
    (after,) = [use.operation for use in multiply.results[0].uses]
    assert isinstance(before, StatisticsOp)
    assert isinstance(after, StatisticsOp)
    assert before.axis_stats is not None
    assert after.axis_stats is not None
    assert np.array_equal(f32(np.array(ranges_of(before.axis_stats))), RANGES)
    found = np.array(ranges_of(after.axis_stats))
    assert np.array_equal(found, f32(RANGES / s[:, np.newaxis]))


def test_no_channels_of_inputs(capsys: pytest.CaptureFixture[str]):
    for line, reason in (
        (
            statistics("s", "%a", RANGES[:4], 0),
            "no contraction with constant weights has these channels as inputs",
        ),
        (
            f"%s = quant.stats %a <-9.0:9.0> : {H}",
            "missing channel ranges, expected an axis",
        ),
    ):
        module = parse_module(model(ADD, line, LAST))
        before = str(module)
        apply_passes(module, PASS)
        assert str(module) == before
        assert capsys.readouterr().err.endswith(f"not smoothed: {reason}\n")
    apply_passes(parse_module(model(ADD, LAST.replace("%s", "%a"))), PASS)
    assert capsys.readouterr().err == (
        "warning: 'quant-smooth-activations' changed nothing, expected "
        "contractions of a per-axis 'quant.stats' with constant weights, found none\n"
    )


def test_smoothed_activations_are_counted():
    for line, changed in (
        (statistics("s", "%a"), 1),
        (f"%s = quant.stats %a <-9.0:9.0> : {H}", 0),
    ):
        module = parse_module(model(ADD, line, LAST))
        outcome = QuantSmoothActivationsPass().rewrite(Context(), module)
        assert (len(outcome.ops), outcome.changed) == (1, changed)


def test_channels_of_zeros_stay():
    ranges = RANGES.copy()
    ranges[2] = 0
    text = model(ADD, statistics("s", "%a", ranges), LAST)
    first, second = weights_of(smoothed(text))
    assert np.array_equal(first[:, 2], FIRST[:, 2])
    assert np.array_equal(second[2], SECOND[2])
    assert not (first[:, [0, 1, 3, 4]] == FIRST[:, [0, 1, 3, 4]]).any()


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6"])
def test_convolutions_of_tflite(activation: str, capsys: pytest.CaptureFixture[str]):
    image, channels = type_of(1, 4, 4, 2), type_of(1, 4, 4, 5)
    first, second = normal(5, 3, 3, 2), normal(1, 3, 3, 5, seed=5)
    text = f"""
func.func @main(%x: {image}) -> {channels} {{
  {constant("w", first, "tfl")}
  {constant("v", second, "tfl")}
  {constant("b", BIAS, "tfl")}
  %y = "tfl.conv_2d"(%x, %w, %b) <{{fused_activation_function = "{activation}",
    {CONVOLUTION}}}> : ({image}, {type_of(5, 3, 3, 2)}, {type_of(5)}) -> {channels}
  {statistics("s", "%y", axis=3).replace(H, channels)}
  %z = "tfl.depthwise_conv_2d"(%s, %v, %b) <{{depth_multiplier = 1 : i32,
    fused_activation_function = "RELU", {CONVOLUTION}}}>
    : ({channels}, {type_of(1, 3, 3, 5)}, {type_of(5)}) -> {channels}
  return %z : {channels}
}}"""
    module, argument = parse_module(text), normal(1, 4, 4, 2)
    expected = run(module, argument)
    apply_passes(module, PASS)
    assert relative(expected, run(module, argument)) < 1e-6
    found, found_second = weights_of(module)
    warning = capsys.readouterr().err
    if activation == "RELU6":
        assert "activation 'RELU6' does not scale" in warning
        assert np.array_equal(found, first)
        inserted = parse_module(text)
        apply_passes(inserted, f"{PASS}{{insert-multiply=true}}")
        inserted.verify()
        assert relative(expected, run(inserted, argument)) < 1e-6
        assert [op.name for op in inserted.walk()].count("tfl.mul") == 1
        return
    assert warning == ""
    s = factors(second.reshape(9, 5).T)
    assert np.array_equal(found, f32(first / s.reshape(5, 1, 1, 1)))
    assert np.array_equal(found_second, f32(second * s))


def test_linalg(capsys: pytest.CaptureFixture[str]):
    text = f"""
func.func @main(%x: {H}) -> {Y} {{
  {constant("v", SECOND, "arith")}
  {constant("o", np.zeros((4, 3)), "arith")}
  {statistics("s", "%x")}
  %z = linalg.matmul ins(%s, %v : {H}, {type_of(5, 3)}) outs(%o : {Y}) -> {Y}
  return %z : {Y}
}}"""
    module, argument = parse_module(text), normal(4, 5)
    expected = run(module, argument)
    apply_passes(module, f"{PASS}{{insert-multiply=true}}")
    assert relative(expected, run(module, argument)) < 1e-6
    assert "arith.mulf" in str(module)
    assert capsys.readouterr().err == ""


def test_numbers_that_would_overflow(capsys: pytest.CaptureFixture[str]):
    for scale, ranges, reason in (
        (1e38, RANGES * np.float32(1e30), "weights would overflow"),
        (np.inf, RANGES, "values or weights are not finite"),
    ):
        weights = constant("v", SECOND * np.float32(scale), "stablehlo")
        text = model(ADD, statistics("s", "%a", ranges), LAST).replace(
            constant("v", SECOND, "stablehlo"), weights
        )
        module = parse_module(text)
        before = str(module)
        apply_passes(module, f"{PASS}{{alpha=1}}")
        assert str(module) == before
        assert capsys.readouterr().err.endswith(f"not smoothed: {reason}\n")
    tiny = RANGES * np.float32(1e-38)
    text = model(ADD, statistics("s", "%a", tiny), LAST)
    module = parse_module(text)
    apply_passes(module, f"{PASS}{{alpha=1}}")
    assert capsys.readouterr().err.endswith("not smoothed: constants would overflow\n")


def test_options():
    module = parse_module(model(ADD, statistics("s", "%a"), LAST))
    for alpha in (-0.1, 1.5):
        with pytest.raises(PassFailedException) as error:
            QuantSmoothActivationsPass(alpha).apply(Context(), module)
        assert str(error.value) == f"expected alpha from 0 to 1, found {alpha}"


def test_statistics_of_constants_are_those_of_the_new_ones():
    text = model(
        statistics("t", "%y"),
        ADD.replace("%y, %bb", "%t, %bs"),
        statistics("s", "%a"),
        LAST.replace("%v", "%vs"),
        more=f"{statistics('bs', '%bb')}\n  %vs = quant.stats %v <-9.0:9.0> axis 1 "
        f"[<-9.0:1.0>, <-2.0:1.0>, <-1.0:3.0>] : {type_of(5, 3)}",
    )
    # The op that takes these is gone.
    vector = type_of(5)
    text = text.replace("dim %b,", "dim %b0,").replace(
        "%zeros =", f"%b0 = quant.stats %b <-1.0:1.0> : {vector}\n  %zeros ="
    )
    module, s = smoothed(text), factors()
    ranges = {
        op.input.owner.name if isinstance(op.input.owner, Operation) else "": op
        for op in module.walk()
        if isinstance(op, StatisticsOp)
    }
    assert len(ranges) == 4
    bias, weight = ranges["stablehlo.broadcast_in_dim"], ranges["stablehlo.constant"]
    numbers = f32(SECOND * s[:, np.newaxis]).astype(np.float64)
    assert ranges_of(weight.layer_stats) == [(numbers.min(), numbers.max())]
    assert weight.axis_stats is not None
    assert ranges_of(weight.axis_stats) == [(x.min(), x.max()) for x in numbers.T]
    assert bias.axis_stats is not None
    biases = f32(BIAS / s).astype(np.float64)
    assert ranges_of(bias.axis_stats) == [(x, x) for x in biases]
    assert bias.axis == IntegerAttr(1, i64)


def test_statistics_of_constants_that_stay():
    text = model(f"%t = stablehlo.tanh %y : {H}", statistics("s", "%t"), LAST)
    text = text.replace("%s, %v", "%s, %vs").replace(
        "%y = ", f"%vs = quant.stats %v <-9.0:9.0> : {type_of(5, 3)}\n  %y = "
    )
    before = [str(op) for op in parse_module(text).walk() if op.name == "quant.stats"]
    after = [str(op) for op in smoothed(text).walk() if op.name == "quant.stats"]
    assert sorted(after) == sorted(before)
