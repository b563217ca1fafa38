"""The arith dialect, compared with integers of Python and exact fractions."""

import math
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.arrays import numpy_dtype

from .running import (
    FLOAT_DTYPES,
    float_edges,
    float_pairs,
    integer_edges,
    integer_pairs,
    nearest,
    run,
    run_body,
    same_bits,
)

WIDTHS = (1, 2, 4, 7, 8, 9, 16, 24, 31, 32, 33, 48, 63, 64)


def as_type(values: NDArray[np.int64], width: int) -> NDArray[Any]:
    return values.astype(numpy_dtype(IntegerType(width)))


def signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def unsigned(value: int, width: int) -> int:
    return value & ((1 << width) - 1)


def truncated_quotient(lhs: int, rhs: int) -> int:
    quotient = abs(lhs) // abs(rhs)
    return quotient if (lhs < 0) == (rhs < 0) else -quotient


# Each for signed numbers and a width; the result is taken modulo 2^width.
INTEGER_OPS: dict[str, Callable[[int, int, int], int]] = {
    "addi": lambda x, y, w: x + y,
    "subi": lambda x, y, w: x - y,
    "muli": lambda x, y, w: x * y,
    "andi": lambda x, y, w: x & y,
    "ori": lambda x, y, w: x | y,
    "xori": lambda x, y, w: x ^ y,
    "maxsi": lambda x, y, w: max(x, y),
    "minsi": lambda x, y, w: min(x, y),
    "maxui": lambda x, y, w: max(unsigned(x, w), unsigned(y, w)),
    "minui": lambda x, y, w: min(unsigned(x, w), unsigned(y, w)),
    "shli": lambda x, y, w: x << unsigned(y, w) if unsigned(y, w) < w else 0,
    "shrui": lambda x, y, w: unsigned(x, w) >> min(unsigned(y, w), w),
    "shrsi": lambda x, y, w: x >> min(unsigned(y, w), w),
}

DIVISIONS: dict[str, Callable[[int, int, int], int]] = {
    "divsi": lambda x, y, w: truncated_quotient(x, y),
    "divui": lambda x, y, w: unsigned(x, w) // unsigned(y, w),
    "remsi": lambda x, y, w: x - y * truncated_quotient(x, y),
    "remui": lambda x, y, w: unsigned(x, w) % unsigned(y, w),
    "floordivsi": lambda x, y, w: x // y,
    "ceildivsi": lambda x, y, w: -(-x // y),
    "ceildivui": lambda x, y, w: -(-unsigned(x, w) // unsigned(y, w)),
}


@pytest.mark.sampled(13)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*INTEGER_OPS, *DIVISIONS])
def test_integers(name: str, width: int):
    lhs, rhs = integer_pairs(width)
    if name in DIVISIONS:
        lhs, rhs = lhs[rhs != 0], rhs[rhs != 0]
    reference = (INTEGER_OPS | DIVISIONS)[name]
    expected = [
        signed(reference(x, y, width), width)
        for x, y in zip(lhs.tolist(), rhs.tolist(), strict=True)
    ]
    type_ = f"tensor<?xi{width}>"
    (result,) = run_body(
        f"%r0 = arith.{name} %a0, %a1 : {type_}",
        type_,
        (as_type(lhs, width), type_),
        (as_type(rhs, width), type_),
    )
    assert same_bits(result, as_type(np.array(expected, np.int64), width))


@pytest.mark.parametrize("width", WIDTHS)
def test_scalar_integers_wrap_around(width: int):
    largest = (1 << (width - 1)) - 1
    type_ = f"i{width}"
    (result,) = run_body(
        f"%c = arith.constant -1 : i{width}\n%r0 = arith.subi %a0, %c : {type_}",
        type_,
        (bool(largest) if width == 1 else largest, type_),
    )
    assert result.dtype == numpy_dtype(IntegerType(width))
    # Of i1 the largest number is 0, and the smallest is `true`.
    assert result == (True if width == 1 else -largest - 1)


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("type_", ["i8", "tensor<2xi8>"])
def test_division_by_zero(name: str, type_: str):
    values = np.array([4, 0], np.int8) if "tensor" in type_ else np.int8(0)
    with pytest.raises(
        InterpretationError, match=f"^'arith.{name}' op divides by zero"
    ):
        run_body(
            f"%r0 = arith.{name} %a0, %a1 : {type_}",
            type_,
            (values, type_),
            (values, type_),
        )


