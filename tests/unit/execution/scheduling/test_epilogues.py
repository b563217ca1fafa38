"""What is made of sums in registers: the same numbers, and nothing else is written."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.execution.scheduling.guarded_memory import before_no_page
from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import Cpu
from xdsl_quant.execution.mlir_bindings import ir
from xdsl_quant.execution.scheduling import byte_products

pytestmark = pytest.mark.usefixtures("byte_products")

RNG = np.random.default_rng(0)
GUARD = 64
"""Bytes before and behind a result."""

Integers = NDArray[np.int64]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions of the products that are compiled."""
    found: list[str] = []
    original = byte_products._fastest_text  # pyright: ignore[reportPrivateUsage] hook

    def text(*args: Any) -> str:
        found.append(original(*args))
        return found[-1]

    monkeypatch.setattr(byte_products, "_fastest_text", text)
    return found


def has_epilogues(texts: Sequence[str]) -> list[bool]:
    """For each product: is what follows its sums computed with it?"""
    return ["_body(" in text for text in texts]


def dense(numbers: NDArray[np.integer], element: str) -> str:
    shape = "x".join(map(str, numbers.shape))
    return f"arith.constant dense<{numbers.tolist()}> : tensor<{shape}x{element}>"


def requantized(
    weights: NDArray[np.int8],
    rows: int,
    body: str,
    columns: Sequence[tuple[Integers, str]] = (),
    *,
    result: str = "i8",
    start: int = 0,
    other: str | None = None,
    between: str = "",
) -> str:
    """
    A function of bytes, whose sums of products `%s` are made something of by a body.

    Args:
        weights: the right factor.
        rows: those of the left factor.
        body: yields `%y`.
        columns: constants of columns with their element types, `%c0` and so on in the body.
        result: the element type of the result.
        start: with what sums begin.
        other: the element type of a second argument `%o` of the shape of the result.
        between: ops between the sums and what is made of them.
    """
    depth, width = weights.shape
    names = [f"%c{i}" for i in range(len(columns))]
    constants = "\n".join(
        f"%k{i} = {dense(numbers, element)}"
        for i, (numbers, element) in enumerate(columns)
    )
    other_type = f"tensor<{rows}x{width}x{other}>"
    inputs = ["%sums", *(f"%k{i}" for i in range(len(columns)))]
    types = [
        f"tensor<{rows}x{width}xi32>",
        *(f"tensor<{width}x{element}>" for _, element in columns),
    ]
    maps = ["(m, n) -> (m, n)", *["(m, n) -> (n)"] * len(columns)]
    arguments = [
        "%s: i32",
        *(f"{n}: {e}" for n, (_, e) in zip(names, columns, strict=True)),
    ]
    if other:
        inputs.append("%b")
        types.append(other_type)
        maps.append("(m, n) -> (m, n)")
        arguments.append(f"%o: {other}")
    maps.append("(m, n) -> (m, n)")
    map_list = ", ".join(f"affine_map<{m}>" for m in maps)
    result_type = f"tensor<{rows}x{width}x{result}>"
    return f"""
func.func @f(%a: tensor<{rows}x{depth}xi8>{f", %b: {other_type}" if other else ""})
    -> {result_type} {{
  %w = {dense(weights, "i8")}
  {constants}
  %start = arith.constant {start} : i32
  %c31 = arith.constant 31 : i64
  %half = arith.constant 1073741824 : i64
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i64
  %low = arith.constant -100 : i32
  %high = arith.constant 127 : i32
  %es = tensor.empty() : tensor<{rows}x{width}xi32>
  %i = linalg.fill ins(%start : i32) outs(%es : tensor<{rows}x{width}xi32>)
      -> tensor<{rows}x{width}xi32>
  %sums = linalg.generic {{indexing_maps = [
      affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %w : tensor<{rows}x{depth}xi8>, tensor<{depth}x{width}xi8>)
      outs(%i : tensor<{rows}x{width}xi32>) {{
  ^bb0(%l: i8, %r: i8, %t: i32):
    %le = arith.extsi %l : i8 to i32
    %re = arith.extsi %r : i8 to i32
    %p = arith.muli %le, %re : i32
    %u = arith.addi %t, %p : i32
    linalg.yield %u : i32
  }} -> tensor<{rows}x{width}xi32>
  {between}
  %e = tensor.empty() : {result_type}
  %result = linalg.generic {{indexing_maps = [{map_list}],
      iterator_types = ["parallel", "parallel"]}}
      ins({", ".join(inputs)} : {", ".join(types)}) outs(%e : {result_type}) {{
  ^bb0({", ".join(arguments)}, %before: {result}):
    {body}
    linalg.yield %y : {result}
  }} -> {result_type}
  return %result : {result_type}
}}"""


