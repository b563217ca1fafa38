"""Programs are compiled and called; results are exact."""

from typing import Any, get_args

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import ArrayLike, DTypeLike, NDArray

from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.execution import CompiledFunction, compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.rounding_mode import RoundingMode
from xdsl_quant.runtime.loading import parse_module

QUANTIZE = """
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @quantize(%x: tensor<2x3xf32>) -> tensor<2x3x!q> {
  %q = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!q>
  return %q : tensor<2x3x!q>
}
"""


def check(result: NDArray[Any], expected: ArrayLike, dtype: DTypeLike) -> None:
    assert result.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(result, np.array(expected, dtype))


def identity(type_: str) -> CompiledFunction:
    return compile(f"func.func @f(%x: {type_}) -> {type_} {{ return %x : {type_} }}")


# Quantized types


def test_quantize():
    x = np.array([[0, 0.25, 0.75], [1, 100, np.nan]], np.float32)
    check(compile(QUANTIZE)(x), [[3, 4, 4], [5, 127, -128]], np.int8)


def test_rounding_modes():
    x = np.array([[0, 0.25, 0.75], [1, -0.75, -1]], np.float32)
    away = compile(QUANTIZE, rounding_mode="nearest-away")
    check(away(x), [[3, 4, 5], [5, 2, 1]], np.int8)
    truncate = compile(QUANTIZE, rounding_mode="truncate", fuse=False)
    check(truncate(x), [[3, 3, 4], [5, 1, 1]], np.int8)


@pytest.mark.parametrize("fuse", [False, True])
def test_zero_point_order(fuse: bool):
    x = np.array([[-3.75, 0.25, 0.75], [1e30, -np.inf, np.nan]], np.float32)
    before = compile(QUANTIZE, fuse=fuse)
    check(before(x), [[-4, 4, 4], [127, -128, -128]], np.int8)
    after = compile(QUANTIZE, zero_point_order="after-rounding", fuse=fuse)
    check(after(x), [[-5, 3, 5], [127, -128, -128]], np.int8)


