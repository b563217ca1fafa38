"""Min/max that compiled code finds, in loops that it shares."""

import sys
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.shared_loops import share_loops
from xdsl_quant.runtime.host_functions import MinMaxFunction

Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


class Recorder:
    """Keeps what it is called with."""

    def __init__(self):
        self.min_max: list[tuple[list[int], Array]] = []
        """Positions and min_max."""

        self.values: list[Array] = []

    def reduce_min_max(self, positions: Array, min_max: Array) -> None:
        assert min_max.dtype == np.float64
        assert min_max.shape == (2, len(positions))
        assert not positions.flags.writeable
        assert not min_max.flags.writeable
        self.min_max.append((positions.tolist(), min_max.copy()))

    def see(self, values: Array) -> None:
        self.values.append(values.copy())

    def function(self, position: int = 0, axis: int | None = None) -> MinMaxFunction:
        return MinMaxFunction(self.see, self.reduce_min_max, position, axis)


@cache
def recording(type_: str, axis: int | None) -> tuple[Any, Recorder]:
    """A compiled function whose argument has this type, and its recorder."""
    text = f"""
func.func private @see({type_})
func.func @f(%x: {type_}) {{
  func.call @see(%x) : ({type_}) -> ()
  return
}}
"""
    recorder = Recorder()
    function = compile(text, host_functions={"see": recorder.function(7, axis)})
    return function, recorder


def record(values: Array, type_: str, axis: int | None = None) -> Recorder:
    """Run a function with an argument of this type, and return what it records."""
    function, recorder = recording(type_, axis)
    recorder.min_max.clear()
    recorder.values.clear()
    function(values)
    return recorder


def min_max_of(values: Array, type_: str, axis: int | None = None) -> list[list[float]]:
    recorder = record(values, type_, axis)
    assert not recorder.values
    ((positions, min_max),) = recorder.min_max
    assert positions == [*range(7, 7 + len(positions))]
    return min_max.tolist()


