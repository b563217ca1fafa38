"""The linalg dialect, compared with loops over all elements."""

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.machines.numpy import linalg, run_function

from .running import FLOAT_DTYPES, parse, run, run_body, same_bits

RANDOM = np.random.default_rng(3)


@pytest.fixture(params=[1, 5, 1 << 16], autouse=True)
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Blocks of some elements, of one, and of all."""
    monkeypatch.setattr(linalg, "BLOCK_SIZE", request.param)


def _element_type(type_: str) -> str:
    return re.sub(r"tensor<([0-9?]+x)*(\w+)>", r"\2", type_)


def generic(
    maps: str,
    kinds: str,
    operands: list[str],
    result: str,
    body: str,
) -> str:
    """A function whose last argument is what the op starts with."""
    types = ", ".join(operands)
    ins = ", ".join(f"%a{i}" for i in range(len(operands)))
    signature = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(operands))
    elements = [_element_type(type_) for type_ in operands]
    scalars = ", ".join(f"%x{i}: {element}" for i, element in enumerate(elements))
    iterators = ", ".join(f'"{kind}"' for kind in kinds.split())
    out = _element_type(result)
    return f"""
func.func @f({signature}, %init: {result}) -> {result} {{
  %all = linalg.generic {{
      indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps.split("; "))}],
      iterator_types = [{iterators}]}}
      ins({ins} : {types}) outs(%init : {result}) {{
  ^bb0({scalars}, %acc: {out}):
    {body}
    linalg.yield %r : {out}
  }} -> {result}
  return %all : {result}
}}"""


def floats(*shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    return RANDOM.standard_normal(shape).astype(dtype)


ADD = "%r = arith.addf %x0, %x1 : f32"


MAPS: list[tuple[str, list[str], Callable[[Any, Any], Any]]] = [
    ("(i, j) -> (i, j); (i, j) -> (i, j)", ["3x4", "3x4"], lambda x, y: x + y),
    ("(i, j) -> (j, i); (i, j) -> (i, j)", ["4x3", "3x4"], lambda x, y: x.T + y),
    ("(i, j) -> (i, j); (i, j) -> (j)", ["3x4", "4"], lambda x, y: x + y),
    ("(i, j) -> (i, j); (i, j) -> (i)", ["3x4", "3"], lambda x, y: x + y[:, None]),
    ("(i, j) -> (i, j); (i, j) -> ()", ["3x4", ""], lambda x, y: x + y),
    (
        "(i, j) -> (i, j); (i, j) -> (i, 1)",
        ["3x4", "3x2"],
        lambda x, y: x + y[:, 1:2],
    ),
    (
        "(i, j) -> (i, j); (i, j) -> (i, j floordiv 2)",
        ["3x4", "3x2"],
        lambda x, y: x + y.repeat(2, 1),
    ),
    (
        "(i, j) -> (i, j); (i, j) -> (j floordiv 2, i floordiv 3)",
        ["3x4", "2x1"],
        lambda x, y: x + y.repeat(2, 0).repeat(3, 1).T,
    ),
    (
        "(i, j) -> (i, j); (i, j) -> (i + j)",
        ["3x4", "6"],
        lambda x, y: x + y[np.add.outer(np.arange(3), np.arange(4))],
    ),
    (
        "(i, j) -> (i, j); (i, j) -> (i, i)",
        ["3x4", "3x3"],
        lambda x, y: x + y.diagonal()[:, None],
    ),
    (
        "(i, j) -> (i, j); (i, j) -> (j mod 2, j ceildiv 2)",
        ["3x4", "2x3"],
        lambda x, y: x + y[[0, 1, 0, 1], [0, 1, 1, 2]],
    ),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("maps", "shapes", "pick"), MAPS)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_maps(maps: str, shapes: list[str], pick: Any, is_dynamic: bool):
    arrays = [floats(*(int(d) for d in s.split("x") if d)) for s in shapes]
    if is_dynamic:
        shapes = ["x".join("?" for d in s.split("x") if d) for s in shapes]
    types = [f"tensor<{s}{'x' if s else ''}f32>" for s in shapes]
    result_type = "tensor<?x?xf32>" if is_dynamic else "tensor<3x4xf32>"
    text = generic(
        f"{maps}; (i, j) -> (i, j)", "parallel parallel", types, result_type, ADD
    )
    (result,) = run(text, *arrays, np.full((3, 4), np.nan, np.float32))
    assert same_bits(result, pick(*arrays))


def test_output_is_transposed():
    maps = "(i, j) -> (i, j); (i, j) -> (j, i)"
    body = "%r = arith.addf %x0, %acc : f32"
    types = ["tensor<3x4xf32>"]
    text = generic(maps, "parallel parallel", types, "tensor<4x3xf32>", body)
    x, start = floats(3, 4), floats(4, 3)
    before = start.copy()
    (result,) = run(text, x, start)
    assert same_bits(result, x.T + start)
    assert same_bits(start, before)


def test_index():
    maps = "(i, j) -> (i, j); (i, j) -> (i, j)"
    body = """%i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %ten = arith.constant 10 : index
    %t = arith.muli %i, %ten : index
    %s = arith.addi %t, %j : index
    %r = arith.addi %s, %x0 : index"""
    types = ["tensor<3x4xindex>"]
    text = generic(maps, "parallel parallel", types, "tensor<3x4xindex>", body)
    x = np.full((3, 4), 100)
    (result,) = run(text, x, x)
    assert same_bits(result, 100 + np.add.outer(10 * np.arange(3), np.arange(4)))


def test_gather_from_another_tensor():
    text = """
