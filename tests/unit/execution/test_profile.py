"""How long each op of a module takes."""

from __future__ import annotations

from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlir", reason="no MLIR bindings")

from tests.unit.display.html_tree import parse_html, text_of
from xdsl_quant.execution import Profile, ProfileRow, compile
from xdsl_quant.execution.profile import MAX_SHOWN, rows_of
from xdsl_quant.execution.source_ops import SourceOp, number_ops, numbers_in
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.runtime.loading import parse_module

WINE = Path("docs/examples/wine.tflite")

TWO_PRODUCTS = """
func.func private @see(tensor<3x5xf32>)
func.func @f(%x: tensor<3x4xf32>) -> tensor<3x5xf32> {
  %w = arith.constant dense<0.5> : tensor<4x4xf32>
  %v = arith.constant dense<0.25> : tensor<4x5xf32>
  %e = tensor.empty() : tensor<3x4xf32>
  %g = tensor.empty() : tensor<3x5xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<3x4xf32>, tensor<4x4xf32>)
    outs(%i : tensor<3x4xf32>) -> tensor<3x4xf32>
  %a = math.absf %y : tensor<3x4xf32>
  %b = arith.addf %a, %x : tensor<3x4xf32>
  %j = linalg.fill ins(%zero : f32) outs(%g : tensor<3x5xf32>) -> tensor<3x5xf32>
  %z = linalg.matmul ins(%b, %v : tensor<3x4xf32>, tensor<4x5xf32>)
    outs(%j : tensor<3x5xf32>) -> tensor<3x5xf32>
  func.call @see(%z) : (tensor<3x5xf32>) -> ()
  return %z : tensor<3x5xf32>
}
"""


def html_of(profile: Profile) -> str:
    """What a notebook shows."""
    html = profile._repr_html_()  # pyright: ignore[reportPrivateUsage] by its caller
    assert html is not None
    return html


def ops(*names: str) -> list[SourceOp]:
    return [SourceOp(name, f"m:{i}:1", "f32") for i, name in enumerate(names)]


def row(number: int, seconds: float, *names: str, products: int = 0) -> ProfileRow:
    return ProfileRow(number, ops(*names), [], seconds, products, 1)


def test_rows():
    a, b, c, d, e = source = ops(*"abcde")
    steps = [
        [0],
        # Fused, and named after the last of them.
        [2, 1, 0],
        [],
        [0],
        [4, 2],
    ]
    assert rows_of(source, {0: 7, 1: 5, 4: 2}, steps, [1.0, 2.0, 4.0, 8.0, 16.0]) == [
        ProfileRow(1, [a], [], 9.0, 7, 2),
        ProfileRow(2, [c, b], [1], 2.0, 5, 1),
        ProfileRow(3, [d], [], 0.0, 0, 0),
        ProfileRow(4, [e], [2], 16.0, 2, 1),
        ProfileRow(5, [], [], 4.0, 0, 1),
    ]
    assert rows_of([], {}, [], []) == []


@pytest.mark.parametrize("schedule", [True, False])
def test_each_op_is_in_a_row(schedule: bool):
    calls = 0

    def see(_: object) -> None:
        nonlocal calls
        calls += 1

    host = {"see": see}
    function = compile(TWO_PRODUCTS, host_functions=host, schedule=schedule)
    profile = function.profile(np.ones((3, 4), np.float32))
    # The first call is not measured.
    assert calls == profile.calls + 1
    assert [op.name for row in profile.rows for op in row.ops].count("linalg.fill") == 2
    found = sorted(op.name for row in profile.rows for op in row.ops)
    assert found == sorted(
        [
            *("linalg.fill", "linalg.matmul", "math.absf", "arith.addf"),
            *("linalg.fill", "linalg.matmul", "func.call"),
        ]
    )
    assert {row.products for row in profile.rows} == {0, 48, 60}
    assert [row.number for row in profile.rows] == [*range(1, len(profile.rows) + 1)]
    for row in profile.rows:
        assert bool(row.seconds) == bool(row.steps)
        assert isnan(row.giga_ops_per_second) == (not row.products)
    assert sum(profile.share(row) for row in profile.rows) == pytest.approx(1)


