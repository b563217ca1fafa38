"""Proofs that code of one element is a non-decreasing function."""

import pytest

from xdsl_quant.proving.monotonicity import Trend, check_monotonic
from xdsl_quant.proving.terms import UnsupportedError
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module

DOUBLED = "%y = arith.addi %x, %x : i32"


def check(
    body: str, type_: str = "i32", result: str = "i32", bound: float = 100
) -> None:
    """Check a function of `%x` with the result `%y`."""
    module = parse_module(f"""
    func.func @main(%t: tensor<4x{type_}>) -> tensor<4x{result}> {{
      %e = tensor.empty() : tensor<4x{result}>
      %r = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>,
        affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}}
        ins(%t : tensor<4x{type_}>) outs(%e : tensor<4x{result}>) {{
      ^bb0(%x: {type_}, %o: {result}):
        {body}
        linalg.yield %y : {result}
      }} -> tensor<4x{result}>
      return %r : tensor<4x{result}>
    }}""")
    check_monotonic(entry_function(module), Trend(-bound, bound, 1))


def constant(value: object, type_: str = "i32") -> str:
    return f"%c = arith.constant {value} : {type_}\n"


@pytest.mark.parametrize(
    "body",
    [
        DOUBLED,
        constant(3) + "%y = arith.muli %c, %x : i32",
        constant(2) + "%y = arith.shrsi %x, %c : i32",
        # Rounding of halves away from zero.
        constant(0)
        + """%n = arith.cmpi slt, %x, %c : i32
        %b = arith.extui %n : i1 to i32
        %y = arith.subi %x, %b : i32""",
        constant(0)
        + """%n = arith.cmpi slt, %x, %c : i32
        %b = arith.extsi %n : i1 to i32
        %y = arith.addi %x, %b : i32""",
    ],
)
def test_function_is_monotonic(body: str):
    check(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            constant(-3) + "%y = arith.muli %c, %x : i32",
            "not a non-decreasing function",
        ),
        (constant(0) + "%y = arith.subi %c, %x : i32", "not a non-decreasing function"),
        ("%y = arith.muli %x, %x : i32", "multiplies values that are not constant"),
        (constant(2) + "%y = arith.shrui %x, %c : i32", "direction is unknown"),
        (constant(2) + "%y = arith.remsi %x, %c : i32", "direction is unknown"),
        (
            constant(33554432) + "%y = arith.muli %c, %x : i32",
            "'arith.muli', which may",
        ),
        (
            "%s = arith.trunci %x : i32 to i4\n%y = arith.extsi %s : i4 to i32",
            "overflow",
        ),
        ("%y = arith.addi %o, %x : i32", "undefined"),
        # The sign of a truth value is -1.
        (
            constant(0)
            + """%n = arith.cmpi slt, %x, %c : i32
            %b = arith.extsi %n : i1 to i32
            %y = arith.subi %x, %b : i32""",
            "different directions",
        ),
        (
            constant(0)
            + """%n = arith.cmpi ult, %x, %c : i32
            %y = arith.extui %n : i1 to i32""",
            "comparison without a direction",
        ),
    ],
)
def test_other_function_is_refused(body: str, message: str):
    with pytest.raises(UnsupportedError, match=message):
        check(body)


ROUND = """%a = math.absf %x : f32
%c = arith.constant 0.5 : f32
%h = arith.addf %a, %c : f32
%f = math.floor %h : f32
"""


def test_signed_magnitudes():
    check(ROUND + "%y = math.copysign %f, %x : f32", "f32", "f32")
    with pytest.raises(UnsupportedError, match="not a non-decreasing function"):
        check(ROUND + "%y = arith.addf %f, %c : f32", "f32", "f32")
    with pytest.raises(UnsupportedError, match="sign of another value"):
        check(ROUND + "%y = math.copysign %f, %c : f32", "f32", "f32")
    with pytest.raises(UnsupportedError, match="not bounded"):
        check("%y = arith.fptosi %x : f32 to i32", "f32", "i32", float("inf"))


def test_argument_out_of_range_of_its_type_is_refused():
    with pytest.raises(UnsupportedError, match="an argument, which may overflow"):
        check(DOUBLED, bound=float(1 << 31))