func.func @f(%table: tensor<5xf32>, %at: tensor<?xindex>, %init: tensor<?xf32>)
    -> tensor<?xf32> {
  %all = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%at : tensor<?xindex>) outs(%init
        : tensor<?xf32>) {
  ^bb0(%i: index, %out: f32):
    %v = tensor.extract %table[%i] : tensor<5xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %all : tensor<?xf32>
}"""
    table, at = floats(5), np.array([4, 0, 0, 3, 1, 2, 4])
    (result,) = run(text, table, at, floats(7))
    assert same_bits(result, table[at])
    with pytest.raises(InterpretationError, match="index out of bounds"):
        run(text, table, at - 1, floats(7))


def test_constant_and_call_in_a_body():
    text = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xi1> {
  %e = tensor.empty() : tensor<2x3xi1>
  %all = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<2x3xf32>) outs(%e : tensor<2x3xi1>) {
  ^bb0(%v: f32, %out: i1):
    %c = func.call @is_small(%v) : (f32) -> i1
    linalg.yield %c : i1
  } -> tensor<2x3xi1>
  return %all : tensor<2x3xi1>
}
func.func private @is_small(%v: f32) -> i1 {
  %one = arith.constant 1.0 : f32
  %c = arith.cmpf olt, %v, %one : f32
  return %c : i1
}"""
    x = floats(2, 3)
    (result,) = run_function(parse(text)[1], "f", x)
    assert same_bits(result, x < 1)


def test_rank_0_and_empty():
    text = generic(
        "() -> (); () -> (); () -> ()", "", ["tensor<f32>"] * 2, "tensor<f32>", ADD
    )
    text = text.replace('iterator_types = [""]', "iterator_types = []")
    (result,) = run(
        text, np.array(1.5, np.float32), np.array(2, np.float32), np.float32(0)
    )
    assert same_bits(result, np.array(3.5, np.float32))
    maps = "(i, j) -> (i, j); (i, j) -> (i, j); (i, j) -> (i, j)"
    types = ["tensor<?x?xf32>"] * 2
    text = generic(maps, "parallel parallel", types, "tensor<?x?xf32>", ADD)
    (result,) = run(text, floats(0, 3), floats(0, 3), floats(0, 3))
    assert result.shape == (0, 3)


# Reductions


