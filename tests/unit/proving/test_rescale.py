"""`tosa.rescale` as terms, compared with TOSA's specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics import apply_scale
from xdsl_quant.proving import UnsupportedError, preserved
from xdsl_quant.proving.scalars import Number
from xdsl_quant.proving.tensors import as_elements
from xdsl_quant.proving.terms import Terms
from xdsl_quant.proving.theorems import decode_bits
from xdsl_quant.proving.translation import translate_function
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module


def rescale(
    shape: Sequence[int] = (1,),
    multipliers: Sequence[int] = (1 << 30,),
    shifts: Sequence[int] = (40,),
    *,
    mode: str = "SINGLE_ROUND",
    types: tuple[str, str] = ("i32", "i32"),
    scale32: bool = True,
    zero_points: tuple[int, int] = (0, 0),
) -> str:
    """A function that rescales a tensor."""
    source, target = ("x".join([*map(str, shape), type_]) for type_ in types)
    count, multiplier = len(multipliers), "i32" if scale32 else "i16"

    def constant(name: str, values: Sequence[int], type_: str) -> str:
        tensor = f"tensor<{len(values)}x{type_}>"
        return (
            f'  %{name} = "tosa.const"() <{{values = dense<{[*values]}> : {tensor}}}> '
            f": () -> {tensor}\n"
        )

    return (
        f"func.func @main(%x: tensor<{source}>) -> tensor<{target}> {{\n"
        + constant("m", multipliers, multiplier)
        + constant("s", shifts, "i8")
        + constant("y", zero_points[:1], types[0])
        + constant("z", zero_points[1:], types[1])
        + "  %r = tosa.rescale %x, %m, %s, %y, %z {input_unsigned = false, "
        f"output_unsigned = false, per_channel = {str(count > 1).lower()}, "
        f"rounding_mode = {mode}, scale32 = {str(scale32).lower()}}} : "
        f"(tensor<{source}>, tensor<{count}x{multiplier}>, tensor<{count}xi8>, "
        f"tensor<1x{types[0]}>, tensor<1x{types[1]}>) -> tensor<{target}>\n"
        f"  return %r : tensor<{target}>\n}}"
    )


def rescaled(text: str, values: Any) -> list[int | None]:
    """The results for values; `None` where they are not defined."""
    terms, function = Terms(), entry_function(parse_module(text))
    argument, result = (
        scalar_or_element_type(type_)
        for types in (function.function_type.inputs, function.function_type.outputs)
        for type_ in types
    )
    numbers = np.empty(np.shape(values), object)
    for index, value in np.ndenumerate(np.asarray(values)):
        numbers[index] = Number(terms.of_bits(argument, int(value)), terms.true())
    (found,) = translate_function(terms, function, [numbers])
    return [
        int(decode_bits(result, terms.evaluate(each.term, {})))
        if terms.counterexample(each.is_defined, [], 10).verdict == "holds"
        else None
        for each in as_elements(found).ravel()
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rounding", ["single", "double"])
@pytest.mark.parametrize("shift", [2, 3, 29, 30, 31, 32, 33, 34, 61, 62])
def test_results(shift: int, rounding: ScaleRounding):
    limit = min(1 << shift - 1, 1 << 31)
    known = [-limit, 1 - limit, -3, -2, -1, 0, 1, 2, 3, limit - 2, limit - 1]
    random = np.random.default_rng(shift)
    known += random.integers(-limit, limit, 9).tolist()
    values = np.clip(known, -limit, limit - 1)
    for multiplier in (0, 1, 1 << 30, (1 << 31) - 1):
        mode = f"{rounding.upper()}_ROUND"
        text = rescale(values.shape, [multiplier], [shift], mode=mode)
        right = apply_scale(values, multiplier, shift, rounding=rounding)
        assert rescaled(text, values) == right.tolist()


def test_the_first_values_that_are_too_large():
    text = rescale((4,), [1 << 30], [8])
    assert rescaled(text, [-129, -128, 127, 128]) == [None, -536870912, 532676608, None]


def test_results_of_48_bits_that_are_too_large():
    text = rescale((3,), [16384], [4], types=("i48", "i8"), scale32=False)
    # The product is divided by 16, and a half of it is rounded up.
    assert rescaled(text, [(1 << 21) - 1, 1 << 21, -1 << 21]) == [127, None, -128]


def test_the_last_dimension_has_channels():
    text = rescale((2, 2), [1 << 30, 1 << 30], [30, 31], zero_points=(1, 5))
    assert rescaled(text, [[11, 11], [-9, -9]]) == [15, 10, -5, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (
                rescale(multipliers=[multiplier], shifts=[shift]),
                f"'tosa.rescale' op has multiplier {multiplier} and shift {shift}, "
                "expected a multiplier of at least 0 and a shift from 2 to 62",
            )
            for multiplier, shift in ((5, 0), (5, 1), (5, 63), (5, 70), (-5, 40))
        ),
        (
            rescale(mode="INEXACT_ROUND"),
            "'tosa.rescale' op with INEXACT_ROUND is unsupported in proofs, expected "
            "SINGLE_ROUND, or DOUBLE_ROUND with scale32 = true",
        ),
        (
            rescale(
                multipliers=[5],
                types=("i48", "i8"),
                scale32=False,
                mode="DOUBLE_ROUND",
            ),
            "'tosa.rescale' op with DOUBLE_ROUND is unsupported in proofs, expected "
            "SINGLE_ROUND, or DOUBLE_ROUND with scale32 = true",
        ),
        *(
            (
                rescale()
                .replace("(%x: tensor<1xi32>", "(%x: tensor<1xi32>, %a: tensor<1xi32>")
                .replace(f'%{name} = "tosa', '%unused = "tosa')
                .replace(f"%{name}", "%a"),
                f"{noun} depends on an argument, expected a constant",
            )
            for name, noun in (
                ("m", "a multiplier"),
                ("z", "a zero point"),
            )
        ),
    ],
)
def test_what_has_no_term(text: str, message: str):
    module = parse_module(text)
    with pytest.raises(UnsupportedError) as error:
        preserved(module, "canonicalize")
    line = text.split("\n").index(next(t for t in text.split("\n") if "rescale " in t))
    assert str(error.value) == f"module:{line + 1}:3: error: {message}"


def test_clamped_values():
    text = """
func.func @main(%x: tensor<5xi8>) -> tensor<5xi8> {
  %r = tosa.clamp %x {max_val = 90 : i8, min_val = -100 : i8}
    : (tensor<5xi8>) -> tensor<5xi8>
  return %r : tensor<5xi8>
}"""
    values = [-128, -101, -100, 90, 91]
    assert rescaled(text, values) == [-100, -100, -100, 90, 90]


def test_constants_of_tosa():
    text = """
func.func @main(%x: tensor<1xi4>) -> tensor<3xi4> {
  %r = "tosa.const"() <{values = dense<[-8, 7, -1]> : tensor<3xi4>}> : () -> tensor<3xi4>
  return %r : tensor<3xi4>
}"""
    assert rescaled(text, [0]) == [-8, 7, -1]
