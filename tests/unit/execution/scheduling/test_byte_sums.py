"""Sums of two rescaled bytes are computed in 32 bits, if that gives the same bytes."""

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.byte_sums import narrow_byte_sums

X, Y = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))

RESCALED = """
  %{r}0 = arith.{extend} %{x} : i8 to i32
  %{r}1 = arith.subi %{r}0, %zp : i32
  %{r}2 = arith.shli %{r}1, %twenty : i32
  %{r}3 = arith.extsi %{r}2 : i32 to i64
  %{r}4 = arith.muli %{r}3, %m : i64
  %{r}5 = arith.addi %{r}4, %half : i64
  %{r}6 = arith.shrsi %{r}5, %s : i64
  %{r} = arith.trunci %{r}6 : i64 to i32
"""

SUM = """
  %t0 = arith.addi %a, %b : i32
  %t1 = arith.addi %t0, %rounding : i32
  %t2 = arith.shrsi %t1, %twenty : i32
  %t3 = arith.addi %t2, %zp : i32
  %t4 = arith.maxsi %t3, %low : i32
  %t5 = arith.minsi %t4, %high : i32
  %r = arith.trunci %t5 : i32 to i8
"""


def function(body: str, low: int = -128, high: int = 127) -> str:
    """Return a function of two tensors of bytes; the body computes %r from %x and %y."""
    same = "affine_map<(i, j) -> (i, j)>"
    tensor = "tensor<256x256xi8>"
    return f"""
        func.func @f(%u: {tensor}, %v: {tensor}) -> {tensor} {{
          %zp = arith.constant -3 : i32
          %twenty = arith.constant 20 : i32
          %m = arith.constant 1533916908 : i64
          %half = arith.constant 1073741824 : i64
          %s = arith.constant 31 : i64
          %rounding = arith.constant 524288 : i32
          %low = arith.constant {low} : i32
          %high = arith.constant {high} : i32
          %e = tensor.empty() : {tensor}
          %result = linalg.generic {{indexing_maps = [{same}, {same}, {same}],
              iterator_types = ["parallel", "parallel"]}}
              ins(%u, %v : {tensor}, {tensor}) outs(%e : {tensor}) {{
          ^bb0(%x: i8, %y: i8, %o: i8):
            {body}
            linalg.yield %r : i8
          }} -> {tensor}
          return %result : {tensor}
        }}"""


def body(x: str = "extsi", y: str = "extsi", total: str = SUM) -> str:
    factors = (
        RESCALED.format(r="a", x="x", extend=x),
        RESCALED.format(r="b", x="y", extend=y),
    )
    return "".join(factors) + total


def is_narrow(text: str) -> bool:
    """Return True if a function computes nothing in 64 bits after the rewrite."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        narrow_byte_sums(module)
        module.operation.verify()
        return len(ops_in(module, "arith.muli", "arith.shli")) == 2


@pytest.mark.parametrize("low", [-128, -3])
@pytest.mark.parametrize("x", ["extsi", "extui"])
@pytest.mark.parametrize("y", ["extsi", "extui"])
def test_all_pairs(x: str, y: str, low: int):
    text = function(body(x, y), low)
    assert is_narrow(text)
    pairs = X.astype(np.int8), Y.astype(np.int8)
    numbers = (
        pair.astype(np.int64) & (-1 if name == "extsi" else 0xFF)
        for pair, name in zip(pairs, (x, y), strict=True)
    )
    terms = ((((n + 3) << 20) * 1533916908 + (1 << 30)) >> 31 for n in numbers)
    expected = np.clip(((sum(terms) + (1 << 19)) >> 20) - 3, low, 127)
    np.testing.assert_array_equal(compile(text)(*pairs), expected.astype(np.int8))


@pytest.mark.parametrize(
    "text",
    [
        # A product, a sum without rounding shift, a constant, and more than bytes
        function(body(total=SUM.replace("t0 = arith.addi", "t0 = arith.muli"))),
        function(body(total=SUM.replace("shrsi", "muli"))),
        function(body(), 5, 5),
        function(body(total=SUM.replace("shrsi %t1", "shrsi %twenty"))),
        function(body().replace("%x : i8 to i32", "%o : i8 to i32")),
        function(body().replace("shli %a1, %twenty", "shli %a1, %a1")),
        # Overflow of 64 bits, and results that no slope has
        function(body().replace("shrsi %a5, %s", "remsi %a5, %s")),
        function(body().replace("addi %a, %b", "xori %a, %b")),
        function("%r = arith.addi %x, %y : i8"),
    ],
)
def test_other_bodies(text: str):
    assert not is_narrow(text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
@pytest.mark.parametrize("op", ["add", "sub"])
@pytest.mark.parametrize(
    "scales", [(0.02, 0.05, 0.06), (0.1, 0.1, 0.1), (1.5, 0.01, 2.5)]
)
@pytest.mark.parametrize("zero_points", [(0, 0, 0), (-128, 5, 127)])
def test_kernels(
    scales: tuple[float, ...], zero_points: tuple[int, ...], op: str, activation: str
):
    x, y, z = (
        f"tensor<65536x!quant.uniform<i8:f32, {scale}:{zero_point}>>"
        for scale, zero_point in zip(scales, zero_points, strict=True)
    )
    text = f"""
        func.func @f(%x: {x}, %y: {y}) -> {z} {{
          %0 = "tfl.{op}"(%x, %y) {{fused_activation_function = "{activation}"}}
              : ({x}, {y}) -> {z}
          return %0 : {z}
        }}"""
    pairs = X.ravel().astype(np.int8), Y.ravel().astype(np.int8)
    expected = compile(text, schedule=False)(*pairs)
    np.testing.assert_array_equal(compile(text)(*pairs), expected)