def loops(
    start: NDArray[Any],
    shape: tuple[int, ...],
    kept: list[int],
    step: Callable[[Any, tuple[int, ...]], Any],
) -> NDArray[Any]:
    """The result of a loop nest, element by element."""
    result = start.copy()
    for indices in product(*map(range, shape)):
        at = tuple(indices[dimension] for dimension in kept)
        with np.errstate(all="ignore"):
            result[at] = step(result[at], indices)
    return result


@pytest.mark.parametrize("name", ["addf", "mulf"])
@pytest.mark.parametrize("type_", FLOAT_DTYPES)
def test_floats_are_reduced_in_order(name: str, type_: str):
    x = (1 + floats(7, 3, 5) / 4).astype(FLOAT_DTYPES[type_])
    start = x[0, :, 0].copy()
    function = np.add if name == "addf" else np.multiply
    text = generic(
        "(i, j, k) -> (i, j, k); (i, j, k) -> (j)",
        "reduction parallel reduction",
        [f"tensor<7x3x5x{type_}>"],
        f"tensor<3x{type_}>",
        f"%r = arith.{name} %acc, %x0 : {type_}",
    )
    (result,) = run(text, x, start)
    expected = loops(start, (7, 3, 5), [1], lambda acc, at: function(acc, x[at]))
    assert same_bits(result, expected)


def test_order_of_a_sum_matters_here():
    x = np.array([1e8, 1.0, -1e8, 1.0], np.float32)
    text = generic(
        "(i) -> (i); (i) -> ()",
        "reduction",
        ["tensor<4xf32>"],
        "tensor<f32>",
        "%r = arith.addf %x0, %acc : f32",
    )
    assert run(text, x, np.float32(0))[0] == 1.0
    assert run(text, x[::-1], np.float32(0))[0] == 0.0


INTEGER_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "addi": lambda x, y: x + y,
    "muli": lambda x, y: x * y,
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "maxsi": max,
    "minsi": min,
    "maxui": lambda x, y: max(x, y, key=lambda v: v & 0xFFFFFF),
    "minui": lambda x, y: min(x, y, key=lambda v: v & 0xFFFFFF),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("width", [1, 4, 8, 24])
@pytest.mark.parametrize("name", INTEGER_REDUCTIONS)
def test_integer_reductions(name: str, width: int):
    low = -(1 << (width - 1))
    values = RANDOM.integers(low, -low, (9, 4))
    values[:, 1] |= 1
    dtype = {1: np.bool_, 4: np.int8, 8: np.int8, 24: np.int32}[width]
    x = values.astype(dtype)
    text = generic(
        "(i, j) -> (i, j); (i, j) -> (j)",
        "reduction parallel",
        [f"tensor<9x4xi{width}>"],
        f"tensor<4xi{width}>",
        f"%r = arith.{name} %acc, %x0 : i{width}",
    )
    (result,) = run(text, x, x[3])
    wide = -values.astype(bool).astype(int) if width == 1 else values
    expected: list[int] = []
    for j in range(4):
        total = int(wide[3, j])
        for i in range(9):
            total = INTEGER_REDUCTIONS[name](total, int(wide[i, j]))
        expected.append((total - low) % (-2 * low) + low)
    assert same_bits(result, np.array(expected).astype(dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "maximumf",
            [([1, 3, 2], 0, 3), ([1, np.nan, 2], 0, np.nan), ([-1, -2], -3, -1)],
        ),
        ("maximumf", [([-0.0, 0.0], -0.0, 0.0), ([-0.0, -0.0], -0.0, -0.0)]),
        ("maximumf", [([-0.0, -1.0], 0.0, 0.0), ([-0.0, -1.0], np.nan, np.nan)]),
        (
            "minimumf",
            [([1, 3, 2], 4, 1), ([1, np.nan, 2], 0, np.nan), ([-1, -2], 3, -2)],
        ),
        ("minimumf", [([-0.0, 0.0], 0.0, -0.0), ([0.0, 0.0], 0.0, 0.0)]),
        ("maxnumf", [([1, np.nan, 2], 0, 2), ([np.nan, np.nan], np.nan, np.nan)]),
        ("minnumf", [([1, np.nan, 2], 3, 1), ([np.nan, np.nan], 5, 5)]),
    ],
)
def test_extremes(name: str, rows: list[tuple[list[float], float, float]]):
    for type_, dtype in FLOAT_DTYPES.items():
        text = generic(
            "(i) -> (i); (i) -> ()",
            "reduction",
            [f"tensor<?x{type_}>"],
            f"tensor<{type_}>",
            f"%r = arith.{name} %acc, %x0 : {type_}",
        )
        for values, start, expected in rows:
            (result,) = run(text, np.array(values).astype(dtype), dtype(start))
            assert same_bits(result, np.array(expected).astype(dtype)), values