CLAMPED = """
    %high_enough = arith.maxsi %v, %low : i32
    %clamped = arith.minsi %high_enough, %high : i32
    %y = arith.trunci %clamped : i32 to i8"""

ROUNDED_TWICE = """
    %x = arith.addi %s, %c0 : i32
    %wide = arith.extsi %x : i32 to i64
    %multiplier = arith.extsi %c1 : i32 to i64
    %product = arith.muli %wide, %multiplier : i64
    %nudged = arith.addi %product, %half : i64
    %shifted = arith.shrsi %nudged, %c31 : i64
    %h = arith.trunci %shifted : i64 to i32
    %up = arith.addi %h, %c2 : i32
    %is_negative = arith.cmpi slt, %h, %zero : i32
    %less = arith.extui %is_negative : i1 to i32
    %rounded = arith.subi %up, %less : i32
    %shift = arith.extsi %c3 : i8 to i32
    %v = arith.shrsi %rounded, %shift : i32"""

ROUNDED_ONCE = """
    %x = arith.addi %s, %c0 : i32
    %wide = arith.extsi %x : i32 to i64
    %multiplier = arith.extsi %c1 : i32 to i64
    %product = arith.muli %wide, %multiplier : i64
    %shift = arith.subi %c2, %one : i64
    %first = arith.shrsi %product, %shift : i64
    %added = arith.addi %first, %one : i64
    %second = arith.shrsi %added, %one : i64
    %v = arith.trunci %second : i64 to i32"""


def in_memory(text: str, *arguments: NDArray[np.integer], result: NDArray[np.integer]):
    """Compute a result in the middle of memory of which nothing else is written."""
    memory = np.full(2 * GUARD + result.nbytes, 0x5A, np.uint8)
    out = memory[GUARD:-GUARD].view(result.dtype).reshape(result.shape)
    compile(text)(*arguments, out=out)
    assert (memory[:GUARD] == 0x5A).all()
    assert (memory[-GUARD:] == 0x5A).all()
    np.testing.assert_array_equal(out, result)


def numbers(width: int) -> tuple[Integers, Integers, Integers]:
    """Offsets, multipliers and shifts, of which many give ties."""
    offsets = RNG.integers(-(1 << 28), 1 << 28, width)
    offsets[::3] = RNG.integers(-300, 300, offsets[::3].size)
    multipliers = RNG.integers(1 << 30, 1 << 31, width)
    multipliers[::2] = 1 << 30
    shifts = RNG.integers(1, 25, width)
    shifts[::3] = RNG.integers(1, 9, shifts[::3].size)
    return offsets, multipliers, shifts


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [2, 3, 9, 16, 17, 31, 64, 95, 200])
@pytest.mark.parametrize("rows", [1, 5, 300])
def test_rounded_twice(width: int, rows: int, texts: list[str]):
    weights = RNG.integers(-128, 128, (3, width)).astype(np.int8)
    x = RNG.integers(-128, 128, (rows, 3)).astype(np.int8)
    offsets, multipliers, shifts = numbers(width)
    halves = 1 << (shifts - 1)
    columns = [
        (offsets, "i32"),
        (multipliers, "i32"),
        (halves, "i32"),
        (shifts, "i8"),
    ]
    sums = x.astype(np.int64) @ weights.astype(np.int64) + offsets + 7
    high = (sums * multipliers + (1 << 30)) >> 31
    expected = np.clip((high + halves - (high < 0)) >> shifts, -100, 127)
    text = requantized(weights, rows, ROUNDED_TWICE + CLAMPED, columns, start=7)
    in_memory(text, x, result=expected.astype(np.int8))
    assert has_epilogues(texts) == [True]