def test_simulated_quantization_is_computed():
    function = compile(
        """
!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %q = quant.qcast %x : tensor<3xf32> to tensor<3x!q>
  %y = quant.dcast %q : tensor<3x!q> to tensor<3xf32>
  return %y : tensor<3xf32>
}"""
    )
    check(function([0.4, 0.6, 1000]), [0.5, 0.5, 63.5], np.float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("storage", "dtype", "low", "high"),
    [
        ("i8", np.int8, -128, 127),
        ("u8", np.uint8, 0, 255),
        ("i4", np.int8, -8, 7),
        ("u4", np.uint8, 0, 15),
        ("i1", np.int8, -1, 0),
        ("u1", np.uint8, 0, 1),
        ("u7", np.uint8, 0, 127),
        ("i16", np.int16, -32768, 32767),
        ("i24", np.int32, -(2**23), 2**23 - 1),
        ("u17", np.uint32, 0, 2**17 - 1),
        ("u32", np.uint32, 0, 2**32 - 1),
    ],
)
def test_stored_values_are_natural_integers(
    storage: str, dtype: Any, low: int, high: int
):
    function = compile(
        f"""
!q = !quant.uniform<{storage}:f64, 1.0>
func.func @f(%x: tensor<?xf64>, %q: tensor<?x!q>)
    -> (tensor<?x!q>, tensor<?xf64>, tensor<?x!q>) {{
  %stored = quant.qcast %x : tensor<?xf64> to tensor<?x!q>
  %expressed = quant.dcast %q : tensor<?x!q> to tensor<?xf64>
  return %stored, %expressed, %q : tensor<?x!q>, tensor<?xf64>, tensor<?x!q>
}}"""
    )
    values = [low, (low + high) // 2, 0, high]
    results = function(np.array(values, np.float64), np.array(values, dtype))
    check(results[0], values, dtype)
    check(results[1], values, np.float64)
    check(results[2], values, dtype)


def test_per_axis_and_sub_channel():
    function = compile(
        """
!axis = !quant.uniform<i8:f32:1, {1.0, 0.5:1}>
!blocks = !quant.uniform<u8:f32:{0:1, 1:2}, {{1.0, 2.0}, {4.0, 8.0:2}}>
func.func @f(%x: tensor<2x2xf32>, %y: tensor<2x4x!blocks>)
    -> (tensor<2x2x!axis>, tensor<2x4xf32>) {
  %0 = quant.qcast %x : tensor<2x2xf32> to tensor<2x2x!axis>
  %1 = quant.dcast %y : tensor<2x4x!blocks> to tensor<2x4xf32>
  return %0, %1 : tensor<2x2x!axis>, tensor<2x4xf32>
}"""
    )
    stored, expressed = function([[1, 1], [2, 2]], [[1, 1, 1, 1], [2, 2, 2, 2]])
    check(stored, [[1, 3], [2, 5]], np.int8)
    check(expressed, [[1, 1, 2, 2], [8, 8, 0, 0]], np.float32)


@pytest.mark.sampled(19)
@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("rounding_mode", get_args(RoundingMode))
@pytest.mark.parametrize("storage", ["i4", "u4", "u1", "i7", "u17", "i24", "u32"])
def test_zero_points_of_odd_widths(
    storage: str, rounding_mode: RoundingMode, fuse: bool
):
    """With `truncate` they are constants of the storage type."""
    rng = np.random.default_rng(0)
    is_signed, width = storage.startswith("i"), int(storage[1:])
    low = -(2 ** (width - 1)) if is_signed else 0
    # MLIR writes more than 100 numbers as bytes.
    for count in (1, 3, 200):
        zero_points = rng.integers(low, low + 2**width, count)
        parameters = QuantizationParameters(
            rng.choice([0.25, 0.5, 1.0], count),
            zero_points,
            storage=storage,
            expressed="f64",
            quantized_dimension=1,
        )
        function = compile(
            f"""
!q = {uniform_type(parameters)}
func.func @f(%x: tensor<?x{count}xf64>, %y: tensor<4x{count}x!q>)
    -> (tensor<?x{count}x!q>, tensor<4x{count}xf64>) {{
  %0 = quant.qcast %x : tensor<?x{count}xf64> to tensor<?x{count}x!q>
  %1 = quant.dcast %y : tensor<4x{count}x!q> to tensor<4x{count}xf64>
  return %0, %1 : tensor<?x{count}x!q>, tensor<4x{count}xf64>
}}""",
            rounding_mode=rounding_mode,
            fuse=fuse,
        )
        stored = rng.integers(low, low + 2**width, (4, count))
        stored = stored.astype(parameters.storage_dtype)
        expressed = (stored - zero_points.astype(np.float64)) * parameters.scales
        results = function(expressed, stored)
        check(results[0], stored, parameters.storage_dtype)
        check(results[1], expressed, np.float64)


def test_fake_quantization_rounds_and_other_instrumentation_goes():
    text = """
func.func @f(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %0 = quant.const_fake_quant %x <-1.0:1.0> bits 4 : tensor<?x2xf32>
  %1 = quant.const_fake_quant_per_axis %0 axis 1 [<-1.0:1.0>, <0.0:0.5>] bits 3
      : tensor<?x2xf32>
  %2 = quant.stats_ref %1 "key" : tensor<?x2xf32>
  %3 = quant.stats %2 <-1.0:1.0> : tensor<?x2xf32>
  %4 = quant.coupled_ref %3 "key" : tensor<?x2xf32>
  return %4 : tensor<?x2xf32>
}
"""
    x = np.linspace(-2, 2, 200, dtype=np.float32).reshape(-1, 2)
    (expected,) = run_function(parse_module(text), "f", x)
    assert len(np.unique(expected)) < 16
    np.testing.assert_array_equal(compile(text)(x), expected)


def test_quantized_values_pass_through_calls_and_branches():
    function = compile(
        """
!q = !quant.uniform<i8:f32, 0.5>
func.func private @other(%x: tensor<2x!q>) -> tensor<2x!q> {
  return %x : tensor<2x!q>
}
func.func @main(%c: i1, %x: tensor<2x!q>, %y: tensor<2x!q>) -> tensor<?xf32> {
  %z = func.call @other(%y) : (tensor<2x!q>) -> tensor<2x!q>
  %r = scf.if %c -> (tensor<2x!q>) {
    scf.yield %x : tensor<2x!q>
  } else {
    scf.yield %z : tensor<2x!q>
  }
  %d = tensor.cast %r : tensor<2x!q> to tensor<?x!q>
  %e = quant.dcast %d : tensor<?x!q> to tensor<?xf32>
  return %e : tensor<?xf32>
}"""
    )
    check(function(True, [2, 4], [6, 8]), [1, 2], np.float32)
    check(function(False, [2, 4], [6, 8]), [3, 4], np.float32)


def test_unranked_tensors_inside():
    function = compile(
        """
!q = !quant.uniform<i8:f32:1, {1.0, 0.5}>
func.func @f(%x: tensor<?x?xf32>) -> tensor<3x2x!q> {
  %u = tensor.cast %x : tensor<?x?xf32> to tensor<*xf32>
  %q = quant.qcast %u : tensor<*xf32> to tensor<*x!q>
  %r = tensor.cast %q : tensor<*x!q> to tensor<3x2x!q>
  return %r : tensor<3x2x!q>
}"""
    )
    check(function([[1, 1], [2, 2], [3, 3]]), [[1, 2], [2, 4], [3, 6]], np.int8)
    with pytest.raises(ValueError, match=r"size of dimension 1 must be 2"):
        function(np.zeros((2, 3), np.float32))


def test_bfloat16_is_rounded_once_and_keeps_the_smallest_numbers():
    function = compile(
        """
func.func @f(%x: f64, %y: f32) -> (bf16, bf16, f16) {
  %0 = arith.truncf %x : f64 to bf16
  %1 = arith.truncf %y : f32 to bf16
  %2 = arith.truncf %x : f64 to f16
  return %0, %1, %2 : bf16, bf16, f16
}"""
    )
    # A bit above the middle of two numbers: by way of f32, ties to even.
    bf16, _, _ = function(1 + 2**-8 + 2**-40, 0.0)
    check(bf16, 1 + 2**-7, ml_dtypes.bfloat16)
    _, _, f16 = function(1 + 2**-11 + 2**-40, 0.0)
    check(f16, 1 + 2**-10, np.float16)
    _, bf16, _ = function(0.0, 2.0**-133)
    check(bf16, 2.0**-133, ml_dtypes.bfloat16)


# Signatures


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("type_", "dtype", "value"),
    [
        ("f16", np.float16, -1.5),
        ("bf16", ml_dtypes.bfloat16, -1.5),
        ("f32", np.float32, -1.5),
        ("f64", np.float64, 1e300),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn, -1.5),
        ("i1", np.bool_, True),
        ("i3", np.int8, -4),
        ("i8", np.int8, -128),
        ("i17", np.int32, -65536),
        ("i32", np.int32, 2**31 - 1),
        ("i64", np.int64, -(2**63)),
        ("index", np.int64, -5),
        ("ui8", np.uint8, 200),
        ("si16", np.int16, -200),
    ],
)
@pytest.mark.parametrize("shape", [None, (), (2,), (2, 0, 3)])
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_arguments_are_results(
    type_: str,
    dtype: Any,
    value: Any,
    shape: tuple[int, ...] | None,
    is_dynamic: bool,
):
    sizes = "".join("?x" if is_dynamic else f"{size}x" for size in shape or ())
    function = identity(type_ if shape is None else f"tensor<{sizes}{type_}>")
    argument = np.full(shape or (), value, dtype)
    result = function(argument)
    check(result, argument, dtype)
    assert result.shape == argument.shape
    assert not np.may_share_memory(result, argument)