@pytest.mark.parametrize("type_", FLOAT_DTYPES)
def test_matmul_of_floats(type_: str):
    dtype = FLOAT_DTYPES[type_]
    x, y, start = (floats(*shape, dtype=dtype) for shape in ((3, 9), (9, 4), (3, 4)))
    types = (f"tensor<3x9x{type_}>", f"tensor<9x4x{type_}>", f"tensor<3x4x{type_}>")
    (result,) = run_body(
        f"%r0 = linalg.matmul ins(%a0, %a1 : {types[0]}, {types[1]}) "
        f"outs(%a2 : {types[2]}) -> {types[2]}",
        types[2],
        *zip((x, y, start), types, strict=True),
    )

    def step(total: Any, at: tuple[int, ...]) -> Any:
        i, j, k = at
        return total + x[i, k] * y[k, j]

    assert same_bits(result, loops(start, (3, 4, 9), [0, 1], step))


def test_quantized_matmul():
    x = RANDOM.integers(-128, 128, (3, 9)).astype(np.int8)
    y = RANDOM.integers(-128, 128, (9, 4)).astype(np.int8)
    types = ("tensor<3x9xi8>", "tensor<9x4xi8>", "i32", "i32", "tensor<3x4xi32>")
    start = np.ones((3, 4), np.int32)
    (result,) = run_body(
        f"%r0 = linalg.quantized_matmul ins(%a0, %a1, %a2, %a3 : {', '.join(types[:4])}) "
        f"outs(%a4 : {types[4]}) -> {types[4]}",
        types[4],
        *zip((x, y, 3, -5, start), types, strict=True),
    )
    expected = (x.astype(np.int32) - 3) @ (y.astype(np.int32) + 5) + 1
    assert same_bits(result, expected)


def test_body_that_is_no_simple_reduction():
    # The larger of what there is, halved, and the next one.
    body = """%half = arith.constant 0.5 : f32
    %h = arith.mulf %acc, %half : f32
    %r = arith.maximumf %h, %x0 : f32"""
    text = generic(
        "(i, j) -> (j, i); (i, j) -> (j)",
        "reduction parallel",
        ["tensor<4x6xf32>"],
        "tensor<4xf32>",
        body,
    )
    x, start = floats(4, 6), 10 * np.abs(floats(4))
    (result,) = run(text, x, start)
    expected = loops(start, (6, 4), [1], lambda acc, at: max(acc / 2, x[at[::-1]]))
    assert same_bits(result, expected)


def test_result_that_is_used_twice():
    body = """%s = arith.addf %acc, %x0 : f32
    %r = arith.addf %s, %acc : f32"""
    text = generic(
        "(i) -> (i); (i) -> ()", "reduction", ["tensor<5xf32>"], "tensor<f32>", body
    )
    x = floats(5)
    expected = loops(
        np.array(np.float32(1)), (5,), [], lambda acc, at: acc + x[at] + acc
    )
    assert same_bits(run(text, x, np.float32(1))[0], expected)


def test_parallel_loop_that_the_output_does_not_have():
    # The last one is what stays.
    text = generic(
        "(i, j) -> (i, j); (i, j) -> (i)",
        "parallel parallel",
        ["tensor<3x4xf32>"],
        "tensor<3xf32>",
        "%r = arith.negf %x0 : f32",
    )
    x = floats(3, 4)
    assert same_bits(run(text, x, floats(3))[0], -x[:, -1])


