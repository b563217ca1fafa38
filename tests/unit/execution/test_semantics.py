"""Compiled code computes what the interpreter does where MLIR alone does not."""

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module


def bits(array: Any) -> NDArray[Any]:
    return np.asarray(array).view(f"i{array.dtype.itemsize}")


# Functions


@pytest.mark.parametrize(
    ("type_", "dtype"), [("f16", np.float16), ("f32", np.float32), ("f64", np.float64)]
)
@pytest.mark.parametrize("name", ["log1p", "expm1"])
def test_functions_that_are_exact_near_zero(name: str, type_: str, dtype: Any):
    function = compile(
        f"""
func.func @f(%x: tensor<?x{type_}>, %s: {type_}) -> (tensor<?x{type_}>, {type_}) {{
  %0 = math.{name} %x : tensor<?x{type_}>
  %1 = math.{name} %s : {type_}
  return %0, %1 : tensor<?x{type_}>, {type_}
}}"""
    )
    sizes = np.logspace(-8, 0.9, 1000)
    x = np.concatenate([[0.0, -0.0, np.inf, np.nan], sizes, -sizes / 8]).astype(dtype)
    values, value = function(x, np.array(-0.0, dtype))
    expected = getattr(np, name)(x)
    np.testing.assert_array_max_ulp(values[4:], expected[4:], 2)
    np.testing.assert_array_equal(values[:4], expected[:4])
    assert np.signbit(values[1])
    assert np.signbit(value)


# Conversions


def bf16_of(values: NDArray[Any]) -> NDArray[Any]:
    """Rounded once: of Python's integers, which have all digits."""
    results: list[float] = []
    for value in values.tolist():
        size = abs(value)
        shift = max(size.bit_length() - 8, 0)
        quotient, rest = divmod(size, 1 << shift)
        half = (1 << shift) >> 1
        quotient += rest > half or (rest == half and shift > 0 and quotient % 2)
        results.append(float(quotient << shift) * (-1 if value < 0 else 1))
    return np.array(results).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("op", ["sitofp", "uitofp"])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_integers_are_rounded_once_to_bfloat16(op: str, width: int):
    rng = np.random.default_rng(0)
    dtype = np.dtype(f"int{width}")
    near = [
        sign * ((1 << power) + (1 << (power - 8)) + rest)
        for power in range(8, width - 1)
        for rest in (-1, 0, 1)
        for sign in (-1, 1)
    ]
    limits = np.iinfo(dtype)
    x = np.concatenate(
        [
            np.array([0, 1, -1, limits.min, limits.max, *near], dtype),
            rng.integers(limits.min, limits.max, 1000, dtype),
        ]
    )
    function = compile(
        f"""
func.func @f(%x: tensor<?xi{width}>) -> tensor<?xbf16> {{
  %0 = arith.{op} %x : tensor<?xi{width}> to tensor<?xbf16>
  return %0 : tensor<?xbf16>
}}"""
    )
    meant = x if op == "sitofp" else x.view(f"u{dtype.itemsize}")
    np.testing.assert_array_equal(bits(function(x)), bits(bf16_of(meant)))


def test_integers_of_other_widths_to_bfloat16():
    text = """
func.func @f(%x: i64) -> (bf16, bf16) {
  %0 = arith.trunci %x : i64 to i33
  %1 = arith.sitofp %0 : i33 to bf16
  %2 = arith.uitofp %0 : i33 to bf16
  return %1, %2 : bf16, bf16
}"""
    assert compile(text)(2**32 + 2**24 + 1) == (
        -(2.0**32) + 2**24,
        2.0**32 + 2**25,
    )
    with pytest.raises(CompilationError, match=r"^'arith\.sitofp' op converts 65 bits"):
        compile(text.replace("i33", "i65").replace("trunci", "extsi"))


# Loops and branches


def test_tensors_that_loops_compute():
    function = compile(
        """
func.func @f(%x: tensor<?xf32>, %n: index) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x)
      -> (tensor<?xf32>, tensor<?xf32>) {
    %s = arith.addf %a, %x : tensor<?xf32>
    %t = arith.mulf %a, %b : tensor<?xf32>
    scf.yield %t, %s : tensor<?xf32>, tensor<?xf32>
  }
  return %r#0, %r#1 : tensor<?xf32>, tensor<?xf32>
}"""
    )
    x = np.array([1, 2, -3], np.float32)
    for n in range(6):
        a = b = x
        for _ in range(n):
            a, b = a * b, a + x
        results = function(x, n)
        np.testing.assert_array_equal(results[0], a)
        np.testing.assert_array_equal(results[1], b)
    np.testing.assert_array_equal(x, [1, 2, -3])