def test_constants_are_results():
    function = compile(
        """
func.func @f() -> (tensor<2xi32>, tensor<3xi1>, f32, index, tensor<2xi4>) {
  %0 = arith.constant dense<[1, 2]> : tensor<2xi32>
  %1 = arith.constant dense<[true, false, true]> : tensor<3xi1>
  %2 = arith.constant 1.5 : f32
  %3 = arith.constant -7 : index
  %4 = arith.constant dense<[-8, 7]> : tensor<2xi4>
  return %0, %1, %2, %3, %4 : tensor<2xi32>, tensor<3xi1>, f32, index, tensor<2xi4>
}"""
    )
    for _ in range(2):
        results = function()
        check(results[0], [1, 2], np.int32)
        check(results[1], [True, False, True], np.bool_)
        check(results[2], 1.5, np.float32)
        check(results[3], -7, np.int64)
        check(results[4], [-8, 7], np.int8)
        # The next call is not to see this.
        results[0][:] = 0


def test_constants_are_folded():
    function = compile(
        """
func.func @f() -> i32 {
  %three = arith.constant 3 : i32
  %six = arith.addi %three, %three : i32
  return %six : i32
}"""
    )
    assert function() == 6


def test_no_results():
    assert compile("func.func @f(%x: tensor<2xf32>) { return }")([1, 2]) is None


