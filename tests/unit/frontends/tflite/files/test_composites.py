"""Composite ops: calls of the subgraph that decomposes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import parse_module

from .litert import LiteRT
from .test_blockwise import unpacked
from .test_modules import graph, op, tensor

OPTIONS = {
    "name": "odml.mine",
    "decomposition_subgraph_index": 1,
    "composite_attributes": b"\x01\xff\x00a",
    "version": 3,
}


def model() -> Model:
    """A square of a composite op, `relu(x) + relu(x)`."""
    x, y, z = (tensor(name, "FLOAT32", 3) for name in "xyz")
    operators = [
        Operator("STABLEHLO_COMPOSITE", [0], [1], OPTIONS),
        op("MUL", [1, 1], [2]),
    ]
    inner = [op("RELU", [0], [1]), op("ADD", [1, 1], [2])]
    return Model(
        [
            graph([x, y, z], [0], [2], *operators),
            graph([x, y, z], [0], [2], *inner, name="decomposition"),
        ]
    )


X = np.array([1, -2, 3], np.float32)


def test_calls():
    file = write_model(model())
    module = read_tflite(file)
    text = str(module)
    assert "call @decomposition(%x)" in text
    assert 'name = "odml.mine", version = 3 : i32' in text
    expected = [4, 0, 36]
    assert LiteRT(file).run(X)[0].tolist() == expected
    assert np.asarray(run_function(module, "main", X)[0]).tolist() == expected
    assert np.asarray(compile(module, "main")(X)).tolist() == expected


def nested_model() -> Model:
    """A composite op in a composite op, for any batch size."""
    x, y, z = (tensor(name, "FLOAT32", 1, 4, signature=[-1, 4]) for name in "xyz")
    weights = np.arange(16, dtype=np.float32).reshape(4, 4) - 6
    w = tensor("w", "FLOAT32", 4, 4, data=weights.ravel().view(np.uint8))
    composites = [
        Operator(
            "STABLEHLO_COMPOSITE",
            [0],
            [1],
            {**OPTIONS, "decomposition_subgraph_index": index},
        )
        for index in (1, 2)
    ]
    product = op("FULLY_CONNECTED", [0, 3, -1], [1])
    return Model(
        [
            graph([x, y, z], [0], [2], composites[0], op("ADD", [0, 1], [2])),
            graph([x, y, z], [0], [2], composites[1], op("RELU", [1], [2]), name="a"),
            graph([x, y, z, w], [0], [2], product, op("NEG", [1], [2]), name="b"),
        ]
    )


@pytest.mark.parametrize("static", [False, True])
def test_nested_calls(static: bool):
    file = write_model(nested_model())
    x = np.array([[1, -2, 3, 5]], np.float32)
    expected = LiteRT(file).run(x)[0]
    module = read_tflite(file, static=static)
    assert ("?" in str(module)) != static
    for result in (
        run_function(module, "main", x)[0],
        compile(module)(x),
        *LiteRT(write_tflite(module)).run(x),
    ):
        np.testing.assert_array_equal(np.asarray(result), expected)


@pytest.mark.parametrize(("recipe", "batch"), [("int8", 3), ("dynamic-range", 1)])
def test_nested_calls_quantized(recipe: str, batch: int):
    module = read_tflite(write_model(nested_model()))
    rows = np.linspace(-1, 1, 4 * batch, dtype=np.float32).reshape(batch, 4)
    model = quantize(module, [rows, -rows], recipe)
    (expected,) = run_function(module, "main", rows)
    (result,) = run_function(model.module, "main", rows)
    assert "quant.uniform" in str(model.module)
    assert np.abs(result - expected).max() < 0.1 * np.abs(expected).max()


def test_options_are_written():
    module = read_tflite(write_model(model()))
    for source in (module, parse_module(str(module), "m.mlir")):
        written = write_tflite(source)
        operator = unpacked(written).subgraphs[0].operators[0]
        options = operator.builtinOptions2
        assert operator.builtinOptions2Type == 21
        assert (options.name, options.version) == (b"odml.mine", 3)
        assert options.decompositionSubgraphIndex == 1
        assert bytes(options.compositeAttributes) == b"\x01\xff\x00a"
        read = read_tflite_model(written, "").subgraphs[0].operators[0]
        assert bytes(read.options["composite_attributes"]) == b"\x01\xff\x00a"  # pyright: ignore[reportArgumentType] an option of any type
        assert LiteRT(written).run(X)[0].tolist() == [4, 0, 36]


def changed(**options: object) -> Subgraph:
    main = model().subgraphs[0]
    composite = replace(main.operators[0], options={**OPTIONS, **options})
    return replace(main, operators=[composite, main.operators[1]])


def test_unknown_decompositions():
    main = changed(decomposition_subgraph_index=2)
    with pytest.raises(TFLiteFileError) as e:
        read_tflite(write_model(Model([main, model().subgraphs[1]])))
    assert str(e.value) == (
        "<bytes>: error: operator 0 (STABLEHLO_COMPOSITE) has subgraph index 2; expected a "
        "value in [0, 2)"
    )


def test_decompositions_of_other_types():
    x = tensor("x", "FLOAT32", 2)
    other = graph([x], [0], [0], name="decomposition")
    with pytest.raises(TFLiteFileError) as e:
        read_tflite(write_model(Model([model().subgraphs[0], other])))
    assert str(e.value) == (
        "<bytes>: error: operator 0 (STABLEHLO_COMPOSITE) calls 'decomposition', whose "
        "inputs or outputs have other types than its own"
    )