@pytest.mark.parametrize("zero_point", [-100, 5])
@pytest.mark.parametrize("has_ties", [False, True])
def test_all_sums_of_a_range(has_ties: bool, zero_point: int, texts: list[str]):
    """
    Rounding once is the same as twice, unless some results are made of negative numbers,
    and others of positive ones.
    """
    width = 48
    low, high = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    x = np.stack([low.ravel(), high.ravel()], 1).astype(np.int8)
    weights = np.repeat([[1], [127]], width, 1).astype(np.int8)
    offsets = RNG.integers(-500, 500, width)
    multipliers = RNG.integers(1 << 30, 1 << 31, width) | 1
    multipliers[::2] = 1 << 30 if has_ties else multipliers[1::2]
    shifts = RNG.integers(4, 9, width)
    halves = 1 << (shifts - 1)
    columns = [
        (offsets, "i32"),
        (multipliers, "i32"),
        (halves, "i32"),
        (shifts, "i8"),
        (np.full(width, zero_point), "i32"),
    ]
    high_half = (
        (x.astype(np.int64) @ weights + offsets) * multipliers + (1 << 30)
    ) >> 31
    rounded = (high_half + halves - (high_half < 0)) >> shifts
    expected = np.clip(rounded + zero_point, -100, 127)
    moved = ROUNDED_TWICE.replace("%v =", "%before_zp =")
    moved += "\n    %v = arith.addi %before_zp, %c4 : i32"
    text = requantized(weights, len(x), moved + CLAMPED, columns)
    in_memory(text, x, result=expected.astype(np.int8))
    # The signs of 16 numbers are subtracted to round twice.
    signs = [re.search(r"shrsi .* : vector<16xi32>", text) for text in texts]
    assert [sign is not None for sign in signs] == [zero_point != -100]


@pytest.mark.parametrize("least", [3, 33])
@pytest.mark.parametrize("width", [2, 9, 16, 31, 200])
def test_rounded_once(width: int, least: int, texts: list[str]):
    weights = RNG.integers(-128, 128, (3, width)).astype(np.int8)
    x = RNG.integers(-128, 128, (40, 3)).astype(np.int8)
    offsets, multipliers, shifts = numbers(width)
    shifts = np.minimum(shifts + 30, 62)
    multipliers[0], shifts[0] = 3, least
    multipliers[-1], shifts[-1] = (1 << 31) - 1, 62
    offsets[0] = 5
    sums = x.astype(np.int64) @ weights.astype(np.int64) + offsets
    products = [
        (sums[:, i].astype(object) * int(multipliers[i]) + (1 << int(shifts[i]) - 1))
        >> int(shifts[i])
        for i in range(width)
    ]
    expected = np.clip(np.array(products, np.int64).T, -100, 127)
    columns = [(offsets, "i32"), (multipliers, "i32"), (shifts, "i64")]
    text = requantized(weights, 40, ROUNDED_ONCE + CLAMPED, columns)
    in_memory(text, x, result=expected.astype(np.int8))
    assert has_epilogues(texts) == [True]