def test_operand_of_another_op_in_a_location():
    text = """
func.func @f(%x: i8) -> i8 {
  %z = arith.constant 0 : i8
  %0 = arith.divsi %x, %z : i8 loc("model.py":12:5)
  return %0 : i8
}"""
    message = r"^model\.py:12:5: error: 'arith.divsi' op divides by zero$"
    with pytest.raises(InterpretationError, match=message):
        run(text, 3)


@pytest.mark.parametrize("width", WIDTHS)
def test_extended(width: int):
    lhs, rhs = integer_pairs(width)
    type_, flags = f"tensor<?xi{width}>", "tensor<?xi1>"
    operands = ((as_type(lhs, width), type_), (as_type(rhs, width), type_))
    body = f"""
  %r0, %r1 = arith.addui_extended %a0, %a1 : {type_}, {flags}
  %r2, %r3 = arith.mulsi_extended %a0, %a1 : {type_}
  %r4, %r5 = arith.mului_extended %a0, %a1 : {type_}"""
    results = run_body(body, ", ".join([type_, flags, *[type_] * 4]), *operands)
    pairs = [*zip(lhs.tolist(), rhs.tolist(), strict=True)]
    sums = [unsigned(x, width) + unsigned(y, width) for x, y in pairs]
    products = [x * y for x, y in pairs]
    unsigned_products = [unsigned(x, width) * unsigned(y, width) for x, y in pairs]
    expected = [
        as_type(np.array([signed(s, width) for s in sums]), width),
        np.array([s >> width != 0 for s in sums]),
    ]
    for wide in (products, unsigned_products):
        for shift in (0, width):
            part = [signed(p >> shift, width) for p in wide]
            expected.append(as_type(np.array(part), width))
    for result, values in zip(results, expected, strict=True):
        assert same_bits(result, values)


PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def elementwise(body: str, result: str, *operands: str) -> str:
    """A function that computes `%r` from scalars `%x0`, `%x1`, ... for all elements."""
    identity = "affine_map<(d0) -> (d0)>"
    maps = ", ".join([identity] * (len(operands) + 1))
    names = ", ".join(f"%a{i}" for i in range(len(operands)))
    tensors = ", ".join(f"tensor<?x{type_}>" for type_ in operands)
    arguments = ", ".join(f"%a{i}: tensor<?x{t}>" for i, t in enumerate(operands))
    scalars = ", ".join(f"%x{i}: {type_}" for i, type_ in enumerate(operands))
    return f"""
func.func @f({arguments}) -> tensor<?x{result}> {{
  %zero = arith.constant 0 : index
  %size = tensor.dim %a0, %zero : tensor<?x{operands[0]}>
  %empty = tensor.empty(%size) : tensor<?x{result}>
  %all = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({names} : {tensors}) outs(%empty : tensor<?x{result}>) {{
  ^bb0({scalars}, %out: {result}):
    {body}
    linalg.yield %r : {result}
  }} -> tensor<?x{result}>
  return %all : tensor<?x{result}>
}}"""


@pytest.mark.sampled(9)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "kind", ["eq", "ne", *(s + p for s in "su" for p in ("lt", "le", "gt", "ge"))]
)
def test_compare_integers(kind: str, width: int):
    lhs, rhs = integer_pairs(width)
    text = elementwise(
        f"%r = arith.cmpi {kind}, %x0, %x1 : i{width}", "i1", f"i{width}", f"i{width}"
    )
    (result,) = run(text, as_type(lhs, width), as_type(rhs, width))
    compare = PREDICATES[kind[-2:]]
    view = unsigned if kind.startswith("u") else signed
    expected = [
        compare(view(x, width), view(y, width))
        for x, y in zip(lhs.tolist(), rhs.tolist(), strict=True)
    ]
    assert same_bits(result, np.array(expected))


FLOAT_PREDICATES = (
    "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", FLOAT_DTYPES)
