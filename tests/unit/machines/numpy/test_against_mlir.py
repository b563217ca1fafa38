"""Scalar ops compiled by MLIR and interpreted: the results are the same, bit for bit."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function

from .running import FLOAT_DTYPES, float_pairs, integer_pairs, parse

BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
WIDTHS = (1, 4, 8, 24, 32, 64)

_COMPARISONS = ("eq", "ne", *(s + p for s in "su" for p in ("lt", "le", "gt", "ge")))
_FLOAT_COMPARISONS = (
    "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
)


def elementwise(name: str, count: int, body: str) -> str:
    """
    A function that computes `%r`, an i64, from `%x` and `%y`, for each element.

    All types have 64 bits here: how MLIR stores others in memory is no concern.
    """
    identity = "affine_map<(i) -> (i)>"
    tensor = f"tensor<{count}xi64>"
    return f"""
func.func @{name}(%xs: {tensor}, %ys: {tensor}) -> {tensor} {{
  %e = tensor.empty() : {tensor}
  %all = linalg.generic {{indexing_maps = [{identity}, {identity}, {identity}],
      iterator_types = ["parallel"]}}
      ins(%xs, %ys : {tensor}, {tensor}) outs(%e : {tensor}) {{
  ^bb0(%x64: i64, %y64: i64, %out: i64):
    {body}
    linalg.yield %r : i64
  }} -> {tensor}
  return %all : {tensor}
}}"""


def _take(width: int, names: str = "xy") -> str:
    if width == 64:
        return "".join(
            f"%{name} = arith.addi %{name}64, %zero : i64\n" for name in names
        )
    return "".join(
        f"%{name} = arith.trunci %{name}64 : i64 to i{width}\n" for name in names
    )


def _give(width: int, value: str = "%v") -> str:
    if width == 64:
        return f"%r = arith.addi {value}, %zero : i64"
    return f"%r = arith.extsi {value} : i{width} to i64"


ZERO = "%zero = arith.constant 0 : i64\n"


def check(functions: dict[str, tuple[str, NDArray[Any], NDArray[Any]]]) -> None:
    """Bodies and operands by name."""
    text = "".join(
        elementwise(name, len(x), body) for name, (body, x, _) in functions.items()
    )
    module = parse(text)[1]
    operands = [array for _, x, y in functions.values() for array in (x, y)]
    # Compiling one function that calls all others is faster than compiling them all.
    results = compile(text + _main(functions), "main")(*operands)
    for (name, (_, x, y)), expected in zip(functions.items(), results, strict=True):
        (result,) = run_function(module, name, x, y)
        assert np.array_equal(result, expected), name


def _main(functions: dict[str, tuple[str, NDArray[Any], NDArray[Any]]]) -> str:
    types = [f"tensor<{len(x)}xi64>" for _, x, _ in functions.values()]
    arguments = ", ".join(f"%x{i}: {t}, %y{i}: {t}" for i, t in enumerate(types))
    calls = "\n".join(
        f"%r{i} = func.call @{name}(%x{i}, %y{i}) : ({type_}, {type_}) -> {type_}"
        for i, (name, type_) in enumerate(zip(functions, types, strict=True))
    )
    results = ", ".join(f"%r{i}" for i in range(len(types)))
    return f"""