@pytest.mark.parametrize(
    "body",
    [
        # Shifts of 0, and halves that are others
        ROUNDED_TWICE + CLAMPED,
        # Numbers that may wrap around
        """
    %q = arith.muli %s, %s : i32
    %wide = arith.extsi %q : i32 to i64
    %square = arith.muli %wide, %wide : i64
    %moved = arith.shrsi %square, %c31 : i64
    %t = arith.addi %moved, %wide : i64
    %v = arith.trunci %t : i64 to i32"""
        + CLAMPED,
        # Comparisons, bits and choices
        """
    %is_less = arith.cmpi ult, %s, %c0 : i32
    %b = arith.xori %s, %c1 : i32
    %d = arith.andi %b, %c2 : i32
    %g = arith.ori %d, %zero : i32
    %chosen = arith.select %is_less, %g, %s : i32
    %small = arith.trunci %chosen : i32 to i8
    %big = arith.extui %small : i8 to i64
    %three = arith.extsi %c3 : i8 to i64
    %left = arith.shli %big, %three : i64
    %t = arith.shrsi %left, %one : i64
    %v = arith.trunci %t : i64 to i32"""
        + CLAMPED,
    ],
)
def test_other_bodies(body: str, texts: list[str]):
    width = 21
    weights = RNG.integers(-128, 128, (9, width)).astype(np.int8)
    x = RNG.integers(-128, 128, (30, 9)).astype(np.int8)
    columns = [
        (RNG.integers(-(1 << 31), 1 << 31, width), "i32"),
        (RNG.integers(-(1 << 31), 1 << 31, width), "i32"),
        (RNG.integers(-(1 << 31), 1 << 31, width), "i32"),
        (RNG.integers(0, 31, width), "i8"),
    ]
    text = requantized(weights, 30, body, columns)
    in_memory(text, x, result=compile(text, schedule=False)(x))
    assert has_epilogues(texts) == [True]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("other", ["i8", "i16", "i32"])
@pytest.mark.parametrize("result", ["i8", "i16", "i32"])
@pytest.mark.parametrize("width", [2, 13, 16, 40])
def test_other_operands(other: str, result: str, width: int, texts: list[str]):
    weights = RNG.integers(-128, 128, (5, width)).astype(np.int8)
    x = RNG.integers(-128, 128, (7, 5)).astype(np.int8)
    y = RNG.integers(-128, 128, (7, width)).astype(other.replace("i", "int"))
    extended = "%o" if other == "i32" else "%oe"
    body = f"%sum = arith.subi %s, {extended} : i32\n"
    if other != "i32":
        body = f"%oe = arith.extsi %o : {other} to i32\n{body}"
    if result == "i32":
        body += "%y = arith.muli %sum, %high : i32"
    else:
        body += f"%y = arith.trunci %sum : i32 to {result}"
    sums = x.astype(np.int32) @ weights.astype(np.int32) - y
    expected = sums * 127 if result == "i32" else sums
    text = requantized(weights, 7, body, other=other, result=result)
    in_memory(text, x, y, result=expected.astype(result.replace("i", "int")))
    assert has_epilogues(texts) == [True]


def test_sums_that_are_stored(texts: list[str]):
    weights = RNG.integers(-128, 128, (5, 20)).astype(np.int8)
    x = RNG.integers(-128, 128, (7, 5)).astype(np.int8)
    text = requantized(weights, 7, "", start=-5, result="i32").replace("%y :", "%s :")
    expected = x.astype(np.int32) @ weights.astype(np.int32) - 5
    np.testing.assert_array_equal(compile(text)(x), expected)
    plus = "%y = arith.addi %s, %c0 : i32"
    offsets = RNG.integers(-(1 << 31), 1 << 31, 20)
    text = requantized(weights, 7, plus, [(offsets, "i32")], start=-5, result="i32")
    in_memory(text, x, result=expected + offsets.astype(np.int32))
    assert has_epilogues(texts)[-1]


