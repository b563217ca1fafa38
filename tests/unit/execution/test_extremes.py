"""Smallest and largest values that compiled code finds, in loops that it shares."""

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import bindings, ops_in
from xdsl_quant.execution.shared_loops import share_loops
from xdsl_quant.host_functions import ExtremesFunction

Array = NDArray[Any]

DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def see_in(seen: list[Array], axis: int | None = None) -> ExtremesFunction:
    return ExtremesFunction(lambda ends: seen.append(ends.copy()), axis)


def extremes(values: Array, type_: str, sizes: str, axis: int | None = None) -> Array:
    text = f"""
func.func private @see(tensor<{sizes}{type_}>)
func.func @f(%x: tensor<{sizes}{type_}>) {{
  func.call @see(%x) : (tensor<{sizes}{type_}>) -> ()
  return
}}
"""
    seen: list[Array] = []
    compile(text, host_functions={"see": see_in(seen, axis)})(values)
    (ends,) = seen
    assert ends.dtype == values.dtype
    return ends


def same(ends: Array, low: Any, high: Any) -> None:
    expected = np.stack((low, high), axis=-1).astype(np.float64)
    np.testing.assert_array_equal(ends.astype(np.float64), expected)


VALUES = (
    [1.0, -2.5, 0.5],
    [3.0, 1.5, 2.0],
    [-3.0, -1.5, -2.0],
    [0.0],
    [-0.0, -1.0],
    [-0.0, 0.0],
    [np.inf, 1.0],
    [-np.inf, -1.0, 2.0],
    [6e-8, -6e-8],
    list(np.linspace(-7, 5, 103)),
)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("type_", DTYPES)
def test_values(values: list[float], type_: str):
    array = np.array(values).astype(DTYPES[type_])
    for sizes in ("?x", f"{len(values)}x"):
        same(extremes(array, type_, sizes), array.min(), array.max())


@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("others", [[], [1.0], [-1.0], [np.inf, -np.inf]])
def test_nan(others: list[float], sign: float, type_: str):
    array = np.array([*others, np.copysign(np.nan, sign), *others]).astype(
        DTYPES[type_]
    )
    assert np.isnan(extremes(array, type_, "?x").astype(np.float64)).any()


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_nothing(shape: tuple[int, ...]):
    sizes = "?x" * len(shape)
    assert not extremes(np.zeros(shape, np.float32), "f32", sizes).size
    for axis in range(len(shape)):
        ends = extremes(np.zeros(shape, np.float32), "f32", sizes, axis)
        assert not ends.size


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axis(axis: int, is_static: bool):
    x = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    ends = extremes(x, "f32", "3x4x5x" if is_static else "?x?x?x", axis)
    assert ends.shape == (1,) * axis + (x.shape[axis], 2)
    rest = tuple(i for i in range(3) if i != axis)
    same(ends.reshape(-1, 2), x.min(axis=rest), x.max(axis=rest))


def test_number():
    same(extremes(np.array(-2.5, np.float32), "f32", ""), -2.5, -2.5)


@pytest.mark.parametrize(
    ("type_", "axis"),
    [("2xf32", 1), ("2xf32", -1), ("2xf8E4M3FN", None), ("2xi8", None)],
)
def test_whole_tensor_where_there_are_no_extremes(type_: str, axis: int | None):
    text = f"""
func.func private @see(tensor<{type_}>)
func.func @f(%x: tensor<{type_}>) {{
  func.call @see(%x) : (tensor<{type_}>) -> ()
  return
}}
"""
    seen: list[Array] = []
    compile(text, host_functions={"see": see_in(seen, axis)})([1, 2])
    assert seen[0].tolist() == [1, 2]


# Shared loops

HEAD = """
#id = affine_map<(i, j) -> (i, j)>
#flip = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (j)>
#one = affine_map<(i, j) -> ()>
func.func private @a(!t)
func.func private @b(!t)
func.func private @c(!t)
"""