@pytest.mark.parametrize("kind", FLOAT_PREDICATES)
def test_compare_floats(kind: str, type_: str):
    lhs, rhs = float_pairs(type_)
    text = elementwise(
        f"%r = arith.cmpf {kind}, %x0, %x1 : {type_}", "i1", type_, type_
    )
    (result,) = run(text, lhs, rhs)
    x, y = lhs.astype(np.float64), rhs.astype(np.float64)
    is_unordered = np.isnan(x) | np.isnan(y)
    if kind in ("false", "true"):
        expected = np.full(len(x), kind == "true")
    elif kind in ("ord", "uno"):
        expected = is_unordered == (kind == "uno")
    else:
        with np.errstate(all="ignore"):
            expected = PREDICATES[kind[1:]](x, y)
        expected = np.where(is_unordered, kind.startswith("u"), expected)
    assert same_bits(result, expected)


@pytest.mark.parametrize("kind", FLOAT_PREDICATES)
def test_compare_scalar_floats(kind: str):
    (result,) = run_body(
        f"%r0 = arith.cmpf {kind}, %a0, %a1 : f32",
        "i1",
        (1.0, "f32"),
        (math.nan, "f32"),
    )
    assert result == (kind in ("true", "uno") or kind.startswith("u"))
    assert result.dtype == np.bool_


# Floats

FLOAT_OPS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "addf": lambda x, y: x + y,
    "subf": lambda x, y: x - y,
    "mulf": lambda x, y: x * y,
    "divf": lambda x, y: x / y,
    "remf": lambda x, y: x - y * math.trunc(x / y),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("type_", FLOAT_DTYPES)
@pytest.mark.parametrize("name", FLOAT_OPS)
def test_floats_are_rounded_once(name: str, type_: str):
    lhs, rhs = float_pairs(type_)
    tensor = f"tensor<?x{type_}>"
    (result,) = run_body(
        f"%r0 = arith.{name} %a0, %a1 : {tensor}", tensor, (lhs, tensor), (rhs, tensor)
    )
    assert result.dtype == lhs.dtype
    checked = 0
    for x, y, actual in zip(
        *(v.astype(float) for v in (lhs, rhs, result)), strict=True
    ):
        if not (math.isfinite(x) and math.isfinite(y)) or (
            name in ("divf", "remf") and not y
        ):
            continue
        exact = FLOAT_OPS[name](Fraction(x), Fraction(y))
        assert actual == nearest(exact, type_), (x, y)
        checked += 1
    assert checked > 5000


@pytest.mark.parametrize("type_", FLOAT_DTYPES)
def test_special_floats(type_: str):
    inf, nan = math.inf, math.nan
    cases = {
        "addf": [
            (inf, -inf, nan),
            (-0.0, -0.0, -0.0),
            (-0.0, 0.0, 0.0),
            (nan, 1.0, nan),
        ],
        "subf": [(inf, inf, nan), (-0.0, 0.0, -0.0), (inf, 1.0, inf)],
        "mulf": [(inf, 0.0, nan), (-1.0, 0.0, -0.0), (-inf, 2.0, -inf)],
        "divf": [
            (1.0, 0.0, inf),
            (-1.0, 0.0, -inf),
            (0.0, 0.0, nan),
            (1.0, -inf, -0.0),
        ],
        "maximumf": [
            (nan, 1.0, nan),
            (1.0, nan, nan),
            (-0.0, 0.0, 0.0),
            (0.0, -0.0, 0.0),
            (-0.0, -0.0, -0.0),
            (-inf, -1.0, -1.0),
        ],
        "minimumf": [
            (nan, 1.0, nan),
            (1.0, nan, nan),
            (-0.0, 0.0, -0.0),
            (0.0, -0.0, -0.0),
            (0.0, 0.0, 0.0),
            (inf, -1.0, -1.0),
        ],
        "maxnumf": [(nan, 1.0, 1.0), (1.0, nan, 1.0), (nan, nan, nan), (1.0, 2.0, 2.0)],
        "minnumf": [(nan, 1.0, 1.0), (1.0, nan, 1.0), (nan, nan, nan), (1.0, 2.0, 1.0)],
    }
    dtype = FLOAT_DTYPES[type_]
    for name, rows in cases.items():
        lhs, rhs, expected = np.array(rows).T.astype(dtype)
        for form in (f"tensor<?x{type_}>", type_):
            operands = (
                [(lhs, rhs, expected)]
                if "tensor" in form
                else [*zip(lhs, rhs, expected, strict=True)]
            )
            for x, y, wanted in operands:
                (result,) = run_body(
                    f"%r0 = arith.{name} %a0, %a1 : {form}", form, (x, form), (y, form)
                )
                assert same_bits(result, wanted), (name, x, y)