def test_branches_that_compute_tensors_of_different_sizes():
    function = compile(
        """
func.func @f(%c: i1, %x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %five = arith.constant 5.0 : f32
  %0 = arith.addf %x, %x : tensor<?xf32>
  %r = scf.if %c -> (tensor<?xf32>) {
    scf.yield %0 : tensor<?xf32>
  } else {
    %1 = tensor.insert %five into %y[%c0] : tensor<?xf32>
    scf.yield %1 : tensor<?xf32>
  }
  %2 = tensor.insert %five into %r[%c0] : tensor<?xf32>
  return %2 : tensor<?xf32>
}"""
    )
    x, y = np.ones(1000, np.float32), np.array([3, 3], np.float32)
    memory = np.zeros(1000, np.float32)
    np.testing.assert_array_equal(function(False, x, y, out=memory[:2]), [5, 3])
    # Nothing is written behind the result.
    np.testing.assert_array_equal(memory[2:], 0)
    np.testing.assert_array_equal(function(True, x, y), [5, *[2] * 999])


# Modules

RESOURCE = """
func.func @f() -> tensor<{type_}> {{
  %0 = arith.constant dense_resource<{key}> : tensor<{type_}>
  return %0 : tensor<{type_}>
}}
{{-# dialect_resources: {{ builtin: {{ {key}: "0x01000000{data}" }} }} #-}}"""


@pytest.mark.parametrize("parse", [str, parse_module])
@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("2xf32", np.array([1.5, -2], np.float32)),
        ("2x1xi8", np.array([[-128], [127]], np.int8)),
        ("300xi64", np.arange(300)),
        ("2xi4", np.array([-8, 7], np.int8)),
        ("3xi1", np.array([True, False, True])),
        ("1xbf16", np.array([1.5], ml_dtypes.bfloat16)),
    ],
)
def test_resources(
    type_: str, array: NDArray[Any], parse: Any, capfd: pytest.CaptureFixture[str]
):
    # xDSL finds the data of a key only where it is parsed first.
    key = f"resource_{parse.__name__}_{type_}"
    text = RESOURCE.format(key=key, type_=type_, data=array.tobytes().hex())
    module: ModuleOp | str = parse(text)
    before = str(module)
    result = compile(module)()
    np.testing.assert_array_equal(result, array)
    assert result.dtype == array.dtype
    assert str(module) == before
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            RESOURCE.format(key="short", type_="2xf32", data="00"),
            "resource 'short' has 1 bytes; expected 8 for 'tensor<2xf32>'",
        ),
        (
            RESOURCE.format(key="lost", type_="2xf32", data="").partition("{-#")[0],
            "missing data of resource 'lost",
        ),
        (
            'func.func @f() { "llvm.unreachable"() : () -> () }',
            "unsupported 'llvm.unreachable' op; expected no ops of the llvm dialect",
        ),
        (
            """func.func @f(%c: i1) {
  cf.cond_br %c, ^bb0, ^bb1
^bb0:
  "llvm.unreachable"() : () -> ()
^bb1:
  return
}""",
            "unsupported 'llvm.unreachable' op; expected no ops of the llvm dialect",
        ),
    ],
)
def test_what_may_end_the_process(
    text: str, message: str, capfd: pytest.CaptureFixture[str]
):
    with pytest.raises(CompilationError, match=f"^{re.escape(message)}"):
        compile(text)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("module", [None, 3])
def test_what_is_no_module(module: Any):
    name = type(module).__name__
    with pytest.raises(
        TypeError,
        match="^model must be a module, MLIR text, bytes or the path of a file, not "
        f"{name}$",
    ):
        compile(module)