def test_the_same_value_twice():
    function = compile(
        """
func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>)
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.addf %x, %y : tensor<?xf32>
  return %0, %0, %y : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}"""
    )
    x = np.array([1, 2, 3], np.float32)
    results = function(x, x)
    for result, expected in zip(results, (2 * x, 2 * x, x), strict=True):
        check(result, expected, np.float32)
    assert not np.may_share_memory(results[0], results[1])


def test_numbers_and_lists_are_arguments():
    function = compile(
        """
func.func @f(%x: f32, %i: i16, %t: tensor<2xf16>, %c: i1)
    -> (f32, i16, tensor<2xf16>, i1) {
  return %x, %i, %t, %c : f32, i16, tensor<2xf16>, i1
}"""
    )
    results = function(0.1, np.int16(-3), [1, 2.5], np.True_)
    check(results[0], 0.1, np.float32)
    check(results[1], -3, np.int16)
    check(results[2], [1, 2.5], np.float16)
    check(results[3], True, np.bool_)


def test_arrays_that_are_not_contiguous():
    function = identity("tensor<?x?xi16>")
    x = np.arange(24, dtype=np.int16).reshape(4, 6)
    for view in (x.T, x[::-1, ::2], x[1:3, 2:4], x[:, ::-1]):
        check(function(view), view, np.int16)


def test_arrays_in_other_orders_of_bytes():
    x = np.array([1, 2, 3], ">f4")
    check(identity("tensor<3xf32>")(x), [1, 2, 3], np.float32)
    buffer = np.zeros(13, np.uint8)
    misaligned = buffer[1:].view(np.float32)
    misaligned[:] = [1, 2, 3]
    check(identity("tensor<3xf32>")(misaligned), [1, 2, 3], np.float32)


def test_read_only_arguments():
    x = np.arange(3, dtype=np.float32)
    x.flags.writeable = False
    check(identity("tensor<3xf32>")(x), x, np.float32)


# Sizes


def test_sizes_that_depend_on_numbers():
    function = compile(
        """
func.func @f(%n: index, %x: tensor<?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %size = tensor.dim %x, %c0 : tensor<?xf32>
  %twice = arith.addi %size, %size : index
  %0 = tensor.empty(%n, %twice) : tensor<?x?xf32>
  %one = arith.constant 1.0 : f32
  %1 = linalg.fill ins(%one : f32) outs(%0 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %2 = tensor.extract_slice %x[0] [%n] [1] : tensor<?xf32> to tensor<?xf32>
  return %1, %2 : tensor<?x?xf32>, tensor<?xf32>
}"""
    )
    x = np.arange(5, dtype=np.float32)
    for n in (0, 1, 3):
        filled, part = function(n, x)
        check(filled, np.ones((n, 10)), np.float32)
        check(part, x[:n], np.float32)