def test_several_results():
    text = """
func.func @f(%x: tensor<3x4xf32>, %s: tensor<3xf32>, %m: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>) {
  %0, %1 = "linalg.generic"(%x, %s, %m) <{indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
      iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>],
      operandSegmentSizes = array<i32: 1, 2>}> ({
  ^bb0(%v: f32, %sum: f32, %max: f32):
    %a = arith.addf %sum, %v : f32
    %b = arith.maximumf %v, %max : f32
    linalg.yield %a, %b : f32, f32
  }) : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}"""
    x, start = floats(3, 4), floats(3)
    total, largest = run(text, x, start, start)
    assert same_bits(total, loops(start, (3, 4), [0], lambda acc, at: acc + x[at]))
    assert same_bits(largest, np.maximum(start, x.max(1)))
    # Two results that change places.
    text = text.replace("linalg.yield %a, %b", "linalg.yield %max, %sum")
    text = text.replace("iterator_type<reduction>", "iterator_type<parallel>")
    first, second = run(text, x, start, -start)
    assert same_bits(first, start)
    assert same_bits(second, -start)


# Named ops


ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str):
    x, y = floats(2, 3), floats(2, 3)
    type_ = "tensor<2x3xf32>"
    (result,) = run_body(
        f"%r0 = linalg.{name} ins(%a0, %a1 : {type_}, {type_}) outs(%a0 : {type_}) "
        f"-> {type_}",
        type_,
        (x, type_),
        (y, type_),
    )
    assert same_bits(result, ELEMENTWISE[name](x, y))


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "copy"])
def test_unary(name: str):
    x = np.abs(floats(2, 3))
    type_ = "tensor<2x3xf32>"
    (result,) = run_body(
        f"%r0 = linalg.{name} ins(%a0 : {type_}) outs(%a0 : {type_}) -> {type_}",
        type_,
        (x, type_),
    )
    if name == "copy":
        assert same_bits(result, x)
    else:
        assert same_bits(result, getattr(np, name)(x.astype(float)).astype(np.float32))


def test_fill():
    body = """%e = tensor.empty(%a1) : tensor<2x?xbf16>
    %r0 = linalg.fill ins(%a0 : bf16) outs(%e : tensor<2x?xbf16>) -> tensor<2x?xbf16>"""
    (result,) = run_body(body, "tensor<2x?xbf16>", (1.5, "bf16"), (3, "index"))
    assert same_bits(result, np.full((2, 3), 1.5).astype(ml_dtypes.bfloat16))


def test_transpose_broadcast_reduce():
    x, start = floats(2, 3, 4), floats(3)
    text = """
func.func @f(%x: tensor<2x3x4xf32>, %s: tensor<3xf32>)
    -> (tensor<4x2x3xf32>, tensor<3xf32>, tensor<2x3x4xf32>) {
  %e = tensor.empty() : tensor<4x2x3xf32>
  %t = linalg.transpose ins(%x:tensor<2x3x4xf32>) outs(%e:tensor<4x2x3xf32>)
      permutation = [2, 0, 1]
  %r = linalg.reduce ins(%x:tensor<2x3x4xf32>) outs(%s:tensor<3xf32>)
      dimensions = [0, 2]
  (%in: f32, %acc: f32) {
    %sum = arith.addf %in, %acc : f32
    linalg.yield %sum : f32
  }
  %b = linalg.broadcast ins(%s:tensor<3xf32>) outs(%x:tensor<2x3x4xf32>) dimensions = [0, 2]
  func.return %t, %r, %b : tensor<4x2x3xf32>, tensor<3xf32>, tensor<2x3x4xf32>
}"""
    transposed, reduced, broadcast = run(text, x, start)
    assert same_bits(transposed, x.transpose(2, 0, 1))
    expected = loops(start, (2, 3, 4), [1], lambda acc, at: acc + x[at])
    assert same_bits(reduced, expected)
    assert same_bits(broadcast, np.broadcast_to(start[:, None], (2, 3, 4)))


