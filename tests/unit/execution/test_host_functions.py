"""Functions of Python that compiled code and the interpreter call."""

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakSet

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant import execution
from xdsl_quant.execution import (
    CompilationError,
    compile,
    compiled_function,
    runtime_library,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

Array = NDArray[Any]
Run = Callable[..., Any]
"""Runs a text with host functions on arguments."""


def compiled(text: str, host: Mapping[str, Any], *arguments: Any) -> Any:
    return compile(text, "f", host_functions=host)(*arguments)


def interpreted(text: str, host: Mapping[str, Any], *arguments: Any) -> Any:
    results = run_function(text, "f", *arguments, host_functions=host)
    return results[0] if len(results) == 1 else results or None


both = pytest.mark.parametrize("run", [compiled, interpreted])

ADD = """
func.func private @see(tensor<?xf32>, tensor<?xf32>)
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.addf %x, %x : tensor<?xf32>
  func.call @see(%x, %y) : (tensor<?xf32>, tensor<?xf32>) -> ()
  %z = arith.addf %y, %x : tensor<?xf32>
  return %z : tensor<?xf32>
}
"""


def keeping(seen: list[Array]) -> Callable[[Array], None]:
    return lambda value: seen.append(value.copy())


def numbers(size: int) -> Array:
    return np.arange(size, dtype=np.float32)


@both
@pytest.mark.parametrize("size", [0, 1, 5])
def test_each_call_once(run: Run, size: int):
    """That sizes of results are found out first, nobody sees."""
    seen: list[tuple[Array, ...]] = []

    def see(*arrays: Array) -> None:
        assert not any(array.flags.writeable for array in arrays)
        seen.append(tuple(array.copy() for array in arrays))

    x = numbers(size)
    np.testing.assert_array_equal(run(ADD, {"see": see}, x), 3 * x)
    ((first, second),) = seen
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, 2 * x)


def test_memory_of_an_argument_is_not_copied():
    x = numbers(4)
    shared: list[bool] = []

    def see(first: Array, second: Array) -> None:
        shared.append(np.shares_memory(first, x))

    compiled(ADD, {"see": see}, x)
    assert shared == [True]


@both
@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("tensor<f64>", np.array(0.1)),
        ("tensor<2x0x3xf32>", np.zeros((2, 0, 3), np.float32)),
        ("tensor<2x3xf16>", np.arange(6, dtype=np.float16).reshape(2, 3)),
        ("tensor<1x2xbf16>", np.array([[1, -2]], ml_dtypes.bfloat16)),
        ("tensor<3xf8E4M3FN>", np.array([1, -2, 448], ml_dtypes.float8_e4m3fn)),
        ("tensor<?xi8>", np.array([-128, 127], np.int8)),
        ("tensor<2xi64>", np.array([-(2**63), 2**63 - 1])),
        ("tensor<2x!quant.uniform<u8:f32, 0.5>>", np.array([0, 255], np.uint8)),
    ],
)
def test_types(run: Run, type_: str, array: Array):
    text = f"""
func.func private @see({type_})
func.func @f(%x: {type_}) {{
  func.call @see(%x) : ({type_}) -> ()
  return
}}
"""
    seen: list[Array] = []
    run(text, {"see": keeping(seen)}, array)
    assert seen[0].dtype == array.dtype
    assert seen[0].shape == array.shape
    np.testing.assert_array_equal(seen[0], array)


@both
def test_part_of_a_tensor(run: Run):
    text = """
func.func private @see(tensor<2x2xf32>)
func.func @f(%x: tensor<4x4xf32>) {
  %s = tensor.extract_slice %x[1, 0] [2, 2] [1, 2] : tensor<4x4xf32> to tensor<2x2xf32>
  func.call @see(%s) : (tensor<2x2xf32>) -> ()
  return
}
"""
    x = numbers(16).reshape(4, 4)
    seen: list[Array] = []
    run(text, {"see": keeping(seen)}, x)
    np.testing.assert_array_equal(seen[0], x[1:3, ::2])


TWICE = """
func.func private @see(tensor<1xf32>)
func.func @f(%x: tensor<1xf32>) -> tensor<1xf32> {
  func.call @see(%x) : (tensor<1xf32>) -> ()
  func.call @see(%x) : (tensor<1xf32>) -> ()
  return %x : tensor<1xf32>
}
"""


@both
@pytest.mark.parametrize("type_", [ValueError, RuntimeError, ZeroDivisionError])
def test_exceptions(
    run: Run, type_: type[Exception], capfd: pytest.CaptureFixture[str]
):
    """It is the same object, and after it there are no more calls."""
    error = type_("no")
    calls: list[Array] = []

    def see(value: Array) -> None:
        calls.append(value)
        raise error

    with pytest.raises(type_) as info:
        run(TWICE, {"see": see}, numbers(1))
    assert info.value is error
    assert len(calls) == 1
    assert capfd.readouterr().err == ""


def test_interruption_of_compiled_code():
    def see(value: Array) -> None:
        raise KeyboardInterrupt

    function = compile(TWICE, host_functions={"see": see})
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            function(numbers(1))


