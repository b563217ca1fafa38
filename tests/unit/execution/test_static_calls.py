"""Calls with arrays that need no conversion: blocks of arguments are reused."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import CompiledFunction, compile
from xdsl_quant.execution.static_calls import StaticCalls

SUM = """
func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = arith.addf %a, %b : tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}"""

F32 = NDArray[np.float32]


@pytest.fixture(scope="module")
def add() -> CompiledFunction:
    return compile(SUM)


def static_calls(function: CompiledFunction) -> StaticCalls:
    calls = function._static_calls  # pyright: ignore[reportPrivateUsage] no public name
    assert calls is not None
    return calls


def array(start: int) -> F32:
    return np.arange(start, start + 6, dtype=np.float32).reshape(2, 3)


def read_only(values: F32) -> F32:
    values.flags.writeable = False
    return values


def unaligned(values: F32) -> F32:
    data = np.zeros(values.nbytes + 1, np.uint8)
    result = data[1:].view(np.float32).reshape(values.shape)
    result[...] = values
    assert not result.flags.aligned
    return result


def transposed(values: F32) -> F32:
    return np.asfortranarray(values)


def big_endian(values: F32) -> F32:
    return values.astype(">f4")


class Matrix(np.ndarray[tuple[int, ...], np.dtype[np.float32]]):
    pass


def of_subclass(values: F32) -> F32:
    return values.view(Matrix)


@pytest.mark.parametrize(
    ("change", "is_taken"),
    [
        (np.copy, True),
        (read_only, True),
        (unaligned, False),
        (transposed, False),
        (big_endian, False),
        (of_subclass, False),
        (np.ndarray.tolist, False),
    ],
)
def test_arguments(add: CompiledFunction, change: Callable[[F32], F32], is_taken: bool):
    arguments = array(1), change(array(10))
    assert (static_calls(add)(arguments) is not None) == is_taken
    for _ in range(2):
        assert add(*arguments).tolist() == [[11, 13, 15], [17, 19, 21]]


def test_results_are_new_arrays(add: CompiledFunction):
    first, second = add(array(0), array(0)), add(array(0), array(1))
    assert not np.may_share_memory(first, second)
    assert first.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_wrong_arguments(add: CompiledFunction):
    with pytest.raises(TypeError, match="2 arguments"):
        add(array(0))
    with pytest.raises(ValueError, match="argument 1"):
        add(array(0), array(0).T)
    with pytest.raises(TypeError, match="argument 0"):
        add(array(0).astype(np.float64), array(0))


def test_blocks_are_reused():
    function = compile(SUM)
    for _ in range(3):
        function(array(0), array(0))
    assert len(static_calls(function)._blocks) == 1  # pyright: ignore[reportPrivateUsage] no public name


def test_several_results_and_none():
    text = """
func.func @f(%a: tensor<0xf32>, %b: f32) -> (tensor<0xf32>, f32) {
  func.return %a, %b : tensor<0xf32>, f32
}"""
    empty, number = compile(text)(np.zeros(0, np.float32), np.float32(2))
    assert empty.shape == (0,)
    assert number == 2
    nothing = compile("func.func @f(%a: tensor<2xf32>) { func.return }")
    assert nothing(np.zeros(2, np.float32)) is None


def test_only_shapes_that_are_static():
    text = SUM.replace("2x3", "?x3")
    function = compile(text)
    assert function._static_calls is None  # pyright: ignore[reportPrivateUsage] no public name
    assert function(array(1), array(10)).tolist() == [[11, 13, 15], [17, 19, 21]]


def test_values_are_checked():
    function = compile(
        "func.func @f(%a: tensor<1xi4>) -> tensor<1xi4> { func.return %a : tensor<1xi4> }"
    )
    assert function._static_calls is None  # pyright: ignore[reportPrivateUsage] no public name
    with pytest.raises(ValueError, match="argument 0"):
        function(np.array([9], np.int8))


CALL = """
func.func private @host(%a: tensor<1xi32>)
func.func @f(%a: tensor<1xi32>) -> tensor<1xi32> {
  func.call @host(%a) : (tensor<1xi32>) -> ()
  func.return %a : tensor<1xi32>
}"""


def test_recursion():
    seen: list[int] = []

    def host(values: NDArray[np.int32]) -> None:
        if values[0] > 0:
            seen.append(function(values - 1)[0])

    function = compile(CALL, host_functions={"host": host})
    assert function(np.array([3], np.int32)).tolist() == [3]
    assert seen == [0, 1, 2]
    # Each level of the recursion has a block.
    assert len(static_calls(function)._blocks) == 4  # pyright: ignore[reportPrivateUsage] no public name


def test_failure():
    def host(values: NDArray[np.int32]) -> None:
        raise KeyError(int(values[0]))

    function = compile(CALL, host_functions={"host": host})
    for number in (1, 2):
        with pytest.raises(KeyError, match=str(number)):
            function(np.array([number], np.int32))
    assert len(static_calls(function)._blocks) == 1  # pyright: ignore[reportPrivateUsage] no public name


def test_threads():
    count = 4
    barrier = Barrier(count)

    def host(_: NDArray[np.int32]) -> None:
        # All calls are inside the code at the same time.
        barrier.wait(60)

    function = compile(CALL, host_functions={"host": host})
    with ThreadPoolExecutor(count) as pool:
        calls = [pool.submit(function, np.array([i], np.int32)) for i in range(count)]
        assert [call.result().tolist() for call in calls] == [[0], [1], [2], [3]]
    assert len(static_calls(function)._blocks) == count  # pyright: ignore[reportPrivateUsage] no public name
