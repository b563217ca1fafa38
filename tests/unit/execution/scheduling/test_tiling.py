"""Contractions in tiles: which there are, and that they compute the same."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, linalg, ops_in
from xdsl_quant.execution.scheduling.tiling import tile_contractions

MATMUL = "(d0, d2)", "(d2, d1)", "(d0, d1)"


def contraction(
    lhs: str,
    rhs: str,
    result: str,
    body: str,
    maps: tuple[str, str, str] = MATMUL,
    loops: str = "d0, d1, d2",
    kinds: str = '"parallel", "parallel", "reduction"',
) -> str:
    """A function of two factors and the initial values of their sums."""
    map_list = ", ".join(f"affine_map<({loops}) -> {map_}>" for map_ in maps)
    elements = [type_.split("x")[-1] for type_ in (lhs, rhs, result)]
    return f"""
func.func @f(%a: tensor<{lhs}>, %b: tensor<{rhs}>, %c: tensor<{result}>)
    -> tensor<{result}> {{
  %0 = linalg.generic {{indexing_maps = [{map_list}], iterator_types = [{kinds}]}}
      ins(%a, %b : tensor<{lhs}>, tensor<{rhs}>) outs(%c : tensor<{result}>) {{
  ^bb0(%x: {elements[0]}, %y: {elements[1]}, %z: {elements[2]}):
    {body}
  }} -> tensor<{result}>
  return %0 : tensor<{result}>
}}"""


FLOATS = """
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32"""


def integers(
    sums: str, lhs: str = "extsi", rhs: str = "extsi", source: str = "i8"
) -> str:
    """The body of sums of `i8` or other integers, each extended in its own way."""
    return f"""
    %l = arith.{lhs} %x : {source} to {sums}
    %r = arith.{rhs} %y : {source} to {sums}
    %p = arith.muli %r, %l : {sums}
    %s = arith.addi %p, %z : {sums}
    linalg.yield %s : {sums}"""


def named(op: str, lhs: str, rhs: str, result: str) -> str:
    """A function with a named op."""
    return f"""
func.func @f(%a: tensor<{lhs}>, %b: tensor<{rhs}>, %c: tensor<{result}>)
    -> tensor<{result}> {{
  %0 = linalg.{op} ins(%a, %b : tensor<{lhs}>, tensor<{rhs}>)
      outs(%c : tensor<{result}>) -> tensor<{result}>
  return %0 : tensor<{result}>
}}"""


def in_sums(text: str) -> tuple[int, set[str]]:
    """After tiling, the most loops that an op has, and the names of ops in its body."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        tile_contractions(module)
        module.operation.verify()
        ops = ops_in(module, "linalg.generic") or ops_in(module, "linalg.matmul")
        loops = [next(iter(linalg.get_indexing_maps(op))).value.n_dims for op in ops]
        sums = ops[loops.index(max(loops))]
        return max(loops), {op.name for op in ops_in(sums)}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (contraction("16x5xf32", "5x64xf32", "16x64xf32", FLOATS), 5),
        (named("matmul", "16x5xf32", "5x64xf32", "16x64xf32"), 5),
        (named("batch_matmul", "2x16x5xi8", "2x5x32xi8", "2x16x32xi32"), 6),
        # A number of rows without a small divisor, too few columns, one row
        (contraction("11x5xf32", "5x64xf32", "11x64xf32", FLOATS), 3),
        (contraction("16x5xf32", "5x40xf32", "16x40xf32", FLOATS), 3),
        (contraction("1x5xf32", "5x64xf32", "1x64xf32", FLOATS), 3),
        # Sizes that are not known, of a row, a column and what is summed up
        (contraction("?x5xf32", "5x64xf32", "?x64xf32", FLOATS), 3),
        (contraction("16x5xf32", "5x?xf32", "16x?xf32", FLOATS), 3),
        (contraction("16x?xf32", "?x64xf32", "16x64xf32", FLOATS), 5),
    ],
)
def test_what_has_tiles(text: str, count: int):
    assert in_sums(text)[0] == count