def test_sizes_that_do_not_fit_each_other():
    function = compile(
        """
func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.addf %x, %y : tensor<?xf32>
  return %0 : tensor<?xf32>
}"""
    )
    x = np.ones(1000, np.float32)
    check(function(x, x), np.full(1000, 2), np.float32)
    with pytest.raises(ValueError, match=r"^'f': invalid sizes or indices"):
        function(x, x[:3])
    with pytest.raises(ValueError, match="invalid sizes or indices"):
        function(x[:3], x)
    # What went wrong before does not matter now.
    check(function(x[:3], x[:3]), np.full(3, 2), np.float32)


@pytest.mark.parametrize("rank", [2, 3])
def test_sizes_that_do_not_fit_the_scales(rank: int):
    sizes = "?x" * rank
    function = compile(
        f"""
!q = !quant.uniform<i8:f32:1, {{1.0, 0.5, 0.25}}>
func.func @f(%x: tensor<{sizes}xf32>) -> tensor<{sizes}x!q> {{
  %q = quant.qcast %x : tensor<{sizes}xf32> to tensor<{sizes}x!q>
  return %q : tensor<{sizes}x!q>
}}""".replace("xx", "x")
    )
    x = np.ones((2, 3, 4)[:rank], np.float32)
    expected = np.broadcast_to(np.array([[1], [2], [4]]), (2, 3, 4))
    check(function(x), expected if rank == 3 else expected[:, :, 0], np.int8)
    for size in (0, 2, 4, 10**6):
        shape = (1, size, 1)[:rank]
        with pytest.raises(
            ValueError,
            match=r"^'f': size of dimension 1 must be 3: the number of scales$",
        ):
            function(np.ones(shape, np.float32))
        with pytest.raises(ValueError, match=r"size of dimension 1 must be 3"):
            function(np.ones(shape, np.float32), out=np.empty(shape, np.int8))


def test_sizes_that_do_not_fit_the_blocks():
    function = compile(
        """
!q = !quant.uniform<i8:f32:{0:2, 1:3}, {{1.0, 0.5}}>
func.func @f(%x: tensor<?x?x!q>) -> tensor<?x?xf32> {
  %0 = quant.dcast %x : tensor<?x?x!q> to tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}"""
    )
    check(function(np.ones((2, 6), np.int8)), [[1] * 3 + [0.5] * 3] * 2, np.float32)
    for shape in ((2, 7), (2, 5), (3, 6), (0, 0)):
        with pytest.raises(ValueError, match=r"size of dimension . must be"):
            function(np.ones(shape, np.int8))


def test_indices_out_of_range():
    function = compile(
        """
func.func @f(%x: tensor<4xf32>, %i: index) -> f32 {
  %0 = tensor.extract %x[%i] : tensor<4xf32>
  return %0 : f32
}"""
    )
    x = np.arange(4, dtype=np.float32)
    check(function(x, 3), 3, np.float32)
    for i in (4, -1, 10**12):
        with pytest.raises(ValueError, match="invalid sizes or indices"):
            function(x, i)


def test_assertions():
    function = compile(
        """
func.func private @check(%c: i1) {
  cf.assert %c, "no luck"
  return
}
func.func @main(%c: i1, %x: tensor<2xf32>) -> tensor<2xf32> {
  func.call @check(%c) : (i1) -> ()
  return %x : tensor<2xf32>
}"""
    )
    check(function(True, [1, 2]), [1, 2], np.float32)
    with pytest.raises(ValueError, match=r"^'main': no luck$"):
        function(False, [1, 2])


# What is not written to


