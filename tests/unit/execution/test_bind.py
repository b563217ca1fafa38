"""Calls that are bound to their arrays."""

import gc
import re
from array import array
from typing import Any

import numpy as np
import pytest

from xdsl_quant.execution import CompiledFunction, compile

SCALE = """
func.func @scale(%x: tensor<?xf32>, %y: f32) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?xf32>
  %ys = tensor.splat %y[%n] : tensor<?xf32>
  %result = arith.mulf %x, %ys : tensor<?xf32>
  return %result : tensor<?xf32>
}
"""


@pytest.fixture(scope="module")
def scale() -> CompiledFunction:
    return compile(SCALE)


def test_reads_arrays_when_called(scale: CompiledFunction):
    x, out = np.ones((2, 3), np.float32)
    call = scale.bind(x, 2.0, out=out)
    assert call() is out
    np.testing.assert_array_equal(out, [2, 2, 2])
    x[:] = [1, 2, 3]
    assert call() is out
    np.testing.assert_array_equal(out, [2, 4, 6])
    assert repr(call) == "<BoundCall scale>"


def test_keeps_numbers_and_lists(scale: CompiledFunction):
    values = [1.0, 2.0]
    call = scale.bind(values, 2.0)
    values[0] = 7.0
    np.testing.assert_array_equal(call(), [2, 4])


def test_fills_the_same_result(scale: CompiledFunction):
    x = np.ones(2, np.float32)
    call = scale.bind(x, 3.0)
    result = call()
    x[0] = 2
    assert call() is result
    np.testing.assert_array_equal(result, [6, 3])
    assert scale.bind(x, 3.0)() is not result


def test_recursion_through_a_function_of_python():
    def see(x: Any) -> None:
        calls.append(float(x[0]))
        function(x + 1)

    calls: list[float] = []
    function = compile(
        """
func.func private @see(tensor<1xf32>)
func.func @f(%x: tensor<1xf32>) {
  func.call @see(%x) : (tensor<1xf32>) -> ()
  func.call @see(%x) : (tensor<1xf32>) -> ()
  return
}
""",
        host_functions={"see": see},
    )
    for _ in range(2):
        calls.clear()
        with pytest.raises(
            RecursionError,
            match=r"^maximum depth of 32 nested compiled calls exceeded in 'f'$",
        ):
            function(np.zeros(1, np.float32))
        assert calls == [*range(32)]


def test_what_becomes_an_array(scale: CompiledFunction):
    values = array("f", [1, 2])
    np.testing.assert_array_equal(scale(values, 2.0), [2, 4])
    message = (
        "cannot bind argument 0 of type 'array'; pass a NumPy array that shares its"
    )
    with pytest.raises(TypeError, match=f"^{message} memory$"):
        scale.bind(values, 2.0)


def test_empty(scale: CompiledFunction):
    assert scale.bind(np.empty(0, np.float32), 1.0)().shape == (0,)


def test_several_results_and_none():
    function = compile(
        "func.func @f(%x: f32, %y: i8) -> (f32, i8) { return %x, %y : f32, i8 }"
    )
    x, y = np.array(1.5, np.float32), np.array(2, np.int8)
    call = function.bind(x, y)
    x[...] = 2.5
    assert call() == (2.5, 2)
    assert compile("func.func @f() { return }").bind()() is None


def test_keeps_all_memory():
    # With a Python function nothing else keeps the code.
    call = compile(
        f"func.func private @see(tensor<?xf32>)\n{SCALE}",
        entry="scale",
        host_functions={"see": print},
    ).bind(np.full(1000, 2, np.float32), 2.0)
    gc.collect()
    np.testing.assert_array_equal(call(), np.full(1000, 4))


def test_arrays_are_checked_once(scale: CompiledFunction):
    x = np.ones(2, np.float32)
    with pytest.raises(TypeError, match=r"^argument 0 has dtype float64, but "):
        scale.bind(x.astype(np.float64), 1.0)
    with pytest.raises(ValueError, match=r"^out has shape 3, but the result has sha"):
        scale.bind(x, 1.0, out=np.ones(3, np.float32))
    with pytest.raises(ValueError, match=r"^out overlaps an argument"):
        scale.bind(x, 1.0, out=x)


I4 = "tensor<2x!quant.uniform<i4:f32, 1.0>>"


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        (
            "tensor<2xf32>",
            np.ones((2, 2), np.float32)[:, 0],
            "each call would have to copy it; pass a contiguous and aligned array in "
            "native byte order",
        ),
        (
            "tensor<2xf32>",
            np.ones(2, ">f4"),
            "each call would have to copy it; pass a contiguous and aligned array in "
            "native byte order",
        ),
        (
            "tensor<2xf32>",
            np.ones(9, np.uint8)[1:].view(np.float32),
            "each call would have to copy it; pass a contiguous and aligned array in "
            "native byte order",
        ),
        (
            I4,
            np.ones(2, np.int8),
            "each call would have to check its values against "
            "'tensor<2x!quant.uniform<i4:f32, 1.000000e+00>>'",
        ),
    ],
)
def test_what_each_call_must_look_at(type_: str, value: Any, reason: str):
    function = compile(
        f"func.func @f(%x: {type_}) -> {type_} {{ return %x : {type_} }}"
    )
    message = f"cannot bind argument 0: {reason}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        function.bind(value)
    # The numbers of a list are known.
    np.testing.assert_array_equal(function.bind(value.tolist())(), function(value))


def test_sizes_that_depend_on_values():
    function = compile(
        """
func.func @f(%n: index) -> tensor<?xf32> {
  %result = tensor.empty(%n) : tensor<?xf32>
  return %result : tensor<?xf32>
}
"""
    )
    with pytest.raises(
        ValueError,
        match=r"^cannot bind 'f': result sizes may depend on more than the argument "
        "shapes$",
    ):
        function.bind(np.array(2, np.int64))


def test_failure_in_a_call():
    call = (
        function := compile(
            """
func.func @f(%x: i32, %y: i32) -> i32 {
  %result = arith.divsi %x, %y : i32
  return %result : i32
}
"""
        )
    ).bind(np.array(6, np.int32), y := np.array(0, np.int32))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^'f': division by zero$"):
            call()
    y[...] = 2
    assert call() == 3
    assert function(8, 2) == 4


def test_exception_of_a_function_of_python():
    def see(x: Any) -> None:
        raise KeyError(float(x[0]))

    call = compile(
        """
func.func private @see(tensor<1xf32>)
func.func @f(%x: tensor<1xf32>) {
  func.call @see(%x) : (tensor<1xf32>) -> ()
  return
}
""",
        host_functions={"see": see},
    ).bind(x := np.ones(1, np.float32))
    for x[0] in (1, 2):
        with pytest.raises(KeyError, match=f"^{x[0]}$"):
            call()