def test_what_stays_in_memory(texts: list[str]):
    weights = RNG.integers(-128, 128, (5, 20)).astype(np.int8)
    x = RNG.integers(-128, 128, (7, 5)).astype(np.int8)
    division = "%v = arith.divsi %s, %high : i32" + CLAMPED
    text = requantized(weights, 7, division)
    in_memory(text, x, result=compile(text, schedule=False)(x))
    # Sums that are results, too
    both = requantized(weights, 7, "%v = arith.addi %s, %low : i32" + CLAMPED)
    both = both.replace(
        "-> tensor<7x20xi8> {\n  %w", "-> (tensor<7x20xi8>, tensor<7x20xi32>) {\n  %w"
    ).replace(
        "return %result : tensor<7x20xi8>",
        "return %result, %sums : tensor<7x20xi8>, tensor<7x20xi32>",
    )
    for actual, expected in zip(
        compile(both)(x), compile(both, schedule=False)(x), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)
    assert has_epilogues(texts) == [False, False]


def test_reductions_of_results_stay_on_their_own(texts: list[str]):
    weights = RNG.integers(-128, 128, (5, 20)).astype(np.int8)
    x = RNG.integers(-128, 128, (7, 5)).astype(np.int8)
    text = requantized(weights, 7, "%v = arith.addi %s, %low : i32" + CLAMPED)
    text = text.replace(
        "-> tensor<7x20xi8> {\n  %w", "-> tensor<20xi32> {\n  %w"
    ).replace(
        "return %result : tensor<7x20xi8>",
        """
  %e2 = arith.constant dense<0> : tensor<20xi32>
  %total = linalg.generic {indexing_maps = [
      affine_map<(m, n) -> (n, m)>, affine_map<(m, n) -> (m)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%result : tensor<7x20xi8>) outs(%e2 : tensor<20xi32>) {
  ^bb0(%r: i8, %t: i32):
    %re = arith.extsi %r : i8 to i32
    %u = arith.addi %t, %re : i32
    linalg.yield %u : i32
  } -> tensor<20xi32>
  return %total : tensor<20xi32>""",
    )
    sums = np.clip(x.astype(np.int32) @ weights.astype(np.int32) - 100, -100, 127)
    in_memory(text, x, result=sums.sum(0, dtype=np.int32))
    assert has_epilogues(texts) == [True]