@pytest.mark.parametrize(
    "body",
    [
        # In-place insertion.
        """
  %c = arith.constant 5.0 : f32
  %c0 = arith.constant 0 : index
  %r = tensor.insert %c into %x[%c0] : tensor<4xf32>""",
        # In-place arithmetic, with the argument as a destination.
        """
  %r = linalg.generic {
      indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
      iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %out : f32
    linalg.yield %sum : f32
  } -> tensor<4xf32>""",
        # An argument that goes round a loop.
        """
  %c = arith.constant 5.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %x) -> (tensor<4xf32>) {
    %n = tensor.insert %c into %a[%i] : tensor<4xf32>
    scf.yield %n : tensor<4xf32>
  }""",
        # An elementwise op whose intermediate value would fit the argument.
        """
  %d = arith.divf %x, %x : tensor<4xf32>
  %r = arith.mulf %d, %d : tensor<4xf32>""",
        # A function that writes to its argument.
        "  %r = func.call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>",
    ],
)
def test_arguments_are_not_written_to(body: str):
    function = compile(
        f"""
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %c = arith.constant 5.0 : f32
  %c0 = arith.constant 0 : index
  %r = tensor.insert %c into %x[%c0] : tensor<4xf32>
  return %r : tensor<4xf32>
}}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
{body}
  return %r, %x : tensor<4xf32>, tensor<4xf32>
}}"""
    )
    x = np.array([1, 2, 3, 4], np.float32)
    changed, unchanged = function(x)
    np.testing.assert_array_equal(x, [1, 2, 3, 4])
    np.testing.assert_array_equal(unchanged, x)
    assert (changed != x).any()


def test_what_a_function_says_of_itself():
    function = compile(QUANTIZE)
    quantized = "tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>"
    assert repr(function) == (
        f"<CompiledFunction quantize: (tensor<2x3xf32>) -> ({quantized})>"
    )
    assert [*map(str, function.argument_types)] == ["tensor<2x3xf32>"]
    assert [*map(str, function.result_types)] == [quantized]
    assert function.text.startswith("func.func private @quantize(%x: tensor<2x3xf32>)")


def test_a_module_is_not_changed():
    module = parse_module(QUANTIZE)
    before = str(module)
    compile(module)
    assert str(module) == before


# Programs


def test_functions_that_call_each_other():
    function = compile(
        """
func.func private @twice(%x: tensor<?xi32>) -> tensor<?xi32> {
  %0 = arith.addi %x, %x : tensor<?xi32>
  return %0 : tensor<?xi32>
}
func.func @four_times(%x: tensor<?xi32>) -> tensor<?xi32> {
  %0 = func.call @twice(%x) : (tensor<?xi32>) -> tensor<?xi32>
  %1 = func.call @twice(%0) : (tensor<?xi32>) -> tensor<?xi32>
  return %1 : tensor<?xi32>
}
func.func @unused(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}""",
        "four_times",
    )
    check(function([1, -2]), [4, -8], np.int32)


def test_a_function_that_calls_itself():
    function = compile(
        """
func.func @factorial(%n: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %end = arith.cmpi eq, %n, %zero : i64
  %r = scf.if %end -> (i64) {
    scf.yield %one : i64
  } else {
    %m = arith.subi %n, %one : i64
    %s = func.call @factorial(%m) : (i64) -> i64
    %p = arith.muli %n, %s : i64
    scf.yield %p : i64
  }
  return %r : i64
}"""
    )
    check(function(10), 3628800, np.int64)


def test_branches_between_blocks():
    function = compile(
        """
func.func @f(%c: i1, %x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  cf.cond_br %c, ^then(%x : tensor<2xf32>), ^else
^then(%z: tensor<2xf32>):
  %0 = arith.addf %z, %y : tensor<2xf32>
  return %0 : tensor<2xf32>
^else:
  cf.br ^then(%y : tensor<2xf32>)
}"""
    )
    check(function(True, [1, 2], [10, 20]), [11, 22], np.float32)
    check(function(False, [1, 2], [10, 20]), [20, 40], np.float32)


