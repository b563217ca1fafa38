"""State from one call to the next, whatever runs the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType

from xdsl_quant.runtime.loading import IRError
from xdsl_quant.runtime.stateful_function import Runner, StatefulFunction

INITIAL = "tfl.initial_value = dense<{}> : tensor<2xi8>, tfl.next_state = {} : i32"


def text_of(*, inputs: int = 1, results: int = 1, name: str = "main") -> str:
    """A function with two states in front, whose next states are swapped."""
    types = ["tensor<2xi8>"] * inputs
    states = [
        f"tensor<2x!quant.uniform<{storage}8:f32, 0.5>> {{{INITIAL.format(value, index)}}}"
        for storage, value, index in (("u", "[200, 3]", 1), ("i", "[-1, 5]", 0))
    ]
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate([*states, *types]))
    returned = ["i", "u"]
    outputs = [f"tensor<2x!quant.uniform<{s}8:f32, 0.5>>" for s in returned]
    outputs += ["tensor<2xi8>"] * results
    values = ["%a1", "%a0", *["%a2"] * results]
    return f"""
func.func @{name}({arguments}) -> ({", ".join(outputs)}) {{
  return {", ".join(values)} : {", ".join(outputs)}
}}"""


def running(function: Callable[..., Any]) -> Runner:
    def runner(module: ModuleOp, name: str) -> Callable[..., Any]:
        assert name == "main"
        assert isinstance(module, ModuleOp)
        return function

    return runner


def lists(arrays: Any) -> list[Any]:
    return [array.tolist() for array in arrays]


def test_states_and_other_arguments():
    """Results that are states, in any order, are the next values of arguments."""
    seen: list[Any] = []

    def function(*arguments: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        seen.append([(a.dtype.name, a.tolist()) for a in arguments])
        u, i, x = arguments
        return i + 1, u + 2, x

    model = StatefulFunction(text_of(), running(function))
    for x in (7, 8):
        (result,) = model.step(np.array([x, x], np.int8))
        assert result.tolist() == [x, x]
    assert seen == [
        [("uint8", [200, 3]), ("int8", [-1, 5]), ("int8", [7, 7])],
        [("uint8", [202, 5]), ("int8", [0, 6]), ("int8", [8, 8])],
    ]
    assert lists(model.state) == [[204, 7], [1, 7]]
    model.state = [np.array([9, 9], np.uint8), model.state[1]]
    model.step(np.zeros(2, np.int8))
    assert seen[-1][0] == ("uint8", [9, 9])
    model.reset()
    assert lists(model.state) == [[200, 3], [-1, 5]]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_numbers_of_results(count: int):
    """Compiled functions return one array as it is, and nothing as `None`."""
    results = tuple(np.full(2, i, np.int8) for i in range(count))
    returned = {0: None, 1: results[0] if results else None}.get(count, results)
    arguments = ", ".join(["tensor<2xi8>"] * count)
    body = "".join(
        f"%{i} = arith.constant dense<0> : tensor<2xi8>\n" for i in range(count)
    )
    values = ", ".join(f"%{i}" for i in range(count))
    text = f"func.func @main() -> ({arguments}) {{\n{body}return {values}"
    text += f" : {arguments}\n}}" if count else "\n}"
    model = StatefulFunction(text, running(lambda: returned))
    assert lists(model.step()) == lists(results)
    assert not model.state


def test_nobody_else_has_the_state():
    shared = np.array([1, 2], np.uint8)

    def function(_u: Any, _i: Any, x: NDArray[Any]) -> Any:
        return x, shared, shared.view(np.int8)

    model = StatefulFunction(text_of(), running(function))
    argument = np.array([3, 4], np.int8)
    (result,) = model.step(argument)
    result[:] = argument[:] = 0
    assert lists(model.state) == [[1, 2], [3, 4]]


def test_a_call_that_fails_keeps_the_state():
    def function(u: NDArray[Any], i: NDArray[Any], x: NDArray[Any]) -> Any:
        if x[0] < 0:
            raise RuntimeError("no")
        return i, u + 1, x

    model = StatefulFunction(text_of(), running(function))
    model.step(np.array([1, 1], np.int8))
    before = lists(model.state)
    with pytest.raises(RuntimeError, match="no"):
        model.step(np.array([-1, 1], np.int8))
    with pytest.raises(
        TypeError, match=r"^function 'main' takes 1 argument, but got 2$"
    ):
        model.step(1, 2)
    assert lists(model.state) == before
    model.state = []
    message = "function 'main' has 2 state arguments, but the state has 0 arrays"
    with pytest.raises(ValueError, match=f"^{message}$"):
        model.step(np.array([1, 1], np.int8))


def test_names_and_texts():
    text = text_of(name="other") + text_of()
    module = StatefulFunction(text, running(print), "main").module
    assert len(module.ops) == 2
    with pytest.raises(ValueError, match=r"^unknown function 'none'; available: "):
        StatefulFunction(text, running(print), "none")
    with pytest.raises(IRError):
        StatefulFunction("func.func @f(", running(print))
    with pytest.raises(
        IRError, match=r"^no\.tflite: error: no such file or directory$"
    ):
        StatefulFunction("no.tflite", running(print))


def test_sizes_of_a_file():
    """They are taken, as not every runner runs functions without them."""
    model = StatefulFunction("docs/examples/dense.tflite", running(print))
    (argument,) = model.function.function_type.inputs
    assert isinstance(argument, TensorType)
    assert argument.get_shape() == (1, 4)