def test_fused_ops():
    text = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = math.absf %x : tensor<2xf32>
  %b = arith.addf %a, %x : tensor<2xf32>
  %c = arith.mulf %b, %x : tensor<2xf32>
  return %c : tensor<2xf32>
}"""
    (row,) = compile(text, schedule=True).profile([1.0, 2.0]).rows
    assert row.name == "arith.mulf"
    assert row.fused == "math.absf, arith.addf"
    assert (row.steps, row.products, row.location) == (1, 0, "module:5:3")


def test_files():
    """Locations are names there, and locations of a given module stay."""
    x = np.zeros((1, 13), np.float32)
    module = read_tflite(WINE, static=True)
    before = [str(op.location) for op in module.walk()]
    by_path, by_module = compile(WINE).profile(x), compile(module).profile(x)
    assert [str(op.location) for op in module.walk()] == before
    for profile in (by_path, by_module):
        rows = [row for row in profile.rows if row.products]
        assert [(row.location, row.products) for row in rows] == [
            ('loc("tfl.fully_connected")', 416),
            ('loc("tfl.fully_connected1")', 512),
            ('loc("y:0")', 48),
        ]


def test_calls_without_code():
    profile = compile("func.func @f() { return }").profile()
    assert profile.rows == []
    assert profile.seconds == 0
    assert repr(profile).splitlines()[0].startswith("#  op  where")


def test_what_results_need():
    profile = compile(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    ).profile(np.ones(4, np.float32))
    (row,) = profile.rows
    assert (row.name, row.ops, row.steps) == ("arguments and results", [], 1)


def test_mistakes():
    function = compile(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    )
    with pytest.raises(TypeError, match=r"^function 'f' takes 1 argument, but got 0$"):
        function.profile()
    with pytest.raises(ValueError, match="argument 0 has shape 3"):
        function.profile(np.ones(3, np.float32))


def test_numbers():
    module = parse_module(TWO_PRODUCTS)
    found = number_ops(module)
    assert [op.name for op in found][1:4] == [
        "linalg.matmul",
        "math.absf",
        "arith.addf",
    ]
    product = next(op for op in module.walk() if op.name == "linalg.matmul")
    inner = [op for op in product.walk() if op is not product]
    assert all([*numbers_in(str(op.location))] == [1] for op in inner)
    assert [*numbers_in('loc(fused["xdsl_quant.op":3:0, "m":1:2])')] == [3]


def test_text():
    fused = ProfileRow(2, ops("a", "b"), [1], 3e-6, 6_000, 2)
    none = ProfileRow(3, ops("c"), [], 0.0, 0, 0)
    profile = Profile("f", [row(1, 1e-6, "linalg.fill"), fused, none], 7)
    assert (
        repr(profile)
        == """\
#  op           where  result  us   share  products  GOP/s  with
1  linalg.fill  m:0:1  f32     1.0  25.0%  -         -
2  a            m:0:1  f32     3.0  75.0%  6,000     4.0    b, part of 1
3  c            m:0:1  f32     -    -      -         -

f: a call takes 4.0 us, the median of 7 calls"""
    )


def test_longest():
    seconds = np.random.default_rng(0).permutation(MAX_SHOWN + 3) + 1.0
    rows = [row(i, s, "op") for i, s in enumerate(seconds.tolist(), 1)]
    profile = Profile("f", rows, 1)
    assert profile.longest == [row for row in rows if row.seconds > 3]
    assert "\n... and 3 rows that take less\n\nf: " in repr(profile)
    assert "and 3 rows that take less" in text_of(parse_html(html_of(profile)))


def test_html():
    evil = SourceOp("<a>&", 'loc("<b>")', "<c>")
    shown = ProfileRow(1, [evil], [], 2e-6, 1000, 1)
    none = ProfileRow(2, ops("d"), [1], 0.0, 0, 0)
    tree = parse_html(html_of(Profile("<f>", [shown, none], 3)))
    assert [
        [text_of(cell) for cell in line] for body in tree.iter("tbody") for line in body
    ] == [
        ["1", "<a>&<b>", "<c>", "2.02.0 µs", "100.0%", "1,000", "1.0", ""],
        ["2", "dm:0:1", "f32", "-", "-", "-", "-", "part of 1"],
    ]
    (caption,) = tree.iter("caption")
    assert text_of(caption) == "<f>: a call takes 2.0 µs, the median of 3 calls."


def test_speed():
    assert row(1, 2e-6, "a", products=3_000).giga_ops_per_second == pytest.approx(3.0)
    assert isnan(row(1, nan, "a").giga_ops_per_second)


def test_short_times_have_three_decimals():
    profile = Profile("f", [row(1, 123.4e-9, "a"), row(2, 1.234e-6, "b")], 7)
    assert [profile.cells(each)[0] for each in profile.rows] == ["0.123", "1.2"]
