"""What is proved of requantization between fixed-point scales."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from xdsl_quant.proving import RequantizationProver, UnsupportedError
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes, parse_module, parse_type

SOURCE = "!quant.fixed_point<i8:f32, 1518500250p-37:-5>"
TARGET = "!quant.fixed_point<u8<10:200>:f32, 1173741824p-38:13>"


def prover(
    source: str = SOURCE, target: str = TARGET, rounding: ScaleRounding = "single"
) -> RequantizationProver:
    types: list[Any] = [parse_type(source), parse_type(target)]
    return RequantizationProver(types[0], types[1], rounding)


@pytest.mark.parametrize(("rounding", "bound"), [("single", "1/2"), ("double", "1")])
def test_requantization_is_near_what_is_exact(rounding: ScaleRounding, bound: str):
    (found,) = prover(rounding=rounding).theorems()
    assert found.verdict == "proved"
    assert found.claim == (
        f"requantized q is within {bound} + |x| / 2**31 of x + z2 for all q"
    )


@pytest.mark.parametrize("source", ["i8", "u16<100:60000>", "i16", "i32"])
@pytest.mark.parametrize("target", ["i16", "u16<9:50000>", "i32"])
@pytest.mark.parametrize("rounding", ["single", "double"])
def test_wide_requantization(source: str, target: str, rounding: ScaleRounding):
    found = prover(
        f"!quant.fixed_point<{source}:f32, 1518500250p-37:101>",
        f"!quant.fixed_point<{target}:f32, 1173741824p-44:13>",
        rounding,
    )
    assert found.is_near().verdict == "proved"


@pytest.mark.parametrize(
    ("constant", "other"),
    # Zero points, half of the multiplier, and the shift but one.
    [("-5", "-4"), ("13", "14"), ("1389127656", "694563828"), ("28", "29")],
)
def test_wrong_constants_are_refuted(constant: str, other: str):
    found = prover()
    module = parse_module(found.text)
    apply_passes(module, found.passes)
    text = str(module)
    assert text.count(f" {constant} : i64") == 1
    wrong = parse_module(text.replace(f" {constant} : i64", f" {other} : i64"))
    found.__dict__["_function"] = entry_function(wrong)
    assert found.is_near().verdict == "refuted"


@pytest.mark.parametrize("change", [-2, 1])
def test_near_multipliers_are_refuted(change: int):
    found = prover(
        "!quant.fixed_point<i32:f32, 1518500250p-37:101>",
        "!quant.fixed_point<i32:f32, 1173741824p-36:13>",
    )
    module = parse_module(found.text)
    apply_passes(module, found.passes)
    text, right = str(module), 1389127656
    assert text.count(f" {right} : i64") == 1
    wrong = parse_module(text.replace(f" {right} : i64", f" {right + change} : i64"))
    found.__dict__["_function"] = entry_function(wrong)
    assert found.is_near().verdict == "refuted"


def test_the_bound_is_least():
    narrow = prover()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RequantizationProver, "bound", Fraction(49, 100))
        assert narrow.is_near().verdict == "refuted"


@pytest.mark.parametrize(
    "change", [("shrsi", "shrui"), ("addi", "subi"), ("maxsi", "minsi")]
)
def test_wrong_requantization_is_refuted(change: tuple[str, str]):
    right = prover()
    module = parse_module(right.text)
    apply_passes(module, right.passes)
    text = str(module)
    assert f"arith.{change[0]} " in text
    wrong = parse_module(text.replace(f"arith.{change[0]} ", f"arith.{change[1]} "))
    right.__dict__["_function"] = entry_function(wrong)
    assert right.is_near().verdict == "refuted"


def test_other_types():
    with pytest.raises(UnsupportedError) as caught:
        prover(target="!quant.uniform<i8:f32, 0.5>")
    assert str(caught.value) == (
        "unsupported type '!quant.uniform<i8:f32, 5.000000e-01>'; expected per-tensor "
        "'!quant.fixed_point'"
    )
