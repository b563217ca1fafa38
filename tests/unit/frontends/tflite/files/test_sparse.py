"""Sparse constants, compared with LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import (
    Model,
    Operator,
    Subgraph,
    Tensor,
    TensorQuantization,
    TFLiteFileError,
)
from xdsl_quant.frontends.tflite.files.reader import (
    default_options,
    read_tflite_model,
)
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import run_function

from .litert import LiteRT
from .sparse_files import sparse, with_sparse_constant

Array = NDArray[Any]

TYPES = {"float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8"}

FORMS: list[tuple[tuple[int, ...], str, dict[int, int]]] = [
    ((0, 1), "ds", {}),
    ((1, 0), "ds", {}),
    ((0, 1), "ss", {}),
    ((0, 1), "dd", {}),
    ((0, 1, 2), "dsd", {1: 4}),
    ((1, 0, 2), "dsd", {0: 2}),
    ((0, 1, 2, 3), "dsdd", {0: 2, 1: 4}),
    ((0, 1, 3, 2), "dsdd", {0: 2, 1: 4}),
]


def weights_of(dtype: str, block: tuple[int, int] = (2, 4)) -> Array:
    """Two of three blocks are 0."""
    random = np.random.default_rng(0)
    array = random.integers(-100, 100, (8, 16)).astype(dtype)
    is_kept = random.random((8 // block[0], 16 // block[1])) < 1 / 3
    return array * np.kron(is_kept, np.ones(block)).astype(dtype)


def densify(weights: Array) -> bytes:
    """A file that returns its constant through `DENSIFY`."""
    type_ = TYPES[weights.dtype.name]
    quantization = None
    if type_ == "INT8":
        quantization = TensorQuantization(np.array([0.5], np.float32), np.array([0]))
    tensors = [
        Tensor(
            "w",
            type_,
            weights.shape,
            None,
            weights.ravel().view(np.uint8),
            quantization,
        ),
        Tensor("y", type_, weights.shape, quantization=quantization),
    ]
    graph = Subgraph("main", tensors, [], [1], [Operator("DENSIFY", [0], [1])])
    return write_model(Model([graph]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", TYPES)
def test_densify(dtype: str, form: tuple[Any, ...]):
    weights = weights_of(dtype)
    values, sparsity = sparse(weights, *form)
    assert (values.size < weights.size) == ("s" in form[1])
    file = with_sparse_constant(densify(weights), "w", values, sparsity)
    (expected,) = LiteRT(file).run()
    np.testing.assert_array_equal(expected, weights, strict=True)
    module = read_tflite(file)
    assert "densify" not in str(module)
    np.testing.assert_array_equal(run_function(module, "main")[0], weights, strict=True)


@pytest.mark.parametrize("vector", ["Uint8Vector", "Uint16Vector", "Int32Vector"])
def test_index_types(vector: str):
    weights = weights_of("float32")
    values, sparsity = sparse(weights, *FORMS[0], vector)
    file = with_sparse_constant(densify(weights), "w", values, sparsity)
    np.testing.assert_array_equal(run_function(read_tflite(file), "main")[0], weights)


def fully_connected(weights: Array) -> bytes:
    options = default_options("FullyConnectedOptions")
    tensors = [
        Tensor("x", "FLOAT32", [3, 16]),
        Tensor("w", "FLOAT32", [8, 16], None, weights.ravel().view(np.uint8)),
        Tensor("y", "FLOAT32", [3, 8]),
    ]
    operator = Operator("FULLY_CONNECTED", [0, 1, -1], [2], options)
    return write_model(Model([Subgraph("main", tensors, [0], [2], [operator])]))


@pytest.mark.parametrize("form", [FORMS[0], FORMS[4]])
def test_fully_connected(form: tuple[Any, ...]):
    """Sums of small integers are exact in any order."""
    weights = weights_of("float32", (1, 4))
    values, sparsity = sparse(weights, *form)
    file = with_sparse_constant(fully_connected(weights), "w", values, sparsity)
    x = np.random.default_rng(1).integers(-9, 9, (3, 16)).astype(np.float32)
    module = read_tflite(file)
    expected = x @ weights.T
    for result in (
        run_function(module, None, x)[0],
        compile(module)(x),
        *LiteRT(write_tflite(module)).run(x),
        *LiteRT(file, is_reference=False).run(x),
    ):
        np.testing.assert_array_equal(np.asarray(result), expected)


# Damage


def error_of(change: str, value: Any) -> str:
    """The error of a file with one field of the table changed."""
    weights = weights_of("float32")
    values, sparsity = sparse(weights, *FORMS[4])
    owner: Any = sparsity
    *path, name = change.split(".")
    for part in path:
        owner = owner[int(part)] if part.isdecimal() else getattr(owner, part)
    setattr(owner, name, value)
    file = with_sparse_constant(densify(weights), "w", values, sparsity)
    with pytest.raises(TFLiteFileError) as e:
        read_tflite_model(file, "f")
    return str(e.value).removeprefix("f: error: tensor 0 ('w') ")


ORDER = (
    "has {} sparse dimensions in the order {} with blocks along {}; expected each of 2 "
    "dimensions once"
)


@pytest.mark.parametrize(
    ("change", "value", "message"),
    [
        ("traversalOrder", [0, 0, 1], ORDER.format(3, [0, 0, 1], [1])),
        ("traversalOrder", [0, 1], ORDER.format(3, [0, 1], [1])),
        ("blockMap", [7], ORDER.format(3, [0, 1, 2], [7])),
        ("blockMap", None, ORDER.format(3, [0, 1, 2], [])),
        ("dimMetadata.0.denseSize", 7, "has a dense dimension of size 7; expected 8"),
        (
            "dimMetadata.2.denseSize",
            3,
            "has blocks of size 3 along a dimension of size 16; expected a divisor",
        ),
        (
            "dimMetadata.2.denseSize",
            0,
            "has blocks of size 0 along a dimension of size 16; expected a divisor",
        ),
        (
            "dimMetadata.1.arraySegments.values",
            np.arange(3, dtype=np.int32),
            "has a compressed dimension of 3 segment bounds and 6 indices; expected 9 "
            "ascending bounds, and indices in [0, 4)",
        ),
        (
            "dimMetadata.1.arrayIndices.values",
            np.full(10, 4, np.int32),
            "has a compressed dimension of 9 segment bounds and 10 indices; expected 9 "
            "ascending bounds, and indices in [0, 4)",
        ),
        (
            "dimMetadata.1.arrayIndices",
            None,
            "has a compressed dimension without 'ArrayIndices'",
        ),
    ],
)
def test_damage(change: str, value: Any, message: str):
    assert error_of(change, value) == message


def test_wrong_count():
    weights = weights_of("float32")
    values, sparsity = sparse(weights, *FORMS[4])
    file = with_sparse_constant(densify(weights), "w", values[:-1], sparsity)
    with pytest.raises(TFLiteFileError, match="has 92 bytes; expected 96 for the"):
        read_tflite_model(file, "f")


def test_elements_without_whole_bytes():
    weights = weights_of("float32")
    values, sparsity = sparse(weights, *FORMS[4])
    file = densify(weights)
    data = np.zeros(64, np.uint8)
    tensors = [
        Tensor("w", "INT4", [8, 16], data=data),
        Tensor("y", "INT4", [8, 16]),
    ]
    graph = Subgraph("main", tensors, [], [1], [Operator("DENSIFY", [0], [1])])
    file = with_sparse_constant(write_model(Model([graph])), "w", values, sparsity)
    with pytest.raises(
        TFLiteFileError, match="is a sparse tensor of type INT4; expected"
    ):
        read_tflite_model(file, "f")
