"""What is proved of casts, and what is refuted."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, i1, i16

from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.proving import CastProver, Theorem, UnsupportedError, provers
from xdsl_quant.proving.theorems import CompiledDemonstration
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.tools import run

I8 = "!quant.uniform<i8:f32, 0.3:5>"
TRUNCATE = Rounding("truncate")


def prover(type_: str, rounding: Rounding = Rounding(), **options: Any) -> CastProver:
    (found,) = provers(type_, rounding, **options)
    return found


def verdicts(theorems: Any) -> list[str]:
    return [theorem.verdict for theorem in theorems]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("type_", "rounding", "fuse"),
    [
        (
            "!quant.uniform<u8:f16, 0.3:255>",
            Rounding("nearest-away", "after-rounding", "stored-zero"),
            False,
        ),
        ("!quant.uniform<i8:f32, 0.5:-128>", Rounding(), True),
        ("!quant.uniform<u4:f16, 1.7:3>", Rounding(nan="stored-zero"), True),
        ("!quant.uniform<i4<-7:7>:bf16, 0.3>", Rounding("nearest-away"), False),
    ],
)
def test_all_claims_are_proved(type_: str, rounding: Rounding, fuse: bool):
    found = prover(type_, rounding, fuse=fuse)
    assert verdicts(found.theorems()) == ["proved"] * 5


def test_claims():
    found = [*prover("!quant.uniform<i2:f16, 1.0>").theorems()]
    assert [theorem.claim for theorem in found] == [
        "qcast(x) is defined for all x",
        "qcast(x) is the formula for all x",
        "qcast(x) <= qcast(y) for all x <= y",
        "dcast(q) is the formula for all q",
        "qcast(dcast(q)) = q for all q",
    ]
    assert {theorem.method for theorem in found} == {"solver"}
    assert str(found[0]).startswith("proved: qcast(x) is defined for all x (solver, ")


def shown(theorem: Theorem) -> str:
    """Run the command of a counterexample in this process, and return its output."""
    command = shlex.split(theorem.command)
    with redirect_stdout(StringIO()) as printed:
        if command[0] == "python":
            exec(command[2], {})
        else:
            _, text, _, _, _, *arguments = command
            with patch("sys.stdin", TextIOWrapper(BytesIO(text.encode()))):
                assert run.main(arguments) == 0
    return printed.getvalue()


def shown_by_shell(theorem: Theorem) -> str:
    """What the command of a counterexample prints."""
    # Commands are beside Python, wherever that is.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-c", theorem.command],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    return result.stdout


def test_truncation_is_not_defined_for_all_inputs():
    found = prover(I8, TRUNCATE).is_defined()
    assert found.verdict == "refuted"
    name, _, value = found.details.partition(", ")[0].partition(" = ")
    assert (name, found.details.partition(", ")[2]) == ("x", "found = undefined")
    x = np.float32(value)
    assert not -129 < x / np.float32(0.3) + 5 < 128


def test_a_counterexample_is_what_the_command_shows():
    found = prover(I8, TRUNCATE).round_trips()
    assert found.verdict == "refuted"
    values = dict(pair.split(" = ") for pair in found.details.split(", "))
    assert shown(found).strip().endswith(values["found"])
    assert values["found"] != values["q"]
    assert f"--input={values['q']}" in shlex.split(found.command)


def test_stored_values_that_are_not_expressed():
    found = prover("!quant.uniform<i16:f16, 1.0>").round_trips()
    values = dict(pair.split(" = ") for pair in found.details.split(", "))
    q = int(values["q"])
    assert int(np.float16(q)) == int(values["found"]) != q


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("type_", "dtype", "limits"),
    [
        ("!quant.uniform<i4:f16, 1.0>", np.float16, (1e-2, 1e3, 6e4)),
        ("!quant.uniform<i8:f32, 1.0>", np.float32, (1e-30, 1e30, 3e38)),
    ],
)
def test_all_scales(type_: str, dtype: Any, limits: tuple[float, float, float]):
    low, middle, high = limits
    found = prover(type_, scales=(low, middle), seconds=120)
    theorem = found.round_trips()
    assert theorem.claim == "qcast(dcast(q)) = q for all q and scale"
    assert theorem.verdict == "proved"
    wide = prover(type_, scales=(middle, high))
    refuted = wide.round_trips()
    assert refuted.verdict == "refuted"
    values = dict(pair.split(" = ") for pair in refuted.details.split(", "))
    # The product with the scale is infinite.
    with np.errstate(over="ignore"):
        assert np.isinf(dtype(values["q"]) * dtype(values["scale"]))


@pytest.mark.parametrize("scale", ["0.3:1", "0.5:1", "1.0"])
@pytest.mark.parametrize("fuse", [False, True])
def test_all_scales_whatever_that_of_the_type_is(scale: str, fuse: bool):
    found = prover(f"!quant.uniform<i2:f16, {scale}>", fuse=fuse, scales=(0.1, 2.0))
    theorems = [found.is_defined(), found.matches_quantization_formula()]
    theorems += [found.dequantizes_by_the_formula()]
    assert verdicts(theorems) == ["proved"] * 3
    subject = "scale that is not a power of two" if fuse else "scale"
    assert theorems[0].claim == f"qcast(x) is defined for all x and {subject}"


def test_powers_of_two_are_not_among_all_scales():
    """Their reciprocals are other code."""
    scales = (0.5, float(np.nextafter(np.float16(0.5), np.float16(1))))
    found = prover("!quant.uniform<i4:f16, 0.3>", fuse=True, scales=scales)
    monotone = found.is_monotone()
    assert monotone.verdict == "proved"
    # Of what is not true for any scale, the counterexample is the other one.
    found.__dict__["_functions"] = {
        "q": entry_function(
            parse_module("""