def depthwise(
    shape: tuple[int, ...],
    weights: NDArray[np.int8],
    steps: tuple[int, int],
    columns: Sequence[tuple[Integers, str]],
    extend: str = "extsi",
) -> str:
    """
    A function of an image and the offset of its zero point, whose channels are summed up in
    windows and rounded twice. `steps` are the stride and the dilation.
    """
    images, height, width, channels = shape
    (h, w), (stride, dilation) = weights.shape[:2], steps
    out_height = (height - dilation * (h - 1) - 1) // stride + 1
    out_width = (width - dilation * (w - 1) - 1) // stride + 1
    sums = f"{images}x{out_height}x{out_width}x{channels}"
    constants = "\n".join(
        f"%k{i} = {dense(numbers, element)}"
        for i, (numbers, element) in enumerate(columns)
    )
    types = ", ".join(f"tensor<{channels}x{element}>" for _, element in columns)
    arguments = ", ".join(f"%c{i}: {element}" for i, (_, element) in enumerate(columns))
    maps = ", ".join(["affine_map<(n, h, w, c) -> (c)>"] * len(columns))
    return f"""
func.func @f(%a: tensor<{"x".join(map(str, shape))}xi8>) -> tensor<{sums}xi8> {{
  %w = {dense(weights, "i8")}
  {constants}
  %start = arith.constant 0 : i32
  %zp = arith.constant -3 : i32
  %c31 = arith.constant 31 : i64
  %half = arith.constant 1073741824 : i64
  %zero = arith.constant 0 : i32
  %low = arith.constant -100 : i32
  %high = arith.constant 127 : i32
  %es = tensor.empty() : tensor<{sums}xi32>
  %i = linalg.fill ins(%start : i32) outs(%es : tensor<{sums}xi32>)
      -> tensor<{sums}xi32>
  %sums = linalg.generic {{indexing_maps = [
      affine_map<(n, h, w, c, i, j) ->
        (n, h * {stride} + i * {dilation}, w * {stride} + j * {dilation}, c)>,
      affine_map<(n, h, w, c, i, j) -> (i, j, c)>,
      affine_map<(n, h, w, c, i, j) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction",
        "reduction"]}}
      ins(%a, %w : tensor<{"x".join(map(str, shape))}xi8>,
        tensor<{h}x{w}x{channels}xi8>)
      outs(%i : tensor<{sums}xi32>) {{
  ^bb0(%l: i8, %r: i8, %t: i32):
    %le = arith.{extend} %l : i8 to i32
    %ld = arith.subi %le, %zp : i32
    %re = arith.extsi %r : i8 to i32
    %p = arith.muli %ld, %re : i32
    %u = arith.addi %t, %p : i32
    linalg.yield %u : i32
  }} -> tensor<{sums}xi32>
  %e = tensor.empty() : tensor<{sums}xi8>
  %result = linalg.generic {{indexing_maps = [
      affine_map<(n, h, w, c) -> (n, h, w, c)>, {maps},
      affine_map<(n, h, w, c) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%sums, {", ".join(f"%k{i}" for i in range(len(columns)))}
        : tensor<{sums}xi32>, {types}) outs(%e : tensor<{sums}xi8>) {{
  ^bb0(%s: i32, {arguments}, %before: i8):
    {ROUNDED_TWICE + CLAMPED}
    linalg.yield %y : i8
  }} -> tensor<{sums}xi8>
  return %result : tensor<{sums}xi8>
}}"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("channels", [2, 3, 4, 8, 16, 17, 24, 40])
@pytest.mark.parametrize(
    ("window", "steps", "size"),
    [
        ((3, 3), (1, 1), (6, 18)),
        ((3, 3), (2, 1), (7, 9)),
        ((3, 2), (1, 2), (9, 12)),
        ((1, 5), (1, 1), (3, 20)),
        ((6, 1), (1, 1), (8, 16)),
        ((5, 5), (1, 1), (7, 7)),
        ((1, 1), (1, 1), (3, 8)),
    ],
)
def test_channels_on_their_own(
    channels: int,
    window: tuple[int, int],
    steps: tuple[int, int],
    size: tuple[int, int],
    texts: list[str],
):
    shape = (2, *size, channels)
    weights = RNG.integers(-128, 128, (*window, channels)).astype(np.int8)
    x = RNG.integers(-128, 128, shape).astype(np.int8)
    _, multipliers, shifts = numbers(channels)
    offsets = RNG.integers(-3000, 3000, channels)
    shifts = np.minimum(shifts, 12)
    halves = 1 << (shifts - 1)
    columns = [
        (offsets, "i32"),
        (multipliers, "i32"),
        (halves, "i32"),
        (shifts, "i8"),
    ]
    stride, dilation = steps
    rows, cols = (
        (n - dilation * (k - 1) - 1) // stride + 1
        for n, k in zip(size, window, strict=True)
    )
    sums = np.zeros((2, rows, cols, channels), np.int64) + offsets
    extend = "extui" if channels == 17 else "extsi"
    stored = x.view(np.uint8) if extend == "extui" else x
    for i in range(window[0]):
        for j in range(window[1]):
            part = stored[:, i * dilation :, j * dilation :][:, ::stride, ::stride]
            part = part[:, :rows, :cols].astype(np.int64) + 3
            sums += part * weights[i, j].astype(np.int64)
    high = (sums * multipliers + (1 << 30)) >> 31
    expected = np.clip((high + halves - (high < 0)) >> shifts, -100, 127)
    text = depthwise(shape, weights, steps, columns, extend)
    in_memory(text, x, result=expected.astype(np.int8))
    assert has_epilogues(texts) == [True]


@pytest.mark.parametrize("channels", [3, 8, 16, 24])
def test_nothing_behind_channels_is_read(channels: int):
    """The last byte is the last one of a page, behind which nothing may be read."""
    weights = RNG.integers(-128, 128, (3, 3, channels)).astype(np.int8)
    zeros = np.zeros(channels, np.int64)
    columns = [
        (zeros, "i32"),
        (zeros + (1 << 30), "i32"),
        (zeros + 4, "i32"),
        (zeros + 3, "i8"),
    ]
    shape = (1, 5, 6, channels)
    text = depthwise(shape, weights, (1, 1), columns)
    values = RNG.integers(-128, 128, shape).astype(np.int8)
    with before_no_page(values) as x:
        actual = compile(text)(x)
    expected = compile(text, schedule=False)(values)
    np.testing.assert_array_equal(actual, expected)


def buffers(between: str = "", body: str = "", last: str = "") -> str:
    """A function of memrefs, as they are where products become calls."""
    return f"""