BODIES = {
    "chain": """
  %1 = arith.addf %x, %x : !t
  call @a(%1) : (!t) -> ()
  %2 = arith.mulf %1, %y : !t
  call @b(%2) : (!t) -> ()
  %3 = arith.subf %2, %1 : !t
  call @c(%3) : (!t) -> ()
""",
    "flipped": """
  %1 = arith.addf %x, %x : !t
  call @a(%1) : (!t) -> ()
  %e = tensor.empty(%n, %n) : !t
  %2 = linalg.generic {indexing_maps = [#id, #flip, #id],
      iterator_types = ["parallel", "parallel"]} ins(%y, %1 : !t, !t) outs(%e : !t) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.subf %l, %r : f32
    linalg.yield %s : f32
  } -> !t
  call @b(%2) : (!t) -> ()
  %3 = arith.mulf %2, %1 : !t
  call @c(%3) : (!t) -> ()
""",
    "in place": """
  %1 = arith.addf %x, %x : !t
  call @a(%1) : (!t) -> ()
  %2 = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel"]} ins(%1 : !t) outs(%1 : !t) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.mulf %l, %o : f32
    linalg.yield %s : f32
  } -> !t
  call @b(%2) : (!t) -> ()
  %3 = arith.subf %2, %1 : !t
  call @c(%3) : (!t) -> ()
""",
    "accumulated": """
  %1 = arith.addf %x, %x : !t
  call @a(%1) : (!t) -> ()
  %2 = linalg.generic {indexing_maps = [#id, #one, #id],
      iterator_types = ["parallel", "parallel"]} ins(%1, %k : !t, f32) outs(%y : !t) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %o : f32
    %m = arith.mulf %s, %r : f32
    linalg.yield %m : f32
  } -> !t
  call @b(%2) : (!t) -> ()
  %3 = arith.subf %2, %y : !t
  call @c(%3) : (!t) -> ()
""",
    "element of another": """
  %1 = arith.addf %x, %x : !t
  call @a(%1) : (!t) -> ()
  %e = tensor.empty(%n, %n) : !t
  %2 = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel"]} ins(%y : !t) outs(%e : !t) {
  ^bb0(%l: f32, %o: f32):
    %i = linalg.index 0 : index
    %v = tensor.extract %1[%i, %i] : !t
    %s = arith.addf %l, %v : f32
    linalg.yield %s : f32
  } -> !t
  call @b(%2) : (!t) -> ()
  %3 = arith.mulf %2, %1 : !t
  call @c(%3) : (!t) -> ()
""",
    "product and branch": """
  %1 = arith.addf %x, %y : !t
  call @a(%1) : (!t) -> ()
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n, %n) : !t
  %f = linalg.fill ins(%z : f32) outs(%e : !t) -> !t
  %2 = linalg.matmul ins(%1, %y : !t, !t) outs(%f : !t) -> !t
  call @b(%2) : (!t) -> ()
  %d = arith.cmpf ogt, %k, %z : f32
  scf.if %d {
    %w = arith.addf %2, %1 : !t
    call @c(%w) : (!t) -> ()
  }
  %3 = arith.subf %2, %1 : !t
  call @c(%3) : (!t) -> ()
""",
    "sum of rows": """
  %1 = arith.addf %x, %y : !t
  call @a(%1) : (!t) -> ()
  %z = arith.constant 0.0 : f32
  %r = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%z : f32) outs(%r : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [#id, #row],
      iterator_types = ["reduction", "parallel"]} ins(%1 : !t) outs(%f : tensor<?xf32>) {
  ^bb0(%l: f32, %o: f32):
    %v = arith.addf %l, %o : f32
    linalg.yield %v : f32
  } -> tensor<?xf32>
  %e = tensor.empty(%n, %n) : !t
  %2 = linalg.generic {indexing_maps = [#id, #row, #id],
      iterator_types = ["parallel", "parallel"]} ins(%1, %s : !t, tensor<?xf32>)
      outs(%e : !t) {
  ^bb0(%l: f32, %r0: f32, %o: f32):
    %v = arith.subf %l, %r0 : f32
    linalg.yield %v : f32
  } -> !t
  call @b(%2) : (!t) -> ()
  %3 = arith.mulf %2, %1 : !t
  call @c(%3) : (!t) -> ()
""",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("size", ["?", "5"])
def test_shared_loops(name: str, axis: int | None, size: str):
    """Neither the results nor what is seen, nor the order of that, changes."""
    body = BODIES[name].replace("call", "func.call")
    if size != "?":
        body = body.replace("tensor.empty(%n, %n)", "tensor.empty()")
        body = body.replace("tensor.empty(%n)", "tensor.empty()")
    text = f"""!t = tensor<?x?xf32>{HEAD}
func.func @f(%x: !t, %y: !t, %k: f32) -> (!t, !t) {{
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : !t
  {body}
  return %3, %1 : !t, !t
}}
""".replace("?", size)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 5, 5)).astype(np.float32)
    whole: list[tuple[str, Array]] = []
    ends: list[tuple[str, Array]] = []

    def keep(name: str, values: Array) -> None:
        whole.append((name, values.copy()))

    def keep_ends(name: str, values: Array) -> None:
        ends.append((name, values.reshape(-1, 2).copy()))

    plain = compile(text, host_functions={n: partial(keep, n) for n in "abc"})
    shared = compile(
        text,
        host_functions={
            n: ExtremesFunction(partial(keep_ends, n), axis) for n in "abc"
        },
    )
    results = [function(x, y, np.float32(2)) for function in (plain, shared)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    rest = None if axis is None else 1 - axis
    assert [n for n, _ in ends] == [n for n, _ in whole]
    for (_, values), (_, pair) in zip(whole, ends, strict=True):
        same(pair.squeeze(), values.min(axis=rest), values.max(axis=rest))


def test_one_loop():
    """What is only needed inside is no result."""
    text = (
        f"!t = tensor<?x?xf32>{HEAD}"
        + """
func.func @f(%x: !t, %e: !t, %s: tensor<f32>) -> !t {
  %1 = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel"]} ins(%x : !t) outs(%e : !t) {
  ^bb0(%l: f32, %o: f32):
    %v = arith.addf %l, %l : f32
    linalg.yield %v : f32
  } -> !t
  %2 = linalg.generic {indexing_maps = [#id, #one],
      iterator_types = ["reduction", "reduction"]} ins(%1 : !t) outs(%s : tensor<f32>) {
  ^bb0(%l: f32, %o: f32):
    %v = arith.maximumf %l, %o : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  call @see(%2) : (tensor<f32>) -> ()
  %3 = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel"]} ins(%1 : !t) outs(%e : !t) {
  ^bb0(%l: f32, %o: f32):
    %v = arith.mulf %l, %l : f32
    linalg.yield %v : f32
  } -> !t
  return %3 : !t
}
func.func private @see(tensor<f32>)
"""
    )
    ir = bindings().ir
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        share_loops(module, ["see"])
        module.operation.verify()
        (generic,) = ops_in(module, "linalg.generic")
        assert [str(result.type) for result in generic.results] == [
            "tensor<f32>",
            "tensor<?x?xf32>",
        ]


def test_sizes_that_do_not_fit():
    """They are found before anything is computed."""
    text = (
        f"!t = tensor<?x?xf32>{HEAD}"
        + """
func.func @f(%x: !t, %y: !t) -> !t {
  %1 = arith.addf %x, %x : !t
  func.call @a(%1) : (!t) -> ()
  %2 = arith.addf %1, %y : !t
  func.call @b(%2) : (!t) -> ()
  return %2 : !t
}
"""
    )
    seen: list[Array] = []
    function = compile(text, host_functions={n: see_in(seen) for n in "abc"})
    with pytest.raises(ValueError, match="sizes or indices do not fit"):
        function(np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32))