func.func @main(%x: f16) -> i4 {
  %scale = arith.constant 0.75 : f16
  %y = arith.divf %x, %scale : f16
  %z = arith.fptosi %y : f16 to i4
  return %z : i4
}""")
        )
    }
    refuted = found.is_defined()
    assert refuted.verdict == "refuted"
    assert f", scale = {scales[1]}, " in refuted.details
    with pytest.raises(ValueError, match="empty range of scales") as error:
        prover("!quant.uniform<i4:f16, 0.3>", fuse=True, scales=(0.5, 0.5001))
    assert str(error.value) == (
        "empty range of scales: 0.5 is a power of two, and option fuse excludes these; "
        "use a type with this scale"
    )


def test_subnormal_powers_of_two():
    found = prover("!quant.uniform<i4:f16, 0.3>", fuse=True, scales=(2**-24, 2**-14))
    terms, bits, is_power = found._terms, found._bits, found._is_power_of_two  # pyright: ignore[reportPrivateUsage] what is tested
    for value in (1, 2, 3, 4, 6, 512, 513, 768, 1024, 1025, 0x3800, 0x3801, 0x3C00):
        one, zero = (terms.of_bits(i1, bit) for bit in (1, 0))
        known = {bits: terms.of_bits(i16, value)}
        evaluated = terms.evaluate(terms.choice(is_power, one, zero), known)
        (number,) = f16.unpack(value.to_bytes(2, "little"), 1)
        assert evaluated == (math.frexp(number)[0] == 0.5)


def test_the_command_of_a_scale():
    found = prover("!quant.uniform<i8:f32, 1.0>", scales=(1e30, 3e38))
    refuted = found.round_trips()
    assert refuted.verdict == "refuted"
    values = dict(pair.split(" = ") for pair in refuted.details.split(", "))
    assert values["found"] != values["q"]
    assert shown_by_shell(refuted).strip().endswith(values["found"])


def test_what_takes_too_long_is_unknown():
    found = prover("!quant.uniform<i16:f64, 0.3:7>", seconds=0.01).is_monotone()
    assert found.verdict == "unknown"
    assert found.details == "the solver found no answer in 0.01 s"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "type_",
    [
        "!quant.uniform<i8:f16, 0.3:5>",
        "!quant.uniform<i4:bf16, 0.3:2>",
        "!quant.uniform<i32:f16, 1.0e+3:1>",
    ],
)
def test_all_inputs(type_: str):
    found = [*prover(type_, Rounding("nearest-away")).all_inputs()]
    assert [(t.claim, t.verdict, t.method) for t in found[:2]] == [
        (f"qcast(x) is the formula for all x, {name}", "proved", "65,536 inputs")
        for name in ("compiled", "numerics")
    ]


@pytest.mark.sampled(0)
def test_all_stored_values():
    assert prover("!quant.uniform<i8:f16, 0.3:5>").cast.width == 8
    *_, found = prover("!quant.uniform<u8<3:200>:f16, 0.3:5>").all_inputs()
    assert (found.claim, found.verdict, found.method) == (
        "qcast(dcast(q)) = q for all q, compiled",
        "proved",
        "198 inputs",
    )
    found = prover("!quant.uniform<i16:f16, 1.0>").compiled_round_trips()
    assert (found.verdict, found.details) == (
        "refuted",
        "input = -32767, found = -32768, expected = -32767",
    )
    assert shown(found).strip() == "-32768"
    # All inputs of 32 bits would be too many.
    assert len([*prover("!quant.uniform<i32:f16, 1.0e+3>").all_inputs()]) == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "printed"), [("nan", "-128"), (-1.5, "0")])
def test_the_command_of_compiled_code(value: object, printed: str):
    text = prover(I8).text("q")
    command = CompiledDemonstration(
        text, {"zero_point_order": "after-rounding"}
    ).command(value)
    theorem = Theorem("claim", "refuted", "2 inputs", 0.0, "input", command)
    assert shown_by_shell(theorem).strip() == printed


def test_unsigned_counterexamples():
    found = prover("!quant.uniform<u8:f16, 0.3:255>", TRUNCATE)
    theorem = found.round_trips()
    values = dict(pair.split(" = ") for pair in theorem.details.split(", "))
    assert 0 <= int(values["found"]) < int(values["q"]) < 256
    assert shown(theorem).strip().endswith(values["found"])


def test_all_inputs_of_numerics_that_are_wrong(monkeypatch: pytest.MonkeyPatch):
    def wrong(values: Any, parameters: QuantizationParameters, **rounding: Any) -> Any:
        found = quantize(values, parameters, **rounding)
        return np.where(values == np.float16(1.5), found + 1, found)

    monkeypatch.setattr("xdsl_quant.proving.casts.quantize", wrong)
    _, found, _ = prover("!quant.uniform<i8:f16, 0.3:5>").all_inputs()
    assert found.verdict == "refuted"
    assert found.details == "input = 1.5, found = 11, expected = 10"
    assert shown(found).strip().endswith("10")


@pytest.mark.parametrize(
    "type_", ["!quant.uniform<i8:f64, 0.3>", "!quant.uniform<i32:f32, 0.3>"]
)
def test_too_many_inputs(type_: str):
    with pytest.raises(UnsupportedError, match="trying all inputs requires rounding"):
        next(prover(type_).all_inputs())


LOWERED = """
func.func @main(%x: f32) -> i8 {{
  %scale = arith.constant 0.3 : f32
  %zero_point = arith.constant 5.0 : f32
  %a = arith.divf %x, %scale : f32
  %b = arith.addf %a, %zero_point : f32
  %c = math.roundeven %b : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %d = arith.maxnumf %c, %low : f32
  %e = arith.minnumf %d, %high : f32
  %f = arith.fptosi %e : f32 to i32
  %g = arith.trunci %f : i32 to i8
  return %g : i8
}}
"""


def verdict_of_lowering(text: str) -> str:
    found = prover(I8)
    found.__dict__["_functions"] = {"q": entry_function(parse_module(text))}
    return found.matches_quantization_formula().verdict


def test_the_right_lowering_is_proved():
    assert verdict_of_lowering(LOWERED.format()) == "proved"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("roundeven", "round"),
        ("roundeven", "floor"),
        ("addf %a", "subf %a"),
        ("divf %x", "mulf %x"),
        ("maxnumf %c", "maximumf %c"),
        ("constant 127.0", "constant 126.0"),
        ("constant 127.0", "constant 128.0"),
        ("constant 0.3 ", "constant 0.30000004 "),
        ("constant 5.0", "constant 4.0"),
        ("%e : f32 to i32", "%d : f32 to i32"),
    ],
)
def test_wrong_lowerings_are_refuted(before: str, after: str):
    text = LOWERED.format()
    assert before in text
    assert verdict_of_lowering(text.replace(before, after)) == "refuted"