@pytest.mark.parametrize("type_", FLOAT_DTYPES)
def test_negate(type_: str):
    values = float_edges(type_)
    tensor = f"tensor<?x{type_}>"
    (result,) = run_body(f"%r0 = arith.negf %a0 : {tensor}", tensor, (values, tensor))
    assert same_bits(result, -values)


# Conversions


@pytest.mark.parametrize("source", WIDTHS)
def test_integer_sizes(source: int):
    values = np.array(integer_edges(source), np.int64)
    tensor = f"tensor<?xi{source}>"
    for target in WIDTHS:
        if source == target:
            continue
        ops = ("extsi", "extui") if source < target else ("trunci",)
        for name in ops:
            view = unsigned if name == "extui" else signed
            expected = [signed(view(x, source), target) for x in values.tolist()]
            (result,) = run_body(
                f"%r0 = arith.{name} %a0 : {tensor} to tensor<?xi{target}>",
                f"tensor<?xi{target}>",
                (as_type(values, source), tensor),
            )
            assert same_bits(result, as_type(np.array(expected), target)), (
                name,
                target,
            )


@pytest.mark.parametrize("width", WIDTHS)
def test_index_cast(width: int):
    values = [0, 1, -1, signed(1 << (width - 1), 64), signed((1 << width) + 1, 64)]
    text = elementwise(
        f"%n = arith.index_cast %x0 : index to i{width}\n"
        f"%r = arith.index_cast %n : i{width} to index",
        "index",
        "index",
    )
    (result,) = run(text, np.array(values))
    assert result.tolist() == [signed(value, width) for value in values]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", FLOAT_DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_integers_to_floats(width: int, type_: str):
    values = np.concatenate((np.array(integer_edges(width)), integer_pairs(width)[0]))
    for name, view in (("sitofp", signed), ("uitofp", unsigned)):
        expected = [nearest(Fraction(view(x, width)), type_) for x in values.tolist()]
        (result,) = run_body(
            f"%r0 = arith.{name} %a0 : tensor<?xi{width}> to tensor<?x{type_}>",
            f"tensor<?x{type_}>",
            (as_type(values, width), f"tensor<?xi{width}>"),
        )
        assert result.dtype == FLOAT_DTYPES[type_]
        assert result.astype(float).tolist() == expected, name


@pytest.mark.parametrize("is_unsigned", [False, True])
def test_integers_of_64_bits_to_bf16(is_unsigned: bool):
    # These are rounded up only if what is far behind the last bit of f32 and f64 counts.
    values = np.array([(1 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 54), (1 << 31) + 1])
    name = "uitofp" if is_unsigned else "sitofp"
    (result,) = run_body(
        f"%r0 = arith.{name} %a0 : tensor<3xi64> to tensor<3xbf16>",
        "tensor<3xbf16>",
        (values, "tensor<3xi64>"),
    )
    expected = [2.0**62 + 2.0**55, 2.0**62, 2.0**31]
    assert result.astype(float).tolist() == expected