func.func @main({arguments}) -> ({", ".join(types)}) {{
  {calls}
  return {results} : {", ".join(types)}
}}"""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("width", WIDTHS)
def test_integers(width: int):
    x, y = integer_pairs(width)
    type_ = f"i{width}"
    functions: dict[str, tuple[str, NDArray[Any], NDArray[Any]]] = {}

    def add(name: str, ops: str, result_width: int = width, lhs: Any = x, rhs: Any = y):
        body = ZERO + _take(width) + ops + "\n" + _give(result_width)
        functions[name] = (body, lhs, rhs)

    for name in ("addi", "subi", "muli", "andi", "ori", "xori"):
        add(name, f"%v = arith.{name} %x, %y : {type_}")
    for name in ("maxsi", "minsi", "maxui", "minui"):
        add(name, f"%v = arith.{name} %x, %y : {type_}")
    # What is undefined in MLIR is left out.
    is_divisor = (y != 0) & (y != -1)
    for name in ("divsi", "divui", "remsi", "remui"):
        add(
            name,
            f"%v = arith.{name} %x, %y : {type_}",
            width,
            x[is_divisor],
            y[is_divisor],
        )
    is_amount = (y >= 0) & (y < width)
    for name in ("shli", "shrui", "shrsi"):
        add(
            name,
            f"%v = arith.{name} %x, %y : {type_}",
            width,
            x[is_amount],
            y[is_amount],
        )
    for kind in _COMPARISONS:
        add(f"cmpi_{kind}", f"%v = arith.cmpi {kind}, %x, %y : {type_}", 1)
    add(
        "select",
        f"%c = arith.cmpi slt, %x, %y : {type_}\n"
        f"%v = arith.select %c, %y, %x : {type_}",
    )
    add("addui_extended", f"%v, %o = arith.addui_extended %x, %y : {type_}, i1")
    add("overflow", f"%s, %v = arith.addui_extended %x, %y : {type_}, i1", 1)
    add("mulsi_extended", f"%l, %v = arith.mulsi_extended %x, %y : {type_}")
    add("mului_extended", f"%l, %v = arith.mului_extended %x, %y : {type_}")
    add("ctlz", f"%v = math.ctlz %x : {type_}")
    if width > 1:
        add(
            "absi",
            f"%v = math.absi %x : {type_}",
            width,
            x[x != x.min()],
            x[x != x.min()],
        )
    for other in WIDTHS:
        if other > width:
            add(f"extsi_{other}", f"%v = arith.extsi %x : {type_} to i{other}", other)
            add(f"extui_{other}", f"%v = arith.extui %x : {type_} to i{other}", other)
        if other < width:
            add(f"trunci_{other}", f"%v = arith.trunci %x : {type_} to i{other}", other)
    if width < 64:
        to_index = f"%i = arith.index_cast %x : {type_} to index\n"
        add("index", to_index + "%v = arith.index_cast %i : index to i64", 64)
    check(functions)


def _bits(values: NDArray[Any]) -> NDArray[np.int64]:
    return values.view(f"int{8 * values.itemsize}").astype(np.int64)


def _float_body(type_: str, ops: str, result: str | None) -> str:
    """`%x` and `%y` are floats; `%v` is a float of type `result`, or an i1."""
    bits = BITS[type_]
    body = ZERO
    for name in "xy":
        if bits < 64:
            body += f"%{name}i = arith.trunci %{name}64 : i64 to i{bits}\n"
        else:
            body += f"%{name}i = arith.addi %{name}64, %zero : i64\n"
        body += f"%{name} = arith.bitcast %{name}i : i{bits} to {type_}\n"
    body += ops + "\n"
    if result is None:
        return body + _give(1)
    if result.startswith("i"):
        return body + _give(int(result[1:]))
    # NaN is NaN, whatever its bits.
    result_bits = BITS[result]
    return body + (
        f"%isnan = arith.cmpf uno, %v, %v : {result}\n"
        f"%vi = arith.bitcast %v : {result} to i{result_bits}\n"
        f"%nan = arith.constant 12345 : i{result_bits}\n"
        f"%vb = arith.select %isnan, %nan, %vi : i{result_bits}\n"
        + _give(result_bits, "%vb")
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("type_", FLOAT_DTYPES)
def test_floats(type_: str):
    x, y = float_pairs(type_)
    functions: dict[str, tuple[str, NDArray[Any], NDArray[Any]]] = {}

    def add(name: str, ops: str, result: str | None, keep: Any = slice(None)):
        body = _float_body(type_, ops, result)
        functions[name] = (body, _bits(x[keep]), _bits(y[keep]))

    for name in ("addf", "subf", "mulf", "divf", "maximumf", "minimumf"):
        add(name, f"%v = arith.{name} %x, %y : {type_}", type_)
    # Of zeros with different signs either is right.
    for name in ("maxnumf", "minnumf"):
        add(name, f"%v = arith.{name} %x, %y : {type_}", type_, (x != 0) | (y != 0))
    add("negf", f"%v = arith.negf %x : {type_}", type_)
    for kind in _FLOAT_COMPARISONS:
        add(f"cmpf_{kind}", f"%v = arith.cmpf {kind}, %x, %y : {type_}", None)
    for name in ("absf", "ceil", "floor", "trunc", "round", "roundeven", "sqrt"):
        add(name, f"%v = math.{name} %x : {type_}", type_)
    add("copysign", f"%v = math.copysign %x, %y : {type_}", type_)
    if type_ == "f32":
        add("fma", f"%v = math.fma %x, %y, %x : {type_}", type_)
    for other in ("f32", "f64"):
        if BITS[other] > BITS[type_]:
            add(f"extf_{other}", f"%v = arith.extf %x : {type_} to {other}", other)
    for other in FLOAT_DTYPES:
        if BITS[other] < BITS[type_]:
            add(f"truncf_{other}", f"%v = arith.truncf %x : {type_} to {other}", other)
    wide = np.trunc(x.astype(np.float64))
    for width in (8, 16, 24, 32, 64):
        half = 2.0 ** (width - 1)
        fits = (wide >= -half) & (wide < half)
        name = f"i{width}"
        add(f"fptosi_{name}", f"%v = arith.fptosi %x : {type_} to {name}", name, fits)
        fits = (wide >= 0) & (wide < 2 * half)
        add(f"fptoui_{name}", f"%v = arith.fptoui %x : {type_} to {name}", name, fits)
    check(functions)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("type_", FLOAT_DTYPES)
@pytest.mark.parametrize("width", [1, 8, 16, 24, 32])
def test_integers_to_floats(type_: str, width: int):
    x, y = integer_pairs(width)
    functions: dict[str, tuple[str, NDArray[Any], NDArray[Any]]] = {}
    bits = BITS[type_]
    for name in ("sitofp", "uitofp"):
        body = ZERO + _take(width, "x")
        body += f"%f = arith.{name} %x : i{width} to {type_}\n"
        body += f"%v = arith.bitcast %f : {type_} to i{bits}\n" + _give(bits)
        functions[name] = (body, x, y)
    check(functions)