def test_convolution():
    x, kernel = floats(1, 2, 5, 6), floats(3, 2, 2, 3)
    start = floats(1, 3, 4, 2)
    types = ("tensor<1x2x5x6xf32>", "tensor<3x2x2x3xf32>", "tensor<1x3x4x2xf32>")
    (result,) = run_body(
        "%r0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, "
        "strides = dense<[1, 2]> : tensor<2xi64>} "
        f"ins(%a0, %a1 : {types[0]}, {types[1]}) outs(%a2 : {types[2]}) -> {types[2]}",
        types[2],
        *zip((x, kernel, start), types, strict=True),
    )

    def step(total: Any, at: tuple[int, ...]) -> Any:
        n, f, h, w, c, i, j = at
        return total + x[n, c, h + i, 2 * w + j] * kernel[f, c, i, j]

    assert same_bits(result, loops(start, (1, 3, 4, 2, 2, 2, 3), [0, 1, 2, 3], step))


# Mistakes


def test_shapes_that_do_not_match():
    maps = "(i, j) -> (i, j); (i, j) -> (i, j); (i, j) -> (i, j)"
    types = ["tensor<?x?xf32>"] * 2
    text = generic(maps, "parallel parallel", types, "tensor<?x?xf32>", ADD)
    with pytest.raises(
        InterpretationError,
        match=r"^'linalg.generic' op has operands of shapes that do not match: "
        r"'3x4', '3x1', '3x4'$",
    ):
        run(text, floats(3, 4), floats(3, 1), floats(3, 4))


@pytest.mark.parametrize("map_", ["(i floordiv 2)", "(i + j)"])
def test_operand_that_is_too_small(map_: str):
    maps = f"(i, j) -> (i, j); (i, j) -> {map_}; (i, j) -> (i, j)"
    types = ["tensor<?x?xf32>", "tensor<?xf32>"]
    text = generic(maps, "parallel parallel", types, "tensor<?x?xf32>", ADD)
    with pytest.raises(InterpretationError, match=r"of a dimension of size 1$"):
        run(text, floats(3, 4), floats(1), floats(3, 4))


def test_region_in_a_body():
    body = """%c = arith.cmpf olt, %x0, %acc : f32
    %r = scf.if %c -> (f32) {
      scf.yield %x0 : f32
    } else {
      scf.yield %acc : f32
    }"""
    text = generic(
        "(i) -> (i); (i) -> (i)", "parallel", ["tensor<3xf32>"], "tensor<3xf32>", body
    )
    with pytest.raises(
        InterpretationError,
        match=r"has a body with unsupported op 'scf.if'$",
    ):
        run(text, floats(3), floats(3))


@pytest.mark.parametrize("map_", ["(i, i)", "(i, j floordiv 2)"])
def test_output_that_is_no_view(map_: str):
    text = generic(
        f"(i, j) -> (i, j); (i, j) -> {map_}",
        "parallel parallel",
        ["tensor<3x3xf32>"],
        "tensor<3x3xf32>",
        "%r = arith.negf %x0 : f32",
    )
    with pytest.raises(
        InterpretationError,
        match=r"^'linalg.generic' op has an output with unsupported map ",
    ):
        run(text, floats(3, 3), floats(3, 3))


def test_output_with_a_constant_index():
    text = generic(
        "(i) -> (i); (i) -> (1, i)",
        "parallel",
        ["tensor<3xf32>"],
        "tensor<2x3xf32>",
        "%r = arith.addf %x0, %acc : f32",
    )
    x, start = floats(3), floats(2, 3)
    expected = np.stack((start[0], start[1] + x))
    assert same_bits(run(text, x, start)[0], expected)


def test_buffers():
    body = """linalg.fill ins(%a0 : f32) outs(%m : memref<3xf32>)
    %r0 = arith.addf %a0, %a0 : f32"""
    text = f"""
func.func @g(%m: memref<3xf32>, %a0: f32) -> f32 {{
  {body}
  return %r0 : f32
}}"""
    message = (
        "function 'g' cannot be called with arrays: argument 0 has type 'memref<3xf32>'"
    )
    with pytest.raises(InterpretationError, match=re.escape(message)):
        run(text, floats(3), 1.0)
