"""Proofs that code of one element is a non-decreasing function."""

import pytest

from xdsl_quant.proving.kernels.monotonicity import Trend, check_monotonic
from xdsl_quant.proving.terms import UnsupportedError
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module

DOUBLED = "%y = arith.addi %x, %x : i32"


def check(
    body: str, type_: str = "i32", result: str = "i32", bound: float = 100
) -> None:
    """Check a function of `%x` with the result `%y`."""
    module = parse_module(f"""
    func.func @main(%argument: tensor<4x{type_}>) -> tensor<4x{result}> {{
      %empty = tensor.empty() : tensor<4x{result}>
      %result = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>,
        affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}}
        ins(%argument : tensor<4x{type_}>) outs(%empty : tensor<4x{result}>) {{
      ^bb0(%x: {type_}, %o: {result}):
        {body}
        linalg.yield %y : {result}
      }} -> tensor<4x{result}>
      return %result : tensor<4x{result}>
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


SUM_OF_PARTS = """%z = arith.constant 0.0 : f32
%a = arith.maxnumf %x, %z : f32
%b = arith.minnumf %x, %z : f32
%y = arith.addf %a, %b : f32
"""


def test_sums_of_floats_are_monotonic_if_they_are_bounded():
    check(SUM_OF_PARTS, "f32", "f32")
    with pytest.raises(UnsupportedError, match="adds floats"):
        check(SUM_OF_PARTS, "f32", "f32", float("inf"))


def test_argument_out_of_range_of_its_type_is_refused():
    with pytest.raises(UnsupportedError, match="an argument, which may overflow"):
        check(DOUBLED, bound=float(1 << 31))


POSITIVE = constant(0) + "%n = arith.cmpi sgt, %x, %c : i32\n"

ATTACKS = {
    "truth values are sign-extended": constant(31)
    + "%s = arith.shrsi %x, %c : i32\n%b = arith.trunci %s : i32 to i1\n"
    "%e = arith.extsi %b : i1 to i32\n%z = arith.constant 0 : i32\n"
    "%y = arith.subi %z, %e : i32",
    "true is -1": "%c = arith.constant true\n"
    "%e = arith.extsi %c : i1 to i32\n%y = arith.muli %e, %x : i32",
    "true is less than false": POSITIVE
    + "%f = arith.constant false\n%m = arith.cmpi slt, %n, %f : i1\n"
    "%e = arith.extui %m : i1 to i32\n%y = arith.subi %c, %e : i32",
    "true is not the maximum": POSITIVE
    + "%f = arith.constant false\n%m = arith.minsi %n, %f : i1\n"
    "%e = arith.extui %m : i1 to i32\n%k = arith.constant 1073741824 : i32\n"
    "%p = arith.muli %e, %k : i32\n%q = arith.muli %e, %k : i32\n"
    "%y = arith.addi %p, %q : i32",
    "true is a negative float": POSITIVE
    + "%s = arith.sitofp %n : i1 to f32\n%y = arith.fptosi %s : f32 to i32",
    "an addition of truth values": POSITIVE
    + "%s = arith.addi %n, %n : i1\n%y = arith.extui %s : i1 to i32",
    "a float as truth value": "%f = arith.sitofp %x : i32 to f32\n"
    "%z = arith.constant 0.0 : f32\n%o1 = arith.constant -1.0 : f32\n"
    "%a = arith.minimumf %f, %z : f32\n%b = arith.maximumf %a, %o1 : f32\n"
    "%n = arith.fptosi %b : f32 to i1\n%e = arith.extsi %n : i1 to i32\n"
    "%k = arith.constant 0 : i32\n%y = arith.subi %k, %e : i32",
    "a shift by more than the width": constant(40) + "%y = arith.shrsi %x, %c : i32",
    "a shift by a negative number": constant(-1) + "%y = arith.shrsi %x, %c : i32",
    "a shift to the left of the sign": constant(25) + "%y = arith.shli %x, %c : i32",
    "a shift by the argument": constant(1) + "%y = arith.shrsi %c, %x : i32",
    "a product that becomes infinite": "%f = arith.sitofp %x : i32 to f32\n"
    "%k = arith.constant 1.0e37 : f32\n%l = arith.constant 1.0e-36 : f32\n"
    "%p = arith.mulf %f, %k : f32\n%q = arith.mulf %p, %l : f32\n"
    "%y = arith.fptosi %q : f32 to i32",
    "a conversion that becomes infinite": "%f = arith.sitofp %x : i32 to f64\n"
    "%k = arith.constant 1.0e300 : f64\n%l = arith.constant 1.0e-300 : f64\n"
    "%p = arith.mulf %f, %k : f64\n%t = arith.truncf %p : f64 to f32\n"
    "%w = arith.extf %t : f32 to f64\n%q = arith.mulf %w, %l : f64\n"
    "%y = arith.fptosi %q : f64 to i32",
    "the sign of a zero": "%f = arith.sitofp %x : i32 to f32\n"
    "%k = arith.constant -0.0 : f32\n%m = arith.minnumf %f, %k : f32\n"
    "%a = math.absf %m : f32\n%l = arith.constant 1.0 : f32\n"
    "%p = arith.addf %a, %l : f32\n%q = math.copysign %p, %m : f32\n"
    "%y = arith.fptosi %q : f32 to i32",
    "no unsigned overflow": constant(5) + "%y = arith.addi %x, %c overflow<nuw> : i32",
    "fast math": "%f = arith.sitofp %x : i32 to f32\n%k = arith.constant 2.0 : f32\n"
    "%p = arith.mulf %f, %k fastmath<fast> : f32\n%y = arith.fptosi %p : f32 to i32",
    "an exclusive or": constant(-1) + "%y = arith.xori %x, %c : i32",
    "low bits": constant(7) + "%y = arith.andi %x, %c : i32",
    "a quotient of integers": constant(-2) + "%y = arith.divsi %x, %c : i32",
    "an unsigned maximum": constant(5) + "%y = arith.maxui %x, %c : i32",
    "an equality": constant(5)
    + "%n = arith.cmpi eq, %x, %c : i32\n%y = arith.extui %n : i1 to i32",
    "a selection": POSITIVE + "%y = arith.select %n, %c, %x : i32",
    "a maximum of opposites": constant(0)
    + "%m = arith.subi %c, %x : i32\n%y = arith.maxsi %x, %m : i32",
    "a comparison of the argument with its half": constant(1)
    + "%h = arith.shrsi %x, %c : i32\n%n = arith.cmpi sgt, %x, %h : i32\n"
    "%y = arith.extui %n : i1 to i32",
    "negative numbers extended by zeros": "%s = arith.trunci %x : i32 to i8\n"
    "%y = arith.extui %s : i8 to i32",
    "unsigned integers as floats": "%f = arith.uitofp %x : i32 to f32\n"
    "%y = arith.fptosi %f : f32 to i32",
    "a rounding error": "%f = arith.sitofp %x : i32 to f32\n"
    "%k = math.floor %f : f32\n%d = arith.subf %f, %k : f32\n"
    "%y = arith.fptosi %d : f32 to i32",
    "a NaN": "%f = arith.sitofp %x : i32 to f32\n"
    "%k = arith.constant 0x7FC00000 : f32\n%d = arith.maxnumf %f, %k : f32\n"
    "%y = arith.fptosi %d : f32 to i32",
    "a product with 0": "%f = arith.sitofp %x : i32 to f32\n"
    "%k = arith.constant 0.0 : f32\n%d = arith.divf %k, %f : f32\n"
    "%y = arith.fptosi %d : f32 to i32",
    "a negative divisor": "%f = arith.sitofp %x : i32 to f32\n"
    "%k = arith.constant -2.0 : f32\n%d = arith.divf %f, %k : f32\n"
    "%y = arith.fptosi %d : f32 to i32",
    "bits of a float": "%f = arith.sitofp %x : i32 to f32\n"
    "%y = arith.bitcast %f : f32 to i32",
    "a half": "%f = arith.sitofp %x : i32 to f16\n%k = arith.constant 2.0 : f16\n"
    "%d = arith.mulf %f, %k : f16\n%y = arith.fptosi %d : f16 to i32",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused(name: str):
    with pytest.raises(UnsupportedError):
        check(ATTACKS[name])


def check_tosa(body: str, bound: float = 100, type_: str = "i32") -> None:
    """Check a function `%x` of four elements with the result `%y` of type `i32`."""
    module = parse_module(f"""
    func.func @main(%x: tensor<4x{type_}>) -> tensor<4xi32> {{
      %zero = "tosa.const"() <{{values = dense<0> : tensor<1xi32>}}> : () -> tensor<1xi32>
      {body}
      return %y : tensor<4xi32>
    }}""")
    check_monotonic(entry_function(module), Trend(-bound, bound, 1))


def _rescale(
    multiplier: int, shift: int, zero: int = 0, type_: str = "i32", out: int = 0
) -> str:
    constants = zip(
        "msio", (multiplier, shift, zero, out), ("i32", "i8", type_, "i32"), strict=True
    )
    lines = [
        f'%{name} = "tosa.const"() <{{values = dense<{value}> : tensor<1x{element}>}}> '
        f": () -> tensor<1x{element}>\n"
        for name, value, element in constants
    ]
    return f"""{"".join(lines)}
    %y = "tosa.rescale"(%x, %m, %s, %i, %o) <{{scale32 = true, rounding_mode =
      #tosa.rounding_mode<SINGLE_ROUND>, per_channel = false, input_unsigned = false,
      output_unsigned = false}}> : (tensor<4x{type_}>, tensor<1xi32>, tensor<1xi8>,
      tensor<1x{type_}>, tensor<1xi32>) -> tensor<4xi32>"""


def test_rescale_is_monotonic():
    check_tosa(_rescale(1 << 30, 31))


@pytest.mark.parametrize(
    ("body", "bound", "type_"),
    [
        (_rescale(-(1 << 30), 31), 100, "i32"),
        (_rescale(1 << 30, 63), 100, "i32"),
        (_rescale(1 << 30, 1), 100, "i32"),
        # The difference wraps.
        (_rescale(1 << 20, 40, -(1 << 31)), 100, "i32"),
        # The product of 64 bits wraps.
        (_rescale((1 << 31) - 1, 62, 0, "i64"), 1 << 60, "i64"),
        # The sum with the zero point wraps.
        (_rescale(1 << 30, 31, 0, "i32", (1 << 31) - 1), 1000, "i32"),
        # Casts to truth values compare with 0.
        (
            """%c = "tosa.clamp"(%x) <{min_val = -1 : i32, max_val = 0 : i32,
              nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<4xi32>) -> tensor<4xi32>
            %l = "tosa.cast"(%c) : (tensor<4xi32>) -> tensor<4xi1>
            %f = "tosa.cast"(%l) : (tensor<4xi1>) -> tensor<4xf32>
            %y = "tosa.cast"(%f) : (tensor<4xf32>) -> tensor<4xi32>""",
            100,
            "i32",
        ),
        (
            """%a = "tosa.abs"(%x) : (tensor<4xi32>) -> tensor<4xi32>
            %y = "tosa.add"(%a, %x) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>""",
            100,
            "i32",
        ),
        (
            """%a = "tosa.cast"(%x) : (tensor<4xi32>) -> tensor<4xi8>
            %y = "tosa.cast"(%a) : (tensor<4xi8>) -> tensor<4xi32>""",
            200,
            "i32",
        ),
    ],
)
def test_attack_with_tosa_is_refused(body: str, bound: float, type_: str):
    with pytest.raises(UnsupportedError):
        check_tosa(body, bound, type_)
