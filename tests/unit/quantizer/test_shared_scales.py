"""Kernels whose operands share a scale that leaves few values of one of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.ir import BlockArgument

from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.quantizer import QuantizedModel, Recipe, quantize
from xdsl_quant.quantizer.shared_scales import CoarseOperand, coarse_operands
from xdsl_quant.runtime.arrays import constant_elements
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.target_files import read_target
from xdsl_quant.transforms.statistics.quant_insert_stats_refs import (
    QuantInsertStatsRefsPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .models import PLAIN, samples

Range = tuple[float, float]

ROW, LONG, COLUMN = "tensor<1x4xf32>", "tensor<1x8xf32>", "tensor<8x1xf32>"
PADDED, INDICES = "tensor<1x5xf32>", "tensor<2xi32>"
ROWS = f"({ROW}, {ROW}) -> {ROW}"
SELECTED = f"(tensor<1x4xi1>, {ROW}, {ROW}) -> {ROW}"

SCORES, BOXES = "'main:argument:0'", "'main:argument:1'"


def constant(name: str, value: str, type_: str, op: str = "tfl.pseudo_const") -> str:
    return f'{name} = "{op}"() <{{value = dense<{value}> : {type_}}}> : () -> {type_}'


def concatenation(operands: str) -> str:
    properties = '<{axis = 1 : i32, fused_activation_function = "NONE"}>'
    return f'"tfl.concatenation"({operands}) {properties} : ({ROW}, {ROW}) -> {LONG}'


JOINED = f"%j = {concatenation('%s, %b')}"
SHAPE, ORDER = constant("%i", "[8, 1]", INDICES), constant("%k", "[1, 0]", INDICES)
RESHAPED = f'%r = "tfl.reshape"(%j, %i) : ({LONG}, {INDICES}) -> {COLUMN}'


def function(*lines: str) -> str:
    """The function of scores, boxes and a condition that returns the value of an op."""
    *before, op = lines
    result = op.rpartition(" -> ")[2]
    start = f"func.func @main(%s: {ROW}, %b: {ROW}, %p: tensor<1x4xi1>) -> {result} {{"
    return "\n".join([start, *before, f"%y = {op}", f"return %y : {result}", "}"])


def lost(
    *lines: str, result: Range, scores: Range = (0, 1), boxes: Range = (0, 640)
) -> Sequence[CoarseOperand]:
    """
    Return the lost operands of a function.

    Args:
        lines: its ops.
        result: the range of the results of all ops.
        scores: the range of the first argument.
        boxes: that of the second one.
    """
    module = parse_module(function(*lines))
    apply_passes(module, [QuantInsertStatsRefsPass()], is_routine=True)
    ranges: dict[str, KeyStatistics] = {}
    for op in module.walk():
        if not isinstance(op, StatisticsRefOp):
            continue
        layer = result
        if isinstance(op.input, BlockArgument):
            layer = (scores, boxes)[op.input.index]
        elif (elements := constant_elements(op.input)) is not None:
            layer = float(elements.min()), float(elements.max())
        ranges[op.stats_key.data] = KeyStatistics(layer)
    dialect = "tflite" if "tfl." in lines[-1] else "stablehlo"
    target = read_target(f"{dialect}-int8")
    fuse_kernels(module, target)
    return coarse_operands(module, ranges, target)


def warning_of(operand: CoarseOperand) -> str:
    with pytest.warns(UserWarning, match="shares one scale between operands") as found:
        operand.warn()
    (warning,) = found
    return str(warning.message)


def name_of(text: str) -> str:
    """The name of the op of a text."""
    return text.split('"')[1]


@pytest.mark.parametrize(
    "text",
    [
        concatenation("%s, %b"),
        '"tfl.pack"(%s, %b) <{axis = 1 : i32, values_count = 2 : i32}> : '
        f"({ROW}, {ROW}) -> tensor<1x2x4xf32>",
        f'"tfl.select"(%p, %s, %b) : {SELECTED}',
        f'"tfl.select_v2"(%p, %s, %b) : {SELECTED}',
        f'"tfl.maximum"(%s, %b) : {ROWS}',
        f'"tfl.minimum"(%s, %b) : {ROWS}',
        f'"tfl.dynamic_update_slice"(%b, %s, %i) : ({ROW}, {ROW}, {INDICES}) -> {ROW}',
        '"stablehlo.concatenate"(%s, %b) <{dimension = 1 : i64}> : '
        f"({ROW}, {ROW}) -> {LONG}",
        f'"stablehlo.select"(%p, %s, %b) : {SELECTED}',
        f'"stablehlo.maximum"(%s, %b) : {ROWS}',
        f'"stablehlo.minimum"(%b, %s) : {ROWS}',
        f'"stablehlo.clamp"(%s, %b, %b) : ({ROW}, {ROW}, {ROW}) -> {ROW}',
    ],
    ids=name_of,
)
def test_operands_beside_a_wider_one(text: str):
    name, index = name_of(text), constant("%i", "0", INDICES)
    (operand,) = lost(index, text, result=(-640, 640), boxes=(-640, 640))
    assert warning_of(operand) == (
        f"module:3:1: '{name}' shares one scale between operands of different ranges: "
        f"{SCORES} from 0 to 1 spans only 0.2 steps of the scale of {BOXES} from -640 "
        f"to 640; set 'float-concatenations = true' in the recipe to keep '{name}' in "
        "floating point"
    )


@pytest.mark.parametrize(
    ("const", "shape", "text"),
    [
        (
            "tfl.pseudo_const",
            "tensor<f32>",
            '"tfl.padv2"(%s, %i, %c) : '
            f"({ROW}, tensor<2x2xi32>, tensor<f32>) -> {PADDED}",
        ),
        (
            "stablehlo.constant",
            "tensor<f32>",
            '"stablehlo.pad"(%s, %c) <{edge_padding_low = array<i64: 0, 0>, '
            "edge_padding_high = array<i64: 0, 1>, interior_padding = array<i64: 0, 0>}> : "
            f"({ROW}, tensor<f32>) -> {PADDED}",
        ),
        ("tfl.pseudo_const", ROW, concatenation("%s, %c")),
    ],
    ids=["tfl.padv2", "stablehlo.pad", "tfl.concatenation"],
)
def test_operands_beside_a_constant(const: str, shape: str, text: str):
    padding = constant("%i", "[[0, 0], [0, 1]]", "tensor<2x2xi32>")
    number = constant("%c", "-1000.0", shape, const)
    (operand,) = lost(padding, number, text, result=(-1000, 1))
    assert (
        f"{SCORES} from 0 to 1 spans only 0.3 steps of the scale of module:3:1 of "
        f"-1000;"
    ) in warning_of(operand)


def test_constants():
    (operand,) = lost(
        constant("%c", "0.5", ROW), concatenation("%b, %c"), result=(0, 640)
    )
    assert (
        f"module:2:1 of 0.5 spans only 0.2 steps of the scale of {BOXES} from 0 to 640;"
    ) in warning_of(operand)
    # Each scale represents 0.
    zeros = constant("%c", "0.0", ROW)
    assert not lost(zeros, concatenation("%b, %c"), result=(0, 640))
    # A small bound is rounded like the elements beside it.
    bound = constant("%c", "0.5", ROW)
    assert not lost(bound, f'"tfl.maximum"(%b, %c) : {ROWS}', result=(0.5, 640))


def test_operands_that_lose_nothing():
    maximum, minimum = (
        f'"tfl.{name}"(%s, %b) : {ROWS}' for name in ("maximum", "minimum")
    )
    # The scale is that of the result.
    assert not lost(minimum, result=(0, 1))
    # The result has no element of the scores.
    assert not lost(maximum, result=(2, 640), boxes=(2, 640))
    assert not lost(minimum, result=(-640, -2), boxes=(-640, -2))
    # A scale of their own has no more values for them.
    assert not lost(concatenation("%s, %b"), result=(0, 640), scores=(639, 640))
    assert not lost(concatenation("%s, %b"), result=(0, 640), scores=(0, 0))
    assert not lost(concatenation("%s, %b"), result=(0, 0), scores=(0, 0), boxes=(0, 0))


def test_selects_of_a_wide_constant():
    number = constant("%c", "1000.0", ROW)
    select = f'"tfl.select_v2"(%p, %s, %c) : {SELECTED}'
    (operand,) = lost(number, select, result=(0, 1000))
    # `warn_of_wide_constants` warns of the constant.
    operand.warn()


@pytest.mark.parametrize(
    ("lines", "kernels"),
    [
        ((concatenation("%s, %b"),), ["tfl.concatenation"]),
        (
            (
                *(JOINED, SHAPE, RESHAPED, ORDER),
                f'"tfl.transpose"(%r, %k) : ({COLUMN}, {INDICES}) -> {LONG}',
            ),
            ["tfl.concatenation", "tfl.reshape", "tfl.transpose"],
        ),
        ((JOINED, f'"tfl.relu"(%j) : ({LONG}) -> {LONG}'), []),
        (
            (JOINED, SHAPE, RESHAPED, f'"tfl.relu"(%r) : ({COLUMN}) -> {COLUMN}'),
            [],
        ),
    ],
    ids=["result", "moved", "quantized", "moved and quantized"],
)
def test_kernels_that_stay_in_floating_point(
    lines: Sequence[str], kernels: Sequence[str]
):
    (operand,) = lost(*lines, result=(0, 640))
    assert operand.can_be_kept == bool(kernels)
    if kernels:
        assert [kernel.kernel for kernel in operand.float_kernels] == kernels
        return
    assert warning_of(operand).endswith(
        "; add an override that keeps 'tfl.concatenation' and the kernels after it in "
        "floating point"
    )


# The option


def types_of(model: QuantizedModel, name: str) -> set[str]:
    """The element types of the operands and results of the ops with a name."""
    return {
        str(scalar_or_element_type(value.type)).partition(",")[0]
        for op in model.module.walk()
        if op.name == name
        for value in (*op.operands, *op.results)
    }


OPTION = Recipe(bias_correction=False, float_concatenations=True)


def option_model(text: str) -> str:
    """A model of scores and boxes; the text ends with the type of its result."""
    return f"""