def test_interruption_after_a_failure(monkeypatch: pytest.MonkeyPatch):
    """What was wrong in the interrupted call is not what is wrong in the next one."""
    function = compile(
        """
func.func @f(%c: i1) {
  cf.assert %c, "wrong"
  return
}
"""
    )
    kernel = function._kernel  # pyright: ignore[reportPrivateUsage] to be interrupted

    def interrupted(address: int) -> None:
        kernel(address)
        raise KeyboardInterrupt

    monkeypatch.setattr(function, "_kernel", interrupted)
    with pytest.raises(KeyboardInterrupt):
        function(False)
    monkeypatch.undo()
    assert function(True) is None


def test_interruption_before_the_first_line_of_a_function(
    monkeypatch: pytest.MonkeyPatch,
):
    """ctypes tells `sys.unraisablehook` of it, and goes on."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    callbacks = WeakSet[Any]()
    monkeypatch.setattr(runtime_library, "_callbacks_of_users", callbacks)
    interruption = KeyboardInterrupt()

    def interrupted(x: Array) -> None:
        (callback,) = callbacks
        objects: tuple[object, ...] = (callback, print, [])
        for hooked in objects:
            arguments = SimpleNamespace(exc_value=interruption, object=hooked)
            sys.unraisablehook(cast("Any", arguments))

    function = compile(
        "func.func private @see(tensor<2xf32>)\n"
        "func.func @f(%x: tensor<2xf32>) {\n"
        "  func.call @see(%x) : (tensor<2xf32>) -> ()\n"
        "  return\n}",
        host_functions={"see": interrupted},
    )
    with pytest.raises(KeyboardInterrupt) as raised:
        function([1, 2])
    assert raised.value is interruption
    assert [getattr(other, "object", None) for other in told] == [print, []]


def test_first_failure_of_compiled_code():
    text = """
func.func private @see(tensor<?xf32>)
func.func @f(%x: tensor<?xf32>, %c: i1) -> tensor<?xf32> {
  func.call @see(%x) : (tensor<?xf32>) -> ()
  cf.assert %c, "later"
  return %x : tensor<?xf32>
}
"""

    def see(value: Array) -> None:
        raise ValueError("first")

    function = compile(text, host_functions={"see": see})
    with pytest.raises(ValueError, match=r"^first$"):
        function(numbers(1), True)
    # Where sizes are found out, no function is called, but what is asserted holds.
    with pytest.raises(ValueError, match=r"^'f': later$"):
        function(numbers(1), False)


def test_compiled_code_in_a_host_function():
    inner = compile("func.func @g(%x: f32) -> f32 { return %x : f32 }")
    results: list[float] = []

    def see(value: Array) -> None:
        results.append(float(inner(value[0] + 1)))
        with pytest.raises(TypeError):
            inner()

    run = compile(TWICE, host_functions={"see": see})
    np.testing.assert_array_equal(run(numbers(1)), [0])
    assert results == [1, 1]


def test_streamed_results(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled_function, "STREAMED_BYTES", 1)
    text = """
func.func private @see(tensor<?xf32>)
func.func @f(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %y = arith.addf %x, %x : tensor<?xf32>
  func.call @see(%y) : (tensor<?xf32>) -> ()
  %z = arith.addf %y, %x : tensor<?xf32>
  return %y, %z : tensor<?xf32>, tensor<?xf32>
}
"""
    seen: list[Array] = []
    function = compile(text, host_functions={"see": keeping(seen)})
    x = numbers(1000)
    for result, factor in zip(function(x), (2, 3), strict=True):
        np.testing.assert_array_equal(result, factor * x)
    np.testing.assert_array_equal(seen, [2 * x])


def test_nothing_is_kept():
    seen: list[str] = []
    for name in "ab":

        def see(value: Array, name: str = name) -> None:
            seen.append(name)

        function = compile(TWICE, host_functions={"see": see})
        function(numbers(1))
    assert seen == ["a", "a", "b", "b"]


@both
@pytest.mark.parametrize(
    ("declaration", "name", "message"),
    [
        ("", "see", "unknown host function 'see'; declare it in the module"),
        ("", "f", "function 'f' has a body; a host function must be a declaration"),
        (
            "func.func private @see(tensor<f32>) -> tensor<f32>",
            "see",
            "function 'see' has results; a host function has none",
        ),
        (
            "func.func private @see(f32)",
            "see",
            "function 'see' has arguments other than ranked tensors; a host function "
            "takes only these",
        ),
    ],
)
def test_what_python_cannot_define(run: Run, declaration: str, name: str, message: str):
    text = f"{declaration}\nfunc.func @f() {{ return }}"
    with pytest.raises(ValueError, match=f"^{message}$"):
        run(text, {name: print})


@pytest.mark.parametrize("type_", ["i1", "i4", "index"])
def test_elements_that_are_narrower_than_in_memory(type_: str):
    text = TWICE.replace("f32", type_)
    message = (
        rf"^argument 0 of 'see' has type 'tensor<1x{type_}>'; expected a tensor of floats "
        "or of 8, 16, 32 or 64-bit integers$"
    )
    with pytest.raises(CompilationError, match=message):
        compile(text, host_functions={"see": print})


def test_other_functions_without_a_body():
    module = parse_module(TWICE)
    with pytest.raises(execution.CompilationError, match="function 'see' has no body"):
        compile(module)