def saturated(value: float, low: int, high: int) -> int:
    """A float without its fraction as an integer of a range, NaN as the smallest one."""
    if math.isnan(value) or value == -math.inf:
        return low
    return high if value == math.inf else min(max(math.trunc(value), low), high)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", FLOAT_DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_floats_to_integers(width: int, type_: str):
    values = float_edges(type_)
    fractions = values[np.abs(values.astype(float)) < 1]
    for name, is_signed in (("fptosi", True), ("fptoui", False)):
        low = -(1 << (width - 1)) if is_signed else 0
        high = (1 << (width - is_signed)) - 1
        # Nothing is out of range in the second array.
        for some in (values, fractions):
            expected = [
                signed(saturated(value, low, high), width)
                for value in some.astype(float).tolist()
            ]
            (result,) = run_body(
                f"%r0 = arith.{name} %a0 : tensor<?x{type_}> to tensor<?xi{width}>",
                f"tensor<?xi{width}>",
                (some, f"tensor<?x{type_}>"),
            )
            assert same_bits(result, as_type(np.array(expected), width)), name


def test_float_sizes():
    order = ["f16", "f32", "f64"]
    for pair in ((a, b) for i, a in enumerate(order) for b in order[i + 1 :]):
        check_float_sizes(*pair)
    check_float_sizes("bf16", "f32")
    check_float_sizes("bf16", "f64")


def check_float_sizes(narrow: str, wide: str) -> None:
    narrow_values, wide_values = float_edges(narrow), float_pairs(wide)[0]
    (result,) = run_body(
        f"%r0 = arith.extf %a0 : tensor<?x{narrow}> to tensor<?x{wide}>",
        f"tensor<?x{wide}>",
        (narrow_values, f"tensor<?x{narrow}>"),
    )
    assert same_bits(result, narrow_values.astype(FLOAT_DTYPES[wide]))
    (result,) = run_body(
        f"%r0 = arith.truncf %a0 : tensor<?x{wide}> to tensor<?x{narrow}>",
        f"tensor<?x{narrow}>",
        (wide_values, f"tensor<?x{wide}>"),
    )
    assert result.dtype == FLOAT_DTYPES[narrow]
    for x, y in zip(wide_values.astype(float), result.astype(float), strict=True):
        if math.isfinite(x):
            assert y == nearest(Fraction(x), narrow)
        else:
            assert same_bits(np.float64(y), np.float64(x))


def test_truncation_to_bf16_rounds_once():
    (result,) = run_body(
        "%r0 = arith.truncf %a0 : f64 to bf16", "bf16", (1 + 2**-8 + 2**-40, "f64")
    )
    assert float(result) == 1 + 2**-7


@pytest.mark.parametrize(
    ("source", "target", "value", "expected"),
    [
        ("f32", "i32", np.float32(-1.0), np.int32(-0x40800000)),
        ("i32", "f32", np.int32(0x7F800000), np.float32(np.inf)),
        ("i16", "bf16", np.int16(0x3F80), ml_dtypes.bfloat16(1.0)),
        ("f16", "i16", np.float16(-2.0), np.int16(-0x4000)),
        ("i64", "f64", np.int64(-(2**63)), np.float64(-0.0)),
        ("f32", "f32", np.float32(0.1), np.float32(0.1)),
    ],
)
def test_bitcast(source: str, target: str, value: Any, expected: Any):
    (result,) = run_body(
        f"%r0 = arith.bitcast %a0 : {source} to {target}", target, (value, source)
    )
    assert same_bits(result, expected)
    (result,) = run_body(
        f"%r0 = arith.bitcast %a0 : tensor<1x{source}> to tensor<1x{target}>",
        f"tensor<1x{target}>",
        (np.array([value]), f"tensor<1x{source}>"),
    )
    assert same_bits(result, np.array([expected]))


def test_select():
    text = elementwise(
        "%r = arith.select %x0, %x1, %x2 : f32", "f32", "i1", "f32", "f32"
    )
    condition = np.array([True, False, True])
    lhs, rhs = np.array([[-0.0, 1, np.nan], [5, 0.0, 6]], np.float32)
    (result,) = run(text, condition, lhs, rhs)
    assert same_bits(result, np.array([-0.0, 0.0, np.nan], np.float32))
    for flag in (False, True):
        (result,) = run_body(
            "%r0 = arith.select %a0, %a1, %a2 : tensor<3xf32>",
            "tensor<3xf32>",
            (flag, "i1"),
            (lhs, "tensor<3xf32>"),
            (rhs, "tensor<3xf32>"),
        )
        assert same_bits(result, lhs if flag else rhs)