func.func @main(%x: {ROW}) -> {text.rpartition(" : ")[2]} {{
  %c = stablehlo.constant dense<640.0> : {ROW}
  %s = stablehlo.logistic %x : {ROW}
  %b = stablehlo.multiply %x, %c : {ROW}
  {text}
}}
"""


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (
            ("stablehlo.concatenate", "stablehlo.reshape"),
            f"""%j = stablehlo.concatenate %s, %b, dim = 1 : ({ROW}, {ROW}) -> {LONG}
  %y = stablehlo.reshape %j : ({LONG}) -> {COLUMN}
  return %y : {COLUMN}""",
        ),
        (
            ("stablehlo.maximum",),
            f"%y = stablehlo.maximum %s, %b : {ROW}\n  return %y : {ROW}",
        ),
    ],
    ids=["concatenate", "maximum"],
)
def test_the_option(names: Sequence[str], text: str):
    model = option_model(text)
    data = samples(8, 4)
    with pytest.warns(UserWarning, match="set 'float-concatenations = true'"):
        quantized = quantize(model, data, PLAIN)
    kept = quantize(model, data, OPTION)
    for name in names:
        assert types_of(quantized, name) == {"!quant.uniform<i8:f32"}
        assert types_of(kept, name) == {"f32"}
    assert types_of(kept, "stablehlo.logistic") == {"!quant.uniform<i8:f32"}


def test_the_option_where_it_keeps_no_values():
    model = option_model(
        f"""%j = stablehlo.concatenate %s, %b, dim = 1 : ({ROW}, {ROW}) -> {LONG}
  %y = stablehlo.abs %j : {LONG}
  return %y : {LONG}"""
    )
    with pytest.warns(UserWarning, match="; add an override that keeps"):
        quantized = quantize(model, samples(8, 4), OPTION)
    assert types_of(quantized, "stablehlo.concatenate") == {"!quant.uniform<i8:f32"}