@pytest.mark.parametrize(
    ("rows", "source", "count"), [(8, "f32", 5), (8, "i8", 3), (256, "i8", 5)]
)
def test_transposed_right_factor(rows: int, source: str, count: int):
    """Vectors can add up integers that are contiguous for each sum, but not floats."""
    is_float = source == "f32"
    text = contraction(
        f"{rows}x5x{source}",
        f"32x5x{source}",
        f"{rows}x32x{'f32' if is_float else 'i32'}",
        FLOATS if is_float else integers("i32"),
        ("(d0, d2)", "(d1, d2)", "(d0, d1)"),
    )
    assert in_sums(text)[0] == count


@pytest.mark.parametrize(
    ("sums", "lhs", "rhs", "source"),
    [
        ("i32", "extsi", "extsi", "i8"),
        ("i32", "extui", "extui", "i8"),
        ("i32", "extui", "extsi", "i8"),
        ("i32", "extsi", "extui", "i4"),
        ("i64", "extsi", "extsi", "i8"),
        ("i32", "extsi", "extsi", "i16"),
        ("i32", "extui", "extui", "i1"),
    ],
)
def test_factors_of_tiles_are_stored_as_multiplied(
    sums: str, lhs: str, rhs: str, source: str
):
    types = f"16x5x{source}", f"5x64x{source}", f"16x64x{sums}"
    count, names = in_sums(contraction(*types, integers(sums, lhs, rhs, source)))
    assert count == 5
    assert not {f"arith.{lhs}", f"arith.{rhs}"} & {*names}


def run(text: str, *arguments: NDArray[Any]) -> NDArray[Any]:
    scheduled, plain = (
        compile(text, schedule=flag)(*arguments) for flag in (True, False)
    )
    np.testing.assert_array_equal(scheduled, plain)
    return scheduled


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sums", ["i32", "i64"])
@pytest.mark.parametrize("lhs", ["extsi", "extui"])
@pytest.mark.parametrize("rhs", ["extsi", "extui"])
def test_integers_are_exact(sums: str, lhs: str, rhs: str):
    """Each of the smallest, the largest and some other factors, times each of them."""
    values = np.array([-128, -127, -1, 0, 1, 100, 127, 5], np.int8)
    x, y = np.meshgrid(values, values)
    left, right = np.tile(x.reshape(1, -1), (8, 9)), np.tile(y.reshape(-1, 1), (9, 32))
    initial = np.arange(256).reshape(8, 32).astype(f"int{sums[1:]}")
    text = contraction(
        "8x576xi8", "576x32xi8", f"8x32x{sums}", integers(sums, lhs, rhs)
    )
    factors = [
        factor.view(np.uint8 if name == "extui" else np.int8).astype(np.int64)
        for factor, name in ((left, lhs), (right, rhs))
    ]
    expected = initial + factors[0] @ factors[1]
    np.testing.assert_array_equal(run(text, left, right, initial), expected)


def with_zero_points(body: str, lhs: int, rhs: int) -> str:
    """The same body with constants subtracted from what is multiplied."""
    return f"""
    %lz = arith.constant {lhs} : i32
    %rz = arith.constant {rhs} : i32
    {body}""".replace(
        "%p = arith.muli %r, %l",
        """%ld = arith.subi %l, %lz : i32
    %rd = arith.subi %r, %rz : i32
    %p = arith.muli %rd, %ld""",
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zero_points", [(-128, 0), (7, -5), (1 << 30, 255), (0, 256)])
@pytest.mark.parametrize("lhs", ["extsi", "extui"])
def test_zero_points(zero_points: tuple[int, int], lhs: str):
    body = with_zero_points(integers("i32", lhs), *zero_points)
    text = contraction("8x64xi8", "64x32xi8", "8x32xi32", body)
    assert not {"arith.subi", f"arith.{lhs}"} & {*in_sums(text)[1]}
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-128, 128, s).astype(np.int8) for s in (512, 2048))
    left, right = left.reshape(8, 64), right.reshape(64, 32)
    factors = [
        factor.view(np.uint8 if name == "extui" else np.int8).astype(np.int64) - point
        for factor, name, point in zip(
            (left, right), (lhs, "extsi"), zero_points, strict=True
        )
    ]
    actual = run(text, left, right, np.ones((8, 32), np.int32))
    expected = (factors[0] @ factors[1] + 1).astype(np.int32)
    np.testing.assert_array_equal(actual, expected)