VALUES = (
    [1.0, -2.5, 0.5],
    [3.0, 1.5, 2.0],
    [-3.0, -1.5, -2.0],
    [0.0],
    [-0.0, -1.0],
    [-0.0, 0.0],
    [6e-8, -6e-8],
    [6e4, -6e4] * 40,
    list(np.linspace(-7, 5, 103)),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("type_", DTYPES)
def test_values(values: list[float], type_: str):
    array = np.array(values).astype(DTYPES[type_])
    for size in ("?", len(values)):
        expected = [[float(array.min())], [float(array.max())]]
        assert min_max_of(array, f"tensor<{size}x{type_}>") == expected


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_largest_values(type_: str):
    largest = {"f32": float(np.finfo(np.float32).max), "f64": sys.float_info.max}[type_]
    array = np.array([-largest, largest] * 50, DTYPES[type_])
    assert min_max_of(array, f"tensor<?x{type_}>") == [[-largest], [largest]]


@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("others", [[], [1.0], [-1.0], [2.0, -3.0] * 50])
def test_not_finite(others: list[float], value: float, type_: str):
    array = np.array([*others, value, *others]).astype(DTYPES[type_])
    assert np.isnan(min_max_of(array, f"tensor<?x{type_}>")).all()


def test_not_finite_in_a_channel():
    array = np.array([[1, np.inf, 2, 3], [1, 4, np.nan, 5]], np.float32)
    nan = np.nan
    expected = [[1, nan, nan, 3], [1, nan, nan, 5]]
    np.testing.assert_array_equal(min_max_of(array, "tensor<?x4xf32>", 1), expected)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_nothing(shape: tuple[int, ...]):
    sizes = "?x" * len(shape)
    values = np.zeros(shape, np.float32)
    assert min_max_of(values, f"tensor<{sizes}f32>") == [[np.inf], [-np.inf]]


def test_nothing_in_channels():
    values = np.zeros((0, 2), np.float32)
    inf = np.inf
    assert min_max_of(values, "tensor<?x2xf32>", 1) == [[inf, inf], [-inf, -inf]]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize("sizes", ["3x4x5x", "?x?x?x"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axis(axis: int, sizes: str, type_: str):
    x = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(DTYPES[type_])
    kept = sizes.split("x")
    kept[axis] = str(x.shape[axis])
    rest = tuple(i for i in range(3) if i != axis)
    expected = [x.min(axis=rest).tolist(), x.max(axis=rest).tolist()]
    assert min_max_of(x, f"tensor<{'x'.join(kept)}{type_}>", axis) == expected


@pytest.mark.parametrize(
    "type_", ["3x4x5xf32", "?x?x5xf32", "?x4x?xf32", "2x?x64xf32", "2x3x70xf16"]
)
@pytest.mark.parametrize("is_squared", [False, True])
def test_rows(type_: str, is_squared: bool):
    """Rows of any length, of arguments and of results that are recorded, too."""
    dtype = DTYPES[type_.rpartition("x")[2]]
    sizes = (2, 3, 4) if type_.startswith("?") else (2, 3, 0)
    shape = tuple(
        size if part == "?" else int(part)
        for part, size in zip(type_.split("x"), sizes, strict=False)
    )
    values = np.linspace(-2, 1, int(np.prod(shape))).astype(dtype).reshape(shape)
    tensor = f"tensor<{type_}>"
    ops = f"%y = arith.mulf %x, %x : {tensor}"
    text = f"""
func.func private @see({tensor})
func.func @f(%x: {tensor}) {{
  {ops if is_squared else ""}
  func.call @see({"%y" if is_squared else "%x"}) : ({tensor}) -> ()
  return
}}
"""
    recorder = Recorder()
    function = compile(text, host_functions={"see": recorder.function()})
    for value in (0.0, 3.0, -3.0, np.nan):
        for index in (0, -1):
            given = values.copy()
            given.reshape(-1)[index] = value
            recorder.min_max.clear()
            function(given)
            ((_, min_max),) = recorder.min_max
            expected = given * given if is_squared else given
            low, high = min_max.ravel().tolist()
            if np.isnan(value):
                assert np.isnan(low)
                assert np.isnan(high)
            else:
                assert (low, high) == (expected.min(), expected.max())


def test_number():
    values = np.array(-2.5, np.float32)
    assert min_max_of(values, "tensor<f32>") == [[-2.5], [-2.5]]


@pytest.mark.parametrize(
    ("type_", "axis"),
    [
        ("2xf32", 1),
        ("2xf32", -1),
        ("?xf32", 0),
        ("2xf8E4M3FN", None),
        ("2xi8", None),
    ],
)
def test_all_values_where_min_max_are_not_found(type_: str, axis: int | None):
    dtypes = {"f32": np.float32, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "i8": np.int8}
    values = np.array([1, 2], dtypes[type_[2:]])
    recorder = record(values, f"tensor<{type_}>", axis)
    assert [seen.tolist() for seen in recorder.values] == [[1, 2]]
    assert not recorder.min_max


def test_no_channels():
    recorder = record(np.zeros((2, 0), np.float32), "tensor<2x0xf32>", 1)
    assert [values.shape for values in recorder.values] == [(2, 0)]


# Groups


def test_one_call_for_a_block():
    """Whatever the types are, with the min_max side by side."""
    text = """
func.func private @a(tensor<?xf16>)
func.func private @b(tensor<2x3xf64>)
func.func private @c(tensor<f32>)
func.func @f(%x: tensor<?xf16>, %y: tensor<2x3xf64>, %z: tensor<f32>) {
  func.call @a(%x) : (tensor<?xf16>) -> ()
  func.call @b(%y) : (tensor<2x3xf64>) -> ()
  func.call @c(%z) : (tensor<f32>) -> ()
  return
}
"""
    recorder = Recorder()
    functions = {
        "a": recorder.function(9),
        "b": recorder.function(2, 1),
        "c": recorder.function(0),
    }
    y = np.array([[1e300, 2, 3], [4, 1, -1]])
    compile(text, host_functions=functions)([1, 2], y, 5)
    ((positions, min_max),) = recorder.min_max
    assert positions == [9, 2, 3, 4, 0]
    assert min_max.tolist() == [[1, 4, 1, -1, 5], [2, 1e300, 2, 3, 5]]


TERMS = """
func.func private @a(tensor<?xf32>)
func.func private @b(tensor<?xf32>)
func.func @f(%x: tensor<?xf32>, %c: i1) {{
  func.call @a(%x) : (tensor<?xf32>) -> ()
  {}
  return
}}
"""
SEEN = "func.call @b(%y) : (tensor<?xf32>) -> ()"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("ops", "is_own"),
    [
        *(
            (f"%y = arith.{op} %x, %x : tensor<?xf32>\n{SEEN}", False)
            for op in ("addf", "subf", "mulf")
        ),
        # These may be finite where a value is not.
        (f"%y = arith.divf %x, %x : tensor<?xf32>\n{SEEN}", True),
        (f"%y = arith.maxnumf %x, %x : tensor<?xf32>\n{SEEN}", True),
        (f"%y = arith.addf %x, %x fastmath<nnan> : tensor<?xf32>\n{SEEN}", True),
        # They are in another call, or in none.
        (
            "scf.if %c {\n%y = arith.addf %x, %x : tensor<?xf32>\n" + SEEN + "\n}",
            True,
        ),
        ("%y = arith.addf %x, %x : tensor<?xf32>", True),
    ],
)
def test_terms_and_factors(ops: str, is_own: bool, value: float):
    """Where a tensor tells that they are not finite, they need not do so themselves."""
    recorder = Recorder()
    functions = {"a": recorder.function(0), "b": recorder.function(1)}
    function = compile(TERMS.format(ops), host_functions=functions)
    array = np.arange(99, dtype=np.float32) - 50
    function(array, False)
    *_, (_, min_max) = recorder.min_max
    assert min_max[:, 0].tolist() == [-50, 48]
    array[70] = value
    recorder.min_max.clear()
    function(array, False)
    ((positions, min_max),) = recorder.min_max
    assert np.isnan(min_max[:, 0 if is_own else positions.index(1)]).all()


def test_one_call_for_each_recorder():
    text = """
func.func private @a(tensor<?xf32>)
func.func private @b(tensor<?xf32>)
func.func private @reduce_min_max_0(tensor<?xf32>)
func.func @f(%x: tensor<?xf32>) {
  func.call @a(%x) : (tensor<?xf32>) -> ()
  func.call @b(%x) : (tensor<?xf32>) -> ()
  func.call @reduce_min_max_0(%x) : (tensor<?xf32>) -> ()
  func.call @a(%x) : (tensor<?xf32>) -> ()
  return
}
"""
    one, other = Recorder(), Recorder()
    functions = {
        "a": one.function(1),
        "b": other.function(2),
        "reduce_min_max_0": other.see,
    }
    compile(text, host_functions=functions)([1, 2])
    assert [(p, min_max.tolist()) for p, min_max in one.min_max] == [
        ([1, 1], [[1, 1], [2, 2]])
    ]
    assert [(p, min_max.tolist()) for p, min_max in other.min_max] == [
        ([2], [[1], [2]])
    ]
    assert [values.tolist() for values in other.values] == [[1, 2]]


def test_loop_and_branch():
    """A call for each time that the end of a block is reached."""
    text = """
func.func private @a(tensor<2xf32>)
func.func private @b(tensor<2xf32>)
func.func @f(%x: tensor<2xf32>, %n: index, %c: i1) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %y = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> (tensor<2xf32>) {
    %w = arith.addf %v, %v : tensor<2xf32>
    func.call @a(%w) : (tensor<2xf32>) -> ()
    scf.yield %w : tensor<2xf32>
  }
  scf.if %c {
    func.call @b(%y) : (tensor<2xf32>) -> ()
  }
  return
}
"""
    recorder = Recorder()
    functions = {"a": recorder.function(0), "b": recorder.function(1)}
    function = compile(text, host_functions=functions)
    function([1, 2], 2, True)
    function([3, 4], 1, False)
    assert [(p, min_max.tolist()) for p, min_max in recorder.min_max] == [
        ([0], [[2], [4]]),
        ([0], [[4], [8]]),
        ([1], [[4], [8]]),
        ([0], [[6], [8]]),
    ]


def test_exception():
    def fail(positions: Array, min_max: Array) -> None:
        raise LookupError(f"{positions.tolist()} {min_max.tolist()}")

    text = """
func.func private @a(tensor<?xf32>)
func.func @f(%x: tensor<?xf32>) {
  func.call @a(%x) : (tensor<?xf32>) -> ()
  return
}
"""
    function = compile(text, host_functions={"a": MinMaxFunction(print, fail, 4)})
    with pytest.raises(LookupError, match=r"^\[4\] \[\[1.0\], \[2.0\]\]$"):
        function([1, 2])


def test_functions_that_are_equal_but_not_the_same():
    @dataclass(frozen=True)
    class Equal:
        seen: tuple[list[Any]] = field(compare=False)

        def __call__(self, positions: Array, min_max: Array) -> None:
            self.seen[0].append(positions.tolist())

    text = """
func.func private @a(tensor<?xf32>)
func.func private @b(tensor<?xf32>)
func.func @f(%x: tensor<?xf32>) {
  func.call @a(%x) : (tensor<?xf32>) -> ()
  func.call @b(%x) : (tensor<?xf32>) -> ()
  return
}
"""
    lists: list[list[Any]] = [[], []]
    functions = {
        name: MinMaxFunction(print, Equal((seen,)), index)
        for index, (name, seen) in enumerate(zip("ab", lists, strict=True))
    }
    compile(text, host_functions=functions)([1, 2])
    assert lists == [[[0]], [[1]]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, print), "function must be a function, not int"),
        ((print, None), "reduce_min_max must be a function, not NoneType"),
        ((print, print, 1.5), "position must be an integer, not float"),
        ((print, print, 0, "x"), "axis must be an integer or None, not str"),
    ],
)
def test_arguments_of_wrong_types(arguments: Any, message: str):
    with pytest.raises(TypeError, match=f"^{message}$"):
        MinMaxFunction(*arguments)


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


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    ("size", "axis"), [("?", None), ("5", None), ("5", 0), ("5", 1)]
)
def test_shared_loops(name: str, axis: int | None, size: str):
    """Neither the results nor what is seen changes."""
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
    recorders = {name: Recorder() for name in "abc"}
    positions = dict(zip("abc", (0, 5, 10), strict=True))
    both = Recorder()
    results = [
        compile(text, host_functions=functions)(x, y, np.float32(2))
        for functions in (
            {name: recorder.see for name, recorder in recorders.items()},
            {name: both.function(first, axis) for name, first in positions.items()},
        )
    ]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    rest = None if axis is None else 1 - axis
    expected = sorted(
        (first + i, low, high)
        for name, first in positions.items()
        for values in recorders[name].values
        for i, (low, high) in enumerate(
            zip(
                values.min(axis=rest).reshape(-1).tolist(),
                values.max(axis=rest).reshape(-1).tolist(),
                strict=True,
            )
        )
    )
    assert not both.values
    assert expected == sorted(
        (position, low, high)
        for positions, min_max in both.min_max
        for position, low, high in zip(positions, *min_max.tolist(), strict=True)
    )


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
  %3 = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel"]} ins(%1 : !t) outs(%e : !t) {
  ^bb0(%l: f32, %o: f32):
    %v = arith.mulf %l, %l : f32
    linalg.yield %v : f32
  } -> !t
  call @see(%2) : (tensor<f32>) -> ()
  return %3 : !t
}
func.func private @see(tensor<f32>)
"""
    )
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        share_loops(module)
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
    recorder = Recorder()
    function = compile(text, host_functions={n: recorder.function() for n in "abc"})
    with pytest.raises(ValueError, match="invalid sizes or indices"):
        function(np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32))
    assert not recorder.min_max