# Constants


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-1 : i8", np.int8(-1)),
        ("255 : i8", np.int8(-1)),
        ("7 : i4", np.int8(7)),
        ("15 : i4", np.int8(-1)),
        ("true", np.True_),
        ("-1 : i1", np.True_),
        ("-5 : index", np.int64(-5)),
        ("18446744073709551615 : i64", np.int64(-1)),
        ("0.1 : f32", np.float32(0.1)),
        ("0.1 : f16", np.float16(0.1)),
        pytest.param(
            "1.00390625000001 : bf16",
            ml_dtypes.bfloat16(1.0078125),
            marks=pytest.mark.xfail(
                version("xdsl").startswith("0.73."),
                reason="xDSL 0.73 rounds it to f32 first",
                strict=True,
            ),
        ),
        ("0x7F800000 : f32", np.float32(np.inf)),
        ("-0.0 : f64", np.float64(-0.0)),
        ("dense<[1, -2]> : tensor<2xi8>", np.array([1, -2], np.int8)),
        ("dense<[7, -8]> : tensor<2xi4>", np.array([7, -8], np.int8)),
        ("dense<-1> : tensor<2x1xi24>", np.array([[-1], [-1]], np.int32)),
        ("dense<[true, false]> : tensor<2xi1>", np.array([True, False])),
        ("dense<[0.0, -0.0]> : tensor<2xf32>", np.array([0.0, -0.0], np.float32)),
        ("dense<0x7FC0> : tensor<1xbf16>", np.array([np.nan], ml_dtypes.bfloat16)),
        ("dense<[[1.5]]> : tensor<1x1xf16>", np.array([[1.5]], np.float16)),
        ("dense<3> : tensor<index>", np.array(3)),
        ("dense<[]> : tensor<0xf32>", np.zeros(0, np.float32)),
        ('dense<"0x0100FEFF"> : tensor<2xi16>', np.array([1, -2], np.int16)),
        ("dense_resource<three> : tensor<3xi8>", np.array([1, -2, 3], np.int8)),
    ],
)
def test_constants(text: str, expected: Any):
    type_ = text.rsplit(" : ", 1)[1] if " : " in text else "i1"
    resources = '{-# dialect_resources: { builtin: { three: "0x0100000001FE03" } } #-}'
    (result,) = run(
        f"func.func @f() -> {type_} {{\n%0 = arith.constant {text}\n"
        f"return %0 : {type_}\n}}\n" + (resources if "resource" in text else "")
    )
    assert same_bits(result, expected)


def test_long_constant_of_four_bits():
    values = [x - 8 for x in range(16)] * 10
    text = "".join(f"{x & 15:02X}" for x in values)
    (result,) = run_body(
        f'%r0 = arith.constant dense<"0x{text}"> : tensor<160xi4>', "tensor<160xi4>"
    )
    assert result.tolist() == values


ONE_ELEMENT = """
func.func @main() -> tensor<{0}xi32> {{
  %0 = arith.constant dense_resource<one_element> : tensor<{0}xi32>
  return %0 : tensor<{0}xi32>
}}
{{-# dialect_resources: {{ builtin: {{ one_element: "0x0400000007000000" }} }} #-}}
"""


def test_resource_of_one_element():
    """A resource, unlike a constant of one element, is no splat."""
    (result,) = run_function(ONE_ELEMENT.format(1), "main")
    assert result.tolist() == [7]
    message = "has data of 4 bytes; expected 12 for 'tensor<3xi32>'"
    with pytest.raises(InterpretationError, match=message):
        run_function(ONE_ELEMENT.format(3), "main")


def test_resource_without_data():
    with pytest.raises(
        InterpretationError, match="has missing data of resource 'nothing'"
    ):
        run_body(
            "%r0 = arith.constant dense_resource<nothing> : tensor<3xi8>",
            "tensor<3xi8>",
        )


def test_integer_that_is_too_wide():
    message = (
        "^'arith.constant' op cannot be computed: unsupported width 128; expected at "
        "most 64 bits"
    )
    with pytest.raises(InterpretationError, match=message):
        run("func.func @f() {\n%0 = arith.constant 1 : i128\nreturn\n}")