def test_a_factor_that_does_not_depend_on_all_loops():
    text = contraction(
        "8x6x3xi8",
        "6x1x32xi8",
        "8x32xi32",
        integers("i32"),
        ("(d0, d2, d3)", "(d2, 0, d1)", "(d0, d1)"),
        "d0, d1, d2, d3",
        '"parallel", "parallel", "reduction", "reduction"',
    )
    rng = np.random.default_rng(0)
    left = rng.integers(-128, 128, (8, 6, 3)).astype(np.int8)
    right = rng.integers(-128, 128, (6, 1, 32)).astype(np.int8)
    expected = np.einsum("ikj,kn->in", left.astype(int), right[:, 0].astype(int))
    actual = run(text, left, right, np.zeros((8, 32), np.int32))
    np.testing.assert_array_equal(actual, expected)


def test_floats_are_added_up_in_order():
    """In any other order the large ones would not cancel each other."""
    random = np.random.default_rng(0)
    x = (
        random.normal(size=(16, 50)) * 10.0 ** random.integers(-9, 9, (16, 50))
    ).astype("f4")
    y = random.normal(size=(50, 32)).astype(np.float32)
    text = contraction("16x50xf32", "50x32xf32", "16x32xf32", FLOATS)
    run(text, x, y, np.ones((16, 32), np.float32))


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [("16x5xf32", "5x32xf32", "16x32xf32"), ("?x?xf32", "?x?xf32", "?x?xf32")],
)
def test_named_ops(lhs: str, rhs: str, result: str):
    x = np.arange(80, dtype=np.float32).reshape(16, 5)
    y = np.arange(160, dtype=np.float32).reshape(5, 32)
    text = named("matmul", lhs, rhs, result)
    actual = run(text, x, y, np.ones((16, 32), np.float32))
    np.testing.assert_array_equal(actual, x @ y + 1)


def test_only_contractions_are_rewritten():
    """A sum of quotients is as it was, with its loops in the same order."""
    body = FLOATS.replace("mulf", "divf")
    text = contraction("16x5xf32", "5x64xf32", "16x64xf32", body)
    assert in_sums(text)[0] == 3
    x, y = np.ones((16, 5), np.float32), np.full((5, 64), 2, np.float32)
    assert (run(text, x, y, np.zeros((16, 64), np.float32)) == 2.5).all()


@pytest.mark.parametrize(("rows", "count"), [(3, 2), (1, 1)])
def test_computed_factors_are_in_memory_first(rows: int, count: int):
    """But for those of which each element is used once."""
    text = contraction(f"{rows}x4xf32", "4x5xf32", f"{rows}x5xf32", FLOATS)
    start = text.index("  %0")
    text = text[:start] + text[start:].replace("ins(%a, %b", "ins(%l, %r")
    ops = f"""
  %l = arith.negf %a : tensor<{rows}x4xf32>
  %r = arith.negf %b : tensor<4x5xf32>
"""
    text = text[:start] + ops + text[start:]
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        tile_contractions(module)
        assert len(ops_in(module, "tensor.reshape")) == count
    x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    y = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(
        run(text, x, y, np.zeros((rows, 5), np.float32)), x @ y
    )