memref.global "private" constant @w : memref<4x16xi8> = dense<{[[*range(1, 17)]] * 4}>
func.func @f(%r: memref<3x16xi8>) {{
  %zero = arith.constant 0 : i32
  %c = arith.constant 5 : i8
  %w = memref.get_global @w : memref<4x16xi8>
  %x = memref.alloc() : memref<3x4xi8>
  linalg.fill ins(%c : i8) outs(%x : memref<3x4xi8>)
  %s = memref.alloc() : memref<3x16xi32>
  linalg.fill ins(%zero : i32) outs(%s : memref<3x16xi32>)
  linalg.generic {{indexing_maps = [
      affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w : memref<3x4xi8>, memref<4x16xi8>) outs(%s : memref<3x16xi32>)
      attrs = {{xdsl_quant.bytes}} {{
  ^bb0(%l: i8, %q: i8, %t: i32):
    %le = arith.extsi %l : i8 to i32
    %qe = arith.extsi %q : i8 to i32
    %p = arith.muli %le, %qe : i32
    %u = arith.addi %t, %p : i32
    linalg.yield %u : i32
  }}
  {between}
  {last or LAST.format(body=body)}
  memref.dealloc %s : memref<3x16xi32>
  return
}}"""


LAST = """
  linalg.generic {{indexing_maps = [
      affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%s : memref<3x16xi32>) outs(%r : memref<3x16xi8>) {{
  ^bb0(%a: i32, %o: i8):
    %y = arith.trunci %a : i32 to i8
    {body}
    linalg.yield %y : i8
  }}"""

OTHER = "%z = memref.alloc() : memref<3x4xi8>"

STORE_IN_LOOP = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {{
    memref.store %c, {}[%i, %i] : memref<3x4xi8>
  }}"""

CAST = "%v = memref.cast %x : memref<3x4xi8> to memref<?x4xi8>"

CHOICE = """
  %is = arith.constant true
  %v = arith.select %is, %x, %z : memref<3x4xi8>
  linalg.fill ins(%c : i8) outs(%v : memref<3x4xi8>)"""

TWO_RESULTS = """
  %r2 = memref.alloc() : memref<3x16xi8>
  linalg.generic {indexing_maps = [
      affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>,
      affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%s : memref<3x16xi32>) outs(%r, %r2 : memref<3x16xi8>, memref<3x16xi8>) {
  ^bb0(%a: i32, %o: i8, %o2: i8):
    %y = arith.trunci %a : i32 to i8
    linalg.yield %y, %y : i8, i8
  }"""

ONE_ROW = """
  %v = memref.subview %r[0, 0] [1, 16] [1, 1]
      : memref<3x16xi8> to memref<16xi8, strided<[1]>>
  linalg.generic {indexing_maps = [
      affine_map<(n) -> (0, n)>, affine_map<(n) -> (n)>],
      iterator_types = ["parallel"]}
      ins(%s : memref<3x16xi32>) outs(%v : memref<16xi8, strided<[1]>>) {
  ^bb0(%a: i32, %o: i8):
    %y = arith.trunci %a : i32 to i8
    linalg.yield %y : i8
  }"""


@pytest.mark.parametrize(
    ("text", "is_epilogue"),
    [
        (buffers(), True),
        # What the product is computed of is gone, or changed
        (buffers("memref.dealloc %x : memref<3x4xi8>"), False),
        (buffers("linalg.fill ins(%c : i8) outs(%x : memref<3x4xi8>)"), False),
        (buffers(STORE_IN_LOOP.format("%x")), False),
        (buffers(f"{CAST} linalg.fill ins(%c : i8) outs(%v : memref<?x4xi8>)"), False),
        (buffers(f"{OTHER} {CHOICE}"), False),
        (buffers(f"{OTHER} {STORE_IN_LOOP.format('%z')}"), True),
        # Something is read that is written, too; several results; a part of the sums
        (buffers(body="").replace("linalg.yield %y", "linalg.yield %o"), False),
        (buffers(last=TWO_RESULTS), False),
        (buffers(last=ONE_ROW), False),
    ],
)
def test_what_is_an_epilogue(text: str, is_epilogue: bool, texts: list[str]):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        byte_products.call_byte_products(module, Cpu("native", ("avx512_vnni",)), 1)
        assert module.operation.verify()
    assert has_epilogues(texts) == [is_epilogue]


@pytest.mark.parametrize("operands", ["%y0, %y1", "%y1, %y0", "%y1, %y1"])
def test_results_of_two_products(operands: str, texts: list[str]):
    """Each is computed with its own sums, and the sum of both with those of the last."""
    weights = [RNG.integers(-128, 128, (5, 32)).astype(np.int8) for _ in range(2)]
    x = RNG.integers(-128, 128, (64, 5)).astype(np.int8)
    sums, bytes_ = "tensor<64x32xi32>", "tensor<64x32xi8>"
    same = "affine_map<(m, n) -> (m, n)>"
    products = [
        f"""
  %w{i} = {dense(numbers, "i8")}
  %p{i} = linalg.generic {{indexing_maps = [
      affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %w{i} : tensor<64x5xi8>, tensor<5x32xi8>) outs(%zeros : {sums}) {{
  ^bb0(%l: i8, %r: i8, %t: i32):
    %le = arith.extsi %l : i8 to i32
    %re = arith.extsi %r : i8 to i32
    %p = arith.muli %le, %re : i32
    %u = arith.addi %t, %p : i32
    linalg.yield %u : i32
  }} -> {sums}
  %y{i} = linalg.generic {{indexing_maps = [{same}, {same}],
      iterator_types = ["parallel", "parallel"]}}
      ins(%p{i} : {sums}) outs(%e : {bytes_}) {{
  ^bb0(%s: i32, %before: i8):
    %v = arith.shrsi %s, %eight : i32
    %y = arith.trunci %v : i32 to i8
    linalg.yield %y : i8
  }} -> {bytes_}"""
        for i, numbers in enumerate(weights)
    ]
    function = compile(f"""
func.func @f(%a: tensor<64x5xi8>) -> {bytes_} {{
  %eight = arith.constant 8 : i32
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : {sums}
  %zeros = linalg.fill ins(%zero : i32) outs(%empty : {sums}) -> {sums}
  %e = tensor.empty() : {bytes_}
  {"".join(products)}
  %result = linalg.generic {{indexing_maps = [{same}, {same}, {same}],
      iterator_types = ["parallel", "parallel"]}}
      ins({operands} : {bytes_}, {bytes_}) outs(%e : {bytes_}) {{
  ^bb0(%l: i8, %r: i8, %before: i8):
    %y = arith.addi %l, %r : i8
    linalg.yield %y : i8
  }} -> {bytes_}
  return %result : {bytes_}
}}""")
    y0, y1 = ((x.astype(int) @ w.astype(int)) >> 8 for w in weights)
    expected = 2 * y1 if operands == "%y1, %y1" else y0 + y1
    np.testing.assert_array_equal(function(x), expected.astype(np.int8))
    is_one = operands == "%y1, %y1"
    assert has_epilogues(texts) == ([True] if is_one else [True, True])
    # Of the first product there are bytes, of the other one nothing.
    assert function.temporary_bytes == (0 if is_one else 64 * 32)