def test_odd_integers_in_memory():
    """Where a loop writes an i1 or an i3, nothing is fused."""
    function = compile(
        """
func.func @f(%x: tensor<4xi3>, %b: tensor<4xi1>) -> (tensor<4xi3>, tensor<4xi1>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x, %c = %b)
      -> (tensor<4xi3>, tensor<4xi1>) {
    %j = arith.addi %i, %c1 : index
    %0 = tensor.extract %a[%i] : tensor<4xi3>
    %1 = tensor.extract %a[%j] : tensor<4xi3>
    %2 = arith.addi %0, %1 : i3
    %3 = tensor.insert %2 into %a[%j] : tensor<4xi3>
    %4 = arith.cmpi slt, %2, %0 : i3
    %5 = tensor.insert %4 into %c[%j] : tensor<4xi1>
    scf.yield %3, %5 : tensor<4xi3>, tensor<4xi1>
  }
  return %r#0, %r#1 : tensor<4xi3>, tensor<4xi1>
}"""
    )
    sums, comparisons = function([1, 2, 1, -4], [True, True, True, True])
    check(sums, [1, 3, -4, 0], np.int8)
    check(comparisons, [True, False, True, False], np.bool_)


def test_strided_copies():
    function = compile(
        """
func.func @f(%x: tensor<4x6xi16>, %y: tensor<?x3xi16>) -> tensor<4x6xi16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %y, %c0 : tensor<?x3xi16>
  %0 = tensor.insert_slice %y into %x[0, 1] [%n, 3] [1, 2]
      : tensor<?x3xi16> into tensor<4x6xi16>
  return %0 : tensor<4x6xi16>
}"""
    )
    x = np.arange(24, dtype=np.int16).reshape(4, 6)
    y = -np.arange(6, dtype=np.int16).reshape(2, 3)
    expected = x.copy()
    expected[:2, 1::2] = y
    check(function(x, y), expected, np.int16)
    check(function(x, y[:0]), x, np.int16)


def test_integer_divisions():
    function = compile(
        """
func.func @f(%x: i32, %y: i32) -> (i32, i32) {
  %0 = arith.floordivsi %x, %y : i32
  %1 = arith.ceildivsi %x, %y : i32
  return %0, %1 : i32, i32
}"""
    )
    assert function(-7, 2) == (-4, -3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [8, 24, 64])
@pytest.mark.parametrize(
    "op", ["divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui", "ceildivui"]
)
def test_undefined_integer_divisions(op: str, width: int):
    function = compile(
        f"""
func.func @f(%x: i{width}, %y: i{width}) -> (i{width}, i{width}) {{
  %three = arith.constant 3 : i{width}
  %0 = arith.{op} %x, %y : i{width}
  %1 = arith.{op} %x, %three : i{width}
  return %0, %1 : i{width}, i{width}
}}"""
    )
    smallest = -(2 ** (width - 1))
    assert function(6, 2)[0] in (3, 0)
    function(smallest, 1)
    function(0, -1)
    with pytest.raises(ValueError, match=r"^'f': division by zero$"):
        function(6, 0)
    # The opposite of the smallest number wraps around.
    if op == "remsi":
        assert function(smallest, -1)[0] == 0
        assert function(7, -1)[0] == 0
    elif op.endswith("si"):
        assert function(smallest, -1)[0] == smallest
        assert function(7, -1)[0] == -7
    else:
        function(smallest, -1)


def test_matmul():
    function = compile(
        """
func.func @f(%x: tensor<?x4xi8>, %y: tensor<4x5xi8>) -> tensor<?x5xi32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %n = tensor.dim %x, %c0 : tensor<?x4xi8>
  %0 = tensor.empty(%n) : tensor<?x5xi32>
  %1 = linalg.fill ins(%zero : i32) outs(%0 : tensor<?x5xi32>) -> tensor<?x5xi32>
  %2 = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
                       affine_map<(i, j, k) -> (i, j)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<?x4xi8>, tensor<4x5xi8>) outs(%1 : tensor<?x5xi32>) {
  ^bb0(%a: i8, %b: i8, %sum: i32):
    %aw = arith.extsi %a : i8 to i32
    %bw = arith.extsi %b : i8 to i32
    %p = arith.muli %aw, %bw : i32
    %s = arith.addi %sum, %p : i32
    linalg.yield %s : i32
  } -> tensor<?x5xi32>
  return %2 : tensor<?x5xi32>
}"""
    )
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-128, 128, s, np.int8) for s in ((3, 4), (4, 5)))
    check(function(x, y), x.astype(np.int32) @ y, np.int32)
