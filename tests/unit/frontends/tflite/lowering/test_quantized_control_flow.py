"""Loops and conditions of files whose values are quantized, compared with LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import (
    Model,
    Operator,
    Subgraph,
    Tensor,
    TensorQuantization,
)
from xdsl_quant.frontends.tflite.files.reader import default_options
from xdsl_quant.frontends.tflite.files.schema import options_name
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import run_function

X = np.array([[-60, -40, -20], [0, 20, 40]], np.int8)


def scale(value: float, zero_point: int = 0) -> TensorQuantization:
    return TensorQuantization(np.array([value], "f4"), np.array([zero_point], "i8"))


def constant(name: str, type_: str, values: NDArray[Any], *scales: Any) -> Tensor:
    data = np.atleast_1d(values).view(np.uint8)
    return Tensor(name, type_, values.shape, None, data, *scales)


def state(name: str) -> Tensor:
    return Tensor(name, "INT8", [2, 3], quantization=scale(0.05, -3))


def number(name: str) -> Tensor:
    return Tensor(name, "INT32", [])


def step() -> Tensor:
    return constant("step", "INT8", np.array([10, -20, 30], np.int8), scale(0.02))


def op(code: str, inputs: list[int], outputs: list[int], **options: int) -> Operator:
    table = options_name(code)
    values = {**default_options(table), **options} if table else {}
    return Operator(code, inputs, outputs, values)


def loop() -> bytes:
    """Add to the state as often as the first argument says."""
    indices = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    main = [number("n"), state("x"), number("rest"), state("y")]
    zero = constant("zero", "INT32", np.array(0, np.int32))
    one = constant("one", "INT32", np.array(1, np.int32))
    condition = [number("n"), state("x"), zero, Tensor("is_more", "BOOL", [])]
    body = [number("n"), state("x"), one, number("less"), step(), state("sum")]
    return write_model(
        Model(
            [
                Subgraph(
                    "main", main, [0, 1], [3], [op("WHILE", [0, 1], [2, 3], **indices)]
                ),
                Subgraph(
                    "condition", condition, [0, 1], [3], [op("GREATER", [0, 2], [3])]
                ),
                Subgraph(
                    "body",
                    body,
                    [0, 1],
                    [3, 5],
                    [op("SUB", [0, 2], [3]), op("ADD", [1, 4], [5])],
                ),
            ]
        )
    )


def branch(name: str, code: str) -> Subgraph:
    tensors = [state("x"), step(), state("y")]
    return Subgraph(name, tensors, [0], [2], [op(code, [0, 1], [2])])


def condition() -> bytes:
    """Add to the argument, or subtract from it."""
    indices = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    main = [Tensor("is_sum", "BOOL", []), state("x"), state("y")]
    operator = op("IF", [0, 1], [2], **indices)
    branches = branch("then", "ADD"), branch("else", "SUB")
    return write_model(
        Model([Subgraph("main", main, [0, 1], [2], [operator]), *branches])
    )


@pytest.mark.parametrize(
    ("file", "argument"),
    [
        (loop(), np.int32(4)),
        (loop(), np.int32(0)),
        (condition(), np.bool_(True)),
        (condition(), np.bool_(False)),
    ],
    ids=["loop", "no_iteration", "then", "else"],
)
def test_stored_values(file: bytes, argument: np.generic):
    (expected,) = LiteRT(file).run(np.asarray(argument), X)
    module = read_tflite(file)
    assert write_tflite(module) == file
    np.testing.assert_array_equal(
        run_function(module, "main", argument, X)[0], expected
    )
    np.testing.assert_array_equal(compile(module, "main")(argument, X), expected)