WHILE = """
#id = affine_map<(i) -> (i)>
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %k = arith.addf %y, %y : tensor<2xf32>
  %r:2 = scf.while (%a = %x, %i = %c0) : (tensor<2xf32>, index) -> (tensor<2xf32>, index) {{
    %b = linalg.generic {{indexing_maps = [#id], iterator_types = ["parallel"]}}
        outs(%a : tensor<2xf32>) {{
    ^bb0(%o: f32):
      %s = arith.addf %o, %o : f32
      linalg.yield %s : f32
    }} -> tensor<2xf32>
    %n = arith.addi %i, %c1 : index
    %c = arith.cmpi slt, %i, %c3 : index
    scf.condition(%c) {condition}, %n : tensor<2xf32>, index
  }} do {{
  ^bb0(%d: tensor<2xf32>, %j: index):
    %e = linalg.generic {{indexing_maps = [#id], iterator_types = ["parallel"]}}
        outs(%d : tensor<2xf32>) {{
    ^bb0(%o: f32):
      %s = arith.addf %o, %o : f32
      linalg.yield %s : f32
    }} -> tensor<2xf32>
    scf.yield {carried}, %j : tensor<2xf32>, index
  }}
  return %r#0, %k : tensor<2xf32>, tensor<2xf32>
}}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("condition", ["%a", "%b", "%k"])
@pytest.mark.parametrize("carried", ["%d", "%e", "%k", "%y"])
def test_loops_write_to_their_own_tensors_only(condition: str, carried: str):
    text = WHILE.format(condition=condition, carried=carried)
    x, y = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    result, k = compile(text)(x, y)
    expected, _ = run_function(parse_module(text), "f", x, y)
    assert k.tolist() == [20, 40]
    assert (x.tolist(), y.tolist()) == ([1, 2], [10, 20])
    np.testing.assert_array_equal(result, expected)


def test_results_of_a_part_of_what_is_written_to():
    text = """
func.func @f(%x: tensor<2x2xf32>, %p: tensor<2xf32>)
    -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>) {
  %a = arith.addf %x, %x : tensor<2x2xf32>
  %b = tensor.insert_slice %p into %a[0, 0] [1, 2] [1, 1]
      : tensor<2xf32> into tensor<2x2xf32>
  %c = tensor.extract_slice %a[0, 0] [2, 1] [1, 1] : tensor<2x2xf32> to tensor<2xf32>
  return %b, %c, %a : tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>
}
"""
    x, p = np.array([[1, 2], [3, 4]], np.float32), np.array([7, 8], np.float32)
    b, c, a = compile(text)(x, p)
    assert a.tolist() == [[2, 4], [6, 8]]
    assert b.tolist() == [[7, 8], [6, 8]]
    assert c.tolist() == [2, 6]


# A second use would prevent the fusion.
SUM_OF_OUTS = """
#id = affine_map<(i) -> (i)>
#row = affine_map<(i, j) -> (j)>
#out = affine_map<(i, j) -> ({out})>
func.func @f(%x: tensor<{n}xf32>, %z: tensor<{n}xf32>, %y: {type}) -> {type} {{
  %0 = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%x : tensor<{n}xf32>) outs(%z : tensor<{n}xf32>) {{
    ^bb0(%element: f32, %sum: f32):
      %next = arith.addf %element, %sum : f32
      linalg.yield %next : f32
  }} -> tensor<{n}xf32>
  %1 = linalg.generic {{
      indexing_maps = [#row, #out], iterator_types = ["parallel", "{kind}"]}}
      ins(%0 : tensor<{n}xf32>) outs(%y : {type}) {{
    ^bb0(%row: f32, %sum: f32):
      %next = arith.addf %row, %sum : f32
      linalg.yield %next : f32
  }} -> {type}
  return %1 : {type}
}}
"""


@pytest.mark.parametrize(("m", "n"), [("3", "5"), ("?", "?")])
@pytest.mark.parametrize("kind", ["parallel", "reduction"])
def test_what_reads_its_outs_is_computed_once(kind: str, m: str, n: str):
    is_sum = kind == "reduction"
    type_ = f"tensor<{m}xf32>" if is_sum else f"tensor<{m}x{n}xf32>"
    out = "i" if is_sum else "i, j"
    text = SUM_OF_OUTS.format(kind=kind, out=out, n=n, type=type_)
    x, z = np.arange(5, dtype=np.float32), np.full(5, 10, np.float32)
    y = np.arange(15, dtype=np.float32).reshape(3, 5)
    y = y[:, 0] if is_sum else y
    expected = y + ((x + z).sum() if is_sum else x + z)
    np.testing.assert_array_equal(compile(text)(x, z, y), expected)


@pytest.mark.parametrize("shape", [(17, 2), (2, 17), (33, 3), (16, 2)])
def test_moving_bf16(shape: tuple[int, int]):
    """LLVM ends the process at vectors of bf16 that it has put together."""
    rows, columns = shape
    text = f"""
!t = tensor<{columns}x{rows}xbf16>
func.func @f(%x: tensor<{rows}x{columns}xbf16>) -> !t {{
  %e = tensor.empty() : !t
  %t = linalg.transpose ins(%x : tensor<{rows}x{columns}xbf16>) outs(%e : !t)
    permutation = [1, 0]
  return %t : !t
}}
"""
    x = np.random.default_rng(0).normal(size=shape).astype(ml_dtypes.bfloat16)
    assert np.array_equal(compile(text)(x), x.T)
